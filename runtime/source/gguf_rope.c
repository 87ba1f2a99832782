// SPDX-License-Identifier: Apache-2.0
// Writes the keys and tensors of a GGUF file about rotary embeddings as members of config.json; see
// gguf_family.h. Loading thread only.
#include "runtime/source/gguf_family.h"

#include "base/safe.h"

#include <math.h>
#include <string.h>

static const char take_folder[] = "take the model's Hugging Face folder";

// Writes the list of divisors of the frequencies that a tensor of the file has.
static void put_list(struct config_writer *w, const char *field, const char *name, uint32_t count)
{
    const struct gguf_tensor *factors = gguf_tensor_find(w->file, name);
    if (w->status != STATUS_OK)
        return;
    if (!factors || factors->type->id != GGUF_TYPE_F32 || factors->dims != 1 ||
        factors->shape[0] != count) {
        w->status = error_set(w->err, STATUS_INVALID,
                              "%s: the tensor %s is missing or not %u factors in F32; take another "
                              "file of the model",
                              w->file->name, name, count);
        return;
    }
    const char *from = gguf_home(w->file, factors)->file.at + factors->offset;
    json_put_format(w->out, ",\"%s\":[", field);
    for (uint64_t i = 0; i < count && w->status == STATUS_OK; i++) {
        float factor;
        memcpy(&factor, from + i * sizeof factor, sizeof factor);
        if (!(factor >= 1e-3f && factor <= 1e6f))
            w->status = error_set(w->err, STATUS_INVALID,
                                  "%s: the tensor %s has a factor that is not 0.001 to 1e+06; the "
                                  "file is damaged, download it again",
                                  w->file->name, name);
        json_put_literal(w->out, i > 0 ? "," : "");
        json_put_double(w->out, w->status == STATUS_OK ? (double)factor : 1);
    }
    json_put_literal(w->out, "]");
}

// Writes the divisors of the frequencies as longrope. by_length: true if short and long texts have
// their own; false: all texts have those of rope_freqs (Llama 3).
static void put_longrope(struct config_writer *w, uint32_t rotary, bool by_length, double attention)
{
    static const char *const names[][2] = {
        {"rope_freqs.weight", "rope_freqs.weight"},
        {"rope_factors_short.weight", "rope_factors_long.weight"}};
    uint32_t original =
        config_count_get(w, "rope.scaling.original_context_length", 1, 1 << 24, w->positions);
    json_put_literal(w->out, ",\"rope_scaling\":{\"rope_type\":\"longrope\"");
    config_put_number(w, "attention_factor", by_length ? attention : 1);
    if (by_length)
        config_put_count(w, "original_max_position_embeddings", original);
    put_list(w, "short_factor", names[by_length][0], rotary / 2);
    put_list(w, "long_factor", names[by_length][1], rotary / 2);
    json_put_literal(w->out, "}");
}

struct scaling {
    bool yarn, linear, longrope; // all false: none
    double factor;               // factor of the number of positions
    double attention;            // rope.scaling.attn_factor
};

// Reads the scaling of positions. A factor without a type is linear.
static struct scaling scaling_read(struct config_writer *w)
{
    char key[GGUF_KEY_BYTES];
    struct text type;
    config_key_make(key, w, "rope.scaling.type");
    w->status = gguf_text(&type, w->file, key, w->err);
    struct scaling out = {.yarn = type.at && text_is(type, "yarn"),
                          .linear = type.at && text_is(type, "linear"),
                          .longrope = type.at && text_is(type, "longrope")};
    out.attention = config_number_get(w, "rope.scaling.attn_factor", 1e-3, 1e3, 1);
    if (w->status != STATUS_OK || out.longrope || (type.at && text_is(type, "none")))
        return out;
    if (type.at && !out.linear && !out.yarn) {
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s is %.64s; none, linear, yarn and longrope are "
                              "served, take the model's Hugging Face folder",
                              w->file->name, key, safe_of(type).at);
        return out;
    }
    double older = config_number_get(w, "rope.scale_linear", 1e-3, 1e6, 0); // name before 2024
    double fallback = older > 0 ? older : type.at ? (double)NAN : 1;
    out.factor = config_number_get(w, "rope.scaling.factor", 1e-3, 1e6, fallback);
    out.linear = out.linear || (!type.at && out.factor != 1);
    return out;
}

// Writes the factors that only Ministral 3 has: those of yarn, whose mscale is 1, and the scale of
// queries by position.
static void put_temperature(struct config_writer *w)
{
    if (!(w->family->flags & GGUF_TEMPERATURE))
        return;
    double all = config_number_get(w, "rope.scaling.yarn_log_multiplier", 0, 1e3, 0);
    double beta = config_number_get(w, "attention.temperature_scale", 0, 1e3, 0);
    if (all > 0) {
        config_put_number(w, "mscale", 1);
        config_put_number(w, "mscale_all_dim", all);
    }
    if (beta > 0)
        config_put_number(w, "llama_4_scaling_beta", beta);
}

