// SPDX-License-Identifier: Apache-2.0
// Running one step ahead on a device that keeps the sampling state, through model.h on the CUDA
// sources under the emulator, with lazy streams and replayed graphs. The sampled tokens, penalties
// and random numbers stay on the device and survive preemption. A row that ended takes part in one
// more step without any effect; then its row and blocks immediately serve the next sequence. Masks
// computed from the last token arrive between forward and sampler. The reference is device cpu,
// step by step, in float32.
#include "base/json.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"
#include "tests/runtime/simt_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 96, ROWS = 4, OUTPUTS = 18, PROMPT_MAX = 12, MASK_WORDS = (VOCAB + 31) / 32 };

static char folder[64];
static int32_t reference[OUTPUTS][ROWS]; // results of draw() on device cpu

static const struct simt_device_switches as_served = {
    .exact = true, .graphs = true, .lazy = true, .seed = 3};

static void open(struct rig *rig, const struct device_api *api)
{
    struct model_options options = rig_options();
    options.max_num_seqs = ROWS;
    options.dtype = DTYPE_F32;
    rig_open_on(rig, api, folder, &options);
}

static void open_simt(struct rig *rig)
{
    open(rig, simt_device(&as_served));
}

static void close_simt(struct rig *rig)
{
    assert_string_equal(simt_device_report(), "");
    assert_true(simt_device_read().replays > 0);
    rig_close(rig);
}

static uint32_t prompt_make(int32_t *tokens, uint32_t r)
{
    for (uint32_t i = 0; i < PROMPT_MAX; i++)
        tokens[i] = (int32_t)(3 + (r * 37 + i * 11) % (VOCAB - 3));
    return 5 + r * 2;
}

// Two greedy rows and two sampled ones, all with penalties.
static struct sample_params params_of(uint32_t r)
{
    return (struct sample_params){.seed = 11 + r,
                                  .choice = r,
                                  .temperature = r % 2 ? 0.8f : 0,
                                  .top_p = 0.95f,
                                  .top_k = 30,
                                  .repetition = 1.3f,
                                  .frequency = 0.2f,
                                  .presence = 0.1f,
                                  .flags = SAMPLE_PENALTY,
                                  .penalty_row = r};
}

// Admits a sequence whose first chunk is in the batch, with its sampling parameters and its outputs
// so far.
static void admit_as(struct rig *rig, const struct rig_sequence *s, uint32_t prompt,
                     const struct sample_params *params)
{
    struct batch *batch = rig->batch;
    struct batch_new_sequence *new = &batch_new_sequences(batch)[batch->new_sequence_count - 1];
    assert_int_equal(new->slot, s->row);
    new->params = *params;
    new->params.output_count = s->count - prompt;
    new->history_at = batch->history_count;
    new->history_prompt = prompt;
    new->history_output = s->count - prompt;
    memcpy(batch_history(batch) + batch->history_count, s->tokens, s->count * sizeof(int32_t));
    batch->history_count += s->count;
}

static void begin(struct rig *rig, struct rig_sequence *s, uint32_t rows)
{
    static int32_t prompts[ROWS][PROMPT_MAX];
    rig_begin(rig);
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t count = prompt_make(prompts[r], r);
        s[r] = (struct rig_sequence){r, prompts[r], count, 0, STEP_NO_TYPE};
        rig_prefill(rig, &s[r], PROMPT_MAX, WANT_TOKEN);
        struct sample_params params = params_of(r);
        admit_as(rig, &s[r], count, &params);
    }
    rig_launch(rig, NULL);
}

static void decode_launch(struct rig *rig, struct rig_sequence *s, uint32_t rows)
{
    rig_begin(rig);
    for (uint32_t r = 0; r < rows; r++)
        rig_decode(rig, &s[r]);
    rig_launch(rig, NULL);
}

