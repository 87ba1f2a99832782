// SPDX-License-Identifier: Apache-2.0
// The open model except for its arithmetic (test_golden.c): the plan equals the allocated memory,
// to the byte; dummy weights; steps in flight and replayed graphs give the tokens of plain steps;
// masks; encoder rows do not affect each other; old names of norms.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/internal.h"
#include "tests/runtime/device_wrap.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 9, OUTPUTS = 20, VOCAB = 96, PROMPT_MAX = 16, SAID_MAX = 2000 };

static void test_plan_equals_allocations(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "bert-mean", "qwen3-reranker", "llama-mean",
                                        "xlm-roberta-rerank"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char folder[64];
        golden_folder(folder, names[i], DTYPE_F32);
        const struct device_api *api = device_wrap(0, false);
        struct model_options options = rig_options();
        options.answer_ids[RERANK_YES_NO][0] = 4;
        options.answer_ids[RERANK_YES_NO][1] = 5;
        struct rig rig;
        rig_open_on(&rig, api, folder, &options);
        uint64_t own = 0; // memory that the device allocates for itself
        for (uint32_t k = 0; k < rig.plan->need.count; k++) {
            const char *label = rig.plan->need.entry[k].label;
            bool ours = strcmp(label, "weights") == 0 || strcmp(label, "activations") == 0 ||
                        strcmp(label, "sequence state") == 0 ||
                        strcmp(label, "penalty rows") == 0 || strcmp(label, "rotary table") == 0 ||
                        strcmp(label, "staging") == 0;
            own += ours ? 0 : rig.plan->need.entry[k].bytes;
        }
        uint64_t kv = rig.facts->block_bytes * rig.facts->block_count;
        assert_int_equal(device_wrap_counts()->taken, rig.plan->bytes - own + kv);
        rig_close(&rig);
        assert_int_equal(device_wrap_counts()->taken, device_wrap_counts()->given);
        folder_remove(folder);
    }
}

static void test_dummy_weights_are_the_same_each_time(void **state)
{
    (void)state;
    static float logits[2][VOCAB];
    static const int32_t tokens[] = {3, 50, 7, 9, 11};
    char folder[64];
    folder_make(folder);
    json_t *golden = golden_read("qwen2");
    file_write_json(folder, "config.json", json_object_get(golden, "config"));
    json_decref(golden);
    struct model_options options = rig_options();
    options.load_dummy = true;
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        rig_open(&rig, folder, &options);
        struct rig_sequence s = {2, tokens, 5, 0, STEP_NO_TYPE};
        rig_prompt_logits(&rig, &s, 64, logits[i]);
        rig_close(&rig);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    float most = -INFINITY, least = INFINITY;
    for (int i = 0; i < VOCAB; i++) {
        most = fmaxf(most, logits[0][i]);
        least = fminf(least, logits[0][i]);
    }
    assert_true(isfinite(most) && isfinite(least) && most > least);
    folder_remove(folder);
}

