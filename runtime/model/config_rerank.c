// SPDX-License-Identifier: Apache-2.0
// The signs by which a reranker is recognised that is published as a plain decoder, which prompt it
// reads, and the tokens whose logits make its score. Loading thread only.
#include "runtime/model/config_rerank.h"
#include "runtime/source/source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEMPLATE_BYTES_MAX = 1 << 20 };

// Reads the token ids of LogitScore. Without false_token_id the score is the logit of one token.
static enum status answers_read(struct model_config *config, const char *folder, struct error *err)
{
    json_t *json;
    enum status status = folder_json(&json, folder, "config.json", true, err);
    struct config_number yes = {"true_token_id", 0, 1 << 24, NAN};
    struct config_number no = {"false_token_id", 0, 1 << 24, 0};
    const json_t *second = json_object_get(json, no.name);
    uint32_t yes_id = 0, no_id = 0;
    config->lone_answer = !second || json_is_null(second);
    if (status == STATUS_OK)
        status = config_count(&yes_id, json, &yes, err);
    if (status == STATUS_OK)
        status = config_count(&no_id, json, &no, err);
    json_decref(json);
    config->yes_id = (int32_t)yes_id;
    config->no_id = config->lone_answer ? -1 : (int32_t)no_id;
    return status == STATUS_OK ? status : error_prefix(err, "%s", folder);
}

// Cuts the last component off a path and returns it.
static char *path_pop(char *path)
{
    size_t bytes = strlen(path);
    while (bytes > 0 && path[bytes - 1] == '/')
        path[--bytes] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return path;
    *slash = '\0';
    return slash + 1;
}

// Returns true if the name of the model contains `part`: the first published models have no other
// sign. It is the folder's name; in the hub's download cache that of
// .../models--OWNER--NAME/snapshots/COMMIT.
static bool name_has(const char *folder, const char *part)
{
    char path[MODULE_FOLDER_MAX];
    snprintf(path, sizeof path, "%s", folder);
    const char *name = path_pop(path);
    if (name != path && strcmp(path_pop(path), "snapshots") == 0)
        name = path_pop(path);
    return strcasestr(name, part) != NULL;
}

static bool is_original_qwen3(const json_t *json)
{
    return json_is_true(json_object_get(json, "is_original_qwen3_reranker"));
}

// Returns the form in which the published models of an architecture read, or RERANK_UNKNOWN.
static enum rerank_form usual_form(const struct architecture *arch)
{
    enum rerank_form form = RERANK_PAIR + 1;
    while (form < RERANK_FORMS && strcmp(rerank_form_facts(form)->architecture, arch->name) != 0)
        form++;
    return form;
}

// Reads from classifier_from_token, vLLM's name, which tokens make the score: those of a form.
static enum status tokens_read(enum rerank_form *out, const json_t *json, struct error *err)
{
    const json_t *list = json_object_get(json, "classifier_from_token");
    const char *last = json_string_value(json_array_get(list, json_array_size(list) - 1));
    const char *first = json_string_value(json_array_get(list, 0));
    *out = RERANK_PAIR;
    if (!json_is_array(list))
        return STATUS_OK;
    for (enum rerank_form form = RERANK_PAIR + 1; form < RERANK_FORMS && last; form++) {
        const struct rerank_form_facts *facts = rerank_form_facts(form);
        bool same = json_array_size(list) == (facts->no ? 2u : 1u) && first &&
                    strcmp(last, facts->yes) == 0 && (!facts->no || strcmp(first, facts->no) == 0);
        if (same)
            *out = form;
    }
    if (*out != RERANK_PAIR)
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "config.json: classifier_from_token is neither [\"no\", \"yes\"] nor "
                     "[\"0\", \"1\"] nor [\"Yes\"], the tokens of the rerankers that are served: "
                     "take another model");
}

// Returns the form whose prompt a chat template renders; RERANK_UNKNOWN if it renders another
// prompt of a query and a document, RERANK_PAIR if it is none of rerankers.
static enum rerank_form template_form(const char *source)
{
    for (enum rerank_form form = RERANK_PAIR + 1; form < RERANK_FORMS; form++)
        if (strstr(source, rerank_form_facts(form)->sentence))
            return form;
    return strstr(source, "\"query\"") || strstr(source, "'query'") ? RERANK_UNKNOWN : RERANK_PAIR;
}

