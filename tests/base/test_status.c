// Error sentences are cut at character boundaries; the 16-bit conversions are exact for every bit
// pattern (compared with the compiler's own _Float16 and with plain shifting).
#include "kernels/dtype.h"
#include "base/status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
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
    assert_string_equal(status_name(STATUS_NO_ROOM), "NO_ROOM");
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
    for (int i = 0; i < 2000000; i++) { // a walk over all exponents
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentence), cmocka_unit_test(test_cut_at_character),
        cmocka_unit_test(test_f16_every_pattern), cmocka_unit_test(test_rounding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
