// SPDX-License-Identifier: Apache-2.0
// The prefix cache, observed through results and the number of computed tokens: blocks of a result
// that is not finite are never shared, and a waiting sequence does not repeat its lookups.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include <math.h>

// Steps the engine until the request ends. Returns how it ended.
static enum finish run_to_end(struct rig *rig, struct request *r)
{
    struct token_event event;
    for (uint32_t steps = 0; steps < 1000; steps++) {
        while (port_next(rig->port, r, &event, NULL))
            if (event.flags & EVENT_LAST)
                return (enum finish)event.finish;
        rig_step(rig);
    }
    fail_msg("the request did not end");
    return FINISH_NONE;
}

static uint64_t computed_alone(struct rig *rig, int32_t first, uint32_t length)
{
    uint64_t before = fake_computed(rig->model);
    struct request *r = rig_generate(rig, first, length, 1, 1);
    assert_int_equal(run_to_end(rig, r), FINISH_LENGTH);
    port_free(rig->port, r);
    return fake_computed(rig->model) - before;
}

// The prompt takes three steps of 64 tokens. One step is corrupted, and only the last gives a
// result. Whichever step it was, the same prompt is afterwards computed again from its start, with
// a correct result.
static void test_blocks_of_a_non_finite_result_are_dropped(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        for (uint64_t spoilt = 1; spoilt <= 3; spoilt++) {
            struct rig rig;
            rig_defaults(&rig);
            rig.fake.facts.steps_in_flight = flight;
            rig.fake.facts.limits.tokens_max = 64;
            rig_open(&rig);
            fake_spoil(rig.model, spoilt);
            struct request *r = rig_generate(&rig, 0, 180, 4, 1);
            assert_int_equal(run_to_end(&rig, r), FINISH_ERROR);
            port_free(rig.port, r);
            rig_step(&rig);
            rig_step(&rig);
            assert_int_equal(computed_alone(&rig, 0, 180), 180);
            assert_int_equal(computed_alone(&rig, 0, 180),
                             4); // 11 blocks of 16 come from the cache
            rig_close(&rig);
        }
    }
}

// Once a result is not finite, the cached blocks it used are dropped from the cache, even those
// that an earlier correct prompt computed: their memory may be corrupt.
static void test_cached_blocks_of_a_non_finite_result_are_dropped(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    assert_int_equal(computed_alone(&rig, 0, 100), 100);
    fake_spoil(rig.model, 2);
    struct request *bad = rig_generate(&rig, 0, 100, 1, 1);
    assert_int_equal(run_to_end(&rig, bad), FINISH_ERROR);
    port_free(rig.port, bad);
    assert_int_equal(computed_alone(&rig, 0, 100), 100);
    rig_close(&rig);
}

// Two sequences share blocks and one fails. The other does not enter the shared blocks into the
// cache again.
static void test_dropped_blocks_are_not_cached_again(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.tokens_max = 64;
    rig_open(&rig);
    assert_int_equal(computed_alone(&rig, 0, 49), 49); // three blocks
    fake_spoil(rig.model, 2);
    struct request *bad = rig_generate(&rig, 0, 60, 1, 1);
    struct request *long_one = rig_generate(&rig, 0, 200, 1, 1);
    rig_step(&rig);
    assert_int_equal(fake_batch(rig.model)->row_count, 2);
    port_cancel(rig.port, long_one); // before it has a result
    assert_int_equal(run_to_end(&rig, bad), FINISH_ERROR);
    assert_int_equal(run_to_end(&rig, long_one), FINISH_CANCEL);
    port_free(rig.port, bad);
    port_free(rig.port, long_one);
    assert_int_equal(computed_alone(&rig, 0, 49), 49);
    rig_close(&rig);
}

static void test_blocks_of_a_non_finite_vector_are_dropped(void **state)
{
    (void)state;
    struct rig rig;
    rig_pooling(&rig, false);
    rig_open(&rig);
    int32_t tokens[100];
    uint32_t starts[2] = {0, 100};
    for (int32_t i = 0; i < 100; i++)
        tokens[i] = i;
    struct submit_args args = {.kind = REQUEST_EMBED,
                               .tokens = tokens,
                               .token_count = 100,
                               .sequence_count = 1,
                               .sequence_start = starts,
                               .choice_count = 1};
    fake_spoil(rig.model, 1);
    for (uint32_t i = 0; i < 2; i++) {
        struct request *r = rig_submit(&rig, &args, ADMITTED);
        assert_int_equal(run_to_end(&rig, r), FINISH_DONE);
        assert_int_equal(isfinite(request_values(r, 0)[0]), i > 0);
        port_free(rig.port, r);
    }
    assert_int_equal(fake_computed(rig.model), 200);
    rig_close(&rig);
}

static uint32_t looked_up(const struct rig *rig)
{
    return PLAN_LOOKUPS_MAX - rig->engine->plan.lookups_left;
}

