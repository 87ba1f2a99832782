// SPDX-License-Identifier: Apache-2.0
// Requests with several choices and several prompts over the fake model: each choice has the tokens
// it would have as a separate request, cancelling a choice ends only that choice, prompts are
// computed once, and choices that need a penalty row wait for one without delaying others.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

enum { CHOICES = 8, TOKENS = 64, ROUNDS = 10000 };

struct got {
    uint32_t count[CHOICES], finish[CHOICES], finishes;
    int32_t token[CHOICES][TOKENS];
    bool last;
};

static void take(struct rig *rig, struct request *r, struct got *got)
{
    struct token_event event;
    while (!got->last && port_next(rig->port, r, &event, NULL)) {
        assert_true(event.choice < CHOICES && got->count[event.choice] < TOKENS);
        assert_int_equal(got->finish[event.choice], FINISH_NONE); // nothing follows a finish
        if (event.flags & EVENT_TOKEN)
            got->token[event.choice][got->count[event.choice]++] = event.token;
        got->finish[event.choice] = event.finish;
        got->finishes += event.finish != FINISH_NONE;
        got->last = event.flags & EVENT_LAST;
    }
}

static void run(struct rig *rig, struct request *r, struct got *got)
{
    for (uint32_t i = 0; !got->last && i < ROUNDS; i++) {
        rig_step(rig);
        take(rig, r, got);
    }
    assert_true(got->last);
    port_free(rig->port, r);
}

static void test_cancelling_one_choice_ends_only_that(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        struct got got = {0}, whole = {0};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        rig_open(&rig);
        run(&rig, rig_generate(&rig, 10, 100, 40, 4), &whole);
        struct request *r = rig_generate(&rig, 10, 100, 40, 4);
        while (got.count[2] < 5) {
            rig_step(&rig);
            take(&rig, r, &got);
        }
        port_cancel_choice(rig.port, r, 2);
        rig_step(&rig);
        take(&rig, r, &got);
        assert_int_equal(got.finish[2], FINISH_CANCEL); // within one step
        assert_int_equal(got.finishes, 1);
        assert_int_equal(engine_stats(rig.engine)->sequences_running, 3);
        run(&rig, r, &got);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(got.count[i], i == 2 ? 5 : 40);
            assert_memory_equal(got.token[i], whole.token[i], got.count[i] * sizeof(int32_t));
        }
        assert_int_equal(engine_stats(rig.engine)->finished_cancel, 1);
        assert_int_equal(engine_stats(rig.engine)->rows_after_cancel, flight);
        rig_close(&rig);
    }
}

// Cancelling every choice ends the request. The next request in the same table entry is not
// affected.
static void test_the_last_choice_ends_the_request(void **state)
{
    struct rig rig;
    struct got got = {0}, next = {0};
    (void)state;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 20, 40, 2);
    while (got.count[1] == 0) {
        rig_step(&rig);
        take(&rig, r, &got);
    }
    port_cancel_choice(rig.port, r, 1);
    port_cancel_choice(rig.port, r, 0);
    port_cancel_choice(rig.port, r, 0); // a second cancel changes nothing
    rig_step(&rig);
    assert_int_equal(rig.engine->live_count, 0);
    take(&rig, r, &got);
    assert_true(got.last);
    port_free(rig.port, r);
    struct request *again = rig_generate(&rig, 0, 20, 40, 2);
    assert_ptr_equal(again, r);
    run(&rig, again, &next);
    assert_int_equal(next.count[0], 40);
    assert_int_equal(next.count[1], 40);
    rig_close(&rig);
}

// Cancelling a finished choice has no effect, whether or not its finish event was read.
static void test_a_finished_choice_does_not_end_again(void **state)
{
    struct rig rig;
    struct got got = {0};
    (void)state;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 20, 30, 2);
    while (got.count[1] == 0) {
        rig_step(&rig);
        take(&rig, r, &got);
    }
    for (uint32_t i = 0; i < 3; i++) {
        port_cancel_choice(rig.port, r, 1);
        rig_step(&rig);
    }
    run(&rig, r, &got);
    assert_int_equal(got.finish[1], FINISH_CANCEL);
    assert_int_equal(got.finishes, 2);
    assert_int_equal(got.count[0], 30);
    rig_close(&rig);
}

