// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of the steps of kernels/cpu/ticket.h by the caller and two workers, over
// three jobs of two chunks: each chunk runs once, with the function and the fields of its job, and
// a job ends only when its chunks have returned. Steps are atomic here; ThreadSanitizer checks the
// memory order within them (test_cpu_threads).
#include "kernels/cpu/ticket.h"
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { JOBS = 3, CHUNKS = 2, THREADS = 3, STATES_MAX = 1 << 20 }; // thread 0 is the calling thread

enum at { AT_FILL, AT_PUBLISH, AT_LOOK, AT_READ, AT_TAKE, AT_RUN, AT_FINISH, AT_WAIT, AT_END };

struct state { // padding is zero, because states are compared by their bytes
    struct ticket_box box;
    struct ticket_seen seen[THREADS];
    enum at at[THREADS];
    uint32_t job; // job that the caller works on
    uint32_t ran[JOBS][CHUNKS];
};

static uint64_t *known; // [STATES_MAX] hashes of the states seen; 0: free
static uint32_t known_count;
static uint32_t jobs[JOBS]; // identified by their addresses

static void work_of_job(void *job, uint32_t chunk, uint32_t worker)
{
    (void)job;
    (void)chunk;
    (void)worker;
}

static bool state_new(const struct state *s)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ ((const unsigned char *)s)[i]) * 1099511628211u;
    hash |= 1;
    uint32_t at = (uint32_t)(hash >> 32) % STATES_MAX;
    while (known[at] != 0 && known[at] != hash)
        at = (at + 1) % STATES_MAX;
    if (known[at] == hash)
        return false;
    known[at] = hash;
    assert_true(++known_count < STATES_MAX / 2);
    return true;
}

static void chunk_run(struct state *s, uint32_t thread)
{
    uint32_t chunk = ticket_chunk(&s->seen[thread]);
    assert_ptr_equal(s->seen[thread].job, &jobs[s->job]);
    assert_in_range(chunk, 0, CHUNKS - 1);
    assert_int_equal(s->ran[s->job][chunk]++, 0);
    s->at[thread] = AT_FINISH;
}

static void job_end(struct state *s)
{
    if (atomic_load(&s->box.unfinished) != 0)
        return; // keeps waiting
    for (uint32_t c = 0; c < CHUNKS; c++)
        assert_int_equal(s->ran[s->job][c], 1);
    s->job++;
    s->at[0] = s->job < JOBS ? AT_FILL : AT_END;
}

static void step_run(struct state *s, uint32_t thread)
{
    struct ticket_seen *seen = &s->seen[thread];
    switch (s->at[thread]) {
    case AT_FILL:
        ticket_fill(&s->box, work_of_job, &jobs[s->job], CHUNKS);
        s->at[thread] = AT_PUBLISH;
        break;
    case AT_PUBLISH:
        ticket_publish(&s->box, s->job + 1, CHUNKS);
        s->at[thread] = AT_LOOK;
        break;
    case AT_LOOK:
        if (ticket_load(&s->box, seen))
            s->at[thread] = AT_READ;
        else if (thread == 0)
            s->at[thread] = AT_WAIT;
        break;
    case AT_READ:
        ticket_read(&s->box, seen);
        s->at[thread] = AT_TAKE;
        break;
    case AT_TAKE:
        s->at[thread] = ticket_claim(&s->box, seen) ? AT_RUN : AT_LOOK;
        break;
    case AT_RUN:
        chunk_run(s, thread);
        break;
    case AT_FINISH:
        ticket_finish(&s->box);
        memset(seen, 0, sizeof *seen);
        s->at[thread] = AT_LOOK;
        break;
    case AT_WAIT:
        job_end(s);
        break;
    case AT_END:
        break;
    }
}

static void explore(const struct state *s)
{
    for (uint32_t thread = 0; thread < THREADS; thread++) {
        struct state next;
        memcpy(&next, s, sizeof next);
        step_run(&next, thread);
        if (state_new(&next))
            explore(&next);
    }
}

static void test_every_order(void **state)
{
    (void)state;
    known = heap_alloc_zeroed(STATES_MAX, sizeof *known);
    struct state start;
    memset(&start, 0, sizeof start);
    start.at[0] = AT_FILL;
    for (uint32_t i = 1; i < THREADS; i++)
        start.at[i] = AT_LOOK;
    explore(&start);
    print_message("%u states\n", known_count);
    assert_true(known_count > 1000);
    heap_free(known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
