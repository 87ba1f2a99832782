// SPDX-License-Identifier: Apache-2.0
// Opens a tokenizer from a folder, from memory or without files, and answers queries about it.
#include "runtime/source/source.h"
#include "runtime/text/tokenizer/files.h"

#include <stdio.h>

struct tokenizer *tokenizer_create(void)
{
    struct tokenizer *t = heap_alloc_zeroed(1, sizeof *t);
    t->arena = arena_create(1 << 20, 0);
    t->word_unk = -1;
    t->gives_types = true;
    return t;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->normalizer_count; i++)
        regex_destroy(t->normalizers[i].regex);
    for (uint32_t i = 0; i < t->pre_count; i++)
        regex_destroy(t->pre[i].regex);
    for (uint32_t i = 0; i < t->decoder_count; i++)
        regex_destroy(t->decoders[i].regex);
    trie_free(&t->wordpiece.first);
    trie_free(&t->wordpiece.rest);
    trie_free(&t->unigram.trie);
    trie_free(&t->raw.trie);
    trie_free(&t->normalized.trie);
    arena_destroy(t->arena);
    heap_free(t);
}

// Returns an upper bound of the tokens per byte of text, including what normalizers add.
static double tokens_per_byte(const struct tokenizer *t)
{
    double factor = 1, added = 0;
    for (uint32_t i = 0; i < t->normalizer_count; i++) {
        const struct normalizer *n = &t->normalizers[i];
        switch (n->kind) {
        case NORMALIZE_NFKC:
        case NORMALIZE_NFKD:
        case NORMALIZE_PRECOMPILED:
            factor *= 12;
            break;
        case NORMALIZE_NFC:
        case NORMALIZE_NFD:
        case NORMALIZE_BERT:
            factor *= 3;
            break;
        case NORMALIZE_LOWERCASE:
        case NORMALIZE_BYTE_LEVEL:
            factor *= 2;
            break;
        case NORMALIZE_PREPEND:
            added += (double)n->to.bytes;
            break;
        case NORMALIZE_REPLACE:
            // Without a pattern each match consumes the bytes of `from`.
            factor *= n->regex || n->from.bytes == 0 ? 1 + (double)n->to.bytes
                      : n->to.bytes > n->from.bytes  ? (double)n->to.bytes / (double)n->from.bytes
                                                     : 1;
            break;
        default:
            break;
        }
    }
    for (uint32_t i = 0; i < t->pre_count; i++)
        added += t->pre[i].kind == PRE_METASPACE    ? 2 * (double)t->pre[i].text.bytes
                 : t->pre[i].kind == PRE_BYTE_LEVEL ? 1
                                                    : 0;
    return (factor + added) * (1 + (double)t->bpe.prefix.bytes) + (double)t->bpe.suffix.bytes;
}

enum status stages_open(struct tokenizer *t, const struct jnode *node,
                        const struct stage_list *list, struct error *err)
{
    struct text type = jtree_get_text(node, "type");
    const struct jnode *nested = jtree_get(node, list->nested);
    enum status status = STATUS_OK;
    if (!jtree_is(node, J_OBJECT))
        return STATUS_OK;
    if (jtree_is(nested, J_ARRAY)) {
        for (uint32_t i = 0; i < nested->count && status == STATUS_OK; i++)
            status = stages_open(t, &nested->items[i], list, err);
        return status;
    }
    if (*list->count == STAGES_MAX)
        return error_set(err, STATUS_TOO_LARGE, "over %d %ss", STAGES_MAX, list->what);
    for (uint32_t i = 0; i < list->kind_count; i++)
        if (text_is(type, list->kinds[i]))
            return list->open(t, i, node, err);
    return error_set(err, STATUS_UNSUPPORTED, "a %s of type %.*s is not known", list->what,
                     (int)(type.bytes < 60 ? type.bytes : 60), type.at);
}

// Reads the parts of the file in order; an error begins with the name of its part.
static enum status parts_open(struct tokenizer *t, const struct jnode *root, struct error *err)
{
    static const struct {
        const char *key;
        enum status (*open)(struct tokenizer *, const struct jnode *, struct error *);
    } parts[] = {
        {"normalizer", normalizers_open}, {"pre_tokenizer", pretokenizers_open},
        {"model", model_open_json},       {"added_tokens", added_open},
        {"post_processor", post_open},    {"decoder", decoders_open},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        enum status status = parts[i].open(t, jtree_get(root, parts[i].key), err);
        if (status != STATUS_OK) {
            (void)error_prefix(err, "%s", parts[i].key);
            return status;
        }
    }
    class_apply(t);
    t->tokens_per_byte = tokens_per_byte(t);
    for (uint32_t id = 0; id < t->vocab; id++)
        if (t->names[id].bytes > t->piece_bytes_max)
            // A name has at least as many bytes as the text of its token.
            t->piece_bytes_max = t->names[id].bytes;
    if (t->tokens_per_byte > TEXT_GROWTH_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "normalizer and pre_tokenizer can make %.0f bytes of one, at most %d are "
                         "served: is there a Prepend or Replace with a long text?",
                         t->tokens_per_byte, TEXT_GROWTH_MAX);
    enum status status = added_match_open(t, err);
    if (status == STATUS_OK)
        status = detok_open(t, err);
    return status;
}

