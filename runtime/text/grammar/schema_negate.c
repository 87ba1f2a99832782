// SPDX-License-Identifier: Apache-2.0
// The negation of a schema: a value violates it if it violates one of its keywords, so each keyword
// adds options of a choice. Most options are written as schemas. Those that draft 2020-12 cannot
// express use private keywords that begin with ! and only count in schemas created by the compiler:
//   !types: bits of TYPE_*;
//   !enum, !pattern, !format, !multipleOf: the negations of these keywords;
//   !from: contains only counts items from this index on;
//   !extra: some member has a value of this schema, and its key is not covered by the properties
//   and patterns of !of, or matches !match, or is in !names.
#include "runtime/text/grammar/schema_parts.h"

#include <string.h>

struct options {
    struct schema *c;
    uint32_t site;
    struct literals *at; // literals of each option
    uint32_t count;
    size_t capacity;
};

static struct literals *option_new(struct options *o)
{
    o->at = arena_extend(o->c->arena, o->at, o->count, &o->capacity, sizeof *o->at);
    memset(&o->at[o->count], 0, sizeof *o->at);
    return &o->at[o->count++];
}

static void option_put(struct options *o, struct literals *option, uint32_t literal)
{
    option->at =
        arena_extend(o->c->arena, option->at, option->count, &option->capacity, sizeof *option->at);
    option->at[option->count++] = literal;
}

static void option_put_schema(struct options *o, json_t *schema)
{
    option_put(o, option_new(o), schema_make(o->c, schema, o->site) * LITERAL_SITE);
}

static json_t *json_shared(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

static json_t *schema_negation(const json_t *schema)
{
    return json_pack("{s:o}", "not", json_shared(schema));
}

static const json_t *keyword_get(const struct options *o, const char *keyword)
{
    return schema_keyword(o->c, o->site, keyword);
}

static uint32_t literal_of(struct options *o, const char *keyword, const json_t *value)
{
    return schema_literal(o->c, o->site, keyword, value, (struct text){NULL, 0});
}

// Adds the negation of a minimum count as a maximum of one less, or the reverse.
static void count_negate(struct options *o, const char *keyword, const char *type,
                         const char *opposite, bool least)
{
    uint32_t count;
    const json_t *value = keyword_get(o, keyword);
    if (!value || !schema_count(o->c, o->site, keyword, value, &count) || (least && count == 0))
        return;
    json_int_t other = (json_int_t)count + (least ? -1 : 1);
    option_put_schema(o, json_pack("{s:s,s:I}", "type", type, opposite, other));
}

static void keyword_swap(struct options *o, const char *keyword, const char *type,
                         const char *opposite)
{
    const json_t *value = keyword_get(o, keyword);
    if (value)
        option_put_schema(o, json_pack("{s:s,s:o}", "type", type, opposite, json_shared(value)));
}

// Negates a limit, which excludes its value if the keyword next to it is true, as in draft 4.
static void negate_limit(struct options *o, const char *keyword, const char *exclusive,
                         const char *opposite, const char *opposite_exclusive)
{
    const json_t *other = keyword_get(o, exclusive);
    keyword_swap(o, keyword, "number", json_is_true(other) ? opposite : opposite_exclusive);
    if (!json_is_boolean(other))
        keyword_swap(o, exclusive, "number", opposite);
}

static void negate_constants(struct options *o, const json_t *values)
{
    if (!values)
        return;
    struct literals *option = option_new(o);
    option_put(o, option,
               schema_make(o->c, json_pack("{s:o}", "!enum", json_shared(values)), o->site) *
                   LITERAL_SITE);
    for (size_t i = 0; i < json_array_size(values) && schema_spend(o->c, 4); i++) {
        const json_t *value = json_array_get(values, i);
        if (json_is_array(value) || json_is_object(value))
            option_put(o, option,
                       schema_constant(o->c, value, o->site) * LITERAL_SITE | LITERAL_NOT);
    }
}

static void negate_scalars(struct options *o)
{
    const json_t *one = keyword_get(o, "const");
    uint32_t types = 0, site = o->site;
    if (keyword_get(o, "type")) {
        uint32_t only = schema_make(
            o->c, json_pack("{s:o}", "type", json_shared(keyword_get(o, "type"))), site);
        types = schema_types(o->c, only) ^ TYPE_ANY;
        option_put_schema(o, json_pack("{s:I}", "!types", (json_int_t)types));
    }
    if (one) {
        json_t *values = json_pack("[o]", json_shared(one));
        json_array_append_new(o->c->made, values);
        negate_constants(o, values);
    }
    negate_constants(o, keyword_get(o, "enum"));
    count_negate(o, "minLength", "string", "maxLength", true);
    count_negate(o, "maxLength", "string", "minLength", false);
    count_negate(o, "minItems", "array", "maxItems", true);
    count_negate(o, "maxItems", "array", "minItems", false);
    count_negate(o, "minProperties", "object", "maxProperties", true);
    count_negate(o, "maxProperties", "object", "minProperties", false);
    keyword_swap(o, "pattern", "string", "!pattern");
    keyword_swap(o, "format", "string", "!format");
    negate_limit(o, "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum");
    negate_limit(o, "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum");
    keyword_swap(o, "multipleOf", "number", "!multipleOf");
}

// Adds one option per schema of a list: the item at its position violates it.
static void negate_prefix(struct options *o, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && schema_spend_values(o->c, 4 + i / 8); i++) {
        json_t *items = json_array();
        for (size_t k = 0; k < i; k++)
            json_array_append_new(items, json_true());
        json_array_append_new(items, schema_negation(json_array_get(list, i)));
        option_put_schema(o, json_pack("{s:s,s:I,s:o}", "type", "array", "minItems",
                                       (json_int_t)(i + 1), "prefixItems", items));
    }
}

