// SPDX-License-Identifier: Apache-2.0
// The engine from submit to finish over the fake model, on one thread: all finish reasons,
// admission, slow readers, device faults, draining.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

static const uint64_t second_ns = 1000000000u;

static uint32_t run_until_last(struct rig *rig, struct request *request, enum finish expected)
{
    uint32_t tokens = 0;
    for (uint32_t turns = 0; turns < 10000; turns++) {
        struct token_event event;
        while (port_next(rig->port, request, &event, NULL)) {
            tokens += (event.flags & EVENT_TOKEN) != 0;
            if (event.finish != FINISH_NONE)
                assert_int_equal(event.finish, expected);
            if (event.flags & EVENT_LAST)
                return tokens;
        }
        rig_step(rig);
    }
    fail_msg("the request did not end");
    return 0;
}

static void test_max_tokens_and_the_context_end_a_choice(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        rig_open(&rig);
        struct request *r = rig_generate(&rig, 10, 100, 50, 1);
        assert_int_equal(run_until_last(&rig, r, FINISH_LENGTH), 50);
        port_free(rig.port, r);
        r = rig_generate(&rig, 10, 100, 5, 8);
        assert_int_equal(run_until_last(&rig, r, FINISH_LENGTH), 40);
        struct request_facts facts;
        request_facts_get(r, &facts);
        assert_int_equal(facts.prompt_tokens, 100);
        assert_int_equal(facts.cached_tokens, 96);
        port_free(rig.port, r);
        r = rig_generate(&rig, 10, 200, 1000, 1); // the context has 256
        assert_int_equal(run_until_last(&rig, r, FINISH_CONTEXT), 56);
        port_free(rig.port, r);
        // No step is wasted on lengths known in advance.
        assert_int_equal(engine_stats(rig.engine)->rows_after_cancel, 0);
        rig_close(&rig);
    }
}

// The third token that the request generates is the last of its twelve stop ids. The other stop ids
// never occur.
static void test_any_of_many_stop_ids_ends(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct sample_params params = {.seed = 5, .repetition = 1.0f};
    struct fake_alone alone = {.type_from = STEP_NO_TYPE};
    int32_t tokens[20], stops[12], third = 0;
    for (int32_t i = 0; i < 20; i++) {
        tokens[i] = i;
        fake_feed(&alone, i);
    }
    for (; params.output_count < 3; params.output_count++) {
        third = fake_next(&alone, &params, NULL, NULL, 1000);
        fake_feed(&alone, third);
    }
    for (int32_t i = 0; i < 11; i++)
        stops[i] = 1000 + i; // outside the vocabulary
    stops[11] = third;
    uint32_t start[2] = {0, 20};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = 20,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 1,
                               .max_tokens = 30,
                               .sampling = {.seed = 5, .repetition = 1.0f},
                               .stop_id_count = 12,
                               .stop_ids = stops};
    struct request *r = rig_submit(&rig, &args, ADMITTED);
    assert_int_equal(run_until_last(&rig, r, FINISH_STOP), 3);
    port_free(rig.port, r);
    rig_close(&rig);
}

static void test_admission_is_counted(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.options.max_queued_requests = 3;
    rig.options.max_queued_tokens = 100;
    rig_open(&rig);
    int32_t tokens[200] = {0};
    uint32_t start[2] = {0, 101};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = 101,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 1,
                               .max_tokens = 2,
                               .sampling = {.repetition = 1.0f}};
    rig_submit(&rig, &args, ADMISSION_TOO_MANY_TOKENS);
    args.token_count = start[1] = 60;
    struct request *a = rig_submit(&rig, &args, ADMITTED);
    rig_submit(&rig, &args, ADMISSION_BUSY); // 120 tokens
    args.token_count = start[1] = 20;
    struct request *b = rig_submit(&rig, &args, ADMITTED);
    struct request *c = rig_submit(&rig, &args, ADMITTED);
    args.token_count = start[1] = 1;
    assert_int_equal(engine_stats(rig.engine)->steps, 0);
    rig_submit(&rig, &args, ADMISSION_BUSY); // a fourth request
    run_until_last(&rig, a, FINISH_LENGTH);
    rig_submit(&rig, &args, ADMISSION_BUSY); // ended but not freed: its memory is still held
    port_free(rig.port, a);
    struct request *d = rig_submit(&rig, &args, ADMITTED);
    run_until_last(&rig, b, FINISH_LENGTH);
    run_until_last(&rig, c, FINISH_LENGTH);
    run_until_last(&rig, d, FINISH_LENGTH);
    port_free(rig.port, b);
    port_free(rig.port, c);
    port_free(rig.port, d);
    rig_close(&rig);
}

