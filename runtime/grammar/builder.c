// SPDX-License-Identifier: Apache-2.0
// Expressions of a builder: created bottom up, simplified if that is cheap, interned.
#include "runtime/grammar/internal.h"

#include "base/arena.h"

#include <string.h>

enum {
    FIRST_CAPACITY = 256,
    EXPRS_MAX = 8 * 1000 * 1000, // keeps numbers far from UINT32_MAX
};
static const size_t DEFAULT_BYTES = (size_t)64 << 20;

uint32_t builder_fail(struct grammar_builder *b, enum status status, const char *sentence)
{
    if (b->failure.status == STATUS_OK)
        error_set(&b->failure, status, "%s", sentence);
    return GRAMMAR_NOTHING;
}

bool grammar_failed(const struct grammar_builder *b)
{
    return b->failure.status != STATUS_OK;
}

enum status grammar_failure(const struct grammar_builder *b, struct error *err)
{
    return grammar_failed(b) ? error_set(err, b->failure.status, "%s", b->failure.text) : STATUS_OK;
}

bool grammar_spend(struct grammar_builder *b, uint64_t work)
{
    b->work += work;
    if (b->work > b->limits.work_max)
        builder_fail(b, STATUS_TOO_LARGE,
                     "the grammar takes too long to compile: make it smaller or simpler");
    return !grammar_failed(b);
}

static bool memory_fits(struct grammar_builder *b, size_t more)
{
    size_t used = intern_bytes(&b->exprs) + intern_bytes(&b->sets) + intern_bytes(&b->compared) +
                  b->compared.capacity * sizeof *b->results + b->name_capacity +
                  b->rule_capacity * sizeof *b->rules;
    // grammar_finish rewrites the builder twice, then copies it: at most four exist together.
    if (used + more > b->limits.bytes_max / 4)
        builder_fail(b, STATUS_TOO_LARGE, "the grammar exceeds its memory limit: make it smaller");
    return !grammar_failed(b);
}

static uint32_t node_put(struct grammar_builder *b, struct intern *t, const uint32_t *value)
{
    if (!grammar_spend(b, 4))
        return INTERN_NONE;
    uint32_t number = intern_put(t, value);
    if (number != INTERN_NONE)
        return number;
    uint32_t capacity = t->capacity == 0 ? FIRST_CAPACITY : t->capacity * 2;
    if (capacity > EXPRS_MAX ||
        !memory_fits(b, (size_t)(capacity - t->capacity) * (t->words + 2) * sizeof *t->at)) {
        builder_fail(b, STATUS_TOO_LARGE, "the grammar has too many parts: make it smaller");
        return INTERN_NONE;
    }
    intern_grow(t, capacity);
    return intern_put(t, value);
}

static uint32_t expr_put(struct grammar_builder *b, struct expr e)
{
    uint32_t value[EXPR_WORDS] = {e.kind, e.a, e.b, e.c};
    uint32_t number = node_put(b, &b->exprs, value);
    return number == INTERN_NONE ? GRAMMAR_NOTHING : number;
}

struct grammar_builder *grammar_builder_create(const struct grammar_limits *limits)
{
    struct grammar_builder *b = heap_alloc_zeroed(1, sizeof *b);
    b->limits = limits ? *limits : (struct grammar_limits){0};
    if (b->limits.bytes_max == 0)
        b->limits.bytes_max = DEFAULT_BYTES;
    if (b->limits.work_max == 0)
        b->limits.work_max = GRAMMAR_WORK_MAX;
    b->exprs.words = EXPR_WORDS;
    b->sets.words = SET_WORDS;
    b->compared.words = 3;
    intern_grow(&b->exprs, FIRST_CAPACITY);
    intern_grow(&b->sets, FIRST_CAPACITY);
    expr_put(b, (struct expr){EXPR_NOTHING, 0, 0, 0});
    expr_put(b, (struct expr){EXPR_EMPTY, 0, 0, 0});
    b->utf8_tails[0] = GRAMMAR_EMPTY;
    return b;
}

void grammar_builder_destroy(struct grammar_builder *b)
{
    if (!b)
        return;
    if (b->limits.worked && *b->limits.worked < b->work) // the rewritten copies count more work
        *b->limits.worked = b->work;
    intern_free(&b->exprs);
    intern_free(&b->sets);
    intern_free(&b->compared);
    heap_free(b->results);
    heap_free(b->rules);
    heap_free(b->names);
    heap_free(b);
}

