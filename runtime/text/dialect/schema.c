// SPDX-License-Identifier: Apache-2.0
// Types of tool parameters according to their schemas; see schema.h. Follows references inside of
// the schema and returns "unknown" if the schema does not determine the type.
#include "runtime/text/dialect/schema.h"

#include <string.h>

enum {
    REFERENCES_MAX = 16,        // maximum length of a chain of references
    REFERENCE_BYTES_MAX = 1024, // maximum length of a reference; a longer one has no target
    INDEX_DIGITS_MAX = 9,       // maximum digits of an array index in a reference
    VISITS_MAX = 500,           // maximum schemas visited per query, which also bounds the depth
    WORK_MAX = 16384, // maximum list members visited per query; beyond it the type is unknown
};

bool tool_schema(const json_t *tools, struct text name, const json_t **schema)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i), *inner = json_object_get(tool, "function");
        const json_t *function = inner ? inner : tool;
        const json_t *own = json_object_get(function, "name");
        if (!json_is_string(own) ||
            !text_equal(text_span(json_string_value(own), json_string_length(own)), name))
            continue;
        const json_t *parameters = json_object_get(function, "parameters");
        *schema = parameters ? parameters : json_object_get(function, "input_schema");
        return true;
    }
    return false;
}

// Returns the target of one step of a JSON pointer; "a~1b" is the key "a/b".
static const json_t *pointer_step(const json_t *at, struct text step)
{
    char key[256];
    size_t bytes = 0;
    if (step.bytes > sizeof key)
        return NULL;
    for (size_t i = 0; i < step.bytes; i++) {
        bool escaped = step.at[i] == '~' && i + 1 < step.bytes;
        char next = escaped ? step.at[++i] : step.at[i];
        key[bytes++] = !escaped ? next : next == '1' ? '/' : '~';
    }
    if (!json_is_array(at))
        return json_object_getn(at, key, bytes);
    size_t index = 0;
    if (bytes == 0 || bytes > INDEX_DIGITS_MAX)
        return NULL;
    for (size_t i = 0; i < bytes; i++) {
        if (key[i] < '0' || key[i] > '9')
            return NULL;
        index = index * 10 + (size_t)(key[i] - '0');
    }
    return json_array_get(at, index);
}

// A query and the number of schemas it may still visit. Clients write the schemas, and replies are
// read on the event loop, so the work must be bounded.
struct schema_query {
    const json_t *root;
    unsigned visits, work;
    // reference being followed; too large for the stack of a recursion
    char reference[REFERENCE_BYTES_MAX];
};

// Counts one more schema (query_visit) or list member (query_spend). Returns false if the limit is
// reached.
static bool query_visit(struct schema_query *q)
{
    return q->visits > 0 && q->visits-- > 0;
}

static bool query_spend(struct schema_query *q)
{
    return q->work > 0 && q->work-- > 0;
}

// Returns the part of a reference after the #, with %XX decoded.
static struct text fragment_of(struct schema_query *q, const json_t *reference)
{
    struct text in = text_span(json_string_value(reference), json_string_length(reference));
    return text_percent_decode(text_span(in.at + 1, in.bytes - 1), q->reference);
}

static const json_t *pointed_at(struct schema_query *q, struct text pointer)
{
    const json_t *at = q->root;
    for (size_t from = 1; at && from <= pointer.bytes;) {
        size_t end = from;
        while (end < pointer.bytes && pointer.at[end] != '/')
            end++;
        at = query_spend(q) ? pointer_step(at, text_span(pointer.at + from, end - from)) : NULL;
        from = end + 1;
    }
    return at;
}

// Returns the schema with this $anchor at or below `at`, or NULL.
static const json_t *anchor_find(struct schema_query *q, const json_t *at, struct text name)
{
    json_t *object = (json_t *)(uintptr_t)at;
    const json_t *own = json_object_get(at, "$anchor"), *found = NULL;
    if (json_is_string(own) &&
        text_equal(text_span(json_string_value(own), json_string_length(own)), name))
        return at;
    for (void *i = json_object_iter(object); i && !found && query_spend(q);
         i = json_object_iter_next(object, i))
        found = anchor_find(q, json_object_iter_value(i), name);
    for (size_t i = 0; !found && i < json_array_size(at) && query_spend(q); i++)
        found = anchor_find(q, json_array_get(at, i), name);
    return found;
}

static const json_t *reference_resolve(struct schema_query *q, const json_t *schema)
{
    for (int i = 0; i < REFERENCES_MAX; i++) {
        const json_t *reference = json_object_get(schema, "$ref");
        if (!json_is_string(reference) || json_string_value(reference)[0] != '#')
            return schema;
        if (json_string_length(reference) > REFERENCE_BYTES_MAX)
            return NULL;
        struct text fragment = fragment_of(q, reference);
        bool pointer = fragment.bytes == 0 || fragment.at[0] == '/';
        schema = pointer ? pointed_at(q, fragment) : anchor_find(q, q->root, fragment);
    }
    return NULL;
}

static unsigned type_named(const json_t *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } rows[] = {{"string", SCHEMA_STRING},   {"number", SCHEMA_NUMBER}, {"integer", SCHEMA_NUMBER},
                {"boolean", SCHEMA_BOOLEAN}, {"null", SCHEMA_NULL},     {"object", SCHEMA_OBJECT},
                {"array", SCHEMA_ARRAY}};
    for (size_t i = 0; json_is_string(name) && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(json_string_value(name), rows[i].name) == 0)
            return rows[i].type;
    return 0;
}

