// SPDX-License-Identifier: Apache-2.0
// Products by the stand-in cuBLASLt and by weft's kernels: candidates are timed at startup, once
// per bucket of rows, as graphs run them, over several weights; nothing is timed later or while
// recording; the choice is stored in a file and read back; rows that an algorithm refuses use the
// library's first choice; descriptors are created once; alignments are passed on; the file survives
// truncation, damage, files of other cards and several writers. This tests weft's bookkeeping, not
// the library.
#include "tests/simt/blas_tests.h"

#include <sys/stat.h>
#include <sys/wait.h>

enum { WRITERS = 6 };

static void configure(uint32_t candidates, uint32_t best, uint32_t refuses)
{
    struct simt_options options = {
        .blas_candidates = candidates, .blas_best = best, .blas_refuses = refuses};
    simt_configure(&options);
}

static void test_fastest_is_kept(void **state)
{
    (void)state;
    struct fixture w;
    configure(4, 2, 0);
    fixture_open(&w, false);
    struct simt_counts first = run(&w, 9);
    assert_int_equal(first.blas_algorithm, 2);
    assert_int_equal(first.blas_heuristics, 1);
    assert_true(first.blas_calls > 4 * 3); // every candidate ran several times
    // each candidate once outside a graph, and the product
    assert_int_equal(first.blas_calls - first.blas_recorded, 4 + 1);
    assert_true(first.blas_weights > first.blas_calls / 2); // rotates over the layers
    assert_int_equal(first.small_products, 1 + 2 * 8);      // weft's kernel, too
    assert_int_equal(first.wide_products, 1 + 2 * 8);
    assert_int_equal(first.loads, 4 + 2);
    assert_int_equal(first.loads_captured, 0);
    struct simt_counts again = run(&w, 9);
    assert_int_equal(again.blas_calls, 1);
    assert_int_equal(again.blas_descriptors, 0);
    struct simt_counts bucket = run(&w, 12); // 9 and 12 rows are in the bucket up to 16
    assert_int_equal(bucket.blas_calls, 1);
    assert_int_equal(bucket.blas_heuristics, 0);
    assert_int_equal(bucket.blas_algorithm, 2);
    struct simt_counts other = run(&w, 3); // a bucket that was not timed yet
    assert_int_equal(other.blas_heuristics, 1);
    fixture_close(&w);
}

// Layers of one shape share a plan but not their bias. Makes a bias in pieces, as those of q, k and
// v.
static struct weight bias_make(struct fixture *w, float first)
{
    struct weight bias = {.shape = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = N, .k = 1}};
    float from[N];
    for (int i = 0; i < N; i++)
        from[i] = first + (float)i;
    bias.bytes = w->api->weight_bytes(w->device, &bias.shape);
    assert_int_equal(w->api->memory_alloc(w->device, &bias.data, bias.bytes, NULL), STATUS_OK);
    for (uint32_t at = 0; at < N; at += N / 2) {
        struct weight_source source = {
            .map = from + at, .fd = -1, .dtype = DTYPE_F32, .rows = N / 2, .cols = 1};
        assert_int_equal(w->api->weight_put(w->device, &bias, at, &source, NULL), STATUS_OK);
    }
    assert_int_equal(w->api->weight_finish(w->device, &bias, NULL), STATUS_OK);
    return bias;
}

static void test_own_bias(void **state)
{
    (void)state;
    struct fixture w;
    void *host;
    configure(4, 2, 0);
    fixture_open(&w, false);
    struct weight bias[2] = {bias_make(&w, 100), bias_make(&w, -50)};
    assert_int_equal(w.api->host_alloc(w.device, &host, N * 2, NULL), STATUS_OK);
    for (int i = 0; i < 6; i++) {
        enum dtype type = i < 3 ? DTYPE_BF16 : DTYPE_F16;
        struct weight weight = w.weight[0];
        weight.shape.dtype = type;
        struct gemm_args args = {.x_dtype = type,
                                 .y_dtype = type,
                                 .x = w.x, // zeros, so that the result is the bias
                                 .y = w.y,
                                 .weight = &weight,
                                 .bias = &bias[i % 2],
                                 .rows = 1,
                                 .x_stride = K,
                                 .y_stride = N};
        simt_reset();
        assert_int_equal(w.api->tune(w.stream, 0), 1);
        assert_int_equal(w.api->ops->gemm(w.stream, &args), STATUS_OK);
        struct simt_counts counts;
        simt_read(&counts);
        assert_true(counts.blas_calls > 0);
        assert_int_equal(w.api->copy_out(w.stream, host, w.y, N * 2), STATUS_OK);
        for (int j = 0; j < N; j++) {
            uint16_t bits = ((uint16_t *)host)[j];
            assert_true((type == DTYPE_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits)) ==
                        (float)((i % 2 ? -50 : 100) + j));
        }
    }
    w.api->host_free(w.device, host, N * 2);
    for (int i = 0; i < 2; i++)
        w.api->memory_free(w.device, bias[i].data, bias[i].bytes);
    fixture_close(&w);
    cache_remove();
}

