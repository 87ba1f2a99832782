// SPDX-License-Identifier: Apache-2.0
// A waker loses no wake-up: two threads that wake each other a hundred thousand times reach the
// end, and several raises are one write. Also runs under ThreadSanitizer.
#include "base/waker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes);

enum { ROUNDS = 100000, BURST = 3, LOST_MS = 120000 };

static struct waker *opened(void)
{
    struct waker *waker;
    struct error err;
    check(waker_open(&waker, &err) == STATUS_OK, "%s", err.text);
    return waker;
}

static bool readable(const struct waker *waker)
{
    return poll(&(struct pollfd){.fd = waker_fd(waker), .events = POLLIN}, 1, 0) == 1;
}

static void test_many_raises_are_one_write(void **state)
{
    (void)state;
    struct waker *waker = opened();
    assert_false(readable(waker));
    assert_false(waker_wait(waker, 0));
    for (int i = 0; i < BURST; i++)
        waker_raise(waker);
    uint64_t count = 0;
    assert_int_equal(read(waker_fd(waker), &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
    waker_clear(waker);
    waker_raise(waker);
    assert_true(readable(waker));
    assert_true(waker_wait(waker, 0));
    assert_false(readable(waker));
    waker_close(waker);
    waker_close(NULL);
}

static struct waker *read_of; // if set, reads of this waker are intercepted
static bool raised_in_read;

// Replaces read(2) in this program: another thread's raise arrives while the eventfd is read.
ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
    if (read_of && fd == waker_fd(read_of)) {
        raised_in_read = true;
        waker_raise(read_of);
    }
    return __real_read(fd, to, bytes);
}

static void test_a_raise_while_the_eventfd_is_read(void **state)
{
    (void)state;
    struct waker *waker = opened();
    waker_raise(waker);
    read_of = waker;
    waker_clear(waker);
    read_of = NULL;
    assert_true(raised_in_read);
    waker_raise(waker); // the next raise writes again
    assert_true(waker_wait(waker, 0));
    waker_close(waker);
}

struct news {
    struct waker *waker;
    _Atomic uint32_t count; // relaxed: the waker orders the threads
};

// The raiser never waits, so raises fall into every moment of the sleeper's loop.
static void *news_send(void *context)
{
    struct news *news = context;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        atomic_store_explicit(&news->count, i, memory_order_relaxed);
        waker_raise(news->waker);
    }
    return NULL;
}

static void test_no_raise_is_lost(void **state)
{
    (void)state;
    struct news news = {.waker = opened()};
    pthread_t sender;
    pthread_create(&sender, NULL, news_send, &news);
    while (atomic_load_explicit(&news.count, memory_order_relaxed) < ROUNDS)
        check(waker_wait(news.waker, LOST_MS), "nobody wakes at %u of %d", news.count, ROUNDS);
    pthread_join(sender, NULL);
    waker_close(news.waker);
}

struct pair {
    struct waker *to, *from;
    uint32_t *number; // not atomic: only the wakers order the two threads
};

static void *numbers_return(void *context)
{
    struct pair *pair = context;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        check(waker_wait(pair->to, LOST_MS), "nobody wakes the second at %u", i);
        check(*pair->number == 2 * i + 1, "number %u in round %u", *pair->number, i);
        (*pair->number)++;
        waker_raise(pair->from);
    }
    return NULL;
}

static void test_wakers_order_memory(void **state)
{
    (void)state;
    uint32_t number = 0;
    struct pair pair = {opened(), opened(), &number};
    pthread_t other;
    pthread_create(&other, NULL, numbers_return, &pair);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        check(number == 2 * i, "number %u in round %u", number, i);
        number++;
        waker_raise(pair.to);
        check(waker_wait(pair.from, LOST_MS), "nobody wakes the first at %u", i);
    }
    pthread_join(other, NULL);
    waker_close(pair.to);
    waker_close(pair.from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_raises_are_one_write),
        cmocka_unit_test(test_a_raise_while_the_eventfd_is_read),
        cmocka_unit_test(test_no_raise_is_lost),
        cmocka_unit_test(test_wakers_order_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
