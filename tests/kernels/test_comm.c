// SPDX-License-Identifier: Apache-2.0
// Communicators of the cpu device: opening, aborting, closing, and ranks that do not agree.
// tests/conformance checks the sums.
#include "tests/conformance/trial.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { RANKS = 3, COUNT = 100 };

struct pack {
    struct trial t;
    struct device *device[RANKS];
    struct stream *stream[RANKS];
    struct comm *comm;
};

static void pack_open(struct pack *p)
{
    struct error err;
    struct device_options options = {.threads = 1, .exact = true};
    assert_true(trial_open_cpu(&p->t, CPU_PLAIN, 1));
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(device_cpu()->open(&p->device[r], &options, &err), STATUS_OK);
        assert_int_equal(device_cpu()->stream_open(p->device[r], &p->stream[r], &p->t.limits, &err),
                         STATUS_OK);
    }
    assert_int_equal(device_cpu()->comm_open(&p->comm, p->stream, RANKS, NULL, &err), STATUS_OK);
}

static void pack_close(struct pack *p)
{
    device_cpu()->comm_close(p->comm);
    for (uint32_t r = 0; r < RANKS; r++) {
        device_cpu()->stream_close(p->stream[r]);
        device_cpu()->close(p->device[r]);
    }
    trial_close(&p->t);
}

struct call {
    pthread_t thread;
    struct stream *stream;
    uint64_t count;
    uint32_t ranks, calls;
    enum status status; // status of the last call
};

static void *call_main(void *argument)
{
    struct call *call = argument;
    float in[COUNT] = {0}, out[COUNT];
    struct all_reduce_args args = {DTYPE_F32, in, out, call->count, call->ranks, false};
    for (uint32_t i = 0; i < call->calls; i++)
        call->status = device_cpu()->ops->all_reduce(call->stream, &args);
    return NULL;
}

static void calls_start(struct pack *p, struct call *calls, uint32_t first, uint64_t count,
                        uint32_t times)
{
    for (uint32_t r = first; r < RANKS; r++) {
        calls[r] = (struct call){
            .stream = p->stream[r], .count = count, .ranks = RANKS, .calls = times, .status = 99};
        assert_int_equal(pthread_create(&calls[r].thread, NULL, call_main, &calls[r]), 0);
    }
}

static void calls_end(struct call *calls, uint32_t first, enum status status)
{
    for (uint32_t r = first; r < RANKS; r++) {
        pthread_join(calls[r].thread, NULL);
        assert_int_equal(calls[r].status, status);
    }
}

// Ranks that wait for a failed rank return a fault, and so does every later call.
static void test_an_abort_ends_all_waits(void **state)
{
    (void)state;
    struct pack p;
    struct call calls[RANKS];
    pack_open(&p);
    calls_start(&p, calls, 1, COUNT, 1); // rank 0 makes no call
    for (int i = 0; i < 1000; i++)
        sched_yield();
    device_cpu()->comm_abort(p.comm);
    calls_end(calls, 1, STATUS_DEVICE_FAULT);
    calls[0] = (struct call){.stream = p.stream[0], .count = COUNT, .ranks = RANKS, .calls = 1};
    call_main(&calls[0]);
    assert_int_equal(calls[0].status, STATUS_DEVICE_FAULT);
    pack_close(&p);
}

// If ranks call with different counts, all of them are refused and none writes after its memory.
static void test_ranks_must_agree(void **state)
{
    (void)state;
    struct pack p;
    struct call calls[RANKS];
    pack_open(&p);
    for (uint32_t r = 0; r < RANKS; r++) {
        calls[r] = (struct call){
            .stream = p.stream[r], .count = r == 2 ? COUNT - 1 : COUNT, .ranks = RANKS, .calls = 1};
        assert_int_equal(pthread_create(&calls[r].thread, NULL, call_main, &calls[r]), 0);
    }
    calls_end(calls, 0, STATUS_INVALID);
    pack_close(&p);
}

struct gather_call {
    pthread_t thread;
    struct stream *stream;
    uint32_t rows, stride;
    enum status status;
};

