// SPDX-License-Identifier: Apache-2.0
// weft tokenize and weft detokenize: text to token ids and back. Main thread.
#include "cli/command.h"
#include "cli/hub/hub.h"
#include "cli/settings.h"

#include <string.h>

struct tokenize_settings {
    bool plain;
    bool special;
};

#define AT(field) offsetof(struct tokenize_settings, field)
static const struct option_row rows[] = {
    OPTION_ROW("plain", OPTION_FLAG, AT(plain), "off",
               "treat special tokens in the text as text, as the server does with text of users"),
    OPTION_ROW("special", OPTION_FLAG, AT(special), "on",
               "add the tokens of the post-processor (BOS, CLS, ...)"),
};
static const struct option_table table = {rows, sizeof rows / sizeof *rows};

static const struct option_row detokenize_rows[] = {
    OPTION_ROW("special", OPTION_FLAG, AT(special), "on",
               "print special tokens as part of the text"),
};
static const struct option_table detokenize_table = {detokenize_rows, 1};

static enum status text_tokenize(const char *folder, const struct tokenize_settings *s,
                                 struct arena *arena, struct error *err)
{
    struct tokenizer *tokenizer;
    enum status status = tokenizer_open(&tokenizer, folder, err);
    if (status != STATUS_OK)
        return status;
    struct encode_args encode = {.flags = (s->plain ? 0u : ENCODE_ADDED_TOKENS) |
                                          (s->special ? ENCODE_SPECIAL : 0u),
                                 .arena = arena};
    status = stdin_read(&encode.text, arena, err);
    if (status == STATUS_OK)
        status = text_check("the text", encode.text, err);
    uint32_t count = 0;
    uint32_t bound = tokenizer_bound(tokenizer, encode.text.bytes);
    int32_t *tokens = arena_alloc(arena, bound * sizeof *tokens);
    if (status == STATUS_OK)
        status = tokenizer_encode(tokenizer, &encode, tokens, bound, &count, err);
    if (status == STATUS_OK) {
        putchar('[');
        for (uint32_t i = 0; i < count; i++)
            printf("%s%d", i > 0 ? ", " : "", tokens[i]);
        puts("]");
    }
    tokenizer_close(tokenizer);
    return status;
}

static enum status ids_read(struct decode_args *decode, struct error *err)
{
    struct text in;
    enum status status = stdin_read(&in, decode->arena, err);
    json_t *ids = NULL;
    if (status == STATUS_OK)
        status = json_parse(&ids, in, err);
    if (status != STATUS_OK)
        return status;
    size_t count = json_array_size(ids);
    int32_t *tokens = arena_alloc(decode->arena, count * sizeof *tokens);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        int64_t id;
        if (json_integer_exact(json_array_get(ids, i), &id) && id >= 0 && id <= INT32_MAX)
            tokens[i] = (int32_t)id;
        else
            status = error_set(err, STATUS_INVALID, "element %zu is not a token id", i);
    }
    if (!json_is_array(ids))
        status = error_set(err, STATUS_INVALID, "stdin must hold a JSON array of token ids");
    decode->tokens = tokens;
    decode->count = (uint32_t)count;
    json_decref(ids);
    return status;
}

// Returns an error for an unknown id: the user typed the ids, whereas a model produces only known
// ones.
static enum status ids_check(const struct tokenizer *tokenizer, const struct decode_args *decode,
                             struct error *err)
{
    for (uint32_t i = 0; i < decode->count; i++)
        if (!tokenizer_token_text(tokenizer, decode->tokens[i]).at)
            return error_set(err, STATUS_INVALID,
                             "element %u: there is no such token as %d: the ids of this tokenizer "
                             "end at %u",
                             i, decode->tokens[i], tokenizer_vocab(tokenizer) - 1);
    return STATUS_OK;
}

static enum status ids_detokenize(const char *folder, const struct tokenize_settings *s,
                                  struct arena *arena, struct error *err)
{
    struct tokenizer *tokenizer;
    enum status status = tokenizer_open(&tokenizer, folder, err);
    if (status != STATUS_OK)
        return status;
    struct decode_args decode = {.skip_special = !s->special, .arena = arena};
    struct text out;
    status = ids_read(&decode, err);
    if (status == STATUS_OK)
        status = ids_check(tokenizer, &decode, err);
    if (status == STATUS_OK)
        status = tokenizer_decode(tokenizer, &decode, &out, err);
    if (status == STATUS_OK)
        output_text(stdout, out);
    tokenizer_close(tokenizer);
    return status;
}

static int tokenizer_command_run(const struct command *self, int argc, char **argv,
                                 const struct option_table *own,
                                 enum status (*body)(const char *, const struct tokenize_settings *,
                                                     struct arena *, struct error *))
{
    struct tokenize_settings s = {.special = true};
    void *const fields[] = {&s};
    static const char *const titles[] = {"Options:"};
    struct arena *arena = arena_create(1 << 20, 0);
    struct texts positional;
    struct command_parse parse = {self, argc, argv, own, fields, titles, 1, 1, 1, NULL};
    int code = command_parse(&parse, arena, &positional);
    if (code < 0) {
        struct error err;
        const char *folder = model_folder_find(positional.at[0], arena);
        enum status status = hub_model_find(&folder, folder, arena, &err);
        if (status == STATUS_OK)
            status = body(folder, &s, arena, &err);
        code = status == STATUS_OK ? EXIT_CODE_OK : command_failed(&err);
    }
    arena_destroy(arena);
    return code;
}

int command_tokenize(const struct command *self, int argc, char **argv)
{
    return tokenizer_command_run(self, argc, argv, &table, text_tokenize);
}

int command_detokenize(const struct command *self, int argc, char **argv)
{
    return tokenizer_command_run(self, argc, argv, &detokenize_table, ids_detokenize);
}
