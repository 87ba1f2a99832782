// SPDX-License-Identifier: Apache-2.0
// The parser of GBNF: one pass that creates expressions while it reads. See gbnf.h.
#include "runtime/text/grammar/gbnf.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "runtime/grammar/ranges.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 100, COUNT_MAX = 1000 * 1000 };

struct gbnf_rule {
    struct text name;
    uint32_t expr, number, next; // next: next rule in the same slot, + 1
    bool defined;
};
struct gbnf_texts {
    struct text *at;
    size_t count, capacity;
};

struct gbnf {
    struct grammar_builder *b;
    struct text in;
    size_t at;
    unsigned depth;
    struct arena *arena;
    struct gbnf_rule *rules;
    size_t rule_count, rule_capacity;
    uint32_t *slots, slot_count; // hash table of rule number + 1; slot_count is a power of two
    struct text literal;         // text of the last part if it was a literal; at NULL: another part
    bool dots;                   // true if names may have dots
    struct error *err;
};

static enum status gbnf_refuse(struct gbnf *g, enum status status, size_t at, const char *what)
{
    uint32_t line = 1;
    for (size_t i = 0; i < at && i < g->in.bytes; i++)
        line += g->in.at[i] == '\n';
    return error_set(g->err, status, "the grammar has %s in line %u", what, line);
}

static void blanks_skip(struct gbnf *g)
{
    while (g->at < g->in.bytes) {
        char c = g->in.at[g->at];
        if (c == '#')
            while (g->at < g->in.bytes && g->in.at[g->at] != '\n')
                g->at++;
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            g->at++;
        else
            return;
    }
}

static bool next_is(const struct gbnf *g, const char *what)
{
    return text_begins(text_span(g->in.at + g->at, g->in.bytes - g->at), what);
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

// Returns true if the character is a dot between other characters of a name.
static bool is_name_dot(const struct gbnf *g, size_t at)
{
    return g->dots && g->in.at[at] == '.' && at + 1 < g->in.bytes && is_name(g->in.at[at + 1]);
}

// Reads the name at g->at, which moves after it; 0 bytes: there is none.
static struct text read_name(struct gbnf *g)
{
    size_t start = g->at, at = start;
    while (at < g->in.bytes && (at > start ? is_name(g->in.at[at]) || is_name_dot(g, at)
                                           : is_name(g->in.at[at]) && g->in.at[at] != '-'))
        at++;
    g->at = at;
    return text_span(g->in.at + start, at - start);
}

// Returns true if a rule begins here: a name and ::=.
static bool rule_begins(struct gbnf *g)
{
    size_t at = g->at;
    bool begins = read_name(g).bytes > 0;
    blanks_skip(g);
    begins = begins && next_is(g, "::=");
    g->at = at;
    return begins;
}

static void quoted_skip(struct gbnf *g, char end)
{
    for (g->at++; g->at < g->in.bytes && g->in.at[g->at] != end; g->at++)
        g->at += g->in.at[g->at] == '\\';
    g->at++;
}

// Finds out if names may have dots: yes in xgrammar, not in llama.cpp, in which `d.` is a name and
// a character. They may if the name of some rule has a dot.
static void dots_find(struct gbnf *g)
{
    bool found = false;
    g->dots = true;
    for (blanks_skip(g); g->at < g->in.bytes && !found; blanks_skip(g)) {
        char c = g->in.at[g->at];
        if (c == '"' || c == '\'' || c == '[') {
            quoted_skip(g, c == '[' ? ']' : c);
            continue;
        }
        bool begins = rule_begins(g);
        struct text name = read_name(g);
        found = begins && memchr(name.at, '.', name.bytes);
        g->at += name.bytes == 0;
    }
    g->dots = found;
    g->at = 0;
}

static uint32_t *slot_of(struct gbnf *g, struct text name)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < name.bytes; i++)
        hash = (hash ^ (uint8_t)name.at[i]) * 0x9E3779B97F4A7C15u;
    return &g->slots[hash >> 32 & (g->slot_count - 1)];
}

static void slots_double(struct gbnf *g)
{
    g->slot_count *= 2;
    g->slots = arena_alloc_zeroed(g->arena, g->slot_count, sizeof *g->slots);
    for (uint32_t i = 0; i < g->rule_count; i++) {
        uint32_t *slot = slot_of(g, g->rules[i].name);
        g->rules[i].next = *slot;
        *slot = i + 1;
    }
}

