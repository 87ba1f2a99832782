// SPDX-License-Identifier: Apache-2.0
// The steps of a served model by name: decode, prefill, both in one step, embeddings and rerank;
// one row of JSON each, flushed as soon as it is known. If the device can, the next step is
// launched before the previous result is read, as the engine does; a row contains the median time
// between two results. Contexts are not computed for each case: the KV blocks are filled once with
// those of random prompts, which the rows then read.
#include "bench/step_bench.h"

#include "base/arena.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM = 3, REPEATS = 12, MIXED_REPEATS = 5, PASSES = 3, SPARE = 64, BLOCK = 64 };
static const double FILL_MS = 15000; // most time for filling the KV blocks

// kv_heads, dim and positions as published; the `tiny` shapes run the same code under the emulator.
static const struct step_shape shapes[] = {
    {"qwen2.5-0.5b", "Qwen2ForCausalLM", 151936, 896, 24, 14, 2, 64, 4864, 32768, true, false, 8192,
     1, 1, 0, 0},
    {"qwen3-8b", "Qwen3ForCausalLM", 151936, 4096, 36, 32, 8, 128, 12288, 40960, false, false, 8192,
     1, 1, 0, 0},
    {"qwen3-30b-a3b", "Qwen3MoeForCausalLM", 151936, 2048, 48, 32, 4, 128, 768, 40960, false, false,
     8192, 1, 1, 128, 8},
    {"xlm-r-large", "XLMRobertaModel", 250002, 1024, 24, 16, 16, 64, 4096, 514, false, true, 65536,
     1, 1, 0, 0},
    {"tiny", "Qwen3ForCausalLM", 512, 64, 2, 4, 2, 16, 96, 1024, false, false, 256, 32, 32, 0, 0},
    {"tiny-mixture", "Qwen3MoeForCausalLM", 512, 64, 2, 4, 2, 16, 32, 1024, false, false, 256, 32,
     32, 32, 2},
    {"tiny-encoder", "XLMRobertaModel", 512, 64, 2, 4, 4, 16, 96, 514, false, true, 512, 64, 8, 0,
     0},
};

// The most useful cases first: if time runs out, the last ones are lost.
static const struct step_case generator_cases[] = {
    {"decode 1 at 1024", 1, 1024, 0, 0},     {"decode 64 at 1024", 64, 1024, 0, 0},
    {"decode 256 at 1024", 256, 1024, 0, 0}, {"decode 64 at 4096", 64, 4096, 0, 0},
    {"prefill 8192", 0, 0, 1, 8192},         {"decode 128 and 1024 more", 128, 1024, 1, 1024},
    {"prefill 4 x 2048", 0, 0, 4, 2048},     {"decode 8 at 1024", 8, 1024, 0, 0},
    {"decode 32 at 1024", 32, 1024, 0, 0},   {"decode 1 at 8192", 1, 8192, 0, 0},
    {"decode 32 at 8192", 32, 8192, 0, 0},   {"decode 128 at 1024", 128, 1024, 0, 0},
};
static const struct step_case encoder_cases[] = {
    {"embeddings 512 x 128", 0, 0, 512, 128},
    {"embeddings 64 x 512", 0, 0, 64, 512},
    {"rerank 1000 x 300", 0, 0, 1000, 300},
};

double now_ms(void)
{
    return clock_s() * 1e3;
}

void must(enum status status, const struct error *err)
{
    check(status == STATUS_OK, "%s", err->text);
}

static int doubles_order(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, doubles_order);
    return values[count / 2];
}

const struct step_shape *shape_find(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    printf("bench_step: no shape '%s'; there are qwen2.5-0.5b, qwen3-8b, "
           "qwen3-30b-a3b, xlm-r-large\n",
           name);
    return NULL;
}

// Prints what a start chose, among others how products are computed.
static void note_print(uint32_t index, const char *line)
{
    (void)index;
    printf("note: %s\n", line);
}

bool bench_device_open(struct bench *b, const struct step_args *args)
{
    const struct device_api *api = device_cpu();
    struct device_options options = {.threads = args->threads,
                                     .exact = args->exact,
                                     .serial = args->serial,
                                     .ways = args->ways,
                                     .note = note_print};
    struct error err;
    enum status status = STATUS_OK;
    if (strcmp(args->device, "cpu") != 0)
        status = device_plugin_open(&api, args->device, args->library, &err);
    if (status == STATUS_OK)
        status = api->open(&b->device, &options, &err);
    if (status != STATUS_OK) {
        printf("bench_step: skipped: %s\n", err.text);
        return false;
    }
    b->api = *api;
    b->all_ops = api->ops;
    return true;
}