static void test_results_are_admitted_by_bytes(void **state)
{
    (void)state;
    struct rig rig;
    rig_pooling(&rig, true);
    rig.options.max_result_bytes = 5 * 8 * sizeof(float);
    rig_open(&rig);
    int32_t tokens[8] = {0};
    uint32_t starts[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct submit_args args = {.kind = REQUEST_EMBED,
                               .tokens = tokens,
                               .token_count = 6,
                               .sequence_count = 6,
                               .sequence_start = starts,
                               .choice_count = 1};
    rig_submit(&rig, &args, ADMISSION_TOO_MANY_BYTES);
    args.token_count = args.sequence_count = 3;
    struct request *a = rig_submit(&rig, &args, ADMITTED);
    rig_submit(&rig, &args, ADMISSION_BUSY);
    run_until_last(&rig, a, FINISH_DONE);
    port_free(rig.port, a);
    a = rig_submit(&rig, &args, ADMITTED);
    port_cancel(rig.port, a); // before the engine popped it
    run_until_last(&rig, a, FINISH_CANCEL);
    port_free(rig.port, a);
    rig_close(&rig);
}

// A refused request leaves nothing counted: all requests, tokens and bytes of the limits can be
// used.
static void test_a_refusal_counts_nothing(void **state)
{
    (void)state;
    struct rig rig;
    rig_pooling(&rig, true);
    rig.options.max_queued_requests = 2;
    rig.options.max_queued_tokens = 6;
    rig.options.max_result_bytes = 4 * 8 * sizeof(float);
    rig_open(&rig);
    int32_t tokens[6] = {0};
    uint32_t each[7] = {0, 1, 2, 3, 4, 5, 6}, one[2] = {0, 3};
    struct submit_args many = {.kind = REQUEST_EMBED,
                               .tokens = tokens,
                               .token_count = 3,
                               .sequence_count = 3,
                               .sequence_start = each,
                               .choice_count = 1};
    struct submit_args single = many;
    single.sequence_count = 1;
    single.sequence_start = one;
    struct request *a = rig_submit(&rig, &many, ADMITTED);
    rig_submit(&rig, &many, ADMISSION_BUSY); // bytes
    single.token_count = one[1] = 4;
    rig_submit(&rig, &single, ADMISSION_BUSY); // tokens
    single.token_count = one[1] = 3;
    struct request *b = rig_submit(&rig, &single, ADMITTED); // the last byte, token and request
    single.token_count = one[1] = 1;
    rig_submit(&rig, &single, ADMISSION_BUSY);
    const struct admission_counters *counters = &rig.engine->gate.counters;
    assert_int_equal(counters->requests, 2);
    assert_int_equal(counters->tokens, 6);
    assert_int_equal(counters->bytes, 4 * 8 * sizeof(float));
    run_until_last(&rig, a, FINISH_DONE);
    run_until_last(&rig, b, FINISH_DONE);
    port_free(rig.port, a);
    port_free(rig.port, b);
    rig_close(&rig);
}

// Expects FINISH_CANCEL. Reads the tokens that precede it in the ring.
static void run_until_cancelled(struct rig *rig, struct request *request)
{
    struct token_event event = {0};
    for (uint32_t turns = 0; turns < 10 && !(event.flags & EVENT_LAST); turns++) {
        rig_step(rig);
        while (!(event.flags & EVENT_LAST) && port_next(rig->port, request, &event, NULL))
            continue;
    }
    assert_true(event.flags & EVENT_LAST);
    assert_int_equal(event.finish, FINISH_CANCEL);
}

static bool readable(const struct waker *waker)
{
    struct pollfd one = {.fd = waker_fd(waker), .events = POLLIN};
    return poll(&one, 1, 0) == 1;
}

static void test_only_the_stopped_reader_is_paused(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    rig.deadline_ns = rig.now_ns + second_ns; // a deadline that only applies until the start
    struct request *stopped = rig_generate(&rig, 0, 10, 200, 1);
    rig.deadline_ns = 0;
    for (uint32_t i = 0; i < 100; i++)
        rig_step(&rig);
    assert_int_equal(rig_step(&rig), ENGINE_IDLE);
    assert_int_equal(engine_stats(rig.engine)->pauses, 1);
    assert_int_equal(engine_stats(rig.engine)->generation_tokens, 63); // one entry is for a finish
    struct request *other = rig_generate(&rig, 500, 10, 200, 1);
    assert_int_equal(run_until_last(&rig, other, FINISH_LENGTH), 200);
    port_free(rig.port, other);
    struct token_event event;
    waker_clear(rig.engine->gate.waker);
    assert_false(readable(rig.engine->gate.waker));
    for (uint32_t i = 0; i < 10; i++)
        assert_true(port_next(rig.port, stopped, &event, NULL));
    assert_true(readable(rig.engine->gate.waker));   // a sleeping engine would be woken
    assert_int_equal(rig_step(&rig), ENGINE_WORKED); // it continues
    for (uint32_t i = 0; i < 20; i++)
        rig_step(&rig);
    rig.now_ns += 60 * second_ns - second_ns / 10;
    rig_step(&rig);
    assert_int_equal(rig.engine->live_count, 1);
    rig.now_ns += second_ns / 5;
    assert_true(port_next(rig.port, stopped, &event, NULL));
    rig_step(&rig);
    assert_int_equal(rig.engine->live_count, 1);
    rig_step(&rig);
    rig_step(&rig);
    rig.now_ns += 61 * second_ns;
    rig_step(&rig);
    assert_int_equal(rig.engine->live_count, 0);
    assert_true(run_until_last(&rig, stopped, FINISH_STALLED) > 0);
    port_free(rig.port, stopped);
    rig_close(&rig);
}

// The 60 s of a slow reader start with the first unread event, not with the submit.
static void test_a_reader_is_slow_from_its_first_unread_event(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    struct request *first = rig_generate(&rig, 0, 10, 20, 1);
    rig_step(&rig);
    struct request *queued = rig_generate(&rig, 500, 10, 200, 1);
    rig_step(&rig);
    rig.now_ns += 100 * second_ns;
    assert_int_equal(run_until_last(&rig, first, FINISH_LENGTH), 20);
    port_free(rig.port, first);
    for (uint32_t i = 0; i < 100; i++)
        rig_step(&rig);
    assert_int_equal(engine_stats(rig.engine)->pauses, 1);
    rig.now_ns += 59 * second_ns;
    rig_step(&rig);
    assert_int_equal(rig.engine->live_count, 1);
    rig.now_ns += second_ns;
    rig_step(&rig);
    assert_int_equal(rig.engine->live_count, 0);
    assert_int_equal(run_until_last(&rig, queued, FINISH_STALLED), 63);
    port_free(rig.port, queued);
    rig_close(&rig);
}

// With a reader that reads one event at a time, the two choices get the free entry round-robin.
static void test_a_free_entry_is_given_round_robin(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 10, 200, 2);
    while (rig_step(&rig) == ENGINE_WORKED)
        continue;
    const struct sequence *one = r->run.first, *two = one->sibling;
    assert_true(one->paused && two->paused);
    uint32_t before[2] = {one->output_count, two->output_count};
    for (uint32_t i = 0; i < 10; i++) {
        struct token_event event;
        assert_true(port_next(rig.port, r, &event, NULL));
        assert_int_equal(rig_step(&rig), ENGINE_WORKED);
        assert_int_equal(rig_step(&rig), ENGINE_IDLE);
    }
    assert_int_equal(one->output_count - before[0], 5);
    assert_int_equal(two->output_count - before[1], 5);
    port_cancel(rig.port, r);
    run_until_cancelled(&rig, r);
    port_free(rig.port, r);
    rig_close(&rig);
}

