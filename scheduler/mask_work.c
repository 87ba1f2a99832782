// SPDX-License-Identifier: Apache-2.0
// Executes the mask worker's jobs: matchers and the table of mask caches. See masks.h. No files, no
// locks. All functions run on the worker's thread, except mask_worker_empty.
#include "scheduler/masks.h"

#include "scheduler/request.h"
#include "base/number.h"

#include <string.h>

// Caches of CACHE_BYTES are created while their limits add up to at most CACHES_BYTES; further
// caches, up to the size of the table, get the minimum.
#define CACHES_BYTES ((size_t)512 << 20)
#define CACHE_BYTES ((size_t)32 << 20)
#define CACHE_BYTES_MIN ((size_t)4 << 20)

const struct mask_limits mask_limits = {
    .row = 1000 * 1000, .own = 5 * 1000, .grammar = 1000 * 1000, .step = 2 * 1000 * 1000};

// Adds to the counters what the cache did since the last call.
static void cache_note(struct mask_worker *w, struct grammar_cache *c)
{
    struct mask_cache_stats now = mask_cache_stats(c->cache);
    struct engine_stats *stats = w->stats;
    stat_add(&stats->masks_computed, now.computed - c->seen.computed);
    stat_add(&stats->masks_reused, now.reused - c->seen.reused);
    stat_add(&stats->masks_forgotten, now.forgotten - c->seen.forgotten);
    stat_add(&stats->mask_cache_bytes, now.bytes - c->seen.bytes);
    c->seen = now;
}

// Removes a cache from the table. It is destroyed later, if possible, because that takes
// milliseconds and a step may be waiting for masks.
static void cache_drop(struct mask_worker *w, struct grammar_cache *c)
{
    stat_add(&w->stats->mask_cache_bytes, 0 - c->seen.bytes);
    stat_add(&w->stats->mask_caches, (uint64_t)-1);
    if (w->gone_count < MASK_GONE_MAX)
        w->gone[w->gone_count++] = (struct mask_gone){c->cache, c->bytes_max};
    else
        mask_cache_destroy(c->cache);
    *c = (struct grammar_cache){0};
}

// Returns the unused cache that was last used the longest ago, or NULL.
static struct grammar_cache *cache_idle(struct mask_worker *w)
{
    struct grammar_cache *oldest = NULL;
    for (uint32_t i = 0; i < w->cache_count; i++) {
        struct grammar_cache *c = &w->caches[i];
        if (c->cache && c->matchers == 0 && (!oldest || c->used < oldest->used))
            oldest = c;
    }
    return oldest;
}

// Returns an empty entry of the table, or NULL.
static struct grammar_cache *cache_free(struct mask_worker *w)
{
    for (uint32_t i = 0; i < w->cache_count; i++)
        if (!w->caches[i].cache)
            return &w->caches[i];
    return NULL;
}

// Returns true if another cache of CACHE_BYTES fits into CACHES_BYTES. gone: true if caches that
// are not destroyed yet count too.
static bool cache_fits(const struct mask_worker *w, bool gone)
{
    size_t taken = CACHE_BYTES;
    for (uint32_t i = 0; i < w->cache_count; i++)
        taken += w->caches[i].bytes_max;
    for (uint32_t i = 0; gone && i < w->gone_count; i++)
        taken += w->gone[i].bytes_max;
    return taken <= CACHES_BYTES;
}

// Creates a cache for a grammar that has none. POSTPONED: the shared work of the step is used up,
// or dropped caches must be destroyed first. CROWDED: all entries of the table are in use by
// matchers.
static enum mask_verdict cache_make(struct mask_worker *w, struct grammar *grammar,
                                    struct grammar_cache **out)
{
    struct grammar_cache *c = cache_free(w), *idle = NULL;
    if (w->work < smaller((uint64_t)MASK_CACHE_WORK, w->limits.step))
        return MASK_POSTPONED;
    for (; (!c || !cache_fits(w, false)) && (idle = cache_idle(w)) != NULL; c = cache_free(w)) {
        if (w->gone_count == MASK_GONE_MAX)
            return MASK_POSTPONED;
        cache_drop(w, idle);
    }
    if (!c)
        return MASK_CROWDED;
    bool fits = cache_fits(w, false);
    if (fits && !cache_fits(w, true))
        return MASK_POSTPONED;
    w->shared += MASK_CACHE_WORK;
    w->work -= smaller(w->work, (uint64_t)MASK_CACHE_WORK);
    c->bytes_max = fits ? CACHE_BYTES : CACHE_BYTES_MIN;
    c->grammar = grammar;
    struct mask_cache_options options = {.bytes_max = c->bytes_max};
    c->cache = mask_cache_create(grammar, w->vocabulary, &options);
    stat_add(&w->stats->mask_caches, 1);
    *out = c;
    return MASK_USABLE;
}