// A checkpoint without a head is tied even if config.json does not state this, and gives the same
// logits.
static void test_missing_head_is_tied(void **state)
{
    (void)state;
    static float logits[2][VOCAB];
    static const int32_t tokens[] = {3, 50, 7, 9, 11};
    for (int i = 0; i < 2; i++) {
        json_t *golden = golden_read("llama-tied");
        json_t *config = json_object_get(golden, "config");
        assert_true(json_is_true(json_object_get(config, "tie_word_embeddings")));
        if (i == 1)
            json_object_del(config, "tie_word_embeddings");
        char folder[64];
        folder_make(folder);
        golden_folder_write(folder, golden, DTYPE_F32, 1);
        json_decref(golden);
        struct model_options options = rig_options();
        struct rig rig;
        rig_open(&rig, folder, &options);
        struct rig_sequence s = {2, tokens, 5, 0, STEP_NO_TYPE};
        rig_prompt_logits(&rig, &s, 64, logits[i]);
        rig_close(&rig);
        folder_remove(folder);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

// --rerank-prompt changes the input of a reranker with Qwen3's score head, and of one without a
// head, and of no other model.
static void test_reranker_forms_are_chosen(void **state)
{
    (void)state;
    static const char score[] = "Qwen3ForSequenceClassification";
    static const struct {
        const char *architecture;
        const char *tokens; // classifier_from_token; NULL: none
        int wanted;
        const char *refused; // NULL: the model opens
        enum rerank_form form;
    } cases[] = {
        {score, NULL, 0, NULL, RERANK_PAIR},
        {score, NULL, 1 + RERANK_PAIR, NULL, RERANK_PAIR},
        {score, NULL, 1 + RERANK_YES_NO, NULL, RERANK_YES_NO},
        {score, NULL, 1 + RERANK_MXBAI,
         "--rerank-prompt mxbai: a Qwen3ForSequenceClassification reads a pair or Qwen3-Reranker's "
         "prompt; leave it out",
         0},
        {"Qwen2ForSequenceClassification", NULL, 1 + RERANK_PAIR, NULL, RERANK_PAIR},
        {"Qwen2ForSequenceClassification", NULL, 1 + RERANK_YES_NO,
         "--rerank-prompt yes-no: a Qwen2ForSequenceClassification reads a pair; leave it out", 0},
        // not a reranker: ignored
        {"Qwen3ForCausalLM", NULL, 1 + RERANK_YES_NO, NULL, RERANK_PAIR},
        {"Qwen3ForCausalLM", "yes", 0, NULL, RERANK_YES_NO},
        {"Qwen3ForCausalLM", "yes", 1 + RERANK_MXBAI, NULL, RERANK_MXBAI},
        {"Qwen3ForCausalLM", "yes", 1 + RERANK_PAIR,
         "--rerank-prompt pair: a Qwen3ForCausalLM without a score head reads a prompt: give "
         "yes-no, mxbai or bge-gemma",
         0},
        {"Qwen2ForCausalLM", "yes", 0,
         "the files do not determine which prompt this reranker reads: give --rerank-prompt yes-no "
         "(Qwen3-Reranker), mxbai (mxbai-rerank-v2) or bge-gemma (bge-reranker-v2-gemma)",
         0},
        {"Qwen2ForCausalLM", "yes", 1 + RERANK_MXBAI, NULL, RERANK_MXBAI},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[64];
        struct model_options options = rig_options();
        struct device_options device_options = {.threads = 1};
        struct device *device;
        struct model_plan *plan = NULL;
        struct error err;
        json_t *golden = golden_read("qwen3");
        json_t *config = json_object_get(golden, "config");
        json_object_set_new(config, "architectures", json_pack("[s]", cases[i].architecture));
        json_object_set_new(config, "num_labels", json_integer(1));
        if (cases[i].tokens)
            json_object_set_new(config, "classifier_from_token",
                                json_pack("[ss]", "no", cases[i].tokens));
        folder_make(folder);
        file_write_json(folder, "config.json", config);
        json_decref(golden);
        options.load_dummy = true;
        options.rerank = cases[i].wanted;
        options.answer_ids[RERANK_YES_NO][0] = 7; // the tokens are those of the folder
        assert_int_equal(device_cpu()->open(&device, &device_options, &err), STATUS_OK);
        enum status status = model_plan_open(&plan, folder, device_cpu(), device, &options, &err);
        if (status != STATUS_OK) {
            assert_true(cases[i].refused && strstr(err.text, cases[i].refused));
        } else {
            assert_null(cases[i].refused);
            assert_int_equal(plan->facts.rerank, cases[i].form);
            model_plan_close(plan);
        }
        device_cpu()->close(device);
        folder_remove(folder);
    }
}

static void prompts_make(int32_t prompts[ROWS][PROMPT_MAX])
{
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t i = 0; i < PROMPT_MAX; i++)
            prompts[r][i] = (int32_t)(3 + (r * 37 + i * 11) % (VOCAB - 3));
}

// Prefills all rows in one step, then decodes them. With a step in flight the next launch precedes
// the collect, like in the engine on a GPU.
static void tokens_draw(int32_t out[ROWS][OUTPUTS], const char *folder,
                        const struct device_api *api, uint32_t rows)
{
    int32_t prompts[ROWS][PROMPT_MAX];
    prompts_make(prompts);
    struct model_options options = rig_options();
    struct rig rig;
    rig_open_on(&rig, api, folder, &options);
    struct rig_sequence s[ROWS];
    rig_begin(&rig);
    for (uint32_t r = 0; r < rows; r++) {
        s[r] = (struct rig_sequence){r * 3, prompts[r], 5 + r, 0, STEP_NO_TYPE};
        rig_prefill(&rig, &s[r], PROMPT_MAX, WANT_TOKEN);
    }
    rig_launch(&rig, NULL);
    for (uint32_t n = 0; n < OUTPUTS; n++) {
        bool ahead = rig.facts->steps_in_flight > 0 && n + 1 < OUTPUTS;
        struct model_output got = {.count = 0};
        if (!ahead)
            got = rig_collect(&rig);
        if (n + 1 < OUTPUTS) {
            rig_begin(&rig);
            for (uint32_t r = 0; r < rows; r++)
                rig_decode(&rig, &s[r]);
            rig_launch(&rig, NULL);
        }
        if (ahead)
            got = rig_collect(&rig);
        assert_int_equal(got.step, n);
        assert_int_equal(got.count, rows);
        for (uint32_t r = 0; r < rows; r++)
            out[r][n] = got.results[r].token;
    }
    rig_close(&rig);
}

static void test_flight_and_graphs_change_no_token(void **state)
{
    (void)state;
    char folder[64];
    golden_folder(folder, "qwen3", DTYPE_F32);
    static int32_t plain[ROWS][OUTPUTS], got[ROWS][OUTPUTS];
    tokens_draw(plain, folder, device_wrap(0, false), ROWS);
    tokens_draw(got, folder, device_wrap(1, false), ROWS);
    assert_memory_equal(plain, got, sizeof plain);
    static const uint32_t rows[] = {1, 3, 8, 9};
    for (size_t i = 0; i < 4; i++) {
        tokens_draw(got, folder, device_wrap(1, true), rows[i]);
        assert_memory_equal(plain, got, rows[i] * sizeof plain[0]);
        assert_int_equal(device_wrap_counts()->replays, OUTPUTS - 1);
        assert_int_equal(device_wrap_counts()->graphs, 7); // 1 2 4 8 16 24 32
        static const uint32_t recorded[] = {1, 4, 8, 16};
        assert_int_equal(device_wrap_counts()->last_rows, recorded[i]);
    }
    folder_remove(folder);
}

// Graphs are recorded for 1, 2, 4 and 8 rows, then in steps of 8 up to 64, of 16 up to 256, of 32
// up to 512; the last one for the maximum number of rows.
static void test_graphs_are_recorded_by_size(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {
        {1, 1},   {2, 2},   {3, 3},   {4, 3},    {7, 4},    {8, 4},    {9, 5},    {20, 6},
        {64, 11}, {65, 12}, {80, 12}, {256, 23}, {257, 24}, {288, 24}, {512, 31}, {600, 31}};
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_options options = rig_options();
        options.max_num_seqs = cases[i][0];
        options.max_num_batched_tokens = 1024;
        options.max_model_len = 16;
        struct rig rig;
        rig_open_on(&rig, device_wrap(1, true), folder, &options);
        assert_int_equal(device_wrap_counts()->graphs, cases[i][1]);
        assert_int_equal(rig.plan->parts->stream.graphs, cases[i][1]); // equals the plan
        rig_close(&rig);
    }
    folder_remove(folder);
    golden_folder(folder, "llama-mean", DTYPE_F32); // only generators decode
    struct model_options options = rig_options();
    struct rig rig;
    rig_open_on(&rig, device_wrap(1, true), folder, &options);
    assert_int_equal(device_wrap_counts()->graphs, 0);
    assert_int_equal(rig.plan->parts->stream.graphs, 0);
    rig_close(&rig);
    folder_remove(folder);
}