// Reads the chat templates of the folder.
static enum status templates_read(enum rerank_form *out, const char *folder, struct error *err)
{
    json_t *json;
    struct text source = {NULL, 0};
    char path[MODULE_FOLDER_MAX];
    struct arena *arena = arena_create(0, 0);
    *out = RERANK_PAIR;
    enum status status = folder_path(path, folder, "chat_template.jinja", err);
    if (status == STATUS_OK &&
        model_file_read(&source, arena, path, TEMPLATE_BYTES_MAX, &(struct error){0}) == STATUS_OK)
        *out = template_form(arena_format(arena, "%.*s", (int)source.bytes, source.at).at);
    if (status == STATUS_OK && *out == RERANK_PAIR) {
        status = folder_json(&json, folder, "tokenizer_config.json", false, err);
        const json_t *given = json_object_get(json, "chat_template");
        size_t count = json_is_array(given) ? json_array_size(given) : 1;
        for (size_t i = 0; i < count && *out == RERANK_PAIR; i++) {
            const json_t *one = json_is_array(given) ? json_array_get(given, i) : given;
            const char *text =
                json_string_value(json_is_object(one) ? json_object_get(one, "template") : one);
            *out = text ? template_form(text) : RERANK_PAIR;
        }
        json_decref(json);
    }
    arena_destroy(arena);
    return status;
}

// Decides which prompt a reranker reads. The strongest sign is a chat template that renders one.
static enum status form_find(struct model_config *config, const char *folder, struct error *err)
{
    enum rerank_form usual = usual_form(config->arch);
    enum status status = templates_read(&config->rerank, config->weights_folder, err);
    if (status != STATUS_OK || config->rerank != RERANK_PAIR)
        return status;
    bool named = name_has(folder, rerank_form_facts(usual)->folder);
    if (config->answers != RERANK_PAIR)
        config->rerank = config->answers == usual ? usual : RERANK_UNKNOWN;
    else
        config->rerank = named || usual == RERANK_YES_NO ? usual : RERANK_UNKNOWN;
    return STATUS_OK;
}

enum status rerank_config_read(struct model_config *config, const struct modules *modules,
                               const json_t *json, const json_t *sentence, const char *folder,
                               struct error *err)
{
    bool can_answer = config->arch->flags & ARCH_YES_NO;
    const char *type = json_string_value(json_object_get(sentence, "model_type"));
    const struct module *answer = modules_find(modules, "LogitScore");
    enum rerank_form usual = usual_form(config->arch);
    bool original = is_original_qwen3(json) && usual == RERANK_YES_NO;
    bool listed = json_is_array(json_object_get(json, "classifier_from_token"));
    bool marked = answer || (type && strcmp(type, "CrossEncoder") == 0) || original || listed ||
                  (usual != RERANK_UNKNOWN && name_has(folder, rerank_form_facts(usual)->folder));
    if (config->wrapper && (modules->listed || marked || name_has(folder, "reranker")))
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: an embedder or reranker made of %s is not served: it has a prompt of "
                         "its own",
                         folder, config->name);
    // Any fine-tuned model may have a score head, but only Qwen3-Reranker uses the yes/no prompt.
    if (config->arch->flags & ARCH_YES_NO_PROMPT)
        config->rerank = is_original_qwen3(json) || listed || name_has(folder, "qwen3-reranker")
                             ? RERANK_YES_NO
                             : RERANK_PAIR;
    if (answer && !can_answer)
        return error_set(err, STATUS_UNSUPPORTED, "%s: LogitScore over %s is not supported", folder,
                         config->name);
    if (!can_answer || !marked)
        return STATUS_OK;
    config->kind = MODEL_RERANKER;
    enum status status = tokens_read(&config->answers, json, err);
    if (status == STATUS_OK && answer)
        status = answers_read(config, answer->folder, err);
    return status == STATUS_OK ? form_find(config, folder, err) : status;
}
