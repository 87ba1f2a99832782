// SPDX-License-Identifier: Apache-2.0
// Reads config.json and checks each number before it is used. The other files of the folder are
// read in config_folder.c, rope settings in config_rope.c, kinds of layers in config_layers.c.
// Loading thread only.
#include "runtime/model/config.h"

#include "base/json.h"
#include "runtime/model/distance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum status config_number(double *out, const json_t *json, const struct config_number *wanted,
                          struct error *err)
{
    const json_t *value = json_object_get(json, wanted->name);
    if (!value || json_is_null(value)) {
        if (isnan(wanted->fallback))
            return error_set(err, STATUS_INVALID, "config.json: %s is missing", wanted->name);
        *out = wanted->fallback;
        return STATUS_OK;
    }
    if (!json_is_number(value))
        return error_set(err, STATUS_INVALID, "config.json: %s is not a number", wanted->name);
    double number = json_number_value(value);
    if (!(number >= wanted->low && number <= wanted->high))
        return error_set(err, STATUS_INVALID, "config.json: %s is %.8g, allowed is %.8g to %.8g",
                         wanted->name, number, wanted->low, wanted->high);
    *out = number;
    return STATUS_OK;
}

enum status config_count(uint32_t *out, const json_t *json, const struct config_number *wanted,
                         struct error *err)
{
    double number = 0;
    enum status status = config_number(&number, json, wanted, err);
    if (status != STATUS_OK)
        return status;
    if (number != floor(number))
        return error_set(err, STATUS_INVALID, "config.json: %s is %g, not a whole number",
                         wanted->name, number);
    *out = (uint32_t)number;
    return STATUS_OK;
}

enum status config_counts(const struct config_field *fields, size_t count, const json_t *json,
                          struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = config_count(fields[i].out, json, &fields[i].wanted, err);
    return status;
}

enum status config_bool(bool *out, const json_t *json, const char *name, bool fallback,
                        struct error *err)
{
    const json_t *value = json_object_get(json, name);
    *out = fallback;
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_boolean(value))
        return error_set(err, STATUS_INVALID, "config.json: %s is neither true nor false", name);
    *out = json_is_true(value);
    return STATUS_OK;
}