static void read_slowly(struct rig *rig, struct request *r, uint32_t count)
{
    struct token_event event;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(port_next(rig->port, r, &event, NULL));
        for (uint32_t steps = 0; steps < 4; steps++)
            rig_step(rig);
    }
}

// A sequence loses its blocks while its reader is slow. It restarts when half a ring of entries is
// free, not for one entry, although it is the oldest: otherwise each token read would cost a
// prefill, and would cost the younger sequence its blocks.
static void test_a_slow_reader_costs_no_prefill_per_token(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.block_count = 16;
    rig_open(&rig);
    const struct engine_stats *stats = engine_stats(rig.engine);
    struct request *slow = rig_generate(&rig, 0, 100, 150, 1);
    while (rig_step(&rig) == ENGINE_WORKED)
        continue;
    struct request *young = rig_generate(&rig, 500, 150, 100, 1);
    while (rig_step(&rig) == ENGINE_WORKED)
        continue;
    assert_int_equal(stats->preemptions, 1); // the paused one lost its blocks to the younger one
    uint64_t computed = stats->tokens_computed;
    read_slowly(&rig, slow, 31);
    assert_int_equal(stats->tokens_computed, computed);
    read_slowly(&rig, slow, 1); // half the ring is free
    assert_true(stats->tokens_computed > computed);
    assert_int_equal(run_until_last(&rig, slow, FINISH_LENGTH), 150 - 32);
    assert_int_equal(run_until_last(&rig, young, FINISH_LENGTH), 100);
    assert_true(stats->preemptions <= 3);
    port_free(rig.port, slow);
    port_free(rig.port, young);
    rig_close(&rig);
}

