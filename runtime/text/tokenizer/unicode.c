// SPDX-License-Identifier: Apache-2.0
// Character classes; see tokenizer/unicode.h. Categories are those of Unicode 16.0. Some rules of
// the reference library were frozen in older versions; unicode_tables.c lists the differences.
#include "runtime/text/tokenizer/unicode.h"

#include "runtime/text/tokenizer/unicode_tables.h"

#include <utf8proc.h>

// Returns the general category. utf8proc may know an older Unicode: the table contains the
// characters added since, and the one mark whose category changed.
static unsigned char_category(uint32_t c)
{
    unsigned known = (unsigned)utf8proc_category((utf8proc_int32_t)c);
    if (known != UTF8PROC_CATEGORY_CN && known != UTF8PROC_CATEGORY_MN)
        return known;
    const struct unicode_range *added = unicode_find(&unicode_added, c);
    return added ? added->value : known;
}

bool char_is_letter(uint32_t c)
{
    if (c < 0x80)
        return (c | 0x20) - 'a' < 26;
    return char_category(c) - UTF8PROC_CATEGORY_LU <= UTF8PROC_CATEGORY_LO - UTF8PROC_CATEGORY_LU;
}

bool char_is_number(uint32_t c)
{
    if (c < 0x80)
        return c - '0' < 10;
    return char_category(c) - UTF8PROC_CATEGORY_ND <= UTF8PROC_CATEGORY_NO - UTF8PROC_CATEGORY_ND;
}

bool char_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || c - '\t' < 5;
    return c == 0x85 || c == 0xA0 || c == 0x1680 || c - 0x2000 <= 0xA || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool char_is_word(uint32_t c)
{
    if (c < 0x80)
        return char_is_letter(c) || c - '0' < 10 || c == '_';
    unsigned k = char_category(c);
    return k - UTF8PROC_CATEGORY_LU <= UTF8PROC_CATEGORY_NL - UTF8PROC_CATEGORY_LU ||
           k == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D || c - 0x24B6 <= 0x33 ||
           c - 0x1F130 <= 0x19 || c - 0x1F150 <= 0x19 || c - 0x1F170 <= 0x19;
}

bool char_is_mark(uint32_t c)
{
    if (c < 0x300)
        return false;
    bool mark =
        char_category(c) - UTF8PROC_CATEGORY_MN <= UTF8PROC_CATEGORY_ME - UTF8PROC_CATEGORY_MN;
    return mark != (unicode_find(&unicode_marks_otherwise, c) != NULL);
}

bool char_is_mark_nonspacing(uint32_t c)
{
    if (c < 0x300)
        return false;
    bool mark = char_category(c) == UTF8PROC_CATEGORY_MN;
    return mark != (unicode_find(&unicode_nonspacing_otherwise, c) != NULL);
}

bool char_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return c - '!' < 15 || c - ':' < 7 || c - '[' < 6 || c - '{' < 4;
    bool mark =
        char_category(c) - UTF8PROC_CATEGORY_PC <= UTF8PROC_CATEGORY_PO - UTF8PROC_CATEGORY_PC;
    return mark != (unicode_find(&unicode_punctuation_otherwise, c) != NULL);
}

bool char_is_control(uint32_t c)
{
    if (c < 0x80)
        return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    bool control =
        char_category(c) - UTF8PROC_CATEGORY_CC <= UTF8PROC_CATEGORY_CO - UTF8PROC_CATEGORY_CC;
    return control != (unicode_find(&unicode_control_otherwise, c) != NULL);
}

bool char_is_inert(uint32_t c)
{
    return c >= unicode_inert.ranges[0].first && unicode_find(&unicode_inert, c);
}

int32_t char_script(uint32_t c)
{
    const struct unicode_range *run = unicode_find(&unicode_script_runs, c);
    return run ? (int32_t)run->value : -1;
}

bool char_is_cjk(uint32_t c)
{
    if (c < 0x3400)
        return false;
    return c - 0x4E00 <= 0x51FF || c - 0x3400 <= 0x19BF || c - 0x20000 <= 0xA6DF ||
           c - 0x2A700 <= 0x111F || c - 0x2B920 <= 0x158F || c - 0xF900 <= 0x1FF ||
           c - 0x2F800 <= 0x21F;
}

int char_lower(uint32_t c, uint32_t out[2])
{
    if (c < 0x80) {
        out[0] = c - 'A' < 26 ? c + 32 : c;
        return 1;
    }
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    const struct unicode_range *added = c >= 0x1C89 ? unicode_find(&unicode_added_lower, c) : NULL;
    out[0] = added ? (c & ~0xFFFFu) | ((c + added->value) & 0xFFFF)
                   : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

uint32_t byte_char(unsigned char byte)
{
    if (byte >= '!' && byte <= '~')
        return byte;
    if (byte >= 0xA1 && byte != 0xAD)
        return byte;
    // The other bytes are numbered from 256 in ascending order.
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x121u + byte - 0x7Fu;
}

int char_byte(uint32_t c)
{
    if ((c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xFF && c != 0xAD))
        return (int)c;
    if (c < 0x100 || c > 0x143)
        return -1;
    if (c <= 0x120)
        return (int)(c - 0x100);
    return c == 0x143 ? 0xAD : (int)(c - 0x121 + 0x7F);
}
