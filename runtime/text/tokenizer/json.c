// SPDX-License-Identifier: Apache-2.0
// Parser for the JSON tree of tokenizer files; see tokenizer/json.h. One recursive pass: the nodes
// of an open array or object are kept on a stack and copied to the arena when it closes.
#include "runtime/text/tokenizer/json.h"

#include "runtime/text/tokenizer/unicode.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH_MAX = 100 };

struct reader {
    struct arena *arena;
    const char *start, *at, *end;
    struct jnode *stack;
    size_t stack_count, stack_max;
    const char *wrong; // first fault; NULL: none
};

static bool reader_fail(struct reader *r, const char *what)
{
    if (!r->wrong)
        r->wrong = what;
    return false;
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static bool reader_push(struct reader *r, const struct jnode *node)
{
    if (r->stack_count == r->stack_max) {
        r->stack_max = r->stack_max == 0 ? 1024 : r->stack_max * 2;
        r->stack = heap_grow(r->stack, r->stack_max * sizeof *r->stack);
    }
    r->stack[r->stack_count++] = *node;
    return true;
}

static bool close_list(struct reader *r, struct jnode *out, size_t base)
{
    size_t count = r->stack_count - base;
    struct jnode *items = arena_alloc(r->arena, count * sizeof *items);
    if (!items)
        return reader_fail(r, "too many values");
    if (count > 0)
        memcpy(items, r->stack + base, count * sizeof *items);
    out->items = items;
    out->count = (uint32_t)(out->type == J_OBJECT ? count / 2 : count);
    r->stack_count = base;
    return true;
}

// Reads XXXX of \uXXXX (or of a surrogate pair); a lone surrogate becomes U+FFFD.
static bool read_unicode_escape(struct reader *r, char **out)
{
    int64_t high = text_hex_read(text_span(r->at, (size_t)(r->end - r->at)), 4);
    if (high < 0)
        return reader_fail(r, "a \\u escape without four hex digits");
    r->at += 4;
    uint32_t c = (uint32_t)high;
    if (c >= 0xD800 && c < 0xDC00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        int64_t low = text_hex_read(text_span(r->at + 2, 4), 4);
        if (low >= 0xDC00 && low < 0xE000) {
            c = 0x10000 + ((c - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
            r->at += 6;
        }
    }
    if (c >= 0xD800 && c < 0xE000)
        c = 0xFFFD;
    *out += utf8_write(c, *out);
    return true;
}

static bool read_escape(struct reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : '\0';
    if (c == 'u')
        return read_unicode_escape(r, out);
    const char *which = c != '\0' ? strchr(from, c) : NULL;
    if (!which)
        return reader_fail(r, "an unknown escape in a string");
    *(*out)++ = to[which - from];
    return true;
}

// Copies a string that contains escapes; the result is never longer than its source.
static bool read_escaped(struct reader *r, const char *start, struct jnode *out)
{
    const char *close = r->at;
    while (close < r->end && *close != '"')
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    char *copy = arena_alloc(r->arena, (size_t)(close - start) + 4);
    if (!copy)
        return reader_fail(r, "strings that are too long");
    size_t plain = (size_t)(r->at - start);
    memcpy(copy, start, plain);
    char *to = copy + plain;
    while (r->at < r->end && *r->at != '"') {
        char c = *r->at++;
        if (c != '\\')
            *to++ = c;
        else if (!read_escape(r, &to))
            return false;
    }
    out->at = copy;
    out->count = (uint32_t)(to - copy);
    return true;
}

static bool read_string(struct reader *r, struct jnode *out)
{
    const char *start = ++r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\\')
        r->at++;
    *out = (struct jnode){.type = J_STRING, .count = (uint32_t)(r->at - start), .at = start};
    if (r->at < r->end && *r->at == '\\' && !read_escaped(r, start, out))
        return false;
    if (r->at >= r->end)
        return reader_fail(r, "a string without its end");
    r->at++;
    return true;
}

// A number as written: significand times 10 to the exponent.
struct decimal {
    uint64_t significand;
    int exponent;
};

// Reads the digits before or (fraction) after the decimal point. Digits beyond 64 bits are dropped.
static const char *read_digits(const struct reader *r, const char *p, bool fraction,
                               struct decimal *out)
{
    bool full = false;
    for (; p < r->end && *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        full = full || out->significand > (UINT64_MAX - digit) / 10;
        if (!full)
            out->significand = out->significand * 10 + digit;
        out->exponent += (int)full - (int)fraction;
    }
    return p;
}

static const char *read_exponent(const struct reader *r, const char *p, struct decimal *out)
{
    enum { EXPONENT_MAX = 1000000 }; // any larger exponent also gives 0 or an overflow
    bool negative = p < r->end && *p == '-';
    if (p < r->end && (*p == '-' || *p == '+'))
        p++;
    int value = 0;
    const char *start = p;
    for (; p < r->end && *p >= '0' && *p <= '9'; p++)
        value = value < EXPONENT_MAX ? value * 10 + (*p - '0') : value;
    out->exponent += negative ? -value : value;
    return p > start ? p : NULL;
}

static double power_of_ten(int n)
{
    static const double small[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (n < (int)(sizeof small / sizeof *small))
        return small[n];
    char text[16];
    (void)snprintf(text, sizeof text, "1e%d", n);
    return strtod(text, NULL);
}

// Rounds twice, not once: serde_json reads scores for the reference library in this way, and
// between two segmentations of equal score the last bit decides.
static double decimal_value(struct decimal d)
{
    double value = (double)d.significand;
    for (; d.exponent < -DBL_MAX_10_EXP && value != 0; d.exponent += DBL_MAX_10_EXP)
        value /= 1e308;
    if (value == 0)
        return 0;
    if (d.exponent > DBL_MAX_10_EXP)
        return HUGE_VAL;
    return d.exponent < 0 ? value / power_of_ten(-d.exponent) : value * power_of_ten(d.exponent);
}

static bool read_number(struct reader *r, struct jnode *out)
{
    bool negative = *r->at == '-';
    const char *start = r->at + negative;
    struct decimal number = {0};
    const char *p = read_digits(r, start, false, &number);
    bool good = p > start;
    if (good && p < r->end && *p == '.') {
        const char *point = p;
        p = read_digits(r, point + 1, true, &number);
        good = p > point + 1;
    }
    if (good && p < r->end && (*p == 'e' || *p == 'E')) {
        p = read_exponent(r, p + 1, &number);
        good = p;
    }
    if (!good)
        return reader_fail(r, "something that is not a value");
    double value = decimal_value(number);
    if (value > DBL_MAX)
        return reader_fail(r, "a number that is too large");
    *out = (struct jnode){.type = J_NUMBER, .number = negative ? -value : value};
    r->at = p;
    return true;
}

static bool read_word(struct reader *r, struct jnode *out, const char *word, enum jtype type)
{
    size_t bytes = strlen(word);
    if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, word, bytes) != 0)
        return reader_fail(r, "something that is not a value");
    r->at += bytes;
    *out = (struct jnode){.type = type};
    return true;
}

static bool read_value(struct reader *r, struct jnode *out, int depth);

static bool read_member(struct reader *r, int depth)
{
    struct jnode node;
    if (r->at >= r->end || *r->at != '"')
        return reader_fail(r, "an object key that is not a string");
    if (!read_string(r, &node) || !reader_push(r, &node))
        return false;
    skip_space(r);
    if (r->at >= r->end || *r->at != ':')
        return reader_fail(r, "an object key without a colon");
    r->at++;
    return read_value(r, &node, depth) && reader_push(r, &node);
}

static bool read_list(struct reader *r, struct jnode *out, int depth)
{
    if (depth >= DEPTH_MAX)
        return reader_fail(r, "too many levels");
    char close = *r->at == '{' ? '}' : ']';
    *out = (struct jnode){.type = close == '}' ? J_OBJECT : J_ARRAY};
    size_t base = r->stack_count;
    r->at++;
    skip_space(r);
    if (r->at < r->end && *r->at == close) {
        r->at++;
        return close_list(r, out, base);
    }
    for (;;) {
        struct jnode node;
        skip_space(r);
        if (close == '}' ? !read_member(r, depth + 1)
                         : !(read_value(r, &node, depth + 1) && reader_push(r, &node)))
            return false;
        skip_space(r);
        if (r->at < r->end && *r->at == ',') {
            r->at++;
            continue;
        }
        if (r->at >= r->end || *r->at != close)
            return reader_fail(r, "a list without a comma or its end");
        r->at++;
        return close_list(r, out, base);
    }
}

static bool read_value(struct reader *r, struct jnode *out, int depth)
{
    skip_space(r);
    if (r->at >= r->end)
        return reader_fail(r, "an early end");
    switch (*r->at) {
    case '"':
        return read_string(r, out);
    case '{':
    case '[':
        return read_list(r, out, depth);
    case 't':
        return read_word(r, out, "true", J_TRUE);
    case 'f':
        return read_word(r, out, "false", J_FALSE);
    case 'n':
        return read_word(r, out, "null", J_NULL);
    default:
        if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9'))
            return read_number(r, out);
        return reader_fail(r, "something that is not a value");
    }
}

enum status jtree_parse(const struct jnode **out, struct arena *arena, struct text source,
                        const char *name, struct error *err)
{
    struct reader r = {
        .arena = arena, .start = source.at, .at = source.at, .end = source.at + source.bytes};
    size_t valid = utf8_valid_prefix(source);
    if (valid != source.bytes)
        return error_set(err, STATUS_INVALID, "%s is not UTF-8 at byte %zu", name, valid);
    if (source.bytes > UINT32_MAX / 2)
        return error_set(err, STATUS_TOO_LARGE, "%s has over 2 GiB", name);
    if (source.bytes >= 3 && memcmp(r.at, "\xEF\xBB\xBF", 3) == 0)
        r.at += 3;
    struct jnode *root = arena_alloc(arena, sizeof *root);
    bool good = root && read_value(&r, root, 0);
    skip_space(&r);
    if (good && r.at < r.end)
        good = reader_fail(&r, "text after the value");
    heap_free(r.stack);
    if (!good)
        return error_set(err, STATUS_INVALID, "%s is not JSON: %s at byte %zu", name,
                         r.wrong ? r.wrong : "no memory", (size_t)(r.at - r.start));
    *out = root;
    return STATUS_OK;
}

bool jtree_is(const struct jnode *node, enum jtype type)
{
    return node && node->type == type;
}

const struct jnode *jtree_get(const struct jnode *node, const char *key)
{
    if (!jtree_is(node, J_OBJECT))
        return NULL;
    for (uint32_t i = node->count; i-- > 0;)
        if (text_is(text_span(node->items[2 * i].at, node->items[2 * i].count), key))
            return &node->items[2 * i + 1];
    return NULL;
}

struct text jtree_text(const struct jnode *node)
{
    return jtree_is(node, J_STRING) ? text_span(node->at, node->count) : text_span(NULL, 0);
}

struct text jtree_get_text(const struct jnode *node, const char *key)
{
    return jtree_text(jtree_get(node, key));
}

bool jtree_get_bool(const struct jnode *node, const char *key, bool otherwise)
{
    const struct jnode *value = jtree_get(node, key);
    if (jtree_is(value, J_TRUE))
        return true;
    return jtree_is(value, J_FALSE) ? false : otherwise;
}

int64_t jtree_integer(const struct jnode *node, int64_t maximum)
{
    if (!jtree_is(node, J_NUMBER) || !(node->number >= 0 && node->number <= (double)maximum))
        return -1;
    int64_t whole = (int64_t)node->number;
    return (double)whole == node->number ? whole : -1;
}
