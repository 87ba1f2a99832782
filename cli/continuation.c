// Prompts and answers of a session; see continuation.h. Runs on the main thread.
#include "cli/continuation.h"

#include "base/clock.h"
#include "runtime/text/prompt.h"

#include <time.h>

void message_add(json_t *messages, const char *role, struct text content)
{
    json_array_append_new(messages, json_pack("{s:s,s:s%}", "role", role, "content", content.at,
                                              content.bytes)); // it may hold a NUL
}

enum status conversation_encode(const struct session *session, json_t *messages,
                                struct arena *arena, struct submit_args *submit, struct error *err)
{
    json_t *variables = json_pack("{s:O,s:b}", "messages", messages, "add_generation_prompt", 1);
    struct prompt_args args = {.tokenizer = session->model->tokenizer,
                               .chat = session->model->chat,
                               .plain = session->model->chat_is_plain,
                               .variables = variables,
                               .now = (int64_t)time(NULL),
                               .arena = arena};
    int32_t *tokens;
    enum status status = prompt_tokens(&args, &tokens, &submit->token_count, err);
    submit->tokens = tokens;
    json_decref(variables);
    return status;
}

enum status prompt_bounds(const struct session *session, struct submit_args *submit,
                          uint32_t max_tokens, struct error *err)
{
    uint32_t context = engine_facts(session->model->engine)->max_model_len;
    if (submit->token_count == 0)
        return error_set(err, STATUS_INVALID,
                         "the prompt has no tokens and the model no begin-of-sequence token");
    if (submit->token_count >= context)
        return error_set(err, STATUS_TOO_LARGE,
                         "prompt is too long: %u tokens > %u maximum (one is left to generate)",
                         submit->token_count, context - 1);
    submit->max_tokens = max_tokens > 0 ? max_tokens : context - submit->token_count;
    return STATUS_OK;
}

static enum status text_add(struct continuation *out, const struct continue_args *args,
                            struct text text, struct error *err)
{
    json_put_raw(&out->text, text);
    return args->show && text.bytes > 0 ? args->show(args->context, text, err) : STATUS_OK;
}

static void token_add(struct continuation *out, int32_t token)
{
    if (out->token_count == 0)
        out->first_ns = clock_ns();
    out->tokens = heap_grow(out->tokens, (out->token_count + 1) * sizeof *out->tokens);
    out->tokens[out->token_count++] = token;
}

// The request was submitted; detok continues its prompt.
static enum status events_take(struct session *session, const struct continue_args *args,
                               struct request *request, struct detok *detok,
                               struct continuation *out, struct error *err)
{
    uint32_t room = detok_bound(session->model->tokenizer);
    char *piece = arena_take(args->arena, room + 16);
    struct token_event event = {0};
    bool stopped = false, came = false;
    while (!came || !(event.flags & EVENT_LAST)) {
        enum status status = session_poll(session, request, &event, &came, err);
        if (status == STATUS_OK && came && (event.flags & EVENT_TOKEN) && !stopped) {
            token_add(out, event.token);
            uint32_t bytes = detok_push(detok, event.token, piece, room);
            status = text_add(out, args, text_span(piece, bytes), err);
        }
        if (status != STATUS_OK)
            return status;
        out->finish = came && event.finish != FINISH_NONE ? event.finish : out->finish;
        if (!stopped && args->stop && args->stop(args->context)) {
            stopped = true;
            port_cancel(session->port, request);
        }
    }
    return text_add(out, args, text_span(piece, detok_finish(detok, piece, room + 16)), err);
}

enum status prompt_continue(struct session *session, const struct continue_args *args,
                            struct continuation *out, struct error *err)
{
    struct request *request;
    enum status status = session_submit(session, args->submit, &request, err);
    if (status != STATUS_OK)
        return status;
    struct detok detok;
    detok_init(&detok, session->model->tokenizer, true);
    detok_continue(&detok);
    status = events_take(session, args, request, &detok, out, err);
    if (status == STATUS_OK)
        port_free(session->port, request);
    return status;
}

void continuation_end(struct continuation *made)
{
    heap_give(made->tokens);
    json_buffer_free(&made->text);
}
