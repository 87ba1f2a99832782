// SPDX-License-Identifier: Apache-2.0
// The plan: capacities, bytes of a KV block, offsets in memory; which options are refused.
#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"
#include "kernels/attn_tiles.h"
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

#include <cmocka.h>

static struct device *device;
static struct error err;
static char folder[64];

// Writes a folder of the family with config.json alone, into which `patch` is merged.
static void put(const char *name, const char *patch)
{
    json_t *golden = golden_read(name), *more = json_loads(patch, 0, NULL);
    json_object_update(json_object_get(golden, "config"), more);
    if (folder[0])
        folder_remove(folder);
    folder_make(folder);
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    json_decref(more);
    json_decref(golden);
}

static const struct device_api *planned; // the device to plan for; NULL: cpu
static struct model_plan *plan_of(const struct model_options *options)
{
    struct model_plan *plan;
    if (model_plan_open(&plan, folder, planned ? planned : device_cpu(), device, options, &err) !=
        STATUS_OK)
        fail_msg("%s", err.text);
    return plan;
}

static void refused(const struct model_options *options, enum status status, const char *words)
{
    struct model_plan *plan = NULL;
    enum status got =
        model_plan_open(&plan, folder, planned ? planned : device_cpu(), device, options, &err);
    if (got != status || plan || !strstr(err.text, words))
        fail_msg("%s: %s, not %s", status_name(got), err.text, words);
}

static struct model_options dummy(uint32_t sequences, uint32_t tokens)
{
    struct model_options options = rig_options();
    options.max_num_seqs = sequences;
    options.max_num_batched_tokens = tokens;
    options.load_dummy = true;
    return options;
}

