// SPDX-License-Identifier: Apache-2.0
// The entry of the schema compiler, its tables of sites and sets, and the compilation of a set to
// text. See schema.h.
#include "runtime/text/grammar/schema_parts.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 200, // maximum depth of nested conjunctions
    SETS_MAX = 20 * 1000,
    BYTES_MAX = 16 << 20,
    NESTING_MAX = 2000,
    CHAIN_MAX = 256, // maximum number of ancestors in the pointer of a site
    PARTS_MAX = 32,  // maximum number of parts of a value that are compared to find duplicates
};

enum set_state { SET_NEW, SET_ACTIVE, SET_DONE };
struct schema_set {
    const uint32_t *literals;
    uint32_t count, entered, expr, rule, rule_expr;
    enum set_state state;
    bool has_rule;
};

// Writes the JSON pointer of a site, truncated to `most` bytes. Returns its length.
static size_t pointer_write(const struct schema *c, uint32_t site, char *out, size_t most)
{
    uint32_t chain[CHAIN_MAX], count = 0;
    size_t bytes = 0;
    for (; site != 0 && count < CHAIN_MAX; site = c->sites[site].parent)
        chain[count++] = site;
    while (count > 0) {
        const struct schema_site *s = &c->sites[chain[--count]];
        for (const char *k = s->keyword; k && *k != '\0'; k++) {
            if (k == s->keyword && bytes < most)
                out[bytes++] = '/';
            if (bytes < most)
                out[bytes++] = *k;
        }
        if (s->keyword && s->key.at && bytes < most)
            out[bytes++] = '/';
        for (size_t i = 0; i < s->key.bytes; i++) {
            if (bytes + 1 >= most)
                return utf8_complete(out, bytes);
            char letter = s->key.at[i];
            bool escape = s->keyword && (letter == '~' || letter == '/');
            if (escape)
                out[bytes++] = '~';
            out[bytes++] = !escape ? letter : letter == '~' ? '0' : '1';
        }
    }
    return bytes;
}

// Returns the nearest site that the client wrote, for error sentences. Sets *keyword to NULL if
// that site does not contain it.
static uint32_t place_of(const struct schema *c, uint32_t site, const char **keyword)
{
    const char *name = *keyword;
    while (site != 0 && c->sites[site].synthetic)
        site = c->sites[site].parent;
    if (name && !json_object_get(c->sites[site].value, name))
        *keyword = NULL;
    return site;
}

uint32_t schema_refuse(struct schema *c, enum status status, uint32_t site, const char *keyword,
                       const char *what)
{
    char at[POINTER_BYTES_MAX];
    site = place_of(c, site, &keyword);
    const char *slash = keyword ? "/" : "";
    int bytes = (int)pointer_write(c, site, at, sizeof at);
    if (c->status != STATUS_OK)
        return GRAMMAR_NOTHING;
    c->status = status;
    if (status == STATUS_UNSUPPORTED)
        error_set(c->err, status, "the schema's %s at #%.*s%s%s is not supported%s%s",
                  keyword ? keyword : "value", bytes, at, slash, keyword ? keyword : "",
                  what[0] != '\0' ? ": " : "", what);
    else
        error_set(c->err, status, "the schema's %s at #%.*s%s%s %s", keyword ? keyword : "value",
                  bytes, at, slash, keyword ? keyword : "", what);
    return GRAMMAR_NOTHING;
}

uint32_t schema_pass_error(struct schema *c, uint32_t site, const char *keyword)
{
    struct error inner = *c->err;
    char what[sizeof inner.text + 32];
    // schema_refuse writes a clause for other statuses
    bool clause = inner.status != STATUS_UNSUPPORTED;
    snprintf(what, sizeof what, "%s%s", clause ? "cannot be compiled: " : "", inner.text);
    return schema_refuse(c, inner.status, site, keyword, what);
}

bool schema_has_memory(struct schema *c, size_t bytes)
{
    if (arena_bytes(c->arena) + c->made_bytes + bytes > BYTES_MAX)
        schema_refuse(c, STATUS_TOO_LARGE, 0, NULL,
                      "exceeds its memory limit: make the schema simpler");
    return !schema_failed(c);
}