static enum status arch_read(struct model_config *config, const json_t *json, struct error *err)
{
    const json_t *list = json_object_get(json, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    if (!name)
        return error_set(err, STATUS_INVALID, "config.json: \"architectures\" names nothing");
    // Jina's encoders are also published under BERT's names.
    const char *positions = json_string_value(json_object_get(json, "position_embedding_type"));
    char jina[ARCH_NAME_MAX];
    snprintf(jina, sizeof jina, "Jina%s", name);
    const char *ffn = json_string_value(json_object_get(json, "feed_forward_type"));
    bool alibi = positions && strcmp(positions, "alibi") == 0 && ffn && strcmp(ffn, "geglu") == 0 &&
                 strncmp(name, "Bert", 4) == 0;
    config->arch = architecture_find(alibi ? jina : name);
    config->wrapper = config->arch ? NULL : wrapper_find(name);
    if (config->arch)
        config->name = config->arch->name;
    if (config->wrapper)
        config->name = config->wrapper->name;
    if (config->name)
        return STATUS_OK;
    char known[ERROR_TEXT_MAX], parts[ERROR_TEXT_MAX];
    architecture_list(known, sizeof known);
    wrapper_list(parts, sizeof parts);
    return error_set(err, STATUS_UNSUPPORTED,
                     "the architecture %.64s is not served; served are those of %s, and the text "
                     "parts of %s",
                     name, known, parts);
}

// Refuses a checkpoint that config.json declares as quantized in a way that is not read.
static enum status quantised_read(struct model_config *config, const json_t *json,
                                  struct error *err)
{
    (void)config;
    struct quantised quantised = quantised_by_config(json);
    return quantised_check(&quantised, err);
}

static enum status counts_read(struct model_config *config, const json_t *json, struct error *err)
{
    const struct architecture *arch = config->arch;
    // Null: equal to the number of heads.
    const json_t *kv = json_object_get(json, "num_key_value_heads");
    double kv_heads = json_is_null(kv) ? 0 : arch->kv_heads;
    const struct config_field fields[] = {
        {&config->vocab, {"vocab_size", 1, 1 << 24, NAN}},
        {&config->hidden, {"hidden_size", 8, 1 << 16, NAN}},
        {&config->layers, {"num_hidden_layers", 1, CONFIG_LAYERS_MAX, NAN}},
        {&config->heads, {"num_attention_heads", 1, 1024, NAN}},
        {&config->kv_heads, {"num_key_value_heads", 1, 1024, kv_heads}},
        {&config->intermediate, {"intermediate_size", 8, 1 << 20, NAN}},
        {&config->positions, {"max_position_embeddings", 1, 1 << 24, NAN}},
        {&config->types, {"type_vocab_size", 0, 1024, arch->types}},
        {&config->further_layers, {"num_nextn_predict_layers", 0, CONFIG_LAYERS_MAX, 0}},
    };
    enum status status = config_counts(fields, sizeof fields / sizeof fields[0], json, err);
    if (status != STATUS_OK)
        return status;
    if (config->kv_heads == 0 || arch->family == ARCH_ENCODER)
        config->kv_heads = config->heads;
    // A head_dim of null means hidden / heads, even if the architecture has a default.
    const json_t *given = json_object_get(json, "head_dim");
    uint32_t share = config->hidden / config->heads;
    bool absent = !given && arch->head_dim > 0;
    struct config_number dim = {"head_dim", 8, 512, absent ? arch->head_dim : share};
    return config_count(&config->head_dim, json, &dim, err);
}

struct config_facts config_facts_of(const struct model_config *config)
{
    return (struct config_facts){
        .family = config->arch->family == ARCH_DECODER ? KEY_DECODERS : KEY_ENCODERS,
        .name = config->name,
        .reads = config->arch->reads,
        .head_dim = config->head_dim,
        .hidden = config->hidden,
        .positions = config->positions,
    };
}

static enum status counts_check(struct model_config *config, const json_t *json, struct error *err)
{
    if (config->heads % config->kv_heads != 0)
        return error_set(err, STATUS_INVALID,
                         "config.json: num_key_value_heads %u does not divide "
                         "num_attention_heads %u",
                         config->kv_heads, config->heads);
    const json_t *dim = json_object_get(json, "head_dim");
    bool shared = dim ? !json_is_number(dim) : config->arch->head_dim == 0;
    if (shared && config->hidden % config->heads != 0)
        return error_set(err, STATUS_INVALID,
                         "config.json: num_attention_heads %u does not divide hidden_size %u",
                         config->heads, config->hidden);
    if (config->head_dim < 16 || config->head_dim > 256 || config->head_dim % 8 != 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: heads of %u columns are not supported: 16 to 256 in steps "
                         "of 8 are",
                         config->head_dim);
    return STATUS_OK;
}

static enum status dtype_read(struct model_config *config, const json_t *json, struct error *err)
{
    const char *name = json_string_value(json_object_get(json, "torch_dtype"));
    if (!name)
        name = json_string_value(json_object_get(json, "dtype"));
    config->dtype = !name && quantised_by_config(json).where ? DTYPE_BF16 : -1;
    if (!name)
        return STATUS_OK;
    for (int i = 0; i < DTYPE_I8; i++)
        if (strcmp(name, dtype_name((enum dtype)i)) == 0)
            config->dtype = i;
    (void)err; // an unknown name is no error: each tensor has a dtype
    return STATUS_OK;
}

static enum status activation_read(struct model_config *config, const json_t *json,
                                   struct error *err)
{
    static const struct {
        const char *name;
        enum activation kind;
    } known[] = {
        {"gelu", ACTIVATE_GELU},           {"gelu_python", ACTIVATE_GELU},
        {"gelu_new", ACTIVATE_GELU_TANH},  {"gelu_pytorch_tanh", ACTIVATE_GELU_TANH},
        {"gelu_fast", ACTIVATE_GELU_TANH}, {"gelu_accurate", ACTIVATE_GELU_TANH},
        {"relu", ACTIVATE_RELU},           {"silu", ACTIVATE_SILU},
        {"swish", ACTIVATE_SILU},          {"swiglu", ACTIVATE_SILU},
    };
    bool decoder = config->arch->family == ARCH_DECODER;
    bool geglu = config->arch->flags & ARCH_GEGLU;
    bool silu = config->arch->form & FORM_SILU;
    const json_t *value = geglu ? json_object_get(json, "hidden_activation") : NULL;
    bool older = !json_is_string(value);
    if (older)
        value = json_object_get(json, "hidden_act");
    const char *name = value ? json_string_value(value) : decoder ? "silu" : "gelu";
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) != 0)
            continue;
        enum activation kind = known[i].kind;
        if (geglu && older && kind == ACTIVATE_GELU)
            kind = ACTIVATE_GELU_TANH; // the meaning of "gelu" in Gemma's older files
        config->kinds[0].activation = kind;
        bool gated = config->arch->names->gate.name;
        bool served = decoder ? kind == (geglu ? ACTIVATE_GELU_TANH : ACTIVATE_SILU)
                      : silu  ? kind == ACTIVATE_SILU
                              : !gated || kind != ACTIVATE_RELU;
        if (served)
            return STATUS_OK;
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "config.json: hidden_act %.32s is not supported for %s",
                     name ? name : "(not a string)", config->name);
}

