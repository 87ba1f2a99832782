// SPDX-License-Identifier: Apache-2.0
// A complete step of the dummy Qwen2.5-0.5B shape compared with its products alone, in one run:
// decode at batch 1, 16 and 32 (aim: at most 1.35 times the products), prefill of 512 tokens (at
// most 1.5 times). The products alone are the same model with every other op switched off, so both
// sides read the same weights. Medians of interleaved runs. With --shape, the cases of step_cases.c
// instead, compared with the floor at the given rates. With --model, a model of this folder or GGUF
// file instead of the dummy: decode at batch 1, 8 and 16, and a shorter prefill. On the cpu device
// decode at batch 1 is also compared with a pass that only reads the weights of the products.
//
// Usage: bench_step [bfloat16|int8|float32|float16|fp8] [threads] [--device cpu|cuda|simt]
//        [--library FILE] [--no-exact] [--no-overlap-kernels]
//        [--model PATH] [--batch ROWS: only decode at this batch, up to 32]
//        [--shape qwen2.5-0.5b|qwen3-8b|qwen3-30b-a3b|xlm-r-large]
//        [--cases N: of the shape, only the first N cases] [--ways LIST: ways.h]
//        [--ranks N: of the shape, split over N ranks; cuda: the first N GPUs]
//        [--copy GB/s] [--math TFLOP/s]
#include "bench/read_pass.h"
#include "bench/step_bench.h"
#include "bench/ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT = 128, STEPS = 8, PREFILL = 512, ROWS_MAX = 32, CONTEXT = 1024 };

#define SKIP(name)                                                                                 \
    static enum status skip_##name(struct stream *stream, const struct name##_args *args)          \
    {                                                                                              \
        (void)stream;                                                                              \
        (void)args;                                                                                \
        return STATUS_OK;                                                                          \
    }
OP_LIST(SKIP)
#undef SKIP

// The third op table times each op; on an asynchronous device (cuda) these are launch times.
enum op_index {
#define INDEX(name) OP_INDEX_##name,
    OP_LIST(INDEX)
#undef INDEX
        OP_COUNT
};

static const struct op_table *timed_ops;
static double spent_ms[OP_COUNT];

