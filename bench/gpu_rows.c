// SPDX-License-Identifier: Apache-2.0
// The rows of gpu_ops other than products and attention: add+norm, qkv_post and SwiGLU at four
// sizes, sampling in five forms, the gap between launches with and without a graph, and the latency
// of a signal from the device to a waiting host.
#include "bench/gpu_ops.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t token_counts[] = {1, 64, 256, 8192};

static uint32_t token_sizes(const struct bench *b)
{
    return b->small ? 1 : sizeof token_counts / sizeof token_counts[0];
}

struct stream *rows_stream(struct bench *b)
{
    struct stream_limits limits = {.step = {.rows_max = 256, .tokens_max = 8192},
                                   .width_max = 32768,
                                   .e4m3_width = 16384,
                                   .products_padded = true};
    return open_stream(b, &limits);
}

static void weight_free(struct bench *b, struct weight w)
{
    b->api->memory_free(b->device, w.data, w.bytes);
}

static struct weight ones_of(struct bench *b, uint32_t n)
{
    struct weight w = {.shape = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = n, .k = 1}};
    w.bytes = b->api->weight_bytes(b->device, &w.shape);
    w.data = device_alloc(b, w.bytes);
    struct weight_source source = {.fd = -1, .rows = n, .cols = 1, .seed = 5, .deviation = 1};
    need(b->api->weight_put(b->device, &w, 0, &source, NULL), "vector");
    need(b->api->weight_finish(b->device, &w, NULL), "vector");
    return w;
}

// Prints the row of an op whose output is the input of a product with `next` (or NULL), in FP8: the
// op then writes codes, too. elements: bytes per element without codes.
static void before_product(struct bench *b, const char *op, const struct weight *next,
                           uint32_t rows, uint32_t width, double seconds, double elements)
{
    bool blocks = next && next->shape.parts[0].format == WEIGHT_FP8_128;
    char what[64], shape[64];
    snprintf(what, sizeof what, "%s%s", op,
             !next    ? ""
             : blocks ? " before fp8_128"
                      : " before fp8");
    snprintf(shape, sizeof shape, "rows %u width %u", rows, width);
    b->print(b, &(struct bench_row){what, shape, seconds,
                                    (elements + (next != NULL)) * rows * width, 0});
}

void bench_norm(struct bench *b, struct stream *stream, uint32_t rows, uint32_t width,
                const struct weight *next)
{
    struct weight residual = random_weight(b, rows, width, 1),
                  add = random_weight(b, rows, width, 2);
    struct weight out = random_weight(b, rows, width, 3), weight = ones_of(b, width);
    struct rms_norm_args args = {.act = DTYPE_BF16,
                                 .residual = residual.data,
                                 .add = add.data,
                                 .weight = &weight,
                                 .out = out.data,
                                 .rows = rows,
                                 .width = width,
                                 .epsilon = 1e-6f,
                                 .next = next};
    need(b->api->ops->rms_norm(stream, &args), "rms_norm");
    settle(b, stream);
    double start = clock_s();
    for (uint32_t i = 0; i < b->repeats; i++)
        need(b->api->ops->rms_norm(stream, &args), "rms_norm");
    settle(b, stream);
    before_product(b, "add_rms_norm", next, rows, width, (clock_s() - start) / b->repeats, 8);
    weight_free(b, residual);
    weight_free(b, add);
    weight_free(b, out);
    weight_free(b, weight);
}

void bench_swiglu(struct bench *b, struct stream *stream, uint32_t rows, uint32_t width,
                  const struct weight *next)
{
    struct weight in = random_weight(b, rows, 2 * width, 1), out = random_weight(b, rows, width, 2);
    struct swiglu_args args = {.act = DTYPE_BF16,
                               .in = in.data,
                               .out = out.data,
                               .rows = rows,
                               .width = width,
                               .next = next};
    need(b->api->ops->swiglu(stream, &args), "swiglu");
    settle(b, stream);
    double start = clock_s();
    for (uint32_t i = 0; i < b->repeats; i++)
        need(b->api->ops->swiglu(stream, &args), "swiglu");
    settle(b, stream);
    before_product(b, "swiglu", next, rows, width, (clock_s() - start) / b->repeats, 6);
    weight_free(b, in);
    weight_free(b, out);
}

