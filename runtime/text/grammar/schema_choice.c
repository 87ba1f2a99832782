// SPDX-License-Identifier: Apache-2.0
// Keywords that choose between subschemas: anyOf, oneOf, if, dependencies, and constants that are
// arrays or objects.
#include "runtime/text/grammar/schema_parts.h"

#include <string.h>

enum { SUBSETS_MAX = 5, ONE_OF_MAX = 500, CONSTANTS_MAX = 8 };

// Returns NULL, with an error, if there are too many options.
static struct literals *options_new(struct schema *c, size_t count)
{
    if (!schema_has_memory(c, count * sizeof(struct literals)))
        return NULL;
    return arena_alloc_zeroed(c->arena, count + 1, sizeof(struct literals));
}

static void option_put(struct schema *c, struct literals *option, uint32_t literal)
{
    option->at =
        arena_extend(c->arena, option->at, option->count, &option->capacity, sizeof *option->at);
    option->at[option->count++] = literal;
}

// Returns the subschemas of a list keyword as literals; NULL: there is none, or an error.
static uint32_t *list_literals(struct schema *c, uint32_t site, const char *keyword,
                               uint32_t *count)
{
    const json_t *list = schema_keyword(c, site, keyword);
    *count = (uint32_t)json_array_size(list);
    if (!list)
        return NULL;
    if (*count == 0) {
        schema_refuse(c, STATUS_INVALID, site, keyword,
                      json_is_array(list) ? "must not be empty" : "must be a list of schemas");
        return NULL;
    }
    uint32_t *out = arena_alloc(c->arena, *count * sizeof *out);
    for (uint32_t i = 0; i < *count && !schema_failed(c); i++)
        out[i] = schema_literal(c, site, keyword, json_array_get(list, i),
                                arena_format(c->arena, "%u", i));
    return schema_failed(c) ? NULL : out;
}

void choice_any_of(struct schema *c, struct alternative *a, const struct entry *e)
{
    uint32_t count;
    const uint32_t *all = list_literals(c, e->site, "anyOf", &count);
    if (!all)
        return;
    // It matters which options evaluate items or properties: one option per subset that may apply.
    bool subsets = c->unevaluated && !e->silent && count <= SUBSETS_MAX;
    if (c->unevaluated && !e->silent && !subsets) {
        schema_refuse(c, STATUS_UNSUPPORTED, e->site, "anyOf",
                      "more than five schemas cannot be combined with unevaluated keywords");
        return;
    }
    uint32_t options = subsets ? (1u << count) - 1 : count;
    struct literals *list = options_new(c, options);
    for (uint32_t i = 0; i < options && list; i++)
        for (uint32_t k = 0; k < count; k++)
            if (subsets ? (i + 1) >> k & 1 : i == k)
                option_put(c, &list[i], all[k]);
    alternative_fork(c, a, list, options, e, e->silent);
}

// Returns the site of a literal, or the target of its $ref.
static uint32_t plain_site(struct schema *c, uint32_t literal)
{
    uint32_t site = literal / LITERAL_SITE;
    for (int i = 0; i < 4 && schema_keyword(c, site, "$ref") && !schema_failed(c); i++)
        site = schema_resolve(c, site, "$ref");
    return schema_failed(c) ? literal / LITERAL_SITE : site;
}

static bool
    requires(struct schema *c, uint32_t site, struct text key)
{
    const json_t *list = schema_keyword(c, site, "required");
    schema_spend(c, 4 * json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *name = json_array_get(list, i);
        if (json_is_string(name) &&
            text_equal(text_span(json_string_value(name), json_string_length(name)), key))
            return true;
    }
    return false;
}

// Returns the number of values of `const` or `enum`, at most CONSTANTS_MAX; 0: unknown. Draft 7
// ignores keywords next to $ref.
static size_t constants_of(const struct schema *c, const json_t *schema, const json_t **out)
{
    const json_t *one = json_object_get(schema, "const"), *many = json_object_get(schema, "enum");
    size_t count = one ? 1 : json_array_size(many);
    if (count > CONSTANTS_MAX || (c->draft7 && json_is_string(json_object_get(schema, "$ref"))))
        return 0;
    for (size_t i = 0; i < count; i++)
        out[i] = one ? one : json_array_get(many, i);
    return count;
}

// Numbers are compared by value: 1 equals 1.0.
static bool scalars_differ(const json_t *x, const json_t *y)
{
    if (json_is_number(x) && json_is_number(y))
        return json_number_value(x) != json_number_value(y);
    return !((value_types(x) | value_types(y)) & (TYPE_ARRAY | TYPE_OBJECT)) && !json_equal(x, y);
}

