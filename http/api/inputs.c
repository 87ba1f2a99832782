// SPDX-License-Identifier: Apache-2.0
// Inputs: see inputs.h.
#include "http/api/inputs.h"

#include <string.h>

// Fails the fields: an input is too long. more: true if counting stopped at `tokens`, so that this
// is a lower bound.
static void length_fail(struct inputs *in, const char *path, uint32_t tokens, bool more)
{
    fields_fail_length(&in->call->fields, path, in->field,
                       &(struct field_length){in->call->model->facts->max_model_len, tokens, more});
}

static void tokens_add(struct inputs *in, const char *path, const int32_t *tokens, uint32_t count)
{
    struct fields *f = &in->call->fields;
    if (in->last > 0 && count > in->last) {
        tokens += count - in->last;
        count = in->last;
    }
    if (count > in->token_max && !in->truncate) {
        length_fail(in, path, count, false);
        return;
    }
    count = count < in->token_max ? count : in->token_max;
    if (count == 0)
        fields_fail(f, HTTP_INVALID_VALUE, path, "must have at least one token");
    else if (!token_list_add(&in->list, tokens, count))
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
}

unsigned input_flags(bool special_in_text, bool special_added)
{
    return (special_in_text ? ENCODE_ADDED_TOKENS : ENCODE_PLAIN) |
           (special_added ? ENCODE_SPECIAL : ENCODE_PLAIN);
}

static struct encode_args encode_of(const struct body_call *call, struct text text,
                                    struct arena *arena)
{
    return (struct encode_args){.text = text,
                                .flags = input_flags(call->model->special_in_text, false),
                                .arena = arena,
                                .slice = call->slice};
}

enum status input_encode(const struct body_call *call, struct text text, unsigned flags,
                         struct arena *arena, uint32_t most, int32_t **tokens, uint32_t *count)
{
    struct error err;
    const struct tokenizer *tokenizer = call->model->tokenizer;
    uint32_t bound = tokenizer_bound(tokenizer, text.bytes);
    bound = bound < most ? bound : most;
    *tokens = arena_alloc(arena, (size_t)bound * sizeof **tokens);
    struct encode_args encode = encode_of(call, text, arena);
    encode.flags = flags;
    return *tokens ? tokenizer_encode(tokenizer, &encode, *tokens, bound, count, &err)
                   : STATUS_NO_SPACE;
}

// Truncates the text's tokens at the right end, or at the left end if in->last is set, and keeps
// the special tokens around them. tokens: [count], with special tokens. Returns the new count.
static uint32_t text_cut(struct inputs *in, struct text text, int32_t *tokens, uint32_t count,
                         struct arena *arena)
{
    struct encode_args args = encode_of(in->call, text, arena);
    args.flags |= in->special ? ENCODE_SPECIAL : ENCODE_PLAIN;
    struct text_parts parts = text_parts_of(in->call->model->tokenizer, &args, tokens, count);
    uint32_t added = count - parts.own, most = in->token_max;
    if (added >= most)
        parts = (struct text_parts){0, count};
    uint32_t after = count - parts.before - parts.own;
    uint32_t gone = count - most, left = in->last > 0 ? parts.before : most - after;
    memmove(tokens + left, tokens + left + gone, (most - left) * sizeof *tokens);
    return most;
}

// Returns the text with the prompt before it. at is NULL if the arena is full.
static struct text text_with_prompt(const struct inputs *in, struct text text, struct arena *arena)
{
    size_t bytes = in->prompt.bytes;
    if (bytes == 0)
        return text;
    char *joined = arena_alloc(arena, bytes + text.bytes);
    if (joined) {
        memcpy(joined, in->prompt.at, bytes);
        memcpy(joined + bytes, text.at, text.bytes);
    }
    return text_span(joined, bytes + text.bytes);
}

static void prompt_count(struct inputs *in, struct arena *arena)
{
    struct error err;
    struct encode_args args = encode_of(in->call, in->prompt, arena);
    args.flags |= in->special ? ENCODE_SPECIAL : ENCODE_PLAIN;
    if (sentence_prompt_tokens(&in->prompt_tokens, in->call->model->tokenizer, &args, &err) !=
        STATUS_OK)
        fields_fail(&in->call->fields, HTTP_TOO_LARGE, "prompt", "is too large");
}

// Adds the tokens for a text between `text` and in->suffix.
static void infill_add(struct inputs *in, const char *path, struct text text, struct arena *arena)
{
    const struct body_call *call = in->call;
    uint32_t window = call->model->facts->max_model_len, prefix_count = 0, count = 0;
    unsigned flags = input_flags(call->model->special_in_text, in->special);
    int32_t *prefix, *suffix = NULL;
    arena_reset(arena);
    enum status status = input_encode(call, text, flags, arena, window, &prefix, &prefix_count);
    if (status == STATUS_OK)
        status = input_encode(call, in->suffix, flags & ~(unsigned)ENCODE_SPECIAL, arena, window,
                              &suffix, &count);
    if (encoding_stopped(status, suffix ? count : prefix_count, window)) {
        length_fail(in, path, window, true);
        return;
    }
    int32_t *all = arena_alloc(arena, (prefix_count + count + INFILL_MARKS_MAX) * sizeof *all);
    if (status != STATUS_OK || !all) {
        fields_fail(&in->call->fields, HTTP_TOO_LARGE, path, "is too large");
        return;
    }
    struct encode_args args = encode_of(call, text, arena);
    args.flags = flags;
    struct text_parts parts = {prefix_count, 0};
    if (text.bytes > 0)
        parts = text_parts_of(call->model->tokenizer, &args, prefix, prefix_count);
    struct infill_text both = {prefix, suffix, parts.before, parts.own, count};
    tokens_add(in, path, all, infill_join(in->infill, &both, all));
}

