// SPDX-License-Identifier: Apache-2.0
// The part of cmocka's interface that weft's tests use, for machines that run bench/gpu.sh without
// cmocka. Everything is in this header; no other header includes it. A failed assertion ends its
// test, the other tests still run; the return value is the number of failed tests.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};
typedef int unit_fixture(void **state);

enum { UNIT_FAILED = 1, UNIT_SKIPPED = 2 };
static jmp_buf unit_end;

__attribute__((noreturn, unused, format(printf, 3, 4))) static void
unit_fail(const char *file, int line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("%s:%d: ", file, line);
    vprintf(format, list);
    printf("\n");
    va_end(list);
    longjmp(unit_end, UNIT_FAILED);
}

__attribute__((noreturn, unused)) static void unit_skip(void)
{
    longjmp(unit_end, UNIT_SKIPPED);
}

__attribute__((unused)) static void unit_true(bool good, const char *what, const char *file,
                                              int line)
{
    if (!good)
        unit_fail(file, line, "not so: %s", what);
}

__attribute__((unused)) static void unit_equal(uintmax_t a, uintmax_t b, const char *file, int line)
{
    if (a != b)
        unit_fail(file, line, "%ju (0x%jx) is not %ju (0x%jx)", a, a, b, b);
}

__attribute__((unused)) static void unit_strings(const char *a, const char *b, const char *file,
                                                 int line)
{
    if (strcmp(a, b) != 0)
        unit_fail(file, line, "\"%s\" is not \"%s\"", a, b);
}

__attribute__((unused)) static void unit_bytes(const void *a, const void *b, size_t bytes,
                                               const char *file, int line)
{
    const unsigned char *x = a;
    const unsigned char *y = b;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i])
            unit_fail(file, line, "byte %zu of %zu: 0x%02x is not 0x%02x", i, bytes, x[i], y[i]);
}

__attribute__((unused)) static int unit_run(const struct CMUnitTest *tests, size_t count,
                                            unit_fixture *setup, unit_fixture *teardown)
{
    void *state = NULL;
    volatile int failed = 0;
    if (setup != NULL && (setjmp(unit_end) != 0 || setup(&state) != 0)) {
        printf("the setup failed\n");
        return (int)count;
    }
    for (volatile size_t i = 0; i < count; i++) {
        printf("[ RUN      ] %s\n", tests[i].name);
        int end = setjmp(unit_end);
        if (end == 0)
            tests[i].run(&state);
        failed += end == UNIT_FAILED;
        printf("[ %s ] %s\n",
               end == 0              ? "      OK"
               : end == UNIT_SKIPPED ? "SKIPPED "
                                     : " FAILED ",
               tests[i].name);
        fflush(stdout);
    }
    if (teardown != NULL && (setjmp(unit_end) != 0 || teardown(&state) != 0))
        failed++;
    printf("%zu tests, %d failed\n", count, failed);
    return failed;
}

#define cmocka_unit_test(f) {#f, f}
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    unit_run(tests, sizeof(tests) / sizeof(tests)[0], setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    cmocka_run_group_tests(tests, setup, teardown)
#define assert_true(x) unit_true((x) ? true : false, #x, __FILE__, __LINE__)
#define assert_false(x) unit_true(!(x), "!(" #x ")", __FILE__, __LINE__)
#define assert_null(x) unit_true((x) == NULL, #x " is NULL", __FILE__, __LINE__)
#define assert_non_null(x) unit_true((x) != NULL, #x " is not NULL", __FILE__, __LINE__)
#define assert_int_equal(a, b) unit_equal((uintmax_t)(a), (uintmax_t)(b), __FILE__, __LINE__)
#define assert_ptr_equal(a, b) unit_equal((uintptr_t)(a), (uintptr_t)(b), __FILE__, __LINE__)
#define assert_string_equal(a, b) unit_strings(a, b, __FILE__, __LINE__)
#define assert_memory_equal(a, b, bytes) unit_bytes(a, b, bytes, __FILE__, __LINE__)
#define fail_msg(...) unit_fail(__FILE__, __LINE__, __VA_ARGS__)
#define skip() unit_skip()