static enum status biases_read(struct model_config *config, const json_t *json, struct error *err)
{
    uint32_t flags = config->arch->flags, form = config->arch->form;
    config->norm_bias = config->arch->family == ARCH_ENCODER;
    config->up_plain = form & FORM_UP_PLAIN;
    if (config->arch->family == ARCH_ENCODER && !(form & FORM_BIAS_KEYS)) {
        config->qkv_bias = config->o_bias = config->ffn_bias = true;
        return STATUS_OK;
    }
    bool attention, out = false, all = false;
    const json_t *stored = json_object_get(json, "stored_biases"); // gguf_config.c writes it
    if (json_is_object(stored)) {
        config->qkv_bias = json_is_true(json_object_get(stored, "qkv"));
        config->o_bias = json_is_true(json_object_get(stored, "o"));
        config->ffn_bias = json_is_true(json_object_get(stored, "ffn"));
        return STATUS_OK;
    }
    enum status status = config_bool(&attention, json, "attention_bias", false, err);
    if (status == STATUS_OK)
        status = config_bool(&config->ffn_bias, json, "mlp_bias", false, err);
    bool first = config->ffn_bias;
    if (status == STATUS_OK && (form & FORM_BIAS_KEYS))
        status = config_bool(&first, json, "mlp_fc1_bias", first, err);
    if (status == STATUS_OK && first && !config->ffn_bias)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: mlp_fc1_bias is true and mlp_fc2_bias false: both or only "
                         "the second are served");
    config->up_plain |= !first && config->ffn_bias;
    if (status == STATUS_OK && (form & FORM_BEFORE))
        status = config_bool(&config->norm_bias, json, "norm_bias", false, err);
    if (status == STATUS_OK && (flags & ARCH_OUT_BIAS))
        status = config_bool(&out, json, "attention_out_bias", false, err);
    if (status == STATUS_OK && (flags & ARCH_USE_BIAS))
        status = config_bool(&all, json, "use_bias", false, err);
    bool always = flags & ARCH_QKV_BIAS;
    config->qkv_bias = attention || always || all;
    config->o_bias = (flags & ARCH_OUT_BIAS ? out : attention && !always) || all;
    config->ffn_bias = config->ffn_bias || all;
    return status;
}

// Reads the factors of embeddings, residual and logits.
static enum status factors_read(struct model_config *config, const json_t *json, struct error *err)
{
    config->embed_root = config->arch->flags & ARCH_EMBED_ROOT;
    struct config_number scale = {"logit_scale", 1e-6, 1e6, 1};
    if (config->arch->flags & ARCH_LOGIT_SCALE)
        return config_number(&config->logit_factor, json, &scale, err);
    if (!(config->arch->flags & ARCH_MULTIPLIERS))
        return STATUS_OK;
    double divisor = 1;
    const struct {
        double *out;
        struct config_number wanted;
    } fields[] = {
        {&config->embed_factor, {"embedding_multiplier", 1e-6, 1e6, 1}},
        {&config->residual_factor, {"residual_multiplier", 1e-6, 1e6, 1}},
        {&divisor, {"logits_scaling", 1e-6, 1e6, 1}},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && status == STATUS_OK; i++)
        status = config_number(fields[i].out, json, &fields[i].wanted, err);
    config->logit_factor = 1 / divisor;
    return status;
}

// Refuses keys whose values would be ignored.
static enum status keys_check(struct model_config *config, const json_t *json, struct error *err)
{
    struct config_facts facts = config_facts_of(config);
    return config_keys_check(json, &facts, err);
}

// Refuses each value of a key except `served`, which is also the value of an absent key and of
// null.
static enum status word_check(const struct model_config *config, const json_t *json,
                              const char *key, const char *served, struct error *err)
{
    const json_t *value = json_object_get(json, key);
    const char *word = json_string_value(value);
    if (!value || json_is_null(value) || (word && strcmp(word, served) == 0))
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "config.json: %s is %.32s; %s is served with %s only",
                     key, word ? word : "not a string", config->arch->name, served);
}

