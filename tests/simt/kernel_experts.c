// SPDX-License-Identifier: Apache-2.0
// A layer of experts: route, two products and combine, compared with plain loops in double; part of
// test_kernels.c. The sizes reach each kernel of gemm_experts, and some experts have no rows.
#include "tests/simt/kernel_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 40, INNER = 32, OUT = 32 };

struct layer_case {
    uint32_t tokens, experts, chosen;
};

// The layer's host arrays.
struct layer {
    const struct layer_case *c;
    float *logits;
    uint16_t *x, *up, *down; // bfloat16
};

static float wide(uint16_t bits)
{
    return load(&bits, DTYPE_BF16, 0);
}

static uint16_t rounded(double x)
{
    uint16_t bits;
    store(&bits, DTYPE_BF16, 0, (float)x);
    return bits;
}

// Computes a token's result from its best experts, in rising order of experts.
static void token_want(const struct layer *l, uint32_t token, double *out)
{
    const float *logits = l->logits + (size_t)token * l->c->experts;
    double sum = 0;
    memset(out, 0, OUT * sizeof *out);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t e = 0; e < l->c->experts; e++) {
            uint32_t better = 0;
            for (uint32_t i = 0; i < l->c->experts; i++)
                better += logits[i] > logits[e] || (logits[i] == logits[e] && i < e);
            if (better >= l->c->chosen)
                continue;
            if (pass == 0) {
                sum += exp(logits[e]);
                continue;
            }
            uint16_t inner[INNER];
            for (uint32_t n = 0; n < INNER; n++) {
                double y = 0;
                for (uint32_t k = 0; k < WIDTH; k++)
                    y += (double)wide(l->x[token * WIDTH + k]) *
                         wide(l->up[((size_t)e * INNER + n) * WIDTH + k]);
                inner[n] = rounded(y);
            }
            for (uint32_t n = 0; n < OUT; n++) {
                double y = 0;
                for (uint32_t k = 0; k < INNER; k++)
                    y += (double)wide(inner[k]) * wide(l->down[((size_t)e * OUT + n) * INNER + k]);
                out[n] += exp(logits[e]) / sum * wide(rounded(y));
            }
        }
}

static struct weight stack_make(const uint16_t *from, uint32_t experts, uint32_t n, uint32_t k)
{
    struct weight weight = {
        .shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_BF16, .n = experts * n, .k = k}};
    weight.shape.stack = experts;
    weight.bytes = api->weight_bytes(device, &weight.shape);
    weight.data = device_alloc(weight.bytes);
    struct weight_source source = {
        .map = from, .fd = -1, .dtype = DTYPE_BF16, .rows = experts * n, .cols = k};
    assert_int_equal(api->weight_put(device, &weight, 0, &source, NULL), STATUS_OK);
    assert_int_equal(api->weight_finish(device, &weight, NULL), STATUS_OK);
    return weight;
}

// Runs the layer; every buffer has exactly the bytes that the ops may use.
static void layer_run(struct stream *stream, const struct layer *l, const void *logits,
                      const void *x, float *result)
{
    const struct layer_case *c = l->c;
    size_t pairs = (size_t)c->tokens * c->chosen, bytes = (size_t)c->tokens * OUT * 4;
    struct weight up = stack_make(l->up, c->experts, INNER, WIDTH);
    struct weight down = stack_make(l->down, c->experts, OUT, INNER);
    struct route_args route = {.score = ROUTE_SOFTMAX_CHOSEN, .logits = logits, .factor = 1};
    route.out = (struct routing){.id = device_alloc(pairs * 4),
                                 .weight = device_alloc(pairs * 4),
                                 .order = device_alloc(pairs * 4),
                                 .place = device_alloc(pairs * 4),
                                 .offset = device_alloc((c->experts + 1) * 4),
                                 .token_count = c->tokens,
                                 .experts = c->experts,
                                 .chosen = c->chosen};
    struct gemm_experts_args first = {.act = DTYPE_BF16,
                                      .routing = route.out,
                                      .x = x,
                                      .weight = &up,
                                      .y = device_alloc(pairs * INNER * 2),
                                      .x_stride = WIDTH,
                                      .y_stride = INNER};
    struct gemm_experts_args second = first;
    second.x = first.y;
    second.weight = &down;
    second.y = device_alloc(pairs * OUT * 2);
    second.x_stride = INNER;
    second.y_stride = OUT;
    second.sorted = 1;
    struct combine_args combine = {.act = DTYPE_BF16,
                                   .out_dtype = DTYPE_F32,
                                   .routing = route.out,
                                   .y = second.y,
                                   .out = device_alloc(bytes),
                                   .width = OUT,
                                   .held = c->experts};
    float *host = host_alloc(bytes);
    assert_int_equal(api->ops->route(stream, &route), STATUS_OK);
    assert_int_equal(api->ops->gemm_experts(stream, &first), STATUS_OK);
    assert_int_equal(api->ops->gemm_experts(stream, &second), STATUS_OK);
    assert_int_equal(api->ops->combine(stream, &combine), STATUS_OK);
    assert_int_equal(api->copy_out(stream, host, combine.out, bytes), STATUS_OK);
    wait_for(stream);
    memcpy(result, host, bytes);
    api->host_free(device, host, bytes);
    void *buffers[] = {route.out.id,     route.out.weight, route.out.order, route.out.place,
                       route.out.offset, first.y,          second.y,        combine.out,
                       up.data,          down.data};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        device_free(buffers[i]);
}

void test_experts(void **state)
{
    (void)state;
    static const struct layer_case cases[] = {{5, 9, 2}, {20, 3, 2}, {70, 2, 1}};
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 80}, .width_max = 4096};
    struct stream *stream = NULL;
    assert_int_equal(api->stream_open(device, &stream, &limits, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct layer_case *c = &cases[i];
        struct layer l = {.c = c};
        void *logits, *x, *up, *down;
        l.logits = random_array(DTYPE_F32, (size_t)c->tokens * c->experts, 4, &logits);
        l.x = random_array(DTYPE_BF16, (size_t)c->tokens * WIDTH, 1, &x);
        l.up = random_array(DTYPE_BF16, (size_t)c->experts * INNER * WIDTH, 0.5f, &up);
        l.down = random_array(DTYPE_BF16, (size_t)c->experts * OUT * INNER, 0.5f, &down);
        float *got = malloc((size_t)c->tokens * OUT * sizeof *got);
        layer_run(stream, &l, logits, x, got);
        double error = 0, size = 0;
        for (uint32_t t = 0; t < c->tokens; t++) {
            double want[OUT];
            token_want(&l, t, want);
            for (uint32_t n = 0; n < OUT; n++) {
                error += (got[t * OUT + n] - want[n]) * (got[t * OUT + n] - want[n]);
                size += want[n] * want[n];
            }
        }
        assert_true(sqrt(error / size) <= 1e-3); // some values round to the neighbour in bfloat16
        void *buffers[] = {logits, x, up, down};
        void *arrays[] = {l.logits, l.x, l.up, l.down, got};
        for (size_t j = 0; j < 4; j++)
            device_free(buffers[j]);
        for (size_t j = 0; j < 5; j++)
            free(arrays[j]);
    }
    api->stream_close(stream);
}
