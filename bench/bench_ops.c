// SPDX-License-Identifier: Apache-2.0
// The packed products, complete decode steps (of short sequences and of one long sequence) and a
// prefill on the cpu device, compared with the limits of the machine measured in the same run.
//
//   bench_ops [threads [seconds per figure [limits|products|steps|all [shape [format]]]]]
//
// shape: a name below, or all; format: bfloat16, int8, or one of kernels/format.h; default: all.
// Weights are those of complete models (all layers), so that each is read from memory as in decode.
// Medians. Nothing is asserted; the output is for people.
#include "bench/peaks.h"
#include "kernels/cpu/internal.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 400, PARTS = 4, POSITION = 300, CONTEXT_MAX = 32768 };

struct model_shape {
    const char *name;
    uint32_t hidden, layers, heads, kv_heads, dim, ffn, vocab;
};

struct bench {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct stream_limits limits;
    uint32_t threads;
    double seconds;
    double read_gb;           // measured limits with all threads: reading,
    double math[DTYPE_COUNT]; // and the best instruction of the ISA level, tera-operations/s
    const char *math_name[DTYPE_COUNT];
};

struct loaded {
    const struct model_shape *shape;
    enum dtype dtype;
    enum weight_format format; // WEIGHT_FLOATS: elements of dtype
    struct weight *weight;     // [layers][PARTS]
    struct weight head, norm;
    size_t bytes; // bytes of all products
};

static double pack_seconds; // time in weight_put of the last model

static int seconds_order(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

// Returns the median seconds of run(context).
static double median_time(const struct bench *b, void (*run)(void *), void *context)
{
    double times[RUNS_MAX];
    uint32_t count = 0;
    run(context);
    double begin = clock_s();
    while (count < RUNS_MAX && (count < 3 || clock_s() - begin < b->seconds)) {
        double start = clock_s();
        run(context);
        times[count++] = clock_s() - start;
    }
    qsort(times, count, sizeof *times, seconds_order);
    return times[count / 2];
}

static void must(enum status status, const struct error *err)
{
    check(status == STATUS_OK, "%s: %s", status_name(status), err ? err->text : "");
}

static void *device_alloc(const struct bench *b, size_t bytes)
{
    void *at = NULL;
    struct error err = {0};
    must(b->api->memory_alloc(b->device, &at, bytes, &err), &err);
    return at;
}

static void floats_fill(const struct bench *b, float *x, size_t n, float deviation)
{
    for (size_t at = 0; at < n; at += 1 << 20)
        b->device->kernels.normal(x + at, 7, at, (uint32_t)(n - at < 1 << 20 ? n - at : 1 << 20),
                                  deviation);
}

// --- limits ---------------------------------------------------------------------------------

struct limit {
    const char *name;
    void (*peak)(uint64_t rounds); // NULL: reading
    uint64_t rounds;
    double operations;  // operations per round
    enum cpu_isa level; // lowest ISA level at which the device uses it
    enum dtype dtype;   // dtype of the weights it is for
    const char *unit;   // name of its operands
};

static const struct limit limits[] = {
    {"read bandwidth, GB/s", NULL, 1, 0, CPU_PLAIN, DTYPE_COUNT, ""},
    {"AVX-512 f32 FMA, TFLOP/s", peak_fma, 1000000, 12 * 32, CPU_AVX512, DTYPE_BF16, "lanes"},
    {"AVX512-BF16, TFLOP/s", peak_pairs, 1000000, 12 * 64, CPU_AVX512BF16, DTYPE_BF16, "pairs"},
    {"AVX512-VNNI int8, TOP/s", peak_quads, 1000000, 12 * 128, CPU_AVX512, DTYPE_I8, "quads"},
    {"AMX bf16, TFLOP/s", peak_amx_bf16, 100000, 4 * 16384, CPU_AMX, DTYPE_BF16, "tiles"},
    {"AMX int8, TOP/s", peak_amx_int8, 100000, 4 * 32768, CPU_AMX, DTYPE_I8, "tiles"},
};

struct limit_thread {
    const struct limit *limit;
    const char *at;
    size_t bytes;
    uint64_t sum;
};

static void *limit_main(void *argument)
{
    struct limit_thread *t = argument;
    if (!t->limit->peak)
        t->sum = peak_read(t->at, t->bytes);
    else
        t->limit->peak(t->limit->rounds);
    return NULL;
}

struct limit_run {
    const struct limit *limit;
    uint32_t threads;
    const char *memory;
    size_t bytes;
};

static void limit_once(void *context)
{
    const struct limit_run *run = context;
    struct limit_thread part[64];
    pthread_t thread[64];
    for (uint32_t i = 0; i < run->threads; i++) {
        size_t each = run->bytes / run->threads / 4096 * 4096;
        part[i] = (struct limit_thread){run->limit, run->memory + i * each, each, 0};
        pthread_create(&thread[i], NULL, limit_main, &part[i]);
    }
    for (uint32_t i = 0; i < run->threads; i++)
        pthread_join(thread[i], NULL);
}

static void limits_measure(struct bench *b)
{
    size_t bytes = (size_t)1 << 30;
    char *memory = device_alloc(b, bytes);
    memset(memory, 1, bytes);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const struct limit *limit = &limits[i];
        if (b->device->level < limit->level)
            continue;
        double figure[2];
        for (uint32_t j = 0; j < 2; j++) {
            struct limit_run run = {limit, j == 0 ? 1 : b->threads, memory, bytes};
            double seconds = median_time(b, limit_once, &run);
            double work = limit->operations * (double)limit->rounds * run.threads / 1e12;
            figure[j] = (!limit->peak ? (double)bytes / 1e9 : work) / seconds;
        }
        printf("limit  %-26s 1 thread %8.3f   %u threads %8.3f\n", limit->name, figure[0],
               b->threads, figure[1]);
        if (!limit->peak) {
            b->read_gb = figure[1];
            continue;
        }
        b->math[limit->dtype] = figure[1];
        b->math_name[limit->dtype] = limit->unit;
    }
    b->api->memory_free(b->device, memory, bytes);
}

