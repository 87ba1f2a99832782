// SPDX-License-Identifier: Apache-2.0
// Data that a step uploads for sequences new on the device: biases, and histories of sequences with
// penalties, which are limited per step.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

enum { ANSWER = 140 }; // tokens; longer than a chunk of the history store

struct penalised {
    struct request *request;
    int32_t first;
    uint32_t length, answered;
    int32_t answer[ANSWER];
};

static struct request *submit(struct rig *rig, int32_t first, uint32_t length,
                              const struct sampling *sampling)
{
    int32_t tokens[RIG_TOKENS_MAX];
    uint32_t start[2] = {0, length};
    for (uint32_t i = 0; i < length; i++)
        tokens[i] = first + (int32_t)i;
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = length,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 1,
                               .max_tokens = ANSWER,
                               .ignore_end = true,
                               .sampling = *sampling};
    return rig_submit(rig, &args, ADMITTED);
}

static struct batch *batch_of(const struct rig *rig)
{
    return (struct batch *)fake_batch(rig->model);
}

static void step(struct rig *rig, struct penalised *all, size_t count)
{
    struct token_event event;
    rig_step(rig);
    for (size_t i = 0; i < count; i++)
        while (port_next(rig->port, all[i].request, &event, NULL))
            all[i].answer[all[i].answered++] = event.token;
}

static void assert_history(const struct rig *rig, const struct batch_new_sequence *new_sequence,
                           const struct penalised *of)
{
    const int32_t *history = batch_history(batch_of(rig)) + new_sequence->history_at;
    assert_int_equal(new_sequence->params.flags & SAMPLE_PENALTY, SAMPLE_PENALTY);
    assert_int_equal(new_sequence->history_prompt, of->length);
    assert_int_equal(new_sequence->history_output, of->answered);
    assert_int_equal(new_sequence->params.output_count, of->answered);
    for (uint32_t i = 0; i < of->length; i++)
        assert_int_equal(history[i], of->first + (int32_t)i);
    assert_memory_equal(history + of->length, of->answer, of->answered * sizeof *of->answer);
}

// Each kind of penalty, positive or negative, needs a history. Histories are consecutive, although
// a sequence without penalties is between them.
static void test_histories_are_consecutive(void **state)
{
    (void)state;
    static const struct sampling kinds[][2] = {
        {{.repetition = 1.5f}, {.repetition = 0.5f}},
        {{.repetition = 1.0f, .frequency = 0.5f}, {.repetition = 1.0f, .frequency = -0.5f}},
        {{.repetition = 1.0f, .presence = 0.5f}, {.repetition = 1.0f, .presence = -0.5f}}};
    static const struct sampling plain = {.repetition = 1.0f};
    for (size_t kind = 0; kind < 3; kind++) {
        struct rig rig;
        rig_defaults(&rig);
        rig_open(&rig);
        struct penalised all[3] = {
            {.first = 3, .length = 20}, {.first = 100, .length = 5}, {.first = 200, .length = 7}};
        for (uint32_t i = 0; i < 3; i++)
            all[i].request =
                submit(&rig, all[i].first, all[i].length, i == 1 ? &plain : &kinds[kind][i / 2]);
        rig_step(&rig);
        const struct batch_new_sequence *new_sequences = batch_new_sequences(batch_of(&rig));
        assert_int_equal(batch_of(&rig)->new_sequence_count, 3);
        assert_int_equal(batch_of(&rig)->history_count, 27);
        assert_history(&rig, &new_sequences[0], &all[0]);
        assert_int_equal(new_sequences[1].params.flags & SAMPLE_PENALTY, 0);
        assert_history(&rig, &new_sequences[2], &all[2]);
        assert_int_equal(new_sequences[2].history_at, 20);
        rig_close(&rig);
    }
}

