// SPDX-License-Identifier: Apache-2.0
// Scheduling of text workers: slices and their order, without times. Each test lets one body start
// and waits until the others are at the gate, one after another.
#include "base/arena.h"
#include "http/gate.h"
#include "http/work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { MIB = 1 << 20, LOG_MAX = 256, FAR_MS = 120000 };

// A double of an exchange: a body of `slices` slices.
struct exchange {
    char name;
    uint32_t slices, size;
    _Atomic bool hold; // work starts when it becomes false
    _Atomic bool gone;
    bool ended_early, shared;
};

static struct {
    struct work_pool *pool;
    struct work_side *side;
    struct waker *waker;
    pthread_mutex_t lock;
    char log[LOG_MAX];
    uint32_t count, running, running_large, most, most_large;
    _Atomic int nice; // nice value of the worker that ran last
} seen;

static void wait_for(bool (*is_so)(uint32_t), uint32_t wanted)
{
    for (int ms = 0; !is_so(wanted); ms++) {
        if (ms > FAR_MS)
            fail_msg("waited in vain for %u", wanted);
        usleep(1000);
    }
}

static bool waiting_are(uint32_t wanted)
{
    return work_waiting(seen.pool) == wanted;
}

static bool logged_are(uint32_t wanted)
{
    pthread_mutex_lock(&seen.lock);
    bool are = seen.count >= wanted;
    pthread_mutex_unlock(&seen.lock);
    return are;
}

static void begin(const struct exchange *x, int more)
{
    pthread_mutex_lock(&seen.lock);
    seen.running += (uint32_t)more;
    seen.running_large += (uint32_t)(x->size > 0 ? more : 0);
    seen.most = seen.running > seen.most ? seen.running : seen.most;
    seen.most_large = seen.running_large > seen.most_large ? seen.running_large : seen.most_large;
    if (more > 0 && seen.count + 1 < LOG_MAX)
        seen.log[seen.count++] = x->name;
    pthread_mutex_unlock(&seen.lock);
}

// Logs a letter at the start of each slice.
static void work(struct exchange *x, struct slice *slice)
{
    begin(x, 1);
    seen.nice = getpriority(PRIO_PROCESS, 0);
    while (x->hold)
        usleep(500);
    x->shared = slice != NULL;
    if (slice)
        slice->unwanted = &x->gone;
    for (uint32_t i = 1; i < x->slices && !x->ended_early; i++) {
        begin(x, -1);
        x->ended_early = !slice_spend(slice, WORK_SLICE);
        begin(x, 1);
    }
    begin(x, -1);
}

static void pool_open(uint32_t workers)
{
    struct error err;
    memset(&seen, 0, sizeof seen);
    pthread_mutex_init(&seen.lock, NULL);
    assert_int_equal(waker_open(&seen.waker, &err), STATUS_OK);
    struct work_options options = {.workers = workers,
                                   .sizes = work_size(32 * MIB) + 1,
                                   .sides = 1,
                                   .wakers = &seen.waker,
                                   .run = work};
    assert_int_equal(work_open(&seen.pool, &options, &err), STATUS_OK);
    seen.side = work_side(seen.pool, 0);
}

static void pool_close(void)
{
    work_close(seen.pool);
    waker_close(seen.waker);
    pthread_mutex_destroy(&seen.lock);
}

static bool submit(struct exchange *x)
{
    int worker = work_choose(seen.side, x->size);
    if (worker >= 0)
        work_submit(seen.side, worker, x);
    return worker >= 0;
}

static struct exchange *take(void)
{
    struct exchange *x;
    while (!(x = work_pop(seen.side)))
        waker_wait(seen.waker, -1);
    return x;
}