static void test_steps_have_capacities(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        uint32_t sequences, tokens;
        int penalties;
        struct step_limits limits;
    } cases[] = {
        {"llama", 10, 100, -1, {10, 100, 10, 4, 42, 10, 128, 1024, 10, 96}},
        {"llama", 100, 200, -1, {100, 200, 100, 4, 228, 32, 128, 1024, 64, 96}},
        {"llama", 100, 200, 200, {100, 200, 100, 4, 228, 32, 128, 1024, 100, 96}},
        {"llama", 100, 200, 5, {100, 200, 100, 4, 228, 32, 128, 1024, 5, 96}},
        {"llama", 100, 200, 0, {100, 200, 100, 4, 228, 32, 128, 1024, 0, 96}},
        {"qwen3-embedding", 10, 5, -1, {10, 10, 10, 4, 36, 0, 0, 0, 0, 0}},
        {"llama-mean", 10, 20, -1, {10, 64, 10, 4, 40, 0, 0, 0, 0, 0}}, // one complete input
        {"qwen2-classifier", 10, 20, -1, {10, 20, 10, 4, 37, 0, 0, 0, 0, 0}},
        {"bert-mean", 10, 20, -1, {64, 64, 64, 0, 0, 0, 0, 0, 0, 0}},
        {"bert-rerank", 10, 5000, -1, {4096, 5000, 4096, 0, 0, 0, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_options options = dummy(cases[i].sequences, cases[i].tokens);
        options.penalty_rows = cases[i].penalties;
        put(cases[i].family, "{}");
        struct model_plan *plan = plan_of(&options);
        const uint32_t *got = (const uint32_t *)&plan->facts.limits;
        const uint32_t *want = (const uint32_t *)&cases[i].limits;
        for (size_t k = 0; k < sizeof(struct step_limits) / sizeof(uint32_t); k++)
            if (got[k] != want[k])
                fail_msg("case %zu, limit %zu: %u, not %u", i, k, got[k], want[k]);
        model_plan_close(plan);
    }
    struct device_facts facts;
    device_cpu()->facts(device, &facts);
    uint32_t usual = facts.step_tokens > 0 ? facts.step_tokens : 2048;
    struct model_options options = dummy(0, 0);
    put("llama", "{}");
    struct model_plan *plan = plan_of(&options);
    assert_int_equal(plan->facts.limits.rows_max, 256);
    assert_int_equal(plan->facts.limits.tokens_max, usual > 342 ? usual : 342);
    model_plan_close(plan);
}

static void test_options_have_ranges(void **state)
{
    (void)state;
    put("llama", "{}");
    static const uint32_t blocks[] = {0, 16, 32, 64};
    for (size_t i = 0; i < 4; i++) {
        struct model_options options = dummy(4, 64);
        options.block_size = blocks[i];
        struct model_plan *plan = plan_of(&options);
        assert_int_equal(plan->facts.block_tokens, blocks[i] ? blocks[i] : 64);
        model_plan_close(plan);
    }
    struct model_options options = dummy(65536, 1 << 20);
    model_plan_close(plan_of(&options));
    options = dummy(65537, 1 << 20);
    refused(&options, STATUS_INVALID, "max-num-seqs is 65537; at most 65536 are possible");
    options = dummy(65536, (1 << 20) + 1);
    refused(&options, STATUS_INVALID, "max-num-batched-tokens is 1048577; at most 1048576");
    options = dummy(4, 64);
    options.dtype = MODEL_FP8 + 1;
    refused(&options, STATUS_INVALID, "is not known");
    options.dtype = -2;
    refused(&options, STATUS_INVALID, "dtype -2 is not known");
    options.dtype = MODEL_INT4;
    model_plan_close(plan_of(&options));
    options.dtype = MODEL_FP8;
    refused(&options, STATUS_UNSUPPORTED, "--dtype fp8: the device cpu holds no weights in FP8");
    options = dummy(4, 64);
    options.kv_dtype = -2;
    refused(&options, STATUS_UNSUPPORTED, "the KV cache can be float32, bfloat16, float16, int8");
    options.kv_dtype = DTYPE_I8;
    model_plan_close(plan_of(&options));
    options = dummy(4, 64);
    options.max_model_len = 64;
    model_plan_close(plan_of(&options));
    options.max_model_len = 1;
    model_plan_close(plan_of(&options));
}

// With head_dim 16, 2 KV heads, keys and values, 2 layers.
static void test_blocks_have_bytes(void **state)
{
    (void)state;
    static const struct {
        int kv;
        uint32_t tokens, length, blocks;
        uint64_t bytes;
    } cases[] = {
        {-1, 16, 0, 4, 16 * 4 * 16 * 2 * 2 * 2},  {DTYPE_F16, 16, 0, 4, 16 * 2 * 16 * 8},
        {DTYPE_BF16, 32, 49, 2, 16 * 2 * 32 * 8}, {DTYPE_F32, 16, 49, 4, 16 * 4 * 16 * 8},
        {DTYPE_F32, 16, 48, 3, 16 * 4 * 16 * 8},  {DTYPE_F32, 64, 1, 1, 16 * 4 * 64 * 8},
    };
    put("llama", "{}");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_options options = dummy(4, 64);
        options.kv_dtype = cases[i].kv;
        options.block_size = cases[i].tokens;
        options.max_model_len = cases[i].length;
        struct model_plan *plan = plan_of(&options);
        uint64_t bytes = (cases[i].bytes + TABLE_UNIT_BYTES - 1) / TABLE_UNIT_BYTES;
        assert_int_equal(plan->facts.block_bytes, bytes * TABLE_UNIT_BYTES);
        assert_int_equal(plan->facts.blocks_per_sequence_max, cases[i].blocks);
        assert_int_equal(plan->kv_bytes_min, cases[i].blocks * plan->facts.block_bytes);
        model_plan_close(plan);
    }
}

static void test_lengths_are_chosen(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        const char *sentence; // max_seq_length of the folder
        uint32_t wanted, tokenizer, length;
    } cases[] = {
        {"bert-cls", NULL, 0, 0, 64},     {"bert-cls", NULL, 0, 63, 63},
        {"bert-cls", NULL, 0, 65, 64},    {"bert-cls", NULL, 50, 20, 50},
        {"bert-cls", "40", 0, 20, 40},    {"bert-cls", "40", 64, 20, 64},
        {"bert-rerank", NULL, 0, 20, 20}, {"llama", NULL, 0, 20, 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        struct model_options options = dummy(4, 64);
        put(cases[i].family, "{}");
        snprintf(text, sizeof text, "{\"max_seq_length\":%s}",
                 cases[i].sentence ? cases[i].sentence : "null");
        file_write(folder, "sentence_bert_config.json", text, strlen(text));
        options.max_model_len = cases[i].wanted;
        options.tokenizer_length = cases[i].tokenizer;
        struct model_plan *plan = plan_of(&options);
        assert_int_equal(plan->facts.max_model_len, cases[i].length);
        model_plan_close(plan);
    }
    struct model_options options = dummy(4, 64);
    put("llama-mean", "{\"max_position_embeddings\":1048577}");
    refused(&options, STATUS_TOO_LARGE, "is 1048577: this model's inputs are not cut");
    put("llama", "{}");
    options.max_model_len = 65;
    refused(&options, STATUS_TOO_LARGE, "--max-model-len 65 is more than the 64 tokens");
}

