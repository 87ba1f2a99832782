// SPDX-License-Identifier: Apache-2.0
// The harness of the op tests; see trial.h.
#include "tests/conformance/trial.h"

#include "base/hash.h"

#include "kernels/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void limits_fill(struct stream_limits *limits)
{
    *limits = (struct stream_limits){
        .step = {.rows_max = 64,
                 .tokens_max = 640,
                 .slots_max = 64,
                 .blocks_max = 160,
                 .changes_max = 256,
                 .new_sequences_max = 16,
                 .history_max = 512,
                 .bias_max = 8,
                 .penalty_rows = 4,
                 .vocab = 16484}, // needs three chunks on the cuda device
        .attn = {.heads = 8, .kv_heads = 2, .dim = 256, .scale = 1, .causal = 1, .paged = 1},
        .width_max = 5120,
        .e4m3_width = 4224,
        .coded_most = 96 << 10, // so that larger weights have several strips
        .products_padded = true,
        .layers = 2,
    };
}

static bool trial_stream(struct trial *t, const char *name)
{
    struct error err = {0};
    t->name = name;
    t->api->facts(t->device, &t->facts);
    limits_fill(&t->limits);
    if (t->api->stream_open(t->device, &t->stream, &t->limits, &err) != STATUS_OK) {
        printf("%s: %s\n", name, err.text);
        t->api->close(t->device);
        return false;
    }
    return true;
}

const char *trial_only_level;
bool trial_fast;
uint32_t trial_few;

bool trial_open_cpu(struct trial *t, enum cpu_isa level, uint32_t threads)
{
    struct error err = {0};
    struct device_options options = {.threads = threads, .exact = !trial_fast};
    *t = (struct trial){.api = device_cpu(), .level = level};
    if (trial_only_level && strcmp(trial_only_level, cpu_isa_name(level)) != 0)
        return false;
    if (cpu_device_open(&t->device, &options, level, &err) != STATUS_OK) {
        printf("cpu: %s\n", err.text);
        return false;
    }
    if (t->device->level != level) {
        printf("skipped: this processor has no %s\n", cpu_isa_name(level));
        t->api->close(t->device);
        return false;
    }
    return trial_stream(t, cpu_isa_name(level));
}

bool trial_open_plugin(struct trial *t, const char *name, const char *path)
{
    struct error err = {0};
    struct device_options options = {.exact = !trial_fast};
    *t = (struct trial){.level = CPU_ISA_COUNT};
    if (device_plugin_open(&t->api, name, path, &err) != STATUS_OK ||
        t->api->open(&t->device, &options, &err) != STATUS_OK) {
        printf("skipped: %s\n", err.text);
        return false;
    }
    return trial_stream(t, name);
}

void trial_close(struct trial *t)
{
    trial_end(t);
    t->api->stream_close(t->stream);
    t->api->close(t->device);
}

// Launches an op, so that the op under test has a predecessor in the stream, as in a step.
static void trial_lead(struct trial *t)
{
    float *lead = trial_device(t, 128);
    struct swiglu_args args = {
        .act = DTYPE_F32, .in = lead, .out = lead + 16, .rows = 1, .width = 8};
    check(t->api->ops->swiglu(t->stream, &args) == STATUS_OK, "%s: no swiglu", t->name);
}

// A stream is opened for one shape of attention; its plan and scratch memory depend on it.
void trial_shape(struct trial *t, const struct attn_shape *shape)
{
    struct error err = {0};
    t->limits.attn = *shape;
    t->api->stream_close(t->stream);
    check(t->api->stream_open(t->device, &t->stream, &t->limits, &err) == STATUS_OK, "a stream: %s",
          err.text);
    trial_lead(t);
}

void trial_begin(struct trial *t, uint64_t seed)
{
    trial_end(t);
    t->seed = seed;
    t->state = 0;
    t->cases++;
    trial_lead(t);
}

void trial_end(struct trial *t)
{
    while (t->count > 0) {
        t->count--;
        void *at = t->piece[t->count].at;
        if (t->piece[t->count].kind == 0)
            t->api->memory_free(t->device, at, t->piece[t->count].bytes);
        else if (t->piece[t->count].kind == 1)
            t->api->host_free(t->device, at, t->piece[t->count].bytes);
        else
            free(at);
    }
}

static void *piece_keep(struct trial *t, void *at, size_t bytes, int kind)
{
    check(t->count < TRIAL_PIECES, "%u pieces", t->count);
    t->piece[t->count].at = at;
    t->piece[t->count].bytes = bytes;
    t->piece[t->count++].kind = kind;
    return at;
}