static void draw(struct rig *rig, int32_t out[OUTPUTS][ROWS])
{
    struct rig_sequence s[ROWS];
    bool ahead = rig->facts->steps_in_flight > 0;
    uint64_t first = rig->step;
    begin(rig, s, ROWS);
    for (uint32_t n = 0; n < OUTPUTS; n++) {
        struct model_output got = {.count = 0};
        if (!ahead || n + 1 == OUTPUTS)
            got = rig_collect(rig);
        if (n + 1 < OUTPUTS)
            decode_launch(rig, s, ROWS);
        if (got.count == 0)
            got = rig_collect(rig);
        assert_int_equal(got.step, first + n);
        for (uint32_t r = 0; r < ROWS; r++)
            out[n][r] = got.results[r].token;
    }
}

static void test_state_stays_on_the_device(void **state)
{
    (void)state;
    static int32_t got[OUTPUTS][ROWS];
    struct rig rig;
    open_simt(&rig);
    draw(&rig, got);
    assert_memory_equal(got, reference, sizeof got);
    draw(&rig, got); // rows that are admitted again start without a history
    assert_memory_equal(got, reference, sizeof got);
    close_simt(&rig);
}

// Row 1 is dropped with a step in flight and returns next to row 0, with its earlier outputs, in
// one prefill: its samples and penalties continue unchanged.
static void test_preempted_rows_continue(void **state)
{
    (void)state;
    enum { GONE = 7 };
    struct rig rig;
    struct rig_sequence s[ROWS];
    open_simt(&rig);
    begin(&rig, s, 2);
    int32_t known[PROMPT_MAX + OUTPUTS];
    uint32_t prompt = prompt_make(known, 1);
    for (uint32_t n = 0; n < GONE; n++) { // in the end, step GONE is in flight
        decode_launch(&rig, s, 2);
        known[prompt + n] = rig_collect(&rig).results[1].token;
        assert_int_equal(known[prompt + n], reference[n][1]);
    }
    rig_begin(&rig);
    rig_decode(&rig, &s[0]);
    struct rig_sequence back = {1, known, prompt + GONE, 0, STEP_NO_TYPE};
    rig_prefill(&rig, &back, PROMPT_MAX + OUTPUTS, WANT_TOKEN);
    struct sample_params params = params_of(1);
    admit_as(&rig, &back, prompt, &params);
    rig_launch(&rig, NULL);
    rig_collect(&rig); // the step in flight; its row 1 is computed again
    s[1] = back;
    for (uint32_t n = GONE; n + 2 < OUTPUTS; n++) {
        decode_launch(&rig, s, 2);
        struct model_output got = rig_collect(&rig);
        assert_int_equal(got.results[1].token, reference[n][1]);
        assert_int_equal(got.results[0].token, reference[n + 1][0]);
    }
    rig_collect(&rig);
    close_simt(&rig);
}