static void test_facts_of_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *family, *patch;
        enum model_kind kind;
        uint32_t width;
        bool paged, whole, types;
    } cases[] = {
        {"llama", "{}", MODEL_GENERATOR, 1, true, false, false},
        {"llama-mean", "{}", MODEL_EMBEDDER, 64, true, true, false},
        {"qwen3-embedding", "{}", MODEL_EMBEDDER, 64, true, false, false},
        {"qwen2-classifier", "{}", MODEL_RERANKER, 1, true, false, false},
        {"bert-rerank", "{}", MODEL_RERANKER, 1, false, true, true},
        {"bert-cls", "{\"type_vocab_size\":1}", MODEL_EMBEDDER, 64, false, true, false},
        {"bert-cls", "{}", MODEL_EMBEDDER, 64, false, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_options options = dummy(4, 64);
        put(cases[i].family, cases[i].patch);
        struct model_plan *plan = plan_of(&options);
        const struct model_facts *f = &plan->facts;
        assert_true(f->kind == cases[i].kind && f->output_width == cases[i].width);
        assert_true(f->paged == cases[i].paged && f->whole_input == cases[i].whole);
        assert_true(f->token_types == cases[i].types);
        assert_int_equal(f->block_tokens, cases[i].paged ? 16 : 0);
        model_plan_close(plan);
    }
}

// The folder's sampling settings and end ids reach the engine, and so do the types.
static void test_facts_of_the_folder(void **state)
{
    (void)state;
    static const char generation[] =
        "{\"eos_token_id\":[5,9],\"temperature\":0.5,\"top_p\":0.25,\"repetition_penalty\":1.5}";
    static const struct {
        int dtype, kv;
        enum dtype held, kept;
    } types[] = {{-1, -1, DTYPE_F32, DTYPE_F32},
                 {DTYPE_BF16, -1, DTYPE_BF16, DTYPE_BF16},
                 {DTYPE_BF16, DTYPE_F32, DTYPE_BF16, DTYPE_F32},
                 {DTYPE_F16, DTYPE_BF16, DTYPE_F16, DTYPE_BF16},
                 {DTYPE_F32, DTYPE_F16, DTYPE_F32, DTYPE_F16},
                 {DTYPE_I8, -1, DTYPE_I8, DTYPE_F32}};
    put("llama", "{}");
    file_write(folder, "generation_config.json", generation, strlen(generation));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct model_options options = rig_options();
        options.dtype = types[i].dtype;
        options.kv_dtype = types[i].kv;
        struct model_plan *plan = plan_of(&options);
        const struct model_facts *f = &plan->facts;
        assert_int_equal(f->dtype, types[i].held);
        assert_int_equal(f->kv_dtype, types[i].kept);
        assert_string_equal(f->architecture, "LlamaForCausalLM");
        assert_true(isnan(f->defaults.temperature) && isnan(f->defaults.repetition_penalty));
        assert_true(f->end_count >= 2 && f->end_ids[0] == 5 && f->end_ids[1] == 9);
        assert_true(f->vocab == 96 && f->hidden == 64 && f->layers == 2 && f->normalize);
        assert_true(f->steps_in_flight == 0 && f->block_count == 0);
        assert_string_equal(plan->weights_folder, folder);
        model_plan_close(plan);
    }
}

