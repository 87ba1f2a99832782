// SPDX-License-Identifier: Apache-2.0
// Characters as in Python's str, based on utf8proc; see jinja/string.h.
#include "runtime/text/jinja/string.h"

#include <string.h>
#include <utf8proc.h>

size_t jinja_utf8_next(struct text text, size_t at, uint32_t *point)
{
    size_t bytes = utf8_length(text.at + at);
    if (bytes > text.bytes - at) {
        *point = 0xfffd;
        return text.bytes - at;
    }
    *point = utf8_read(text.at + at, &bytes);
    return bytes;
}

size_t jinja_utf8_count(struct text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.bytes; i++)
        count += ((unsigned char)text.at[i] & 0xc0u) != 0x80u;
    return count;
}

size_t jinja_utf8_offset(struct text text, size_t points)
{
    size_t at = 0;
    while (at < text.bytes && points > 0) {
        at++;
        while (at < text.bytes && ((unsigned char)text.at[at] & 0xc0u) == 0x80u)
            at++;
        points--;
    }
    return at;
}

static utf8proc_category_t category_of(uint32_t point)
{
    return utf8proc_category((utf8proc_int32_t)point);
}

bool jinja_char_is_space(uint32_t point)
{
    if (point < 0x80)
        return point == ' ' || (point >= 9 && point <= 13) || (point >= 0x1c && point <= 0x1f);
    return point == 0x85 || category_of(point) == UTF8PROC_CATEGORY_ZS || point == 0x2028 ||
           point == 0x2029;
}

bool jinja_char_is_line_end(uint32_t point)
{
    return (point >= 10 && point <= 13) || (point >= 0x1c && point <= 0x1e) || point == 0x85 ||
           point == 0x2028 || point == 0x2029;
}

