// SPDX-License-Identifier: Apache-2.0
// The mask worker without an engine and without a thread: the work that the rows of a step share,
// rows that are postponed or end, evicted caches, references that are released.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/grammar/mask.h"
#include "runtime/grammar/token_rules.h"
#include "tests/scheduler/rig.h"

#include <string.h>

enum { SEATS = 8, CACHES = 2, WORDS = 32, JOBS = 16 };

struct alone { // a worker without an engine and without a thread
    struct mask_worker worker;
    struct mask_job jobs[JOBS];
    struct sequence_matcher matchers[SEATS];
    struct grammar_cache caches[CACHES];
    uint8_t verdicts[SEATS], phases[SEATS];
    uint32_t spent[SEATS], spare[WORDS];
    struct engine_stats stats;
    uint32_t rows[SEATS][WORDS];
};

static void alone_open(struct alone *a, uint32_t caches)
{
    struct rig rig;
    memset(a, 0, sizeof *a);
    rig_defaults(&rig);
    a->worker = (struct mask_worker){.job = a->jobs,
                                     .verdict = a->verdicts,
                                     .phase = a->phases,
                                     .spent = a->spent,
                                     .spare = a->spare,
                                     .vocabulary = rig_letters(&rig),
                                     .words = WORDS,
                                     .stats = &a->stats,
                                     .matchers = a->matchers,
                                     .caches = a->caches,
                                     .matcher_count = SEATS,
                                     .limits = mask_limits,
                                     .round = UINT64_MAX, // no round yet
                                     .idle_bytes_max = MASK_IDLE_GRAMMAR_BYTES,
                                     .cache_count = caches};
    a->worker.ring.mask = JOBS - 1;
}

static void job_push(struct alone *a, struct mask_job job)
{
    a->jobs[ring_place(&a->worker.ring)] = job;
    ring_publish(&a->worker.ring);
}

// choice: true if all sequences are choices of one request.
static void begin_of(struct alone *a, uint32_t sequence, struct grammar *g, bool choice)
{
    job_push(a, (struct mask_job){.grammar = grammar_ref(g),
                                  .request = a->rows[choice ? 0 : sequence],
                                  .words = a->rows[sequence],
                                  .sequence = sequence,
                                  .row = sequence,
                                  .round = 1,
                                  .token = MASK_NO_TOKEN});
}

static void begin_push(struct alone *a, uint32_t sequence, struct grammar *g)
{
    begin_of(a, sequence, g, false);
}

// If matchers use all caches of the table, a sequence with another grammar is crowded out. When
// they end, it gets a cache.
static void test_a_full_table_of_caches(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 1);
    struct grammar *one = rig_cycle(3), *other = rig_cycle(4);
    begin_push(&a, 0, one);
    begin_push(&a, 1, other);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[0], MASK_USABLE);
    assert_int_equal(a.verdicts[1], MASK_CROWDED);
    assert_int_equal(grammar_owners(other), 1);
    for (uint32_t s = 0; s < 2; s++)
        job_push(&a, (struct mask_job){.sequence = s, .token = MASK_NO_TOKEN});
    begin_push(&a, 1, other);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[1], MASK_USABLE);
    assert_int_equal(a.rows[1][0], 1); // only 'a' is allowed
    assert_int_equal(a.stats.mask_caches, 1);
    mask_worker_empty(&a.worker);
    assert_int_equal(a.stats.mask_caches, 0);
    assert_int_equal(grammar_owners(one), 1);
    assert_int_equal(grammar_owners(other), 1);
    grammar_unref(one);
    grammar_unref(other);
    vocabulary_unref(a.worker.vocabulary);
}

