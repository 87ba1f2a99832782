// SPDX-License-Identifier: Apache-2.0
// The table at the end of a run; see figures.h.
#include "loadgen/figures.h"

#include "base/safe.h"

static void metric_line(FILE *to, const char *name, const struct bench_metric *m)
{
    if (m->count > 0)
        fprintf(to, "  %-26s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, m->mean, m->median,
                m->p90, m->p95, m->p99, m->max);
}

static void outcomes_print(FILE *to, const struct bench_figures *f)
{
    fprintf(to, "  requests: %llu sent", (unsigned long long)f->sent);
    for (int i = 0; i < BENCH_OUTCOME_COUNT; i++)
        if (f->outcomes[i] > 0)
            fprintf(to, ", %llu %s", (unsigned long long)f->outcomes[i],
                    bench_outcome_name((enum bench_outcome)i));
    for (uint32_t i = 1; i < BENCH_STATUS_CODES; i++)
        if (f->statuses[i] > 0 && i != 200)
            fprintf(to, "; status %u: %u", i, f->statuses[i]);
    if (f->refused_early > 0)
        fprintf(to, "; refusals without Retry-After: %llu", (unsigned long long)f->refused_early);
    if (f->differing > 0)
        fprintf(to, "; answers unlike the one alone: %llu", (unsigned long long)f->differing);
    fputs("\n", to);
}

static void figures_print(FILE *to, const struct bench_figures *f, const struct bench_options *o)
{
    double s = f->seconds;
    outcomes_print(to, f);
    fprintf(to, "  requests/s %.2f", (double)f->outcomes[BENCH_OUTCOME_OK] / s);
    if (f->inputs > f->outcomes[BENCH_OUTCOME_OK])
        fprintf(to, ", inputs/s %.2f", (double)f->inputs / s);
    fprintf(to, ", tokens/s out %.1f, in %.1f", (double)f->output_tokens / s,
            (double)f->input_tokens / s);
    if (f->input_tokens > 0)
        fprintf(to, ", %.1f %% of the prompt tokens from the prefix cache",
                100 * (double)f->cached_tokens / (double)f->input_tokens);
    if (o->goodput.ttft + o->goodput.tpot + o->goodput.e2el > 0)
        fprintf(to, ", goodput %.2f requests/s", (double)f->good / s);
    fputs("\n", to);
    if (f->without_usage > 0 && f->output_tokens > 0)
        fprintf(to, "  %llu replies had no usage: their tokens are counted as events\n",
                (unsigned long long)f->without_usage);
    if (f->e2el.count > 0)
        fprintf(to, "  %-26s %10s %10s %10s %10s %10s %10s\n", "milliseconds", "mean", "median",
                "p90", "p95", "p99", "max");
    metric_line(to, "time to first token", &f->ttft);
    metric_line(to, "time per output token", &f->tpot);
    metric_line(to, "between events", &f->itl);
    metric_line(to, "end to end", &f->e2el);
    metric_line(to, "sent after arrival", &f->late);
}

void bench_table_print(FILE *to, const struct bench_run *run, const struct bench_options *o)
{
    struct bench_figures *f = heap_alloc(sizeof *f);
    fprintf(to, "%.2f s, at most %u requests in flight\n", run->seconds, run->in_flight_max);
    if (run->lost_why[0] != '\0')
        safe_line(to, "  first request without a complete reply: %s", run->lost_why);
    if (run->refused_why[0] != '\0')
        safe_line(to, "  first refusal: %s", run->refused_why);
    for (uint32_t i = 0; o->target_count > 1 && i < o->target_count; i++) {
        safe_line(to, "%s %s", bench_api_name(o->targets[i].api), o->targets[i].model);
        bench_figures_compute(f, run, o, (int)i);
        figures_print(to, f, o);
    }
    if (o->target_count > 1)
        fputs("all\n", to);
    bench_figures_compute(f, run, o, -1);
    figures_print(to, f, o);
    if (run->server_ttft_ms > 0 && run->server_e2el_ms > 0)
        fprintf(to, "server's own means: first token %.2f ms, end to end %.2f ms\n",
                run->server_ttft_ms, run->server_e2el_ms);
    else if (run->server_e2el_ms > 0)
        fprintf(to, "server's own mean: end to end %.2f ms\n", run->server_e2el_ms);
    const struct bench_client_report *c = &run->client;
    fprintf(to, "client: %.0f %% of a core, events read at most %.2f ms late (p99)\n",
            c->cpu_share * 100, c->lag_p99_ms);
    if (c->limited && f->outcomes[BENCH_OUTCOME_OK] > 0)
        fprintf(to, "THE CLIENT WAS THE LIMIT, these are not the server's figures: %s\n", c->why);
    heap_free(f);
}