// --- models ---------------------------------------------------------------------------------

static const char *held_name(const struct loaded *m)
{
    return m->format == WEIGHT_FLOATS ? dtype_name(m->dtype) : weight_format_facts(m->format)->name;
}

// Returns the bytes of a tensor of blocks, or of int4 arrays if the format has no blocks: arbitrary
// codes, scales below 2^-7.
static uint8_t *blocks_make(struct weight_int4 *int4, enum weight_format format)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    size_t elements = (size_t)int4->n * int4->k, each = f->bytes > 0 ? f->bytes : 2;
    size_t first = f->bytes > 0 ? 0 : elements / 2; // the codes of int4 precede the scales
    size_t end = first + elements / f->elements * each;
    size_t bytes = end + (f->zeros ? elements / f->elements : 0) + 32;
    uint8_t *blocks = malloc(bytes);
    check(blocks, "%zu bytes", bytes);
    for (size_t i = 0; i < bytes; i++)
        blocks[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t at = first; at < end; at += each)
        for (uint32_t i = 0; i < (f->least && !f->zeros ? 2u : 1u); i++)
            blocks[at + (format == WEIGHT_Q6_K ? 208 : 2 * i) + !f->e2m1] = f->e2m1 ? 0x78 : 0x1D;
    int4->codes = blocks;
    int4->scales = blocks + first;
    int4->zeros = f->zeros ? blocks + end : NULL;
    int4->group = f->elements;
    return blocks;
}

static struct weight weight_make(const struct bench *b, enum weight_use use, const struct loaded *m,
                                 uint32_t n, uint32_t k)
{
    struct error err = {0};
    struct weight w = {.shape = {.use = use, .dtype = m->dtype, .n = n, .k = k}};
    struct weight_source source = {.fd = -1,
                                   .dtype = DTYPE_BF16,
                                   .rows = n,
                                   .cols = k,
                                   .seed = n + k,
                                   .deviation = 0.02f,
                                   .format = m->format};
    struct weight_int4 int4 = {.scale_dtype = DTYPE_F16, .n = n, .k = k};
    uint8_t *blocks = NULL;
    if (m->format != WEIGHT_FLOATS && use != WEIGHT_VECTOR) {
        w.shape.part_count = 1;
        w.shape.parts[0] = (struct weight_codes){m->format, n};
        source.map = blocks = blocks_make(&int4, m->format);
        source.int4 = weight_format_facts(m->format)->bytes == 0 ? &int4 : NULL;
    }
    if (use == WEIGHT_VECTOR)
        source.format = WEIGHT_FLOATS;
    w.bytes = b->api->weight_bytes(b->device, &w.shape);
    w.data = device_alloc(b, w.bytes);
    double begin = clock_s();
    must(b->api->weight_put(b->device, &w, 0, &source, &err), &err);
    pack_seconds += clock_s() - begin;
    free(blocks);
    must(b->api->weight_finish(b->device, &w, &err), &err);
    return w;
}

