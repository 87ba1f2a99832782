// The writer of Responses: see responses_write.h. A whole answer is put together like a stream
// whose events nobody wants.
#include "http/api/responses_write.h"

#include "base/number.h"
#include "http/api/openai.h"
#include "http/ids.h"

#include <time.h>

// The JSON of the open item

static void part_put(const struct responses *r, bool filled, struct json_buffer *out)
{
    const struct item_writer *w = &r->items;
    bool message = w->open == ITEM_MESSAGE;
    json_put_format(out, "{\"type\":\"%s\",\"text\":", message ? "output_text" : "reasoning_text");
    json_put_string(out, filled ? text_span(w->text.at, w->text.bytes) : text_of(""));
    if (message) {
        json_put_literal(out, ",\"annotations\":[],\"logprobs\":[");
        json_put_raw(out, filled ? text_span(w->logprobs.at, w->logprobs.bytes) : text_of(""));
        json_put_literal(out, "]");
    }
    json_put_literal(out, "}");
}

static void call_put(const struct responses *r, bool filled, struct json_buffer *out)
{
    const struct item_writer *w = &r->items;
    const struct answer_call *call = &r->g.choices->answer.calls[w->call - 1];
    json_put_literal(out, "\"call_id\":");
    json_put_string(out, call->id);
    json_put_literal(out, ",\"name\":");
    json_put_string(out, call->name);
    json_put_literal(out, ",\"arguments\":");
    json_put_string(out, filled ? text_span(w->text.at, w->text.bytes) : text_of(""));
    json_put_literal(out, "}");
}

// filled: with what there is of it.
static void item_put(const struct responses *r, const char *status, bool filled,
                     struct json_buffer *out)
{
    static const char *const types[] = {
        [ITEM_MESSAGE] = "message", [ITEM_REASONING] = "reasoning", [ITEM_CALL] = "function_call"};
    const struct item_writer *w = &r->items;
    json_put_literal(out, "{\"id\":");
    json_put_string(out, w->id);
    json_put_format(out, ",\"type\":\"%s\",\"status\":\"%s\",", types[w->open], status);
    if (w->open == ITEM_CALL) {
        call_put(r, filled, out);
        return;
    }
    json_put_literal(out, w->open == ITEM_MESSAGE ? "\"role\":\"assistant\",\"content\":["
                                                  : "\"summary\":[],\"encrypted_content\":null,"
                                                    "\"content\":[");
    if (filled)
        part_put(r, true, out);
    json_put_literal(out, "]}");
}

// Events

static void event_begin(struct responses *r, const char *name, struct json_buffer *out)
{
    json_put_format(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%llu", name, name,
                    (unsigned long long)r->items.sequence++);
}

static void event_end(struct json_buffer *out)
{
    json_put_literal(out, "}\n\n");
}

// An event about a part of the open item.
static void part_event_begin(struct responses *r, const char *name, struct json_buffer *out)
{
    event_begin(r, name, out);
    json_put_literal(out, ",\"item_id\":");
    json_put_string(out, r->items.id);
    json_put_format(out, ",\"output_index\":%u", r->items.begun - 1);
    if (r->items.open != ITEM_CALL)
        json_put_literal(out, ",\"content_index\":0");
}

static void item_event_put(struct responses *r, const char *name, struct text item,
                           struct json_buffer *out)
{
    event_begin(r, name, out);
    json_put_format(out, ",\"output_index\":%u,\"item\":", r->items.begun - 1);
    json_put_raw(out, item);
    event_end(out);
}

static void begun_tell(struct responses *r, struct json_buffer *out)
{
    struct json_buffer item = {0};
    item_put(r, "in_progress", false, &item);
    item_event_put(r, "response.output_item.added", text_span(item.at, item.bytes), out);
    json_buffer_free(&item);
    if (r->items.open == ITEM_CALL)
        return;
    part_event_begin(r, "response.content_part.added", out);
    json_put_literal(out, ",\"part\":");
    part_put(r, false, out);
    event_end(out);
}

// entries: the JSON of log probabilities.
static void delta_tell(struct responses *r, struct text text, struct text entries,
                       struct json_buffer *out)
{
    static const char *const names[] = {
        [ITEM_MESSAGE] = "response.output_text.delta",
        [ITEM_REASONING] = "response.reasoning_text.delta",
        [ITEM_CALL] = "response.function_call_arguments.delta",
    };
    part_event_begin(r, names[r->items.open], out);
    json_put_literal(out, ",\"delta\":");
    json_put_string(out, text);
    if (r->items.open == ITEM_MESSAGE) {
        json_put_literal(out, ",\"logprobs\":[");
        json_put_raw(out, entries);
        json_put_literal(out, "]");
    }
    event_end(out);
}

