// SPDX-License-Identifier: Apache-2.0
// The order of API keys for masks (scheduler/mask_order.h), with hand-made steps: a key that waited
// in the previous step keeps its start time, and a key that waited and left does not gain from its
// absence.
#include "scheduler/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 4, MANY = 6, STEPS = 50, CROWD = 7, LITTLE = 3 };

struct turns_rig {
    struct engine *engine;
    struct mask_key keys[ROWS], *turn[ROWS];
    uint32_t next[ROWS], rows[ROWS], spare[ROWS];
    struct sequence sequences[MANY];
    struct request requests[MANY];
    struct plan_row planned[ROWS];
    uint64_t round;
};

static void open_rig(struct turns_rig *rig)
{
    *rig = (struct turns_rig){.engine = calloc(1, sizeof *rig->engine)};
    assert_non_null(rig->engine);
    struct engine *e = rig->engine;
    e->mask_order.keys = rig->keys;
    e->mask_order.round_keys = rig->turn;
    e->mask_order.next = rig->next;
    e->mask_order.rows = rig->rows;
    e->mask_order.spare = rig->spare;
    e->facts.limits.rows_max = ROWS;
    e->sequences = rig->sequences;
    for (uint32_t i = 0; i < MANY; i++)
        rig->sequences[i].request = &rig->requests[i];
    rig->requests[0].args.key_id = CROWD;
    rig->requests[1].args.key_id = LITTLE;
}

// Runs a step with a row of the crowd's key and, if `both`, one of the other key. Returns the row
// whose mask is requested first.
static uint32_t first_row(struct turns_rig *rig, bool both)
{
    for (uint32_t i = 0; i < 2; i++)
        rig->planned[i] = (struct plan_row){.sequence = i, .mask = i};
    struct launch launch = {.mask_round = ++rig->round,
                            .rows = rig->planned,
                            .row_count = both ? 2 : 1,
                            .mask_count = 1};
    mask_order_make(rig->engine, &launch);
    return rig->rows[0];
}

static struct mask_key *little(struct turns_rig *rig)
{
    return rig->keys[0].key_id == LITTLE ? &rig->keys[0] : &rig->keys[1];
}

static void test_an_absent_key_saves_no_share(void **state)
{
    (void)state;
    for (uint32_t away = 0; away < STEPS; away += STEPS - 1) {
        struct turns_rig rig;
        open_rig(&rig);
        first_row(&rig, true);
        mask_order_charge(rig.engine, rig.planned[0].key, 1000, false);
        mask_order_charge(rig.engine, rig.planned[1].key, 10, true);
        for (uint32_t i = 0; i < away; i++) {
            assert_int_equal(first_row(&rig, false), 0);
            mask_order_charge(rig.engine, rig.planned[0].key, 1000, false);
        }
        assert_int_equal(first_row(&rig, true), 1); // the key that needs little is first
        uint64_t now = rig.engine->mask_order.virtual_time;
        assert_int_equal(little(&rig)->began, away > 0 ? now : 10);
        assert_true(away == 0 || now >= (STEPS - 2) * 1000);
        free(rig.engine);
    }
}

// Runs a step with rows of these sequences, "013". Returns them in the order in which their masks
// are requested.
static const char *order_of(struct turns_rig *rig, const char *sequences)
{
    static char out[ROWS + 1];
    struct launch launch = {.mask_round = ++rig->round, .rows = rig->planned};
    for (const char *at = sequences; *at; at++, launch.row_count++)
        rig->planned[launch.row_count] =
            (struct plan_row){.sequence = (uint32_t)(*at - '0'), .mask = launch.row_count};
    launch.mask_count = launch.row_count;
    mask_order_make(rig->engine, &launch);
    assert_int_equal(rig->engine->mask_order.row_count, launch.row_count);
    for (uint32_t i = 0; i < launch.row_count; i++)
        out[i] = (char)('0' + rig->planned[rig->rows[i]].sequence);
    out[launch.row_count] = '\0';
    return out;
}

static void spend(struct turns_rig *rig, uint32_t row, uint64_t work, bool postponed)
{
    mask_order_charge(rig->engine, rig->planned[row].key, work, postponed);
}

static void keys_apart(struct turns_rig *rig)
{
    for (uint32_t i = 0; i < MANY; i++)
        rig->requests[i].args.key_id = i; // 0 is a key as well
}

