// SPDX-License-Identifier: Apache-2.0
// The parser of regular expressions: alternatives, sequences, quantifiers, groups. See regex.h.
#include "runtime/text/grammar/regex_read.h"

#include "base/utf8.h"

#include <string.h>

enum { DEPTH_MAX = 100, ARENA_BYTES_MAX = 16 << 20, COUNT_MAX = 1000 * 1000 };

enum status regex_refuse(struct regex_parser *p, enum status status, size_t at, const char *what)
{
    return error_set(p->err, status, "the pattern has %s at byte %zu%s", what, at,
                     status == STATUS_UNSUPPORTED ? ", which is not supported" : "");
}

static enum status no_memory(struct regex_parser *p)
{
    return error_set(p->err, STATUS_TOO_LARGE, "the pattern exceeds its memory limit");
}

static bool next_is(const struct regex_parser *p, const char *what)
{
    return text_begins(text_span(p->in.at + p->at, p->in.bytes - p->at), what);
}

static struct regex_node *node_new(struct regex_parser *p, enum regex_kind kind)
{
    struct regex_node *node = arena_alloc_zeroed(p->arena, 1, sizeof *node);
    if (!node)
        return NULL;
    node->kind = kind;
    node->at = p->at;
    return node;
}

static enum status parse_either(struct regex_parser *p, struct regex_node **out);

