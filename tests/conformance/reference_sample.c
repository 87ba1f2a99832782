// SPDX-License-Identifier: Apache-2.0
// The sampler in double, by sorting; see reference.h, and kernels/ops.h for the order of the
// methods.
#include "tests/conformance/reference.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct item {
    double value;
    int32_t token;
};

static int item_order(const void *a, const void *b) // descending, ties by ascending id
{
    const struct item *x = a;
    const struct item *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

struct reference_row {
    const struct sample_args *a;
    const struct sample_params *p;
    uint32_t slot, index, vocab;
    double *l;           // [vocab] logits after bias, mask and penalties
    struct item *sorted; // [vocab]
    double gap;
};

static void sort_row(struct reference_row *r)
{
    for (uint32_t i = 0; i < r->vocab; i++)
        r->sorted[i] = (struct item){r->l[i], (int32_t)i};
    qsort(r->sorted, r->vocab, sizeof *r->sorted, item_order);
}

static bool token_masked(const struct reference_row *r, uint32_t token)
{
    const struct sample_args *a = r->a;
    uint32_t mask = a->sampled[r->index].mask;
    return a->masks && mask != STEP_NO_ROW &&
           !(a->masks[(size_t)mask * ((r->vocab + 31) / 32) + token / 32] >> (token % 32) & 1);
}

static bool row_dropped(const struct reference_row *r)
{
    const struct sample_args *a = r->a;
    uint32_t mask = a->sampled[r->index].mask, words = (r->vocab + 31) / 32, any = 0;
    if (!a->masks || mask == STEP_NO_ROW)
        return false;
    for (uint32_t i = 0; i < words; i++)
        any |= a->masks[(size_t)mask * words + i];
    return any == 0;
}

static void logits_change(struct reference_row *r)
{
    const struct sample_args *a = r->a;
    const struct sample_params *p = r->p;
    for (uint32_t i = 0; i < p->bias_count; i++) {
        const struct step_bias *b = &a->state.bias[(size_t)r->slot * a->limits.bias_max + i];
        r->l[b->token] += (double)b->value;
    }
    if (p->output_count < p->output_min)
        for (uint32_t i = 0; i < p->stop_count; i++)
            r->l[p->stop_ids[i]] = -INFINITY;
    for (uint32_t i = 0; i < r->vocab; i++)
        if (token_masked(r, i))
            r->l[i] = -INFINITY;
    if (!(p->flags & SAMPLE_PENALTY))
        return;
    const uint16_t *seen = a->state.penalty + (size_t)p->penalty_row * r->vocab;
    for (uint32_t i = 0; i < r->vocab; i++) {
        uint32_t count = seen[i] & 0x7FFF;
        if (seen[i] != 0)
            r->l[i] =
                r->l[i] > 0 ? r->l[i] / (double)p->repetition : r->l[i] * (double)p->repetition;
        if (count > 0)
            r->l[i] -= (double)p->frequency * count + (double)p->presence;
    }
}

static double gumbel_noise(const struct sample_params *p, uint32_t token)
{
    struct philox_block b = philox4x32(p->seed, token >> 2, p->output_count, p->choice, 0);
    double u = ((double)b.word[token & 3] + 0.5) / 4294967296.0;
    return -log(-log1p(-u));
}

static void gap_narrow(struct reference_row *r, double margin)
{
    r->gap = margin < r->gap ? margin : r->gap;
}

// Returns how many of the sorted tokens remain after min-p, top-k and top-p.
static uint32_t survivors_count(struct reference_row *r)
{
    const struct sample_params *p = r->p;
    uint32_t count = 0;
    double least = p->min_p > 0 ? r->sorted[0].value + log((double)p->min_p) : -INFINITY;
    while (count < r->vocab && r->sorted[count].value >= least &&
           r->sorted[count].value > -INFINITY)
        count++;
    if (p->min_p > 0 && count < r->vocab)
        gap_narrow(r, fmin(r->sorted[count - 1].value - least, least - r->sorted[count].value));
    if (p->top_k > 0 && p->top_k < count) {
        double kth = r->sorted[p->top_k - 1].value;
        count = p->top_k;
        while (count < r->vocab && r->sorted[count].value >= kth)
            count++;
    }
    if (p->top_p >= 1)
        return count;
    double whole = 0;
    for (uint32_t i = 0; i < count; i++)
        whole += exp(r->sorted[i].value - r->sorted[0].value);
    double mass = 0;
    for (uint32_t i = 0; i < count; i++) {
        double before = mass;
        mass += exp(r->sorted[i].value - r->sorted[0].value);
        if (mass < (double)p->top_p * whole)
            continue;
        gap_narrow(r, mass / whole - (double)p->top_p);
        if (before > 0) // the first token always remains
            gap_narrow(r, (double)p->top_p - before / whole);
        while (i + 1 < count && r->sorted[i + 1].value == r->sorted[i].value)
            i++;
        return i + 1;
    }
    return count;
}

static int32_t token_choose(struct reference_row *r)
{
    const struct sample_params *p = r->p;
    sort_row(r);
    if (r->sorted[0].value == -INFINITY)
        return -1;
    bool greedy = p->temperature < 1e-5f || p->top_p <= 0;
    if (greedy) {
        r->gap = r->sorted[0].value - r->sorted[1].value;
        return r->sorted[0].token;
    }
    for (uint32_t i = 0; i < r->vocab; i++)
        r->sorted[i].value /= (double)p->temperature;
    uint32_t count = survivors_count(r);
    double best = -INFINITY;
    double second = -INFINITY;
    int32_t token = -1;
    for (uint32_t i = 0; i < count; i++) {
        double value = r->sorted[i].value + gumbel_noise(p, (uint32_t)r->sorted[i].token);
        if (value > best) {
            second = best;
            best = value;
            token = r->sorted[i].token;
        } else if (value > second) {
            second = value;
        }
    }
    gap_narrow(r, best - second);
    return token;
}

static void result_settle(const struct reference_row *r, struct sample_result *result)
{
    const struct slot_state *state = &r->a->state;
    struct sample_params *p = &state->params[r->slot];
    state->last_token[r->slot] = result->token;
    p->output_count++;
    if (p->flags & SAMPLE_PENALTY) {
        uint16_t *seen =
            &state->penalty[(size_t)p->penalty_row * r->vocab + (uint32_t)result->token];
        *seen = (uint16_t)(*seen + ((*seen & 0x7FFF) != 0x7FFF));
    }
    bool ends = !(p->flags & SAMPLE_IGNORE_END) && p->output_count > p->output_min;
    for (uint32_t i = 0; ends && i < p->stop_count; i++)
        if (p->stop_ids[i] == result->token) {
            result->flags |= SAMPLED_END;
            state->done[r->slot] = 1;
        }
}

static void sample_one(struct reference_row *r, struct sample_result *result)
{
    const float *logits = r->a->logits + (size_t)r->index * r->a->stride;
    bool finite = true;
    for (uint32_t i = 0; i < r->vocab; i++) {
        r->l[i] = (double)logits[i];
        finite = finite && !isnan(logits[i]) && logits[i] != INFINITY;
    }
    sort_row(r);
    if (!finite || r->sorted[0].value == -INFINITY) {
        result->flags = SAMPLED_NOT_FINITE;
        r->a->state.done[r->slot] = 1;
        return;
    }
    if (row_dropped(r)) {
        result->flags = SAMPLED_DROPPED;
        return;
    }
    double whole = 0;
    for (uint32_t i = 0; i < r->vocab; i++)
        whole += exp(r->sorted[i].value - r->sorted[0].value);
    double log_mass = r->sorted[0].value + log(whole);
    int32_t raw = r->sorted[0].token; // the greatest token that the mask allows, if there is one
    for (uint32_t i = 0; i < r->vocab && r->sorted[i].value > -INFINITY; i++)
        if (!token_masked(r, (uint32_t)r->sorted[i].token)) {
            raw = r->sorted[i].token;
            break;
        }
    for (uint32_t i = 0; i < r->p->top_logprobs && i < r->vocab; i++) {
        r->a->top[(size_t)r->index * SAMPLE_TOP_MAX + i] =
            (struct sample_top){r->sorted[i].token, (float)(r->sorted[i].value - log_mass)};
        result->top_count = i + 1;
    }
    logits_change(r);
    result->token = token_choose(r);
    if (result->token < 0)
        result->token = raw;
    if (r->p->flags & SAMPLE_LOGPROB)
        result->logprob = (float)((double)logits[result->token] - log_mass);
    result_settle(r, result);
}

void reference_sample_gap(const struct sample_args *a, double *gap)
{
    uint32_t vocab = a->limits.vocab;
    double *l = calloc(vocab, sizeof *l);
    struct item *sorted = calloc(vocab, sizeof *sorted);
    check(l && sorted, "vocabulary %u", vocab);
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t slot = a->sampled[i].slot;
        struct reference_row row = {a, &a->state.params[slot], slot, i, vocab, l, sorted, INFINITY};
        a->result[i] = (struct sample_result){.token = -1};
        if (a->state.done[slot])
            a->result[i].flags = SAMPLED_DONE;
        else
            sample_one(&row, &a->result[i]);
        if (gap)
            gap[i] = row.gap;
    }
    free(sorted);
    free(l);
}

void reference_sample(const struct sample_args *a)
{
    reference_sample_gap(a, NULL);
}