// If large caches use the memory, a further grammar gets a small cache.
static void test_a_cache_next_to_large_ones_is_small(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, CACHES);
    struct grammar *one = rig_cycle(3), *other = rig_cycle(4);
    begin_push(&a, 0, one);
    mask_work(&a.worker);
    a.caches[0].bytes_max = (size_t)512 << 20;
    begin_push(&a, 1, other);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[1], MASK_USABLE);
    assert_int_equal(a.caches[1].bytes_max, 4 << 20);
    mask_worker_empty(&a.worker);
    vocabulary_unref(a.worker.vocabulary);
    grammar_unref(one);
    grammar_unref(other);
}

static void token_push(struct alone *a, uint32_t sequence, int32_t token, uint64_t step)
{
    job_push(a, (struct mask_job){.words = a->rows[sequence],
                                  .sequence = sequence,
                                  .row = sequence,
                                  .round = step,
                                  .token = token});
}

// Returns a grammar in which each first letter leads to states of its own: "a" to "xb", "b" to
// "xc", ...
static struct grammar *fan(void)
{
    struct grammar *g = NULL;
    struct error err;
    uint32_t parts[SEATS];
    struct grammar_builder *b = grammar_builder_create(NULL);
    for (uint32_t i = 0; i < SEATS; i++) {
        char text[] = {(char)('a' + i), 'x', (char)('b' + i)};
        parts[i] = grammar_repeat(b, grammar_literal(b, text_span(text, 3)), 1, 5);
    }
    assert_int_equal(grammar_finish(b, grammar_either_of(b, parts, SEATS), &g, &err), STATUS_OK);
    return g;
}

static uint64_t work_of(const struct alone *a)
{
    uint64_t work = 0;
    for (uint32_t i = 0; i < CACHES; i++)
        work += a->caches[i].cache ? mask_cache_stats(a->caches[i].cache).work : 0;
    return work;
}

// All sequences except the last begin an answer of g; the last begins one of `other`.
static void fan_open(struct alone *a, struct grammar *g, struct grammar *other)
{
    alone_open(a, CACHES);
    for (uint32_t s = 0; s < SEATS; s++)
        begin_push(a, s, s + 1 < SEATS ? g : other);
    mask_work(&a->worker);
    for (uint32_t s = 0; s < SEATS; s++)
        assert_int_equal(a->verdicts[s], MASK_USABLE);
}

// Returns the first letter of a sequence; each leads to other states.
static int32_t seat_letter(uint32_t s)
{
    return s + 1 < SEATS ? (int32_t)s : 0; // the next id is END
}

static void fan_close(struct alone *a)
{
    mask_worker_empty(&a->worker);
    vocabulary_unref(a->worker.vocabulary);
}

// An empty mask makes the device drop the row.
static void assert_dropped(const struct alone *a, uint32_t sequence)
{
    for (uint32_t i = 0; i < WORDS; i++)
        assert_int_equal(a->rows[sequence][i], 0);
}

static struct mask_limits wide(void)
{
    return (struct mask_limits){.row = 1000000, .grammar = 1000000, .step = 1000000};
}

struct need {       // of the second mask of an answer
    uint64_t least; // smallest limit with which the mask is made
    uint64_t work;  // work of that mask, with the walk over the vocabulary
};

static struct need row_need(struct grammar *g, struct grammar *other)
{
    struct need need = {0, 0};
    for (bool made = false; !made;) {
        struct alone a;
        fan_open(&a, g, other);
        a.worker.limits = wide();
        a.worker.limits.row = ++need.least;
        uint64_t before = work_of(&a);
        token_push(&a, 0, 0, 2);
        mask_work(&a.worker);
        made = a.verdicts[0] == MASK_USABLE;
        assert_true(made || a.verdicts[0] == MASK_OVER);
        need.work = work_of(&a) - before;
        fan_close(&a);
    }
    assert_true(need.least > 2 && need.work >= need.least);
    return need;
}

