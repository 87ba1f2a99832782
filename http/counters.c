// SPDX-License-Identifier: Apache-2.0
// Records the counters of counters.h. Only their h2o thread writes the values, so a relaxed load
// and store would be enough; fetch_add stays correct if that changes.
#include "http/counters.h"

#include "http/internal.h"
#include "base/number.h"

enum bucket_kind { BUCKETS_FIRST, BUCKETS_TOKEN, BUCKETS_REQUEST, BUCKETS_TOKENS, BUCKETS_FEW };

struct buckets {
    bool seconds;
    uint32_t count;
    double bounds[HISTOGRAM_BUCKETS_MAX];
};

static const struct buckets bucket_table[] = {
    [BUCKETS_FIRST] = {true, 22, {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                  1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560}},
    [BUCKETS_TOKEN] = {true,
                       19,
                       {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20,
                        40, 80}},
    [BUCKETS_REQUEST] = {true, 21, {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                    30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}},
    [BUCKETS_FEW] = {false, 6, {0, 1, 2, 5, 10, 20}},
    [BUCKETS_TOKENS] = {false, 22, {1,   2,    5,    10,   20,    50,    100,   200,
                                    500, 1000, 2000, 5000, 10000, 20000, 50000, 100000,
                                    2e5, 5e5,  1e6,  2e6,  5e6,   1e7}},
};

struct histogram_fact {
    const char *name;
    enum bucket_kind kind;
};

static const struct histogram_fact facts[HISTOGRAM_COUNT] = {
#define HISTOGRAM_FACT(id, name, buckets) [HISTOGRAM_##id] = {name, BUCKETS_##buckets},
    HISTOGRAM_LIST(HISTOGRAM_FACT)
#undef HISTOGRAM_FACT
};

const char *histogram_name(enum histogram_id id)
{
    return facts[id].name;
}

// Finds bound `at` of a kind of buckets; false: there are fewer. Token counts use the bounds below
// the context window, then the window itself.
static bool bound_at(enum bucket_kind kind, uint32_t window, uint32_t at, double *out)
{
    const struct buckets *b = &bucket_table[kind];
    if (kind != BUCKETS_TOKENS) {
        *out = b->bounds[at];
        return at < b->count;
    }
    if (at > b->count || (at > 0 && b->bounds[at - 1] >= window))
        return false;
    *out = at < b->count && b->bounds[at] < window ? b->bounds[at] : window;
    return true;
}

uint32_t histogram_bounds(enum histogram_id id, uint32_t window,
                          double bounds[HISTOGRAM_BUCKETS_MAX])
{
    uint32_t count = 0;
    while (bound_at(facts[id].kind, window, count, &bounds[count]))
        count++;
    return count;
}

bool histogram_in_seconds(enum histogram_id id)
{
    return bucket_table[facts[id].kind].seconds;
}

static void counter_add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

void histogram_add(struct histogram *h, enum histogram_id id, uint32_t window, uint64_t value)
{
    double scaled = histogram_in_seconds(id) ? (double)value / 1e9 : (double)value;
    double bound;
    uint32_t at = 0;
    while (bound_at(facts[id].kind, window, at, &bound) && scaled > bound)
        at++;
    counter_add(&h->bucket[at], 1);
    counter_add(&h->sum, value);
}

static struct model_counters *counters_of(struct exchange *x)
{
    if (!x->engine.copy || !x->thread->counters.copies)
        return NULL;
    return &x->thread->counters.copies[x->engine.copy->slot];
}

static void histogram_observe(struct exchange *x, enum histogram_id id, uint64_t value)
{
    histogram_add(&counters_of(x)->histograms[id], id, x->engine.model->facts->max_model_len,
                  value);
}

void counters_params(struct exchange *x, uint32_t choice_count, uint32_t n, uint32_t max_tokens)
{
    if (!counters_of(x))
        return;
    x->counts.choices = choice_count;
    histogram_observe(x, HISTOGRAM_PARAMS_N, n);
    histogram_observe(x, HISTOGRAM_PARAMS_MAX_TOKENS, max_tokens);
}

// Returns how many tokens ended an interval: all but the first of each choice.
static uint64_t tokens_after_firsts(const struct exchange *x)
{
    uint64_t firsts = x->counts.choices > 1 ? x->counts.choices : 1;
    return x->counts.tokens_out > firsts ? x->counts.tokens_out - firsts : 0;
}

void counters_tokens(struct exchange *x, uint32_t tokens)
{
    if (!counters_of(x) || tokens == 0)
        return;
    uint64_t now = clock_ns();
    // tokens of a choice that are read together share the time since the last read
    uint32_t each =
        x->counts.choices > 1 ? (tokens + x->counts.choices - 1) / x->counts.choices : tokens;
    x->counts.tokens_out += tokens;
    if (x->counts.token_ns != 0) {
        uint64_t intervals = smaller((uint64_t)tokens, tokens_after_firsts(x));
        x->counts.intervals += intervals;
        for (uint64_t i = 0; i < intervals; i++)
            histogram_observe(x, HISTOGRAM_INTER_TOKEN, (now - x->counts.token_ns) / each);
    }
    x->counts.token_ns = now;
}