static void put_scaling(struct config_writer *w, const struct scaling *scaling)
{
    double factor = scaling->factor;
    json_put_format(w->out, ",\"rope_scaling\":{\"rope_type\":\"%s\"",
                    scaling->yarn ? "yarn" : "linear");
    config_put_number(w, "factor", factor);
    uint32_t original = config_count_get(w, "rope.scaling.original_context_length", 1, 1 << 24, 0);
    double attention = scaling->attention;
    double usual = factor > 1 ? 0.1 * log(factor) + 1 : 1;
    double yarn = config_number_get(w, "rope.scaling.yarn_attn_factor", 1e-3, 1e3, usual);
    if (original > 0)
        config_put_count(w, "original_max_position_embeddings", original);
    if (attention != 1 || yarn != usual) // config.json has the product of all factors
        config_put_number(w, "attention_factor", attention * yarn);
    config_put_number(w, "beta_fast",
                      config_number_get(w, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32));
    config_put_number(w, "beta_slow",
                      config_number_get(w, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1));
    if (w->family->flags & GGUF_YARN_EXACT)
        json_put_literal(w->out, ",\"truncate\":false");
    put_temperature(w);
    json_put_literal(w->out, "}");
}

// Writes the rotated part of a head, and returns the number of its columns.
static uint32_t put_part(struct config_writer *w)
{
    uint32_t rotary = config_count_get(w, "rope.dimension_count", 4, 512, w->head_dim);
    bool whole = rotary == w->head_dim;
    if (w->status == STATUS_OK && !whole &&
        (rotary % 2 != 0 || rotary > w->head_dim || (w->family->flags & GGUF_PAIRED)))
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.rope.dimension_count is %u and heads have %u "
                              "columns: rotating %s is not served with %s, take another model",
                              w->file->name, w->family->name, rotary, w->head_dim,
                              rotary < w->head_dim ? "some of them" : "these", w->family->name);
    // The product of this and the columns of a head is rounded down to `rotary`.
    if (w->status == STATUS_OK)
        config_put_number(w, "partial_rotary_factor", whole ? 1 : (rotary + 0.25) / w->head_dim);
    return rotary;
}

// Writes the base of layers with a window, or refuses one that the family does not have.
static void put_window_base(struct config_writer *w, double base)
{
    if (!(w->family->flags & GGUF_WINDOW))
        return;
    bool own = w->family->flags & GGUF_WINDOW_ROPE;
    double other = config_number_get(w, "rope.freq_base_swa", 1.0001, 1e12, own ? 10000 : base);
    if (own)
        config_put_number(w, "rope_local_base_freq", other);
    else if (w->status == STATUS_OK && other != base)
        w->status =
            error_set(w->err, STATUS_UNSUPPORTED,
                      "%s: the key %s.rope.freq_base_swa is %g and rope.freq_base %g: two "
                      "bases are not served with %s, %s",
                      w->file->name, w->family->name, other, base, w->family->name, take_folder);
}

// Refuses a model without rotary embeddings.
static void switch_check(struct config_writer *w)
{
    char key[GGUF_KEY_BYTES];
    bool rotates = true;
    if (w->status != STATUS_OK || !(w->family->flags & GGUF_ROPE_SWITCH))
        return;
    config_key_make(key, w, "rope.scaling.finetuned");
    w->status = gguf_flag(&rotates, w->file, key, true, w->err);
    if (w->status == STATUS_OK && !rotates)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s is false: %s without rotary embeddings is not "
                              "served, take another model",
                              w->file->name, key, w->family->name);
}

void config_put_rope(struct config_writer *w)
{
    double base = config_number_get(w, "rope.freq_base", 1.0001, 1e12, 10000);
    config_put_number(w, "rope_theta", base);
    switch_check(w);
    uint32_t rotary = put_part(w);
    put_window_base(w, base);
    if (w->status != STATUS_OK)
        return;
    bool freqs = gguf_tensor_find(w->file, "rope_freqs.weight") != NULL;
    struct scaling scaling = scaling_read(w);
    bool by_length = scaling.longrope || gguf_tensor_find(w->file, "rope_factors_long.weight") ||
                     gguf_tensor_find(w->file, "rope_factors_short.weight");
    bool scaled = scaling.yarn || scaling.linear;
    bool tempered = (w->family->flags & GGUF_TEMPERATURE) &&
                    config_number_get(w, "attention.temperature_scale", 0, 1e3, 0) > 0;
    if (w->status != STATUS_OK)
        return;
    if (tempered && !scaling.yarn)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.attention.temperature_scale is served with yarn "
                              "alone, %s",
                              w->file->name, w->family->name, take_folder);
    else if (scaling.attention != 1 && !scaling.yarn && !by_length)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.rope.scaling.attn_factor is served with yarn and "
                              "longrope alone, %s",
                              w->file->name, w->family->name, take_folder);
    else if (scaled + freqs + by_length > 1)
        w->status =
            error_set(w->err, STATUS_UNSUPPORTED,
                      "%s: the tensor %s and %s both scale positions: only one of them is "
                      "served, %s",
                      w->file->name, freqs ? "rope_freqs.weight" : "rope_factors_long.weight",
                      scaled ? "the keys rope.scaling" : "rope_factors_long.weight", take_folder);
    else if (scaled)
        put_scaling(w, &scaling);
    else if (freqs || by_length)
        put_longrope(w, rotary, by_length, scaling.attention);
    else if (w->family->flags & GGUF_YARN_EXACT) // the architecture's default is yarn
        json_put_literal(w->out, ",\"rope_scaling\":{\"rope_type\":\"default\"}");
}
