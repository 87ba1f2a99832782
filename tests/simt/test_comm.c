// SPDX-License-Identifier: Apache-2.0
// Communicators of the cuda device with the emulator's stand-in for NCCL: what is refused, what
// each mode sends, a rank that is late, and how a fault ends the communicator.
#include "base/clock.h"
#include "kernels/cuda/internal.h" // for the ranks in struct stream
#include "kernels/device.h"
#include "kernels/ways.h"
#include "tests/simt/control.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const struct device_api *weft_device_plugin(void);

// ROOM: elements of a rank's buffers, of which 256 are one piece of a sum.
enum {
    SIZE = 2,
    COUNT = 100,
    ROOM = 300,
    ROWS = 4,
    VOCAB = 8,
    PATIENCE = 10000,
    LONG_PATIENCE = 100000
};
static const uint64_t SOON = 50000000; // ns: timeout of a wait

struct pair {
    const struct device_api *api;
    struct device *device[SIZE];
    struct stream *stream[SIZE];
    struct comm *comm;
    uint32_t *word[SIZE];
    void *in[SIZE], *out[SIZE];
};

static uint32_t ways; // device_options.ways of the devices to open

static void pair_open(struct pair *p, int exact)
{
    struct error err = {0};
    struct stream_limits limits = {.step = {.rows_max = ROWS, .tokens_max = 4, .vocab = VOCAB},
                                   .width_max = 64};
    *p = (struct pair){.api = weft_device_plugin()};
    for (uint32_t r = 0; r < SIZE; r++) {
        struct device_options options = {
            .index = SIZE - r, .ranks = SIZE, .exact = exact, .ways = ways};
        void *word;
        assert_int_equal(p->api->open(&p->device[r], &options, &err), STATUS_OK);
        assert_int_equal(p->api->stream_open(p->device[r], &p->stream[r], &limits, &err),
                         STATUS_OK);
        assert_int_equal(p->api->memory_alloc(p->device[r], &p->in[r], ROOM * 4, &err), STATUS_OK);
        assert_int_equal(p->api->memory_alloc(p->device[r], &p->out[r], ROOM * 4, &err), STATUS_OK);
        assert_int_equal(p->api->host_alloc(p->device[r], &word, 256, &err), STATUS_OK);
        p->word[r] = word;
    }
    assert_int_equal(p->api->comm_open(&p->comm, p->stream, SIZE, NULL, &err), STATUS_OK);
}

static enum status reduce_of(struct pair *p, uint32_t rank, uint64_t count, uint32_t ranks)
{
    struct all_reduce_args args = {DTYPE_F32, p->in[rank], p->out[rank], count, ranks, false};
    p->api->thread_begin(p->stream[rank]);
    return p->api->ops->all_reduce(p->stream[rank], &args);
}

static enum status reduce(struct pair *p, uint32_t rank, uint64_t count)
{
    return reduce_of(p, rank, count, SIZE);
}

// Closes the communicator: its streams have none any more, a collective is refused, and the
// stand-in has reported nothing.
static void communicator_close(struct pair *p)
{
    p->api->comm_close(p->comm);
    p->comm = NULL;
    for (uint32_t r = 0; r < SIZE; r++)
        assert_null(p->stream[r]->comm);
    assert_int_equal(reduce(p, 0, COUNT), STATUS_INVALID);
    assert_string_equal(simt_first_report(), "");
}

static void pair_close(struct pair *p)
{
    p->api->comm_close(p->comm);
    for (uint32_t r = 0; r < SIZE; r++) {
        p->api->stream_close(p->stream[r]);
        p->api->memory_free(p->device[r], p->in[r], ROOM * 4);
        p->api->memory_free(p->device[r], p->out[r], ROOM * 4);
        p->api->host_free(p->device[r], p->word[r], 256);
        p->api->close(p->device[r]);
    }
    simt_configure(&(struct simt_options){.devices = 7, .patience = PATIENCE});
    simt_reset();
}

