// SPDX-License-Identifier: Apache-2.0
// Writes the keys of a GGUF file about a mixture of experts as members of config.json; see
// gguf_family.h. Loading thread only.
#include "runtime/source/gguf_family.h"

#include <math.h>
#include <string.h>

enum { EXPERTS_MOST = 1 << 16 };

bool config_has_experts(struct config_writer *w)
{
    const struct gguf_mixture *mixture = w->family->mixture;
    bool always = mixture && strcmp(mixture->generator, w->family->generator) == 0;
    return config_count_get(w, "expert_count", always, EXPERTS_MOST, always ? (double)NAN : 0) > 0;
}

// Refuses a key whose value differs from the only one that is served.
static void value_check(struct config_writer *w, const char *rest, double value, double wanted)
{
    if (w->status == STATUS_OK && value != wanted)
        w->status =
            error_set(w->err, STATUS_UNSUPPORTED,
                      "%s: the key %s.%s is %g; only %g is served with %s, take another file of "
                      "the model",
                      w->file->name, w->family->name, rest, value, wanted, w->family->name);
}

static void put_shared(struct config_writer *w, uint32_t inner)
{
    const struct gguf_mixture *mixture = w->family->mixture;
    if (mixture->shared_width) {
        config_put_count(
            w, mixture->shared_width,
            config_count_get(w, "expert_shared_feed_forward_length", 8, 1 << 20, inner));
        return;
    }
    uint32_t count = config_count_get(w, "expert_shared_count", 0, 64, 0);
    if (mixture->shared_count)
        config_put_count(w, mixture->shared_count, count);
    else
        value_check(w, "expert_shared_count", count, 0);
}

// Writes how the weights of a token's experts are computed.
static void put_weights(struct config_writer *w)
{
    const struct gguf_mixture *mixture = w->family->mixture;
    uint32_t flags = mixture->flags;
    char key[GGUF_KEY_BYTES];
    bool norm = false, usual = flags & MIXTURE_NORM || !(flags & MIXTURE_NORM_KEY);
    config_key_make(key, w, "expert_weights_norm");
    value_check(w, "expert_gating_func",
                config_count_get(w, "expert_gating_func", 0, 64, mixture->score), mixture->score);
    if (w->status == STATUS_OK)
        w->status = gguf_flag(&norm, w->file, key, usual, w->err);
    if (flags & MIXTURE_NORM_KEY)
        json_put_format(w->out, ",\"norm_topk_prob\":%s", norm ? "true" : "false");
    else
        value_check(w, "expert_weights_norm", norm, true);
    double factor = config_number_get(w, "expert_weights_scale", 0, 1e6, 1);
    factor = factor == 0 ? 1 : factor; // llama.cpp reads 0 as none
    if (flags & MIXTURE_FACTOR)
        config_put_number(w, "routed_scaling_factor", factor);
    else
        value_check(w, "expert_weights_scale", factor, 1);
    uint32_t groups = config_count_get(w, "expert_group_count", 0, EXPERTS_MOST, 1);
    uint32_t kept = config_count_get(w, "expert_group_used_count", 0, EXPERTS_MOST, groups);
    if (flags & MIXTURE_GROUPS && groups > 1) {
        config_put_count(w, "n_group", groups);
        config_put_count(w, "topk_group", kept);
    } else if (groups > 1) {
        value_check(w, "expert_group_used_count", kept, groups);
    }
}

void config_put_experts(struct config_writer *w)
{
    const struct gguf_mixture *mixture = w->family->mixture;
    bool experts = config_has_experts(w);
    if (w->status != STATUS_OK || !experts)
        return;
    if (!mixture) {
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.expert_count: mixtures of experts of this family are "
                              "not served, take a dense model",
                              w->file->name, w->family->name);
        return;
    }
    uint32_t inner = config_count_get(w, "feed_forward_length", 8, 1 << 20, NAN);
    config_put_count(w, mixture->count, config_count_get(w, "expert_count", 1, EXPERTS_MOST, NAN));
    config_put_count(w, mixture->chosen,
                     config_count_get(w, "expert_used_count", 1, EXPERTS_MOST, NAN));
    if (strcmp(mixture->width, "intermediate_size") != 0)
        config_put_count(w, mixture->width,
                         config_count_get(w, "expert_feed_forward_length", 8, 1 << 20, inner));
    else
        value_check(w, "expert_feed_forward_length",
                    config_count_get(w, "expert_feed_forward_length", 8, 1 << 20, inner), inner);
    put_shared(w, inner);
    put_weights(w);
    uint32_t dense = config_count_get(w, "leading_dense_block_count", 0, 1024, 0);
    uint32_t interval = config_count_get(w, "interleave_moe_layer_step", 0, 1024, 1);
    interval = interval == 0 ? 1 : interval;
    if (mixture->dense)
        config_put_count(w, mixture->dense, dense);
    else
        value_check(w, "leading_dense_block_count", dense, 0);
    if (mixture->interval)
        config_put_count(w, mixture->interval, interval);
    else
        value_check(w, "interleave_moe_layer_step", interval, 1);
}

bool config_expert_key(const char *rest)
{
    static const char *const known[] = {"expert_count",
                                        "expert_used_count",
                                        "expert_feed_forward_length",
                                        "expert_shared_feed_forward_length",
                                        "expert_shared_count",
                                        "expert_weights_norm",
                                        "expert_weights_scale",
                                        "expert_gating_func",
                                        "expert_group_count",
                                        "expert_group_used_count",
                                        "leading_dense_block_count",
                                        "interleave_moe_layer_step"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(rest, known[i]) == 0)
            return true;
    return false;
}
