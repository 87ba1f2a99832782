// SPDX-License-Identifier: Apache-2.0
// The settings that other files of a model folder add to config.json: modules.json and the pooling
// of sentence-transformers, end ids and sampling defaults of generation_config.json. Loading thread
// only.
#include "runtime/model/config.h"

#include "base/json.h"
#include "base/log.h"
#include "runtime/model/config_rerank.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GENERATION_CONFIG_MAX = 1 << 20 }; // bytes

static enum status pooling_read(struct model_config *config, const char *folder, struct error *err)
{
    static const struct {
        const char *name, *flag; // name in the newer form of the file; flag in the older form
        enum pooling kind;
    } modes[] = {
        {"cls", "pooling_mode_cls_token", POOL_CLS},
        {"mean", "pooling_mode_mean_tokens", POOL_MEAN},
        {"lasttoken", "pooling_mode_lasttoken", POOL_LAST},
        {"max", "pooling_mode_max_tokens", POOL_MAX},
        {"weightedmean", "pooling_mode_weightedmean_tokens", POOL_WEIGHTED},
        {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", POOL_MEAN_SQRT},
    };
    json_t *json;
    enum status status = folder_json(&json, folder, "config.json", true, err);
    uint32_t chosen = 0;
    const char *by_name = json_string_value(json_object_get(json, "pooling_mode"));
    for (size_t i = 0; status == STATUS_OK && i < sizeof modes / sizeof modes[0]; i++) {
        bool on = json_is_true(json_object_get(json, modes[i].flag));
        if (by_name)
            on = strcmp(by_name, modes[i].name) == 0;
        if (!on)
            continue;
        chosen++;
        config->pooling = modes[i].kind;
    }
    config->prompt_unpooled = json_is_false(json_object_get(json, "include_prompt")) &&
                              config->pooling != POOL_CLS && config->pooling != POOL_LAST;
    json_decref(json);
    if (status == STATUS_OK && chosen != 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s/config.json names %u pooling modes; exactly one is supported", folder,
                         chosen);
    return status;
}

// Refuses modules that would change the vectors or scores.
static enum status modules_check(const struct modules *modules, const char *folder,
                                 struct error *err)
{
    static const char *const known[] = {"Transformer", "Pooling",   "Normalize", "LogitScore",
                                        "Dense",       "LayerNorm", "Dropout"};
    for (uint32_t i = 0; i < modules->count; i++) {
        const char *kind = modules->at[i].kind;
        bool is_known = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            is_known = is_known || strcmp(kind, known[k]) == 0;
        if (!is_known)
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s/modules.json: the module %.64s is not supported; Transformer, "
                             "Pooling, Dense, LayerNorm, Dropout, Normalize and LogitScore are",
                             folder, kind);
    }
    return STATUS_OK;
}

static enum status dimension_add(struct model_config *config, const json_t *value,
                                 const char *folder, struct error *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > (json_int_t)config->vector_width)
        return error_set(err, STATUS_INVALID,
                         "%s: matryoshka_dimensions and truncate_dim must be whole numbers from 1 "
                         "to the vectors' %u",
                         folder, config->vector_width);
    if (config->dimension_count == MODEL_DIMENSIONS_MAX)
        return error_set(err, STATUS_TOO_LARGE, "%s: over %d matryoshka_dimensions", folder,
                         MODEL_DIMENSIONS_MAX);
    config->dimensions[config->dimension_count++] = (uint32_t)json_integer_value(value);
    return STATUS_OK;
}

// Reads the lengths to which vectors may be cut. The names are vLLM's, which published folders have
// in config.json (sentence-transformers takes truncate_dim as an argument, but others write it into
// config_sentence_transformers.json).
static enum status dimensions_read(struct model_config *config, const json_t *json,
                                   const char *folder, struct error *err)
{
    const json_t *list = json_object_get(json, "matryoshka_dimensions");
    const json_t *one = json_object_get(json, "truncate_dim");
    enum status status = STATUS_OK;
    if (config->kind != MODEL_EMBEDDER)
        return STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(list); i++)
        status = dimension_add(config, json_array_get(list, i), folder, err);
    if (status == STATUS_OK && one && !json_is_null(one))
        status = dimension_add(config, one, folder, err);
    config->dimensions_free |= json_is_true(json_object_get(json, "is_matryoshka"));
    return status;
}