// Requests in each step the masks that are still missing. Each step makes at least the first of
// them.
static void postponed_again(struct alone *a)
{
    for (uint32_t step = 3, first = 0; first < SEATS; step++) {
        for (uint32_t s = first; s < SEATS; s++)
            if (a->verdicts[s] == MASK_POSTPONED)
                token_push(a, s, MASK_NO_TOKEN, step);
        mask_work(&a->worker);
        while (first < SEATS && a->verdicts[first] == MASK_USABLE)
            first++;
        assert_true(first >= step - 2);
    }
}

// The rows of one step share a limit of work. When a grammar has used its part, its rows that need
// more are postponed, and rows of other grammars continue. The next step has the full limit again,
// and the masks are the same as without a limit.
static void test_the_work_of_a_step_is_bounded(void **state)
{
    (void)state;
    struct alone a, free;
    struct grammar *g = fan(), *other = fan();
    struct need need = row_need(g, other);
    fan_open(&free, g, other);
    for (uint32_t s = 0; s < SEATS; s++)
        token_push(&free, s, seat_letter(s), 2);
    mask_work(&free.worker);
    for (int all = 0; all < 2; all++) {
        fan_open(&a, g, other);
        a.worker.limits = wide();
        *(all ? &a.worker.limits.step : &a.worker.limits.grammar) = 2 * need.work + need.least - 1;
        uint64_t before = work_of(&a);
        for (uint32_t s = 0; s < SEATS; s++)
            token_push(&a, s, seat_letter(s), 2);
        mask_work(&a.worker);
        for (uint32_t s = 0; s < SEATS; s++)
            assert_int_equal(a.verdicts[s],
                             s < 2 || (!all && s == SEATS - 1) ? MASK_USABLE : MASK_POSTPONED);
        assert_dropped(&a, 2);
        assert_true(work_of(&a) - before < 6 * need.work);
        postponed_again(&a);
        for (uint32_t s = 0; s < SEATS; s++)
            assert_memory_equal(a.rows[s], free.rows[s], sizeof a.rows[s]);
        fan_close(&a);
    }
    fan_close(&free);
    grammar_unref(g);
    grammar_unref(other);
}

// A row that had a full limit for itself and needs more ends, whatever rows follow it.
static void test_a_row_that_needs_too_much_is_over(void **state)
{
    (void)state;
    struct alone a;
    struct grammar *g = fan(), *other = fan();
    struct need need = row_need(g, other);
    for (int which = 0; which < 3; which++) {
        fan_open(&a, g, other);
        a.worker.limits = wide();
        *(which == 0   ? &a.worker.limits.row
          : which == 1 ? &a.worker.limits.grammar
                       : &a.worker.limits.step) = need.least - 1;
        token_push(&a, 0, 0, 2);
        token_push(&a, 1, 1, 2);
        mask_work(&a.worker);
        assert_int_equal(a.verdicts[0], MASK_OVER);
        assert_int_equal(a.verdicts[1], which == 0 ? MASK_OVER : MASK_POSTPONED);
        fan_close(&a);
    }
    grammar_unref(g);
    grammar_unref(other);
}

// Creating a cache counts as work: a step creates as many as its limit allows, the next step the
// others.
static void test_new_caches_are_postponed(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, CACHES);
    struct grammar *g[] = {rig_cycle(3), rig_cycle(4)};
    a.worker.limits.step = MASK_CACHE_WORK + MASK_CACHE_WORK / 2;
    for (uint32_t s = 0; s < 2; s++)
        begin_push(&a, s, g[s]);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[0], MASK_USABLE);
    assert_int_equal(a.verdicts[1], MASK_POSTPONED);
    assert_dropped(&a, 1);
    assert_int_equal(a.stats.mask_caches, 1);
    assert_int_equal(grammar_owners(g[1]), 2);
    token_push(&a, 1, MASK_NO_TOKEN, 2);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[1], MASK_USABLE);
    assert_int_equal(a.rows[1][0], 1); // only 'a' is allowed
    begin_push(&a, 2, g[0]);
    job_push(&a, (struct mask_job){.sequence = 2, .token = MASK_NO_TOKEN}); // ends immediately
    fan_close(&a);
    for (uint32_t s = 0; s < 2; s++) {
        assert_int_equal(grammar_owners(g[s]), 1);
        grammar_unref(g[s]);
    }
}