// Finds or creates the cache of a grammar. Grammars are identified by address, which stays valid
// while the cache holds its reference.
static enum mask_verdict cache_of(struct mask_worker *w, struct grammar *grammar,
                                  struct grammar_cache **out)
{
    for (uint32_t i = 0; i < w->cache_count; i++)
        if (w->caches[i].grammar == grammar) {
            *out = &w->caches[i];
            return MASK_USABLE;
        }
    return cache_make(w, grammar, out);
}

// Starts a matcher, which takes over the job's references.
static void matcher_begin(struct sequence_matcher *m, const struct mask_job *job)
{
    check(!m->of && !m->rules && !m->grammar && !m->watch,
          "the matcher of sequence %u begins twice", job->sequence);
    m->free = false;
    m->token = MASK_NO_TOKEN;
    m->request = job->request;
    m->grammar = job->grammar;
    m->watch = job->watch;
    m->entry = TOKEN_UNWATCHED;
    m->rules = job->rules;
    m->rules_at = TOKEN_RULES_START;
    if (m->rules && token_rules_budget(m->rules))
        m->budget_at = token_budget_start(token_rules_budget(m->rules));
}

// Assigns the matcher to the cache of its grammar.
static enum mask_verdict matcher_enter(struct mask_worker *w, struct sequence_matcher *m)
{
    enum mask_verdict verdict = cache_of(w, m->grammar, &m->of);
    if (verdict == MASK_POSTPONED)
        return verdict;
    grammar_unref(m->grammar);
    m->grammar = NULL;
    if (verdict != MASK_USABLE)
        return verdict;
    m->of->matchers++;
    m->of->used = ++w->began;
    m->of->idle_ns = 0;
    matcher_init(&m->matcher, m->of->cache);
    // Choices of one request do not count as crowding each other.
    matcher_belong(&m->matcher, m->request);
    return verdict;
}

// Releases the grammar; the rules stay.
static void grammar_leave(struct sequence_matcher *m)
{
    grammar_unref(m->grammar);
    m->grammar = NULL;
    if (!m->of)
        return; // only rules, or no cache was available
    matcher_end(&m->matcher);
    m->of->matchers--;
    m->of = NULL;
}

// Ends a matcher and releases its references.
static void matcher_leave(struct sequence_matcher *m)
{
    token_rules_unref(m->rules);
    m->rules = NULL;
    token_watch_unref(m->watch);
    m->watch = NULL;
    grammar_leave(m);
}

// Advances the token rules and their budget by a token.
static void rules_accept(struct mask_worker *w, struct sequence_matcher *m, int32_t token)
{
    const struct token_budget *budget = token_rules_budget(m->rules);
    m->rules_at = token_rules_next(m->rules, m->rules_at, token);
    if (budget)
        token_budget_next(budget, &m->budget_at, vocabulary_text(w->vocabulary, token));
}

// Starts the matcher in a phase of its watch. Returns false if a limit was reached, or if no text
// leads there.
static bool phase_enter(struct sequence_matcher *m, enum token_phase phase)
{
    struct text bytes;
    bool known = token_watch_entry(m->watch, phase, false, &bytes);
    matcher_restart(&m->matcher);
    return known && matcher_accept_bytes(&m->matcher, bytes);
}

