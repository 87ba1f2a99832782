// SPDX-License-Identifier: Apache-2.0
// Prefill chunks sized according to the measured time of steps (decision 0013): the rule without an
// engine, and in an engine whose clock a cost model advances, with 16 clients that send the next
// prompt after each answer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 16, BUDGET = 342, CONTEXT = 2048, GAPS_MAX = 1 << 20 };

static const double base_ms = 60, token_ms = 3.3; // measured with 0.5 G parameters on two cores

struct client_state {
    struct request *request;
    uint64_t token_ns; // time of its last token, ns; 0: none yet
};

struct world {
    struct rig rig;
    struct dice dice;
    struct client_state clients[CLIENTS];
    uint32_t prompt_from, prompt_to, output_from, output_to;
    bool disturbed;
    uint64_t tokens, computed;
    uint32_t gap_count;
    double *gaps; // milliseconds between two tokens of a client
};

static void world_open(struct world *w, double stretch)
{
    rig_defaults(&w->rig);
    struct model_facts *f = &w->rig.fake.facts;
    w->rig.fake.cheap = true;
    f->max_model_len = CONTEXT;
    f->block_tokens = 64;
    f->blocks_per_sequence_max = f->limits.blocks_max = CONTEXT / 64;
    f->block_count = CLIENTS * CONTEXT / 64;
    f->limits.rows_max = f->limits.slots_max = f->limits.new_sequences_max = CLIENTS;
    f->limits.tokens_max = BUDGET;
    f->limits.changes_max = 4 * CONTEXT / 64;
    f->limits.history_max = CONTEXT;
    w->rig.options.max_queued_tokens = CLIENTS * CONTEXT;
    w->rig.options.prefix_cache = false;
    w->rig.options.step_stretch = stretch;
    rig_open(&w->rig);
    w->dice.state = 11;
    w->gaps = calloc(GAPS_MAX, sizeof *w->gaps);
}

static void client_sends(struct world *w, struct client_state *c)
{
    uint32_t prompt = w->prompt_from + roll(&w->dice, w->prompt_to - w->prompt_from + 1);
    uint32_t output = w->output_from + roll(&w->dice, w->output_to - w->output_from + 1);
    c->request = rig_generate(&w->rig, (int32_t)roll(&w->dice, 1000), prompt, output, 1);
    c->token_ns = 0;
}

static void client_reads(struct world *w, struct client_state *c)
{
    struct token_event event;
    while (port_next(w->rig.port, c->request, &event, NULL)) {
        if (c->token_ns > 0 && w->gap_count < GAPS_MAX)
            w->gaps[w->gap_count++] = (double)(w->rig.now_ns - c->token_ns) * 1e-6;
        c->token_ns = w->rig.now_ns;
        w->tokens++;
        if (!(event.flags & EVENT_LAST))
            continue;
        port_free(w->rig.port, c->request);
        client_sends(w, c);
        return;
    }
}

// Returns the factor on a step's time: 0.9 to 1.1, or 0.8 to 1.7 if other processes use the CPUs.
static double noise(struct world *w)
{
    double x = roll(&w->dice, 1000) * 1e-3;
    return w->disturbed ? 0.8 + 0.9 * x * (roll(&w->dice, 1000) * 1e-3) : 0.9 + 0.2 * x;
}

