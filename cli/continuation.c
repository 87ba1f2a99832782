// SPDX-License-Identifier: Apache-2.0
// Prompts and answers of a session; see continuation.h. Runs on the main thread.
#include "cli/continuation.h"

#include "base/clock.h"
#include "base/number.h"
#include "runtime/text/dialect/reply.h"
#include "runtime/text/prompt.h"

#include <time.h>

void message_add(json_t *messages, const char *role, struct text content)
{
    json_array_append_new(messages, json_pack("{s:s,s:s%}", "role", role, "content", content.at,
                                              content.bytes)); // content may contain a NUL
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

// The state while an answer is generated.
struct answer_reader {
    const struct continue_args *args;
    struct continuation *out;
    const struct tokenizer *tokenizer;
    struct detok detok;
    struct reply *reply; // parser of the answer; NULL: everything is text
    char *piece;         // [piece_max]
    uint32_t piece_max;
};

static enum status text_add(struct answer_reader *r, bool reasoning, struct text text,
                            struct error *err)
{
    const struct continue_args *args = r->args;
    if (!reasoning)
        json_put_raw(&r->out->text, text);
    return args->show && text.bytes > 0 ? args->show(args->context, reasoning, text, err)
                                        : STATUS_OK;
}

static enum status events_add(struct answer_reader *r, const struct reply_event *events,
                              uint32_t count, struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        if (events[i].kind == REPLY_TEXT || events[i].kind == REPLY_REASONING)
            status = text_add(r, events[i].kind == REPLY_REASONING, events[i].text, err);
    return status;
}

// Adds bytes from the detokenizer. The last `special` of them are the text of a special token.
static enum status piece_add(struct answer_reader *r, uint32_t bytes, uint32_t special,
                             struct error *err)
{
    uint32_t count;
    if (!r->reply)
        return text_add(r, false, text_span(r->piece, bytes), err);
    const struct reply_event *events =
        reply_feed(r->reply, text_span(r->piece, bytes - special), false, &count);
    enum status status = events_add(r, events, count, err);
    if (status != STATUS_OK)
        return status;
    events = reply_feed(r->reply, text_span(r->piece + bytes - special, special), true, &count);
    return events_add(r, events, count, err);
}

static enum status token_add(struct answer_reader *r, int32_t token, struct error *err)
{
    struct continuation *out = r->out;
    if (out->token_count == 0)
        out->first_ns = clock_ns();
    out->tokens = heap_grow(out->tokens, (out->token_count + 1) * sizeof *out->tokens);
    out->tokens[out->token_count++] = token;
    uint32_t bytes = detok_push(&r->detok, token, r->piece, r->piece_max), special = 0;
    if (r->reply && tokenizer_is_special(r->tokenizer, token))
        special = smaller(bytes, (uint32_t)tokenizer_token_bytes(r->tokenizer, token).bytes);
    return piece_add(r, bytes, special, err);
}

static enum status text_end(struct answer_reader *r, struct error *err)
{
    uint32_t bytes = detok_finish(&r->detok, r->piece, r->piece_max), count;
    enum status status = piece_add(r, bytes, 0, err);
    if (status != STATUS_OK || !r->reply)
        return status;
    const struct reply_event *events = reply_finish(r->reply, &count);
    return events_add(r, events, count, err);
}

// Reads the events of the answer until its end.
static enum status events_handle(struct session *session, struct request *request,
                                 struct answer_reader *r, struct token_event *event,
                                 struct error *err)
{
    bool stopped = false, came = false;
    while (!came || !(event->flags & EVENT_LAST)) {
        enum status status = session_poll(session, request, event, &came, err);
        if (status == STATUS_OK && came && (event->flags & EVENT_TOKEN) && !stopped)
            status = token_add(r, event->token, err);
        if (status != STATUS_OK)
            return status;
        r->out->finish = came && event->finish != FINISH_NONE ? event->finish : r->out->finish;
        if (!stopped && r->args->stop && r->args->stop(r->args->context)) {
            stopped = true;
            port_cancel(session->port, request);
        }
    }
    return text_end(r, err);
}

// Frees the request. If the model is still generating, because the answer could not be shown,
// cancels it first. last: the last event that was read.
static void request_end(struct session *session, struct request *request, struct token_event *last)
{
    struct error err; // ignored: the answer is not needed any more
    bool came = (last->flags & EVENT_LAST) != 0;
    if (!came)
        port_cancel(session->port, request);
    while (!came || !(last->flags & EVENT_LAST))
        if (session_poll(session, request, last, &came, &err) != STATUS_OK)
            break; // FINISH_ERROR: its only choice has ended
    port_free(session->port, request);
}

// Creates the parser that separates reasoning from text. *out is NULL if the answer is all text.
static enum status reply_make(const struct session *session, const struct continue_args *args,
                              struct reply **out, struct error *err)
{
    const struct dialect *dialect = &session->model->dialect;
    struct reply_args reply = {.dialect = dialect,
                               .reasoning = dialect_reasoning_syntax(dialect).open != NULL};
    struct decode_args prompt = {
        .tokens = args->submit->tokens, .count = args->submit->token_count, .arena = args->arena};
    *out = NULL;
    if (!args->separate_reasoning || (!reply.reasoning && !dialect_marks_text(dialect)))
        return STATUS_OK;
    enum status status =
        dialect_start_find(dialect, session->model->tokenizer, &prompt, &reply.start, err);
    if (status == STATUS_OK)
        *out = reply_create(&reply);
    return status;
}

enum status prompt_continue(struct session *session, const struct continue_args *args,
                            struct continuation *out, struct error *err)
{
    struct answer_reader r = {.args = args,
                              .out = out,
                              .tokenizer = session->model->tokenizer,
                              .piece_max = detok_bound(session->model->tokenizer)};
    struct request *request;
    enum status status = reply_make(session, args, &r.reply, err);
    if (status == STATUS_OK)
        status = session_submit(session, args->submit, &request, err);
    if (status == STATUS_OK) {
        struct token_event event = {0};
        r.piece = arena_alloc(args->arena, r.piece_max);
        // the parser needs special tokens, as markers often are
        detok_init(&r.detok, r.tokenizer, !r.reply);
        detok_continue(&r.detok);
        status = events_handle(session, request, &r, &event, err);
        request_end(session, request, &event);
    }
    reply_destroy(r.reply);
    return status;
}

void continuation_end(struct continuation *made)
{
    heap_free(made->tokens);
    json_buffer_free(&made->text);
}