// Parses the head of a group after "(?" at p->at; refuses all but groups with and without a name.
static enum status parse_group_head(struct regex_parser *p)
{
    static const struct {
        const char *head, *what;
    } refused[] = {
        {"=", "a look-ahead (?="},       {"!", "a look-ahead (?!"},    {"<=", "a look-behind (?<="},
        {"<!", "a look-behind (?<!"},    {">", "an atomic group (?>"}, {"(", "a conditional (?("},
        {"P=", "a back-reference (?P="}, {"P>", "a recursion (?P>"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (next_is(p, refused[i].head))
            return regex_refuse(p, STATUS_UNSUPPORTED, p->at - 2, refused[i].what);
    if (next_is(p, ":")) {
        p->at++;
        return STATUS_OK;
    }
    size_t start = p->at - 2;
    if (next_is(p, "P<"))
        p->at++;
    if (!next_is(p, "<"))
        return regex_refuse(p, STATUS_UNSUPPORTED, start, "flags (?");
    const char *end = memchr(p->in.at + p->at, '>', p->in.bytes - p->at);
    if (!end || end == p->in.at + p->at + 1)
        return regex_refuse(p, STATUS_INVALID, start, "a group whose name does not end");
    p->at = (size_t)(end - p->in.at) + 1;
    return STATUS_OK;
}

// Parses a group; p->at is after the ( on entry.
static enum status parse_group(struct regex_parser *p, struct regex_node **out)
{
    size_t start = p->at - 1;
    enum status status = STATUS_OK;
    if (next_is(p, "?#")) {
        const char *end = memchr(p->in.at + p->at, ')', p->in.bytes - p->at);
        if (!end)
            return regex_refuse(p, STATUS_INVALID, start, "a comment that does not end");
        p->at = (size_t)(end - p->in.at) + 1;
        *out = node_new(p, REGEX_JOIN);
        return *out ? STATUS_OK : no_memory(p);
    }
    if (next_is(p, "?")) {
        p->at++;
        status = parse_group_head(p);
    }
    if (p->depth == DEPTH_MAX)
        return regex_refuse(p, STATUS_TOO_LARGE, start, "groups that are nested too deep");
    p->depth++;
    if (status == STATUS_OK)
        status = parse_either(p, out);
    p->depth--;
    if (status == STATUS_OK && !next_is(p, ")"))
        return regex_refuse(p, STATUS_INVALID, start, "a ( without its )");
    p->at++;
    return status;
}

static enum status chars_node(struct regex_parser *p, struct regex_set *set, bool invert,
                              struct regex_node **out)
{
    *out = node_new(p, REGEX_CHARS);
    if (!*out || !regex_set_end(p, set, invert))
        return no_memory(p);
    (*out)->ranges = set->at;
    (*out)->range_count = set->count;
    return STATUS_OK;
}

static enum status anchor_read(struct regex_parser *p, enum regex_kind kind, size_t bytes,
                               struct regex_node **out)
{
    *out = node_new(p, kind);
    if (!*out)
        return no_memory(p);
    (*out)->anchors = true;
    p->at += bytes;
    return STATUS_OK;
}

static enum status parse_dot(struct regex_parser *p, struct regex_node **out)
{
    static const uint32_t ends[] = {'\n', '\r', 0x2028, 0x2029};
    struct regex_set set = {0};
    for (int i = 0; i < 4; i++)
        if (!regex_set_add(p, &set, ends[i], ends[i]))
            return no_memory(p);
    p->at++;
    return chars_node(p, &set, true, out);
}

static enum status parse_atom(struct regex_parser *p, struct regex_node **out)
{
    struct regex_set set = {0};
    int64_t single;
    size_t bytes;
    enum status status = STATUS_OK;
    if (next_is(p, "^") || next_is(p, "\\A"))
        return anchor_read(p, REGEX_START, next_is(p, "^") ? 1 : 2, out);
    if (next_is(p, "$") || next_is(p, "\\Z") || next_is(p, "\\z"))
        return anchor_read(p, REGEX_END, next_is(p, "$") ? 1 : 2, out);
    if (next_is(p, "."))
        return parse_dot(p, out);
    if (next_is(p, "(")) {
        p->at++;
        return parse_group(p, out);
    }
    if (next_is(p, "*") || next_is(p, "+") || next_is(p, "?"))
        return regex_refuse(p, STATUS_INVALID, p->at, "a quantifier without an operand");
    if (next_is(p, "[")) {
        p->at++;
        status = regex_class(p, &set);
    } else if (next_is(p, "\\")) {
        p->at++;
        status = regex_escape(p, false, &set, &single);
    } else {
        uint32_t c = utf8_read(p->in.at + p->at, &bytes);
        p->at += bytes;
        if (!regex_set_add(p, &set, c, c))
            return no_memory(p);
    }
    return status == STATUS_OK ? chars_node(p, &set, false, out) : status;
}

// Reads the digits at *at. Returns false if there are none. A count above COUNT_MAX may be reduced,
// but stays above it.
static bool read_count(const struct text *in, size_t *at, uint32_t *count)
{
    size_t start = *at;
    *count = 0;
    for (; *at < in->bytes && in->at[*at] >= '0' && in->at[*at] <= '9'; ++*at)
        if (*count <= COUNT_MAX)
            *count = *count * 10 + (uint32_t)(in->at[*at] - '0');
    return *at > start;
}

// Reads {m} {m,} {m,n} or {,n}. Returns false for anything else, which is text.
static bool read_braces(struct regex_parser *p, uint32_t *min, uint32_t *max)
{
    size_t at = p->at + 1;
    bool low = read_count(&p->in, &at, min), high = low;
    *max = *min;
    if (at < p->in.bytes && p->in.at[at] == ',') {
        at++;
        high = read_count(&p->in, &at, max);
        if (!high)
            *max = GRAMMAR_UNBOUNDED;
    }
    if (at >= p->in.bytes || p->in.at[at] != '}' || !(low || high))
        return false;
    p->at = at + 1;
    return true;
}

static bool read_quantifier(struct regex_parser *p, uint32_t *min, uint32_t *max)
{
    *min = next_is(p, "+");
    *max = next_is(p, "?") ? 1 : GRAMMAR_UNBOUNDED;
    if (next_is(p, "{"))
        return read_braces(p, min, max);
    if (!next_is(p, "*") && !next_is(p, "+") && !next_is(p, "?"))
        return false;
    p->at++;
    return true;
}

// Parses one atom with its quantifier.
static enum status parse_repeat(struct regex_parser *p, struct regex_node **out)
{
    uint32_t min, max;
    enum status status = parse_atom(p, out);
    if (status != STATUS_OK)
        return status;
    size_t at = p->at;
    if (!read_quantifier(p, &min, &max))
        return STATUS_OK;
    if (min > max)
        return regex_refuse(p, STATUS_INVALID, at, "a quantifier whose bounds are reversed");
    if (min > COUNT_MAX || (max > COUNT_MAX && max != GRAMMAR_UNBOUNDED))
        return regex_refuse(p, STATUS_TOO_LARGE, at, "a count over 1000000");
    if (next_is(p, "+"))
        return regex_refuse(p, STATUS_UNSUPPORTED, at, "a possessive quantifier");
    if (next_is(p, "?")) // a lazy quantifier matches the same strings
        p->at++;
    size_t again = p->at;
    if (read_quantifier(p, &(uint32_t){0}, &(uint32_t){0}))
        return regex_refuse(p, STATUS_INVALID, again, "a quantifier after a quantifier");
    struct regex_node *node = node_new(p, REGEX_REPEAT);
    if (!node)
        return no_memory(p);
    node->at = at;
    node->child = *out;
    node->anchors = (*out)->anchors;
    node->min = min;
    node->max = max;
    *out = node;
    return STATUS_OK;
}

static enum status parse_join(struct regex_parser *p, struct regex_node **out)
{
    struct regex_node *node = node_new(p, REGEX_JOIN);
    if (!node)
        return no_memory(p);
    struct regex_node **last = &node->child;
    while (p->at < p->in.bytes && !next_is(p, "|") && !next_is(p, ")")) {
        enum status status = parse_repeat(p, last);
        if (status != STATUS_OK)
            return status;
        node->anchors |= (*last)->anchors;
        last = &(*last)->next;
    }
    *out = node;
    return STATUS_OK;
}

static enum status parse_either(struct regex_parser *p, struct regex_node **out)
{
    struct regex_node *node = node_new(p, REGEX_EITHER);
    if (!node)
        return no_memory(p);
    struct regex_node **last = &node->child;
    for (;;) {
        enum status status = parse_join(p, last);
        if (status != STATUS_OK)
            return status;
        node->anchors |= (*last)->anchors;
        last = &(*last)->next;
        if (!next_is(p, "|"))
            break;
        p->at++;
    }
    *out = node;
    return STATUS_OK;
}

enum status regex_compile(struct grammar_builder *b, const struct regex_args *args, uint32_t *out,
                          struct error *err)
{
    struct regex_parser p = {.b = b, .in = args->pattern, .err = err};
    struct regex_node *root;
    *out = GRAMMAR_NOTHING;
    if (p.in.bytes > REGEX_BYTES_MAX)
        return error_set(err, STATUS_TOO_LARGE, "the pattern has %zu bytes; at most %d are allowed",
                         p.in.bytes, REGEX_BYTES_MAX);
    if (utf8_valid_prefix(p.in) != p.in.bytes)
        return error_set(err, STATUS_INVALID, "the pattern is not UTF-8");
    p.arena = arena_create(0, ARENA_BYTES_MAX);
    enum status status = parse_either(&p, &root);
    if (status == STATUS_OK && p.at < p.in.bytes)
        status = regex_refuse(&p, STATUS_INVALID, p.at, "a ) without its (");
    if (status == STATUS_OK && grammar_spend(b, 16 * (uint64_t)p.in.bytes))
        status = regex_emit(b, args, root, out, err);
    arena_destroy(p.arena);
    return status;
}
