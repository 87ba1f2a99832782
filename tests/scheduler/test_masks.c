// SPDX-License-Identifier: Apache-2.0
// Requests with a grammar over the fake model: answers match their grammar, masks are made while a
// step runs, requests without a grammar do not wait for them, and references to grammars are
// released.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/grammar/token_rules.h"
#include "tests/scheduler/answers.h"

#include <string.h>

static struct grammar *literal(const char *text)
{
    struct grammar *g = NULL;
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t root = grammar_literal(b, text_of(text));
    assert_int_equal(grammar_finish(b, root, &g, &err), STATUS_OK);
    return g;
}

// Runs a request with this grammar.
static void answered(struct rig *rig, struct grammar *g, struct got *got)
{
    struct submit_args args = request_args(g);
    run(rig, rig_submit(rig, &args, ADMITTED), got);
}

// The memory that idle caches may keep is the engine's option.
static void test_memory_of_idle_grammars_is_an_option(void **state)
{
    (void)state;
    for (int part = 0; part < 2; part++) {
        struct rig rig;
        rig_defaults(&rig);
        rig.options.mask_idle_bytes = part ? 1000 : 0;
        open_letters(&rig);
        assert_int_equal(rig.engine->masks.idle_bytes_max, part ? 1000 : MASK_IDLE_GRAMMAR_BYTES);
        rig_close(&rig);
    }
}

static void test_an_admitted_request_holds_its_grammar(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.options.max_queued_requests = 1;
    open_letters(&rig);
    struct grammar *g = literal("weft");
    struct submit_args args = request_args(g);
    struct request *r = rig_submit(&rig, &args, ADMITTED);
    assert_int_equal(grammar_owners(g), 2);
    rig_submit(&rig, &args, ADMISSION_BUSY);
    assert_int_equal(grammar_owners(g), 2);
    port_cancel(rig.port, r);
    rig_step(&rig);
    struct token_event event;
    while (port_next(rig.port, r, &event, NULL))
        assert_int_equal(event.finish, FINISH_CANCEL);
    port_free(rig.port, r);
    assert_int_equal(grammar_owners(g), 1);
    grammar_unref(g);
    rig_close(&rig);
}

// The end of the grammar ends the answer, whatever else the request specifies.
static void test_answers_match_their_grammar(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        struct got got[3] = {{.last = false}};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        open_letters(&rig);
        struct grammar *g = rig_cycle(20);
        struct submit_args args = request_args(g);
        args.choice_count = CHOICES;
        run(&rig, rig_submit(&rig, &args, ADMITTED), &got[0]);
        for (uint32_t c = 0; c < CHOICES; c++)
            assert_cycle(&got[0], c, 20);
        args.choice_count = 1;
        args.ignore_end = true;
        args.sampling.output_min = 30;
        run(&rig, rig_submit(&rig, &args, ADMITTED), &got[1]);
        assert_cycle(&got[1], 0, 20);
        args.max_tokens = 10; // only the beginning of the answer
        run(&rig, rig_submit(&rig, &args, ADMITTED), &got[2]);
        assert_int_equal(got[2].count[0], 10);
        assert_int_equal(got[2].finish[0], FINISH_LENGTH);
        const struct engine_stats *stats = engine_stats(rig.engine);
        assert_int_equal(stats->mask_waits, stats->steps_masked);
        assert_int_equal(stats->mask_caches, 1);
        assert_int_equal(grammar_owners(g), 2); // references of this test and of the cache
        rig_close(&rig);
        assert_int_equal(grammar_owners(g), 1);
        grammar_unref(g);
    }
}

