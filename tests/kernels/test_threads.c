// The thread pool: every chunk of every job runs exactly once, on a thread number within bounds;
// what chunks write is seen by the caller; several callers share the pool; sleeping workers wake.
// Run under TSan, too. And the turns of streams: first come, first served.
#include "kernels/cpu/cpu.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
// cmocka wants some of the above first
#include <cmocka.h>

enum { CHUNKS = 300 };

struct count_job {
    uint32_t seen[CHUNKS]; // plain: the pool must order these writes before pool_run returns
    uint32_t threads;
    _Atomic uint32_t wrong;
};

static void count_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    struct count_job *job = opaque;
    if (worker >= job->threads || chunk >= CHUNKS)
        atomic_fetch_add(&job->wrong, 1);
    else
        job->seen[chunk]++;
}

static void jobs_run(struct pool *pool, uint32_t jobs)
{
    struct count_job job;
    for (uint32_t i = 0; i < jobs; i++) {
        uint32_t chunks = 1 + i * 7 % CHUNKS;
        memset(&job, 0, sizeof job);
        job.threads = pool_threads(pool);
        pool_run(pool, count_chunk, &job, chunks);
        assert_int_equal(job.wrong, 0);
        for (uint32_t c = 0; c < CHUNKS; c++)
            assert_int_equal(job.seen[c], c < chunks ? 1 : 0);
    }
}

static void test_each_once(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        struct pool *pool;
        assert_int_equal(pool_open(&pool, threads, NULL), STATUS_OK);
        assert_int_equal(pool_threads(pool), threads);
        jobs_run(pool, 500);
        pool_close(pool);
    }
}

static void test_after_sleep(void **state)
{
    (void)state;
    struct pool *pool;
    assert_int_equal(pool_open(&pool, 3, NULL), STATUS_OK);
    for (int i = 0; i < 20; i++) {
        struct timespec pause = {0, 1000000}; // long enough for the workers to sleep
        nanosleep(&pause, NULL);
        jobs_run(pool, 3);
    }
    pool_close(pool);
}

static void *caller_main(void *pool)
{
    jobs_run(pool, 300);
    return NULL;
}

static void test_callers(void **state)
{
    (void)state;
    struct pool *pool;
    pthread_t caller[3];
    assert_int_equal(pool_open(&pool, 3, NULL), STATUS_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&caller[i], NULL, caller_main, pool), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(caller[i], NULL);
    pool_close(pool);
}

static void test_refused(void **state)
{
    (void)state;
    struct pool *pool;
    struct error err = {0};
    assert_int_equal(pool_open(&pool, 100000, &err), STATUS_INVALID);
    assert_null(pool);
    assert_true(err.text[0] != '\0');
    pool_close(NULL);
}

enum { ENGINES = 3, STEPS = 200 };

struct engine {
    const struct device_api *api;
    struct stream *stream;
    uint32_t *inside;      // engines in their turn: never more than one
    uint32_t *order;       // engine of each turn
    uint32_t *turn;        // next free place in order
    uint32_t number;
};

static void *engine_main(void *argument)
{
    struct engine *e = argument;
    for (uint32_t i = 0; i < STEPS; i++) {
        e->api->turn_take(e->stream);
        assert_int_equal(++*e->inside, 1);
        e->order[(*e->turn)++] = e->number;
        struct timespec work = {0, 20000};
        nanosleep(&work, NULL);
        --*e->inside;
        e->api->turn_give(e->stream);
    }
    return NULL;
}

static void test_turns(void **state)
{
    (void)state;
    const struct device_api *api = device_cpu();
    struct device_options options = {.threads = 2};
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = 64};
    struct device *device;
    struct engine engine[ENGINES];
    pthread_t thread[ENGINES];
    uint32_t inside = 0, turn = 0;
    uint32_t order[ENGINES * STEPS];
    assert_int_equal(api->open(&device, &options, NULL), STATUS_OK);
    for (uint32_t i = 0; i < ENGINES; i++) {
        engine[i] = (struct engine){api, NULL, &inside, order, &turn, i};
        assert_int_equal(api->stream_open(device, &engine[i].stream, &limits, NULL), STATUS_OK);
    }
    for (uint32_t i = 0; i < ENGINES; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, engine_main, &engine[i]), 0);
    for (uint32_t i = 0; i < ENGINES; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(turn, ENGINES * STEPS);
    uint32_t count[ENGINES] = {0};
    for (uint32_t i = 0; i < turn; i++)
        count[order[i]]++;
    for (uint32_t i = 0; i < ENGINES; i++) {
        assert_int_equal(count[i], STEPS);
        assert_int_equal(cpu_stream_turns(engine[i].stream), STEPS);
        api->stream_close(engine[i].stream);
    }
    api->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once), cmocka_unit_test(test_after_sleep),
        cmocka_unit_test(test_callers),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
