// SPDX-License-Identifier: Apache-2.0
// Sequences of slow readers are parked in favour of waiting ones (decision 0016) and resume later.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

static const uint64_t second_ns = 1000000000u;

static uint32_t steps_to_rest(struct rig *rig)
{
    uint32_t steps = 0;
    while (rig_step(rig) == ENGINE_WORKED)
        steps++;
    return steps;
}

// Reads every event immediately. Returns the number of steps until the request ends, or UINT32_MAX.
static uint32_t steps_to_end(struct rig *rig, struct request *r, enum finish finish)
{
    struct token_event event;
    for (uint32_t steps = 0; steps < 2000; steps++) {
        while (port_next(rig->port, r, &event, NULL)) {
            if (!(event.flags & EVENT_LAST))
                continue;
            assert_int_equal(event.finish, finish);
            port_free(rig->port, r);
            return steps;
        }
        rig_step(rig);
    }
    return UINT32_MAX;
}

static void read_some(struct rig *rig, struct request *r, uint32_t count)
{
    struct token_event event;
    for (uint32_t i = 0; i < count; i++)
        assert_true(port_next(rig->port, r, &event, NULL));
}

static struct request *penalised(struct rig *rig, int32_t first, uint32_t length)
{
    int32_t tokens[RIG_TOKENS_MAX];
    for (uint32_t i = 0; i < length; i++)
        tokens[i] = i == 0 ? first : (int32_t)i + 1;
    uint32_t start[2] = {0, length};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = length,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 1,
                               .max_tokens = 200,
                               .ignore_end = true,
                               .sampling = {.repetition = 1.2f}};
    return rig_submit(rig, &args, ADMITTED);
}

// Eight slots and 2,000 readers that read nothing. A request of 5 tokens waits only a few steps,
// both before and after all of them have generated their 63 tokens, and none of them is cancelled
// for it.
static void test_a_request_waits_for_no_stalled_reader(void **state)
{
    (void)state;
    enum { STALLED = 2000 };
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        static struct request *stalled[STALLED];
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        rig.fake.facts.limits.new_sequences_max = 8;
        rig.options.max_queued_requests = STALLED + 1;
        rig.options.max_queued_tokens = STALLED * 128; // one chunk of history each
        rig_open(&rig);
        for (int32_t i = 0; i < STALLED; i++)
            stalled[i] = rig_generate(&rig, i, 10, 200, 1);
        for (uint32_t i = 0; i < 1000; i++)
            rig_step(&rig);
        rig.key_id = 1;
        assert_in_range(steps_to_end(&rig, rig_generate(&rig, 0, 10, 5, 1), FINISH_LENGTH), 5, 80);
        steps_to_rest(&rig);
        const struct engine_stats *stats = engine_stats(rig.engine);
        assert_int_equal(stats->sequences_parked, STALLED - 8);
        assert_int_equal(stats->sequences_waiting, 0);
        assert_in_range(steps_to_end(&rig, rig_generate(&rig, 0, 10, 5, 1), FINISH_LENGTH), 5,
                        7 + flight);
        assert_int_equal(stats->finished_cancel, 0);
        assert_int_equal(stats->generation_tokens, STALLED * 63 + 2 * 5);
        for (uint32_t i = 0; i < STALLED; i += 400) // its reader continues, and it resumes
            assert_true(steps_to_end(&rig, stalled[i], FINISH_LENGTH) < 300);
        rig_close(&rig);
    }
}

// A parked sequence resumes once half its ring is free. Until then its limit of 60 s without a read
// keeps running.
static void test_a_parked_sequence_resumes_or_is_cancelled(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    struct request *slow = rig_generate(&rig, 0, 10, 200, 1);
    struct request *other = rig_generate(&rig, 500, 10, 200, 1);
    steps_to_rest(&rig);
    assert_int_equal(rig.engine->parked_count, 1);
    assert_int_equal(engine_stats(rig.engine)->parked, 1);
    assert_int_equal(slow->run.first->state, SEQUENCE_PARKED);
    read_some(&rig, slow, 31);
    assert_int_equal(rig_step(&rig), ENGINE_IDLE);
    read_some(&rig, slow, 1); // half the ring is free: it replaces the other one
    assert_int_equal(rig_step(&rig), ENGINE_WORKED);
    assert_int_equal(slow->run.first->state, SEQUENCE_RUNNING);
    assert_int_equal(other->run.first->state, SEQUENCE_PARKED);
    assert_int_equal(engine_stats(rig.engine)->parked, 2); // a counter that only increases
    steps_to_rest(&rig);
    rig.now_ns += 58 * second_ns;
    steps_to_rest(&rig);
    assert_int_equal(rig.engine->live_count, 2);
    read_some(&rig, other, 1);
    steps_to_rest(&rig);
    rig.now_ns += 3 * second_ns;
    steps_to_rest(&rig);
    assert_int_equal(rig.engine->live_count, 1); // the slow one read nothing for a minute
    assert_int_equal(steps_to_end(&rig, slow, FINISH_STALLED), 0);
    assert_true(steps_to_end(&rig, other, FINISH_LENGTH) < 300);
    rig_close(&rig);
}