static void items_from(struct options *o, const json_t *schema, size_t from)
{
    if (schema)
        option_put_schema(o, json_pack("{s:s,s:o,s:I}", "type", "array", "contains",
                                       schema_negation(schema), "!from", (json_int_t)from));
}

static void negate_contained(struct options *o)
{
    const json_t *schema = keyword_get(o, "contains"), *low = keyword_get(o, "minContains"),
                 *high = keyword_get(o, "maxContains");
    uint32_t min = 1, max = 0;
    if (!schema || (low && !schema_count(o->c, o->site, "minContains", low, &min)) ||
        (high && !schema_count(o->c, o->site, "maxContains", high, &max)))
        return;
    if (min == 1)
        option_put_schema(
            o, json_pack("{s:s,s:o}", "type", "array", "items", schema_negation(schema)));
    if (min > 1)
        option_put_schema(o, json_pack("{s:s,s:o,s:i,s:I}", "type", "array", "contains",
                                       json_shared(schema), "minContains", 0, "maxContains",
                                       (json_int_t)min - 1));
    if (high)
        option_put_schema(o, json_pack("{s:s,s:o,s:I}", "type", "array", "contains",
                                       json_shared(schema), "minContains", (json_int_t)max + 1));
}

static void negate_arrays(struct options *o)
{
    const json_t *items = keyword_get(o, "items"), *first = keyword_get(o, "prefixItems");
    negate_prefix(o, first);
    if (json_is_array(items)) {
        negate_prefix(o, items);
        items_from(o, keyword_get(o, "additionalItems"), json_array_size(items));
    } else {
        items_from(o, items, json_array_size(first));
    }
    negate_contained(o);
    if (json_is_true(keyword_get(o, "uniqueItems")))
        schema_refuse(o->c, STATUS_UNSUPPORTED, o->site, "uniqueItems", "under a negation");
}

