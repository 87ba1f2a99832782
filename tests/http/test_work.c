// Which text workers run, in slices and in the order in which they wait, without times. Each test
// lets one body begin and wait until the others stand at the gate, one after another.
#include "base/arena.h"
#include "http/gate.h"
#include "http/work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MIB = 1 << 20, LOG_MAX = 256, FAR_MS = 20000 };

// Stands for an exchange: a body of so many slices.
struct exchange {
    char name;
    uint32_t slices, size;
    _Atomic bool hold; // begins when it is lowered
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

// One letter in the log for each slice, at its beginning.
static void work(struct exchange *x, struct slice *slice)
{
    begin(x, 1);
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
    while (!(x = work_take(seen.side)))
        waker_wait(seen.waker, -1);
    return x;
}

// Three bodies of 12 MB are there when one of 5 and one of 2 MB come: of the three one is prepared,
// and the others get every other slice, until they are done.
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
    assert_false(submit(&large[1])); // the worker of its size has one
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

// Small bodies run beside a large one and are never cut; while both places are theirs a large one
// waits, and gets the next.
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
    wait_for(waiting_are, 1); // there is a place, but not for a second large one
    assert_true(submit(&small[0]));
    wait_for(logged_are, 2);
    assert_true(submit(&small[1]));
    assert_true(submit(&small[2]));
    wait_for(waiting_are, 2); // 1 runs, 2 waits; 3 is queued after one of them
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
    assert_string_equal(seen.log + 10, "OLOLL"); // both places were free, for large ones one
    assert_true(large.shared);
    assert_int_equal(seen.most, 2);
    assert_int_equal(seen.most_large, 1);
    pool_close();
}

// Four workers prepare three large bodies at once, also of one size.
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

// A body whose client left ends with its next slice.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_in_turn), cmocka_unit_test(test_small_beside_large),
        cmocka_unit_test(test_many_workers),   cmocka_unit_test(test_unwanted),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
