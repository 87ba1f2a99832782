// SPDX-License-Identifier: Apache-2.0
// Positions of subschemas ($id, $anchor, JSON pointers) and targets of references. URIs are
// resolved as in RFC 3986; nothing outside of the document is fetched.
#include "runtime/text/grammar/schema_parts.h"

#include <string.h>

enum { WALK_DEPTH_MAX = 200 };

static size_t text_find(struct text in, char what)
{
    const char *at = in.bytes > 0 ? memchr(in.at, what, in.bytes) : NULL;
    return at ? (size_t)(at - in.at) : in.bytes;
}

static struct text text_rest(struct text in, size_t from)
{
    return text_span(in.at + from, in.bytes - from);
}

// Returns the length of "scheme:"; 0: there is none.
static size_t scheme_of(struct text uri)
{
    size_t colon = text_find(uri, ':');
    if (colon == uri.bytes || colon == 0)
        return 0;
    for (size_t i = 0; i < colon; i++) {
        char c = uri.at[i], lower = (char)(c | 0x20);
        bool letter = lower >= 'a' && lower <= 'z';
        if (!letter && (i == 0 || !((c >= '0' && c <= '9') || strchr("+-.", c))))
            return 0;
    }
    return colon + 1;
}

// Removes "." and ".." from a path in place. Returns the new length.
static size_t remove_dots(char *path, size_t bytes)
{
    size_t out = 0;
    for (size_t at = 0; at < bytes;) {
        size_t end = at + 1;
        while (end < bytes && path[end] != '/')
            end++;
        struct text part = text_span(path + at, end - at);
        bool up = text_is(part, "/.."), stay = text_is(part, "/.");
        if (up)
            while (out > 0 && path[--out] != '/')
                continue;
        if (!up && !stay) {
            memmove(path + out, path + at, end - at);
            out += end - at;
        } else if (end == bytes) {
            path[out++] = '/';
        }
        at = end;
    }
    return out;
}

// Resolves a reference against a base; both without fragments.
static struct text uri_resolve(struct schema *c, struct text base, struct text ref)
{
    if (ref.bytes == 0)
        return base;
    size_t scheme = scheme_of(base), authority = scheme;
    if (scheme_of(ref) > 0)
        return ref;
    if (base.bytes > scheme + 1 && memcmp(base.at + scheme, "//", 2) == 0)
        authority = scheme + 2 + text_find(text_rest(base, scheme + 2), '/');
    size_t keep = authority;
    if (ref.bytes >= 2 && memcmp(ref.at, "//", 2) == 0) {
        keep = scheme;
    } else if (ref.at[0] != '/') {
        keep = authority + text_find(text_rest(base, authority), '?');
        while (keep > authority && base.at[keep - 1] != '/')
            keep--;
    }
    char *uri = arena_alloc(c->arena, base.bytes + ref.bytes + 2);
    schema_spend(c, (base.bytes + ref.bytes) / 4);
    if (keep > 0)
        memcpy(uri, base.at, keep);
    size_t bytes = keep;
    if (bytes == authority && ref.at[0] != '/' && authority > scheme)
        uri[bytes++] = '/';
    memcpy(uri + bytes, ref.at, ref.bytes);
    bytes += ref.bytes;
    if (keep >= authority && bytes > authority && uri[authority] == '/') {
        size_t path = text_find(text_span(uri + authority, bytes - authority), '?');
        size_t shorter = remove_dots(uri + authority, path);
        memmove(uri + authority + shorter, uri + authority + path, bytes - authority - path);
        bytes -= path - shorter;
    }
    return text_span(uri, bytes);
}

static struct text percent_decoded(struct schema *c, struct text in)
{
    schema_spend(c, in.bytes / 2);
    return text_percent_decode(in, arena_alloc(c->arena, in.bytes + 1));
}

static struct text text_at(const json_t *value)
{
    return text_span(json_string_value(value), json_string_length(value));
}

static void anchor_put(struct schema *c, struct text name, uint32_t site, bool dynamic)
{
    c->anchors = arena_extend(c->arena, c->anchors, c->anchor_count, &c->anchor_capacity,
                              sizeof *c->anchors);
    c->anchors[c->anchor_count++] =
        (struct schema_anchor){name, c->sites[site].resource, site, dynamic};
}

static void resource_put(struct schema *c, struct text uri, uint32_t site)
{
    c->resources = arena_extend(c->arena, c->resources, c->resource_count, &c->resource_capacity,
                                sizeof *c->resources);
    c->resources[c->resource_count++] = (struct schema_resource){uri, site};
    c->sites[site].resource = c->resource_count - 1;
}

