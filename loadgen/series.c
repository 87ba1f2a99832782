// SPDX-License-Identifier: Apache-2.0
// Series of runs; see series.h. One thread.
#include "loadgen/series.h"
#include "loadgen/metrics.h"

#include <math.h>

static struct bench_point *point_add(struct bench_series *s, const struct bench_options *o,
                                     uint32_t side)
{
    s->points = bench_extend(s->points, s->count, &s->allocated, sizeof *s->points);
    struct bench_point *point = &s->points[s->count++];
    *point = (struct bench_point){.options = *o, .side = side};
    return point;
}

static const double METRICS_SECONDS_MAX = 2; // a server that does not answer delays no run

// Reads the server's metrics; a server without them leaves the scrape empty.
static void metrics_read(struct bench_scrape *out, const struct bench_options *o)
{
    struct json_buffer page = {0};
    struct error err;
    *out = (struct bench_scrape){0};
    if (o->metrics && bench_get(&page, o, "/metrics", METRICS_SECONDS_MAX, &err) == STATUS_OK)
        bench_scrape_read(out, json_buffer_text(&page));
    json_buffer_free(&page);
}

// Returns the mean of one of the server's histograms of seconds in milliseconds; 0: unknown.
static double server_mean(const struct bench_scrape *before, const struct bench_scrape *after,
                          const char *suffix)
{
    double mean = bench_scrape_mean(before, after, suffix);
    return isfinite(mean) ? mean * 1e3 : 0;
}

static void metrics_store(struct bench_run *run, const struct bench_scrape *before,
                          const struct bench_scrape *after)
{
    if (after->count == 0)
        return;
    bench_scrape_json(&run->server, before, after);
    run->server_ttft_ms = server_mean(before, after, "time_to_first_token_seconds");
    run->server_e2el_ms = server_mean(before, after, "e2e_request_latency_seconds");
}

// Returns the index in the data set of the prompt that follows those of a run.
static uint64_t prompts_end(const struct bench_point *point)
{
    uint64_t end = point->options.prompt_first;
    for (size_t i = 0; i < point->run.count; i++)
        end += point->run.records[i].turn == 0;
    return end;
}

static enum status point_run(struct bench_series *s, const struct bench_plan *plan,
                             const struct bench_options *o, uint32_t side, struct error *err)
{
    struct bench_point *point = point_add(s, o, side);
    struct bench_run_args args = plan->args;
    args.options = &point->options;
    if (plan->begin)
        plan->begin(args.context, s->count - 1, point);
    struct bench_scrape before, after;
    metrics_read(&before, o);
    enum status status = bench_run(&point->run, &args, err);
    after = (struct bench_scrape){0};
    if (before.count > 0)
        metrics_read(&after, o);
    metrics_store(&point->run, &before, &after);
    bench_scrape_free(&before);
    bench_scrape_free(&after);
    uint64_t next = prompts_end(point);
    s->prompts_next = next > s->prompts_next ? next : s->prompts_next;
    if (status == STATUS_OK && plan->end)
        plan->end(args.context, s->count - 1, point);
    return status;
}

// Sends requests whose records are dropped: connections, caches and the server's clocks are warm.
static enum status warmup_run(const struct bench_plan *plan, const struct bench_options *o,
                              struct error *err)
{
    struct bench_options warm = *o;
    struct bench_run run = {0};
    struct bench_run_args args = plan->args;
    if (plan->warmup == 0)
        return STATUS_OK;
    warm.requests_max = plan->warmup;
    warm.seconds_max = INFINITY;
    warm.rate = warm.ramp_s = 0;
    warm.trace_path = NULL;
    warm.check = false;
    warm.seed = bench_random(o->seed) >> 24; // other prompts than those of the run
    warm.concurrency = warm.concurrency > 0 ? warm.concurrency : 8;
    args.options = &warm;
    args.trace = NULL;
    args.progress = NULL;
    enum status status = bench_run(&run, &args, err);
    bench_run_free(&run);
    return status;
}

static enum status repeated_run(struct bench_series *s, const struct bench_plan *plan,
                                struct error *err)
{
    enum status status = warmup_run(plan, plan->args.options, err);
    for (uint32_t i = 0; status == STATUS_OK && i < plan->runs; i++) {
        struct bench_options o = *plan->args.options;
        o.seed += i; // other prompts: a prefix cache must not know them
        o.prompt_first = s->prompts_next;
        status = point_run(s, plan, &o, 0, err);
    }
    return status;
}

// Sets the swept option.
static void value_set(struct bench_options *o, enum bench_swept swept, double value)
{
    if (swept == BENCH_SWEEP_RATE)
        o->rate = value;
    else
        o->concurrency = (uint32_t)value;
}

