// SPDX-License-Identifier: Apache-2.0
// Figures of runs; see figures.h. Pure but for their output.
#include "loadgen/figures.h"

#include <math.h>
#include <string.h>

// Samples of one kind, in seconds.
struct bench_samples {
    double *at; // [count]
    size_t count;
};

static void sample_add(struct bench_samples *s, double seconds)
{
    s->at[s->count++] = seconds > 0 ? seconds : 0;
}

// Returns true if the reply meets the limits.
static bool is_good(const struct bench_goodput *limits, double ttft, double tpot, double e2el)
{
    return !(limits->ttft > 0 && ttft * 1e3 > limits->ttft) &&
           !(limits->tpot > 0 && tpot * 1e3 > limits->tpot) &&
           !(limits->e2el > 0 && e2el * 1e3 > limits->e2el);
}

struct bench_sets {
    struct bench_samples ttft, tpot, e2el, late;
};

static void reply_add(struct bench_figures *f, struct bench_sets *sets,
                      const struct bench_options *o, const struct bench_record *r)
{
    double ttft = r->first - r->due, e2el = r->end - r->due, tpot = 0;
    f->inputs += r->inputs;
    f->input_tokens += r->input_tokens;
    f->cached_tokens += r->cached_tokens;
    f->output_tokens += r->output_tokens;
    f->reasoning_tokens += r->reasoning_tokens;
    f->events += r->events;
    f->without_usage += !r->has_usage;
    f->differing += r->differs;
    sample_add(&sets->e2el, e2el);
    if (r->streamed && r->events > 0)
        sample_add(&sets->ttft, ttft);
    if (r->streamed && r->output_tokens > 1 && r->events > 0) {
        tpot = (r->last - r->first) / (double)(r->output_tokens - 1);
        sample_add(&sets->tpot, tpot);
    }
    f->good += is_good(&o->goodput, r->streamed ? ttft : e2el, tpot, e2el);
}

static double busiest_second(const struct bench_run *run)
{
    uint64_t most = 0, sum = 0;
    uint32_t from = bench_run_bins_from(run);
    for (uint32_t i = from; i < run->bin_count; i++) {
        sum += run->bins[i];
        sum -= i >= from + BENCH_BINS_PER_S ? run->bins[i - BENCH_BINS_PER_S] : 0;
        most = sum > most ? sum : most;
    }
    return (double)most;
}

static struct bench_metric gaps_metric(const struct bench_run *run, int target)
{
    struct bench_histogram *all = heap_alloc_zeroed(1, sizeof *all);
    for (int i = 0; i < BENCH_TARGETS_MAX; i++)
        if (run->gaps[i] && (target < 0 || target == i))
            bench_histogram_merge(all, run->gaps[i]);
    struct bench_metric metric = bench_metric_of_histogram(all);
    heap_free(all);
    return metric;
}

void bench_figures_compute(struct bench_figures *out, const struct bench_run *run,
                           const struct bench_options *o, int target)
{
    struct bench_sets sets = {0};
    struct bench_samples *const all[] = {&sets.ttft, &sets.tpot, &sets.e2el, &sets.late};
    for (size_t i = 0; i < 4; i++)
        all[i]->at = heap_alloc((run->count + 1) * sizeof(double));
    *out = (struct bench_figures){.seconds = run->seconds - run->measured_from};
    if (!(out->seconds > 1e-9))
        out->seconds = 1e-9;
    for (uint64_t i = 0; i < run->count; i++) {
        const struct bench_record *r = &run->records[i];
        if ((target >= 0 && r->target != target) || r->due < run->measured_from)
            continue;
        out->sent++;
        out->outcomes[r->outcome]++;
        out->statuses[r->status]++;
        out->refused_early += r->refused_early;
        sample_add(&sets.late, r->sent - r->due);
        if (r->outcome == BENCH_OUTCOME_OK)
            reply_add(out, &sets, o, r);
    }
    out->ttft = bench_metric_of(sets.ttft.at, sets.ttft.count);
    out->tpot = bench_metric_of(sets.tpot.at, sets.tpot.count);
    out->e2el = bench_metric_of(sets.e2el.at, sets.e2el.count);
    if (bench_is_open(o))
        out->late = bench_metric_of(sets.late.at, sets.late.count);
    out->itl = gaps_metric(run, target);
    out->max_output_per_s = busiest_second(run);
    for (size_t i = 0; i < 4; i++)
        heap_free(all[i]->at);
}

// Rates of results, in the order in which they are written.
struct bench_rate {
    const char *name;
    double value;
};
enum { RATE_COUNT = 6 };

static void rates_of(struct bench_rate out[RATE_COUNT], const struct bench_figures *f)
{
    const struct bench_rate rates[RATE_COUNT] = {
        {"request_throughput", (double)f->outcomes[BENCH_OUTCOME_OK] / f->seconds},
        {"request_goodput", (double)f->good / f->seconds},
        {"output_throughput", (double)f->output_tokens / f->seconds},
        {"input_throughput", (double)f->input_tokens / f->seconds},
        {"total_token_throughput", (double)(f->input_tokens + f->output_tokens) / f->seconds},
        {"inputs_per_s", (double)f->inputs / f->seconds},
    };
    memcpy(out, rates, sizeof rates);
}

