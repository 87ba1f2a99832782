// SPDX-License-Identifier: Apache-2.0
// Classes and escapes of regular expressions. See regex.h.
#include "base/utf8.h"
#include "runtime/grammar/ranges.h"
#include "runtime/text/grammar/regex_read.h"

#include <string.h>
#include <utf8proc.h>

enum { POINT_MAX = 0x10FFFF, PROPERTY_WORK = 1000 * 1000 };

bool regex_set_add(struct regex_parser *p, struct regex_set *set, uint32_t first, uint32_t last)
{
    void *at = arena_extend(p->arena, set->at, set->count, &set->capacity, sizeof *set->at);
    if (!at)
        return false;
    set->at = at;
    set->at[set->count++] = (struct grammar_range){first, last};
    return true;
}

bool regex_set_end(struct regex_parser *p, struct regex_set *set, bool invert)
{
    struct grammar_range *at = arena_alloc(p->arena, (2 * (size_t)set->count + 8) * sizeof *at);
    if (!at)
        return false;
    if (set->count > 0)
        memcpy(at, set->at, set->count * sizeof *at);
    uint32_t count = ranges_order(at, set->count);
    set->at = invert ? at + set->count + 2 : at;
    set->count = invert ? ranges_invert(at, count, set->at) : count;
    set->capacity = set->count;
    return true;
}

static enum status no_memory(struct regex_parser *p)
{
    return regex_refuse(p, STATUS_TOO_LARGE, p->at, "too many characters in its classes");
}