// Opens the ranks of the device for a model. Exits with 77 if there are fewer GPUs.
static void ranks_open(struct bench *b, struct model_options *model, const struct step_args *args)
{
    struct error err;
    for (uint32_t r = 0; r < args->ranks; r++) {
        struct device_options options = {.index = r,
                                         .ranks = args->ranks,
                                         .parent = b->device,
                                         .exact = args->exact,
                                         .serial = args->serial,
                                         .ways = args->ways,
                                         .note = r == 0 ? note_print : NULL};
        if (b->api.open(&b->ranks[r], &options, &err) == STATUS_OK)
            continue;
        printf("bench_step: skipped: %s\n", err.text);
        exit(77);
    }
    if (args->ranks > 0) {
        model->devices = b->ranks;
        model->share.tp_size = args->ranks;
    }
}

static void config_write(const char *path, const struct step_shape *s)
{
    FILE *file = fopen(path, "w");
    check(file, "cannot write %s", path);
    fprintf(file,
            "{\"architectures\":[\"%s\"],\"vocab_size\":%u,\"hidden_size\":%u,"
            "\"num_hidden_layers\":%u,\"num_attention_heads\":%u,\"num_key_value_heads\":%u,"
            "\"head_dim\":%u,\"intermediate_size\":%u,\"max_position_embeddings\":%u,",
            s->architecture, s->vocab, s->hidden, s->layers, s->heads, s->kv_heads, s->dim,
            s->intermediate, s->positions);
    if (s->experts > 0)
        fprintf(file,
                "\"num_experts\":%u,\"num_experts_per_tok\":%u,\"moe_intermediate_size\":%u,"
                "\"norm_topk_prob\":true,",
                s->experts, s->chosen, s->intermediate);
    fprintf(file,
            "\"rope_theta\":1000000.0,\"tie_word_embeddings\":%s,\"torch_dtype\":\"bfloat16\","
            "\"eos_token_id\":2,\"pad_token_id\":1,\"type_vocab_size\":1}",
            s->tied ? "true" : "false");
    fclose(file);
}

struct model_options bench_options(int dtype, uint32_t window, uint32_t rows, uint32_t tokens)
{
    return (struct model_options){.dtype = dtype,
                                  .kv_dtype = -1,
                                  .max_model_len = window,
                                  .max_num_seqs = rows,
                                  .max_num_batched_tokens = tokens,
                                  .load_dummy = true};
}

// Returns the bytes for KV blocks that fit next to the weights, at most `kv`. Exits with 77 if not
// even one sequence fits.
static uint64_t kv_fitting(const struct bench *b, uint64_t kv)
{
    struct device_facts facts;
    uint32_t ranks = b->plan->facts.ranks;
    b->api.facts(b->device, &facts);
    uint64_t own = model_plan_bytes(b->plan, 0), least = own + b->plan->kv_bytes_min / ranks;
    if (facts.memory_available < least) {
        printf("bench_step: skipped: the model takes %.1f GB, of which %.1f GB are free\n",
               (double)least / 1e9, (double)facts.memory_available / 1e9);
        exit(77);
    }
    uint64_t most = (facts.memory_available - own) * ranks;
    return kv < most ? kv : most;
}

void bench_model_open(struct bench *b, const struct step_shape *shape, const char *folder,
                      const struct model_options *options, uint64_t kv_tokens)
{
    char dummy[] = "/tmp/weft-bench-XXXXXX";
    char path[64];
    struct error err;
    if (shape) {
        check(mkdtemp(dummy), "no folder %s", dummy);
        snprintf(path, sizeof path, "%s/config.json", dummy);
        config_write(path, shape);
        folder = dummy;
    }
    struct device *device = options->devices ? options->devices[0] : b->device;
    must(model_plan_open(&b->plan, folder, &b->api, device, options, &err), &err);
    const struct model_facts *f = &b->plan->facts;
    uint64_t kv = 0;
    if (f->block_tokens > 0)
        kv = (kv_tokens + f->block_tokens - 1) / f->block_tokens * f->block_bytes;
    if (b->fewer_blocks)
        kv = kv_fitting(b, kv);
    kv = kv > b->plan->kv_bytes_min ? kv : b->plan->kv_bytes_min;
    must(model_open(&b->model, b->plan, kv, NULL, NULL, &err), &err);
    if (shape) {
        unlink(path);
        rmdir(dummy);
    }
    b->batch = heap_alloc(batch_bytes(&model_facts(b->model)->limits));
    batch_init(b->batch, &model_facts(b->model)->limits);
}

