// SPDX-License-Identifier: Apache-2.0
// A device of the cuda table frees everything it allocates: each call of the runtime that can fail
// is made to fail once over the life of a device; nothing may remain allocated, and the next life
// must not be affected. Then weights: from files at any offset, random, vectors as one row or one
// column, and sources that do not fit. Needs the emulator's counts.
#include "kernels/philox.h"
#include "kernels/device.h"
#include "tests/simt/control.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const struct device_api *weft_device_plugin(void);

enum { N = 16, K = 64, ROWS = 4 };

static uint32_t notes;

static void note(uint32_t index, const char *line)
{
    (void)index;
    (void)line;
    notes++;
}

struct life {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct graph *graph;
    struct weight weight;
    void *x, *y, *word;
};

static enum status life_load(struct life *l, struct error *err)
{
    float from[N * K];
    for (int i = 0; i < N * K; i++)
        from[i] = (float)(i % 5);
    struct weight_source source = {.map = from, .fd = -1, .dtype = DTYPE_F32, .rows = N, .cols = K};
    l->weight.shape =
        (struct weight_shape){.use = WEIGHT_PRODUCT, .dtype = DTYPE_BF16, .n = N, .k = K};
    l->weight.bytes = l->api->weight_bytes(l->device, &l->weight.shape);
    enum status status = l->api->memory_alloc(l->device, &l->weight.data, l->weight.bytes, err);
    if (status == STATUS_OK)
        status = l->api->weight_put(l->device, &l->weight, 0, &source, err);
    if (status == STATUS_OK)
        status = l->api->weight_finish(l->device, &l->weight, err);
    if (status == STATUS_OK)
        status = l->api->memory_alloc(l->device, &l->x, ROWS * K * 2, err);
    if (status == STATUS_OK)
        status = l->api->memory_alloc(l->device, &l->y, ROWS * N * 2, err);
    if (status == STATUS_OK)
        status = l->api->host_alloc(l->device, &l->word, 64, err);
    if (status == STATUS_OK)
        status = l->api->upload(l->device, l->x, from, ROWS * K * 2, err);
    return status;
}

static enum status life_product(struct life *l)
{
    struct gemm_args args = {.x_dtype = DTYPE_BF16,
                             .y_dtype = DTYPE_BF16,
                             .x = l->x,
                             .y = l->y,
                             .weight = &l->weight,
                             .rows = ROWS,
                             .x_stride = K,
                             .y_stride = N};
    return l->api->ops->gemm(l->stream, &args);
}

// Runs a step, and a step that is recorded and replayed.
static enum status life_steps(struct life *l, struct error *err)
{
    (void)l->api->tune(l->stream, 0); // times the first product
    enum status status = l->api->copy_in(l->stream, l->y, l->word, 64);
    if (status == STATUS_OK)
        status = life_product(l);
    if (status == STATUS_OK)
        status = l->api->copy_out(l->stream, l->word, l->y, 32);
    if (status == STATUS_OK)
        status = l->api->signal(l->stream, (uint32_t *)l->word + 8, 1);
    if (status == STATUS_OK)
        status = l->api->wait(l->stream, (uint32_t *)l->word + 8, 1, UINT64_MAX, err);
    if (status == STATUS_OK)
        status = l->api->graph_begin(l->stream);
    if (status != STATUS_OK)
        return status;
    status = life_product(l);
    enum status ended = l->api->graph_end(l->stream, &l->graph, err);
    status = status == STATUS_OK ? ended : status;
    assert_true((ended == STATUS_OK) == (l->graph != NULL));
    if (status == STATUS_OK)
        status = l->api->graph_launch(l->stream, l->graph);
    if (status == STATUS_OK)
        status = l->api->signal(l->stream, (uint32_t *)l->word + 8, 2);
    if (status == STATUS_OK)
        status = l->api->wait(l->stream, (uint32_t *)l->word + 8, 2, UINT64_MAX, err);
    return status;
}

