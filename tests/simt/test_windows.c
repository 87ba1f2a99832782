// SPDX-License-Identifier: Apache-2.0
// Sums of ranks in windows of NCCL, with the emulator's stand-in for it: they are bit-equal to
// those without windows, launched and recorded; the memory is as planned; without windows in the
// library or between the cards, or after a failed call, the sums are as before; after a fault or a
// close nothing is left.
#include "base/clock.h"
#include "kernels/device.h"
#include "kernels/ways.h"
#include "tests/simt/control.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct device_api *weft_device_plugin(void);

enum { SIZE = 2, TOKENS = 4, HIDDEN = 96, COUNT = TOKENS * HIDDEN, PATIENCE = 10000 };
static const uint64_t LONG = 20000000000u; // ns: far more than any step here takes
static const uint64_t MIB = 1 << 20;

struct pair {
    const struct device_api *api;
    struct device *device[SIZE];
    struct stream *stream[SIZE];
    struct comm *comm;
    uint32_t *word[SIZE], words; // words: number of signals so far
    uint16_t *host[SIZE];
    uint64_t calls[SIZE]; // calls that could fail, up to the open stream of a rank
};

static char noted[256]; // last line about the sums of ranks

static void line_note(uint32_t index, const char *line)
{
    (void)index;
    if (strncmp(line, "sums of ranks: ", 15) == 0)
        strncpy(noted, line + 15, sizeof noted - 1);
}

static struct stream_limits limits_of(void)
{
    return (struct stream_limits){.step = {.rows_max = 4, .tokens_max = TOKENS, .vocab = 8},
                                  .width_max = HIDDEN,
                                  .sums_bytes = COUNT * sizeof(float)};
}

static void pair_close(struct pair *p)
{
    p->api->comm_close(p->comm);
    for (uint32_t r = 0; r < SIZE; r++) {
        p->api->stream_close(p->stream[r]);
        if (p->word[r])
            p->api->host_free(p->device[r], p->word[r], 256);
        if (p->host[r])
            p->api->host_free(p->device[r], p->host[r], COUNT * 4);
        if (p->device[r])
            p->api->close(p->device[r]);
    }
}

static enum status pair_try(struct pair *p, int exact, uint32_t ways, struct error *err)
{
    struct stream_limits limits = limits_of();
    struct simt_counts counts;
    enum status status = STATUS_OK;
    *p = (struct pair){.api = weft_device_plugin()};
    noted[0] = '\0';
    for (uint32_t r = 0; r < SIZE && status == STATUS_OK; r++) {
        struct device_options options = {
            .index = r + 1, .ranks = SIZE, .exact = exact, .ways = ways, .note = line_note};
        void *at;
        status = p->api->open(&p->device[r], &options, err);
        if (status == STATUS_OK)
            status = p->api->stream_open(p->device[r], &p->stream[r], &limits, err);
        simt_read(&counts);
        p->calls[r] = counts.calls;
        if (status == STATUS_OK && (status = p->api->host_alloc(p->device[r], &at, 256, err)) == 0)
            p->word[r] = at;
        if (status == STATUS_OK &&
            (status = p->api->host_alloc(p->device[r], &at, COUNT * 4, err)) == 0)
            p->host[r] = at;
    }
    if (status == STATUS_OK)
        status = p->api->comm_open(&p->comm, p->stream, SIZE, NULL, err);
    return status;
}

static void pair_open(struct pair *p, uint32_t ways)
{
    struct error err = {0};
    assert_int_equal(pair_try(p, 0, ways, &err), STATUS_OK);
}

static void configure(uint32_t version)
{
    simt_reset();
    simt_configure(
        &(struct simt_options){.devices = 7, .patience = PATIENCE, .nccl_version = version});
}

// Parts whose sums depend on rounding.
static uint16_t part(uint32_t rank, uint32_t i)
{
    return f32_to_bf16((float)(i * 7 % 93) * (rank > 0 ? -0.37f : 1.25f) + (float)rank);
}

