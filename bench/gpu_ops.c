// SPDX-License-Identifier: Apache-2.0
// Times the cuda device's ops on a real GPU, each compared with its floor; flushes row by row. Uses
// only the device table. Times are wall time over a queue of launches that ends in one wait, so
// launch gaps count if they are not hidden; with `graphs`, a row's launches are a graph, and its
// time is the median of several runs. Weights and caches rotate over several copies, together
// larger than the L2 cache. Random data throughout.
//
// gpu_ops exact|fast [graphs|gaps] [small] [--ways LIST]
//     graphs: products, attention and experts only, as graphs; gaps: only the gaps of launches;
//     small: tiny shapes, to test the program itself; LIST: ways.h
#include "bench/gpu_ops.h"

#include "base/clock.h"
#include "bench/ways.h"

#include <stdio.h>
#include <string.h>

const struct device_api *weft_device_plugin(void);

// The floor is the time of the bytes at the copy rate of this run, or of the operations at the best
// rate of its products, whichever is longer.
static void print_row(struct bench *b, const struct bench_row *row)
{
    double floor = b->copy_rate > 0 ? row->bytes / b->copy_rate : 0;
    if (row->flops > 0 && row->flops / row->seconds > b->math_rate)
        b->math_rate = row->flops / row->seconds;
    if (b->math_rate > 0 && row->flops / b->math_rate > floor)
        floor = row->flops / b->math_rate;
    printf("{\"op\":\"%s\",\"shape\":\"%s%s\",\"us\":%.2f,\"floor_us\":%.2f,\"GBps\":%.1f,"
           "\"TFLOPs\":%.2f}\n",
           row->op, b->prefix ? b->prefix : "", row->shape, row->seconds * 1e6, floor * 1e6,
           row->bytes / row->seconds * 1e-9, row->flops / row->seconds * 1e-12);
    fflush(stdout);
}

static void bench_copy(struct bench *b)
{
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = 1};
    struct stream *stream = open_stream(b, &limits);
    uint32_t width = 8192;
    uint32_t rows = b->small ? 4 : 65536;
    size_t bytes = (size_t)rows * width * 2;
    struct swiglu_args args = {.act = DTYPE_BF16,
                               .in = device_alloc(b, 2 * bytes),
                               .out = device_alloc(b, bytes),
                               .rows = rows,
                               .width = width};
    need(b->api->ops->swiglu(stream, &args), "swiglu");
    settle(b, stream);
    double start = clock_s();
    for (uint32_t i = 0; i < b->repeats; i++)
        need(b->api->ops->swiglu(stream, &args), "swiglu");
    settle(b, stream);
    double seconds = (clock_s() - start) / b->repeats;
    b->copy_rate = 3.0 * (double)bytes / seconds;
    b->print(b, &(struct bench_row){"swiglu", "large: stands for the copy rate", seconds,
                                    3.0 * (double)bytes, 0});
    b->api->memory_free(b->device, (void *)(uintptr_t)args.in, 2 * bytes);
    b->api->memory_free(b->device, args.out, bytes);
    b->api->stream_close(stream);
}

static void bench_all_attn(struct bench *b)
{
    static const struct attn_shape llama = {32, 8, 128, 0, 0.0884f, 1, 1, 0};
    static const struct attn_shape bert = {16, 16, 64, 0, 0.125f, 0, 0, 0};
    const struct attn_bench cases[] = {
        {"prefill 1 x 8192, dim 128, group 4", llama, 1, 8192, 8192, 6, 0, false},
        {"prefill 4 x 2048, dim 128, group 4", llama, 4, 2048, 2048, 6, 0, false},
        {"prefill 16 x 512, dim 128, group 4", llama, 16, 512, 512, 6, 0, false},
        {"chunk 1024 of 16384, dim 128, group 4", llama, 1, 1024, 16384, 6, 0, false},
        {"encoder 64 x 512, dim 64", bert, 64, 512, 512, 6, 0, false},
        {"decode 1 x 32768", llama, 1, 1, 32768, 6, 0, false},
        {"decode 8 x 8192", llama, 8, 1, 8192, 6, 0, false},
        {"decode 64 x 4096", llama, 64, 1, 4096, 6, 0, false},
        {"decode 256 x 1024", llama, 256, 1, 1024, 6, 0, false},
        {"decode 1 x 1024", llama, 1, 1, 1024, 6, 0, false},
        {"decode 1 x 8192", llama, 1, 1, 8192, 6, 0, false},
        {"decode 32 x 1024", llama, 32, 1, 1024, 6, 0, false},
        {"decode 32 x 8192", llama, 32, 1, 8192, 6, 0, false},
        {"decode 256 x 8192", llama, 256, 1, 8192, 6, 0, false},
        {"fp8 prefill 1 x 8192, dim 128, group 4", llama, 1, 8192, 8192, 6, 0, true},
        {"fp8 decode 1 x 8192", llama, 1, 1, 8192, 6, 0, true},
        {"fp8 decode 256 x 1024", llama, 256, 1, 1024, 6, 0, true},
        {"fp8 decode 32 x 8192", llama, 32, 1, 8192, 6, 0, true},
    };
    const struct attn_bench tiny[] = {{"decode 2 x 70", llama, 2, 1, 70, 6, 0, false},
                                      {"encoder 2 x 20", bert, 2, 20, 20, 6, 0, false},
                                      {"fp8 decode 2 x 70", llama, 2, 1, 70, 6, 0, true}};
    for (size_t i = 0; b->small && i < 3; i++)
        bench_attn(b, &tiny[i]);
    for (size_t i = 0; !b->small && i < sizeof cases / sizeof cases[0]; i++)
        bench_attn(b, &cases[i]);
}