bool jinja_char_is_printable(uint32_t point)
{
    if (point < 0x80)
        return point >= 0x20 && point != 0x7f;
    switch (category_of(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

bool jinja_char_is_alpha(uint32_t point)
{
    utf8proc_category_t category = category_of(point);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool jinja_char_is_decimal(uint32_t point)
{
    return category_of(point) == UTF8PROC_CATEGORY_ND;
}

int jinja_char_decimal(uint32_t point)
{
    uint32_t first = point;
    if (!jinja_char_is_decimal(point))
        return -1;
    while (jinja_char_is_decimal(first - 1))
        first--;
    // In every script the decimal digits are consecutive code points, from zero to nine.
    return (int)(point - first) % 10;
}

bool jinja_char_is_digit(uint32_t point)
{
    return jinja_char_is_decimal(point) || point == 0xb2 || point == 0xb3 || point == 0xb9 ||
           point == 0x2070 || (point >= 0x2074 && point <= 0x2079) ||
           (point >= 0x2080 && point <= 0x2089) || (point >= 0x2460 && point <= 0x2468);
}

bool jinja_char_is_numeric(uint32_t point)
{
    utf8proc_category_t category = category_of(point);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool jinja_char_is_upper(uint32_t point)
{
    return category_of(point) == UTF8PROC_CATEGORY_LU;
}

bool jinja_char_is_lower(uint32_t point)
{
    return category_of(point) == UTF8PROC_CATEGORY_LL || point == 0xaa || point == 0xba;
}

bool jinja_char_is_title(uint32_t point)
{
    return category_of(point) == UTF8PROC_CATEGORY_LT;
}

// Unicode's Case_Ignorable: characters that can occur within words but have no case.
bool jinja_char_is_case_ignorable(uint32_t point)
{
    static const uint16_t within[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                      0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                      0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (within[i] == point)
            return true;
    utf8proc_category_t category = category_of(point);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_SK;
}

// Letters whose upper case is several letters, sorted by code point. title is NULL if it equals
// `upper`. U+1F80 to U+1FAF are handled by iota_capital.
static const struct long_capital {
    uint32_t point;
    const char *upper;
    const char *title;
} long_capitals[] = {
    // clang-format off
    {0xdf, "SS", "Ss"}, {0x149, "ʼN", NULL}, {0x1f0, "J̌", NULL}, {0x390, "Ϊ́", NULL},
    {0x3b0, "Ϋ́", NULL}, {0x587, "ԵՒ", "Եւ"}, {0x1e96, "H̱", NULL}, {0x1e97, "T̈", NULL},
    {0x1e98, "W̊", NULL}, {0x1e99, "Y̊", NULL}, {0x1e9a, "Aʾ", NULL}, {0x1f50, "Υ̓", NULL},
    {0x1f52, "Υ̓̀", NULL}, {0x1f54, "Υ̓́", NULL}, {0x1f56, "Υ̓͂", NULL}, {0x1fb2, "ᾺΙ", "Ὰͅ"},
    {0x1fb3, "ΑΙ", "ᾼ"}, {0x1fb4, "ΆΙ", "Άͅ"}, {0x1fb6, "Α͂", NULL}, {0x1fb7, "Α͂Ι", "ᾼ͂"},
    {0x1fbc, "ΑΙ", "ᾼ"}, {0x1fc2, "ῊΙ", "Ὴͅ"}, {0x1fc3, "ΗΙ", "ῌ"}, {0x1fc4, "ΉΙ", "Ήͅ"},
    {0x1fc6, "Η͂", NULL}, {0x1fc7, "Η͂Ι", "ῌ͂"}, {0x1fcc, "ΗΙ", "ῌ"}, {0x1fd2, "Ϊ̀", NULL},
    {0x1fd3, "Ϊ́", NULL}, {0x1fd6, "Ι͂", NULL}, {0x1fd7, "Ϊ͂", NULL}, {0x1fe2, "Ϋ̀", NULL},
    {0x1fe3, "Ϋ́", NULL}, {0x1fe4, "Ρ̓", NULL}, {0x1fe6, "Υ͂", NULL}, {0x1fe7, "Ϋ͂", NULL},
    {0x1ff2, "ῺΙ", "Ὼͅ"}, {0x1ff3, "ΩΙ", "ῼ"}, {0x1ff4, "ΏΙ", "Ώͅ"}, {0x1ff6, "Ω͂", NULL},
    {0x1ff7, "Ω͂Ι", "ῼ͂"}, {0x1ffc, "ΩΙ", "ῼ"}, {0xfb00, "FF", "Ff"}, {0xfb01, "FI", "Fi"},
    {0xfb02, "FL", "Fl"}, {0xfb03, "FFI", "Ffi"}, {0xfb04, "FFL", "Ffl"}, {0xfb05, "ST", "St"},
    {0xfb06, "ST", "St"}, {0xfb13, "ՄՆ", "Մն"}, {0xfb14, "ՄԵ", "Մե"}, {0xfb15, "ՄԻ", "Մի"},
    {0xfb16, "ՎՆ", "Վն"}, {0xfb17, "ՄԽ", "Մխ"},
    // clang-format on
};

static const char *long_capital(uint32_t point, enum letter_case wanted)
{
    size_t from = 0;
    size_t to = sizeof long_capitals / sizeof *long_capitals;
    while (from < to) {
        size_t middle = (from + to) / 2;
        const struct long_capital *row = &long_capitals[middle];
        if (row->point == point)
            return wanted == CASE_TITLE && row->title ? row->title : row->upper;
        from = row->point < point ? middle + 1 : from;
        to = row->point < point ? to : middle;
    }
    return NULL;
}

// Writes alpha, eta or omega with breathing, and the iota below it as a separate capital.
static size_t iota_capital(uint32_t point, char *out)
{
    static const uint32_t without[] = {0x1f08, 0x1f28, 0x1f68};
    size_t bytes = utf8_write(without[(point - 0x1f80) / 16] + point % 8, out);
    return bytes + utf8_write(0x399, out + bytes);
}

size_t jinja_char_cased(uint32_t point, enum letter_case wanted, char *out)
{
    const char *several = wanted != CASE_LOWER ? long_capital(point, wanted)
                          : point == 0x130     ? "i\xcc\x87"
                                               : NULL;
    if (several) {
        size_t bytes = strlen(several);
        memcpy(out, several, bytes);
        return bytes;
    }
    if (wanted == CASE_UPPER && point >= 0x1f80 && point <= 0x1faf)
        return iota_capital(point, out);
    utf8proc_int32_t from = (utf8proc_int32_t)point;
    utf8proc_int32_t to = wanted == CASE_UPPER   ? utf8proc_toupper(from)
                          : wanted == CASE_LOWER ? utf8proc_tolower(from)
                                                 : utf8proc_totitle(from);
    return utf8_write((uint32_t)to, out);
}