void bench_close(struct bench *b)
{
    heap_free(b->batch);
    model_close(b->model);
    model_plan_close(b->plan);
    for (uint32_t r = 0; r < RANKS_MAX && b->ranks[r]; r++)
        b->api.close(b->ranks[r]);
    b->api.close(b->device);
}

static void step_launch(struct bench *b)
{
    struct error err;
    must(model_launch(b->model, b->batch, &err), &err);
    double start = now_ms();
    must(model_sample(b->model, NULL, 0, &err), &err);
    b->sample_ms = now_ms() - start;
}

void bench_collect(struct bench *b)
{
    struct error err;
    struct model_output out;
    must(model_collect(b->model, &out, UINT64_MAX, &err), &err);
}

// Admits a row: blocks first, first + 1, ... are its sequence from the start.
static void row_admit(struct bench *b, uint32_t row, uint32_t first, uint32_t blocks)
{
    struct batch *batch = b->batch;
    for (uint32_t i = 0; i < blocks; i++)
        batch_changes(batch)[batch->change_count++] = (struct batch_change){row, i, first + i};
    struct batch_new_sequence *new = &batch_new_sequences(batch)[batch->new_sequence_count++];
    *new = (struct batch_new_sequence){.slot = row};
    new->params = (struct sample_params){.temperature = b->temperature,
                                         .top_p = b->temperature > 0 ? 0.9f : 1,
                                         .repetition = 1,
                                         .flags = SAMPLE_IGNORE_END,
                                         .penalty_row = STEP_NO_ROW};
}

// Adds a row of the last q_len of kv_len tokens; decode rows use the token that the device sampled.
static void row_add(struct bench *b, uint32_t row, uint32_t q_len, uint32_t kv_len, bool decode)
{
    struct batch *batch = b->batch;
    const struct model_facts *f = model_facts(b->model);
    batch_rows(batch)[batch->row_count++] =
        (struct batch_row){row,           q_len,
                           kv_len,        decode ? BATCH_TOKEN_FED : batch->token_count,
                           STEP_NO_TYPE,  f->kind == MODEL_GENERATOR ? WANT_TOKEN : WANT_VECTOR,
                           BATCH_NO_MASK, 0};
    for (uint32_t i = 0; i < q_len && !decode; i++)
        batch_tokens(batch)[batch->token_count++] =
            (int32_t)(3 + (i * 7919u + row * 31u) % (f->vocab - 3));
    batch->decode_count += decode;
    batch->computed_count += q_len;
}

static uint32_t blocks_of(uint32_t tokens)
{
    return (tokens + BLOCK - 1) / BLOCK;
}

// Fills all KV blocks, or as many as the time allows, with those of random prompts.
static void blocks_fill(struct bench *b, const struct step_shape *shape)
{
    const struct model_facts *f = model_facts(b->model);
    uint32_t each = blocks_of(shape->tokens_max);
    uint32_t at = 0;
    double start = now_ms();
    for (; at + each <= f->block_count && now_ms() - start < FILL_MS; at += each) {
        batch_clear(b->batch, b->step++);
        row_admit(b, 0, at, each);
        row_add(b, 0, shape->tokens_max, shape->tokens_max, false);
        step_launch(b);
        bench_collect(b);
    }
    printf("{\"filled_blocks\":%u,\"blocks\":%u,\"ms\":%.0f}\n", at, f->block_count,
           now_ms() - start);
    fflush(stdout);
}

// Makes the decode rows resident at their context length, each with its last token.
void decodes_admit(struct bench *b, const struct step_case *c)
{
    const struct step_limits *limits = &model_facts(b->model)->limits;
    uint32_t each = blocks_of(c->context + SPARE);
    for (uint32_t row = 0; row < c->decodes;) {
        batch_clear(b->batch, b->step++);
        for (; row < c->decodes && b->batch->new_sequence_count < limits->new_sequences_max &&
               b->batch->change_count + each <= limits->changes_max;
             row++) {
            row_admit(b, row, b->share_blocks ? 0 : row * each, each);
            row_add(b, row, 1, c->context, false);
        }
        step_launch(b);
        bench_collect(b);
    }
}