static enum status sweep_run(struct bench_series *s, const struct bench_plan *plan,
                             struct error *err)
{
    enum status status = warmup_run(plan, plan->args.options, err);
    for (uint32_t i = 0; status == STATUS_OK && i < plan->value_count; i++) {
        struct bench_options o = *plan->args.options;
        o.seed += i;
        o.prompt_first = s->prompts_next;
        value_set(&o, plan->swept, plan->values[i]);
        status = point_run(s, plan, &o, 0, err);
    }
    return status;
}

// Runs one rate of the search. Returns true if enough requests kept the limits.
static enum status rate_try(bool *good, struct bench_series *s, const struct bench_plan *plan,
                            double rate, struct error *err)
{
    struct bench_options o = *plan->args.options;
    struct bench_figures *f = heap_alloc(sizeof *f);
    o.rate = rate;
    o.seed += s->count;
    o.prompt_first = s->prompts_next;
    enum status status = point_run(s, plan, &o, 0, err);
    struct bench_point *point = &s->points[s->count - 1];
    bench_figures_compute(f, &point->run, &point->options, -1);
    *good = point->good = f->sent > 0 && (double)f->good >= plan->good_share * (double)f->sent;
    s->limited |= point->run.client.limited;
    heap_free(f);
    return status;
}

// Doubles the rate until the limits are missed, halves it until they are kept, then bisects until
// the two rates differ by at most 5 %.
static enum status search_run(struct bench_series *s, const struct bench_plan *plan,
                              struct error *err)
{
    enum { TRIES_MAX = 40 };
    double rate = plan->args.options->rate, high = 0;
    enum status status = warmup_run(plan, plan->args.options, err);
    for (int i = 0; i < TRIES_MAX && status == STATUS_OK && !s->limited; i++) {
        bool good = false;
        status = rate_try(&good, s, plan, rate, err);
        if (good)
            s->best_rate = rate;
        else
            high = rate;
        if ((high > 0 && s->best_rate > 0 && high <= s->best_rate * 1.05) || rate < 1e-3 ||
            rate > 1e6)
            break;
        rate = high <= 0 ? rate * 2 : s->best_rate <= 0 ? rate / 2 : sqrt(high * s->best_rate);
    }
    return status;
}

// Runs both servers in each pair. Their order alternates, so that a drift of the machine adds to
// one side as often as to the other.
static enum status pairs_run(struct bench_series *s, const struct bench_plan *plan,
                             struct error *err)
{
    const struct bench_options *sides[] = {plan->args.options, plan->other};
    enum status status = STATUS_OK;
    for (uint32_t side = 0; status == STATUS_OK && side < 2; side++)
        status = warmup_run(plan, sides[side], err);
    uint64_t first = s->prompts_next; // both runs of a pair have the same prompts
    for (uint32_t i = 0; status == STATUS_OK && i < 2 * plan->runs; i++) {
        uint32_t pair = i / 2, side = (i + pair) % 2;
        struct bench_options o = *sides[side];
        first = i % 2 == 0 ? s->prompts_next : first;
        o.seed += pair;
        o.prompt_first = first;
        status = point_run(s, plan, &o, side, err);
    }
    return status;
}

enum status bench_series_run(struct bench_series *out, const struct bench_plan *plan,
                             struct error *err)
{
    // the warm-up has the first prompts of the data set
    *out = (struct bench_series){
        .kind = plan->kind, .swept = plan->swept, .prompts_next = plan->warmup};
    switch (plan->kind) {
    case BENCH_REPEATED:
        return repeated_run(out, plan, err);
    case BENCH_SWEEP:
        return sweep_run(out, plan, err);
    case BENCH_SEARCH:
        return search_run(out, plan, err);
    case BENCH_PAIRS:
        break;
    }
    return pairs_run(out, plan, err);
}

void bench_series_free(struct bench_series *series)
{
    for (uint32_t i = 0; i < series->count; i++)
        bench_run_free(&series->points[i].run);
    heap_free(series->points);
    *series = (struct bench_series){0};
}

