// SPDX-License-Identifier: Apache-2.0
// Arrays: the first items separately, then a repeat; with `contains`, an automaton over positions
// and counts.
#include "runtime/text/grammar/schema_parts.h"

enum { CONTAINS_MAX = 3, STATES_MAX = 4096, PREFIX_MAX = 10000 };

struct contained {
    uint32_t literal, min, max, from, site;
};
struct arrays {
    struct schema *c;
    const struct entry **entries;
    uint32_t entry_count;
    uint32_t prefix, min, max; // items with separate schemas; limits of the number of items
    struct contained contains[CONTAINS_MAX];
    uint32_t contains_count, unique; // unique: site + 1 of uniqueItems, or 0
    uint32_t comma, open, close;
    // With contains: refs and rules are [places][counts]
    uint32_t places, counts, *refs, *rules;
};

static const json_t *prefix_of(struct schema *c, uint32_t site, const char **keyword)
{
    const json_t *items = schema_keyword(c, site, "items");
    *keyword = json_is_array(items) ? "items" : "prefixItems";
    return schema_keyword(c, site, *keyword);
}

static const json_t *rest_of(struct schema *c, uint32_t site, const char **keyword)
{
    const json_t *items = schema_keyword(c, site, "items");
    *keyword = json_is_array(items) ? "additionalItems" : "items";
    return schema_keyword(c, site, *keyword);
}

static void arrays_limits(struct arrays *r, uint32_t site)
{
    struct schema *c = r->c;
    const json_t *low = schema_keyword(c, site, "minItems");
    const json_t *high = schema_keyword(c, site, "maxItems");
    const char *keyword;
    const json_t *prefix = prefix_of(c, site, &keyword);
    uint32_t count;
    if (low && schema_count(c, site, "minItems", low, &count) && count > r->min)
        r->min = count;
    if (high && schema_count(c, site, "maxItems", high, &count) && count < r->max)
        r->max = count;
    if (prefix && !json_is_array(prefix))
        schema_refuse(c, STATUS_INVALID, site, keyword, "must be a list of schemas");
    if (json_array_size(prefix) > r->prefix)
        r->prefix = (uint32_t)json_array_size(prefix);
    if (json_is_true(schema_keyword(c, site, "uniqueItems")))
        r->unique = site + 1;
    if (schema_keyword(c, site, "unevaluatedItems") && json_array_size(prefix) > PREFIX_MAX)
        schema_refuse(c, STATUS_TOO_LARGE, site, keyword, "has too many schemas");
}

static void arrays_contains(struct arrays *r, uint32_t site)
{
    struct schema *c = r->c;
    const json_t *schema = schema_keyword(c, site, "contains");
    const json_t *low = schema_keyword(c, site, "minContains");
    const json_t *high = schema_keyword(c, site, "maxContains");
    const json_t *from = schema_keyword(c, site, "!from");
    struct contained one = {.min = 1, .max = GRAMMAR_UNBOUNDED, .site = site};
    if (!schema || (low && !schema_count(c, site, "minContains", low, &one.min)) ||
        (high && !schema_count(c, site, "maxContains", high, &one.max)))
        return;
    one.literal = schema_literal(c, site, "contains", schema, (struct text){NULL, 0});
    one.from = (uint32_t)json_integer_value(from);
    if (one.from > r->prefix)
        r->prefix = one.from;
    if (one.min == 0 && one.max == GRAMMAR_UNBOUNDED)
        return;
    if (r->contains_count == CONTAINS_MAX)
        schema_refuse(c, STATUS_UNSUPPORTED, site, "contains", "more than three in one array");
    else
        r->contains[r->contains_count++] = one;
}

