// SPDX-License-Identifier: Apache-2.0
// Limits and multiples of numbers: every pair of a list of limits, and every step of another list,
// compared with integer arithmetic in hundredths for numbers of up to two decimal places.
#include "tests/grammar/schema_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { REACH = 1320, SPARSE = 11 }; // hundredths; far from the limits every 11th number is tested

struct rule {
    const char *keyword;
    long value; // in hundredths
};

static void write_hundredths(char out[32], long value)
{
    const char *sign = value < 0 ? "-" : "";
    long size = labs(value);
    if (size % 100 == 0)
        snprintf(out, 32, "%s%ld", sign, size / 100);
    else if (size % 10 == 0)
        snprintf(out, 32, "%s%ld.%ld", sign, size / 100, size % 100 / 10);
    else
        snprintf(out, 32, "%s%ld.%02ld", sign, size / 100, size % 100);
}

static bool holds(const struct rule *rule, long value)
{
    switch (rule->keyword[0]) {
    case 'm':
        if (rule->keyword[1] == 'u')
            return value % rule->value == 0;
        return rule->keyword[1] == 'i' ? value >= rule->value : value <= rule->value;
    case 'n':
        return value % rule->value != 0;
    default:
        return rule->keyword[10] == 'i' ? value > rule->value : value < rule->value;
    }
}

static void open_rules(struct schema_rig *rig, const struct rule *rules, size_t count)
{
    char text[300];
    int at = snprintf(text, sizeof text, "{\"type\":\"number\"");
    for (size_t i = 0; i < count; i++) {
        char number[32];
        bool against = rules[i].keyword[0] == 'n';
        write_hundredths(number, rules[i].value);
        at += snprintf(text + at, sizeof text - (size_t)at, ",%s\"%s\":%s%s",
                       against ? "\"not\":{" : "", against ? "multipleOf" : rules[i].keyword,
                       number, against ? "}" : "");
    }
    snprintf(text + at, sizeof text - (size_t)at, "}");
    struct error err;
    json_t *schema;
    assert_int_equal(json_parse(&schema, text_of(text), &err), STATUS_OK);
    schema_rig_open(rig, schema, SCHEMA_DRAFT_AUTO);
    json_decref(schema);
    if (rig->status != STATUS_OK)
        fail_msg("%s: %s", text, rig->err.text);
}

static void check_number(struct schema_rig *rig, const struct rule *rules, size_t count, long value)
{
    char text[32];
    bool fits = true;
    for (size_t i = 0; i < count; i++)
        fits = fits && holds(&rules[i], value);
    write_hundredths(text, value);
    if (schema_rig_matches(rig, text_of(text)) != fits)
        fail_msg("%s %ld, %s %ld: %s", rules[0].keyword, rules[0].value, rules[count - 1].keyword,
                 rules[count - 1].value, text);
}

// Checks all numbers near the limits, and every SPARSE-th of the others.
static void check_rules(const struct rule *rules, size_t count)
{
    struct schema_rig rig;
    open_rules(&rig, rules, count);
    for (long value = -REACH; value <= REACH; value++) {
        bool near = value % SPARSE == 0;
        for (size_t i = 0; i < count; i++)
            near = near || labs(value - rules[i].value) <= 25;
        if (near)
            check_number(&rig, rules, count, value);
    }
    schema_rig_close(&rig);
}

static void test_pairs_of_limits(void **state)
{
    (void)state;
    static const char *const lows[] = {"minimum", "exclusiveMinimum"};
    static const char *const highs[] = {"maximum", "exclusiveMaximum"};
    static const long limits[] = {-1205, -1000, -990, -105, -100, -99, -50, -5,   0,
                                  3,     5,     50,   100,  101,  110, 995, 1000, 1100};
    enum { LIMITS = sizeof limits / sizeof *limits };
    for (int kinds = 0; kinds < 4; kinds++)
        for (int i = 0; i < LIMITS; i++) {
            struct rule rules[2] = {{lows[kinds & 1], limits[i]}};
            check_rules(rules, 1);
            rules[0] = (struct rule){highs[kinds >> 1], limits[i]};
            check_rules(rules, 1);
            for (int k = 0; k < LIMITS; k++) {
                rules[1] = (struct rule){lows[kinds & 1], limits[k]};
                check_rules(rules, 2);
            }
        }
}

static void test_two_limits_on_one_side(void **state)
{
    (void)state;
    static const char *const sides[][2] = {{"minimum", "exclusiveMinimum"},
                                           {"maximum", "exclusiveMaximum"}};
    static const long limits[] = {-105, -100, -5, -4, 0, 4, 5, 50, 100, 105};
    enum { LIMITS = sizeof limits / sizeof *limits };
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < LIMITS; i++)
            for (int k = 0; k < LIMITS; k++)
                check_rules(
                    (struct rule[]){{sides[side][0], limits[i]}, {sides[side][1], limits[k]}}, 2);
}

static void test_multiples(void **state)
{
    (void)state;
    static const long steps[] = {100, 200, 500, 700, 1000, 1200, 1,   2,   5,   10,
                                 20,  25,  30,  40,  50,   75,   125, 150, 250, 320};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (int against = 0; against < 2; against++) {
            struct rule rule = {against ? "not" : "multipleOf", steps[i]};
            struct schema_rig rig;
            open_rules(&rig, &rule, 1);
            for (long value = -REACH; value <= REACH; value++)
                check_number(&rig, &rule, 1, value);
            schema_rig_close(&rig);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_of_limits),
        cmocka_unit_test(test_two_limits_on_one_side),
        cmocka_unit_test(test_multiples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