// Three bodies of 12 MB exist when one of 5 MB and one of 2 MB arrive: only one of the three is
// prepared, and the new ones get every other slice until they are done.
static void test_slices_in_turn(void **state)
{
    (void)state;
    pool_open(2);
    struct exchange large[3], middle = {'m', 5, work_size(5000000), false, false, false, false};
    struct exchange less = {'l', 2, work_size(2000000), false, false, false, false};
    for (int i = 0; i < 3; i++)
        large[i] = (struct exchange){(char)('A' + i), 12, work_size(12000000), i == 0, 0, 0, 0};
    assert_true(submit(&large[0]));
    wait_for(logged_are, 1);
    assert_false(submit(&large[1])); // the worker for its size is occupied
    assert_true(submit(&middle));
    wait_for(waiting_are, 1);
    assert_true(submit(&less));
    wait_for(waiting_are, 2);
    large[0].hold = false;
    for (int i = 0; i < 3; i++)
        take();
    for (int i = 1; i < 3; i++) {
        assert_true(submit(&large[i]));
        assert_ptr_equal(take(), &large[i]);
    }
    seen.log[seen.count] = '\0';
    assert_string_equal(seen.log, "AmlAmlAmAmAmAAAAAAABBBBBBBBBBBBCCCCCCCCCCCC");
    assert_int_equal(seen.most_large, 1);
    assert_int_equal(work_out(seen.side), 0);
    pool_close();
}

// Small bodies run next to a large one and are never sliced; if they occupy both places, a large
// one waits for the next free place.
static void test_small_beside_large(void **state)
{
    (void)state;
    pool_open(2);
    struct exchange large = {'L', 4, work_size(20 * MIB), true, false, false, false};
    struct exchange other = {'O', 2, work_size(3 * MIB), false, false, false, false};
    struct exchange small[3];
    for (int i = 0; i < 3; i++)
        small[i] = (struct exchange){(char)('1' + i), 3, work_size(MIB), i == 0, 0, 0, 0};
    assert_true(submit(&large));
    wait_for(logged_are, 1);
    assert_true(submit(&other));
    wait_for(waiting_are, 1); // a place is free, but not for a second large one
    assert_true(submit(&small[0]));
    wait_for(logged_are, 2);
    assert_true(submit(&small[1]));
    assert_true(submit(&small[2]));
    wait_for(waiting_are, 2); // 1 runs, 2 waits; 3 is queued on one of their workers
    small[0].hold = false;
    for (int i = 0; i < 3; i++) {
        struct exchange *x = take();
        assert_int_equal(x->size, 0);
        assert_false(x->shared);
    }
    assert_int_equal(seen.most, 2);
    assert_int_equal(seen.most_large, 1);
    large.hold = false;
    take();
    take();
    assert_string_equal(seen.log + 10, "OLOLL"); // two free places, one of them for large ones
    assert_true(large.shared);
    assert_int_equal(seen.most, 2);
    assert_int_equal(seen.most_large, 1);
    pool_close();
}

// Four workers prepare three large bodies concurrently, even of equal size.
static void test_many_workers(void **state)
{
    (void)state;
    pool_open(4);
    struct exchange large[4];
    for (int i = 0; i < 4; i++)
        large[i] = (struct exchange){'A', 5, work_size(i < 3 ? 9 * MIB : 2 * MIB), i < 3, 0, 0, 0};
    for (int i = 0; i < 3; i++)
        assert_true(submit(&large[i]));
    wait_for(logged_are, 3);
    assert_true(submit(&large[3]));
    wait_for(waiting_are, 1);
    for (int i = 0; i < 3; i++)
        large[i].hold = false;
    for (int i = 0; i < 4; i++)
        take();
    assert_int_equal(seen.most_large, 3);
    pool_close();
}

// A body whose client has left ends with its next slice.
static void test_unwanted(void **state)
{
    (void)state;
    pool_open(1);
    struct exchange large = {'A', 200, work_size(12 * MIB), true, false, false, false};
    assert_true(submit(&large));
    wait_for(logged_are, 1);
    large.gone = true;
    large.hold = false;
    assert_ptr_equal(take(), &large);
    assert_true(large.ended_early);
    assert_string_equal(seen.log, "AA");
    pool_close();
}