// A parked sequence whose reader has caught up waits to resume. It is not cancelled as slow.
static void test_a_resuming_sequence_is_not_slow(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    struct request *slow = rig_generate(&rig, 0, 10, 200, 1);
    struct request *other = rig_generate(&rig, 500, 10, 200, 1);
    steps_to_rest(&rig);
    read_some(&rig, slow, 63);
    for (uint32_t i = 0; i < 100; i++) { // the other one keeps the slot
        struct token_event event;
        while (port_next(rig.port, other, &event, NULL) && !(event.flags & EVENT_LAST))
            continue;
        rig.now_ns += second_ns;
        rig_step(&rig);
    }
    assert_int_equal(rig.engine->live_count, 2);
    assert_int_equal(slow->run.first->state, SEQUENCE_PARKED);
    assert_true(steps_to_end(&rig, other, FINISH_LENGTH) < 300);
    assert_true(steps_to_end(&rig, slow, FINISH_LENGTH) < 300);
    rig_close(&rig);
}

// The tokens of parked sequences are limited by max-queued-tokens. Beyond that, only the sequence
// that was parked first is cancelled.
static void test_parked_tokens_are_limited(void **state)
{
    (void)state;
    enum { STALLED = 12 };
    struct rig rig;
    struct request *stalled[STALLED];
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig.options.max_queued_tokens = 8 * 128;
    rig_open(&rig);
    for (int32_t i = 0; i < STALLED; i++)
        stalled[i] = rig_generate(&rig, i * 50, 10, 200, 1);
    steps_to_rest(&rig); // one of them has the slot
    assert_int_equal(rig.engine->parked_count, 8);
    assert_int_equal(engine_stats(rig.engine)->finished_cancel, STALLED - 9);
    for (uint32_t i = 0; i < STALLED - 9; i++)
        assert_int_equal(steps_to_end(&rig, stalled[i], FINISH_STALLED), 0);
    for (uint32_t i = STALLED - 9; i < STALLED; i++)
        assert_true(steps_to_end(&rig, stalled[i], FINISH_LENGTH) < 300);
    rig_close(&rig);
}

// Beyond that limit a request whose reader is still slow is cancelled, even if one that is about to
// resume was parked earlier.
static void test_a_resuming_sequence_is_kept(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig.options.max_queued_tokens = 2 * 128; // two chunks of history
    rig_open(&rig);
    struct request *returns = rig_generate(&rig, 0, 10, 200, 1);
    struct request *slow = rig_generate(&rig, 200, 10, 200, 1);
    steps_to_rest(&rig);
    struct request *third = rig_generate(&rig, 400, 10, 200, 1);
    rig.key_id = 1;
    struct request *next = rig_generate(&rig, 600, 10, 200, 1);
    rig_step(&rig);
    assert_int_equal(slow->run.first->state, SEQUENCE_PARKED);
    read_some(&rig, returns, 63);
    steps_to_rest(&rig); // the third one's reader is slow; the next one gets its slot
    assert_int_equal(steps_to_end(&rig, slow, FINISH_STALLED), 0);
    assert_int_equal(engine_stats(rig.engine)->finished_cancel, 1);
    assert_true(steps_to_end(&rig, returns, FINISH_LENGTH) < 300);
    assert_true(steps_to_end(&rig, third, FINISH_LENGTH) < 300);
    assert_true(steps_to_end(&rig, next, FINISH_LENGTH) < 300);
    rig_close(&rig);
}

static void test_parking_releases_penalty_rows(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig); // 8 slots, 2 rows
    rig_open(&rig);
    struct request *one = penalised(&rig, 1, 4), *two = penalised(&rig, 100, 4);
    steps_to_rest(&rig);
    struct request *plain = rig_generate(&rig, 500, 10, 200, 1);
    steps_to_rest(&rig);
    struct request *three = penalised(&rig, 200, 4);
    assert_true(steps_to_end(&rig, three, FINISH_LENGTH) <= 202);
    assert_int_equal(rig.engine->parked_count, 1); // one row was needed: that of the first one
    assert_int_equal(one->run.first->state, SEQUENCE_PARKED);
    assert_true(steps_to_end(&rig, one, FINISH_LENGTH) < 300);
    assert_true(steps_to_end(&rig, two, FINISH_LENGTH) < 300);
    assert_true(steps_to_end(&rig, plain, FINISH_LENGTH) < 300);
    rig_close(&rig);
}

