// SPDX-License-Identifier: Apache-2.0
// Writes the keys of a GGUF file about the model as config.json, generation_config.json and, for
// embedders, modules.json and the configuration of the pooling. All keys are checked here, so that
// an error names a key and not a field that the file does not have. Loading thread only.
#include "runtime/source/gguf_documents.h"

#include "base/safe.h"
#include "runtime/source/config_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 160, ENDS_MAX = 16 };

struct ends {
    uint32_t ids[ENDS_MAX];
    uint32_t count;
};

enum gguf_pooling { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_RANK };

struct gguf_family {
    const char *name;                 // value of general.architecture
    const char *generator, *embedder; // names in config.json; NULL: not served as such
    bool ranks;                       // true if its rerankers compare the tokens yes and no
    // keys of config_keys.h, named as in config.json, that this file reads for the family; NULL:
    // none
    const char *reads;
};

static const struct gguf_family families[] = {
    {"bert", NULL, "BertModel", false, NULL},
    {"llama", "LlamaForCausalLM", "LlamaModel", false, NULL},
    {"qwen2", "Qwen2ForCausalLM", "Qwen2Model", false, NULL},
    {"qwen3", "Qwen3ForCausalLM", "Qwen3Model", true, NULL},
};

const char *gguf_family(const char *architecture)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct gguf_family *family = &families[i];
        if ((family->generator && strcmp(family->generator, architecture) == 0) ||
            strcmp(family->embedder, architecture) == 0)
            return family->name;
    }
    return NULL;
}

struct document {
    struct json_buffer *out;
    struct arena *scratch;
    const struct gguf *file;
    const struct gguf_family *family;
    struct error *err;
    enum status status; // the first failure; later calls do nothing
    uint32_t pooling;
    uint32_t heads, hidden, head_dim, layers, positions;
};

// Writes the full key: "llama.block_count" for "block_count".
static void key_make(char out[KEY_BYTES], const struct document *w, const char *rest)
{
    snprintf(out, KEY_BYTES, "%s.%s", w->family->name, rest);
}

// Reads the number of the key that ends with `rest`; wanted.key is set here. whole: it must be a
// whole number.
static double value_get(struct document *w, const char *rest, struct gguf_number wanted, bool whole)
{
    char key[KEY_BYTES];
    double number = 0;
    uint32_t count = 0;
    key_make(key, w, rest);
    wanted.key = key;
    if (w->status == STATUS_OK)
        w->status = whole ? gguf_count(&count, w->file, &wanted, w->err)
                          : gguf_number(&number, w->file, &wanted, w->err);
    return whole ? count : number;
}

static uint32_t count_get(struct document *w, const char *rest, double low, double high,
                          double fallback)
{
    return (uint32_t)value_get(w, rest, (struct gguf_number){NULL, low, high, fallback}, true);
}

static double number_get(struct document *w, const char *rest, double low, double high,
                         double fallback)
{
    return value_get(w, rest, (struct gguf_number){NULL, low, high, fallback}, false);
}

static void put_count(struct document *w, const char *field, uint32_t value)
{
    json_put_format(w->out, ",\"%s\":%u", field, value);
}

static void put_double(struct document *w, const char *field, double value)
{
    json_put_format(w->out, ",\"%s\":", field);
    json_put_double(w->out, isfinite(value) ? value : 0);
}

static enum status family_find(struct document *w)
{
    struct text name;
    enum status status = gguf_text(&name, w->file, "general.architecture", w->err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; name.at && i < sizeof families / sizeof families[0]; i++)
        if (text_is(name, families[i].name))
            w->family = &families[i];
    if (w->family)
        return STATUS_OK;
    return error_set(w->err, STATUS_UNSUPPORTED,
                     "%s: the key general.architecture is %.64s; bert, llama, qwen2 and qwen3 are "
                     "served, take a model of one of them",
                     w->file->name, name.at ? safe_of(name).at : "missing");
}

