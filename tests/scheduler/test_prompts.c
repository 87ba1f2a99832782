// SPDX-License-Identifier: Apache-2.0
// Simulations of how prompts share steps (decision 0012): whatever arrives, no prompt waits for
// more than twice the tokens that were due before its end, and a short prompt waits only for short
// ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 64,
    LIVE = 48,
    LONG_LIVE = 12, // below the number of prompts that a search may skip
    LENGTH = 4096,
    TINY = 30, // always short: a step leaves at least 23 tokens to prompts
    HUGE_PROMPT = 131072,
};

struct prompt {
    struct request *request; // NULL: unused entry
    uint32_t length;
    // turn: its tokens, plus those that the other prompts still lacked when it arrived; first: sum
    // of the first halves of all steps since then
    uint64_t turn, first;
    // shorts: as turn, but each other prompt counts as at most two steps; second: sum of the second
    // halves
    uint64_t shorts, second;
    bool done;
};

static int32_t tokens_of_all[HUGE_PROMPT];

static struct request *prompt_submit(struct rig *rig, uint32_t length, uint32_t max_tokens)
{
    uint32_t start[2] = {0, length};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens_of_all,
                               .token_count = length,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 1,
                               .max_tokens = max_tokens,
                               .ignore_end = true,
                               .key_id = rig->key_id,
                               .sampling = {.repetition = 1.0f}};
    return rig_submit(rig, &args, ADMITTED);
}

static void world_open(struct rig *rig, uint32_t rows, uint32_t budget, uint32_t length)
{
    rig_defaults(rig);
    struct model_facts *f = &rig->fake.facts;
    rig->fake.cheap = true;
    f->max_model_len = length;
    f->block_tokens = 64;
    f->blocks_per_sequence_max = (length + 63) / 64;
    f->block_count = rows * f->blocks_per_sequence_max;
    f->limits.rows_max = f->limits.slots_max = f->limits.new_sequences_max = rows;
    f->limits.tokens_max = budget;
    f->limits.blocks_max = f->blocks_per_sequence_max;
    f->limits.changes_max = 4 * f->blocks_per_sequence_max + 2 * rows;
    f->limits.history_max = length;
    rig->options.max_queued_requests = 512;
    rig->options.max_queued_tokens = 1u << 24;
    rig->options.prefix_cache = false;
    rig_open(rig);
}

static uint64_t prompt_left(const struct prompt *p)
{
    const struct sequence *s = p->request->run.first;
    return p->done ? 0 : p->length - (s ? s->planned_len : 0);
}

static void prompt_come(struct rig *rig, struct prompt *all, struct prompt *p, struct dice *dice,
                        uint32_t length)
{
    uint64_t turn = length, shorts = length, most = 2 * (uint64_t)rig->fake.facts.limits.tokens_max;
    for (uint32_t i = 0; i < LIVE; i++) {
        uint64_t left = all[i].request ? prompt_left(&all[i]) : 0;
        turn += left;
        shorts += left < most ? left : most;
    }
    *p = (struct prompt){
        prompt_submit(rig, length, 1 + roll(dice, 30)), length, turn, 0, shorts, 0, false};
}

static void prompts_read(struct rig *rig, struct prompt *all)
{
    struct token_event event;
    for (uint32_t i = 0; i < LIVE; i++) {
        struct prompt *p = &all[i];
        while (p->request && port_next(rig->port, p->request, &event, NULL)) {
            p->done = true;
            if (!(event.flags & EVENT_LAST))
                continue;
            port_free(rig->port, p->request);
            p->request = NULL;
        }
    }
}

// Called after each step. tokens: what the step had for prompts. Half of them, the first half, go
// to the oldest prompts, the rest to short ones. Checks that each prompt is done once the first
// halves reach its `turn`, and a tiny one also once the second halves reach its `shorts`.
static void prompts_check(struct prompt *all, uint32_t tokens)
{
    for (uint32_t i = 0; i < LIVE; i++) {
        struct prompt *p = &all[i];
        if (!p->request || p->done)
            continue;
        p->first += tokens - tokens / 2;
        p->second += tokens / 2;
        assert_true(p->first < p->turn);
        if (p->length <= TINY)
            assert_true(p->second < p->shorts);
    }
}