// Runs one life of a device. Returns the status of the first call that failed; *calls: number of
// calls before the device was closed.
static enum status life_run(bool exact, uint64_t fail_at, uint64_t *calls)
{
    struct error err = {0};
    struct life l = {.api = weft_device_plugin()};
    struct device_options options = {.exact = exact};
    struct stream_limits limits = {.step = {.rows_max = ROWS, .tokens_max = ROWS, .vocab = 50},
                                   .attn = {.heads = 1, .kv_heads = 1, .dim = 16, .paged = 1},
                                   .width_max = K};
    struct simt_counts counts;
    simt_configure(&(struct simt_options){.fail_at = fail_at, .blas_candidates = 2, .lazy = true});
    simt_reset();
    simt_read(&counts);
    uint64_t before = counts.live;
    enum status status = l.api->open(&l.device, &options, &err);
    if (status == STATUS_OK)
        status = l.api->stream_open(l.device, &l.stream, &limits, &err);
    if (status == STATUS_OK)
        status = life_load(&l, &err);
    if (status == STATUS_OK)
        status = life_steps(&l, &err);
    simt_read(&counts);
    *calls = counts.calls;
    l.api->graph_close(l.graph);
    l.api->stream_close(l.stream);
    void *buffers[] = {l.weight.data, l.x, l.y};
    for (size_t i = 0; i < 3; i++)
        if (buffers[i])
            l.api->memory_free(l.device, buffers[i], i == 0 ? l.weight.bytes : 1);
    if (l.word)
        l.api->host_free(l.device, l.word, 64);
    l.api->close(l.device);
    simt_configure(&(struct simt_options){0});
    simt_read(&counts);
    if (counts.live != before)
        fail_msg("call %llu failed: %lld objects are left", (unsigned long long)fail_at,
                 (long long)(counts.live - before));
    assert_string_equal(simt_first_report(), "");
    return status;
}

static void every_call(bool exact)
{
    uint64_t whole, calls;
    assert_int_equal(life_run(exact, 0, &whole), STATUS_OK);
    assert_true(whole > 30);
    for (uint64_t at = 1; at <= whole; at++) {
        enum status status = life_run(exact, at, &calls);
        // if the library refuses, weft's kernels are used
        if (exact && status == STATUS_OK)
            fail_msg("call %llu failed and nobody said so", (unsigned long long)at);
        if (at % 8 != 0 && at != whole)
            continue;
        assert_int_equal(life_run(exact, 0, &calls), STATUS_OK); // no trace of the failure remains
        assert_int_equal(calls, whole);
    }
}

static void test_every_call_may_fail(void **state)
{
    (void)state;
    every_call(true);
}

static void test_every_call_of_the_library_may_fail(void **state)
{
    (void)state;
    every_call(false);
}

static void test_facts_of_a_card(void **state)
{
    (void)state;
    const struct device_api *api = weft_device_plugin();
    struct device_options options = {.exact = -1};
    struct device_facts facts;
    struct device *device;
    struct error err;
    for (options.exact = -1; options.exact <= 1; options.exact++) {
        assert_int_equal(api->open(&device, &options, &err), STATUS_OK);
        api->facts(device, &facts);
        // -1: the emulator's default is exact mode
        assert_int_equal(facts.exact, options.exact != 0);
        assert_int_equal(facts.float32_runs_as, DTYPE_F32);
        assert_int_equal(facts.quantised_runs_as, DTYPE_BF16);
        struct simt_counts counts;
        simt_read(&counts);
        uint64_t left = (1u << 30) - counts.device_bytes;
        assert_int_equal(facts.memory_available, left - left / 20);
        api->close(device);
    }
    // Reserved for the driver: a twentieth of a very small card, 1 GiB, a twentieth of a large one.
    static const uint64_t gib = 1u << 30, sizes[] = {3, 12, 80};
    for (size_t i = 0; i < 3; i++) {
        struct simt_counts counts;
        simt_configure(&(struct simt_options){.memory = sizes[i] * gib});
        assert_int_equal(api->open(&device, &options, &err), STATUS_OK);
        api->facts(device, &facts);
        simt_read(&counts);
        uint64_t left = sizes[i] * gib - counts.device_bytes;
        uint64_t kept[] = {left / 20, gib, left / 20};
        assert_int_equal(facts.memory_available, left - kept[i]);
        api->close(device);
    }
    simt_configure(&(struct simt_options){.major = 7});
    assert_int_equal(api->open(&device, &options, &err), STATUS_NO_DEVICE);
    assert_non_null(strstr(err.text, "is too old: compute capability 8.0 is needed"));
    assert_null(device);
    simt_configure(&(struct simt_options){.major = 9});
    assert_int_equal(api->open(&device, &options, &err), STATUS_OK);
    api->close(device);
    simt_configure(&(struct simt_options){0});
}

