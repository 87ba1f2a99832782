// SPDX-License-Identifier: Apache-2.0
// See distance.h.
#include "runtime/model/distance.h"

#include <math.h>

static uint32_t bucket_of(int64_t distance, uint32_t buckets)
{
    uint32_t half = buckets / 2, exact = half / 2;
    uint32_t first = distance < 0 ? half : 0;
    uint64_t far = (uint64_t)(distance < 0 ? -distance : distance);
    if (far < exact)
        return first + (uint32_t)far;
    float grown = logf((float)far / (float)exact) /
                  (float)log((double)DISTANCE_BUCKETS_REACH / exact) * (float)(half - exact);
    uint32_t bucket = exact + (uint32_t)grown;
    return first + (bucket < half - 1 ? bucket : half - 1);
}

void distance_buckets(float *out, const float *values, uint32_t buckets, uint32_t heads,
                      uint32_t reach)
{
    uint32_t each = 2 * reach + 1;
    for (uint32_t i = 0; i < each; i++) {
        uint32_t bucket = bucket_of((int64_t)i - reach, buckets);
        for (uint32_t h = 0; h < heads; h++)
            out[(uint64_t)h * each + i] = values[(uint64_t)bucket * heads + h];
    }
}

static double slope_of(uint32_t head, uint32_t heads)
{
    uint32_t whole = 1;
    while (2 * whole <= heads)
        whole *= 2;
    if (head < whole)
        return pow(2, -8.0 * (head + 1) / whole);
    return pow(2, -8.0 * (2 * (head - whole) + 1) / (2.0 * whole));
}

void distance_slopes(float *out, uint32_t heads, uint32_t reach)
{
    uint32_t each = 2 * reach + 1;
    for (uint32_t h = 0; h < heads; h++) {
        double slope = slope_of(h, heads);
        for (uint32_t i = 0; i < each; i++) {
            int64_t distance = (int64_t)i - reach;
            out[(uint64_t)h * each + i] =
                (float)(-slope * (double)(distance < 0 ? -distance : distance));
        }
    }
}
