// SPDX-License-Identifier: Apache-2.0
// Results as JSON: one object per run, and a line per request; see figures.h.
#include "loadgen/figures.h"

#include <math.h>
#include <time.h>

static void length_json(struct json_buffer *out, const char *name, const struct bench_length *l)
{
    static const char *const kinds[] = {"fixed", "uniform", "normal", "lognormal"};
    json_put_format(out, ",\"%s\":{\"kind\":\"%s\",\"a\":%g,\"b\":%g}", name, kinds[l->kind], l->a,
                    l->b);
}

// Writes the APIs and shares of several targets, without their models.
static void mix_json(struct json_buffer *out, const struct bench_options *o)
{
    json_put_literal(out, ",\"backends\":[");
    for (uint32_t i = 0; i < o->target_count; i++)
        json_put_format(out, "%s\"%s:%u\"", i > 0 ? "," : "", bench_api_name(o->targets[i].api),
                        o->targets[i].weight);
    json_put_literal(out, "]");
}

void bench_options_json(struct json_buffer *out, const struct bench_options *o)
{
    static const char *const processes[] = {"poisson", "gamma", "constant"};
    const struct bench_target *first = &o->targets[0];
    json_put_member(out, "\"url\":", text_of(o->url));
    json_put_member(out, ",\"backend\":", text_of(bench_api_name(first->api)));
    json_put_member(out, ",\"model_id\":", text_of(first->model));
    json_put_member(out, ",\"loop\":", text_of(bench_is_open(o) ? "open" : "closed"));
    if (o->requests_max < UINT64_MAX)
        json_put_format(out, ",\"num_prompts\":%llu", (unsigned long long)o->requests_max);
    if (isfinite(o->seconds_max))
        json_put_format(out, ",\"duration_limit\":%g", o->seconds_max);
    if (o->trace_path)
        json_put_member(out, ",\"trace\":", text_of(o->trace_path));
    if (o->dataset_path)
        json_put_member(out, ",\"dataset\":", text_of(o->dataset_path));
    if (o->prompt)
        json_put_member(out, ",\"prompt\":", text_of(o->prompt));
    if (o->multi_turn)
        json_put_literal(out, ",\"multi_turn\":true");
    if (!bench_api_generates(first->api))
        json_put_format(out, ",\"inputs_per_request\":%u", o->inputs);
    if (o->prefix_tokens > 0)
        json_put_format(out, ",\"prefix_length\":%u", o->prefix_tokens);
    if (o->target_count > 1)
        mix_json(out, o);
    if (o->rate > 0)
        json_put_format(out, ",\"request_rate\":%g,\"arrival\":\"%s\",\"burstiness\":%g", o->rate,
                        processes[o->process], o->burstiness);
    else
        json_put_literal(out, ",\"request_rate\":\"inf\"");
    if (o->concurrency > 0)
        json_put_format(out, ",\"max_concurrency\":%u", o->concurrency);
    else
        json_put_literal(out, ",\"max_concurrency\":null");
    length_json(out, "input_length", &o->input);
    length_json(out, "output_length", &o->output);
    json_put_format(out, ",\"ramp_up\":%g,\"seed\":%llu,\"stream\":%s", o->ramp_s,
                    (unsigned long long)o->seed, o->stream ? "true" : "false");
    if (o->goodput.ttft + o->goodput.tpot + o->goodput.e2el > 0)
        json_put_format(out, ",\"goodput\":{\"ttft\":%g,\"tpot\":%g,\"e2el\":%g}", o->goodput.ttft,
                        o->goodput.tpot, o->goodput.e2el);
}

static void client_json(struct json_buffer *out, const struct bench_client_report *c)
{
    json_put_format(out,
                    ",\"client\":{\"limited\":%s,\"cpu_share\":%.4f,\"full_share\":%.4f,"
                    "\"queue_ms\":%.4f,\"lag_p99_ms\":%.4f,\"late_p50_ms\":%.4f,"
                    "\"late_p99_ms\":%.4f",
                    c->limited ? "true" : "false", c->cpu_share, c->full_share, c->queue_ms,
                    c->lag_p99_ms, c->late_p50_ms, c->late_p99_ms);
    json_put_format(out, ",\"times\":\"%s\"", c->stamped ? "kernel" : "reading");
    if (c->limited)
        json_put_member(out, ",\"why\":", text_of(c->why));
    json_put_literal(out, "}");
}

static void targets_json(struct json_buffer *out, const struct bench_run *run,
                         const struct bench_options *o)
{
    struct bench_figures *f = heap_alloc(sizeof *f);
    json_put_literal(out, ",\"targets\":[");
    for (uint32_t i = 0; i < o->target_count; i++) {
        bench_figures_compute(f, run, o, (int)i);
        json_put_member(out, i > 0 ? ",{\"backend\":" : "{\"backend\":",
                        text_of(bench_api_name(o->targets[i].api)));
        json_put_member(out, ",\"model_id\":", text_of(o->targets[i].model));
        bench_figures_json(out, f);
        json_put_literal(out, "}");
    }
    json_put_literal(out, "]");
    heap_free(f);
}

