// SPDX-License-Identifier: Apache-2.0
// Figures of a run: histograms of times, counts by status, and the report, as a table or as one
// JSON object.
#include "bench/load.h"

#include <math.h>
#include <stdio.h>

static const double BUCKET_RATIO = 1.0105, BUCKET_FIRST = 1e-6;

void histogram_add(struct histogram *h, double seconds)
{
    double place = log(seconds / BUCKET_FIRST) / log(BUCKET_RATIO);
    uint32_t i = seconds > BUCKET_FIRST ? (uint32_t)place : 0;
    h->bucket[i < HISTOGRAM_BUCKETS ? i : HISTOGRAM_BUCKETS - 1]++;
    h->count++;
    h->sum += seconds;
    h->max = seconds > h->max ? seconds : h->max;
}

void histogram_merge(struct histogram *h, const struct histogram *more)
{
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        h->bucket[i] += more->bucket[i];
    h->count += more->count;
    h->sum += more->sum;
    h->max = more->max > h->max ? more->max : h->max;
}

double histogram_at(const struct histogram *h, double share)
{
    uint64_t want = (uint64_t)ceil(share * (double)h->count), seen = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS && h->count > 0; i++) {
        seen += h->bucket[i];
        if (seen < want || seen == 0)
            continue;
        double middle = BUCKET_FIRST * pow(BUCKET_RATIO, (double)i + 0.5);
        return middle < h->max ? middle : h->max;
    }
    return h->max;
}

static void stats_merge(struct load_stats *to, const struct load_stats *s)
{
    const size_t counts = offsetof(struct load_stats, first) / sizeof(uint64_t);
    for (size_t i = 0; i < counts; i++)
        ((uint64_t *)to)[i] += ((const uint64_t *)s)[i];
    histogram_merge(&to->first, &s->first);
    histogram_merge(&to->gap, &s->gap);
    histogram_merge(&to->per_token, &s->per_token);
    histogram_merge(&to->whole, &s->whole);
}

static void times_json(struct json_buffer *out, const char *name, const struct histogram *h)
{
    json_put_format(out,
                    ",\"%s\":{\"count\":%llu,\"mean\":%.3f,\"p50\":%.3f,\"p95\":%.3f,"
                    "\"p99\":%.3f,\"max\":%.3f}",
                    name, (unsigned long long)h->count,
                    h->count > 0 ? h->sum / (double)h->count * 1e3 : 0.0,
                    histogram_at(h, 0.5) * 1e3, histogram_at(h, 0.95) * 1e3,
                    histogram_at(h, 0.99) * 1e3, h->max * 1e3);
}

static void stats_json(struct json_buffer *out, const struct load_stats *s, double seconds)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"sent", s->sent},
        {"ok", s->ok},
        {"unconnected", s->unconnected},
        {"lost", s->lost},
        {"incomplete", s->incomplete},
        {"left", s->left},
        {"event_errors", s->event_errors},
        {"differing", s->differing},
        {"without_retry_after", s->no_retry_after},
        {"inputs", s->inputs},
        {"prompt_tokens", s->prompt_tokens},
        {"tokens", s->tokens},
        {"pieces", s->pieces},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_put_format(out, "%s\"%s\":%llu", i ? "," : "", counts[i].name,
                        (unsigned long long)counts[i].value);
    json_put_literal(out, ",\"statuses\":{");
    for (uint32_t i = 0, put = 0; i < STATUS_CODES; i++)
        if (s->status[i] > 0)
            json_put_format(out, "%s\"%u\":%llu", put++ ? "," : "", i,
                            (unsigned long long)s->status[i]);
    json_put_format(out,
                    "},\"requests_per_s\":%.3f,\"inputs_per_s\":%.3f,\"tokens_per_s\":%.3f,"
                    "\"prompt_tokens_per_s\":%.3f",
                    (double)s->ok / seconds, (double)s->inputs / seconds,
                    (double)s->tokens / seconds, (double)s->prompt_tokens / seconds);
    times_json(out, "first_token_ms", &s->first);
    times_json(out, "inter_token_ms", &s->gap);
    times_json(out, "per_token_ms", &s->per_token);
    times_json(out, "whole_ms", &s->whole);
}