bool schema_spend(struct schema *c, uint64_t work)
{
    return grammar_spend(c->b, work) && schema_has_memory(c, 0);
}

bool schema_spend_values(struct schema *c, uint64_t count)
{
    c->made_bytes += count * SCHEMA_VALUE_BYTES;
    return schema_spend(c, 40 * count);
}

bool schema_enter(struct schema *c, uint32_t site)
{
    if (c->nesting >= NESTING_MAX)
        schema_refuse(c, STATUS_TOO_LARGE, site, NULL, "is nested too deep");
    else
        c->nesting++;
    return !schema_failed(c);
}

// --- sites ---

static uint32_t pointer_hash(const void *at)
{
    uint64_t h = (uint64_t)(uintptr_t)at * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static void index_rebuild(struct schema *c)
{
    c->site_index_size = c->site_index_size == 0 ? 256 : c->site_index_size * 2;
    c->site_index = arena_alloc_zeroed(c->arena, c->site_index_size, sizeof *c->site_index);
    for (uint32_t i = 0; i < c->site_count; i++) {
        uint32_t slot = pointer_hash(c->sites[i].value) & (c->site_index_size - 1);
        while (c->site_index[slot] != 0)
            slot = (slot + 1) & (c->site_index_size - 1);
        c->site_index[slot] = i + 1;
    }
}

uint32_t schema_site_find(const struct schema *c, const json_t *value)
{
    if (c->site_index_size == 0)
        return UINT32_MAX;
    uint32_t slot = pointer_hash(value) & (c->site_index_size - 1);
    for (; c->site_index[slot] != 0; slot = (slot + 1) & (c->site_index_size - 1))
        if (c->sites[c->site_index[slot] - 1].value == value)
            return c->site_index[slot] - 1;
    return UINT32_MAX;
}

uint32_t schema_site_put(struct schema *c, const struct schema_site *site)
{
    c->sites = arena_extend(c->arena, c->sites, c->site_count, &c->site_capacity, sizeof *c->sites);
    c->sites[c->site_count++] = *site;
    if (2 * c->site_count >= c->site_index_size) {
        index_rebuild(c);
    } else {
        uint32_t slot = pointer_hash(site->value) & (c->site_index_size - 1);
        while (c->site_index[slot] != 0)
            slot = (slot + 1) & (c->site_index_size - 1);
        c->site_index[slot] = c->site_count;
    }
    schema_spend(c, 20);
    return c->site_count - 1;
}

uint32_t schema_site(struct schema *c, const json_t *value, uint32_t parent, const char *keyword,
                     struct text key)
{
    uint32_t site = schema_site_find(c, value);
    if (site != UINT32_MAX)
        return site;
    return schema_site_put(c, &(struct schema_site){.value = value,
                                                    .resource = c->sites[parent].resource,
                                                    .synthetic = c->sites[parent].synthetic,
                                                    .parent = parent,
                                                    .keyword = keyword,
                                                    .key = key});
}

uint32_t schema_make(struct schema *c, json_t *value, uint32_t owner)
{
    json_array_append_new(c->made, value);
    schema_spend_values(c, 2);
    return schema_site_put(c, &(struct schema_site){.value = value,
                                                    .resource = c->sites[owner].resource,
                                                    .synthetic = true,
                                                    .parent = owner});
}

const json_t *schema_member(const json_t *object, struct text key)
{
    return json_object_getn(object, key.at, key.bytes);
}

struct text schema_key(void *iterator)
{
    return text_span(json_object_iter_key(iterator), json_object_iter_key_len(iterator));
}

const json_t *schema_keyword(const struct schema *c, uint32_t site, const char *name)
{
    const json_t *value = c->sites[site].value;
    if (name[0] == '!' && !c->sites[site].synthetic)
        return NULL;
    if (c->draft7 && strcmp(name, "$ref") != 0 && json_is_string(json_object_get(value, "$ref")))
        return NULL;
    return json_object_get(value, name);
}

uint32_t schema_literal(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                        struct text key)
{
    if (!json_is_object(value) && !json_is_boolean(value)) {
        schema_refuse(c, STATUS_INVALID, site, keyword, "must be a schema: an object or a boolean");
        return 0;
    }
    return schema_site(c, value, site, keyword, key) * LITERAL_SITE;
}

bool schema_count(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                  uint32_t *out)
{
    int64_t count;
    *out = 0;
    if (!json_integer_exact(value, &count) || count < 0) {
        schema_refuse(c, STATUS_INVALID, site, keyword, "must be an integer of at least 0");
        return false;
    }
    *out = count < (int64_t)UINT32_MAX - 1 ? (uint32_t)count : UINT32_MAX - 1;
    return true;
}

// --- sets ---

void literals_add(struct schema *c, struct literals *list, uint32_t literal)
{
    const json_t *value = c->sites[literal / LITERAL_SITE].value;
    if (!(literal & LITERAL_NOT) &&
        (json_is_true(value) || (json_is_object(value) && json_object_size(value) == 0)))
        return; // allows everything
    list->at = arena_extend(c->arena, list->at, list->count, &list->capacity, sizeof *list->at);
    list->at[list->count++] = literal;
}

static int literals_compare(const void *one, const void *other)
{
    uint32_t x = *(const uint32_t *)one, y = *(const uint32_t *)other;
    return (x > y) - (x < y);
}

static void literals_sort(struct literals *list)
{
    size_t kept = 0;
    qsort(list->at, list->count, sizeof *list->at, literals_compare);
    for (size_t i = 0; i < list->count; i++)
        if (kept == 0 || list->at[kept - 1] != list->at[i])
            list->at[kept++] = list->at[i];
    list->count = kept;
}

static uint32_t literals_hash(const struct literals *list)
{
    uint64_t hash = list->count;
    for (size_t i = 0; i < list->count; i++)
        hash = (hash ^ list->at[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> 32);
}

static void set_index_grow(struct schema *c)
{
    c->set_index_size = c->set_index_size == 0 ? 256 : c->set_index_size * 2;
    c->set_index = arena_alloc_zeroed(c->arena, c->set_index_size, sizeof *c->set_index);
    for (uint32_t i = 0; i < c->set_count; i++) {
        struct literals list = {(uint32_t *)(uintptr_t)c->sets[i]->literals, c->sets[i]->count, 0};
        uint32_t slot = literals_hash(&list) & (c->set_index_size - 1);
        while (c->set_index[slot])
            slot = (slot + 1) & (c->set_index_size - 1);
        c->set_index[slot] = c->sets[i];
    }
}

static struct schema_set *set_put(struct schema *c, const struct literals *list)
{
    if (2 * (c->set_count + 1) >= c->set_index_size)
        set_index_grow(c);
    uint32_t slot = literals_hash(list) & (c->set_index_size - 1);
    for (; c->set_index[slot]; slot = (slot + 1) & (c->set_index_size - 1)) {
        struct schema_set *set = c->set_index[slot];
        if (set->count == list->count &&
            memcmp(set->literals, list->at, list->count * sizeof *list->at) == 0)
            return set;
    }
    struct schema_set *set = arena_alloc_zeroed(c->arena, 1, sizeof *set);
    uint32_t *literals = arena_alloc(c->arena, list->count * sizeof *literals);
    memcpy(literals, list->at, list->count * sizeof *literals);
    set->literals = literals;
    set->count = (uint32_t)list->count;
    c->sets = arena_extend(c->arena, c->sets, c->set_count, &c->set_capacity, sizeof *c->sets);
    c->sets[c->set_count++] = set;
    c->set_index[slot] = set;
    return set;
}

// --- text ---

struct schema_parts {
    uint32_t at[PARTS_MAX], count, rest;
};

static void parts_add(struct schema *c, struct schema_parts *parts, uint32_t expr)
{
    for (uint32_t i = 0; i < parts->count; i++)
        if (parts->at[i] == expr)
            return;
    if (expr == GRAMMAR_NOTHING)
        return;
    if (parts->count < PARTS_MAX)
        parts->at[parts->count++] = expr;
    else
        parts->rest = grammar_either(c->b, expr, parts->rest);
}

static uint32_t parts_end(struct schema *c, const struct schema_parts *parts)
{
    return grammar_either(c->b, grammar_either_of(c->b, parts->at, parts->count), parts->rest);
}

static uint32_t words_text(struct schema *c, uint32_t types)
{
    struct text words[3];
    uint32_t count = 0;
    if (types & TYPE_NULL)
        words[count++] = text_of(c->w->null_word);
    if (types & TYPE_TRUE)
        words[count++] = text_of(c->w->true_word);
    if (types & TYPE_FALSE)
        words[count++] = text_of(c->w->false_word);
    return grammar_choice(c->b, words, count);
}

// Adds the quotes to strings, without those that cannot be written.
static uint32_t string_text(struct schema *c, uint32_t inside)
{
    if (inside == schema_chars(c, c->w->strings)->inside)
        return c->any.string;
    if (c->w->never != GRAMMAR_NOTHING)
        inside = schema_except(c, inside, c->w->never, 0, NULL);
    return grammar_join(c->b, c->w->string_open, grammar_join(c->b, inside, c->w->string_close));
}

static void value_alternative(struct schema *c, struct alternative *a, void *context)
{
    struct schema_parts *parts = context;
    if (a->types & (TYPE_NULL | TYPE_TRUE | TYPE_FALSE))
        parts_add(c, parts, words_text(c, a->types));
    if (a->types & TYPE_STRING)
        parts_add(c, parts, string_text(c, string_inside(c, a, c->w->strings)));
    if (a->types & TYPE_NUMBER)
        parts_add(c, parts, number_text(c, a));
    if (a->types & TYPE_ARRAY)
        parts_add(c, parts, array_text(c, a));
    if (a->types & TYPE_OBJECT)
        parts_add(c, parts, object_text(c, a, false));
}

static uint32_t set_compile(struct schema *c, struct schema_set *set)
{
    struct literals list = {(uint32_t *)(uintptr_t)set->literals, set->count, 0};
    struct schema_parts parts = {.rest = GRAMMAR_NOTHING};
    set->state = SET_ACTIVE;
    set->entered = ++c->entered;
    set->has_rule = false;
    if (++c->depth > DEPTH_MAX || c->set_count > SETS_MAX)
        schema_refuse(c, STATUS_TOO_LARGE, set->literals[0] / LITERAL_SITE, NULL,
                      "is too large or too deep: make the schema simpler");
    else if (!schema_failed(c))
        schema_alternatives(c, &list, value_alternative, &parts);
    c->depth--;
    set->state = schema_failed(c) ? SET_NEW : SET_DONE;
    set->expr = parts_end(c, &parts);
    if (set->has_rule && set->state == SET_DONE) {
        grammar_rule_set(c->b, set->rule, set->expr);
        set->expr = set->expr == GRAMMAR_NOTHING ? GRAMMAR_NOTHING : set->rule_expr;
    }
    return set->expr;
}

uint32_t schema_value(struct schema *c, struct literals *list)
{
    if (!schema_spend(c, 40 + 20 * list->count))
        return GRAMMAR_NOTHING;
    if (list->count == 0)
        return c->any.value;
    literals_sort(list);
    struct schema_set *set = set_put(c, list);
    if (set->state == SET_DONE)
        return set->expr;
    if (set->state == SET_NEW)
        return set_compile(c, set);
    if (!set->has_rule) {
        char name[POINTER_BYTES_MAX];
        size_t bytes = pointer_write(c, set->literals[0] / LITERAL_SITE, name, sizeof name);
        set->rule_expr = grammar_rule(c->b, text_span(name, bytes), &set->rule);
        set->has_rule = true;
    }
    return set->rule_expr;
}

struct strings_wanted {
    struct schema_parts parts;
    enum writer_chars kind;
};

static void strings_alternative(struct schema *c, struct alternative *a, void *context)
{
    struct strings_wanted *wanted = context;
    if (a->types & TYPE_STRING)
        parts_add(c, &wanted->parts, string_inside(c, a, wanted->kind));
}

uint32_t schema_strings(struct schema *c, struct literals *list, enum writer_chars kind)
{
    struct strings_wanted wanted = {.parts.rest = GRAMMAR_NOTHING, .kind = kind};
    if (list->count == 0)
        return schema_chars(c, kind)->inside;
    schema_alternatives(c, list, strings_alternative, &wanted);
    return parts_end(c, &wanted.parts);
}

const struct schema_chars *schema_chars(struct schema *c, enum writer_chars kind)
{
    static const struct grammar_range all[] = {{0, 0x10FFFF}};
    struct schema_chars *of = &c->chars[kind];
    struct grammar_range escaped[WRITER_ESCAPED];
    if (of->any != GRAMMAR_NOTHING)
        return of;
    of->any = writer_chars(c->b, kind, all, 1);
    of->inside = grammar_repeat(c->b, of->any, 0, GRAMMAR_UNBOUNDED);
    of->escapes = writer_chars(c->b, kind, escaped, writer_escaped(kind, escaped));
    return of;
}

bool schema_is_empty(struct schema *c, struct literals *list)
{
    uint32_t entered = c->entered, depth = c->depth, nesting = c->nesting;
    struct error before = *c->err;
    if (schema_failed(c))
        return false;
    bool empty = schema_value(c, list) == GRAMMAR_NOTHING && !schema_failed(c);
    if (c->status != STATUS_OK) {
        // Expressions created on the way may refer to rules that will have no body.
        for (uint32_t i = 0; i < c->set_count; i++)
            if (c->sets[i]->entered > entered)
                c->sets[i]->state = SET_NEW;
        c->status = STATUS_OK;
        c->depth = depth;
        c->nesting = nesting;
        *c->err = before;
    }
    return empty;
}

// --- entry ---

static void draft_find(struct schema *c, const struct schema_args *args)
{
    const char *uri = json_string_value(json_object_get(args->schema, "$schema"));
    c->draft7 = args->draft == SCHEMA_DRAFT_7;
    if (!uri)
        return;
    static const char *const known[] = {"draft/2020-12/schema", "draft/2019-09/schema",
                                        "draft-07/schema",      "draft-06/schema",
                                        "draft-04/schema",      "json-schema.org/schema"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(uri, known[i]) && strstr(uri, "json-schema.org/")) {
            if (args->draft == SCHEMA_DRAFT_AUTO)
                c->draft7 = i >= 2 && i <= 4;
            return;
        }
    schema_refuse(c, STATUS_UNSUPPORTED, 0, "$schema", "use draft 2020-12 or draft 7");
}

static void parameters_alternative(struct schema *c, struct alternative *a, void *context)
{
    if (a->types & TYPE_OBJECT)
        parts_add(c, context, object_text(c, a, true));
}

static uint32_t top_text(struct schema *c, struct literals *list)
{
    struct schema_parts parts = {.rest = GRAMMAR_NOTHING};
    if (!c->args->parameters)
        return schema_value(c, list);
    schema_alternatives(c, list, parameters_alternative, &parts);
    return parts_end(c, &parts);
}

enum status schema_compile(struct grammar_builder *b, const struct schema_args *args,
                           uint32_t *root, struct error *err)
{
    struct error own = {0};
    struct schema c = {.b = b, .err = &own, .args = args};
    uint32_t blank = args->style.blank;
    struct writer json = writer_json(b, blank == GRAMMAR_NOTHING ? GRAMMAR_EMPTY : blank);
    *root = GRAMMAR_NOTHING;
    c.w = args->writer ? args->writer : &json;
    c.arena = arena_create(0, 0);
    c.made = json_array();
    c.any = writer_rules(b, c.w);
    uint32_t site = schema_site_put(&c, &(struct schema_site){.value = args->schema});
    if (!json_is_object(args->schema) && !json_is_boolean(args->schema))
        schema_refuse(&c, STATUS_INVALID, site, NULL, "must be an object or a boolean");
    draft_find(&c, args);
    schema_index(&c);
    struct literals list = {0};
    literals_add(&c, &list, site * LITERAL_SITE);
    if (args->object)
        literals_add(&c, &list,
                     schema_make(&c, json_pack("{s:s}", "type", "object"), site) * LITERAL_SITE);
    if (!schema_failed(&c))
        *root = top_text(&c, &list);
    if (c.status != STATUS_OK) {
        *root = GRAMMAR_NOTHING;
        error_set(err, c.status, "%s", own.text);
    }
    json_decref(c.made);
    arena_destroy(c.arena);
    return c.status;
}