// While a long prompt uses all tokens of a step, a waiting prompt too long to start early does not
// make a slow reader's sequence lose its slot or penalty row.
static void test_no_slot_is_freed_for_a_request_that_cannot_start(void **state)
{
    (void)state;
    for (uint32_t rows = 0; rows <= 1; rows++) {
        struct rig rig;
        rig_defaults(&rig); // 128 tokens a step: prompts over 256 do not start early
        struct model_facts *f = &rig.fake.facts;
        f->max_model_len = f->limits.history_max = 2048;
        f->blocks_per_sequence_max = f->limits.blocks_max = 128;
        f->block_count = f->limits.changes_max = 512;
        f->limits.slots_max = rows ? 8 : 2;
        f->limits.penalty_rows = 1;
        rig_open(&rig);
        struct request *slow = rows ? penalised(&rig, 1, 4) : rig_generate(&rig, 0, 4, 200, 1);
        steps_to_rest(&rig);
        assert_true(slow->run.first->paused);
        struct request *computing = rig_generate(&rig, 100, 1500, 60, 1);
        rig_step(&rig);
        struct request *waits =
            rows ? penalised(&rig, 600, 400) : rig_generate(&rig, 600, 400, 60, 1);
        for (uint32_t i = 0; i < 8; i++) {
            rig_step(&rig);
            assert_int_equal(rig.engine->parked_count, 0);
            assert_int_equal(slow->run.first->state, SEQUENCE_RUNNING);
        }
        while (waits->run.scheduled == 0)
            rig_step(&rig);
        assert_int_equal(slow->run.first->state, SEQUENCE_PARKED);
        assert_int_equal(computing->run.first->state, SEQUENCE_RUNNING);
        rig_close(&rig);
    }
}

// If a step has no sampling record left, no sequence is parked for a request that could not start.
static void test_no_slot_is_freed_in_a_full_step(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 3;
    rig.fake.facts.limits.new_sequences_max = 1;
    rig_open(&rig);
    struct request *slow = rig_generate(&rig, 0, 4, 200, 1);
    steps_to_rest(&rig);
    for (int32_t i = 1; i <= 3; i++)
        rig_generate(&rig, 100 * i, 4, 60, 1);
    for (uint32_t i = 1; i <= 2; i++) {
        rig_step(&rig);
        assert_int_equal(rig.engine->order_count, 1 + i);
        assert_int_equal(slow->run.first->state, SEQUENCE_RUNNING);
    }
    rig_step(&rig);
    assert_int_equal(slow->run.first->state, SEQUENCE_PARKED);
    rig_close(&rig);
}

// Choices of a request whose reader reads nothing: each gets a slot, and none keeps it for long.
static void test_choices_without_credit_hold_no_slot(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 2;
    rig_open(&rig);
    struct request *many = rig_generate(&rig, 0, 10, 100, 8);
    steps_to_rest(&rig);
    assert_in_range(steps_to_end(&rig, rig_generate(&rig, 500, 10, 5, 1), FINISH_LENGTH), 5, 7);
    assert_true(steps_to_end(&rig, many, FINISH_LENGTH) < 2000);
    rig_close(&rig);
}

// Two slow readers share a slot, and both read after a plan found no ring credit for either.
// Neither is scheduled twice in that plan.
static void test_a_slot_changes_owner_once_per_plan(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    struct request *slow[2] = {rig_generate(&rig, 0, 4, 200, 1), NULL};
    steps_to_rest(&rig);
    slow[1] = rig_generate(&rig, 300, 4, 200, 1);
    steps_to_rest(&rig);
    assert_int_equal(rig.engine->parked_count, 1);
    uint64_t parked = rig.engine->stats.parked;
    for (uint32_t i = 0; i < 2; i++) {
        slow[i]->run.stamp = rig.engine->plan.stamp + 1;
        slow[i]->run.credit_used = UINT32_MAX; // the plan sees no credit, whatever is read
        read_some(&rig, slow[i], 10);
        while (port_next(rig.port, slow[i], &(struct token_event){0}, NULL))
            ;
    }
    rig_step(&rig);
    assert_in_range(rig.engine->stats.parked - parked, 0, 1);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(steps_to_end(&rig, slow[i], FINISH_LENGTH) < 2000);
    rig_close(&rig);
}