static enum status sum_call(struct pair *p, uint32_t r, void *at, uint64_t count)
{
    struct all_reduce_args args = {
        .act = DTYPE_BF16, .out = at, .count = count, .ranks = SIZE, .in_place = true};
    p->api->thread_begin(p->stream[r]);
    return p->api->ops->all_reduce(p->stream[r], &args);
}

static void pair_wait(struct pair *p)
{
    struct error err = {0};
    p->words++;
    for (uint32_t r = 0; r < SIZE; r++) {
        p->api->thread_begin(p->stream[r]);
        assert_int_equal(p->api->signal(p->stream[r], p->word[r], p->words), STATUS_OK);
    }
    for (uint32_t r = 0; r < SIZE; r++)
        assert_int_equal(p->api->wait(p->stream[r], p->word[r], p->words, clock_ns() + LONG, &err),
                         STATUS_OK);
}

// Sums the parts in the streams' buffers; out: what each rank has then.
static void sums_run(struct pair *p, bool recorded, uint16_t out[SIZE][COUNT])
{
    struct error err = {0};
    struct graph *graph[SIZE] = {NULL};
    for (uint32_t r = 0; r < SIZE; r++) {
        uint16_t parts[COUNT];
        for (uint32_t i = 0; i < COUNT; i++)
            parts[i] = part(r, i);
        void *sums = p->api->sums_buffer(p->stream[r]);
        p->api->thread_begin(p->stream[r]);
        assert_int_equal(p->api->upload(p->device[r], sums, parts, sizeof parts, &err), STATUS_OK);
        assert_true(!recorded || p->api->graph_begin(p->stream[r]) == STATUS_OK);
        assert_int_equal(sum_call(p, r, sums, COUNT), STATUS_OK);
        assert_true(!recorded || p->api->graph_end(p->stream[r], &graph[r], &err) == STATUS_OK);
    }
    for (uint32_t r = 0; r < SIZE; r++) {
        p->api->thread_begin(p->stream[r]);
        assert_true(!recorded || p->api->graph_launch(p->stream[r], graph[r]) == STATUS_OK);
        assert_int_equal(p->api->copy_out(p->stream[r], p->host[r],
                                          p->api->sums_buffer(p->stream[r]), COUNT * 2),
                         STATUS_OK);
    }
    pair_wait(p);
    for (uint32_t r = 0; r < SIZE; r++) {
        memcpy(out[r], p->host[r], COUNT * 2);
        p->api->graph_close(graph[r]);
    }
}

// Returns the planned bytes of a rank. label: NULL: all but those that NCCL allocates.
static uint64_t planned(const struct pair *p, const char *label)
{
    struct stream_limits limits = limits_of();
    struct device_need need;
    struct error err = {0};
    uint64_t bytes = 0;
    assert_int_equal(p->api->need(p->device[0], &limits, &need, &err), STATUS_OK);
    for (uint32_t i = 0; i < need.count; i++)
        if (label ? strcmp(need.entry[i].label, label) == 0
                  : strcmp(need.entry[i].label, "NCCL") != 0)
            bytes += need.entry[i].bytes;
    return bytes;
}

static uint64_t device_bytes(void)
{
    struct simt_counts counts;
    simt_read(&counts);
    return counts.device_bytes;
}

static uint16_t expected[SIZE][COUNT], got[SIZE][COUNT];

// Opens a pair of the version, compares its sums with the expected ones and closes it.
static void pair_check(uint32_t ways, uint64_t windows, const char *note)
{
    struct pair p;
    struct simt_counts before, after;
    simt_read(&before);
    pair_open(&p, ways);
    assert_string_equal(noted, note);
    simt_read(&after);
    assert_int_equal(after.nccl_windows, windows);
    for (int recorded = 0; recorded <= 1; recorded++) {
        memset(got, 0, sizeof got);
        sums_run(&p, recorded, got);
        assert_memory_equal(got, expected, sizeof got);
    }
    simt_read(&after);
    assert_int_equal(after.nccl_windowed, windows > 0 ? 2 * SIZE : 0);
    pair_close(&p);
    simt_read(&after);
    assert_int_equal(after.nccl_windows, 0);
    assert_int_equal(after.live, before.live);
    assert_string_equal(simt_first_report(), "");
}