static struct loaded model_load(const struct bench *b, const struct model_shape *s,
                                enum dtype dtype, enum weight_format format)
{
    uint32_t q = s->heads * s->dim;
    uint32_t qkv = (s->heads + 2 * s->kv_heads) * s->dim;
    uint32_t n[PARTS] = {qkv, s->hidden, 2 * s->ffn, s->hidden};
    uint32_t k[PARTS] = {s->hidden, q, s->hidden, s->ffn};
    struct loaded m = {.shape = s, .dtype = dtype, .format = format};
    pack_seconds = 0;
    m.weight = calloc((size_t)s->layers * PARTS, sizeof *m.weight);
    check(m.weight, "%u layers", s->layers);
    for (uint32_t i = 0; i < s->layers * PARTS; i++) {
        m.weight[i] = weight_make(b, WEIGHT_PRODUCT, &m, n[i % PARTS], k[i % PARTS]);
        m.bytes += m.weight[i].bytes;
    }
    m.head = weight_make(b, WEIGHT_TIED, &m, s->vocab, s->hidden);
    m.norm = weight_make(b, WEIGHT_VECTOR, &m, s->hidden, 1);
    m.bytes += m.head.bytes;
    return m;
}

static void model_free(const struct bench *b, struct loaded *m)
{
    for (uint32_t i = 0; i < m->shape->layers * PARTS; i++)
        b->api->memory_free(b->device, m->weight[i].data, m->weight[i].bytes);
    b->api->memory_free(b->device, m->head.data, m->head.bytes);
    b->api->memory_free(b->device, m->norm.data, m->norm.bytes);
    free(m->weight);
}

// One forward pass: `rows` sequences of `q_len` tokens each at `position`.
struct pass {
    const struct bench *b;
    const struct loaded *m;
    uint32_t rows, q_len, tokens;
    bool products_only;
    float *residual, *delta, *normed, *qkv, *attn, *up, *ffn, *last, *logits;
    uint32_t *position, *table;
    uint64_t *place;
    float *angles;
    char *cache;
    size_t cache_bytes;
    uint64_t token_bytes, head_bytes, layer_bytes, block_bytes;
    struct step *step;
    struct step_sampled *sampled;
    struct slot_state state;
    struct sample_result *result;
    double op_seconds[16];
    bool timed;
};

enum { OP_NORM, OP_GEMM, OP_POST, OP_ATTN, OP_SWIGLU, OP_SAMPLE, OP_GATHER, OPS };

static void pass_gemm(struct pass *p, const float *x, const struct weight *w, float *y,
                      uint32_t rows)
{
    struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, w, NULL, y, rows, w->shape.k, w->shape.n};
    must(p->b->api->ops->gemm(p->b->stream, &args), NULL);
}

static double pass_lap(struct pass *p, int op, double since)
{
    if (!p->timed)
        return 0;
    double now = clock_s();
    p->op_seconds[op] += now - since;
    return now;
}

static void pass_norm(struct pass *p, const float *add, float *x, uint32_t rows)
{
    struct rms_norm_args args = {DTYPE_F32,           x,     add,  &p->m->norm, p->normed, rows,
                                 p->m->shape->hidden, 1e-6f, NULL, 0,           0};
    must(p->b->api->ops->rms_norm(p->b->stream, &args), NULL);
}