static void prompts_run(uint64_t seed)
{
    static struct prompt all[LIVE];
    struct rig rig;
    struct dice dice = {seed};
    uint32_t budget = model_tokens_min(ROWS) + roll(&dice, chance(&dice, 50) ? 40 : 2000);
    uint32_t rate = 1 + roll(&dice, 99), tiny = roll(&dice, 101);
    world_open(&rig, ROWS, budget, LENGTH + 64);
    rig.fake.facts.steps_in_flight = 0;
    memset(all, 0, sizeof all);
    for (uint32_t step = 0; step < 600; step++) {
        uint32_t longs = 0;
        for (uint32_t i = 0; i < LIVE; i++)
            longs += all[i].request && !all[i].done && all[i].length > TINY;
        for (uint32_t i = 0; i < LIVE; i++) {
            bool is_tiny = chance(&dice, tiny);
            if (all[i].request || !chance(&dice, rate) || (!is_tiny && longs == LONG_LIVE))
                continue;
            longs += !is_tiny;
            prompt_come(&rig, all, &all[i], &dice,
                        1 + roll(&dice, is_tiny ? TINY : LENGTH >> roll(&dice, 6)));
        }
        uint64_t before = fake_steps(rig.model);
        rig_step(&rig);
        prompts_read(&rig, all);
        if (fake_steps(rig.model) > before)
            prompts_check(all, budget - rig.engine->plan.decode_count);
    }
    rig_close(&rig);
}

static void test_no_prompt_waits_longer_than_twice_its_tokens(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++)
        prompts_run(seed);
}

static uint32_t steps_to_first(struct rig *rig, const struct request *r)
{
    struct request_facts facts = {0};
    uint32_t steps = 0;
    for (; facts.first_token_ns == 0; steps++) {
        rig_step(rig);
        request_facts_get(r, &facts);
        assert_true(steps < 1000);
    }
    return steps;
}

// A prompt of 100 tokens that arrives after prompts of 131,072, started or not, is complete in one
// step. The first of the long ones needs at most twice its 64 steps.
static void test_a_short_prompt_waits_for_no_long_one(void **state)
{
    (void)state;
    for (uint32_t longs = 1; longs <= 4; longs++) {
        struct rig rig;
        world_open(&rig, 8, 2048, HUGE_PROMPT + 64);
        const struct request *first = prompt_submit(&rig, HUGE_PROMPT, 4);
        for (uint32_t i = 1; i < longs; i++)
            prompt_submit(&rig, HUGE_PROMPT, 4);
        rig_step(&rig);
        assert_int_equal(steps_to_first(&rig, prompt_submit(&rig, 100, 4)), 1);
        assert_int_equal(rig.engine->order_count, 2); // a slot is used only with tokens
        uint32_t steps = 2;
        for (struct request_facts facts = {0}; facts.first_token_ns == 0; steps++) {
            prompt_submit(&rig, 1000, 1); // one arrives in each step and uses half of it
            rig_step(&rig);
            request_facts_get(first, &facts);
        }
        assert_in_range(steps, 120, 128);
        rig_close(&rig);
    }
}

// A single prompt gets the entire step.
static void test_a_single_prompt_gets_the_entire_step(void **state)
{
    (void)state;
    struct rig rig;
    world_open(&rig, 8, 2048, HUGE_PROMPT + 64);
    assert_int_equal(steps_to_first(&rig, prompt_submit(&rig, HUGE_PROMPT, 4)), 64);
    rig_close(&rig);
}

static struct request *key_submit(struct rig *rig, uint32_t key, uint32_t length)
{
    rig->key_id = key;
    return prompt_submit(rig, length, 1);
}