enum status tokenizer_open_parts(struct tokenizer *t, struct text source, const char *name,
                                 struct error *err)
{
    const struct jnode *root;
    enum status status = jtree_parse(&root, t->arena, source, name, err);
    if (status != STATUS_OK)
        return status;
    status = parts_open(t, root, err);
    if (status != STATUS_OK)
        (void)error_prefix(err, "%s", name);
    return status;
}

static enum status open_folder(struct tokenizer *t, const char *model, struct error *err)
{
    char folder[FOLDER_BYTES_MAX], path[FOLDER_BYTES_MAX + 64];
    const struct jnode *model_config = NULL;
    struct text source;
    enum status status = folder_find(folder, model, err);
    if (status == STATUS_OK)
        status = folder_json_read(t, folder, "tokenizer_config.json", &t->config, err);
    if (status == STATUS_OK)
        status = folder_json_read(t, folder, "special_tokens_map.json", &t->map, err);
    if (status == STATUS_OK)
        status = folder_json_read(t, folder, "added_tokens.json", &t->added_file, err);
    // A faulty config.json is an error of the model, not of its tokenizer.
    struct error ignored;
    if (status == STATUS_OK &&
        folder_json_read(t, folder, "config.json", &model_config, &ignored) != STATUS_OK)
        model_config = NULL;
    if (status == STATUS_OK)
        status = folder_lowercase_open(t, folder, err);
    if (status != STATUS_OK)
        return status;
    t->class = class_of(t->config, model_config);
    config_names_open(t);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    status = model_file_read(&source, t->arena, path, TOKENIZER_FILE_BYTES_MAX, err);
    if (status == STATUS_OK)
        status = tokenizer_open_parts(t, source, path, err);
    else if (status == STATUS_NOT_FOUND)
        status = other_files_open(t, folder, err);
    if (status != STATUS_OK)
        return status;
    config_open(t);
    status = folder_templates_open(t, folder, err);
    added_guard_markers(t);
    return status;
}

enum status tokenizer_open(struct tokenizer **out, const char *folder, struct error *err)
{
    enum status status = folder_check(folder, err);
    if (status != STATUS_OK)
        return status;
    struct tokenizer *t = tokenizer_create();
    status = open_folder(t, folder, err);
    if (status != STATUS_OK) {
        tokenizer_close(t);
        return status;
    }
    *out = t;
    return STATUS_OK;
}

static bool has_id(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab && t->names[id].at;
}

int32_t tokenizer_token(const struct tokenizer *t, struct text content)
{
    const struct word_entry *entry = word_table_find(&t->by_name, content.at, content.bytes);
    return entry ? (int32_t)entry->id : -1;
}

struct text tokenizer_token_text(const struct tokenizer *t, int32_t id)
{
    return has_id(t, id) ? t->names[id] : (struct text){0};
}

struct text tokenizer_token_bytes(const struct tokenizer *t, int32_t id)
{
    return has_id(t, id) ? t->bytes[id] : text_span("", 0);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return has_id(t, id) && t->special[id] != 0;
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
    return t->vocab;
}

int32_t tokenizer_special(const struct tokenizer *t, enum special_token which)
{
    struct text text = tokenizer_special_text(t, which);
    return text.at ? tokenizer_token(t, text) : -1;
}

struct text tokenizer_special_text(const struct tokenizer *t, enum special_token which)
{
    check(which < SPECIAL_COUNT, "special token %d", (int)which);
    return t->special_texts[which];
}

const char *tokenizer_own_special(const struct tokenizer *t, uint32_t i, struct text *token)
{
    *token = i < t->variable_count ? t->variables[i].text : (struct text){0};
    return i < t->variable_count ? t->variables[i].name : NULL;
}

struct text tokenizer_chat_template(const struct tokenizer *t, const char *name)
{
    const char *wanted = name ? name : "default";
    for (uint32_t i = 0; i < t->template_count; i++)
        if (text_is(t->templates[i].name, wanted))
            return t->templates[i].source;
    return text_span(NULL, 0);
}

uint32_t tokenizer_length(const struct tokenizer *t)
{
    return t->length;
}