static void test_submit_and_cancel_wake_the_engine(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    assert_false(readable(rig.engine->gate.waker));
    struct request *r = rig_generate(&rig, 0, 10, 200, 1);
    assert_true(readable(rig.engine->gate.waker));
    waker_clear(rig.engine->gate.waker);
    while (rig_step(&rig) == ENGINE_WORKED)
        continue;
    assert_false(readable(rig.engine->gate.waker));
    port_cancel(rig.port, r);
    assert_true(readable(rig.engine->gate.waker));
    run_until_cancelled(&rig, r);
    port_free(rig.port, r);
    rig_close(&rig);
}

static void test_a_queued_request_times_out(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    struct request *first = rig_generate(&rig, 0, 10, 200, 1);
    rig_step(&rig);
    int32_t tokens[4] = {1, 2, 3, 4};
    uint32_t start[2] = {0, 4};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = 4,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 2,
                               .max_tokens = 2,
                               .sampling = {.repetition = 1.0f},
                               .deadline_ns = rig.now_ns + 50000000u};
    struct request *late = rig_submit(&rig, &args, ADMITTED);
    for (uint32_t i = 0; i < 40; i++)
        rig_step(&rig);
    assert_int_equal(rig.engine->live_count, 2);
    assert_int_equal(run_until_last(&rig, late, FINISH_TIMEOUT), 0);
    assert_int_equal(engine_stats(rig.engine)->finished_timeout, 2);
    port_free(rig.port, late);
    assert_int_equal(run_until_last(&rig, first, FINISH_LENGTH), 200);
    port_free(rig.port, first);
    rig_close(&rig);
}

