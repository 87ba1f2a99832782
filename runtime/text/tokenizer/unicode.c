// UTF-8 reading and writing and character classes; see tokenizer/unicode.h. Categories are those of
// Unicode 16.0. Some rules of the reference library were frozen long ago: what they take otherwise
// stands in tables (unicode_tables.c).
#include "runtime/text/tokenizer/unicode.h"

#include "runtime/text/tokenizer/unicode_tables.h"

#include <utf8proc.h>

size_t utf8_write(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

// The range of the second byte depends on the first (no overlong forms, no surrogates).
static bool second_fits(unsigned char lead, unsigned char second)
{
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

static size_t length_wanted(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

size_t utf8_bad_length(const char *at, size_t bytes)
{
    const unsigned char *u = (const unsigned char *)at;
    size_t wanted = length_wanted(u[0]);
    size_t have = 1;
    while (have < wanted && have < bytes &&
           (have == 1 ? second_fits(u[0], u[1]) : (u[have] & 0xC0) == 0x80))
        have++;
    return have;
}

size_t utf8_valid(const char *at, size_t bytes)
{
    if (bytes == 0)
        return 0;
    size_t wanted = length_wanted((unsigned char)*at);
    if (wanted <= 1)
        return wanted;
    return utf8_bad_length(at, bytes) == wanted ? wanted : 0;
}

size_t utf8_valid_prefix(struct text text)
{
    size_t i = 0;
    while (i < text.bytes) {
        uint64_t eight;
        if (text.bytes - i >= 8) {
            memcpy(&eight, text.at + i, 8);
            if ((eight & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        size_t length = utf8_valid(text.at + i, text.bytes - i);
        if (length == 0)
            break;
        i += length;
    }
    return i;
}

struct text utf8_lossy(struct arena *arena, struct text text)
{
    size_t good = utf8_valid_prefix(text);
    if (good == text.bytes)
        return text;
    char *out = arena_take(arena, good + (text.bytes - good) * 3);
    if (!out)
        return (struct text){NULL, 0};
    memcpy(out, text.at, good);
    size_t n = good;
    for (size_t i = good; i < text.bytes;) {
        size_t length = utf8_valid(text.at + i, text.bytes - i);
        if (length > 0) {
            memcpy(out + n, text.at + i, length);
            n += length;
            i += length;
        } else {
            n += utf8_write(0xFFFD, out + n);
            i += utf8_bad_length(text.at + i, text.bytes - i);
        }
    }
    return text_span(out, n);
}

// utf8proc may know an older Unicode: what it takes as unassigned, and the one mark that changed.
static unsigned category(uint32_t c)
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
    return category(c) - UTF8PROC_CATEGORY_LU <= UTF8PROC_CATEGORY_LO - UTF8PROC_CATEGORY_LU;
}

bool char_is_number(uint32_t c)
{
    if (c < 0x80)
        return c - '0' < 10;
    return category(c) - UTF8PROC_CATEGORY_ND <= UTF8PROC_CATEGORY_NO - UTF8PROC_CATEGORY_ND;
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
    unsigned k = category(c);
    return k - UTF8PROC_CATEGORY_LU <= UTF8PROC_CATEGORY_NL - UTF8PROC_CATEGORY_LU ||
           k == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D || c - 0x24B6 <= 0x33 ||
           c - 0x1F130 <= 0x19 || c - 0x1F150 <= 0x19 || c - 0x1F170 <= 0x19;
}

bool char_is_mark(uint32_t c)
{
    if (c < 0x300)
        return false;
    bool mark = category(c) - UTF8PROC_CATEGORY_MN <= UTF8PROC_CATEGORY_ME - UTF8PROC_CATEGORY_MN;
    return mark != (unicode_find(&unicode_marks_otherwise, c) != NULL);
}

bool char_is_mark_nonspacing(uint32_t c)
{
    if (c < 0x300)
        return false;
    bool mark = category(c) == UTF8PROC_CATEGORY_MN;
    return mark != (unicode_find(&unicode_nonspacing_otherwise, c) != NULL);
}

bool char_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return c - '!' < 15 || c - ':' < 7 || c - '[' < 6 || c - '{' < 4;
    bool mark = category(c) - UTF8PROC_CATEGORY_PC <= UTF8PROC_CATEGORY_PO - UTF8PROC_CATEGORY_PC;
    return mark != (unicode_find(&unicode_punctuation_otherwise, c) != NULL);
}

bool char_is_control(uint32_t c)
{
    if (c < 0x80)
        return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    bool control =
        category(c) - UTF8PROC_CATEGORY_CC <= UTF8PROC_CATEGORY_CO - UTF8PROC_CATEGORY_CC;
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
    // The others are numbered from 256 in the order of the bytes.
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