void *trial_heap(struct trial *t, size_t bytes)
{
    void *at = calloc(1, bytes > 0 ? bytes : 1);
    check(at, "%zu bytes", bytes);
    return piece_keep(t, at, bytes, 2);
}

void *trial_device(struct trial *t, size_t bytes)
{
    void *at = NULL;
    struct error err = {0};
    check(t->api->memory_alloc(t->device, &at, bytes, &err) == STATUS_OK, "%s", err.text);
    return piece_keep(t, at, bytes, 0);
}

void *trial_host(struct trial *t, size_t bytes)
{
    void *at = NULL;
    struct error err = {0};
    check(t->api->host_alloc(t->device, &at, bytes, &err) == STATUS_OK, "%s", err.text);
    return piece_keep(t, at, bytes, 1);
}

void *trial_put(struct trial *t, const void *from, size_t bytes)
{
    void *at = trial_device(t, bytes);
    struct error err = {0};
    check(t->api->upload(t->device, at, from, bytes, &err) == STATUS_OK, "%s", err.text);
    return at;
}

void trial_fetch(struct trial *t, void *to, const void *from, size_t bytes)
{
    struct error err = {0};
    void *host = NULL;
    void *word = NULL;
    check(t->api->host_alloc(t->device, &host, bytes, &err) == STATUS_OK, "%s", err.text);
    check(t->api->host_alloc(t->device, &word, 256, &err) == STATUS_OK, "%s", err.text);
    memset(word, 0, 4);
    enum status status = t->api->copy_out(t->stream, host, from, bytes);
    if (status == STATUS_OK)
        status = t->api->signal(t->stream, word, 1);
    if (status == STATUS_OK)
        status = t->api->wait(t->stream, word, 1, UINT64_MAX, &err);
    check(status == STATUS_OK, "%s: %s", status_name(status), err.text);
    memcpy(to, host, bytes);
    t->bits ^= hash_bytes((const uint64_t[]){t->bits, bytes}, to, bytes).low;
    t->api->host_free(t->device, host, bytes);
    t->api->host_free(t->device, word, 256);
}

static uint32_t trial_word(struct trial *t)
{
    struct philox_block block =
        philox4x32(t->seed, (uint32_t)t->state, (uint32_t)(t->state >> 32), 0, 77);
    t->state++;
    return block.word[0];
}

uint32_t trial_below(struct trial *t, uint32_t n)
{
    return (uint32_t)((uint64_t)trial_word(t) * n >> 32);
}

uint32_t trial_range(struct trial *t, uint32_t a, uint32_t b)
{
    return a + trial_below(t, b - a + 1);
}

float trial_normal(struct trial *t)
{
    return philox_normal(t->seed ^ 0x5555, t->state++, 1.0f);
}

float trial_rounded(float x, enum dtype dtype)
{
    if (dtype == DTYPE_BF16)
        return bf16_to_f32(f32_to_bf16(x));
    if (dtype == DTYPE_F16)
        return f16_to_f32(f32_to_f16(x));
    return x;
}

float *trial_floats(struct trial *t, size_t n, enum dtype dtype, float deviation)
{
    float *x = trial_heap(t, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = trial_rounded(deviation * trial_normal(t), dtype);
    return x;
}

void *trial_put_floats(struct trial *t, const float *x, size_t n, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        return trial_put(t, x, n * sizeof *x);
    uint16_t *bits = trial_heap(t, n * sizeof *bits);
    for (size_t i = 0; i < n; i++)
        bits[i] = dtype == DTYPE_BF16 ? f32_to_bf16(x[i]) : f32_to_f16(x[i]);
    return trial_put(t, bits, n * sizeof *bits);
}

void trial_fetch_to(struct trial *t, float *x, const void *from, size_t n, enum dtype dtype)
{
    if (dtype == DTYPE_F32) {
        trial_fetch(t, x, from, n * sizeof *x);
        return;
    }
    char *halves = (char *)x + n * sizeof(uint16_t); // widened in place, in ascending order
    trial_fetch(t, halves, from, n * sizeof(uint16_t));
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, halves + i * sizeof bits, sizeof bits);
        x[i] = dtype == DTYPE_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
    }
}

float *trial_fetch_floats(struct trial *t, const void *from, size_t n, enum dtype dtype)
{
    float *x = trial_heap(t, n * sizeof *x);
    trial_fetch_to(t, x, from, n, dtype);
    return x;
}

// Rounds a row to int8 with one scale per row, as on the cuda device.
static void row_to_bytes(float *row, uint32_t k)
{
    float top = 0;
    for (uint32_t i = 0; i < k; i++)
        top = fmaxf(top, fabsf(row[i]));
    float scale = top / 127.0f;
    for (uint32_t i = 0; i < k && scale > 0; i++)
        row[i] = rintf(row[i] * (1.0f / scale)) * scale;
}

