// SPDX-License-Identifier: Apache-2.0
// Products, attention, and what all rows of gpu_ops share: memory, random weights, streams, and how
// a row is timed. tests/ptx/kernel_counts.c runs the same rows to count their operations.
#include "bench/gpu_ops.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

void need(enum status status, const char *what)
{
    if (status == STATUS_OK)
        return;
    printf("gpu_ops: %s: %s\n", what, status_name(status));
    exit(1);
}

void *device_alloc(struct bench *b, size_t bytes)
{
    void *at = NULL;
    need(b->api->memory_alloc(b->device, &at, bytes, NULL), "memory");
    return at;
}

void settle(struct bench *b, struct stream *stream)
{
    struct error err = {0};
    need(b->api->signal(stream, b->done, ++b->signals), "signal");
    if (b->api->wait(stream, b->done, b->signals, UINT64_MAX, &err) != STATUS_OK) {
        printf("gpu_ops: %s\n", err.text);
        exit(1);
    }
}

// Codes of a checkpoint for a weight of the bench; all arrays but the scales of FP8 have a byte for
// each code.
struct bench_codes {
    uint8_t *codes, *zeros;
    float *scales;
    struct weight_int4 int4;
};

// Fills codes, and their scales with ones, and makes *source their source.
static void codes_fill(struct bench_codes *c, struct weight_source *source)
{
    const struct weight_format_facts *facts = weight_format_facts(source->format);
    uint32_t n = source->rows, k = source->cols;
    for (size_t i = 0; i < (size_t)n * k; i++)
        c->codes[i] = c->zeros[i] = (uint8_t)(i * 37 % 64);
    for (size_t i = 0; i < (size_t)n * (k / FP8_SCALE_ROWS + 1); i++)
        c->scales[i] = 1;
    source->map = c->codes;
    source->scales = c->scales;
    if (facts->bits == 8)
        return;
    c->int4 = (struct weight_int4){.order = INT4_BY_ROW,
                                   .codes = c->codes,
                                   .scales = facts->e2m1 ? (void *)c->codes : (void *)c->scales,
                                   .zeros = facts->zeros ? c->zeros : NULL,
                                   .scale_dtype = DTYPE_F32,
                                   .n = n,
                                   .k = k,
                                   .group = facts->elements,
                                   .e2m1 = facts->e2m1};
    source->int4 = &c->int4;
}

struct weight held_weight(struct bench *b, const struct bench_held *held, uint32_t n, uint32_t k,
                          uint64_t seed)
{
    struct weight w = {.shape = {.use = WEIGHT_PRODUCT, .dtype = held->dtype, .n = n, .k = k}};
    struct weight_source source = {
        .fd = -1, .rows = n, .cols = k, .seed = seed, .deviation = 0.02f, .format = held->format};
    struct bench_codes codes = {NULL};
    w.shape.part_count = held->format != WEIGHT_FLOATS;
    w.shape.parts[0] = (struct weight_codes){held->format, n};
    w.bytes = b->api->weight_bytes(b->device, &w.shape);
    w.data = device_alloc(b, w.bytes);
    if (w.shape.part_count > 0) {
        codes.codes = malloc((size_t)n * k);
        codes.zeros = malloc((size_t)n * k);
        codes.scales = malloc((size_t)n * (k / FP8_SCALE_ROWS + 1) * sizeof *codes.scales);
        if (!codes.codes || !codes.zeros || !codes.scales)
            need(STATUS_NO_MEMORY, "codes");
        codes_fill(&codes, &source);
    }
    need(b->api->weight_put(b->device, &w, 0, &source, NULL), "weight");
    need(b->api->weight_finish(b->device, &w, NULL), "weight");
    free(codes.codes);
    free(codes.zeros);
    free(codes.scales);
    return w;
}

struct weight random_weight(struct bench *b, uint32_t n, uint32_t k, uint64_t seed)
{
    return held_weight(b, &(struct bench_held){DTYPE_BF16, WEIGHT_FLOATS}, n, k, seed);
}

struct stream *open_stream(struct bench *b, const struct stream_limits *limits)
{
    struct stream *stream = NULL;
    need(b->api->stream_open(b->device, &stream, limits, NULL), "stream");
    return stream;
}

enum { ROUNDS_MIN = 5, ROUNDS_MAX = 400 };
static const uint64_t KV_ROTATED = 128 << 20; // bytes, more than an L2 cache
static const double ROUNDS_S = 5e-3;          // shortest total time of the launches of a graph