static void test_attention_has_a_shape(void **state)
{
    (void)state;
    static const struct {
        const char *family, *patch;
        uint32_t length, window, width;
        float scale;
        bool causal;
    } cases[] = {
        {"llama", "{}", 0, 0, 192, 0.25f, true}, // gate and up in one product
        {"llama", "{\"vocab_size\":500}", 0, 0, 500, 0.25f, true},
        {"llama", "{\"intermediate_size\":24}", 0, 0, 128, 0.25f, true},      // q, k, v joined
        {"qwen2-classifier", "{\"vocab_size\":500}", 0, 0, 192, 0.25f, true}, // no LM head
        {"mistral", "{}", 0, 8, 256, 0.17677669f, true},
        {"mistral", "{}", 9, 8, 256, 0.17677669f, true},
        {"mistral", "{}", 8, 0, 256, 0.17677669f, true},
        {"qwen2-window", "{}", 0, 0, 192, 0.25f, true}, // one layer has full attention
        {"qwen2-window", "{\"max_window_layers\":0}", 0, 8, 192, 0.25f, true},
        {"bert-mean", "{}", 0, 0, 192, 0.25f, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_options options = dummy(4, 64);
        options.max_model_len = cases[i].length;
        put(cases[i].family, cases[i].patch);
        struct model_plan *plan = plan_of(&options);
        const struct stream_limits *limits = &plan->parts->stream;
        if (limits->attn.window != cases[i].window || limits->width_max != cases[i].width)
            fail_msg("case %zu: window %u, width %u", i, limits->attn.window, limits->width_max);
        assert_true(fabsf(limits->attn.scale - cases[i].scale) < 1e-7f);
        assert_int_equal(limits->attn.causal, cases[i].causal);
        assert_int_equal(limits->attn.paged, cases[i].causal);
        assert_int_equal(limits->layers, plan->facts.layers);
        model_plan_close(plan);
    }
}

struct span {
    const char *name;
    size_t at, bytes;
};

static void apart(const struct span *spans, size_t count, size_t end)
{
    for (size_t i = 0; i < count; i++) {
        const struct span *a = &spans[i];
        if (a->at % 256 != 0 || a->at + a->bytes > end)
            fail_msg("%s lies at %zu to %zu of %zu", a->name, a->at, a->at + a->bytes, end);
        for (size_t k = 0; k < i; k++)
            if (a->at < spans[k].at + spans[k].bytes && spans[k].at < a->at + a->bytes)
                fail_msg("%s and %s overlap", a->name, spans[k].name);
    }
}

#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

static void activations_apart(const struct model_plan *plan)
{
    const struct model_layout *at = &plan->parts->layout;
    const struct model_config *c = &plan->parts->config;
    const struct step_limits *limits = &plan->facts.limits;
    size_t act = dtype_bytes(plan->parts->act), tokens = limits->tokens_max * act;
    size_t rows = limits->rows_max, gated = plan->facts.paged;
    size_t values = rows * plan->facts.output_width * sizeof(float);
    const struct span kept[] = {
        {"residual", at->buffer[BUFFER_RESIDUAL], tokens * c->hidden},
        {"delta", at->buffer[BUFFER_DELTA], tokens * c->hidden},
        {"normed", at->buffer[BUFFER_NORMED], gated * tokens * c->hidden},
        {"last", at->buffer[BUFFER_LAST], rows * act * c->hidden},
        {"last delta", at->buffer[BUFFER_LAST_DELTA], rows * act * c->hidden},
        {"values", at->buffer[BUFFER_VALUES], values},
    };
    bool generates = plan->facts.kind == MODEL_GENERATOR;
    const struct span wide[][2] = {
        {{"qkv", at->buffer[BUFFER_QKV], tokens * (c->heads + 2 * c->kv_heads) * c->head_dim},
         {"attn", at->buffer[BUFFER_ATTN], tokens * c->heads * c->head_dim}},
        {{"up", at->buffer[BUFFER_UP], tokens * c->intermediate * (1 + gated)},
         {"ffn", at->buffer[BUFFER_FFN], gated * tokens * c->intermediate}},
        {{"logits", at->buffer[BUFFER_LOGITS], generates * rows * c->vocab * sizeof(float)},
         {"none", 0, 0}},
    };
    for (size_t i = 0; i < COUNT_OF(wide); i++) {
        struct span all[COUNT_OF(kept) + 2];
        memcpy(all, kept, sizeof kept);
        memcpy(all + COUNT_OF(kept), wide[i], sizeof wide[i]);
        apart(all, COUNT_OF(all), at->activation_bytes);
    }
}

static void state_apart(const struct model_plan *plan)
{
    const struct model_layout *at = &plan->parts->layout;
    const struct step_limits *l = &plan->facts.limits;
    bool generates = plan->facts.kind == MODEL_GENERATOR;
    size_t slots = l->slots_max, tokens = l->tokens_max, sampled = generates ? slots : 0;
    size_t masks = generates ? (size_t)l->rows_max * ((plan->facts.vocab + 31) / 32) * 4 : 0;
    const struct span spans[] = {
        {"last_token", at->last_token, slots * 4},
        {"block_table", at->block_table, slots * l->blocks_max * 4},
        {"params", at->params, sampled * sizeof(struct sample_params)},
        {"done", at->done, slots * 4},
        {"penalty", at->penalty, (size_t)l->penalty_rows * l->vocab * 2},
        {"bias", at->bias, sampled * l->bias_max * sizeof(struct step_bias)},
        {"token", at->token, tokens * 4},
        {"position", at->position, tokens * 4},
        {"row_of", at->row_of, tokens * 4},
        {"type", at->type, tokens * 4},
        {"kv_write_offset", at->kv_write_offset, tokens * 8},
        {"record", at->record, plan->parts->step.bytes},
        {"masks", at->masks, masks},
    };
    apart(spans, COUNT_OF(spans), at->state_bytes);
    assert_true(at->masks_bytes >= masks && at->record_bytes >= plan->parts->step.bytes);
    size_t rows = l->rows_max;
    const struct span host[] = {
        {"records", at->records, MODEL_HOST_STEPS * at->record_bytes},
        {"results", at->results, MODEL_HOST_STEPS * at->results_bytes},
        {"tops", at->tops, MODEL_HOST_STEPS * at->tops_bytes},
        {"values", at->host_values, MODEL_HOST_STEPS * at->values_bytes},
        {"masks", at->host_masks, MODEL_HOST_STEPS * at->masks_bytes},
        {"logits", at->host_logits, generates ? plan->facts.vocab * sizeof(float) : 0},
        {"words", at->word, 8},
    };
    apart(host, COUNT_OF(host), at->host_bytes);
    assert_true(at->results_bytes >= (generates ? rows * sizeof(struct sample_result) : 0));
    assert_true(at->tops_bytes >=
                (generates ? rows * SAMPLE_TOP_MAX * sizeof(struct sample_top) : 0));
    assert_true(at->values_bytes >= (generates ? 0 : rows * plan->facts.output_width * 4));
    const size_t each[] = {at->record_bytes, at->results_bytes, at->tops_bytes, at->values_bytes,
                           at->masks_bytes};
    for (size_t i = 0; i < COUNT_OF(each); i++)
        assert_int_equal(each[i] % 256, 0); // a step's part of a ring is aligned as well
}

// Checks the sections of a step record for overlaps, as the device and the host lay them out.
static void record_apart(const struct model_plan *plan)
{
    const struct step_layout *at = &plan->parts->step;
    const struct step_limits *l = &plan->facts.limits;
    const struct span spans[] = {
        {"header", 0, sizeof(struct step)},
        {"rows", at->rows, l->rows_max * sizeof(struct step_row)},
        {"sampled", at->sampled, l->rows_max * sizeof(struct step_sampled)},
        {"changes", at->changes, l->changes_max * sizeof(struct step_change)},
        {"admits", at->new_sequences, l->new_sequences_max * sizeof(struct step_new_sequence)},
        {"bias", at->bias, (size_t)l->new_sequences_max * l->bias_max * sizeof(struct step_bias)},
        {"private", at->private_part, plan->parts->private_bytes},
        {"history", at->history, l->history_max * sizeof(int32_t)},
        {"tokens", at->tokens, l->tokens_max * sizeof(int32_t)},
    };
    apart(spans, COUNT_OF(spans), at->bytes);
}

static void test_nothing_of_a_model_overlaps(void **state)
{
    (void)state;
    static const char *const families[] = {
        "llama", "mistral", "qwen3", "llama-mean", "bert-mean", "bert-rerank", "qwen3-reranker"};
    static const uint32_t sizes[][2] = {{1, 64}, {3, 70}, {32, 512}, {33, 333}};
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        put(families[i], "{}");
        for (size_t k = 0; k < COUNT_OF(sizes); k++) {
            struct model_options options = dummy(sizes[k][0], sizes[k][1]);
            options.answer_ids[RERANK_YES_NO][0] = 4;
            options.answer_ids[RERANK_YES_NO][1] = 5;
            options.dtype = k % 2 ? DTYPE_BF16 : DTYPE_F32;
            struct model_plan *plan = plan_of(&options);
            activations_apart(plan);
            state_apart(plan);
            record_apart(plan);
            uint64_t sum = 0;
            for (uint32_t n = 0; n < plan->need.count; n++)
                sum += plan->need.entry[n].bytes;
            assert_int_equal(sum, plan->bytes);
            model_plan_close(plan);
        }
    }
}

