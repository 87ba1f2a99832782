// SPDX-License-Identifier: Apache-2.0
// Work in slices: what is counted, when the pass callback runs, and how unwanted work ends.
#include "tests/base/counted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_counts(void **state)
{
    (void)state;
    struct slice slice = counted_begin(10, 0);
    for (int i = 0; i < 9; i++)
        assert_true(slice_spend(&slice, 1));
    assert_int_equal(counted.passes, 0);
    assert_true(slice_spend(&slice, 1));
    assert_int_equal(counted.passes, 1);
    assert_true(slice_spend(&slice, 35)); // a step larger than a slice: as many passes
    assert_int_equal(counted.passes, 4);
    assert_true(slice_spend(&slice, 4));
    assert_int_equal(counted.passes, 4);
    assert_true(slice_spend(&slice, 1));
    assert_int_equal(counted.passes, 5);
    assert_true(slice_spend(&slice, 0));
    assert_int_equal(counted.passes, 5);
}

static void test_stops(void **state)
{
    (void)state;
    struct slice slice = counted_begin(10, 1);
    assert_true(slice_spend(&slice, 9));
    assert_false(slice_spend(&slice, 100));
    assert_int_equal(counted.passes, 1);
    counted.unwanted = false;
    assert_false(slice_spend(&slice, 0)); // it stays ended without more passes
    assert_false(slice_spend(&slice, 100));
    assert_int_equal(counted.passes, 1);
}

static void test_not_shared(void **state)
{
    (void)state;
    assert_true(slice_spend(NULL, UINT64_MAX));
    struct slice slice = counted_begin(10, 1);
    slice.unwanted = NULL; // cannot be stopped
    assert_true(slice_spend(&slice, 20));
    assert_int_equal(counted.passes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_not_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
