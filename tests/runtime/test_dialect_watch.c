// SPDX-License-Identifier: Apache-2.0
// Answers in which calls are optional, token by token as an engine makes them: between calls any
// token may follow; from the marker of a call on only what the mask allows. Each call that is begun
// is read as a complete one, whatever precedes and follows it and however the tokens divide the
// markers.
#include "tests/grammar/matcher_looks.h"
#include "tests/grammar/schema_rig.h"
#include "tests/runtime/dialect_walk.h"

#include "runtime/text/dialect/watch.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    PIECES = 60,
    PIECE_BYTES = 48,
    IDS = BYTES + SPECIALS + PIECES,
    WALKS = 2,
    STEPS = 120,
    CALLS = 4, // calls or lists of calls in an answer
};

static const char tools_text[] =
    "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"s\":{\"type\":"
    "\"string\"},\"n\":{\"type\":\"integer\"}}}},{\"name\":\"g\",\"strict\":true,\"parameters\":{"
    "\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\",\"maxLength\":3}},"
    "\"required\":[\"s\"],\"additionalProperties\":false}}]";

static uint32_t calls_seen, tokens_refused;

// The subject with more tokens: parts of its markers that are not special tokens, with other
// characters before and after them.
struct larger {
    struct subject s;
    char store[PIECES][PIECE_BYTES];
    uint32_t pieces; // ids from s.count - pieces on
};

static void larger_open(struct larger *l, const struct subject *of, uint64_t *seed)
{
    static const char *const around[] = {"", "", "", " ", "\n", "x", "{", "f"};
    struct text tokens[IDS] = {{0}}, specials[IDS] = {{0}};
    *l = (struct larger){.s = *of};
    for (uint32_t i = 0; i < of->count; i++) {
        tokens[i] = i < BYTES ? of->tokens[i] : (struct text){0};
        specials[i] = of->specials[i];
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        const struct dialect_marker *marker = &of->d.markers[walk_random(seed, of->d.marker_count)];
        uint32_t from = walk_random(seed, marker->count), at = 0;
        uint32_t most = walk_random(seed, 2) ? marker->count : from + 1 + walk_random(seed, 4);
        at += (uint32_t)snprintf(l->store[i], 8, "%s", around[walk_random(seed, 8)]);
        for (uint32_t k = from; k < marker->count && k < most && marker->symbols[k] < 0x80; k++)
            if (at < PIECE_BYTES - 4)
                l->store[i][at++] = (char)marker->symbols[k];
        at += (uint32_t)snprintf(l->store[i] + at, 4, "%s", around[walk_random(seed, 8)]);
        tokens[l->s.count++] = text_span(l->store[i], at);
    }
    l->pieces = PIECES;
    int32_t end = (int32_t)l->s.count;
    struct vocabulary_args args = {l->s.count + 1, tokens, l->s.count, specials, &end, 1};
    l->s.v = vocabulary_create(&args);
}

static void token_put(const struct larger *l, uint32_t id, struct written *out)
{
    if (id < l->s.count - l->pieces) {
        subject_put(&l->s, id, out);
        return;
    }
    struct text text = vocabulary_token(l->s.v, (int32_t)id);
    for (size_t i = 0; i < text.bytes; i++)
        subject_put(&l->s, (uint8_t)text.at[i], out);
}

// An answer in progress.
struct walk {
    const struct larger *l;
    const struct token_watch *watch;
    struct matcher m, all; // m: as in an engine, started by markers; all: reads every token
    enum token_phase phase;
    bool called;    // true if the mask excluded a character since the last free text
    uint32_t calls; // number of times that free text followed such a part
    struct written w;
};

static bool phase_is(struct walk *k, struct matcher *m, enum token_phase phase)
{
    struct text bytes;
    bool is = false;
    for (int more = 0; more < 2; more++)
        is = is || (token_watch_entry(k->watch, phase, more, &bytes) && matcher_is_after(m, bytes));
    return is;
}

// Begins with the token that may begin a marker. Returns false if it contains a complete marker and
// goes on unlike a call.
static bool phase_leave(struct walk *k, enum token_phase before, uint32_t id)
{
    struct text bytes;
    assert_true(token_watch_entry(k->watch, before, false, &bytes));
    matcher_restart(&k->m);
    assert_true(matcher_accept_bytes(&k->m, bytes));
    return matcher_accept(&k->m, (int32_t)id);
}

// Finds out if the matcher is in free text again.
static void phase_find(struct walk *k)
{
    uint32_t words[IDS / 32 + 1];
    assert_int_equal(matcher_mask(&k->m, words), MATCHER_OK);
    for (uint32_t id = ' '; id < 0x7F; id++)
        k->called |= !(words[id / 32] >> id % 32 & 1);
    for (enum token_phase phase = 0; phase < TOKEN_PHASES; phase++)
        if (phase_is(k, &k->m, phase)) {
            k->calls += k->called;
            k->called = false;
            k->phase = phase;
            return;
        }
}