static void test_a_fault_ends_everything(void **state)
{
    (void)state;
    for (uint32_t collect = 0; collect < 2; collect++) {
        struct rig rig;
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = collect;
        rig.fake.facts.limits.slots_max = 2;
        rig_open(&rig);
        fake_fault(rig.model, 5, collect);
        struct request *r[3];
        for (int32_t i = 0; i < 3; i++)
            r[i] = rig_generate(&rig, i, 20, 100, 3);
        enum engine_news news = ENGINE_WORKED;
        while (news == ENGINE_WORKED)
            news = rig_step(&rig);
        assert_int_equal(news, ENGINE_FAULT);
        assert_int_equal(rig_step(&rig), ENGINE_FAULT);
        assert_non_null(strstr(engine_error(rig.engine)->text, "fake device"));
        for (uint32_t i = 0; i < 3; i++) {
            run_until_last(&rig, r[i], FINISH_ERROR);
            port_free(rig.port, r[i]);
        }
        uint32_t start[2] = {0, 1};
        struct submit_args args = {.kind = REQUEST_GENERATE,
                                   .tokens = (int32_t[]){1},
                                   .token_count = 1,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 1,
                                   .max_tokens = 1,
                                   .sampling = {.repetition = 1.0f}};
        rig_submit(&rig, &args, ADMISSION_FAILED);
        engine_stop(rig.engine); // stopping does not clear the failure
        rig_submit(&rig, &args, ADMISSION_FAILED);
        assert_int_equal(engine_run(rig.engine), ENGINE_FAULT);
        rig_close(&rig);
    }
}

// The device failed in another engine. This engine refuses new requests immediately. Its next step
// ends all live requests, with or without a step in flight, and the requests that are still in the
// inbound ring.
static void test_a_lost_device_ends_everything(void **state)
{
    (void)state;
    for (uint32_t inflight = 0; inflight < 2; inflight++) {
        struct rig rig;
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = inflight;
        rig.fake.facts.limits.slots_max = 2;
        rig_open(&rig);
        struct request *r[4];
        for (int32_t i = 0; i < 3; i++)
            r[i] = rig_generate(&rig, i, 20, 100, 3);
        for (int i = 0; i < 4; i++)
            assert_int_equal(rig_step(&rig), ENGINE_WORKED);
        r[3] = rig_generate(&rig, 3, 20, 100, 1);
        uint64_t steps = fake_steps(rig.model);
        engine_device_failed(rig.engine);
        uint32_t start[2] = {0, 1};
        struct submit_args args = {.kind = REQUEST_GENERATE,
                                   .tokens = (int32_t[]){1},
                                   .token_count = 1,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 1,
                                   .max_tokens = 1,
                                   .sampling = {.repetition = 1.0f}};
        rig_submit(&rig, &args, ADMISSION_FAILED);
        assert_int_equal(engine_stats(rig.engine)->failed, 1);
        assert_int_equal(engine_run(rig.engine), ENGINE_FAULT);
        assert_non_null(strstr(engine_error(rig.engine)->text, "another model"));
        assert_int_equal(fake_steps(rig.model), steps); // no step was launched
        assert_int_equal(rig.engine->live_count, 0);
        for (uint32_t i = 0; i < 4; i++) {
            run_until_last(&rig, r[i], FINISH_ERROR);
            port_free(rig.port, r[i]);
        }
        rig_close(&rig);
    }
}

// The engine may pop the notice of a cancel before it pops the request itself (submitted and
// cancelled between two reads of the engine). Its intake then finds the cancel flag set.
static void test_a_cancel_before_the_intake_is_seen(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 20, 50, 1);
    port_cancel(rig.port, r);
    uint32_t number;
    assert_true(number_pop(&rig.port->notices, &number));
    assert_true(flag_lower(&r->in_notices));
    rig_step(&rig);
    assert_int_equal(engine_stats(rig.engine)->steps, 0);
    assert_int_equal(run_until_last(&rig, r, FINISH_CANCEL), 0);
    port_free(rig.port, r);
    rig_close(&rig);
}

// A notice of a cancel makes the engine read the flag of its request only. The flag of another
// request whose notice has not arrived is not read.
static void test_a_cancel_touches_only_its_request(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *a = rig_generate(&rig, 0, 20, 50, 1), *b = rig_generate(&rig, 0, 20, 50, 1);
    rig_step(&rig);
    atomic_store(&b->cancel, 1);
    port_cancel(rig.port, a);
    rig_step(&rig);
    run_until_cancelled(&rig, a);
    assert_true(b->run.unfinished == 1);
    port_cancel(rig.port, b);
    port_cancel(rig.port, b); // a second cancel changes nothing
    rig_step(&rig);
    run_until_cancelled(&rig, b);
    port_free(rig.port, a);
    port_free(rig.port, b);
    rig_close(&rig);
}