static struct gbnf_rule *rule_of(struct gbnf *g, struct text name)
{
    uint32_t *slot = slot_of(g, name), seen = 10;
    for (uint32_t i = *slot; i != 0; i = g->rules[i - 1].next, seen += 4)
        if (text_equal(g->rules[i - 1].name, name)) {
            grammar_spend(g->b, seen);
            return &g->rules[i - 1];
        }
    grammar_spend(g->b, seen);
    if (g->rule_count == g->slot_count) {
        slots_double(g);
        slot = slot_of(g, name);
    }
    g->rules = arena_extend(g->arena, g->rules, g->rule_count, &g->rule_capacity, sizeof *g->rules);
    struct gbnf_rule *rule = &g->rules[g->rule_count++];
    *rule = (struct gbnf_rule){.name = name, .next = *slot};
    rule->expr = grammar_rule(g->b, name, &rule->number);
    *slot = (uint32_t)g->rule_count;
    return rule;
}

// Parses the escape after a backslash at g->at. -1: malformed.
static int64_t read_escape(struct gbnf *g)
{
    char letter = g->at < g->in.bytes ? g->in.at[g->at++] : '\0';
    size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    switch (letter) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'x':
    case 'u':
    case 'U':
        break;
    default:
        return letter != '\0' && strchr("\\\"'[]-^/", letter) ? letter : -1;
    }
    int64_t value = text_hex_read(text_span(g->in.at + g->at, g->in.bytes - g->at), digits);
    g->at += digits;
    return value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF) ? -1 : value;
}

// Reads one character, escaped or not; g->at must not be at the end.
static enum status read_char(struct gbnf *g, uint32_t *c)
{
    size_t bytes, start = g->at;
    if (g->in.at[g->at] != '\\') {
        *c = utf8_read(g->in.at + g->at, &bytes);
        g->at += bytes;
        return STATUS_OK;
    }
    g->at++;
    int64_t value = read_escape(g);
    *c = (uint32_t)value;
    return value < 0 ? gbnf_refuse(g, STATUS_INVALID, start, "an unknown escape") : STATUS_OK;
}

// Returns the number of bytes to the closing quote; SIZE_MAX: there is none in this line.
static size_t literal_bytes(const struct gbnf *g, char quote)
{
    size_t at = g->at;
    while (at < g->in.bytes && g->in.at[at] != quote && g->in.at[at] != '\n')
        at += g->in.at[at] == '\\' ? 2 : 1;
    return at < g->in.bytes && g->in.at[at] == quote ? at - g->at : SIZE_MAX;
}

static enum status parse_literal(struct gbnf *g, uint32_t *out)
{
    size_t start = g->at;
    char quote = g->in.at[g->at++];
    size_t bytes = 0, most = literal_bytes(g, quote);
    if (most == SIZE_MAX)
        return gbnf_refuse(g, STATUS_INVALID, start, "a text without its closing quote");
    char *text = arena_alloc(g->arena, most + 4);
    for (size_t end = g->at + most; g->at < end;) {
        uint32_t c;
        enum status status = read_char(g, &c);
        if (status != STATUS_OK)
            return status;
        bytes += utf8_write(c, text + bytes);
    }
    g->at = start + most + 2;
    g->literal = text_span(text, bytes);
    *out = grammar_literal(g->b, g->literal);
    return STATUS_OK;
}

static enum status parse_class(struct gbnf *g, uint32_t *out)
{
    size_t start = g->at++;
    bool invert = next_is(g, "^");
    struct grammar_range *ranges = NULL;
    size_t count = 0, capacity = 0;
    g->at += invert;
    while (g->at < g->in.bytes && g->in.at[g->at] != ']') {
        struct grammar_range r;
        enum status status = read_char(g, &r.first);
        if (status != STATUS_OK)
            return status;
        r.last = r.first;
        if (next_is(g, "-") && g->in.bytes - g->at > 1 && g->in.at[g->at + 1] != ']') {
            g->at++;
            status = read_char(g, &r.last);
            if (status == STATUS_OK && r.last < r.first)
                status = gbnf_refuse(g, STATUS_INVALID, start, "a range whose ends are reversed");
            if (status != STATUS_OK)
                return status;
        }
        ranges = arena_extend(g->arena, ranges, count, &capacity, sizeof *ranges);
        ranges[count++] = r;
    }
    if (g->at >= g->in.bytes)
        return gbnf_refuse(g, STATUS_INVALID, start, "a [ without its ]");
    g->at++;
    *out = invert ? grammar_chars_except(g->b, ranges, (uint32_t)count)
                  : grammar_chars(g->b, ranges, (uint32_t)count);
    return STATUS_OK;
}