// Rounds a row to int8 as the cpu device does, with a scale per group of rotated elements.
// `rotated` receives the row as it is multiplied; `row` receives its values rotated back.
static void row_to_groups(float *row, float *rotated, uint32_t k)
{
    uint32_t depth = byte_depth(k);
    memcpy(rotated, row, k * sizeof *row); // the elements after k are zero
    for (uint32_t g = 0; g < depth; g += BYTE_GROUP) {
        uint32_t count = depth - g < BYTE_GROUP ? depth - g : BYTE_GROUP;
        for (uint32_t b = g; b < g + count; b += BYTE_BLOCK)
            byte_rotate(rotated + b);
        float scale = byte_scale(rotated + g, count);
        float inverse = byte_inverse(scale);
        for (uint32_t i = g; i < g + count; i++)
            rotated[i] = rintf(rotated[i] * inverse) * (scale / BYTE_BLOCK);
    }
    for (uint32_t b = 0; b < depth; b += BYTE_BLOCK) {
        float back[BYTE_BLOCK];
        memcpy(back, rotated + b, sizeof back);
        byte_walsh(back);
        for (uint32_t i = 0; i < BYTE_BLOCK && b + i < k; i++)
            row[b + i] = back[i] * byte_sign(i);
    }
}

// Replaces x by the values that the device's int8 weight represents.
static void weight_to_bytes(struct trial *t, struct trial_weight *out, float *x)
{
    const struct weight_shape *shape = &out->device.shape;
    bool groups = t->level < CPU_ISA_COUNT;
    uint32_t depth = byte_depth(shape->k);
    float *rotated = groups ? trial_heap(t, (size_t)shape->n * depth * sizeof *rotated) : NULL;
    for (uint32_t r = 0; r < shape->n; r++)
        if (groups)
            row_to_groups(x + (size_t)r * shape->k, rotated + (size_t)r * depth, shape->k);
        else
            row_to_bytes(x + (size_t)r * shape->k, shape->k);
    out->rotated = (struct weight){.shape = *shape, .data = rotated};
}

struct trial_weight trial_weight_make(struct trial *t, const struct weight_shape *shape,
                                      float deviation, float mean)
{
    struct trial_weight out = {.device.shape = *shape, .reference.shape = *shape};
    struct error err = {0};
    size_t n = (size_t)shape->n * shape->k;
    bool vector = shape->use == WEIGHT_VECTOR;
    enum dtype dtype = vector || shape->dtype == DTYPE_I8 ? DTYPE_F32 : shape->dtype;
    float *x = trial_floats(t, n, DTYPE_F32, deviation);
    for (size_t i = 0; i < n; i++)
        x[i] = trial_rounded(x[i] + mean, dtype);
    out.device.bytes = t->api->weight_bytes(t->device, shape);
    out.device.data = trial_device(t, out.device.bytes);
    // two sources, one for the first third of the rows
    uint32_t first = shape->n / 3;
    struct weight_source source = {.fd = -1, .dtype = DTYPE_F32, .cols = shape->k};
    source.map = x;
    source.rows = first;
    enum status status = STATUS_OK;
    if (first > 0)
        status = t->api->weight_put(t->device, &out.device, 0, &source, &err);
    source.map = x + (size_t)first * shape->k;
    source.rows = shape->n - first;
    if (status == STATUS_OK)
        status = t->api->weight_put(t->device, &out.device, first, &source, &err);
    if (status == STATUS_OK)
        status = t->api->weight_finish(t->device, &out.device, &err);
    check(status == STATUS_OK, "%s", err.text);
    if (shape->dtype == DTYPE_I8 && !vector)
        weight_to_bytes(t, &out, x);
    out.reference.data = x;
    return out;
}

void trial_close_to(struct trial *t, const char *what, const float *got, const float *want,
                    size_t n, double bound)
{
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        error += d * d;
        size += (double)want[i] * (double)want[i];
    }
    double relative = size > 0 ? sqrt(error / size) : sqrt(error);
    if (relative <= bound) // false if it is a NaN
        return;
    t->failures++;
    printf("FAILED %s on %s: error %.3g, allowed %.3g (seed %llu, %zu values)\n", what, t->name,
           relative, bound, (unsigned long long)t->seed, n);
}

void trial_true(struct trial *t, const char *what, bool holds)
{
    if (holds)
        return;
    t->failures++;
    printf("FAILED %s on %s (seed %llu)\n", what, t->name, (unsigned long long)t->seed);
}
