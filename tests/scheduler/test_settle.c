// SPDX-License-Identifier: Apache-2.0
// How the engine settles one result of a step: the test replaces the model's output before the
// engine reads it. One step is in flight, so that launch and settle are separate.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include <math.h>

enum { VOCAB = 1000, WIDTH = 8, PROMPT = 40 };

static void opened(struct rig *rig)
{
    rig_defaults(rig);
    rig->fake.facts.steps_in_flight = 1;
    rig_open(rig);
}

// Launches a step and collects its results from the model before the engine does.
static struct model_output launched(struct rig *rig)
{
    struct model_output output;
    struct error err;
    assert_int_equal(rig_step(rig), ENGINE_WORKED);
    assert_int_equal(model_collect(rig->model, &output, UINT64_MAX, &err), STATUS_OK);
    return output;
}

static void settle(struct rig *rig, const struct model_output *output)
{
    struct engine *engine = rig->engine;
    step_settle(engine, &engine->launches[engine->settled % ENGINE_LAUNCHES], output);
    engine->settled++;
}

static struct submit_args prompt_args(void)
{
    static int32_t tokens[PROMPT];
    static const uint32_t start[2] = {0, PROMPT};
    for (int32_t i = 0; i < PROMPT; i++)
        tokens[i] = i + 1;
    return (struct submit_args){.kind = REQUEST_GENERATE,
                                .tokens = tokens,
                                .token_count = PROMPT,
                                .sequence_count = 1,
                                .sequence_start = start,
                                .choice_count = 1,
                                .max_tokens = 50,
                                .sampling = {.repetition = 1.0f}};
}

static struct request *asked(struct rig *rig, uint32_t tops)
{
    struct submit_args args = prompt_args();
    args.ignore_end = true;
    args.sampling.top_logprobs = tops;
    return rig_submit(rig, &args, ADMITTED);
}

static struct token_event first_event(struct rig *rig, struct request *r)
{
    struct token_event event;
    assert_true(port_next(rig->port, r, &event, NULL));
    return event;
}

// A token outside the vocabulary, no token, and logits that are not finite end the choice. Its
// blocks stay cached only if the device reported that it sampled no token for the row.
static void test_results_without_a_valid_token(void **state)
{
    static const struct {
        struct sample_result result;
        uint32_t finish, cached;
    } cases[] = {{{.token = 0}, FINISH_NONE, 0},
                 {{.token = VOCAB - 1}, FINISH_NONE, 0},
                 {{.token = VOCAB}, FINISH_ERROR, 0},
                 {{.token = -1}, FINISH_ERROR, 0},
                 {{.token = 5, .flags = SAMPLED_NOT_FINITE}, FINISH_ERROR, 0},
                 {{.token = -1, .flags = SAMPLED_DONE}, FINISH_ERROR, PROMPT / 16},
                 {{.token = -1, .flags = SAMPLED_DROPPED}, FINISH_ERROR, PROMPT / 16},
                 {{.token = 5, .flags = SAMPLED_END}, FINISH_STOP, PROMPT / 16}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig;
        opened(&rig);
        struct request *r = asked(&rig, 0);
        struct model_output output = launched(&rig);
        assert_int_equal(output.count, 1);
        output.results = &cases[i].result;
        settle(&rig, &output);
        struct token_event event = first_event(&rig, r);
        assert_int_equal(event.finish, cases[i].finish);
        assert_int_equal(!(event.flags & EVENT_TOKEN), cases[i].finish == FINISH_ERROR);
        assert_int_equal(rig.engine->blocks.cached_count, cases[i].cached);
        rig_close(&rig);
    }
}