static enum status parse_either(struct gbnf *g, uint32_t *out);

static enum status parse_group(struct gbnf *g, uint32_t *out)
{
    size_t start = g->at++;
    if (next_is(g, "="))
        return gbnf_refuse(g, STATUS_UNSUPPORTED, start,
                           "a look-ahead (=, which is not supported,");
    if (g->depth == DEPTH_MAX)
        return gbnf_refuse(g, STATUS_TOO_LARGE, start, "groups that are nested too deep");
    g->depth++;
    enum status status = parse_either(g, out);
    g->depth--;
    if (status == STATUS_OK && !next_is(g, ")"))
        return gbnf_refuse(g, STATUS_INVALID, start, "a ( without its )");
    g->at++;
    return status;
}

static enum status parse_atom(struct gbnf *g, uint32_t *out)
{
    char c = g->in.at[g->at];
    if (c == '"' || c == '\'')
        return parse_literal(g, out);
    if (c == '[')
        return parse_class(g, out);
    if (c == '(')
        return parse_group(g, out);
    if (c == '<' || c == '!')
        return gbnf_refuse(g, STATUS_UNSUPPORTED, g->at, "a token <...>, which is not supported,");
    if (c == '.') {
        g->at++;
        *out = grammar_chars_except(g->b, NULL, 0);
        return STATUS_OK;
    }
    size_t start = g->at;
    struct text name = read_name(g);
    if (name.bytes == 0) {
        char what[96];
        snprintf(what, sizeof what, "%s%.1s%s", "'", c >= 0x20 && c < 0x7F ? &c : "?",
                 "' where a literal, class, group or rule name is expected");
        return gbnf_refuse(g, STATUS_INVALID, start, what);
    }
    *out = rule_of(g, name)->expr;
    return STATUS_OK;
}

static bool read_count(struct gbnf *g, uint32_t *count)
{
    size_t start = g->at;
    *count = 0;
    for (; g->at < g->in.bytes && g->in.at[g->at] >= '0' && g->in.at[g->at] <= '9'; g->at++)
        if (*count <= COUNT_MAX)
            *count = *count * 10 + (uint32_t)(g->in.at[g->at] - '0');
    return g->at > start;
}

// Parses a count; g->at is after the { on entry and after the } on return.
static enum status parse_braces(struct gbnf *g, uint32_t *min, uint32_t *max)
{
    size_t start = g->at;
    blanks_skip(g);
    bool low = read_count(g, min), high = low;
    *max = *min;
    blanks_skip(g);
    if (next_is(g, ",")) {
        g->at++;
        blanks_skip(g);
        high = read_count(g, max);
        *max = high ? *max : GRAMMAR_UNBOUNDED;
        blanks_skip(g);
    }
    if (!next_is(g, "}") || !(low || high) || *min > *max)
        return gbnf_refuse(g, STATUS_INVALID, start, "a {...} that is not a repeat count");
    if (*min > COUNT_MAX || (high && *max > COUNT_MAX))
        return gbnf_refuse(g, STATUS_TOO_LARGE, start, "a count over 1000000");
    g->at++;
    return STATUS_OK;
}

static enum status parse_repeat(struct gbnf *g, uint32_t *out)
{
    enum status status = parse_atom(g, out);
    for (; status == STATUS_OK; blanks_skip(g)) {
        uint32_t min = 0, max = GRAMMAR_UNBOUNDED;
        size_t before = g->at;
        blanks_skip(g);
        if (!next_is(g, "*") && !next_is(g, "+") && !next_is(g, "?") && !next_is(g, "{")) {
            g->at = before;
            return STATUS_OK;
        }
        char kind = g->in.at[g->at++];
        g->literal = (struct text){NULL, 0};
        if (kind == '+')
            min = 1;
        if (kind == '?')
            max = 1;
        if (kind == '{')
            status = parse_braces(g, &min, &max);
        if (status == STATUS_OK)
            *out = grammar_repeat(g->b, *out, min, max);
    }
    return status;
}

