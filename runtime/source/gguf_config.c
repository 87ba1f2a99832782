// SPDX-License-Identifier: Apache-2.0
// Writes the keys of a GGUF file about the model as config.json, generation_config.json and, for
// embedders, modules.json and the configuration of the pooling. All keys are checked here, so that
// an error names a key and not a field that the file does not have. Loading thread only.
#include "runtime/source/gguf_documents.h"
#include "runtime/source/gguf_family.h"

#include "base/safe.h"
#include "runtime/source/config_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDS_MAX = 16 };

struct ends {
    uint32_t ids[ENDS_MAX];
    uint32_t count;
};

enum gguf_pooling { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_RANK };

void config_key_make(char out[GGUF_KEY_BYTES], const struct config_writer *w, const char *rest)
{
    snprintf(out, GGUF_KEY_BYTES, "%s.%s", w->family->name, rest);
}

// Reads the number of the key that ends with `rest`; wanted.key is set here. whole: it must be a
// whole number.
static double value_get(struct config_writer *w, const char *rest, struct gguf_number wanted,
                        bool whole)
{
    char key[GGUF_KEY_BYTES];
    double number = 0;
    uint32_t count = 0;
    config_key_make(key, w, rest);
    wanted.key = key;
    if (w->status == STATUS_OK)
        w->status = whole ? gguf_count(&count, w->file, &wanted, w->err)
                          : gguf_number(&number, w->file, &wanted, w->err);
    return whole ? count : number;
}

uint32_t config_count_get(struct config_writer *w, const char *rest, double low, double high,
                          double fallback)
{
    return (uint32_t)value_get(w, rest, (struct gguf_number){NULL, low, high, fallback}, true);
}

double config_number_get(struct config_writer *w, const char *rest, double low, double high,
                         double fallback)
{
    return value_get(w, rest, (struct gguf_number){NULL, low, high, fallback}, false);
}

void config_put_count(struct config_writer *w, const char *field, uint32_t value)
{
    json_put_format(w->out, ",\"%s\":%u", field, value);
}

void config_put_number(struct config_writer *w, const char *field, double value)
{
    json_put_format(w->out, ",\"%s\":", field);
    json_put_double(w->out, isfinite(value) ? value : 0);
}

// Refuses adapters, image encoders and other files that are no model.
static enum status type_check(const struct config_writer *w, struct text architecture)
{
    struct text type;
    enum status status = gguf_text(&type, w->file, "general.type", w->err);
    if (status != STATUS_OK)
        return status;
    bool adapter = type.at && text_is(type, "adapter");
    bool encoder = text_is(architecture, "clip") || (type.at && text_is(type, "mmproj"));
    if (!encoder && (!type.at || text_is(type, "model")))
        return STATUS_OK;
    return error_set(w->err, STATUS_UNSUPPORTED, "%s: %s", w->file->name,
                     adapter   ? "the file is an adapter (general.type), which is not served: "
                                 "merge it into its model and take that"
                     : encoder ? "the file is the image or audio encoder of a model, which is not "
                                 "served: give the file of the model itself"
                               : "the file is not a model (general.type): give the file of one");
}

static enum status family_find(struct config_writer *w)
{
    struct text name;
    enum status status = gguf_text(&name, w->file, "general.architecture", w->err);
    if (status == STATUS_OK)
        status = type_check(w, name.at ? name : text_of(""));
    if (status != STATUS_OK)
        return status;
    w->family = gguf_family_find(name);
    if (w->family)
        return STATUS_OK;
    char known[512];
    gguf_family_list(known, sizeof known);
    return error_set(w->err, STATUS_UNSUPPORTED,
                     "%s: the key general.architecture is %.64s; %s are served, take a model of "
                     "one of them",
                     w->file->name, name.at ? safe_of(name).at : "missing", known);
}

static bool has_tensor(const struct config_writer *w, const char *name)
{
    return gguf_tensor_find(w->file, name) != NULL;
}