static unsigned type_of_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return SCHEMA_OBJECT;
    case JSON_ARRAY:
        return SCHEMA_ARRAY;
    case JSON_STRING:
        return SCHEMA_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return SCHEMA_NUMBER;
    case JSON_NULL:
        return SCHEMA_NULL;
    default:
        return SCHEMA_BOOLEAN;
    }
}

static unsigned types_at(struct schema_query *q, const json_t *schema);

// Returns the types of several alternatives; 0 if the types of one are unknown.
static unsigned types_of_any(struct schema_query *q, const json_t *schemas)
{
    unsigned types = 0;
    for (size_t i = 0; i < json_array_size(schemas); i++) {
        unsigned one = types_at(q, json_array_get(schemas, i));
        if (one == 0)
            return 0;
        types |= one;
    }
    return types;
}

// Returns the types of the members of a list, according to `type`; 0: too many members.
static unsigned types_listed(struct schema_query *q, const json_t *list,
                             unsigned (*type)(const json_t *))
{
    unsigned types = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!query_spend(q))
            return 0;
        types |= type(json_array_get(list, i));
    }
    return types;
}

static unsigned types_at(struct schema_query *q, const json_t *schema)
{
    if (!query_visit(q))
        return 0;
    schema = reference_resolve(q, schema);
    const json_t *type = json_object_get(schema, "type"), *constant;
    unsigned types = type_named(type) | types_listed(q, type, type_named);
    if (types != 0)
        return types;
    if ((constant = json_object_get(schema, "const")))
        return type_of_value(constant);
    types = types_listed(q, json_object_get(schema, "enum"), type_of_value);
    if (types == 0)
        types = types_of_any(q, json_object_get(schema, "anyOf"));
    if (types == 0)
        types = types_of_any(q, json_object_get(schema, "oneOf"));
    const json_t *all = json_object_get(schema, "allOf");
    for (size_t i = 0; types == 0 && i < json_array_size(all) && query_spend(q); i++)
        types = types_at(q, json_array_get(all, i));
    return types;
}

unsigned tool_types(const json_t *root, const json_t *schema)
{
    struct schema_query q = {.root = root, .visits = VISITS_MAX, .work = WORK_MAX};
    return types_at(&q, schema);
}

enum { UNIONS = 3 };
static const char *const unions[UNIONS] = {"anyOf", "oneOf", "allOf"};

static const json_t *property_at(struct schema_query *q, const json_t *schema, struct text key)
{
    if (!query_visit(q))
        return NULL;
    schema = reference_resolve(q, schema);
    const json_t *found =
        json_object_getn(json_object_get(schema, "properties"), key.at, key.bytes);
    for (size_t u = 0; !found && u < UNIONS; u++) {
        const json_t *list = json_object_get(schema, unions[u]);
        for (size_t i = 0; !found && i < json_array_size(list) && query_spend(q); i++)
            found = property_at(q, json_array_get(list, i), key);
    }
    if (!found)
        found = json_object_get(schema, "additionalProperties");
    return json_is_object(found) ? found : NULL;
}

const json_t *tool_property(const json_t *root, const json_t *schema, struct text key)
{
    struct schema_query q = {.root = root, .visits = VISITS_MAX, .work = WORK_MAX};
    return property_at(&q, schema, key);
}

unsigned tool_parameter(const json_t *schema, struct text key, unsigned *work)
{
    struct schema_query property = {.root = schema, .visits = VISITS_MAX, .work = WORK_MAX};
    struct schema_query types = property;
    unsigned found = types_at(&types, property_at(&property, schema, key));
    *work =
        2 * (VISITS_MAX + WORK_MAX) - property.visits - property.work - types.visits - types.work;
    return found;
}

// Visits the same schemas as property_at does for all keys together.
static void names_at(struct schema_query *q, const json_t *schema, json_t *names)
{
    if (!query_visit(q))
        return;
    schema = reference_resolve(q, schema);
    json_t *properties = json_object_get(schema, "properties");
    for (void *at = json_object_iter(properties); at; at = json_object_iter_next(properties, at))
        json_object_setn_new(names, json_object_iter_key(at), json_object_iter_key_len(at),
                             json_true());
    for (size_t u = 0; u < UNIONS; u++) {
        const json_t *list = json_object_get(schema, unions[u]);
        for (size_t i = 0; i < json_array_size(list) && query_spend(q); i++)
            names_at(q, json_array_get(list, i), names);
    }
}

json_t *tool_names(const json_t *schema)
{
    struct schema_query q = {.root = schema, .visits = VISITS_MAX, .work = WORK_MAX};
    json_t *names = json_object();
    names_at(&q, schema, names);
    return names;
}

bool tool_has_parameter(const json_t *schema, struct text key)
{
    json_t *names = tool_names(schema);
    bool found = json_object_getn(names, key.at, key.bytes) != NULL;
    json_decref(names);
    return found;
}

const json_t *tool_items(const json_t *root, const json_t *schema)
{
    struct schema_query q = {.root = root, .visits = VISITS_MAX, .work = WORK_MAX};
    const json_t *items = json_object_get(reference_resolve(&q, schema), "items");
    return json_is_object(items) ? items : NULL;
}
