// SPDX-License-Identifier: Apache-2.0
// Rotary frequencies: each scaling modifies theta^(-2i/dim). Pure functions; see rope.h.
#include "runtime/model/rope.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925;

static void rope_plain(double *out, uint32_t dim, double theta)
{
    for (uint32_t i = 0; i < dim / 2; i++)
        out[i] = 1.0 / pow(theta, 2.0 * i / dim);
}

// Llama 3: long wavelengths are stretched by `factor`, short ones unchanged, those between blended.
static void rope_llama3(double *out, const struct rope_config *rope)
{
    double low_wave = rope->original / rope->low_freq_factor;
    double high_wave = rope->original / rope->high_freq_factor;
    for (uint32_t i = 0; i < rope->dim / 2; i++) {
        double wave = two_pi / out[i];
        double blend = (rope->original / wave - rope->low_freq_factor) /
                       (rope->high_freq_factor - rope->low_freq_factor);
        if (wave > low_wave)
            out[i] /= rope->factor;
        else if (wave >= high_wave)
            out[i] = (1 - blend) * out[i] / rope->factor + blend * out[i];
    }
}

// Returns the (fractional) column whose angle makes `rotations` full rotations within the original
// length.
static double rope_yarn_column(const struct rope_config *rope, double rotations)
{
    return rope->dim * log(rope->original / (rotations * two_pi)) / (2 * log(rope->theta));
}

static double rope_yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double rope_yarn(double *out, const struct rope_config *rope)
{
    double low = rope_yarn_column(rope, rope->beta_fast);
    double high = rope_yarn_column(rope, rope->beta_slow);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, rope->dim - 1.0);
    if (low == high)
        high += 0.001;
    for (uint32_t i = 0; i < rope->dim / 2; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        out[i] = out[i] / rope->factor * ramp + out[i] * (1 - ramp);
    }
    if (rope->mscale != 0 && rope->mscale_all_dim != 0)
        return rope_yarn_scale(rope->factor, rope->mscale) /
               rope_yarn_scale(rope->factor, rope->mscale_all_dim);
    return rope_yarn_scale(rope->factor, 1);
}

static double rope_longrope(double *out, const struct rope_config *rope, uint32_t length)
{
    const double *factors = length > rope->original ? rope->long_factor : rope->short_factor;
    for (uint32_t i = 0; i < rope->dim / 2; i++)
        out[i] /= factors[i];
    if (rope->factor <= 1 || rope->original < 2)
        return 1;
    return sqrt(1 + log(rope->factor) / log(rope->original));
}

double rope_frequencies(double *out, const struct rope_config *rope, uint32_t positions,
                        uint32_t length)
{
    double theta = rope->theta;
    double scale = 1;
    if (rope->kind == ROPE_DYNAMIC && length > positions)
        theta *= pow(rope->factor * length / positions - (rope->factor - 1),
                     rope->dim / (rope->dim - 2.0));
    if (rope->kind == ROPE_ALPHA)
        theta *= pow(rope->alpha, rope->dim / (rope->dim - 2.0));
    if (rope->kind == ROPE_NTK)
        theta *= rope->factor;
    rope_plain(out, rope->dim, theta);
    switch (rope->kind) {
    case ROPE_DEFAULT:
    case ROPE_DYNAMIC:
    case ROPE_ALPHA:
        break;
    case ROPE_LINEAR:
        for (uint32_t i = 0; i < rope->dim / 2; i++)
            out[i] /= rope->factor;
        break;
    case ROPE_LLAMA3:
        rope_llama3(out, rope);
        break;
    case ROPE_NTK:
        for (uint32_t i = 0; i < rope->dim / 2; i++)
            out[i] /= pow(rope->factor, 2.0 / rope->dim);
        break;
    case ROPE_YARN:
        scale = rope_yarn(out, rope);
        break;
    case ROPE_LONG:
        scale = rope_longrope(out, rope, length);
        break;
    }
    bool stretches = rope->kind == ROPE_YARN || rope->kind == ROPE_LONG;
    return stretches && !isnan(rope->attention_factor) ? rope->attention_factor : scale;
}

float rope_query_factor(const struct rope_config *rope, uint32_t position)
{
    return (float)(1 + rope->query_beta * log(1.0 + position / rope->original));
}

void rope_table(float *out, const struct rope_span *span)
{
    for (uint32_t p = 0; p < span->count; p++) {
        for (uint32_t i = 0; i < span->pairs; i++) {
            double angle = (double)(span->first + p) * span->frequencies[i];
            float *pair = out + ((size_t)p * span->pairs + i) * 2;
            pair[0] = (float)(cos(angle) * span->scale);
            pair[1] = (float)(sin(angle) * span->scale);
        }
    }
}
