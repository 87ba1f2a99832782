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

static void put(struct options *o, struct literals *option, uint32_t literal)
{
    option->at =
        arena_extend(o->c->arena, option->at, option->count, &option->capacity, sizeof *option->at);
    option->at[option->count++] = literal;
}

static void put_made(struct options *o, json_t *schema)
{
    put(o, option_new(o), schema_make(o->c, schema, o->site) * LITERAL_SITE);
}

static json_t *shared(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

static json_t *negation(const json_t *schema)
{
    return json_pack("{s:o}", "not", shared(schema));
}

static const json_t *get(const struct options *o, const char *keyword)
{
    return schema_keyword(o->c, o->site, keyword);
}

static uint32_t sub(struct options *o, const char *keyword, const json_t *value)
{
    return schema_literal(o->c, o->site, keyword, value, (struct text){NULL, 0});
}

// Adds the negation of a minimum count as a maximum of one less, or the reverse.
static void count_turned(struct options *o, const char *keyword, const char *type, const char *turn,
                         bool least)
{
    uint32_t count;
    const json_t *value = get(o, keyword);
    if (!value || !schema_count(o->c, o->site, keyword, value, &count) || (least && count == 0))
        return;
    json_int_t other = (json_int_t)count + (least ? -1 : 1);
    put_made(o, json_pack("{s:s,s:I}", "type", type, turn, other));
}

static void swapped(struct options *o, const char *keyword, const char *type, const char *turn)
{
    const json_t *value = get(o, keyword);
    if (value)
        put_made(o, json_pack("{s:s,s:o}", "type", type, turn, shared(value)));
}

// Negates a limit, which excludes its value if the keyword next to it is true, as in draft 4.
static void limit(struct options *o, const char *keyword, const char *exclusive, const char *turn,
                  const char *turn_exclusive)
{
    const json_t *other = get(o, exclusive);
    swapped(o, keyword, "number", json_is_true(other) ? turn : turn_exclusive);
    if (!json_is_boolean(other))
        swapped(o, exclusive, "number", turn);
}

static void constants(struct options *o, const json_t *values)
{
    if (!values)
        return;
    struct literals *option = option_new(o);
    put(o, option,
        schema_make(o->c, json_pack("{s:o}", "!enum", shared(values)), o->site) * LITERAL_SITE);
    for (size_t i = 0; i < json_array_size(values) && schema_spend(o->c, 4); i++) {
        const json_t *value = json_array_get(values, i);
        if (json_is_array(value) || json_is_object(value))
            put(o, option, schema_constant(o->c, value, o->site) * LITERAL_SITE | LITERAL_NOT);
    }
}

static void scalars(struct options *o)
{
    const json_t *one = get(o, "const");
    uint32_t types = 0, site = o->site;
    if (get(o, "type")) {
        uint32_t only = schema_make(o->c, json_pack("{s:o}", "type", shared(get(o, "type"))), site);
        types = schema_types(o->c, only) ^ TYPE_ANY;
        put_made(o, json_pack("{s:I}", "!types", (json_int_t)types));
    }
    if (one) {
        json_t *values = json_pack("[o]", shared(one));
        json_array_append_new(o->c->made, values);
        constants(o, values);
    }
    constants(o, get(o, "enum"));
    count_turned(o, "minLength", "string", "maxLength", true);
    count_turned(o, "maxLength", "string", "minLength", false);
    count_turned(o, "minItems", "array", "maxItems", true);
    count_turned(o, "maxItems", "array", "minItems", false);
    count_turned(o, "minProperties", "object", "maxProperties", true);
    count_turned(o, "maxProperties", "object", "minProperties", false);
    swapped(o, "pattern", "string", "!pattern");
    swapped(o, "format", "string", "!format");
    limit(o, "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum");
    limit(o, "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum");
    swapped(o, "multipleOf", "number", "!multipleOf");
}

// Adds one option per schema of a list: the item at its position violates it.
static void prefix(struct options *o, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && schema_spend_values(o->c, 4 + i / 8); i++) {
        json_t *items = json_array();
        for (size_t k = 0; k < i; k++)
            json_array_append_new(items, json_true());
        json_array_append_new(items, negation(json_array_get(list, i)));
        put_made(o, json_pack("{s:s,s:I,s:o}", "type", "array", "minItems", (json_int_t)(i + 1),
                              "prefixItems", items));
    }
}