// The layers run over all tokens of a step, the head over the rows that want a result.
static void test_heads_run_over_wanted_rows(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        enum batch_want want;
        uint32_t head_rows;
    } cases[] = {{"llama", WANT_TOKEN, 2},
                 {"qwen2-classifier", WANT_SCORE, 2},
                 {"bert-rerank", WANT_SCORE, 2},
                 {"bert-mean", WANT_VECTOR, 15}}; // no head: the last product is a layer's
    int32_t prompts[ROWS][PROMPT_MAX];
    prompts_make(prompts);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[64];
        golden_folder(folder, cases[i].family, DTYPE_F32);
        struct model_options options = rig_options();
        struct rig rig;
        rig_open_on(&rig, device_wrap(0, false), folder, &options);
        device_wrap_fail(0);
        rig_begin(&rig);
        for (uint32_t r = 0; r < 2; r++) {
            struct rig_sequence s = {r, prompts[r], 7 + r, 0, STEP_NO_TYPE};
            rig_prefill(&rig, &s, PROMPT_MAX, cases[i].want);
        }
        assert_int_equal(rig_step(&rig, NULL).count, 2);
        assert_int_equal(device_wrap_counts()->first_rows, 15);
        assert_int_equal(device_wrap_counts()->last_rows, cases[i].head_rows);
        rig_close(&rig);
        folder_remove(folder);
    }
}