struct bench_named_metric {
    const char *name;
    const struct bench_metric *metric;
};
enum { METRIC_COUNT = 5, PART_COUNT = 9 };

static void metrics_of(struct bench_named_metric out[METRIC_COUNT], const struct bench_figures *f)
{
    const struct bench_named_metric metrics[METRIC_COUNT] = {{"ttft", &f->ttft},
                                                             {"tpot", &f->tpot},
                                                             {"itl", &f->itl},
                                                             {"e2el", &f->e2el},
                                                             {"late", &f->late}};
    memcpy(out, metrics, sizeof metrics);
}

static void parts_of(struct bench_rate out[PART_COUNT], const struct bench_metric *m)
{
    const struct bench_rate parts[PART_COUNT] = {
        {"mean", m->mean}, {"median", m->median}, {"std", m->std}, {"p25", m->p25}, {"p75", m->p75},
        {"p90", m->p90},   {"p95", m->p95},       {"p99", m->p99}, {"max", m->max}};
    memcpy(out, parts, sizeof parts);
}

double bench_figure(const struct bench_figures *f, const char *name)
{
    struct bench_rate rates[RATE_COUNT], parts[PART_COUNT];
    struct bench_named_metric metrics[METRIC_COUNT];
    char full[64];
    rates_of(rates, f);
    for (int i = 0; i < RATE_COUNT; i++)
        if (strcmp(rates[i].name, name) == 0)
            return rates[i].value;
    metrics_of(metrics, f);
    for (int i = 0; i < METRIC_COUNT; i++) {
        parts_of(parts, metrics[i].metric);
        for (int j = 0; j < PART_COUNT; j++) {
            snprintf(full, sizeof full, "%s_%s_ms", parts[j].name, metrics[i].name);
            if (strcmp(full, name) == 0)
                return metrics[i].metric->count > 0 ? parts[j].value : NAN;
        }
    }
    return NAN;
}

static void count_put(struct json_buffer *out, const char *name, uint64_t value)
{
    json_put_format(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

void bench_figures_json(struct json_buffer *out, const struct bench_figures *f)
{
    struct bench_rate rates[RATE_COUNT], parts[PART_COUNT];
    struct bench_named_metric metrics[METRIC_COUNT];
    uint64_t completed = f->outcomes[BENCH_OUTCOME_OK];
    json_put_format(out, ",\"duration\":%.6f", f->seconds);
    count_put(out, "sent", f->sent);
    count_put(out, "completed", completed);
    count_put(out, "failed", f->sent - completed - f->outcomes[BENCH_OUTCOME_LEFT]);
    json_put_literal(out, ",\"outcomes\":{");
    for (int i = 0; i < BENCH_OUTCOME_COUNT; i++)
        json_put_format(out, "%s\"%s\":%llu", i > 0 ? "," : "",
                        bench_outcome_name((enum bench_outcome)i),
                        (unsigned long long)f->outcomes[i]);
    json_put_literal(out, "},\"statuses\":{");
    for (uint32_t i = 1, put = 0; i < BENCH_STATUS_CODES; i++)
        if (f->statuses[i] > 0)
            json_put_format(out, "%s\"%u\":%u", put++ > 0 ? "," : "", i, f->statuses[i]);
    json_put_literal(out, "}");
    count_put(out, "without_retry_after", f->refused_early);
    count_put(out, "differing", f->differing);
    count_put(out, "inputs", f->inputs);
    count_put(out, "total_input_tokens", f->input_tokens);
    count_put(out, "total_output_tokens", f->output_tokens);
    count_put(out, "cached_tokens", f->cached_tokens);
    count_put(out, "reasoning_tokens", f->reasoning_tokens);
    count_put(out, "events", f->events);
    count_put(out, "without_usage", f->without_usage);
    json_put_format(out, ",\"prefix_cache_hit_rate\":%.6f",
                    f->input_tokens > 0 ? (double)f->cached_tokens / (double)f->input_tokens : 0.0);
    rates_of(rates, f);
    for (int i = 0; i < RATE_COUNT; i++)
        json_put_format(out, ",\"%s\":%.6f", rates[i].name, rates[i].value);
    json_put_format(out, ",\"max_output_tokens_per_s\":%.6f", f->max_output_per_s);
    metrics_of(metrics, f);
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (metrics[i].metric->count == 0)
            continue;
        parts_of(parts, metrics[i].metric);
        json_put_format(out, ",\"%s_count\":%llu", metrics[i].name,
                        (unsigned long long)metrics[i].metric->count);
        for (int j = 0; j < PART_COUNT; j++)
            json_put_format(out, ",\"%s_%s_ms\":%.6f", parts[j].name, metrics[i].name,
                            parts[j].value);
    }
}