void generator_step(struct bench *b, const struct step_case *c, uint32_t index)
{
    uint32_t taken = c->decodes * blocks_of(c->context + SPARE);
    uint32_t each = blocks_of(c->length);
    batch_clear(b->batch, b->step++);
    for (uint32_t row = 0; row < c->decodes; row++)
        row_add(b, row, 1, c->context + 1 + index, true);
    for (uint32_t i = 0; i < c->prefills; i++) {
        row_admit(b, c->decodes + i, taken + i * each, each);
        row_add(b, c->decodes + i, c->length, c->length, false);
    }
    step_launch(b);
}

// Returns the median milliseconds from one result to the next; the next step is launched before a
// result is read.
static double generator_case(struct bench *b, const struct step_case *c)
{
    double times[WARM + REPEATS];
    bool ahead = model_facts(b->model)->steps_in_flight > 0;
    uint32_t count = WARM + (c->prefills > 0 ? MIXED_REPEATS : REPEATS);
    decodes_admit(b, c);
    if (ahead)
        generator_step(b, c, 0);
    double last = now_ms();
    for (uint32_t i = 0; i < count; i++) {
        generator_step(b, c, i + ahead);
        bench_collect(b);
        double now = now_ms();
        times[i] = now - last;
        last = now;
    }
    if (ahead)
        bench_collect(b);
    return median(times + WARM, count - WARM);
}

// Runs all texts in as few steps as possible. Returns the milliseconds.
static double encoder_pass(struct bench *b, const struct step_case *c)
{
    const struct model_facts *f = model_facts(b->model);
    uint32_t most = f->limits.tokens_max / c->length;
    uint32_t flying = 0;
    most = most < f->limits.rows_max ? most : f->limits.rows_max;
    double start = now_ms();
    for (uint32_t at = 0; at < c->prefills;) {
        batch_clear(b->batch, b->step++);
        for (uint32_t row = 0; row < most && at < c->prefills; row++, at++)
            row_add(b, row, c->length, c->length, false);
        step_launch(b);
        if (++flying > f->steps_in_flight) {
            bench_collect(b);
            flying--;
        }
    }
    while (flying-- > 0)
        bench_collect(b);
    return now_ms() - start;
}

static double encoder_case(struct bench *b, const struct step_case *c)
{
    double times[PASSES];
    encoder_pass(b, c);
    for (uint32_t i = 0; i < PASSES; i++)
        times[i] = encoder_pass(b, c);
    return median(times, PASSES);
}

// Returns true if the weights of the layers' products are FP8 codes.
static bool held_fp8(const struct model_facts *f)
{
    return strcmp(f->formats, "FP8") == 0;
}

// Counts the bytes that must be read (weights, keys and values) and the operations that must be
// done.
static void work_count(double *bytes, double *flops, const struct bench *b,
                       const struct step_shape *s, const struct step_case *c)
{
    const struct model_facts *f = model_facts(b->model);
    double tokens = c->decodes + (double)c->prefills * c->length;
    double sampled = s->encoder ? 0 : c->decodes + c->prefills;
    double each = (s->encoder ? 2.0 : 3.0) * s->hidden * s->intermediate;
    double attention = (double)s->hidden * s->dim * (2 * s->heads + 2 * s->kv_heads);
    double layer = attention + each,
           read = layer;  // weights that a token uses, and all that are read
    if (s->experts > 0) { // tokens choose uniformly
        double missed = pow(1 - (double)s->chosen / s->experts, tokens);
        attention += (double)s->hidden * s->experts;
        layer = attention + each * s->chosen;
        read = attention + each * s->experts * (1 - missed);
    }
    double head = s->encoder ? 0 : (double)s->vocab * s->hidden;
    double pairs = (double)c->decodes * c->context +
                   (double)c->prefills * c->length * c->length * (s->encoder ? 1 : 0.5);
    double kv_token = f->block_tokens > 0 ? (double)f->block_bytes / f->block_tokens : 0;
    double element = (double)dtype_bytes(f->dtype);
    *bytes = read * s->layers * (held_fp8(f) ? 1 : element) + head * element +
             kv_token * c->decodes * c->context;
    *flops = 2 * layer * s->layers * tokens + 2 * head * sampled +
             4.0 * s->heads * s->dim * s->layers * pairs;
}

