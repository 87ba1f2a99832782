// SPDX-License-Identifier: Apache-2.0
// Added tokens that tokenizer.json does not name: those of added_tokens.json, of the other files'
// lists, and the special tokens by name. Ids and flags are those of the reference library: a token
// that exists keeps its id, a new one gets the next free id.
#include "runtime/text/tokenizer/files.h"

#include <stdlib.h>

static const struct jnode *key_of(const struct jnode *object, uint32_t i)
{
    return &object->items[2 * (size_t)i];
}

static const struct jnode *value_of(const struct jnode *object, uint32_t i)
{
    return &object->items[2 * (size_t)i + 1];
}

static uint32_t count_of(const struct jnode *node)
{
    return jtree_is(node, J_ARRAY) || jtree_is(node, J_OBJECT) ? node->count : 0;
}

// Returns the list of further special tokens; NULL: none. special_tokens_map.json is only read
// without added_tokens_decoder.
static const struct jnode *extra_list(const struct tokenizer *t)
{
    static const char *const keys[] = {"extra_special_tokens", "additional_special_tokens"};
    const struct jnode *files[] = {t->config,
                                   jtree_get(t->config, "added_tokens_decoder") ? NULL : t->map};
    for (size_t f = 0; f < 2; f++)
        for (size_t k = 0; k < 2; k++)
            if (count_of(jtree_get(files[f], keys[k])) > 0)
                return jtree_get(files[f], keys[k]);
    return NULL;
}

uint32_t added_files_bound(const struct tokenizer *t)
{
    return count_of(jtree_get(t->config, "added_tokens_decoder")) + count_of(t->added_file) +
           count_of(extra_list(t)) + count_of(t->config) + SPECIAL_COUNT;
}

// Makes a token special. node: its text, or an object with text and flags.
static void special_put(struct tokenizer *t, const struct jnode *node)
{
    struct added_token token = jtree_is(node, J_OBJECT)
                                   ? added_token_of(node)
                                   : (struct added_token){.content = jtree_text(node)};
    token.special = true;
    if (!token.content.at || token.content.bytes == 0)
        return;
    struct added_token *known = added_find(t, token.content);
    if (known)
        known->special = true;
    else
        added_put(t, &token);
}

struct decoder_entry {
    int64_t id;
    const struct jnode *node;
};

static int by_id(const void *a, const void *b)
{
    const struct decoder_entry *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

int64_t token_id_of(struct text text)
{
    int64_t id = text.bytes > 0 && text.bytes < 9 ? 0 : -1;
    for (size_t i = 0; i < text.bytes && id >= 0; i++)
        id = text.at[i] >= '0' && text.at[i] <= '9' ? id * 10 + (text.at[i] - '0') : -1;
    return id < IDS_MAX ? id : -1;
}

// Reads {"ID": {"content", flags}}; its flags replace those of tokenizer.json. The ids order the
// tokens: one that the vocabulary lacks gets the next free id.
static enum status decoder_open(struct tokenizer *t, const struct jnode *decoder, struct error *err)
{
    uint32_t count = count_of(decoder);
    struct decoder_entry *entries = arena_alloc(t->arena, (count + 1) * sizeof *entries);
    check(entries, "the arena of a tokenizer has no limit");
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = (struct decoder_entry){token_id_of(jtree_text(key_of(decoder, i))),
                                            value_of(decoder, i)};
        if (entries[i].id < 0 || !jtree_get_text(entries[i].node, "content").at)
            return error_set(
                err, STATUS_INVALID,
                "added_tokens_decoder of tokenizer_config.json: entry %u has no usable "
                "id or no content",
                i);
    }
    qsort(entries, count, sizeof *entries, by_id);
    for (uint32_t i = 0; i < count; i++) {
        struct added_token token = added_token_of(entries[i].node);
        token.normalized = token.normalized && !t->added_raw;
        added_put(t, &token);
    }
    return STATUS_OK;
}

static bool is_extra(const struct tokenizer *t, struct text content)
{
    const struct jnode *list = extra_list(t);
    for (uint32_t i = 0; jtree_is(list, J_ARRAY) && i < list->count; i++)
        if (text_equal(jtree_text(&list->items[i]), content))
            return true;
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (text_equal(t->special_texts[i], content))
            return true;
    return false;
}

// Reads {"content": ID} of added_tokens.json, in the order of the ids. tokenizer.json has
// precedence.
static enum status legacy_open(struct tokenizer *t, struct error *err)
{
    uint32_t count = count_of(t->added_file);
    struct decoder_entry *entries = arena_alloc(t->arena, (count + 1) * sizeof *entries);
    check(entries, "the arena of a tokenizer has no limit");
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = (struct decoder_entry){jtree_integer(value_of(t->added_file, i), IDS_MAX - 1),
                                            key_of(t->added_file, i)};
        if (entries[i].id < 0)
            return error_set(err, STATUS_INVALID, "added_tokens.json: entry %u has no usable id",
                             i);
    }
    qsort(entries, count, sizeof *entries, by_id);
    for (uint32_t i = 0; i < count; i++) {
        struct added_token token = {.content = jtree_text(entries[i].node)};
        token.special = is_extra(t, token.content);
        token.normalized = !token.special && !t->added_raw;
        if (token.content.bytes > 0 && !added_find(t, token.content))
            added_put(t, &token);
    }
    return STATUS_OK;
}

static bool is_standard(struct text key)
{
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (text_is(key, tokenizer_special_name((enum special_token)i)))
            return true;
    return false;
}

// Adds a special token that chat templates know by a name of the model's own, such as image_token.
static void variable_put(struct tokenizer *t, struct text name, const struct jnode *node)
{
    uint32_t most = sizeof t->variables / sizeof *t->variables;
    struct text text = jtree_text(node);
    if (!text.at || text.bytes == 0 || t->variable_count == most)
        return;
    special_put(t, node);
    t->variables[t->variable_count].name = arena_copy(t->arena, name).at;
    t->variables[t->variable_count++].text = text;
}

static void variables_open(struct tokenizer *t)
{
    static const char end[] = "_token";
    const struct jnode *extra = extra_list(t);
    for (uint32_t i = 0; jtree_is(t->config, J_OBJECT) && i < t->config->count; i++) {
        struct text key = jtree_text(key_of(t->config, i));
        if (key.bytes >= sizeof end && !is_standard(key) &&
            memcmp(key.at + key.bytes - (sizeof end - 1), end, sizeof end - 1) == 0)
            variable_put(t, key, value_of(t->config, i));
    }
    for (uint32_t i = 0; jtree_is(extra, J_OBJECT) && i < extra->count; i++)
        variable_put(t, jtree_text(key_of(extra, i)), value_of(extra, i));
}

enum status added_files_open(struct tokenizer *t, struct error *err)
{
    const struct jnode *decoder = jtree_get(t->config, "added_tokens_decoder");
    const struct jnode *extra = extra_list(t);
    enum status status =
        jtree_is(decoder, J_OBJECT) ? decoder_open(t, decoder, err) : legacy_open(t, err);
    if (status != STATUS_OK)
        return status;
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (t->special_nodes[i])
            special_put(t, t->special_nodes[i]);
    variables_open(t);
    for (uint32_t i = 0; jtree_is(extra, J_ARRAY) && i < extra->count; i++)
        special_put(t, &extra->items[i]);
    return STATUS_OK;
}