// Returns true if both schemas have constants, all of them scalars, and share none.
static bool constants_differ(struct schema *c, const json_t *one, const json_t *other)
{
    const json_t *x[CONSTANTS_MAX], *y[CONSTANTS_MAX];
    size_t own = constants_of(c, one, x), others = constants_of(c, other, y);
    bool differ = own > 0 && others > 0 && schema_spend(c, 10 * own * others);
    for (size_t i = 0; i < own && differ; i++)
        for (size_t k = 0; k < others && differ; k++)
            differ = scalars_differ(x[i], y[k]);
    return differ;
}

// Returns true if two subschemas obviously share no value, which distinguishes most unions without
// compiling them: within the types in `around` they have no common type, or their constants differ,
// or both are only objects and the constants of a required key differ.
static bool are_told_apart(struct schema *c, uint32_t around, uint32_t one, uint32_t other)
{
    uint32_t x = plain_site(c, one), y = plain_site(c, other);
    if (!json_is_object(c->sites[x].value) || !json_is_object(c->sites[y].value) ||
        !grammar_spend(c->b, 100))
        return false;
    uint32_t types = around & schema_types(c, x) & schema_types(c, y);
    json_t *map = (json_t *)(uintptr_t)schema_keyword(c, x, "properties");
    const json_t *others = schema_keyword(c, y, "properties");
    for (void *at = json_object_iter(map); at && types == TYPE_OBJECT && json_is_object(others);
         at = json_object_iter_next(map, at)) {
        struct text key = schema_key(at);
        if (grammar_spend(c->b, 20) &&
            constants_differ(c, json_object_iter_value(at), schema_member(others, key)) &&
            (requires(c, x, key) || requires(c, y, key)))
            return true;
    }
    bool apart = types == 0 || constants_differ(c, c->sites[x].value, c->sites[y].value);
    return apart && !schema_failed(c);
}

// Returns true if no value satisfies both, given the keywords of the enclosing entries. Entries
// with unevaluated* keywords are left out, because the set does not contain what is below them.
static bool are_disjoint(struct schema *c, const struct entry *e, uint32_t around, uint32_t one,
                         uint32_t other)
{
    struct literals list = {0};
    if (are_told_apart(c, around, one, other))
        return true;
    for (const struct entry *up = e; up; up = up->parent)
        if (!schema_keyword(c, up->site, "unevaluatedItems") &&
            !schema_keyword(c, up->site, "unevaluatedProperties"))
            literals_add(c, &list, up->site * LITERAL_SITE | LITERAL_PLAIN);
    literals_add(c, &list, one);
    literals_add(c, &list, other);
    return list.count > 0 && schema_is_empty(c, &list);
}

void choice_one_of(struct schema *c, struct alternative *a, const struct entry *e)
{
    uint32_t count;
    const uint32_t *all = list_literals(c, e->site, "oneOf", &count);
    if (!all)
        return;
    if (count > ONE_OF_MAX) {
        schema_refuse(c, STATUS_TOO_LARGE, e->site, "oneOf", "has more than 500 schemas");
        return;
    }
    struct literals *list = options_new(c, count);
    for (uint32_t i = 0; i < count && list; i++)
        option_put(c, &list[i], all[i]);
    uint32_t around = TYPE_ANY;
    for (const struct entry *up = e; up; up = up->parent)
        around &= schema_types(c, up->site);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count && !schema_failed(c); k++)
            if (!are_disjoint(c, e, around, all[i], all[k])) {
                option_put(c, &list[i], all[k] | LITERAL_NOT);
                option_put(c, &list[k], all[i] | LITERAL_NOT);
            }
    alternative_fork(c, a, list, count, e, e->silent);
}

void choice_if(struct schema *c, struct alternative *a, const struct entry *e)
{
    static const char *const parts[] = {"if", "then", "else"};
    uint32_t literals[3] = {0};
    const json_t *values[3];
    for (int i = 0; i < 3; i++) {
        values[i] = schema_keyword(c, e->site, parts[i]);
        if (values[0] && values[i] && !schema_failed(c))
            literals[i] = schema_literal(c, e->site, parts[i], values[i], (struct text){NULL, 0});
    }
    if (!values[0] || schema_failed(c) || (!values[1] && !values[2] && !c->unevaluated))
        return;
    struct literals *list = options_new(c, 2);
    if (!list)
        return;
    option_put(c, &list[0], literals[0]);
    if (values[1])
        option_put(c, &list[0], literals[1]);
    option_put(c, &list[1], literals[0] | LITERAL_NOT);
    if (values[2])
        option_put(c, &list[1], literals[2]);
    alternative_fork(c, a, list, 2, e, e->silent);
}

