// SPDX-License-Identifier: Apache-2.0
// Strings with origin: building, slicing, joining; see jinja/string.h. Characters are in
// jinja/char.c. A + appends in place to a string from a builder as long as nothing else was
// appended to it, so that text accumulated in a loop takes linear time and memory.
#include "runtime/text/jinja/string.h"

#include <string.h>

struct jinja_builder *jinja_builder_create(struct jinja_run *run)
{
    struct jinja_builder *b = jinja_alloc(run, 1, sizeof *b);
    if (b)
        *b = (struct jinja_builder){0};
    return b;
}

static bool builder_reserve(struct jinja_run *run, struct jinja_builder *b, size_t bytes)
{
    if (bytes > run->output_bytes_max || b->bytes > run->output_bytes_max - bytes)
        return jinja_fail(run, STATUS_TOO_LARGE,
                          "the template makes a text of more than %zu bytes; send less",
                          run->output_bytes_max);
    size_t wanted = b->bytes + bytes;
    if (wanted <= b->allocated)
        return true;
    size_t capacity = b->allocated == 0 ? wanted : wanted + wanted / 2;
    if (capacity < 64)
        capacity = 64;
    char *at = arena_grow(run->arena, b->at, b->bytes, capacity);
    if (!at)
        return jinja_fail_memory(run);
    b->at = at;
    b->allocated = capacity;
    return true;
}

static bool builder_mark(struct jinja_run *run, struct jinja_builder *b, size_t end, bool untrusted)
{
    if (b->count > 0 && b->marks[b->count - 1].untrusted == untrusted) {
        b->marks[b->count - 1].end = end;
        return true;
    }
    struct jinja_mark *marks =
        jinja_extend(run, b->marks, b->count, &b->allocated_marks, sizeof *marks);
    if (!marks)
        return false;
    b->marks = marks;
    b->marks[b->count++] = (struct jinja_mark){.end = end, .untrusted = untrusted};
    return true;
}

bool jinja_builder_add(struct jinja_run *run, struct jinja_builder *b, struct text text,
                       bool untrusted)
{
    if (text.bytes == 0)
        return true;
    if (!jinja_spend(run, 1 + text.bytes / 32) || !builder_reserve(run, b, text.bytes))
        return false;
    if (!builder_mark(run, b, b->bytes + text.bytes, untrusted))
        return false;
    memcpy(b->at + b->bytes, text.at, text.bytes);
    b->bytes += text.bytes;
    return true;
}

bool jinja_builder_literal(struct jinja_run *run, struct jinja_builder *b, const char *text)
{
    return jinja_builder_add(run, b, text_of(text), false);
}

bool jinja_builder_part(struct jinja_run *run, struct jinja_builder *b,
                        const struct jinja_string *string, size_t from, size_t to)
{
    if (string->mark_count == 0)
        return jinja_builder_add(run, b, text_span(string->at + from, to - from),
                                 string->untrusted);
    size_t start = 0;
    for (uint32_t i = 0; i < string->mark_count && start < to; i++) {
        size_t end = string->marks[i].end < to ? string->marks[i].end : to;
        size_t first = start > from ? start : from;
        if (end > first && !jinja_builder_add(run, b, text_span(string->at + first, end - first),
                                              string->marks[i].untrusted))
            return false;
        start = string->marks[i].end;
    }
    return true;
}

bool jinja_builder_string(struct jinja_run *run, struct jinja_builder *b,
                          const struct jinja_string *string)
{
    return jinja_builder_part(run, b, string, 0, string->bytes);
}

bool jinja_builder_done(struct jinja_run *run, struct jinja_builder *b, struct jinja_value *out)
{
    struct jinja_string *string = jinja_alloc(run, 1, sizeof *string);
    if (!string)
        return false;
    *string = (struct jinja_string){.at = b->bytes > 0 ? b->at : "", .bytes = b->bytes, .home = b};
    if (b->count > 1) {
        string->marks = b->marks;
        string->mark_count = b->count;
    } else if (b->count == 1) {
        string->untrusted = b->marks[0].untrusted;
    }
    *out = jinja_of_string(string);
    return true;
}

bool jinja_string_make(struct jinja_run *run, struct text text, bool untrusted,
                       struct jinja_value *out)
{
    struct jinja_string *string = jinja_alloc(run, 1, sizeof *string);
    if (!string)
        return false;
    *string = (struct jinja_string){.at = text.at, .bytes = text.bytes, .untrusted = untrusted};
    *out = jinja_of_string(string);
    return true;
}

