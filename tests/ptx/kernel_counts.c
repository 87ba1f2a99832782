// SPDX-License-Identifier: Apache-2.0
// Runs each hot kernel on the device ptx, using the rows of gpu_ops, and small complete steps, and
// prints the counts, one line of JSON each. budgets.py compares them with budgets.txt;
// bench/gpu_model predicts times from them.
//
// kernel_counts [--lines] [--texts FOLDER]  adds counts per line of PTX; writes the PTX to FOLDER
#include "bench/gpu_ops.h"
#include "kernels/cuda/strip.h"
#include "tests/ptx/launch.h"
#include "tests/ptx/step_counts.h"
#include "tests/simt/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct device_api *weft_device_plugin(void);

static bool lines;

static void counts_print(struct bench *b, const struct bench_row *row)
{
    (void)b;
    char what[160];
    snprintf(what, sizeof what, "%s, %s", row->op, row->shape);
    ptx_counts_write(stdout, what, lines);
}

// Runs each case at two lengths: their difference is the cost of the additional tiles.
static void attention(struct bench *b)
{
    static const struct attn_shape llama = {4, 1, 128, 0, 0.0884f, 1, 1, 0};
    static const struct attn_shape slim = {7, 1, 64, 0, 0.125f, 1, 1, 0};
    static const struct attn_shape bert = {1, 1, 64, 0, 0.125f, 0, 0, 0};
    static const struct attn_bench cases[] = {
        {"decode, pages of 16, 512", llama, 1, 1, 512, 4, 0, false},
        {"decode, pages of 16, 1024", llama, 1, 1, 1024, 4, 0, false},
        {"decode, pages of 32, 512", llama, 1, 1, 512, 5, 0, false},
        {"decode, pages of 32, 1024", llama, 1, 1, 1024, 5, 0, false},
        {"decode, pages of 64, 512", llama, 1, 1, 512, 6, 0, false},
        {"decode, pages of 64, 1024", llama, 1, 1, 1024, 6, 0, false},
        {"prefill, pages of 16, 512", llama, 1, 32, 512, 4, 0, false},
        {"prefill, pages of 16, 1024", llama, 1, 32, 1024, 4, 0, false},
        {"prefill, pages of 64, 512", llama, 1, 32, 512, 6, 0, false},
        {"prefill, pages of 64, 1024", llama, 1, 32, 1024, 6, 0, false},
        {"decode, dim 64, 512", slim, 1, 1, 512, 6, 0, false},
        {"decode, dim 64, 1024", slim, 1, 1, 1024, 6, 0, false},
        {"decode, fp8, 512", llama, 1, 1, 512, 6, 0, true},
        {"decode, fp8, 1024", llama, 1, 1, 1024, 6, 0, true},
        {"prefill, fp8, 512", llama, 1, 32, 512, 6, 0, true},
        {"prefill, fp8, 1024", llama, 1, 32, 1024, 6, 0, true},
        {"decode, fp8, dim 64, 512", slim, 1, 1, 512, 6, 0, true},
        {"decode, fp8, dim 64, 1024", slim, 1, 1, 1024, 6, 0, true},
        {"encoder, dim 64, 128", bert, 1, 128, 128, 6, 0, false},
        {"encoder, dim 64, 256", bert, 1, 256, 256, 6, 0, false},
        {"three parts", llama, 1, 1, 2112, 6, 0, false},
        {"32 parts", llama, 1, 1, 32768, 6, 64, false}, // all parts but the last have no keys
        {"64 parts", llama, 1, 1, 65536, 6, 64, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        bench_attn(b, &cases[i]);
}

static void products(struct bench *b)
{
    static const uint32_t few[] = {1, 16, 32}, half[] = {32}, many[] = {64};
    static const struct bench_held held[] = {
        {DTYPE_BF16, WEIGHT_FLOATS},  {DTYPE_I8, WEIGHT_FLOATS},     {DTYPE_BF16, WEIGHT_FP8},
        {DTYPE_BF16, WEIGHT_FP8_128}, {DTYPE_BF16, WEIGHT_INT4_128}, {DTYPE_BF16, WEIGHT_INT4Z_128},
        {DTYPE_BF16, WEIGHT_MXFP4}};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        bench_gemm(b, &held[i], 16, 2048, few, 3);
        bench_gemm(b, &held[i], 16, 4096, few, 3);
        bench_gemm(b, &held[i], 128, 512, many, 1);
        bench_gemm(b, &held[i], 128, 1024, many, 1);
        bench_gemm(b, &held[i], 512, 512, half, 1); // tiles of 32 rows need some features
        bench_gemm(b, &held[i], 512, 1024, half, 1);
        bench_one_expert(b, &held[i], 128, 512, 32);
        bench_one_expert(b, &held[i], 128, 1024, 32);
    }
}

// Conversions of codes for the library's products, which the exact mode of this program has not.
static void strips(struct bench *b)
{
    static const struct bench_held held[] = {
        {DTYPE_I8, WEIGHT_FLOATS},     {DTYPE_BF16, WEIGHT_FP8},       {DTYPE_BF16, WEIGHT_FP8_128},
        {DTYPE_BF16, WEIGHT_INT4_128}, {DTYPE_BF16, WEIGHT_INT4Z_128}, {DTYPE_BF16, WEIGHT_MXFP4}};
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}};
    struct stream *stream = open_stream(b, &limits);
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        for (uint32_t k = 4096; k <= 8192; k += 4096) {
            char shape[40];
            struct weight w = held_weight(b, &held[i], 16, k, 0);
            size_t bytes = (size_t)16 * k * 2;
            struct strip_fill fill = {&w, device_alloc(b, bytes), DTYPE_BF16, 0, 16};
            need(strip_fill(stream, &fill), "strip");
            settle(b, stream);
            snprintf(shape, sizeof shape, "n 16 k %u", k);
            b->print(b, &(struct bench_row){.op = "strip", .shape = shape});
            b->api->memory_free(b->device, fill.to, bytes);
            b->api->memory_free(b->device, w.data, w.bytes);
        }
    b->api->stream_close(stream);
}

