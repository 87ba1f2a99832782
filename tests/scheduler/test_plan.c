// SPDX-License-Identifier: Apache-2.0
// The rows that a plan chooses, observed in the batches that reach the model: decodes first, chunks
// within the token budget, requests round-robin, packed pooling, shared blocks, and the choice of
// sequences to preempt.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include <string.h>

static const struct batch_row *row_at(struct rig *rig, uint32_t index)
{
    return &batch_rows((struct batch *)fake_batch(rig->model))[index];
}

static void drop_all(struct rig *rig, struct request *r)
{
    struct token_event event;
    while (port_next(rig->port, r, &event, NULL))
        if (event.flags & EVENT_LAST) {
            port_free(rig->port, r);
            return;
        }
}

static bool is_over(struct rig *rig, struct request *r, struct token_event *last)
{
    while (port_next(rig->port, r, last, NULL))
        if (last->flags & EVENT_LAST)
            return true;
    return false;
}

static struct request *embed(struct rig *rig, uint32_t inputs, uint32_t length, int32_t first)
{
    int32_t tokens[RIG_TOKENS_MAX];
    uint32_t starts[RIG_TOKENS_MAX + 1];
    for (uint32_t i = 0; i < inputs * length; i++)
        tokens[i] = (int32_t)((uint32_t)first + i) % 1000;
    for (uint32_t i = 0; i <= inputs; i++)
        starts[i] = i * length;
    struct submit_args args = {.kind = REQUEST_EMBED,
                               .tokens = tokens,
                               .token_count = inputs * length,
                               .sequence_count = inputs,
                               .sequence_start = starts,
                               .choice_count = 1};
    return rig_submit(rig, &args, ADMITTED);
}

// Each row of a pooling request contains the number of tokens its mean leaves out and whether its
// vector is not normalised.
static void test_rows_contain_pooling_options(void **state)
{
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint32_t starts[] = {0, 5, 8};
    (void)state;
    struct rig rig;
    rig_pooling(&rig, true);
    rig_open(&rig);
    struct submit_args args = {.kind = REQUEST_EMBED,
                               .tokens = tokens,
                               .token_count = 8,
                               .sequence_count = 2,
                               .sequence_start = starts,
                               .choice_count = 1,
                               .pool_from = 2,
                               .pool_raw = true};
    struct request *raw = rig_submit(&rig, &args, ADMITTED);
    struct request *plain = embed(&rig, 1, 4, 10);
    rig_step(&rig);
    assert_int_equal(((struct batch *)fake_batch(rig.model))->row_count, 3);
    for (uint32_t i = 0; i < 3; i++) // round-robin by request; the plain one's input has 4 tokens
        assert_true(row_at(&rig, i)->pool == (row_at(&rig, i)->q_len == 4 ? 0 : 2 | STEP_POOL_RAW));
    rig_step(&rig);
    drop_all(&rig, raw);
    drop_all(&rig, plain);
    rig_close(&rig);
}

static void test_decodes_come_first(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.limits.tokens_max = 40;
    rig_open(&rig);
    struct request *a = rig_generate(&rig, 0, 30, 20, 1);
    rig_step(&rig);
    assert_int_equal(row_at(&rig, 0)->q_len, 30);
    struct request *b = rig_generate(&rig, 500, 100, 20, 1);
    rig_step(&rig);
    assert_int_equal(fake_batch(rig.model)->decode_count, 1);
    assert_int_equal(row_at(&rig, 0)->token_at, BATCH_TOKEN_FED);
    assert_int_equal(row_at(&rig, 0)->kv_len, 31);
    assert_int_equal(row_at(&rig, 1)->q_len, 39); // the rest of the budget
    assert_int_equal(row_at(&rig, 1)->want, WANT_NOTHING);
    rig_step(&rig);
    assert_int_equal(row_at(&rig, 1)->kv_len, 78);
    rig_step(&rig);
    assert_int_equal(row_at(&rig, 1)->q_len, 22);
    assert_int_equal(row_at(&rig, 1)->want, WANT_TOKEN);
    rig_step(&rig);
    assert_int_equal(fake_batch(rig.model)->decode_count, 2);
    port_cancel(rig.port, a);
    port_cancel(rig.port, b);
    rig_step(&rig);
    drop_all(&rig, a);
    drop_all(&rig, b);
    rig_close(&rig);
}