// If a grammar requires a stop id before min_tokens, the answer continues after it.
static void test_a_stop_id_of_a_grammar_waits_for_min_tokens(void **state)
{
    (void)state;
    static const int32_t stop = 'c' - 'a';
    for (uint32_t kind = 0; kind < 4; kind++) {
        struct rig rig;
        struct got got = {.last = false};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = kind % 2;
        open_letters(&rig);
        struct grammar *g = rig_cycle(20);
        struct submit_args args = request_args(g);
        args.stop_ids = &stop;
        args.stop_id_count = 1;
        args.ignore_end = kind >= 2;
        args.sampling.output_min = 3; // "abc"
        run(&rig, rig_submit(&rig, &args, ADMITTED), &got);
        assert_int_equal(got.finish[0], FINISH_STOP);
        assert_int_equal(got.count[0], 10); // "abcdefgabc"
        grammar_unref(g);
        rig_close(&rig);
    }
}

static void test_a_mask_that_costs_too_much_ends_its_choice(void **state)
{
    struct rig rig;
    struct got got = {.last = false};
    (void)state;
    rig_defaults(&rig);
    open_letters(&rig);
    rig.engine->masks.limits = (struct mask_limits){1, 1, 1, 1};
    struct grammar *g = rig_cycle(30);
    struct submit_args args = request_args(g);
    run(&rig, rig_submit(&rig, &args, ADMITTED), &got);
    grammar_unref(g);
    assert_int_equal(got.count[0], 0);
    assert_int_equal(got.finish[0], FINISH_OVER);
    assert_int_equal(engine_stats(rig.engine)->grammars_over, 1);
    assert_int_equal(engine_stats(rig.engine)->grammars_stuck, 0);
    assert_int_equal(engine_stats(rig.engine)->grammars_crowded, 0);
    rig_close(&rig);
}

// If answers of another grammar use all caches, the choice ends with FINISH_CROWDED.
static void test_a_choice_without_a_cache_is_crowded_out(void **state)
{
    (void)state;
    struct rig rig;
    struct got first = {.last = false}, second = {.last = false};
    rig_defaults(&rig);
    open_letters(&rig);
    struct error err;
    mask_thread_close(&rig.engine->masks); // the thread reads cache_count when it starts
    rig.engine->masks.cache_count = 1;
    assert_int_equal(mask_thread_open(&rig.engine->masks, &err), STATUS_OK);
    struct grammar *g[2] = {rig_cycle(20), rig_cycle(9)};
    struct submit_args args = request_args(g[0]);
    struct request *stays = rig_submit(&rig, &args, ADMITTED);
    rig_step(&rig);
    args.grammar = g[1];
    run(&rig, rig_submit(&rig, &args, ADMITTED), &second);
    assert_int_equal(second.count[0], 0);
    assert_int_equal(second.finish[0], FINISH_CROWDED);
    const struct engine_stats *stats = engine_stats(rig.engine);
    assert_int_equal(stats->grammars_crowded, 1);
    assert_int_equal(stats->grammars_over + stats->grammars_stuck, 0);
    run(&rig, stays, &first);
    assert_cycle(&first, 0, 20);
    assert_int_equal(stats->grammars_crowded, 1);
    for (int i = 0; i < 2; i++)
        grammar_unref(g[i]);
    rig_close(&rig);
}

// The grammar needs 'w' and then a digit, which no token has. That choice fails, and the others
// continue.
static void test_only_the_stuck_choice_fails(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        struct got stuck = {.last = false}, other = {.last = false};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        open_letters(&rig);
        struct grammar *bad = literal("w1"), *good = rig_cycle(9);
        struct submit_args args = request_args(bad);
        struct request *first = rig_submit(&rig, &args, ADMITTED);
        args.grammar = good;
        struct request *second = rig_submit(&rig, &args, ADMITTED);
        grammar_unref(bad);
        grammar_unref(good);
        run(&rig, first, &stuck);
        run(&rig, second, &other);
        assert_int_equal(stuck.count[0], 1);
        assert_int_equal(stuck.token[0][0], 'w' - 'a');
        assert_int_equal(stuck.finish[0], FINISH_STUCK);
        assert_cycle(&other, 0, 9);
        assert_int_equal(engine_stats(rig.engine)->grammars_stuck, 1);
        assert_int_equal(engine_stats(rig.engine)->grammars_crowded, 0);
        assert_int_equal(engine_stats(rig.engine)->finished_error, 1);
        rig_close(&rig);
    }
}