// The sections after the device's part are contiguous, and only as long as the step needs.
static void test_a_record_is_copied_without_gaps(void **state)
{
    (void)state;
    static const struct step_limits limits = {5, 40, 5, 4, 30, 3, 50, 7, 2, 96};
    struct step_layout most;
    step_layout_init(&most, &limits, 3000);
    struct step step = {.layout = most};
    step_layout_pack(&step, 0);
    const struct step_layout *at = &step.layout;
    assert_int_equal(at->rows, most.rows);
    assert_int_equal(at->sampled, most.sampled);
    assert_int_equal(at->private_part, most.private_part);
    assert_int_equal(at->bytes, most.private_part); // an empty step
    step.token_listed = 40;
    step.change_count = 30;
    step.new_sequence_count = 3;
    step.bias_count = 8;
    step.history_count = 50;
    step_layout_pack(&step, 1000);
    const struct span spans[] = {
        {"private", at->private_part, 1000},
        {"tokens", at->tokens, 40 * sizeof(int32_t)},
        {"changes", at->changes, 30 * sizeof(struct step_change)},
        {"admits", at->new_sequences, 3 * sizeof(struct step_new_sequence)},
        {"bias", at->bias, 8 * sizeof(struct step_bias)},
        {"history", at->history, 50 * sizeof(int32_t)},
    };
    apart(spans, COUNT_OF(spans), at->bytes);
    for (size_t i = 1; i < COUNT_OF(spans); i++)
        assert_true(spans[i].at < spans[i - 1].at + spans[i - 1].bytes + 256);
    step.bias_count = 3 * limits.bias_max;
    step_layout_pack(&step, 3000);
    assert_int_equal(at->bytes, most.bytes); // the largest step
}

