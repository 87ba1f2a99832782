// SPDX-License-Identifier: Apache-2.0
// Separate parts of the engine: the heap of deadlines, queue keys that share a hash bucket, sizes
// of event rings, data that a request reports (times, logprobs, owner), counters, finishes of many
// choices.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { HEAP = 40 };

static uint64_t random_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

// Puts, moves and drops entries at random and compares the heap with a plain array.
static void test_the_heap_gives_the_earliest(void **state)
{
    (void)state;
    static struct request requests[HEAP];
    static uint64_t at[HEAP]; // 0: not in the heap
    struct due entry[HEAP];
    struct due_heap heap = {.entry = entry};
    uint64_t seed = 3;
    for (uint32_t turn = 0; turn < 20000; turn++) {
        uint32_t i = (uint32_t)(random_next(&seed) % HEAP);
        if (random_next(&seed) % 3 == 0) {
            due_drop(&heap, &requests[i]);
            at[i] = 0;
        } else {
            at[i] = 1 + random_next(&seed) % 100;
            due_put(&heap, &requests[i], at[i]);
        }
        uint64_t earliest = 0;
        uint32_t count = 0;
        for (uint32_t k = 0; k < HEAP; k++) {
            assert_int_equal(requests[k].run.due_index != 0, at[k] != 0);
            if (at[k] == 0)
                continue;
            count++;
            earliest = earliest == 0 || at[k] < earliest ? at[k] : earliest;
            const struct due *due = &heap.entry[requests[k].run.due_index - 1];
            assert_true(due->request == &requests[k] && due->at_ns == at[k]);
        }
        assert_int_equal(heap.count, count);
        if (count > 0)
            assert_int_equal(heap.entry[0].at_ns, earliest);
    }
}

static void test_rings_hold_four_events_a_choice(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {{1, 64},   {13, 64},  {14, 64},  {15, 128},
                                        {30, 128}, {31, 256}, {62, 256}, {128, 1024}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(request_ring_entries(cases[i][0]), cases[i][1]);
}

static bool ended(struct rig *rig, struct request *r, enum finish finish)
{
    struct token_event event;
    while (port_next(rig->port, r, &event, NULL))
        if (event.flags & EVENT_LAST) {
            assert_int_equal(event.finish, finish);
            return true;
        }
    return false;
}

// 32 requests and therefore 32 buckets: these keys share two of them. They are added and removed in
// any order, and each is served.
static void test_keys_of_one_bucket_are_kept_apart(void **state)
{
    (void)state;
    enum { KEYS = 8, EACH = 3 };
    struct rig rig;
    struct request *r[KEYS * EACH];
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    assert_int_equal(rig.engine->queue.mask, 31);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < KEYS * EACH; i++) {
            rig.key_id = i % KEYS / 2 * 32 + i % 2;
            r[i] = rig_generate(&rig, (int32_t)i, 10, 2, 1);
        }
        rig_step(&rig);
        for (uint32_t i = 0; i < KEYS; i++) { // one of each key leaves, the end of a chain first
            uint32_t which = (i * 5 + round) % KEYS + KEYS;
            port_cancel(rig.port, r[which]);
            rig_step(&rig);
            assert_true(ended(&rig, r[which], FINISH_CANCEL));
            port_free(rig.port, r[which]);
            r[which] = NULL;
        }
        for (uint32_t turn = 0, left = KEYS * (EACH - 1); left > 0; turn++) {
            assert_true(turn < 1000);
            rig_step(&rig);
            for (uint32_t i = 0; i < KEYS * EACH; i++) {
                if (!r[i] || !ended(&rig, r[i], FINISH_LENGTH))
                    continue;
                port_free(rig.port, r[i]);
                r[i] = NULL;
                left--;
            }
        }
        assert_null(rig.engine->queue.first);
        uint32_t unused = 0;
        for (struct queue_key *key = rig.engine->queue.free; key; key = key->chain)
            unused++;
        assert_int_equal(unused, rig.engine->queue.count);
    }
    rig_close(&rig);
}