// The table of 2,500 positions is uploaded in pieces, each of which continues the one before.
static void test_the_rotary_table_has_every_position(void **state)
{
    (void)state;
    enum { LENGTH = 2500, PAIRS = 8 };
    char folder[64];
    folder_make(folder);
    json_t *golden = golden_read("llama");
    json_t *config = json_object_get(golden, "config");
    json_object_set_new(config, "max_position_embeddings", json_integer(LENGTH));
    file_write_json(folder, "config.json", config);
    json_decref(golden);
    struct model_options options = rig_options();
    options.load_dummy = true;
    options.max_num_seqs = 1;
    struct rig rig;
    rig_open_on(&rig, device_wrap(0, false), folder, &options);
    assert_int_equal(device_wrap_counts()->uploads, 3);
    assert_int_equal(device_wrap_counts()->uploaded, LENGTH * PAIRS * 2 * sizeof(float));
    const float *table = (const float *)device_wrap_counts()->upload_at; // memory of the CPU
    static const uint32_t positions[] = {0, 1, 1023, 1024, 1025, 2047, 2048, 2499};
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        for (uint32_t pair = 0; pair < PAIRS; pair++) {
            double angle = positions[i] * pow(10000, -2.0 * pair / (2 * PAIRS));
            const float *at = table + ((size_t)positions[i] * PAIRS + pair) * 2;
            assert_true(fabs(at[0] - cos(angle)) < 1e-6 && fabs(at[1] - sin(angle)) < 1e-6);
        }
    }
    rig_close(&rig);
    folder_remove(folder);
}

// The bytes that a step copies to the device grow with its contents, not with the capacity.
static void test_a_plain_step_copies_a_few_kilobytes(void **state)
{
    (void)state;
    enum { SEQUENCES = 256, PROMPT = 30 };
    static int32_t prompt[PROMPT];
    static struct rig_sequence sequences[SEQUENCES];
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    struct model_options options = rig_options();
    options.load_dummy = true;
    options.max_num_seqs = SEQUENCES;
    options.max_num_batched_tokens = 8192;
    struct rig rig;
    rig_open_on(&rig, device_wrap(0, false), folder, &options);
    assert_true(rig.plan->parts->step.bytes > 300 << 10);
    for (uint32_t first = 0; first < SEQUENCES; first += 32) { // as many as a step can admit
        rig_begin(&rig);
        for (uint32_t r = first; r < first + 32; r++) {
            sequences[r] = (struct rig_sequence){r, prompt, PROMPT, 0, STEP_NO_TYPE};
            rig_prefill(&rig, &sequences[r], PROMPT, WANT_TOKEN);
        }
        assert_int_equal(rig_step(&rig, NULL).count, 32);
        assert_true(device_wrap_counts()->copied <= 44 << 10); // of which new sequences take 15 KB
    }
    for (uint32_t step = 0; step < 2; step++) {
        rig_begin(&rig);
        for (uint32_t r = 0; r < SEQUENCES; r++)
            rig_decode(&rig, &sequences[r]);
        assert_int_equal(rig_step(&rig, NULL).count, SEQUENCES);
        assert_true(device_wrap_counts()->copied <= 64 << 10);
    }
    rig_close(&rig);
    folder_remove(folder);
}

