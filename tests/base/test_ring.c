// SPDX-License-Identifier: Apache-2.0
// A ring without other synchronisation carries entries from one thread to another: all, in order,
// complete. Also runs under ThreadSanitizer.
#include "base/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

enum { ENTRIES = 4, COUNT = 4000 };

struct numbers {
    struct ring ring;
    struct entry {
        uint32_t number, twice;
    } entry[ENTRIES];
};

static void put(struct numbers *n, uint32_t number)
{
    n->entry[ring_place(&n->ring)] = (struct entry){number, 2 * number};
    ring_publish(&n->ring);
}

static uint32_t got(struct numbers *n)
{
    uint32_t place;
    check(ring_peek(&n->ring, &place), "the ring is empty");
    struct entry entry = n->entry[place];
    ring_pop(&n->ring);
    check(entry.twice == 2 * entry.number, "entry %u, %u", entry.number, entry.twice);
    return entry.number;
}

// The ring can be filled completely, also when the indices wrap at 2^32.
static void test_a_ring_is_full_to_its_last_entry(void **state)
{
    (void)state;
    struct numbers n = {
        .ring = {.mask = ENTRIES - 1, .head = UINT32_MAX - 5, .tail = UINT32_MAX - 5}};
    uint32_t place;
    for (uint32_t round = 0; round < 5; round++) {
        assert_false(ring_peek(&n.ring, &place));
        for (uint32_t i = 0; i < ENTRIES; i++) {
            assert_int_equal(ring_free(&n.ring), ENTRIES - i);
            put(&n, round * 10 + i);
        }
        assert_int_equal(ring_free(&n.ring), 0);
        for (uint32_t i = 0; i < ENTRIES; i++)
            assert_int_equal(got(&n), round * 10 + i);
        put(&n, 1); // the next round starts at another index
        assert_int_equal(got(&n), 1);
    }
}

static void *numbers_put(void *context)
{
    struct numbers *n = context;
    for (uint32_t i = 0; i < COUNT; i++) {
        while (ring_free(&n->ring) == 0)
            sched_yield();
        put(n, i);
    }
    return NULL;
}

static void test_a_ring_alone_is_enough(void **state)
{
    (void)state;
    static struct numbers n = {.ring = {.mask = ENTRIES - 1}};
    pthread_t producer;
    pthread_create(&producer, NULL, numbers_put, &n);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t place;
        while (!ring_peek(&n.ring, &place))
            sched_yield();
        check(got(&n) == i, "another entry at %u", i);
    }
    pthread_join(producer, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ring_is_full_to_its_last_entry),
        cmocka_unit_test(test_a_ring_alone_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