// Products with weights held as codes: in the default mode cuBLASLt may multiply FP8 codes by
// codes.
static void bench_codes(struct bench *b)
{
    static const struct {
        const char *prefix;
        enum weight_format format;
    } held[] = {{"fp8 ", WEIGHT_FP8},
                {"int4_128 ", WEIGHT_INT4_128},
                {"int4z_128 ", WEIGHT_INT4Z_128},
                {"MXFP4 ", WEIGHT_MXFP4}};
    static const uint32_t rows[] = {1, 32, 256, 8192}, few[] = {1, 64};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        const struct bench_held weight = {DTYPE_BF16, held[i].format};
        b->prefix = held[i].prefix;
        if (b->small)
            bench_gemm(b, &weight, 128, 128, few, 2);
        else
            bench_gemm(b, &weight, 6144, 4096, rows, 4);
    }
    b->prefix = NULL;
}

static void ops_run(struct bench *b)
{
    static const uint32_t products[][2] = {
        {6144, 4096}, {4096, 4096}, {24576, 4096}, {4096, 12288}};
    static const uint32_t rows[] = {1, 8, 16, 32, 64, 128, 256, 2048, 8192};
    static const struct bench_held brain = {DTYPE_BF16, WEIGHT_FLOATS};
    bench_copy(b);
    for (size_t i = 0; !b->small && i < 4; i++)
        bench_gemm(b, &brain, products[i][0], products[i][1], rows, 9);
    if (b->small)
        bench_gemm(b, &brain, 64, 96, rows, 5);
    bench_all_attn(b);
    bench_experts(b);
    bench_codes(b); // last, because their rates are not that of other products
    if (!b->graphs)
        bench_rows(b);
}

// Prints what the device chose at its start, among others the FP8 products of the library.
static void note_print(uint32_t index, const char *line)
{
    (void)index;
    printf("note: %s\n", line);
}

int main(int argc, char **argv)
{
    bool gaps = false;
    struct error err = {0};
    struct bench b = {.api = weft_device_plugin(), .repeats = REPEATS, .print = print_row};
    struct device_options options = {.exact = argc > 1 && strcmp(argv[1], "exact") == 0,
                                     .note = note_print};
    for (int i = 2; i < argc; i++) {
        b.small = b.small || strcmp(argv[i], "small") == 0;
        b.graphs = b.graphs || strcmp(argv[i], "graphs") == 0;
        gaps = gaps || strcmp(argv[i], "gaps") == 0;
        if (strcmp(argv[i], "--ways") == 0 && i + 1 < argc && !ways_read(argv[++i], &options.ways))
            return 2;
    }
    if (b.api->open(&b.device, &options, &err) != STATUS_OK) {
        printf("gpu_ops: skipped: %s\n", err.text);
        return 77;
    }
    struct device_facts facts;
    b.api->facts(b.device, &facts);
    need(b.api->host_alloc(b.device, (void **)&b.done, 64, NULL), "host memory");
    printf("{\"card\":\"%s\",\"exact\":%s,\"graphs\":%s,\"ways\":%u}\n", facts.name,
           options.exact ? "true" : "false", b.graphs ? "true" : "false", options.ways);
    (gaps ? bench_gaps : ops_run)(&b);
    if (gaps)
        bench_loads(&b);
    b.api->host_free(b.device, b.done, 64);
    b.api->close(b.device);
    return 0;
}