static json_t *with_key(struct text key, json_t *value)
{
    json_t *object = json_object();
    json_object_setn_new(object, key.at, key.bytes, value);
    return object;
}

static void negate_members(struct options *o)
{
    json_t *map = (json_t *)(uintptr_t)keyword_get(o, "properties");
    for (void *at = json_object_iter(map); at && schema_spend_values(o->c, 5);
         at = json_object_iter_next(map, at)) {
        struct text key = schema_key(at);
        schema_spend_values(o->c, key.bytes / 100);
        json_t *properties = with_key(key, schema_negation(json_object_iter_value(at)));
        option_put_schema(o, json_pack("{s:s,s:o,s:[o]}", "type", "object", "properties",
                                       properties, "required", json_stringn(key.at, key.bytes)));
    }
    const json_t *required = keyword_get(o, "required");
    for (size_t i = 0; i < json_array_size(required) && schema_spend_values(o->c, 3); i++) {
        const json_t *name = json_array_get(required, i);
        struct text key = text_span(json_string_value(name), json_string_length(name));
        if (key.at)
            option_put_schema(o, json_pack("{s:s,s:o}", "type", "object", "properties",
                                           with_key(key, json_false())));
    }
}

static void negate_extras(struct options *o)
{
    const json_t *other = keyword_get(o, "additionalProperties"),
                 *names = keyword_get(o, "propertyNames");
    if (other)
        option_put_schema(o, json_pack("{s:s,s:o,s:O}", "type", "object", "!extra",
                                       schema_negation(other), "!of", o->c->sites[o->site].value));
    if (names)
        option_put_schema(o, json_pack("{s:s,s:b,s:o}", "type", "object", "!extra", 1, "!names",
                                       schema_negation(names)));
    json_t *map = (json_t *)(uintptr_t)keyword_get(o, "patternProperties");
    for (void *at = json_object_iter(map); at && schema_spend_values(o->c, 4);
         at = json_object_iter_next(map, at)) {
        struct text key = schema_key(at);
        schema_spend_values(o->c, key.bytes / 100);
        option_put_schema(o, json_pack("{s:s,s:o,s:o}", "type", "object", "!extra",
                                       schema_negation(json_object_iter_value(at)), "!match",
                                       json_stringn(key.at, key.bytes)));
    }
}

