// SPDX-License-Identifier: Apache-2.0
// Keys of objects as expressions: keys that are not known by name, and regions of keys that match
// the same patterns.
#include "runtime/text/grammar/schema_object.h"

#include "base/utf8.h"
#include "runtime/text/grammar/regex.h"

#include <stdlib.h>
#include <string.h>

static int names_compare(const void *one, const void *other)
{
    return text_order(*(const struct text *)one, *(const struct text *)other);
}

// One character that is none of the points, which are sorted: the ranges between them and the
// escapes, whose expression is shared unless a point is escaped.
static uint32_t other_char(struct schema *c, const uint32_t *points, uint32_t count,
                           enum writer_chars kind)
{
    struct grammar_range *ranges = arena_alloc(c->arena, (count + WRITER_ESCAPED) * sizeof *ranges);
    uint32_t range_count = 0, next = 0;
    bool plain = true;
    for (uint32_t i = 0; i < count; i++) {
        plain &= !writer_escapes_char(kind, points[i]);
        if (points[i] > next)
            ranges[range_count++] = (struct grammar_range){next, points[i] - 1};
        next = points[i] + 1;
    }
    if (next <= 0x10FFFF)
        ranges[range_count++] = (struct grammar_range){next, 0x10FFFF};
    if (!plain)
        return writer_chars(c->b, kind, ranges, range_count);
    // left out here: the points and all escaped characters
    for (uint32_t i = 0; i < count; i++)
        ranges[i] = (struct grammar_range){points[i], points[i]};
    range_count = count + writer_escaped(kind, ranges + count);
    return grammar_either(c->b, grammar_chars_except(c->b, ranges, range_count),
                          schema_chars(c, kind)->escapes);
}

// Properties common to all keys of an object.
struct key_chars {
    struct schema *c;
    enum writer_chars kind;
    uint32_t most; // maximum number of characters, or GRAMMAR_UNBOUNDED
    struct grammar_range without[WRITER_KEY_WITHOUT + 1]; // characters that keys must not contain
    uint32_t without_count;
    uint32_t any; // one character of a key
};

// The rest of a key after `chars` characters.
static uint32_t keys_rest(const struct key_chars *k, uint32_t chars)
{
    bool open = k->most == GRAMMAR_UNBOUNDED;
    uint32_t least = open || chars > 0 ? 0 : 1;
    return grammar_repeat(k->c->b, k->any, least, open ? k->most : k->most - chars);
}

// One character of a key that is none of the points, which are sorted.
static uint32_t keys_other(const struct key_chars *k, const uint32_t *points, uint32_t count)
{
    struct schema *c = k->c;
    if (k->without_count == 0)
        return other_char(c, points, count, k->kind);
    struct grammar_range *ranges =
        arena_alloc(c->arena, (count + k->without_count) * sizeof *ranges);
    memcpy(ranges, k->without, k->without_count * sizeof *ranges);
    for (uint32_t i = 0; i < count; i++)
        ranges[k->without_count + i] = (struct grammar_range){points[i], points[i]};
    return grammar_chars_except(c->b, ranges, k->without_count + count);
}

// The rest of keys that are none of the names, after the first `at` bytes (`chars` characters),
// which all these names share.
static uint32_t none_of(const struct key_chars *k, const struct text *names, uint32_t count,
                        size_t at, uint32_t chars)
{
    struct schema *c = k->c;
    uint32_t *points = arena_alloc(c->arena, (count + 1) * sizeof *points);
    bool itself = chars == 0 && k->without_count > 0; // keys of a writer_key are not empty
    uint32_t point_count = 0, i = 0, expr = itself ? GRAMMAR_NOTHING : GRAMMAR_EMPTY;
    while (i < count && names[i].bytes == at) {
        expr = GRAMMAR_NOTHING;
        i++;
    }
    if (chars == k->most)
        return expr;
    while (i < count && schema_spend(c, 300 + count / 4)) {
        size_t bytes;
        uint32_t first = i, point = utf8_read(names[i].at + at, &bytes);
        while (i < count && names[i].bytes >= at + bytes &&
               memcmp(names[i].at + at, names[first].at + at, bytes) == 0)
            i++;
        uint32_t rest = none_of(k, names + first, i - first, at + bytes, chars + 1);
        uint32_t one = writer_text(c->b, k->kind, text_span(names[first].at + at, bytes));
        expr = grammar_either(c->b, expr, grammar_join(c->b, one, rest));
        points[point_count++] = point;
    }
    uint32_t other = keys_other(k, points, point_count);
    return grammar_either(c->b, expr, grammar_join(c->b, other, keys_rest(k, chars + 1)));
}

