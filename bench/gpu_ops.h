// SPDX-License-Identifier: Apache-2.0
// Shared by the files of gpu_ops: the device under test, its rates as measured in this run, and how
// a row is timed and printed. tests/ptx/kernel_counts.c runs the same rows to count their
// operations. One thread; the caller that allocates memory frees it.
#pragma once

#include "kernels/device.h"

enum { REPEATS = 20 };

struct bench_row {
    const char *op, *shape;
    double seconds, bytes, flops;
};

struct bench {
    const struct device_api *api;
    struct device *device;
    uint32_t *done;
    uint32_t signals;
    uint32_t repeats;   // timed runs of a row, after one untimed run
    double copy_rate;   // bytes per second, reads and writes counted
    double math_rate;   // operations per second of the best product so far
    const char *prefix; // text before the shapes of printed rows; NULL: none
    bool small;
    bool graphs; // true: the launches of a row are a graph, and its time is a median
    void (*print)(struct bench *b, const struct bench_row *row); // prints a row that is done
};

// gpu_cases.c
void need(enum status status, const char *what); // exits if it is not OK
void *device_alloc(struct bench *b, size_t bytes);
void settle(struct bench *b, struct stream *stream); // waits for all that was launched
// Launches op number i of a row.
typedef void bench_launch(struct bench *b, struct stream *stream, void *context, uint32_t i);
// Records `nodes` launches as a graph. Returns the median time of a launch over several runs.
double graph_time(struct bench *b, struct stream *stream, bench_launch *launch, void *context,
                  uint32_t nodes);
// Returns the seconds of a launch: one untimed launch, then b->repeats in one queue or one graph.
double bench_time(struct bench *b, struct stream *stream, bench_launch *launch, void *context);
int by_size(const void *a, const void *b); // orders doubles for qsort
struct weight random_weight(struct bench *b, uint32_t n, uint32_t k, uint64_t seed);
struct stream *open_stream(struct bench *b, const struct stream_limits *limits);
// How the weights of a product are held: as elements of a dtype, or as codes.
struct bench_held {
    enum dtype dtype;
    enum weight_format format; // WEIGHT_FLOATS, FP8 or FP8_128, int4 or MXFP4
};
// Makes a weight [n][k] of random numbers of deviation 0.02, or of codes whose scales are 1, on the
// device.
struct weight held_weight(struct bench *b, const struct bench_held *held, uint32_t n, uint32_t k,
                          uint64_t seed);
// Times a product for each row count, the last row count first.
void bench_gemm(struct bench *b, const struct bench_held *held, uint32_t n, uint32_t k,
                const uint32_t *rows, size_t count);
struct attn_bench { // equal rows; KV blocks of 1 << block_shift tokens
    const char *name;
    struct attn_shape shape;
    uint32_t rows, q_len, kv_len, block_shift;
    uint32_t window; // window of the layer, if narrower than the plan's: some parts have no keys
    bool fp8;        // keys and values are e4m3, otherwise bfloat16
};
void bench_attn(struct bench *b, const struct attn_bench *c);
// Attention of a case, with its stream and memory.
struct attention {
    struct attn_args args;
    uint64_t layer_bytes; // bytes of the keys and values of all rows
    uint32_t copies;      // number of layers that the launches read in turn
    struct stream *stream;
    struct step *host;
    struct weight qkv, kv;
    void *record, *table;
};
void attention_open(struct bench *b, const struct attn_bench *c, struct attention *out);
void attention_close(struct bench *b, struct attention *a);
bench_launch attention_launch; // context: struct attention

// gpu_experts.c: route, gemm_experts and combine in the shape of Qwen3-30B-A3B.
void bench_experts(struct bench *b);
// Times gemm_experts for one expert, a matrix [n][k], that `rows` tokens choose.
void bench_one_expert(struct bench *b, const struct bench_held *held, uint32_t n, uint32_t k,
                      uint32_t rows);

// gpu_rows.c: norms, SwiGLU, qkv_post, sampling in five forms, launch gaps and the latency of a
// signal to the host.
struct stream *rows_stream(struct bench *b);
// next: weight of the product that follows, in an FP8 format, or NULL.
void bench_norm(struct bench *b, struct stream *stream, uint32_t rows, uint32_t width,
                const struct weight *next);
void bench_swiglu(struct bench *b, struct stream *stream, uint32_t rows, uint32_t width,
                  const struct weight *next);
void bench_qkv_post(struct bench *b, struct stream *stream, uint32_t tokens);
void bench_sample(struct bench *b, uint32_t vocab, uint32_t most); // up to `most` rows
void bench_rows(struct bench *b);
void bench_gaps(struct bench *b); // the gaps alone
// Times copies from pinned host memory, and loading a weight that lies in the page cache.
void bench_loads(struct bench *b);