static void case_print(const struct bench *b, const struct step_shape *s,
                       const struct step_args *args, const struct step_case *c, double ms)
{
    double bytes, flops;
    work_count(&bytes, &flops, b, s, c);
    double ranks = args->ranks > 0 ? args->ranks : 1;
    double by_bytes = args->copy_rate > 0 ? bytes / (args->copy_rate * ranks) * 1e3 : 0;
    double by_flops = args->math_rate > 0 ? flops / (args->math_rate * ranks) * 1e3 : 0;
    double floor = by_bytes > by_flops ? by_bytes : by_flops;
    printf("{\"step\":\"%s\",\"shape\":\"%s\",\"exact\":%s,\"rows\":%u,\"ms\":%.3f,"
           "\"tokens_per_s\":%.1f,",
           c->name, s->name, args->exact ? "true" : "false", c->decodes + c->prefills, ms,
           (c->decodes + (double)c->prefills * c->length) * 1e3 / ms);
    printf("\"floor_ms\":%.3f,\"of_floor\":%.3f,\"GBps\":%.1f,\"TFLOPs\":%.2f}\n", floor,
           floor / ms, bytes / ms * 1e-6, flops / ms * 1e-9);
    fflush(stdout);
}

static struct step_case case_scaled(const struct step_case *c, const struct step_shape *s)
{
    struct step_case out = *c;
    out.decodes = (c->decodes + s->fewer_rows - 1) / s->fewer_rows;
    out.prefills = s->encoder ? (c->prefills + s->fewer_rows - 1) / s->fewer_rows : c->prefills;
    out.context /= s->shorter;
    out.length /= s->shorter;
    return out;
}

static uint32_t case_blocks(const struct step_case *c)
{
    return c->decodes * blocks_of(c->context + SPARE) + c->prefills * blocks_of(c->length);
}

void cases_run(struct bench *b, const struct step_shape *shape, const struct step_args *args)
{
    const struct step_case *cases = shape->encoder ? encoder_cases : generator_cases;
    size_t count = shape->encoder ? sizeof encoder_cases / sizeof encoder_cases[0]
                                  : sizeof generator_cases / sizeof generator_cases[0];
    uint32_t blocks = 0;
    count = args->cases > 0 && args->cases < count ? args->cases : count;
    for (size_t i = 0; i < count; i++) {
        struct step_case c = case_scaled(&cases[i], shape);
        uint32_t need = case_blocks(&c);
        blocks = need > blocks ? need : blocks;
    }
    struct model_options options =
        bench_options(args->dtype, shape->encoder ? 0 : shape->tokens_max + SPARE,
                      256 / shape->fewer_rows, shape->tokens_max);
    options.block_size = BLOCK;
    ranks_open(b, &options, args);
    double start = now_ms();
    b->fewer_blocks = true;
    bench_model_open(b, shape, NULL, &options, (uint64_t)blocks * BLOCK);
    struct device_facts facts;
    b->api.facts(b->device, &facts);
    printf("{\"card\":\"%s\",\"shape\":\"%s\",\"dtype\":\"%s\",\"exact\":%s,\"serial\":%s,"
           "\"ways\":%u,\"ranks\":%u,\"open_ms\":%.0f,\"left_mb\":%.0f}\n",
           facts.name, shape->name,
           held_fp8(model_facts(b->model)) ? "fp8" : dtype_name(model_facts(b->model)->dtype),
           args->exact ? "true" : "false", args->serial ? "true" : "false", args->ways,
           model_facts(b->model)->ranks, now_ms() - start, (double)facts.memory_available * 1e-6);
    if (!shape->encoder)
        blocks_fill(b, shape);
    for (size_t i = 0; i < count; i++) {
        struct step_case c = case_scaled(&cases[i], shape);
        if (!shape->encoder && case_blocks(&c) > model_facts(b->model)->block_count) {
            printf("%s: left out: its keys and values do not fit\n", c.name);
            continue;
        }
        case_print(b, shape, args, &c,
                   shape->encoder ? encoder_case(b, &c) : generator_case(b, &c));
    }
}
