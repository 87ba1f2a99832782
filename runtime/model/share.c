// SPDX-License-Identifier: Apache-2.0
// Computes the sizes of one rank's part; see share.h.
#include "runtime/model/share.h"

#include "kernels/collective.h"
#include "runtime/model/config.h"

#include <stdio.h>

struct model_span span_cut(uint32_t whole, uint32_t rank, uint32_t ranks, uint32_t unit)
{
    if (unit == 0 || whole % unit != 0 || whole / unit < ranks)
        unit = 1;
    uint64_t units = whole / unit;
    uint32_t first = (uint32_t)(units * rank / ranks) * unit;
    uint32_t end = (uint32_t)(units * (rank + 1) / ranks) * unit;
    return (struct model_span){whole, first, end - first};
}

// Returns true if the model can be split over `ranks` ranks.
static bool share_fits(const struct model_config *c, uint32_t ranks)
{
    bool kv_fits = c->kv_heads % ranks == 0 || ranks % c->kv_heads == 0;
    bool experts_fit = c->experts.count == 0 || c->experts.count >= ranks;
    return c->heads % ranks == 0 && kv_fits && c->intermediate >= ranks && c->vocab >= ranks &&
           experts_fit;
}

const char *model_unsplit(const struct model_config *c)
{
    if (c->arch->family == ARCH_ENCODER)
        return "is an encoder and is";
    if (!c->kinds[0].causal)
        return "whose tokens see later tokens is";
    return c->kinds[0].qk_norm == QK_NORM_ALL ? "normalizes all heads together and is" : NULL;
}

static enum status share_check(const struct model_config *c, uint32_t ranks, struct error *err)
{
    const char *unsplit = ranks > 1 ? model_unsplit(c) : NULL;
    if (ranks > RANKS_MAX)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--tensor-parallel-size is %u; at most %d are possible", ranks, RANKS_MAX);
    if (unsplit)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--tensor-parallel-size %u: a %s %s not split; add "
                         ",tensor-parallel-size=1 after its folder",
                         ranks, c->name, unsplit);
    if (share_fits(c, ranks))
        return STATUS_OK;
    char sizes[64] = "";
    size_t used = 0;
    for (uint32_t i = 1; i <= RANKS_MAX; i++)
        if (share_fits(c, i))
            used += (size_t)snprintf(sizes + used, sizeof sizes - used, used ? ", %u" : "%u", i);
    return error_set(err, STATUS_UNSUPPORTED,
                     "--tensor-parallel-size %u: %u heads and %u KV heads cannot be divided "
                     "evenly%s; possible sizes: %s",
                     ranks, c->heads, c->kv_heads,
                     c->experts.count > 0 && c->experts.count < ranks
                         ? ", or there are fewer experts than ranks"
                         : "",
                     sizes);
}

enum status model_sizes_make(struct model_sizes *out, const struct model_config *c,
                             const struct model_share *share, struct error *err)
{
    uint32_t ranks = share->tp_size > 0 ? share->tp_size : 1;
    uint32_t rank = share->tp_rank;
    check(rank < ranks && share->pp_rank == 0 && share->pp_size <= 1, "rank %u of %u, stage %u",
          rank, ranks, share->pp_rank);
    enum status status = share_check(c, ranks, err);
    if (status != STATUS_OK)
        return status;
    *out = (struct model_sizes){
        .rank = rank,
        .ranks = ranks,
        .heads = span_cut(c->heads, rank, ranks, 1),
        .kv_heads = span_cut(c->kv_heads, rank, ranks, 1),
        .intermediate = span_cut(c->intermediate, rank, ranks, 1),
        .vocab = span_cut(c->vocab, rank, ranks, 1),
        .experts = span_cut(c->experts.count, rank, ranks, 1),
        .shared = span_cut(c->experts.shared_width, rank, ranks, 1),
        .head_dim = c->head_dim,
        .hidden = c->hidden,
        .layers = c->layers,
    };
    if (c->kv_heads < ranks) // each KV head is held by ranks / kv_heads ranks
        out->kv_heads.count = 1;
    return STATUS_OK;
}