// All rows except one decode in every step. The prompt finishes in as many steps as the rest of the
// budget allows.
static void test_a_prompt_advances_next_to_full_rows(void **state)
{
    (void)state;
    enum { ROWS = 2048, PROMPT = 2048 };
    struct rig rig;
    rig_defaults(&rig);
    struct step_limits *limits = &rig.fake.facts.limits;
    uint32_t budget = model_tokens_min(ROWS);
    limits->rows_max = limits->slots_max = limits->new_sequences_max = ROWS;
    limits->tokens_max = budget;
    limits->changes_max = 4 * ROWS;
    rig.fake.facts.max_model_len = PROMPT + 16;
    limits->history_max = limits->blocks_max = rig.fake.facts.blocks_per_sequence_max = PROMPT + 16;
    rig.fake.facts.block_count = 2 * ROWS;
    rig.options.max_queued_requests = ROWS;
    rig_open(&rig);
    for (int32_t i = 0; i < ROWS - 1; i++)
        rig_generate(&rig, i, 1, 60, 1);
    rig_step(&rig);
    struct request *r = rig_generate(&rig, 0, PROMPT, 1, 1);
    uint32_t steps = 0;
    struct token_event event;
    while (!is_over(&rig, r, &event)) {
        rig_step(&rig);
        steps++;
        assert_int_equal(fake_batch(rig.model)->decode_count, ROWS - 1);
    }
    assert_int_equal(budget, 2731);
    assert_int_equal(steps, 3); // 2,048 tokens at 684 a step
    rig_close(&rig);
}

static void test_encoders_are_packed(void **state)
{
    (void)state;
    struct rig rig;
    rig_pooling(&rig, true);
    rig.options.max_queued_tokens = 100000;
    rig.options.max_queued_requests = 4;
    rig_open(&rig);
    struct request *many = embed(&rig, 200, 20, 0); // 4,000 tokens
    rig_step(&rig);
    assert_int_equal(fake_batch(rig.model)->computed_count, 6 * 20); // of 128 tokens; none is split
    struct request *one = embed(&rig, 1, 50, 700);
    struct token_event event;
    uint32_t steps = 0;
    while (!is_over(&rig, one, &event)) {
        rig_step(&rig);
        assert_true(++steps <= 3); // however many inputs: other prompts are not delayed
    }
    assert_int_equal(event.finish, FINISH_DONE);
    while (!is_over(&rig, many, &event))
        rig_step(&rig);
    // The number of computed tokens is the sum of lengths: no padding, nothing computed twice.
    assert_int_equal(fake_computed(rig.model), 200 * 20 + 50);
    assert_int_equal(engine_stats(rig.engine)->tokens_computed, 200 * 20 + 50);
    struct fake_alone alone = {.type_from = STEP_NO_TYPE};
    for (int32_t i = 0; i < 20; i++)
        fake_feed(&alone, 199 * 20 % 1000 + i);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(request_values(many, 199)[i] == fake_value(&alone, i));
    port_free(rig.port, one);
    port_free(rig.port, many);
    rig_close(&rig);
}

// One slot, three keys: 40 requests of the first key, then 5 of the second and 1 of the third.
// While all keys have work each gets every third start, in the order of submission within a key.
static void test_requests_start_round_robin_by_key(void **state)
{
    (void)state;
    enum { FIRST = 40, SECOND = 5 };
    struct rig rig;
    struct token_event event;
    struct request *r[FIRST + SECOND + 1];
    uint64_t started[FIRST + SECOND + 1];
    struct request_facts facts;
    rig_defaults(&rig);
    rig.fake.facts.limits.slots_max = 1;
    rig.options.max_queued_requests = FIRST + SECOND + 1;
    rig_open(&rig);
    for (uint32_t i = 0; i < FIRST + SECOND + 1; i++) {
        rig.key_id = i < FIRST ? 70 : i < FIRST + SECOND ? 6 : 1000000;
        r[i] = rig_generate(&rig, (int32_t)i, 10, 2, 1);
    }
    for (uint32_t i = 0; i < 4 * (FIRST + SECOND); i++)
        rig_step(&rig);
    for (uint32_t i = 0; i < FIRST + SECOND + 1; i++) {
        assert_true(is_over(&rig, r[i], &event));
        request_facts_get(r[i], &facts);
        started[i] = facts.started_ns;
        port_free(rig.port, r[i]);
    }
    uint64_t each = (started[1] - started[0]) / 3; // two other requests start between them
    assert_true(each > 0);
    assert_int_equal(started[FIRST] - started[0], each);
    assert_int_equal(started[FIRST + SECOND] - started[0], 2 * each);
    assert_int_equal(started[FIRST + 1] - started[0], 4 * each); // only two keys have requests
    assert_int_equal(started[2] - started[0], 5 * each);
    assert_int_equal(started[FIRST + 4] - started[0], 10 * each);
    assert_int_equal(started[FIRST - 1] - started[0], (FIRST + SECOND) * each);
    rig_close(&rig);
}

