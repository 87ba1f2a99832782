// SPDX-License-Identifier: Apache-2.0
// The text of an object's members: known keys in order, each present or not, then unknown ones. The
// rest of the members depends on the number of members before, as far as limits and commas require.
#include "runtime/text/grammar/schema_object.h"

enum { STATES_MAX = 200 * 1000 };

// Returns min to max of these members, after `count` known ones, and then `after`, which begins
// with a comma or is empty.
static uint32_t members_repeat(struct object *o, uint32_t member, uint32_t count, uint32_t min,
                               uint32_t max, uint32_t after)
{
    struct grammar_builder *b = o->c->b;
    uint32_t more = grammar_join(b, o->comma, member);
    if (count > 0)
        return grammar_join(b, grammar_repeat(b, more, min, max), after);
    uint32_t rest = grammar_repeat(b, more, min > 0 ? min - 1 : 0,
                                   max == GRAMMAR_UNBOUNDED || max == 0 ? max : max - 1);
    uint32_t some = max == 0 ? GRAMMAR_NOTHING : grammar_join(b, member, rest);
    some = grammar_join(b, some, after);
    return min > 0 ? some : grammar_optional(b, some);
}

// Returns the members with unknown keys if only the other members are limited: any number that
// match a pattern, then the others; below the minimum also both in any order. If no known key
// precedes, others alone are a separate case, because the first has no comma.
static uint32_t matched_members(struct object *o, uint32_t count, uint32_t min)
{
    struct grammar_builder *b = o->c->b;
    uint32_t most = o->others_max;
    uint32_t others = grammar_repeat(b, grammar_join(b, o->comma, o->other), 0, most);
    uint32_t all = members_repeat(o, o->matched, count, min, GRAMMAR_UNBOUNDED, others);
    uint32_t apart = min > 0 ? o->member : o->other;
    if (min > 0 || count == 0)
        all = grammar_either(b, members_repeat(o, apart, count, min, most, GRAMMAR_EMPTY), all);
    return all;
}

// Returns the members with unknown keys that follow `count` known ones, at least one of them an
// extra member (object.extra). min, max: limits of their number.
static uint32_t with_extra(struct object *o, uint32_t count, uint32_t min, uint32_t max)
{
    struct grammar_builder *b = o->c->b;
    uint32_t more = grammar_repeat(b, grammar_join(b, o->comma, o->member), 0, GRAMMAR_UNBOUNDED);
    uint32_t extra_more = grammar_join(b, o->comma, o->extra);
    if (max == 0)
        return GRAMMAR_NOTHING;
    if (min > 1 || max != GRAMMAR_UNBOUNDED)
        return schema_refuse(o->c, STATUS_UNSUPPORTED, o->extra_entry->site, "not",
                             "cannot be combined with limits of the number of properties");
    uint32_t later[] = {more, extra_more, more};
    if (count > 0)
        return grammar_join_all(b, later, 3);
    uint32_t member_first = grammar_join(b, o->member, grammar_join_all(b, later, 3));
    return grammar_either(b, grammar_join(b, o->extra, more), member_first);
}

static uint32_t unknown_members(struct object *o, uint32_t count)
{
    bool open = o->max == GRAMMAR_UNBOUNDED;
    uint32_t min = o->min > count ? o->min - count : 0;
    uint32_t max = open ? GRAMMAR_UNBOUNDED : o->max - count;
    if (o->need_extra)
        return with_extra(o, count, min, max);
    if (o->member == GRAMMAR_NOTHING)
        return min > 0 ? GRAMMAR_NOTHING : GRAMMAR_EMPTY;
    if (o->others_max == GRAMMAR_UNBOUNDED || o->others_max == 0)
        return members_repeat(o, o->member, count, min, max, GRAMMAR_EMPTY);
    if (o->matched != GRAMMAR_NOTHING && o->max == GRAMMAR_UNBOUNDED)
        return matched_members(o, count, min);
    return members_repeat(o, o->member, count, min, max < o->others_max ? max : o->others_max,
                          GRAMMAR_EMPTY);
}

