// SPDX-License-Identifier: Apache-2.0
// Requests with grammars through the engine, its mask worker and a model on the device of
// WEFT_TEST_DEVICE: choices without a grammar next to them keep every token, and each answer is a
// string of its grammar or a prefix of one, also if sequences are preempted, cancelled or have
// several choices. The weights are random and the tokens are bytes and a few pairs, so that only
// the masks steer an answer.
#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "runtime/grammar/matcher.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/grammar/regex.h"
#include "runtime/text/grammar/schema.h"
#include "scheduler/internal.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    VOCAB = 300,
    END = VOCAB - 1,
    WINDOW = 256,
    PROMPT = 9,
    REQUESTS_MAX = 128,
    CHOICES = 4,
    ANSWER_MAX = 240,
    ANSWER_BYTES = 4 * ANSWER_MAX + 1,
};

enum { KIND_REGEX, KIND_SCHEMA, KIND_CHOICE, KIND_NESTED, KINDS, KIND_FREE, KIND_CALLS };

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,"
    "\"intermediate_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"max_position_embeddings\":256,\"rms_norm_eps\":1e-6,"
    "\"vocab_size\":300,\"eos_token_id\":299,\"tie_word_embeddings\":true,"
    "\"torch_dtype\":\"float32\"}";
static const char pattern[] = "[a-z]{2,6}(-[0-9]{1,3}){0,2}";
static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":6},"
    "\"ok\":{\"type\":\"boolean\"},\"n\":{\"type\":\"array\",\"maxItems\":3,\"items\":"
    "{\"type\":\"integer\",\"minimum\":0,\"maximum\":99}}},\"required\":[\"name\",\"ok\",\"n\"],"
    "\"additionalProperties\":false}";
static const char nested[] = "root ::= \"(\" root \")\" | \"[\" root \"]\" | \"x\"";
static const char *const words[] = {"yes", "no", "maybe so"};
static const char *const pairs[] = {"\":", "\",", "{\"", "true", "fal", "\"na", "((", "))",
                                    "12",  "-1",  "ab",  "ye",   "no",  "[[",   "()"};

static bool emulated; // device simt, whose steps take milliseconds: tests are smaller

struct fixture {
    struct rig rig;
    struct waker *waker;
    struct engine *engine;
    struct port *port;
    struct vocabulary *vocabulary;
    struct grammar *grammars[KINDS];
    struct grammar *calls; // for KIND_CALLS
    struct token_watch *watch;
};

static struct vocabulary *vocabulary_make(void)
{
    static char bytes[256];
    struct text tokens[VOCAB] = {{0}};
    int32_t end = END;
    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = text_span(&bytes[i], 1);
    }
    for (uint32_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        tokens[256 + i] = text_of(pairs[i]);
    struct vocabulary_args args = {VOCAB, tokens, VOCAB, NULL, &end, 1};
    return vocabulary_create(&args);
}

static struct grammar *grammar_of(int kind)
{
    struct error err;
    struct grammar *g;
    json_t *value = NULL;
    uint32_t root = GRAMMAR_NOTHING;
    struct text texts[3];
    struct grammar_builder *b = grammar_builder_create(NULL);
    enum status status = STATUS_OK;
    if (kind == KIND_REGEX) {
        struct regex_args args = {.pattern = text_of(pattern)};
        status = regex_compile(b, &args, &root, &err);
    } else if (kind == KIND_SCHEMA) {
        assert_int_equal(json_parse(&value, text_of(schema), &err), STATUS_OK);
        struct schema_args args = {.schema = value};
        status = schema_compile(b, &args, &root, &err);
        json_decref(value);
    } else if (kind == KIND_NESTED) {
        status = gbnf_compile(b, text_of(nested), &root, &err);
    } else {
        for (int i = 0; i < 3; i++)
            texts[i] = text_of(words[i]);
        root = grammar_choice(b, texts, 3);
    }
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(grammar_finish(b, root, &g, &err), STATUS_OK);
    return g;
}