// Returns the window of the layers that have one; 0: none. llama.cpp gives EXAONE 4 of 64 layers a
// window of 4,096 keys if the file has no other. A family whose layers have rotary embeddings only
// with a window must have one.
static uint32_t window_of(struct config_writer *w)
{
    bool exaone = w->layers == 64 && strcmp(w->family->name, "exaone4") == 0;
    bool needed = w->family->flags & GGUF_ROPE_WINDOW;
    return config_count_get(w, "attention.sliding_window", needed, 1 << 24,
                            needed   ? (double)NAN
                            : exaone ? 4096
                                     : 0);
}

// Refuses an encoder whose head is not completely in the file. Converters leave out the pooler of
// BERT, and the head of DistilBERT has the names of RoBERTa's and another activation.
static void head_check(struct config_writer *w)
{
    struct text model = {NULL, 0};
    if (w->status == STATUS_OK)
        w->status = gguf_text(&model, w->file, "tokenizer.ggml.model", w->err);
    bool bert = model.at && text_is(model, "bert");
    if (w->status == STATUS_OK &&
        (bert || !has_tensor(w, "cls.weight") || !has_tensor(w, "cls.output.weight")))
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.pooling_type is 4, a reranker whose head is not "
                              "completely in the file: only the heads of RoBERTa, XLM-RoBERTa and "
                              "ModernBERT are, take the model's Hugging Face folder",
                              w->file->name, w->family->name);
}

static void put_architecture(struct config_writer *w)
{
    w->pooling = config_count_get(w, "pooling_type", 0, 4, POOLING_NONE);
    const struct gguf_family *family = w->family;
    bool headed = w->pooling == POOLING_RANK && !family->generator && family->variant;
    bool ranks = w->pooling == POOLING_RANK && (family->flags & GGUF_RANKS);
    bool embeds = !family->generator || (w->pooling >= POOLING_MEAN && w->pooling <= POOLING_LAST);
    bool varies = family->flags & GGUF_TEMPERATURE
                      ? config_number_get(w, "attention.temperature_scale", 0, 1e3, 0) > 0
                      : family->variant && window_of(w) > 0;
    bool experts = family->mixture && config_has_experts(w);
    const char *generator = varies    ? family->variant
                            : experts ? family->mixture->generator
                                      : family->generator;
    if (headed)
        head_check(w);
    else if (w->status == STATUS_OK && w->pooling == POOLING_RANK && !ranks)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.pooling_type is 4, a reranker: of GGUF files those "
                              "of bert, modern-bert and qwen3 are served, take its Hugging Face "
                              "folder",
                              w->file->name, family->name);
    if (w->status == STATUS_OK && embeds && !family->embedder)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.pooling_type is %u, an embedder: those of bert, "
                              "jina-bert-v2, llama, mistral3, modern-bert, nomic-bert, qwen2 and "
                              "qwen3 are served, take another model",
                              w->file->name, family->name, w->pooling);
    json_put_format(w->out, "{\"architectures\":[\"%s\"]",
                    headed                       ? family->variant
                    : embeds && family->embedder ? family->embedder
                                                 : generator);
    if (ranks)
        json_put_literal(w->out, ",\"is_original_qwen3_reranker\":true");
}

// Returns the rows of the embedding table; for a file with only a vocabulary, the length of its
// list.
static uint32_t vocab_of(struct config_writer *w)
{
    const struct gguf_tensor *table = gguf_tensor_find(w->file, "token_embd.weight");
    const struct gguf_value *tokens = gguf_find(w->file, "tokenizer.ggml.tokens");
    uint64_t rows = table && table->dims == 2 ? table->shape[1] : tokens ? tokens->count : 0;
    if (w->status == STATUS_OK && (rows == 0 || rows > 1 << 24))
        w->status = error_set(w->err, STATUS_INVALID,
                              "%s: the tensor token_embd.weight is missing or not a table of 1 to "
                              "%d rows; take another file of the model",
                              w->file->name, 1 << 24);
    return (uint32_t)rows;
}