// The history of a preempted sequence contains the prompt and the answer so far, of any length.
static void test_a_resumed_history_has_the_answer(void **state)
{
    (void)state;
    static const struct sampling sampling = {.repetition = 1.5f};
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct penalised all[2] = {{.first = 3, .length = 20}, {.first = 200, .length = 7}};
    for (uint32_t i = 0; i < 2; i++)
        all[i].request = submit(&rig, all[i].first, all[i].length, &sampling);
    uint32_t longest = 0;
    while (all[1].answered + 1 < ANSWER) {
        step(&rig, all, 2);
        if (all[0].answered % 30 > 0 && all[0].answered + 3 < ANSWER)
            continue;
        for (uint32_t i = 0; i < 2; i++)
            sequence_preempt(rig.engine, all[i].request->run.first);
        struct penalised before[2] = {all[0], all[1]};
        step(&rig, all, 2);
        assert_int_equal(batch_of(&rig)->new_sequence_count, 2);
        for (uint32_t i = 0; i < 2; i++)
            assert_history(&rig, &batch_new_sequences(batch_of(&rig))[i], &before[i]);
        longest = before[0].answered;
    }
    assert_true(longest > HISTORY_WORDS);
    rig_close(&rig);
}

static void rig_of_room(struct rig *rig)
{
    rig_defaults(rig);
    rig->fake.facts.limits.tokens_max = 512;
    rig->fake.facts.limits.history_max = rig->fake.facts.max_model_len; // the minimum
    rig_open(rig);
}

// Prompts with penalties wait if the histories of a step would exceed history_max by one token. A
// prompt without penalties does not wait.
static void test_prompts_wait_for_history_space(void **state)
{
    (void)state;
    static const struct sampling sampling = {.repetition = 1.5f}, plain = {.repetition = 1.0f};
    static const struct {
        uint32_t length;
        const struct sampling *sampling;
        uint32_t together;
    } cases[] = {{56, &sampling, 2}, {57, &sampling, 1}, {57, &plain, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig;
        rig_of_room(&rig);
        submit(&rig, 0, 200, &sampling);
        struct request *second = submit(&rig, 500, cases[i].length, cases[i].sampling);
        rig_step(&rig);
        assert_int_equal(batch_of(&rig)->new_sequence_count, cases[i].together);
        assert_int_equal(rig.engine->order_count, cases[i].together); // no slot without a row
        assert_int_equal(second->run.scheduled, cases[i].together - 1);
        rig_step(&rig);
        assert_int_equal(batch_of(&rig)->new_sequence_count, 2 - cases[i].together);
        rig_close(&rig);
    }
}

// Each choice of a request with several prompts needs a history of its prompt's length.
static void test_each_choice_counts_with_its_prompt(void **state)
{
    (void)state;
    static const uint32_t start[] = {0, 150, 170};
    static int32_t tokens[170];
    struct rig rig;
    rig_of_room(&rig);
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = 170,
                               .sequence_count = 2,
                               .sequence_start = start,
                               .choice_count = 2,
                               .max_tokens = 4,
                               .sampling = {.repetition = 1.5f}};
    rig_submit(&rig, &args, ADMITTED);
    rig_step(&rig);
    assert_int_equal(batch_of(&rig)->new_sequence_count, 1);
    assert_int_equal(rig.engine->order_count, 1);
    rig_close(&rig);
}

// The history of a preempted sequence is its prompt and its answer; both count towards the limit of
// a step.
static void test_answers_count_as_histories(void **state)
{
    (void)state;
    static const struct sampling sampling = {.repetition = 1.5f};
    for (uint32_t answered = 28; answered <= 29; answered++) {
        struct rig rig;
        rig_of_room(&rig);
        struct penalised all[2] = {{.first = 0, .length = 100}, {.first = 500, .length = 100}};
        for (uint32_t i = 0; i < 2; i++)
            all[i].request = submit(&rig, all[i].first, all[i].length, &sampling);
        while (all[0].answered < answered)
            step(&rig, all, 2);
        assert_int_equal(all[1].answered, answered);
        for (uint32_t i = 0; i < 2; i++)
            sequence_preempt(rig.engine, all[i].request->run.first);
        step(&rig, all, 2);
        assert_int_equal(batch_of(&rig)->new_sequence_count, answered == 28 ? 2 : 1);
        rig_close(&rig);
    }
}