static void text_done_tell(struct responses *r, struct json_buffer *out)
{
    static const char *const names[] = {
        [ITEM_MESSAGE] = "response.output_text.done",
        [ITEM_REASONING] = "response.reasoning_text.done",
        [ITEM_CALL] = "response.function_call_arguments.done",
    };
    const struct item_writer *w = &r->items;
    part_event_begin(r, names[w->open], out);
    json_put_literal(out, w->open == ITEM_CALL ? ",\"arguments\":" : ",\"text\":");
    json_put_string(out, text_span(w->text.at, w->text.bytes));
    if (w->open == ITEM_CALL) {
        json_put_literal(out, ",\"name\":");
        json_put_string(out, r->g.choices->answer.calls[w->call - 1].name);
    } else if (w->open == ITEM_MESSAGE) {
        json_put_literal(out, ",\"logprobs\":[");
        json_put_raw(out, text_span(w->logprobs.at, w->logprobs.bytes));
        json_put_literal(out, "]");
    }
    event_end(out);
}

static void done_tell(struct responses *r, struct text item, struct json_buffer *out)
{
    text_done_tell(r, out);
    if (r->items.open != ITEM_CALL) {
        part_event_begin(r, "response.content_part.done", out);
        json_put_literal(out, ",\"part\":");
        part_put(r, true, out);
        event_end(out);
    }
    item_event_put(r, "response.output_item.done", item, out);
}

// Items

static void keep(struct responses *r, struct arena_text *kept, struct text more)
{
    if (!arena_text_add(exchange_arena(r->g.call.exchange), kept, more))
        generation_lost(&r->g);
}

// limited: a limit ended the answer in it.
static void item_close(struct responses *r, bool limited, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    struct json_buffer item = {0};
    bool whole = !limited;
    if (w->open == ITEM_NONE)
        return;
    if (w->open == ITEM_CALL)
        whole = r->g.choices->answer.calls[w->call - 1].complete;
    item_put(r, whole ? "completed" : "incomplete", true, &item);
    if (r->g.stream)
        done_tell(r, text_span(item.at, item.bytes), out);
    if (w->done.bytes > 0)
        keep(r, &w->done, text_of(","));
    keep(r, &w->done, text_span(item.at, item.bytes));
    json_buffer_free(&item);
    w->open = ITEM_NONE;
    w->text.bytes = w->logprobs.bytes = 0;
}

static void item_open(struct responses *r, int kind, struct json_buffer *out)
{
    static const char *const prefixes[] = {
        [ITEM_MESSAGE] = "msg_", [ITEM_REASONING] = "rs_", [ITEM_CALL] = "fc_"};
    struct item_writer *w = &r->items;
    item_close(r, false, out);
    w->open = kind;
    w->begun++;
    w->call += kind == ITEM_CALL;
    w->id = id_make(exchange_arena(r->g.call.exchange), prefixes[kind]);
    if (!w->id.at)
        generation_lost(&r->g);
    if (r->g.stream)
        begun_tell(r, out);
}

static void item_add(struct responses *r, struct text text, struct text entries,
                     struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    if (text.bytes == 0 && entries.bytes == 0)
        return;
    keep(r, &w->text, text);
    if (entries.bytes > 0 && w->logprobs.bytes > 0)
        keep(r, &w->logprobs, text_of(","));
    keep(r, &w->logprobs, entries);
    if (r->g.stream)
        delta_tell(r, text, entries, out);
}

// Log probabilities [from, to) of the visible ones, whose text is in the message.
static void text_add(struct responses *r, struct text text, uint32_t from, uint32_t to,
                     struct json_buffer *out)
{
    struct json_buffer entries = {0};
    logprobs_put_entries(&r->g.choices->logprobs, r->g.options.tokenizer, from, to, &entries);
    item_add(r, text, text_span(entries.at, entries.bytes), out);
    json_buffer_free(&entries);
}

static void text_take(struct responses *r, const struct answer_piece *piece,
                      struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    uint32_t from = smaller(w->early, piece->entries);
    w->early -= from;
    w->told += piece->text.bytes;
    if (piece->text.bytes == 0 && from == piece->entries)
        return;
    if (w->open != ITEM_MESSAGE)
        item_open(r, ITEM_MESSAGE, out);
    text_add(r, piece->text, from, piece->entries, out);
}

// Log probabilities that become visible after their text go with it, before the message ends.
static void message_end(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    const struct logprobs *l = &r->g.choices->logprobs;
    uint32_t from = w->early;
    if (w->open != ITEM_MESSAGE)
        return;
    while (w->early < l->visible && l->entries[w->early].text_end <= w->told)
        w->early++;
    text_add(r, (struct text){0}, from, w->early, out);
}

// The next piece of the answer.
static void piece_take(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    struct answer_piece piece = choice_piece(r->g.choices);
    if (piece.kind == RUN_TEXT) {
        text_take(r, &piece, out);
        return;
    }
    message_end(r, out);
    if (piece.kind == RUN_CALL ? w->call != piece.call : w->open != ITEM_REASONING)
        item_open(r, piece.kind == RUN_CALL ? ITEM_CALL : ITEM_REASONING, out);
    item_add(r, piece.text, (struct text){0}, out);
    const struct answer_call *call =
        piece.kind == RUN_CALL ? &r->g.choices->answer.calls[piece.call - 1] : NULL;
    if (call && call->closed && call->written + piece.text.bytes == call->arguments.bytes)
        item_close(r, false, out); // agents may begin with it
}