// Cancelling 130 choices, some of which have not started, finishes each once.
static void test_all_of_many_choices_finish(void **state)
{
    (void)state;
    enum { CHOICES = 130 };
    static uint32_t finishes[CHOICES];
    struct rig rig;
    rig_defaults(&rig);
    rig.options.choices_max = CHOICES;
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 20, 3, CHOICES);
    do {
        struct token_event event;
        rig_step(&rig);
        while (port_next(rig.port, r, &event, NULL))
            finishes[event.choice] += event.finish == FINISH_LENGTH;
    } while (r->run.unfinished > CHOICES - 70);
    assert_true(finishes[0] == 1 && finishes[CHOICES - 1] == 0);
    assert_true(r->run.scheduled < CHOICES);
    port_cancel(rig.port, r);
    rig_step(&rig);
    struct token_event event = {0};
    while (port_next(rig.port, r, &event, NULL))
        if (event.finish != FINISH_NONE) {
            finishes[event.choice]++;
            assert_true(event.finish == FINISH_CANCEL || event.finish == FINISH_LENGTH);
        }
    assert_true(event.flags & EVENT_LAST);
    for (uint32_t i = 0; i < CHOICES; i++)
        assert_int_equal(finishes[i], 1);
    for (uint32_t i = 0; i < 3; i++)
        rig_step(&rig);
    assert_int_equal(rig.engine->live_count, 0);
    assert_int_equal(engine_stats(rig.engine)->sequences_waiting, 0);
    assert_int_equal(engine_stats(rig.engine)->sequences_running, 0);
    port_free(rig.port, r);
    rig_close(&rig);
}

struct ready {
    uint32_t calls;
    void *owner;
    struct request *request;
};

static void ready_note(void *context, void *owner, struct request *request)
{
    struct ready *ready = context;
    *ready = (struct ready){ready->calls + 1, owner, request};
}

static void test_a_request_reports_owner_and_times(void **state)
{
    (void)state;
    struct rig rig;
    int one, two;
    struct ready ready = {0};
    rig_defaults(&rig);
    rig_open(&rig);
    int32_t tokens[20] = {1, 2, 3};
    uint32_t start[2] = {0, 20};
    struct submit_args args = {
        .kind = REQUEST_GENERATE,
        .owner = &one,
        .tokens = tokens,
        .token_count = 20,
        .sequence_count = 1,
        .sequence_start = start,
        .choice_count = 1,
        .max_tokens = 3,
        .ignore_end = true,
        .sampling = {.repetition = 1.0f, .logprob = true, .top_logprobs = 4}};
    struct request *r = rig_submit(&rig, &args, ADMITTED);
    struct request_facts facts;
    request_facts_get(r, &facts);
    assert_true(facts.submitted_ns > 0 && facts.started_ns == 0 && facts.first_token_ns == 0);
    rig_step(&rig);
    request_facts_get(r, &facts);
    assert_int_equal(facts.started_ns, rig.now_ns);
    assert_int_equal(facts.first_token_ns, rig.now_ns);
    assert_int_equal(facts.finished_ns, 0);
    assert_int_equal(facts.prompt_tokens, 20);
    assert_int_equal(facts.preemptions, 0);
    port_drain(rig.port, ready_note, &ready);
    assert_true(ready.calls == 1 && ready.owner == &one && ready.request == r);
    port_drain(rig.port, ready_note, &ready);
    assert_int_equal(ready.calls, 1); // reported once
    port_owner_set(rig.port, r, &two);
    struct token_event event;
    struct token_top tops[TOP_LOGPROBS_MAX];
    uint64_t first = rig.now_ns;
    for (uint32_t i = 0; i < 3; i++) {
        memset(tops, 0x5A, sizeof tops);
        assert_true(port_next(rig.port, r, &event, tops));
        assert_int_equal(event.index, i);
        assert_int_equal(event.top_count, 4);
        for (int32_t k = 0; k < 4; k++) {
            assert_int_equal(tops[k].token, event.token + k);
            assert_true(tops[k].logprob == -(float)k);
        }
        assert_int_equal(tops[4].token, 0x5A5A5A5A); // no more than requested
        assert_false(port_next(rig.port, r, &event, tops));
        if (i < 2)
            rig_step(&rig);
    }
    request_facts_get(r, &facts);
    assert_int_equal(facts.first_token_ns, first);
    assert_int_equal(facts.finished_ns, rig.now_ns);
    port_drain(rig.port, ready_note, &ready); // its events were already read
    assert_int_equal(ready.calls, 1);
    port_free(rig.port, r);
    rig_close(&rig);
}

