// SPDX-License-Identifier: Apache-2.0
// The device slot of a CPU device: streams run steps one at a time; each of k streams with work
// gets at least one of every k + 1 steps, however late its thread returns; no stream waits for one
// without work. Also run under TSan.
#include "kernels/cpu/internal.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ENGINES = 4, STEPS = 200 };

struct table {                       // record of one run
    uint32_t inside;                 // number of engines that hold the slot: at most one
    uint32_t order[ENGINES * STEPS]; // engine that ran each step
    uint32_t count;
};

struct engine {
    const struct device_api *api;
    struct stream *stream;
    struct table *table;
    pthread_t thread;
    uint32_t number, steps;
    long works_ns; // duration of a step
    bool more;
    // Before its step i the thread stays away until `others` have run first + i * between steps, or
    // all their steps.
    const struct engine *others;
    uint32_t other_count, first, between;
    _Atomic uint32_t done;
};

static void pass(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

static void stay_away(const struct engine *e, uint32_t wanted)
{
    for (;;) {
        uint32_t done = 0, steps = 0;
        for (uint32_t i = 0; i < e->other_count; i++) {
            done += atomic_load(&e->others[i].done);
            steps += e->others[i].steps;
        }
        if (done >= wanted || done == steps)
            return;
        pass(20000);
    }
}

static void *engine_main(void *argument)
{
    struct engine *e = argument;
    for (uint32_t i = 0; i < e->steps; i++) {
        if (e->more)
            e->api->device_slot_announce(e->stream, true);
        stay_away(e, e->first + i * e->between);
        if ((i == 0 && e->first > 1) || (i > 0 && e->more && e->between > 0))
            pass(1000000); // lets the others run if they do not wait for this one
        e->api->device_slot_acquire(e->stream);
        assert_int_equal(++e->table->inside, 1);
        e->table->order[e->table->count++] = e->number;
        pass(e->works_ns);
        --e->table->inside;
        e->api->device_slot_release(e->stream);
        atomic_fetch_add(&e->done, 1);
    }
    e->api->device_slot_announce(e->stream, false);
    return NULL;
}

static void run(struct engine *engine, uint32_t count, struct table *table)
{
    const struct device_api *api = device_cpu();
    struct device_options options = {.threads = 1};
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = 64};
    struct device *device;
    assert_int_equal(api->open(&device, &options, NULL), STATUS_OK);
    *table = (struct table){.count = 0};
    for (uint32_t i = 0; i < count; i++) {
        engine[i].api = api;
        engine[i].table = table;
        engine[i].number = i;
        assert_int_equal(api->stream_open(device, &engine[i].stream, &limits, NULL), STATUS_OK);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&engine[i].thread, NULL, engine_main, &engine[i]), 0);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(engine[i].thread, NULL);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(cpu_stream_steps(engine[i].stream), engine[i].steps);
        api->stream_close(engine[i].stream);
    }
    api->close(device);
}

// Returns the largest number of steps of others between two steps of an engine.
static uint32_t longest_gap(const struct table *table, uint32_t engine)
{
    uint32_t longest = 0, gap = 0;
    bool begun = false;
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->order[i] != engine) {
            gap++;
            continue;
        }
        longest = begun && gap > longest ? gap : longest;
        begun = true;
        gap = 0;
    }
    return longest;
}

// The first engine returns late, after the others have run k steps. It is then overdue, because k
// streams have work, so the others wait for it.
static void test_late_streams_get_their_share(void **state)
{
    (void)state;
    for (uint32_t k = 2; k <= ENGINES; k++) {
        struct engine engine[ENGINES] = {{.steps = 20,
                                          .works_ns = 1000000,
                                          .more = true,
                                          .others = engine + 1,
                                          .other_count = k - 1,
                                          .between = k}};
        for (uint32_t i = 1; i < k; i++)
            engine[i] = (struct engine){.steps = STEPS,
                                        .works_ns = 10000,
                                        .more = true,
                                        .others = engine,
                                        .other_count = 1,
                                        .first = 1};
        struct table table;
        run(engine, k, &table);
        for (uint32_t i = 0; i < k; i++)
            assert_in_range(longest_gap(&table, i), 0, k);
        assert_int_equal(longest_gap(&table, 0), k);
    }
}

// Two engines without a step start when the second engine has run two: both have waited longer than
// the first, and still the gap of the first must not exceed k.
static void test_new_streams_have_different_ages(void **state)
{
    (void)state;
    struct engine engine[ENGINES] = {
        {.steps = 2, .more = true, .others = engine + 1, .other_count = 3, .between = ENGINES}};
    for (uint32_t i = 1; i < ENGINES; i++)
        engine[i] = (struct engine){.steps = STEPS,
                                    .more = true,
                                    .others = engine + (i > 1),
                                    .other_count = 1,
                                    .first = i > 1 ? 2 : 1};
    struct table table;
    run(engine, ENGINES, &table);
    assert_int_equal(longest_gap(&table, 0), ENGINES);
}

// No stream waits for one that does not announce another step: it runs its second step after the
// other has run half of its steps.
static void test_idle_streams_are_not_waited_for(void **state)
{
    (void)state;
    struct engine engine[2] = {{.steps = 2,
                                .works_ns = 10000,
                                .others = &engine[1],
                                .other_count = 1,
                                .between = STEPS / 2},
                               {.steps = STEPS,
                                .works_ns = 10000,
                                .more = true,
                                .others = &engine[0],
                                .other_count = 1,
                                .first = 1}};
    struct table table;
    run(engine, 2, &table);
    assert_in_range(longest_gap(&table, 0), STEPS / 2, STEPS);
}

static void test_all_steps_are_run(void **state)
{
    (void)state;
    struct engine engine[ENGINES] = {{.number = 0}};
    for (uint32_t i = 0; i < ENGINES; i++)
        engine[i] = (struct engine){.steps = STEPS, .works_ns = 20000, .more = i % 2};
    struct table table;
    run(engine, ENGINES, &table);
    assert_int_equal(table.count, ENGINES * STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_streams_get_their_share),
        cmocka_unit_test(test_new_streams_have_different_ages),
        cmocka_unit_test(test_idle_streams_are_not_waited_for),
        cmocka_unit_test(test_all_steps_are_run),
    };
    alarm(600); // ends the program if a stream waits forever
    return cmocka_run_group_tests(tests, NULL, NULL);
}