// A worker accepts four small bodies and one large one; the rest waits in its h2o thread.
static void test_places(void **state)
{
    enum { SMALL = 8, LARGE = 1 };
    (void)state;
    pool_open(2);
    struct exchange small[SMALL + 1], large[LARGE + 1], other;
    for (int i = 0; i <= SMALL; i++)
        small[i] = (struct exchange){'s', 1, 0, true, false, false, false};
    for (int i = 0; i <= LARGE; i++)
        large[i] = (struct exchange){'L', 1, 2, true, false, false, false};
    for (int i = 0; i < SMALL; i++) {
        assert_true(submit(&small[i]));
        assert_int_equal(work_out(seen.side), i + 1);
        if (i < 2)
            wait_for(logged_are, (uint32_t)i + 1); // these two occupy the places at the gate
    }
    assert_false(submit(&small[SMALL]));
    for (int i = 0; i < LARGE; i++)
        assert_true(submit(&large[i]));
    assert_false(submit(&large[LARGE]));
    other = (struct exchange){'O', 1, 3, true, false, false, false};
    assert_true(submit(&other)); // another size has its own worker
    assert_int_equal(work_out(seen.side), SMALL + LARGE + 1);
    small[0].hold = false;
    assert_ptr_equal(take(), &small[0]);
    assert_true(submit(&small[SMALL])); // the place is free again
    for (int i = 0; i <= SMALL; i++)
        small[i].hold = false;
    for (int i = 0; i <= LARGE; i++)
        large[i].hold = false;
    other.hold = false;
    for (int i = 0; i < SMALL + LARGE + 1; i++)
        take();
    assert_int_equal(work_out(seen.side), 0);
    assert_null(work_pop(seen.side));
    pool_close();
}

// A grammar is compiled independently of the gate, even if all places are occupied; each h2o thread
// has at most one.
static void test_grammars_are_beside_the_gate(void **state)
{
    (void)state;
    pool_open(1);
    struct exchange small = {'s', 1, 0, true, false, false, false};
    struct exchange large = {'L', 1, 1, true, false, false, false};
    struct exchange grammar[2] = {{'g', 1, WORK_COMPILE, false, false, false, false},
                                  {'h', 1, WORK_COMPILE, true, false, false, false}};
    assert_true(submit(&small));
    wait_for(logged_are, 1);
    assert_true(submit(&large));
    wait_for(waiting_are, 1);
    assert_true(submit(&grammar[0]));
    assert_ptr_equal(take(), &grammar[0]);
    assert_false(grammar[0].shared); // no slices
    assert_true(submit(&grammar[1]));
    wait_for(logged_are, 3);
    assert_false(submit(&grammar[0]));
    small.hold = false; // text work continues while the grammar is compiled
    assert_ptr_equal(take(), &small);
    large.hold = false;
    assert_ptr_equal(take(), &large);
    assert_int_equal(work_out(seen.side), 1);
    grammar[1].hold = false;
    assert_ptr_equal(take(), &grammar[1]);
    pool_close();
}

// A large response has its own worker and shares the place of a large body slice by slice, whatever
// its size.
static void test_answers_are_beside_bodies(void **state)
{
    (void)state;
    pool_open(2);
    struct exchange body = {'B', 6, work_size(30 * MIB), true, false, false, false};
    struct exchange answers[2] = {{'a', 3, WORK_ANSWER, false, false, false, false},
                                  {'b', 1, WORK_ANSWER, false, false, false, false}};
    assert_true(submit(&body));
    wait_for(logged_are, 1);
    assert_true(submit(&answers[0]));
    wait_for(waiting_are, 1);
    assert_false(submit(&answers[1]));
    body.hold = false;
    take();
    take();
    assert_true(answers[0].shared);
    seen.log[seen.count] = '\0';
    assert_string_equal(seen.log, "BaBaBaBBB");
    assert_int_equal(seen.most_large, 1);
    assert_true(submit(&answers[1]));
    assert_ptr_equal(take(), &answers[1]);
    pool_close();
}

// Checks the stack size for deeply nested sources; only the grammar thread has it.
static void deep_work(struct exchange *x, struct slice *slice)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    (void)slice;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &bytes);
        pthread_attr_destroy(&attributes);
    }
    x->shared = bytes >= WORK_COMPILE_STACK_BYTES;
}