// Without end ids, an answer ends when nothing can follow.
static void test_a_model_without_end_ids_ends_its_answers(void **state)
{
    (void)state;
    struct rig rig;
    struct got got = {.last = false};
    rig_defaults(&rig);
    rig.fake.facts.end_count = 0;
    open_letters(&rig);
    struct grammar *g = literal("weft");
    answered(&rig, g, &got);
    grammar_unref(g);
    assert_int_equal(got.count[0], 4);
    assert_int_equal(got.finish[0], FINISH_STOP);
    rig_close(&rig);
}

// With one step in flight, a masked step is launched before its mask's last token is known. Steps
// without masked rows wait for no mask.
static void test_a_masked_step_is_launched_before_the_last_is_settled(void **state)
{
    (void)state;
    struct rig rig;
    struct got got = {.last = false}, free = {.last = false};
    rig_defaults(&rig);
    rig.fake.facts.steps_in_flight = 1;
    open_letters(&rig);
    const struct engine_stats *stats = engine_stats(rig.engine);
    run(&rig, rig_generate(&rig, 10, 20, 30, 2), &free);
    assert_int_equal(stats->mask_waits, 0);
    assert_int_equal(stats->steps_masked, 0);
    uint64_t before = fake_overlaps(rig.model), steps = fake_steps(rig.model);
    struct grammar *g = rig_cycle(30);
    answered(&rig, g, &got);
    grammar_unref(g);
    assert_cycle(&got, 0, 30);
    // All steps but the first overlap. The last step has a row of the ended answer.
    assert_int_equal(fake_overlaps(rig.model) - before, fake_steps(rig.model) - steps - 1);
    assert_int_equal(stats->steps_masked, fake_steps(rig.model) - steps);
    assert_int_equal(stats->mask_waits, stats->steps_masked);
    rig_close(&rig);
}

// Token rules apply to choices without a grammar. If they exclude everything that a grammar allows,
// only the grammar applies.
static void test_rules_hold_with_and_without_a_grammar(void **state)
{
    (void)state;
    static const int32_t allowed[] = {10, 11, 12}, bad[] = {10, 11, 12, 12, 12};
    static const uint32_t start[] = {0, 2, 5};
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        struct got free = {.last = false}, got = {.last = false};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        open_letters(&rig);
        struct token_rules_args rules = {rig.fake.facts.vocab, allowed, 3, bad, start, 2};
        struct submit_args args = request_args(NULL);
        args.rules = token_rules_create(&rules);
        args.choice_count = 4;
        run(&rig, rig_submit(&rig, &args, ADMITTED), &free);
        for (uint32_t c = 0; c < 4; c++) {
            const int32_t *t = free.token[c];
            assert_int_equal(free.count[c], 40);
            assert_int_equal(free.finish[c], FINISH_LENGTH);
            for (uint32_t i = 0; i < 40; i++) {
                assert_in_range(t[i], 10, 12);
                assert_false(i > 0 && t[i - 1] == 10 && t[i] == 11);
                assert_false(i > 1 && t[i - 2] == 12 && t[i - 1] == 12 && t[i] == 12);
            }
        }
        args.grammar = rig_cycle(12); // letters whose ids the rules do not allow
        args.choice_count = 1;
        run(&rig, rig_submit(&rig, &args, ADMITTED), &got);
        assert_cycle(&got, 0, 12);
        grammar_unref(args.grammar);
        rig_close(&rig);
        assert_int_equal(token_rules_owners(args.rules), 1);
        token_rules_unref(args.rules);
    }
}

