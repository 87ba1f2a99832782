// SPDX-License-Identifier: Apache-2.0
// Comparison of two results; see verdict.h. Pure but for its output.
#include "loadgen/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

// Figures that are compared. A primary figure that is not listed is added before them.
static const char *const figures[] = {
    "output_throughput", "request_throughput", "mean_ttft_ms", "p99_ttft_ms",  "mean_tpot_ms",
    "p99_itl_ms",        "mean_e2el_ms",       "p99_e2el_ms",  "inputs_per_s", "request_goodput"};

// Members that two results must share if they measured the same load.
static const char *const loads[] = {
    "backend",           "loop",       "num_prompts",     "duration_limit",
    "request_rate",      "arrival",    "max_concurrency", "input_length",
    "output_length",     "stream",     "trace",           "dataset",
    "backends",          "multi_turn", "prefix_length",   "prompt",
    "inputs_per_request"};

static const json_t *run_at(const json_t *result, uint32_t i)
{
    const json_t *runs = json_object_get(result, "runs");
    return runs ? json_array_get(runs, i) : i == 0 ? result : NULL;
}

static uint32_t run_count(const json_t *result)
{
    const json_t *runs = json_object_get(result, "runs");
    return runs ? (uint32_t)json_array_size(runs) : 1;
}

