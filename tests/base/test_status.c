// SPDX-License-Identifier: Apache-2.0
// Error sentences are cut at character boundaries; the 16-bit conversions are exact for every bit
// pattern (compared with the compiler's own _Float16 and with plain shifting).
#include "kernels/dtype.h"
#include "base/status.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void test_sentence(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(error_set(&err, STATUS_IO, "%s at %d", "stopped", 7), STATUS_IO);
    assert_string_equal(err.text, "stopped at 7");
    assert_int_equal(error_prefix(&err, "file %s", "a.json"), STATUS_IO);
    assert_string_equal(err.text, "file a.json: stopped at 7");
    assert_int_equal(error_set(NULL, STATUS_INVALID, "nobody reads this"), STATUS_INVALID);
    assert_int_equal(error_thread(&err, EAGAIN, "the thread %u", 3u), STATUS_NO_MEMORY);
    assert_string_equal(err.text,
                        "the thread 3 cannot be started: Resource temporarily unavailable; a limit "
                        "of memory or of threads is too low (ulimit -v, ulimit -u, a container's "
                        "pids)");
    assert_string_equal(status_name(STATUS_NO_SPACE), "NO_SPACE");
}

static void test_cut_at_character(void **state)
{
    (void)state;
    char text[ERROR_TEXT_MAX * 2];
    for (int lead = 0; lead < 4; lead++) {
        size_t at = 0;
        for (int i = 0; i < lead; i++)
            text[at++] = 'x';
        while (at + 4 < sizeof text) {
            memcpy(text + at, "\xF0\x9F\x98\x80", 4);
            at += 4;
        }
        text[at] = '\0';
        struct error err;
        error_set(&err, STATUS_INVALID, "%s", text);
        size_t bytes = strlen(err.text);
        assert_true(bytes < ERROR_TEXT_MAX);
        assert_int_equal((bytes - (size_t)lead) % 4, 0);
    }
}

static void test_a_prefix_keeps_status_and_sentence(void **state)
{
    (void)state;
    struct error err;
    char name[2 * ERROR_TEXT_MAX];
    for (size_t lead = ERROR_TEXT_MAX - 16; lead < ERROR_TEXT_MAX + 4; lead++) {
        memset(name, 'x', lead);
        name[lead] = '\0';
        error_set(&err, STATUS_TOO_LARGE, "\xF0\x9F\x98\x80\xF0\x9F\x98\x80 end");
        assert_int_equal(error_prefix(&err, "%s", name), STATUS_TOO_LARGE);
        size_t bytes = strlen(err.text), whole = lead + 2 + 8 + 4;
        size_t most = sizeof err.text - 1;
        if (whole <= most) {
            assert_int_equal(bytes, whole);
            assert_string_equal(err.text + lead, ": \xF0\x9F\x98\x80\xF0\x9F\x98\x80 end");
        } else if (lead + 2 >= most || lead + 2 + 8 <= most) {
            assert_int_equal(bytes, most);
        } else {
            assert_int_equal(bytes, lead + 2 + (most - lead - 2) / 4 * 4); // no half character
        }
    }
    error_set(&err, STATUS_IO, "%*s", ERROR_TEXT_MAX - 1, "end"); // fits to the byte
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    assert_string_equal(err.text + ERROR_TEXT_MAX - 4, "end");
    assert_int_equal(error_prefix(NULL, "nobody reads this"), STATUS_INVALID);
    assert_string_equal(status_name(STATUS_OK), "OK");
    assert_string_equal(status_name(STATUS_UNWANTED), "UNWANTED");
    assert_string_equal(status_name(STATUS_COUNT), "UNKNOWN");
    assert_string_equal(status_name((enum status) - 1), "UNKNOWN");
}

static void flush_first(void)
{
    ssize_t ignored = write(STDERR_FILENO, "flushed\n", 8);
    (void)ignored;
}

// A failed check flushes the log, prints file, line, condition and values, and aborts.
static void test_a_failed_check_ends_the_process(void **state)
{
    (void)state;
    int ends[2], status = 0;
    char said[LINE_BYTES_MAX] = "", expected[256];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        check_flush_set(flush_first);
        check(1 + 1 == 2, "never said");
        check_failed("some/file.c", 42, "rows <= max", "%d rows, %s", 7, "5 fit");
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], said + strlen(said), 512)) > 0;)
        continue;
    close(ends[0]);
    snprintf(expected, sizeof expected,
             "flushed\nweft: some/file.c:42: check failed: rows <= max: 7 rows, 5 fit\n");
    assert_string_equal(said, expected);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

// A full stderr without a reader does not keep a process alive.
static void test_a_failed_check_waits_for_no_reader(void **state)
{
    (void)state;
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        alarm(60);
        char page[4096];
        memset(page, 'x', sizeof page);
        for (int i = 0; i < 16; i++) // a pipe holds 64 KiB
            if (write(ends[1], page, sizeof page) < 0)
                _exit(2);
        dup2(ends[1], STDERR_FILENO);
        check(getpid() == 0, "the pipe is full");
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    close(ends[0]);
    close(ends[1]);
}

static void test_f16_every_pattern(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t half_bits = (uint16_t)bits;
        _Float16 half;
        memcpy(&half, &half_bits, sizeof half);
        float wide = f16_to_f32(half_bits);
        if (isnan((float)half)) {
            assert_true(isnan(wide));
            assert_true(isnan(f16_to_f32(f32_to_f16(wide))));
            continue;
        }
        assert_memory_equal(&wide, &(float){(float)half}, sizeof wide);
        assert_int_equal(f32_to_f16(wide), half_bits);
    }
}

static void test_rounding(void **state)
{
    (void)state;
    uint32_t bits = 1;
    for (int i = 0; i < 2000000; i++) { // covers all exponents
        bits = bits * 1664525u + 1013904223u;
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isnan(value))
            continue;
        _Float16 half = (_Float16)value;
        uint16_t expected;
        memcpy(&expected, &half, sizeof expected);
        assert_int_equal(f32_to_f16(value), expected);
        float low = bf16_to_f32((uint16_t)(bits >> 16));
        float back = bf16_to_f32(f32_to_bf16(value));
        float high = bf16_to_f32((uint16_t)((bits >> 16) + 1));
        assert_true(back == low || back == high || isinf(back));
        if (!isinf(high))
            assert_true(fabs((double)back - value) <= fabs((double)low - value) &&
                        fabs((double)back - value) <= fabs((double)high - value));
    }
}

// A value halfway between two bfloat16 values is rounded to the even one; past the largest, to
// infinity.
static void test_bf16_halves_go_to_the_even_one(void **state)
{
    (void)state;
    for (uint32_t low = 0; low < 65536; low++) {
        if ((low & 0x7F80u) == 0x7F80u) // infinities and NaN have no upper neighbour
            continue;
        uint32_t bits = low << 16 | 0x8000u;
        float value;
        memcpy(&value, &bits, sizeof value);
        assert_int_equal(f32_to_bf16(value), low + (low & 1u));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sentence),
                                       cmocka_unit_test(test_cut_at_character),
                                       cmocka_unit_test(test_a_prefix_keeps_status_and_sentence),
                                       cmocka_unit_test(test_a_failed_check_ends_the_process),
                                       cmocka_unit_test(test_a_failed_check_waits_for_no_reader),
                                       cmocka_unit_test(test_f16_every_pattern),
                                       cmocka_unit_test(test_rounding),
                                       cmocka_unit_test(test_bf16_halves_go_to_the_even_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
