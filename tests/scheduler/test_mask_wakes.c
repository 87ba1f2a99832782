// SPDX-License-Identifier: Apache-2.0
// Explores every interleaving of the engine and the mask worker around their ring and wakers
// (scheduler/mask_thread.c): push jobs, post, wait, once more, and end the thread. The steps are
// the functions of base/ring.h and base/flag.h that production uses, each as one indivisible
// action. Proved: no thread sleeps forever, and a wait ends only when all jobs are done. Faults in
// the order of steps show that the search can fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/flag.h"
#include "base/ring.h"

#include <string.h>

enum { ROUNDS = 2, JOBS = 2, SEEN = 1 << 16 };

enum engine_at { E_PUSH, E_RAISE, E_WRITE, E_LOOK, E_READ, E_LOWER, E_ENDS, E_JOIN, E_OVER };
enum worker_at { W_ENDS, W_WORK, W_RAISE, W_WRITE, W_READ, W_LOWER, W_OVER };

enum fault {
    FAULT_NONE,
    FAULT_POST_FIRST,   // the engine posts before it pushes
    FAULT_LOOK_ONCE,    // the engine ends its wait at any raise
    FAULT_RAISE_FIRST,  // the worker raises `done` before it works
    FAULT_LOWER_FIRST,  // a sleeper lowers the flag before it reads
    FAULT_NO_LAST_WAKE, // the end flag is set without a wake
    FAULT_COUNT
};

struct bell { // a waker
    _Atomic uint32_t pending;
    uint32_t fd;
};

struct place { // state of both threads and everything they share
    struct ring ring;
    struct bell posted, done;
    uint32_t engine_at, worker_at, after; // after: engine_at once it has posted
    uint32_t round, pushed, ends, early;
};

struct search {
    enum fault fault;
    struct place seen[SEEN];
    uint32_t count, lost, wrong;
};

static bool jobs_left(const struct place *p)
{
    return ring_free(&p->ring) <= p->ring.mask;
}

static void bell_sleep(const struct search *s, struct bell *bell, bool first)
{
    if (first == (s->fault != FAULT_LOWER_FIRST))
        bell->fd = 0;
    else
        flag_lower(&bell->pending);
}

static void engine_pushed(const struct search *s, struct place *p)
{
    if (p->pushed < JOBS)
        return;
    p->pushed = 0;
    p->engine_at = s->fault == FAULT_POST_FIRST ? E_LOOK : E_RAISE;
    p->after = E_LOOK;
}

static void round_next(const struct search *s, struct place *p)
{
    p->early |= jobs_left(p);
    p->engine_at = s->fault == FAULT_POST_FIRST ? E_RAISE : E_PUSH;
    p->after = E_PUSH;
    if (++p->round == ROUNDS)
        p->engine_at = E_ENDS;
}

// Runs one step of the engine. Returns false if it sleeps or has ended.
static bool engine_step(const struct search *s, struct place *p)
{
    switch ((enum engine_at)p->engine_at) {
    case E_PUSH:
        ring_publish(&p->ring);
        p->pushed++;
        engine_pushed(s, p);
        return true;
    case E_RAISE:
        p->engine_at = flag_raise(&p->posted.pending) ? E_WRITE : p->after;
        return true;
    case E_WRITE:
        p->posted.fd = 1;
        p->engine_at = p->after;
        return true;
    case E_LOOK:
        p->engine_at = E_READ;
        if (!jobs_left(p))
            round_next(s, p);
        return true;
    case E_READ:
        if (p->done.fd == 0)
            return false;
        bell_sleep(s, &p->done, true);
        p->engine_at = E_LOWER;
        return true;
    case E_LOWER:
        bell_sleep(s, &p->done, false);
        p->engine_at = E_LOOK;
        if (s->fault == FAULT_LOOK_ONCE)
            round_next(s, p);
        return true;
    case E_ENDS:
        p->ends = 1;
        p->after = E_JOIN;
        p->engine_at = s->fault == FAULT_NO_LAST_WAKE ? E_JOIN : E_RAISE;
        return true;
    case E_JOIN:
        if (p->worker_at != W_OVER)
            return false;
        p->engine_at = E_OVER;
        return true;
    case E_OVER:
        break;
    }
    return false;
}

static bool worker_step(const struct search *s, struct place *p)
{
    switch ((enum worker_at)p->worker_at) {
    case W_ENDS:
        p->worker_at = p->ends ? W_OVER : s->fault == FAULT_RAISE_FIRST ? W_RAISE : W_WORK;
        return true;
    case W_WORK:
        if (jobs_left(p))
            ring_pop(&p->ring);
        else
            p->worker_at = s->fault == FAULT_RAISE_FIRST ? W_READ : W_RAISE;
        return true;
    case W_RAISE:
    case W_WRITE: {
        enum worker_at then = s->fault == FAULT_RAISE_FIRST ? W_WORK : W_READ;
        bool write = p->worker_at == W_RAISE && flag_raise(&p->done.pending);
        if (p->worker_at == W_WRITE)
            p->done.fd = 1;
        p->worker_at = write ? W_WRITE : then;
        return true;
    }
    case W_READ:
        if (p->posted.fd == 0)
            return false;
        bell_sleep(s, &p->posted, true);
        p->worker_at = W_LOWER;
        return true;
    case W_LOWER:
        bell_sleep(s, &p->posted, false);
        p->worker_at = W_ENDS;
        return true;
    case W_OVER:
        break;
    }
    return false;
}

static bool place_new(struct search *s, const struct place *p)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *p; i++)
        hash = (hash ^ ((const unsigned char *)p)[i]) * 1099511628211u;
    uint32_t at = (uint32_t)(hash >> 40) % SEEN;
    for (; s->seen[at].ring.mask != 0; at = (at + 1) % SEEN)
        if (memcmp(&s->seen[at], p, sizeof *p) == 0)
            return false;
    s->seen[at] = *p;
    check(++s->count < SEEN / 2, "more than %d places", SEEN / 2);
    return true;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as a run has steps
static void visit(struct search *s, const struct place *p)
{
    if (!place_new(s, p))
        return;
    struct place engine = *p, worker = *p;
    bool moved = engine_step(s, &engine);
    if (moved)
        visit(s, &engine);
    if (worker_step(s, &worker)) {
        moved = true;
        visit(s, &worker);
    }
    s->wrong += p->early;
    s->lost += !moved && p->engine_at != E_OVER;
}

static void test_no_order_loses_a_wake(void **state)
{
    static struct search s;
    (void)state;
    for (int fault = FAULT_NONE; fault < FAULT_COUNT; fault++) {
        struct place start;
        memset(&s, 0, sizeof s);
        memset(&start, 0, sizeof start);
        s.fault = (enum fault)fault;
        start.ring.mask = 3;
        start.after = E_PUSH;
        start.engine_at = fault == FAULT_POST_FIRST ? E_RAISE : E_PUSH;
        visit(&s, &start);
        print_message("fault %d: %u places, %u lost, %u wrong\n", fault, s.count, s.lost, s.wrong);
        assert_int_equal(s.lost + s.wrong > 0, fault != FAULT_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_order_loses_a_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