// Returns the phase of a matcher with a watch: TOKEN_OPEN inside of calls and markers.
static enum token_phase phase_of(struct sequence_matcher *m)
{
    struct text bytes;
    if (!m->of)
        return TOKEN_UNWATCHED;
    for (enum token_phase phase = 0; phase < TOKEN_PHASES; phase++)
        for (int more = 0; more < 2; more++)
            if (token_watch_entry(m->watch, phase, more, &bytes) &&
                matcher_is_after(&m->matcher, bytes))
                return phase;
    return TOKEN_OPEN;
}

// Accepts the matcher's token; returns false if the grammar rejects it. After a mask that allowed
// all tokens, a token without bytes is accepted and does not change the state. Sets m->entry if the
// matcher must start again in text.
static bool token_accept(struct mask_worker *w, struct sequence_matcher *m)
{
    int32_t token = m->token;
    if (token == MASK_NO_TOKEN || !m->of)
        return true;
    bool end = m->watch && vocabulary_is_end(w->vocabulary, token); // it did not end the answer
    if (!end && matcher_accept(&m->matcher, token))
        return true;
    if (!end && m->free && vocabulary_token(w->vocabulary, token).bytes == 0)
        return true;
    // A token that contains a marker and was sampled without a mask may go on in another way than
    // calls do: then it is text.
    bool limited = mask_cache_limited(m->of->cache) || matcher_out_of_memory(&m->matcher);
    if (!m->watch || (limited && !end))
        return false;
    enum token_phase before = end ? phase_of(m) : TOKEN_OPEN;
    m->entry = TOKEN_TEXT;
    if (before < TOKEN_PHASES)
        m->entry = (uint8_t)token_watch_next(m->watch, before, token);
    return true;
}

// Starts the matcher in the phase of its job, and accepts its token.
static bool position_reach(struct mask_worker *w, struct sequence_matcher *m)
{
    bool reached = true;
    while (reached && (m->entry != TOKEN_UNWATCHED || m->token != MASK_NO_TOKEN)) {
        if (m->entry != TOKEN_UNWATCHED)
            reached = !m->of || phase_enter(m, m->entry);
        if (reached)
            m->entry = TOKEN_UNWATCHED;
        if (reached && token_accept(w, m))
            m->token = MASK_NO_TOKEN;
        else
            reached = false;
    }
    return reached;
}

static void row_set(const struct mask_worker *w, uint32_t *words, bool allowed)
{
    memset(words, allowed ? 0xff : 0, w->words * sizeof *words);
}

// Classifies a matcher that reached a limit. OVER: the answer itself needs too much, which for
// memory means that it is alone in a cache of full size; otherwise CROWDED.
static enum mask_verdict over_or_crowded(const struct sequence_matcher *m)
{
    bool small = m->of->bytes_max < CACHE_BYTES;
    bool crowded =
        matcher_memory_contended(&m->matcher) || (small && matcher_out_of_memory(&m->matcher));
    return crowded ? MASK_CROWDED : MASK_OVER;
}

// Writes the mask that the grammar allows, before the token rules. *phase: set if the matcher has a
// watch. Between calls every token is allowed, as where no matcher follows the text.
static enum mask_verdict mask_make(struct mask_worker *w, struct sequence_matcher *m,
                                   uint32_t *words, enum token_phase *phase)
{
    if (m->watch)
        *phase = phase_of(m);
    if (!m->of || (m->watch && *phase < TOKEN_PHASES)) {
        m->free = true;
        row_set(w, words, true);
        return MASK_USABLE;
    }
    enum matcher_result result = matcher_mask(&m->matcher, words);
    cache_note(w, m->of);
    if (result != MATCHER_OK)
        return result == MATCHER_OVER ? over_or_crowded(m) : MASK_STUCK;
    if (mask_is_empty(words, w->words))
        return MASK_DONE;
    m->free = vocabulary_allows_all(w->vocabulary, words);
    if (m->free) // also allow ids without bytes, as in a row without a mask
        row_set(w, words, true);
    return MASK_USABLE;
}