static void text_add(struct inputs *in, const char *path, struct text text, struct arena *arena)
{
    struct fields *f = &in->call->fields;
    uint32_t count = 0;
    if (in->infill) {
        infill_add(in, path, text, arena);
        return;
    }
    if (text.bytes == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, path, "must not be an empty string");
        return;
    }
    arena_reset(arena);
    text = text_with_prompt(in, text, arena);
    if (!text.at) {
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
        return;
    }
    int32_t *tokens;
    unsigned flags = input_flags(in->call->model->special_in_text, in->special);
    uint32_t window = in->call->model->facts->max_model_len;
    bool cut = in->truncate || in->last > 0; // then all of it is encoded
    uint32_t most = cut ? UINT32_MAX : window;
    enum status status = input_encode(in->call, text, flags, arena, most, &tokens, &count);
    if (encoding_stopped(status, count, most)) {
        length_fail(in, path, count, true);
        return;
    }
    if (status != STATUS_OK) {
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
        return;
    }
    if (in->truncate && count > in->token_max)
        count = text_cut(in, text, tokens, count, arena);
    if (count > 0 && count <= in->prompt_tokens) {
        fields_fail(f, HTTP_INVALID_VALUE, path,
                    "must have tokens besides the prompt: %u in total, %u of them the prompt's",
                    count, in->prompt_tokens);
        return;
    }
    tokens_add(in, path, tokens, count);
}

uint32_t input_vocab(const struct served_model *model)
{
    return model->facts->vocab ? model->facts->vocab : tokenizer_vocab(model->tokenizer);
}

// Adds an array of token ids without changing them.
static void ids_add(struct inputs *in, const char *path, const json_t *ids, struct arena *arena)
{
    struct fields *f = &in->call->fields;
    uint32_t vocab = input_vocab(in->call->model);
    if (in->infill) {
        fields_fail(f, HTTP_INVALID_VALUE, "suffix", "must be absent if '%s' has token ids", path);
        return;
    }
    size_t n = json_array_size(ids);
    arena_reset(arena);
    int32_t *tokens = arena_alloc(arena, (n + 1) * sizeof *tokens);
    if (!tokens) {
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
        return;
    }
    const struct id_hints hints = {
        .other = "; strings and ids cannot be mixed",
        .beyond =
            "; ids belong to this model's tokenizer: if they are from another one, send texts"};
    if (fields_token_ids(f, ids, path, vocab, hints, tokens))
        tokens_add(in, path, tokens, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n);
}

static void inputs_add(struct inputs *in, const json_t *input, struct arena *arena)
{
    struct fields *f = &in->call->fields;
    bool strings = json_is_string(json_array_get(input, 0));
    size_t i;
    json_t *value;
    json_array_foreach(input, i, value)
    {
        const char *path = fields_path(f, "%s[%zu]", in->field, i);
        if (f->failed)
            return;
        if (strings && json_is_string(value)) {
            text_add(in, path, json_text(value), arena);
        } else if (!strings && json_is_array(value)) {
            ids_add(in, path, value, arena);
        } else {
            fields_fail(f, HTTP_INVALID_TYPE, path, "must be %s like the inputs before it",
                        strings ? "a string" : "an array of token ids");
        }
    }
}

static bool form_is_right(struct inputs *in, const json_t *input)
{
    struct fields *f = &in->call->fields;
    const json_t *first = json_array_get(input, 0);
    size_t n = json_array_size(input);
    if (!json_is_string(input) && !json_is_array(input)) {
        fields_fail(f, HTTP_INVALID_TYPE, in->field,
                    "must be a string, an array of strings or arrays of token ids");
    } else if (json_is_array(input) && n == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, in->field, "must not be empty");
    } else if (n > 0 && !json_is_string(first) && !json_is_array(first) && !json_is_number(first)) {
        fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "%s[0]", in->field),
                    "must be a string, a token id or an array of token ids");
    } else if (n > in->count_max && !json_is_number(first)) {
        fields_fail(f, HTTP_INVALID_VALUE, in->field, "must hold at most %u inputs, got %zu",
                    in->count_max, n);
    }
    return !f->failed;
}

// Reads the value of the field and tokenizes its inputs. single: true if it is one input, false if
// it is a list of inputs.
static void input_value_read(struct inputs *in, const json_t *input, bool single,
                             struct arena *arena)
{
    struct fields *f = &in->call->fields;
    if (!token_list_begin(&in->list, exchange_scratch(in->call->exchange),
                          single ? 1 : (uint32_t)json_array_size(input)))
        fields_fail(f, HTTP_TOO_LARGE, in->field, "is too large");
    else if (in->prompt_counts && in->prompt.bytes > 0)
        prompt_count(in, arena);
    if (f->failed)
        return;
    if (json_is_string(input))
        text_add(in, in->field, json_text(input), arena);
    else if (single)
        ids_add(in, in->field, input, arena);
    else
        inputs_add(in, input, arena);
}

void inputs_read(struct inputs *in)
{
    struct fields *f = &in->call->fields;
    const json_t *input = in->json = fields_get_required(f, in->field);
    if (f->failed || !form_is_right(in, input))
        return;
    bool single = json_is_string(input) || json_is_number(json_array_get(input, 0));
    struct arena *arena = arena_create(0, scratch_bytes_max(in->call->info->body.bytes));
    input_value_read(in, input, single, arena);
    arena_destroy(arena);
}