#define TIME(name)                                                                                 \
    static enum status time_##name(struct stream *stream, const struct name##_args *args)          \
    {                                                                                              \
        double start = now_ms();                                                                   \
        enum status status = timed_ops->name(stream, args);                                        \
        spent_ms[OP_INDEX_##name] += now_ms() - start;                                             \
        return status;                                                                             \
    }
OP_LIST(TIME)
#undef TIME

static struct read_pass reads; // weights of one step's products; count 0: not readable

static enum status listed_gemm(struct stream *stream, const struct gemm_args *args)
{
    (void)stream;
    read_pass_add(&reads, args->weight);
    return STATUS_OK;
}

static void products_open(struct bench *b, const struct step_args *args)
{
    timed_ops = b->all_ops;
#define FIELD(name)                                                                                \
    b->products.name = skip_##name;                                                                \
    b->timed.name = time_##name;
    OP_LIST(FIELD)
#undef FIELD
    b->products.gemm = b->all_ops->gemm;
    struct model_options options = bench_options(args->dtype, CONTEXT, ROWS_MAX, PREFILL);
    options.load_dummy = !args->model;
    double start = now_ms();
    bench_model_open(b, args->model ? NULL : shape_find("qwen2.5-0.5b"), args->model, &options,
                     CONTEXT * ROWS_MAX);
    printf("loaded in %.2f s\n", (now_ms() - start) / 1e3);
}

static void row_add(struct bench *b, uint32_t row, uint32_t q_len, uint32_t kv_len, bool decode)
{
    const struct model_facts *f = model_facts(b->model);
    struct batch *batch = b->batch;
    uint32_t first = (kv_len - q_len + f->block_tokens - 1) / f->block_tokens;
    for (uint32_t i = first; i * f->block_tokens < kv_len; i++)
        batch_changes(batch)[batch->change_count++] =
            (struct batch_change){row, i, row * f->blocks_per_sequence_max + i};
    if (kv_len == q_len) {
        struct batch_new_sequence *admit = &batch_new_sequences(batch)[batch->new_sequence_count++];
        *admit = (struct batch_new_sequence){.slot = row};
        admit->params = (struct sample_params){
            .top_p = 1, .repetition = 1, .flags = SAMPLE_IGNORE_END, .penalty_row = STEP_NO_ROW};
    }
    batch_rows(batch)[batch->row_count++] = (struct batch_row){
        row,          q_len,      kv_len,        decode ? BATCH_TOKEN_FED : batch->token_count,
        STEP_NO_TYPE, WANT_TOKEN, BATCH_NO_MASK, 0};
    for (uint32_t i = 0; i < q_len && !decode; i++)
        batch_tokens(batch)[batch->token_count++] = (int32_t)((i * 7919 + row) % f->vocab);
    batch->decode_count += decode;
    batch->computed_count += q_len;
}

static double step_ms(struct bench *b)
{
    struct error err;
    struct model_output out;
    double start = now_ms();
    must(model_launch(b->model, b->batch, &err), &err);
    must(model_sample(b->model, NULL, 0, &err), &err);
    must(model_collect(b->model, &out, UINT64_MAX, &err), &err);
    return now_ms() - start;
}

static void step_report(const char *what, uint32_t tokens, double *whole, double *products,
                        uint32_t count)
{
    double a = median(whole, count);
    double b = median(products, count);
    printf("%-12s %8.2f ms %8.2f ms  ratio %.2f  %8.1f tokens/s\n", what, a, b, a / b,
           tokens * 1e3 / a);
    fflush(stdout);
}

// Runs the batch once more, op by op, and prints ops over one percent of the step.
static void shares_print(struct bench *b)
{
    static const char *const names[] = {
#define NAME(name) #name,
        OP_LIST(NAME)
#undef NAME
    };
    memset(spent_ms, 0, sizeof spent_ms);
    b->api.ops = &b->timed;
    double whole = step_ms(b);
    b->api.ops = b->all_ops;
    printf("            ");
    for (int i = 0; i < OP_COUNT; i++)
        if (spent_ms[i] > 0.01 * whole)
            printf(" %s %.1f ms", names[i], spent_ms[i]);
    printf("\n");
}

static void prefill_launch(struct bench *b, uint32_t rows, uint32_t tokens)
{
    for (uint32_t row = 0; row < rows; row++) {
        batch_clear(b->batch, b->step++);
        row_add(b, row, tokens, tokens, false);
        step_ms(b);
    }
}

static void decode_rows_add(struct bench *b, uint32_t rows, uint32_t kv_len)
{
    batch_clear(b->batch, b->step++);
    for (uint32_t row = 0; row < rows; row++)
        row_add(b, row, 1, kv_len, true);
}

// Lists the weights that the products of a decode step read.
static void reads_list(struct bench *b, uint32_t threads)
{
    struct op_table listed = b->products;
    listed.gemm = listed_gemm;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    reads.threads = threads > 0 ? threads : (uint32_t)(processors < 64 ? processors : 64);
    prefill_launch(b, 1, PROMPT);
    decode_rows_add(b, 1, PROMPT + 1);
    b->api.ops = &listed;
    step_ms(b);
    b->api.ops = b->all_ops;
}

static void decode_bench(struct bench *b, uint32_t rows)
{
    double whole[STEPS], products[STEPS], read[STEPS];
    b->api.ops = b->all_ops;
    prefill_launch(b, rows, PROMPT);
    for (uint32_t i = 0; i < 2 * STEPS; i++) {
        decode_rows_add(b, rows, PROMPT + 1 + i / 2);
        b->api.ops = i % 2 ? &b->products : b->all_ops;
        *(i % 2 ? &products[i / 2] : &whole[i / 2]) = step_ms(b);
        if (i % 2 && rows == 1 && reads.count > 0)
            read[i / 2] = read_pass_ms(&reads);
    }
    char what[32];
    snprintf(what, sizeof what, "decode x %u", rows);
    step_report(what, rows, whole, products, STEPS);
    if (rows == 1 && reads.count > 0) {
        double least = median(read, STEPS), ms = median(products, STEPS);
        printf("             reading their %.3f GB: %.2f ms, %.1f GB/s; products take %.2f times\n",
               (double)reads.bytes / 1e9, least, (double)reads.bytes / least / 1e6, ms / least);
    }
    shares_print(b);
}

static void prefill_bench(struct bench *b, uint32_t tokens, uint32_t steps)
{
    double whole[STEPS], products[STEPS];
    for (uint32_t i = 0; i < 2 * steps; i++) {
        batch_clear(b->batch, b->step++);
        row_add(b, 0, tokens, tokens, false);
        b->api.ops = i % 2 ? &b->products : b->all_ops;
        *(i % 2 ? &products[i / 2] : &whole[i / 2]) = step_ms(b);
    }
    char what[32];
    snprintf(what, sizeof what, "prefill %u", tokens);
    step_report(what, tokens, whole, products, steps);
    shares_print(b);
}

static void products_bench(struct bench *b, const struct step_args *args)
{
    products_open(b, args);
    struct device_facts facts;
    b->api.facts(b->device, &facts);
    const struct model_facts *f = model_facts(b->model);
    printf("%s, %s, %s\n%-12s %11s %11s\n", facts.name,
           f->formats[0] != '\0' ? f->formats : dtype_name(f->dtype),
           args->model ? args->model : "dummy Qwen2.5-0.5B", "", "step", "products");
    if (strcmp(args->device, "cpu") == 0)
        reads_list(b, args->threads);
    if (args->batch > 0) {
        decode_bench(b, args->batch);
        return;
    }
    decode_bench(b, 1);
    if (args->model)
        decode_bench(b, 8);
    decode_bench(b, 16);
    if (!args->model)
        decode_bench(b, 32);
    prefill_bench(b, args->model ? PREFILL / 4 : PREFILL, args->model ? 2 : STEPS);
}

static void word_read(struct step_args *args, const char *word)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(word, dtype_name((enum dtype)i)) == 0)
            args->dtype = i;
    if (strcmp(word, "fp8") == 0) // weights in FP8; keys and values stay
        args->dtype = MODEL_FP8;
    if (word[0] >= '0' && word[0] <= '9')
        args->threads = (uint32_t)strtoul(word, NULL, 10);
}

