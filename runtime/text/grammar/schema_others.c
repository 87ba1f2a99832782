// SPDX-License-Identifier: Apache-2.0
// Other members of an object: those whose keys are not named and match no pattern. Computes how
// many are allowed if the schema has neither additionalProperties nor unevaluatedProperties; see
// schema.h.
#include "runtime/text/grammar/schema_object.h"

// Returns true if the subschema has one of the keywords.
static bool has_one(const struct object *o, uint32_t site, const char *const *words, size_t count)
{
    bool has = false;
    for (size_t i = 0; i < count && !has; i++)
        has = schema_keyword(o->c, site, words[i]) != NULL;
    return has;
}
#define HAS_ONE(o, site, words) has_one(o, site, words, sizeof(words) / sizeof *(words))

static const char *const about_members[] = {
    "properties",           "required",      "minProperties", "maxProperties",
    "additionalProperties", "propertyNames", "!extra",        "patternProperties",
    "unevaluatedProperties"};

bool object_says_nothing(const struct object *o)
{
    bool says = false;
    for (uint32_t i = 0; i < o->entry_count && !says; i++)
        says = HAS_ONE(o, o->entries[i]->site, about_members);
    return !says;
}

bool object_is_described(const struct object *o)
{
    bool described = false;
    for (uint32_t i = 0; i < o->entry_count && !described; i++) {
        uint32_t site = o->entries[i]->site;
        described = !o->c->sites[site].synthetic &&
                    (schema_keyword(o->c, site, "type") || HAS_ONE(o, site, about_members));
    }
    return described;
}

// Returns true if a keyword determines which other members are allowed.
static bool others_are_given(const struct object *o)
{
    return o->owner_count > 0 || o->extra_entry || !object_is_described(o);
}

// Returns true if the client's schema names members.
static bool names_members(const struct object *o)
{
    static const char *const words[] = {"properties", "required", "patternProperties"};
    bool names = false;
    for (uint32_t i = 0; i < o->entry_count && !names; i++)
        names =
            !o->c->sites[o->entries[i]->site].synthetic && HAS_ONE(o, o->entries[i]->site, words);
    return names;
}

// Returns true if the client's schema has `properties`, and they are empty.
static bool has_no_properties(const struct object *o)
{
    size_t maps = 0, members = 0;
    for (uint32_t i = 0; i < o->entry_count; i++) {
        uint32_t site = o->entries[i]->site;
        const json_t *map = schema_keyword(o->c, site, "properties");
        if (!map || o->c->sites[site].synthetic)
            continue;
        maps++;
        members += json_object_size(map);
    }
    return maps > 0 && members == 0;
}

bool object_is_closed(const struct object *o)
{
    if (others_are_given(o))
        return false;
    switch (o->c->args->others) {
    case SCHEMA_OTHERS_NONE:
        return true;
    case SCHEMA_OTHERS_OF_MAPS:
        return names_members(o);
    default:
        return has_no_properties(o);
    }
}

uint32_t object_others_max(const struct object *o)
{
    uint32_t known = 0, few = SCHEMA_OTHERS_MAX;
    for (uint32_t i = 0; i < o->key_count; i++)
        known += !o->keys[i].loose && o->keys[i].value != GRAMMAR_NOTHING;
    if (o->closed)
        return o->min > known && o->pattern_count == 0 ? o->min : 0;
    if (others_are_given(o) || o->max != GRAMMAR_UNBOUNDED)
        return GRAMMAR_UNBOUNDED;
    return o->min > few ? o->min : few;
}
