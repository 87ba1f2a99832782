// SPDX-License-Identifier: Apache-2.0
// The order of masks when their work exceeds the limit of a step: keys, requests and rows are
// served round-robin, a postponed row gets the same token later, and it delays no other row.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/answers.h"

#include <string.h>

// Returns a grammar of letters in which each letter leads to other states, so that each row has
// masks of its own to build.
static struct grammar *varied(uint32_t which)
{
    struct grammar *g = NULL;
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t letters = grammar_byte(b, 'a', 'z'), root = grammar_literal(b, text_of("a"));
    for (uint32_t i = 0; i < 6 + which; i++)
        root = grammar_join(b, root, grammar_repeat(b, letters, 1, 2 + which));
    assert_int_equal(grammar_finish(b, root, &g, &err), STATUS_OK);
    return g;
}

static uint32_t most_postponed(const struct rig *rig, uint32_t most)
{
    for (uint32_t i = 0; i < rig->engine->sequences_fresh; i++)
        if (rig->engine->sequences[i].postponed > most)
            most = rig->engine->sequences[i].postponed;
    return most;
}

// Runs a step. A postponed row is in the batch again only if it gets its mask in that step; until
// then other rows can use its place in the step.
static void step_in_vain_once(struct rig *rig)
{
    const struct engine *e = rig->engine;
    uint32_t before[2 * CHOICES] = {0};
    assert_in_range(e->sequences_fresh, 0, 2 * CHOICES);
    for (uint32_t i = 0; i < e->sequences_fresh; i++)
        before[i] = e->sequences[i].postponed;
    rig_step(rig);
    assert_int_equal(e->plan.rows_left + e->plan.decode_count + e->plan.prefill_count,
                     e->facts.limits.rows_max);
    for (uint32_t i = 0; i < e->plan.decode_count; i++) {
        uint32_t row = e->plan.decode[i].sequence;
        assert_true(before[row] == 0 || e->sequences[row].postponed == 0);
    }
}

// Runs answers of several grammars together. work: limit of the masks' work per step.
static void answers_of(uint32_t flight, bool prefix_cache, uint64_t work, struct got got[CHOICES])
{
    struct rig rig;
    rig_defaults(&rig);
    rig.fake.facts.steps_in_flight = flight;
    rig.options.prefix_cache = prefix_cache;
    rig.fake.facts.limits.new_sequences_max = 2;
    open_letters(&rig);
    rig.engine->masks.limits = (struct mask_limits){1000000, 0, work, work};
    struct request *requests[CHOICES];
    for (uint32_t i = 0; i < CHOICES; i++) {
        struct grammar *g = varied(i);
        struct submit_args args = request_args(g);
        args.sampling.seed = i;
        args.sampling.repetition = i < 2 ? 1.5f : 1.0f; // there are two penalty rows
        requests[i] = rig_submit(&rig, &args, ADMITTED);
        grammar_unref(g);
    }
    for (uint32_t i = 0, most = 0; i < CHOICES; i++) {
        while (!got[i].last) {
            step_in_vain_once(&rig);
            take(&rig, requests[i], &got[i]);
            most = most_postponed(&rig, most);
        }
        assert_in_range(most, 0, 3 * CHOICES); // no row waits without bound
        port_free(rig.port, requests[i]);
    }
    const struct engine_stats *stats = engine_stats(rig.engine);
    assert_int_equal(stats->grammars_over, 0);
    assert_int_equal(stats->mask_waits, stats->steps_masked + stats->masks_alone);
    assert_true(work < 1000000 ? stats->masks_postponed > CHOICES : stats->masks_postponed == 0);
    assert_int_equal(stats->preemptions, 0);
    assert_int_equal(stats->prompt_tokens_computed, 3 * CHOICES); // no token twice
    rig_close(&rig);
}

// A row that is postponed for the masks of others gets the tokens it gets without them.
static void test_a_postponed_row_has_the_same_token(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < 4; which++) {
        struct got alone[CHOICES] = {{.last = false}}, beside[CHOICES] = {{.last = false}};
        answers_of(which % 2, which < 2, 1000000, alone);
        answers_of(which % 2, which < 2, 1200, beside);
        assert_memory_equal(alone, beside, sizeof alone);
        assert_true(alone[0].count[0] > 5);
    }
}

// An engine with slots for 15 choices whose masks need much work, and for two more.
enum { CROWD = 15 };
struct crowd {
    struct rig rig;
    struct request *requests[CROWD];
    struct got got[CROWD];
};

