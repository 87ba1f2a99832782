// SPDX-License-Identifier: Apache-2.0
// Probabilities of sampling and draws of a device; see distribution.h.
#include "tests/kernels/distribution.h"

#include <math.h>
#include <string.h>

enum { ROWS = 64 };

static void changed_logits(const struct distribution *d, double *l)
{
    for (uint32_t i = 0; i < d->vocab; i++)
        l[i] = (double)d->logits[i];
    for (uint32_t i = 0; i < d->vocab; i++)
        if (d->allowed != 0 && (d->allowed >> i & 1) == 0)
            l[i] = -INFINITY;
    for (uint32_t i = 0; i < d->stop_count && d->output_min > 0; i++)
        l[d->stop_ids[i]] = -INFINITY;
    for (uint32_t i = 0; i < d->bias_count; i++)
        l[d->bias[i].token] += (double)d->bias[i].value;
    for (uint32_t i = 0; i < d->vocab; i++) {
        uint32_t count = d->seen[i] & 0x7FFF;
        double r = (double)d->repetition;
        if (d->seen[i] != 0)
            l[i] = l[i] > 0 ? l[i] / r : l[i] * r;
        l[i] -= count * (double)d->frequency + (count > 0) * (double)d->presence;
    }
}

static void probabilities_normalise(double *p, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += p[i];
    for (uint32_t i = 0; i < n; i++)
        p[i] /= sum;
}

// Returns the number of tokens that are more likely than this one.
static uint32_t rank_of(const double *p, uint32_t n, uint32_t token)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++)
        rank += p[i] > p[token];
    return rank;
}

// Returns the sum of the probabilities of the tokens that are more likely than this one.
static double mass_before(const double *p, uint32_t n, uint32_t token)
{
    double mass = 0;
    for (uint32_t i = 0; i < n; i++)
        mass += p[i] > p[token] ? p[i] : 0;
    return mass;
}

void distribution_probabilities(const struct distribution *d, double *p)
{
    uint32_t n = d->vocab;
    double l[DISTRIBUTION_VOCAB_MAX], before[DISTRIBUTION_VOCAB_MAX], top = -INFINITY;
    changed_logits(d, l);
    for (uint32_t i = 0; i < n; i++)
        p[i] = exp(l[i] / (double)d->temperature);
    probabilities_normalise(p, n);
    for (uint32_t i = 0; i < n; i++)
        top = fmax(top, p[i]);
    memcpy(before, p, n * sizeof *p);
    for (uint32_t i = 0; i < n; i++)
        if (before[i] < top * (double)d->min_p ||
            (d->top_k > 0 && rank_of(before, n, i) >= d->top_k))
            p[i] = 0;
    probabilities_normalise(p, n);
    memcpy(before, p, n * sizeof *p);
    for (uint32_t i = 0; i < n; i++)
        if (d->top_p < 1 && mass_before(before, n, i) >= (double)d->top_p)
            p[i] = 0;
    probabilities_normalise(p, n);
}

struct rows { // arguments and results of one call of the op
    float logits[ROWS][DISTRIBUTION_VOCAB_MAX];
    struct sample_params params[ROWS];
    struct step_bias bias[ROWS][DISTRIBUTION_BIAS_MAX];
    uint16_t seen[ROWS][DISTRIBUTION_VOCAB_MAX];
    struct step_sampled sampled[ROWS];
    struct sample_result results[ROWS];
    int32_t last[ROWS];
    uint32_t done[ROWS];
    uint32_t mask[DISTRIBUTION_VOCAB_MAX / 32]; // one mask for all rows
};

static bool is_paired(enum distribution_draws kind)
{
    return kind == DISTRIBUTION_PAIRS_OF_CHOICES || kind == DISTRIBUTION_PAIRS_OF_OUTPUTS;
}

