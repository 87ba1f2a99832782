// SPDX-License-Identifier: Apache-2.0
// weft embed: reads one text per line and writes its vector as one JSON array per line. The vector
// is that of the server: with the model's prompt before the text, normalised.
#include "cli/command.h"

#include <string.h>

struct embed_settings {
    const char *prompt_name, *prompt;
    bool raw;
};

#define AT(field) offsetof(struct embed_settings, field)
static const struct option_row rows[] = {
    OPTION_ROW("prompt-name", OPTION_TEXT, AT(prompt_name), "default-prompt-name",
               "name of the prompt in config_sentence_transformers.json to put before each text"),
    OPTION_ROW("prompt", OPTION_TEXT, AT(prompt), "the one of --prompt-name",
               "text to put before each text; '': none"),
    OPTION_ROW("raw", OPTION_FLAG, AT(raw), "off",
               "print the pooled vectors without normalizing them"),
};

struct embedding {
    const struct embed_settings *settings;
    struct text prompt;
    uint32_t prompt_tokens; // number of leading tokens that a mean leaves out
};

static struct encode_args encode_of(const struct session *session, struct text text,
                                    struct arena *arena)
{
    unsigned in_text = session->model->spec.settings.special_tokens_in_text == 1
                           ? ENCODE_ADDED_TOKENS
                           : ENCODE_PLAIN;
    return (struct encode_args){.text = text, .flags = ENCODE_SPECIAL | in_text, .arena = arena};
}

static enum status prompt_find(struct embedding *e, const struct session *session,
                               struct arena *arena, struct error *err)
{
    const struct sentence_prompts *prompts = &session->model->prompts;
    const struct sentence_prompt *named = prompts->default_prompt;
    const char *name = e->settings->prompt_name;
    if (name) {
        named = sentence_prompts_find(prompts, text_of(name));
        if (!named)
            return error_set(err, STATUS_INVALID, "the model has no prompt '%.64s'; it has: %s",
                             name, sentence_prompts_names(prompts, arena).at);
    }
    if (named)
        e->prompt = named->text;
    if (e->settings->prompt)
        e->prompt = text_of(e->settings->prompt);
    if (e->prompt.bytes == 0 || !engine_facts(session->model->engine)->prompt_unpooled)
        return STATUS_OK;
    struct encode_args args = encode_of(session, e->prompt, arena);
    return sentence_prompt_tokens(&e->prompt_tokens, session->model->tokenizer, &args, err);
}

static enum status embed_line(struct session *session, const struct embedding *e, struct text line,
                              struct arena *arena, struct json_buffer *out, struct error *err)
{
    const struct tokenizer *tokenizer = session->model->tokenizer;
    const struct model_facts *facts = engine_facts(session->model->engine);
    char *text = arena_alloc(arena, e->prompt.bytes + line.bytes);
    if (e->prompt.bytes > 0)
        memcpy(text, e->prompt.at, e->prompt.bytes);
    memcpy(text + e->prompt.bytes, line.at, line.bytes);
    struct encode_args encode =
        encode_of(session, text_span(text, e->prompt.bytes + line.bytes), arena);
    uint32_t bound = tokenizer_bound(tokenizer, encode.text.bytes);
    int32_t *tokens = arena_alloc(arena, bound * sizeof *tokens);
    uint32_t count;
    enum status status = tokenizer_encode(tokenizer, &encode, tokens, bound, &count, err);
    if (status != STATUS_OK)
        return status;
    if (count <= e->prompt_tokens)
        return error_set(err, STATUS_INVALID, "the text has no tokens");
    if (count > facts->max_model_len)
        return error_set(err, STATUS_TOO_LARGE, "the text is too long: %u tokens > %u maximum",
                         count, facts->max_model_len);
    uint32_t start[2] = {0, count};
    struct submit_args submit = {.kind = REQUEST_EMBED,
                                 .tokens = tokens,
                                 .token_count = count,
                                 .sequence_count = 1,
                                 .sequence_start = start,
                                 .choice_count = 1,
                                 .pool_from = e->prompt_tokens,
                                 .pool_raw = e->settings->raw};
    struct request *request;
    status = session_pool(session, &submit, facts->output_width, &request, err);
    if (status != STATUS_OK)
        return status;
    const float *values = request_values(request, 0);
    out->bytes = 0;
    for (uint32_t i = 0; i < facts->output_width; i++) {
        json_put_literal(out, i == 0 ? "[" : ", ");
        json_put_float(out, values[i]);
    }
    json_put_literal(out, "]\n");
    port_free(session->port, request);
    return STATUS_OK;
}

static enum status embed_lines(struct session *session, void *settings, struct error *err)
{
    struct embedding e = {.settings = settings};
    enum status status = prompt_find(&e, session, session->loaded.arena, err);
    struct line_reader reader = {0};
    struct json_buffer out = {0};
    struct arena *arena = arena_create(0, 0);
    struct text line;
    for (uint64_t number = 1; status == STATUS_OK && line_next(&reader, &line); number++) {
        arena_reset(arena);
        status = text_check("the text", line, err);
        if (status == STATUS_OK)
            status = embed_line(session, &e, line, arena, &out, err);
        if (status != STATUS_OK) {
            error_prefix(err, "line %llu", (unsigned long long)number);
            break;
        }
        fwrite(out.at, 1, out.bytes, stdout);
        status = output_flush(err);
    }
    arena_destroy(arena);
    json_buffer_free(&out);
    return line_reader_end(&reader, status, err);
}

static enum status settings_check(const void *settings, struct error *err)
{
    const struct embed_settings *s = settings;
    if (s->prompt && s->prompt_name)
        return error_set(err, STATUS_INVALID, "--prompt and --prompt-name exclude each other");
    return s->prompt ? text_check("--prompt", text_of(s->prompt), err) : STATUS_OK;
}

int command_embed(const struct command *self, int argc, char **argv)
{
    struct embed_settings s = {0};
    struct session_command command = {.self = self,
                                      .argc = argc,
                                      .argv = argv,
                                      .own = {rows, sizeof rows / sizeof *rows},
                                      .own_title = "Embedding:",
                                      .settings = &s,
                                      .kind = MODEL_EMBEDDER,
                                      .settings_check = settings_check,
                                      .body = embed_lines};
    return session_command_run(&command);
}