void bench_qkv_post(struct bench *b, struct stream *stream, uint32_t tokens)
{
    const struct attn_shape s = {32, 8, 128, 0, 0.0884f, 1, 1, 0};
    uint32_t all = s.heads + 2 * s.kv_heads, blocks = (tokens + 63) / 64;
    uint64_t head_bytes = 64 * 128 * 2, block_bytes = 2 * head_bytes * s.kv_heads;
    struct weight qkv = random_weight(b, tokens, all * s.dim, 1);
    struct weight kv = random_weight(b, blocks, (uint32_t)(block_bytes / 2), 2);
    struct weight q_norm = ones_of(b, s.dim), k_norm = ones_of(b, s.dim);
    struct weight table = ones_of(b, tokens * s.dim); // table of angles; the values do not matter
    uint32_t *position = calloc(tokens, sizeof *position);
    uint64_t *place = calloc(tokens, sizeof *place);
    for (uint32_t i = 0; i < tokens; i++) {
        position[i] = i;
        place[i] = i / 64 * block_bytes + i % 64 * 256;
    }
    struct qkv_post_args args = {.act = DTYPE_BF16,
                                 .kv = DTYPE_BF16,
                                 .qkv = qkv.data,
                                 .q_norm = &q_norm,
                                 .k_norm = &k_norm,
                                 .cos_sin = table.data,
                                 .position = device_alloc(b, tokens * sizeof *position),
                                 .kv_write_offset = device_alloc(b, tokens * sizeof *place),
                                 .kv_base = kv.data,
                                 .value_offset = head_bytes * s.kv_heads,
                                 .head_bytes = head_bytes,
                                 .shape = s,
                                 .token_count = tokens,
                                 .rotary_dim = s.dim,
                                 .epsilon = 1e-6f};
    char shape[64];
    void *buffers[] = {(void *)(uintptr_t)args.position, (void *)(uintptr_t)args.kv_write_offset};
    need(b->api->upload(b->device, buffers[0], position, tokens * sizeof *position, NULL),
         "tables");
    need(b->api->upload(b->device, buffers[1], place, tokens * sizeof *place, NULL), "tables");
    need(b->api->ops->qkv_post(stream, &args), "qkv_post");
    settle(b, stream);
    double start = clock_s();
    for (uint32_t i = 0; i < b->repeats; i++)
        need(b->api->ops->qkv_post(stream, &args), "qkv_post");
    settle(b, stream);
    snprintf(shape, sizeof shape, "tokens %u heads 32/8 dim 128, QK-norm", tokens);
    double moved =
        (double)tokens * s.dim * (2.0 * (2 * (s.heads + s.kv_heads) + 2 * s.kv_heads) + 4);
    b->print(b, &(struct bench_row){"qkv_post", shape, (clock_s() - start) / b->repeats, moved, 0});
    for (size_t i = 0; i < 2; i++)
        b->api->memory_free(b->device, buffers[i], 0);
    struct weight weights[] = {qkv, kv, q_norm, k_norm, table};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        weight_free(b, weights[i]);
    free(position);
    free(place);
}

// --- sampling -----------------------------------------------------------------------------------

struct sample_form {
    const char *name;
    struct sample_params params;
    double passes; // least passes over the logits
};

struct sample_bench {
    struct weight logits;
    struct sample_args args;
    struct stream *stream;
};

static void sample_run(struct bench *b, struct sample_bench *s, const struct sample_form *form,
                       uint32_t rows)
{
    struct sample_params *params = calloc(rows, sizeof *params);
    for (uint32_t i = 0; i < rows; i++) {
        params[i] = form->params;
        params[i].penalty_row = i;
        params[i].seed = i;
    }
    need(b->api->upload(b->device, s->args.state.params, params, rows * sizeof *params, NULL),
         "parameters");
    free(params);
    s->args.count = rows;
    s->args.max_top = form->params.top_logprobs;
    need(b->api->ops->sample(s->stream, &s->args), "sample");
    settle(b, s->stream);
    double start = clock_s();
    for (uint32_t i = 0; i < b->repeats; i++)
        need(b->api->ops->sample(s->stream, &s->args), "sample");
    settle(b, s->stream);
    char shape[96];
    snprintf(shape, sizeof shape, "%s, rows %u, vocabulary %u", form->name, rows,
             s->args.limits.vocab);
    b->print(b, &(struct bench_row){"sample", shape, (clock_s() - start) / b->repeats,
                                    4.0 * form->passes * rows * s->args.limits.vocab, 0});
}