static void test_grammars_have_their_stack(void **state)
{
    struct exchange grammar = {'g', 1, WORK_COMPILE, false, false, false, false};
    struct error err;
    (void)state;
    memset(&seen, 0, sizeof seen);
    assert_int_equal(waker_open(&seen.waker, &err), STATUS_OK);
    struct work_options options = {
        .workers = 1, .sizes = 1, .sides = 1, .wakers = &seen.waker, .run = deep_work};
    assert_int_equal(work_open(&seen.pool, &options, &err), STATUS_OK);
    seen.side = work_side(seen.pool, 0);
    assert_true(submit(&grammar));
    assert_ptr_equal(take(), &grammar);
    assert_true(grammar.shared);
    work_close(seen.pool);
    waker_close(seen.waker);
}

// Chooses the worker with the least work, round-robin among equal ones.
static void test_the_idlest_is_chosen(void **state)
{
    (void)state;
    pool_open(3);
    struct exchange small[6];
    int chosen[6];
    for (int i = 0; i < 6; i++) {
        small[i] = (struct exchange){'s', 1, 0, true, false, false, false};
        chosen[i] = work_choose(seen.side, 0);
        assert_in_range(chosen[i], 0, 2);
        for (int k = i / 3 * 3; k < i; k++) // first round, then second round
            assert_int_not_equal(chosen[k], chosen[i]);
        work_submit(seen.side, chosen[i], &small[i]);
    }
    small[1].hold = false; // its worker then has one less
    assert_ptr_equal(take(), &small[1]);
    assert_int_equal(work_choose(seen.side, 0), chosen[1]);
    for (int i = 0; i < 6; i++)
        small[i].hold = false;
    for (int i = 0; i < 5; i++)
        take();
    pool_close();
}

// Two h2o threads: each gets its own jobs back and is woken for them; a worker serves both
// round-robin.
static void test_two_sides(void **state)
{
    (void)state;
    struct error err;
    struct waker *wakers[2];
    memset(&seen, 0, sizeof seen);
    pthread_mutex_init(&seen.lock, NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(waker_open(&wakers[i], &err), STATUS_OK);
    struct work_options options = {
        .workers = 1, .sizes = 1, .sides = 2, .wakers = wakers, .run = work};
    assert_int_equal(work_open(&seen.pool, &options, &err), STATUS_OK);
    struct exchange first = {'-', 1, 0, true, false, false, false}, of[2][3];
    struct work_side *sides[2] = {work_side(seen.pool, 0), work_side(seen.pool, 1)};
    work_submit(sides[0], work_choose(sides[0], 0), &first);
    wait_for(logged_are, 1);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < 3; i++) {
            of[side][i] = (struct exchange){(char)('a' + side), 1, 0, false, false, false, false};
            work_submit(sides[side], work_choose(sides[side], 0), &of[side][i]);
        }
    first.hold = false;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < (side == 0 ? 4 : 3); i++) {
            struct exchange *x;
            while (!(x = work_pop(sides[side])))
                waker_wait(wakers[side], -1);
            assert_ptr_equal(x, side == 0 && i == 0 ? &first : &of[side][side == 0 ? i - 1 : i]);
        }
    seen.log[seen.count] = '\0';
    assert_string_equal(seen.log, "-bababa");
    work_close(seen.pool);
    for (int i = 0; i < 2; i++)
        waker_close(wakers[i]);
    pthread_mutex_destroy(&seen.lock);
}

struct standing {
    struct work_gate *gate;
    pthread_t thread;
    bool large;
    _Atomic bool inside;
};

static void *stand(void *argument)
{
    struct standing *s = argument;
    gate_enter(s->gate, s->large);
    s->inside = true;
    return NULL;
}

static void stand_begin(struct standing *s, struct work_gate *gate, bool large, uint32_t waiting)
{
    *s = (struct standing){.gate = gate, .large = large};
    assert_int_equal(pthread_create(&s->thread, NULL, stand, s), 0);
    for (int ms = 0; gate_waiting(gate) != waiting; ms++) {
        assert_true(ms < FAR_MS);
        usleep(1000);
    }
}