static void test_biases_are_consecutive(void **state)
{
    (void)state;
    static const struct token_bias biases[] = {{5, 0.5f}, {6, -1.0f}, {9, 2.0f}};
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    int32_t tokens[2] = {1, 2};
    uint32_t start[2] = {0, 2};
    for (uint32_t i = 0; i < 3; i++) { // the first bias, none, the other two
        struct submit_args args = {.kind = REQUEST_GENERATE,
                                   .tokens = tokens,
                                   .token_count = 2,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 1,
                                   .max_tokens = 4,
                                   .sampling = {.repetition = 1.5f - 0.5f * (float)(i > 0)},
                                   .bias_count = i == 0   ? 1
                                                 : i == 1 ? 0
                                                          : 2,
                                   .bias = &biases[i > 0]};
        rig_submit(&rig, &args, ADMITTED);
    }
    rig_step(&rig);
    assert_int_equal(batch_of(&rig)->new_sequence_count, 3);
    assert_int_equal(batch_of(&rig)->bias_count, 3);
    for (uint32_t i = 0, at = 0; i < 3; at += i == 0 ? 1 : i == 1 ? 0 : 2, i++) {
        const struct batch_new_sequence *new_sequence = &batch_new_sequences(batch_of(&rig))[i];
        assert_int_equal(new_sequence->params.bias_count, i == 0 ? 1 : i == 1 ? 0 : 2);
        assert_int_equal(new_sequence->bias_at, at);
        for (uint32_t k = 0; k < new_sequence->params.bias_count; k++) {
            const struct step_bias *bias = &batch_bias(batch_of(&rig))[at + k];
            assert_int_equal(bias->token, biases[at + k].token);
            assert_true(bias->value == biases[at + k].value);
        }
    }
    rig_close(&rig);
}

// The device receives the model's end ids and then the request's stop ids, up to the maximum of
// both.
static void test_ids_that_the_device_tests(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {
        {1, 0}, {2, 6}, {2, 7}, {MODEL_END_IDS_MAX, REQUEST_STOP_IDS_MAX}};
    int32_t token = 1, stops[REQUEST_STOP_IDS_MAX];
    uint32_t start[2] = {0, 1};
    for (uint32_t i = 0; i < REQUEST_STOP_IDS_MAX; i++)
        stops[i] = 100 + (int32_t)i;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint32_t ends = sizes[k][0], count = sizes[k][1];
        struct rig rig;
        rig_defaults(&rig);
        rig.fake.facts.end_count = ends;
        for (uint32_t i = 0; i < ends; i++)
            rig.fake.facts.end_ids[i] = 7 + (int32_t)i;
        rig_open(&rig);
        struct submit_args args = {.kind = REQUEST_GENERATE,
                                   .tokens = &token,
                                   .token_count = 1,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 1,
                                   .max_tokens = 4,
                                   .sampling = {.repetition = 1.0f},
                                   .stop_id_count = count,
                                   .stop_ids = stops};
        rig_submit(&rig, &args, ADMITTED);
        rig_step(&rig);
        const struct sample_params *p = &batch_new_sequences(batch_of(&rig))[0].params;
        assert_int_equal(p->stop_count, ends + count);
        for (uint32_t i = 0; i < ends + count; i++)
            assert_int_equal(p->stop_ids[i], i < ends ? 7 + i : 100 + i - ends);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories_are_consecutive),
        cmocka_unit_test(test_a_resumed_history_has_the_answer),
        cmocka_unit_test(test_prompts_wait_for_history_space),
        cmocka_unit_test(test_each_choice_counts_with_its_prompt),
        cmocka_unit_test(test_answers_count_as_histories),
        cmocka_unit_test(test_biases_are_consecutive),
        cmocka_unit_test(test_ids_that_the_device_tests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