static void rows(struct bench *b)
{
    struct stream *stream = rows_stream(b);
    for (uint32_t count = 4; count <= 8; count += 4) {
        bench_norm(b, stream, count, 4096, NULL);
        bench_swiglu(b, stream, count, 14336, NULL);
        bench_qkv_post(b, stream, count);
    }
    b->api->stream_close(stream);
    bench_sample(b, 32768, 1);
}

// A product in the default mode whose input no op wrote as codes.
static void rounded_product(struct bench *b, struct stream *stream, const struct weight *weight,
                            uint32_t rows)
{
    uint32_t n = weight->shape.n, k = weight->shape.k;
    bool blocks = weight->shape.parts[0].format == WEIGHT_FP8_128;
    struct weight x = random_weight(b, rows, k, 1);
    void *y = device_alloc(b, (size_t)(rows + PRODUCT_ROWS_UNIT) * n * 2);
    char shape[64];
    need(b->api->ops->gemm(stream, &(struct gemm_args){.x_dtype = DTYPE_BF16,
                                                       .y_dtype = DTYPE_BF16,
                                                       .x = x.data,
                                                       .y = y,
                                                       .weight = weight,
                                                       .rows = rows,
                                                       .x_stride = k,
                                                       .y_stride = n}),
         "gemm");
    settle(b, stream);
    snprintf(shape, sizeof shape, "rows %u width %u", rows, k);
    b->print(b, &(struct bench_row){blocks ? "rounding fp8_128" : "rounding fp8", shape, 0, 0, 0});
    b->api->memory_free(b->device, x.data, x.bytes);
    b->api->memory_free(b->device, y, 0);
}

// Activations as FP8 codes, which only the default mode has.
static void activation_codes(struct bench *b)
{
    static const struct bench_held held[] = {{DTYPE_BF16, WEIGHT_FP8},
                                             {DTYPE_BF16, WEIGHT_FP8_128}};
    struct stream *stream = rows_stream(b);
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        struct weight up = held_weight(b, &held[i], 16, 4096, 1),
                      down = held_weight(b, &held[i], 16, 14336, 1);
        for (uint32_t count = 36; count <= 40; count += 4) {
            bench_norm(b, stream, count, 4096, &up);
            bench_swiglu(b, stream, count, 14336, &down);
            rounded_product(b, stream, &up, count);
        }
        b->api->memory_free(b->device, up.data, up.bytes);
        b->api->memory_free(b->device, down.data, down.bytes);
    }
    b->api->stream_close(stream);
}

static bool counts_open(struct bench *b, bool exact)
{
    struct error err = {0};
    struct device_options options = {.exact = exact};
    if (b->api->open(&b->device, &options, &err) != STATUS_OK) {
        printf("kernel_counts: %s\n", err.text);
        return false;
    }
    need(b->api->host_alloc(b->device, (void **)&b->done, 64, NULL), "host memory");
    b->signals = 0;
    return true;
}

static void counts_close(struct bench *b)
{
    b->api->host_free(b->device, b->done, 64);
    b->api->close(b->device);
}

int main(int argc, char **argv)
{
    struct bench b = {.api = weft_device_plugin(), .small = true, .print = counts_print};
    const char *texts = NULL;
    for (int i = 1; i < argc; i++) {
        lines = lines || strcmp(argv[i], "--lines") == 0;
        if (strcmp(argv[i], "--texts") == 0 && i + 1 < argc)
            texts = argv[++i];
    }
    if (!counts_open(&b, true))
        return 1;
    attention(&b);
    products(&b);
    strips(&b);
    rows(&b);
    counts_close(&b);
    if (!counts_open(&b, false))
        return 1;
    activation_codes(&b);
    if (texts)
        ptx_texts_write(texts);
    counts_close(&b);
    step_counts(b.api);
    if (simt_first_report()[0] != 0)
        printf("kernel_counts: %s\n", simt_first_report());
    return simt_first_report()[0] != 0;
}
