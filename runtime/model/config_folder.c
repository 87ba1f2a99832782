// What the other files of a model folder add to config.json: modules.json and the pooling of
// sentence-transformers, end ids and sampling defaults of generation_config.json, the marks by
// which a yes/no reranker is recognised. Loading thread only.
#include "runtime/model/config.h"

#include "base/folder.h"
#include "base/json.h"
#include "base/log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static enum status path_join(char *out, const char *folder, const char *name, struct error *err)
{
    const char *between = name[0] != '\0' ? "/" : "";
    int wrote = snprintf(out, CONFIG_FOLDER_MAX, "%s%s%s", folder, between, name);
    if (wrote < 0 || wrote >= CONFIG_FOLDER_MAX)
        return error_set(err, STATUS_TOO_LARGE, "the path %.100s... has over %d bytes", folder,
                         CONFIG_FOLDER_MAX - 1);
    return STATUS_OK;
}

// *out is NULL where the file is absent and not `needed`. A dangling link (an interrupted download)
// and a pipe (whose open would block) are errors.
static enum status file_parse(json_t **out, const char *folder, const char *name, bool needed,
                              struct error *err)
{
    char path[CONFIG_FOLDER_MAX];
    *out = NULL;
    enum status status = path_join(path, folder, name, err);
    if (status != STATUS_OK)
        return status;
    struct stat about;
    if (lstat(path, &about) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        if (!needed)
            return STATUS_OK;
        return error_set(err, STATUS_NOT_FOUND, "%s is missing: download the model again", path);
    }
    status = json_file_parse(out, path, CONFIG_BYTES_MAX, err);
    if (status == STATUS_OK && !json_is_object(*out) && !json_is_array(*out)) {
        json_decref(*out);
        *out = NULL;
        return error_set(err, STATUS_INVALID, "%s holds neither an object nor a list", path);
    }
    return status;
}

static enum status pooling_read(struct model_config *config, const char *folder, struct error *err)
{
    static const struct {
        const char *name, *flag; // in the newer and the older form of the file
        int kind;                // enum pooling, -1: known but not supported
    } modes[] = {
        {"cls", "pooling_mode_cls_token", POOL_CLS},
        {"mean", "pooling_mode_mean_tokens", POOL_MEAN},
        {"lasttoken", "pooling_mode_lasttoken", POOL_LAST},
        {"max", "pooling_mode_max_tokens", -1},
        {"weightedmean", "pooling_mode_weightedmean_tokens", -1},
        // the mean times a factor that normalisation removes
        {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", POOL_MEAN},
    };
    json_t *json;
    enum status status = file_parse(&json, folder, "config.json", true, err);
    uint32_t chosen = 0;
    const char *by_name = json_string_value(json_object_get(json, "pooling_mode"));
    for (size_t i = 0; status == STATUS_OK && i < sizeof modes / sizeof modes[0]; i++) {
        bool on = json_is_true(json_object_get(json, modes[i].flag));
        if (by_name)
            on = strcmp(by_name, modes[i].name) == 0;
        if (!on)
            continue;
        chosen++;
        if (modes[i].kind < 0)
            status = error_set(err, STATUS_UNSUPPORTED,
                               "%s/config.json: %s is not supported: cls, mean and last are",
                               folder, modes[i].name);
        else
            config->pooling = (enum pooling)modes[i].kind;
    }
    json_decref(json);
    if (status == STATUS_OK && chosen != 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s/config.json names %u pooling modes; exactly one is supported", folder,
                         chosen);
    return status;
}

static enum status answers_read(struct model_config *config, const char *folder, struct error *err)
{
    json_t *json;
    enum status status = file_parse(&json, folder, "config.json", true, err);
    struct config_number yes = {"true_token_id", 0, 1 << 24, NAN};
    struct config_number no = {"false_token_id", 0, 1 << 24, NAN};
    uint32_t yes_id = 0, no_id = 0;
    if (status == STATUS_OK)
        status = config_count(&yes_id, json, &yes, err);
    if (status == STATUS_OK)
        status = config_count(&no_id, json, &no, err);
    json_decref(json);
    config->yes_id = (int32_t)yes_id;
    config->no_id = (int32_t)no_id;
    return status == STATUS_OK ? status : error_prefix(err, "%s", folder);
}

struct module {
    const char *kind; // the class name after the last dot
    char folder[CONFIG_FOLDER_MAX];
};

static enum status module_read(struct module *out, const char *folder, const json_t *entry,
                               struct error *err)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    if (!type || !path)
        return error_set(err, STATUS_INVALID,
                         "%s/modules.json: an entry lacks its type or its path", folder);
    if (path[0] == '/' || strstr(path, ".."))
        return error_set(err, STATUS_INVALID,
                         "%s/modules.json: the path %.100s leads out of the "
                         "folder",
                         folder, path);
    const char *dot = strrchr(type, '.');
    out->kind = dot ? dot + 1 : type;
    return path_join(out->folder, folder, path, err);
}