static uint64_t computed_for(bool cache, bool whole, uint32_t repeats)
{
    struct rig rig;
    struct token_event event;
    rig_pooling(&rig, false);
    rig.options.prefix_cache = cache;
    rig.fake.facts.whole_input = whole;
    rig.fake.facts.limits.tokens_max = 256;
    rig_open(&rig);
    for (uint32_t i = 0; i < repeats; i++) {
        struct request *r = embed(&rig, 1, 100, 0);
        while (!is_over(&rig, r, &event))
            rig_step(&rig);
        port_free(rig.port, r);
    }
    uint64_t computed = fake_computed(rig.model);
    rig_close(&rig);
    return computed;
}

static void test_prefixes_are_computed_once(void **state)
{
    (void)state;
    assert_int_equal(computed_for(true, false, 3), 100 + 4 + 4); // 6 blocks of 16 are shared
    assert_int_equal(computed_for(false, false, 3), 300);
    assert_int_equal(computed_for(true, true, 3), 300); // every hidden state is needed
}

// Choices of one prompt wait for the blocks that one of them computes, with and without a cache.
static void test_choices_share_their_prompt(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 4; variant++) {
        struct rig rig;
        struct token_event event;
        rig_defaults(&rig);
        rig.options.prefix_cache = variant & 1;
        rig.fake.facts.steps_in_flight = variant >> 1;
        rig_open(&rig);
        struct request *r = rig_generate(&rig, 0, 200, 1, 4);
        while (!is_over(&rig, r, &event))
            rig_step(&rig);
        assert_int_equal(fake_computed(rig.model), 200 + 3 * (200 - 192));
        struct request_facts facts;
        request_facts_get(r, &facts);
        assert_int_equal(facts.cached_tokens, 0); // nothing was cached at its start
        port_free(rig.port, r);
        assert_int_equal(rig.engine->blocks.cached_count, 12);
        rig_close(&rig);
    }
}

// Without a cache, the blocks of a single choice cannot match anything, so they are not entered in
// the prefix table.
static void test_a_single_choice_without_a_cache_is_not_in_the_table(void **state)
{
    (void)state;
    struct rig rig;
    struct token_event event;
    rig_defaults(&rig);
    rig.options.prefix_cache = false;
    rig_open(&rig);
    struct request *r = rig_generate(&rig, 0, 200, 40, 1);
    while (!is_over(&rig, r, &event)) {
        rig_step(&rig);
        for (uint32_t id = 0; id < rig.engine->blocks.count; id++)
            assert_false(rig.engine->blocks.block[id].in_table);
    }
    port_free(rig.port, r);
    rig_close(&rig);
}

// A sequence that waits for a block computed by another one does not delay others, even if they
// need the last free blocks.
static void test_waiting_for_a_block_lets_others_start(void **state)
{
    (void)state;
    static const uint32_t blocks[] = {64, 7 + 4};
    for (uint32_t i = 0; i < 2; i++) {
        struct rig rig;
        struct token_event event;
        rig_defaults(&rig);
        rig.fake.facts.max_model_len = 112;
        rig.fake.facts.blocks_per_sequence_max = 7;
        rig.fake.facts.block_count = blocks[i];
        rig.fake.facts.limits.tokens_max = 512;
        rig_open(&rig);
        struct request *r[3] = {rig_generate(&rig, 0, 100, 2, 1), rig_generate(&rig, 0, 100, 2, 1),
                                rig_generate(&rig, 500, 50, 2, 1)};
        rig_step(&rig);
        assert_int_equal(fake_batch(rig.model)->row_count, 2);
        assert_int_equal(fake_batch(rig.model)->computed_count, 100 + 50);
        for (uint32_t k = 0; k < 3; k++) {
            while (!is_over(&rig, r[k], &event))
                rig_step(&rig);
            port_free(rig.port, r[k]);
        }
        // Each has a second token. With the fewest blocks, the third is preempted once for a block
        // of the second, and two of its tokens are computed again.
        assert_int_equal(fake_computed(rig.model), 100 + 4 + 50 + 3 + 2 * i);
        rig_close(&rig);
    }
}