static struct key_chars keys_begin(const struct object *o)
{
    struct schema *c = o->c;
    struct key_chars k = {.c = c, .kind = o->kind, .most = GRAMMAR_UNBOUNDED};
    if (o->writable->most == 0) {
        k.any = schema_chars(c, o->kind)->any;
        return k;
    }
    k.most = o->writable->most;
    k.without_count = writer_key_without(o->writable, k.without);
    k.any = grammar_chars_except(c->b, k.without, k.without_count);
    return k;
}

uint32_t keys_unknown(struct object *o)
{
    struct schema *c = o->c;
    struct text *names = arena_alloc(c->arena, (o->key_count + 1) * sizeof *names);
    struct key_chars k = keys_begin(o);
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->key_count; i++)
        if (!o->keys[i].unwritable)
            names[count++] = o->keys[i].name;
    if (count == 0)
        return keys_rest(&k, 0);
    qsort(names, count, sizeof *names, names_compare);
    return none_of(&k, names, count, 0, 0);
}

void keys_match(struct object *o, uint32_t site, const char *keyword, uint32_t expr, bool *matches)
{
    struct schema *c = o->c;
    struct text *names = arena_alloc(c->arena, (o->key_count + 1) * sizeof *names);
    struct json_buffer text = {0};
    for (uint32_t i = 0; i < o->key_count && schema_spend(c, 100); i++) {
        text.bytes = 0;
        writer_put(o->kind, &text, o->keys[i].name);
        names[i] = arena_copy(c->arena, json_buffer_text(&text));
    }
    json_buffer_free(&text);
    if (schema_failed(c))
        return;
    if (grammar_matches_all(c->b, expr, names, o->key_count, matches, c->err) != STATUS_OK)
        schema_pass_error(c, site, keyword);
}

bool key_matches(struct object *o, uint32_t site, const char *keyword, uint32_t expr,
                 struct text name)
{
    struct schema *c = o->c;
    struct json_buffer text = {0};
    bool matches;
    writer_put(o->kind, &text, name);
    enum status status = grammar_matches(c->b, expr, json_buffer_text(&text), &matches, c->err);
    json_buffer_free(&text);
    if (status != STATUS_OK)
        schema_pass_error(c, site, keyword);
    return matches;
}

uint32_t object_pattern(struct object *o, uint32_t site, const char *keyword, struct text pattern)
{
    for (uint32_t i = 0; i < o->pattern_count; i++)
        if (text_equal(o->patterns[i].text, pattern))
            return i;
    if (o->pattern_count == OBJECT_PATTERNS_MAX)
        return schema_refuse(o->c, STATUS_UNSUPPORTED, site, keyword,
                             "more than six patterns in one object");
    struct regex_args args = {
        .pattern = pattern, .search = true, .chars = writer_chars_of(o->kind)};
    struct object_pattern *one = &o->patterns[o->pattern_count];
    one->text = pattern;
    if (regex_compile(o->c->b, &args, &one->expr, o->c->err) != STATUS_OK)
        return schema_pass_error(o->c, site, keyword);
    return o->pattern_count++;
}

uint32_t keys_both(struct object *o, uint32_t one, uint32_t other, uint32_t site,
                   const char *keyword)
{
    struct schema *c = o->c;
    uint32_t any = schema_chars(c, o->kind)->inside;
    if (other == any)
        return one;
    return one == any ? other : schema_both(c, one, other, site, keyword);
}

uint32_t keys_region(struct object *o, uint32_t region)
{
    struct schema *c = o->c;
    if (!o->has_unknown)
        o->unknown = keys_unknown(o);
    o->has_unknown = true;
    uint32_t keys = o->unknown, site = o->pattern_site;
    for (uint32_t i = 0; i < o->pattern_count && !schema_failed(c); i++)
        if (region >> i & 1)
            keys = keys_both(o, keys, o->patterns[i].expr, site, "patternProperties");
        else
            keys = schema_except(c, keys, o->patterns[i].expr, site, "patternProperties");
    if (o->names != UINT32_MAX)
        keys = keys_both(o, keys, o->names, o->names_site, "propertyNames");
    return keys;
}