// Adds the requirement of an entry's unevaluatedItems for item i: nothing, its schema, or a choice
// of its schema and the `contains` schemas below the entry.
static void add_unevaluated(struct arrays *r, const struct entry *e, uint32_t i,
                            struct literals *list)
{
    struct schema *c = r->c;
    const json_t *schema = schema_keyword(c, e->site, "unevaluatedItems");
    const char *keyword;
    if (!schema || !schema_spend_values(c, 2 + r->entry_count))
        return;
    json_t *options = json_array();
    json_array_append(options, (json_t *)(uintptr_t)schema);
    schema_literal(c, e->site, "unevaluatedItems", schema, (struct text){NULL, 0});
    bool evaluated = false;
    for (uint32_t k = 0; k < r->entry_count; k++) {
        const struct entry *below = r->entries[k];
        if (below->silent || !schema_spend(c, 100) || !entry_is_under(below, e))
            continue;
        const json_t *contained = schema_keyword(c, below->site, "contains");
        evaluated |= i < json_array_size(prefix_of(c, below->site, &keyword)) ||
                     rest_of(c, below->site, &keyword) ||
                     (below != e && schema_keyword(c, below->site, "unevaluatedItems"));
        if (contained && !c->draft7) {
            schema_literal(c, below->site, "contains", contained, (struct text){NULL, 0});
            json_array_append(options, (json_t *)(uintptr_t)contained);
        }
    }
    if (evaluated || schema_failed(c)) {
        json_decref(options);
        return;
    }
    uint32_t site = schema_make(c, json_pack("{s:o}", "anyOf", options), e->site);
    literals_add(c, list, site * LITERAL_SITE);
}

// Returns the text of item i, which must also satisfy `more`.
static uint32_t item_expr(struct arrays *r, uint32_t i, const struct literals *more)
{
    struct schema *c = r->c;
    struct literals list = {0};
    schema_spend(c, 60 * (uint64_t)r->entry_count);
    for (uint32_t k = 0; k < r->entry_count && !schema_failed(c); k++) {
        const char *first, *then;
        uint32_t site = r->entries[k]->site;
        const json_t *prefix = prefix_of(c, site, &first), *rest = rest_of(c, site, &then);
        if (i < json_array_size(prefix))
            literals_add(c, &list,
                         schema_literal(c, site, first, json_array_get(prefix, i),
                                        arena_format(c->arena, "%u", i)));
        else if (rest)
            literals_add(c, &list, schema_literal(c, site, then, rest, (struct text){NULL, 0}));
        add_unevaluated(r, r->entries[k], i, &list);
    }
    for (uint32_t k = 0; k < more->count; k++)
        literals_add(c, &list, more->at[k]);
    return schema_value(c, &list);
}

static uint32_t item_separated(struct arrays *r, uint32_t i, uint32_t expr)
{
    return grammar_join(r->c->b, i > 0 ? r->comma : GRAMMAR_EMPTY, expr);
}

static uint32_t plain_items(struct arrays *r)
{
    struct grammar_builder *b = r->c->b;
    const struct literals none = {0};
    uint32_t first = r->prefix > 0 ? r->prefix : 1; // number of items before the repeat
    uint32_t *items = arena_alloc(r->c->arena, (first + 1) * sizeof *items), max = r->max;
    for (uint32_t i = 0; i <= first && i < max && !schema_failed(r->c); i++) {
        items[i] = item_expr(r, i, &none);
        if (items[i] == GRAMMAR_NOTHING && !schema_failed(r->c))
            max = i;
    }
    if (schema_failed(r->c) || r->min > max)
        return GRAMMAR_NOTHING;
    uint32_t tail = GRAMMAR_EMPTY;
    if (max > first) {
        uint32_t least = r->min > first ? r->min - first : 0;
        uint32_t most = max == GRAMMAR_UNBOUNDED ? max : max - first;
        tail = grammar_repeat(b, item_separated(r, first, items[first]), least, most);
    }
    for (uint32_t i = first < max ? first : max; i > 0; i--) {
        tail = grammar_join(b, item_separated(r, i - 1, items[i - 1]), tail);
        if (i - 1 >= r->min)
            tail = grammar_optional(b, tail);
    }
    return tail;
}

static uint32_t contained_cap(const struct contained *one)
{
    return one->max == GRAMMAR_UNBOUNDED ? one->min : one->max;
}