// Runs a step. About one step in 500 takes three times as long, as if another process had the CPU.
static void world_step(struct world *w)
{
    engine_step(w->rig.engine, w->rig.now_ns);
    const struct engine_stats *stats = engine_stats(w->rig.engine);
    uint64_t tokens = stats->tokens_computed - w->computed;
    w->computed = stats->tokens_computed;
    double ms = base_ms + token_ms * (double)tokens;
    ms *= noise(w);
    ms *= roll(&w->dice, 500) == 0 ? 3 : 1;
    w->rig.now_ns += (uint64_t)(ms * 1e6);
    for (uint32_t i = 0; i < CLIENTS; i++)
        client_reads(w, &w->clients[i]);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct outcome {
    double p50, p99, rate; // milliseconds, milliseconds, tokens per second
};

// Simulates one hour.
static struct outcome world_run(double stretch, uint32_t prompt, uint32_t output, bool disturbed)
{
    struct world w = {.disturbed = disturbed,
                      .prompt_from = prompt / 2,
                      .prompt_to = prompt * 3 / 2,
                      .output_from = output / 2,
                      .output_to = output * 3 / 2};
    world_open(&w, stretch);
    uint64_t begin = w.rig.now_ns;
    for (uint32_t i = 0; i < CLIENTS; i++)
        client_sends(&w, &w.clients[i]);
    while (w.rig.now_ns - begin < 3600 * (uint64_t)1000000000)
        world_step(&w);
    qsort(w.gaps, w.gap_count, sizeof *w.gaps, ascending);
    struct outcome out = {.p50 = w.gaps[w.gap_count / 2],
                          .p99 = w.gaps[(uint64_t)w.gap_count * 99 / 100],
                          .rate = (double)w.tokens / 3600};
    print_message("stretch %.1f, prompts of %u, outputs of %u: p50 %.0f ms, p99 %.0f ms, %.1f "
                  "tokens a second\n",
                  stretch, prompt, output, out.p50, out.p99, out.rate);
    free(w.gaps);
    rig_close(&w.rig);
    return out;
}

// The 99th percentile gap stays within three times the median at 95% of the rate, whether prompts
// are most of the work or little of it.
static void test_tokens_come_evenly(void **state)
{
    (void)state;
    static const uint32_t loads[][2] = {{64, 256}, {128, 128}, {512, 128},
                                        {90, 200}, {1024, 64}, {300, 300}};
    for (size_t i = 0; i < 2 * sizeof loads / sizeof *loads; i++) {
        const uint32_t *load = loads[i / 2];
        struct outcome without = world_run(0, load[0], load[1], i % 2);
        struct outcome with = world_run(2.5, load[0], load[1], i % 2);
        assert_true(with.p99 <= 3 * with.p50);
        assert_true(with.rate >= 0.95 * without.rate);
    }
}

static void note(struct pace *p, uint32_t tokens, uint32_t allowed, uint64_t ns, uint32_t times)
{
    struct pace_step step = {.decodes = 4, .allowed = allowed, .tokens = tokens, .ns = ns};
    for (uint32_t i = 0; i < times; i++)
        pace_note(p, &step);
}

// A step of decodes takes 100 ns, each prompt token adds 2 ns.
static void test_tokens_follow_the_measured_time(void **state)
{
    (void)state;
    struct pace p;
    pace_init(&p, 2.5);
    assert_int_equal(pace_tokens(&p, 300), 0); // first a step of decodes is measured
    note(&p, 0, 0, 100, 4);
    assert_int_equal(pace_tokens(&p, 300), PACE_TOKENS_MIN); // then with the fewest prompt tokens
    assert_int_equal(pace_tokens(&p, 5), 5);
    note(&p, 50, 300, 200, 1);
    assert_int_equal(pace_tokens(&p, 300), 75); // 100 + 75 * 2 = 250 ns
    assert_int_equal(pace_tokens(&p, 40), 40);  // the step allows no more
    note(&p, 75, 75, 250, 20);                  // prompts wait, but most steps are short
    note(&p, 0, 75, 100, 30);
    assert_int_equal(pace_tokens(&p, 300), 75);
    note(&p, 75, 75, 250, PACE_WINDOW); // prompts wait in all steps: 2.5 times the median of 250
    assert_in_range(pace_tokens(&p, 300), 255, 265);
    note(&p, 10, 260, 120, 8); // prompts arrive more slowly
    assert_int_equal(pace_tokens(&p, 300), 75);
    note(&p, 0, 75, 100000000, 1); // another process had the CPU
    assert_in_range(pace_tokens(&p, 300), 75, 110);
    struct pace_step alone = {.decodes = 0, .allowed = 300, .tokens = 300, .ns = 1};
    struct pace before = p;
    pace_note(&p, &alone); // no decodes: not measured
    assert_memory_equal(&p, &before, sizeof p);
}

static void test_a_slow_prompt_gets_the_minimum(void **state)
{
    (void)state;
    struct pace p;
    pace_init(&p, 2.5);
    note(&p, 0, 300, 100, 4);
    note(&p, 10, 300, 100100, 4);
    assert_int_equal(pace_tokens(&p, 300), PACE_TOKENS_MIN);
    pace_init(&p, 0);
    assert_int_equal(pace_tokens(&p, 300), 300);
    note(&p, 0, 300, 100, 4);
    note(&p, 10, 300, 100100, 4);
    assert_int_equal(pace_tokens(&p, 300), 300); // stretch 0: no limit
}

// A step takes 100 ns for decodes and 2 ns per prompt token; some steps exceed their target.
static void test_chunks_shrink_if_steps_overrun_and_grow_again(void **state)
{
    (void)state;
    struct pace p;
    pace_init(&p, 2.5);
    note(&p, 0, 0, 100, 3 * PACE_WINDOW);
    note(&p, 75, 75, 250, 1);
    assert_int_equal(pace_tokens(&p, 300), 75);
    note(&p, 75, 75, 255, 1); // over 250
    assert_in_range(pace_tokens(&p, 300), 40, 46);
    note(&p, 75, 75, 255, 3);
    assert_int_equal(pace_tokens(&p, 300), PACE_TOKENS_MIN); // not below the minimum
    note(&p, 0, 16, 100, 3 * PACE_WINDOW); // steps without prompts do not change it
    assert_int_equal(pace_tokens(&p, 300), PACE_TOKENS_MIN);
    for (uint32_t i = 0; i < 300; i++) {
        note(&p, 16, 16, 132, 1);
        note(&p, 0, 16, 100, 2);
    }
    assert_in_range(pace_tokens(&p, 300), 70, 76);
}

// Prompt tokens are limited only in steps with decodes; otherwise a prompt gets the whole step.
static void test_only_decodes_bound_a_step(void **state)
{
    (void)state;
    struct rig rig;
    struct pace learned;
    pace_init(&learned, 2.5);
    note(&learned, 0, 0, 100, 3 * PACE_WINDOW);
    note(&learned, 75, 75, 250, 1);
    assert_int_equal(pace_tokens(&learned, 127), 75);
    rig_defaults(&rig);
    rig_open(&rig);
    rig_generate(&rig, 0, 120, 100, 1);
    rig.engine->pace = learned;
    rig_step(&rig);
    assert_int_equal(fake_batch(rig.model)->computed_count, 120);
    rig_generate(&rig, 300, 120, 100, 1);
    rig.engine->pace = learned;
    rig.engine->pace.began_ns = 0; // the first step is not measured
    rig_step(&rig);
    assert_int_equal(fake_batch(rig.model)->computed_count, 1 + 75);
    rig_close(&rig);
}

// Time in which no step runs is not measured.
static void test_a_pause_is_not_measured(void **state)
{
    (void)state;
    struct pace p;
    pace_init(&p, 2.5);
    pace_end(&p, 5000); // nothing runs yet
    assert_int_equal(p.count, 0);
    assert_int_equal(pace_begin(&p, 4, 300, true), 0);
    pace_planned(&p, 0, 10000);
    pace_end(&p, 10100);
    assert_int_equal(p.count, 1);
    assert_true(p.base_ns == 100);
    assert_int_equal(pace_begin(&p, 4, 300, true), PACE_TOKENS_MIN); // a plan that finds no rows
    pace_end(&p, 99999);
    assert_int_equal(p.count, 1);
    assert_true(p.base_ns == 100);
    assert_int_equal(pace_begin(&p, 0, 300, false), 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_follow_the_measured_time),
        cmocka_unit_test(test_chunks_shrink_if_steps_overrun_and_grow_again),
        cmocka_unit_test(test_a_slow_prompt_gets_the_minimum),
        cmocka_unit_test(test_only_decodes_bound_a_step),
        cmocka_unit_test(test_tokens_come_evenly),
        cmocka_unit_test(test_a_pause_is_not_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