static enum status gather_rows(struct pair *p, uint32_t rank, uint32_t rows)
{
    struct all_gather_args args = {.in = p->in[rank],
                                   .out = p->out[rank],
                                   .rows = rows,
                                   .ranks = SIZE,
                                   .stride = VOCAB,
                                   .ends = {VOCAB / 2, VOCAB}};
    p->api->thread_begin(p->stream[rank]);
    return p->api->ops->all_gather(p->stream[rank], &args);
}

static enum status gather(struct pair *p, uint32_t rank)
{
    return gather_rows(p, rank, 1);
}

static enum status call(struct pair *p, uint32_t rank, uint64_t count)
{
    enum status status = reduce(p, rank, count);
    return status == STATUS_OK ? p->api->signal(p->stream[rank], p->word[rank], 1) : status;
}

static enum status wait_for(struct pair *p, uint32_t rank, struct error *err)
{
    return p->api->wait(p->stream[rank], p->word[rank], 1, clock_ns() + SOON, err);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    struct error err = {0};
    struct device *device;
    const struct device_api *api = weft_device_plugin();
    struct device_options rank = {.ranks = SIZE, .exact = 1}, alone = {.exact = 1};
    simt_configure(&(struct simt_options){.devices = 7, .patience = PATIENCE, .no_nccl = true});
    assert_int_equal(api->open(&device, &rank, &err), STATUS_NO_DEVICE);
    assert_non_null(strstr(err.text, "need NCCL, which could not be opened (libnccl.so.2: "));
    static const struct {
        uint32_t version;
        const char *words;
    } old[] = {{21799, "is NCCL 2.17.99, and 2.18 or newer"}, {2804, "is NCCL 2.8.4, and 2.18 or"}};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        simt_configure(&(struct simt_options){
            .devices = 7, .patience = PATIENCE, .nccl_version = old[i].version});
        assert_int_equal(api->open(&device, &rank, &err), STATUS_NO_DEVICE);
        assert_non_null(strstr(err.text, old[i].words));
    }
    // a model without ranks does not open NCCL
    assert_int_equal(api->open(&device, &alone, &err), STATUS_OK);
    api->close(device);
    struct pair p;
    struct comm *other = NULL;
    simt_configure(&(struct simt_options){.devices = 7, .patience = PATIENCE});
    pair_open(&p, 1);
    struct stream *twice[] = {p.stream[0], p.stream[0]};
    assert_int_equal(api->comm_open(&other, twice, SIZE, NULL, &err), STATUS_INVALID);
    assert_string_equal(err.text, "ranks 0 and 1 are on one GPU");
    assert_null(other);
    assert_int_equal(reduce_of(&p, 0, COUNT, SIZE + 1), STATUS_INVALID);
    pair_close(&p);
}

// The memory plan of a rank contains the memory that NCCL allocates; that of an unsplit model does
// not.
static void test_the_library_is_in_the_plan(void **state)
{
    (void)state;
    const struct device_api *api = weft_device_plugin();
    struct stream_limits limits = {.step = {.rows_max = 4, .tokens_max = 4}, .width_max = 64};
    struct error err = {0};
    for (uint32_t ranks = 0; ranks <= SIZE; ranks += SIZE) {
        struct device *device;
        struct device_need need;
        struct device_options options = {.ranks = ranks, .exact = 1};
        uint64_t bytes = 0;
        assert_int_equal(api->open(&device, &options, &err), STATUS_OK);
        assert_int_equal(api->need(device, &limits, &need, &err), STATUS_OK);
        for (uint32_t i = 0; i < need.count; i++)
            bytes += strcmp(need.entry[i].label, "NCCL") == 0 ? need.entry[i].bytes : 0;
        assert_int_equal(bytes, ranks > 0 ? 768 << 20 : 0);
        api->close(device);
    }
}

static uint64_t planned_bytes(const struct pair *p, const char *label)
{
    struct stream_limits limits = {.step = {.rows_max = 4, .tokens_max = 4}, .width_max = 64};
    struct device_need need;
    struct error err = {0};
    uint64_t bytes = 0;
    assert_int_equal(p->api->need(p->device[0], &limits, &need, &err), STATUS_OK);
    for (uint32_t i = 0; i < need.count; i++)
        bytes += strcmp(need.entry[i].label, label) == 0 ? need.entry[i].bytes : 0;
    return bytes;
}