static void pass_attention(struct pass *p, uint32_t layer)
{
    const struct model_shape *s = p->m->shape;
    struct qkv_post_args post = {
        .act = DTYPE_F32,
        .kv = DTYPE_BF16,
        .qkv = p->qkv,
        .cos_sin = p->angles,
        .position = p->position,
        .kv_write_offset = p->place,
        .kv_base = p->cache,
        .layer_offset = layer * p->layer_bytes,
        .value_offset = p->layer_bytes / 2,
        .head_bytes = p->head_bytes,
        .shape = p->b->limits.attn,
        .token_count = p->tokens,
        .rotary_dim = s->dim,
        .epsilon = 1e-6f,
    };
    double t = p->timed ? clock_s() : 0;
    must(p->b->api->ops->qkv_post(p->b->stream, &post), NULL);
    t = pass_lap(p, OP_POST, t);
    struct attn_args args = {
        .act = DTYPE_F32,
        .kv = DTYPE_BF16,
        .qkv = p->qkv,
        .out = p->attn,
        .step = p->step,
        .step_host = p->step,
        .block_table = p->table,
        .kv_base = p->cache,
        .layer_offset = post.layer_offset,
        .value_offset = post.value_offset,
        .head_bytes = p->head_bytes,
        .token_bytes = p->token_bytes,
        .shape = post.shape,
        .blocks_max = p->b->limits.step.blocks_max,
        .block_shift = 6,
        .row_count = p->rows,
        .token_count = p->tokens,
    };
    must(p->b->api->ops->attn(p->b->stream, &args), NULL);
    pass_lap(p, OP_ATTN, t);
}

static void layer_run(struct pass *p, uint32_t layer)
{
    const struct weight *w = p->m->weight + (size_t)layer * PARTS;
    const struct model_shape *s = p->m->shape;
    if (p->products_only) {
        pass_gemm(p, p->normed, &w[0], p->qkv, p->tokens);
        pass_gemm(p, p->attn, &w[1], p->delta, p->tokens);
        pass_gemm(p, p->normed, &w[2], p->up, p->tokens);
        pass_gemm(p, p->ffn, &w[3], p->delta, p->tokens);
        return;
    }
    double t = p->timed ? clock_s() : 0;
    pass_norm(p, layer > 0 ? p->delta : NULL, p->residual, p->tokens);
    t = pass_lap(p, OP_NORM, t);
    pass_gemm(p, p->normed, &w[0], p->qkv, p->tokens);
    pass_lap(p, OP_GEMM, t);
    pass_attention(p, layer);
    t = p->timed ? clock_s() : 0;
    pass_gemm(p, p->attn, &w[1], p->delta, p->tokens);
    t = pass_lap(p, OP_GEMM, t);
    pass_norm(p, p->delta, p->residual, p->tokens);
    t = pass_lap(p, OP_NORM, t);
    pass_gemm(p, p->normed, &w[2], p->up, p->tokens);
    t = pass_lap(p, OP_GEMM, t);
    struct swiglu_args swiglu = {DTYPE_F32, p->up, p->ffn, p->tokens, s->ffn, NULL, 0, 0, 0};
    must(p->b->api->ops->swiglu(p->b->stream, &swiglu), NULL);
    t = pass_lap(p, OP_SWIGLU, t);
    pass_gemm(p, p->ffn, &w[3], p->delta, p->tokens);
    pass_lap(p, OP_GEMM, t);
}

static void pass_sample(struct pass *p)
{
    struct sample_args args = {
        .logits = p->logits,
        .sampled = p->sampled,
        .state = p->state,
        .result = p->result,
        .limits = p->b->limits.step,
        .count = p->rows,
        .stride = p->m->shape->vocab,
    };
    args.limits.vocab = p->m->shape->vocab;
    must(p->b->api->ops->sample(p->b->stream, &args), NULL);
}

static void pass_run(void *context)
{
    struct pass *p = context;
    for (uint32_t layer = 0; layer < p->m->shape->layers; layer++)
        layer_run(p, layer);
    if (p->products_only) {
        pass_gemm(p, p->normed, &p->m->head, p->logits, p->rows);
        return;
    }
    double t = p->timed ? clock_s() : 0;
    struct gather_args gather = {DTYPE_F32, p->residual, p->sampled, 0,
                                 NULL,      p->last,     p->rows,    p->m->shape->hidden};
    must(p->b->api->ops->gather(p->b->stream, &gather), NULL);
    t = pass_lap(p, OP_GATHER, t);
    pass_norm(p, NULL, p->last, p->rows);
    t = pass_lap(p, OP_NORM, t);
    pass_gemm(p, p->normed, &p->m->head, p->logits, p->rows);
    t = pass_lap(p, OP_GEMM, t);
    pass_sample(p);
    pass_lap(p, OP_SAMPLE, t);
}