// The device decides in which type a float32 checkpoint runs, unless an option does.
static void test_device_chooses_type_of_float32(void **state)
{
    (void)state;
    static const enum dtype cases[][2] = {{DTYPE_F32, DTYPE_F32}, {DTYPE_BF16, DTYPE_BF16}};
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    for (size_t i = 0; i < 2; i++)
        for (int asked = -1; asked <= DTYPE_F32; asked++) {
            const struct device_api *api = device_wrap(0, false);
            device_wrap_float32(cases[i][0]);
            struct model_options options = rig_options();
            options.dtype = asked;
            struct rig rig;
            rig_open_on(&rig, api, folder, &options);
            assert_int_equal(rig.facts->dtype, asked < 0 ? cases[i][1] : DTYPE_F32);
            rig_close(&rig);
        }
    folder_remove(folder);
}

// A step with one token per row is not a decode step if a prompt continues: that row wants no
// result.
static void test_one_prompt_token_is_not_a_decode(void **state)
{
    (void)state;
    static float alone[VOCAB], beside[VOCAB];
    int32_t prompts[ROWS][PROMPT_MAX];
    prompts_make(prompts);
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    struct model_options options = rig_options();
    struct rig rig;
    rig_open(&rig, folder, &options);
    struct rig_sequence last = {1, prompts[1], 6, 0, STEP_NO_TYPE};
    rig_prompt_logits(&rig, &last, 5, alone);
    struct rig_sequence on = {0, prompts[0], 9, 0, STEP_NO_TYPE};
    last.computed = 0;
    rig_begin(&rig);
    rig_prefill(&rig, &on, 4, WANT_TOKEN);
    rig_prefill(&rig, &last, 5, WANT_TOKEN);
    rig_step(&rig, NULL);
    rig_begin(&rig);
    rig_prefill(&rig, &on, 1, WANT_TOKEN);
    rig_prefill(&rig, &last, 1, WANT_TOKEN);
    assert_int_equal(rig_step(&rig, beside).count, 1);
    assert_memory_equal(beside, alone, sizeof alone);
    rig_close(&rig);
    folder_remove(folder);
}

// Whichever call fails while a model is opened, all memory that was allocated before is freed.
static void test_an_open_that_fails_leaves_nothing(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "bert-rerank", "qwen3-reranker"};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        char folder[64];
        golden_folder(folder, families[i], DTYPE_F32);
        const struct device_api *api = device_wrap(0, false);
        struct model_options options = rig_options();
        struct device_options device_options = {.threads = 1};
        struct device *device;
        struct error err;
        options.answer_ids[RERANK_YES_NO][0] = 4;
        options.answer_ids[RERANK_YES_NO][1] = 5;
        assert_int_equal(api->open(&device, &device_options, &err), STATUS_OK);
        enum status status = STATUS_NO_MEMORY;
        for (uint32_t n = 1; status != STATUS_OK; n++) {
            struct model_plan *plan;
            struct model *model = NULL;
            assert_int_equal(model_plan_open(&plan, folder, api, device, &options, &err),
                             STATUS_OK);
            device_wrap(0, false);
            device_wrap_refuse(n);
            status = model_open(&model, plan, plan->kv_bytes_min, NULL, NULL, &err);
            assert_int_equal(model != NULL, status == STATUS_OK);
            if (status != STATUS_OK) {
                assert_int_equal(status, STATUS_NO_MEMORY);
                assert_non_null(strstr(err.text, "is refused"));
                assert_int_equal(device_wrap_counts()->loads, n); // no call after the failed one
            } else {
                assert_true(n > 20);
            }
            model_close(model);
            assert_int_equal(device_wrap_counts()->taken, device_wrap_counts()->given);
            model_plan_close(plan);
        }
        api->close(device);
        folder_remove(folder);
    }
}

