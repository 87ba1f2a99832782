// What one of several ranks holds of a model whose tensors are split over them (tensor parallel),
// and the sizes that follow: the one place from which plan, layout, weights and forward passes take
// heads, columns and rows of the vocabulary. Pure functions.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct model_share {
    uint32_t tp_rank, tp_size; // size 0 and 1: the whole model
    uint32_t pp_rank, pp_size; // reserved for stages of a pipeline: 0
};

// What a rank has of a dimension: [first, first + count) of `whole`.
struct model_span {
    uint32_t whole, first, count;
};

struct model_sizes {
    uint32_t rank, ranks; // ranks: at least 1
    struct model_span heads, kv_heads, intermediate, vocab;
    uint32_t head_dim, hidden, layers;
};

static inline struct model_span span_whole(uint32_t n)
{
    return (struct model_span){n, 0, n};
}

// The same in units of which each element has `n`: columns of heads.
static inline struct model_span span_times(struct model_span span, uint32_t n)
{
    return (struct model_span){span.whole * n, span.first * n, span.count * n};
}

// A dimension cut as evenly as whole numbers allow: what `rank` has of it.
struct model_span span_cut(uint32_t whole, uint32_t rank, uint32_t ranks);

struct model_config;

// Query heads are cut evenly, and KV heads likewise or, where there are fewer than ranks, repeated;
// intermediate columns and vocabulary as evenly as whole numbers allow. UNSUPPORTED: what cannot be
// split, and which sizes could.
enum status model_sizes_make(struct model_sizes *out, const struct model_config *config,
                             const struct model_share *share, struct error *err) MUST_USE;