static void put_shape(struct config_writer *w)
{
    w->hidden = config_count_get(w, "embedding_length", 8, 1 << 16, NAN);
    w->layers = config_count_get(w, "block_count", 1, 1024, NAN);
    w->layers -=
        config_count_get(w, "nextn_predict_layers", 0, w->layers > 0 ? w->layers - 1 : 0, 0);
    w->heads = config_count_get(w, "attention.head_count", 1, 1024, NAN);
    uint32_t kv = config_count_get(w, "attention.head_count_kv", 1, 1024, w->heads);
    uint32_t share = w->heads > 0 ? w->hidden / w->heads : 0;
    w->head_dim = config_count_get(w, "attention.key_length", 8, 512, share);
    uint32_t values = config_count_get(w, "attention.value_length", 8, 512, w->head_dim);
    bool whole = w->heads > 0 && w->head_dim >= 16 &&
                 (w->head_dim != share || w->hidden % w->heads == 0) && kv > 0 &&
                 w->heads % kv == 0;
    if (w->status == STATUS_OK && !whole)
        w->status = error_set(w->err, STATUS_INVALID,
                              "%s: the keys %s.embedding_length %u, %s.attention.head_count %u, "
                              "%s.attention.head_count_kv %u and heads of %u columns do not fit "
                              "each other; take another file of the model",
                              w->file->name, w->family->name, w->hidden, w->family->name, w->heads,
                              w->family->name, kv, w->head_dim);
    if (w->status == STATUS_OK && values != w->head_dim)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.attention.value_length is %u and key_length %u: "
                              "heads of two lengths are not served, take another model",
                              w->file->name, w->family->name, values, w->head_dim);
    config_put_count(w, "hidden_size", w->hidden);
    config_put_count(w, "num_hidden_layers", w->layers);
    config_put_count(w, "num_attention_heads", w->heads);
    config_put_count(w, "num_key_value_heads", kv);
    config_put_count(w, "intermediate_size",
                     config_count_get(w, "feed_forward_length", 8, 1 << 20, NAN));
    config_put_count(w, "vocab_size", vocab_of(w));
}

// Returns a number or a flag as JSON, other values as a text.
static json_t *value_json(const struct gguf_value *value)
{
    double number = 0;
    if (value->kind == GGUF_BOOL)
        return json_boolean(value->bytes.at[0] != 0);
    if (value->kind == GGUF_STRING || value->kind == GGUF_ARRAY)
        return json_string(value->kind == GGUF_STRING ? safe_of(value->bytes).at : "a list");
    struct gguf_value one = *value;
    one.item = value->kind;
    one.count = 1;
    number = gguf_item(&one, 0);
    return isfinite(number) ? json_real(number) : json_string("not finite");
}

// Refuses a key of the table of keys (config_keys.h) with a value that changes the model.
static void key_judge(struct config_writer *w, const struct gguf_value *value,
                      const struct config_key *key, const struct config_facts *facts)
{
    json_t *json = value_json(value);
    if (config_key_ignored(key, json, facts)) {
        char *shown = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        w->status =
            error_set(w->err, STATUS_UNSUPPORTED,
                      "%s: the key %s is %.64s: %s is not served with %s, take another "
                      "model",
                      w->file->name, safe_of(value->key).at, shown, key->meaning, w->family->name);
        free(shown);
    }
    json_decref(json);
}

// Returns true for a key that this file or gguf_rope.c reads for the family, or that has no effect.
// rest: the key after the name of the family.
static bool key_is_read(const struct gguf_family *family, const char *rest)
{
    static const struct {
        const char *rest;
        uint32_t flags; // the families that read it have one of these flags; 0: all do
    } known[] = {
        {"attention.causal", 0},
        {"attention.head_count", 0},
        {"attention.head_count_kv", 0},
        {"attention.key_length", 0},
        {"attention.layer_norm_epsilon", 0},
        {"attention.layer_norm_rms_epsilon", 0},
        {"attention.sliding_window", 0},
        {"attention.sliding_window_pattern", GGUF_WINDOW},
        {"attention.temperature_scale", GGUF_TEMPERATURE},
        {"attention.value_length", 0},
        {"rope.dimension_count", 0},
        {"rope.freq_base", 0},
        {"rope.freq_base_swa", GGUF_WINDOW},
        {"rope.scale_linear", 0},
        {"rope.scaling.attn_factor", 0},
        {"rope.scaling.factor", 0},
        {"rope.scaling.finetuned", 0},
        {"rope.scaling.original_context_length", 0},
        {"rope.scaling.type", 0},
        {"rope.scaling.yarn_attn_factor", 0},
        {"rope.scaling.yarn_beta_fast", 0},
        {"rope.scaling.yarn_beta_slow", 0},
        {"rope.scaling.yarn_log_multiplier", GGUF_TEMPERATURE},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(rest, known[i].rest) == 0)
            return known[i].flags == 0 || (known[i].flags & family->flags);
    return family->mixture ? config_expert_key(rest) : strcmp(rest, "expert_count") == 0;
}