// A chunk may begin inside a block that it fills: that block is computed once as well.
static void test_a_partly_filled_block_is_computed_once(void **state)
{
    (void)state;
    struct rig rig;
    struct token_event event;
    rig_defaults(&rig);
    rig.fake.facts.limits.tokens_max = 36;
    rig_open(&rig);
    struct request *one = rig_generate(&rig, 0, 100, 1, 1);
    rig_step(&rig);
    rig_step(&rig); // 72 tokens: four blocks and a half
    struct request *two = rig_generate(&rig, 0, 100, 1, 1);
    rig_step(&rig);
    assert_int_equal(rig.engine->order_count, 1); // the first is complete; the second waits for it
    while (!is_over(&rig, two, &event))
        rig_step(&rig);
    assert_true(is_over(&rig, one, &event));
    assert_int_equal(fake_computed(rig.model), 100 + 4);
    port_free(rig.port, one);
    port_free(rig.port, two);
    rig_close(&rig);
}

// Blocks that a started prompt still needs are not allocated to a younger one.
static void test_blocks_of_a_started_prompt_are_kept(void **state)
{
    (void)state;
    struct rig rig;
    struct token_event event;
    rig_defaults(&rig);
    rig.fake.facts.block_count = 16;
    rig.fake.facts.limits.tokens_max = 40;
    rig_open(&rig);
    struct request *older = rig_generate(&rig, 0, 224, 1, 1);
    rig_step(&rig); // computes 3 of its 14 blocks
    struct request *younger = rig_generate(&rig, 500, 60, 1, 1);
    rig_step(&rig);
    assert_int_equal(rig.engine->order_count, 2);
    assert_int_equal(younger->run.first->state, SEQUENCE_WAITING);
    while (!is_over(&rig, younger, &event))
        rig_step(&rig);
    assert_true(is_over(&rig, older, &event));
    assert_int_equal(engine_stats(rig.engine)->preemptions, 0);
    assert_int_equal(fake_computed(rig.model), 224 + 60);
    port_free(rig.port, older);
    port_free(rig.port, younger);
    rig_close(&rig);
}

static uint32_t embed_cached(struct rig *rig, uint32_t length, int32_t first)
{
    struct token_event event;
    struct request_facts facts;
    struct request *r = embed(rig, 1, length, first);
    while (!is_over(rig, r, &event))
        rig_step(rig);
    request_facts_get(r, &facts);
    port_free(rig->port, r);
    return facts.cached_tokens;
}

// If one block is missing, the last block of the older prompt is evicted, and the blocks before it
// are still found.
static void test_a_prompt_is_evicted_from_its_end(void **state)
{
    (void)state;
    struct rig rig;
    rig_pooling(&rig, false);
    rig.fake.facts.block_count = 16;
    rig_open(&rig);
    assert_int_equal(embed_cached(&rig, 100, 0), 0); // 6 blocks stay
    assert_int_equal(embed_cached(&rig, 176, 500), 0);
    assert_int_equal(embed_cached(&rig, 100, 0), 5 * 16);
    rig_close(&rig);
}

// Each combination of a salt and an owner has a cache of its own.
static void test_salts_and_owners_keep_caches_apart(void **state)
{
    (void)state;
    struct rig rig;
    struct token_event event;
    rig_defaults(&rig);
    rig_open(&rig);
    int32_t tokens[64];
    for (int32_t i = 0; i < 64; i++)
        tokens[i] = i;
    static const uint64_t salts[][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 2, 0},
                                        {0, 0, 1}, {0, 0, 2}, {1, 0, 1}, {0, 1, 1}, {1, 2, 2}};
    enum { SALTS = sizeof salts / sizeof *salts };
    uint32_t start[2] = {0, 64};
    for (uint32_t i = 0; i < 2 * SALTS; i++) {
        struct submit_args args = {.kind = REQUEST_GENERATE,
                                   .tokens = tokens,
                                   .token_count = 64,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 1,
                                   .max_tokens = 1,
                                   .sampling = {.repetition = 1.0f},
                                   .cache_salt = {salts[i % SALTS][0], salts[i % SALTS][1]},
                                   .cache_owner = salts[i % SALTS][2]};
        struct request *r = rig_submit(&rig, &args, ADMITTED);
        while (!is_over(&rig, r, &event))
            rig_step(&rig);
        struct request_facts facts;
        request_facts_get(r, &facts);
        // with 64, no token would be left to compute
        assert_int_equal(facts.cached_tokens, i < SALTS ? 0 : 48);
        port_free(rig.port, r);
    }
    rig_close(&rig);
}