void bench_sample(struct bench *b, uint32_t vocab, uint32_t most)
{
    enum { PLAIN_TEMPERATURE = 1 };
    const struct sample_params greedy = {.top_p = 1, .repetition = 1};
    struct sample_form forms[] = {{"greedy", greedy, 1},
                                  {"temperature", greedy, 2},
                                  {"top-k 50, top-p 0.9", greedy, 3},
                                  {"penalties", greedy, 2.5},
                                  {"20 logprobs", greedy, 2}};
    for (size_t i = PLAIN_TEMPERATURE; i < 4; i++)
        forms[i].params.temperature = 0.8f;
    forms[2].params.top_k = 50;
    forms[2].params.top_p = 0.9f;
    forms[3].params.repetition = 1.1f;
    forms[3].params.flags = SAMPLE_PENALTY;
    forms[4].params.top_logprobs = SAMPLE_TOP_MAX;
    forms[4].params.flags = SAMPLE_LOGPROB;
    struct stream_limits limits = {.step = {.rows_max = most,
                                            .tokens_max = most,
                                            .slots_max = most,
                                            .penalty_rows = most,
                                            .vocab = vocab},
                                   .width_max = vocab};
    struct sample_bench s = {.stream = open_stream(b, &limits)};
    s.logits = (struct weight){
        .shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = most, .k = vocab}};
    s.logits.bytes = b->api->weight_bytes(b->device, &s.logits.shape);
    s.logits.data = device_alloc(b, s.logits.bytes);
    struct weight_source source = {
        .fd = -1, .rows = most, .cols = vocab, .seed = 1, .deviation = 2};
    need(b->api->weight_put(b->device, &s.logits, 0, &source, NULL), "logits");
    need(b->api->weight_finish(b->device, &s.logits, NULL), "logits");
    struct step_sampled *sampled = calloc(most, sizeof *sampled);
    for (uint32_t i = 0; i < most; i++)
        sampled[i] = (struct step_sampled){i, i, i, STEP_NO_ROW};
    size_t sampled_bytes = most * sizeof *sampled;
    void *rows = device_alloc(b, sampled_bytes), *result = NULL, *top = NULL;
    need(b->api->upload(b->device, rows, sampled, sampled_bytes, NULL), "rows");
    size_t top_bytes = (size_t)most * SAMPLE_TOP_MAX * sizeof(struct sample_top);
    need(b->api->host_alloc(b->device, &result, most * sizeof(struct sample_result), NULL),
         "result");
    need(b->api->host_alloc(b->device, &top, top_bytes, NULL), "result");
    s.args = (struct sample_args){.logits = s.logits.data,
                                  .sampled = rows,
                                  .result = result,
                                  .top = top,
                                  .limits = limits.step,
                                  .stride = vocab};
    s.args.state.params = device_alloc(b, most * sizeof(struct sample_params));
    s.args.state.done = device_alloc(b, most * sizeof(uint32_t));
    s.args.state.last_token = device_alloc(b, most * sizeof(int32_t));
    s.args.state.penalty = device_alloc(b, (size_t)most * vocab * sizeof(uint16_t));
    static const uint32_t counts[] = {1, 16, 64, 256};
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++)
        for (size_t i = 0; i < 4 && counts[i] <= most; i++)
            sample_run(b, &s, &forms[f], counts[i]);
    void *buffers[] = {rows, s.args.state.params, s.args.state.done, s.args.state.last_token,
                       s.args.state.penalty};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        b->api->memory_free(b->device, buffers[i], 0);
    b->api->host_free(b->device, result, most * sizeof(struct sample_result));
    b->api->host_free(b->device, top, top_bytes);
    weight_free(b, s.logits);
    free(sampled);
    b->api->stream_close(s.stream);
}

// --- launches and signals -----------------------------------------------------------------------

static void gap_row(struct bench *b, const char *shape, double seconds)
{
    b->print(b, &(struct bench_row){"launch gap", shape, seconds, 0, 0});
}

// Small kernels of two kinds, which use shared memory of an SM differently.
struct gaps {
    struct rms_norm_args norm; // one row of 64 columns
    struct attention attn;     // one row of 64 keys
};

static void norm_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct gaps *g = context;
    (void)i;
    need(b->api->ops->rms_norm(stream, &g->norm), "node");
}

static void near_attention_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct gaps *g = context;
    (void)i;
    attention_launch(b, stream, &g->attn, 0);
}

static void unlike_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    (i % 2 ? near_attention_launch : norm_launch)(b, stream, context, i);
}

// Launches 400 kernels that do little: nearly all their time is the gap between launches. If
// kernels of two kinds in turn take longer than the mean of 400 of each kind, an SM is emptied
// between them.
void bench_gaps(struct bench *b)
{
    enum { NODES = 400, WIDTH = 64 };
    static const struct attn_bench near = {
        .name = "gap", .shape = {32, 8, 128, 0, 0.0884f, 1, 1, 0}, 1, 1, 64, 6, 0, false};
    struct weight x = random_weight(b, 1, WIDTH, 1), weight = ones_of(b, WIDTH);
    struct gaps g = {.norm = {.act = DTYPE_BF16,
                              .residual = x.data,
                              .weight = &weight,
                              .out = x.data,
                              .rows = 1,
                              .width = WIDTH,
                              .epsilon = 1e-6f}};
    attention_open(b, &near, &g.attn);
    struct stream *stream = g.attn.stream;
    uint32_t nodes = b->small ? NODES / 40 : NODES;
    norm_launch(b, stream, &g, 0);
    near_attention_launch(b, stream, &g, 0);
    settle(b, stream);
    double start = clock_s();
    for (uint32_t i = 0; i < nodes; i++)
        norm_launch(b, stream, &g, i);
    settle(b, stream);
    gap_row(b, "400 launches, each", (clock_s() - start) / nodes);
    gap_row(b, "graph of 400 nodes, each", graph_time(b, stream, norm_launch, &g, nodes));
    gap_row(b, "graph of 400 attentions, each",
            graph_time(b, stream, near_attention_launch, &g, nodes));
    gap_row(b, "graph of 400, norms and attentions in turn, each",
            graph_time(b, stream, unlike_launch, &g, nodes));
    attention_close(b, &g.attn);
    weight_free(b, x);
    weight_free(b, weight);
}