// Rules with a reasoning budget: every answer begins inside reasoning, which `close` ends and "b"
// would start again.
static struct token_rules *limited_by(uint32_t vocab, uint32_t tokens, const char close[2])
{
    static const int32_t allowed[] = {1, 2, 3, 4, 40, 41};
    static const struct token_budget_mark open = {{"b", 1}, BUDGET_OPEN};
    int32_t forced[] = {close[0] - 'a', close[1] - 'a'};
    struct token_rules_args args = {vocab, allowed, 6, NULL, NULL, 0};
    struct token_rules *r = token_rules_create(&args);
    struct token_budget budget;
    token_budget_make(&budget, &(struct token_budget_args){.tokens_max = tokens,
                                                           .marks = &open,
                                                           .mark_count = 1,
                                                           .close = text_span(close, 2),
                                                           .forced = forced,
                                                           .inside = true});
    token_rules_limit(r, &budget);
    return r;
}

static struct token_rules *limited(uint32_t vocab, uint32_t tokens)
{
    return limited_by(vocab, tokens, "yz");
}

// Returns a grammar: anything up to "yz", then "abc".
static struct grammar *thoughts_then_abc(void)
{
    struct grammar *g = NULL;
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct grammar_marker marker = {.text = text_of("yz"),
                                    .then = grammar_literal(b, text_of("abc"))};
    struct grammar_free_part part = {.markers = &marker, .count = 1, .must = true};
    uint32_t root = grammar_free_part(b, &part);
    assert_int_equal(grammar_finish(b, root, &g, &err), STATUS_OK);
    return g;
}

// If ends are ignored, a budget can close the reasoning with an end id.
static void test_a_budget_may_close_with_an_end(void **state)
{
    (void)state;
    struct rig rig;
    struct got got = {.last = false};
    static const char close[] = {'y', 'a' + END};
    rig_defaults(&rig);
    open_letters(&rig);
    struct submit_args args = request_args(NULL);
    args.rules = limited_by(rig.fake.facts.vocab, 5, close);
    args.ignore_end = true;
    run(&rig, rig_submit(&rig, &args, ADMITTED), &got);
    assert_int_equal(got.count[0], 40);
    for (uint32_t i = 0; i < 40; i++)
        if (got.token[0][i] == END || i == 6)
            assert_true(got.token[0][i] == END && i == 6);
    rig_close(&rig);
    token_rules_unref(args.rules);
}

// The budget forces the closing ids in each choice after the given number of tokens, although no
// other rule allows them. If a grammar allows them at that point, they are forced too; otherwise
// only the grammar applies.
static void test_a_budget_ends_the_reasoning(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        struct got free = {.last = false}, got = {.last = false}, cycle = {.last = false};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        open_letters(&rig);
        struct submit_args args = request_args(NULL);
        args.rules = limited(rig.fake.facts.vocab, 5);
        args.choice_count = CHOICES;
        run(&rig, rig_submit(&rig, &args, ADMITTED), &free);
        for (uint32_t c = 0; c < CHOICES; c++) {
            assert_int_equal(free.count[c], 40);
            for (uint32_t i = 0; i < 40; i++) {
                int32_t t = free.token[c][i];
                if (i == 5 || i == 6)
                    assert_int_equal(t, 'y' - 'a' + (int32_t)i - 5);
                else if (i == 7)
                    assert_int_not_equal(t, 'b' - 'a');
                else
                    assert_true((t >= 1 && t <= 4) || t == 40 || t == 41);
            }
        }
        args.grammar = thoughts_then_abc();
        args.choice_count = 1;
        run(&rig, rig_submit(&rig, &args, ADMITTED), &got);
        static const int32_t end[] = {'y' - 'a', 'z' - 'a', 0, 1, 2, END};
        assert_int_equal(got.count[0], 11);
        assert_memory_equal(got.token[0] + 5, end, sizeof end);
        grammar_unref(args.grammar);
        args.grammar = rig_cycle(12);
        run(&rig, rig_submit(&rig, &args, ADMITTED), &cycle);
        assert_cycle(&cycle, 0, 12);
        grammar_unref(args.grammar);
        rig_close(&rig);
        assert_int_equal(token_rules_owners(args.rules), 1);
        token_rules_unref(args.rules);
    }
}