// Without a cache, the choices of a request share their prompt, but requests of one port or of
// several share nothing.
static void test_without_a_cache_requests_share_nothing(void **state)
{
    (void)state;
    struct rig rig;
    struct token_event event;
    rig_defaults(&rig);
    rig.options.prefix_cache = false;
    rig.options.port_count = 2;
    rig_open(&rig);
    struct port *ports[2] = {rig.port, engine_port(rig.engine, 1, rig.waker)};
    const struct engine_stats *stats = engine_stats(rig.engine);
    for (uint32_t i = 0; i < 4; i++) {
        rig.port = ports[i % 2];
        struct request *r = rig_generate(&rig, 0, 64, 1, 2);
        while (!is_over(&rig, r, &event))
            rig_step(&rig);
        port_free(rig.port, r);
        assert_int_equal(stats->prompt_tokens_computed, (i + 1) * (64 + 16));
    }
    rig.port = ports[0];
    rig_close(&rig);
}

// Two sequences outgrow the pool of blocks: the younger is preempted, and the older never waits.
static void test_the_youngest_is_preempted(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        rig_defaults(&rig);
        rig.fake.facts.block_count = 16;
        rig.fake.facts.steps_in_flight = flight;
        rig_open(&rig);
        struct request *old = rig_generate(&rig, 0, 100, 150, 1);
        struct request *young = rig_generate(&rig, 500, 100, 150, 1);
        struct token_event event = {0};
        uint32_t steps = 0, young_over = 0;
        while (!is_over(&rig, old, &event)) {
            rig_step(&rig);
            young_over += is_over(&rig, young, &event);
            steps++;
        }
        assert_int_equal(event.index, 149);
        assert_int_equal(young_over, 0);
        assert_true(steps <= 152 + 9 * flight); // at most one more step for each block it waits for
        while (!is_over(&rig, young, &event))
            rig_step(&rig);
        assert_int_equal(event.finish, FINISH_LENGTH);
        struct request_facts facts;
        request_facts_get(old, &facts);
        assert_int_equal(facts.preemptions, 0);
        request_facts_get(young, &facts);
        assert_true(facts.preemptions >= 1);
        assert_int_equal(facts.cached_tokens, 0); // recomputation does not count as a cached prompt
        port_free(rig.port, old);
        port_free(rig.port, young);
        rig_close(&rig);
    }
}

// Blocks that the step in flight will release count as available, so one shortage preempts one
// sequence.
static void test_one_shortage_preempts_one_sequence(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.block_count = 20;
    rig.fake.facts.steps_in_flight = 1;
    rig_open(&rig);
    struct request *r[3];
    for (int32_t i = 0; i < 3; i++)
        r[i] = rig_generate(&rig, 300 * i, (uint32_t)(100 - 10 * i), 120, 1);
    while (engine_stats(rig.engine)->preemptions == 0)
        rig_step(&rig);
    assert_int_equal(engine_stats(rig.engine)->preemptions, 1);
    struct request_facts facts;
    request_facts_get(r[2], &facts);
    assert_int_equal(facts.preemptions, 1);
    struct token_event event;
    for (uint32_t i = 0; i < 3; i++) {
        while (!is_over(&rig, r[i], &event))
            rig_step(&rig);
        assert_int_equal(event.index, 119);
        port_free(rig.port, r[i]);
    }
    rig_close(&rig);
}

static void read_all(struct rig *rig, struct request *r)
{
    struct token_event event;
    while (port_next(rig->port, r, &event, NULL))
        continue;
}

static void steps_read(struct rig *rig, struct request *one, struct request *two, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        rig_step(rig);
        read_all(rig, one);
        read_all(rig, two);
    }
}