static void negate_dependencies(struct options *o)
{
    static const char *const keywords[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    for (int i = 0; i < 3; i++) {
        json_t *map = (json_t *)(uintptr_t)keyword_get(o, keywords[i]);
        for (void *at = json_object_iter(map); at && schema_spend_values(o->c, 4);
             at = json_object_iter_next(map, at)) {
            struct text key = schema_key(at);
            schema_spend_values(o->c, key.bytes / 100);
            const json_t *value = json_object_iter_value(at);
            json_t *name = json_stringn(key.at, key.bytes);
            uint32_t there = schema_make(
                o->c, json_pack("{s:s,s:[o]}", "type", "object", "required", name), o->site);
            bool list = json_is_array(value);
            uint32_t holds =
                list ? schema_make(o->c, json_pack("{s:o}", "required", json_shared(value)),
                                   o->site) *
                           LITERAL_SITE
                     : literal_of(o, keywords[i], value);
            struct literals *option = option_new(o);
            option_put(o, option, there * LITERAL_SITE);
            option_put(o, option, holds | LITERAL_NOT);
        }
    }
}

static void negate_choices(struct options *o)
{
    const json_t *all = keyword_get(o, "allOf"), *any = keyword_get(o, "anyOf"),
                 *one = keyword_get(o, "oneOf");
    for (size_t i = 0; i < json_array_size(all); i++)
        option_put(o, option_new(o), literal_of(o, "allOf", json_array_get(all, i)) | LITERAL_NOT);
    for (int k = 0; k < 2; k++) { // none of them is satisfied
        const json_t *list = k == 0 ? any : one;
        struct literals *option = list ? option_new(o) : NULL;
        for (size_t i = 0; i < json_array_size(list); i++)
            option_put(o, option,
                       literal_of(o, k == 0 ? "anyOf" : "oneOf", json_array_get(list, i)) |
                           LITERAL_NOT);
    }
    for (size_t i = 0; i < json_array_size(one); i++)
        for (size_t k = i + 1; k < json_array_size(one) && schema_spend(o->c, 40); k++) {
            struct literals *option = option_new(o);
            option_put(o, option, literal_of(o, "oneOf", json_array_get(one, i)));
            option_put(o, option, literal_of(o, "oneOf", json_array_get(one, k)));
        }
}

static void negate_others(struct options *o)
{
    static const char *const refs[] = {"$ref", "$dynamicRef"};
    static const char *const never[] = {"unevaluatedItems", "unevaluatedProperties",
                                        "$recursiveRef"};
    const json_t *when = keyword_get(o, "if"), *not = keyword_get(o, "not");
    for (int i = 0; i < 2; i++)
        if (keyword_get(o, refs[i])) {
            uint32_t site = schema_resolve(o->c, o->site, refs[i]);
            option_put(o, option_new(o), site * LITERAL_SITE | LITERAL_NOT);
        }
    for (int i = 0; i < 3; i++)
        if (keyword_get(o, never[i]))
            schema_refuse(o->c, STATUS_UNSUPPORTED, o->site, never[i], "under a negation");
    for (int i = 0; i < 2 && when; i++) {
        const json_t *then = keyword_get(o, i == 0 ? "then" : "else");
        if (!then)
            continue;
        struct literals *option = option_new(o);
        option_put(o, option, literal_of(o, "if", when) | (i == 0 ? 0 : LITERAL_NOT));
        option_put(o, option, literal_of(o, i == 0 ? "then" : "else", then) | LITERAL_NOT);
    }
    if (not)
        option_put(o, option_new(o), literal_of(o, "not", not));
}

// Negates the private keywords.
static void negate_own(struct options *o)
{
    static const char *const turns[][2] = {
        {"!pattern", "pattern"}, {"!format", "format"}, {"!multipleOf", "multipleOf"}};
    const json_t *types = keyword_get(o, "!types");
    for (int i = 0; i < 3; i++)
        if (keyword_get(o, turns[i][0]))
            option_put_schema(
                o, json_pack("{s:o}", turns[i][1], json_shared(keyword_get(o, turns[i][0]))));
    if (types)
        option_put_schema(
            o, json_pack("{s:I}", "!types", json_integer_value(types) ^ (json_int_t)TYPE_ANY));
    if (keyword_get(o, "!enum"))
        option_put_schema(o, json_pack("{s:o}", "enum", json_shared(keyword_get(o, "!enum"))));
    if (keyword_get(o, "!extra") || keyword_get(o, "!from"))
        schema_refuse(o->c, STATUS_UNSUPPORTED, o->site, "not", "nested too deep");
}

void schema_negate(struct schema *c, struct alternative *a, uint32_t site)
{
    struct options o = {.c = c, .site = site};
    negate_scalars(&o);
    negate_arrays(&o);
    negate_members(&o);
    negate_extras(&o);
    negate_choices(&o);
    negate_dependencies(&o);
    negate_others(&o);
    negate_own(&o);
    // Removes impossible options, such as an array option if the type is string.
    uint32_t kept = 0;
    for (uint32_t i = 0; i < o.count && !schema_failed(c); i++) {
        uint32_t first = o.at[i].at ? o.at[i].at[0] : 0;
        const json_t *value = c->sites[first / LITERAL_SITE].value;
        bool can = first & LITERAL_NOT || !json_is_object(value) ||
                   schema_types(c, first / LITERAL_SITE) & a->types;
        if (can)
            o.at[kept++] = o.at[i];
    }
    alternative_fork(c, a, o.at, kept, NULL, true);
}