static void test_file_is_read(void **state)
{
    (void)state;
    struct fixture w;
    configure(4, 1, 0); // another algorithm would be the fastest now, but the file's choice is used
    fixture_open(&w, false);
    struct simt_counts counts = run(&w, 12);
    assert_int_equal(counts.blas_calls, 1);
    assert_int_equal(counts.blas_heuristics, 0);
    assert_int_equal(counts.blas_algorithm, 2);
    fixture_close(&w);
}

static void test_refused_rows(void **state)
{
    (void)state;
    struct fixture w;
    configure(4, 2, 12);
    fixture_open(&w, false);
    assert_int_equal(run(&w, 9).blas_algorithm, 2);
    struct simt_counts counts = run(&w, 12);
    assert_int_equal(counts.blas_algorithm, 0);
    assert_int_equal(counts.blas_heuristics, 1);
    assert_int_equal(run(&w, 12).blas_heuristics, 0);
    fixture_close(&w);
}

static void test_unknown_algorithm(void **state)
{
    (void)state;
    struct fixture w;
    configure(2, 1, 0); // the file's choice, 2, is no candidate any more
    fixture_open(&w, false);
    struct simt_counts counts = run(&w, 12);
    assert_int_equal(counts.blas_heuristics, 1);
    assert_int_equal(counts.blas_algorithm, 0);
    fixture_close(&w);
}

// Overwrites bytes of the file, or truncates it to `size`.
static void file_spoil(long at, size_t count, long size)
{
    char path[300];
    cache_path(path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    for (size_t i = 0; i < count; i++)
        (void)fputc('x', file);
    (void)fclose(file);
    if (size >= 0)
        assert_int_equal(truncate(path, size), 0);
}

static long file_size(void)
{
    char path[300];
    struct stat found;
    cache_path(path);
    assert_int_equal(stat(path, &found), 0);
    return (long)found.st_size;
}

// Opens the device with a damaged file: it logs one line that contains `why`, and the choice for 12
// rows is timed again (`made`) or read. The file is then valid again: the next opening logs
// nothing.
static void reopen(const char *why, bool made)
{
    struct fixture w;
    configure(4, 3, 0);
    fixture_open(&w, false);
    assert_int_equal(notes, 1);
    assert_non_null(strstr(noted, why));
    assert_int_equal(run(&w, 12).blas_heuristics, made ? 1 : 0);
    fixture_close(&w);
    fixture_open(&w, false);
    assert_int_equal(notes, 0);
    struct simt_counts counts = run(&w, 12);
    assert_int_equal(counts.blas_heuristics, 0);
    assert_int_equal(counts.blas_calls, 1);
    fixture_close(&w);
}

static void test_damaged_file(void **state)
{
    (void)state;
    file_spoil(0, 4096, -1); // nothing of it is valid
    reopen("another version", true);
    long whole = file_size();
    file_spoil(8, 1, -1); // damages the version
    reopen("another version", true);
    file_spoil(16, 1, -1); // damages the name of the card
    reopen("another version, card", true);
    file_spoil(0, 0, 100); // shorter than the head
    reopen("too short", true);
    assert_int_equal(file_size(), whole); // contains one choice
    struct fixture w;
    fixture_open(&w, false);
    assert_int_equal(run(&w, 3).blas_heuristics, 1); // chooses again for the second bucket
    fixture_close(&w);
    file_spoil(0, 0, file_size() - 5);
    reopen("cut off", false); // the first choice is kept
    assert_int_equal(file_size(), whole);
    file_spoil(whole - 20, 1, -1);
    reopen("damaged", true);
    cache_remove();
}

// Processes that choose for different rows at the same time leave one valid file and no temporary
// file.
static void test_many_writers(void **state)
{
    (void)state;
    static const uint32_t rows[WRITERS] = {1, 2, 3, 5, 9, 12};
    struct fixture w;
    configure(4, 2, 0);
    for (int i = 0; i < WRITERS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child != 0)
            continue;
        fixture_open(&w, false);
        (void)run(&w, rows[i]);
        (void)run(&w, rows[(i + 1) % WRITERS]);
        fixture_close(&w);
        _exit(notes == 0 ? 0 : 1);
    }
    for (int i = 0; i < WRITERS; i++) {
        int code = -1;
        assert_true(wait(&code) > 0);
        assert_int_equal(code, 0);
    }
    char path[300];
    cache_path(path); // must be the only file
    fixture_open(&w, false);
    assert_int_equal(notes, 0);
    uint32_t known = 0;
    for (int i = 0; i < WRITERS; i++)
        known += run(&w, rows[i]).blas_heuristics == 0;
    assert_true(known >= 1);
    fixture_close(&w);
    assert_int_equal(unlink(path), 0);
}