uint32_t builder_compared(struct grammar_builder *b, uint32_t one, uint32_t other, bool except)
{
    uint32_t key[] = {one, other, except}, count = b->compared.count;
    uint32_t capacity = b->compared.capacity, number = node_put(b, &b->compared, key);
    if (b->compared.capacity > capacity)
        b->results = heap_grow(b->results, b->compared.capacity * sizeof *b->results);
    if (b->compared.count > count)
        b->results[number] = RESULT_UNKNOWN;
    return number;
}

uint32_t grammar_byte_set(struct grammar_builder *b, const uint32_t set[8])
{
    uint32_t own[SET_WORDS], any = 0;
    for (int i = 0; i < SET_WORDS; i++) {
        own[i] = set[i] & (b->limits.alphabet ? b->limits.alphabet[i] : UINT32_MAX);
        any |= own[i];
    }
    if (any == 0)
        return GRAMMAR_NOTHING;
    uint32_t number = node_put(b, &b->sets, own);
    if (number == INTERN_NONE)
        return GRAMMAR_NOTHING;
    return expr_put(b, (struct expr){EXPR_SET, number, 0, 0});
}

uint32_t grammar_byte(struct grammar_builder *b, uint8_t first, uint8_t last)
{
    uint32_t set[SET_WORDS] = {0};
    for (uint32_t i = first; i <= last; i++)
        set[i / 32] |= 1u << (i % 32);
    return grammar_byte_set(b, set);
}

uint32_t grammar_literal(struct grammar_builder *b, struct text bytes)
{
    uint32_t rest = GRAMMAR_EMPTY;
    for (size_t i = bytes.bytes; i > 0 && !grammar_failed(b); i--) {
        uint8_t byte = (uint8_t)bytes.at[i - 1];
        rest = grammar_join(b, grammar_byte(b, byte, byte), rest);
    }
    return grammar_failed(b) ? GRAMMAR_NOTHING : rest;
}

uint32_t grammar_join(struct grammar_builder *b, uint32_t first, uint32_t then)
{
    if (first == GRAMMAR_NOTHING || then == GRAMMAR_NOTHING)
        return GRAMMAR_NOTHING;
    if (first == GRAMMAR_EMPTY)
        return then;
    if (then == GRAMMAR_EMPTY)
        return first;
    return expr_put(b, (struct expr){EXPR_JOIN, first, then, 0});
}

uint32_t grammar_join_all(struct grammar_builder *b, const uint32_t *parts, uint32_t count)
{
    uint32_t rest = GRAMMAR_EMPTY;
    for (uint32_t i = count; i > 0; i--)
        rest = grammar_join(b, parts[i - 1], rest);
    return rest;
}

uint32_t grammar_either(struct grammar_builder *b, uint32_t one, uint32_t other)
{
    if (one == GRAMMAR_NOTHING || one == other)
        return other;
    if (other == GRAMMAR_NOTHING)
        return one;
    if (expr_of(b, one)->kind == EXPR_SET && expr_of(b, other)->kind == EXPR_SET) {
        const uint32_t *x = b->sets.at + (size_t)expr_of(b, one)->a * SET_WORDS;
        const uint32_t *y = b->sets.at + (size_t)expr_of(b, other)->a * SET_WORDS;
        uint32_t set[SET_WORDS];
        for (int i = 0; i < SET_WORDS; i++)
            set[i] = x[i] | y[i];
        return grammar_byte_set(b, set);
    }
    return expr_put(b, (struct expr){EXPR_EITHER, one, other, 0});
}

uint32_t grammar_either_of(struct grammar_builder *b, const uint32_t *parts, uint32_t count)
{
    uint32_t rest = GRAMMAR_NOTHING;
    for (uint32_t i = count; i > 0; i--)
        rest = grammar_either(b, parts[i - 1], rest);
    return rest;
}

uint32_t grammar_optional(struct grammar_builder *b, uint32_t one)
{
    return grammar_either(b, one, GRAMMAR_EMPTY);
}