// Two layers: prep, the embedding, nine ops per layer, two gathers, the last norm and the head.
static void test_an_op_that_fails_is_the_last_of_its_step(void **state)
{
    (void)state;
    enum { OPS = 2 + 2 * 9 + 4 };
    int32_t prompts[ROWS][PROMPT_MAX];
    prompts_make(prompts);
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    struct model_options options = rig_options();
    struct rig rig;
    rig_open_on(&rig, device_wrap(0, false), folder, &options);
    struct rig_sequence s = {0, prompts[0], 6, 0, STEP_NO_TYPE};
    rig_begin(&rig);
    rig_prefill(&rig, &s, 6, WANT_TOKEN);
    for (uint32_t op = 1; op <= OPS; op++) {
        struct error err;
        device_wrap_fail(op);
        assert_int_equal(model_launch(rig.model, rig.batch, &err), STATUS_DEVICE_FAULT);
        assert_string_equal(err.text, "the device refused a forward pass");
        assert_int_equal(device_wrap_counts()->ops, op);
    }
    device_wrap_fail(0);
    assert_int_equal(rig_step(&rig, NULL).count, 1);
    assert_int_equal(device_wrap_counts()->ops, OPS + 1); // with the sampler
    struct error err;
    s.computed = 0;
    rig_begin(&rig);
    rig_prefill(&rig, &s, 6, WANT_TOKEN);
    device_wrap_fail(OPS + 1);
    assert_int_equal(model_launch(rig.model, rig.batch, &err), STATUS_OK);
    assert_int_equal(model_sample(rig.model, NULL, 0, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "the device refused sampling");
    device_wrap_fail(0);
    rig_close(&rig);
    folder_remove(folder);
}

// If the forward pass gives an op arguments that no device accepts, the process ends with the
// message of the op.
static void test_a_refused_op_says_why(void **state)
{
    (void)state;
    int ends[2], status = 0;
    char said[SAID_MAX] = "", folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        struct model_options options = rig_options();
        struct rig rig;
        rig_open_on(&rig, device_wrap(0, false), folder, &options);
        rig.model->sizes.hidden = 1;
        int32_t prompt[2] = {1, 2};
        struct rig_sequence s = {0, prompt, 2, 0, STEP_NO_TYPE};
        rig_begin(&rig);
        rig_prefill(&rig, &s, 2, WANT_TOKEN);
        rig_step(&rig, NULL);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], said + strlen(said), 512)) > 0;)
        continue;
    close(ends[0]);
    assert_non_null(
        strstr(said, "embed: the table is missing, of another use or of another width"));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    folder_remove(folder);
}

static void test_masks_bind_their_rows(void **state)
{
    (void)state;
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    struct model_options options = rig_options();
    struct rig rig;
    struct error err;
    rig_open(&rig, folder, &options);
    int32_t prompts[ROWS][PROMPT_MAX];
    prompts_make(prompts);
    uint32_t masks[2][(VOCAB + 31) / 32] = {{0}};
    masks[0][77 / 32] = 1u << 77 % 32;
    masks[1][5 / 32] = 1u << 5 % 32;
    rig_begin(&rig);
    for (uint32_t r = 0; r < 3; r++) {
        struct rig_sequence s = {r, prompts[r], 6, 0, STEP_NO_TYPE};
        rig_prefill(&rig, &s, 6, WANT_TOKEN);
    }
    batch_rows(rig.batch)[0].mask = 1;
    batch_rows(rig.batch)[2].mask = 0;
    assert_int_equal(model_launch(rig.model, rig.batch, &err), STATUS_OK);
    assert_int_equal(model_sample(rig.model, &masks[0][0], 2, &err), STATUS_OK);
    struct model_output out = rig_collect(&rig);
    assert_int_equal(out.results[0].token, 5);
    assert_int_equal(out.results[2].token, 77);
    rig_close(&rig);
    folder_remove(folder);
}