// Free text in which a call, (1) to (999), follows each of these letters, none of which occurs in a
// token of several characters.
static void calls_make(struct fixture *f)
{
    static const char marks[] = "cdghijkmpqsvwz";
    struct grammar_marker markers[sizeof marks - 1];
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t rule, answer = grammar_rule(b, text_of("answer"), &rule);
    uint32_t call[] = {grammar_literal(b, text_of("(")),
                       grammar_repeat(b, grammar_byte(b, '0', '9'), 1, 3),
                       grammar_literal(b, text_of(")")), answer};
    struct grammar_free_part part = {markers, sizeof marks - 1, false};
    for (uint32_t i = 0; i < part.count; i++)
        markers[i] =
            (struct grammar_marker){text_span(&marks[i], 1), grammar_join_all(b, call, 4), false};
    grammar_rule_set(b, rule, grammar_free_part(b, &part));
    assert_int_equal(grammar_finish(b, answer, &f->calls, &err), STATUS_OK);
    for (uint32_t i = 0; i < part.count; i++)
        markers[i].then = TOKEN_THEN_GRAMMAR;
    struct token_watch_args args = {
        .vocabulary = f->vocabulary, .markers = markers, .count = part.count};
    f->watch = token_watch_create(&args);
}

// kv_sequences: number of full windows that KV memory has space for; 0: one for each slot.
static void fixture_open(struct fixture *f, const char *folder, uint32_t slots,
                         uint32_t kv_sequences)
{
    struct error err;
    struct model_options options = rig_options();
    options.load_dummy = true;
    options.max_num_seqs = slots;
    options.max_model_len = WINDOW;
    rig_open_sized(&f->rig, folder, &options, kv_sequences);
    f->vocabulary = vocabulary_make();
    struct engine_options engine = {.port_count = 1,
                                    .max_queued_requests = REQUESTS_MAX,
                                    .max_queued_tokens = 65536,
                                    .choices_max = CHOICES,
                                    .prefix_cache = true,
                                    .vocabulary = f->vocabulary};
    assert_int_equal(waker_open(&f->waker, &err), STATUS_OK);
    assert_int_equal(engine_open(&f->engine, f->rig.model, &engine, &err), STATUS_OK);
    f->port = engine_port(f->engine, 0, f->waker);
    for (int kind = 0; kind < KINDS; kind++)
        f->grammars[kind] = grammar_of(kind);
    calls_make(f);
}

static void fixture_close(struct fixture *f)
{
    const struct engine_stats *stats = engine_stats(f->engine);
    assert_int_equal(stats->mask_waits, stats->steps_masked + stats->masks_alone);
    assert_int_equal(stats->mask_tokens_refused, 0);
    assert_int_equal(stats->grammars_stuck + stats->grammars_over, 0);
    engine_close(f->engine);
    waker_close(f->waker);
    rig_close(&f->rig);
    vocabulary_unref(f->vocabulary);
    for (int kind = 0; kind < KINDS; kind++) {
        assert_int_equal(grammar_owners(f->grammars[kind]), 1);
        grammar_unref(f->grammars[kind]);
    }
    assert_int_equal(grammar_owners(f->calls), 1);
    grammar_unref(f->calls);
    assert_int_equal(token_watch_owners(f->watch), 1);
    token_watch_unref(f->watch);
}

struct asked { // a request and its answers
    int kind;
    uint32_t number; // determines its seed and prompt
    uint32_t choices, cut;
    bool cuts; // true if choice `cut` is cancelled after three tokens
    bool penalised;
    bool watched; // true if only calls have masks; KIND_CALLS only
    struct request *request;
    bool over;
    struct answer {
        int32_t tokens[ANSWER_MAX];
        uint32_t count, finish;
    } answers[CHOICES];
};

