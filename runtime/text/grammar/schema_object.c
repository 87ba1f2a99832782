// SPDX-License-Identifier: Apache-2.0
// Objects: the schema of each key, which unknown keys are allowed, and their values. See
// schema_members.c for the text.
#include "runtime/text/grammar/schema_object.h"

static struct text text_at(const json_t *value)
{
    return text_span(json_string_value(value), json_string_length(value));
}

static struct schema_key *key_put(struct object *o, struct text name)
{
    const json_t *known = schema_member(o->index, name);
    if (known)
        return &o->keys[json_integer_value(known)];
    if (name.bytes > KEY_BYTES_MAX)
        schema_refuse(o->c, STATUS_TOO_LARGE, o->entries[0]->site, "properties",
                      "has a key that is longer than 1024 bytes");
    json_object_setn_new(o->index, name.at, name.bytes, json_integer((json_int_t)o->key_count));
    o->keys = arena_extend(o->c->arena, o->keys, o->key_count, &o->key_capacity, sizeof *o->keys);
    o->keys[o->key_count] = (struct schema_key){.name = name};
    schema_spend_values(o->c, 1);
    return &o->keys[o->key_count++];
}

// Returns a keyword that must be an object; NULL: it is absent, or an error.
static json_t *map_of(struct object *o, uint32_t site, const char *keyword)
{
    const json_t *map = schema_keyword(o->c, site, keyword);
    if (map && !json_is_object(map))
        schema_refuse(o->c, STATUS_INVALID, site, keyword, "must be an object");
    return schema_failed(o->c) ? NULL : (json_t *)(uintptr_t)map;
}

static void gather_keys(struct object *o, uint32_t site)
{
    json_t *map = map_of(o, site, "properties");
    for (void *at = json_object_iter(map); at && schema_spend(o->c, 200);
         at = json_object_iter_next(map, at))
        key_put(o, schema_key(at));
}

static void gather_required(struct object *o, uint32_t site)
{
    struct schema *c = o->c;
    const json_t *list = schema_keyword(c, site, "required");
    if (list && !json_is_array(list) && !json_is_boolean(list)) // in draft 3 it is a boolean
        schema_refuse(c, STATUS_INVALID, site, "required", "must be a list of names");
    for (size_t i = 0; i < json_array_size(list) && schema_spend(c, 200); i++)
        if (!json_is_string(json_array_get(list, i)))
            schema_refuse(c, STATUS_INVALID, site, "required", "must be a list of names");
        else
            key_put(o, text_at(json_array_get(list, i)))->required = true;
}

static void gather_limits(struct object *o, uint32_t site)
{
    struct schema *c = o->c;
    const json_t *low = schema_keyword(c, site, "minProperties");
    const json_t *high = schema_keyword(c, site, "maxProperties");
    const json_t *names = schema_keyword(c, site, "propertyNames");
    const json_t *match = schema_keyword(c, site, "!match");
    uint32_t count;
    if (low && schema_count(c, site, "minProperties", low, &count) && count > o->min)
        o->min = count;
    if (high && schema_count(c, site, "maxProperties", high, &count) && count < o->max)
        o->max = count;
    if (names) {
        literals_add(c, &o->name_literals,
                     schema_literal(c, site, "propertyNames", names, (struct text){NULL, 0}));
        o->names_site = site;
    }
    if (match)
        object_pattern(o, site, "patternProperties", text_at(match));
}

static void gather_patterns(struct object *o, uint32_t site)
{
    struct schema *c = o->c;
    json_t *map = map_of(o, site, "patternProperties");
    for (void *at = json_object_iter(map); at && !schema_failed(c);
         at = json_object_iter_next(map, at)) {
        struct text key = schema_key(at);
        uint32_t pattern = object_pattern(o, site, "patternProperties", key);
        o->pattern_site = site;
        o->uses = arena_extend(c->arena, o->uses, o->use_count, &o->use_capacity, sizeof *o->uses);
        o->uses[o->use_count++] = (struct object_pattern_use){
            pattern, schema_literal(c, site, "patternProperties", json_object_iter_value(at), key)};
    }
}

// Adds the keys and patterns of the subschema at `site` to those that the owner covers.
static void owner_knows(struct object *o, struct object_owner *owner, const json_t *schema,
                        uint32_t site)
{
    const json_t *properties = json_object_get(schema, "properties");
    json_t *patterns = json_object_get(schema, "patternProperties");
    if (properties) {
        owner->known = arena_extend(o->c->arena, owner->known, owner->known_count,
                                    &owner->known_capacity, sizeof *owner->known);
        owner->known[owner->known_count++] = properties;
    }
    for (void *at = json_object_iter(patterns); at && !schema_failed(o->c);
         at = json_object_iter_next(patterns, at))
        owner->patterns |= 1u << object_pattern(o, site, "patternProperties", schema_key(at));
}