// Timing rotates over the loaded weights of the same shape, not over freed ones.
static void test_weights_that_went(void **state)
{
    (void)state;
    struct fixture w;
    configure(4, 2, 0);
    fixture_open(&w, false);
    for (uint32_t i = 1; i < LAYERS; i++) {
        w.api->memory_free(w.device, w.weight[i].data, w.weight[i].bytes);
        w.weight[i].data = NULL;
    }
    struct simt_counts counts = run(&w, 9);
    assert_true(counts.blas_calls > 4 * 3);
    assert_true(counts.blas_weights <= 1); // the weight of the first call counts as a change
    fixture_close(&w);
    cache_remove();
}

// Timing does not use weights of a model after the arena that contains them was freed.
static void test_an_arena_that_went(void **state)
{
    (void)state;
    enum { IN_ARENA = 5 };
    struct fixture w;
    configure(4, 2, 0);
    fixture_open(&w, false);
    size_t each = w.weight[0].bytes;
    void *arena;
    assert_int_equal(w.api->memory_alloc(w.device, &arena, IN_ARENA * each, NULL), STATUS_OK);
    for (uint32_t i = 0; i < IN_ARENA; i++) {
        struct weight weight = w.weight[0];
        weight.data = (char *)arena + i * each;
        struct weight_source source = {
            .fd = -1, .rows = N, .cols = K, .seed = i, .deviation = 1.0f};
        assert_int_equal(w.api->weight_put(w.device, &weight, 0, &source, NULL), STATUS_OK);
        assert_int_equal(w.api->weight_finish(w.device, &weight, NULL), STATUS_OK);
    }
    w.api->memory_free(w.device, arena, IN_ARENA * each);
    for (uint32_t i = 1; i < LAYERS; i++) {
        w.api->memory_free(w.device, w.weight[i].data, w.weight[i].bytes);
        w.weight[i].data = NULL;
    }
    struct simt_counts counts = run(&w, 9);
    assert_true(counts.blas_calls > 4 * 3);
    assert_true(counts.blas_weights <= 1); // the weight of the first call counts as a change
    fixture_close(&w);
    cache_remove();
}

// An algorithm for 256-byte alignment must not be used for a pointer with less alignment.
static void test_alignment(void **state)
{
    (void)state;
    struct fixture w;
    configure(4, 2, 0);
    fixture_open(&w, false);
    assert_int_equal(run(&w, 2).blas_algorithm, 2);
    struct simt_counts counts = run_at(&w, 2, 2 * K * 2); // x begins at a later row
    assert_int_equal(counts.blas_algorithm, 2);
    assert_int_equal(counts.blas_heuristics, 1); // needs another choice
    assert_int_equal(run_at(&w, 2, 2 * K * 2).blas_heuristics, 0);
    fixture_close(&w);
    cache_remove();
}

// If the library returns no algorithm for a shape, weft's kernel is used; if its first algorithm
// does not run, the next.
static void test_no_algorithm(void **state)
{
    (void)state;
    struct simt_options options = {.blas_none = true};
    struct fixture w;
    simt_configure(&options);
    fixture_open(&w, false);
    struct simt_counts counts = run(&w, 4);
    assert_int_equal(counts.blas_calls, 0);
    assert_int_equal(counts.launches, 1);
    assert_int_equal(counts.small_products, 1); // the only candidate, which is chosen
    fixture_close(&w);
    cache_remove();
    options = (struct simt_options){.blas_candidates = 3, .blas_best = 2, .blas_bad_first = true};
    simt_configure(&options);
    fixture_open(&w, false);
    assert_int_equal(run(&w, 4).blas_algorithm, 2);
    assert_int_equal(run(&w, 1030).blas_algorithm, 2);
    assert_int_equal(w.api->tune(w.stream, ROWS), 0); // the startup ends
    counts = serve(&w, 100); // not timed: the library's first algorithm that runs
    assert_int_equal(counts.blas_calls, 1);
    assert_int_equal(counts.blas_algorithm, 1);
    fixture_close(&w);
    cache_remove();
}