// From NCCL 2.29 on, recorded collectives have a communicator of their own, which is in the plan
// and ends with the other: closed, or aborted while graphs hold its collectives.
static void test_recorded_collectives_are_apart(void **state)
{
    (void)state;
    static const struct {
        uint32_t version, ways;
        bool apart, aborted;
    } cases[] = {{22809, 0, false, false},
                 {22900, WAY_ONE_COMM, false, false},
                 {22900, 0, true, false},
                 {23000, 0, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair p;
        struct error err = {0};
        struct simt_counts before, after;
        struct graph *graph[SIZE];
        simt_reset();
        simt_configure(&(struct simt_options){
            .devices = 7, .patience = LONG_PATIENCE, .nccl_version = cases[i].version});
        simt_read(&before);
        ways = cases[i].ways;
        pair_open(&p, 1);
        assert_int_equal(planned_bytes(&p, "NCCL"), (1 + (uint64_t)cases[i].apart) * (768 << 20));
        for (uint32_t r = 0; r < SIZE; r++) {
            p.api->thread_begin(p.stream[r]);
            assert_int_equal(p.api->graph_begin(p.stream[r]), STATUS_OK);
            assert_int_equal(reduce(&p, r, COUNT), STATUS_OK);
            assert_int_equal(p.api->graph_end(p.stream[r], &graph[r], &err), STATUS_OK);
        }
        if (cases[i].aborted)
            p.api->comm_abort(p.comm);
        for (uint32_t r = 0; r < SIZE; r++) {
            enum status want = cases[i].aborted ? STATUS_DEVICE_FAULT : STATUS_OK;
            p.api->thread_begin(p.stream[r]);
            assert_int_equal(p.api->graph_launch(p.stream[r], graph[r]), want);
            assert_int_equal(call(&p, r, COUNT), want);
        }
        for (uint32_t r = 0; r < SIZE && !cases[i].aborted; r++)
            assert_int_equal(wait_for(&p, r, &err), STATUS_OK);
        simt_read(&after);
        assert_int_equal(after.nccl_recorded, cases[i].apart ? SIZE : 0);
        assert_int_equal(after.nccl_copies, cases[i].aborted ? 0 : 2);
        for (uint32_t r = 0; r < SIZE; r++)
            p.api->graph_close(graph[r]);
        communicator_close(&p);
        pair_close(&p);
        simt_read(&after);
        assert_int_equal(after.live, before.live);
    }
    ways = 0;
}

// In exact mode weft's kernel adds, not NCCL.
static void test_who_adds(void **state)
{
    (void)state;
    for (int exact = 0; exact <= 1; exact++) {
        struct pair p;
        struct error err = {0};
        struct simt_counts counts;
        simt_reset();
        pair_open(&p, exact);
        for (uint32_t r = 0; r < SIZE; r++)
            assert_int_equal(call(&p, r, COUNT), STATUS_OK);
        assert_int_equal(wait_for(&p, 0, &err), STATUS_OK);
        simt_read(&counts);
        assert_int_equal(counts.nccl_sums, !exact);
        assert_int_equal(counts.nccl_copies, exact);
        pair_close(&p);
    }
}

// Without exact mode NCCL sums parts in place, in their type; exact mode refuses it.
static void test_sums_in_place(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct pair p;
        struct error err = {0};
        struct simt_counts counts;
        struct device_facts facts;
        simt_reset();
        pair_open(&p, 0);
        p.api->facts(p.device[0], &facts);
        assert_true(facts.sums_in_place);
        simt_read(&counts);
        uint64_t launched = counts.launches;
        void *host[SIZE];
        for (uint32_t r = 0; r < SIZE; r++) {
            float parts[COUNT];
            uint16_t narrow[COUNT];
            for (uint32_t j = 0; j < COUNT; j++) { // sums with at most eight bits
                parts[j] = r == 0 ? (float)j : -2.0f * (float)j + 1;
                narrow[j] = types[i] == DTYPE_F16 ? f32_to_f16(parts[j]) : f32_to_bf16(parts[j]);
            }
            const void *from = types[i] == DTYPE_F32 ? (const void *)parts : narrow;
            assert_int_equal(
                p.api->upload(p.device[r], p.out[r], from, COUNT * dtype_bytes(types[i]), &err),
                STATUS_OK);
            struct all_reduce_args args = {
                .act = types[i], .out = p.out[r], .count = COUNT, .ranks = SIZE, .in_place = true};
            p.api->thread_begin(p.stream[r]);
            assert_int_equal(p.api->ops->all_reduce(p.stream[r], &args), STATUS_OK);
            assert_int_equal(p.api->host_alloc(p.device[r], &host[r], COUNT * 4, &err), STATUS_OK);
            assert_int_equal(
                p.api->copy_out(p.stream[r], host[r], p.out[r], COUNT * dtype_bytes(types[i])),
                STATUS_OK);
            assert_int_equal(p.api->signal(p.stream[r], p.word[r], 1), STATUS_OK);
        }
        for (uint32_t r = 0; r < SIZE; r++) {
            assert_int_equal(wait_for(&p, r, &err), STATUS_OK);
            for (uint32_t j = 0; j < COUNT; j++) {
                uint16_t bits = ((const uint16_t *)host[r])[j];
                float got = types[i] == DTYPE_F32    ? ((const float *)host[r])[j]
                            : types[i] == DTYPE_BF16 ? bf16_to_f32(bits)
                                                     : f16_to_f32(bits);
                assert_true(got == 1.0f - (float)j);
            }
            p.api->host_free(p.device[r], host[r], COUNT * 4);
        }
        simt_read(&counts);
        assert_int_equal(counts.nccl_sums, 1);
        assert_int_equal(counts.launches - launched, SIZE); // the signals
        assert_string_equal(simt_first_report(), "");
        pair_close(&p);
    }
    struct pair p;
    pair_open(&p, 1);
    struct all_reduce_args args = {
        .act = DTYPE_F32, .out = p.out[0], .count = COUNT, .ranks = SIZE, .in_place = true};
    assert_int_equal(p.api->ops->all_reduce(p.stream[0], &args), STATUS_UNSUPPORTED);
    pair_close(&p);
}