static bool has_tensor(const struct document *w, const char *name)
{
    return gguf_tensor_find(w->file, name) != NULL;
}

static void put_architecture(struct document *w)
{
    w->pooling = count_get(w, "pooling_type", 0, 4, POOLING_NONE);
    const struct gguf_family *family = w->family;
    bool ranks = w->pooling == POOLING_RANK && family->ranks;
    bool embeds = !family->generator || (w->pooling >= POOLING_MEAN && w->pooling <= POOLING_LAST);
    if (w->status == STATUS_OK && w->pooling == POOLING_RANK && !ranks)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.pooling_type is 4, a reranker: of GGUF files those "
                              "of qwen3 are served, take its Hugging Face folder",
                              w->file->name, family->name);
    json_put_format(w->out, "{\"architectures\":[\"%s\"]",
                    embeds ? family->embedder : family->generator);
    if (ranks)
        json_put_literal(w->out, ",\"is_original_qwen3_reranker\":true");
}

// Returns the rows of the embedding table; for a file with only a vocabulary, the length of its
// list.
static uint32_t vocab_of(struct document *w)
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

static void put_shape(struct document *w)
{
    w->hidden = count_get(w, "embedding_length", 8, 1 << 16, NAN);
    w->layers = count_get(w, "block_count", 1, 1024, NAN);
    w->heads = count_get(w, "attention.head_count", 1, 1024, NAN);
    uint32_t kv = count_get(w, "attention.head_count_kv", 1, 1024, w->heads);
    uint32_t share = w->heads > 0 ? w->hidden / w->heads : 0;
    w->head_dim = count_get(w, "attention.key_length", 8, 512, share);
    uint32_t values = count_get(w, "attention.value_length", 8, 512, w->head_dim);
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
    put_count(w, "hidden_size", w->hidden);
    put_count(w, "num_hidden_layers", w->layers);
    put_count(w, "num_attention_heads", w->heads);
    put_count(w, "num_key_value_heads", kv);
    put_count(w, "intermediate_size", count_get(w, "feed_forward_length", 8, 1 << 20, NAN));
    put_count(w, "vocab_size", vocab_of(w));
}

// Writes the divisors of the frequencies in the tensor rope_freqs (Llama 3) as factors of longrope.
static void put_factors(struct document *w, const struct gguf_tensor *factors)
{
    uint64_t count = factors->shape[0];
    if (factors->type->id != GGUF_TYPE_F32 || factors->dims != 1 || count != w->head_dim / 2) {
        w->status = error_set(w->err, STATUS_INVALID,
                              "%s: the tensor rope_freqs.weight is not %u factors in F32; take "
                              "another file of the model",
                              w->file->name, w->head_dim / 2);
        return;
    }
    static const char *const names[] = {"short_factor", "long_factor"};
    json_put_literal(w->out,
                     ",\"rope_scaling\":{\"rope_type\":\"longrope\",\"attention_factor\":1");
    for (int n = 0; n < 2; n++) {
        json_put_format(w->out, ",\"%s\":[", names[n]);
        for (uint64_t i = 0; i < count && w->status == STATUS_OK; i++) {
            float factor;
            memcpy(&factor, w->file->file.at + factors->offset + i * sizeof factor, sizeof factor);
            if (!(factor >= 1e-3f && factor <= 1e6f))
                w->status = error_set(w->err, STATUS_INVALID,
                                      "%s: the tensor rope_freqs.weight has a factor that is not "
                                      "0.001 to 1e+06; the file is damaged, download it again",
                                      w->file->name);
            json_put_literal(w->out, i > 0 ? "," : "");
            json_put_double(w->out, w->status == STATUS_OK ? (double)factor : 1);
        }
        json_put_literal(w->out, "]");
    }
    json_put_literal(w->out, "}");
}

struct scaling {
    bool yarn; // true: yarn; false: linear
    double factor;
};