// If the budget forces a token (one that ends the reasoning) and the grammar allows it, writes a
// mask of this token only, whatever the other rules allow, and returns true.
static bool budget_apply(struct mask_worker *w, struct sequence_matcher *m, uint32_t *words)
{
    const struct token_budget *budget = token_rules_budget(m->rules);
    int32_t token = budget ? token_budget_forced(budget, &m->budget_at) : MASK_NO_TOKEN;
    if (token == MASK_NO_TOKEN || !(words[token / 32] >> token % 32 & 1))
        return false;
    memset(words, 0, w->words * sizeof *words);
    words[token / 32] = 1u << token % 32;
    return true;
}

// Applies the token rules to a mask. If that leaves no token, the grammar's mask is used unchanged;
// without a grammar, the mask allows all ids that the rules allow at any position.
static void rules_apply(struct mask_worker *w, struct sequence_matcher *m, uint32_t *words)
{
    const struct token_budget *budget = token_rules_budget(m->rules);
    struct token_budget_ban banned = {.skip = ""};
    if (budget_apply(w, m, words))
        return;
    memcpy(w->spare, words, w->words * sizeof *words);
    if (budget)
        banned = token_budget_banned(budget, &m->budget_at);
    if (banned.rest.bytes > 0)
        vocabulary_forbid(w->vocabulary, banned.rest, banned.skip, words);
    if (token_rules_apply(m->rules, m->rules_at, words))
        return;
    if (m->of)
        memcpy(words, w->spare, w->words * sizeof *words);
    else
        token_rules_row(m->rules, words);
}

static void round_begin(struct mask_worker *w, uint64_t round)
{
    if (round != w->round)
        w->work = w->limits.step;
    w->round = round;
}

struct row_work {    // the work limits of one row
    uint64_t before; // work counter of the cache before the row
    bool shares;     // true if shared work is left for the row
    bool all;        // true if the row gets the maximum for one row
};

// Sets the work limit of the cache for one row. The result is passed to work_end.
static struct row_work work_begin(struct mask_worker *w, struct grammar_cache *c)
{
    const struct mask_limits *limits = &w->limits;
    if (c->round != w->round)
        c->work = limits->grammar;
    c->round = w->round;
    uint64_t most = smaller(limits->own + smaller(limits->grammar, limits->step), limits->row);
    uint64_t work = smaller(limits->own + smaller(c->work, w->work), limits->row);
    bool shares = c->work > 0 && w->work > 0;
    mask_cache_limit(c->cache, work, shares);
    return (struct row_work){mask_cache_stats(c->cache).work, shares, shares && work >= most};
}

// Charges the shared limits for the work of a row beyond its own allowance.
static void work_end(struct mask_worker *w, struct grammar_cache *c, const struct row_work *row)
{
    uint64_t work = mask_cache_stats(c->cache).work - row->before;
    // Else an excess of the last unit is free.
    work = row->shares ? work - smaller(work, w->limits.own) : 0;
    w->shared += work;
    c->work -= smaller(work, c->work);
    w->work -= smaller(work, w->work);
}

static enum mask_verdict row_fill(struct mask_worker *w, struct sequence_matcher *m,
                                  const struct mask_job *job)
{
    enum token_phase phase = TOKEN_OPEN;
    if (!position_reach(w, m))
        return over_or_crowded(m);
    enum mask_verdict verdict = mask_make(w, m, job->words, &phase);
    if (verdict == MASK_USABLE && m->rules)
        rules_apply(w, m, job->words);
    w->phase[job->row] = (uint8_t)phase;
    return verdict;
}

// Makes the mask of one row within the work limits.
static enum mask_verdict limited_row(struct mask_worker *w, struct sequence_matcher *m,
                                     const struct mask_job *job)
{
    enum mask_verdict verdict = m->grammar ? matcher_enter(w, m) : MASK_USABLE;
    if (verdict != MASK_USABLE)
        return verdict;
    if (!m->of)
        return row_fill(w, m, job);
    struct row_work work = work_begin(w, m->of);
    verdict = row_fill(w, m, job);
    bool bound = verdict == MASK_OVER || verdict == MASK_CROWDED;
    bool limited = bound && mask_cache_limited(m->of->cache);
    work_end(w, m->of, &work);
    if (limited && !work.all)
        return MASK_POSTPONED;
    stat_add(&w->stats->mask_tokens_refused, m->token != MASK_NO_TOKEN);
    return verdict;
}