// Appends the measured records of a run, `at` seconds after the start of the joined one.
static void run_append(struct bench_run *out, const struct bench_run *run, double at)
{
    double shift = at - run->measured_from;
    out->records = heap_grow(out->records, (out->count + run->count + 1) * sizeof *out->records);
    for (uint64_t i = 0; i < run->count; i++) {
        struct bench_record record = run->records[i];
        if (record.due < run->measured_from)
            continue;
        record.due += shift;
        record.sent += shift;
        record.end += shift;
        record.first += record.events > 0 ? shift : 0;
        record.last += record.events > 0 ? shift : 0;
        out->records[out->count++] = record;
    }
    uint32_t first = (uint32_t)(at * BENCH_BINS_PER_S), from = bench_run_bins_from(run);
    uint32_t last = first + (run->bin_count > from ? run->bin_count - from : 0);
    out->bins = heap_grow(out->bins, (last + 1) * sizeof *out->bins);
    for (uint32_t i = out->bin_count; i < last; i++)
        out->bins[i] = 0;
    for (uint32_t i = from; i < run->bin_count; i++)
        out->bins[first + i - from] += run->bins[i];
    out->bin_count = last > out->bin_count ? last : out->bin_count;
    for (uint32_t i = 0; i < BENCH_TARGETS_MAX; i++) {
        if (run->gaps[i] && !out->gaps[i])
            out->gaps[i] = heap_alloc_zeroed(1, sizeof **out->gaps);
        if (run->gaps[i])
            bench_histogram_merge(out->gaps[i], run->gaps[i]);
    }
}

// Adds the server's own figures of a run; share: its share of the requests of all runs.
static void server_append(struct bench_run *out, const struct bench_run *run, double share)
{
    bench_rises_add(&out->server, &run->server);
    out->server_ttft_ms += share * run->server_ttft_ms;
    out->server_e2el_ms += share * run->server_e2el_ms;
}

void bench_series_join(struct bench_run *out, const struct bench_series *series, uint32_t side)
{
    size_t all = 0;
    *out = (struct bench_run){0};
    for (uint32_t i = 0; i < series->count; i++)
        all += series->points[i].side == side ? series->points[i].run.count : 0;
    for (uint32_t i = 0; i < series->count; i++) {
        const struct bench_run *run = &series->points[i].run;
        if (series->points[i].side != side)
            continue;
        run_append(out, run, out->seconds);
        out->seconds += run->seconds - run->measured_from;
        out->unix_ms = out->unix_ms ? out->unix_ms : run->unix_ms;
        if (run->in_flight_max > out->in_flight_max)
            out->in_flight_max = run->in_flight_max;
        server_append(out, run, (double)run->count / (double)(all > 0 ? all : 1));
        if (out->lost_why[0] == '\0')
            memcpy(out->lost_why, run->lost_why, sizeof out->lost_why);
        if (out->refused_why[0] == '\0')
            memcpy(out->refused_why, run->refused_why, sizeof out->refused_why);
        if (run->client.limited || out->count == 0 || !out->client.limited)
            out->client = out->client.limited ? out->client : run->client;
    }
    out->allocated = out->count + 1;
}

// Writes the runs of one side, joined, with each of them under "runs" if there are several.
static void side_json(struct json_buffer *out, const struct bench_series *s, uint32_t side)
{
    struct bench_run joined;
    uint32_t runs = 0, first = s->count;
    for (uint32_t i = s->count; i-- > 0;)
        if (s->points[i].side == side) {
            runs++;
            first = i;
        }
    if (runs == 1) {
        bench_run_json(out, &s->points[first].run, &s->points[first].options);
        return;
    }
    bench_series_join(&joined, s, side);
    bench_run_json(out, &joined, &s->points[first].options);
    bench_run_free(&joined);
    out->bytes--; // the closing brace
    json_put_literal(out, ",\"runs\":[");
    for (uint32_t i = 0, put = 0; i < s->count; i++) {
        if (s->points[i].side != side)
            continue;
        json_put_literal(out, put++ > 0 ? "," : "");
        bench_run_json(out, &s->points[i].run, &s->points[i].options);
    }
    json_put_literal(out, "]}");
}

static void points_json(struct json_buffer *out, const struct bench_series *s)
{
    bool search = s->kind == BENCH_SEARCH;
    json_put_literal(out, "{");
    bench_options_json(out, &s->points[0].options);
    json_put_format(out, ",\"sweep\":\"%s\"",
                    s->swept == BENCH_SWEEP_RATE ? "rate" : "concurrency");
    if (search)
        json_put_format(out, ",\"search\":{\"best_rate\":%.6g,\"limited\":%s}",
                        s->limited ? 0 : s->best_rate, s->limited ? "true" : "false");
    json_put_literal(out, ",\"points\":[");
    for (uint32_t i = 0; i < s->count; i++) {
        json_put_literal(out, i > 0 ? "," : "");
        bench_run_json(out, &s->points[i].run, &s->points[i].options);
    }
    json_put_literal(out, "]}");
}

void bench_series_json(struct json_buffer *out, const struct bench_series *series)
{
    if (series->kind == BENCH_SWEEP || series->kind == BENCH_SEARCH) {
        points_json(out, series);
    } else if (series->kind == BENCH_PAIRS) {
        json_put_literal(out, "{\"a\":");
        side_json(out, series, 0);
        json_put_literal(out, ",\"b\":");
        side_json(out, series, 1);
        json_put_literal(out, "}");
    } else {
        side_json(out, series, 0);
    }
}