// A choice was parked because its reader is slow. Cancelling it ends the request.
static void test_a_parked_choice_is_cancelled(void **state)
{
    struct rig rig;
    struct got got = {0}, other = {0};
    struct token_event event;
    (void)state;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    struct request *slow = rig_generate(&rig, 0, 4, 200, 1);
    for (uint32_t i = 0; i < 100; i++)
        rig_step(&rig);
    struct request *quick = rig_generate(&rig, 300, 4, 10, 1);
    run(&rig, quick, &other);
    assert_int_equal(rig.engine->parked_count, 1);
    assert_true(port_next(rig.port, slow, &event, NULL));
    port_cancel_choice(rig.port, slow, 0);
    rig_step(&rig);
    assert_int_equal(rig.engine->parked_count, 0);
    assert_null(rig.engine->queue.first);
    while (port_next(rig.port, slow, &event, NULL))
        got.last = event.flags & EVENT_LAST;
    assert_true(got.last);
    assert_int_equal(event.finish, FINISH_CANCEL);
    port_free(rig.port, slow);
    rig_close(&rig);
}

static void alone(int32_t *out, const int32_t *prompt, uint32_t length, uint32_t choice,
                  uint32_t count)
{
    struct fake_alone f = {.type_from = STEP_NO_TYPE};
    struct sample_params params = {.seed = 5, .repetition = 1.0f, .choice = choice};
    for (uint32_t i = 0; i < length; i++)
        fake_feed(&f, prompt[i]);
    for (; params.output_count < count; params.output_count++) {
        out[params.output_count] = fake_next(&f, &params, NULL, NULL, 1000);
        fake_feed(&f, out[params.output_count]);
    }
}

static void each_prompt(bool differ)
{
    enum { PROMPTS = 3, EACH = 2, LENGTH = 20, COUNT = 30 };
    struct rig rig;
    struct got got = {0};
    struct request_facts facts;
    int32_t tokens[PROMPTS * LENGTH], want[COUNT];
    uint32_t start[PROMPTS + 1];
    rig_defaults(&rig);
    rig_open(&rig);
    for (uint32_t i = 0; i < PROMPTS * LENGTH; i++)
        tokens[i] = (int32_t)(i * i % 997);
    for (uint32_t i = 0; i <= PROMPTS; i++)
        start[i] = i * LENGTH;
    start[1] -= 7; // so that the prompts differ in length
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = PROMPTS * LENGTH,
                               .sequence_count = PROMPTS,
                               .sequence_start = start,
                               .choice_count = EACH,
                               .max_tokens = COUNT,
                               .ignore_end = true,
                               .prompts_differ = differ,
                               .sampling = {.seed = 5, .repetition = 1.0f}};
    struct request *r = rig_submit(&rig, &args, ADMITTED);
    while (!got.last) {
        rig_step(&rig);
        take(&rig, r, &got);
    }
    for (uint32_t choice = 0; choice < PROMPTS * EACH; choice++) {
        uint32_t p = choice / EACH;
        alone(want, tokens + start[p], start[p + 1] - start[p], differ ? choice : choice % EACH,
              COUNT);
        assert_int_equal(got.count[choice], COUNT);
        assert_memory_equal(got.token[choice], want, sizeof want);
    }
    request_facts_get(r, &facts);
    assert_int_equal(facts.prompt_tokens, PROMPTS * LENGTH);
    assert_int_equal(facts.cached_tokens, 0); // choices after the first are not counted
    port_free(rig.port, r);
    r = rig_submit(&rig, &args, ADMITTED);
    while (port_cancel(rig.port, r), rig_step(&rig), rig.engine->live_count > 0)
        ;
    struct token_event event;
    while (port_next(rig.port, r, &event, NULL))
        ;
    port_free(rig.port, r);
    rig_close(&rig);
}

// Choice i of a prompt has the same tokens whichever other prompts the request has, unless
// prompts_differ is set.
static void test_each_prompt_is_independent_of_the_others(void **state)
{
    (void)state;
    each_prompt(false);
    each_prompt(true);
}

// The prompt of eight choices is computed once. Each choice computes at most one block of it again.
static void test_a_prompt_is_computed_once(void **state)
{
    (void)state;
    for (uint32_t cache = 0; cache <= 1; cache++) {
        struct rig rig;
        struct got got = {0};
        rig_defaults(&rig);
        rig.options.prefix_cache = cache;
        rig_open(&rig);
        run(&rig, rig_generate(&rig, 10, 200, 20, CHOICES), &got);
        uint64_t computed = engine_stats(rig.engine)->prompt_tokens_computed;
        assert_in_range(computed, 200, 200 + CHOICES * rig.fake.facts.block_tokens);
        assert_int_equal(engine_stats(rig.engine)->tokens_computed, computed + 19 * CHOICES);
        rig_close(&rig);
    }
}