static float *floats_make(const struct bench *b, size_t n)
{
    float *x = device_alloc(b, n * sizeof *x);
    floats_fill(b, x, n, 1);
    return x;
}

static void pass_rows(struct pass *p, uint32_t before)
{
    const struct step_limits *l = &p->b->limits.step;
    struct step_layout layout;
    step_layout_init(&layout, l, p->b->api->step_private_bytes(p->b->device, &p->b->limits));
    p->step = device_alloc(p->b, layout.bytes);
    p->step->layout = layout;
    p->step->row_count = p->rows;
    p->step->token_count = p->tokens;
    struct step_row *row = step_section(p->step, layout.rows);
    for (uint32_t r = 0; r < p->rows; r++) {
        row[r] = (struct step_row){
            .slot = r, .q_start = r * p->q_len, .q_len = p->q_len, .kv_len = before + p->q_len};
        p->sampled[r] = (struct step_sampled){r, r, (r + 1) * p->q_len - 1, STEP_NO_ROW};
        p->state.params[r].top_p = 1;
        p->state.params[r].penalty_row = STEP_NO_ROW;
        for (uint32_t i = 0; i < l->blocks_max; i++)
            p->table[r * l->blocks_max + i] =
                (uint32_t)((r * l->blocks_max + i) * p->block_bytes / TABLE_UNIT_BYTES);
        for (uint32_t i = 0; i < p->q_len; i++) {
            uint32_t at = before + i;
            p->position[r * p->q_len + i] = at;
            p->place[r * p->q_len + i] =
                (uint64_t)p->table[r * l->blocks_max + at / 64] * TABLE_UNIT_BYTES +
                at % 64 * p->token_bytes;
        }
    }
    p->b->api->step_plan(p->b->stream, p->step);
}

static struct pass pass_make(const struct bench *b, const struct loaded *m, uint32_t rows,
                             uint32_t q_len, uint32_t before)
{
    const struct model_shape *s = m->shape;
    const struct step_limits *l = &b->limits.step;
    struct pass p = {.b = b, .m = m, .rows = rows, .q_len = q_len, .tokens = rows * q_len};
    size_t t = p.tokens;
    p.residual = floats_make(b, t * s->hidden);
    p.delta = floats_make(b, t * s->hidden);
    p.normed = floats_make(b, t * s->hidden);
    p.qkv = floats_make(b, t * (s->heads + 2 * s->kv_heads) * s->dim);
    p.attn = floats_make(b, t * s->heads * s->dim);
    p.up = floats_make(b, t * 2 * s->ffn);
    p.ffn = floats_make(b, t * s->ffn);
    p.last = floats_make(b, (size_t)rows * s->hidden);
    p.logits = floats_make(b, (size_t)rows * s->vocab);
    p.angles = floats_make(b, (size_t)CONTEXT_MAX * s->dim);
    p.position = device_alloc(b, t * sizeof *p.position);
    p.place = device_alloc(b, t * sizeof *p.place);
    p.table = device_alloc(b, (size_t)rows * l->blocks_max * sizeof *p.table);
    p.token_bytes = s->dim * sizeof(uint16_t);
    p.head_bytes = 64 * p.token_bytes;
    p.layer_bytes = 2 * s->kv_heads * p.head_bytes;
    p.block_bytes = s->layers * p.layer_bytes;
    p.cache_bytes = (size_t)rows * l->blocks_max * p.block_bytes;
    p.cache = device_alloc(b, p.cache_bytes);
    memset(p.cache, 0x3B, p.cache_bytes); // finite numbers, and touches the pages
    p.sampled = device_alloc(b, rows * sizeof *p.sampled);
    p.result = device_alloc(b, rows * sizeof *p.result);
    p.state.params = device_alloc(b, rows * sizeof *p.state.params);
    p.state.done = device_alloc(b, rows * sizeof *p.state.done);
    p.state.last_token = device_alloc(b, rows * sizeof *p.state.last_token);
    pass_rows(&p, before);
    return p;
}