static void row_fill(const struct distribution *d, struct rows *rows, uint32_t at,
                     enum distribution_draws kind, uint32_t draw)
{
    bool penalised = d->repetition != 1 || d->frequency != 0 || d->presence != 0;
    bool paired = is_paired(kind);
    rows->params[at] = (struct sample_params){
        .seed = d->seed + (kind == DISTRIBUTION_SEEDS ? draw
                           : paired                   ? draw / 2
                                                      : 0),
        .choice = kind == DISTRIBUTION_CHOICES            ? draw
                  : kind == DISTRIBUTION_PAIRS_OF_CHOICES ? draw % 2
                                                          : 0,
        .output_count = kind == DISTRIBUTION_OUTPUTS            ? draw
                        : kind == DISTRIBUTION_PAIRS_OF_OUTPUTS ? draw % 2
                                                                : 0,
        .output_min = d->output_min,
        .stop_count = d->stop_count,
        .temperature = d->temperature,
        .top_p = d->top_p,
        .min_p = d->min_p,
        .top_k = d->top_k,
        .repetition = d->repetition,
        .frequency = d->frequency,
        .presence = d->presence,
        .flags = penalised ? SAMPLE_PENALTY : 0,
        .penalty_row = penalised ? at : STEP_NO_ROW,
        .bias_count = d->bias_count,
    };
    rows->sampled[at] =
        (struct step_sampled){.slot = at, .mask = d->allowed != 0 ? 0 : STEP_NO_ROW};
    memcpy(rows->params[at].stop_ids, d->stop_ids, sizeof d->stop_ids);
    rows->done[at] = 0;
    memcpy(rows->bias[at], d->bias, sizeof d->bias);
    // the penalty table has no gaps
    memcpy(&rows->seen[0][0] + (size_t)at * d->vocab, d->seen, d->vocab * sizeof d->seen[0]);
    memcpy(rows->logits[at], d->logits, sizeof d->logits);
}

void distribution_draw(struct trial *t, const struct distribution *d, enum distribution_draws kind,
                       uint32_t draws, uint32_t *counts)
{
    struct rows *rows = trial_heap(t, sizeof *rows);
    struct sample_args args = {
        .logits = rows->logits[0],
        .sampled = rows->sampled,
        .state = {.last_token = rows->last,
                  .params = rows->params,
                  .done = rows->done,
                  .penalty = rows->seen[0],
                  .bias = rows->bias[0]},
        .masks = rows->mask,
        .result = rows->results,
        .limits = {.rows_max = ROWS,
                   .slots_max = ROWS,
                   .bias_max = DISTRIBUTION_BIAS_MAX,
                   .penalty_rows = ROWS,
                   .vocab = d->vocab},
        .stride = DISTRIBUTION_VOCAB_MAX,
    };
    uint32_t cells = is_paired(kind) ? d->vocab * d->vocab : d->vocab;
    check(cells <= DISTRIBUTION_VOCAB_MAX, "pairs of %u tokens", d->vocab);
    memcpy(rows->mask, &d->allowed, sizeof rows->mask);
    memset(counts, 0, cells * sizeof *counts);
    for (uint32_t draw = 0; draw < draws; draw += args.count) {
        args.count = draws - draw < ROWS ? draws - draw : ROWS;
        for (uint32_t i = 0; i < args.count; i++)
            row_fill(d, rows, i, kind, draw + i);
        check(t->api->ops->sample(t->stream, &args) == STATUS_OK, "draws from %u on", draw);
        for (uint32_t i = 0; i < args.count; i++) {
            int32_t token = rows->results[i].token;
            check(token >= 0 && (uint32_t)token < d->vocab, "token %d", token);
            if (!is_paired(kind))
                counts[token]++;
            else if (i % 2 == 1)
                counts[(uint32_t)rows->results[i - 1].token * d->vocab + (uint32_t)token]++;
        }
    }
}

// Puts rare tokens into one cell, because chi-square needs some draws in each cell.
double distribution_excess(const double *p, const uint32_t *counts, uint32_t vocab)
{
    double draws = 0, square = 0, rare_p = 0, rare = 0;
    uint32_t cells = 0;
    for (uint32_t i = 0; i < vocab; i++)
        draws += counts[i];
    for (uint32_t i = 0; i < vocab; i++) {
        if (p[i] == 0 && counts[i] > 0)
            return INFINITY;
        if (p[i] * draws < 10) {
            rare_p += p[i];
            rare += counts[i];
            continue;
        }
        square += pow(counts[i] - p[i] * draws, 2) / (p[i] * draws);
        cells++;
    }
    if (rare_p * draws >= 1) {
        square += pow(rare - rare_p * draws, 2) / (rare_p * draws);
        cells++;
    }
    double freedom = cells - 1.0;
    if (freedom < 1)
        return 0;
    // Wilson and Hilferty: the cube root of chi-square over its degrees of freedom is nearly normal
    double part = 2 / (9 * freedom);
    return (cbrt(square / freedom) - (1 - part)) / sqrt(part);
}