// all_gather uses the buffer of sampling: rows that do not fit are refused and leave the rank
// unchanged.
static void test_columns_have_the_room_of_sampling(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    pair_open(&p, 1);
    for (uint32_t r = 0; r < SIZE; r++) {
        assert_int_equal(gather_rows(&p, r, ROWS + 1), STATUS_INVALID);
        assert_int_equal(gather_rows(&p, r, ROWS), STATUS_OK);
        assert_int_equal(p.api->signal(p.stream[r], p.word[r], 1), STATUS_OK);
    }
    for (uint32_t r = 0; r < SIZE; r++)
        assert_int_equal(wait_for(&p, r, &err), STATUS_OK);
    assert_string_equal(simt_first_report(), "");
    pair_close(&p);
}

// A kernel of a step that follows another kernel begins early, but not after a collective.
static void test_nothing_begins_early_behind_it(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    struct simt_counts counts;
    simt_reset();
    pair_open(&p, 1);
    for (uint32_t r = 0; r < SIZE; r++) {
        struct swiglu_args args = {
            .act = DTYPE_F32, .in = p.in[r], .out = p.out[r], .rows = 1, .width = COUNT / 2};
        p.api->thread_begin(p.stream[r]);
        assert_int_equal(p.api->ops->swiglu(p.stream[r], &args), STATUS_OK);
        assert_int_equal(p.api->ops->swiglu(p.stream[r], &args), STATUS_OK);
        assert_int_equal(reduce(&p, r, COUNT), STATUS_OK);
        assert_int_equal(p.api->ops->swiglu(p.stream[r], &args), STATUS_OK);
        assert_int_equal(p.api->signal(p.stream[r], p.word[r], 1), STATUS_OK);
    }
    for (uint32_t r = 0; r < SIZE; r++)
        assert_int_equal(wait_for(&p, r, &err), STATUS_OK);
    simt_read(&counts);
    assert_int_equal(counts.early, SIZE);
    pair_close(&p);
}