// Sets the kind of the model from all files. sentence: config_sentence_transformers.json, or NULL.
static enum status kind_settle(struct model_config *config, const struct modules *modules,
                               const json_t *json, const json_t *sentence, const char *folder,
                               struct error *err)
{
    const struct module *pooling = modules_find(modules, "Pooling");
    enum status status = rerank_config_read(config, modules, json, sentence, folder, err);
    if (status != STATUS_OK || config->kind == MODEL_RERANKER)
        return status;
    if (!modules->listed && config->kind == MODEL_EMBEDDER &&
        config->arch->family == ARCH_ENCODER) {
        config->pooling = POOL_MEAN; // as sentence-transformers
        log_line(LOG_WARNING,
                 "%s names no pooling (no modules.json, no pooling type): vectors are the mean of "
                 "all tokens",
                 folder);
    }
    if (!modules->listed)
        return STATUS_OK;
    if (!pooling)
        return error_set(err, STATUS_UNSUPPORTED, "%s/modules.json has no Pooling module", folder);
    config->kind = MODEL_EMBEDDER;
    // Vectors are always normalised, with or without Normalize in modules.json.
    config->normalize = true;
    return pooling_read(config, pooling->folder, err);
}

static enum status end_id_add(struct model_config *config, const json_t *value, const char *file,
                              struct error *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= (json_int_t)config->vocab)
        return error_set(err, STATUS_INVALID,
                         "%s: eos_token_id is not a token of a vocabulary of %u", file,
                         config->vocab);
    for (uint32_t i = 0; i < config->end_count; i++)
        if (config->end_ids[i] == json_integer_value(value))
            return STATUS_OK;
    if (config->end_count == MODEL_END_IDS_MAX)
        return error_set(err, STATUS_TOO_LARGE, "%s: over %d end-of-sequence ids", file,
                         MODEL_END_IDS_MAX);
    config->end_ids[config->end_count++] = (int32_t)json_integer_value(value);
    return STATUS_OK;
}

// Adds the end ids of one file; an answer ends at each id of any file.
static enum status end_ids_read(struct model_config *config, const json_t *json, const char *file,
                                struct error *err)
{
    const json_t *value = json_object_get(json, "eos_token_id");
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_array(value))
        return end_id_add(config, value, file, err);
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(value); i++)
        status = end_id_add(config, json_array_get(value, i), file, err);
    return status;
}

// Adds the end ids of config.json. Faulty ids are left out if generation_config.json has others.
static enum status config_ends_read(struct model_config *config, const json_t *json,
                                    struct error *err)
{
    bool needed = config->end_count == 0;
    enum status status = end_ids_read(config, json, "config.json", err);
    if (status == STATUS_OK && config->wrapper)
        status = end_ids_read(config, json_object_get(json, "text_config"), "config.json", err);
    if (status == STATUS_OK || needed)
        return status;
    log_line(LOG_WARNING, "%s/%s: it is left out", config->weights_folder, err->text);
    return STATUS_OK;
}

// ABOVE: the lower limit itself is not allowed.
enum number_kind { NUMBER_FROM, NUMBER_ABOVE, NUMBER_WHOLE };

// Returns a number of the object, or NAN if it is absent or out of range. In the latter case sets
// err.
static double number_read(const json_t *json, const char *name, enum number_kind kind, double least,
                          double most, struct error *err)
{
    const json_t *value = json_object_get(json, name);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    bool fits = kind == NUMBER_ABOVE ? number > least : number >= least;
    if (fits && number <= most && (kind != NUMBER_WHOLE || number == floor(number)))
        return number;
    if (value && !json_is_null(value))
        error_set(err, STATUS_INVALID, "'%s' is not a %snumber %s %.10g to %.10g", name,
                  kind == NUMBER_WHOLE ? "whole " : "", kind == NUMBER_ABOVE ? "above" : "from",
                  least, most);
    return NAN;
}

const struct model_defaults model_defaults_none = {NAN, NAN, NAN, NAN, NAN, NAN};

// Reads the sampling defaults; a value that does not fit becomes NAN and sets err. Returns
// err->status.
static enum status defaults_read(const json_t *json, struct model_defaults *out, struct error *err)
{
    err->status = STATUS_OK;
    *out = (struct model_defaults){
        .temperature = number_read(json, "temperature", NUMBER_FROM, 0, 2, err),
        .top_p = number_read(json, "top_p", NUMBER_FROM, 0, 1, err),
        .top_k = number_read(json, "top_k", NUMBER_WHOLE, -1, 1 << 24, err),
        .min_p = number_read(json, "min_p", NUMBER_FROM, 0, 1, err),
        .repetition_penalty = number_read(json, "repetition_penalty", NUMBER_ABOVE, 0, 2, err),
        .max_tokens = number_read(json, "max_new_tokens", NUMBER_WHOLE, 1, UINT32_MAX, err),
    };
    return err->status;
}