static void crowd_open(struct crowd *c, uint32_t flight)
{
    struct step_limits *l = &c->rig.fake.facts.limits;
    memset(c, 0, sizeof *c);
    rig_defaults(&c->rig);
    c->rig.fake.facts.steps_in_flight = flight;
    l->rows_max = l->slots_max = CROWD + 2;
    l->new_sequences_max = 2;
    open_letters(&c->rig);
    c->rig.engine->masks.limits = (struct mask_limits){1000000, 0, 1200, 1200};
}

static void crowd_come(struct crowd *c, uint32_t keys)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        struct grammar *g = varied(6 + i % 2);
        struct submit_args args = request_args(g);
        args.sampling.seed = 10 + i;
        args.key_id = 7 + i % keys;
        c->requests[i] = rig_submit(&c->rig, &args, ADMITTED);
        grammar_unref(g);
    }
}

static void crowd_step(struct crowd *c)
{
    rig_step(&c->rig);
    for (uint32_t i = 0; i < CROWD; i++)
        if (c->requests[i])
            take(&c->rig, c->requests[i], &c->got[i]);
}

static void crowd_close(struct crowd *c)
{
    for (uint32_t i = 0; i < CROWD; i++)
        run(&c->rig, c->requests[i], &c->got[i]);
    assert_int_equal(engine_stats(c->rig.engine)->grammars_over, 0);
    rig_close(&c->rig);
}

static uint32_t postponed_now(const struct crowd *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->rig.engine->order_count; i++)
        count += c->rig.engine->order[i]->postponed > 0;
    return count;
}

// Postponed rows hold no sampling records: even if there are more postponed rows than records in a
// step, they do not delay the first token of a new request.
static void test_postponed_rows_do_not_delay_new_requests(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct crowd c;
        struct got plain = {.last = false};
        crowd_open(&c, flight);
        crowd_come(&c, 1);
        for (uint32_t i = 0; postponed_now(&c) < CROWD / 2 && i < ROUNDS; i++)
            crowd_step(&c);
        assert_true(postponed_now(&c) >= CROWD / 2);
        struct request *r = rig_generate(&c.rig, 100, 20, 10, 1);
        for (uint32_t i = 0; i < 3 + flight; i++) {
            crowd_step(&c);
            assert_true(postponed_now(&c) > 2);
        }
        take(&c.rig, r, &plain);
        assert_true(plain.count[0] > 0);
        run(&c.rig, r, &plain);
        crowd_close(&c);
    }
}

// Returns the launch whose rows are in the last round of masks.
static const struct launch *launch_of_round(const struct engine *e)
{
    const struct launch *launch = &e->launches[0];
    while (launch->mask_round != e->mask_order.round)
        launch++;
    return launch;
}

// Among the rows of a key, the one postponed most often is first.
static void test_the_most_postponed_row_is_first(void **state)
{
    (void)state;
    struct crowd c;
    crowd_open(&c, 0);
    crowd_come(&c, 1);
    const struct engine *e = c.rig.engine;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t before[CROWD + 1] = {0}, most = most_postponed(&c.rig, 0);
        for (uint32_t k = 0; k < e->sequences_fresh; k++)
            before[k] = e->sequences[k].postponed;
        crowd_step(&c);
        const struct launch *launch = launch_of_round(e);
        assert_int_equal(before[launch->rows[e->mask_order.rows[0]].sequence], most);
        seen = most > seen ? most : seen;
    }
    assert_true(seen > 1);
    crowd_close(&c);
}

// A postponed row computes the last token of its block again. Other requests share the block
// without waiting for that.
static void test_no_request_waits_for_the_block_of_a_postponed_row(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        struct got got = {.last = false}, longer = {.last = false};
        int32_t tokens[16];
        uint32_t start[] = {0, 16};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        open_letters(&rig);
        rig.engine->masks.limits = (struct mask_limits){.row = 1000000}; // no shared work
        struct grammar *g = rig_cycle(9);
        struct submit_args args = request_args(g);
        for (int32_t i = 0; i < 16; i++)
            tokens[i] = 100 + i;
        args.tokens = tokens, args.sequence_start = start, args.token_count = 16;
        struct request *r = rig_submit(&rig, &args, ADMITTED);
        grammar_unref(g);
        struct request *other = NULL;
        for (uint32_t i = 0; i < 10; i++, rig_step(&rig))
            if (i == 5)
                other = rig_generate(&rig, 100, 20, 5, 1);
        assert_true(most_postponed(&rig, 0) > 2);
        take(&rig, other, &longer);
        assert_true(longer.count[0] > 0);
        rig.engine->masks.limits = mask_limits;
        run(&rig, other, &longer);
        run(&rig, r, &got);
        assert_cycle(&got, 0, 9);
        rig_close(&rig);
    }
}