static void pass_free(struct pass *p)
{
    const struct bench *b = p->b;
    const struct model_shape *s = p->m->shape;
    size_t t = p->tokens * sizeof(float);
    b->api->memory_free(b->device, p->residual, t * s->hidden);
    b->api->memory_free(b->device, p->delta, t * s->hidden);
    b->api->memory_free(b->device, p->normed, t * s->hidden);
    b->api->memory_free(b->device, p->qkv, t * (s->heads + 2 * s->kv_heads) * s->dim);
    b->api->memory_free(b->device, p->attn, t * s->heads * s->dim);
    b->api->memory_free(b->device, p->up, t * 2 * s->ffn);
    b->api->memory_free(b->device, p->ffn, t * s->ffn);
    b->api->memory_free(b->device, p->logits, (size_t)p->rows * s->vocab * sizeof(float));
    b->api->memory_free(b->device, p->cache, p->cache_bytes);
    // the small buffers are freed when the process ends
}

// --- reports --------------------------------------------------------------------------------

static void products_report(const struct bench *b, const struct loaded *m)
{
    static const uint32_t counts[] = {1, 2, 4, 8, 16, 32, 128, 512};
    for (int i = 0; i < 8; i++) {
        uint32_t q_len = counts[i] > 32 ? counts[i] : 1;
        struct pass p = pass_make(b, m, counts[i] / q_len, q_len, 0);
        p.products_only = true;
        double seconds = median_time(b, pass_run, &p);
        double macs = (double)p.tokens * 0;
        for (uint32_t j = 0; j < m->shape->layers * PARTS; j++)
            macs += (double)m->weight[j].shape.n * m->weight[j].shape.k * p.tokens;
        macs += (double)m->shape->vocab * m->shape->hidden * p.rows;
        double peak = m->format == WEIGHT_FLOATS ? b->math[m->dtype] : b->math[DTYPE_I8];
        double read = (double)m->bytes / seconds / 1e9;
        double rate = 2 * macs / seconds / 1e12;
        printf("product %-14s %-8s M %4u  %8.2f ms  %7.2f GB/s (%3.0f %% of reading)  "
               "%6.3f T/s (%3.0f %% of the %s)  %7.1f tokens/s\n",
               m->shape->name, held_name(m), counts[i], seconds * 1e3, read,
               b->read_gb > 0 ? 100 * read / b->read_gb : 0, rate, peak > 0 ? 100 * rate / peak : 0,
               peak > 0 ? b->math_name[m->format == WEIGHT_FLOATS ? m->dtype : DTYPE_I8] : "peak",
               p.tokens / seconds);
        pass_free(&p);
    }
}

static void ops_print(struct pass *p)
{
    static const char *const names[OPS] = {"norms",  "products", "qkv_post", "attn",
                                           "swiglu", "sample",   "gather"};
    memset(p->op_seconds, 0, sizeof p->op_seconds);
    p->timed = true;
    for (int i = 0; i < 3; i++)
        pass_run(p);
    printf("        ");
    for (int i = 0; i < OPS; i++)
        printf(" %s %.2f ms", names[i], p->op_seconds[i] * 1e3 / 3);
    printf("\n");
}

// Prints the read rate of attention, compared with reading alone.
static void attention_print(const struct pass *p, uint32_t before)
{
    const struct model_shape *s = p->m->shape;
    double bytes = (double)s->layers * s->kv_heads * 2 * (double)p->token_bytes * p->rows *
                   (before + p->q_len);
    double read = bytes / (p->op_seconds[OP_ATTN] / 3) / 1e9;
    printf("         attention reads %.1f MB at %.2f GB/s (%.0f %% of reading)\n", bytes / 1e6,
           read, p->b->read_gb > 0 ? 100 * read / p->b->read_gb : 0);
}

static void step_report(const struct bench *b, const struct loaded *m, uint32_t rows,
                        uint32_t q_len, uint32_t before)
{
    struct pass p = pass_make(b, m, rows, q_len, before);
    double whole = median_time(b, pass_run, &p);
    p.products_only = true;
    double products = median_time(b, pass_run, &p);
    p.products_only = false;
    printf("step    %-14s %-8s %s %3u tokens after a context of %5u  %8.2f ms, products alone "
           "%8.2f: %.2f times  %7.1f tokens/s\n",
           m->shape->name, held_name(m), q_len == 1 ? "decode, batch" : "prefill of   ",
           q_len == 1 ? rows : q_len, before, whole * 1e3, products * 1e3, whole / products,
           p.tokens / whole);
    ops_print(&p);
    if (before + q_len == CONTEXT_MAX)
        attention_print(&p, before);
    pass_free(&p);
}