enum status model_defaults_read(struct model_defaults *out, const char *file, struct error *err)
{
    json_t *json;
    enum status status = json_file_parse(&json, file, GENERATION_CONFIG_MAX, err);
    if (status != STATUS_OK)
        return status;
    if (!json_is_object(json)) {
        status = error_set(err, STATUS_INVALID, "%s is not a JSON object", file);
    } else {
        status = defaults_read(json, out, err);
        if (status != STATUS_OK)
            error_prefix(err, "%s", file);
    }
    json_decref(json);
    return status;
}

static enum status generation_read(struct model_config *config, struct error *err)
{
    json_t *json;
    enum status status =
        folder_json(&json, config->weights_folder, "generation_config.json", false, err);
    if (status != STATUS_OK || !json)
        return status;
    status = end_ids_read(config, json, "generation_config.json", err);
    struct error what;
    if (defaults_read(json, &config->defaults, &what) != STATUS_OK)
        log_line(LOG_WARNING, "%s/generation_config.json: %s: it is left out",
                 config->weights_folder, what.text);
    json_decref(json);
    return status;
}

// sentence-transformers cuts texts at max_seq_length, which is often less than the model's limit.
// Old folders name the file after their architecture.
static enum status sentence_length_read(struct model_config *config, struct error *err)
{
    static const char *const names[] = {"sentence_bert_config.json", "sentence_roberta_config.json",
                                        "sentence_xlm-roberta_config.json"};
    json_t *json = NULL;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && !json && i < sizeof names / sizeof names[0]; i++)
        status = folder_json(&json, config->weights_folder, names[i], false, err);
    double length = number_read(json, "max_seq_length", NUMBER_FROM, 1, UINT32_MAX, NULL);
    config->length_given = !isnan(length);
    if (config->kind != MODEL_GENERATOR && length >= 1 && length < config->length_default)
        config->length_default = (uint32_t)length;
    json_decref(json);
    return status;
}

enum status config_files_read(struct config_files *files, const char *folder, struct error *err)
{
    *files = (struct config_files){.json = NULL};
    enum status status = folder_check(folder, err);
    if (status == STATUS_OK)
        status = modules_read(&files->modules, folder, err);
    const struct module *weights = modules_find(&files->modules, "Transformer");
    if (status == STATUS_OK)
        status = folder_path(files->weights_folder, weights ? weights->folder : folder, "", err);
    bool listed = files->modules.listed; // config.json of a listed module must exist
    if (status == STATUS_OK)
        status = folder_json(&files->json, files->weights_folder, "config.json", listed, err);
    if (status == STATUS_OK && !files->json)
        status = folder_lacks(folder, "has no config.json", err);
    if (status == STATUS_OK)
        status = quantised_by_files(&files->quantised, files->weights_folder, err);
    return status;
}

enum status config_files_parse(struct model_config *out, const struct config_files *files,
                               const char *folder, struct error *err)
{
    enum status status = model_config_parse(out, files->json, err);
    if (status == STATUS_OK)
        status = quantised_check(&files->quantised, err);
    if (status == STATUS_OK)
        status = modules_check(&files->modules, folder, err);
    return status;
}

enum status model_config_read(struct model_config *out, const char *folder, struct error *err)
{
    struct config_files files;
    json_t *sentence = NULL;
    enum status status = config_files_read(&files, folder, err);
    const json_t *json = files.json;
    if (status == STATUS_OK)
        status = config_files_parse(out, &files, folder, err);
    if (status == STATUS_OK) {
        memcpy(out->weights_folder, files.weights_folder, sizeof files.weights_folder);
        status = folder_json(&sentence, folder, "config_sentence_transformers.json", false, err);
    }
    if (status == STATUS_OK)
        status = kind_settle(out, &files.modules, json, sentence, folder, err);
    if (status == STATUS_OK && out->kind == MODEL_EMBEDDER)
        status = vector_modules_read(out, &files.modules, folder, err);
    if (status == STATUS_OK && out->kind != MODEL_EMBEDDER && !out->kinds[0].causal &&
        out->arch->family == ARCH_DECODER)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "config.json: %s with attention to later tokens is served for "
                           "embeddings only (a folder with modules.json and a Pooling module)",
                           out->arch->name);
    if (status == STATUS_OK)
        status = dimensions_read(out, json, folder, err);
    if (status == STATUS_OK)
        status = dimensions_read(out, sentence, folder, err);
    if (status == STATUS_OK)
        status = generation_read(out, err);
    if (status == STATUS_OK)
        status = config_ends_read(out, json, err);
    if (status == STATUS_OK)
        status = sentence_length_read(out, err);
    json_decref(files.json);
    json_decref(sentence);
    return status;
}