// The first mask of an answer needs no token: its step is sampled while the previous one is in
// flight.
static void test_a_first_mask_waits_for_no_step(void **state)
{
    (void)state;
    struct rig rig;
    struct got got = {.last = false}, free = {.last = false};
    rig_defaults(&rig);
    rig.fake.facts.steps_in_flight = 1;
    open_letters(&rig);
    struct request *running = rig_generate(&rig, 10, 20, 60, 1);
    for (uint32_t i = 0; i < 5; i++)
        rig_step(&rig);
    struct grammar *g = rig_cycle(9);
    answered(&rig, g, &got);
    grammar_unref(g);
    assert_cycle(&got, 0, 9);
    assert_int_equal(fake_ahead(rig.model), 1);
    run(&rig, running, &free);
    rig_close(&rig);
}

// Choices without a grammar have the same tokens with and without masked rows in their steps.
static void test_free_choices_do_not_change(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        struct got alone = {.last = false}, beside = {.last = false}, got = {.last = false};
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        open_letters(&rig);
        run(&rig, rig_generate(&rig, 10, 20, 30, 4), &alone);
        struct grammar *g = rig_cycle(30);
        struct submit_args args = request_args(g);
        args.choice_count = 4;
        struct request *r = rig_submit(&rig, &args, ADMITTED);
        grammar_unref(g);
        run(&rig, rig_generate(&rig, 10, 20, 30, 4), &beside);
        run(&rig, r, &got);
        assert_memory_equal(&alone, &beside, sizeof alone);
        for (uint32_t c = 0; c < 4; c++)
            assert_cycle(&got, c, 30);
        rig_close(&rig);
    }
}

// Caches of unused grammars are evicted; the table's size is never exceeded.
static void test_caches_of_unused_grammars_are_evicted(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    open_letters(&rig);
    uint32_t most = rig.fake.facts.limits.slots_max + MASK_CACHES_MORE;
    struct grammar *first = rig_cycle(3);
    for (uint32_t i = 0; i < most + 20; i++) {
        struct got got = {.last = false};
        struct grammar *g = i == 0 ? grammar_ref(first) : rig_cycle(1 + i % 30);
        answered(&rig, g, &got);
        assert_cycle(&got, 0, i == 0 ? 3 : 1 + i % 30);
        grammar_unref(g);
        assert_true(engine_stats(rig.engine)->mask_caches <= most);
    }
    assert_int_equal(grammar_owners(first), 1);
    grammar_unref(first);
    rig_close(&rig);
}

// The device fails while a step is launched and not sampled. The device slot is released.
static void test_a_fault_between_launch_and_sample_releases_the_slot(void **state)
{
    (void)state;
    struct rig rig;
    struct got got = {.last = false};
    rig_defaults(&rig);
    rig.fake.facts.steps_in_flight = 1;
    open_letters(&rig);
    fake_fault(rig.model, 5, true);
    struct grammar *g = rig_cycle(30);
    answered(&rig, g, &got);
    assert_int_equal(got.finish[0], FINISH_ERROR);
    assert_int_equal(fake_steps(rig.model), 6);
    assert_false(fake_turn(rig.model));
    rig_close(&rig);
    assert_int_equal(grammar_owners(g), 1);
    grammar_unref(g);
}

// Returns the grammar of text in which `call` follows each "c", and its table.
static struct grammar *calls_after_c(struct rig *rig, const char *call, struct token_watch **watch)
{
    struct grammar *g = NULL;
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t rule, answer = grammar_rule(b, text_of("answer"), &rule);
    struct grammar_marker marker = {.text = text_of("c")};
    marker.then = grammar_join(b, grammar_literal(b, text_of(call)), answer);
    struct grammar_free_part part = {.markers = &marker, .count = 1};
    grammar_rule_set(b, rule, grammar_free_part(b, &part));
    assert_int_equal(grammar_finish(b, answer, &g, &err), STATUS_OK);
    marker.then = TOKEN_THEN_GRAMMAR;
    struct token_watch_args args = {
        .vocabulary = rig->options.vocabulary, .markers = &marker, .count = 1};
    *watch = token_watch_create(&args);
    return g;
}

