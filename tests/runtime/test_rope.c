// SPDX-License-Identifier: Apache-2.0
// Rotary frequencies of every scaling at shapes of published models, compared with those of
// transformers (tests/golden/rope, written by tools/golden.py), which computes them in float32; the
// table; and the tables of the bias by distance.
#include "base/json.h"
#include "runtime/model/config.h"
#include "runtime/model/distance.h"
#include "runtime/model/rope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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

// First distance of each bucket as transformers' MPNetEncoder.relative_position_bucket computes it,
// for keys before the query; those after it have 16 more.
static void test_buckets_match(void **state)
{
    (void)state;
    enum { BUCKETS = 32, HEADS = 2, REACH = 128 };
    static const uint32_t firsts[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
    float values[BUCKETS * HEADS], table[HEADS * (2 * REACH + 1)];
    for (uint32_t i = 0; i < BUCKETS * HEADS; i++)
        values[i] = (float)i;
    distance_buckets(table, values, BUCKETS, HEADS, REACH);
    uint32_t bucket = 0;
    for (uint32_t d = 0; d <= REACH; d++) {
        bucket += bucket < 15 && d == firsts[bucket + 1];
        for (uint32_t h = 0; h < HEADS; h++) {
            const float *middle = table + h * (2 * REACH + 1) + REACH;
            assert_true(middle[d] == (float)(bucket * HEADS + h));
            if (d > 0)
                assert_true(middle[-(int)d] == (float)((16 + bucket) * HEADS + h));
        }
    }
}

// Slopes of the paper: 2^-1 .. 2^-8 for 8 heads; 12 heads have those of 8, then 2^-0.5, 2^-1.5, ...
static void test_slopes_match(void **state)
{
    (void)state;
    enum { HEADS = 12, REACH = 5 };
    float table[HEADS * (2 * REACH + 1)];
    distance_slopes(table, HEADS, REACH);
    for (int h = 0; h < HEADS; h++) {
        double slope = h < 8 ? pow(2, -(h + 1)) : pow(2, -(h - 8) - 0.5);
        for (int d = -REACH; d <= REACH; d++)
            assert_true(fabs(table[h * (2 * REACH + 1) + REACH + d] + slope * abs(d)) < 1e-7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frequencies_match),
        cmocka_unit_test(test_table_is_cos_and_sin),
        cmocka_unit_test(test_buckets_match),
        cmocka_unit_test(test_slopes_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
