// SPDX-License-Identifier: Apache-2.0
// Numbers: bounds, multiples and constants. Restricted numbers are written without an exponent;
// trailing zeros are allowed if the value stays the same.
#include "runtime/text/grammar/schema_digits.h"
#include "runtime/text/grammar/schema_parts.h"

#include <math.h>
#include <string.h>

struct numbers {
    struct schema *c;
    uint32_t types;
    struct number_parts parts;
    struct bound low, high;
    bool any, constant;
};

static bool read_number(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                        struct bound *out)
{
    struct json_buffer text = {0};
    *out = (struct bound){0};
    if (!json_is_number(value)) {
        schema_refuse(c, STATUS_INVALID, site, keyword, "must be a number");
        return false;
    }
    json_put_value(&text, value);
    bool fits = bound_read(c->arena, json_buffer_text(&text), out);
    json_buffer_free(&text);
    if (!fits)
        schema_refuse(c, STATUS_TOO_LARGE, site, keyword,
                      "has too many digits or too large an exponent");
    return fits;
}

static void bound_tighten(struct numbers *n, uint32_t site, const char *keyword, bool low,
                          bool exclusive)
{
    const json_t *value = schema_keyword(n->c, site, keyword);
    struct bound *have = low ? &n->low : &n->high, read;
    if (!value || !read_number(n->c, site, keyword, value, &read))
        return;
    read.exclusive = exclusive;
    read.value = json_number_value(value);
    int order = have->set ? bound_compare(&read, have) : 0;
    if (!have->set || (low ? order > 0 : order < 0) || (order == 0 && exclusive))
        *have = read;
}

// In draft 4 the exclusive keyword is a boolean that applies to the other keyword.
static void limits_tighten(struct numbers *n, uint32_t site, const char *keyword,
                           const char *exclusive, bool low)
{
    const json_t *other = schema_keyword(n->c, site, exclusive);
    bound_tighten(n, site, keyword, low, json_is_true(other));
    if (!json_is_boolean(other))
        bound_tighten(n, site, exclusive, low, true);
}

static void restrict_part(struct numbers *n, uint32_t site, const char *keyword, uint32_t *part,
                          uint32_t expr, bool except)
{
    *part = except ? schema_except(n->c, *part, expr, site, keyword)
                   : schema_both(n->c, *part, expr, site, keyword);
}

static void restrict_to(struct numbers *n, uint32_t site, const char *keyword,
                        const struct number_parts *parts, bool except)
{
    if (n->any && !except) {
        n->parts = *parts;
    } else {
        if (n->types & TYPE_INTEGER)
            restrict_part(n, site, keyword, &n->parts.integers, parts->integers, except);
        if (n->types & TYPE_FRACTION)
            restrict_part(n, site, keyword, &n->parts.fractions, parts->fractions, except);
    }
    n->any = false;
}

// Returns a number as it is written without an exponent. All digits of a real are significant,
// because readers compare exactly. at == NULL: it is not a number, or the schema is refused.
static struct text constant_text(struct schema *c, uint32_t site, const char *keyword,
                                 const json_t *value, bool *fraction)
{
    struct bound number;
    struct text none = {NULL, 0}, digits = json_integer_digits(value);
    *fraction = false;
    if (digits.at)
        return digits;
    if (!json_is_number(value) || !read_number(c, site, keyword, value, &number))
        return none;
    struct text after = number.size.fraction, whole = number.size.whole;
    *fraction = after.bytes > 0;
    if (json_is_real(value) && after.bytes == 0)
        whole = arena_format(c->arena, "%.0f", fabs(json_real_value(value)));
    return arena_format(c->arena, "%s%.*s%s%.*s", number.negative ? "-" : "", (int)whole.bytes,
                        whole.at, after.bytes > 0 ? "." : "", (int)after.bytes, after.at);
}

// The numbers of a list, which may also contain other values, or of a single value.
static struct number_parts constants_parts(struct schema *c, uint32_t site, const char *keyword,
                                           const json_t *values)
{
    struct number_parts out = {GRAMMAR_NOTHING, GRAMMAR_NOTHING};
    size_t count = json_is_array(values) ? json_array_size(values) : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_is_array(values) ? json_array_get(values, i) : values;
        bool fraction;
        if (!schema_spend(c, 4))
            break;
        struct text text = constant_text(c, site, keyword, value, &fraction);
        if (!text.at)
            continue;
        schema_spend(c, 200 + text.bytes);
        uint32_t *part = fraction ? &out.fractions : &out.integers;
        *part = grammar_either(c->b, grammar_literal(c->b, text), *part);
    }
    return out;
}