static void site_identify(struct schema *c, uint32_t site)
{
    const json_t *id = schema_keyword(c, site, "$id");
    const json_t *anchor = schema_keyword(c, site, "$anchor");
    const json_t *dynamic = schema_keyword(c, site, "$dynamicAnchor");
    if (json_is_string(id)) {
        struct text uri = text_at(id);
        size_t hash = text_find(uri, '#');
        struct text base = c->resources[c->sites[site].resource].uri;
        if (hash > 0)
            resource_put(c, uri_resolve(c, base, text_span(uri.at, hash)), site);
        if (hash + 1 < uri.bytes) // the draft 7 form of an anchor
            anchor_put(c, text_rest(uri, hash + 1), site, false);
    }
    if (json_is_string(anchor))
        anchor_put(c, text_at(anchor), site, false);
    if (json_is_string(dynamic))
        anchor_put(c, text_at(dynamic), site, true);
}

static void sites_walk(struct schema *c, uint32_t site, int depth);

static void walk_below(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                       struct text key, int depth)
{
    if (json_is_object(value) || json_is_boolean(value))
        sites_walk(c, schema_site(c, value, site, keyword, key), depth + 1);
}

static void walk_members(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                         int depth)
{
    void *at = json_object_iter((json_t *)(uintptr_t)value);
    for (; at && schema_spend(c, 4); at = json_object_iter_next((json_t *)(uintptr_t)value, at))
        walk_below(c, site, keyword, json_object_iter_value(at), schema_key(at), depth);
}

static void walk_items(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                       int depth)
{
    for (size_t i = 0; i < json_array_size(value) && schema_spend(c, 20); i++)
        walk_below(c, site, keyword, json_array_get(value, i), arena_format(c->arena, "%zu", i),
                   depth);
}

// maps: keywords whose values are objects with arbitrary keys; data: keywords whose values are not
// schemas.
static const char *const maps[] = {
    "$defs", "definitions", "properties", "dependencies", "patternProperties", "dependentSchemas",
    NULL};
static const char *const data[] = {"const", "enum", "default", "examples", NULL};

// Records the $id and anchors of a subschema and of all subschemas below it.
static void sites_walk(struct schema *c, uint32_t site, int depth)
{
    static const char *const ones[] = {"items",
                                       "additionalItems",
                                       "additionalProperties",
                                       "propertyNames",
                                       "contains",
                                       "not",
                                       "if",
                                       "then",
                                       "else",
                                       "contentSchema",
                                       "unevaluatedItems",
                                       "unevaluatedProperties"};
    static const char *const lists[] = {"items", "prefixItems", "allOf", "anyOf", "oneOf"};
    if (!json_is_object(c->sites[site].value) || depth > WALK_DEPTH_MAX || !schema_spend(c, 180))
        return;
    site_identify(c, site);
    for (size_t i = 0; maps[i]; i++)
        walk_members(c, site, maps[i], schema_keyword(c, site, maps[i]), depth);
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        walk_below(c, site, ones[i], schema_keyword(c, site, ones[i]), (struct text){NULL, 0},
                   depth);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        walk_items(c, site, lists[i], schema_keyword(c, site, lists[i]), depth);
}

static bool is_one_of(const char *const *list, struct text key)
{
    while (*list && !text_is(key, *list))
        list++;
    return *list != NULL;
}

// Returns true if an unevaluated* keyword occurs anywhere, including parts that only references
// reach. names: the keys of the value are not keywords.
static bool has_unevaluated(struct schema *c, const json_t *value, bool names)
{
    json_t *object = (json_t *)(uintptr_t)value;
    bool found = false;
    if (json_is_object(value) && !names && schema_spend(c, 20))
        found = json_object_get(value, "unevaluatedItems") ||
                json_object_get(value, "unevaluatedProperties");
    for (void *at = json_object_iter(object); at && !found && schema_spend(c, 2);
         at = json_object_iter_next(object, at))
        if (names || !is_one_of(data, schema_key(at)))
            found = has_unevaluated(c, json_object_iter_value(at),
                                    !names && is_one_of(maps, schema_key(at)));
    for (size_t i = 0; i < json_array_size(value) && !found && schema_spend(c, 2); i++)
        found = has_unevaluated(c, json_array_get(value, i), false);
    return found;
}

void schema_index(struct schema *c)
{
    c->unevaluated = has_unevaluated(c, c->sites[0].value, false);
    resource_put(c, text_of(""), 0);
    sites_walk(c, 0, 0);
}

// --- references ---