// An evicted cache is not destroyed during a step, and its memory counts until it is. A sequence
// that needs that memory waits. With small caches a sequence waits if the list of evicted caches is
// full.
static void test_a_step_destroys_no_cache(void **state)
{
    (void)state;
    for (uint32_t small = 0; small < 2; small++) {
        struct alone a;
        struct grammar *g[MASK_GONE_MAX + 2];
        uint32_t last = MASK_GONE_MAX + small;
        alone_open(&a, 1);
        for (uint32_t i = 0; i <= last; i++) {
            g[i] = rig_cycle(3 + i);
            begin_push(&a, 0, g[i]);
            mask_work(&a.worker);
            assert_int_equal(a.verdicts[0], i < last ? MASK_USABLE : MASK_POSTPONED);
            size_t bytes = a.caches[0].bytes_max;
            for (uint32_t k = 0; k < a.worker.gone_count; k++)
                bytes += a.worker.gone[k].bytes_max;
            assert_in_range(bytes, 1, (size_t)512 << 20);
            for (uint32_t k = 0; small && k < a.worker.gone_count; k++)
                a.worker.gone[k].bytes_max = 4 << 20;
            if (i < last)
                job_push(&a, (struct mask_job){.sequence = 0, .token = MASK_NO_TOKEN});
        }
        job_push(&a, (struct mask_job){.sequence = 0, .token = MASK_NO_TOKEN}); // it never began
        mask_work(&a.worker);
        assert_int_equal(grammar_owners(g[last]), 1);
        begin_push(&a, 0, g[last]);
        mask_work(&a.worker);
        assert_int_equal(a.verdicts[0], MASK_POSTPONED);
        assert_int_equal(grammar_owners(g[0]), 2);
        mask_idle(&a.worker, 1);
        assert_int_equal(grammar_owners(g[0]), 1);
        token_push(&a, 0, MASK_NO_TOKEN, 2);
        mask_work(&a.worker);
        assert_int_equal(a.verdicts[0], MASK_USABLE);
        assert_int_equal(a.caches[0].bytes_max, 32 << 20);
        fan_close(&a);
        for (uint32_t i = 0; i <= last; i++)
            grammar_unref(g[i]);
    }
}

// An unused cache is destroyed after MASK_IDLE_NS, however small its grammar is.
static void test_an_idle_cache_is_destroyed(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, CACHES);
    struct grammar *one = rig_cycle(3), *other = rig_cycle(4);
    begin_push(&a, 0, one);
    begin_push(&a, 1, other);
    mask_work(&a.worker);
    assert_false(mask_idle(&a.worker, 1));
    for (uint32_t s = 0; s < 2; s++)
        job_push(&a, (struct mask_job){.sequence = s, .token = MASK_NO_TOKEN});
    mask_work(&a.worker);
    assert_true(mask_idle(&a.worker, 5));
    assert_true(mask_idle(&a.worker, 4 + MASK_IDLE_NS));
    assert_int_equal(a.stats.mask_caches, 2);
    begin_push(&a, 0, one); // used again
    job_push(&a, (struct mask_job){.sequence = 0, .token = MASK_NO_TOKEN});
    mask_work(&a.worker);
    assert_true(mask_idle(&a.worker, 5 + MASK_IDLE_NS));
    assert_int_equal(grammar_owners(one), 2);
    assert_int_equal(grammar_owners(other), 1);
    assert_false(mask_idle(&a.worker, 5 + 2 * MASK_IDLE_NS));
    assert_int_equal(grammar_owners(one), 1);
    assert_int_equal(a.stats.mask_caches, 0);
    fan_close(&a);
    grammar_unref(one);
    grammar_unref(other);
}