enum { TURNS = 3000000 };

static atomic_bool modest_ends;

static void *greedy(void *context) // requests more than there is, repeatedly
{
    struct admission_gate *gate = context;
    while (!atomic_load(&modest_ends))
        if (counters_raise(gate, 100, 0) || counters_raise(gate, 1, 100))
            return gate;
    return NULL;
}

// A request that fits is admitted while larger requests of another thread are refused.
static void test_a_refused_request_does_not_affect_others(void **state)
{
    (void)state;
    static struct admission_gate gate = {.limits = {.requests = 2, .tokens = 100, .bytes = 100},
                                         .counters = {.requests = 1, .tokens = 1, .bytes = 1}};
    pthread_t thread;
    void *admitted = NULL;
    uint32_t refused = 0;
    assert_int_equal(pthread_create(&thread, NULL, greedy, &gate), 0);
    for (uint32_t i = 0; i < TURNS; i++) {
        if (counters_raise(&gate, 0, 1))
            counters_lower(&gate, 0, 1);
        else
            refused++;
        if (i % 50000 == 0)
            sched_yield(); // lets the other thread run on a single core
    }
    atomic_store(&modest_ends, true);
    assert_int_equal(pthread_join(thread, &admitted), 0);
    assert_null(admitted);
    assert_int_equal(refused, 0);
    assert_int_equal(gate.counters.requests + gate.counters.tokens + gate.counters.bytes, 3);
    assert_true(counters_raise(&gate, 99, 99)); // the rest of the limits
    assert_false(counters_raise(&gate, 0, 0));
}

static void test_counters_and_gauges(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    const struct engine_stats *s = engine_stats(rig.engine);
    assert_int_equal(s->blocks_total, 64);
    struct request *r[3];
    for (uint32_t i = 0; i < 3; i++)
        r[i] = rig_generate(&rig, (int32_t)i * 300, 32, 4, 2);
    rig_step(&rig);
    assert_int_equal(s->requests_submitted, 3);
    assert_int_equal(s->prompt_tokens, 96);
    assert_int_equal(s->beat_ns, rig.now_ns);
    assert_int_equal(s->failed, 0);
    assert_int_equal(s->sequences_running + s->sequences_waiting, 6);
    assert_in_range(s->blocks_used, 6, 12);
    for (uint32_t i = 0; i < 8; i++)
        rig_step(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(ended(&rig, r[i], FINISH_LENGTH));
        port_free(rig.port, r[i]);
    }
    assert_int_equal(s->generation_tokens, 24);
    assert_int_equal(s->finished_length, 6);
    assert_int_equal(s->finished_stop + s->finished_cancel + s->finished_error, 0);
    assert_int_equal(s->prefix_queries, 96); // counted once for both choices
    assert_int_equal(s->prefix_hits, 0);
    assert_int_equal(s->sequences_running, 0);
    assert_int_equal(s->blocks_used, 0);
    assert_true(s->blocks_cached >= 6); // two full blocks per prompt
    assert_int_equal(s->step_started_ns, 0);
    assert_true(s->steps > s->steps_decode_only && s->steps_decode_only > 0);
    for (uint32_t i = 1; i <= 2; i++) {
        r[0] = rig_generate(&rig, 0, 32, 1, 1);
        rig_step(&rig);
        assert_true(ended(&rig, r[0], FINISH_LENGTH));
        assert_int_equal(s->prefix_queries, 96 + 32 * i);
        assert_int_equal(s->prefix_hits, 16 * i); // the last token is always computed
        port_free(rig.port, r[0]);
    }
    rig_close(&rig);
}