// Reads the scaling of positions; returns false if the keys specify none. A factor without a type
// is linear.
static bool scaling_read(struct scaling *out, struct document *w)
{
    char key[KEY_BYTES];
    struct text type;
    key_make(key, w, "rope.scaling.type");
    w->status = gguf_text(&type, w->file, key, w->err);
    bool linear = type.at && text_is(type, "linear");
    out->yarn = type.at && text_is(type, "yarn");
    double attention = number_get(w, "rope.scaling.attn_factor", 1e-3, 1e3, 1);
    if (w->status == STATUS_OK && attention != 1 && !out->yarn)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.rope.scaling.attn_factor is served with yarn alone, "
                              "take the model's Hugging Face folder",
                              w->file->name, w->family->name);
    if (w->status != STATUS_OK || (type.at && text_is(type, "none")))
        return false;
    if (type.at && !linear && !out->yarn) {
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s is %.64s; none, linear and yarn are served, take the "
                              "model's Hugging Face folder",
                              w->file->name, key, safe_of(type).at);
        return false;
    }
    double older = number_get(w, "rope.scale_linear", 1e-3, 1e6, 0); // the key's name before 2024
    double fallback = older > 0 ? older : type.at ? (double)NAN : 1;
    out->factor = number_get(w, "rope.scaling.factor", 1e-3, 1e6, fallback);
    return w->status == STATUS_OK && (type.at || out->factor != 1);
}

static void put_scaling(struct document *w, const struct scaling *scaling)
{
    double factor = scaling->factor;
    json_put_format(w->out, ",\"rope_scaling\":{\"rope_type\":\"%s\"",
                    scaling->yarn ? "yarn" : "linear");
    put_double(w, "factor", factor);
    uint32_t original = count_get(w, "rope.scaling.original_context_length", 1, 1 << 24, 0);
    double attention = number_get(w, "rope.scaling.attn_factor", 1e-3, 1e3, 1);
    if (original > 0)
        put_count(w, "original_max_position_embeddings", original);
    if (attention != 1) // config.json has the product of yarn's factor and this one
        put_double(w, "attention_factor", attention * (factor > 1 ? 0.1 * log(factor) + 1 : 1));
    put_double(w, "beta_fast", number_get(w, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32));
    put_double(w, "beta_slow", number_get(w, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1));
    json_put_literal(w->out, "}");
}

