// SPDX-License-Identifier: Apache-2.0
// The prompts of embedders; see sentence.h.
#include "runtime/text/sentence.h"

#include "base/json.h"
#include "runtime/source/modules.h"

#include <string.h>

static const char file[] = "config_sentence_transformers.json";

static enum status prompts_fill(struct sentence_prompts *out, const json_t *json,
                                const char *folder, struct arena *arena, struct error *err)
{
    json_t *prompts = json_object_get(json, "prompts");
    if (!prompts || json_is_null(prompts))
        return STATUS_OK;
    if (!json_is_object(prompts))
        return error_set(err, STATUS_INVALID, "%s/%s: prompts must be an object", folder, file);
    struct sentence_prompt *items =
        arena_alloc_zeroed(arena, json_object_size(prompts), sizeof *items);
    const char *name;
    size_t bytes;
    json_t *value;
    json_object_keylen_foreach(prompts, name, bytes, value)
    {
        if (!json_is_string(value) && !json_is_null(value))
            return error_set(err, STATUS_INVALID, "%s/%s: the prompt '%.64s' must be a string",
                             folder, file, name);
        struct text text = text_span(json_string_value(value), json_string_length(value));
        items[out->count++] =
            (struct sentence_prompt){arena_copy(arena, text_span(name, bytes)),
                                     arena_copy(arena, text.at ? text : text_of(""))};
    }
    out->items = items;
    return STATUS_OK;
}

const struct sentence_prompt *sentence_prompts_find(const struct sentence_prompts *prompts,
                                                    struct text name)
{
    for (uint32_t i = 0; i < prompts->count; i++)
        if (text_equal(prompts->items[i].name, name))
            return &prompts->items[i];
    return NULL;
}

struct text sentence_prompts_names(const struct sentence_prompts *prompts, struct arena *arena)
{
    struct json_buffer out = {0};
    for (uint32_t i = 0; i < prompts->count; i++) {
        json_put_literal(&out, i > 0 ? ", '" : "'");
        json_put_raw(&out, prompts->items[i].name);
        json_put_literal(&out, "'");
    }
    struct text names = arena_copy(arena, json_buffer_text(&out));
    json_buffer_free(&out);
    return prompts->count > 0 ? names : text_of("none");
}

struct text_parts text_parts_of(const struct tokenizer *tokenizer, const struct encode_args *args,
                                const int32_t *tokens, uint32_t count)
{
    struct error err;
    struct encode_args plain = *args;
    uint32_t bound = tokenizer_bound(tokenizer, args->text.bytes), own_count = 0, before = 0;
    int32_t *own = arena_alloc(args->arena, (size_t)bound * sizeof *own);
    plain.flags &= ~(unsigned)ENCODE_SPECIAL;
    bool made = (args->flags & ENCODE_SPECIAL) && own &&
                tokenizer_encode(tokenizer, &plain, own, bound, &own_count, &err) == STATUS_OK;
    uint32_t added = made && count > own_count ? count - own_count : 0;
    if (added == 0)
        return (struct text_parts){0, count};
    while (before < added && memcmp(tokens + before, own, own_count * sizeof *own) != 0)
        before++;
    return (struct text_parts){before, own_count};
}

enum status sentence_prompt_tokens(uint32_t *out, const struct tokenizer *tokenizer,
                                   const struct encode_args *args, struct error *err)
{
    uint32_t bound = tokenizer_bound(tokenizer, args->text.bytes), count = 0;
    int32_t *tokens = arena_alloc(args->arena, (size_t)bound * sizeof *tokens);
    if (!tokens)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u tokens", bound);
    enum status status = tokenizer_encode(tokenizer, args, tokens, bound, &count, err);
    struct text_parts parts = {0};
    if (status == STATUS_OK)
        parts = text_parts_of(tokenizer, args, tokens, count);
    *out = parts.before + parts.own;
    return status;
}

enum status sentence_prompts_read(struct sentence_prompts *out, const char *folder,
                                  const char *default_name, struct arena *arena, struct error *err)
{
    json_t *json;
    *out = (struct sentence_prompts){0};
    enum status status = folder_json(&json, folder, file, false, err);
    if (status == STATUS_OK && json)
        status = prompts_fill(out, json, folder, arena, err);
    if (status == STATUS_OK) {
        const char *own = json_string_value(json_object_get(json, "default_prompt_name"));
        const char *name = default_name ? default_name : own;
        if (name && *name != '\0') {
            out->default_prompt = sentence_prompts_find(out, text_of(name));
            if (!out->default_prompt)
                status = error_set(
                    err, STATUS_INVALID, "%s has no prompt '%.64s' (%s); it has: %s", folder, name,
                    default_name
                        ? "--default-prompt-name"
                        : "its default_prompt_name; choose another with --default-prompt-name",
                    sentence_prompts_names(out, arena).at);
        }
    }
    json_decref(json);
    return status;
}