// Returns a grammar of 90 to 100 letters: masks do not depend on the number of letters yet.
static struct grammar *letters(void)
{
    struct grammar *g = NULL;
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t root = grammar_repeat(b, grammar_byte(b, 'a', 'z'), 90, 100);
    assert_int_equal(grammar_finish(b, root, &g, &err), STATUS_OK);
    return g;
}

// A row can use its private allowance even if no shared work is left: enough for a token that leads
// to a new state whose mask is known.
static void test_a_row_has_a_private_allowance(void **state)
{
    (void)state;
    struct grammar *g = letters(), *other = letters();
    uint64_t own = 0;
    for (bool made = false; !made; own++) {
        struct alone a;
        alone_open(&a, CACHES);
        begin_push(&a, 0, g);
        begin_push(&a, 1, other);
        token_push(&a, 0, 0, 1);
        mask_work(&a.worker);
        a.worker.limits = (struct mask_limits){1000000, own, 1, 1};
        struct mask_cache_stats before = mask_cache_stats(a.caches[0].cache);
        token_push(&a, 1, 1, 2); // uses all shared work
        token_push(&a, 0, 0, 2);
        mask_work(&a.worker);
        struct mask_cache_stats after = mask_cache_stats(a.caches[0].cache);
        made = a.verdicts[0] == MASK_USABLE;
        assert_true(made || a.verdicts[0] == MASK_POSTPONED);
        assert_int_equal(after.computed, before.computed);
        fan_close(&a);
    }
    assert_in_range(own, 2, 1000);
    grammar_unref(g);
    grammar_unref(other);
}

// The private allowance does not start a walk over the vocabulary: a step makes the walks that the
// shared work pays, and one more.
static void test_the_private_allowance_starts_no_walk(void **state)
{
    (void)state;
    struct alone a, free;
    struct grammar *g = fan(), *other = fan();
    struct need need = row_need(g, other);
    assert_true(need.work > need.least); // the difference is the walk
    fan_open(&free, g, other);
    for (uint32_t s = 0; s < SEATS; s++)
        token_push(&free, s, seat_letter(s), 2);
    mask_work(&free.worker);
    for (int all = 0; all < 2; all++) {
        fan_open(&a, g, other);
        a.worker.limits = wide();
        a.worker.limits.own = need.least;
        *(all ? &a.worker.limits.step : &a.worker.limits.grammar) = 1;
        uint64_t before = mask_cache_stats(a.caches[0].cache).computed;
        for (uint32_t s = 0; s < SEATS; s++)
            token_push(&a, s, seat_letter(s), 2);
        mask_work(&a.worker);
        for (uint32_t s = 0; s < SEATS; s++)
            assert_int_equal(a.verdicts[s],
                             s < 1 || (!all && s == SEATS - 1) ? MASK_USABLE : MASK_POSTPONED);
        assert_in_range(mask_cache_stats(a.caches[0].cache).computed - before, 0, 1);
        postponed_again(&a);
        for (uint32_t s = 0; s < SEATS; s++)
            assert_memory_equal(a.rows[s], free.rows[s], sizeof a.rows[s]);
        fan_close(&a);
    }
    fan_close(&free);
    grammar_unref(g);
    grammar_unref(other);
}

// If token rules exclude every token that the grammar allows, the grammar's mask is reused, not
// computed again: with no kept masks and no work left a second one could not be made.
static void test_rules_that_leave_nothing_need_no_second_mask(void **state)
{
    (void)state;
    static const int32_t allowed[] = {20};
    struct token_rules_args args = {1000, allowed, 1, NULL, NULL, 0};
    struct token_rules *rules = token_rules_create(&args);
    struct grammar *g = rig_cycle(3);
    uint64_t row = 0;
    for (bool made = false; !made;) {
        struct alone a;
        alone_open(&a, 1);
        job_push(&a, (struct mask_job){.grammar = grammar_ref(g),
                                       .rules = token_rules_ref(rules),
                                       .words = a.rows[0],
                                       .round = 1,
                                       .token = MASK_NO_TOKEN});
        mask_work(&a.worker);
        assert_int_equal(a.rows[0][0], 1); // 'a'
        a.caches[0].cache->kept_capacity = 0;
        a.worker.limits = wide();
        a.worker.limits.row = ++row;
        token_push(&a, 0, 0, 2);
        mask_work(&a.worker);
        made = a.verdicts[0] == MASK_USABLE;
        assert_true(made || a.verdicts[0] == MASK_OVER);
        assert_int_equal(a.rows[0][0], made ? 2 : 0);
        fan_close(&a);
    }
    assert_true(row > 1);
    grammar_unref(g);
    token_rules_unref(rules);
}