// Times a signal, from its launch on an idle stream until the host has seen it.
static void bench_signal(struct bench *b, struct stream *stream)
{
    enum { TRIES = 201 };
    double seen[TRIES];
    for (int i = 0; i < TRIES; i++) {
        double start = clock_s();
        settle(b, stream);
        seen[i] = clock_s() - start;
    }
    qsort(seen, TRIES, sizeof seen[0], by_size);
    b->print(b, &(struct bench_row){"signal", "launched and seen, median", seen[TRIES / 2], 0, 0});
    b->print(b, &(struct bench_row){"signal", "launched and seen, 99 of 100",
                                    seen[TRIES * 99 / 100], 0, 0});
}

void bench_loads(struct bench *b)
{
    const uint32_t k = 4096, n = b->small ? 256 : 128 << 10; // 1 GiB in bfloat16
    const size_t bytes = (size_t)n * k * sizeof(uint16_t), piece = bytes / 16;
    struct stream *stream = rows_stream(b);
    struct weight w = {.shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_BF16, .n = n, .k = k}};
    void *host = NULL, *map = calloc(1, bytes);
    w.bytes = b->api->weight_bytes(b->device, &w.shape);
    w.data = device_alloc(b, w.bytes);
    need(b->api->host_alloc(b->device, &host, piece, NULL), "host memory");
    need(b->api->copy_in(stream, w.data, host, piece), "copy");
    settle(b, stream);
    double start = clock_s();
    for (uint32_t i = 0; i < b->repeats; i++)
        need(b->api->copy_in(stream, w.data, host, piece), "copy");
    settle(b, stream);
    b->print(b, &(struct bench_row){"copy in", "pinned memory, 64 MiB",
                                    (clock_s() - start) / b->repeats, (double)piece, 0});
    memset(map, 1, bytes); // its pages exist
    struct weight_source source = {.map = map, .fd = -1, .dtype = DTYPE_BF16, .rows = n, .cols = k};
    start = clock_s();
    need(b->api->weight_put(b->device, &w, 0, &source, NULL), "weight");
    need(b->api->weight_finish(b->device, &w, NULL), "weight");
    b->print(b, &(struct bench_row){"load", "a weight of 1 GiB in the page cache",
                                    clock_s() - start, (double)bytes, 0});
    b->api->host_free(b->device, host, piece);
    weight_free(b, w);
    free(map);
    b->api->stream_close(stream);
}

// Norms and gates that write codes: in the default mode, of more than 32 rows.
static void bench_fused(struct bench *b, struct stream *stream)
{
    static const struct bench_held held = {DTYPE_BF16, WEIGHT_FP8};
    uint32_t widths[] = {4096, b->small ? 128 : 12288};
    for (uint32_t i = 0; i < 2; i++) {
        struct weight next = held_weight(b, &held, 16, widths[i], 1);
        for (uint32_t rows = b->small ? 33 : 64; rows <= 8192; rows *= b->small ? 8192 : 8)
            (i == 0 ? bench_norm : bench_swiglu)(b, stream, rows, widths[i], &next);
        weight_free(b, next);
    }
}

void bench_rows(struct bench *b)
{
    struct stream *stream = rows_stream(b);
    struct device_facts facts;
    b->api->facts(b->device, &facts);
    for (uint32_t i = 0; i < token_sizes(b); i++) {
        bench_norm(b, stream, token_counts[i], b->small ? 256 : 4096, NULL);
        bench_swiglu(b, stream, token_counts[i], b->small ? 256 : 12288, NULL);
        bench_qkv_post(b, stream, token_counts[i]);
    }
    if (!facts.exact)
        bench_fused(b, stream);
    bench_gaps(b);
    bench_signal(b, stream);
    b->api->stream_close(stream);
    bench_sample(b, b->small ? 4096 : 151936, b->small ? 2 : 256);
}