static const struct grammar_range DIGITS[] = {{'0', '9'}};
static const struct grammar_range WORDS[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct grammar_range SPACES[] = {
    {9, 13},          {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

static enum status add_ranges(struct regex_parser *p, struct regex_set *set,
                              const struct grammar_range *ranges, uint32_t count, bool invert)
{
    struct grammar_range inverted[16];
    if (invert) {
        count = ranges_invert(ranges, count, inverted);
        ranges = inverted;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!regex_set_add(p, set, ranges[i].first, ranges[i].last))
            return no_memory(p);
    return STATUS_OK;
}

// Returns a bitmap of the general categories with this name, by the numbers of utf8proc; 0:
// unknown.
static uint32_t categories_of(struct text name)
{
    static const struct {
        const char *name, *alias;
        uint32_t bits;
    } known[] = {
        {"L", "Letter", 0x3E},
        {"Lu", "Uppercase_Letter", 1 << 1},
        {"Ll", "Lowercase_Letter", 1 << 2},
        {"Lt", "Titlecase_Letter", 1 << 3},
        {"Lm", "Modifier_Letter", 1 << 4},
        {"Lo", "Other_Letter", 1 << 5},
        {"M", "Mark", 0x1C0},
        {"Mn", "Nonspacing_Mark", 1 << 6},
        {"Mc", "Spacing_Mark", 1 << 7},
        {"Me", "Enclosing_Mark", 1 << 8},
        {"N", "Number", 0xE00},
        {"Nd", "Decimal_Number", 1 << 9},
        {"Nl", "Letter_Number", 1 << 10},
        {"No", "Other_Number", 1 << 11},
        {"P", "Punctuation", 0x7F000},
        {"Pc", "Connector_Punctuation", 1 << 12},
        {"Pd", "Dash_Punctuation", 1 << 13},
        {"Ps", "Open_Punctuation", 1 << 14},
        {"Pe", "Close_Punctuation", 1 << 15},
        {"Pi", "Initial_Punctuation", 1 << 16},
        {"Pf", "Final_Punctuation", 1 << 17},
        {"Po", "Other_Punctuation", 1 << 18},
        {"S", "Symbol", 0x780000},
        {"Sm", "Math_Symbol", 1 << 19},
        {"Sc", "Currency_Symbol", 1 << 20},
        {"Sk", "Modifier_Symbol", 1 << 21},
        {"So", "Other_Symbol", 1 << 22},
        {"Z", "Separator", 0x3800000},
        {"Zs", "Space_Separator", 1 << 23},
        {"Zl", "Line_Separator", 1 << 24},
        {"Zp", "Paragraph_Separator", 1 << 25},
        {"Cc", "Control", 1 << 26},
        {"Cf", "Format", 1 << 27},
        {"LC", "Cased_Letter", 0xE},
        {"Nd", "digit", 1 << 9},
        {"P", "punct", 0x7F000},
    };
    static const char *const keys[] = {"General_Category=", "gc="};
    for (int i = 0; i < 2; i++)
        if (name.bytes > strlen(keys[i]) && memcmp(name.at, keys[i], strlen(keys[i])) == 0)
            name = text_span(name.at + strlen(keys[i]), name.bytes - strlen(keys[i]));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (text_is(name, known[i].name) || text_is(name, known[i].alias))
            return known[i].bits;
    return 0;
}

// Returns the characters of the categories or, with `invert`, all others. NULL: the arena is full
// or the work limit is exceeded.
static const struct regex_property *property_find(struct regex_parser *p, uint32_t bits,
                                                  bool invert)
{
    struct regex_set own = {0};
    struct regex_property *known = p->properties;
    while (known && (known->categories != bits || known->invert != invert))
        known = known->next;
    if (known || !grammar_spend(p->b, PROPERTY_WORK))
        return known;
    for (uint32_t c = 0, first = 0; c <= POINT_MAX + 1; c++) {
        if (c <= POINT_MAX && bits >> utf8proc_category((utf8proc_int32_t)c) & 1)
            continue;
        if (first < c && !regex_set_add(p, &own, first, c - 1))
            return NULL;
        first = c + 1;
    }
    known = arena_alloc(p->arena, sizeof *known);
    if (!known || !regex_set_end(p, &own, invert))
        return NULL;
    *known = (struct regex_property){p->properties, bits, own.count, invert, own.at};
    p->properties = known;
    return known;
}

// Parses the {name} after \p or \P at p->at.
static enum status escape_property(struct regex_parser *p, bool invert, struct regex_set *set)
{
    size_t start = p->at - 2;
    const char *end = p->at < p->in.bytes && p->in.at[p->at] == '{'
                          ? memchr(p->in.at + p->at, '}', p->in.bytes - p->at)
                          : NULL;
    if (!end)
        return regex_refuse(p, STATUS_INVALID, start, "a \\p without {name}");
    struct text name = text_span(p->in.at + p->at + 1, (size_t)(end - p->in.at) - p->at - 1);
    uint32_t bits = categories_of(name);
    p->at = (size_t)(end - p->in.at) + 1;
    if (bits == 0)
        return regex_refuse(p, STATUS_UNSUPPORTED, start, "a \\p{...} that is no general category");
    const struct regex_property *own = property_find(p, bits, invert);
    if (!own || !grammar_spend(p->b, 4 * (uint64_t)own->count))
        return no_memory(p);
    return add_ranges(p, set, own->ranges, own->count, false);
}

// Reads this number of hexadecimal digits; -1: there are fewer.
static int64_t read_hex(struct regex_parser *p, size_t digits)
{
    int64_t value = text_hex_read(text_span(p->in.at + p->at, p->in.bytes - p->at), digits);
    if (value >= 0)
        p->at += digits;
    return value;
}

// Parses the digits after \u at p->at. Two escapes of a surrogate pair are one character; -1:
// malformed.
static int64_t read_u(struct regex_parser *p)
{
    if (p->at < p->in.bytes && p->in.at[p->at] == '{') {
        const char *end = memchr(p->in.at + p->at, '}', p->in.bytes - p->at);
        size_t digits = end ? (size_t)(end - p->in.at) - p->at - 1 : 0;
        if (digits == 0 || digits > 6)
            return -1;
        p->at++;
        int64_t value = read_hex(p, digits);
        p->at += value >= 0;
        return value;
    }
    int64_t high = read_hex(p, 4);
    if (high < 0xD800 || high > 0xDBFF || p->in.bytes - p->at < 6 ||
        memcmp(p->in.at + p->at, "\\u", 2) != 0)
        return high;
    int64_t low = text_hex_read(text_span(p->in.at + p->at + 2, 4), 4);
    if (low < 0xDC00 || low > 0xDFFF)
        return high;
    p->at += 6;
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

// Parses an escape after its letter. -1: it is not a single character; -2: malformed.
static int64_t escape_letter(struct regex_parser *p, char letter, bool bracket)
{
    int64_t value;
    switch (letter) {
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    case 'b':
        return bracket ? '\b' : -1;
    case 'x':
        value = read_hex(p, 2);
        break;
    case 'u':
        value = read_u(p);
        break;
    case 'U':
        value = read_hex(p, 8);
        break;
    case 'c':
        value = p->at < p->in.bytes ? p->in.at[p->at++] : 0;
        return (value >= 'a' && value <= 'z') || (value >= 'A' && value <= 'Z') ? value & 31 : -2;
    default:
        return -1;
    }
    return value < 0 || value > POINT_MAX ? -2 : value;
}

// Adds the set of an escape that is not a single character; p->at is after its letter.
static enum status escape_set(struct regex_parser *p, char letter, struct regex_set *set)
{
    switch (letter) {
    case 'd':
    case 'D':
        return add_ranges(p, set, DIGITS, 1, letter == 'D');
    case 'w':
    case 'W':
        return add_ranges(p, set, WORDS, 4, letter == 'W');
    case 's':
    case 'S':
        return add_ranges(p, set, SPACES, 10, letter == 'S');
    case 'p':
    case 'P':
        return escape_property(p, letter == 'P', set);
    case 'b':
    case 'B':
        return regex_refuse(p, STATUS_UNSUPPORTED, p->at - 2, "a word boundary (\\b or \\B)");
    case 'k':
    case 'g':
        return regex_refuse(p, STATUS_UNSUPPORTED, p->at - 2, "a back-reference");
    default:
        return regex_refuse(p, STATUS_INVALID, p->at - 2, "an unknown escape");
    }
}

static enum status escape_digit(struct regex_parser *p, char digit, struct regex_set *set,
                                int64_t *single)
{
    bool more = p->at < p->in.bytes && p->in.at[p->at] >= '0' && p->in.at[p->at] <= '9';
    if (digit != '0')
        return regex_refuse(p, STATUS_UNSUPPORTED, p->at - 2, "a back-reference");
    if (more)
        return regex_refuse(p, STATUS_UNSUPPORTED, p->at - 2, "an octal escape");
    *single = 0;
    return regex_set_add(p, set, 0, 0) ? STATUS_OK : no_memory(p);
}

enum status regex_escape(struct regex_parser *p, bool bracket, struct regex_set *set,
                         int64_t *single)
{
    size_t start = p->at - 1, bytes;
    *single = -1;
    if (p->at == p->in.bytes)
        return regex_refuse(p, STATUS_INVALID, start, "a \\ at its end");
    uint32_t c = utf8_read(p->in.at + p->at, &bytes);
    p->at += bytes;
    if (c >= '0' && c <= '9')
        return escape_digit(p, (char)c, set, single);
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    int64_t value = letter ? escape_letter(p, (char)c, bracket) : (int64_t)c;
    if (value == -2)
        return regex_refuse(p, STATUS_INVALID, start, "an escape that is not complete");
    if (value == -1)
        return escape_set(p, (char)c, set);
    *single = value;
    return regex_set_add(p, set, (uint32_t)value, (uint32_t)value) ? STATUS_OK : no_memory(p);
}

// Parses one member of a class: a character or a set.
static enum status class_member(struct regex_parser *p, struct regex_set *set, int64_t *single)
{
    size_t bytes;
    if (p->in.at[p->at] == '\\') {
        p->at++;
        return regex_escape(p, true, set, single);
    }
    *single = utf8_read(p->in.at + p->at, &bytes);
    p->at += bytes;
    return regex_set_add(p, set, (uint32_t)*single, (uint32_t)*single) ? STATUS_OK : no_memory(p);
}

enum status regex_class(struct regex_parser *p, struct regex_set *set)
{
    size_t start = p->at - 1;
    bool invert = p->at < p->in.bytes && p->in.at[p->at] == '^';
    p->at += invert;
    if (p->at < p->in.bytes && p->in.at[p->at] == ']')
        return regex_refuse(p, STATUS_UNSUPPORTED, start,
                            "a class that begins with ] (write \\] for the bracket)");
    while (p->at < p->in.bytes && p->in.at[p->at] != ']') {
        int64_t first, last;
        size_t at = p->at;
        enum status status = class_member(p, set, &first);
        if (status != STATUS_OK)
            return status;
        if (p->in.bytes - p->at < 2 || p->in.at[p->at] != '-' || p->in.at[p->at + 1] == ']' ||
            first < 0)
            continue;
        p->at++;
        status = class_member(p, set, &last);
        if (status != STATUS_OK)
            return status;
        if (last < first)
            return regex_refuse(p, STATUS_INVALID, at, "a range whose ends are reversed");
        if (!regex_set_add(p, set, (uint32_t)first, (uint32_t)last))
            return no_memory(p);
    }
    if (p->at == p->in.bytes)
        return regex_refuse(p, STATUS_INVALID, start, "a [ without its ]");
    p->at++;
    return regex_set_end(p, set, invert) ? STATUS_OK : no_memory(p);
}
