// SPDX-License-Identifier: Apache-2.0
// Rounds 32 floats to Q4_1 with a searched scale and minimum (decision 0054), for C and for
// kernels, with the same bits. The includer defines Q4_FUNCTION, the qualifiers of a function, and
// Q4_HALF(x), which rounds a float to float16 and widens it again.
#pragma once

#include <stdint.h>

enum { Q4_ELEMENTS = 32, Q4_RANGES = 5 };

// Scale, minimum and codes of a block of Q4_1, and the squared error compared with the floats.
struct q4_fit {
    float scale, least, error;
    float code[Q4_ELEMENTS];
};

// Rounds scale and minimum to float16, then chooses the codes.
Q4_FUNCTION void q4_codes(struct q4_fit *fit, const float x[Q4_ELEMENTS])
{
    fit->scale = Q4_HALF(fit->scale);
    fit->least = Q4_HALF(fit->least);
    float inverse = fit->scale != 0 ? 1.0f / fit->scale : 0;
    fit->error = 0;
    for (uint32_t i = 0; i < Q4_ELEMENTS; i++) {
        float moved = (x[i] - fit->least) * inverse + 12582912.0f; // rounds to an integer
        float q = moved - 12582912.0f;
        fit->code[i] = q < 0 ? 0 : q > 15 ? 15 : q;
    }
    for (uint32_t i = 0; i < Q4_ELEMENTS; i++) {
        float d = fit->code[i] * fit->scale + fit->least - x[i];
        fit->error += d * d;
    }
}

// Chooses scale and minimum of least squares for the codes.
Q4_FUNCTION void q4_regress(struct q4_fit *fit, const float x[Q4_ELEMENTS])
{
    float codes = 0, squares = 0, sum = 0, products = 0, n = Q4_ELEMENTS;
    for (uint32_t i = 0; i < Q4_ELEMENTS; i++) {
        codes += fit->code[i];
        squares += fit->code[i] * fit->code[i];
        sum += x[i];
        products += x[i] * fit->code[i];
    }
    float spread = squares - codes * codes / n;
    if (spread <= 0)
        return;
    fit->scale = (products - codes * sum / n) / spread;
    fit->least = (sum - fit->scale * codes) / n;
}

// Finds the best of five ranges, from the block's minimum and maximum to 20 % less, each also with
// the scale and minimum of least squares for its codes. A NaN or an infinity makes the scale NaN.
Q4_FUNCTION void q4_round(struct q4_fit *best, const float x[Q4_ELEMENTS])
{
    float low = x[0], high = x[0], poison = 0;
    for (uint32_t i = 0; i < Q4_ELEMENTS; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        poison += x[i] * 0;
    }
    for (uint32_t step = 0; step < Q4_RANGES; step++) {
        struct q4_fit fit;
        float cut = (high - low) * 0.025f * (float)step;
        fit.scale = (high - low - 2 * cut) / 15;
        fit.least = low + cut;
        q4_codes(&fit, x);
        if (step == 0 || fit.error < best->error)
            *best = fit;
        q4_regress(&fit, x);
        q4_codes(&fit, x);
        if (fit.error < best->error)
            *best = fit;
    }
    best->scale += poison;
}