static struct weight weight_alloc(struct life *l, struct weight_shape shape)
{
    struct weight weight = {.shape = shape, .bytes = l->api->weight_bytes(l->device, &shape)};
    assert_int_equal(l->api->memory_alloc(l->device, &weight.data, weight.bytes, NULL), STATUS_OK);
    return weight;
}

// Returns the first bytes of the weight as the device holds them, in new memory; frees the weight.
static void *weight_fetch(struct life *l, struct weight *weight, size_t bytes)
{
    void *host, *copy = malloc(bytes);
    struct error err = {0};
    assert_non_null(copy);
    assert_int_equal(l->api->weight_finish(l->device, weight, NULL), STATUS_OK);
    assert_int_equal(l->api->host_alloc(l->device, &host, bytes + 64, NULL), STATUS_OK);
    uint32_t *word = (uint32_t *)(void *)((char *)host + bytes / 4 * 4);
    *word = 0;
    assert_int_equal(l->api->copy_out(l->stream, host, weight->data, bytes / 4 * 4), STATUS_OK);
    assert_int_equal(l->api->signal(l->stream, word, 1), STATUS_OK);
    assert_int_equal(l->api->wait(l->stream, word, 1, UINT64_MAX, &err), STATUS_OK);
    memcpy(copy, host, bytes / 4 * 4);
    l->api->host_free(l->device, host, bytes + 64);
    l->api->memory_free(l->device, weight->data, weight->bytes);
    return copy;
}

static struct life loader_open(void)
{
    struct life l = {.api = weft_device_plugin()};
    struct device_options options = {.exact = 1, .note = note};
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = 64};
    assert_int_equal(l.api->open(&l.device, &options, NULL), STATUS_OK);
    assert_int_equal(l.api->stream_open(l.device, &l.stream, &limits, NULL), STATUS_OK);
    notes = 0;
    return l;
}

static void loader_close(struct life *l)
{
    l->api->stream_close(l->stream);
    l->api->close(l->device);
}

static float number_at(uint64_t i)
{
    return (float)(i % 100003) + 0.5f;
}

// Creates a file with `before` bytes, then rows x cols numbers less `missing` bytes, then `after`
// bytes.
static int file_make(uint64_t before, uint64_t numbers, uint64_t missing, uint64_t after)
{
    char path[] = "/tmp/weft-life-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    FILE *file = fdopen(dup(fd), "wb");
    assert_non_null(file);
    for (uint64_t i = 0; i < before; i++)
        fputc(0xEE, file);
    for (uint64_t i = 0; i < numbers; i++) {
        float x = number_at(i);
        fwrite(&x, sizeof x, 1, file);
    }
    for (uint64_t i = 0; i < after; i++)
        fputc(0xEE, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(ftruncate(fd, (off_t)(before + numbers * 4 + after - missing)), 0);
    assert_int_equal(fsync(fd), 0);
    return fd;
}

static bool reads_directly(int fd)
{
    char path[64];
    void *block = NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    bool good =
        direct >= 0 && posix_memalign(&block, 4096, 4096) == 0 && pread(direct, block, 4096, 0) > 0;
    free(block);
    if (direct >= 0)
        close(direct);
    return good;
}

static void file_check(struct life *l, uint64_t before, uint32_t rows, uint32_t cols,
                       uint64_t missing, uint64_t after)
{
    uint64_t numbers = (uint64_t)rows * cols;
    int fd = file_make(before, numbers, missing, after);
    float *map = malloc(numbers * sizeof *map); // wrong values, because the file is read instead
    assert_non_null(map);
    bool needed = missing != 0 || !reads_directly(fd);
    for (uint64_t i = 0; i < numbers; i++)
        map[i] = needed ? number_at(i) : -1;
    struct weight weight = weight_alloc(
        l, (struct weight_shape){.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = rows, .k = cols});
    struct weight_source source = {
        .map = map, .fd = fd, .offset = before, .dtype = DTYPE_F32, .rows = rows, .cols = cols};
    assert_int_equal(l->api->weight_put(l->device, &weight, 0, &source, NULL), STATUS_OK);
    uint32_t stride = (cols + 31) / 32 * 32;
    float *got = weight_fetch(l, &weight, (size_t)rows * stride * sizeof *got);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < stride; c++)
            if (got[(size_t)r * stride + c] != (c < cols ? number_at((uint64_t)r * cols + c) : 0))
                fail_msg("row %u, column %u, %llu bytes before", r, c, (unsigned long long)before);
    free(got);
    free(map);
    assert_int_equal(close(fd), 0);
}