// Refuses keys that no code reads and that change what the model computes, and unknown keys of the
// groups whose keys may.
static void keys_check(struct config_writer *w)
{
    const struct config_facts facts = {
        .family = w->family->generator ? KEY_DECODERS : KEY_ENCODERS,
        .reads = w->family->reads,
        .head_dim = w->head_dim,
        .hidden = w->hidden,
        .positions = w->positions,
    };
    size_t family = strlen(w->family->name);
    for (uint32_t i = 0; i < w->file->value_count && w->status == STATUS_OK; i++) {
        struct text key = w->file->values[i].key;
        char rest[GGUF_KEY_BYTES];
        if (key.bytes <= family || memcmp(key.at, w->family->name, family) != 0 ||
            key.at[family] != '.')
            continue;
        snprintf(rest, sizeof rest, "%.*s", (int)(key.bytes - family - 1), key.at + family + 1);
        bool matters = text_begins(text_of(rest), "rope.") ||
                       text_begins(text_of(rest), "attention.") ||
                       (w->family->mixture && text_begins(text_of(rest), "expert_"));
        bool read = key_is_read(w->family, rest);
        const struct config_key *row = read ? NULL : config_key_of_gguf(rest, facts.family);
        if (row)
            key_judge(w, &w->file->values[i], row, &facts);
        else if (matters && !read)
            w->status = error_set(w->err, STATUS_UNSUPPORTED,
                                  "%s: the key %s may change what the model computes and is not "
                                  "read, take the model's Hugging Face folder",
                                  w->file->name, safe_of(key).at);
    }
}

static void causal_check(struct config_writer *w)
{
    bool causal;
    char key[GGUF_KEY_BYTES];
    config_key_make(key, w, "attention.causal");
    if (w->status == STATUS_OK)
        w->status = gguf_flag(&causal, w->file, key, true, w->err);
    if (w->status == STATUS_OK && !causal)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s is false: decoders that look ahead are not served, "
                              "take another model",
                              w->file->name, key);
}

// Returns true if a layer has the window. pattern: the key of the pattern, or NULL.
static bool layer_windowed(struct config_writer *w, const struct gguf_value *pattern,
                           uint32_t layer)
{
    if (pattern && pattern->kind == GGUF_ARRAY)
        return gguf_item(pattern, layer) != 0;
    uint32_t each =
        config_count_get(w, "attention.sliding_window_pattern", 0, 1024, w->family->pattern);
    return each == 0 || (layer + 1) % each != 0;
}

// Writes the window and which layers have it.
static void put_window(struct config_writer *w)
{
    char key[GGUF_KEY_BYTES];
    uint32_t window = window_of(w);
    config_key_make(key, w, "attention.sliding_window_pattern");
    const struct gguf_value *pattern = gguf_find(w->file, key);
    if (window == 0 || w->status != STATUS_OK) {
        json_put_literal(w->out, ",\"sliding_window\":null");
        return;
    }
    if (pattern && pattern->kind == GGUF_ARRAY &&
        (pattern->count < w->layers || gguf_kind_bytes(pattern->item) == 0)) {
        w->status = error_set(w->err, STATUS_INVALID,
                              "%s: the key %s is not a list of %u flags; take another file of the "
                              "model",
                              w->file->name, key, w->layers);
        return;
    }
    config_put_count(w, "sliding_window", window);
    json_put_literal(w->out, ",\"layer_types\":[");
    for (uint32_t i = 0; i < w->layers; i++)
        json_put_format(w->out, "%s\"%s_attention\"", i > 0 ? "," : "",
                        layer_windowed(w, pattern, i) ? "sliding" : "full");
    json_put_literal(w->out, "]");
}

