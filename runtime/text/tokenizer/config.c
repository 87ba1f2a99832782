// SPDX-License-Identifier: Apache-2.0
// Reads the other files of a model folder that describe a tokenizer: names of special tokens,
// whether BOS and EOS are added, and chat templates.
#include "runtime/source/modules.h"
#include "runtime/source/source.h"
#include "runtime/text/tokenizer/internal.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

static const char *const names[SPECIAL_COUNT] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
};

const char *tokenizer_special_name(enum special_token which)
{
    check(which < SPECIAL_COUNT, "special token %d", (int)which);
    return names[which];
}

// Reads "text" or {"content": "text", ...}; returns the text.
static struct text token_content(const struct jnode *node)
{
    return jtree_is(node, J_OBJECT) ? jtree_get_text(node, "content") : jtree_text(node);
}

void template_add(struct tokenizer *t, struct text name, struct text source)
{
    uint32_t most = sizeof t->templates / sizeof *t->templates;
    if (!source.at || !name.at)
        return;
    for (uint32_t i = 0; i < t->template_count; i++)
        if (text_equal(t->templates[i].name, name)) {
            t->templates[i].source = source;
            return;
        }
    if (t->template_count == most)
        return;
    t->templates[t->template_count].name = name;
    t->templates[t->template_count++].source = source;
}

// Reads one template text, or a list of {"name", "template"}.
static void templates_read(struct tokenizer *t, const struct jnode *node)
{
    template_add(t, text_of("default"), jtree_text(node));
    for (uint32_t i = 0; jtree_is(node, J_ARRAY) && i < node->count; i++)
        template_add(t, jtree_get_text(&node->items[i], "name"),
                     jtree_get_text(&node->items[i], "template"));
}

static bool class_is(const struct jnode *config, const char *const *classes)
{
    struct text class = jtree_get_text(config, "tokenizer_class");
    for (; *classes; classes++)
        if (text_is(class, *classes))
            return true;
    return false;
}

static bool class_adds_bos(const struct jnode *config)
{
    static const char *const classes[] = {
        "LlamaTokenizer",
        "LlamaTokenizerFast",
        "CodeLlamaTokenizer",
        "CodeLlamaTokenizerFast",
        "GemmaTokenizer",
        "GemmaTokenizerFast",
        NULL,
    };
    return class_is(config, classes);
}

// True if the model receives token types. model_input_names decides; without it the tokenizer's
// class does. Newer files name the last class in the list for any tokenizer.
static bool model_reads_types(const struct jnode *config)
{
    static const char *const without[] = {
        "RobertaTokenizer",    "RobertaTokenizerFast",
        "XLMRobertaTokenizer", "XLMRobertaTokenizerFast",
        "CamembertTokenizer",  "CamembertTokenizerFast",
        "TokenizersBackend",   NULL,
    };
    const struct jnode *inputs = jtree_get(config, "model_input_names");
    if (!jtree_is(inputs, J_ARRAY))
        return !class_is(config, without);
    for (uint32_t i = 0; i < inputs->count; i++)
        if (text_is(jtree_text(&inputs->items[i]), "token_type_ids"))
            return true;
    return false;
}

static struct template_item id_item(struct tokenizer *t, int32_t id, uint8_t type_id)
{
    uint32_t *ids = arena_alloc(t->arena, sizeof *ids);
    check(ids, "the arena of a tokenizer has no limit");
    *ids = (uint32_t)id;
    return (struct template_item){TEMPLATE_IDS, type_id, 1, ids};
}

// These tokenizer classes build their post-processor from two flags and ignore the one of
// tokenizer.json; so do files that contain no post-processor.
static void flags_apply(struct tokenizer *t, const struct jnode *config)
{
    bool flags = jtree_get(config, "add_bos_token") || jtree_get(config, "add_eos_token");
    if (!t->flags_post && !(flags && class_adds_bos(config)))
        return;
    int32_t bos = tokenizer_special(t, SPECIAL_BOS), eos = tokenizer_special(t, SPECIAL_EOS);
    bool begins = t->flags_post ? t->flags_begin : true;
    bool add_bos = jtree_get_bool(config, "add_bos_token", begins) && bos >= 0;
    bool add_eos = jtree_get_bool(config, "add_eos_token", false) && eos >= 0;
    struct template_item *items = arena_alloc_zeroed(t->arena, 9, sizeof *items);
    check(items, "the arena of a tokenizer has no limit");
    t->post = (struct post_processor){.single = items, .pair = items + 3};
    // i == 0: the single text; 1 and 2: the texts of a pair
    for (uint8_t i = 0; i < 3; i++) {
        struct template_item *to = i == 0 ? t->post.single : t->post.pair;
        uint32_t *count = i == 0 ? &t->post.single_count : &t->post.pair_count;
        uint8_t type_id = i == 2;
        if (add_bos)
            to[(*count)++] = id_item(t, bos, type_id);
        to[(*count)++] =
            (struct template_item){.kind = i == 2 ? TEMPLATE_B : TEMPLATE_A, .type_id = type_id};
        if (add_eos)
            to[(*count)++] = id_item(t, eos, type_id);
    }
}