uint32_t grammar_repeat(struct grammar_builder *b, uint32_t one, uint32_t min, uint32_t max)
{
    if (min > max)
        return GRAMMAR_NOTHING;
    if (max == 0 || one == GRAMMAR_EMPTY)
        return GRAMMAR_EMPTY;
    if (one == GRAMMAR_NOTHING)
        return min == 0 ? GRAMMAR_EMPTY : GRAMMAR_NOTHING;
    if (min == 1 && max == 1)
        return one;
    struct expr inner = *expr_of(b, one);
    bool unbounded = inner.kind == EXPR_REPEAT && inner.c == GRAMMAR_UNBOUNDED && inner.b <= 1;
    if (unbounded && min <= 1 && max == GRAMMAR_UNBOUNDED)
        return grammar_repeat(b, inner.a, inner.b < min ? inner.b : min, GRAMMAR_UNBOUNDED);
    return expr_put(b, (struct expr){EXPR_REPEAT, one, min, max});
}

uint32_t builder_once(struct grammar_builder *b, uint32_t members, uint32_t other, uint32_t bits)
{
    if (members != GRAMMAR_NOTHING || other != GRAMMAR_NOTHING)
        return expr_put(b, (struct expr){EXPR_ONCE, members, other, bits});
    return bits & ONCE_FILLED ? GRAMMAR_NOTHING : GRAMMAR_EMPTY;
}

uint32_t grammar_once(struct grammar_builder *b, const struct grammar_once *once)
{
    uint32_t members = GRAMMAR_NOTHING, bits = once->others_max, other = GRAMMAR_NOTHING;
    check(once->count <= GRAMMAR_ONCE_MAX && bits <= ONCE_OTHERS, "%u members", once->count);
    for (uint32_t i = once->count; i > 0; i--)
        members =
            grammar_either(b, grammar_join(b, once->separator, once->members[i - 1]), members);
    if (bits > 0)
        other = grammar_join(b, once->separator, once->other);
    if (once->separator != GRAMMAR_EMPTY)
        bits |= ONCE_SEPARATED;
    return builder_once(b, members, other, bits);
}

uint32_t grammar_level(struct grammar_builder *b, uint32_t close)
{
    if (close == GRAMMAR_NOTHING || close == GRAMMAR_EMPTY)
        return close;
    return expr_put(b, (struct expr){EXPR_LEVEL, close, 0, 0});
}

uint32_t grammar_rule(struct grammar_builder *b, struct text name, uint32_t *rule)
{
    *rule = 0;
    size_t kept = name.bytes < 200 ? name.bytes : 200; // enough for an error sentence
    if (b->rule_count == b->rule_capacity) {
        uint32_t capacity = b->rule_capacity == 0 ? 64 : b->rule_capacity * 2;
        if (!memory_fits(b, (size_t)(capacity - b->rule_capacity) * sizeof *b->rules))
            return GRAMMAR_NOTHING;
        b->rules = heap_grow(b->rules, capacity * sizeof *b->rules);
        b->rule_capacity = capacity;
    }
    if (b->name_bytes + kept > b->name_capacity) {
        size_t capacity = 2 * b->name_capacity + 1024;
        if (!memory_fits(b, capacity - b->name_capacity))
            return GRAMMAR_NOTHING;
        b->names = heap_grow(b->names, capacity);
        b->name_capacity = capacity;
    }
    if (kept > 0)
        memcpy(b->names + b->name_bytes, name.at, kept);
    b->rules[b->rule_count] = (struct rule){RULE_UNSET, b->name_bytes, (uint32_t)kept};
    b->name_bytes += kept;
    *rule = b->rule_count++;
    return expr_put(b, (struct expr){EXPR_RULE, *rule, 0, 0});
}

void grammar_rule_set(struct grammar_builder *b, uint32_t rule, uint32_t body)
{
    if (grammar_failed(b))
        return;
    check(rule < b->rule_count, "rule %u of %u", rule, b->rule_count);
    check(b->rules[rule].body == RULE_UNSET, "rule %u has a body already", rule);
    b->rules[rule].body = body;
}

struct text builder_rule_name(const struct grammar_builder *b, uint32_t rule)
{
    const struct rule *r = &b->rules[rule];
    return text_span(b->names + r->name_at, r->name_bytes);
}
