// SPDX-License-Identifier: Apache-2.0
// weft generate: continues one prompt. Main thread.
#include "cli/continuation.h"
#include "base/random.h"

#include <string.h>

struct generate_settings {
    const char *prompt;
    const char *system;
    uint32_t max_tokens;
    double temperature, top_p;
    uint32_t top_k;
    int64_t seed;
    bool raw, json;
};

#define AT(field) offsetof(struct generate_settings, field)
static const struct option_row rows[] = {
    OPTION_ROW("prompt", OPTION_TEXT, AT(prompt), "required", "text of the prompt"),
    OPTION_ROW("system", OPTION_TEXT, AT(system), "none", "system message"),
    GENERATION_ROWS(struct generate_settings, "1", "1"),
    OPTION_ROW("raw", OPTION_FLAG, AT(raw), "off",
               "continue the text of the prompt itself, without the chat template"),
    OPTION_ROW("json", OPTION_FLAG, AT(json), "off", "print one JSON object instead of the text"),
};

static enum status encode_raw(const struct session *session, const char *prompt,
                              struct submit_args *submit, struct error *err)
{
    struct arena *arena = session->loaded.arena;
    const struct tokenizer *tokenizer = session->model->tokenizer;
    struct encode_args encode = {
        .text = text_of(prompt), .flags = ENCODE_ADDED_TOKENS | ENCODE_SPECIAL, .arena = arena};
    uint32_t bound = tokenizer_bound(tokenizer, strlen(prompt));
    int32_t *tokens = arena_alloc(arena, bound * sizeof *tokens);
    submit->tokens = tokens;
    return tokenizer_encode(tokenizer, &encode, tokens, bound, &submit->token_count, err);
}

static enum status encode_chat(const struct session *session, const struct generate_settings *s,
                               struct submit_args *submit, struct error *err)
{
    json_t *messages = json_array();
    if (s->system)
        message_add(messages, "system", text_of(s->system));
    message_add(messages, "user", text_of(s->prompt));
    enum status status = conversation_encode(session, messages, session->loaded.arena, submit, err);
    json_decref(messages);
    return status;
}

static enum status piece_print(void *context, bool reasoning, struct text piece, struct error *err)
{
    (void)context, (void)reasoning;
    output_text(stdout, piece);
    return output_flush(err);
}

static void ids_put(struct json_buffer *b, const int32_t *ids, uint32_t count)
{
    json_put_literal(b, "[");
    for (uint32_t i = 0; i < count; i++)
        json_put_format(b, "%s%d", i > 0 ? "," : "", ids[i]);
    json_put_literal(b, "]");
}

static const char *finish_reason(enum finish finish)
{
    static const char *const reasons[FINISH_COUNT] = {[FINISH_NONE] = "none",
#define REASON(name, counted) [FINISH_##name] = #counted,
                                                      FINISH_LIST(REASON)
#undef REASON
    };
    return reasons[finish];
}

static void json_print(const struct submit_args *submit, const struct continuation *made)
{
    struct json_buffer b = {0};
    json_put_literal(&b, "{\"prompt_token_ids\":");
    ids_put(&b, submit->tokens, submit->token_count);
    json_put_literal(&b, ",\"token_ids\":");
    ids_put(&b, made->tokens, made->token_count);
    json_put_member(&b, ",\"text\":", text_span(made->text.at, made->text.bytes));
    json_put_format(&b, ",\"finish_reason\":\"%s\"}\n", finish_reason(made->finish));
    fwrite(b.at, 1, b.bytes, stdout);
    json_buffer_free(&b);
}

static enum status generate_answer(struct session *session, void *settings, struct error *err)
{
    const struct generate_settings *s = settings;
    uint64_t seed = s->seed == -1 ? random_seed() : (uint64_t)s->seed;
    struct submit_args submit = {.kind = REQUEST_GENERATE,
                                 .sequence_count = 1,
                                 .choice_count = 1,
                                 .sampling = {.seed = seed,
                                              .temperature = (float)s->temperature,
                                              .top_p = (float)s->top_p,
                                              .top_k = s->top_k,
                                              .repetition = 1}};
    enum status status = s->raw ? encode_raw(session, s->prompt, &submit, err)
                                : encode_chat(session, s, &submit, err);
    if (status != STATUS_OK)
        return status;
    status = prompt_bounds(session, &submit, s->max_tokens, err);
    if (status != STATUS_OK)
        return status;
    uint32_t start[2] = {0, submit.token_count};
    submit.sequence_start = start;
    struct continuation made = {0};
    struct continue_args args = {
        .submit = &submit, .show = s->json ? NULL : piece_print, .arena = session->loaded.arena};
    status = prompt_continue(session, &args, &made, err);
    if (status == STATUS_OK && s->json)
        json_print(&submit, &made);
    else if (status == STATUS_OK)
        putchar('\n');
    continuation_end(&made);
    return status;
}

static enum status texts_check(const void *settings, struct error *err)
{
    const struct generate_settings *s = settings;
    if (s->raw && s->system)
        return error_set(err, STATUS_INVALID,
                         "--system has no effect with --raw, which has no messages");
    enum status status = text_check("--prompt", text_of(s->prompt), err);
    if (status == STATUS_OK && s->system)
        status = text_check("--system", text_of(s->system), err);
    return status;
}

int command_generate(const struct command *self, int argc, char **argv)
{
    struct generate_settings s = {.temperature = 1, .top_p = 1, .seed = -1};
    struct session_command command = {.self = self,
                                      .argc = argc,
                                      .argv = argv,
                                      .own = {rows, sizeof rows / sizeof *rows},
                                      .own_title = "Generation:",
                                      .settings = &s,
                                      .required = &s.prompt,
                                      .required_name = "prompt",
                                      .kind = MODEL_GENERATOR,
                                      .settings_check = texts_check,
                                      .body = generate_answer};
    return session_command_run(&command);
}
