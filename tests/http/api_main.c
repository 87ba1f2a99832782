// SPDX-License-Identifier: Apache-2.0
// The main function of programs whose tests are defined with API_TEST (api_cases.h). Constructors
// add the tests before main runs; single-threaded.
#include "api_cases.h"

enum { TESTS_MAX = 64 };

static struct CMUnitTest tests[TESTS_MAX];
static void (*functions[TESTS_MAX])(void);
static size_t count;

static void function_run(void **state)
{
    void (**function)(void) = *state;
    (*function)();
}

void api_test_add(const char *name, void (*test)(void), int (*setup)(void **state))
{
    check(count < TESTS_MAX, "more than %d tests", TESTS_MAX);
    functions[count] = test;
    tests[count] = (struct CMUnitTest){.name = name,
                                       .test_func = function_run,
                                       .setup_func = setup,
                                       .teardown_func = setup ? fake_teardown : NULL,
                                       .initial_state = &functions[count]};
    count++;
}

int main(void)
{
    return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}