// Refuses a window of a family for which nothing specifies the layers that have it.
static void window_check(struct config_writer *w)
{
    uint32_t window = window_of(w);
    if (window > 0 && window < w->positions && w->status == STATUS_OK)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.attention.sliding_window: which layers have the "
                              "window is not in the file, take the model's Hugging Face folder",
                              w->file->name, w->family->name);
}

// Writes the factors and the scale of attention that the family has.
static void put_factors(struct config_writer *w)
{
    double scale = w->head_dim > 0 ? 1 / sqrt(w->head_dim) : 1;
    if (w->family->flags & GGUF_MULTIPLIERS) {
        config_put_number(w, "embedding_multiplier",
                          config_number_get(w, "embedding_scale", 1e-6, 1e6, 1));
        config_put_number(w, "residual_multiplier",
                          config_number_get(w, "residual_scale", 1e-6, 1e6, 1));
        config_put_number(w, "attention_multiplier",
                          config_number_get(w, "attention.scale", 1e-6, 1e6, scale));
        config_put_number(w, "logits_scaling", config_number_get(w, "logit_scale", 1e-6, 1e6, NAN));
    }
    if (w->family->flags & GGUF_LOGIT_SCALE)
        config_put_number(w, "logit_scale", config_number_get(w, "logit_scale", 1e-6, 1e6, NAN));
    // The scale of Gemma 3 is not in the file. Its largest model, of 62 layers, has another one.
    if (w->family->flags & GGUF_QUERY_SCALAR)
        config_put_count(w, "query_pre_attn_scalar",
                         w->layers == 62 && w->heads > 0 ? w->hidden / w->heads : w->head_dim);
}

static const char *flag_text(bool flag)
{
    return flag ? "true" : "false";
}

// Writes the epsilon of the norms of a decoder. Refuses norms of q and k that are no RMS norms.
static void put_norms(struct config_writer *w)
{
    bool mean = w->family->flags & GGUF_LAYER_NORM;
    config_put_number(w, mean ? "layer_norm_eps" : "rms_norm_eps",
                      config_number_get(w,
                                        mean ? "attention.layer_norm_epsilon"
                                             : "attention.layer_norm_rms_epsilon",
                                        0, 1, NAN));
    if (w->status == STATUS_OK && mean && has_tensor(w, "blk.0.attn_q_norm.weight"))
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the tensor blk.0.attn_q_norm.weight: norms of q and k are not "
                              "served with %s, take another model",
                              w->file->name, w->family->name);
}

static void put_decoder(struct config_writer *w)
{
    causal_check(w);
    w->positions = config_count_get(w, "context_length", 1, 1 << 24, NAN);
    config_put_count(w, "max_position_embeddings", w->positions);
    put_norms(w);
    config_put_count(w, "head_dim", w->head_dim);
    config_put_rope(w);
    config_put_experts(w);
    if (w->family->flags & GGUF_WINDOW)
        put_window(w);
    else
        window_check(w);
    put_factors(w);
    json_put_format(
        w->out,
        ",\"tie_word_embeddings\":%s,\"stored_biases\":{\"qkv\":%s,\"o\":%s,"
        "\"ffn\":%s}",
        flag_text(!has_tensor(w, "output.weight")),
        flag_text(has_tensor(w, "blk.0.attn_q.bias") || has_tensor(w, "blk.0.attn_qkv.bias")),
        flag_text(has_tensor(w, "blk.0.attn_output.bias")),
        flag_text(has_tensor(w, "blk.0.ffn_up.bias")));
    if (w->family->flags & GGUF_QK_NORM)
        json_put_format(w->out, ",\"use_qk_norm\":%s",
                        flag_text(has_tensor(w, "blk.0.attn_q_norm.weight")));
}