static void *gather_main(void *argument)
{
    struct gather_call *call = argument;
    float in[COUNT] = {0}, out[COUNT] = {0};
    struct all_gather_args args = {in, out, call->rows, call->stride, RANKS, .ends = {1, 2, RANKS}};
    call->status = device_cpu()->ops->all_gather(call->stream, &args);
    return NULL;
}

// If ranks pass different numbers of rows or rows of different length, all of them are refused.
static void test_ranks_must_agree_on_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t rows, stride; // of the last rank; the others: 4 and RANKS
        enum status status;
    } cases[] = {{4, RANKS, STATUS_OK}, {5, RANKS, STATUS_INVALID}, {4, RANKS + 1, STATUS_INVALID}};
    struct pack p;
    pack_open(&p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gather_call calls[RANKS];
        for (uint32_t r = 0; r < RANKS; r++) {
            bool last = r == RANKS - 1;
            calls[r] = (struct gather_call){.stream = p.stream[r],
                                            .rows = last ? cases[i].rows : 4,
                                            .stride = last ? cases[i].stride : RANKS};
            assert_int_equal(pthread_create(&calls[r].thread, NULL, gather_main, &calls[r]), 0);
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            pthread_join(calls[r].thread, NULL);
            assert_int_equal(calls[r].status, cases[i].status);
        }
    }
    pack_close(&p);
}

// A stream without a communicator, or in a communicator of another size, is refused immediately.
static void test_a_stream_alone_is_refused(void **state)
{
    (void)state;
    struct pack p;
    struct error err;
    struct comm *none = NULL;
    pack_open(&p);
    struct call call = {.stream = p.t.stream, .count = COUNT, .ranks = 1, .calls = 1};
    call_main(&call);
    assert_int_equal(call.status, STATUS_INVALID);
    call = (struct call){.stream = p.stream[0], .count = COUNT, .ranks = 2, .calls = 1};
    call_main(&call);
    assert_int_equal(call.status, STATUS_INVALID);
    assert_int_equal(device_cpu()->comm_open(&none, p.stream, 0, NULL, &err), STATUS_INVALID);
    assert_int_equal(device_cpu()->comm_open(&none, p.stream, RANKS_MAX + 1, NULL, &err),
                     STATUS_INVALID);
    assert_string_equal(err.text, "a communicator has 1 to 8 ranks, not 9");
    device_cpu()->comm_close(p.comm);
    p.comm = NULL;
    call = (struct call){.stream = p.stream[0], .count = COUNT, .ranks = RANKS, .calls = 1};
    call_main(&call);
    assert_int_equal(call.status, STATUS_INVALID);
    pack_close(&p);
}

// Many short collectives: sleeping ranks are woken and no rank runs ahead.
static void test_many_meetings(void **state)
{
    (void)state;
    struct pack p;
    struct call calls[RANKS];
    pack_open(&p);
    calls_start(&p, calls, 0, 5, 500);
    calls_end(calls, 0, STATUS_OK);
    pack_close(&p);
}

// A rank's device has its share of the threads. More ranks than threads are refused.
static void test_devices_of_ranks(void **state)
{
    (void)state;
    struct error err;
    struct device *whole, *rank;
    struct device_options options = {.threads = 5, .exact = true};
    assert_int_equal(device_cpu()->open(&whole, &options, &err), STATUS_OK);
    static const uint32_t threads[][5] = {{0},       {5},          {2, 3},
                                          {1, 2, 2}, {1, 1, 1, 2}, {1, 1, 1, 1, 1}};
    for (uint32_t ranks = 1; ranks <= 5; ranks++)
        for (uint32_t i = 0; i < ranks; i++) {
            struct device_facts facts;
            char name[32];
            options =
                (struct device_options){.index = i, .ranks = ranks, .parent = whole, .exact = true};
            assert_int_equal(device_cpu()->open(&rank, &options, &err), STATUS_OK);
            device_cpu()->facts(rank, &facts);
            snprintf(name, sizeof name, "cpu: %u threads, ", threads[ranks][i]);
            assert_memory_equal(facts.name, name, strlen(name));
            device_cpu()->close(rank);
        }
    options.index = 5;
    assert_int_equal(device_cpu()->open(&rank, &options, &err), STATUS_NO_DEVICE);
    assert_string_equal(err.text, "there is no rank 5 of 5");
    options = (struct device_options){.ranks = 6, .parent = whole, .exact = true};
    assert_int_equal(device_cpu()->open(&rank, &options, &err), STATUS_UNSUPPORTED);
    assert_string_equal(err.text, "--tensor-parallel-size 6 needs as many threads and the cpu "
                                  "device has 5: lower it, or raise --threads");
    device_cpu()->close(whole);
}

