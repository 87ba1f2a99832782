// Probabilities of sampling and draws of a device; see law.h.
#include "tests/kernels/law.h"

#include <math.h>
#include <string.h>

enum { ROWS = 64 };

static void changed_logits(const struct law *law, double *l)
{
    for (uint32_t i = 0; i < law->vocab; i++)
        l[i] = (double)law->logits[i];
    for (uint32_t i = 0; i < law->vocab; i++)
        if (law->allowed != 0 && (law->allowed >> i & 1) == 0)
            l[i] = -INFINITY;
    for (uint32_t i = 0; i < law->stop_count && law->output_min > 0; i++)
        l[law->stop_ids[i]] = -INFINITY;
    for (uint32_t i = 0; i < law->bias_count; i++)
        l[law->bias[i].token] += (double)law->bias[i].value;
    for (uint32_t i = 0; i < law->vocab; i++) {
        uint32_t count = law->seen[i] & 0x7FFF;
        double r = (double)law->repetition;
        if (law->seen[i] != 0)
            l[i] = l[i] > 0 ? l[i] / r : l[i] * r;
        l[i] -= count * (double)law->frequency + (count > 0) * (double)law->presence;
    }
}

static void normalise(double *p, uint32_t n)
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

void law_probabilities(const struct law *law, double *p)
{
    uint32_t n = law->vocab;
    double l[LAW_VOCAB_MAX], before[LAW_VOCAB_MAX], top = -INFINITY;
    changed_logits(law, l);
    for (uint32_t i = 0; i < n; i++)
        p[i] = exp(l[i] / (double)law->temperature);
    normalise(p, n);
    for (uint32_t i = 0; i < n; i++)
        top = fmax(top, p[i]);
    memcpy(before, p, n * sizeof *p);
    for (uint32_t i = 0; i < n; i++)
        if (before[i] < top * (double)law->min_p ||
            (law->top_k > 0 && rank_of(before, n, i) >= law->top_k))
            p[i] = 0;
    normalise(p, n);
    memcpy(before, p, n * sizeof *p);
    for (uint32_t i = 0; i < n; i++)
        if (law->top_p < 1 && mass_before(before, n, i) >= (double)law->top_p)
            p[i] = 0;
    normalise(p, n);
}

struct rows { // arguments and results of one call of the op
    float logits[ROWS][LAW_VOCAB_MAX];
    struct sample_params params[ROWS];
    struct step_bias bias[ROWS][LAW_BIAS_MAX];
    uint16_t seen[ROWS][LAW_VOCAB_MAX];
    struct step_sampled sampled[ROWS];
    struct sample_result results[ROWS];
    int32_t last[ROWS];
    uint32_t done[ROWS];
    uint32_t mask[LAW_VOCAB_MAX / 32]; // one mask for all rows
};

static bool is_paired(enum law_draws kind)
{
    return kind == LAW_PAIRS_OF_CHOICES || kind == LAW_PAIRS_OF_OUTPUTS;
}

static void row_fill(const struct law *law, struct rows *rows, uint32_t at, enum law_draws kind,
                     uint32_t draw)
{
    bool penalised = law->repetition != 1 || law->frequency != 0 || law->presence != 0;
    bool paired = is_paired(kind);
    rows->params[at] = (struct sample_params){
        .seed = law->seed + (kind == LAW_SEEDS ? draw
                             : paired          ? draw / 2
                                               : 0),
        .choice = kind == LAW_CHOICES            ? draw
                  : kind == LAW_PAIRS_OF_CHOICES ? draw % 2
                                                 : 0,
        .output_count = kind == LAW_OUTPUTS            ? draw
                        : kind == LAW_PAIRS_OF_OUTPUTS ? draw % 2
                                                       : 0,
        .output_min = law->output_min,
        .stop_count = law->stop_count,
        .temperature = law->temperature,
        .top_p = law->top_p,
        .min_p = law->min_p,
        .top_k = law->top_k,
        .repetition = law->repetition,
        .frequency = law->frequency,
        .presence = law->presence,
        .flags = penalised ? SAMPLE_PENALTY : 0,
        .penalty_row = penalised ? at : STEP_NO_ROW,
        .bias_count = law->bias_count,
    };
    rows->sampled[at] =
        (struct step_sampled){.slot = at, .mask = law->allowed != 0 ? 0 : STEP_NO_ROW};
    memcpy(rows->params[at].stop_ids, law->stop_ids, sizeof law->stop_ids);
    rows->done[at] = 0;
    memcpy(rows->bias[at], law->bias, sizeof law->bias);
    // the penalty table has no gaps
    memcpy(&rows->seen[0][0] + (size_t)at * law->vocab, law->seen,
           law->vocab * sizeof law->seen[0]);
    memcpy(rows->logits[at], law->logits, sizeof law->logits);
}

void law_draw(struct trial *t, const struct law *law, enum law_draws kind, uint32_t draws,
              uint32_t *counts)
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
                   .bias_max = LAW_BIAS_MAX,
                   .penalty_rows = ROWS,
                   .vocab = law->vocab},
        .stride = LAW_VOCAB_MAX,
    };
    uint32_t cells = is_paired(kind) ? law->vocab * law->vocab : law->vocab;
    check(cells <= LAW_VOCAB_MAX, "pairs of %u tokens", law->vocab);
    memcpy(rows->mask, &law->allowed, sizeof rows->mask);
    memset(counts, 0, cells * sizeof *counts);
    for (uint32_t draw = 0; draw < draws; draw += args.count) {
        args.count = draws - draw < ROWS ? draws - draw : ROWS;
        for (uint32_t i = 0; i < args.count; i++)
            row_fill(law, rows, i, kind, draw + i);
        check(t->api->ops->sample(t->stream, &args) == STATUS_OK, "draws from %u on", draw);
        for (uint32_t i = 0; i < args.count; i++) {
            int32_t token = rows->results[i].token;
            check(token >= 0 && (uint32_t)token < law->vocab, "token %d", token);
            if (!is_paired(kind))
                counts[token]++;
            else if (i % 2 == 1)
                counts[(uint32_t)rows->results[i - 1].token * law->vocab + (uint32_t)token]++;
        }
    }
}

// Puts rare tokens into one cell, because chi-square needs some draws in each cell.
double law_excess(const double *p, const uint32_t *counts, uint32_t vocab)
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