// Two requests with the same prompt grow until the younger loses its blocks to the older. While it
// waits, it repeats its lookups only in plans after the eviction of a block that it had found.
static void test_a_waiting_sequence_keeps_its_match(void **state)
{
    (void)state;
    struct rig rig;
    struct token_event event;
    rig_defaults(&rig);
    rig.fake.facts.block_count = 16;
    rig_open(&rig);
    struct request *a = rig_generate(&rig, 0, 100, 150, 1), *b = rig_generate(&rig, 0, 100, 150, 1);
    uint32_t quiet = 0, waited = 0, cached = 0, evicted = 0;
    rig_step(&rig);
    while (a->run.unfinished > 0) {
        rig_step(&rig);
        while (port_next(rig.port, a, &event, NULL) || port_next(rig.port, b, &event, NULL))
            ;
        bool waits = b->run.first->state == SEQUENCE_WAITING;
        bool lost = rig.engine->blocks.cached_count < cached;
        cached = rig.engine->blocks.cached_count;
        if (waits && waited++ > 0 && evicted == 0) {
            assert_true(looked_up(&rig) <= 1); // the block after those it has found
            quiet++;
        }
        evicted = lost; // seen by the next plan
    }
    assert_true(quiet > 15);
    assert_true(waited > quiet);
    port_free(rig.port, a);
    assert_int_equal(run_to_end(&rig, b), FINISH_LENGTH);
    port_free(rig.port, b);
    rig_close(&rig);
}

// Six blocks of the prompt are cached without references, and one more block is free. The request
// needs nine blocks, so it waits and holds none of them.
static void test_cached_blocks_of_a_prompt_do_not_count_as_free(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.block_count = 16;
    rig_open(&rig);
    computed_alone(&rig, 0, 100);
    struct request *older = rig_generate(&rig, 500, 130, 10, 1);
    rig_step(&rig); // it allocates nine blocks
    rig_step(&rig);
    struct request *r = rig_generate(&rig, 0, 140, 10, 1);
    rig_step(&rig);
    assert_int_equal(blocks_available(&rig.engine->blocks), 7);
    assert_int_equal(r->run.first->state, SEQUENCE_WAITING);
    assert_int_equal(r->run.first->match_count, 6);
    assert_int_equal(run_to_end(&rig, older), FINISH_LENGTH);
    assert_int_equal(run_to_end(&rig, r), FINISH_LENGTH);
    port_free(rig.port, older);
    port_free(rig.port, r);
    rig_close(&rig);
}

// Eight sequences share a thousand blocks that one of them computes. Lookups beyond the limit of
// one plan wait for the next plans, and no block is computed twice.
static void test_lookups_per_plan_are_limited(void **state)
{
    (void)state;
    enum { SHARERS = 8, SHARED = 1000 };
    struct rig rig;
    rig_defaults(&rig);
    struct model_facts *f = &rig.fake.facts;
    f->max_model_len = f->blocks_per_sequence_max = f->limits.blocks_max = SHARED + 16;
    f->block_tokens = 1;
    f->block_count = 2 * SHARED;
    f->limits.tokens_max = f->limits.changes_max = 12 * SHARED;
    f->limits.new_sequences_max = SHARERS;
    f->limits.history_max = 2 * SHARED;
    rig.options.max_queued_tokens = 2 * SHARERS * SHARED;
    rig_open(&rig);
    struct request *r[SHARERS];
    for (uint32_t i = 0; i < SHARERS; i++)
        r[i] = rig_generate(&rig, 0, SHARED + 1, 8, 1);
    uint32_t most = 0, together = 0;
    for (uint32_t step = 0; step < 8; step++) {
        rig_step(&rig);
        most = looked_up(&rig) > most ? looked_up(&rig) : most;
        if (step == 1)
            together = fake_batch(rig.model)->row_count;
    }
    assert_int_equal(most, PLAN_LOOKUPS_MAX);
    assert_true(together < SHARERS && together > 1);
    for (uint32_t i = 0; i < SHARERS; i++) {
        assert_int_equal(run_to_end(&rig, r[i]), FINISH_LENGTH);
        port_free(rig.port, r[i]);
    }
    assert_int_equal(fake_computed(rig.model), SHARED + SHARERS + SHARERS * 7);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_of_a_non_finite_result_are_dropped),
        cmocka_unit_test(test_cached_blocks_of_a_non_finite_result_are_dropped),
        cmocka_unit_test(test_dropped_blocks_are_not_cached_again),
        cmocka_unit_test(test_blocks_of_a_non_finite_vector_are_dropped),
        cmocka_unit_test(test_a_waiting_sequence_keeps_its_match),
        cmocka_unit_test(test_cached_blocks_of_a_prompt_do_not_count_as_free),
        cmocka_unit_test(test_lookups_per_plan_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