// Makes the mask of one row. A grammar of optional calls is given up where another one ends its
// answer.
static enum mask_verdict matcher_row(struct mask_worker *w, struct sequence_matcher *m,
                                     const struct mask_job *job)
{
    enum mask_verdict verdict = limited_row(w, m, job);
    if (!m->watch || verdict == MASK_POSTPONED || verdict == MASK_USABLE)
        return verdict;
    stat_add(&w->stats->grammars_given_up, 1);
    grammar_leave(m);
    return row_fill(w, m, job);
}

static enum mask_verdict row_make(struct mask_worker *w, const struct mask_job *job)
{
    if (job->sequence == MASK_NO_SEQUENCE || job->sequence == MASK_EVERY) {
        row_set(w, job->words, job->sequence == MASK_EVERY);
        return MASK_USABLE;
    }
    struct sequence_matcher *m = &w->matchers[job->sequence];
    round_begin(w, job->round);
    if (job->grammar || job->rules)
        matcher_begin(m, job);
    if (job->token != MASK_NO_TOKEN) {
        m->token = job->token;
        if (m->rules)
            rules_accept(w, m, job->token);
    }
    if (m->watch && job->entry != TOKEN_UNWATCHED)
        m->entry = job->entry;
    enum mask_verdict verdict = matcher_row(w, m, job);
    if (verdict != MASK_USABLE)
        row_set(w, job->words, false); // the device samples no token
    return verdict;
}

void mask_work(struct mask_worker *w)
{
    uint32_t place;
    while (ring_peek(&w->ring, &place)) {
        const struct mask_job *job = &w->job[place];
        uint64_t before = w->shared;
        if (!job->words) {
            matcher_leave(&w->matchers[job->sequence]);
        } else {
            w->verdict[job->row] = (uint8_t)row_make(w, job);
            w->spent[job->row] = (uint32_t)(w->shared - before);
        }
        ring_pop(&w->ring); // pop after the job, so that an empty ring means all are done
    }
}

// Returns the next unused cache to drop, because the grammars of unused caches take too much memory
// or because it was unused for too long; or NULL. *idle: true if there are unused caches.
static struct grammar_cache *idle_over(struct mask_worker *w, uint64_t now_ns, bool *idle)
{
    size_t bytes = 0;
    struct grammar_cache *late = NULL;
    *idle = false;
    for (uint32_t i = 0; i < w->cache_count; i++) {
        struct grammar_cache *c = &w->caches[i];
        if (!c->cache || c->matchers > 0)
            continue;
        *idle = true;
        bytes += grammar_bytes(c->grammar);
        if (c->idle_ns == 0)
            c->idle_ns = now_ns;
        if (now_ns - c->idle_ns >= MASK_IDLE_NS)
            late = c;
    }
    return bytes > w->idle_bytes_max ? cache_idle(w) : late;
}

bool mask_idle(struct mask_worker *w, uint64_t now_ns)
{
    uint32_t place;
    bool idle = false;
    struct grammar_cache *over;
    while (!ring_peek(&w->ring, &place)) {
        if (w->gone_count == 0 && (over = idle_over(w, now_ns, &idle)) != NULL)
            cache_drop(w, over);
        if (w->gone_count == 0)
            return idle;
        mask_cache_destroy(w->gone[--w->gone_count].cache);
    }
    return false; // it is called again after the new jobs
}

void mask_worker_empty(struct mask_worker *w)
{
    uint32_t place;
    for (; ring_peek(&w->ring, &place); ring_pop(&w->ring)) {
        grammar_unref(w->job[place].grammar);
        token_watch_unref(w->job[place].watch);
        token_rules_unref(w->job[place].rules);
    }
    for (uint32_t i = 0; i < w->matcher_count; i++)
        matcher_leave(&w->matchers[i]);
    for (uint32_t i = 0; i < w->cache_count; i++)
        if (w->caches[i].cache)
            cache_drop(w, &w->caches[i]);
    while (w->gone_count > 0)
        mask_cache_destroy(w->gone[--w->gone_count].cache);
}