static void put_rope(struct document *w)
{
    put_double(w, "rope_theta", number_get(w, "rope.freq_base", 1.0001, 1e12, 10000));
    uint32_t rotary = count_get(w, "rope.dimension_count", 4, 512, w->head_dim);
    if (w->status == STATUS_OK && rotary != w->head_dim)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.rope.dimension_count is %u and heads have %u "
                              "columns: rotating some of them is not served, take another model",
                              w->file->name, w->family->name, rotary, w->head_dim);
    const struct gguf_tensor *factors = gguf_tensor_find(w->file, "rope_freqs.weight");
    struct scaling scaling = {false, 1};
    bool scaled = w->status == STATUS_OK && scaling_read(&scaling, w);
    if (scaled && factors)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the tensor rope_freqs.weight and the keys %s.rope.scaling both "
                              "scale positions: only one of them is served, take the model's "
                              "Hugging Face folder",
                              w->file->name, w->family->name);
    else if (scaled)
        put_scaling(w, &scaling);
    else if (w->status == STATUS_OK && factors)
        put_factors(w, factors);
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
static void key_judge(struct document *w, const struct gguf_value *value,
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

// Refuses keys that no code reads and that change what the model computes, and unknown keys of the
// groups whose keys may.
static void keys_check(struct document *w)
{
    static const char *const groups[] = {"rope.", "attention."};
    static const char *const known[] = {
        "attention.causal",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.layer_norm_epsilon",
        "attention.layer_norm_rms_epsilon",
        "attention.sliding_window",
        "attention.value_length",
        "expert_count",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scale_linear",
        "rope.scaling.attn_factor",
        "rope.scaling.factor",
        "rope.scaling.finetuned", // has no effect
        "rope.scaling.original_context_length",
        "rope.scaling.type",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    };
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
        char rest[KEY_BYTES];
        if (key.bytes <= family || memcmp(key.at, w->family->name, family) != 0 ||
            key.at[family] != '.')
            continue;
        snprintf(rest, sizeof rest, "%.*s", (int)(key.bytes - family - 1), key.at + family + 1);
        bool matters = false, read = false;
        for (size_t k = 0; k < sizeof groups / sizeof *groups; k++)
            matters = matters || (strlen(rest) > strlen(groups[k]) &&
                                  memcmp(rest, groups[k], strlen(groups[k])) == 0);
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            read = read || strcmp(rest, known[k]) == 0;
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

static void causal_check(struct document *w)
{
    bool causal;
    char key[KEY_BYTES];
    key_make(key, w, "attention.causal");
    if (w->status == STATUS_OK)
        w->status = gguf_flag(&causal, w->file, key, true, w->err);
    if (w->status == STATUS_OK && !causal)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s is false: decoders that look ahead are not served, "
                              "take another model",
                              w->file->name, key);
}

static void put_decoder(struct document *w)
{
    causal_check(w);
    w->positions = count_get(w, "context_length", 1, 1 << 24, NAN);
    put_count(w, "max_position_embeddings", w->positions);
    put_double(w, "rms_norm_eps", number_get(w, "attention.layer_norm_rms_epsilon", 0, 1, NAN));
    put_count(w, "head_dim", w->head_dim);
    put_rope(w);
    if (count_get(w, "expert_count", 0, 1 << 16, 0) > 0 && w->status == STATUS_OK)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.expert_count: mixtures of experts are not served, "
                              "take a dense model",
                              w->file->name, w->family->name);
    uint32_t window = count_get(w, "attention.sliding_window", 0, 1 << 24, 0);
    if (window > 0 && window < w->positions && w->status == STATUS_OK)
        w->status = error_set(w->err, STATUS_UNSUPPORTED,
                              "%s: the key %s.attention.sliding_window: which layers have the "
                              "window is not in the file, take the model's Hugging Face folder",
                              w->file->name, w->family->name);
    if (has_tensor(w, "blk.0.attn_q.bias"))
        json_put_literal(w->out, ",\"attention_bias\":true");
    if (has_tensor(w, "blk.0.ffn_up.bias"))
        json_put_literal(w->out, ",\"mlp_bias\":true");
}

static void put_encoder(struct document *w)
{
    const struct gguf_tensor *positions = gguf_tensor_find(w->file, "position_embd.weight");
    const struct gguf_tensor *kinds = gguf_tensor_find(w->file, "token_types.weight");
    w->positions = count_get(w, "context_length", 1, 1 << 24, NAN);
    put_double(w, "layer_norm_eps", number_get(w, "attention.layer_norm_epsilon", 0, 1, NAN));
    if (w->status == STATUS_OK && positions && positions->dims == 2 &&
        positions->shape[1] < 1 << 24)
        w->positions = (uint32_t)positions->shape[1];
    put_count(w, "max_position_embeddings", w->positions);
    put_count(w, "type_vocab_size",
              kinds && kinds->dims == 2 && kinds->shape[1] <= 1024 ? (uint32_t)kinds->shape[1]
              : kinds && kinds->dims == 1                          ? 1
                                                                   : 0);
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
static void ends_by_text(struct ends *ends, struct document *w, uint32_t vocab)
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

static void put_ends(struct document *w, uint32_t vocab)
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

static void config_json(struct document *w)
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
static void generation_json(struct document *w)
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
            put_double(w, defaults[i].field, value);
    }
    json_put_literal(w->out, "}");
}

static bool is_pooling(struct document *w)
{
    w->pooling = count_get(w, "pooling_type", 0, 4, POOLING_NONE);
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
    struct document w = {
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