// The reader of a parked sequence reads after the plan saw its ring full. The plan counts its
// credit again and schedules it.
static void test_credit_is_counted_when_a_sequence_is_scheduled(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    struct request *slow[2] = {rig_generate(&rig, 0, 4, 200, 1), NULL};
    steps_to_rest(&rig);
    slow[1] = rig_generate(&rig, 300, 4, 200, 1);
    steps_to_rest(&rig);
    uint32_t parked = slow[0]->run.parked ? 0 : 1;
    struct request *r = slow[parked];
    const struct sequence *s = r->run.first;
    assert_int_equal(s->state, SEQUENCE_PARKED);
    r->run.stamp = rig.engine->plan.stamp + 1; // as if the next plan had checked its ring
    r->run.credit_used = r->run.pending + r->run.unfinished;
    read_some(&rig, r, 40);
    assert_int_equal(rig_step(&rig), ENGINE_WORKED);
    assert_int_equal(s->state, SEQUENCE_RUNNING);
    assert_false(s->paused);
    assert_int_equal(r->run.credit_used, r->run.unfinished + 1);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(steps_to_end(&rig, slow[i], FINISH_LENGTH) < 2000);
    rig_close(&rig);
}

// Choices that one plan schedules share the free ring entries; each entry is granted once.
static void test_scheduled_choices_share_one_credit(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 4, 3, 8);
    uint32_t entries = r->events.ring.mask + 1;
    atomic_store(&r->events.ring.head, entries - 8 - 3); // 8 finishes and 3 tokens fit
    rig_step(&rig);
    uint32_t granted = 0, drawn = 0;
    for (const struct sequence *s = r->run.first; s; s = s->sibling, drawn++)
        granted += !s->paused;
    assert_in_range(drawn, 4, 8);
    assert_int_equal(granted, 3);
    port_cancel(rig.port, r);
    while (rig.engine->live_count > 0)
        rig_step(&rig);
    rig_close(&rig);
}

// A parked choice is to resume, but its siblings used the free entries. The choices that stay
// parked count as slow again.
static void test_sequences_without_credit_stay_parked(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 4, 200, 3);
    steps_to_rest(&rig);
    assert_int_equal(rig.engine->parked_count, 2);
    while (port_next(rig.port, r, &(struct token_event){0}, NULL))
        ;
    r->run.stamp = rig.engine->plan.stamp + 1; // as if the next plan had checked its ring
    r->run.credit_used = UINT32_MAX;
    for (const struct sequence *s = r->run.first; s; s = s->sibling)
        if (s->state != SEQUENCE_PARKED)
            *plan_entry(rig.engine, s) = (struct plan_entry){.granted = false};
    rig_step(&rig);
    assert_int_equal(rig.engine->parked_count, 2); // one resumed in place of the third
    assert_false(r->run.returning);
    for (const struct sequence *s = r->run.first; s; s = s->sibling)
        assert_true(s->paused);
    assert_true(steps_to_end(&rig, r, FINISH_LENGTH) < 2000);
    rig_close(&rig);
}

// The sequence that has been paused longest is preempted, neither the oldest nor the youngest.
static void test_the_longest_paused_sequence_is_preempted(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.block_count = 20;
    rig_open(&rig);
    struct request *r[3];
    for (int32_t i = 0; i < 3; i++)
        r[i] = rig_generate(&rig, 300 * i, 10, 200, 1);
    for (uint32_t i = 0; i < 20; i++) { // the second one's reader reads nothing
        rig_step(&rig);
        read_some(&rig, r[0], 1);
        read_some(&rig, r[2], 1);
    }
    steps_to_rest(&rig);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(r[i]->run.first->paused);
    struct request *wants = rig_generate(&rig, 900, 100, 2, 1);
    assert_true(steps_to_end(&rig, wants, FINISH_LENGTH) < 20);
    struct request_facts facts;
    for (uint32_t i = 0; i < 3; i++) {
        request_facts_get(r[i], &facts);
        assert_int_equal(facts.preemptions, i == 1);
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_waits_for_no_stalled_reader),
        cmocka_unit_test(test_a_parked_sequence_resumes_or_is_cancelled),
        cmocka_unit_test(test_a_resuming_sequence_is_not_slow),
        cmocka_unit_test(test_parked_tokens_are_limited),
        cmocka_unit_test(test_a_resuming_sequence_is_kept),
        cmocka_unit_test(test_parking_releases_penalty_rows),
        cmocka_unit_test(test_no_slot_is_freed_for_a_request_that_cannot_start),
        cmocka_unit_test(test_no_slot_is_freed_in_a_full_step),
        cmocka_unit_test(test_choices_without_credit_hold_no_slot),
        cmocka_unit_test(test_a_slot_changes_owner_once_per_plan),
        cmocka_unit_test(test_credit_is_counted_when_a_sequence_is_scheduled),
        cmocka_unit_test(test_scheduled_choices_share_one_credit),
        cmocka_unit_test(test_sequences_without_credit_stay_parked),
        cmocka_unit_test(test_the_longest_paused_sequence_is_preempted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