struct modules { // what modules.json says, applied once the architecture is known
    bool listed, pooled, normalized, answers;
    struct module pooling, answer;
};

static enum status modules_read(struct modules *out, struct model_config *config,
                                const char *folder, struct error *err)
{
    json_t *list;
    enum status status = file_parse(&list, folder, "modules.json", false, err);
    if (status != STATUS_OK || !list)
        return status;
    out->listed = true;
    size_t index;
    json_t *entry;
    struct module module;
    json_array_foreach(list, index, entry)
    {
        status = module_read(&module, folder, entry, err);
        if (status != STATUS_OK)
            break;
        if (strcmp(module.kind, "Transformer") == 0) {
            memcpy(config->weights_folder, module.folder, sizeof module.folder);
        } else if (strcmp(module.kind, "Pooling") == 0) {
            out->pooled = true;
            out->pooling = module;
        } else if (strcmp(module.kind, "Normalize") == 0) {
            out->normalized = true;
        } else if (strcmp(module.kind, "LogitScore") == 0) {
            out->answers = true;
            out->answer = module;
        } else {
            status = error_set(err, STATUS_UNSUPPORTED,
                               "%s/modules.json: the module %.64s is not supported; Transformer, "
                               "Pooling, Normalize and LogitScore are",
                               folder, module.kind);
            break;
        }
    }
    json_decref(list);
    return status;
}

static bool name_has(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

// Cuts the last part off a path and returns it.
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

// A yes/no reranker is published as a plain causal model; these are the marks such folders carry,
// strongest first. The last resort is that the folder's own name holds `part`: the first published
// ones have no other mark. In the hub's download cache the name is that of
// .../models--OWNER--NAME/snapshots/COMMIT.
static bool yes_no_marked(const json_t *json, const char *folder, const char *part)
{
    if (json_is_true(json_object_get(json, "is_original_qwen3_reranker")) ||
        json_is_array(json_object_get(json, "classifier_from_token")))
        return true;
    char path[CONFIG_FOLDER_MAX];
    snprintf(path, sizeof path, "%s", folder);
    const char *name = path_pop(path);
    if (name != path && strcmp(path_pop(path), "snapshots") == 0)
        name = path_pop(path);
    return name_has(name, part);
}

// Reads the settings of sentence-transformers. Its default prompt is not prepended: clients send
// texts as they want them encoded.
static enum status sentence_config_read(bool *cross_encoder, const char *folder, struct error *err)
{
    json_t *json;
    *cross_encoder = false;
    enum status status = file_parse(&json, folder, "config_sentence_transformers.json", false, err);
    if (status != STATUS_OK)
        return status;
    const char *type = json_string_value(json_object_get(json, "model_type"));
    *cross_encoder = type && strcmp(type, "CrossEncoder") == 0;
    const char *prompt = json_string_value(json_object_get(json, "default_prompt_name"));
    const json_t *text = prompt ? json_object_get(json_object_get(json, "prompts"), prompt) : NULL;
    if (text && json_string_length(text) > 0)
        log_line(LOG_WARNING,
                 "%s: its default prompt '%s' is not added to texts: send it in front of them",
                 folder, prompt);
    json_decref(json);
    return STATUS_OK;
}

static enum status kind_settle(struct model_config *config, const struct modules *modules,
                               const json_t *json, const char *folder, struct error *err)
{
    bool can_answer = config->arch->flags & ARCH_YES_NO;
    bool cross_encoder;
    enum status status = sentence_config_read(&cross_encoder, folder, err);
    if (status != STATUS_OK)
        return status;
    bool marked = modules->answers || cross_encoder || yes_no_marked(json, folder, "reranker");
    // Any fine-tune may have a score head; only Qwen3-Reranker's own takes the yes/no prompt.
    if (config->arch->flags & ARCH_YES_NO_PROMPT)
        config->rerank =
            yes_no_marked(json, folder, "qwen3-reranker") ? RERANK_YES_NO : RERANK_PAIR;
    if (can_answer && marked) {
        config->kind = MODEL_RERANKER;
        config->rerank = RERANK_YES_NO;
        return modules->answers ? answers_read(config, modules->answer.folder, err) : STATUS_OK;
    }
    if (modules->answers)
        return error_set(err, STATUS_UNSUPPORTED, "%s: LogitScore over %s is not supported", folder,
                         config->arch->name);
    if (!modules->listed || config->kind == MODEL_RERANKER)
        return STATUS_OK;
    if (!modules->pooled)
        return error_set(err, STATUS_UNSUPPORTED, "%s/modules.json has no Pooling module", folder);
    config->kind = MODEL_EMBEDDER;
    config->normalize =
        true; // vectors are always normalised, with or without Normalize in modules.json
    return pooling_read(config, modules->pooling.folder, err);
}

static enum status end_id_add(struct model_config *config, const json_t *value, const char *file,
                              struct error *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= (json_int_t)config->vocab)
        return error_set(err, STATUS_INVALID,
                         "%s: eos_token_id is not a token of a vocabulary of %u", file,
                         config->vocab);
    if (config->end_count == MODEL_END_IDS_MAX)
        return error_set(err, STATUS_TOO_LARGE, "%s: over %d end-of-sequence ids", file,
                         MODEL_END_IDS_MAX);
    config->end_ids[config->end_count++] = (int32_t)json_integer_value(value);
    return STATUS_OK;
}