static int files_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

// Tensors may be anywhere in a file, in the middle or at its end; a large one is loaded in pieces.
static void test_files_are_read(void **state)
{
    (void)state;
    static const uint64_t before[] = {0, 8, 4095, 4096, 4097, 8191};
    struct life l = loader_open();
    int open_before = files_open();
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        file_check(&l, before[i], 3, 40, 0, 0);
        file_check(&l, before[i], 2, 1024, 0, 5000);
    }
    file_check(&l, 4000, 130, 24000, 0, 0); // 12 MB, loaded in three pieces
    assert_int_equal(files_open(), open_before);
    loader_close(&l);
}

// A range of rows is read from the file, a range of columns from the mapping; random numbers are
// those of the complete tensor.
static void test_ranges_of_a_tensor(void **state)
{
    (void)state;
    enum { ALL = 40, COLS = 1100, HIGH = 7, WIDE = 96, ROW = 11, COL = 513 };
    struct life l = loader_open();
    int fd = file_make(4000, ALL * COLS, 0, 0);
    bool direct = reads_directly(fd);
    float *map = malloc(ALL * COLS * sizeof *map);
    assert_non_null(map);
    for (int kind = 0; kind < 3; kind++) { // a range of rows, of columns, of random columns
        uint32_t wide = kind == 0 ? COLS : WIDE, col = kind == 0 ? 0 : COL;
        for (uint32_t i = 0; i < ALL * COLS; i++) // wrong values, because the file is read instead
            map[i] = kind == 0 && direct ? -1 : number_at(i);
        struct weight weight = weight_alloc(
            &l,
            (struct weight_shape){.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = HIGH, .k = wide});
        struct weight_source source = {.map = kind == 2 ? NULL : map,
                                       .fd = fd,
                                       .offset = 4000,
                                       .dtype = DTYPE_F32,
                                       .rows = HIGH,
                                       .cols = wide,
                                       .seed = 5,
                                       .deviation = 0.02f,
                                       .stride = COLS,
                                       .first = ROW * COLS + col};
        assert_int_equal(l.api->weight_put(l.device, &weight, 0, &source, NULL), STATUS_OK);
        uint32_t stride = (wide + 31) / 32 * 32;
        float *got = weight_fetch(&l, &weight, (size_t)HIGH * stride * sizeof *got);
        for (uint32_t i = 0; i < HIGH * wide; i++) {
            uint64_t at = (uint64_t)(ROW + i / wide) * COLS + col + i % wide;
            float want = kind == 2 ? philox_normal(5, at, 0.02f) : number_at(at);
            assert_true(got[i / wide * stride + i % wide] == want);
        }
        free(got);
    }
    free(map);
    assert_int_equal(close(fd), 0);
    loader_close(&l);
}