static void test_kv_memory_holds_one_sequence(void **state)
{
    (void)state;
    struct model *model = NULL;
    struct model_options options = dummy(4, 64);
    put("llama", "{}");
    struct model_plan *plan = plan_of(&options);
    assert_int_equal(plan->kv_bytes_min, 4 * 8192);
    assert_int_equal(model_open(&model, plan, 8191, NULL, NULL, &err), STATUS_TOO_LARGE);
    assert_string_equal(err.text, "8191 bytes of KV memory do not hold one block of 8192 bytes: "
                                  "raise --kv-cache-memory");
    assert_int_equal(model_open(&model, plan, 4 * 8192 - 1, NULL, NULL, &err), STATUS_TOO_LARGE);
    assert_string_equal(err.text, "one sequence of 64 tokens needs 32768 bytes of KV memory and "
                                  "there are 32767: --max-model-len 48 would fit, or raise "
                                  "--kv-cache-memory");
    assert_int_equal(model_open(&model, plan, 4 * 8192, NULL, NULL, &err), STATUS_OK);
    assert_int_equal(model_facts(model)->block_count, 4);
    model_close(model);
    model_plan_close(plan);
    plan = plan_of(&options);
    assert_int_equal(model_open(&model, plan, 6 * 8192 - 1, NULL, NULL, &err), STATUS_OK);
    assert_int_equal(model_facts(model)->block_count, 5);
    model_close(model);
    model_plan_close(plan);
    put("bert-mean", "{}");
    plan = plan_of(&options);
    assert_int_equal(plan->kv_bytes_min, 0);
    assert_int_equal(model_open(&model, plan, 0, NULL, NULL, &err), STATUS_OK);
    model_close(model);
    model_plan_close(plan);
    model_close(NULL);
    model_plan_close(NULL);
}

// Each step in flight has a part of the host's memory at the offsets of the layout. One block of KV
// memory is enough for a model whose sequences have one block.
static void test_steps_lie_where_the_layout_says(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "llama-mean"};
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct model_options options = dummy(4, 64);
        options.max_model_len = 16;
        put(families[i], "{}");
        struct model_plan *plan = plan_of(&options);
        struct model *m;
        assert_int_equal(model_open(&m, plan, plan->kv_bytes_min, NULL, NULL, &err), STATUS_OK);
        assert_true(m->kv.block_count == 1 && m->kv.base);
        const struct model_layout *at = &m->layout;
        const char *host = m->host;
        for (uint32_t k = 0; k < MODEL_HOST_STEPS; k++) {
            const struct host_step *slot = &m->host_steps[k];
            assert_ptr_equal(slot->record, host + at->records + k * at->record_bytes);
            assert_ptr_equal(slot->results, host + at->results + k * at->results_bytes);
            assert_ptr_equal(slot->tops, host + at->tops + k * at->tops_bytes);
            assert_ptr_equal(slot->values, host + at->host_values + k * at->values_bytes);
            assert_ptr_equal(slot->masks, host + at->host_masks + k * at->masks_bytes);
        }
        assert_ptr_equal(m->word, host + at->word);
        const char *device_state = m->state;
        bool generates = m->facts.kind == MODEL_GENERATOR;
        assert_ptr_equal(m->slots.last_token, device_state + at->last_token);
        assert_ptr_equal(m->slots.block_table, device_state + at->block_table);
        assert_ptr_equal(m->slots.done, device_state + at->done);
        assert_ptr_equal(m->slots.params, generates ? device_state + at->params : NULL);
        assert_ptr_equal(m->slots.penalty, generates ? device_state + at->penalty : NULL);
        assert_ptr_equal(m->slots.bias, generates ? device_state + at->bias : NULL);
        model_close(m);
        model_plan_close(plan);
    }
}