static void test_a_late_rank_is_no_fault(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    pair_open(&p, 1);
    assert_int_equal(call(&p, 0, COUNT), STATUS_OK);
    assert_int_equal(wait_for(&p, 0, &err), STATUS_TIMEOUT);
    assert_int_equal(call(&p, 1, COUNT), STATUS_OK);
    assert_int_equal(wait_for(&p, 0, &err), STATUS_OK);
    assert_int_equal(wait_for(&p, 1, &err), STATUS_OK);
    assert_string_equal(simt_first_report(), "");
    pair_close(&p);
}

// A rank that waits queries the streams of the other ranks, except a stream that is capturing: a
// query would invalidate its graph.
static void test_a_rank_that_records_is_not_asked(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    struct graph *graph;
    pair_open(&p, 1);
    assert_int_equal(call(&p, 0, COUNT), STATUS_OK);
    p.api->thread_begin(p.stream[1]);
    assert_int_equal(p.api->graph_begin(p.stream[1]), STATUS_OK);
    assert_int_equal(reduce(&p, 1, COUNT), STATUS_OK);
    assert_int_equal(wait_for(&p, 0, &err), STATUS_TIMEOUT);
    p.api->thread_begin(p.stream[1]);
    assert_int_equal(p.api->graph_end(p.stream[1], &graph, &err), STATUS_OK);
    assert_int_equal(p.api->graph_launch(p.stream[1], graph), STATUS_OK);
    assert_int_equal(wait_for(&p, 0, &err), STATUS_OK);
    p.api->graph_close(graph);
    pair_close(&p);
}