static void rules_push(struct alone *a, struct token_rules *rules)
{
    job_push(a, (struct mask_job){.rules = token_rules_ref(rules),
                                  .words = a->rows[0],
                                  .round = 1,
                                  .token = MASK_NO_TOKEN});
}

static uint32_t row_after(struct alone *a, int32_t token, uint64_t step)
{
    token_push(a, 0, token, step);
    mask_work(&a->worker);
    assert_int_equal(a->verdicts[0], MASK_USABLE);
    return a->rows[0][0];
}

// A forbidden word of three ids is excluded after its first two, in each answer. If only its last
// id is allowed, that id comes nevertheless.
static void test_rules_follow_the_answer(void **state)
{
    (void)state;
    static const int32_t allowed[] = {1, 2, 3}, bad[] = {1, 2, 3, 1, 2, 2, 1, 2, 1};
    static const uint32_t start[] = {0, 3, 6, 9};
    struct token_rules_args one = {1000, allowed, 3, bad, start, 1},
                            all = {1000, allowed, 3, bad, start, 3};
    struct token_rules *rules[] = {token_rules_create(&one), token_rules_create(&all)};
    for (uint32_t i = 0; i < 2; i++) {
        struct alone a;
        alone_open(&a, 1);
        rules_push(&a, rules[i]);
        assert_int_equal(row_after(&a, 1, 2), 0xE);
        assert_int_equal(row_after(&a, 2, 3), i == 0 ? 0x6 : 0xE);
        assert_int_equal(a.rows[0][1], 0);
        job_push(&a, (struct mask_job){.token = MASK_NO_TOKEN}); // ends; another begins there
        rules_push(&a, rules[i]);
        mask_work(&a.worker);
        assert_int_equal(a.rows[0][0], 0xE);
        fan_close(&a);
        token_rules_unref(rules[i]);
    }
}

// `spent` reports the shared work of a row, whether or not its mask was made. It excludes the
// private allowance, even if the last piece of work exceeded that.
static void test_shared_work_is_counted(void **state)
{
    (void)state;
    struct alone a;
    struct grammar *g = fan(), *other = fan();
    struct need need = row_need(g, other);
    fan_open(&a, g, other);
    assert_int_equal(a.spent[0], MASK_CACHE_WORK);
    assert_int_equal(a.spent[1], 0);
    a.worker.limits = (struct mask_limits){1000000, 2, need.work, need.work};
    for (uint32_t s = 0; s < 3; s++)
        token_push(&a, s, (int32_t)s, 2);
    mask_work(&a.worker);
    assert_int_equal(a.spent[0], need.work - 2);
    assert_int_equal(a.verdicts[1], MASK_POSTPONED);
    assert_in_range(a.spent[1], 1, need.work - 1);
    assert_int_equal(a.verdicts[2], MASK_POSTPONED);
    assert_int_equal(a.spent[2], 0);
    token_push(&a, 0, MASK_NO_TOKEN, 3); // its mask is cached
    mask_work(&a.worker);
    assert_int_equal(a.spent[0], 0);
    fan_close(&a);
    grammar_unref(g);
    grammar_unref(other);
}

