// SPDX-License-Identifier: Apache-2.0
// References of route, gemm_experts and combine in double; see reference.h.
#include "tests/conformance/reference.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

// Returns the rank of value i: the number of values that come before it, larger ones and equal ones
// of lower index.
static uint32_t rank_of(const double *value, uint32_t count, uint32_t i)
{
    uint32_t rank = 0;
    for (uint32_t k = 0; k < count; k++)
        rank += value[k] > value[i] || (value[k] == value[i] && k < i);
    return rank;
}

// Sets the values of experts outside of the kept groups to -infinity.
static void groups_cut(const struct route_args *a, double *value)
{
    uint32_t each = a->out.experts / a->groups;
    double sum[EXPERTS_MAX] = {0};
    for (uint32_t g = 0; g < a->groups; g++)
        for (uint32_t i = 0; i < each; i++)
            if (rank_of(value + g * each, each, i) < a->group_top)
                sum[g] += value[g * each + i];
    for (uint32_t e = 0; e < a->out.experts; e++)
        if (rank_of(sum, a->groups, e / each) >= a->groups_kept)
            value[e] = -INFINITY;
}

static void token_reference(const struct route_args *a, uint32_t token)
{
    const struct routing *out = &a->out;
    const float *logits = a->logits + (size_t)token * out->experts;
    const float *correction = a->correction ? a->correction->data : NULL;
    double score[EXPERTS_MAX], value[EXPERTS_MAX], all = 0, chosen = 0, top = -INFINITY;
    for (uint32_t e = 0; e < out->experts; e++)
        top = fmax(top, (double)logits[e]);
    for (uint32_t e = 0; e < out->experts; e++)
        all += exp((double)logits[e] - top);
    for (uint32_t e = 0; e < out->experts; e++) {
        double logit = (double)logits[e];
        score[e] = a->score == ROUTE_SIGMOID ? 1 / (1 + exp(-logit)) : exp(logit - top) / all;
        value[e] = a->score == ROUTE_SOFTMAX_CHOSEN ? logit : score[e];
        if (!correction && a->groups == 0)
            value[e] = logit;
        value[e] += correction ? (double)correction[e] : 0;
    }
    if (a->groups > 0)
        groups_cut(a, value);
    uint32_t j = 0, *id = out->id + (size_t)token * out->chosen;
    for (uint32_t e = 0; e < out->experts; e++)
        if (rank_of(value, out->experts, e) < out->chosen) {
            id[j++] = e;
            chosen += score[e];
        }
    bool divided = a->renormalise || a->score == ROUTE_SOFTMAX_CHOSEN;
    for (j = 0; j < out->chosen; j++)
        out->weight[(size_t)token * out->chosen + j] =
            (float)(score[id[j]] / (divided ? fmax(chosen, 1e-20) : 1) * (double)a->factor);
}

void reference_route(const struct route_args *a)
{
    const struct routing *out = &a->out;
    uint32_t row = 0;
    for (uint32_t t = 0; t < out->token_count; t++)
        token_reference(a, t);
    for (uint32_t e = 0; e < out->experts; e++) {
        out->offset[e] = row;
        for (uint32_t p = 0; p < out->token_count * out->chosen; p++)
            if (out->id[p] == e) {
                out->place[p] = row;
                out->order[row++] = p;
            }
    }
    out->offset[out->experts] = row;
}

void reference_gemm_experts_by(const struct gemm_experts_args *a, reference_product *product,
                               uint32_t depth)
{
    const struct routing *r = &a->routing;
    uint32_t n = weight_matrix_rows(&a->weight->shape);
    for (uint32_t e = 0; e < weight_stack(&a->weight->shape); e++)
        for (uint32_t i = r->offset[a->first + e]; i < r->offset[a->first + e + 1]; i++) {
            uint32_t row = a->sorted ? i : r->order[i] / r->chosen;
            struct weight matrix = *a->weight, bias = {.shape = {.use = WEIGHT_VECTOR, .n = n}};
            matrix.shape.n = n;
            matrix.data = (float *)a->weight->data + (size_t)e * n * depth;
            bias.data = a->bias ? (float *)a->bias->data + (size_t)e * n : NULL;
            struct gemm_args one = {.x = (const float *)a->x + (size_t)row * a->x_stride,
                                    .weight = &matrix,
                                    .bias = a->bias ? &bias : NULL,
                                    .y = (float *)a->y + (size_t)i * a->y_stride,
                                    .rows = 1,
                                    .x_stride = a->x_stride,
                                    .y_stride = a->y_stride};
            product(&one);
        }
}

void reference_gemm_experts(const struct gemm_experts_args *a)
{
    reference_gemm_experts_by(a, reference_gemm, a->weight->shape.k);
}

void reference_combine(const struct combine_args *a)
{
    const struct routing *r = &a->routing;
    for (uint32_t t = 0; t < r->token_count; t++)
        for (uint32_t c = 0; c < a->width; c++) {
            double sum = 0;
            for (uint32_t p = t * r->chosen; p < (t + 1) * r->chosen; p++)
                if (r->id[p] >= a->first && r->id[p] < a->first + a->held)
                    sum += (double)r->weight[p] *
                           (double)((const float *)a->y)[(size_t)r->place[p] * a->width + c];
            double gate = a->gate ? 1 / (1 + exp(-(double)a->gate[t])) : 1;
            if (a->shared)
                sum += gate * (double)((const float *)a->shared)[(size_t)t * a->width + c];
            ((float *)a->out)[(size_t)t * a->width + c] = (float)sum;
        }
}