static void owner_put(struct object *o, const struct object_owner *owner)
{
    o->owners =
        arena_extend(o->c->arena, o->owners, o->owner_count, &o->owner_capacity, sizeof *o->owners);
    o->owners[o->owner_count++] = *owner;
}

static void gather_owners(struct object *o, const struct entry *e)
{
    struct schema *c = o->c;
    const json_t *other = schema_keyword(c, e->site, "additionalProperties");
    const json_t *left = schema_keyword(c, e->site, "unevaluatedProperties");
    const struct text none = {NULL, 0};
    if (other) {
        struct object_owner owner = {
            .literal = schema_literal(c, e->site, "additionalProperties", other, none)};
        owner_knows(o, &owner, c->sites[e->site].value, e->site);
        owner_put(o, &owner);
    }
    if (!left)
        return;
    struct object_owner owner = {
        .literal = schema_literal(c, e->site, "unevaluatedProperties", left, none)};
    for (uint32_t i = 0; i < o->entry_count; i++) {
        const struct entry *below = o->entries[i];
        if (below->silent || !schema_spend(c, 100) || !entry_is_under(below, e))
            continue;
        if (schema_keyword(c, below->site, "additionalProperties") ||
            (below != e && schema_keyword(c, below->site, "unevaluatedProperties")))
            return; // all keys are evaluated
        owner_knows(o, &owner, c->sites[below->site].value, below->site);
    }
    owner_put(o, &owner);
}

static bool owner_applies(struct schema *c, const struct object_owner *owner,
                          const struct text *name, uint32_t patterns)
{
    if (owner->patterns & patterns)
        return false;
    schema_spend(c, name ? 30 * owner->known_count : 1);
    for (size_t i = 0; i < owner->known_count && name; i++)
        if (schema_member(owner->known[i], *name))
            return false;
    return true;
}

// Adds the schemas that apply to a key that matches these patterns; name NULL: an unknown key.
static void literals_of(struct object *o, const struct text *name, uint32_t patterns,
                        struct literals *list)
{
    struct schema *c = o->c;
    schema_spend(c, 40 * (uint64_t)o->entry_count + 4 * (uint64_t)o->use_count);
    for (uint32_t i = 0; i < o->entry_count && name && !schema_failed(c); i++) {
        uint32_t site = o->entries[i]->site;
        const json_t *properties = schema_keyword(c, site, "properties");
        const json_t *value = properties ? schema_member(properties, *name) : NULL;
        if (value)
            literals_add(c, list, schema_literal(c, site, "properties", value, *name));
    }
    for (uint32_t i = 0; i < o->use_count; i++)
        if (patterns >> o->uses[i].pattern & 1)
            literals_add(c, list, o->uses[i].literal);
    for (uint32_t i = 0; i < o->owner_count; i++)
        if (owner_applies(c, &o->owners[i], name, patterns))
            literals_add(c, list, o->owners[i].literal);
}

static uint32_t value_of(struct object *o, const struct text *name, struct literals *list)
{
    if (o->parameters)
        return parameter_value(o->c, name, list, o->entry_count > 0 ? o->entries[0]->site : 0);
    return schema_value(o->c, list);
}

// Marks keys that cannot be written; an error if one is required.
static void leave_unwritable(struct object *o)
{
    struct schema *c = o->c;
    for (uint32_t i = 0; i < o->key_count && o->writable->most > 0 && !schema_failed(c); i++) {
        struct schema_key *key = &o->keys[i];
        key->unwritable = !writer_key_fits(o->writable, key->name);
        if (key->unwritable && key->required)
            schema_refuse(c, STATUS_UNSUPPORTED, o->entries[0]->site, "required",
                          "the dialect of the model's calls has no way to write one of the keys");
    }
}

static void fill_known(struct object *o)
{
    struct schema *c = o->c;
    bool *matches = arena_alloc(c->arena, o->key_count + 1);
    leave_unwritable(o);
    for (uint32_t k = 0; k < o->pattern_count && !schema_failed(c); k++) {
        keys_match(o, o->pattern_site, "patternProperties", o->patterns[k].expr, matches);
        for (uint32_t i = 0; i < o->key_count && !schema_failed(c); i++)
            o->keys[i].patterns |= (uint32_t)matches[i] << k;
    }
    if (o->names != UINT32_MAX && !schema_failed(c))
        keys_match(o, o->names_site, "propertyNames", o->names, matches);
    for (uint32_t i = 0; i < o->key_count && !schema_failed(c); i++) {
        struct schema_key *key = &o->keys[i];
        struct literals list = {0};
        if (key->unwritable || (o->names != UINT32_MAX && !matches[i]))
            continue; // value stays GRAMMAR_NOTHING
        literals_of(o, &key->name, key->patterns, &list);
        key->value = value_of(o, &key->name, &list);
    }
}