// Appends a token that may follow. Returns false if the answer cannot go on: see phase_leave.
static bool token_take(struct walk *k, uint32_t id)
{
    enum token_phase before = k->phase;
    bool fits = matcher_accept(&k->all, (int32_t)id), good = fits;
    if (before < TOKEN_PHASES) {
        k->phase = token_watch_next(k->watch, before, (int32_t)id);
        if (k->phase == TOKEN_OPEN)
            good = phase_leave(k, before, id);
        else if (!fits || !phase_is(k, &k->all, k->phase))
            fail_msg("%s: phase %d is not that of the grammar after\n%.*s",
                     dialect_name(&k->l->s.d), (int)k->phase, (int)k->w.text.bytes, k->w.text.at);
    } else {
        good = matcher_accept(&k->m, (int32_t)id);
    }
    assert_int_equal(good, fits);
    tokens_refused += !good;
    if (good)
        token_put(k->l, id, &k->w);
    if (good && k->phase == TOKEN_OPEN)
        phase_find(k);
    return good;
}

static bool token_may(struct walk *k, uint32_t id)
{
    struct matcher copy;
    matcher_copy(&copy, &k->m);
    bool good = k->phase < TOKEN_PHASES || matcher_accept(&copy, (int32_t)id);
    matcher_end(&copy);
    return good;
}

static bool begins_bracket(const struct walk *k, uint32_t id)
{
    struct text text = vocabulary_token(k->l->s.v, (int32_t)id);
    size_t at = 0;
    while (at < text.bytes && (text.at[at] == ' ' || text.at[at] == '\n'))
        at++;
    return at < text.bytes && strchr("{[,;]}", text.at[at]);
}

// Draws a token: in free text any printable one, else one that the mask allows, or the end if it
// allows nothing else.
static uint32_t token_draw(struct walk *k, uint64_t *seed)
{
    uint32_t all[IDS], words[IDS / 32 + 1], count = 0, digits = 0;
    while (digits < k->w.text.bytes && isdigit(k->w.text.at[k->w.text.bytes - 1 - digits]))
        digits++;
    bool structure = walk_random(seed, 2) == 0;
    memset(words, 0xFF, sizeof words);
    if (k->phase == TOKEN_OPEN && matcher_mask(&k->m, words) != MATCHER_OK)
        fail_msg("%s: no way to go on after\n%.*s", dialect_name(&k->l->s.d), (int)k->w.text.bytes,
                 k->w.text.at);
    for (int pass = 0; pass < 3 && count == 0; pass++)
        for (uint32_t id = '\n'; id < k->l->s.count; id++) {
            bool printable = id >= BYTES || id == '\n' || (id >= ' ' && id < 0x7F);
            bool part = id >= BYTES || strchr("\"'<>(){}[]:=,\n/", (int)id);
            bool good = (words[id / 32] >> id % 32 & 1) &&
                        vocabulary_token(k->l->s.v, (int32_t)id).bytes > 0;
            // JSON readers have limits for numbers.
            char first = vocabulary_token(k->l->s.v, (int32_t)id).bytes > 0
                             ? *vocabulary_token(k->l->s.v, (int32_t)id).at
                             : 0;
            bool large = (digits > 9 && isdigit(first)) || (digits > 0 && (first | ' ') == 'e');
            // After a call the reader takes a bracket for another one, whatever it contains.
            large = large || (k->phase == TOKEN_HEAD && begins_bracket(k, id));
            if (good && (pass == 2 || (!large && printable && (pass == 1 || !structure || part))))
                all[count++] = id;
        }
    if (count == 0 && !matcher_may_end(&k->m))
        fail_msg("%s: nothing may follow\n%.*s", dialect_name(&k->l->s.d), (int)k->w.text.bytes,
                 k->w.text.at);
    return count == 0 ? k->l->s.count : all[walk_random(seed, count)];
}

// Writes the marker that begins a call, or its first half, in tokens of one character, as far as
// the mask allows. Returns false if the answer cannot go on.
static bool marker_write(struct walk *k, uint64_t *seed)
{
    const struct dialect *d = &k->l->s.d;
    const char *marker = dialect_syntax(d)->trigger;
    bool half = walk_random(seed, 4) == 0, good = true;
    size_t at = 0;
    int32_t token;
    struct text piece;
    while (good && (piece = dialect_literal_next(d, marker, &at, &token)).bytes > 0) {
        size_t count = token >= 0 ? 1 : half ? piece.bytes / 2 : piece.bytes;
        for (size_t i = 0; i < count && good; i++) {
            uint32_t id = token >= 0 ? BYTES : (uint8_t)piece.at[i];
            while (token >= 0 && !text_equal(k->l->s.specials[id], piece))
                id++;
            if (!token_may(k, id))
                return true;
            good = token_take(k, id);
        }
        if (half)
            return good;
    }
    return good;
}