// A long prompt keeps its rank whatever else its key and other keys send: it waits for the prompts
// that were there before it, one of which has started.
static void test_a_long_prompt_keeps_its_rank(void **state)
{
    enum { LONG = 8192 };
    (void)state;
    struct rig rig;
    world_open(&rig, 8, 2048, LONG + 64);
    key_submit(&rig, 2, LONG);
    rig_step(&rig);
    key_submit(&rig, 2, LONG);
    const struct request *r = key_submit(&rig, 1, LONG);
    struct request_facts facts = {0};
    uint32_t steps = 0;
    for (; facts.first_token_ns == 0 && steps < 100; steps++) {
        key_submit(&rig, 1, 500);
        if (steps % 4 == 0)
            key_submit(&rig, 2, LONG);
        rig_step(&rig);
        request_facts_get(r, &facts);
    }
    assert_in_range(steps, LONG / 1024, 3 * LONG / 1024); // first halves are 1,024 tokens
    rig_close(&rig);
}

// Short prompts that overtake longer ones start round-robin by key.
static void test_short_prompts_overtake_round_robin_by_key(void **state)
{
    enum { EACH = 20, KEYS = 3 };
    (void)state;
    struct rig rig;
    struct request *r[KEYS][EACH];
    world_open(&rig, 8, 2048, HUGE_PROMPT + 64);
    key_submit(&rig, 0, HUGE_PROMPT);
    rig_step(&rig);
    for (uint32_t key = 0; key < KEYS; key++) {
        key_submit(&rig, key, HUGE_PROMPT);
        for (uint32_t i = 0; i < EACH; i++)
            r[key][i] = key_submit(&rig, key, 1000);
    }
    for (uint32_t step = 0; step < 50; step++) {
        uint32_t drawn[KEYS] = {0};
        rig_step(&rig);
        for (uint32_t key = 0; key < KEYS; key++) {
            for (uint32_t i = 0; i < EACH; i++)
                drawn[key] += r[key][i]->run.scheduled;
            assert_in_range(drawn[key], step / KEYS, step / KEYS + 2);
        }
    }
    rig_close(&rig);
}

// A search skips at most 256 longer prompts, here those of 16 keys. The next search continues where
// it ended, even if that key is gone.
static void test_a_search_continues_where_the_last_one_ended(void **state)
{
    (void)state;
    struct rig rig;
    world_open(&rig, 8, 2048, HUGE_PROMPT + 64);
    key_submit(&rig, 0, HUGE_PROMPT);
    rig_step(&rig);
    struct request *of_14[16] = {0}; // the requests where the third search will start
    for (uint32_t key = 1; key <= 20; key++)
        for (uint32_t i = 0; i < (key < 20 ? 16 : 3); i++) {
            struct request *r = key_submit(&rig, key, 5000);
            of_14[i] = key == 14 ? r : of_14[i];
        }
    assert_int_equal(steps_to_first(&rig, key_submit(&rig, 21, 100)), 2);
    for (uint32_t i = 0; i < 16; i++)
        port_cancel(rig.port, of_14[i]);
    rig_step(&rig);
    key_submit(&rig, 22, 5000);
    assert_in_range(steps_to_first(&rig, key_submit(&rig, 20, 100)), 1, 2);
    rig_close(&rig);
}

int main(void)
{
    for (uint32_t i = 0; i < HUGE_PROMPT; i++)
        tokens_of_all[i] = (int32_t)(i % 999);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_prompt_waits_longer_than_twice_its_tokens),
        cmocka_unit_test(test_a_short_prompt_waits_for_no_long_one),
        cmocka_unit_test(test_a_single_prompt_gets_the_entire_step),
        cmocka_unit_test(test_a_long_prompt_keeps_its_rank),
        cmocka_unit_test(test_short_prompts_overtake_round_robin_by_key),
        cmocka_unit_test(test_a_search_continues_where_the_last_one_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