static void model_report(struct bench *b, const struct model_shape *s, enum dtype dtype,
                         enum weight_format format, const char *what)
{
    struct error err = {0};
    b->limits = (struct stream_limits){
        .step = {.rows_max = 32,
                 .tokens_max = 512,
                 .slots_max = 32,
                 .blocks_max = 16,
                 .vocab = s->vocab},
        .attn = {.heads = s->heads,
                 .kv_heads = s->kv_heads,
                 .dim = s->dim,
                 .scale = 0.125f,
                 .causal = 1,
                 .paged = 1},
        .width_max = s->vocab,
        .layers = s->layers,
    };
    must(b->api->stream_open(b->device, &b->stream, &b->limits, &err), &err);
    double begin = clock_s();
    struct loaded m = model_load(b, s, dtype, format);
    printf(
        "load    %-14s %-8s %.2f GB of weights generated and packed in %.2f s, packed in %.2f s\n",
        s->name, held_name(&m), (double)m.bytes / 1e9, clock_s() - begin, pack_seconds);
    if (strcmp(what, "steps") != 0)
        products_report(b, &m);
    if (strcmp(what, "products") != 0) {
        step_report(b, &m, 1, 1, POSITION);
        step_report(b, &m, 16, 1, POSITION);
        step_report(b, &m, 32, 1, POSITION);
        step_report(b, &m, 1, 512, 0);
        b->api->stream_close(b->stream);
        b->limits.step.rows_max = 1;
        b->limits.step.blocks_max = CONTEXT_MAX / 64;
        must(b->api->stream_open(b->device, &b->stream, &b->limits, &err), &err);
        step_report(b, &m, 1, 1, CONTEXT_MAX - 1);
    }
    model_free(b, &m);
    b->api->stream_close(b->stream);
}

// Reports a model in each format that is selected and that fits its widths.
static void shape_report(struct bench *b, const struct model_shape *s, const char *format,
                         const char *what)
{
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_I8};
    for (int i = 0; i < 2; i++)
        if (strcmp(format, "all") == 0 || strcmp(format, dtype_name(dtypes[i])) == 0)
            model_report(b, s, dtypes[i], WEIGHT_FLOATS, what);
    for (int i = WEIGHT_FLOATS + 1; i < WEIGHT_FORMAT_CODES; i++) {
        const struct weight_format_facts *f = weight_format_facts((enum weight_format)i);
        bool fits = s->hidden % f->elements == 0 && s->ffn % f->elements == 0;
        if (fits && (strcmp(format, "all") == 0 || strcmp(format, f->name) == 0))
            model_report(b, s, DTYPE_F32, (enum weight_format)i, what);
    }
}

int main(int argc, char **argv)
{
    static const struct model_shape shapes[] = {
        {"qwen2.5-0.5b", 896, 24, 14, 2, 64, 4864, 151936},
        {"llama-3.2-1b", 2048, 16, 32, 8, 64, 8192, 128256},
        {"llama-3.2-3b", 3072, 28, 24, 8, 128, 8192, 128256},
    };
    struct bench b = {.api = device_cpu(), .seconds = argc > 2 ? strtod(argv[2], NULL) : 0.5};
    struct device_options options = {.threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0,
                                     .exact = true};
    const char *what = argc > 3 ? argv[3] : "all";
    const char *shape = argc > 4 ? argv[4] : "all", *format = argc > 5 ? argv[5] : "all";
    struct error err = {0};
    struct device_facts facts;
    must(b.api->open(&b.device, &options, &err), &err);
    b.api->facts(b.device, &facts);
    b.threads = threads_count(b.device->threads);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("device  %s\n", facts.name);
    limits_measure(&b);
    if (strcmp(what, "limits") != 0)
        for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            if (strcmp(shape, "all") == 0 || strcmp(shape, shapes[i].name) == 0)
                shape_report(&b, &shapes[i], format, what);
    b.api->close(b.device);
    return 0;
}
