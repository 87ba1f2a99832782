// SPDX-License-Identifier: Apache-2.0
// The part of a model that one of several ranks holds if the tensors are split (tensor parallel),
// and the resulting sizes. Plan, layout, weights and forward passes take heads, columns and
// vocabulary rows only from here. Pure functions.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct model_share {
    uint32_t tp_rank, tp_size; // size 0 and 1: the entire model
    uint32_t pp_rank, pp_size; // reserved for pipeline stages: 0
};

// A rank's part of a dimension of size `whole`: [first, first + count).
struct model_span {
    uint32_t whole, first, count;
};

struct model_sizes {
    uint32_t rank, ranks; // ranks: at least 1
    struct model_span heads, kv_heads, intermediate, vocab;
    struct model_span experts; // experts that the rank holds; an expert is not cut
    struct model_span shared;  // inner columns of the shared expert
    uint32_t head_dim, hidden, layers;
};

// Returns the span of an entire dimension.
static inline struct model_span span_whole(uint32_t n)
{
    return (struct model_span){n, 0, n};
}

// Returns the span scaled by n: a span of heads becomes a span of the heads' columns.
static inline struct model_span span_times(struct model_span span, uint32_t n)
{
    return (struct model_span){span.whole * n, span.first * n, span.count * n};
}

// Returns the part of `rank` if a dimension is divided among the ranks as evenly as possible, at
// multiples of `unit`; anywhere if the dimension is no multiple of it or has fewer units than
// ranks.
struct model_span span_cut(uint32_t whole, uint32_t rank, uint32_t ranks, uint32_t unit);

struct model_config;

// Returns why such a model is not split, whatever the number of ranks, as the words before "not
// split" of a sentence about it; NULL: it may be split.
const char *model_unsplit(const struct model_config *config);
// Computes the sizes of a rank. Query heads are divided evenly; KV heads too, or, if there are
// fewer than ranks, each is repeated on several ranks; intermediate columns, vocabulary rows and
// experts as evenly as possible. UNSUPPORTED if the model cannot be split so; the error lists the
// possible numbers of ranks.
enum status model_sizes_make(struct model_sizes *out, const struct model_config *config,
                             const struct model_share *share, struct error *err) MUST_USE;
