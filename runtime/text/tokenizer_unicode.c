// UTF-8 reading and writing and character classes; see tokenizer_unicode.h. The classes follow
// the Unicode version of the reference library of each rule: the BERT rules were frozen long ago,
// so characters assigned later are listed here as exceptions.
#include "runtime/text/tokenizer_unicode.h"

#include <utf8proc.h>

struct range {
    uint32_t first, last;
};

// Marks assigned after the tables that the BERT normalizer uses.
static const struct range late_marks_nonspacing[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8e1},     {0x9fe, 0x9fe},
    {0xafa, 0xaff},     {0xb55, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},
    {0xd00, 0xd00},     {0xd3b, 0xd3c},     {0xd81, 0xd81},     {0xeba, 0xeba},
    {0xece, 0xece},     {0x180f, 0x180f},   {0x1885, 0x1886},   {0x1abf, 0x1ace},
    {0x1df6, 0x1dfb},   {0xa82c, 0xa82c},   {0xa8c5, 0xa8c5},   {0xa8ff, 0xa8ff},
    {0xa9bd, 0xa9bd},   {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074},
    {0x110c2, 0x110c2}, {0x111c9, 0x111c9}, {0x111cf, 0x111cf}, {0x1123e, 0x1123e},
    {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x11438, 0x11446}, {0x1145e, 0x1145e},
    {0x1182f, 0x1183a}, {0x1193b, 0x1193e}, {0x11943, 0x11943}, {0x119d4, 0x119e0},
    {0x11a01, 0x11a99}, {0x11c30, 0x11cb6}, {0x11d31, 0x11d97}, {0x11ef3, 0x11ef4},
    {0x11f00, 0x11f5a}, {0x13440, 0x13455}, {0x16f4f, 0x16f4f}, {0x16fe4, 0x16fe4},
    {0x1cf00, 0x1cf46}, {0x1e000, 0x1e02a}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136},
    {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e944, 0x1e94a},
};

// Marks assigned after the tables that the StripAccents normalizer uses.
static const struct range late_marks[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xafa, 0xaff},     {0xb55, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},
    {0xcf3, 0xcf3},     {0xd00, 0xd00},     {0xd3b, 0xd3c},     {0xd81, 0xd81},
    {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},   {0x180f, 0x180f},
    {0x1abf, 0x1ace},   {0x1cf7, 0x1cf7},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},
    {0xa8ff, 0xa8ff},   {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074},
    {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9}, {0x111ce, 0x111cf},
    {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x1182c, 0x1183a},
    {0x11930, 0x11943}, {0x119d1, 0x119e4}, {0x11a01, 0x11a99}, {0x11d31, 0x11d97},
    {0x11ef3, 0x11ef6}, {0x11f00, 0x11f5a}, {0x13440, 0x13455}, {0x16f4f, 0x16f4f},
    {0x16f7f, 0x16f87}, {0x16fe4, 0x16fe4}, {0x16ff0, 0x16ff1}, {0x1cf00, 0x1cf46},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef},
};

// Punctuation assigned after the tables that the punctuation pre-tokenizers use.
static const struct range late_punctuation[] = {
    {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},
    {0xc84, 0xc84},     {0x1b7d, 0x1b7e},   {0x2e43, 0x2e4f},   {0x2e52, 0x2e5d},
    {0x10ead, 0x10ead}, {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x1144b, 0x1144f},
    {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
    {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46},
    {0x11a9a, 0x11aa2}, {0x11b00, 0x11b09}, {0x11c41, 0x11c45}, {0x11c70, 0x11c71},
    {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff}, {0x12ff1, 0x12ff2},
    {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2}, {0x1e95e, 0x1e95f},
};

static bool in_ranges(const struct range *ranges, size_t count, uint32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && c >= ranges[low].first;
}

#define IN_RANGES(table, c) in_ranges(table, sizeof(table) / sizeof(table)[0], c)

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
    if (out == NULL)
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

static unsigned category(uint32_t c)
{
    return (unsigned)utf8proc_category((utf8proc_int32_t)c);
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
    return category(c) - UTF8PROC_CATEGORY_MN <= UTF8PROC_CATEGORY_ME - UTF8PROC_CATEGORY_MN
               ? !IN_RANGES(late_marks, c)
               : c == 0x1CF2 || c == 0x1CF3;
}

bool char_is_mark_nonspacing(uint32_t c)
{
    if (c < 0x300)
        return false;
    return category(c) == UTF8PROC_CATEGORY_MN ? !IN_RANGES(late_marks_nonspacing, c) : c == 0x1734;
}

bool char_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return c - '!' < 15 || c - ':' < 7 || c - '[' < 6 || c - '{' < 4;
    return category(c) - UTF8PROC_CATEGORY_PC <= UTF8PROC_CATEGORY_PO - UTF8PROC_CATEGORY_PC
               ? !IN_RANGES(late_punctuation, c)
               : c == 0x166D || c == 0x111C9;
}

bool char_is_control(uint32_t c)
{
    if (c < 0x80)
        return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    if (c - 0x890 <= 1 || c == 0x8E2 || c == 0x110CD || c - 0x13430 <= 0xF)
        return false;
    return category(c) - UTF8PROC_CATEGORY_CC <= UTF8PROC_CATEGORY_CO - UTF8PROC_CATEGORY_CC;
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
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
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