static void test_answers_of_rerankers_are_two_tokens(void **state)
{
    (void)state;
    static const int32_t wrong[][2] = {{-1, 5}, {5, -1}, {96, 5}, {5, 96}, {5, 5}, {-1, -1}};
    put("qwen3-reranker", "{}");
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct model_options options = rig_options();
        options.answer_ids[RERANK_YES_NO][0] = wrong[i][0];
        options.answer_ids[RERANK_YES_NO][1] = wrong[i][1];
        char words[128];
        snprintf(words, sizeof words, "has no two such tokens (found ids %d and %d)", wrong[i][0],
                 wrong[i][1]);
        refused(&options, STATUS_INVALID, words);
    }
    static const int32_t right[][2] = {{0, 95}, {95, 0}};
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        struct model_options options = rig_options();
        options.answer_ids[RERANK_YES_NO][0] = right[i][0];
        options.answer_ids[RERANK_YES_NO][1] = right[i][1];
        model_plan_close(plan_of(&options));
    }
    // Ids that the folder names have precedence over those of the tokenizer.
    static const char modules[] = "[{\"type\":\"Transformer\",\"path\":\"\"},"
                                  "{\"type\":\"LogitScore\",\"path\":\"s\"}]";
    file_write(folder, "modules.json", modules, strlen(modules));
    for (uint32_t yes = 0; yes <= 7; yes += 7) {
        char ids[64];
        snprintf(ids, sizeof ids, "{\"true_token_id\":%u,\"false_token_id\":%u}", yes, 7 - yes);
        file_write(folder, "s/config.json", ids, strlen(ids));
        struct model_options options = rig_options();
        options.answer_ids[RERANK_YES_NO][0] = options.answer_ids[RERANK_YES_NO][1] = 5;
        struct model_plan *plan = plan_of(&options);
        const struct weight_list *weights = &plan->parts->weights;
        const struct weight_entry *entry = &weights->entries[weights->count - 1];
        assert_int_equal(entry->index, MODEL_SCORE);
        assert_int_equal(entry->parts[0].from_row, yes);
        assert_int_equal(entry->parts[1].from_row, 7 - yes);
        model_plan_close(plan);
    }
}

static void tensor_change(json_t *golden, const char *name, const char *shape, const char *renamed)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(golden, "tensors"), i, entry)
    {
        if (strcmp(json_string_value(json_array_get(entry, 0)), name) != 0)
            continue;
        if (shape)
            json_array_set_new(entry, 1, json_loads(shape, 0, NULL));
        if (renamed)
            json_array_set_new(entry, 0, json_string(renamed));
        return;
    }
    fail_msg("no tensor %s", name);
}

static void test_tensors_of_a_wrong_shape_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *family, *tensor, *shape, *words;
    } cases[] = {
        {"llama", "model.norm.weight", "[65]", "has shape [65], config.json wants [64]"},
        {"llama", "model.norm.weight", "[64,1]", "has shape [64, 1], config.json wants [64]"},
        {"llama", "lm_head.weight", "[96]", "has shape [96], config.json wants [96, 64]"},
        {"llama", "lm_head.weight", "[96,63]", "has shape [96, 63], config.json wants [96, 64]"},
        {"llama", "lm_head.weight", "[96,64,1]",
         "has shape [96, 64, 1], config.json wants [96, 64]"},
        {"llama", "lm_head.weight", "[]", "has shape [], config.json wants [96, 64]"},
        {"llama", "model.layers.1.self_attn.v_proj.weight", "[33,64]",
         "model.layers.1.self_attn.v_proj.weight has shape [33, 64], config.json wants [32, 64]"},
        {"llama", "model.layers.1.mlp.up_proj.weight", "[64,96]",
         "model.layers.1.mlp.up_proj.weight has shape [64, 96], config.json wants [96, 64]"},
        {"llama", "model.layers.0.mlp.down_proj.weight", "[96,64]",
         "has shape [96, 64], config.json wants [64, 96]"},
        {"qwen3", "model.layers.0.self_attn.k_norm.weight", "[23]", "config.json wants [24]"},
        {"qwen2", "model.layers.0.self_attn.k_proj.bias", "[64]", "config.json wants [32]"},
        {"bert-mean", "bert.embeddings.position_embeddings.weight", "[63,64]",
         "config.json wants [64, 64]"},
        {"bert-mean", "bert.embeddings.token_type_embeddings.weight", "[1,64]",
         "config.json wants [2, 64]"},
        {"bert-mean", "bert.embeddings.LayerNorm.bias", "[1]", "config.json wants [64]"},
        {"bert-rerank", "classifier.bias", "[2]", "config.json wants [1]"},
        {"bert-rerank", "classifier.weight", "[2,64]",
         "BertForSequenceClassification has 2 labels (rows of classifier.weight)"},
        {"bert-rerank", "bert.pooler.dense.weight", "[64,65]", "config.json wants [64, 64]"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct model_options options = rig_options();
        json_t *golden = golden_read(cases[i].family);
        tensor_change(golden, cases[i].tensor, cases[i].shape, NULL);
        if (folder[0])
            folder_remove(folder);
        folder_make(folder);
        golden_folder_write(folder, golden, DTYPE_F32, 1);
        json_decref(golden);
        bool labels = strstr(cases[i].words, "labels") != NULL;
        refused(&options, labels ? STATUS_UNSUPPORTED : STATUS_INVALID, cases[i].words);
        if (!labels)
            assert_non_null(strstr(err.text, cases[i].tensor));
    }
}

