// SPDX-License-Identifier: Apache-2.0
// Strings: lengths, constants, patterns and formats are all regular, so one expression is their
// intersection.
#include "runtime/text/grammar/schema_parts.h"

#include "runtime/text/grammar/regex.h"

struct strings {
    struct schema *c;
    enum writer_chars kind;
    uint32_t expr; // intersection so far
    bool any;      // true while there are no restrictions other than lengths
    uint32_t min, max;
};

static struct text text_at(const json_t *value)
{
    return text_span(json_string_value(value), json_string_length(value));
}

// The strings of a list, which may also contain other values, or a single string.
static uint32_t strings_constants(struct schema *c, const json_t *values, enum writer_chars kind)
{
    size_t count = json_is_array(values) ? json_array_size(values) : 1;
    if (!schema_has_memory(c, (count + 1) * sizeof(struct text)) || !schema_spend(c, 8 * count))
        return GRAMMAR_NOTHING;
    struct text *plain = arena_alloc(c->arena, (count + 1) * sizeof *plain);
    uint32_t plains = 0, escaped = GRAMMAR_NOTHING;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_is_array(values) ? json_array_get(values, i) : values;
        if (!json_is_string(value))
            continue;
        if (writer_is_plain(kind, text_at(value)))
            plain[plains++] = text_at(value);
        else
            escaped = grammar_either(c->b, writer_text(c->b, kind, text_at(value)), escaped);
    }
    return grammar_either(c->b, grammar_choice(c->b, plain, plains), escaped);
}

static void restrict_to(struct strings *s, uint32_t site, const char *keyword, uint32_t expr)
{
    s->expr = s->any ? expr : schema_both(s->c, s->expr, expr, site, keyword);
    s->any = false;
}

static uint32_t strings_pattern(struct schema *c, uint32_t site, const char *keyword,
                                enum writer_chars kind)
{
    const json_t *value = schema_keyword(c, site, keyword);
    uint32_t expr;
    if (!json_is_string(value))
        return schema_refuse(c, STATUS_INVALID, site, keyword, "must be a string");
    if (memo_find(c, MEMO_PATTERN, site, kind, &expr))
        return expr;
    struct regex_args args = {
        .pattern = text_at(value), .search = true, .chars = writer_chars_of(kind)};
    if (regex_compile(c->b, &args, &expr, c->err) != STATUS_OK)
        return schema_pass_error(c, site, keyword);
    memo_put(c, MEMO_PATTERN, site, kind, expr);
    return expr;
}

static void strings_lengths(struct strings *s, uint32_t site)
{
    const json_t *low = schema_keyword(s->c, site, "minLength");
    const json_t *high = schema_keyword(s->c, site, "maxLength");
    uint32_t count;
    if (low && schema_count(s->c, site, "minLength", low, &count) && count > s->min)
        s->min = count;
    if (high && schema_count(s->c, site, "maxLength", high, &count) && count < s->max)
        s->max = count;
}

static void strings_allow(struct strings *s, uint32_t site)
{
    struct schema *c = s->c;
    const json_t *one = schema_keyword(c, site, "const"), *many = schema_keyword(c, site, "enum");
    const json_t *format = schema_keyword(c, site, "format");
    bool known;
    if (one)
        restrict_to(s, site, "const", strings_constants(c, one, s->kind));
    if (many)
        restrict_to(s, site, "enum", strings_constants(c, many, s->kind));
    if (schema_keyword(c, site, "pattern"))
        restrict_to(s, site, "pattern", strings_pattern(c, site, "pattern", s->kind));
    if (format) {
        uint32_t expr = schema_format(c, site, format, &known, s->kind);
        if (known)
            restrict_to(s, site, "format", expr);
    }
}

static void strings_except(struct strings *s, uint32_t site, const char *keyword, uint32_t expr)
{
    s->expr = schema_except(s->c, s->expr, expr, site, keyword);
}

static void strings_forbid(struct strings *s, uint32_t site)
{
    struct schema *c = s->c;
    const json_t *values = schema_keyword(c, site, "!enum");
    const json_t *format = schema_keyword(c, site, "!format");
    bool known;
    if (values)
        strings_except(s, site, "enum", strings_constants(c, values, s->kind));
    if (schema_keyword(c, site, "!pattern"))
        strings_except(s, site, "pattern", strings_pattern(c, site, "!pattern", s->kind));
    if (format) {
        uint32_t expr = schema_format(c, site, format, &known, s->kind);
        if (known)
            strings_except(s, site, "format", expr);
        else
            s->expr = GRAMMAR_NOTHING;
    }
}

uint32_t string_inside(struct schema *c, const struct alternative *a, enum writer_chars kind)
{
    const struct entry **entries;
    struct strings s = {.c = c, .kind = kind, .any = true, .max = GRAMMAR_UNBOUNDED};
    uint32_t count = alternative_entries(c, a, &entries);
    for (uint32_t i = 0; i < count && schema_spend(c, 300); i++) {
        strings_lengths(&s, entries[i]->site);
        strings_allow(&s, entries[i]->site);
    }
    if (s.min > s.max || schema_failed(c))
        return GRAMMAR_NOTHING;
    uint32_t all = grammar_repeat(c->b, schema_chars(c, kind)->any, s.min, s.max);
    if (s.any || s.min > 0 || s.max < GRAMMAR_UNBOUNDED)
        restrict_to(&s, count > 0 ? entries[0]->site : 0, s.min > 0 ? "minLength" : "maxLength",
                    all);
    for (uint32_t i = 0; i < count; i++)
        strings_forbid(&s, entries[i]->site);
    return schema_failed(c) ? GRAMMAR_NOTHING : s.expr;
}