int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double graph_time(struct bench *b, struct stream *stream, bench_launch *launch, void *context,
                  uint32_t nodes)
{
    struct graph *graph;
    double seconds[ROUNDS_MAX], total = 0;
    uint32_t rounds = 0;
    need(b->api->graph_begin(stream), "graph");
    for (uint32_t i = 0; i < nodes; i++)
        launch(b, stream, context, i);
    need(b->api->graph_end(stream, &graph, NULL), "graph");
    need(b->api->graph_launch(stream, graph), "graph");
    settle(b, stream);
    while (rounds < ROUNDS_MIN || (rounds < ROUNDS_MAX && total < ROUNDS_S && !b->small)) {
        double start = clock_s();
        need(b->api->graph_launch(stream, graph), "graph");
        settle(b, stream);
        seconds[rounds] = clock_s() - start;
        total += seconds[rounds++];
    }
    b->api->graph_close(graph);
    qsort(seconds, rounds, sizeof seconds[0], by_size);
    return seconds[rounds / 2] / nodes;
}

double bench_time(struct bench *b, struct stream *stream, bench_launch *launch, void *context)
{
    launch(b, stream, context, 0);
    settle(b, stream);
    if (b->graphs)
        return graph_time(b, stream, launch, context, b->repeats);
    double start = clock_s();
    for (uint32_t i = 0; i < b->repeats; i++)
        launch(b, stream, context, i);
    settle(b, stream);
    return (clock_s() - start) / b->repeats;
}

struct product {
    struct gemm_args args;
    struct weight weight[32];
    uint32_t copies;
};

static void product_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct product *p = context;
    p->args.weight = &p->weight[i % p->copies];
    need(b->api->ops->gemm(stream, &p->args), "gemm");
}

void bench_gemm(struct bench *b, const struct bench_held *held, uint32_t n, uint32_t k,
                const uint32_t *rows, size_t count)
{
    bool e4m3 = weight_format_facts(held->format)->bits == 8;
    bool coded = held->format != WEIGHT_FLOATS || held->dtype == DTYPE_I8;
    struct stream_limits limits = {.step = {.rows_max = 256, .tokens_max = 8192},
                                   .width_max = n,
                                   .e4m3_width = e4m3 ? k : 0,
                                   .coded_most = coded ? (uint64_t)n * k : 0};
    struct stream *stream = open_stream(b, &limits);
    struct product p = {.weight[0] = held_weight(b, held, n, k, 0), .copies = 1};
    if (!b->small)
        p.copies += (uint32_t)((200u << 20) / p.weight[0].bytes);
    p.copies = p.copies > 32 ? 32 : p.copies;
    for (uint32_t i = 1; i < p.copies; i++)
        p.weight[i] = held_weight(b, held, n, k, i);
    uint32_t most = 0;
    for (size_t m = 0; m < count; m++)
        most = rows[m] > most ? rows[m] : most;
    struct weight x = random_weight(b, most, k, 99);
    void *y = device_alloc(b, (size_t)most * n * 2);
    for (size_t m = count; m-- > 0;) { // most rows first, for the best rate
        p.args = (struct gemm_args){.x_dtype = DTYPE_BF16,
                                    .y_dtype = DTYPE_BF16,
                                    .x = x.data,
                                    .y = y,
                                    .rows = rows[m],
                                    .x_stride = (k + 31) / 32 * 32,
                                    .y_stride = n};
        if (b->api->tune)
            (void)b->api->tune(stream, 0);
        char shape[64];
        snprintf(shape, sizeof shape, "n %u k %u rows %u", n, k, rows[m]);
        double seconds = bench_time(b, stream, product_launch, &p);
        double bytes = (double)p.weight[0].bytes + 2.0 * (double)rows[m] * (n + k);
        b->print(b, &(struct bench_row){"gemm", shape, seconds, bytes, 2.0 * n * k * rows[m]});
    }
    for (uint32_t i = 0; i < p.copies; i++)
        b->api->memory_free(b->device, p.weight[i].data, p.weight[i].bytes);
    b->api->memory_free(b->device, x.data, x.bytes);
    b->api->memory_free(b->device, y, (size_t)most * n * 2);
    b->api->stream_close(stream);
}

// Makes the device and host record of a step of equal rows, with its plan; KV blocks are in order.
static void attn_record(struct bench *b, struct stream *stream, const struct stream_limits *limits,
                        const struct attn_bench *c, struct step **host, void **device)
{
    struct step_layout layout;
    step_layout_init(&layout, &limits->step, b->api->step_private_bytes(b->device, limits));
    need(b->api->host_alloc(b->device, (void **)host, layout.bytes, NULL), "record");
    *device = device_alloc(b, layout.bytes);
    (*host)->layout = layout;
    (*host)->row_count = c->rows;
    (*host)->token_count = c->rows * c->q_len;
    (*host)->q_len_max = c->q_len;
    (*host)->kv_len_max = c->kv_len;
    struct step_row *rows = step_section(*host, layout.rows);
    for (uint32_t i = 0; i < c->rows; i++)
        rows[i] = (struct step_row){.slot = i,
                                    .q_start = i * c->q_len,
                                    .q_len = c->q_len,
                                    .kv_len = c->kv_len,
                                    .sample = STEP_NO_ROW};
    b->api->step_plan(stream, *host);
    need(b->api->copy_in(stream, *device, *host, layout.bytes), "record");
}