// A notice may be popped after its request has ended, when no request or the next one has its table
// entry. It does not cancel the next request.
static void test_a_late_notice_cancels_no_request(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 20, 1, 1);
    rig_step(&rig);
    port_cancel(rig.port, r); // it has ended; its finish event is unread
    run_until_last(&rig, r, FINISH_LENGTH);
    port_free(rig.port, r);
    struct request *again = rig_generate(&rig, 0, 20, 5, 1);
    assert_ptr_equal(again, r);
    assert_int_equal(run_until_last(&rig, again, FINISH_LENGTH), 5);
    port_cancel(rig.port, again);
    rig_step(&rig);
    port_free(rig.port, again);
    again = rig_generate(&rig, 0, 20, 5, 1);
    port_cancel(rig.port, again);
    rig_step(&rig);
    run_until_cancelled(&rig, again);
    port_free(rig.port, again);
    rig_close(&rig);
}

static void test_penalty_rows_are_shared(void **state)
{
    (void)state;
    for (uint32_t rows = 0; rows <= 2; rows += 2) {
        struct rig rig;
        rig_defaults(&rig);
        rig.fake.facts.limits.penalty_rows = rows;
        rig_open(&rig);
        int32_t tokens[4] = {1, 2, 3, 4};
        uint32_t start[2] = {0, 4};
        struct submit_args args = {.kind = REQUEST_GENERATE,
                                   .tokens = tokens,
                                   .token_count = 4,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 5,
                                   .max_tokens = 6,
                                   .ignore_end = true,
                                   .sampling = {.repetition = 1.2f}};
        struct request *r = rig_submit(&rig, &args, ADMITTED);
        rig_step(&rig);
        assert_int_equal(rig.engine->order_count, rows);
        uint32_t got = run_until_last(&rig, r, rows ? FINISH_LENGTH : FINISH_ERROR);
        assert_int_equal(got, rows ? 30 : 0);
        port_free(rig.port, r);
        rig_close(&rig);
    }
}

static void test_stopping_finishes_live_requests(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 20, 40, 1);
    engine_stop(rig.engine);
    assert_int_equal(engine_run(rig.engine), ENGINE_IDLE); // returns when it is done
    assert_false(fake_more(rig.model));                    // it does not ask for the device again
    assert_int_equal(run_until_last(&rig, r, FINISH_LENGTH), 40);
    port_free(rig.port, r);
    rig_close(&rig);
}

// The engine writes the eventfd once per step however many events there are, and not at all while
// the last write is unread.
static void test_wakes_are_coalesced(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 10, 20, 8);
    assert_false(readable(rig.waker));
    for (uint32_t i = 0; i < 5; i++)
        rig_step(&rig);
    assert_true(readable(rig.waker));
    uint64_t writes = 0;
    assert_int_equal(read(rig.waker->fd, &writes, sizeof writes), sizeof writes);
    assert_int_equal(writes, 1);
    rig_step(&rig);
    assert_false(readable(rig.waker)); // the flag is still raised
    waker_clear(rig.waker);
    rig_step(&rig);
    assert_true(readable(rig.waker));
    run_until_last(&rig, r, FINISH_LENGTH);
    port_free(rig.port, r);
    rig_close(&rig);
}

// Buckets end at 1, 8, 16 ... 16384, and one is above. Every step is counted in one bucket of
// tokens and one of rows.
static void test_steps_are_counted_by_size(void **state)
{
    (void)state;
    static const struct {
        uint64_t size;
        uint32_t bucket;
    } cases[] = {{1, 0}, {2, 1}, {8, 1}, {9, 2}, {16, 2}, {17, 3}, {16384, 12}, {16385, 13}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(step_bucket(cases[i].size), cases[i].bucket);
    assert_int_equal(step_bound(0), 1);
    assert_int_equal(step_bound(1), 8);
    assert_int_equal(step_bound(STEP_BUCKETS - 2), 16384);
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 20, 5, 1);
    assert_int_equal(run_until_last(&rig, r, FINISH_LENGTH), 5);
    const struct engine_stats *stats = engine_stats(rig.engine);
    assert_int_equal(stats->steps_by_tokens[step_bucket(20)], 1); // the prompt
    assert_int_equal(stats->steps_by_tokens[0], stats->steps - 1);
    assert_int_equal(stats->steps_by_rows[0], stats->steps);
    port_free(rig.port, r);
    rig_close(&rig);
}