// The last word of a mask counts, although the vocabulary does not fill it.
static void test_last_word_of_a_mask_counts(void **state)
{
    (void)state;
    enum { WORDS = 4, LAST = 99 };
    char folder[64];
    json_t *golden = golden_read("llama");
    json_object_set_new(json_object_get(golden, "config"), "vocab_size", json_integer(LAST + 1));
    folder_make(folder);
    file_write_json(folder, "config.json", json_object_get(golden, "config"));
    json_decref(golden);
    struct model_options options = rig_options();
    options.load_dummy = true;
    struct rig rig;
    struct error err;
    rig_open(&rig, folder, &options);
    int32_t prompts[ROWS][PROMPT_MAX];
    prompts_make(prompts);
    uint32_t masks[ROWS][WORDS] = {{0}};
    rig_begin(&rig);
    for (uint32_t r = 0; r < ROWS; r++) {
        struct rig_sequence s = {r, prompts[r], 6, 0, STEP_NO_TYPE};
        rig_prefill(&rig, &s, 6, WANT_TOKEN);
        batch_rows(rig.batch)[r].mask = r;
        masks[r][WORDS - 1] = 1u << (LAST - r % 4) % 32;
    }
    assert_int_equal(model_launch(rig.model, rig.batch, &err), STATUS_OK);
    assert_int_equal(model_sample(rig.model, &masks[0][0], ROWS, &err), STATUS_OK);
    struct model_output out = rig_collect(&rig);
    for (uint32_t r = 0; r < ROWS; r++)
        assert_int_equal(out.results[r].token, LAST - r % 4);
    rig_close(&rig);
    folder_remove(folder);
}

// 300 texts packed into one step: each vector has the bits of the same text alone.
static void test_encoder_rows_do_not_see_each_other(void **state)
{
    (void)state;
    enum { TEXTS = 300, WIDTH = 64 };
    char folder[64];
    golden_folder(folder, "bert-mean", DTYPE_F32);
    struct model_options options = rig_options();
    options.max_num_batched_tokens = 4096;
    struct rig rig;
    rig_open(&rig, folder, &options);
    assert_true(rig.facts->whole_input && !rig.facts->paged);
    assert_int_equal(rig.facts->limits.rows_max, 4096);
    static int32_t tokens[TEXTS][PROMPT_MAX];
    rig_begin(&rig);
    for (uint32_t i = 0; i < TEXTS; i++) {
        for (uint32_t k = 0; k < PROMPT_MAX; k++)
            tokens[i][k] = (int32_t)((i * 13 + k * 29) % VOCAB);
        struct rig_sequence s = {i, tokens[i], 1 + i % 13, 0, i % 2 ? 1 : STEP_NO_TYPE};
        rig_prefill(&rig, &s, PROMPT_MAX, WANT_VECTOR);
    }
    static float together[TEXTS][WIDTH];
    struct model_output out = rig_step(&rig, NULL);
    assert_int_equal(out.count, TEXTS);
    memcpy(together, out.values, sizeof together);
    for (uint32_t i = 0; i < TEXTS; i += 17) {
        struct rig_sequence s = {0, tokens[i], 1 + i % 13, 0, i % 2 ? 1 : STEP_NO_TYPE};
        rig_begin(&rig);
        rig_prefill(&rig, &s, PROMPT_MAX, WANT_VECTOR);
        out = rig_step(&rig, NULL);
        assert_memory_equal(out.values, together[i], sizeof together[i]);
        double norm = 0;
        for (uint32_t k = 0; k < WIDTH; k++)
            norm += (double)together[i][k] * together[i][k];
        assert_true(fabs(norm - 1) < 1e-5);
    }
    rig_close(&rig);
    folder_remove(folder);
}

static void text_replace(json_t *entry, const char *tail, const char *with)
{
    char name[256];
    const char *old = json_string_value(json_array_get(entry, 0));
    size_t bytes = strlen(old);
    size_t cut = strlen(tail);
    if (bytes < cut || strcmp(old + bytes - cut, tail) != 0)
        return;
    snprintf(name, sizeof name, "%.*s%s", (int)(bytes - cut), old, with);
    json_array_set_new(entry, 0, json_string(name));
}

static void test_old_norm_names_are_known(void **state)
{
    (void)state;
    json_t *golden = golden_read("bert-cls");
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(golden, "tensors"), i, entry)
    {
        text_replace(entry, "LayerNorm.weight", "LayerNorm.gamma");
        text_replace(entry, "LayerNorm.bias", "LayerNorm.beta");
    }
    char folder[64];
    folder_make(folder);
    golden_folder_write(folder, golden, DTYPE_F32, 2);
    struct model_options options = rig_options();
    struct rig rig;
    rig_open(&rig, folder, &options);
    assert_int_equal(rig.facts->kind, MODEL_EMBEDDER);
    rig_close(&rig);
    json_decref(golden);
    folder_remove(folder);
}

