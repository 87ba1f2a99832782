// SPDX-License-Identifier: Apache-2.0
// The rows of gpu_ops for a mixture of experts in the shape of Qwen3-30B-A3B: the choice of experts
// (route), both products (gemm_experts) and the sum of a token's results (combine). Several random
// routings take turns, so that a launch does not find the experts of the previous one in L2.
#include "bench/gpu_ops.h"

#include <math.h>
#include <stdio.h>

enum { ROUTINGS = 8 };

// hidden: width of a token; inner: width between an expert's two products.
struct mixture_shape {
    uint32_t experts, chosen, hidden, inner;
};

struct mixture {
    struct mixture_shape shape;
    uint32_t tokens;
    struct weight logits[ROUTINGS]; // [tokens][experts] f32
    struct routing routing[ROUTINGS];
    void *arrays[ROUTINGS]; // memory of the routings
    size_t array_bytes;
    struct weight gate_up, down; // stacks of one matrix per expert
    struct weight x, sorted;     // [tokens][hidden], [pairs][2 * inner]
    void *out;                   // [pairs][widest output]
};

static double pairs_of(const struct mixture *m)
{
    return (double)m->tokens * m->shape.chosen;
}

// Returns the expected number of experts that have rows, for uniform and independent choices.
static double experts_used(const struct mixture *m)
{
    double missed = 1 - (double)m->shape.chosen / m->shape.experts;
    return m->shape.experts * (1 - pow(missed, m->tokens));
}

static void route_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct mixture *m = context;
    struct route_args args = {.out = m->routing[i % ROUTINGS],
                              .logits = m->logits[i % ROUTINGS].data,
                              .score = ROUTE_SOFTMAX_CHOSEN,
                              .factor = 1};
    need(b->api->ops->route(stream, &args), "route");
}

static void gate_up_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct mixture *m = context;
    struct gemm_experts_args args = {.act = DTYPE_BF16,
                                     .routing = m->routing[i % ROUTINGS],
                                     .x = m->x.data,
                                     .weight = &m->gate_up,
                                     .y = m->out,
                                     .x_stride = m->shape.hidden,
                                     .y_stride = 2 * m->shape.inner};
    need(b->api->ops->gemm_experts(stream, &args), "gemm_experts");
}

static void down_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct mixture *m = context;
    struct gemm_experts_args args = {.act = DTYPE_BF16,
                                     .routing = m->routing[i % ROUTINGS],
                                     .x = m->sorted.data,
                                     .weight = &m->down,
                                     .y = m->out,
                                     .x_stride = m->shape.inner,
                                     .y_stride = m->shape.hidden,
                                     .sorted = 1};
    need(b->api->ops->gemm_experts(stream, &args), "gemm_experts");
}

static void combine_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct mixture *m = context;
    struct combine_args args = {.act = DTYPE_BF16,
                                .out_dtype = DTYPE_BF16,
                                .routing = m->routing[i % ROUTINGS],
                                .y = m->out,
                                .out = m->x.data,
                                .width = m->shape.hidden,
                                .held = m->shape.experts};
    need(b->api->ops->combine(stream, &args), "combine");
}

static struct weight stack_of(struct bench *b, uint32_t experts, uint32_t n, uint32_t k)
{
    struct weight w = {.shape = {.use = WEIGHT_PRODUCT,
                                 .dtype = DTYPE_BF16,
                                 .n = experts * n,
                                 .k = k,
                                 .stack = experts}};
    w.bytes = b->api->weight_bytes(b->device, &w.shape);
    w.data = device_alloc(b, w.bytes);
    struct weight_source source = {
        .fd = -1, .rows = experts * n, .cols = k, .seed = n, .deviation = 0.02f};
    need(b->api->weight_put(b->device, &w, 0, &source, NULL), "experts");
    need(b->api->weight_finish(b->device, &w, NULL), "experts");
    return w;
}

static struct weight logits_of(struct bench *b, uint32_t tokens, uint32_t experts, uint64_t seed)
{
    struct weight w = {
        .shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = tokens, .k = experts}};
    w.bytes = b->api->weight_bytes(b->device, &w.shape);
    w.data = device_alloc(b, w.bytes);
    struct weight_source source = {
        .fd = -1, .rows = tokens, .cols = experts, .seed = seed, .deviation = 2};
    need(b->api->weight_put(b->device, &w, 0, &source, NULL), "logits");
    need(b->api->weight_finish(b->device, &w, NULL), "logits");
    return w;
}

static void routings_open(struct bench *b, struct mixture *m)
{
    const struct mixture_shape *s = &m->shape;
    size_t pairs = (size_t)m->tokens * s->chosen;
    m->array_bytes = (4 * pairs + s->experts + 1) * 4;
    for (uint32_t i = 0; i < ROUTINGS; i++) {
        m->logits[i] = logits_of(b, m->tokens, s->experts, 100 + i);
        m->arrays[i] = device_alloc(b, m->array_bytes);
        uint32_t *at = m->arrays[i];
        m->routing[i] = (struct routing){.id = at,
                                         .weight = (float *)(void *)(at + pairs),
                                         .order = at + 2 * pairs,
                                         .place = at + 3 * pairs,
                                         .offset = at + 4 * pairs,
                                         .token_count = m->tokens,
                                         .experts = s->experts,
                                         .chosen = s->chosen};
    }
}

static void routings_close(struct bench *b, struct mixture *m)
{
    for (uint32_t i = 0; i < ROUTINGS; i++) {
        b->api->memory_free(b->device, m->logits[i].data, m->logits[i].bytes);
        b->api->memory_free(b->device, m->arrays[i], m->array_bytes);
    }
}