void counters_finish(struct exchange *x, enum counted_finish finish, uint32_t tokens)
{
    struct model_counters *c = counters_of(x);
    if (!c)
        return;
    counter_add(&c->finished[finish], 1);
    x->counts.finish = finish > x->counts.finish ? finish : x->counts.finish;
    x->counts.finishes++;
    if (finish == COUNTED_POOLED)
        return;
    histogram_observe(x, HISTOGRAM_GENERATION_TOKENS, tokens);
    x->counts.tokens_max = tokens > x->counts.tokens_max ? tokens : x->counts.tokens_max;
    x->counts.tokens_answered += tokens;
}

void counters_gone(struct exchange *x, uint32_t tokens)
{
    bool failed = x->cut_with && x->cut_with->error == HTTP_INTERNAL;
    counters_finish(x, failed ? COUNTED_ERROR : COUNTED_ABORT, tokens);
}

void counters_request_finished(struct exchange *x)
{
    enum { BLOCK_BYTES = 4096 };
    counter_add(&x->thread->counters.ended_bytes, x->info.body.bytes + BLOCK_BYTES);
    struct model_counters *c = counters_of(x);
    if (c && x->counts.finishes > 0)
        counter_add(&c->requests_finished[x->route_index][x->counts.finish], 1);
}

void counters_tokenized(struct exchange *x, uint64_t ns)
{
    if (counters_of(x))
        histogram_observe(x, HISTOGRAM_TOKENIZE, ns);
}

void counters_fields_ignored(struct exchange *x, uint32_t count)
{
    counter_add(&x->thread->counters.fields_ignored, count);
}

void counters_refused(struct exchange *x)
{
    struct model_counters *c = counters_of(x);
    if (c)
        counter_add(&c->refused_busy, 1);
}

static void duration_observe(struct exchange *x, enum histogram_id id, uint64_t from, uint64_t to)
{
    if (from != 0 && to >= from)
        histogram_observe(x, id, to - from);
}

// Records the times of the engine request of x. It is about to be freed, so they are final.
void counters_request_done(struct exchange *x)
{
    if (!counters_of(x))
        return;
    struct request_facts f = x->engine.facts;
    duration_observe(x, HISTOGRAM_E2E, x->info.started_ns, clock_ns());
    duration_observe(x, HISTOGRAM_TTFT, x->info.started_ns, f.first_token_ns);
    duration_observe(x, HISTOGRAM_QUEUE, f.submitted_ns, f.started_ns);
    duration_observe(x, HISTOGRAM_PREFILL, f.started_ns, f.first_token_ns);
    duration_observe(x, HISTOGRAM_DECODE, f.first_token_ns, f.finished_ns);
    duration_observe(x, HISTOGRAM_INFERENCE, f.started_ns, f.finished_ns);
    uint64_t firsts = x->counts.choices > 1 ? x->counts.choices : 1;
    uint64_t after = tokens_after_firsts(x);
    if (after > 0 && f.first_token_ns != 0 && f.finished_ns >= f.first_token_ns) {
        uint64_t mean = (f.finished_ns - f.first_token_ns) * firsts / after;
        histogram_observe(x, HISTOGRAM_PER_OUTPUT_TOKEN, mean);
        // tokens that were read together with the first one have no interval: record the mean
        for (uint64_t i = x->counts.intervals; i < after; i++)
            histogram_observe(x, HISTOGRAM_INTER_TOKEN, mean);
    }
    histogram_observe(x, HISTOGRAM_PROMPT_TOKENS, f.prompt_tokens);
    histogram_observe(x, HISTOGRAM_PREFILL_COMPUTED, f.prompt_tokens - f.cached_tokens);
    histogram_observe(x, HISTOGRAM_PREEMPTIONS, f.preemptions);
    if (x->counts.tokens_max > 0)
        histogram_observe(x, HISTOGRAM_GENERATION_TOKENS_MAX, x->counts.tokens_max);
}

static unsigned status_class(int status)
{
    return status == 499 ? STATUS_GONE : (unsigned)status / 100 % STATUS_GONE;
}

// Counts the request. h2o is disposing of it, so its status and bytes are final.
void counters_answered(struct exchange *x)
{
    struct route_counters *route = &x->thread->counters.routes[x->route_index];
    counter_add(&route->requests[status_class(exchange_status(x))], 1);
    counter_add(&route->bytes_in, x->answer->req->entity.len);
    counter_add(&route->bytes_out, x->answer->req->bytes_sent);
    histogram_add(&route->seconds, HISTOGRAM_E2E, 0, clock_ns() - x->info.started_ns);
}

void server_view_get(const struct exchange *x, struct server_view *out)
{
    const struct server *server = x->thread->server;
    *out = (struct server_view){
        .served = atomic_load_explicit(&server->served, memory_order_acquire),
        .draining = x->thread->drain_ns != 0 ||
                    atomic_load_explicit(&server->leaving, memory_order_relaxed),
        .vllm_metrics = server->options.vllm_metrics,
        .thread_count = server->thread_count,
        .beat_oldest_ns = UINT64_MAX,
        .started_unix = server->started_unix,
        .route_count = server->routes.count,
        .routes = server->routes.rows,
    };
    for (uint32_t i = 0; i < server->thread_count; i++) {
        uint64_t beat = atomic_load_explicit(&server->threads[i].beat_ns, memory_order_relaxed);
        if (beat < out->beat_oldest_ns)
            out->beat_oldest_ns = beat;
    }
}

const struct thread_counters *server_counters(const struct exchange *x, uint32_t thread)
{
    return &x->thread->server->threads[thread].counters;
}