static void submit(struct fixture *f, struct asked *a)
{
    int32_t tokens[PROMPT];
    uint32_t start[2] = {0, PROMPT};
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = (int32_t)((a->number * 31 + i * 7) % 256);
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = PROMPT,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = a->choices,
                               .max_tokens = a->kind == KIND_FREE ? (emulated ? 8 : 40)
                                                                  : (emulated ? 24 : ANSWER_MAX),
                               .ignore_end = a->number % 3 == 0 && a->kind != KIND_CALLS,
                               .grammar = a->kind == KIND_CALLS  ? f->calls
                                          : a->kind == KIND_FREE ? NULL
                                                                 : f->grammars[a->kind],
                               .watch = a->watched ? f->watch : NULL,
                               .watch_phase = TOKEN_HEAD,
                               .sampling = {.seed = 1000 + a->number,
                                            .temperature = a->number % 5 == 0 ? 0.0f : 1.5f,
                                            .top_p = 1.0f,
                                            .repetition = a->penalised ? 1.3f : 1.0f}};
    assert_int_equal(port_submit(f->port, &args, &a->request), ADMITTED);
}

static void take(struct fixture *f, struct asked *a)
{
    struct token_event event;
    while (!a->over && port_next(f->port, a->request, &event, NULL)) {
        struct answer *answer = &a->answers[event.choice];
        if (event.flags & EVENT_TOKEN)
            answer->tokens[answer->count++] = event.token;
        answer->finish = event.finish;
        a->over = event.flags & EVENT_LAST;
        if (a->cuts && event.choice == a->cut && answer->count == 3 && !event.finish)
            port_cancel_choice(f->port, a->request, a->cut);
    }
    if (a->over)
        port_free(f->port, a->request);
}

// This thread acts as the h2o thread and the engine thread; the mask worker has a thread of its
// own.
static void run(struct fixture *f, struct asked *asked, uint32_t count)
{
    uint32_t over = 0;
    for (uint32_t i = 0; i < count; i++)
        submit(f, &asked[i]);
    while (over < count) {
        assert_int_not_equal(engine_step(f->engine, clock_ns()), ENGINE_FAULT);
        over = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (!asked[i].over)
                take(f, &asked[i]);
            over += asked[i].over;
        }
    }
}

static size_t text_make(const struct fixture *f, const struct answer *answer, char *out)
{
    size_t at = 0;
    for (uint32_t i = 0; i < answer->count; i++) {
        struct text bytes = vocabulary_token(f->vocabulary, answer->tokens[i]);
        memcpy(out + at, bytes.at, bytes.bytes);
        at += bytes.bytes;
    }
    out[at] = '\0';
    return at;
}

static bool matches_regex(const char *text)
{
    regex_t compiled;
    char whole[128];
    snprintf(whole, sizeof whole, "^%s$", pattern);
    assert_int_equal(regcomp(&compiled, whole, REG_EXTENDED | REG_NOSUB), 0);
    bool matches = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return matches;
}

static bool matches_schema(const char *text, size_t bytes)
{
    json_t *value;
    struct error err;
    if (json_parse(&value, text_span(text, bytes), &err) != STATUS_OK)
        return false;
    const json_t *list = json_object_get(value, "n");
    bool fits = json_is_object(value) && json_object_size(value) == 3 &&
                json_is_string(json_object_get(value, "name")) &&
                json_is_boolean(json_object_get(value, "ok")) && json_is_array(list) &&
                json_array_size(list) <= 3;
    for (size_t i = 0; fits && i < json_array_size(list); i++)
        fits = json_is_integer(json_array_get(list, i)) &&
               json_integer_value(json_array_get(list, i)) <= 99;
    json_decref(value);
    return fits;
}

static bool matches_nested(const char *text, size_t bytes)
{
    for (; bytes > 1; text++, bytes -= 2)
        if (!(text[0] == '(' && text[bytes - 1] == ')') &&
            !(text[0] == '[' && text[bytes - 1] == ']'))
            return false;
    return bytes == 1 && text[0] == 'x';
}

static bool matches(int kind, const char *text, size_t bytes)
{
    if (kind == KIND_REGEX)
        return matches_regex(text);
    if (kind == KIND_SCHEMA)
        return matches_schema(text, bytes);
    if (kind == KIND_NESTED)
        return matches_nested(text, bytes);
    return strcmp(text, words[0]) == 0 || strcmp(text, words[1]) == 0 ||
           strcmp(text, words[2]) == 0;
}

