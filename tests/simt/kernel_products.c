// SPDX-License-Identifier: Apache-2.0
// Products and the loading of weights; part of test_kernels.c. Products are compared with plain
// loops in double and with products of single rows; staging buffers and files that cannot be opened
// must not change weights.
#include "tests/simt/kernel_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct product_case {
    enum dtype act, held;
    uint32_t n, k, rows, gap; // gap: elements after each row of x, which are NaN
};

static struct stream *product_stream(void)
{
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = 4096};
    struct stream *stream = NULL;
    assert_int_equal(api->stream_open(device, &stream, &limits, NULL), STATUS_OK);
    return stream;
}

static struct weight weight_make(const struct weight_shape *shape, const void *from,
                                 enum dtype type)
{
    struct weight weight = {.shape = *shape, .bytes = api->weight_bytes(device, shape)};
    weight.data = device_alloc(weight.bytes);
    struct weight_source source = {
        .map = from, .fd = -1, .dtype = type, .rows = shape->n, .cols = shape->k};
    assert_int_equal(api->weight_put(device, &weight, 0, &source, NULL), STATUS_OK);
    assert_int_equal(api->weight_finish(device, &weight, NULL), STATUS_OK);
    return weight;
}

static void product_run(struct stream *stream, const struct gemm_args *args, void *result)
{
    size_t bytes = (size_t)args->rows * args->y_stride * dtype_bytes(args->y_dtype);
    void *host = host_alloc(bytes);
    assert_int_equal(api->ops->gemm(stream, args), STATUS_OK);
    assert_int_equal(api->copy_out(stream, host, args->y, bytes), STATUS_OK);
    wait_for(stream);
    memcpy(result, host, bytes);
    api->host_free(device, host, bytes);
}

// Returns the value of a weight as the device holds it: for int8 rounded as the loader rounds it.
static float held_weight(const struct product_case *c, const float *w, uint32_t row, uint32_t k)
{
    const float *line = w + (size_t)row * c->k;
    if (c->held != DTYPE_I8)
        return load(&(uint16_t){c->held == DTYPE_F16 ? f32_to_f16(line[k]) : f32_to_bf16(line[k])},
                    c->held == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16, 0);
    float top = 0;
    for (uint32_t i = 0; i < c->k; i++)
        top = fmaxf(top, fabsf(line[i]));
    float scale = top / 127.0f;
    return rintf(line[k] * (1.0f / scale)) * scale;
}

static void *rows_make(const struct product_case *c, uint32_t stride, void **on_device)
{
    size_t count = (size_t)c->rows * stride;
    void *x = random_array(c->act, count, 1.0f, on_device);
    for (size_t i = 0; i < count; i++)
        if (i % stride >= c->k)
            store(x, c->act, i, NAN);
    size_t bytes = count * dtype_bytes(c->act);
    assert_int_equal(api->upload(device, *on_device, x, bytes, NULL), STATUS_OK);
    return x;
}

