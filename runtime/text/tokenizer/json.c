// The JSON tree of tokenizer files; see tokenizer/json.h. One recursive pass; nodes of an open
// array or object wait on a stack and are copied to the arena when it closes.
#include "runtime/text/tokenizer/json.h"

#include "runtime/text/tokenizer/unicode.h"

#include <stdlib.h>

enum { DEPTH_MAX = 100 };

struct reader {
    struct arena *arena;
    const char *start, *at, *end;
    struct jnode *stack;
    size_t stack_count, stack_max;
    const char *wrong; // NULL: all is well
};

static bool fail(struct reader *r, const char *what)
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

static bool push(struct reader *r, const struct jnode *node)
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
    struct jnode *items = arena_take(r->arena, count * sizeof *items);
    if (!items)
        return fail(r, "too many values");
    if (count > 0)
        memcpy(items, r->stack + base, count * sizeof *items);
    out->items = items;
    out->count = (uint32_t)(out->type == J_OBJECT ? count / 2 : count);
    r->stack_count = base;
    return true;
}

// One \uXXXX (or a surrogate pair) after the 'u'; a lone surrogate becomes U+FFFD.
static bool read_unicode_escape(struct reader *r, char **out)
{
    int64_t high = text_hex_read(text_span(r->at, (size_t)(r->end - r->at)), 4);
    if (high < 0)
        return fail(r, "a \\u escape without four hex digits");
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
        return fail(r, "an unknown escape in a string");
    *(*out)++ = to[which - from];
    return true;
}

// Copies a string that has escapes; the result is never longer than its source.
static bool read_escaped(struct reader *r, const char *start, struct jnode *out)
{
    const char *close = r->at;
    while (close < r->end && *close != '"')
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    char *copy = arena_take(r->arena, (size_t)(close - start) + 4);
    if (!copy)
        return fail(r, "strings that are too long");
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
        return fail(r, "a string without its end");
    r->at++;
    return true;
}

static bool read_number(struct reader *r, struct jnode *out)
{
    const char *start = r->at;
    uint64_t whole = 0;
    const char *p = start;
    while (p < r->end && p - start < 18 && *p >= '0' && *p <= '9')
        whole = whole * 10 + (uint64_t)(*p++ - '0');
    *out = (struct jnode){.type = J_NUMBER, .number = (double)whole};
    bool plain = p > start && (p == r->end || strchr(",]} \r\n\t", *p));
    if (!plain) {
        char *end = NULL;
        // strtod also knows hex, inf and nan, which cannot begin like this or end well.
        out->number = strtod(start, &end);
        p = end;
    }
    if (p == start || p > r->end)
        return fail(r, "something that is not a value");
    r->at = p;
    return true;
}

static bool read_word(struct reader *r, struct jnode *out, const char *word, enum jtype type)
{
    size_t bytes = strlen(word);
    if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, word, bytes) != 0)
        return fail(r, "something that is not a value");
    r->at += bytes;
    *out = (struct jnode){.type = type};
    return true;
}

static bool read_value(struct reader *r, struct jnode *out, int depth);

static bool read_member(struct reader *r, int depth)
{
    struct jnode node;
    if (r->at >= r->end || *r->at != '"')
        return fail(r, "an object key that is not a string");
    if (!read_string(r, &node) || !push(r, &node))
        return false;
    skip_space(r);
    if (r->at >= r->end || *r->at != ':')
        return fail(r, "an object key without a colon");
    r->at++;
    return read_value(r, &node, depth) && push(r, &node);
}

static bool read_list(struct reader *r, struct jnode *out, int depth)
{
    if (depth >= DEPTH_MAX)
        return fail(r, "too many levels");
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
                         : !(read_value(r, &node, depth + 1) && push(r, &node)))
            return false;
        skip_space(r);
        if (r->at < r->end && *r->at == ',') {
            r->at++;
            continue;
        }
        if (r->at >= r->end || *r->at != close)
            return fail(r, "a list without a comma or its end");
        r->at++;
        return close_list(r, out, base);
    }
}

static bool read_value(struct reader *r, struct jnode *out, int depth)
{
    skip_space(r);
    if (r->at >= r->end)
        return fail(r, "an early end");
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
        return fail(r, "something that is not a value");
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
    struct jnode *root = arena_take(arena, sizeof *root);
    bool good = root && read_value(&r, root, 0);
    skip_space(&r);
    if (good && r.at < r.end)
        good = fail(&r, "text after the value");
    heap_give(r.stack);
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