static void heard_check(const struct walk *k, const json_t *tools, struct schema_rig *fits,
                        uint64_t *seed)
{
    const struct subject *s = &k->l->s;
    struct heard h;
    struct error err;
    subject_hear(s, tools, &k->w, DIALECT_START_TEXT, walk_random(seed, 3), seed, &h);
    for (uint32_t i = 0; i < h.count; i++) {
        json_t *value = NULL;
        struct text text = text_span(h.arguments[i].at, h.arguments[i].bytes);
        bool good = h.complete[i] && json_parse(&value, text, &err) == STATUS_OK &&
                    json_is_object(value) &&
                    (strcmp(h.names[i], "g") != 0 || schema_rig_fits(fits, value));
        if (!good)
            fail_msg("%s: %s(%.*s)%d in\n%.*s", dialect_name(&s->d), h.names[i], (int)text.bytes,
                     text.at, h.complete[i], (int)k->w.text.bytes, k->w.text.at);
        json_decref(value);
    }
    bool named_all = strcmp(dialect_name(&s->d), "functionary-v3.2") == 0; // >>>all is no call
    if (h.count < k->calls && !named_all)
        fail_msg("%s: %u calls, at least %u were written in\n%.*s", dialect_name(&s->d), h.count,
                 k->calls, (int)k->w.text.bytes, k->w.text.at);
    calls_seen += h.count;
    heard_free(&h);
}

static void answer_walk(struct walk *k, const json_t *tools, struct schema_rig *fits,
                        uint64_t *seed)
{
    bool good = true;
    for (uint32_t step = 0; good && (step < STEPS || k->phase == TOKEN_OPEN); step++) {
        bool marks = k->phase < TOKEN_PHASES && k->calls < CALLS && walk_random(seed, 12) == 0;
        if (step >= 40 * STEPS) // a long value
            break;
        uint32_t id = marks ? 0 : token_draw(k, seed);
        if (id == k->l->s.count) { // the dialect has one call
            k->calls += k->called;
            heard_check(k, tools, fits, seed);
            return;
        }
        good = marks ? marker_write(k, seed) : token_take(k, id);
        if (good && k->phase < TOKEN_PHASES && walk_random(seed, 40) == 0)
            heard_check(k, tools, fits, seed);
    }
    if (good && k->phase < TOKEN_PHASES)
        heard_check(k, tools, fits, seed);
}

static void answers_walk(const struct larger *l, uint64_t *seed)
{
    struct error err;
    json_t *tools;
    struct schema_rig fits;
    assert_int_equal(json_parse(&tools, text_of(tools_text), &err), STATUS_OK);
    schema_rig_open(&fits, json_object_get(json_array_get(tools, 1), "parameters"),
                    SCHEMA_DRAFT_AUTO);
    struct dialect_grammar_args args = {
        .dialect = &l->s.d, .tools = tools, .parallel = true, .resumes = true, .reasoning = true};
    struct mask_cache *c = subject_cache(&l->s, &args);
    struct token_watch *watch = dialect_watch(&l->s.d, l->s.v);
    for (uint32_t i = 0; i < WALKS; i++) {
        struct walk k = {.l = l, .watch = watch};
        k.phase = dialect_watch_start(&l->s.d, DIALECT_START_TEXT);
        matcher_init(&k.m, c);
        matcher_init(&k.all, c);
        answer_walk(&k, tools, &fits, seed);
        matcher_end(&k.m);
        matcher_end(&k.all);
        json_buffer_free(&k.w.text);
        json_buffer_free(&k.w.special);
    }
    token_watch_unref(watch);
    mask_cache_destroy(c);
    schema_rig_close(&fits);
    json_decref(tools);
}

static void characters(const struct subject *s, uint64_t *seed)
{
    struct larger l = {.s = *s};
    if (dialect_marks_calls(&s->d))
        answers_walk(&l, seed);
}

static void parts_of_markers(const struct subject *s, uint64_t *seed)
{
    struct larger l;
    if (!dialect_marks_calls(&s->d))
        return;
    larger_open(&l, s, seed);
    answers_walk(&l, seed);
    vocabulary_unref(l.s.v);
}

// Tokens are single characters or special tokens: the mask excludes nothing before a marker is
// complete, and no token is refused.
static void test_calls_after_markers_are_complete(void **state)
{
    (void)state;
    calls_seen = tokens_refused = 0;
    subject_each(characters);
    assert_true(calls_seen > 50);
    assert_int_equal(tokens_refused, 0);
}

// Tokens may also contain parts of markers, their ends, and what follows them.
static void test_tokens_that_contain_markers(void **state)
{
    (void)state;
    calls_seen = 0;
    subject_each(parts_of_markers);
    assert_true(calls_seen > 50);
}

static void test_dialects_without_a_marker(void **state)
{
    static const char *const none[] = {"llama-pythonic", "llama-json", "json", "none"};
    uint32_t found = 0;
    (void)state;
    for (uint32_t i = 0; dialect_row_name(i); i++) {
        struct dialect d;
        bool listed = false;
        assert_true(dialect_named(&d, dialect_row_name(i), "think", NULL));
        for (size_t n = 0; n < sizeof none / sizeof *none; n++)
            listed |= strcmp(none[n], dialect_row_name(i)) == 0;
        assert_int_equal(dialect_marks_calls(&d), !listed);
        found += listed;
    }
    assert_int_equal(found, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_after_markers_are_complete),
        cmocka_unit_test(test_tokens_that_contain_markers),
        cmocka_unit_test(test_dialects_without_a_marker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