// Returns the number of steps in which a request gets eight tokens while a crowd with `keys` other
// keys runs. cheap: true if its masks need little work; spent: true if its masks used much work
// before.
static uint32_t steps_beside_a_crowd(uint32_t flight, uint32_t keys, bool cheap, bool spent)
{
    struct crowd c;
    struct got one = {.last = false}, third = {.last = false};
    crowd_open(&c, flight);
    c.rig.engine->masks.limits.own = keys > 1 ? 40 : 0;
    struct grammar *g = cheap ? rig_cycle(39) : varied(5), *little = rig_cycle(38);
    struct submit_args args = request_args(g), args_third = request_args(little);
    args.key_id = 3;
    if (!spent)
        crowd_come(&c, keys);
    struct request *r = rig_submit(&c.rig, &args, ADMITTED);
    struct request *beside = rig_submit(&c.rig, &args_third, ADMITTED);
    grammar_unref(g);
    grammar_unref(little);
    for (uint32_t i = 0; spent && i < 5; i++) {
        rig_step(&c.rig);
        for (uint32_t k = 0; i == 3 && k < c.rig.engine->mask_order.key_count; k++)
            if (c.rig.engine->mask_order.keys[k].key_id == args.key_id)
                c.rig.engine->mask_order.keys[k].spent += 1000000;
    }
    assert_true(!spent || c.rig.engine->mask_order.virtual_time >= 1000000); // of the key with work
    if (spent)
        crowd_come(&c, keys);
    const struct engine_stats *stats = engine_stats(c.rig.engine);
    for (uint32_t i = 0; postponed_now(&c) < CROWD / 2 && i < ROUNDS; i++)
        crowd_step(&c);
    for (uint32_t i = 0; keys > 1 && stats->mask_caches < CROWD + 2 && i < ROUNDS; i++)
        crowd_step(&c); // a step's limit is below the work of one cache
    take(&c.rig, r, &one);
    uint32_t before = one.count[0], steps = 0;
    for (; one.count[0] < before + 8 && !one.last; steps++) {
        crowd_step(&c);
        take(&c.rig, r, &one);
    }
    assert_false(one.last);
    run(&c.rig, r, &one);
    run(&c.rig, beside, &third);
    crowd_close(&c);
    return steps;
}

// Keys share the work of masks round-robin. A key that needs little gets all of it; a key that
// needs as much as the others gets a share, even if its masks used more work before the others
// arrived.
static void test_keys_share_the_work_of_masks(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < 8; which++) {
        bool cheap = which & 2;
        uint32_t steps = steps_beside_a_crowd(which & 1, 1, cheap, which & 4);
        uint32_t least = 8 + (which & 1); // a round of masks may have no batch
        assert_in_range(steps, 8, cheap ? least : 2 * 8);
    }
}

// Among many keys with expensive masks, whose rows all use their private allowance in each step, a
// key that needs little does not wait for all the others after each of its masks.
static void test_a_cheap_key_is_first_among_many(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++)
        assert_in_range(steps_beside_a_crowd(flight, 8, true, false), 8, 12);
}

// Runs a step and checks that, within each request, rows postponed more often come first.
static void step_in_order(struct rig *rig)
{
    const struct engine *e = rig->engine;
    uint32_t before[CROWD + 2] = {0};
    for (uint32_t k = 0; k < e->sequences_fresh; k++)
        before[k] = e->sequences[k].postponed;
    rig_step(rig);
    const struct launch *launch = launch_of_round(e);
    for (uint32_t i = 0; i < e->mask_order.row_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            uint32_t x = launch->rows[e->mask_order.rows[k]].sequence;
            uint32_t y = launch->rows[e->mask_order.rows[i]].sequence;
            if (e->sequences[x].request && e->sequences[x].request == e->sequences[y].request)
                assert_true(before[x] >= before[y]);
        }
}

