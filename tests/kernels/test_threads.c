// SPDX-License-Identifier: Apache-2.0
// The threads of a CPU device: every chunk of every job runs exactly once, on a thread number
// within bounds; the caller sees what chunks write; several callers share the threads; sleeping
// workers wake. Also run under TSan.
#include "kernels/cpu/internal.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { CHUNKS = 300 };

struct count_job {
    uint32_t seen[CHUNKS]; // plain: threads.c must order these writes before threads_run returns
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

static void jobs_run(struct threads *threads, uint32_t jobs)
{
    struct count_job job;
    for (uint32_t i = 0; i < jobs; i++) {
        uint32_t chunks = 1 + i * 7 % CHUNKS;
        memset(&job, 0, sizeof job);
        job.threads = threads_count(threads);
        threads_run(threads, count_chunk, &job, chunks);
        assert_int_equal(job.wrong, 0);
        for (uint32_t c = 0; c < CHUNKS; c++)
            assert_int_equal(job.seen[c], c < chunks ? 1 : 0);
    }
}

static void test_each_once(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 5; count++) {
        struct threads *threads;
        assert_int_equal(threads_open(&threads, count, NULL), STATUS_OK);
        assert_int_equal(threads_count(threads), count);
        jobs_run(threads, 500);
        threads_close(threads);
    }
}

static void test_after_sleep(void **state)
{
    (void)state;
    struct threads *threads;
    assert_int_equal(threads_open(&threads, 3, NULL), STATUS_OK);
    for (int i = 0; i < 20; i++) {
        struct timespec pause = {0, 1000000}; // long enough for the workers to sleep
        nanosleep(&pause, NULL);
        jobs_run(threads, 3);
    }
    threads_close(threads);
}

static void *caller_main(void *threads)
{
    jobs_run(threads, 300);
    return NULL;
}

static void test_callers(void **state)
{
    (void)state;
    struct threads *threads;
    pthread_t caller[3];
    assert_int_equal(threads_open(&threads, 3, NULL), STATUS_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&caller[i], NULL, caller_main, threads), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(caller[i], NULL);
    threads_close(threads);
}

static void test_refused(void **state)
{
    (void)state;
    struct threads *threads;
    struct error err = {0};
    assert_int_equal(threads_open(&threads, 1025, &err), STATUS_INVALID);
    assert_null(threads);
    assert_string_equal(err.text, "--threads 1025: at most 1024 are possible");
    threads_close(NULL);
}

// Without a number of threads there is one for each core that the process may use.
static void test_as_many_as_cores(void **state)
{
    (void)state;
    struct threads *threads;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(threads_open(&threads, 0, NULL), STATUS_OK);
    assert_in_range(threads_count(threads), 1, CPU_COUNT(&all));
    threads_close(threads);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &all))
            CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    enum status status = threads_open(&threads, 0, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(threads_count(threads), 1);
    jobs_run(threads, 3);
    threads_close(threads);
}

// If there is no memory for a thread's stack, opening fails with an error that names the thread.
static void test_no_room(void **state)
{
    (void)state;
    struct threads *threads;
    struct error err = {0};
    pthread_attr_t usual, huge;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 47), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    enum status status = threads_open(&threads, 3, &err);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&huge);
    pthread_attr_destroy(&usual);
    assert_int_equal(status, STATUS_NO_MEMORY);
    assert_null(threads);
    assert_non_null(strstr(err.text, "thread 1 of 3 of the cpu device cannot be started"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once),        cmocka_unit_test(test_after_sleep),
        cmocka_unit_test(test_callers),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_as_many_as_cores), cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