static double figure_of(const json_t *run, const char *name)
{
    const json_t *value = json_object_get(run, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

__attribute__((format(printf, 2, 3))) static void note_add(struct bench_comparison *c,
                                                           const char *format, ...)
{
    va_list args;
    if (c->note_count == BENCH_NOTES_MAX)
        return;
    va_start(args, format);
    vsnprintf(c->notes[c->note_count++], sizeof *c->notes, format, args);
    va_end(args);
}

static bool is_limited(const json_t *run)
{
    return json_is_true(json_object_get(json_object_get(run, "client"), "limited"));
}

// Returns true if one figure is the same multiple of another in all runs of both sides, as requests
// per second are of tokens per second if all answers have one length. Both have the same ratios, so
// they are one hypothesis.
static bool is_multiple(const json_t *a, const json_t *b, const char *one, const char *other,
                        uint32_t pairs)
{
    const double rounding = 2e-5; // results have at least six digits
    double first = figure_of(run_at(a, 0), one) / figure_of(run_at(a, 0), other);
    for (uint32_t i = 0; i < 2 * pairs; i++) {
        const json_t *run = run_at(i < pairs ? a : b, i % pairs);
        double factor = figure_of(run, one) / figure_of(run, other);
        if (!(fabs(factor / first - 1) <= rounding))
            return false;
    }
    return true;
}

// Adds a figure if all pairs have it, it is above zero and no row is a multiple of it.
static void row_add(struct bench_comparison *c, const json_t *a, const json_t *b, const char *name,
                    uint32_t pairs)
{
    double left[BENCH_PAIRS_MAX], right[BENCH_PAIRS_MAX], sum_a = 0, sum_b = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (is_multiple(a, b, c->rows[i].name, name, pairs))
            return;
    for (uint32_t i = 0; i < pairs; i++) {
        left[i] = figure_of(run_at(a, i), name);
        right[i] = figure_of(run_at(b, i), name);
        if (!(left[i] > 0 && right[i] > 0))
            return;
        sum_a += left[i];
        sum_b += right[i];
    }
    if (c->count == BENCH_FIGURES_MAX)
        return;
    size_t bytes = strlen(name);
    c->rows[c->count++] = (struct bench_row_difference){
        .name = name,
        .more_is_better = bytes < 3 || strcmp(name + bytes - 3, "_ms") != 0,
        .a = sum_a / pairs,
        .b = sum_b / pairs,
        .difference = bench_compare(left, right, pairs, c->bootstrap, 1)};
}

// Collects what makes the comparison doubtful.
static void notes_collect(struct bench_comparison *c, const json_t *a, const json_t *b,
                          uint32_t pairs)
{
    uint32_t limited = 0;
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        const json_t *left = json_object_get(a, loads[i]), *right = json_object_get(b, loads[i]);
        if (left && right ? !json_equal(left, right) : left || right)
            note_add(c, "the loads differ: %s", loads[i]);
    }
    if (run_count(a) != run_count(b))
        note_add(c, "A has %u runs and B has %u: %u pairs are compared", run_count(a), run_count(b),
                 pairs);
    const json_t *const sides[] = {a, b};
    double length[2];
    for (int i = 0; i < 2; i++) {
        double failed = figure_of(sides[i], "failed"), sent = figure_of(sides[i], "sent");
        if (failed > 0)
            note_add(c, "%.0f of %.0f requests to %s failed", failed, sent, i == 0 ? "A" : "B");
        length[i] = figure_of(sides[i], "total_output_tokens") / figure_of(sides[i], "completed");
        for (uint32_t k = 0; k < run_count(sides[i]); k++)
            limited += is_limited(run_at(sides[i], k));
    }
    if (fabs(length[1] / length[0] - 1) > 0.01)
        note_add(c, "answers of A have %.1f tokens on average, those of B %.1f", length[0],
                 length[1]);
    if (limited > 0)
        snprintf(c->refusal, sizeof c->refusal, "the client was the limit in %u of %u runs",
                 limited, run_count(a) + run_count(b));
    else if (pairs < 2)
        snprintf(c->refusal, sizeof c->refusal,
                 "one run of each shows no noise: measure with --runs 10 or --against");
}

static const char *primary_default(const json_t *a)
{
    const char *loop = json_string_value(json_object_get(a, "loop"));
    bool open = loop && strcmp(loop, "open") == 0;
    bool generates = figure_of(a, "total_output_tokens") > 0;
    return open ? "mean_e2el_ms" : generates ? "output_throughput" : "inputs_per_s";
}

enum status bench_results_compare(struct bench_comparison *out, const json_t *a, const json_t *b,
                                  const char *primary, bool bootstrap, struct error *err)
{
    struct bench_difference rest[BENCH_FIGURES_MAX];
    uint32_t pairs = run_count(a) < run_count(b) ? run_count(a) : run_count(b);
    pairs = pairs < BENCH_PAIRS_MAX ? pairs : BENCH_PAIRS_MAX;
    *out = (struct bench_comparison){.bootstrap = bootstrap};
    if (bootstrap && pairs < BENCH_BOOTSTRAP_PAIRS)
        return error_set(err, STATUS_INVALID,
                         "--interval bootstrap needs at least %d pairs of runs, got %u: measure "
                         "with --runs %d or more, or leave it out",
                         BENCH_BOOTSTRAP_PAIRS, pairs, BENCH_BOOTSTRAP_PAIRS);
    primary = primary ? primary : primary_default(a);
    row_add(out, a, b, primary, pairs);
    if (out->count == 0)
        return error_set(err, STATUS_INVALID,
                         "both results need the figure '%s' in all runs, above zero", primary);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        row_add(out, a, b, figures[i], pairs);
    for (uint32_t i = 1; i < out->count; i++)
        rest[i - 1] = out->rows[i].difference;
    bench_compare_holm(rest, out->count - 1);
    for (uint32_t i = 1; i < out->count; i++)
        out->rows[i].difference.verdict = rest[i - 1].verdict;
    notes_collect(out, a, b, pairs);
    for (uint32_t i = 0; out->refusal[0] != '\0' && i < out->count; i++)
        out->rows[i].difference.verdict = BENCH_NO_VERDICT;
    return STATUS_OK;
}

void bench_verdict_text(char *out, size_t size, const struct bench_row_difference *row)
{
    const struct bench_difference *d = &row->difference;
    bool better = (d->verdict == BENCH_HIGHER) == row->more_is_better;
    if (d->verdict == BENCH_NO_VERDICT)
        snprintf(out, size, "no verdict");
    else if (d->verdict == BENCH_NO_DIFFERENCE)
        snprintf(out, size, "no difference");
    else
        snprintf(out, size, "B is %s by %.1f %%", better ? "better" : "worse", fabs(d->mean) * 100);
}

void bench_comparison_print(FILE *to, const struct bench_comparison *c)
{
    char verdict[64];
    fprintf(to, "%-20s %12s %12s %9s  %-20s %s\n", "figure", "A", "B", "B to A", "95 % interval",
            "verdict");
    for (uint32_t i = 0; i < c->count; i++) {
        const struct bench_row_difference *row = &c->rows[i];
        const struct bench_difference *d = &row->difference;
        char interval[64] = "-";
        if (d->pairs >= 2)
            snprintf(interval, sizeof interval, "%+.1f to %+.1f %%", d->low * 100, d->high * 100);
        bench_verdict_text(verdict, sizeof verdict, row);
        fprintf(to, "%-20s %12.4g %12.4g %+8.1f%%  %-20s %s%s\n", row->name, row->a, row->b,
                d->mean * 100, interval, verdict, i == 0 ? " (primary)" : "");
    }
    for (uint32_t i = 0; i < c->note_count; i++)
        fprintf(to, "note: %s\n", c->notes[i]);
    if (c->refusal[0] != '\0')
        fprintf(to, "no verdict: %s\n", c->refusal);
    else
        fprintf(to,
                "%u pairs of runs, intervals by %s; verdicts of figures that are not primary after "
                "Holm's correction\n",
                c->rows[0].difference.pairs, c->bootstrap ? "the bootstrap" : "Student's t");
}

void bench_comparison_json(struct json_buffer *out, const struct bench_comparison *c)
{
    char verdict[64];
    json_put_member(out, "{\"primary\":", text_of(c->rows[0].name));
    json_put_format(out, ",\"pairs\":%u,\"interval\":\"%s\"", c->rows[0].difference.pairs,
                    c->bootstrap ? "bootstrap" : "t");
    if (c->refusal[0] != '\0')
        json_put_member(out, ",\"refusal\":", text_of(c->refusal));
    json_put_literal(out, ",\"notes\":[");
    for (uint32_t i = 0; i < c->note_count; i++)
        json_put_member(out, i > 0 ? "," : "", text_of(c->notes[i]));
    json_put_literal(out, "],\"figures\":[");
    for (uint32_t i = 0; i < c->count; i++) {
        const struct bench_row_difference *row = &c->rows[i];
        const struct bench_difference *d = &row->difference;
        bench_verdict_text(verdict, sizeof verdict, row);
        json_put_member(out, i > 0 ? ",{\"name\":" : "{\"name\":", text_of(row->name));
        json_put_format(out,
                        ",\"a\":%.6g,\"b\":%.6g,\"difference\":%.6g,\"low\":%.6g,\"high\":%.6g,"
                        "\"p\":%.4g,\"better\":\"%s\"",
                        row->a, row->b, d->mean, d->low, d->high, d->p,
                        row->more_is_better ? "more" : "less");
        json_put_member(out, ",\"verdict\":", text_of(verdict));
        json_put_literal(out, "}");
    }
    json_put_literal(out, "]}");
}