uint32_t member_text(struct object *o, uint32_t keys, uint32_t value)
{
    const struct writer *w = o->c->w;
    const struct schema_parameters *p = o->c->args->parameters;
    if (!o->parameters) {
        uint32_t parts[] = {w->key_open, keys, w->key_close, w->colon, value};
        return grammar_join_all(o->c->b, parts, 5);
    }
    uint32_t parts[] = {p->key_open, keys, value, keys, p->value_end};
    return grammar_join_all(o->c->b, parts, p->value_end == GRAMMAR_NOTHING ? 3 : 5);
}

uint32_t key_text(struct object *o, const struct schema_key *key)
{
    struct grammar_builder *b = o->c->b;
    return member_text(o, writer_text(b, o->kind, key->name), key->value);
}

// Returns the text of an object whose members are in any order, each of the known ones at most
// once. Those above GRAMMAR_ONCE_MAX count as other members.
static uint32_t members_in_any_order(struct object *o)
{
    struct grammar_builder *b = o->c->b;
    uint32_t members[GRAMMAR_ONCE_MAX], others = o->member == GRAMMAR_NOTHING ? 0 : o->others_max;
    struct grammar_once once = {.separator = o->comma, .members = members, .other = o->member};
    for (uint32_t i = 0; i < o->key_count; i++) {
        uint32_t text = key_text(o, &o->keys[i]);
        if (once.count < GRAMMAR_ONCE_MAX) {
            members[once.count++] = text;
        } else if (text != GRAMMAR_NOTHING) {
            once.other = grammar_either(b, text, once.other);
            others += others < GRAMMAR_UNBOUNDED;
        }
    }
    once.others_max = others < GRAMMAR_ONCE_UNLIMITED ? others : GRAMMAR_ONCE_UNLIMITED;
    uint32_t text = grammar_once(b, &once);
    uint32_t parts[] = {o->c->w->object_open, text, o->c->w->object_close};
    return o->parameters ? text : grammar_join_all(b, parts, 3);
}

uint32_t object_members(struct object *o)
{
    if (o->c->args->any_order)
        return members_in_any_order(o);
    struct grammar_builder *b = o->c->b;
    uint32_t required = 0, known = 0, cap = o->max;
    for (uint32_t i = 0; i < o->key_count; i++) {
        required += o->keys[i].required;
        known += !o->keys[i].loose;
    }
    if (o->max == GRAMMAR_UNBOUNDED)
        cap = o->min > 1 ? o->min : 1;
    if (required > o->max || o->min > o->max)
        return GRAMMAR_NOTHING;
    cap = cap < known ? cap : known;
    if ((uint64_t)(cap + 1) * (known + 1) > STATES_MAX)
        return schema_refuse(o->c, STATUS_TOO_LARGE, o->entries[0]->site, "properties",
                             "has too many members in combination with a limit of their number");
    uint32_t *tail = arena_alloc(o->c->arena, (cap + 2) * sizeof *tail);
    for (uint32_t count = 0; count <= cap; count++)
        tail[count] = unknown_members(o, count);
    for (uint32_t i = o->key_count; i > 0; i--) {
        const struct schema_key *key = &o->keys[i - 1];
        if (key->value == GRAMMAR_NOTHING || key->loose)
            continue;
        uint32_t text = key_text(o, key);
        for (uint32_t count = 0; count <= cap; count++) {
            // without a maximum, counts above cap are equivalent to cap
            uint32_t next = count < cap                   ? tail[count + 1]
                            : o->max == GRAMMAR_UNBOUNDED ? tail[count]
                                                          : GRAMMAR_NOTHING;
            uint32_t after = grammar_join(b, text, next);
            if (count > 0)
                after = grammar_join(b, o->comma, after);
            tail[count] = key->required ? after : grammar_either(b, after, tail[count]);
        }
    }
    uint32_t parts[] = {o->c->w->object_open, tail[0], o->c->w->object_close};
    return o->parameters ? tail[0] : grammar_join_all(b, parts, 3);
}