static void report_json(const struct load_options *o, const struct load_result *r,
                        const struct load_stats *all)
{
    struct json_buffer out = {0};
    json_put_format(&out,
                    "{\"loop\":\"%s\",\"seconds\":%.3f,\"concurrency\":%u,"
                    "\"in_flight_max\":%u,\"lost_why\":",
                    o->trace_path || o->rate > 0 ? "open" : "closed", r->seconds, o->concurrency,
                    r->in_flight_max);
    json_put_string(&out, text_of(r->lost_why));
    times_json(&out, "late_ms", &r->late);
    json_put_literal(&out, ",");
    stats_json(&out, all, r->seconds);
    json_put_literal(&out, ",\"targets\":[");
    for (uint32_t i = 0; i < o->target_count; i++) {
        json_put_format(&out, "%s{\"endpoint\":\"%s\",\"model\":", i ? "," : "",
                        endpoint_name(o->targets[i].endpoint));
        json_put_string(&out, text_of(o->targets[i].model));
        json_put_literal(&out, ",");
        stats_json(&out, &r->targets[i], r->seconds);
        json_put_literal(&out, "}");
    }
    json_put_literal(&out, "]}\n");
    fwrite(out.at, 1, out.bytes, stdout);
    json_buffer_free(&out);
}

static void times_line(const char *name, const struct histogram *h)
{
    if (h->count > 0)
        printf("  %-22s %10.2f %10.2f %10.2f %10.2f %10.2f\n", name,
               h->sum / (double)h->count * 1e3, histogram_at(h, 0.5) * 1e3,
               histogram_at(h, 0.95) * 1e3, histogram_at(h, 0.99) * 1e3, h->max * 1e3);
}

static void stats_table(const struct load_stats *s, double seconds)
{
    const uint64_t ends[] = {s->sent,       s->ok,           s->unconnected, s->lost,
                             s->incomplete, s->event_errors, s->left};
    static const char *const names[] = {"sent",       "answered 200", "not connected",     "lost",
                                        "incomplete", "error events", "left by the client"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        printf("%s%s %llu", i ? ", " : "  ", names[i], (unsigned long long)ends[i]);
    printf("\n");
    printf("  status");
    for (uint32_t i = 0; i < STATUS_CODES; i++)
        if (s->status[i] > 0)
            printf(" %u: %llu", i, (unsigned long long)s->status[i]);
    printf("; refusals without Retry-After %llu; answers unlike the one alone %llu\n",
           (unsigned long long)s->no_retry_after, (unsigned long long)s->differing);
    printf("  requests/s %.2f, inputs/s %.2f, tokens/s %.1f, prompt tokens/s %.1f\n",
           (double)s->ok / seconds, (double)s->inputs / seconds, (double)s->tokens / seconds,
           (double)s->prompt_tokens / seconds);
    printf("  %-22s %10s %10s %10s %10s %10s\n", "milliseconds", "mean", "p50", "p95", "p99",
           "max");
    times_line("to the first token", &s->first);
    times_line("between pieces", &s->gap);
    times_line("per token after first", &s->per_token);
    times_line("whole request", &s->whole);
}

void load_report(const struct load_options *o, const struct load_result *r)
{
    struct load_stats *all = heap_alloc_zeroed(1, sizeof *all);
    for (uint32_t i = 0; i < o->target_count; i++)
        stats_merge(all, &r->targets[i]);
    if (o->json) {
        report_json(o, r, all);
        heap_free(all);
        return;
    }
    printf("%.2f s, at most %u requests in flight\n", r->seconds, r->in_flight_max);
    if (r->lost_why[0] != '\0')
        printf("  first loss: %s\n", r->lost_why);
    for (uint32_t i = 0; i < o->target_count; i++) {
        printf("%s %s\n", endpoint_name(o->targets[i].endpoint), o->targets[i].model);
        stats_table(&r->targets[i], r->seconds);
    }
    if (o->target_count > 1) {
        printf("all\n");
        stats_table(all, r->seconds);
    }
    times_line("sent after arrival", &r->late);
    heap_free(all);
}