// Writes percentiles 0 to 100 of the latencies.
static void distributions_json(struct json_buffer *out, const struct bench_figures *f)
{
    const struct {
        const char *name;
        const struct bench_metric *metric;
    } sets[] = {{"ttft", &f->ttft}, {"tpot", &f->tpot}, {"itl", &f->itl}, {"e2el", &f->e2el}};
    json_put_literal(out, ",\"percentiles\":{");
    for (size_t i = 0, put = 0; i < sizeof sets / sizeof *sets; i++) {
        if (sets[i].metric->count == 0)
            continue;
        json_put_format(out, "%s\"%s\":[", put++ > 0 ? "," : "", sets[i].name);
        for (int k = 0; k < BENCH_PERCENTILES; k++)
            json_put_format(out, "%s%.5g", k > 0 ? "," : "", sets[i].metric->at[k]);
        json_put_literal(out, "]");
    }
    json_put_literal(out, "}");
}

// Adds the time of a request to the steps in which it was in flight, as shares of a step.
static void in_flight_add(double *in_flight, uint32_t steps, double from, double to)
{
    from = from > 0 ? from : 0;
    to = to < steps ? to : steps;
    for (uint32_t i = (uint32_t)from; i < steps && i < to; i++) {
        double begin = from > i ? from : i, end = to < i + 1 ? to : i + 1;
        in_flight[i] += end > begin ? end - begin : 0;
    }
}

static void numbers_json(struct json_buffer *out, const char *name, const double *values,
                         uint32_t count)
{
    json_put_format(out, ",\"%s\":[", name);
    for (uint32_t i = 0; i < count; i++)
        json_put_format(out, "%s%.5g", i > 0 ? "," : "", values[i]);
    json_put_literal(out, "]");
}

// Writes events per second and the mean number of requests in flight over time.
static void timeline_json(struct json_buffer *out, const struct bench_run *run)
{
    enum { STEPS_MAX = 240 };
    uint32_t bins = (uint32_t)(run->seconds * BENCH_BINS_PER_S) + 1;
    uint32_t each = (bins + STEPS_MAX - 1) / STEPS_MAX, steps = (bins + each - 1) / each;
    double step_s = (double)each / BENCH_BINS_PER_S;
    double *events = heap_alloc_zeroed(steps, sizeof *events);
    double *in_flight = heap_alloc_zeroed(steps, sizeof *in_flight);
    for (uint32_t i = 0; i < run->bin_count && i / each < steps; i++)
        events[i / each] += run->bins[i] / step_s;
    for (uint64_t i = 0; i < run->count; i++)
        in_flight_add(in_flight, steps, run->records[i].sent / step_s,
                      run->records[i].end / step_s);
    json_put_format(out, ",\"timeline\":{\"step_s\":%g", step_s);
    numbers_json(out, "events_per_s", events, steps);
    numbers_json(out, "in_flight", in_flight, steps);
    json_put_literal(out, "}");
    heap_free(events);
    heap_free(in_flight);
}

void bench_run_json(struct json_buffer *out, const struct bench_run *run,
                    const struct bench_options *o)
{
    struct bench_figures *f = heap_alloc(sizeof *f);
    char date[64];
    struct tm day;
    time_t second = (time_t)(run->unix_ms / 1000);
    gmtime_r(&second, &day);
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", &day);
    json_put_member(out, "{\"date\":", text_of(date));
    json_put_literal(out, ",");
    bench_options_json(out, o);
    bench_figures_compute(f, run, o, -1);
    bench_figures_json(out, f);
    json_put_format(out, ",\"max_concurrent_requests\":%u", run->in_flight_max);
    json_put_member(out, ",\"lost_why\":", text_of(run->lost_why));
    json_put_member(out, ",\"refused_why\":", text_of(run->refused_why));
    client_json(out, &run->client);
    if (run->server_ttft_ms > 0)
        json_put_format(out, ",\"server_mean_ttft_ms\":%.6f", run->server_ttft_ms);
    if (run->server_e2el_ms > 0)
        json_put_format(out, ",\"server_mean_e2el_ms\":%.6f", run->server_e2el_ms);
    if (run->server.bytes > 0) {
        json_put_literal(out, ",\"server_metrics\":");
        json_put_raw(out, json_buffer_text(&run->server));
    }
    distributions_json(out, f);
    timeline_json(out, run);
    if (o->target_count > 1)
        targets_json(out, run, o);
    json_put_literal(out, "}");
    heap_free(f);
}

void bench_records_write(FILE *to, const struct bench_run *run, const struct bench_options *o)
{
    for (uint64_t i = 0; i < run->count; i++) {
        const struct bench_record *r = &run->records[i];
        fprintf(to,
                "{\"backend\":\"%s\",\"outcome\":\"%s\",\"status\":%u,\"arrival_s\":%.6f,"
                "\"sent_s\":%.6f,",
                bench_api_name(o->targets[r->target].api),
                bench_outcome_name((enum bench_outcome)r->outcome), r->status, r->due, r->sent);
        if (r->events > 0)
            fprintf(to, "\"ttft_ms\":%.4f,\"last_event_s\":%.6f,", (r->first - r->due) * 1e3,
                    r->last);
        fprintf(to,
                "\"e2el_ms\":%.4f,\"input_tokens\":%u,\"cached_tokens\":%u,\"output_tokens\":%u,"
                "\"reasoning_tokens\":%u,\"events\":%u,\"turn\":%u}\n",
                (r->end - r->due) * 1e3, r->input_tokens, r->cached_tokens, r->output_tokens,
                r->reasoning_tokens, r->events, r->turn);
    }
}