// If a file ends before its tensor, the mapped bytes are used and one line is logged.
static void test_a_short_file_is_not_read(void **state)
{
    (void)state;
    struct life l = loader_open();
    file_check(&l, 100, 3, 40, 1, 0);
    assert_int_equal(notes, 1);
    file_check(&l, 4096, 2, 1024, 4096, 0);
    assert_int_equal(notes, 1); // logged once
    loader_close(&l);
}

static void test_random_weights_are_those_of_all_devices(void **state)
{
    (void)state;
    enum { FIRST = 3, ALL = 7, WIDE = 70, STRIDE = 96, LONG = 700 };
    struct life l = loader_open();
    struct weight weight = weight_alloc(
        &l, (struct weight_shape){.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = ALL, .k = WIDE});
    struct weight_source source = {
        .fd = -1, .rows = FIRST, .cols = WIDE, .seed = 5, .deviation = 0.02f};
    assert_int_equal(l.api->weight_put(l.device, &weight, 0, &source, NULL), STATUS_OK);
    source.seed = (uint64_t)9 << 32 | 6;
    source.rows = ALL - FIRST;
    assert_int_equal(l.api->weight_put(l.device, &weight, FIRST, &source, NULL), STATUS_OK);
    float *got = weight_fetch(&l, &weight, sizeof *got * ALL * STRIDE);
    for (uint32_t r = 0; r < ALL; r++)
        for (uint32_t c = 0; c < WIDE; c++)
            assert_true(
                got[r * STRIDE + c] ==
                (r < FIRST ? philox_normal(5, (uint64_t)r * WIDE + c, 0.02f)
                           : philox_normal(source.seed, (uint64_t)(r - FIRST) * WIDE + c, 0.02f)));
    free(got);
    for (int flat = 0; flat < 2; flat++) { // as one row, as one column
        weight = weight_alloc(
            &l, (struct weight_shape){.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = LONG, .k = 1});
        source.rows = flat ? 1 : LONG;
        source.cols = flat ? LONG : 1;
        assert_int_equal(l.api->weight_put(l.device, &weight, 0, &source, NULL), STATUS_OK);
        got = weight_fetch(&l, &weight, sizeof *got * LONG);
        for (uint32_t i = 0; i < LONG; i++)
            assert_true(got[i] == philox_normal(source.seed, i, 0.02f));
        free(got);
    }
    loader_close(&l);
}

// 16-bit vectors are given as one row or as one column, in consecutive pieces.
static void test_vectors_are_flat(void **state)
{
    (void)state;
    enum { LONG = 500, FIRST = 180 };
    struct life l = loader_open();
    uint16_t from[LONG];
    for (uint32_t i = 0; i < LONG; i++)
        from[i] = f32_to_bf16((float)i / 4);
    for (int flat = 0; flat < 2; flat++) {
        struct weight weight = weight_alloc(
            &l, (struct weight_shape){.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = LONG, .k = 1});
        for (uint32_t at = 0; at < LONG; at += at == 0 ? FIRST : LONG) {
            uint32_t count = at == 0 ? FIRST : LONG - FIRST;
            struct weight_source source = {.map = from + at,
                                           .fd = -1,
                                           .dtype = DTYPE_BF16,
                                           .rows = flat ? 1 : count,
                                           .cols = flat ? count : 1};
            assert_int_equal(l.api->weight_put(l.device, &weight, at, &source, NULL), STATUS_OK);
        }
        float *got = weight_fetch(&l, &weight, sizeof *got * LONG);
        for (uint32_t i = 0; i < LONG; i++)
            assert_true(got[i] == bf16_to_f32(from[i]));
        free(got);
    }
    loader_close(&l);
}