// Writes the further settings of a rotary encoder: its biases and, in all layers except each n-th,
// a window on both sides. A file does not contain the pooling of a reranker's head; it is "mean",
// as in llama.cpp.
static void put_rotary_encoder(struct config_writer *w)
{
    config_put_rope(w);
    json_put_format(w->out, ",\"attention_bias\":%s,\"mlp_bias\":%s",
                    flag_text(has_tensor(w, "blk.0.attn_qkv.bias")),
                    flag_text(has_tensor(w, "blk.0.ffn_down.bias")));
    if (!(w->family->flags & GGUF_WINDOW))
        return;
    char key[GGUF_KEY_BYTES];
    struct text activation = {NULL, 0};
    config_key_make(key, w, "hidden_activation");
    if (w->status == STATUS_OK)
        w->status = gguf_text(&activation, w->file, key, w->err);
    if (activation.at) {
        json_put_literal(w->out, ",\"hidden_act\":");
        json_put_string(w->out, activation);
    }
    config_put_count(w, "local_attention",
                     config_count_get(w, "attention.sliding_window", 2, 1 << 24, NAN));
    config_put_count(
        w, "global_attn_every_n_layers",
        config_count_get(w, "attention.sliding_window_pattern", 1, 1024, w->family->pattern));
    json_put_format(
        w->out, ",\"norm_bias\":%s,\"classifier_bias\":%s,\"classifier_pooling\":\"mean\"",
        flag_text(has_tensor(w, "token_embd_norm.bias")), flag_text(has_tensor(w, "cls.bias")));
}

static void put_encoder(struct config_writer *w)
{
    const struct gguf_tensor *positions = gguf_tensor_find(w->file, "position_embd.weight");
    const struct gguf_tensor *kinds = gguf_tensor_find(w->file, "token_types.weight");
    w->positions = config_count_get(w, "context_length", 1, 1 << 24, NAN);
    config_put_number(w, "layer_norm_eps",
                      config_number_get(w, "attention.layer_norm_epsilon", 0, 1, NAN));
    if (w->status == STATUS_OK && positions && positions->dims == 2 &&
        positions->shape[1] < 1 << 24)
        w->positions = (uint32_t)positions->shape[1];
    config_put_count(w, "max_position_embeddings", w->positions);
    config_put_count(w, "type_vocab_size",
                     kinds && kinds->dims == 2 && kinds->shape[1] <= 1024
                         ? (uint32_t)kinds->shape[1]
                     : kinds && kinds->dims == 1 ? 1
                                                 : 0);
    if (w->family->flags & GGUF_ROTARY)
        put_rotary_encoder(w);
    else if (w->pooling == POOLING_RANK) // RoBERTa: converters leave out the first positions
        config_put_count(w, "positions_from", 0);
}

static void end_add(struct ends *ends, uint32_t id)
{
    for (uint32_t k = 0; k < ends->count; k++)
        if (ends->ids[k] == id)
            return;
    if (ends->count < ENDS_MAX)
        ends->ids[ends->count++] = id;
}

// Adds end ids by their text: converters often write only one of several end ids to the keys.
static void ends_by_text(struct ends *ends, struct config_writer *w, uint32_t vocab)
{
    static const char *const texts[] = {"<|eot_id|>",    "<|im_end|>",      "<|end|>",
                                        "<|return|>",    "<|call|>",        "<end_of_turn>",
                                        "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>",
                                        "<EOT>",         "_<EOT>",          "<end_of_utterance>"};
    const struct gguf_value *list = NULL;
    struct text *tokens = NULL;
    if (w->status == STATUS_OK)
        w->status = gguf_array(&list, w->file, "tokenizer.ggml.tokens", 1u << GGUF_STRING, w->err);
    if (w->status == STATUS_OK && list)
        w->status = gguf_strings(&tokens, w->file, list, GGUF_TOKENS_MAX, w->scratch, w->err);
    for (uint32_t id = 0; w->status == STATUS_OK && list && id < list->count && id < vocab; id++)
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            if (text_is(tokens[id], texts[k]))
                end_add(ends, id);
}

static void put_ends(struct config_writer *w, uint32_t vocab)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    struct ends ends = {.count = 0};
    for (int i = 0; i < 3 && w->status == STATUS_OK; i++) {
        int32_t id;
        w->status = gguf_token_id(&id, w->file, keys[i], vocab, w->err);
        if (w->status == STATUS_OK && id >= 0)
            end_add(&ends, (uint32_t)id);
    }
    if (w->family->generator)
        ends_by_text(&ends, w, vocab);
    json_put_literal(w->out, ",\"eos_token_id\":[");
    for (uint32_t k = 0; k < ends.count; k++)
        json_put_format(w->out, "%s%u", k > 0 ? "," : "", ends.ids[k]);
    json_put_literal(w->out, "]}");
}