// A tied table may have either name; a head next to it is not read.
static void test_tied_tables_have_either_name(void **state)
{
    (void)state;
    static const struct {
        const char *renamed;
        bool opens;
    } cases[] = {{NULL, true}, {"lm_head.weight", true}, {"other.weight", false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct model_options options = rig_options();
        json_t *golden = golden_read("llama-tied");
        if (cases[i].renamed)
            tensor_change(golden, "model.embed_tokens.weight", NULL, cases[i].renamed);
        if (folder[0])
            folder_remove(folder);
        folder_make(folder);
        golden_folder_write(folder, golden, DTYPE_F32, 1);
        json_decref(golden);
        if (!cases[i].opens) {
            refused(&options, STATUS_INVALID, "the tensor model.embed_tokens.weight, which");
            continue;
        }
        struct model_plan *plan = plan_of(&options);
        assert_int_equal(plan->parts->weights.entries[0].shape.use, WEIGHT_TIED);
        model_plan_close(plan);
    }
}

struct told {
    uint64_t done, total;
    uint32_t calls;
};

static void tell(void *context, uint64_t done, uint64_t total)
{
    struct told *told = context;
    assert_true(done > told->done && done <= total);
    assert_true(told->calls == 0 || total == told->total);
    *told = (struct told){done, total, told->calls + 1};
}

static void test_parameters_are_counted(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "llama-tied", "bert-mean", "bert-rerank"};
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        uint64_t elements = 0;
        json_t *golden = golden_read(families[i]), *entry;
        size_t k, n;
        json_array_foreach(json_object_get(golden, "tensors"), k, entry)
        {
            const json_t *shape = json_array_get(entry, 1);
            uint64_t count = 1;
            for (n = 0; n < json_array_size(shape); n++)
                count *= (uint64_t)json_integer_value(json_array_get(shape, n));
            const char *name = json_string_value(json_array_get(entry, 0));
            bool pools = strstr(name, "pooler") != NULL && strcmp(families[i], "bert-mean") == 0;
            elements += pools ? 0 : count;
        }
        json_decref(golden);
        put(families[i], "{}");
        struct model_options options = rig_options();
        struct model_plan *plan = plan_of(&options);
        assert_int_equal(plan->facts.parameter_count, elements);
        struct told told = {0};
        struct model *model;
        assert_int_equal(model_open(&model, plan, plan->kv_bytes_min, tell, &told, &err),
                         STATUS_OK);
        assert_true(told.done == told.total && told.calls == plan->parts->weights.count);
        model_close(model);
        model_plan_close(plan);
    }
}

static int begin(void **state)
{
    (void)state;
    struct device_options options = {.threads = 1, .exact = true};
    log_level_set(LOG_ERROR);
    return device_cpu()->open(&device, &options, &err) == STATUS_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    folder_remove(folder);
    device_cpu()->close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_have_capacities),
        cmocka_unit_test(test_options_have_ranges),
        cmocka_unit_test(test_blocks_have_bytes),
        cmocka_unit_test(test_lengths_are_chosen),
        cmocka_unit_test(test_facts_of_kinds),
        cmocka_unit_test(test_facts_of_the_folder),
        cmocka_unit_test(test_attention_has_a_shape),
        cmocka_unit_test(test_nothing_of_a_model_overlaps),
        cmocka_unit_test(test_a_record_is_copied_without_gaps),
        cmocka_unit_test(test_kv_memory_holds_one_sequence),
        cmocka_unit_test(test_steps_lie_where_the_layout_says),
        cmocka_unit_test(test_answers_of_rerankers_are_two_tokens),
        cmocka_unit_test(test_tensors_of_a_wrong_shape_are_refused),
        cmocka_unit_test(test_tied_tables_have_either_name),
        cmocka_unit_test(test_parameters_are_counted),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