// Requests of one key share masks round-robin: a request with one choice does not wait for all
// choices of the others each time.
static void test_requests_of_a_key_share_the_work_of_masks(void **state)
{
    (void)state;
    struct crowd c;
    struct got one = {.last = false};
    struct request *r[3] = {NULL};
    crowd_open(&c, 0);
    c.rig.engine->masks.limits = (struct mask_limits){1000000, 0, 300, 300};
    struct grammar *g[] = {varied(7), varied(6), rig_cycle(38)};
    for (uint32_t i = 0; i < 3; i++) {
        struct submit_args args = request_args(g[i]);
        args.choice_count = i < 2 ? CHOICES - 1 : 1;
        args.sampling.seed = i;
        r[i] = rig_submit(&c.rig, &args, ADMITTED);
        grammar_unref(g[i]);
        for (uint32_t k = 0; i == 1 && postponed_now(&c) < CHOICES && k < ROUNDS; k++)
            rig_step(&c.rig);
    }
    for (; one.count[0] == 0; take(&c.rig, r[2], &one))
        rig_step(&c.rig);
    uint32_t before = one.count[0], steps = 0;
    for (; one.count[0] < before + 8 && !one.last; steps++) {
        step_in_order(&c.rig);
        for (uint32_t i = 0; i < 2; i++)
            take(&c.rig, r[i], &c.got[i]);
        take(&c.rig, r[2], &one);
    }
    assert_false(one.last);
    assert_in_range(steps, 8, (3 + 1) * 8); // three requests; the batch follows the mask
    run(&c.rig, r[2], &one);
    for (uint32_t i = 0; i < 2; i++)
        run(&c.rig, r[i], &c.got[i]);
    rig_close(&c.rig);
}

// The choices of a request have the same owner in their mask cache; another request has another
// owner.
static void test_choices_of_a_request_have_one_owner(void **state)
{
    (void)state;
    struct rig rig;
    struct request *r[2];
    rig_defaults(&rig);
    open_letters(&rig);
    struct grammar *g = rig_cycle(9);
    struct submit_args args = request_args(g);
    args.choice_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        r[i] = rig_submit(&rig, &args, ADMITTED);
    grammar_unref(g);
    for (uint32_t i = 0; i < 4; i++)
        rig_step(&rig);
    const void *owner[2][2];
    for (uint32_t i = 0; i < 2; i++) {
        const struct sequence *s = r[i]->run.first;
        owner[i][0] = rig.engine->masks.matchers[s->index].matcher.owner;
        owner[i][1] = rig.engine->masks.matchers[s->sibling->index].matcher.owner;
        assert_non_null(owner[i][0]);
        assert_ptr_equal(owner[i][0], owner[i][1]);
    }
    assert_ptr_not_equal(owner[0][0], owner[1][0]);
    for (uint32_t i = 0; i < 2; i++) {
        struct got got = {.last = false};
        run(&rig, r[i], &got);
    }
    rig_close(&rig);
}

// Masks are shared round-robin by request, not by row: a request with one choice gets as many as a
// request with seven.
static void test_one_choice_gets_as_many_masks_as_seven(void **state)
{
    (void)state;
    struct crowd c;
    struct request *r[2];
    crowd_open(&c, 0);
    c.rig.engine->masks.limits = (struct mask_limits){1000000, 0, 300, 300};
    for (uint32_t i = 0; i < 2; i++) {
        struct grammar *g = varied(7 - i);
        struct submit_args args = request_args(g);
        args.choice_count = i == 0 ? CHOICES - 1 : 1;
        r[i] = rig_submit(&c.rig, &args, ADMITTED);
        grammar_unref(g);
    }
    uint32_t steps = 0;
    for (; !c.got[1].last; steps++) {
        rig_step(&c.rig);
        for (uint32_t i = 0; i < 2; i++)
            take(&c.rig, r[i], &c.got[i]);
    }
    assert_true(c.got[1].count[0] > 5);
    assert_in_range(steps, 12, 20); // 25 if the most postponed row were first
    for (uint32_t i = 0; i < 2; i++)
        run(&c.rig, r[i], &c.got[i]);
    rig_close(&c.rig);
}