static void product_check(const struct product_case *c)
{
    struct stream *stream = product_stream();
    void *x_device, *bias_device;
    uint32_t stride = c->k + c->gap;
    void *x = rows_make(c, stride, &x_device);
    float *w = malloc((size_t)c->n * c->k * 4);
    for (size_t i = 0; i < (size_t)c->n * c->k; i++)
        w[i] = uniform();
    float *bias = random_array(DTYPE_F32, c->n, 1.0f, &bias_device);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = c->held, .n = c->n, .k = c->k};
    struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = c->n, .k = 1};
    struct weight weight = weight_make(&shape, w, DTYPE_F32);
    struct weight offset = weight_make(&vector, bias, DTYPE_F32);
    size_t bytes = (size_t)c->rows * c->n * 4;
    struct gemm_args args = {.x_dtype = c->act,
                             .y_dtype = DTYPE_F32,
                             .x = x_device,
                             .weight = &weight,
                             .bias = &offset,
                             .y = device_alloc(bytes),
                             .rows = c->rows,
                             .x_stride = stride,
                             .y_stride = c->n};
    float *y = malloc(bytes), *alone = malloc((size_t)c->n * 4);
    product_run(stream, &args, y);
    double error = 0, size = 0;
    for (uint32_t r = 0; r < c->rows; r++)
        for (uint32_t j = 0; j < c->n; j++) {
            double want = bias[j];
            for (uint32_t k = 0; k < c->k; k++)
                want += (double)load(x, c->act, (size_t)r * stride + k) *
                        (c->held == DTYPE_F32 ? w[(size_t)j * c->k + k] : held_weight(c, w, j, k));
            error += (y[(size_t)r * c->n + j] - want) * (y[(size_t)r * c->n + j] - want);
            size += want * want;
        }
    printf("  %s x %s n %u k %u rows %u: %.2e\n", dtype_name(c->act), dtype_name(c->held), c->n,
           c->k, c->rows, sqrt(error / size));
    assert_true(sqrt(error / size) <= 3e-6);
    // compares with the product of this row only
    for (uint32_t r = 0; r < c->rows; r += 1 + c->rows / 3) {
        args.x = (const char *)x_device + (size_t)r * stride * dtype_bytes(c->act);
        args.rows = 1;
        product_run(stream, &args, alone);
        assert_memory_equal(alone, y + (size_t)r * c->n, (size_t)c->n * 4);
    }
    api->stream_close(stream);
    void *buffers[] = {x_device, bias_device, weight.data, offset.data, args.y};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        device_free(buffers[i]);
    free(x);
    free(w);
    free(bias);
    free(y);
    free(alone);
}

void test_products(void **state)
{
    (void)state;
    static const struct product_case cases[] = {
        {DTYPE_BF16, DTYPE_BF16, 24, 40, 3, 0},
        {DTYPE_BF16, DTYPE_BF16, 70, 608, 37, 0},
        {DTYPE_BF16, DTYPE_I8, 40, 544, 5, 0},
        {DTYPE_BF16, DTYPE_I8, 136, 96, 40, 0},
        {DTYPE_F32, DTYPE_F32, 33, 70, 5, 0},
        {DTYPE_F16, DTYPE_F16, 48, 64, 34, 0},
        {DTYPE_BF16, DTYPE_BF16, 17, 37, 35, 0},    // rows that cannot be read in vectors
        {DTYPE_BF16, DTYPE_BF16, 24, 120, 16, 8},   // the end of a slab is the memory of another
                                                    // weight
        {DTYPE_BF16, DTYPE_BF16, 140, 120, 40, 8},  // as above, with the wide kernel
        {DTYPE_BF16, DTYPE_BF16, 140, 32, 1060, 0}, // two groups of 9 tiles of tokens, one empty
        {DTYPE_BF16, DTYPE_BF16, 20, 4640, 2, 0},   // more parts of K than warps
        {DTYPE_BF16, DTYPE_BF16, 144, 4640, 1, 0},
        {DTYPE_BF16, DTYPE_BF16, 260, 1536, 70, 0},
        {DTYPE_F16, DTYPE_F16, 64, 1088, 20, 0},
        {DTYPE_BF16, DTYPE_I8, 64, 1600, 66, 0},
    };
    for (size_t i = 0; i < (small ? 11 : sizeof cases / sizeof cases[0]); i++)
        product_check(&cases[i]);
}