// Ranks are loaded one after the other, so the threads of all ranks pack the weights of each.
static void test_all_threads_pack_the_weights_of_a_rank(void **state)
{
    (void)state;
    enum { N = 512, K = 512 };
    struct error err;
    struct device *whole, *rank;
    struct device_options options = {.threads = 2, .exact = true};
    assert_int_equal(device_cpu()->open(&whole, &options, &err), STATUS_OK);
    options = (struct device_options){.index = 1, .ranks = 2, .parent = whole, .exact = true};
    assert_int_equal(device_cpu()->open(&rank, &options, &err), STATUS_OK);
    struct weight weight = {.shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = N, .k = K}};
    weight.bytes = device_cpu()->weight_bytes(rank, &weight.shape);
    assert_int_equal(device_cpu()->memory_alloc(rank, &weight.data, weight.bytes, &err), STATUS_OK);
    struct weight_source source = {
        .fd = -1, .dtype = DTYPE_F32, .rows = N, .cols = K, .seed = 3, .deviation = 1, .stride = K};
    uint32_t before = threads_jobs(whole->threads);
    assert_int_equal(device_cpu()->weight_put(rank, &weight, 0, &source, &err), STATUS_OK);
    assert_int_equal(threads_jobs(whole->threads), before + 1);
    device_cpu()->memory_free(rank, weight.data, weight.bytes);
    device_cpu()->close(rank);
    device_cpu()->close(whole);
}

enum { LARGE_ROWS = 9, LARGE = 7001 };

struct large {
    pthread_t thread;
    struct stream *stream;
    uint32_t rank;
    float in[LARGE_ROWS * LARGE], sum[LARGE_ROWS * LARGE], out[LARGE_ROWS * LARGE * 2];
    enum status status[2];
};

static void *large_main(void *argument)
{
    struct large *l = argument;
    struct all_reduce_args sum = {DTYPE_F32, l->in, l->sum, LARGE_ROWS * LARGE, 2, false};
    struct all_gather_args gather = {.in = l->in,
                                     .out = l->out,
                                     .rows = LARGE_ROWS,
                                     .stride = 2 * LARGE,
                                     .ranks = 2,
                                     .ends = {LARGE, 2 * LARGE}};
    l->status[0] = device_cpu()->ops->all_reduce(l->stream, &sum);
    l->status[1] = device_cpu()->ops->all_gather(l->stream, &gather);
    return NULL;
}

// Large sums and columns are divided among the threads of each rank.
static void test_large_collectives_are_cut(void **state)
{
    (void)state;
    struct error err;
    struct trial t;
    struct device *whole = NULL, *device[2];
    struct comm *comm;
    struct stream *stream[2];
    uint32_t before[2];
    static struct large ranks[2];
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    struct device_options options = {.threads = 5, .exact = true};
    assert_int_equal(device_cpu()->open(&whole, &options, &err), STATUS_OK);
    for (uint32_t r = 0; r < 2; r++) {
        options = (struct device_options){.index = r, .ranks = 2, .parent = whole, .exact = true};
        assert_int_equal(device_cpu()->open(&device[r], &options, &err), STATUS_OK);
        assert_int_equal(device_cpu()->stream_open(device[r], &stream[r], &t.limits, &err),
                         STATUS_OK);
        before[r] = threads_jobs(device[r]->threads);
        for (uint32_t i = 0; i < LARGE_ROWS * LARGE; i++)
            ranks[r].in[i] = (float)(i * 3 + r);
    }
    assert_int_equal(device_cpu()->comm_open(&comm, stream, 2, NULL, &err), STATUS_OK);
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r].stream = stream[r];
        ranks[r].rank = r;
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, large_main, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < 2; r++) {
        pthread_join(ranks[r].thread, NULL);
        assert_int_equal(ranks[r].status[0], STATUS_OK);
        assert_int_equal(ranks[r].status[1], STATUS_OK);
        assert_int_equal(threads_jobs(device[r]->threads), before[r] + 2);
        for (uint32_t i = 0; i < LARGE_ROWS * LARGE; i++)
            assert_true(ranks[r].sum[i] == (float)(i * 6 + 1));
    }
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < LARGE_ROWS * LARGE * 2; i++) {
            uint32_t column = i % (2 * LARGE), row = i / (2 * LARGE);
            float want = (float)((row * LARGE + column % LARGE) * 3 + column / LARGE);
            assert_true(ranks[r].out[i] == want);
        }
    device_cpu()->comm_close(comm);
    for (uint32_t r = 0; r < 2; r++) {
        device_cpu()->stream_close(stream[r]);
        device_cpu()->close(device[r]);
    }
    device_cpu()->close(whole);
    trial_close(&t);
}