static void test_sums_are_equal(void **state)
{
    (void)state;
    struct pair p;
    configure(21800);
    pair_open(&p, 0);
    sums_run(&p, false, expected);
    pair_close(&p);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(expected[0][i],
                         f32_to_bf16(bf16_to_f32(part(0, i)) + bf16_to_f32(part(1, i))));
    static const struct {
        uint32_t version, ways;
        uint64_t windows;
        const char *note;
    } rows[] = {
        {21800, 0, 0, "NCCL 2.18.0, no windows: needs NCCL 2.27"},
        {22609, 0, 0, "NCCL 2.26.9, no windows: needs NCCL 2.27"},
        {22703, 0, SIZE, "NCCL 2.27.3, in windows"},
        {22900, 0, 2 * SIZE, "NCCL 2.29.0, in windows"},
        {22900, WAY_ONE_COMM, SIZE, "NCCL 2.29.0, in windows"},
        {22900, WAY_NO_WINDOWS, 0, "NCCL 2.29.0, no windows: switched off"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        configure(rows[i].version);
        pair_check(rows[i].ways, rows[i].windows, rows[i].note);
    }
}

// Without peer access the library returns no windows; a failed call leaves none.
static void test_no_windows_are_no_fault(void **state)
{
    (void)state;
    configure(22900);
    simt_configure(&(struct simt_options){
        .devices = 7, .patience = PATIENCE, .nccl_version = 22900, .nccl_no_windows = true});
    pair_check(0, 0, "NCCL 2.29.0, no windows: not possible between these GPUs");
    for (uint32_t fails = 1; fails <= 2 * SIZE; fails++) {
        configure(22900);
        simt_configure(&(struct simt_options){
            .devices = 7, .patience = PATIENCE, .nccl_version = 22900, .nccl_window_fails = fails});
        pair_check(0, 0, "NCCL 2.29.0, no windows: not possible between these GPUs");
    }
}

// Exact mode registers nothing and logs nothing.
static void test_exact_mode_has_none(void **state)
{
    (void)state;
    struct pair p;
    struct simt_counts counts;
    struct error err = {0};
    configure(22900);
    assert_int_equal(pair_try(&p, 1, 0, &err), STATUS_OK);
    simt_read(&counts);
    assert_int_equal(counts.nccl_registered, 0);
    assert_string_equal(noted, "");
    pair_close(&p);
}

// The buffer is in the plan as it is allocated, in units of 2 MiB, and so are NCCL's own buffers.
static void test_the_plan_is_right(void **state)
{
    (void)state;
    static const struct {
        uint32_t version, ways;
        uint64_t nccl;
    } rows[] = {
        {21800, 0, 768}, {22703, 0, 784}, {22900, 0, 2 * 784}, {22900, WAY_NO_WINDOWS, 2 * 768}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pair p;
        struct stream *stream;
        struct stream_limits limits = limits_of();
        struct error err = {0};
        configure(rows[i].version);
        pair_open(&p, rows[i].ways);
        assert_int_equal(planned(&p, "NCCL"), rows[i].nccl * MIB);
        uint64_t before = device_bytes();
        assert_int_equal(p.api->stream_open(p.device[0], &stream, &limits, &err), STATUS_OK);
        assert_int_equal(device_bytes() - before, planned(&p, NULL));
        p.api->stream_close(stream);
        pair_close(&p);
    }
}

struct attempt {
    struct pair *pair;
    enum status status;
};

static void *attempt_run(void *argument)
{
    struct attempt *a = argument;
    struct error err = {0};
    a->status = pair_try(a->pair, 0, 0, &err);
    return NULL;
}

// The last calls of opening a stream, and each call of opening a communicator, fail once: the pair
// is opened without windows, or not at all, and nothing is left. A thread of its own opens it, as a
// group of NCCL stays open in a thread in which joining failed.
static void test_calls_fail(void **state)
{
    (void)state;
    enum { LAST = 16 };
    uint32_t opened = 0, refused = 0;
    struct pair p;
    struct simt_counts before, after, whole;
    configure(22900);
    pair_open(&p, 0);
    simt_read(&whole);
    pair_close(&p);
    const struct pair all = p;
    for (uint64_t at = all.calls[0] - LAST; at <= whole.calls; at++) {
        if (at == all.calls[0])
            at = all.calls[1] - LAST;
        configure(22900);
        simt_read(&before);
        simt_configure(&(struct simt_options){
            .devices = 7, .patience = PATIENCE, .nccl_version = 22900, .fail_at = at});
        struct attempt attempt = {.pair = &p};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, attempt_run, &attempt), 0);
        pthread_join(thread, NULL);
        enum status status = attempt.status;
        simt_configure(
            &(struct simt_options){.devices = 7, .patience = PATIENCE, .nccl_version = 22900});
        if (status == STATUS_OK) {
            sums_run(&p, false, got);
            if (memcmp(got, expected, sizeof got) != 0)
                fail_msg("other sums after call %u failed", (uint32_t)at);
        }
        opened += status == STATUS_OK;
        refused += status != STATUS_OK;
        pair_close(&p);
        simt_read(&after);
        assert_int_equal(after.live, before.live);
        assert_int_equal(after.nccl_windows, 0);
        assert_string_equal(simt_first_report(), "");
    }
    if (opened < 6 || refused < 20)
        fail_msg("%u opened, %u refused", opened, refused);
}

