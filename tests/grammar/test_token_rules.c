// SPDX-License-Identifier: Apache-2.0
// Token rules compared with a direct implementation: every id of every row, after random answers
// over few ids, so that the forbidden sequences overlap.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/grammar/token_rules.h"

#include <stdlib.h>
#include <string.h>

enum { VOCAB = 70, WORDS = (VOCAB + 31) / 32, BAD = 12, LENGTH = 5, ANSWER = 60, IDS = 4 };

struct plain { // the rules as given, for the direct implementation
    int32_t allowed[VOCAB];
    uint32_t allowed_count, bad_count;
    int32_t bad[BAD * LENGTH];
    uint32_t start[BAD + 1];
};

static struct token_rules *create(const struct plain *p)
{
    struct token_rules_args args = {VOCAB,  p->allowed, p->allowed_count,
                                    p->bad, p->start,   p->bad_count};
    return token_rules_create(&args);
}

static bool is_allowed(const struct plain *p, int32_t id)
{
    for (uint32_t i = 0; i < p->allowed_count; i++)
        if (p->allowed[i] == id)
            return true;
    return p->allowed_count == 0;
}

static bool completes(const struct plain *p, uint32_t which, const int32_t *answer, uint32_t count,
                      int32_t id)
{
    uint32_t from = p->start[which], length = p->start[which + 1] - from;
    return p->bad[from + length - 1] == id && count + 1 >= length &&
           memcmp(answer + count + 1 - length, p->bad + from, (length - 1) * sizeof *answer) == 0;
}

static bool may_come(const struct plain *p, const int32_t *answer, uint32_t count, int32_t id)
{
    bool may = is_allowed(p, id);
    for (uint32_t i = 0; may && i < p->bad_count; i++)
        may = !completes(p, i, answer, count, id);
    return may;
}

static void rows_compare(const struct token_rules *r, const struct plain *p)
{
    int32_t answer[ANSWER];
    uint32_t at = TOKEN_RULES_START;
    for (uint32_t n = 0; n < ANSWER; n++) {
        uint32_t row[WORDS], left = 0;
        memset(row, 0xff, sizeof row);
        row[0] &= ~8u; // id 3 is not in the row; the rules must not add it
        bool some = token_rules_apply(r, at, row);
        for (int32_t id = 0; id < VOCAB; id++) {
            bool may = id != 3 && may_come(p, answer, n, id);
            assert_int_equal(row[id / 32] >> id % 32 & 1, may);
            left += may;
        }
        assert_int_equal(row[WORDS - 1] >> VOCAB % 32, 0);
        assert_int_equal(some, left > 0);
        answer[n] = rand() % IDS;
        at = token_rules_next(r, at, answer[n]);
    }
}

static void test_rows_follow_the_rules(void **state)
{
    (void)state;
    srand(3);
    for (int round = 0; round < 400; round++) {
        struct plain p = {.bad_count = (uint32_t)(rand() % (BAD + 1))};
        for (int32_t id = 0; id < VOCAB && round % 2; id++)
            if (rand() % 3 == 0)
                p.allowed[p.allowed_count++] = id;
        for (uint32_t i = 0; i < p.bad_count; i++) {
            uint32_t length = 1 + (uint32_t)rand() % LENGTH;
            p.start[i + 1] = p.start[i] + length;
            for (uint32_t k = 0; k < length; k++)
                p.bad[p.start[i] + k] = rand() % IDS;
        }
        struct token_rules *r = create(&p);
        assert_non_null(r);
        rows_compare(r, &p);
        token_rules_unref(r);
    }
}

static void test_rules_that_allow_no_id_are_refused(void **state)
{
    (void)state;
    struct plain p = {.allowed = {5, 6}, .allowed_count = 2, .bad = {6, 5, 5, 6}, .bad_count = 2};
    uint32_t row[WORDS];
    p.start[1] = 1;
    p.start[2] = 2;
    assert_null(create(&p));
    p.bad_count = 1; // only {6} is forbidden: 5 is left
    struct token_rules *r = create(&p);
    memset(row, 0xff, sizeof row);
    assert_true(token_rules_apply(r, TOKEN_RULES_START, row));
    assert_int_equal(row[0], 1u << 5);
    memset(row, 0xff, sizeof row);
    row[0] = 1u << 6;
    row[1] = row[2] = 0;
    assert_false(token_rules_apply(r, TOKEN_RULES_START, row));
    token_rules_row(r, row);
    assert_int_equal(row[0], 1u << 5);
    assert_int_equal(row[1] | row[2], 0);
    assert_ptr_equal(token_rules_ref(r), r);
    assert_int_equal(token_rules_owners(r), 2);
    token_rules_unref(r);
    token_rules_unref(r);
    token_rules_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_follow_the_rules),
        cmocka_unit_test(test_rules_that_allow_no_id_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