// Every field of the port's sampling reaches the device, with the fields that the engine adds.
static void test_sampling_reaches_the_device(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    int32_t tokens[2] = {1, 2}, stop = 9;
    uint32_t start[2] = {0, 2};
    struct token_bias bias[2] = {{5, 0.5f}, {6, -1.0f}};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = 2,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 2,
                               .max_tokens = 4,
                               .sampling = {.seed = 11,
                                            .temperature = 0.5f,
                                            .top_p = 0.25f,
                                            .min_p = 0.125f,
                                            .top_k = 12,
                                            .repetition = 1.5f,
                                            .frequency = 2.5f,
                                            .presence = 3.5f,
                                            .logprob = true,
                                            .top_logprobs = 13,
                                            .output_min = 3},
                               .ignore_end = true,
                               .stop_id_count = 1,
                               .stop_ids = &stop,
                               .bias_count = 2,
                               .bias = bias};
    rig_submit(&rig, &args, ADMITTED);
    rig_step(&rig);
    struct batch *batch = (struct batch *)fake_batch(rig.model);
    assert_int_equal(batch->new_sequence_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct sample_params *p = &batch_new_sequences(batch)[i].params;
        assert_int_equal(p->seed, 11);
        assert_int_equal(p->choice, i);
        assert_int_equal(p->output_count, 0);
        assert_true(p->temperature == 0.5f && p->top_p == 0.25f && p->min_p == 0.125f);
        assert_int_equal(p->top_k, 12);
        assert_true(p->repetition == 1.5f && p->frequency == 2.5f && p->presence == 3.5f);
        assert_int_equal(p->flags, SAMPLE_LOGPROB | SAMPLE_PENALTY | SAMPLE_IGNORE_END);
        assert_int_equal(p->top_logprobs, 13);
        assert_int_equal(p->output_min, 3);
        assert_int_equal(p->stop_count, 2);
        assert_int_equal(p->stop_ids[0], 7); // the model's end id
        assert_int_equal(p->stop_ids[1], 9);
        assert_true(p->penalty_row < 2);
        assert_int_equal(p->bias_count, 2);
        const struct step_bias *out = &batch_bias(batch)[batch_new_sequences(batch)[i].bias_at];
        assert_true(out[0].token == 5 && out[0].value == 0.5f);
        assert_true(out[1].token == 6 && out[1].value == -1.0f);
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_max_tokens_and_the_context_end_a_choice),
        cmocka_unit_test(test_any_of_many_stop_ids_ends),
        cmocka_unit_test(test_admission_is_counted),
        cmocka_unit_test(test_results_are_admitted_by_bytes),
        cmocka_unit_test(test_a_refusal_counts_nothing),
        cmocka_unit_test(test_only_the_stopped_reader_is_paused),
        cmocka_unit_test(test_a_reader_is_slow_from_its_first_unread_event),
        cmocka_unit_test(test_a_free_entry_is_given_round_robin),
        cmocka_unit_test(test_a_slow_reader_costs_no_prefill_per_token),
        cmocka_unit_test(test_submit_and_cancel_wake_the_engine),
        cmocka_unit_test(test_a_queued_request_times_out),
        cmocka_unit_test(test_a_fault_ends_everything),
        cmocka_unit_test(test_a_lost_device_ends_everything),
        cmocka_unit_test(test_a_cancel_before_the_intake_is_seen),
        cmocka_unit_test(test_a_cancel_touches_only_its_request),
        cmocka_unit_test(test_a_late_notice_cancels_no_request),
        cmocka_unit_test(test_penalty_rows_are_shared),
        cmocka_unit_test(test_stopping_finishes_live_requests),
        cmocka_unit_test(test_wakes_are_coalesced),
        cmocka_unit_test(test_steps_are_counted_by_size),
        cmocka_unit_test(test_sampling_reaches_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