static void test_a_fault_ends_the_communicator(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    pair_open(&p, 1);
    assert_int_equal(call(&p, 0, COUNT), STATUS_OK);
    p.api->comm_abort(p.comm);
    p.api->comm_abort(p.comm);
    assert_int_equal(wait_for(&p, 0, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "the ranks' communicator was aborted after a fault");
    assert_int_equal(call(&p, 1, COUNT), STATUS_DEVICE_FAULT);
    assert_int_equal(gather(&p, 1), STATUS_DEVICE_FAULT);
    communicator_close(&p);
    pair_close(&p);
    simt_configure(&(struct simt_options){
        .devices = 7, .patience = PATIENCE, .nccl_stops_at = 1, .nccl_stops = 1});
    pair_open(&p, 1);
    for (uint32_t r = 0; r < SIZE; r++)
        assert_int_equal(call(&p, r, COUNT), STATUS_OK);
    assert_int_equal(wait_for(&p, 0, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "rank 1 of 2: NCCL reports: unhandled system error");
    p.api->comm_abort(p.comm);
    pair_close(&p);
}

// A rank that waits reports the failure of another rank's GPU, before its own GPU is queried.
static void test_the_gpu_of_another_rank_fails(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    pair_open(&p, 1);
    assert_int_equal(call(&p, 0, COUNT), STATUS_OK);
    simt_reset();
    simt_configure(&(struct simt_options){.devices = 7, .patience = PATIENCE, .fail_at = 1});
    assert_int_equal(wait_for(&p, 0, &err), STATUS_DEVICE_FAULT);
    assert_memory_equal(err.text, "rank 1 of 2: the device failed in a step", 40);
    p.api->comm_abort(p.comm);
    communicator_close(&p);
    pair_close(&p);
}

// NCCL ends an abort when the graphs of all ranks are closed: no thread waits for that, and the
// graphs are not launched any more.
static void test_a_fault_does_not_wait_for_graphs(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    struct graph *graph[SIZE];
    simt_configure(&(struct simt_options){.devices = 7, .patience = LONG_PATIENCE});
    pair_open(&p, 1);
    for (uint32_t r = 0; r < SIZE; r++) {
        p.api->thread_begin(p.stream[r]);
        assert_int_equal(p.api->graph_begin(p.stream[r]), STATUS_OK);
        assert_int_equal(reduce(&p, r, COUNT), STATUS_OK);
        assert_int_equal(p.api->graph_end(p.stream[r], &graph[r], &err), STATUS_OK);
    }
    p.api->comm_abort(p.comm);
    for (uint32_t r = 0; r < SIZE; r++) {
        p.api->thread_begin(p.stream[r]);
        assert_int_equal(p.api->graph_launch(p.stream[r], graph[r]), STATUS_DEVICE_FAULT);
        assert_int_equal(call(&p, r, COUNT), STATUS_DEVICE_FAULT);
        assert_int_equal(wait_for(&p, r, &err), STATUS_DEVICE_FAULT);
    }
    for (uint32_t r = 0; r < SIZE; r++)
        p.api->graph_close(graph[r]);
    communicator_close(&p);
    pair_close(&p);
}

// threads_refused: pthread_create fails. threads_late: new threads start late.
static _Atomic bool threads_refused, threads_late;

struct late {
    void *(*run)(void *);
    void *argument;
};

static void *late_run(void *argument)
{
    struct late late = *(struct late *)argument;
    free(argument);
    usleep(20000);
    return late.run(late.argument);
}

int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    if (atomic_load(&threads_refused))
        return EAGAIN;
    if (!atomic_load(&threads_late))
        return __real_pthread_create(out, attributes, run, argument);
    struct late *late = malloc(sizeof *late);
    *late = (struct late){run, argument};
    return __real_pthread_create(out, attributes, late_run, late);
}

// When the communicator is closed its ranks are aborted, even if the thread that aborts started
// late or could not be created.
static void test_a_close_ends_the_abort(void **state)
{
    (void)state;
    for (int refused = 0; refused <= 1; refused++) {
        struct pair p;
        struct error err = {0};
        struct simt_counts before, after;
        pair_open(&p, 1);
        assert_int_equal(call(&p, 0, COUNT), STATUS_OK);
        simt_read(&before);
        atomic_store(refused ? &threads_refused : &threads_late, true);
        p.api->comm_abort(p.comm);
        atomic_store(&threads_refused, false);
        atomic_store(&threads_late, false);
        assert_int_equal(wait_for(&p, 0, &err), STATUS_DEVICE_FAULT);
        communicator_close(&p);
        simt_read(&after);
        assert_int_equal(after.live, before.live - SIZE);
        pair_close(&p);
    }
}

// True: cudaGraphLaunch blocks until a test resets it.
static _Atomic bool launch_held;
static _Atomic uint32_t launches;

int __real_cudaGraphLaunch(void *graph, void *stream);
int __wrap_cudaGraphLaunch(void *graph, void *stream);
int __wrap_cudaGraphLaunch(void *graph, void *stream)
{
    atomic_fetch_add(&launches, 1);
    while (atomic_load(&launch_held))
        usleep(1000);
    return __real_cudaGraphLaunch(graph, stream);
}

struct launched {
    struct pair pair;
    struct graph *graph;
    enum status status;
};

static void *launch(void *argument)
{
    struct launched *l = argument;
    l->pair.api->thread_begin(l->pair.stream[1]);
    l->status = l->pair.api->graph_launch(l->pair.stream[1], l->graph);
    return NULL;
}

// A communicator is not aborted while a graph that contains its collectives is being launched.
static void test_a_launch_is_not_aborted(void **state)
{
    (void)state;
    struct launched l;
    struct error err = {0};
    struct simt_counts before, after;
    pthread_t thread;
    simt_configure(&(struct simt_options){.devices = 7, .patience = LONG_PATIENCE});
    pair_open(&l.pair, 1);
    l.pair.api->thread_begin(l.pair.stream[1]);
    assert_int_equal(l.pair.api->graph_begin(l.pair.stream[1]), STATUS_OK);
    assert_int_equal(reduce(&l.pair, 1, COUNT), STATUS_OK);
    assert_int_equal(l.pair.api->graph_end(l.pair.stream[1], &l.graph, &err), STATUS_OK);
    simt_read(&before);
    uint32_t earlier = atomic_load(&launches);
    atomic_store(&launch_held, true);
    assert_int_equal(pthread_create(&thread, NULL, launch, &l), 0);
    while (atomic_load(&launches) == earlier)
        usleep(1000);
    l.pair.api->comm_abort(l.pair.comm);
    usleep(30000);
    simt_read(&after);
    atomic_store(&launch_held, false);
    pthread_join(thread, NULL);
    assert_int_equal(after.live, before.live);
    assert_int_equal(l.status, STATUS_OK);
    l.pair.api->graph_close(l.graph);
    communicator_close(&l.pair);
    pair_close(&l.pair);
}

struct stayed {
    struct pair pair;
    bool gathers;
    enum status status;
};

static void *stay(void *argument)
{
    struct stayed *s = argument;
    s->status = s->gathers ? gather(&s->pair, 0) : reduce(&s->pair, 0, ROOM);
    return NULL;
}

// A rank that is blocked in a call of NCCL is aborted there and makes no other call: neither the
// next piece or columns, nor the end of its group.
static void test_a_rank_in_a_call_is_aborted(void **state)
{
    (void)state;
    // sums, the columns of rank 0, the columns of rank 1
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct stayed s = {.gathers = turn > 0};
        struct simt_counts counts;
        pthread_t thread;
        simt_configure(&(struct simt_options){
            .devices = 7, .patience = LONG_PATIENCE, .nccl_stays_at = turn < 2 ? 1 : 2});
        pair_open(&s.pair, 1);
        assert_int_equal(pthread_create(&thread, NULL, stay, &s), 0);
        do {
            usleep(1000);
            simt_read(&counts);
        } while (counts.nccl_stays == 0);
        s.pair.api->comm_abort(s.pair.comm);
        assert_int_equal(call(&s.pair, 1, COUNT), STATUS_DEVICE_FAULT);
        pthread_join(thread, NULL);
        assert_int_equal(s.status, STATUS_DEVICE_FAULT);
        communicator_close(&s.pair);
        pair_close(&s.pair);
    }
}

