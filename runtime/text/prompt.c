// SPDX-License-Identifier: Apache-2.0
// Renders a conversation and encodes its segments; see prompt.h.
#include "runtime/text/prompt.h"

const char *const *prompt_trusted(const struct tokenizer *tokenizer, struct arena *arena,
                                  uint32_t *count)
{
    uint32_t own = 0;
    struct text text;
    while (tokenizer && tokenizer_own_special(tokenizer, own, &text))
        own++;
    const char **names = arena_alloc(arena, (SPECIAL_COUNT + own) * sizeof *names);
    *count = names ? SPECIAL_COUNT + own : 0;
    for (uint32_t i = 0; i < *count; i++)
        names[i] = i < SPECIAL_COUNT ? tokenizer_special_name((enum special_token)i)
                                     : tokenizer_own_special(tokenizer, i - SPECIAL_COUNT, &text);
    return names;
}

static void variable_add(json_t *variables, const char *name, struct text token)
{
    if (token.at && !json_object_get(variables, name))
        json_object_set_new(variables, name, json_stringn(token.at, token.bytes));
}

void prompt_special_variables(json_t *variables, const struct tokenizer *tokenizer)
{
    for (int i = 0; i < SPECIAL_COUNT; i++)
        variable_add(variables, tokenizer_special_name((enum special_token)i),
                     tokenizer_special_text(tokenizer, (enum special_token)i));
    struct text token;
    const char *name;
    for (uint32_t i = 0; (name = tokenizer_own_special(tokenizer, i, &token)) != NULL; i++)
        variable_add(variables, name, token);
}

// Truncates text and segments before the last occurrence of `until`. Returns false if there is
// none.
static bool prompt_truncate_before(struct chat_output *rendered, struct text until)
{
    const char *found = NULL;
    for (size_t end = rendered->text.bytes; end >= until.bytes && !found; end--) {
        const char *at = rendered->text.at + end - until.bytes;
        if (memcmp(at, until.at, until.bytes) == 0)
            found = at;
    }
    if (!found)
        return false;
    size_t left = (size_t)(found - rendered->text.at);
    rendered->text.bytes = left;
    for (uint32_t i = 0; i < rendered->segment_count; i++) {
        struct text *t = &rendered->segments[i].text;
        t->bytes = t->bytes < left ? t->bytes : left;
        left -= t->bytes;
    }
    return true;
}

enum status prompt_tokens(const struct prompt_args *args, int32_t **tokens, uint32_t *count,
                          struct error *err)
{
    *count = 0;
    struct chat_input in = {.variables = args->variables, .now = args->now, .slice = args->slice};
    in.trusted = prompt_trusted(args->tokenizer, args->arena, &in.trusted_count);
    // Values from a request (chat_template_kwargs) must not remain, because they would become
    // special tokens.
    for (uint32_t i = 0; i < in.trusted_count; i++)
        json_object_del(args->variables, in.trusted[i]);
    prompt_special_variables(args->variables, args->tokenizer);
    struct chat_output rendered;
    enum status status = chat_render(args->chat, &in, args->arena, &rendered, err);
    if (status != STATUS_OK)
        return status;
    if (args->until.bytes > 0 && !prompt_truncate_before(&rendered, args->until))
        return error_set(err, STATUS_UNSUPPORTED,
                         "the chat template does not output the message to continue; send it as a "
                         "complete message");
    uint32_t bound = tokenizer_bound(args->tokenizer, rendered.text.bytes);
    bound = args->tokens_max > 0 && args->tokens_max < bound ? args->tokens_max : bound;
    *tokens = arena_alloc(args->arena, (size_t)bound * sizeof **tokens);
    if (!*tokens)
        return error_set(err, STATUS_NO_SPACE, "the prompt is too long to be encoded");
    struct encode_args encode = {.flags = args->plain ? ENCODE_SPECIAL : 0,
                                 .arena = args->arena,
                                 .slice = args->slice,
                                 .segments = rendered.segments,
                                 .segment_count = rendered.segment_count};
    return tokenizer_encode_segments(args->tokenizer, &encode, *tokens, bound, count, err);
}