// A sampled token whose state was evicted and cannot be rebuilt in this step is accepted in the
// next step.
static void test_a_postponed_token_is_kept(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 1);
    struct grammar *g = fan();
    for (uint32_t s = 0; s < 2; s++)
        begin_push(&a, s, g);
    mask_work(&a.worker);
    struct mask_cache *before = a.caches[0].cache;
    a.caches[0].cache = mask_cache_create(g, a.worker.vocabulary, NULL); // without any state
    for (uint32_t s = 0; s < 2; s++) {
        matcher_end(&a.matchers[s].matcher);
        matcher_init(&a.matchers[s].matcher, a.caches[0].cache);
    }
    mask_cache_destroy(before);
    a.worker.limits = wide();
    a.worker.limits.grammar = 1; // the first row uses all of it
    token_push(&a, 1, 1, 2);
    token_push(&a, 0, 0, 2);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[0], MASK_POSTPONED);
    assert_int_equal(a.stats.mask_tokens_refused, 1); // of the first row
    a.worker.limits = wide();
    token_push(&a, 0, MASK_NO_TOKEN, 3);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[0], MASK_USABLE);
    assert_int_equal(a.rows[0][0], 1u << ('x' - 'a'));
    fan_close(&a);
    grammar_unref(g);
}

// If a token that its mask allowed is not accepted, a limit was reached: MASK_OVER.
static void test_a_refused_token_is_over(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 1);
    struct grammar *g = rig_cycle(3);
    begin_push(&a, 0, g);
    token_push(&a, 0, 25, 1);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[0], MASK_OVER);
    assert_int_equal(a.stats.mask_tokens_refused, 1);
    fan_close(&a);
    grammar_unref(g);
}

// Returns a grammar of nested "a...b" and "c...d" of any depth.
static struct grammar *nested(void)
{
    struct grammar *g = NULL;
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t rule, value = grammar_rule(b, text_of("value"), &rule);
    uint32_t one[] = {grammar_byte(b, 'a', 'a'), value, grammar_byte(b, 'b', 'b')};
    uint32_t other[] = {grammar_byte(b, 'c', 'c'), value, grammar_byte(b, 'd', 'd')};
    uint32_t ways[] = {grammar_join_all(b, one, 3), grammar_join_all(b, other, 3),
                       grammar_repeat(b, grammar_byte(b, 'e', 'z'), 1, 9)};
    grammar_rule_set(b, rule, grammar_either_of(b, ways, 3));
    assert_int_equal(grammar_finish(b, value, &g, &err), STATUS_OK);
    return g;
}

// Extends all answers with random letters until one finds no memory. Returns its verdict.
static enum mask_verdict nested_verdict(struct alone *a, uint32_t seats)
{
    enum { LEVELS = 10000 };
    uint32_t seed = 1;
    for (uint32_t level = 0; level < LEVELS; level++)
        for (uint32_t s = 0; s < seats; s++) {
            seed = seed * 1664525 + 1013904223;
            struct text open = text_of(seed >> 31 ? "a" : "c");
            if (matcher_accept_bytes(&a->matchers[s].matcher, open))
                continue;
            token_push(a, s, 0, 2);
            mask_work(&a->worker);
            return a->verdicts[s];
        }
    return MASK_USABLE;
}

// An answer that finds no memory is MASK_OVER if only its own request uses the cache. It is
// MASK_CROWDED if the cache is small because others had the memory, or if answers of other requests
// are in it.
static void test_verdicts_without_memory(void **state)
{
    (void)state;
    struct grammar *g = nested();
    for (uint32_t which = 0; which < 4; which++) {
        struct alone a;
        uint32_t seats = which >= 2 ? SEATS : 1;
        alone_open(&a, CACHES);
        a.caches[1].bytes_max = (size_t)512 << 20; // memory used by others
        for (uint32_t s = 0; s < seats; s++)
            begin_of(&a, s, g, which == 3);
        mask_work(&a.worker);
        assert_int_equal(a.caches[0].bytes_max, 4 << 20);
        if (which != 1)
            a.caches[0].bytes_max = 32 << 20; // as if it had been created with that size
        assert_int_equal(nested_verdict(&a, seats),
                         which == 0 || which == 3 ? MASK_OVER : MASK_CROWDED);
        fan_close(&a);
    }
    grammar_unref(g);
}