// Reads the bias of the scores by distance.
static enum status distance_read(struct model_config *config, const json_t *json, struct error *err)
{
    enum status status = STATUS_OK;
    if (config->arch->form & FORM_ALIBI) {
        config->distance = DISTANCE_SLOPES;
        config->reach = config->positions - 1;
        status = word_check(config, json, "feed_forward_type", "geglu", err);
    }
    if (config->arch->form & FORM_BUCKETS) {
        struct config_number buckets = {"relative_attention_num_buckets", 4, 1024, 32};
        config->distance = DISTANCE_BUCKETS;
        config->reach = DISTANCE_BUCKETS_REACH;
        status = config_count(&config->buckets, json, &buckets, err);
    }
    if (status == STATUS_OK && config->distance != DISTANCE_NONE &&
        config->heads > DISTANCES_MAX / (2 * config->reach + 1))
        return error_set(err, STATUS_TOO_LARGE,
                         "config.json: %u heads with a bias for %u distances are over %d",
                         config->heads, config->reach, DISTANCES_MAX);
    return status;
}

// Reads what the score of an encoder computes.
static enum status score_read(struct model_config *config, const json_t *json, struct error *err)
{
    static const enum activation heads[] = {[HEAD_POOLER] = ACTIVATE_TANH,
                                            [HEAD_CLASSIFIER] = ACTIVATE_TANH,
                                            [HEAD_PRE_CLASSIFIER] = ACTIVATE_RELU,
                                            [HEAD_DENSE_NORM] = ACTIVATE_GELU};
    config->score_pooling = POOL_CLS;
    config->score_bias = true;
    config->score_activation = heads[config->arch->head];
    if (config->arch->head != HEAD_DENSE_NORM)
        return STATUS_OK;
    const json_t *value = json_object_get(json, "classifier_pooling");
    const char *pooling = value && !json_is_null(value) ? json_string_value(value) : "cls";
    bool mean = pooling && strcmp(pooling, "mean") == 0;
    if (!mean && (!pooling || strcmp(pooling, "cls") != 0))
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: classifier_pooling is %.32s; cls and mean are served",
                         pooling ? pooling : "not a string");
    config->score_pooling = mean ? POOL_MEAN : POOL_CLS;
    enum status status = word_check(config, json, "classifier_activation", "gelu", err);
    return status == STATUS_OK
               ? config_bool(&config->score_bias, json, "classifier_bias", false, err)
               : status;
}

// Reads the longest sequence of an encoder with a table of positions or with ALiBi.
static enum status lengths_read(struct model_config *config, const json_t *json, struct error *err)
{
    if (config->arch->flags & ARCH_POSITION_OFFSET) {
        uint32_t padding;
        struct config_number wanted = {"pad_token_id", 0, 1 << 20, 1};
        enum status status = config_count(&padding, json, &wanted, err);
        if (status != STATUS_OK)
            return status;
        // In GGUF files the table begins with the first position that is used.
        struct config_number from = {"positions_from", 0, 1 << 20, padding + 1.0};
        status = config_count(&config->position_offset, json, &from, err);
        if (status != STATUS_OK)
            return status;
    }
    if (config->positions <= config->position_offset)
        return error_set(err, STATUS_INVALID,
                         "config.json: max_position_embeddings %u leaves no position above the "
                         "padding id",
                         config->positions);
    config->length_max = config->positions - config->position_offset;
    config->length_default = config->length_max;
    return STATUS_OK;
}

static enum status encoder_read(struct model_config *config, const json_t *json, struct error *err)
{
    uint32_t form = config->arch->form;
    enum status status = score_read(config, json, err);
    if (status == STATUS_OK)
        status = distance_read(config, json, err);
    if (status == STATUS_OK && form & (FORM_ROPE | FORM_ALIBI))
        status = word_check(config, json, "position_embedding_type",
                            form & FORM_ROPE ? "rope" : "alibi", err);
    if (status != STATUS_OK)
        return status;
    return form & FORM_ROPE ? rope_config_parse(config, json, err)
                            : lengths_read(config, json, err);
}

static enum status labels_read(struct model_config *config, const json_t *json, struct error *err)
{
    const json_t *names = json_object_get(json, "id2label");
    struct config_number wanted = {"num_labels", 1, 1 << 20, 0};
    enum status status = config_count(&config->labels, json, &wanted, err);
    if (json_is_object(names))
        config->labels = (uint32_t)json_object_size(names);
    enum arch_head head = config->arch->head;
    bool scores = head != HEAD_NONE && head != HEAD_VOCABULARY;
    if (status == STATUS_OK && scores && config->labels > 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: %s has %u labels; a reranker has one, classifiers are not "
                         "served",
                         config->name, config->labels);
    return status;
}

