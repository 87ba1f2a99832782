// Renders a conversation and encodes its segments; see prompt.h.
#include "runtime/text/prompt.h"

const char *const prompt_trusted[SPECIAL_COUNT] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
const uint32_t prompt_trusted_count = SPECIAL_COUNT;

void prompt_special_variables(json_t *variables, const struct tokenizer *tokenizer)
{
    for (int i = 0; i < SPECIAL_COUNT; i++) {
        struct text token = tokenizer_special_text(tokenizer, (enum special_token)i);
        const char *name = tokenizer_special_name((enum special_token)i);
        if (token.at && !json_object_get(variables, name))
            json_object_set_new(variables, name, json_stringn(token.at, token.bytes));
    }
}

// Overwrites the trusted variables with the tokenizer's values. Values from a request
// (chat_template_kwargs) must not remain, because they would become special tokens.
static void trusted_variables(json_t *variables, const struct tokenizer *tokenizer)
{
    for (int i = 0; i < SPECIAL_COUNT; i++)
        json_object_del(variables, prompt_trusted[i]);
    prompt_special_variables(variables, tokenizer);
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
    trusted_variables(args->variables, args->tokenizer);
    struct chat_input in = {.variables = args->variables,
                            .trusted = prompt_trusted,
                            .trusted_count = prompt_trusted_count,
                            .now = args->now,
                            .slice = args->slice};
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