static json_t *json_shared(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

static json_t *member_of(struct text key, json_t *value)
{
    json_t *object = json_object();
    json_object_setn_new(object, key.at, key.bytes, value);
    return object;
}

// A choice: the key is absent, or the schema applies (or the names are present).
static void branch_depend(struct schema *c, struct alternative *a, const struct entry *e,
                          const char *keyword, struct text key, const json_t *value)
{
    struct literals *list = options_new(c, 2);
    if (!schema_spend_values(c, 6 + key.bytes / 100 + json_array_size(value) / 32) || !list)
        return;
    json_t *name = json_stringn(key.at, key.bytes);
    uint32_t absent =
        schema_make(c, json_pack("{s:o}", "properties", member_of(key, json_false())), e->site);
    option_put(c, &list[0], absent * LITERAL_SITE);
    if (json_is_array(value)) {
        json_t *names = json_copy((json_t *)(uintptr_t)value);
        json_array_append_new(names, name);
        uint32_t site = schema_make(c, json_pack("{s:o}", "required", names), e->site);
        option_put(c, &list[1], site * LITERAL_SITE);
    } else {
        uint32_t site =
            schema_make(c, json_pack("{s:s,s:[o]}", "type", "object", "required", name), e->site);
        option_put(c, &list[1], site * LITERAL_SITE);
        option_put(c, &list[1], schema_literal(c, e->site, keyword, value, key));
    }
    alternative_fork(c, a, list, 2, e, e->silent);
}

void choice_dependencies(struct schema *c, struct alternative *a, const struct entry *e)
{
    static const char *const keywords[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    for (int i = 0; i < 3; i++) {
        json_t *map = (json_t *)(uintptr_t)schema_keyword(c, e->site, keywords[i]);
        if (map && !json_is_object(map))
            schema_refuse(c, STATUS_INVALID, e->site, keywords[i], "must be an object");
        void *at = json_object_iter(map);
        for (; at && !schema_failed(c); at = json_object_iter_next(map, at)) {
            const json_t *value = json_object_iter_value(at);
            if (json_is_array(value) ? i == 2 : i == 1)
                schema_refuse(c, STATUS_INVALID, e->site, keywords[i], "has a malformed member");
            branch_depend(c, a, e, keywords[i], schema_key(at), value);
        }
    }
}

uint32_t schema_constant(struct schema *c, const json_t *value, uint32_t owner)
{
    if (!schema_spend_values(c, 4 + json_array_size(value) + json_object_size(value)))
        return owner;
    if (json_is_array(value)) {
        json_t *items = json_array();
        for (size_t i = 0; i < json_array_size(value); i++)
            json_array_append_new(
                items, json_pack("{s:o}", "const", json_shared(json_array_get(value, i))));
        json_int_t count = (json_int_t)json_array_size(value);
        return schema_make(c,
                           json_pack("{s:s,s:o,s:b,s:I,s:I}", "type", "array", "prefixItems", items,
                                     "items", 0, "minItems", count, "maxItems", count),
                           owner);
    }
    json_t *properties = json_object(), *required = json_array();
    void *at = json_object_iter((json_t *)(uintptr_t)value);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)value, at)) {
        struct text key = schema_key(at);
        json_array_append_new(required, json_stringn(key.at, key.bytes));
        json_object_setn_new(properties, key.at, key.bytes,
                             json_pack("{s:o}", "const", json_shared(json_object_iter_value(at))));
    }
    return schema_make(c,
                       json_pack("{s:s,s:o,s:o,s:b}", "type", "object", "properties", properties,
                                 "required", required, "additionalProperties", 0),
                       owner);
}

// Scalars are handled by their types; each array or object is a separate option.
void choice_constants(struct schema *c, struct alternative *a, const struct entry *e)
{
    const json_t *one = schema_keyword(c, e->site, "const");
    const json_t *many = schema_keyword(c, e->site, "enum");
    if (one && (json_is_array(one) || json_is_object(one)))
        alternative_add(c, a, schema_constant(c, one, e->site) * LITERAL_SITE, e, true);
    size_t count = json_array_size(many), deep = 0;
    for (size_t i = 0; i < count; i++)
        deep += json_is_array(json_array_get(many, i)) || json_is_object(json_array_get(many, i));
    if (deep == 0 || !(a->types & (TYPE_ARRAY | TYPE_OBJECT)) || !schema_spend(c, 2 * count))
        return;
    struct literals *list = options_new(c, deep + 1);
    uint32_t options = 0;
    for (size_t i = 0; i < count && !schema_failed(c); i++) {
        const json_t *value = json_array_get(many, i);
        if (value_types(value) & a->types & (TYPE_ARRAY | TYPE_OBJECT))
            option_put(c, &list[options++], schema_constant(c, value, e->site) * LITERAL_SITE);
    }
    if (deep < count && !schema_failed(c)) {
        json_t *scalars = json_pack("{s:[s,s,s,s]}", "type", "null", "boolean", "number", "string");
        option_put(c, &list[options++], schema_make(c, scalars, e->site) * LITERAL_SITE);
    }
    alternative_fork(c, a, list, options, e, true);
}
