// SPDX-License-Identifier: Apache-2.0
// See schema_rig.h. Key orders are tried by walking the matcher, so a wrong order ends early.
#include "tests/grammar/schema_rig.h"

#include "base/arena.h"
#include "base/clock.h"
#include "runtime/text/grammar/schema_digits.h"

#include <string.h>

// Work that is left: a value to write, or the rest of an array or object, then `next`.
struct todo {
    const struct todo *next;
    const json_t *value;
    bool inside;
    size_t index;  // next item of an array
    uint64_t used; // bit i is set if member i of an object is written
};

void schema_rig_open(struct schema_rig *rig, const json_t *schema, enum schema_draft draft)
{
    schema_rig_compile(rig, &(struct schema_args){.schema = schema, .draft = draft});
}

void schema_rig_compile(struct schema_rig *rig, const struct schema_args *in)
{
    struct text a = text_of("a");
    int32_t end = 1;
    uint32_t root;
    struct vocabulary_args args = {2, &a, 1, NULL, &end, 1};
    *rig = (struct schema_rig){.bytes = vocabulary_create(&args)};
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint64_t start = clock_ns();
    rig->status = schema_compile(b, in, &root, &rig->err);
    if (rig->status != STATUS_OK || (root == GRAMMAR_NOTHING && !grammar_failed(b)))
        grammar_builder_destroy(b);
    else
        rig->status = grammar_finish(b, root, &rig->grammar, &rig->err);
    if (rig->status == STATUS_INVALID && strstr(rig->err.text, "no text at all"))
        rig->status = STATUS_OK; // unbounded recursion: the schema has no valid value
    rig->ns = clock_ns() - start;
    if (rig->grammar)
        rig->cache = mask_cache_create(rig->grammar, rig->bytes, NULL);
}

void schema_rig_close(struct schema_rig *rig)
{
    mask_cache_destroy(rig->cache);
    grammar_unref(rig->grammar);
    vocabulary_unref(rig->bytes);
}

static bool run(struct matcher *m, const struct todo *todo);

static bool accept(struct matcher *m, const char *text)
{
    return matcher_accept_bytes(m, text_of(text));
}

static bool run_scalar(struct matcher *m, const json_t *value)
{
    struct json_buffer text = {0};
    if (json_is_number(value)) {
        struct arena *arena = arena_create(0, 0);
        struct bound number;
        json_put_value(&text, value);
        if (!bound_read(arena, text_span(text.at, text.bytes), &number))
            return false;
        text.bytes = 0;
        json_put_literal(&text, number.negative ? "-" : "");
        json_put_raw(&text, number.size.whole);
        json_put_literal(&text, number.size.fraction.bytes > 0 ? "." : "");
        json_put_raw(&text, number.size.fraction);
        arena_destroy(arena);
    } else {
        json_put_value(&text, value);
    }
    bool fits = matcher_accept_bytes(m, text_span(text.at, text.bytes));
    json_buffer_free(&text);
    return fits;
}

// Writes one more member of the object, trying all that are left until the rest of the value fits.
static bool run_members(struct matcher *m, const struct todo *todo)
{
    json_t *object = (json_t *)(uintptr_t)todo->value;
    if (todo->used == ((uint64_t)1 << json_object_size(object)) - 1)
        return accept(m, "}") && run(m, todo->next);
    size_t i = 0;
    bool done = false;
    for (void *at = json_object_iter(object); at && !done;
         at = json_object_iter_next(object, at), i++) {
        struct matcher copy;
        struct json_buffer key = {0};
        if (todo->used >> i & 1)
            continue;
        struct todo rest = *todo;
        rest.used |= (uint64_t)1 << i;
        struct todo value = {&rest, json_object_iter_value(at), false, 0, 0};
        json_put_literal(&key, todo->used != 0 ? "," : "");
        json_put_string(&key, text_span(json_object_iter_key(at), json_object_iter_key_len(at)));
        json_put_literal(&key, ":");
        matcher_copy(&copy, m);
        done = matcher_accept_bytes(&copy, text_span(key.at, key.bytes)) && run(&copy, &value);
        matcher_end(&copy);
        json_buffer_free(&key);
    }
    return done;
}

static bool run(struct matcher *m, const struct todo *todo)
{
    if (!todo)
        return matcher_may_end(m);
    struct todo now = *todo;
    if (!todo->inside) {
        now.inside = true;
        if (json_is_array(todo->value))
            return accept(m, "[") && run(m, &now);
        if (json_is_object(todo->value))
            return accept(m, "{") && run(m, &now);
        return run_scalar(m, todo->value) && run(m, todo->next);
    }
    if (json_is_object(todo->value))
        return run_members(m, todo);
    if (todo->index == json_array_size(todo->value))
        return accept(m, "]") && run(m, todo->next);
    struct todo item = {&now, json_array_get(todo->value, now.index++), false, 0, 0};
    return (todo->index == 0 || accept(m, ",")) && run(m, &item);
}

bool schema_rig_fits(struct schema_rig *rig, const json_t *value)
{
    struct matcher m;
    const struct todo all = {NULL, value, false, 0, 0};
    if (!rig->grammar)
        return false;
    matcher_init(&m, rig->cache);
    bool fits = run(&m, &all);
    matcher_end(&m);
    return fits;
}

bool schema_rig_matches(struct schema_rig *rig, struct text text)
{
    struct matcher m;
    if (!rig->grammar)
        return false;
    matcher_init(&m, rig->cache);
    bool fits = matcher_accept_bytes(&m, text) && matcher_may_end(&m);
    matcher_end(&m);
    return fits;
}
