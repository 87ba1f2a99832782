// SPDX-License-Identifier: Apache-2.0
// Rotary frequencies of every scaling at shapes of published models, compared with those of
// transformers (tests/golden/rope, written by tools/golden.py), which computes them in float32; and
// the table.
#include "base/json.h"
#include "runtime/model/config.h"
#include "runtime/model/rope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_frequencies_match(void **state)
{
    (void)state;
    struct error err;
    json_t *cases;
    assert_int_equal(
        json_file_parse(&cases, WEFT_SOURCE_DIR "/tests/golden/rope/cases.json", 1 << 20, &err),
        STATUS_OK);
    assert_true(json_array_size(cases) >= 11);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *want = json_array_get(cases, i);
        static struct model_config config;
        assert_int_equal(model_config_parse(&config, json_object_get(want, "config"), &err),
                         STATUS_OK);
        double got[CONFIG_ROPE_FACTORS_MAX];
        uint32_t length = (uint32_t)json_integer_value(json_object_get(want, "length"));
        double scale = rope_frequencies(got, &config.ropes[0], config.positions, length);
        assert_true(fabs(scale - json_number_value(json_object_get(want, "scale"))) < 1e-9);
        const json_t *list = json_object_get(want, "frequencies");
        assert_int_equal(json_array_size(list), config.ropes[0].dim / 2);
        for (uint32_t k = 0; k < config.ropes[0].dim / 2; k++) {
            double value = json_number_value(json_array_get(list, k));
            assert_true(fabs(got[k] - value) <= 2e-6 * value);
        }
    }
    json_decref(cases);
}

static void test_table_is_cos_and_sin(void **state)
{
    (void)state;
    const double frequencies[] = {1.0, 0.125};
    struct rope_span span = {frequencies, 1.5, 2, 1000, 3};
    float table[3][2][2];
    rope_table(&table[0][0][0], &span);
    for (uint32_t p = 0; p < 3; p++) {
        for (uint32_t i = 0; i < 2; i++) {
            double angle = (1000.0 + p) * frequencies[i];
            assert_true(fabs(table[p][i][0] - 1.5 * cos(angle)) < 1e-6);
            assert_true(fabs(table[p][i][1] - 1.5 * sin(angle)) < 1e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frequencies_match),
        cmocka_unit_test(test_table_is_cos_and_sin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