// Checks that a stopped answer is a string of the grammar, and any other a prefix of one.
static void answer_check(const struct fixture *f, int kind, const struct answer *answer)
{
    char text[ANSWER_BYTES];
    size_t bytes = text_make(f, answer, text);
    if (answer->finish == FINISH_STOP) {
        assert_int_equal(answer->tokens[answer->count - 1], END);
        if (!matches(kind, text, bytes))
            fail_msg("kind %d: '%s'", kind, text);
        return;
    }
    assert_true(answer->finish == FINISH_LENGTH || answer->finish == FINISH_CANCEL);
    struct mask_cache *cache = mask_cache_create(f->grammars[kind], f->vocabulary, NULL);
    struct matcher m;
    matcher_init(&m, cache);
    assert_true(matcher_accept_bytes(&m, text_span(text, bytes)));
    matcher_end(&m);
    mask_cache_destroy(cache);
}

static void answers_check(const struct fixture *f, const struct asked *asked, uint32_t count)
{
    uint32_t whole[KINDS] = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (asked[i].kind == KIND_FREE)
            continue;
        for (uint32_t c = 0; c < asked[i].choices; c++) {
            answer_check(f, asked[i].kind, &asked[i].answers[c]);
            whole[asked[i].kind] += asked[i].answers[c].finish == FINISH_STOP;
        }
    }
    for (int kind = 0; kind < KINDS && !emulated; kind++)
        assert_true(whole[kind] > 0);
}

static struct asked *asked_make(uint32_t free, uint32_t constrained, uint32_t choices)
{
    struct asked *asked = heap_alloc_zeroed(free + constrained, sizeof *asked);
    for (uint32_t i = 0; i < free + constrained; i++) {
        asked[i].kind = i < free ? KIND_FREE : (int)(i % KINDS);
        asked[i].number = i;
        asked[i].choices = choices;
    }
    return asked;
}

static void assert_same_answers(const struct asked *one, const struct asked *other, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < one[i].choices; c++) {
            if (other[i].cuts && other[i].cut == c)
                continue;
            assert_int_equal(one[i].answers[c].count, other[i].answers[c].count);
            assert_int_equal(one[i].answers[c].finish, other[i].answers[c].finish);
            assert_memory_equal(one[i].answers[c].tokens, other[i].answers[c].tokens,
                                one[i].answers[c].count * sizeof(int32_t));
        }
}

static void test_free_choices_keep_every_token(void **state)
{
    uint32_t each = emulated ? 6 : 64;
    struct fixture f;
    struct asked *alone = asked_make(each, 0, 1), *beside = asked_make(each, each, 1);
    fixture_open(&f, *state, 2 * each, 0);
    run(&f, alone, each);
    assert_int_equal(engine_stats(f.engine)->steps_masked, 0);
    run(&f, beside, 2 * each);
    assert_same_answers(alone, beside, each);
    answers_check(&f, beside, 2 * each);
    fixture_close(&f);
    heap_free(alone);
    heap_free(beside);
}

// With KV memory for one full window, sequences are preempted and computed again.
static void test_preempted_answers_are_the_same(void **state)
{
    enum { COUNT = 12 };
    uint32_t count = emulated ? 6 : COUNT;
    struct fixture ample, scarce;
    struct asked *one = asked_make(count / 2, count / 2, 1);
    struct asked *other = asked_make(count / 2, count / 2, 1);
    fixture_open(&ample, *state, count, 0);
    run(&ample, one, count);
    fixture_close(&ample);
    fixture_open(&scarce, *state, count, 1);
    run(&scarce, other, count);
    assert_true(emulated || engine_stats(scarce.engine)->preemptions > 0);
    assert_same_answers(one, other, count);
    answers_check(&scarce, other, count);
    fixture_close(&scarce);
    heap_free(one);
    heap_free(other);
}