// A kernel after a product of the library is launched without early start; the emulator would
// report an early start after work that is no kernel of a step.
static void test_a_kernel_behind_a_product(void **state)
{
    (void)state;
    struct fixture w;
    struct simt_counts counts;
    configure(2, 0, 0);
    fixture_open(&w, false);
    struct swiglu_args args = {.act = DTYPE_BF16, .in = w.y, .out = w.x, .rows = 1, .width = N / 2};
    run(&w, 4); // is timed in graphs, after which no kernel begins early either
    assert_int_equal(w.api->ops->swiglu(w.stream, &args), STATUS_OK);
    run(&w, 4);
    simt_reset();
    assert_int_equal(w.api->ops->swiglu(w.stream, &args), STATUS_OK);
    assert_int_equal(w.api->ops->swiglu(w.stream, &args), STATUS_OK);
    simt_read(&counts);
    assert_string_equal(simt_first_report(), "");
    assert_int_equal(counts.launches, 2);
    assert_int_equal(counts.early, 1);
    fixture_close(&w);
    cache_remove();
}

// Nothing is timed while a graph is recorded, not even at startup.
static void test_while_recording(void **state)
{
    (void)state;
    struct fixture w;
    struct graph *graph = NULL;
    struct simt_counts counts;
    configure(4, 2, 0);
    fixture_open(&w, false);
    assert_int_equal(run(&w, 2).blas_algorithm, 2);
    assert_int_equal(w.api->graph_begin(w.stream), STATUS_OK);
    counts = run(&w, 2);
    assert_int_equal(counts.blas_algorithm, 2);
    assert_int_equal(counts.loads, 0);
    counts = run(&w, 4);
    assert_int_equal(counts.blas_algorithm, 0);
    assert_int_equal(counts.blas_calls, 1);
    assert_int_equal(w.api->graph_end(w.stream, &graph, NULL), STATUS_OK);
    assert_int_equal(w.api->graph_launch(w.stream, graph), STATUS_OK);
    w.api->graph_close(graph);
    fixture_close(&w);
    cache_remove();
}

// Runs the startup timing over all buckets. Returns the counts, and the number of buckets.
static struct simt_counts start(struct fixture *w, uint32_t *buckets)
{
    struct simt_counts all = {0};
    *buckets = 0;
    for (uint32_t rows = 0; (rows = w->api->tune(w->stream, rows)) != 0; ++*buckets) {
        struct simt_counts one = serve(w, rows);
        uint32_t runs = rows <= 1024 ? 8 : 2;
        assert_true(one.blas_heuristics <= 1);
        assert_int_equal(one.blas_recorded, one.blas_heuristics != 0 ? 4 * runs : 0);
        assert_int_equal(one.blas_algorithm, 2);
        assert_int_equal(one.loads_captured, 0);
        all.blas_heuristics += one.blas_heuristics;
        all.blas_recorded += one.blas_recorded;
        all.loads += one.loads;
    }
    return all;
}

// Steps of any row count find the choices made at startup; a second startup reads all of them from
// the file.
static void test_start(void **state)
{
    (void)state;
    struct fixture w;
    uint32_t buckets;
    configure(4, 2, 0);
    fixture_open(&w, false);
    struct simt_counts counts = start(&w, &buckets);
    assert_int_equal(buckets, 18); // the buckets up to 1,024, and the rest up to 1,536
    assert_int_equal(counts.blas_heuristics, buckets);
    assert_int_equal(counts.loads, 4 + 5); // three small kernels of weft and two wide ones
    assert_non_null(strstr(noted, "products, by shape and rows: 18 by cuBLASLt, 0 by the small "
                                  "kernel, 0 by the wide; chosen in "));
    assert_null(strstr(noted, "first choice"));
    for (uint32_t rows = 1; rows <= ROWS; rows += rows < 70 ? 1 : 131) {
        struct simt_counts step = serve(&w, rows);
        assert_int_equal(step.blas_heuristics, 0);
        assert_int_equal(step.blas_calls, 1);
        assert_int_equal(step.loads, 0);
        assert_int_equal(step.blas_algorithm, 2);
    }
    fixture_close(&w);
    configure(4, 2, 0);
    fixture_open(&w, false);
    counts = start(&w, &buckets);
    assert_int_equal(buckets, 18);
    assert_int_equal(counts.blas_heuristics, 0);
    assert_int_equal(counts.blas_recorded, 0);
    assert_int_equal(counts.loads, 1);
    assert_int_equal(serve(&w, 1000).loads, 0);
    fixture_close(&w);
    cache_remove();
}