// Returns the transitions for the item at `place`: one for each subset of the `contains` schemas,
// which the item satisfies. counts: mixed-radix number of the items counted so far for each schema.
static uint32_t counted_step(struct arrays *r, uint32_t place, uint32_t counts)
{
    struct grammar_builder *b = r->c->b;
    uint32_t all = GRAMMAR_NOTHING;
    uint32_t next_place = place + 1 < r->places ? place + 1 : place;
    for (uint32_t subset = 0; subset < 1u << r->contains_count; subset++) {
        struct literals more = {0};
        uint32_t radix = 1, next = counts;
        bool can = true;
        for (uint32_t k = 0; k < r->contains_count; k++) {
            const struct contained *one = &r->contains[k];
            uint32_t cap = contained_cap(one), have = counts / radix % (cap + 1);
            bool counted = subset >> k & 1;
            if (counted) {
                can &= place >= one->from && (have < cap || one->max == GRAMMAR_UNBOUNDED);
                literals_add(r->c, &more, one->literal);
                next += have < cap ? radix : 0;
            } else if (one->max != GRAMMAR_UNBOUNDED && place >= one->from) {
                literals_add(r->c, &more, one->literal | LITERAL_NOT);
            }
            radix *= cap + 1;
        }
        if (!can || schema_failed(r->c))
            continue;
        uint32_t expr = item_separated(r, place, item_expr(r, place, &more));
        uint32_t to = r->refs[next_place * r->counts + next];
        all = grammar_either(b, grammar_join(b, expr, to), all);
    }
    return all;
}

static bool counts_end(const struct arrays *r, uint32_t counts)
{
    for (uint32_t k = 0; k < r->contains_count; k++) {
        uint32_t cap = contained_cap(&r->contains[k]);
        if (counts % (cap + 1) < r->contains[k].min)
            return false;
        counts /= cap + 1;
    }
    return true;
}

static uint32_t counted_items(struct arrays *r)
{
    struct grammar_builder *b = r->c->b;
    uint64_t places = r->prefix + 2, counts = 1;
    if (places < (uint64_t)r->min + 1)
        places = (uint64_t)r->min + 1;
    if (r->max != GRAMMAR_UNBOUNDED)
        places = (uint64_t)r->max + 1;
    for (uint32_t k = 0; k < r->contains_count; k++) {
        if (r->contains[k].min > r->contains[k].max)
            return GRAMMAR_NOTHING;
        counts *= (uint64_t)contained_cap(&r->contains[k]) + 1;
        if (counts * places > STATES_MAX)
            return schema_refuse(r->c, STATUS_UNSUPPORTED, r->contains[k].site, "contains",
                                 "the item limits are too large in combination with it");
    }
    r->places = (uint32_t)places;
    r->counts = (uint32_t)counts;
    uint32_t states = r->places * r->counts;
    r->refs = arena_alloc(r->c->arena, 2 * (size_t)states * sizeof *r->refs);
    r->rules = r->refs + states;
    for (uint32_t i = 0; i < states; i++)
        r->refs[i] = grammar_rule(b, text_of("items"), &r->rules[i]);
    for (uint32_t i = 0; i < states && !grammar_failed(b); i++) {
        uint32_t place = i / r->counts, body = GRAMMAR_NOTHING;
        if (place < r->max && !schema_failed(r->c))
            body = counted_step(r, place, i % r->counts);
        if (place >= r->min && counts_end(r, i % r->counts))
            body = grammar_optional(b, body);
        grammar_rule_set(b, r->rules[i], body);
    }
    return r->refs[0];
}

uint32_t array_text(struct schema *c, const struct alternative *a)
{
    struct arrays r = {.c = c, .max = GRAMMAR_UNBOUNDED};
    bool has_keyword = false;
    r.entry_count = alternative_entries(c, a, &r.entries);
    schema_spend(c, 600 * (uint64_t)r.entry_count);
    for (uint32_t i = 0; i < r.entry_count; i++) {
        static const char *const words[] = {"items",       "prefixItems",     "additionalItems",
                                            "minItems",    "maxItems",        "contains",
                                            "uniqueItems", "unevaluatedItems"};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            has_keyword |= schema_keyword(c, r.entries[i]->site, words[k]) != NULL;
        arrays_limits(&r, r.entries[i]->site);
        arrays_contains(&r, r.entries[i]->site);
    }
    if (!has_keyword)
        return c->any.array;
    if (schema_failed(c) || r.min > r.max)
        return GRAMMAR_NOTHING;
    r.comma = c->w->comma;
    uint32_t items = r.contains_count > 0 ? counted_items(&r) : plain_items(&r);
    if (r.unique > 0 && r.max > 1 && items != GRAMMAR_NOTHING)
        return schema_refuse(c, STATUS_UNSUPPORTED, r.unique - 1, "uniqueItems",
                             "no grammar can compare items");
    uint32_t parts[] = {c->w->array_open, items, c->w->array_close};
    return grammar_join_all(c->b, parts, 3);
}