// The table has as many entries as a step has rows. A new key replaces the key that was absent
// longest, at any index, and inherits nothing from it.
static void test_the_longest_absent_key_is_replaced(void **state)
{
    (void)state;
    static const char *const others[] = {"123", "023", "013", "012"};
    for (uint32_t oldest = 0; oldest < ROWS; oldest++) {
        struct turns_rig rig;
        open_rig(&rig);
        keys_apart(&rig);
        assert_string_equal(order_of(&rig, "0123"), "0123"); // equal keys keep the order of rows
        assert_int_equal(rig.engine->mask_order.key_count, ROWS);
        for (uint32_t i = 0; i < ROWS; i++)
            spend(&rig, i, i == oldest ? 100000 : 100 + i, i == oldest);
        order_of(&rig, others[oldest]);
        assert_string_equal(order_of(&rig, "4"), "4");
        assert_int_equal(rig.planned[0].key, oldest);
        for (uint32_t i = 0; i < ROWS; i++)
            assert_int_equal(rig.keys[i].key_id, i == oldest ? 4 : i);
        assert_int_equal(rig.keys[oldest].began, rig.engine->mask_order.virtual_time);
        assert_in_range(rig.keys[oldest].began, 0, 1000);
        free(rig.engine);
    }
}

// A key keeps its unused share from one step with masks to the next only while a row of it waits.
static void test_only_a_waiting_key_keeps_its_share(void **state)
{
    (void)state;
    for (uint32_t waits = 0; waits < 4; waits++) { // bit 0: its first row waits; bit 1: its second
        struct turns_rig rig;
        open_rig(&rig);
        keys_apart(&rig);
        rig.requests[2].args.key_id = 1;
        for (uint32_t i = 0; i < 3; i++) { // the crowd's key uses more work
            order_of(&rig, "012");
            spend(&rig, 0, 1000, false);
            spend(&rig, 1, 10, true);
            spend(&rig, 2, 10, false);
            rig.round += i; // steps without masks do not count
        }
        order_of(&rig, "012");
        assert_int_equal(rig.keys[1].began, 60);
        spend(&rig, 0, 1000, false);
        spend(&rig, 1, 10, waits & 1);
        spend(&rig, 2, 10, waits & 2);
        assert_int_equal(rig.engine->mask_order.virtual_time, 3000);
        order_of(&rig, "012");
        assert_int_equal(rig.keys[1].began, waits > 0 ? 80 : 3000);
        free(rig.engine);
    }
}

static void test_a_key_without_work_does_not_advance_the_clock(void **state)
{
    (void)state;
    struct turns_rig rig;
    open_rig(&rig);
    keys_apart(&rig);
    order_of(&rig, "01");
    spend(&rig, 0, 5000, false);
    spend(&rig, 1, 10, false);
    order_of(&rig, "01");
    spend(&rig, 0, 0, false);
    spend(&rig, 1, 10, false);
    assert_int_equal(rig.engine->mask_order.virtual_time, 10);
    free(rig.engine);
}

// Rows of a key rotate by one per step. Within a request the most often postponed row is first. The
// first rows of all requests come before the second ones, and requests that waited longer come
// first.
static void test_rows_of_a_key(void **state)
{
    (void)state;
    static const char *const rounds[] = {"1230", "2301", "3012", "0123"};
    struct turns_rig rig;
    open_rig(&rig);
    for (uint32_t i = 0; i < MANY; i++)
        rig.requests[i].args.key_id = 3;
    for (uint32_t i = 0; i < ROWS; i++)
        assert_string_equal(order_of(&rig, "0123"), rounds[i]);
    free(rig.engine);
    open_rig(&rig);
    for (uint32_t i = 0; i < MANY; i++)
        rig.requests[i].args.key_id = 3;
    rig.sequences[1].request = &rig.requests[0]; // 0 and 1 share a request, and so do 2 and 3
    rig.sequences[3].request = &rig.requests[2];
    rig.requests[0].run.mask_served = 5;
    rig.requests[2].run.mask_served = 1;
    rig.sequences[1].postponed = 2;
    rig.sequences[3].postponed = 1;
    assert_string_equal(order_of(&rig, "0123"), "3120");
    free(rig.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_absent_key_saves_no_share),
        cmocka_unit_test(test_the_longest_absent_key_is_replaced),
        cmocka_unit_test(test_only_a_waiting_key_keeps_its_share),
        cmocka_unit_test(test_a_key_without_work_does_not_advance_the_clock),
        cmocka_unit_test(test_rows_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