// Evicted caches are destroyed once no step waits, and so are unused caches of large grammars.
static void test_caches_are_destroyed_while_nothing_waits(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 1);
    struct grammar *one = rig_cycle(3), *other = rig_cycle(4);
    begin_push(&a, 0, one);
    job_push(&a, (struct mask_job){.sequence = 0, .token = MASK_NO_TOKEN});
    begin_push(&a, 1, other);
    mask_work(&a.worker);
    assert_int_equal(a.verdicts[1], MASK_USABLE);
    assert_int_equal(a.stats.mask_caches, 1);
    assert_int_equal(grammar_owners(one), 2);
    token_push(&a, 1, 0, 1);
    mask_idle(&a.worker, 1); // does nothing: there is work
    assert_int_equal(grammar_owners(one), 2);
    mask_work(&a.worker);
    mask_idle(&a.worker, 1);
    assert_int_equal(grammar_owners(one), 1);
    assert_int_equal(grammar_owners(other), 2);
    job_push(&a, (struct mask_job){.sequence = 1, .token = MASK_NO_TOKEN});
    mask_work(&a.worker);
    mask_idle(&a.worker, 1);
    assert_int_equal(grammar_owners(other), 2); // a small cache stays
    a.worker.idle_bytes_max = grammar_bytes(other) - 1;
    mask_idle(&a.worker, 1);
    assert_int_equal(grammar_owners(other), 1);
    assert_int_equal(a.stats.mask_caches, 0);
    fan_close(&a);
    grammar_unref(one);
    grammar_unref(other);
}

static void test_jobs_not_done_release_their_references(void **state)
{
    (void)state;
    static const int32_t allowed[] = {1};
    struct alone a;
    alone_open(&a, 1);
    struct grammar *g = rig_cycle(3);
    struct token_rules_args rules = {1000, allowed, 1, NULL, NULL, 0};
    struct token_rules *r = token_rules_create(&rules);
    job_push(&a, (struct mask_job){.grammar = grammar_ref(g),
                                   .rules = token_rules_ref(r),
                                   .words = a.rows[0],
                                   .token = MASK_NO_TOKEN});
    mask_worker_empty(&a.worker);
    assert_int_equal(grammar_owners(g), 1);
    assert_int_equal(token_rules_owners(r), 1);
    grammar_unref(g);
    token_rules_unref(r);
    vocabulary_unref(a.worker.vocabulary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_table_of_caches),
        cmocka_unit_test(test_a_cache_next_to_large_ones_is_small),
        cmocka_unit_test(test_the_work_of_a_step_is_bounded),
        cmocka_unit_test(test_a_row_that_needs_too_much_is_over),
        cmocka_unit_test(test_new_caches_are_postponed),
        cmocka_unit_test(test_a_step_destroys_no_cache),
        cmocka_unit_test(test_an_idle_cache_is_destroyed),
        cmocka_unit_test(test_a_row_has_a_private_allowance),
        cmocka_unit_test(test_the_private_allowance_starts_no_walk),
        cmocka_unit_test(test_rules_that_leave_nothing_need_no_second_mask),
        cmocka_unit_test(test_rules_follow_the_answer),
        cmocka_unit_test(test_shared_work_is_counted),
        cmocka_unit_test(test_a_refused_token_is_over),
        cmocka_unit_test(test_verdicts_without_memory),
        cmocka_unit_test(test_a_postponed_token_is_kept),
        cmocka_unit_test(test_caches_are_destroyed_while_nothing_waits),
        cmocka_unit_test(test_jobs_not_done_release_their_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