// A step with a prompt and decodes is not counted as decode-only.
static void test_mixed_steps_are_no_decodes(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    const struct engine_stats *s = engine_stats(rig.engine);
    static const uint64_t expected[] = {0, 1, 1, 2};
    for (uint32_t i = 0; i < 4; i++) {
        if (i % 2 == 0)
            rig_generate(&rig, (int32_t)i * 300, 32, 40, 1);
        rig_step(&rig);
        assert_int_equal(s->steps, i + 1);
        assert_int_equal(s->steps_decode_only, expected[i]);
    }
    rig_close(&rig);
}

// Each prompt and each input is looked up once, however many a request has. Without a cache nothing
// is looked up.
static void test_each_prompt_is_looked_up_once(void **state)
{
    (void)state;
    enum { PROMPTS = 128, INPUTS = 300, EACH = 17 };
    // prompts; inputs; prompts without a cache; inputs of an encoder, which has no cache
    for (uint32_t which = 0; which < 4; which++) {
        bool inputs = which % 2 == 1, caches = which < 2;
        struct rig rig;
        static int32_t tokens[INPUTS * EACH];
        static uint32_t start[INPUTS + 1];
        uint32_t count = inputs ? INPUTS : PROMPTS;
        if (inputs)
            rig_pooling(&rig, which == 3);
        else
            rig_defaults(&rig);
        if (which < 3)
            rig.fake.facts.block_count = 1024;
        rig.options.choices_max = 2 * PROMPTS;
        rig.options.max_queued_tokens = 4 * INPUTS * EACH;
        rig.options.prefix_cache = which != 2;
        rig_open(&rig);
        for (uint32_t i = 0; i < INPUTS * EACH; i++)
            tokens[i] = (int32_t)(i * i % 997);
        for (uint32_t i = 0; i <= INPUTS; i++)
            start[i] = i * EACH;
        struct submit_args args = {.kind = inputs ? REQUEST_EMBED : REQUEST_GENERATE,
                                   .tokens = tokens,
                                   .token_count = count * EACH,
                                   .sequence_count = count,
                                   .sequence_start = start,
                                   .choice_count = inputs ? 1 : 2,
                                   .max_tokens = 1,
                                   .sampling = {.repetition = 1.0f}};
        const struct engine_stats *s = engine_stats(rig.engine);
        for (uint32_t turn = 1; turn <= 2; turn++) {
            struct request *r = rig_submit(&rig, &args, ADMITTED);
            struct token_event event = {0};
            struct request_facts facts;
            while (!(event.flags & EVENT_LAST))
                if (!port_next(rig.port, r, &event, NULL))
                    rig_step(&rig);
            request_facts_get(r, &facts);
            port_free(rig.port, r);
            assert_int_equal(s->prefix_queries, caches ? turn * count * EACH : 0);
            assert_int_equal(s->prefix_hits, caches ? (turn - 1) * count * 16 : 0);
            assert_int_equal(facts.cached_tokens, s->prefix_hits);
        }
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_heap_gives_the_earliest),
        cmocka_unit_test(test_rings_hold_four_events_a_choice),
        cmocka_unit_test(test_keys_of_one_bucket_are_kept_apart),
        cmocka_unit_test(test_all_of_many_choices_finish),
        cmocka_unit_test(test_a_request_reports_owner_and_times),
        cmocka_unit_test(test_a_refused_request_does_not_affect_others),
        cmocka_unit_test(test_counters_and_gauges),
        cmocka_unit_test(test_mixed_steps_are_no_decodes),
        cmocka_unit_test(test_each_prompt_is_looked_up_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