// An abort ends the windows; their memory is freed after it.
static void test_an_abort_leaves_nothing(void **state)
{
    (void)state;
    struct pair p;
    struct simt_counts before, after;
    configure(22900);
    simt_read(&before);
    pair_open(&p, 0);
    sums_run(&p, true, got);
    assert_int_equal(sum_call(&p, 0, p.api->sums_buffer(p.stream[0]), COUNT), STATUS_OK);
    p.api->comm_abort(p.comm);
    pair_close(&p);
    simt_read(&after);
    assert_int_equal(after.nccl_windows, 0);
    assert_int_equal(after.live, before.live);
    assert_string_equal(simt_first_report(), "");
}

// The stand-in reports a sum that has a window in one rank only.
static void test_half_a_window_is_reported(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    void *other;
    configure(22900);
    simt_configure(&(struct simt_options){
        .devices = 7, .patience = PATIENCE, .nccl_version = 22900, .quiet = true});
    pair_open(&p, 0);
    assert_int_equal(p.api->memory_alloc(p.device[1], &other, COUNT * 2, &err), STATUS_OK);
    assert_int_equal(sum_call(&p, 0, p.api->sums_buffer(p.stream[0]), COUNT), STATUS_OK);
    assert_int_equal(sum_call(&p, 1, other, COUNT), STATUS_OK);
    pair_wait(&p);
    assert_non_null(strstr(simt_first_report(), "rank 1 sums at offset -1 of a window"));
    p.api->memory_free(p.device[1], other, COUNT * 2);
    pair_close(&p);
    configure(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_equal),
        cmocka_unit_test(test_no_windows_are_no_fault),
        cmocka_unit_test(test_exact_mode_has_none),
        cmocka_unit_test(test_the_plan_is_right),
        cmocka_unit_test(test_calls_fail),
        cmocka_unit_test(test_an_abort_leaves_nothing),
        cmocka_unit_test(test_half_a_window_is_reported),
    };
    simt_configure(&(struct simt_options){.devices = 7, .patience = PATIENCE});
    return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}