// Two places, one of them for large work: the longest waiting thread enters first; one that may not
// enter lets others pass.
static void test_order_at_the_gate(void **state)
{
    (void)state;
    struct work_gate gate;
    struct standing large[2], small[2];
    gate_open(&gate, 2, 1);
    gate_enter(&gate, true);
    assert_int_equal(gate_waiting(&gate), 0);
    stand_begin(&large[0], &gate, true, 1);
    stand_begin(&large[1], &gate, true, 2);
    gate_enter(&gate, false); // passes both
    stand_begin(&small[0], &gate, false, 3);
    stand_begin(&small[1], &gate, false, 4);
    gate_leave(&gate, false);
    pthread_join(small[0].thread, NULL);
    assert_int_equal(gate_waiting(&gate), 3);
    assert_false(large[0].inside || large[1].inside || small[1].inside);
    gate_leave(&gate, true);
    pthread_join(large[0].thread, NULL);
    assert_false(large[1].inside || small[1].inside);
    gate_leave(&gate, false);
    pthread_join(small[1].thread, NULL);
    assert_false(large[1].inside);
    gate_leave(&gate, true);
    pthread_join(large[1].thread, NULL);
    assert_int_equal(gate_waiting(&gate), 0);
    gate_pass(&gate, true); // no thread waits: it enters again immediately
    gate_leave(&gate, false);
    gate_leave(&gate, true);
    gate_enter(&gate, true); // all places are free again
    gate_enter(&gate, false);
    assert_int_equal(gate_waiting(&gate), 0);
    gate_close(&gate);
}

static void test_counts(void **state)
{
    static const uint32_t cores[][2] = {{0, 2}, {1, 2}, {2, 2}, {3, 3}, {4, 4}, {5, 4}, {999, 4}};
    (void)state;
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        assert_int_equal(work_count(cores[i][0]), cores[i][1]);
    assert_int_equal(work_large_count(1), 1);
    assert_int_equal(work_large_count(2), 1);
    assert_int_equal(work_large_count(4), 3);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(work_size(0), 0);
    assert_int_equal(work_size(MIB), 0);
    assert_int_equal(work_size(MIB + 1), 1);
    assert_int_equal(work_size(2 * MIB), 1);
    assert_int_equal(work_size(2 * MIB + 1), 2);
    assert_int_equal(work_size(12000000), 4);
    assert_int_equal(work_size(32 * MIB), 5);
    assert_int_equal(work_size(UINT64_MAX), WORK_SIZES_MAX - 1);
}

// Engines and h2o threads have priority: text workers run at a lower priority than the thread that
// opened them; the grammar thread keeps its priority (decision 0050).
static void test_workers_stand_back(void **state)
{
    (void)state;
    int own = getpriority(PRIO_PROCESS, 0), lower = own + 10 < 19 ? own + 10 : 19;
    static const uint32_t sizes[] = {0, 1, WORK_COMPILE, WORK_ANSWER};
    pool_open(2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct exchange x = {'x', 1, sizes[i], false, false, false, false};
        seen.nice = own;
        assert_true(submit(&x));
        assert_ptr_equal(take(), &x);
        assert_int_equal(seen.nice, sizes[i] == WORK_COMPILE ? own : lower);
    }
    assert_int_equal(getpriority(PRIO_PROCESS, 0), own);
    pool_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_in_turn),
        cmocka_unit_test(test_small_beside_large),
        cmocka_unit_test(test_many_workers),
        cmocka_unit_test(test_unwanted),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_grammars_are_beside_the_gate),
        cmocka_unit_test(test_grammars_have_their_stack),
        cmocka_unit_test(test_answers_are_beside_bodies),
        cmocka_unit_test(test_the_idlest_is_chosen),
        cmocka_unit_test(test_two_sides),
        cmocka_unit_test(test_workers_stand_back),
        cmocka_unit_test(test_order_at_the_gate),
        cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