// Answers with optional calls: with the first grammar, calls can be written; with the second, no
// token has the byte that follows the marker.
static void optional_calls(uint32_t flight, bool written)
{
    struct rig rig;
    struct got got = {.last = false};
    struct token_watch *watch;
    uint32_t calls = 0;
    rig_defaults(&rig);
    rig.fake.facts.steps_in_flight = flight;
    open_letters(&rig);
    struct grammar *g = calls_after_c(&rig, written ? "ab" : "!", &watch);
    struct submit_args args = request_args(g);
    args.watch = watch;
    args.watch_phase = TOKEN_TEXT;
    args.choice_count = CHOICES;
    args.ignore_end = true;
    args.max_tokens = TOKENS;
    run(&rig, rig_submit(&rig, &args, ADMITTED), &got);
    for (uint32_t choice = 0; choice < CHOICES; choice++) {
        assert_int_equal(got.count[choice], TOKENS);
        assert_int_equal(got.finish[choice], FINISH_LENGTH);
        for (uint32_t i = 0; i + 2 < TOKENS; i++) {
            const int32_t *token = &got.token[choice][i];
            calls += token[0] == 'c' - 'a';
            assert_true(!written || token[0] != 'c' - 'a' || (token[1] == 0 && token[2] == 1));
        }
    }
    const struct engine_stats *stats = engine_stats(rig.engine);
    assert_true(calls > 0);
    assert_int_equal(stats->grammars_stuck + stats->grammars_over + stats->grammars_crowded, 0);
    if (written) { // two rows inside of a call, and one that finds its end
        assert_int_equal(stats->grammars_given_up, 0);
        assert_in_range(stats->mask_rows, 2 * calls, 3 * (calls + 2 * CHOICES));
    } else {
        assert_in_range(stats->grammars_given_up, 1, CHOICES);
        assert_in_range(stats->mask_rows, 1, CHOICES);
    }
    rig_close(&rig);
    assert_int_equal(token_watch_owners(watch), 1);
    token_watch_unref(watch);
    grammar_unref(g);
}

static void test_optional_calls_have_masks_only_inside(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++)
        optional_calls(flight, true);
}

static void test_optional_calls_that_cannot_be_written_end_no_answer(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++)
        optional_calls(flight, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_admitted_request_holds_its_grammar),
        cmocka_unit_test(test_memory_of_idle_grammars_is_an_option),
        cmocka_unit_test(test_answers_match_their_grammar),
        cmocka_unit_test(test_a_stop_id_of_a_grammar_waits_for_min_tokens),
        cmocka_unit_test(test_a_mask_that_costs_too_much_ends_its_choice),
        cmocka_unit_test(test_a_choice_without_a_cache_is_crowded_out),
        cmocka_unit_test(test_only_the_stuck_choice_fails),
        cmocka_unit_test(test_a_model_without_end_ids_ends_its_answers),
        cmocka_unit_test(test_a_masked_step_is_launched_before_the_last_is_settled),
        cmocka_unit_test(test_rules_hold_with_and_without_a_grammar),
        cmocka_unit_test(test_a_budget_ends_the_reasoning),
        cmocka_unit_test(test_a_budget_may_close_with_an_end),
        cmocka_unit_test(test_a_first_mask_waits_for_no_step),
        cmocka_unit_test(test_free_choices_do_not_change),
        cmocka_unit_test(test_caches_of_unused_grammars_are_evicted),
        cmocka_unit_test(test_a_fault_between_launch_and_sample_releases_the_slot),
        cmocka_unit_test(test_optional_calls_have_masks_only_inside),
        cmocka_unit_test(test_optional_calls_that_cannot_be_written_end_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