// Parses a sequence of parts; no part: the empty text.
static enum status parse_join(struct gbnf *g, uint32_t *out)
{
    uint32_t *parts = NULL;
    size_t count = 0, capacity = 0;
    g->literal = (struct text){NULL, 0};
    for (blanks_skip(g);
         g->at < g->in.bytes && !next_is(g, "|") && !next_is(g, ")") && !rule_begins(g);
         blanks_skip(g)) {
        parts = arena_extend(g->arena, parts, count, &capacity, sizeof *parts);
        enum status status = parse_repeat(g, &parts[count++]);
        if (status != STATUS_OK)
            return status;
    }
    if (count != 1)
        g->literal = (struct text){NULL, 0};
    *out = grammar_join_all(g->b, parts, (uint32_t)count);
    return STATUS_OK;
}

static enum status parse_either(struct gbnf *g, uint32_t *out)
{
    struct text *texts = NULL; // literal alternatives, compiled together to share their prefixes
    size_t count = 0, capacity = 0;
    *out = GRAMMAR_NOTHING;
    for (bool more = true; more; g->at += more) {
        uint32_t one;
        enum status status = parse_join(g, &one);
        if (status != STATUS_OK)
            return status;
        if (g->literal.at) {
            texts = arena_extend(g->arena, texts, count, &capacity, sizeof *texts);
            texts[count++] = g->literal;
        } else {
            *out = grammar_either(g->b, one, *out);
        }
        more = next_is(g, "|");
    }
    *out = grammar_either(g->b, grammar_choice(g->b, texts, (uint32_t)count), *out);
    g->literal = (struct text){NULL, 0};
    return STATUS_OK;
}

static enum status parse_rule(struct gbnf *g)
{
    size_t start = g->at;
    uint32_t body;
    struct text name = read_name(g);
    blanks_skip(g);
    if (name.bytes == 0 || !next_is(g, "::="))
        return gbnf_refuse(g, STATUS_INVALID, start,
                           next_is(g, ":") ? "a rule with ':' instead of '::=' (Lark's form)"
                                           : "no rule (name ::= ...)");
    g->at += 3;
    enum status status = parse_either(g, &body);
    if (status != STATUS_OK)
        return status;
    if (next_is(g, ")"))
        return gbnf_refuse(g, STATUS_INVALID, g->at, "a ) without its (");
    struct gbnf_rule *rule = rule_of(g, name);
    if (rule->defined)
        return gbnf_refuse(g, STATUS_INVALID, start, "a rule that is already defined");
    rule->defined = true;
    grammar_rule_set(g->b, rule->number, body);
    return STATUS_OK;
}

enum status gbnf_compile(struct grammar_builder *b, struct text source, uint32_t *root,
                         struct error *err)
{
    struct gbnf *g;
    enum status status = STATUS_OK;
    *root = GRAMMAR_NOTHING;
    if (source.bytes > GBNF_BYTES_MAX)
        return error_set(err, STATUS_TOO_LARGE, "the grammar has %zu bytes; at most %d are allowed",
                         source.bytes, GBNF_BYTES_MAX);
    if (utf8_valid_prefix(source) != source.bytes)
        return error_set(err, STATUS_INVALID, "the grammar is not UTF-8");
    struct arena *arena = arena_create(0, 0);
    g = arena_alloc_zeroed(arena, 1, sizeof *g);
    *g = (struct gbnf){.b = b, .in = source, .arena = arena, .err = err, .slot_count = 1024};
    g->slots = arena_alloc_zeroed(arena, g->slot_count, sizeof *g->slots);
    dots_find(g);
    for (blanks_skip(g); status == STATUS_OK && g->at < source.bytes && !grammar_failed(b);
         blanks_skip(g))
        status = parse_rule(g);
    if (status == STATUS_OK) {
        struct gbnf_rule *rule = rule_of(g, text_of("root"));
        *root = rule->expr;
        if (!rule->defined && !grammar_failed(b))
            status = error_set(err, STATUS_INVALID, "the grammar has no rule named root");
    }
    arena_destroy(arena);
    return status;
}