bool jinja_string_slice(struct jinja_run *run, const struct jinja_string *string, size_t from,
                        size_t to, struct jinja_value *out)
{
    struct jinja_string *part = jinja_alloc(run, 1, sizeof *part);
    if (!part)
        return false;
    if (to < from)
        to = from;
    *part = (struct jinja_string){.at = string->at + from,
                                  .bytes = to - from,
                                  .untrusted = string->untrusted,
                                  .markup = string->markup};
    *out = jinja_of_string(part);
    uint32_t first = 0;
    while (first < string->mark_count && string->marks[first].end <= from)
        first++;
    uint32_t last = first;
    while (last < string->mark_count && string->marks[last].end < to)
        last++;
    if (!jinja_spend(run, 1 + last / 16))
        return false;
    if (string->mark_count == 0 || from == to)
        return true;
    part->untrusted = string->marks[first].untrusted;
    if (first == last)
        return true;
    struct jinja_mark *marks = jinja_alloc(run, last - first + 1, sizeof *marks);
    if (!marks)
        return false;
    for (uint32_t i = first; i <= last; i++)
        marks[i - first] = (struct jinja_mark){.end = string->marks[i].end - from,
                                               .untrusted = string->marks[i].untrusted};
    part->marks = marks;
    part->mark_count = last - first + 1;
    return true;
}

bool jinja_string_markup(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_value *out)
{
    struct jinja_string *made = jinja_alloc(run, 1, sizeof *made);
    if (!made)
        return false;
    *made = *string;
    made->markup = true;
    *out = jinja_of_string(made);
    return true;
}

static bool join_markup(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                        struct jinja_value *out)
{
    if (!a.as.string->markup && !jinja_string_escape(run, a.as.string, &a))
        return false;
    if (!b.as.string->markup && !jinja_string_escape(run, b.as.string, &b))
        return false;
    struct jinja_builder *joined = jinja_builder_create(run);
    return joined && jinja_builder_string(run, joined, a.as.string) &&
           jinja_builder_string(run, joined, b.as.string) && jinja_builder_done(run, joined, out) &&
           jinja_string_markup(run, out->as.string, out);
}

bool jinja_string_join(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                       struct jinja_value *out)
{
    const struct jinja_string *left = a.as.string;
    const struct jinja_string *right = b.as.string;
    if (left->markup || right->markup)
        return join_markup(run, a, b, out);
    struct jinja_builder *home = left->home;
    if (!home || home->bytes != left->bytes) {
        home = jinja_builder_create(run);
        if (!home || !builder_reserve(run, home, left->bytes + right->bytes) ||
            !jinja_builder_string(run, home, left))
            return false;
    }
    return jinja_builder_string(run, home, right) && jinja_builder_done(run, home, out);
}

bool jinja_string_repeat(struct jinja_run *run, const struct jinja_string *string, int64_t times,
                         struct jinja_value *out)
{
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b)
        return false;
    for (int64_t i = 0; i < times && string->bytes > 0; i++)
        if (!jinja_builder_string(run, b, string))
            return false;
    return jinja_builder_done(run, b, out);
}

bool jinja_string_is_untrusted(const struct jinja_string *string)
{
    return string->mark_count > 0 ||
           string->untrusted; // a string with marks has spans of both kinds
}

bool jinja_builder_padded(struct jinja_run *run, struct jinja_builder *b,
                          const struct jinja_string *string, const struct padding *p)
{
    if (!jinja_builder_part(run, b, string, 0, p->sign))
        return false;
    for (int64_t i = 0; i < p->left; i++)
        if (!jinja_builder_string(run, b, p->with))
            return false;
    if (!jinja_builder_part(run, b, string, p->sign, string->bytes))
        return false;
    for (int64_t i = 0; i < p->right; i++)
        if (!jinja_builder_string(run, b, p->with))
            return false;
    return true;
}

struct text jinja_string_text(const struct jinja_string *string)
{
    return text_span(string->at, string->bytes);
}

static const char *entity_of(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '\'':
        return "&#39;";
    case '"':
        return "&#34;";
    default:
        return NULL;
    }
}

bool jinja_string_escape(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_value *out)
{
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b)
        return false;
    size_t from = 0;
    for (size_t at = 0; at < string->bytes; at++) {
        const char *entity = entity_of(string->at[at]);
        if (!entity)
            continue;
        if (!jinja_builder_part(run, b, string, from, at) ||
            !jinja_builder_add(run, b, text_of(entity), jinja_string_is_untrusted(string)))
            return false;
        from = at + 1;
    }
    return jinja_builder_part(run, b, string, from, string->bytes) &&
           jinja_builder_done(run, b, out) && jinja_string_markup(run, out->as.string, out);
}