// Wrong calls that the stand-in reports.
static void test_wrong_calls_are_reported(void **state)
{
    (void)state;
    struct pair p;
    struct error err = {0};
    struct graph *graph;
    simt_configure(&(struct simt_options){.devices = 7, .patience = PATIENCE, .quiet = true});
    pair_open(&p, 1);
    assert_int_equal(call(&p, 0, 8), STATUS_OK);
    assert_int_equal(call(&p, 1, 9), STATUS_OK);
    assert_int_equal(p.api->wait(p.stream[0], p.word[0], 2, clock_ns() + SOON, &err),
                     STATUS_DEVICE_FAULT);
    assert_non_null(strstr(simt_first_report(), "rank 1 calls ncclAllGather of 9 elements"));
    pair_close(&p);
    simt_configure(&(struct simt_options){.devices = 7, .patience = PATIENCE, .quiet = true});
    pair_open(&p, 1);
    p.api->thread_begin(p.stream[0]);
    assert_int_equal(p.api->graph_begin(p.stream[0]), STATUS_OK);
    assert_int_equal(call(&p, 0, COUNT), STATUS_OK);
    assert_int_equal(p.api->graph_end(p.stream[0], &graph, &err), STATUS_OK);
    p.api->comm_close(p.comm);
    p.comm = NULL;
    assert_non_null(strstr(simt_first_report(), "closed before a graph that holds"));
    p.api->graph_close(graph);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_the_library_is_in_the_plan),
        cmocka_unit_test(test_recorded_collectives_are_apart),
        cmocka_unit_test(test_who_adds),
        cmocka_unit_test(test_sums_in_place),
        cmocka_unit_test(test_columns_have_the_room_of_sampling),
        cmocka_unit_test(test_nothing_begins_early_behind_it),
        cmocka_unit_test(test_a_late_rank_is_no_fault),
        cmocka_unit_test(test_a_rank_that_records_is_not_asked),
        cmocka_unit_test(test_a_fault_ends_the_communicator),
        cmocka_unit_test(test_the_gpu_of_another_rank_fails),
        cmocka_unit_test(test_a_fault_does_not_wait_for_graphs),
        cmocka_unit_test(test_a_close_ends_the_abort),
        cmocka_unit_test(test_a_launch_is_not_aborted),
        cmocka_unit_test(test_a_rank_in_a_call_is_aborted),
        cmocka_unit_test(test_wrong_calls_are_reported),
    };
    simt_configure(&(struct simt_options){.devices = 7, .patience = PATIENCE});
    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