static bool args_read(struct step_args *args, int argc, char **argv)
{
    *args = (struct step_args){.device = "cpu", .dtype = -1, .exact = true};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--no-overlap-kernels") == 0) {
            args->serial = true;
            continue;
        }
        if (strcmp(name, "--no-exact") == 0) {
            args->exact = false;
            continue;
        }
        if (name[0] != '-') {
            word_read(args, name);
            continue;
        }
        const char *value = ++i < argc ? argv[i] : NULL;
        if (!value)
            return false;
        if (strcmp(name, "--device") == 0)
            args->device = value;
        else if (strcmp(name, "--library") == 0)
            args->library = value;
        else if (strcmp(name, "--shape") == 0)
            args->shape = value;
        else if (strcmp(name, "--model") == 0)
            args->model = value;
        else if (strcmp(name, "--batch") == 0)
            args->batch = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(name, "--cases") == 0)
            args->cases = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(name, "--ranks") == 0)
            args->ranks = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(name, "--copy") == 0)
            args->copy_rate = strtod(value, NULL) * 1e9;
        else if (strcmp(name, "--math") == 0)
            args->math_rate = strtod(value, NULL) * 1e12;
        else if (strcmp(name, "--ways") != 0 || !ways_read(value, &args->ways))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct step_args args;
    if (!args_read(&args, argc, argv)) {
        fputs("bench_step: see the head of bench/bench_step.c for its arguments\n", stderr);
        return 2;
    }
    const struct step_shape *shape = args.shape ? shape_find(args.shape) : NULL;
    if ((args.shape && !shape) || args.batch > ROWS_MAX || args.ranks > RANKS_MAX)
        return 2;
    if (!bench_device_open(&bench, &args))
        return 77;
    if (shape)
        cases_run(&bench, shape, &args);
    else
        products_bench(&bench, &args);
    bench_close(&bench);
    return 0;
}