// The sections of a full batch do not overlap.
static void test_batch_sections_do_not_overlap(void **state)
{
    (void)state;
    struct step_limits limits = {.rows_max = 3,
                                 .tokens_max = 7,
                                 .slots_max = 3,
                                 .blocks_max = 5,
                                 .changes_max = 9,
                                 .new_sequences_max = 2,
                                 .history_max = 11,
                                 .bias_max = 3,
                                 .vocab = 50};
    size_t bytes = batch_bytes(&limits);
    struct batch *b = heap_alloc(bytes);
    batch_init(b, &limits);
    batch_clear(b, 5);
    assert_int_equal(b->bytes, bytes);
    assert_int_equal(b->step, 5);
    memset(batch_rows(b), 1, limits.rows_max * sizeof(struct batch_row));
    memset(batch_tokens(b), 2, limits.tokens_max * sizeof(int32_t));
    memset(batch_changes(b), 3, limits.changes_max * sizeof(struct batch_change));
    memset(batch_new_sequences(b), 4, limits.new_sequences_max * sizeof(struct batch_new_sequence));
    memset(batch_history(b), 5, limits.history_max * sizeof(int32_t));
    memset(batch_bias(b), 6, 2 * limits.bias_max * sizeof(struct step_bias));
    const char *ends[] = {
        (char *)batch_rows(b) + limits.rows_max * sizeof(struct batch_row),
        (char *)batch_tokens(b) + limits.tokens_max * sizeof(int32_t),
        (char *)batch_changes(b) + limits.changes_max * sizeof(struct batch_change),
        (char *)batch_new_sequences(b) +
            limits.new_sequences_max * sizeof(struct batch_new_sequence),
        (char *)batch_history(b) + limits.history_max * sizeof(int32_t),
        (char *)batch_bias(b) + 2 * limits.bias_max * sizeof(struct step_bias),
    };
    for (int i = 0; i < 6; i++)
        assert_int_equal(ends[i][-1], i + 1);
    assert_true(ends[5] <= (char *)b + bytes);
    assert_int_equal(b->row_count + b->token_count + b->decode_count, 0);
    heap_free(b);
}

// batch_clear leaves nothing of a step for the next one, and the sections stay in place.
static void test_a_cleared_batch_counts_nothing(void **state)
{
    (void)state;
    struct batch b;
    const struct step_limits limits = {.rows_max = 3, .tokens_max = 7, .new_sequences_max = 2};
    batch_init(&b, &limits);
    struct batch clean = b;
    clean.step = 8;
    b.row_count = b.token_count = b.change_count = b.new_sequence_count = 2;
    b.history_count = b.bias_count = b.decode_count = b.computed_count = 3;
    batch_clear(&b, 8);
    assert_memory_equal(&b, &clean, sizeof b);
}

int main(void)
{
    if (!rig_device_usable())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_equals_allocations),
        cmocka_unit_test(test_dummy_weights_are_the_same_each_time),
        cmocka_unit_test(test_missing_head_is_tied),
        cmocka_unit_test(test_reranker_forms_are_chosen),
        cmocka_unit_test(test_flight_and_graphs_change_no_token),
        cmocka_unit_test(test_an_open_that_fails_leaves_nothing),
        cmocka_unit_test(test_graphs_are_recorded_by_size),
        cmocka_unit_test(test_heads_run_over_wanted_rows),
        cmocka_unit_test(test_the_rotary_table_has_every_position),
        cmocka_unit_test(test_device_chooses_type_of_float32),
        cmocka_unit_test(test_a_plain_step_copies_a_few_kilobytes),
        cmocka_unit_test(test_one_prompt_token_is_not_a_decode),
        cmocka_unit_test(test_an_op_that_fails_is_the_last_of_its_step),
        cmocka_unit_test(test_a_refused_op_says_why),
        cmocka_unit_test(test_masks_bind_their_rows),
        cmocka_unit_test(test_last_word_of_a_mask_counts),
        cmocka_unit_test(test_encoder_rows_do_not_see_each_other),
        cmocka_unit_test(test_old_norm_names_are_known),
        cmocka_unit_test(test_batch_sections_do_not_overlap),
        cmocka_unit_test(test_a_cleared_batch_counts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
