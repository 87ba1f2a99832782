// SPDX-License-Identifier: Apache-2.0
// Splits sets of literals into alternatives: collects the subschemas that apply, and splits at
// keywords that choose. Alternatives are values whose lists share what was added before a split.
#include "runtime/text/grammar/schema_parts.h"

#include <math.h>
#include <string.h>

struct fork {
    const struct fork *next;
    const struct literals *options;
    const struct entry *parent;
    uint32_t count, number;
    bool silent;
};

enum { ALTERNATIVE_WORK = 2000 };

bool entry_is_under(const struct entry *e, const struct entry *ancestor)
{
    while (e && e != ancestor)
        e = e->parent;
    return e;
}

uint32_t alternative_entries(struct schema *c, const struct alternative *a,
                             const struct entry ***out)
{
    uint32_t count = 0;
    for (const struct entry *e = a->entries; e; e = e->next)
        count++;
    schema_spend(c, 2 * (uint64_t)count);
    const struct entry **list = arena_alloc(c->arena, (count + 1) * sizeof(void *));
    uint32_t at = count;
    for (const struct entry *e = a->entries; e; e = e->next)
        list[--at] = e;
    *out = list;
    return count;
}

uint32_t value_types(const json_t *value)
{
    int64_t integer;
    switch (json_typeof(value)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
        return TYPE_TRUE;
    case JSON_FALSE:
        return TYPE_FALSE;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL: {
        double real = json_real_value(value);
        bool whole = json_integer_exact(value, &integer) || fabs(real) >= 0x1p53;
        return whole ? TYPE_INTEGER : TYPE_FRACTION;
    }
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}

static uint32_t type_named(struct schema *c, uint32_t site, const json_t *name)
{
    static const struct {
        const char *name;
        uint32_t types;
    } known[] = {{"null", TYPE_NULL},       {"boolean", TYPE_TRUE | TYPE_FALSE},
                 {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER},
                 {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof known / sizeof *known && json_is_string(name); i++)
        if (strcmp(json_string_value(name), known[i].name) == 0)
            return known[i].types;
    schema_refuse(c, STATUS_INVALID, site, "type", "must name types of JSON");
    return 0;
}

static uint32_t types_of_all(const json_t *values)
{
    uint32_t types = 0;
    for (size_t i = 0; i < json_array_size(values); i++)
        types |= value_types(json_array_get(values, i));
    return types;
}

uint32_t schema_types(struct schema *c, uint32_t site)
{
    const json_t *type = schema_keyword(c, site, "type");
    const json_t *values = schema_keyword(c, site, "enum");
    const json_t *value = schema_keyword(c, site, "const");
    const json_t *excluded = schema_keyword(c, site, "!enum");
    uint32_t types = TYPE_ANY;
    if (!schema_spend(c, 20 + 2 * (uint64_t)(json_array_size(type) + json_array_size(values) +
                                             json_array_size(excluded))))
        return 0;
    if (type && !json_is_array(type))
        types = type_named(c, site, type);
    if (json_is_array(type)) {
        types = 0;
        for (size_t i = 0; i < json_array_size(type); i++)
            types |= type_named(c, site, json_array_get(type, i));
    }
    if (values && !json_is_array(values))
        return schema_refuse(c, STATUS_INVALID, site, "enum", "must be a list");
    if (values)
        types &= types_of_all(values);
    if (value)
        types &= value_types(value);
    if (schema_keyword(c, site, "!types"))
        types &= (uint32_t)json_integer_value(schema_keyword(c, site, "!types"));
    return types & ~(types_of_all(excluded) & (TYPE_NULL | TYPE_TRUE | TYPE_FALSE));
}

// Adds the target of a $ref or $dynamicRef.
static void branch_follow(struct schema *c, struct alternative *a, const struct entry *e,
                          const char *keyword)
{
    if (!schema_keyword(c, e->site, keyword))
        return;
    uint32_t site = schema_resolve(c, e->site, keyword);
    if (!schema_failed(c))
        alternative_add(c, a, site * LITERAL_SITE, e, e->silent);
}

static void add_all_of(struct schema *c, struct alternative *a, const struct entry *e)
{
    const json_t *list = schema_keyword(c, e->site, "allOf");
    if (list && !json_is_array(list))
        schema_refuse(c, STATUS_INVALID, e->site, "allOf", "must be a list of schemas");
    for (size_t i = 0; i < json_array_size(list) && !schema_failed(c); i++)
        alternative_add(c, a,
                        schema_literal(c, e->site, "allOf", json_array_get(list, i),
                                       arena_format(c->arena, "%zu", i)),
                        e, e->silent);
}

static void add_in_place(struct schema *c, struct alternative *a, const struct entry *e)
{
    const struct text none = {NULL, 0};
    const json_t *not = schema_keyword(c, e->site, "not");
    if (schema_keyword(c, e->site, "$recursiveRef"))
        schema_refuse(c, STATUS_UNSUPPORTED, e->site, "$recursiveRef", "use $ref");
    branch_follow(c, a, e, "$ref");
    branch_follow(c, a, e, "$dynamicRef");
    add_all_of(c, a, e);
    if (not&&!schema_failed(c))
        alternative_add(c, a, schema_literal(c, e->site, "not", not, none) | LITERAL_NOT, e, true);
    choice_any_of(c, a, e);
    choice_one_of(c, a, e);
    choice_if(c, a, e);
    choice_dependencies(c, a, e);
}

static bool is_there(struct schema *c, const struct alternative *a, uint32_t site,
                     const struct entry *parent)
{
    uint64_t seen = 0;
    bool found = false;
    for (const struct entry *e = a->entries; e && !found; e = e->next, seen++) {
        found = e->site == site && (!c->unevaluated || entry_is_under(parent, e));
        seen += e->site == site && c->unevaluated ? c->nesting : 0;
    }
    schema_spend(c, seen);
    return found;
}

static void add_negated(struct schema *c, struct alternative *a, uint32_t site)
{
    uint64_t seen = 20;
    for (const struct entry *e = a->negated; e; e = e->next, seen++)
        if (e->site == site)
            return;
    if (!schema_spend(c, seen) || !schema_enter(c, site))
        return;
    struct entry *e = arena_alloc(c->arena, sizeof *e);
    *e = (struct entry){.next = a->negated, .site = site, .silent = true};
    a->negated = e;
    schema_negate(c, a, site);
    c->nesting--;
}

void alternative_add(struct schema *c, struct alternative *a, uint32_t literal,
                     const struct entry *parent, bool silent)
{
    uint32_t site = literal / LITERAL_SITE;
    const json_t *value = c->sites[site].value;
    if (schema_failed(c) || a->types == 0)
        return;
    if (json_is_boolean(value)) {
        if (json_is_true(value) == !!(literal & LITERAL_NOT))
            a->types = 0;
        return;
    }
    if (literal & LITERAL_NOT) {
        add_negated(c, a, site);
        return;
    }
    if (is_there(c, a, site, parent) || !schema_spend(c, 100) || !schema_enter(c, site))
        return;
    struct entry *e = arena_alloc(c->arena, sizeof *e);
    *e = (struct entry){.next = a->entries, .parent = parent, .site = site, .silent = silent};
    a->entries = e;
    a->types &= schema_types(c, site);
    choice_constants(c, a, e);
    if (!(literal & LITERAL_PLAIN))
        add_in_place(c, a, e);
    c->nesting--;
}

void alternative_fork(struct schema *c, struct alternative *a, const struct literals *options,
                      uint32_t count, const struct entry *parent, bool silent)
{
    if (schema_failed(c) || a->types == 0)
        return;
    if (count == 0) {
        a->types = 0;
    } else if (count == 1) {
        for (uint32_t i = 0; i < options[0].count; i++)
            alternative_add(c, a, options[0].at[i], parent, silent);
    } else {
        struct fork *fork = arena_alloc(c->arena, sizeof *fork);
        *fork = (struct fork){a->forks, options, parent, count, 0, silent};
        fork->number = a->forks ? a->forks->number + 1 : 0;
        a->forks = fork;
    }
}

// Makes the oldest remaining choice with each of its options, or calls use if none remains.
static void branch_expand(struct schema *c, const struct alternative *a, alternative_use use,
                          void *context)
{
    if (schema_failed(c) || a->types == 0)
        return;
    const struct fork *fork = a->forks;
    if (!schema_spend(c, ALTERNATIVE_WORK))
        return;
    if (!fork || fork->number < a->fork_count) {
        struct alternative ready = *a;
        use(c, &ready, context);
        return;
    }
    uint64_t seen = 0;
    for (; fork->number > a->fork_count; seen++)
        fork = fork->next;
    if (!schema_spend(c, seen) || !schema_enter(c, fork->parent ? fork->parent->site : 0))
        return;
    for (uint32_t i = 0; i < fork->count; i++) {
        struct alternative one = *a;
        one.fork_count++;
        for (uint32_t k = 0; k < fork->options[i].count; k++)
            alternative_add(c, &one, fork->options[i].at[k], fork->parent, fork->silent);
        branch_expand(c, &one, use, context);
    }
    c->nesting--;
}

void schema_alternatives(struct schema *c, const struct literals *list, alternative_use use,
                         void *context)
{
    struct alternative a = {.types = TYPE_ANY};
    for (uint32_t i = 0; i < list->count; i++)
        alternative_add(c, &a, list->at[i], NULL, false);
    branch_expand(c, &a, use, context);
}