static void product_row(struct bench *b, struct stream *stream, struct mixture *m,
                        bench_launch *launch, uint32_t n, uint32_t k)
{
    char shape[80];
    snprintf(shape, sizeof shape, "tokens %u, %u of %u experts, n %u k %u", m->tokens,
             m->shape.chosen, m->shape.experts, n, k);
    double seconds = bench_time(b, stream, launch, m);
    double bytes = 2 * (experts_used(m) * n * k + pairs_of(m) * (n + k));
    b->print(b,
             &(struct bench_row){"gemm_experts", shape, seconds, bytes, 2.0 * pairs_of(m) * n * k});
}

// Times the ops of one layer for this number of tokens. Route comes first: the others read its
// results.
static void tokens_rows(struct bench *b, struct stream *stream, struct mixture *m, uint32_t tokens)
{
    const struct mixture_shape *s = &m->shape;
    char shape[80];
    m->tokens = tokens;
    routings_open(b, m);
    for (uint32_t i = 0; i < ROUTINGS; i++)
        route_launch(b, stream, m, i);
    snprintf(shape, sizeof shape, "tokens %u, %u of %u experts", tokens, s->chosen, s->experts);
    double seconds = bench_time(b, stream, route_launch, m);
    b->print(b, &(struct bench_row){"route", shape, seconds,
                                    4.0 * tokens * s->experts + 20 * pairs_of(m), 0});
    product_row(b, stream, m, gate_up_launch, 2 * s->inner, s->hidden);
    product_row(b, stream, m, down_launch, s->hidden, s->inner);
    snprintf(shape, sizeof shape, "tokens %u, %u of %u experts, width %u", tokens, s->chosen,
             s->experts, s->hidden);
    seconds = bench_time(b, stream, combine_launch, m);
    b->print(b, &(struct bench_row){"combine", shape, seconds,
                                    2 * (pairs_of(m) + tokens) * s->hidden, 0});
    settle(b, stream);
    routings_close(b, m);
}

void bench_experts(struct bench *b)
{
    static const uint32_t counts[] = {1, 8, 32, 64, 256, 2048, 8192};
    static const struct mixture_shape qwen3 = {128, 8, 2048, 768}, tiny = {32, 2, 64, 32};
    struct mixture m = {.shape = b->small ? tiny : qwen3};
    uint32_t count = b->small ? 2 : sizeof counts / sizeof counts[0], most = counts[count - 1];
    uint32_t pairs = most * m.shape.chosen;
    struct stream_limits limits = {.step = {.rows_max = 256, .tokens_max = most},
                                   .width_max = m.shape.hidden + 2 * m.shape.inner};
    struct stream *stream = open_stream(b, &limits);
    m.gate_up = stack_of(b, m.shape.experts, 2 * m.shape.inner, m.shape.hidden);
    m.down = stack_of(b, m.shape.experts, m.shape.hidden, m.shape.inner);
    m.x = random_weight(b, most, m.shape.hidden, 1);
    m.sorted = random_weight(b, pairs, m.shape.inner, 2);
    size_t out_bytes = (size_t)pairs * (m.shape.hidden + 2 * m.shape.inner) * 2;
    m.out = device_alloc(b, out_bytes);
    for (uint32_t i = count; i-- > 0;)
        tokens_rows(b, stream, &m, counts[i]);
    struct weight weights[] = {m.gate_up, m.down, m.x, m.sorted};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        b->api->memory_free(b->device, weights[i].data, weights[i].bytes);
    b->api->memory_free(b->device, m.out, out_bytes);
    b->api->stream_close(stream);
}

static void one_expert_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    (void)i;
    need(b->api->ops->gemm_experts(stream, context), "gemm_experts");
}

void bench_one_expert(struct bench *b, const struct bench_held *held, uint32_t n, uint32_t k,
                      uint32_t rows)
{
    struct stream_limits limits = {.step = {.rows_max = 256, .tokens_max = rows}, .width_max = n};
    struct stream *stream = open_stream(b, &limits);
    struct weight matrix = held_weight(b, held, n, k, 0), x = random_weight(b, rows, k, 99);
    uint32_t offset[] = {0, rows};
    void *y = device_alloc(b, (size_t)rows * n * 2);
    uint32_t *offsets = device_alloc(b, sizeof offset);
    struct routing routing = {.offset = offsets, .token_count = rows, .experts = 1, .chosen = 1};
    routing.id = routing.order = routing.place = offsets; // not read, because x has sorted rows
    routing.weight = y;
    need(b->api->upload(b->device, offsets, offset, sizeof offset, NULL), "offsets");
    struct gemm_experts_args args = {.act = DTYPE_BF16,
                                     .routing = routing,
                                     .x = x.data,
                                     .weight = &matrix,
                                     .y = y,
                                     .x_stride = (k + 31) / 32 * 32,
                                     .y_stride = n,
                                     .sorted = 1};
    char shape[64];
    snprintf(shape, sizeof shape, "n %u k %u rows %u", n, k, rows);
    double seconds = bench_time(b, stream, one_expert_launch, &args);
    double bytes = (double)matrix.bytes + 2.0 * rows * (n + k);
    b->print(b, &(struct bench_row){"gemm_experts", shape, seconds, bytes, 2.0 * n * k * rows});
    b->api->memory_free(b->device, matrix.data, matrix.bytes);
    b->api->memory_free(b->device, x.data, x.bytes);
    b->api->memory_free(b->device, y, (size_t)rows * n * 2);
    b->api->memory_free(b->device, offsets, sizeof offset);
    b->api->stream_close(stream);
}