// Two sequences use the blocks that a third, older and paused, has lost. The third is read after
// `moment` steps and needs 11 blocks. If the blocks of the youngest and the free ones suffice, the
// middle one is not preempted, even if it needs a block in the same step. Returns true if they
// sufficed exactly.
static bool middle_keeps_its_blocks(uint32_t moment)
{
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.max_model_len = 208;
    rig.fake.facts.blocks_per_sequence_max = 13;
    rig.fake.facts.block_count = 15;
    rig.fake.facts.steps_in_flight = 1;
    rig.options.prefix_cache = false;
    rig_open(&rig);
    struct request *oldest = rig_generate(&rig, 0, 100, 150, 1);
    while (rig_step(&rig) == ENGINE_WORKED)
        continue;
    struct request *middle = rig_generate(&rig, 300, 20, 150, 1);
    struct request *youngest = rig_generate(&rig, 600, 40, 150, 1);
    steps_read(&rig, middle, youngest, 4 + moment);
    const struct sequence *s = oldest->run.first;
    assert_int_equal(s->state, SEQUENCE_WAITING);
    read_all(&rig, oldest);
    uint32_t want = (sequence_known(s) + 1 + 15) / 16;
    uint32_t left = blocks_available(&rig.engine->blocks) + youngest->run.first->block_count;
    for (uint32_t i = 0; i < 20 && s->state == SEQUENCE_WAITING; i++)
        steps_read(&rig, middle, youngest, 1);
    assert_int_equal(s->state, SEQUENCE_RUNNING);
    struct request_facts facts;
    request_facts_get(middle, &facts);
    assert_true(left < want || facts.preemptions == 0);
    rig_close(&rig);
    return left == want;
}

static void test_the_middle_keeps_its_blocks(void **state)
{
    (void)state;
    uint32_t just_enough = 0;
    for (uint32_t moment = 0; moment < 64; moment++)
        just_enough += middle_keeps_its_blocks(moment);
    assert_true(just_enough >=
                16); // 16 steps fill a block; the middle one needs one in one of them
}

// No block is reserved for a paused sequence that decodes, although it has none for its next token:
// a prompt that fits exactly does not preempt it. The prompt starts from the second half of the
// tokens, when all reservations are known.
static void test_no_block_is_reserved_for_a_paused_decode(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.max_model_len = 112;
    rig.fake.facts.block_count = rig.fake.facts.blocks_per_sequence_max = 7;
    rig.fake.facts.limits.tokens_max = 40;
    rig.options.prefix_cache = false;
    rig_open(&rig);
    struct request *slow = rig_generate(&rig, 0, 2, 100, 1);
    while (rig_step(&rig) == ENGINE_WORKED)
        continue;
    const struct sequence *s = slow->run.first;
    assert_true(s->paused && s->state == SEQUENCE_RUNNING);
    assert_int_equal(s->planned_len, 64); // four full blocks; its next token needs a fifth
    rig_generate(&rig, 300, 30, 2, 1);    // two blocks, one in each half
    struct request *fits = rig_generate(&rig, 600, 10, 2, 1);
    rig_step(&rig);
    assert_int_equal(fake_batch(rig.model)->row_count, 2);
    assert_int_equal(fits->run.first->state, SEQUENCE_RUNNING);
    assert_int_equal(blocks_available(&rig.engine->blocks), 0);
    assert_int_equal(engine_stats(rig.engine)->preemptions, 0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_contain_pooling_options),
        cmocka_unit_test(test_decodes_come_first),
        cmocka_unit_test(test_encoders_are_packed),
        cmocka_unit_test(test_a_prompt_advances_next_to_full_rows),
        cmocka_unit_test(test_requests_start_round_robin_by_key),
        cmocka_unit_test(test_prefixes_are_computed_once),
        cmocka_unit_test(test_choices_share_their_prompt),
        cmocka_unit_test(test_a_single_choice_without_a_cache_is_not_in_the_table),
        cmocka_unit_test(test_waiting_for_a_block_lets_others_start),
        cmocka_unit_test(test_a_partly_filled_block_is_computed_once),
        cmocka_unit_test(test_blocks_of_a_started_prompt_are_kept),
        cmocka_unit_test(test_a_prompt_is_evicted_from_its_end),
        cmocka_unit_test(test_salts_and_owners_keep_caches_apart),
        cmocka_unit_test(test_without_a_cache_requests_share_nothing),
        cmocka_unit_test(test_the_youngest_is_preempted),
        cmocka_unit_test(test_one_shortage_preempts_one_sequence),
        cmocka_unit_test(test_the_middle_keeps_its_blocks),
        cmocka_unit_test(test_no_block_is_reserved_for_a_paused_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
