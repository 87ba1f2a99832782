// The order of API keys at masks (scheduler/mask_turns.h), by steps put together by hand: who
// waited in the step before keeps its place, who waited and left has saved nothing.
#include "scheduler/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 4, STEPS = 50, CROWD = 7, LITTLE = 3 };

struct turns_rig {
    struct engine *engine;
    struct mask_key keys[ROWS], *turn[ROWS];
    uint32_t next[ROWS], rows[ROWS];
    struct sequence sequences[2];
    struct request requests[2];
    struct plan_row planned[2];
    uint64_t round;
};

static void open_rig(struct turns_rig *rig)
{
    *rig = (struct turns_rig){.engine = calloc(1, sizeof *rig->engine)};
    assert_non_null(rig->engine);
    struct engine *e = rig->engine;
    e->mask_turns.keys = rig->keys;
    e->mask_turns.turn = rig->turn;
    e->mask_turns.next = rig->next;
    e->mask_turns.rows = rig->rows;
    e->facts.limits.rows_max = ROWS;
    e->sequences = rig->sequences;
    for (uint32_t i = 0; i < 2; i++)
        rig->sequences[i].request = &rig->requests[i];
    rig->requests[0].asked.key_id = CROWD;
    rig->requests[1].asked.key_id = LITTLE;
}

// A step with a row of the crowd and, `both`, one of the other; the row that is asked for first.
static uint32_t first_row(struct turns_rig *rig, bool both)
{
    for (uint32_t i = 0; i < 2; i++)
        rig->planned[i] = (struct plan_row){.sequence = i, .mask = i};
    struct launch launch = {
        .round = ++rig->round, .rows = rig->planned, .row_count = both ? 2 : 1, .mask_count = 1};
    mask_turns_make(rig->engine, &launch);
    return rig->rows[0];
}

static struct mask_key *little(struct turns_rig *rig)
{
    return rig->keys[0].key_id == LITTLE ? &rig->keys[0] : &rig->keys[1];
}

static void test_who_waited_and_left_has_saved_nothing(void **state)
{
    (void)state;
    for (uint32_t away = 0; away < STEPS; away += STEPS - 1) {
        struct turns_rig rig;
        open_rig(&rig);
        first_row(&rig, true);
        mask_turns_spend(rig.engine, rig.planned[0].key, 1000, false);
        mask_turns_spend(rig.engine, rig.planned[1].key, 10, true);
        for (uint32_t i = 0; i < away; i++) {
            assert_int_equal(first_row(&rig, false), 0);
            mask_turns_spend(rig.engine, rig.planned[0].key, 1000, false);
        }
        assert_int_equal(first_row(&rig, true), 1); // who asks for little goes first
        uint64_t now = rig.engine->mask_turns.now;
        assert_int_equal(little(&rig)->began, away > 0 ? now : 10);
        assert_true(away == 0 || now >= (STEPS - 2) * 1000);
        free(rig.engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_waited_and_left_has_saved_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