// Row 1 ends at its output END, which the host sees one step late. The wasted step returns DONE,
// and the next one admits a new sequence to the same row and blocks. The results of row 0 do not
// change.
static void test_ended_rows_leave_no_trace(void **state)
{
    (void)state;
    enum { END = 5 };
    struct rig rig;
    struct rig_sequence s[ROWS];
    open_simt(&rig);
    begin(&rig, s, 1); // row 0 continues; row 1 starts with an end id
    int32_t tokens[PROMPT_MAX];
    uint32_t count = prompt_make(tokens, 1);
    s[1] = (struct rig_sequence){1, tokens, count, 0, STEP_NO_TYPE};
    struct sample_params params = params_of(1);
    params.stop_ids[params.stop_count++] = reference[END][1];
    uint32_t first = END;
    for (uint32_t n = END; n-- > 0;)
        first = reference[n][1] == reference[END][1] ? n : first;
    rig_begin(&rig);
    rig_decode(&rig, &s[0]);
    rig_prefill(&rig, &s[1], PROMPT_MAX, WANT_TOKEN);
    admit_as(&rig, &s[1], count, &params);
    rig_launch(&rig, NULL);
    assert_int_equal(rig_collect(&rig).results[0].token, reference[0][0]);
    for (uint32_t n = 0; n <= first; n++) {
        decode_launch(&rig, s, 2);
        struct model_output got = rig_collect(&rig);
        assert_int_equal(got.results[0].token, reference[n + 1][0]);
        assert_int_equal(got.results[1].token, reference[n][1]);
        assert_int_equal(got.results[1].flags & SAMPLED_END, n == first ? SAMPLED_END : 0);
    }
    rig_begin(&rig); // the wasted step is in flight
    rig_decode(&rig, &s[0]);
    s[1] = (struct rig_sequence){1, tokens, count, 0, STEP_NO_TYPE};
    params = params_of(1);
    rig_prefill(&rig, &s[1], PROMPT_MAX, WANT_TOKEN);
    admit_as(&rig, &s[1], count, &params);
    rig_launch(&rig, NULL);
    struct model_output wasted = rig_collect(&rig);
    assert_int_equal(wasted.results[0].token, reference[first + 2][0]);
    assert_int_equal(wasted.results[1].flags & SAMPLED_DONE, SAMPLED_DONE);
    assert_int_equal(wasted.results[1].token, -1);
    for (uint32_t n = 0; n + first + 3 < OUTPUTS; n++) {
        decode_launch(&rig, s, 2);
        struct model_output got = rig_collect(&rig);
        assert_int_equal(got.results[0].token, reference[first + 3 + n][0]);
        assert_int_equal(got.results[1].token, reference[n][1]);
    }
    rig_collect(&rig);
    close_simt(&rig);
}

// The forward pass is launched, the last token read, its mask computed, and the sampler launched.
// The mask allows the tokens whose remainder modulo 7 is that of the last token plus 1.
static void test_masks_between_forward_and_sampler(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_sequence s[ROWS];
    struct error err;
    uint32_t mask[MASK_WORDS];
    open_simt(&rig);
    begin(&rig, s, 2);
    int32_t last = 0;
    for (uint32_t n = 0; n < 8; n++) {
        rig_begin(&rig);
        for (uint32_t r = 0; r < 2; r++)
            rig_decode(&rig, &s[r]);
        batch_rows(rig.batch)[1].mask = 0;
        assert_int_equal(model_launch(rig.model, rig.batch, &err), STATUS_OK);
        struct model_output got = rig_collect(&rig);
        assert_int_equal(got.results[0].token, reference[n][0]);
        if (n > 0)
            assert_int_equal(got.results[1].token % 7, (last + 1) % 7);
        last = got.results[1].token;
        memset(mask, 0, sizeof mask);
        for (int32_t t = (last + 1) % 7; t < VOCAB; t += 7)
            mask[t / 32] |= 1u << t % 32;
        assert_int_equal(model_sample(rig.model, mask, 1, &err), STATUS_OK);
        memset(mask, 0, sizeof mask); // model_sample has copied the mask
    }
    rig_collect(&rig);
    close_simt(&rig);
}

static int reference_make(void **state)
{
    (void)state;
    char path[512];
    json_t *golden;
    struct error err;
    snprintf(path, sizeof path, "%s/tests/golden/llama.json", WEFT_SOURCE_DIR);
    assert_int_equal(json_file_parse(&golden, path, 1 << 20, &err), STATUS_OK);
    folder_make(folder);
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    json_decref(golden);
    struct rig rig;
    open(&rig, device_cpu());
    draw(&rig, reference);
    rig_close(&rig);
    return 0;
}

static int reference_end(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

int main(void)
{
    if (!simt_device_usable())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_stays_on_the_device),
        cmocka_unit_test(test_preempted_rows_continue),
        cmocka_unit_test(test_ended_rows_leave_no_trace),
        cmocka_unit_test(test_masks_between_forward_and_sampler),
    };
    return cmocka_run_group_tests(tests, reference_make, reference_end);
}