// Returns the schema of !extra as a literal.
static uint32_t extra_literal(struct object *o)
{
    return schema_literal(o->c, o->extra_entry->site, "!extra",
                          schema_keyword(o->c, o->extra_entry->site, "!extra"),
                          (struct text){NULL, 0});
}

// Returns true if !extra applies to a key that matches these patterns; keys: the strings of !names.
static bool extra_applies(struct object *o, const struct text *name, uint32_t patterns,
                          uint32_t keys)
{
    struct schema *c = o->c;
    uint32_t site = o->extra_entry->site;
    const json_t *of = schema_keyword(c, site, "!of"), *match = schema_keyword(c, site, "!match");
    if (match)
        return patterns >> object_pattern(o, site, "patternProperties", text_at(match)) & 1;
    if (of) {
        struct object_owner owner = {0};
        owner_knows(o, &owner, of, site);
        return owner_applies(c, &owner, name, patterns);
    }
    return !name || key_matches(o, site, "propertyNames", keys, *name);
}

static uint32_t extra_names(struct object *o)
{
    struct literals list = {0};
    uint32_t site = o->extra_entry->site;
    const json_t *names = schema_keyword(o->c, site, "!names");
    if (!names)
        return schema_chars(o->c, o->kind)->inside;
    literals_add(o->c, &list, schema_literal(o->c, site, "!names", names, (struct text){NULL, 0}));
    return schema_strings(o->c, &list, o->kind);
}

// Adds members with unknown keys that match these patterns.
static void member_add(struct object *o, uint32_t text, uint32_t patterns)
{
    uint32_t *kind = patterns != 0 ? &o->matched : &o->other;
    *kind = grammar_either(o->c->b, text, *kind);
}

// Adds the members with unknown keys: one part for each set of patterns that a key can match.
static void fill_unknown(struct object *o)
{
    struct schema *c = o->c;
    uint32_t names = o->extra_entry ? extra_names(o) : GRAMMAR_NOTHING;
    for (uint32_t i = 0; i < o->key_count; i++)
        if (o->keys[i].loose && (o->keys[i].patterns != 0 || o->others_max > 0))
            member_add(o, key_text(o, &o->keys[i]), o->keys[i].patterns);
    if (o->parameters && c->args->parameters->value_end != GRAMMAR_NOTHING)
        return; // a grammar cannot repeat an arbitrary key
    uint32_t first = o->others_max == 0 ? 1 : 0;
    for (uint32_t region = first; region < 1u << o->pattern_count && !schema_failed(c); region++) {
        struct literals list = {0};
        literals_of(o, NULL, region, &list);
        uint32_t value = value_of(o, NULL, &list);
        uint32_t keys = value == GRAMMAR_NOTHING ? GRAMMAR_NOTHING : keys_region(o, region);
        member_add(o, member_text(o, keys, value), region);
        if (!o->extra_entry || keys == GRAMMAR_NOTHING || !extra_applies(o, NULL, region, names))
            continue;
        literals_add(c, &list, extra_literal(o));
        keys = keys_both(o, keys, names, o->extra_entry->site, "propertyNames");
        o->extra = grammar_either(c->b, member_text(o, keys, value_of(o, NULL, &list)), o->extra);
    }
}

// Returns true if some unknown key is allowed to have a value.
static bool unknown_may_come(struct object *o)
{
    uint32_t first = o->closed && o->min <= o->key_count ? 1 : 0;
    for (uint32_t region = first; region < 1u << o->pattern_count && !schema_failed(o->c);
         region++) {
        struct literals list = {0};
        literals_of(o, NULL, region, &list);
        if (!schema_is_empty(o->c, &list))
            return true;
    }
    return false;
}

// Adds names that are allowed among unknown keys but are read differently.
static void gather_loose(struct object *o)
{
    json_t *names = o->parameters ? o->c->args->parameters->names : NULL;
    if (json_object_size(names) == 0 || !unknown_may_come(o))
        return;
    for (void *at = json_object_iter(names); at && schema_spend(o->c, 200);
         at = json_object_iter_next(names, at))
        if (!schema_member(o->index, schema_key(at)))
            key_put(o, schema_key(at))->loose = true;
}

