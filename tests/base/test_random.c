// SPDX-License-Identifier: Apache-2.0
// Random bytes are returned only once, to any thread.
#include "base/random.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PIECES = 2000, PIECE_BYTES = 48, SYSTEM_BYTES = 256 };

struct pieces {
    unsigned char at[PIECES][PIECE_BYTES];
};

static void *pieces_fill(void *out)
{
    struct pieces *p = out;
    for (int i = 0; i < PIECES; i++)
        random_fill(p->at[i], PIECE_BYTES);
    return NULL;
}

static int order(const void *one, const void *other)
{
    return memcmp(one, other, 16);
}

// No two aligned groups of 16 bytes are equal.
static void test_no_bytes_come_twice(void **state)
{
    (void)state;
    static struct pieces threads[2];
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, pieces_fill, &threads[1]), 0);
    pieces_fill(&threads[0]);
    pthread_join(other, NULL);
    enum { PARTS = sizeof threads / 16 };
    unsigned char(*parts)[16] = (void *)threads;
    qsort(parts, PARTS, 16, order);
    for (int i = 1; i < PARTS; i++)
        assert_memory_not_equal(parts[i - 1], parts[i], 16);
}

// A call fills exactly its number of bytes.
static void test_sizes(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= SYSTEM_BYTES; bytes++) {
        unsigned char seen[SYSTEM_BYTES + 1] = {0}, out[SYSTEM_BYTES + 1] = {0};
        for (int i = 0; i < 8; i++) { // all eight values of a byte are 0 with probability 2^-64
            random_fill(out, bytes);
            for (size_t k = 0; k <= SYSTEM_BYTES; k++)
                seen[k] |= out[k];
        }
        for (size_t k = 0; k <= SYSTEM_BYTES; k++)
            assert_int_equal(seen[k] != 0, k < bytes);
    }
    assert_true(random_seed() != random_seed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_bytes_come_twice),
                                       cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