static enum status end_ids_read(struct model_config *config, const json_t *json, const char *file,
                                struct error *err)
{
    const json_t *value = json_object_get(json, "eos_token_id");
    if (!value || json_is_null(value) || config->end_count > 0)
        return STATUS_OK;
    if (!json_is_array(value))
        return end_id_add(config, value, file, err);
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(value); i++)
        status = end_id_add(config, json_array_get(value, i), file, err);
    return status;
}

static double default_read(const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static enum status generation_read(struct model_config *config, struct error *err)
{
    json_t *json;
    enum status status =
        file_parse(&json, config->weights_folder, "generation_config.json", false, err);
    if (status != STATUS_OK || !json)
        return status;
    status = end_ids_read(config, json, "generation_config.json", err);
    double temperature = default_read(json, "temperature");
    double top_p = default_read(json, "top_p");
    double top_k = default_read(json, "top_k");
    config->default_temperature = temperature >= 0 && temperature <= 100 ? temperature : NAN;
    config->default_top_p = top_p >= 0 && top_p <= 1 ? top_p : NAN;
    config->default_top_k = top_k >= 0 && top_k <= 1 << 24 ? (int32_t)top_k : -1;
    json_decref(json);
    return status;
}

// sentence-transformers cuts texts at max_seq_length, often less than the model's limit. Old
// folders name the file after their architecture.
static enum status sentence_length_read(struct model_config *config, struct error *err)
{
    static const char *const names[] = {"sentence_bert_config.json", "sentence_roberta_config.json",
                                        "sentence_xlm-roberta_config.json"};
    json_t *json = NULL;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && !json && i < sizeof names / sizeof names[0]; i++)
        status = file_parse(&json, config->weights_folder, names[i], false, err);
    double length = default_read(json, "max_seq_length");
    config->length_said = length >= 1;
    if (config->kind != MODEL_GENERATOR && length >= 1 && length < config->length_default)
        config->length_default = (uint32_t)length;
    json_decref(json);
    return status;
}

enum status model_config_read(struct model_config *out, const char *folder, struct error *err)
{
    struct modules modules = {.listed = false};
    struct model_config found = {.arch = NULL};
    enum status status = folder_check(folder, err);
    if (status == STATUS_OK)
        status = path_join(found.weights_folder, folder, "", err);
    if (status == STATUS_OK)
        status = modules_read(&modules, &found, folder, err);
    json_t *json = NULL;
    bool listed = modules.listed; // modules.json promises the config.json of a part
    if (status == STATUS_OK)
        status = file_parse(&json, found.weights_folder, "config.json", listed, err);
    if (status == STATUS_OK && !json)
        status = folder_lacks(folder, "has no config.json", err);
    if (status == STATUS_OK)
        status = model_config_parse(out, json, err);
    if (status == STATUS_OK) {
        memcpy(out->weights_folder, found.weights_folder, sizeof found.weights_folder);
        status = kind_settle(out, &modules, json, folder, err);
    }
    if (status == STATUS_OK)
        status = generation_read(out, err);
    if (status == STATUS_OK)
        status = end_ids_read(out, json, "config.json", err);
    if (status == STATUS_OK)
        status = sentence_length_read(out, err);
    json_decref(json);
    return status;
}