static bool required_is_missing(const struct object *o)
{
    for (uint32_t i = 0; i < o->key_count; i++)
        if (o->keys[i].required && o->keys[i].value == GRAMMAR_NOTHING)
            return true;
    return false;
}

// Requires that one of the members is extra: one with an unknown key, or one of the known keys.
static uint32_t with_extra(struct object *o)
{
    struct schema *c = o->c;
    uint32_t names = extra_names(o);
    o->need_extra = true;
    uint32_t all = o->extra == GRAMMAR_NOTHING ? GRAMMAR_NOTHING : object_members(o);
    o->need_extra = false;
    for (uint32_t i = 0; i < o->key_count && !schema_failed(c); i++) {
        struct schema_key kept = o->keys[i];
        struct literals list = {0};
        if (!extra_applies(o, &kept.name, kept.patterns, names))
            continue;
        literals_of(o, &kept.name, kept.patterns, &list);
        literals_add(c, &list, extra_literal(o));
        o->keys[i].required = true;
        o->keys[i].loose = false;
        o->keys[i].value =
            kept.value == GRAMMAR_NOTHING ? kept.value : value_of(o, &kept.name, &list);
        if (schema_spend(c, o->key_count) && !required_is_missing(o))
            all = grammar_either(c->b, object_members(o), all);
        o->keys[i] = kept;
    }
    return all;
}

// Adds the keys and patterns of the schema in !of, so that they are distinguished from unknown
// keys.
static void gather_of(struct object *o, const json_t *of, uint32_t site)
{
    json_t *map = json_object_get(of, "properties");
    for (void *at = json_object_iter(map); at && schema_spend(o->c, 200);
         at = json_object_iter_next(map, at))
        key_put(o, schema_key(at));
    if (of)
        owner_knows(o, &(struct object_owner){0}, of, site);
}

static uint32_t object_compile(struct object *o)
{
    struct schema *c = o->c;
    for (uint32_t i = 0; i < o->entry_count && !schema_failed(c); i++) {
        uint32_t site = o->entries[i]->site;
        gather_keys(o, site);
        gather_limits(o, site);
        gather_patterns(o, site);
        gather_owners(o, o->entries[i]);
        if (!schema_keyword(c, site, "!extra"))
            continue;
        if (o->extra_entry && o->extra_entry->site != site)
            return schema_refuse(c, STATUS_UNSUPPORTED, site, "not",
                                 "two members of one object would have to violate a rule");
        o->extra_entry = o->entries[i];
        gather_of(o, schema_keyword(c, site, "!of"), site);
    }
    for (uint32_t i = 0; i < o->entry_count && !schema_failed(c); i++)
        gather_required(o, o->entries[i]->site);
    o->closed = object_is_closed(o);
    gather_loose(o);
    if (o->name_literals.count > 0)
        o->names = schema_strings(c, &o->name_literals, o->kind);
    if (schema_failed(c))
        return GRAMMAR_NOTHING;
    fill_known(o);
    if (schema_failed(c) || required_is_missing(o))
        return GRAMMAR_NOTHING;
    o->others_max = object_others_max(o);
    fill_unknown(o);
    o->member = grammar_either(c->b, o->matched, o->other);
    if (schema_failed(c))
        return GRAMMAR_NOTHING;
    return o->extra_entry ? with_extra(o) : object_members(o);
}

uint32_t object_text(struct schema *c, const struct alternative *a, bool parameters)
{
    struct object o = {
        .c = c, .parameters = parameters, .max = GRAMMAR_UNBOUNDED, .names = UINT32_MAX};
    o.entry_count = alternative_entries(c, a, &o.entries);
    bool bare = !parameters && object_says_nothing(&o);
    if (bare && !object_is_described(&o))
        return c->any.object;
    if (bare && c->bare != GRAMMAR_NOTHING)
        return c->bare;
    o.kind = parameters ? WRITE_RAW : c->w->keys;
    o.comma = parameters ? c->args->parameters->separator : c->w->comma;
    o.writable = parameters ? &c->args->parameters->key : &c->w->key;
    if (!schema_spend(c, 8000 + 600 * (uint64_t)o.entry_count))
        return GRAMMAR_NOTHING;
    o.index = json_object();
    uint32_t text = object_compile(&o);
    json_decref(o.index);
    c->made_bytes -= o.key_count * (size_t)SCHEMA_VALUE_BYTES;
    if (bare)
        c->bare = text;
    return text;
}