// The device reports as many alternatives as any row of the step needs; a request gets the number
// it requested.
static void test_alternatives_are_those_requested(void **state)
{
    static const uint32_t cases[][3] = {{2, 5, 2}, {5, 5, 5}, {5, 3, 3}, {0, 4, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig;
        opened(&rig);
        struct request *r = asked(&rig, cases[i][0]);
        struct model_output output = launched(&rig);
        struct sample_result result = {.token = 9, .top_count = cases[i][1]};
        output.results = &result;
        settle(&rig, &output);
        assert_int_equal(first_event(&rig, r).top_count, cases[i][2]);
        rig_close(&rig);
    }
}

// If any value of a vector is not finite, its blocks are dropped from the cache.
static void test_each_value_of_a_vector_counts(void **state)
{
    (void)state;
    for (uint32_t bad = 0; bad <= WIDTH; bad++) { // WIDTH: all values are finite
        struct rig rig;
        int32_t tokens[PROMPT] = {1, 2, 3};
        uint32_t start[2] = {0, PROMPT};
        float values[WIDTH] = {0};
        rig_pooling(&rig, false);
        rig.fake.facts.steps_in_flight = 1;
        rig_open(&rig);
        struct submit_args args = {.kind = REQUEST_EMBED,
                                   .tokens = tokens,
                                   .token_count = PROMPT,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 1};
        struct request *r = rig_submit(&rig, &args, ADMITTED);
        struct model_output output = launched(&rig);
        if (bad < WIDTH)
            values[bad] = bad % 2 ? NAN : INFINITY;
        output.values = values;
        settle(&rig, &output);
        struct token_event event = first_event(&rig, r);
        assert_true(event.flags & EVENT_LAST);
        assert_int_equal(event.finish, FINISH_DONE); // the reader of the vector checks its values
        assert_int_equal(rig.engine->blocks.cached_count, bad == WIDTH ? PROMPT / 16 : 0);
        rig_close(&rig);
    }
}

// A part of a prompt has no result: its blocks are ready whatever values the output contains.
static void test_a_part_of_a_prompt_has_no_result(void **state)
{
    (void)state;
    struct rig rig;
    float values[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        values[i] = NAN;
    opened(&rig);
    struct request *r = rig_generate(&rig, 0, 200, 5, 1); // 128 tokens a step
    struct model_output output = launched(&rig);
    assert_int_equal(output.count, 0);
    output.values = values;
    settle(&rig, &output);
    const struct sequence *s = r->run.first;
    assert_in_range(s->blocks_settled, 4, 8);
    for (uint32_t i = 0; i < s->blocks_settled; i++)
        assert_true(rig.engine->blocks.block[s->blocks[i]].ready);
    rig_close(&rig);
}

// No id ends an answer before min_tokens, and each stop id does afterwards at any index of its
// list.
static void test_min_tokens_at_their_limit(void **state)
{
    (void)state;
    static const int32_t stops[] = {20, 21, 22};
    static const struct {
        int32_t token;
        bool ignores, ends;
    } cases[] = {{20, false, true}, {22, false, true}, {22, true, true}, {7, false, true},
                 {8, false, true},  {7, true, false},  {8, true, false}, {23, false, false}};
    for (uint32_t least = 0; least < 3; least++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct rig rig;
            rig_defaults(&rig);
            rig.fake.facts.steps_in_flight = 1;
            rig.fake.facts.end_count = 2;
            rig.fake.facts.end_ids[1] = 8;
            rig_open(&rig);
            struct submit_args args = prompt_args();
            args.stop_ids = stops;
            args.stop_id_count = 3;
            args.ignore_end = cases[i].ignores;
            args.sampling.output_min = least;
            struct request *r = rig_submit(&rig, &args, ADMITTED);
            for (uint32_t at = 0; at <= least; at++) {
                struct model_output output = launched(&rig);
                struct sample_result result = {.token = cases[i].token, .logprob = -0.5f};
                output.results = &result;
                settle(&rig, &output);
                struct token_event event = first_event(&rig, r);
                assert_int_equal(event.token, cases[i].token);
                assert_true(event.logprob == -0.5f);
                assert_int_equal(event.index, at);
                assert_int_equal(event.finish,
                                 at == least && cases[i].ends ? FINISH_STOP : FINISH_NONE);
            }
            rig_close(&rig);
        }
}

static uint64_t after_cancel(const struct rig *rig)
{
    return engine_stats(rig->engine)->rows_after_cancel;
}

// A row that was in flight when its sequence ended by a stop id is not counted as a row after a
// cancel.
static void test_rows_after_an_end_are_not_after_a_cancel(void **state)
{
    (void)state;
    struct rig rig;
    opened(&rig);
    struct request *learns = asked(&rig, 0);
    struct model_output output = launched(&rig);
    settle(&rig, &output);
    int32_t token = first_event(&rig, learns).token;
    rig_close(&rig);
    opened(&rig);
    struct submit_args args = prompt_args();
    args.stop_ids = &token;
    args.stop_id_count = 1;
    struct request *r = rig_submit(&rig, &args, ADMITTED);
    while (rig_step(&rig) == ENGINE_WORKED)
        ;
    assert_int_equal(first_event(&rig, r).finish, FINISH_STOP);
    assert_int_equal(engine_stats(rig.engine)->rows, 2);
    assert_int_equal(after_cancel(&rig), 0);
    rig_close(&rig);
}

// A row that runs during the cancel does not count if one step is in flight. Without steps in
// flight it does.
static void test_the_row_that_a_cancel_meets(void **state)
{
    (void)state;
    struct rig rig;
    opened(&rig);
    struct request *r = asked(&rig, 0);
    struct model_output output = launched(&rig);
    atomic_store(&r->cancel, 1);
    settle(&rig, &output);
    assert_int_equal(after_cancel(&rig), 0);
    rig_close(&rig);
    rig_defaults(&rig);
    rig_open(&rig);
    r = asked(&rig, 0);
    rig_step(&rig);
    assert_int_equal(after_cancel(&rig), 0);
    atomic_store(&r->cancel, 1); // its notice was not sent
    rig_step(&rig);
    assert_int_equal(after_cancel(&rig), 1);
    rig_close(&rig);
}

// Cancelled choices have a bit each. Inputs of pooling requests, which may outnumber the bits, have
// none.
static void test_no_row_of_many_inputs_is_after_a_cancel(void **state)
{
    enum { INPUTS = 2000 };
    static int32_t tokens[INPUTS];
    static uint32_t start[INPUTS + 1];
    (void)state;
    struct rig rig;
    rig_pooling(&rig, false);
    rig_open(&rig);
    for (uint32_t i = 0; i <= INPUTS; i++)
        start[i] = i;
    struct submit_args args = {.kind = REQUEST_EMBED,
                               .tokens = tokens,
                               .token_count = INPUTS,
                               .sequence_count = INPUTS,
                               .sequence_start = start,
                               .choice_count = 1};
    struct request *r = rig_submit(&rig, &args, ADMITTED);
    while (rig_step(&rig) == ENGINE_WORKED)
        ;
    assert_int_equal(first_event(&rig, r).finish, FINISH_DONE);
    assert_int_equal(engine_stats(rig.engine)->rows, INPUTS);
    assert_int_equal(after_cancel(&rig), 0);
    port_free(rig.port, r);
    r = rig_submit(&rig, &args, ADMITTED);
    rig_step(&rig);
    uint64_t rows = engine_stats(rig.engine)->rows;
    atomic_store(&r->cancel, 1); // its notice was not sent
    rig_step(&rig);
    assert_true(engine_stats(rig.engine)->rows > rows);
    assert_int_equal(after_cancel(&rig), engine_stats(rig.engine)->rows - rows);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_without_a_valid_token),
        cmocka_unit_test(test_alternatives_are_those_requested),
        cmocka_unit_test(test_each_value_of_a_vector_counts),
        cmocka_unit_test(test_a_part_of_a_prompt_has_no_result),
        cmocka_unit_test(test_min_tokens_at_their_limit),
        cmocka_unit_test(test_rows_after_an_end_are_not_after_a_cancel),
        cmocka_unit_test(test_the_row_that_a_cancel_meets),
        cmocka_unit_test(test_no_row_of_many_inputs_is_after_a_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