static void all_take(struct responses *r, struct json_buffer *out)
{
    while (choice_pending(r->g.choices) > 0) {
        piece_take(r, out);
        choice_sent(r->g.choices);
    }
}

// An empty answer is one empty message.
static void items_end(struct responses *r, struct json_buffer *out)
{
    if (r->items.begun == 0)
        item_open(r, ITEM_MESSAGE, out);
    item_close(r, choice_limited(r->g.choices), out);
}

// The response

static void usage_put(const struct generation *g, struct json_buffer *out)
{
    uint32_t output = generation_output(g);
    json_put_format(out,
                    "{\"input_tokens\":%u,"
                    "\"input_tokens_details\":{\"cached_tokens\":%u,\"cache_write_tokens\":0},"
                    "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},"
                    "\"total_tokens\":%llu}",
                    g->prompt_tokens, g->cached_tokens, output, generation_reasoning(g),
                    (unsigned long long)g->prompt_tokens + output);
}

enum response_state { STATE_IN_PROGRESS, STATE_COMPLETED, STATE_INCOMPLETE, STATE_FAILED };

static void failure_put(const struct generation *g, struct json_buffer *out)
{
    json_put_literal(out, "{\"code\":\"server_error\",\"message\":");
    json_put_string(out, g->failure.message);
    json_put_literal(out, "}");
}

static void response_put(const struct responses *r, enum response_state state,
                         struct json_buffer *out)
{
    static const char *const names[] = {"in_progress", "completed", "incomplete", "failed"};
    const struct generation *g = &r->g;
    json_put_literal(out, "{\"id\":");
    json_put_string(out, g->id);
    json_put_format(out, ",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\"",
                    (long long)g->created, names[state]);
    if (state == STATE_COMPLETED)
        json_put_format(out, ",\"completed_at\":%lld", (long long)time(NULL));
    else
        json_put_literal(out, ",\"completed_at\":null");
    json_put_literal(out, ",\"error\":");
    if (state == STATE_FAILED)
        failure_put(g, out);
    else
        json_put_literal(out, "null");
    json_put_literal(out, state == STATE_INCOMPLETE
                              ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"
                              : ",\"incomplete_details\":null");
    json_put_literal(out, ",\"model\":");
    json_put_string(out, text_of(g->call.model->id));
    json_put_literal(out, ",\"output\":[");
    json_put_raw(out, text_span(r->items.done.at, r->items.done.bytes));
    json_put_literal(out, "],\"usage\":");
    if (state == STATE_COMPLETED || state == STATE_INCOMPLETE)
        usage_put(g, out);
    else
        json_put_literal(out, "null");
    json_put_raw(out, r->echo);
    json_put_literal(out, "}");
}

static void response_event_put(struct responses *r, const char *name, enum response_state state,
                               struct json_buffer *out)
{
    event_begin(r, name, out);
    json_put_literal(out, ",\"response\":");
    response_put(r, state, out);
    event_end(out);
}

// The typed event, then one that clients raise as an error.
static void failure_tell(struct responses *r, struct json_buffer *out)
{
    const struct http_failure *failure = &r->g.failure;
    response_event_put(r, "response.failed", STATE_FAILED, out);
    event_begin(r, "error", out);
    json_put_format(out, ",\"code\":\"%s\",\"message\":", http_error_code(failure->error));
    json_put_string(out, failure->message);
    json_put_literal(out, ",\"param\":null,\"error\":");
    http_error_object(out, failure, SHAPE_OPENAI);
    event_end(out);
}

static enum response_state end_state(const struct responses *r)
{
    return choice_limited(r->g.choices) ? STATE_INCOMPLETE : STATE_COMPLETED;
}

static void stream_end(struct responses *r, struct json_buffer *out)
{
    items_end(r, out);
    if (r->g.failed)
        failure_tell(r, out);
    else if (end_state(r) == STATE_INCOMPLETE)
        response_event_put(r, "response.incomplete", STATE_INCOMPLETE, out);
    else
        response_event_put(r, "response.completed", STATE_COMPLETED, out);
}

void responses_put(struct responses *r, enum generation_tell step, struct json_buffer *out)
{
    switch (step) {
    case TELL_WAIT:
    case TELL_CHOICE: // TELL_END says it: there is one choice
        break;
    case TELL_BEGIN:
        response_event_put(r, "response.created", STATE_IN_PROGRESS, out);
        response_event_put(r, "response.in_progress", STATE_IN_PROGRESS, out);
        break;
    case TELL_PIECE:
        piece_take(r, out);
        break;
    case TELL_IDLE:
        openai_step_put(&r->g, step, out);
        break;
    case TELL_END:
        stream_end(r, out);
        break;
    case TELL_WHOLE:
        all_take(r, out);
        items_end(r, out);
        response_put(r, end_state(r), out);
        break;
    case TELL_FAILURE:
        failure_tell(r, out);
        break;
    }
}