static const json_t *step_into(const json_t *value, struct text part)
{
    if (json_is_object(value))
        return schema_member(value, part);
    size_t index = 0;
    if (!json_is_array(value) || part.bytes == 0 || part.bytes > 9)
        return NULL;
    for (size_t i = 0; i < part.bytes; i++) {
        if (part.at[i] < '0' || part.at[i] > '9')
            return NULL;
        index = index * 10 + (size_t)(part.at[i] - '0');
    }
    return json_array_get(value, index);
}

// Decodes one part of a JSON pointer: ~1 is /, ~0 is ~.
static struct text part_decoded(struct schema *c, struct text in)
{
    char *out = arena_alloc(c->arena, in.bytes + 1);
    size_t bytes = 0;
    schema_spend(c, 10 + in.bytes / 2);
    for (size_t i = 0; i < in.bytes; i++) {
        bool escape =
            in.at[i] == '~' && i + 1 < in.bytes && (in.at[i + 1] == '0' || in.at[i + 1] == '1');
        out[bytes++] = !escape ? in.at[i] : in.at[i + 1] == '0' ? '~' : '/';
        i += escape;
    }
    return text_span(out, bytes);
}

// Returns the site that a JSON pointer leads to from a resource; UINT32_MAX: none.
static uint32_t pointer_follow(struct schema *c, uint32_t resource, struct text pointer)
{
    uint32_t site = c->resources[resource].site, from = site, near = resource;
    const json_t *value = c->sites[site].value;
    for (size_t at = 0; value && at < pointer.bytes && !schema_failed(c);) {
        size_t end = at + 1 + text_find(text_rest(pointer, at + 1), '/');
        value = step_into(value, part_decoded(c, text_span(pointer.at + at + 1, end - at - 1)));
        uint32_t known = value ? schema_site_find(c, value) : UINT32_MAX;
        near = known != UINT32_MAX ? c->sites[known].resource : near;
        at = end;
    }
    if (!value || (!json_is_object(value) && !json_is_boolean(value)))
        return UINT32_MAX;
    site = schema_site_find(c, value);
    if (site != UINT32_MAX)
        return site;
    return schema_site_put(
        c, &(struct schema_site){.value = value, .resource = near, .parent = from, .key = pointer});
}

// Compares two texts and counts the work; only texts of equal length are compared byte by byte.
static bool spent_equal(struct schema *c, struct text one, struct text other)
{
    schema_spend(c, 4 + (one.bytes == other.bytes ? one.bytes / 16 : 0));
    return text_equal(one, other);
}

static uint32_t fragment_follow(struct schema *c, uint32_t resource, struct text fragment,
                                bool *dynamic)
{
    if (fragment.bytes == 0)
        return c->resources[resource].site;
    if (fragment.at[0] == '/')
        return pointer_follow(c, resource, fragment);
    for (uint32_t i = 0; i < c->anchor_count && schema_spend(c, 1); i++)
        if (c->anchors[i].resource == resource && spent_equal(c, c->anchors[i].name, fragment)) {
            *dynamic = c->anchors[i].dynamic;
            return c->anchors[i].site;
        }
    return UINT32_MAX;
}

static bool dynamic_is_unique(struct schema *c, struct text name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->anchor_count; i++)
        count += c->anchors[i].dynamic && spent_equal(c, c->anchors[i].name, name);
    return count == 1;
}

uint32_t schema_resolve(struct schema *c, uint32_t site, const char *keyword)
{
    const json_t *value = schema_keyword(c, site, keyword);
    if (!json_is_string(value))
        return schema_refuse(c, STATUS_INVALID, site, keyword, "must be a string");
    struct text ref = text_at(value);
    size_t hash = text_find(ref, '#');
    struct text base = c->resources[c->sites[site].resource].uri;
    struct text uri = uri_resolve(c, base, text_span(ref.at, hash));
    struct text fragment = percent_decoded(c, text_rest(ref, hash < ref.bytes ? hash + 1 : hash));
    for (uint32_t i = 0; i < c->resource_count && !schema_failed(c); i++) {
        if (!spent_equal(c, c->resources[i].uri, uri) && !(i == 0 && uri.bytes == 0))
            continue;
        bool dynamic = false;
        uint32_t found = fragment_follow(c, i, fragment, &dynamic);
        if (schema_failed(c))
            return 0;
        if (found == UINT32_MAX)
            return schema_refuse(c, STATUS_INVALID, site, keyword, "has no target");
        if (keyword[1] == 'd' && dynamic && !dynamic_is_unique(c, fragment))
            return schema_refuse(c, STATUS_UNSUPPORTED, site, keyword,
                                 "more than one $dynamicAnchor has this name");
        return found;
    }
    if (schema_failed(c))
        return 0;
    return schema_refuse(c, STATUS_UNSUPPORTED, site, keyword,
                         "it leads out of the document: put the schema into $defs");
}