static void items_from(struct options *o, const json_t *schema, size_t from)
{
    if (schema)
        put_made(o, json_pack("{s:s,s:o,s:I}", "type", "array", "contains", negation(schema),
                              "!from", (json_int_t)from));
}

static void contained(struct options *o)
{
    const json_t *schema = get(o, "contains"), *low = get(o, "minContains"),
                 *high = get(o, "maxContains");
    uint32_t min = 1, max = 0;
    if (!schema || (low && !schema_count(o->c, o->site, "minContains", low, &min)) ||
        (high && !schema_count(o->c, o->site, "maxContains", high, &max)))
        return;
    if (min == 1)
        put_made(o, json_pack("{s:s,s:o}", "type", "array", "items", negation(schema)));
    if (min > 1)
        put_made(o, json_pack("{s:s,s:o,s:i,s:I}", "type", "array", "contains", shared(schema),
                              "minContains", 0, "maxContains", (json_int_t)min - 1));
    if (high)
        put_made(o, json_pack("{s:s,s:o,s:I}", "type", "array", "contains", shared(schema),
                              "minContains", (json_int_t)max + 1));
}

static void arrays(struct options *o)
{
    const json_t *items = get(o, "items"), *first = get(o, "prefixItems");
    prefix(o, first);
    if (json_is_array(items)) {
        prefix(o, items);
        items_from(o, get(o, "additionalItems"), json_array_size(items));
    } else {
        items_from(o, items, json_array_size(first));
    }
    contained(o);
    if (json_is_true(get(o, "uniqueItems")))
        schema_refuse(o->c, STATUS_UNSUPPORTED, o->site, "uniqueItems", "under a negation");
}

static json_t *with_key(struct text key, json_t *value)
{
    json_t *object = json_object();
    json_object_setn_new(object, key.at, key.bytes, value);
    return object;
}

static void members(struct options *o)
{
    json_t *map = (json_t *)(uintptr_t)get(o, "properties");
    for (void *at = json_object_iter(map); at && schema_spend_values(o->c, 5);
         at = json_object_iter_next(map, at)) {
        struct text key = schema_key(at);
        schema_spend_values(o->c, key.bytes / 100);
        json_t *properties = with_key(key, negation(json_object_iter_value(at)));
        put_made(o, json_pack("{s:s,s:o,s:[o]}", "type", "object", "properties", properties,
                              "required", json_stringn(key.at, key.bytes)));
    }
    const json_t *required = get(o, "required");
    for (size_t i = 0; i < json_array_size(required) && schema_spend_values(o->c, 3); i++) {
        const json_t *name = json_array_get(required, i);
        struct text key = text_span(json_string_value(name), json_string_length(name));
        if (key.at)
            put_made(o, json_pack("{s:s,s:o}", "type", "object", "properties",
                                  with_key(key, json_false())));
    }
}

static void extras(struct options *o)
{
    const json_t *other = get(o, "additionalProperties"), *names = get(o, "propertyNames");
    if (other)
        put_made(o, json_pack("{s:s,s:o,s:O}", "type", "object", "!extra", negation(other), "!of",
                              o->c->sites[o->site].value));
    if (names)
        put_made(o, json_pack("{s:s,s:b,s:o}", "type", "object", "!extra", 1, "!names",
                              negation(names)));
    json_t *map = (json_t *)(uintptr_t)get(o, "patternProperties");
    for (void *at = json_object_iter(map); at && schema_spend_values(o->c, 4);
         at = json_object_iter_next(map, at)) {
        struct text key = schema_key(at);
        schema_spend_values(o->c, key.bytes / 100);
        put_made(o, json_pack("{s:s,s:o,s:o}", "type", "object", "!extra",
                              negation(json_object_iter_value(at)), "!match",
                              json_stringn(key.at, key.bytes)));
    }
}