static void test_ranks_plan_steps_of_the_whole_device(void **state)
{
    (void)state;
    struct error err;
    struct device *whole, *rank;
    struct device_facts all, part;
    struct device_options options = {.threads = 8};
    assert_int_equal(device_cpu()->open(&whole, &options, &err), STATUS_OK);
    options = (struct device_options){.index = 1, .ranks = 2, .parent = whole};
    assert_int_equal(device_cpu()->open(&rank, &options, &err), STATUS_OK);
    device_cpu()->facts(whole, &all);
    device_cpu()->facts(rank, &part);
    assert_int_equal(part.step_tokens, all.step_tokens);
    device_cpu()->close(rank);
    device_cpu()->close(whole);
}

struct taker {
    pthread_t thread;
    struct stream *stream;
    _Atomic uint32_t *inside;
    uint32_t met; // steps in which the other stream also held the slot
};

static void *taker_main(void *argument)
{
    struct taker *t = argument;
    for (int i = 0; i < 300; i++) {
        device_cpu()->device_slot_acquire(t->stream);
        t->met += atomic_fetch_add(t->inside, 1) != 0;
        sched_yield();
        atomic_fetch_sub(t->inside, 1);
        device_cpu()->device_slot_release(t->stream);
    }
    return NULL;
}

static void test_ranks_share_the_slot_of_their_parent(void **state)
{
    (void)state;
    struct error err;
    struct device *device[2];
    struct trial t;
    _Atomic uint32_t inside = 0;
    struct taker taker[2];
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    struct device_options options = {.threads = 2, .exact = true};
    assert_int_equal(device_cpu()->open(&device[0], &options, &err), STATUS_OK);
    options = (struct device_options){.ranks = 2, .parent = device[0], .exact = true};
    assert_int_equal(device_cpu()->open(&device[1], &options, &err), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        taker[i] = (struct taker){.inside = &inside};
        assert_int_equal(device_cpu()->stream_open(device[i], &taker[i].stream, &t.limits, &err),
                         STATUS_OK);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&taker[i].thread, NULL, taker_main, &taker[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(taker[i].thread, NULL);
        assert_int_equal(taker[i].met, 0);
        assert_int_equal(cpu_stream_steps(taker[i].stream), 300);
    }
    for (int i = 1; i >= 0; i--) {
        device_cpu()->stream_close(taker[i].stream);
        device_cpu()->close(device[i]);
    }
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_abort_ends_all_waits),
        cmocka_unit_test(test_ranks_must_agree),
        cmocka_unit_test(test_ranks_must_agree_on_rows),
        cmocka_unit_test(test_a_stream_alone_is_refused),
        cmocka_unit_test(test_many_meetings),
        cmocka_unit_test(test_devices_of_ranks),
        cmocka_unit_test(test_all_threads_pack_the_weights_of_a_rank),
        cmocka_unit_test(test_large_collectives_are_cut),
        cmocka_unit_test(test_ranks_plan_steps_of_the_whole_device),
        cmocka_unit_test(test_ranks_share_the_slot_of_their_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
