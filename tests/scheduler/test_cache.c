// What the prefix cache keeps and gives, seen in results and in tokens computed: blocks of a result
// that is not finite are never given to anybody.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include <math.h>

// How the request ended.
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

// The prompt takes three steps of 64 tokens; one of them is spoilt, and the result tells of it only
// in the last. Whichever it was, the same prompt is then computed anew from its start and is sound.
static void blocks_of_a_result_that_is_not_finite_are_forgotten(void **state)
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

// What a sound prompt had left in the cache is not trusted either once a result that used it is
// not finite: memory may have gone bad since.
static void shared_blocks_are_forgotten_too(void **state)
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

// Of two that share blocks one fails; the other, which goes on, does not name them anew.
static void a_sharer_does_not_announce_them_again(void **state)
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
    port_cancel(rig.port, long_one); // before any result of its own
    assert_int_equal(run_to_end(&rig, bad), FINISH_ERROR);
    assert_int_equal(run_to_end(&rig, long_one), FINISH_CANCEL);
    port_free(rig.port, bad);
    port_free(rig.port, long_one);
    assert_int_equal(computed_alone(&rig, 0, 49), 49);
    rig_close(&rig);
}

static void vectors_that_are_not_finite_leave_nothing(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_a_result_that_is_not_finite_are_forgotten),
        cmocka_unit_test(shared_blocks_are_forgotten_too),
        cmocka_unit_test(a_sharer_does_not_announce_them_again),
        cmocka_unit_test(vectors_that_are_not_finite_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