static struct request *penalised(struct rig *rig, int32_t first, uint32_t max_tokens,
                                 uint32_t choices)
{
    int32_t tokens[4] = {first, first + 1, first + 2, first + 3};
    uint32_t start[2] = {0, 4};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = 4,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = choices,
                               .max_tokens = max_tokens,
                               .ignore_end = true,
                               .sampling = {.repetition = 1, .presence = 0.5f}};
    return rig_submit(rig, &args, ADMITTED);
}

// There are two penalty rows: the third request with penalties waits until the first has ended, and
// later requests without penalties do not wait.
static void test_penalised_requests_wait_their_turn(void **state)
{
    struct rig rig;
    struct got got[5] = {0};
    struct request *r[5];
    (void)state;
    rig_defaults(&rig);
    rig_open(&rig);
    assert_int_equal(rig.fake.facts.limits.penalty_rows, 2);
    r[0] = penalised(&rig, 100, 10, 1);
    r[1] = penalised(&rig, 200, 30, 1);
    r[2] = penalised(&rig, 300, 10, 1);
    r[3] = rig_generate(&rig, 400, 4, 10, 1);
    r[4] = rig_generate(&rig, 500, 4, 10, 1);
    bool waited = false;
    for (uint32_t i = 0; i < 60; i++) {
        rig_step(&rig);
        for (uint32_t k = 0; k < 5; k++)
            take(&rig, r[k], &got[k]);
        if (got[2].count[0] == 0)
            waited = waited || (got[3].count[0] > 5 && got[4].count[0] > 5);
        else
            assert_true(got[0].last); // its row was freed
    }
    assert_true(waited);
    for (uint32_t k = 0; k < 5; k++) {
        assert_true(got[k].last);
        assert_int_equal(got[k].finish[0], FINISH_LENGTH);
        port_free(rig.port, r[k]);
    }
    assert_int_equal(rig.engine->penalties_free_count, 2);
    rig_close(&rig);
}

// Two of four choices with penalties hold the rows. When one ends, the third gets its row. The
// request is then cancelled before the fourth choice has started.
static void test_choices_end_while_others_wait_for_rows(void **state)
{
    struct rig rig;
    struct got got = {0};
    (void)state;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = penalised(&rig, 100, TOKENS, 4);
    for (uint32_t i = 0; i < ROUNDS && got.count[1] < 3; i++) {
        rig_step(&rig);
        take(&rig, r, &got);
    }
    assert_true(got.count[0] > 0 && got.count[2] == 0 && got.count[3] == 0);
    port_cancel_choice(rig.port, r, 0); // as for a stop string
    for (uint32_t i = 0; i < ROUNDS && got.count[2] == 0; i++) {
        rig_step(&rig);
        take(&rig, r, &got);
    }
    assert_int_equal(got.finish[0], FINISH_CANCEL);
    assert_true(got.count[2] > 0 && got.finish[1] == FINISH_NONE);
    assert_int_equal(got.count[3], 0);
    port_cancel(rig.port, r);
    run(&rig, r, &got);
    for (uint32_t choice = 0; choice < 4; choice++)
        assert_int_equal(got.finish[choice], FINISH_CANCEL);
    assert_int_equal(got.count[3], 0);
    assert_int_equal(rig.engine->penalties_free_count, 2);
    rig_close(&rig);
}

// A reader that reads one event of a full ring frees one entry for one token. The choices get it
// round-robin.
static void test_choices_share_free_entries_round_robin(void **state)
{
    enum { EACH = 3 };
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        struct token_event event;
        uint32_t at_first[EACH] = {0};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        rig_open(&rig);
        struct request *r = rig_generate(&rig, 0, 20, 200, EACH);
        for (uint32_t round = 0; round < 4 * EACH; round++) {
            while (rig_step(&rig) == ENGINE_WORKED)
                continue;
            for (const struct sequence *s = r->run.first; s; s = s->sibling) {
                if (round == 0)
                    at_first[s->number] = s->output_count;
                uint32_t more = s->output_count - at_first[s->number];
                assert_in_range(more, round / EACH, (round + EACH - 1) / EACH);
            }
            assert_true(port_next(rig.port, r, &event, NULL));
        }
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancelling_one_choice_ends_only_that),
        cmocka_unit_test(test_the_last_choice_ends_the_request),
        cmocka_unit_test(test_a_finished_choice_does_not_end_again),
        cmocka_unit_test(test_a_parked_choice_is_cancelled),
        cmocka_unit_test(test_each_prompt_is_independent_of_the_others),
        cmocka_unit_test(test_a_prompt_is_computed_once),
        cmocka_unit_test(test_penalised_requests_wait_their_turn),
        cmocka_unit_test(test_choices_end_while_others_wait_for_rows),
        cmocka_unit_test(test_choices_share_free_entries_round_robin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