// A row whose mask is late changes nothing on the device: its token in a later step is the same as
// with all masks in time, also with penalties and if the last block of a prompt is full.
static void test_postponed_answers_are_the_same(void **state)
{
    uint32_t count = emulated ? 4 : 16, choices = emulated ? 1 : 2;
    struct asked *ample = asked_make(count / 4, count - count / 4, choices);
    struct asked *scarce = asked_make(count / 4, count - count / 4, choices);
    for (int less = 0; less < 2; less++) {
        struct asked *asked = less ? scarce : ample;
        struct fixture f;
        for (uint32_t i = 0; i < count; i++)
            asked[i].penalised = i % 2 == 0;
        fixture_open(&f, *state, 2 * count, 0);
        if (less)
            f.engine->masks.limits = (struct mask_limits){1000000, 0, 25000, 25000};
        run(&f, asked, count);
        const struct engine_stats *stats = engine_stats(f.engine);
        assert_true(less ? stats->masks_postponed > 0 : stats->masks_postponed == 0);
        assert_int_equal(stats->preemptions, 0);
        answers_check(&f, asked, count);
        fixture_close(&f);
    }
    assert_same_answers(ample, scarce, count);
    heap_free(ample);
    heap_free(scarce);
}

static void test_a_cancelled_choice_leaves_the_others(void **state)
{
    uint32_t count = KINDS;
    struct fixture f;
    struct asked *whole = asked_make(0, count, emulated ? 2 : CHOICES);
    struct asked *cut = asked_make(0, count, emulated ? 2 : CHOICES);
    for (uint32_t i = 0; i < count; i++) {
        cut[i].cuts = true;
        cut[i].cut = i % cut[i].choices;
    }
    fixture_open(&f, *state, 8, 0);
    run(&f, whole, count);
    run(&f, cut, count);
    assert_same_answers(whole, cut, count);
    answers_check(&f, whole, count);
    answers_check(&f, cut, count);
    // one per grammar, for all choices
    assert_int_equal(engine_stats(f.engine)->mask_caches, KINDS);
    fixture_close(&f);
    heap_free(whole);
    heap_free(cut);
}

// Masks from the beginning of an answer, or only inside of calls: the tokens are the same, also of
// sequences that are preempted, and of those without a grammar next to them.
static void test_masks_only_inside_calls_change_no_token(void **state)
{
    uint32_t count = emulated ? 4 : 16, choices = emulated ? 1 : 2;
    struct asked *one[2];
    uint64_t rows[2];
    for (int watched = 0; watched < 2; watched++) {
        struct fixture f;
        struct asked *asked = one[watched] = asked_make(count / 4, count - count / 4, choices);
        for (uint32_t i = 0; i < count; i++) {
            asked[i].kind = i < count / 4 ? KIND_FREE : KIND_CALLS;
            asked[i].watched = watched && i >= count / 4;
            asked[i].penalised = i % 2 == 0;
        }
        fixture_open(&f, *state, count, watched ? 2 : 0);
        run(&f, asked, count);
        rows[watched] = engine_stats(f.engine)->mask_rows;
        assert_true(emulated || !watched || engine_stats(f.engine)->preemptions > 0);
        fixture_close(&f);
    }
    assert_same_answers(one[0], one[1], count);
    assert_true(rows[1] > 0 && rows[1] < rows[0]);
    heap_free(one[0]);
    heap_free(one[1]);
}

int main(void)
{
    static char folder[64];
    struct error err;
    json_t *values;
    if (!rig_device_usable())
        return 77;
    const char *device = getenv("WEFT_TEST_DEVICE");
    emulated = device && strcmp(device, "simt") == 0;
    check(json_parse(&values, text_of(config), &err) == STATUS_OK, "%s", err.text);
    folder_make(folder);
    file_write_json(folder, "config.json", values);
    json_decref(values);
    struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_choices_keep_every_token),
        cmocka_unit_test(test_preempted_answers_are_the_same),
        cmocka_unit_test(test_postponed_answers_are_the_same),
        cmocka_unit_test(test_a_cancelled_choice_leaves_the_others),
        cmocka_unit_test(test_masks_only_inside_calls_change_no_token),
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tests[i].initial_state = folder;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(folder);
    return failed;
}