// Puts a weight in slices. If a staging buffer were filled again before its copy has run, it would
// carry the wrong rows; emulated streams are lazy here, so that this would show.
void test_staging(void **state)
{
    (void)state;
    enum { ROWS = 10, DEPTH = 64 };
    struct simt_options lazy = {.lazy = true};
    if (simt_configure)
        simt_configure(&lazy);
    struct stream *stream = product_stream();
    float x[DEPTH], w[ROWS][DEPTH], y[ROWS];
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = ROWS, .k = DEPTH};
    struct weight weight = {.shape = shape, .bytes = api->weight_bytes(device, &shape)};
    weight.data = device_alloc(weight.bytes);
    void *x_device = device_alloc(sizeof x);
    for (int k = 0; k < DEPTH; k++)
        x[k] = (float)(k % 7);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (int k = 0; k < DEPTH; k++)
            w[r][k] = (float)((int)(r * 3) - k % 5);
        struct weight_source source = {
            .map = w[r], .fd = -1, .dtype = DTYPE_F32, .rows = 1, .cols = DEPTH};
        assert_int_equal(api->weight_put(device, &weight, r, &source, NULL), STATUS_OK);
    }
    assert_int_equal(api->weight_finish(device, &weight, NULL), STATUS_OK);
    assert_int_equal(api->upload(device, x_device, x, sizeof x, NULL), STATUS_OK);
    struct gemm_args args = {.x_dtype = DTYPE_F32,
                             .y_dtype = DTYPE_F32,
                             .x = x_device,
                             .weight = &weight,
                             .y = device_alloc(sizeof y),
                             .rows = 1,
                             .x_stride = DEPTH,
                             .y_stride = ROWS};
    product_run(stream, &args, y);
    for (uint32_t r = 0; r < ROWS; r++) {
        float want = 0; // small integers, so sums are exact
        for (int k = 0; k < DEPTH; k++)
            want += x[k] * w[r][k];
        assert_true(y[r] == want);
    }
    lazy.lazy = false;
    if (simt_configure)
        simt_configure(&lazy);
    device_free(args.y);
    device_free(x_device);
    device_free(weight.data);
    api->stream_close(stream);
}

// Rows so large that the staging buffer holds one: each of three pieces must arrive in its row.
void test_three_pieces(void **state)
{
    (void)state;
    enum { ROWS = 3, DEPTH = (1 << 19) + 32, COUNT = ROWS * DEPTH }; // slightly over 2 MiB per row
    float *w = malloc(COUNT * sizeof *w);
    assert_non_null(w);
    for (uint32_t i = 0; i < COUNT; i++)
        w[i] = (float)i;
    struct weight weight = weight_make(
        &(struct weight_shape){.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = ROWS, .k = DEPTH}, w,
        DTYPE_F32);
    struct stream *stream = product_stream();
    float *got = host_alloc(COUNT * sizeof *got);
    assert_int_equal(api->copy_out(stream, got, weight.data, COUNT * sizeof *got), STATUS_OK);
    wait_for(stream);
    assert_memory_equal(got, w, COUNT * sizeof *got);
    api->host_free(device, got, COUNT * sizeof *got);
    api->stream_close(stream);
    device_free(weight.data);
    free(w);
}

static uint32_t notes;

void note(uint32_t index, const char *line)
{
    (void)index;
    assert_non_null(strstr(line, "O_DIRECT"));
    notes++;
}

// If a file cannot be opened a second time, the mapped bytes are used and one line is logged.
void test_direct_refused(void **state)
{
    (void)state;
    enum { ROWS = 2, DEPTH = 32 };
    float w[ROWS * DEPTH];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    for (int i = 0; i < ROWS * DEPTH; i++)
        w[i] = (float)i;
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = ROWS, .k = DEPTH};
    struct weight weight = {.shape = shape, .bytes = api->weight_bytes(device, &shape)};
    weight.data = device_alloc(weight.bytes);
    struct weight_source source = {
        .map = w, .fd = fd, .dtype = DTYPE_F32, .rows = ROWS, .cols = DEPTH};
    for (int i = 0; i < 2; i++)
        assert_int_equal(api->weight_put(device, &weight, 0, &source, NULL), STATUS_OK);
    assert_int_equal(api->weight_finish(device, &weight, NULL), STATUS_OK);
    assert_int_equal(notes, 1);
    struct stream *stream = product_stream();
    float *got = host_alloc(sizeof w);
    assert_int_equal(api->copy_out(stream, got, weight.data, sizeof w), STATUS_OK);
    wait_for(stream);
    assert_memory_equal(got, w, sizeof w);
    api->host_free(device, got, sizeof w);
    api->stream_close(stream);
    device_free(weight.data);
    (void)close(fd);
}