static void dependencies(struct options *o)
{
    static const char *const keywords[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    for (int i = 0; i < 3; i++) {
        json_t *map = (json_t *)(uintptr_t)get(o, keywords[i]);
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
                list ? schema_make(o->c, json_pack("{s:o}", "required", shared(value)), o->site) *
                           LITERAL_SITE
                     : sub(o, keywords[i], value);
            struct literals *option = option_new(o);
            put(o, option, there * LITERAL_SITE);
            put(o, option, holds | LITERAL_NOT);
        }
    }
}

static void choices(struct options *o)
{
    const json_t *all = get(o, "allOf"), *any = get(o, "anyOf"), *one = get(o, "oneOf");
    for (size_t i = 0; i < json_array_size(all); i++)
        put(o, option_new(o), sub(o, "allOf", json_array_get(all, i)) | LITERAL_NOT);
    for (int k = 0; k < 2; k++) { // none of them is satisfied
        const json_t *list = k == 0 ? any : one;
        struct literals *option = list ? option_new(o) : NULL;
        for (size_t i = 0; i < json_array_size(list); i++)
            put(o, option,
                sub(o, k == 0 ? "anyOf" : "oneOf", json_array_get(list, i)) | LITERAL_NOT);
    }
    for (size_t i = 0; i < json_array_size(one); i++)
        for (size_t k = i + 1; k < json_array_size(one) && schema_spend(o->c, 40); k++) {
            struct literals *option = option_new(o);
            put(o, option, sub(o, "oneOf", json_array_get(one, i)));
            put(o, option, sub(o, "oneOf", json_array_get(one, k)));
        }
}

static void others(struct options *o)
{
    static const char *const refs[] = {"$ref", "$dynamicRef"};
    static const char *const never[] = {"unevaluatedItems", "unevaluatedProperties",
                                        "$recursiveRef"};
    const json_t *when = get(o, "if"), *not = get(o, "not");
    for (int i = 0; i < 2; i++)
        if (get(o, refs[i])) {
            uint32_t site = schema_resolve(o->c, o->site, refs[i]);
            put(o, option_new(o), site * LITERAL_SITE | LITERAL_NOT);
        }
    for (int i = 0; i < 3; i++)
        if (get(o, never[i]))
            schema_refuse(o->c, STATUS_UNSUPPORTED, o->site, never[i], "under a negation");
    for (int i = 0; i < 2 && when; i++) {
        const json_t *then = get(o, i == 0 ? "then" : "else");
        if (!then)
            continue;
        struct literals *option = option_new(o);
        put(o, option, sub(o, "if", when) | (i == 0 ? 0 : LITERAL_NOT));
        put(o, option, sub(o, i == 0 ? "then" : "else", then) | LITERAL_NOT);
    }
    if (not)
        put(o, option_new(o), sub(o, "not", not));
}

// Negates the private keywords.
static void own(struct options *o)
{
    static const char *const turns[][2] = {
        {"!pattern", "pattern"}, {"!format", "format"}, {"!multipleOf", "multipleOf"}};
    const json_t *types = get(o, "!types");
    for (int i = 0; i < 3; i++)
        if (get(o, turns[i][0]))
            put_made(o, json_pack("{s:o}", turns[i][1], shared(get(o, turns[i][0]))));
    if (types)
        put_made(o, json_pack("{s:I}", "!types", json_integer_value(types) ^ (json_int_t)TYPE_ANY));
    if (get(o, "!enum"))
        put_made(o, json_pack("{s:o}", "enum", shared(get(o, "!enum"))));
    if (get(o, "!extra") || get(o, "!from"))
        schema_refuse(o->c, STATUS_UNSUPPORTED, o->site, "not", "nested too deep");
}

void schema_negate(struct schema *c, struct alternative *a, uint32_t site)
{
    struct options o = {.c = c, .site = site};
    scalars(&o);
    arrays(&o);
    members(&o);
    extras(&o);
    choices(&o);
    dependencies(&o);
    others(&o);
    own(&o);
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
