// SPDX-License-Identifier: Apache-2.0
// Tables of the bias that attention adds to its scores by the distance of query and key:
// [heads][2 * reach + 1] f32. Element [h][d + reach] is for d = query position - key position. Pure
// functions.
#pragma once

#include <stdint.h>

enum { DISTANCE_BUCKETS_REACH = 128 }; // all distances from this one on are in the last bucket

// Fills a table from values [buckets][heads]. Half of the buckets are for keys after the query. In
// each half, the first half of the buckets has one distance each; the others have ranges whose
// length grows with the logarithm up to DISTANCE_BUCKETS_REACH (Raffel et al. 2020, T5, section
// 2.1). The function computes in float32 like the reference.
void distance_buckets(float *out, const float *values, uint32_t buckets, uint32_t heads,
                      uint32_t reach);

// Fills a table with -slope * |d|; each head has its own slope. 2^n heads have the powers of
// 2^(-8 / 2^n); further heads have every second slope of 2^(n + 1) heads (Press et al. 2022,
// ALiBi).
void distance_slopes(float *out, uint32_t heads, uint32_t reach);