// The first mask job of each step belongs to another row.
static void test_the_first_row_rotates(void **state)
{
    (void)state;
    struct rig rig;
    struct got got = {.last = false};
    rig_defaults(&rig);
    open_letters(&rig);
    struct grammar *g = varied(1);
    struct submit_args args = request_args(g);
    args.choice_count = 4;
    struct request *r = rig_submit(&rig, &args, ADMITTED);
    grammar_unref(g);
    for (uint32_t i = 0; i < 4; i++)
        rig_step(&rig); // all choices run
    uint32_t first = 0;
    const struct mask_worker *w = &rig.engine->masks;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t head = atomic_load(&w->ring.head);
        rig_step(&rig);
        assert_int_equal(atomic_load(&w->ring.head) - head, 4);
        first |= 1u << w->job[head & w->ring.mask].row;
    }
    assert_int_equal(first, 15);
    run(&rig, r, &got);
    rig_close(&rig);
}

// Returns a grammar: letters up to m, which share one cheap mask, or a letter from n on and then
// letters with expensive masks.
static struct grammar *cheap_or_dear(void)
{
    struct grammar *g = NULL;
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t letters = grammar_byte(b, 'a', 'z'), dear = grammar_byte(b, 'n', 'z');
    for (uint32_t i = 0; i < 13; i++)
        dear = grammar_join(b, dear, grammar_repeat(b, letters, 1, 9));
    uint32_t cheap = grammar_repeat(b, grammar_byte(b, 'a', 'm'), 1, GRAMMAR_UNBOUNDED);
    assert_int_equal(grammar_finish(b, grammar_either(b, dear, cheap), &g, &err), STATUS_OK);
    return g;
}

// A row with expensive masks does not wait without bound for rows of its request that need no work,
// while other requests of the key have expensive masks in every step.
static void test_cheap_rows_do_not_delay_an_expensive_one(void **state)
{
    (void)state;
    enum { OTHERS = 4 };
    struct rig rig;
    struct got got = {.last = false}, other[OTHERS] = {{.last = false}};
    struct request *others[OTHERS] = {NULL};
    rig_defaults(&rig);
    rig.fake.facts.vocab = rig.fake.facts.limits.vocab = 40; // most are letters
    open_letters(&rig);
    rig.engine->masks.limits = (struct mask_limits){1000000, 0, 300, 300};
    struct grammar *g = cheap_or_dear();
    struct submit_args args = request_args(g);
    args.choice_count = 4;
    struct request *r = rig_submit(&rig, &args, ADMITTED);
    uint32_t most = 0, kinds = 0;
    for (uint32_t i = 0; !got.last && i < ROUNDS; i++) {
        for (uint32_t k = 0; k < OTHERS; k++) {
            if (others[k])
                continue;
            struct grammar *dear = varied(7 + k);
            args = request_args(dear);
            args.sampling.seed = i + k;
            others[k] = rig_submit(&rig, &args, ADMITTED);
            grammar_unref(dear);
        }
        rig_step(&rig);
        take(&rig, r, &got);
        for (const struct sequence *s = r->run.first; s && !got.last; s = s->sibling)
            most = s->postponed > most ? s->postponed : most;
        for (uint32_t k = 0; k < OTHERS; k++) {
            take(&rig, others[k], &other[k]);
            if (!other[k].last)
                continue;
            port_free(rig.port, others[k]);
            others[k] = NULL;
            other[k] = (struct got){.last = false};
        }
    }
    assert_true(got.last);
    for (uint32_t i = 0; i < 4; i++)
        kinds |= got.token[i][0] <= 'm' - 'a' ? 1 : 2;
    assert_int_equal(kinds, 3); // both branches were sampled
    assert_in_range(most, 2, 20);
    port_free(rig.port, r);
    for (uint32_t k = 0; k < OTHERS; k++)
        if (others[k])
            run(&rig, others[k], &other[k]);
    grammar_unref(g);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_postponed_row_has_the_same_token),
        cmocka_unit_test(test_postponed_rows_do_not_delay_new_requests),
        cmocka_unit_test(test_the_most_postponed_row_is_first),
        cmocka_unit_test(test_no_request_waits_for_the_block_of_a_postponed_row),
        cmocka_unit_test(test_keys_share_the_work_of_masks),
        cmocka_unit_test(test_a_cheap_key_is_first_among_many),
        cmocka_unit_test(test_requests_of_a_key_share_the_work_of_masks),
        cmocka_unit_test(test_cheap_rows_do_not_delay_an_expensive_one),
        cmocka_unit_test(test_choices_of_a_request_have_one_owner),
        cmocka_unit_test(test_one_choice_gets_as_many_masks_as_seven),
        cmocka_unit_test(test_the_first_row_rotates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