void attention_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct attention *a = context;
    a->args.layer_offset = i % a->copies * a->layer_bytes;
    need(b->api->ops->attn(stream, &a->args), "attn");
}

// Makes KV memory of random numbers. For fp8 they are codes of numbers below 2.
static struct weight kv_make(struct bench *b, uint32_t blocks, uint64_t block_bytes, bool fp8)
{
    if (!fp8)
        return random_weight(b, blocks, (uint32_t)(block_bytes / 2), 2);
    struct weight kv = {.data = device_alloc(b, blocks * block_bytes)};
    uint8_t *codes = malloc(blocks * block_bytes);
    uint32_t draw = 1;
    for (uint64_t i = 0; i < blocks * block_bytes; i++) {
        draw = draw * 1664525u + 1013904223u;
        codes[i] = (uint8_t)(draw >> 24 & 0xBF);
    }
    need(b->api->upload(b->device, kv.data, codes, blocks * block_bytes, NULL), "codes");
    free(codes);
    return kv;
}

void attention_open(struct bench *b, const struct attn_bench *c, struct attention *a)
{
    const enum dtype kv_dtype = c->fp8 ? DTYPE_E4M3 : DTYPE_BF16;
    uint32_t blocks =
        c->shape.paged ? (c->kv_len + (1u << c->block_shift) - 1) >> c->block_shift : 0;
    struct stream_limits limits = {.step = {.rows_max = c->rows,
                                            .tokens_max = c->rows * c->q_len,
                                            .slots_max = c->rows,
                                            .blocks_max = blocks},
                                   .attn = c->shape,
                                   .kv = kv_dtype,
                                   .width_max = 1,
                                   .layers = 1};
    a->stream = open_stream(b, &limits);
    attn_record(b, a->stream, &limits, c, &a->host, &a->record);
    uint64_t token_bytes = c->shape.dim * dtype_bytes(kv_dtype),
             head_bytes = token_bytes << c->block_shift;
    uint64_t value_offset = head_bytes * c->shape.kv_heads, block_bytes = 2 * value_offset;
    uint32_t width = (c->shape.heads + 2 * c->shape.kv_heads) * c->shape.dim;
    a->qkv = random_weight(b, c->rows * c->q_len, width, 1);
    uint32_t held = c->window != 0 ? 1 : c->rows * blocks; // window: only the last is read
    a->layer_bytes = held * block_bytes;
    a->copies = 1;
    if (!b->small && a->layer_bytes > 0 && a->layer_bytes < KV_ROTATED)
        a->copies = (uint32_t)(KV_ROTATED / a->layer_bytes) + 1;
    a->kv = kv_make(b, held * a->copies + 1, block_bytes, c->fp8);
    uint32_t *table = calloc((size_t)c->rows * blocks + 1, 4);
    for (uint32_t i = 0; i < c->rows * blocks; i++)
        table[i] = (uint32_t)(i % held * block_bytes / 256);
    a->table = device_alloc(b, ((size_t)c->rows * blocks + 1) * 4);
    need(b->api->upload(b->device, a->table, table, (size_t)c->rows * blocks * 4, NULL), "table");
    free(table);
    size_t out_bytes = (size_t)c->rows * c->q_len * c->shape.heads * c->shape.dim * 2;
    a->args = (struct attn_args){.act = DTYPE_BF16,
                                 .kv = kv_dtype,
                                 .qkv = a->qkv.data,
                                 .out = device_alloc(b, out_bytes),
                                 .step = a->record,
                                 .step_host = a->host,
                                 .block_table = a->table,
                                 .kv_base = a->kv.data,
                                 .value_offset = value_offset,
                                 .head_bytes = head_bytes,
                                 .token_bytes = token_bytes,
                                 .shape = c->shape,
                                 .blocks_max = blocks,
                                 .block_shift = c->block_shift,
                                 .row_count = c->rows,
                                 .token_count = c->rows * c->q_len};
    a->args.shape.window = c->window != 0 ? c->window : c->shape.window;
}

void attention_close(struct bench *b, struct attention *a)
{
    void *buffers[] = {a->qkv.data, a->kv.data, a->table, a->args.out, a->record};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        b->api->memory_free(b->device, buffers[i], 0);
    b->api->host_free(b->device, a->host, a->host->layout.bytes);
    b->api->stream_close(a->stream);
}

void bench_attn(struct bench *b, const struct attn_bench *c)
{
    struct attention a;
    attention_open(b, c, &a);
    double seconds = bench_time(b, a.stream, attention_launch, &a);
    double pairs = (double)c->rows * c->q_len *
                   (c->shape.causal ? c->kv_len - (c->q_len - 1) / 2.0 : c->kv_len);
    double bytes = 2.0 * (double)dtype_bytes(a.args.kv) * c->rows * c->kv_len * c->shape.kv_heads *
                   c->shape.dim;
    b->print(b, &(struct bench_row){"attn", c->name, seconds, bytes,
                                    4.0 * c->shape.dim * c->shape.heads * pairs});
    attention_close(b, &a);
}