// The clock of this program runs 64 times slower, so that a busy machine or a sanitizer does not
// reach the limit of startup's time, and is this many seconds ahead.
static uint64_t clock_ahead_s;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int failed = __real_clock_gettime(clock, out);
    uint64_t slow = ((uint64_t)out->tv_sec * 1000000000 + (uint64_t)out->tv_nsec) / 64;
    out->tv_sec = (time_t)(slow / 1000000000 + clock_ahead_s);
    out->tv_nsec = (long)(slow % 1000000000);
    return failed;
}

// Startup times products for 20 seconds by the clock. The others use the first choice, a log line
// counts them, and a later startup times them.
static void test_start_is_bounded(void **state)
{
    (void)state;
    struct fixture w;
    for (uint32_t last = 1; last <= 4; last *= 2) {
        char wanted[80];
        uint32_t missed = 0;
        configure(4, 2, 0);
        fixture_open(&w, false);
        for (uint32_t rows = 0; (rows = w.api->tune(w.stream, rows)) != 0;) {
            struct simt_counts counts = serve(&w, rows);
            assert_int_equal(counts.blas_recorded, rows == last ? 4 * 8 : 0);
            assert_int_equal(counts.blas_algorithm, rows <= last ? 2 : 0);
            missed += rows > last;
            clock_ahead_s += rows == last ? 21 : 0;
        }
        snprintf(wanted, sizeof wanted, " s; %u were not timed within 20 s", missed);
        assert_non_null(strstr(noted, "; chosen in 21."));
        assert_non_null(strstr(noted, wanted));
        fixture_close(&w);
    }
    cache_remove();
}

// A shape that startup has not timed uses the library's first choice, which is not stored.
static void test_step_times_nothing(void **state)
{
    (void)state;
    struct fixture w;
    configure(4, 2, 0);
    fixture_open(&w, false);
    for (uint32_t rows = 0; (rows = w.api->tune(w.stream, rows)) != 0;)
        continue;
    struct simt_counts counts = serve(&w, 9);
    assert_int_equal(counts.blas_calls, 1);
    assert_int_equal(counts.blas_recorded, 0);
    assert_int_equal(counts.blas_algorithm, 0);
    assert_int_equal(run(&w, 10).blas_algorithm, 2); // of the same bucket, timed at startup
    fixture_close(&w);
    cache_remove();
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fastest_is_kept),
        cmocka_unit_test(test_file_is_read),
        cmocka_unit_test(test_refused_rows),
        cmocka_unit_test(test_unknown_algorithm),
        cmocka_unit_test(test_damaged_file),
        cmocka_unit_test(test_while_recording),
        cmocka_unit_test(test_many_writers),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_own_bias),
        cmocka_unit_test(test_no_algorithm),
        cmocka_unit_test(test_weights_that_went),
        cmocka_unit_test(test_an_arena_that_went),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_step_times_nothing),
        cmocka_unit_test(test_start_is_bounded),
        cmocka_unit_test(test_a_kernel_behind_a_product),
        cmocka_unit_test(test_own_kernels_and_the_library),
        cmocka_unit_test(test_every_choice_is_right),
        cmocka_unit_test(test_float32_is_the_library_s),
        cmocka_unit_test(test_exact_mode_times_nothing),
        cmocka_unit_test(test_codes_for_the_library),
        cmocka_unit_test(test_codes_the_library_lacks),
        cmocka_unit_test(test_codes_are_timed),
        cmocka_unit_test(test_codes_memory),
        cmocka_unit_test(test_fused_bits),
        cmocka_unit_test(test_fused_or_not),
        cmocka_unit_test(test_fused_graph),
        cmocka_unit_test(test_fused_timing),
        cmocka_unit_test(test_strips_for_the_library),
        cmocka_unit_test(test_strips_are_timed),
        cmocka_unit_test(test_strips_memory),
    };
    int failed = cmocka_run_group_tests_name("products", tests, NULL, NULL);
    (void)rmdir(folder);
    return failed;
}