static void multiples_apply(struct numbers *n, uint32_t site, const char *keyword, bool except)
{
    struct schema *c = n->c;
    const json_t *value = schema_keyword(c, site, keyword);
    struct number_parts parts;
    struct bound step;
    if (!value || !read_number(c, site, keyword, value, &step))
        return;
    if (memo_find(c, MEMO_INTEGERS, site, except, &parts.integers) &&
        memo_find(c, MEMO_FRACTIONS, site, except, &parts.fractions)) {
        restrict_to(n, site, keyword, &parts, except);
        return;
    }
    if (step.negative || (step.size.fraction.bytes == 0 && text_is(step.size.whole, "0")))
        schema_refuse(c, STATUS_INVALID, site, keyword, "must be over 0");
    else if (digits_multiples(c->b, c->arena, &step.size, &parts, c->err) != STATUS_OK)
        schema_pass_error(c, site, keyword);
    if (schema_failed(c))
        return;
    memo_put(c, MEMO_INTEGERS, site, except, parts.integers);
    memo_put(c, MEMO_FRACTIONS, site, except, parts.fractions);
    restrict_to(n, site, keyword, &parts, except);
}

static void constant_apply(struct numbers *n, uint32_t site, const char *keyword, bool except)
{
    const json_t *values = schema_keyword(n->c, site, keyword);
    if (!values)
        return;
    struct number_parts parts = constants_parts(n->c, site, keyword, values);
    restrict_to(n, site, keyword, &parts, except);
    n->constant |= !except;
}

static uint32_t zeros_expr(struct schema *c, uint32_t min)
{
    return grammar_repeat(c->b, grammar_literal(c->b, text_of("0")), min, GRAMMAR_UNBOUNDED);
}

uint32_t number_text(struct schema *c, const struct alternative *a)
{
    const struct entry **entries;
    struct numbers n = {.c = c, .types = a->types, .any = true};
    uint32_t count = alternative_entries(c, a, &entries);
    uint32_t site = count > 0 ? entries[0]->site : 0;
    if (!grammar_spend(c->b, 2000 + 200 * (uint64_t)count))
        return GRAMMAR_NOTHING;
    for (uint32_t i = 0; i < count; i++) {
        limits_tighten(&n, entries[i]->site, "minimum", "exclusiveMinimum", true);
        limits_tighten(&n, entries[i]->site, "maximum", "exclusiveMaximum", false);
        constant_apply(&n, entries[i]->site, "const", false);
        constant_apply(&n, entries[i]->site, "enum", false);
        multiples_apply(&n, entries[i]->site, "multipleOf", false);
    }
    struct number_parts range;
    bool bounded = n.low.set || n.high.set, free = n.any && !bounded;
    if (digits_between(c->b, c->arena, &n.low, &n.high, &range, c->err) != STATUS_OK)
        return schema_pass_error(c, site, n.low.set ? "minimum" : "maximum");
    if (n.any || bounded)
        restrict_to(&n, site, n.low.set ? "minimum" : "maximum", &range, false);
    for (uint32_t i = 0; i < count; i++) {
        free &= !schema_keyword(c, entries[i]->site, "!enum") &&
                !schema_keyword(c, entries[i]->site, "!multipleOf");
        constant_apply(&n, entries[i]->site, "!enum", true);
        multiples_apply(&n, entries[i]->site, "!multipleOf", true);
    }
    if (schema_failed(c))
        return GRAMMAR_NOTHING;
    if (free && (a->types & TYPE_NUMBER) == TYPE_NUMBER)
        return c->any.number;
    uint32_t whole = a->types & TYPE_INTEGER ? n.parts.integers : GRAMMAR_NOTHING;
    uint32_t fraction = a->types & TYPE_FRACTION ? n.parts.fractions : GRAMMAR_NOTHING;
    if ((a->types & TYPE_FRACTION) && !n.constant) {
        uint32_t point = grammar_literal(c->b, text_of("."));
        fraction = grammar_join(c->b, fraction, zeros_expr(c, 0));
        whole = grammar_join(c->b, whole,
                             grammar_optional(c->b, grammar_join(c->b, point, zeros_expr(c, 1))));
    }
    return grammar_either(c->b, whole, fraction);
}