// special_tokens_map.json has precedence, but not over a folder with added_tokens_decoder.
void config_names_open(struct tokenizer *t)
{
    bool config_first = jtree_get(t->config, "added_tokens_decoder") != NULL;
    for (int i = 0; i < SPECIAL_COUNT; i++) {
        const struct jnode *in_config = jtree_get(t->config, names[i]);
        const struct jnode *in_map = jtree_get(t->map, names[i]);
        const struct jnode *first = config_first ? in_config : in_map;
        const struct jnode *node = token_content(first).at ? first
                                   : config_first          ? in_map
                                                           : in_config;
        t->special_texts[i] = token_content(node);
        t->special_nodes[i] = t->special_texts[i].at ? node : NULL;
    }
}

void config_open(struct tokenizer *t)
{
    const struct jnode *config = t->config;
    t->gives_types = model_reads_types(config);
    // A tokenizer without a limit has 1e30 here.
    int64_t length = jtree_integer(jtree_get(config, "model_max_length"), 1 << 24);
    t->length = length > 0 ? (uint32_t)length : 0;
    templates_read(t, jtree_get(config, "chat_template"));
    flags_apply(t, config);
}

// Writes the tokenizer's folder to `out`. Older sentence-transformers folders store the tokenizer
// with the weights, in the folder that modules.json names; for all others it is `folder`.
enum status folder_find(char out[FOLDER_BYTES_MAX], const char *folder, struct error *err)
{
    char path[FOLDER_BYTES_MAX + 64];
    struct modules modules;
    snprintf(out, FOLDER_BYTES_MAX, "%s", folder);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (access(path, F_OK) == 0)
        return STATUS_OK;
    enum status status = modules_read(&modules, folder, err);
    const struct module *weights =
        status == STATUS_OK ? modules_find(&modules, "Transformer") : NULL;
    if (weights)
        snprintf(out, FOLDER_BYTES_MAX, "%s", weights->folder);
    return status;
}

// sentence-transformers converts to lower case before the tokenizer's own normalizers.
enum status folder_lowercase_open(struct tokenizer *t, const char *folder, struct error *err)
{
    static const char *const files[] = {"sentence_bert_config.json", "sentence_roberta_config.json",
                                        "sentence_xlm-roberta_config.json"};
    const struct jnode *config = NULL;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && !config && i < sizeof files / sizeof *files; i++)
        status = folder_json_read(t, folder, files[i], &config, err);
    if (status == STATUS_OK && jtree_get_bool(config, "do_lower_case", false))
        t->normalizers[t->normalizer_count++].kind = NORMALIZE_LOWERCASE;
    return status;
}

// Reads an optional file; sets *out to NULL if it does not exist.
enum status folder_json_read(struct tokenizer *t, const char *folder, const char *file,
                             const struct jnode **out, struct error *err)
{
    char path[FOLDER_BYTES_MAX + 64];
    struct text source;
    *out = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    enum status status = model_file_read(&source, t->arena, path, TOKENIZER_FILE_BYTES_MAX, err);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    return status == STATUS_OK ? jtree_parse(out, t->arena, source, path, err) : status;
}

// Reads additional_chat_templates/NAME.jinja. A GGUF file has its templates in its keys.
static enum status folder_more_templates_open(struct tokenizer *t, const char *folder,
                                              struct error *err)
{
    static const char end[] = ".jinja";
    char path[FOLDER_BYTES_MAX + 320];
    snprintf(path, sizeof path, "%s/additional_chat_templates", folder);
    size_t gguf;
    DIR *entries = source_is_gguf(folder, &gguf) ? NULL : opendir(path);
    enum status status = STATUS_OK;
    struct dirent *entry;
    while (entries && status == STATUS_OK && (entry = readdir(entries)) != NULL) {
        size_t bytes = strlen(entry->d_name);
        if (entry->d_name[0] == '.' || bytes < sizeof end ||
            strcmp(entry->d_name + bytes - (sizeof end - 1), end) != 0)
            continue;
        struct text source, name = text_span(entry->d_name, bytes - (sizeof end - 1));
        snprintf(path, sizeof path, "%s/additional_chat_templates/%.255s", folder, entry->d_name);
        status = model_file_read(&source, t->arena, path, TOKENIZER_FILE_BYTES_MAX, err);
        if (status == STATUS_OK)
            template_add(t, arena_copy(t->arena, name), source);
    }
    if (entries)
        closedir(entries);
    return status;
}

// Adds chat templates; chat_template.jinja has precedence over chat_template.json, and that over
// tokenizer_config.json.
enum status folder_templates_open(struct tokenizer *t, const char *folder, struct error *err)
{
    char path[FOLDER_BYTES_MAX + 64];
    struct text source;
    const struct jnode *root;
    enum status status = folder_json_read(t, folder, "chat_template.json", &root, err);
    if (status != STATUS_OK)
        return status;
    templates_read(t, jtree_get(root, "chat_template"));
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    status = model_file_read(&source, t->arena, path, TOKENIZER_FILE_BYTES_MAX, err);
    if (status == STATUS_OK)
        template_add(t, text_of("default"), source);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return status;
    return folder_more_templates_open(t, folder, err);
}