static enum status head_read(struct model_config *config, const json_t *json, struct error *err)
{
    const json_t *tied = json_object_get(json, "tie_word_embeddings");
    config->tied_given = json_is_boolean(tied);
    enum status status = config_bool(&config->tied, json, "tie_word_embeddings", false, err);
    if (status == STATUS_OK)
        status = labels_read(config, json, err);
    config->kind = config->arch->head == HEAD_NONE         ? MODEL_EMBEDDER
                   : config->arch->head == HEAD_VOCABULARY ? MODEL_GENERATOR
                                                           : MODEL_RERANKER;
    config->rerank = RERANK_PAIR; // other files of the folder may change the kind
    config->pooling = config->arch->family == ARCH_DECODER ? POOL_LAST : POOL_CLS;
    if (config->arch->flags & ARCH_BOTH_WAYS && status == STATUS_OK) {
        config->pooling = POOL_MEAN;
        status = word_check(config, json, "pooling", "avg", err);
    }
    config->normalize = true;
    config->vector_width = config->hidden;
    return status;
}

// Reads config.json with the defaults of its architecture.
static enum status config_parse(struct model_config *out, const json_t *json, struct error *err)
{
    enum status (*const steps[])(struct model_config *, const json_t *, struct error *) = {
        quantised_read,  counts_read, counts_check, keys_check, dtype_read,
        activation_read, biases_read, factors_read, head_read,
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < sizeof steps / sizeof steps[0]; i++)
        status = steps[i](out, json, err);
    bool decoder = status == STATUS_OK && out->arch->family == ARCH_DECODER;
    bool rms = decoder && !(out->arch->flags & ARCH_LAYER_NORM);
    const char *epsilon = rms ? "rms_norm_eps" : "layer_norm_eps";
    struct config_number wanted = {epsilon, 0, 1,
                                   status == STATUS_OK ? out->arch->norm_epsilon : 0};
    if (status == STATUS_OK)
        status = config_number(&out->epsilon, json, &wanted, err);
    if (status == STATUS_OK)
        status = experts_config_parse(out, json, err);
    if (status == STATUS_OK)
        status = layers_config_parse(out, json, err);
    if (status == STATUS_OK)
        status = decoder ? rope_config_parse(out, json, err) : encoder_read(out, json, err);
    return status;
}

// Writes the name that the file has for a key into a message that begins with the key.
static void renames_explain(struct error *err, const json_t *json, const char *renames)
{
    static const char start[] = "config.json: ";
    char key[128], old[ERROR_TEXT_MAX];
    for (const char *other; err && architecture_rename_next(&renames, key, &other);) {
        size_t bytes = sizeof start - 1 + strlen(key);
        bool named = strncmp(err->text, start, sizeof start - 1) == 0 &&
                     strncmp(err->text + sizeof start - 1, key, strlen(key)) == 0 &&
                     err->text[bytes] == ' ';
        json_t *own = json_object_get(json, key);
        if (!named || !json_object_get(json, other) || (own && !json_is_null(own)))
            continue;
        memcpy(old, err->text, sizeof old);
        error_set(err, err->status, "%s%s%s", start, other, old + bytes);
        return;
    }
}

enum status model_config_parse(struct model_config *out, const json_t *json, struct error *err)
{
    *out = (struct model_config){.yes_id = -1, .no_id = -1, .defaults = model_defaults_none};
    if (!json_is_object(json))
        return error_set(err, STATUS_INVALID, "config.json is not a JSON object");
    enum status status = arch_read(out, json, err);
    if (status != STATUS_OK)
        return status;
    json_t *all = NULL;
    if (out->wrapper)
        status = wrapper_text(&all, &out->arch, out->wrapper, json, err);
    else
        all = json_copy((json_t *)json);
    if (status != STATUS_OK)
        return status;
    architecture_rename(out->arch, all);
    if (json_is_null(json_object_get(all, "rope_scaling")))
        json_object_del(all, "rope_scaling"); // the reference's class takes its default
    json_t *defaults = out->arch->defaults ? json_loads(out->arch->defaults, 0, NULL) : NULL;
    if (json_object_get(all, "rope_parameters"))
        json_object_del(defaults, "rope_scaling"); // the file has the other form
    if (defaults)
        json_object_update_missing(all, defaults);
    bool usual = defaults && json_is_true(json_object_get(defaults, "tie_word_embeddings"));
    const json_t *inner = json_object_get(all, "tied_usually"); // the text part's key
    out->tied_usually = out->wrapper && (inner ? json_is_true(inner) : usual);
    json_decref(defaults);
    status = config_parse(out, all, err);
    if (status != STATUS_OK)
        renames_explain(err, json, out->arch->renames);
    json_decref(all);
    return status;
}
