// SPDX-License-Identifier: Apache-2.0
// smaller, larger and power_of_two. With NUMBER_OTHER_TYPE (CTest: numbers_of_two_types) this file
// must not compile: compared with an unsigned number, a negative one would be the larger.
#include "base/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_the_smaller_and_the_larger(void **state)
{
    (void)state;
    static const uint64_t wide = (uint64_t)UINT32_MAX + 1;
    assert_int_equal(smaller(2u, 3u), 2);
    assert_int_equal(larger(2u, 3u), 3);
    assert_int_equal(smaller(3u, 2u), 2);
    assert_int_equal(larger(3u, 2u), 3);
    assert_true(smaller(wide, wide + 1) == wide && larger(wide, wide - 1) == wide);
    assert_true(smaller(wide + 1, wide) == wide && larger(wide - 1, wide) == wide);
    assert_true(smaller(-0.5, 0.25) == -0.5 && larger(-0.5, 0.25) == 0.25);
    assert_true(smaller(0.25, -0.5) == -0.5 && larger(0.25, -0.5) == 0.25);
    uint32_t taken = 0;
    assert_int_equal(larger(++taken, 0u), 1); // arguments are evaluated once
    assert_int_equal(taken, 1);
#ifdef NUMBER_OTHER_TYPE
    assert_int_equal(smaller(taken, -1), 1);
#endif
}

static void test_powers_of_two(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {{0, 1}, {1, 1}, {2, 2},     {3, 4},     {4, 4},
                                        {5, 8}, {8, 8}, {511, 512}, {513, 1024}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(power_of_two(cases[i][0]), cases[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_smaller_and_the_larger),
                                       cmocka_unit_test(test_powers_of_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