static void test_sources_that_do_not_fit(void **state)
{
    (void)state;
    struct life l = loader_open();
    struct error err = {0};
    float from[64] = {0};
    static const struct {
        struct weight_shape shape;
        uint32_t first, rows, cols;
        enum dtype dtype;
        enum status status;
        const char *words;
    } cases[] = {
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 4, .k = 8},
         0,
         4,
         8,
         DTYPE_F32,
         STATUS_OK,
         ""},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 4, .k = 8},
         4,
         0,
         8,
         DTYPE_F32,
         STATUS_OK,
         ""},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 4, .k = 8},
         1,
         4,
         8,
         DTYPE_F32,
         STATUS_INVALID,
         "4 x 8 at row 1"},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 4, .k = 8},
         0,
         4,
         7,
         DTYPE_F32,
         STATUS_INVALID,
         "of 4 x 7"},
        {{.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = 4, .k = 1},
         0,
         1,
         5,
         DTYPE_F32,
         STATUS_INVALID,
         "does not fit"},
        {{.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = 4, .k = 1},
         1,
         4,
         1,
         DTYPE_F32,
         STATUS_INVALID,
         "does not fit"},
        {{.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = 4, .k = 1},
         1,
         3,
         1,
         DTYPE_F32,
         STATUS_OK,
         ""},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 4, .k = 8},
         0,
         4,
         8,
         DTYPE_I8,
         STATUS_UNSUPPORTED,
         "must be"},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 4, .k = 8},
         0,
         4,
         8,
         DTYPE_COUNT,
         STATUS_UNSUPPORTED,
         "must be"},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 1, .k = (1 << 20) + 1},
         0,
         1,
         (1 << 20) + 1,
         DTYPE_F32,
         STATUS_TOO_LARGE,
         "a weight row of 1048577 elements is over 4194304 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weight weight = weight_alloc(&l, cases[i].shape);
        struct weight_source source = {.map = from,
                                       .fd = -1,
                                       .dtype = cases[i].dtype,
                                       .rows = cases[i].rows,
                                       .cols = cases[i].cols};
        err.text[0] = '\0';
        assert_int_equal(l.api->weight_put(l.device, &weight, cases[i].first, &source, &err),
                         cases[i].status);
        assert_non_null(strstr(err.text, cases[i].words));
        l.api->memory_free(l.device, weight.data, weight.bytes);
    }
    loader_close(&l);
}

// A NaN in a row of an int8 weight stays a NaN: a damaged file must not go unnoticed.
static void test_bytes_keep_what_is_no_number(void **state)
{
    (void)state;
    enum { WIDE = 600, HIGH = 4 };
    struct life l = loader_open();
    for (int kind = 0; kind < 2; kind++) {
        float from[HIGH * WIDE];
        for (int i = 0; i < HIGH * WIDE; i++)
            from[i] = (float)(i % 7) - 3;
        from[2 * WIDE + WIDE - 1] = kind == 0 ? NAN : INFINITY;
        struct weight weight = weight_alloc(
            &l,
            (struct weight_shape){.use = WEIGHT_PRODUCT, .dtype = DTYPE_I8, .n = HIGH, .k = WIDE});
        struct weight_source source = {
            .map = from, .fd = -1, .dtype = DTYPE_F32, .rows = HIGH, .cols = WIDE};
        assert_int_equal(l.api->weight_put(l.device, &weight, 0, &source, NULL), STATUS_OK);
        // the scales follow the bytes, of which each row has 608
        size_t scales = (HIGH * 608 + 255) / 256 * 256;
        char *got = weight_fetch(&l, &weight, scales + HIGH * sizeof(float));
        for (int r = 0; r < HIGH; r++) {
            float scale;
            memcpy(&scale, got + scales + (size_t)r * sizeof scale, sizeof scale);
            assert_int_equal(isfinite(scale) != 0, r != 2);
        }
        free(got);
    }
    loader_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_of_a_card),
        cmocka_unit_test(test_files_are_read),
        cmocka_unit_test(test_ranges_of_a_tensor),
        cmocka_unit_test(test_a_short_file_is_not_read),
        cmocka_unit_test(test_random_weights_are_those_of_all_devices),
        cmocka_unit_test(test_vectors_are_flat),
        cmocka_unit_test(test_sources_that_do_not_fit),
        cmocka_unit_test(test_bytes_keep_what_is_no_number),
        cmocka_unit_test(test_every_call_may_fail),
        cmocka_unit_test(test_every_call_of_the_library_may_fail),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