static void config_json(struct config_writer *w)
{
    put_architecture(w);
    put_shape(w);
    if (w->status != STATUS_OK)
        return;
    if (w->family->generator)
        put_decoder(w);
    else
        put_encoder(w);
    keys_check(w);
    if (w->status == STATUS_OK)
        put_ends(w, vocab_of(w));
}

// Writes the sampling defaults, which newer files contain.
static void generation_json(struct config_writer *w)
{
    static const struct {
        struct gguf_number wanted;
        const char *field;
    } defaults[] = {
        {{"general.sampling.temp", 0, 100, -1}, "temperature"},
        {{"general.sampling.top_p", 0, 1, -1}, "top_p"},
        {{"general.sampling.top_k", 0, 1 << 24, -1}, "top_k"},
        {{"general.sampling.min_p", 0, 1, -1}, "min_p"},
        {{"general.sampling.penalty_repeat", 0, 100, -1}, "repetition_penalty"},
    };
    json_put_literal(w->out, "{\"from\":\"gguf\"");
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults && w->status == STATUS_OK; i++) {
        double value;
        w->status = gguf_number(&value, w->file, &defaults[i].wanted, w->err);
        if (w->status == STATUS_OK && value >= 0)
            config_put_number(w, defaults[i].field, value);
    }
    json_put_literal(w->out, "}");
}

static bool is_pooling(struct config_writer *w)
{
    w->pooling = config_count_get(w, "pooling_type", 0, 4, POOLING_NONE);
    return w->pooling >= POOLING_MEAN && w->pooling <= POOLING_LAST;
}

static enum status document_absent(const struct gguf *file, const char *name, struct error *err)
{
    return error_set(err, STATUS_NOT_FOUND, "%s has nothing for %s", file->name, name);
}

enum status gguf_size_check(const struct gguf_output *output, const struct gguf *file,
                            struct error *err)
{
    if (output->out->bytes <= output->bytes_max)
        return STATUS_OK;
    return error_set(err, STATUS_TOO_LARGE,
                     "%s: the tokenizer keys need more than %zu bytes; at most that much is read; "
                     "take another file of the model",
                     file->name, output->bytes_max);
}

static enum status document_make(const struct gguf_output *output, const struct gguf *file,
                                 const char *name, struct error *err)
{
    static const char *const poolings[] = {"", "mean", "cls", "lasttoken"};
    struct json_buffer *out = output->out;
    struct config_writer w = {
        .out = out, .scratch = output->scratch, .file = file, .err = err, .status = STATUS_OK};
    if (strcmp(name, "tokenizer.json") == 0)
        return gguf_tokenizer_json(output, file, err);
    if (strcmp(name, "tokenizer_config.json") == 0)
        return gguf_tokenizer_config_json(output, file, err);
    bool config = strcmp(name, "config.json") == 0;
    bool generation = strcmp(name, "generation_config.json") == 0;
    bool modules = strcmp(name, "modules.json") == 0;
    bool pooling = strcmp(name, "1_Pooling/config.json") == 0;
    if (!config && !generation && !modules && !pooling)
        return document_absent(file, name, err);
    w.status = family_find(&w);
    if (w.status == STATUS_UNSUPPORTED && !config) // reading config.json reports it
        return document_absent(file, name, err);
    if (w.status != STATUS_OK)
        return w.status;
    if (config)
        config_json(&w);
    else if (generation)
        generation_json(&w);
    else if (!is_pooling(&w))
        return w.status == STATUS_OK ? document_absent(file, name, err) : w.status;
    else if (modules)
        json_put_literal(out, "[{\"type\":\"gguf.Transformer\",\"path\":\"\"},"
                              "{\"type\":\"gguf.Pooling\",\"path\":\"1_Pooling\"}]");
    else
        json_put_format(out, "{\"pooling_mode\":\"%s\"}", poolings[w.pooling]);
    return w.status;
}

enum status gguf_document(const struct gguf_output *output, const struct gguf *file,
                          const char *name, struct error *err)
{
    enum status status = document_make(output, file, name, err);
    return status == STATUS_OK ? gguf_size_check(output, file, err) : status;
}
