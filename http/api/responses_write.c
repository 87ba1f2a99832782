// SPDX-License-Identifier: Apache-2.0
// Writes the answers of Responses: see shapes.h. A non-streamed answer is built like a
// stream, but without its events.
#include "http/api/shapes.h"

#include "base/number.h"
#include "base/utf8.h"
#include "http/ids.h"

#include <string.h>
#include <time.h>

enum {
    SEND_SPACE_MIN = 2048, // send space, in bytes, that must be free to write the next part
    PART_BYTES = 2048,     // size of a part of an event that repeats items; entries may exceed it
    ENTRIES_TOGETHER = 8,  // log probabilities written in one step
    OPENINGS = 2,          // number of events that open a stream
    CUT_BYTES_MAX = 64 * 1024 // bytes of items in the event that ends a cut stream
};

// JSON of an item. Its text and its log probabilities are written between these parts.

static void part_head_put(const struct output_item *item, struct json_buffer *out)
{
    json_put_format(out, "{\"type\":\"%s\",\"text\":\"",
                    item->kind == ITEM_MESSAGE ? "output_text" : "reasoning_text");
}

static void part_tail_put(const struct output_item *item, struct json_buffer *out)
{
    json_put_literal(out, item->kind == ITEM_MESSAGE ? "]}" : "}");
}

static const struct answer_call *call_of(const struct responses *r, const struct output_item *item)
{
    return &r->g.choices->answer.calls[item->call - 1];
}

// Returns true if the item is the call of a custom tool: its text is the input, not JSON.
static bool is_custom(const struct responses *r, const struct output_item *item)
{
    return item->kind == ITEM_CALL && call_of(r, item)->custom;
}

// Writes the name of a call; if the tool is in a namespace, both names as the request has them.
static void name_put(const struct responses *r, const struct output_item *item,
                     struct json_buffer *out)
{
    struct text name = call_of(r, item)->name, space = call_of(r, item)->space;
    size_t before = space.at ? space.bytes + strlen("__") : 0;
    json_put_member(out, ",\"name\":", text_span(name.at + before, name.bytes - before));
    if (space.at)
        json_put_member(out, ",\"namespace\":", space);
}

static void item_head_put(const struct responses *r, const struct output_item *item,
                          const char *status, struct json_buffer *out)
{
    static const char *const types[] = {
        [ITEM_MESSAGE] = "message", [ITEM_REASONING] = "reasoning", [ITEM_CALL] = "function_call"};
    json_put_member(out, "{\"id\":", item->id);
    bool custom = is_custom(r, item);
    json_put_format(out, ",\"type\":\"%s\",\"status\":\"%s\",",
                    custom ? "custom_tool_call" : types[item->kind], status);
    if (item->kind == ITEM_CALL) {
        json_put_member(out, "\"call_id\":", call_of(r, item)->id);
        name_put(r, item, out);
        json_put_literal(out, custom ? ",\"input\":\"" : ",\"arguments\":\"");
    } else {
        json_put_literal(out, item->kind == ITEM_MESSAGE
                                  ? "\"role\":\"assistant\",\"content\":["
                                  : "\"summary\":[],\"encrypted_content\":null,\"content\":[");
    }
}

static void item_tail_put(const struct output_item *item, struct json_buffer *out)
{
    if (item->kind != ITEM_CALL)
        part_tail_put(item, out);
    json_put_literal(out, item->kind == ITEM_CALL ? "}" : "]}");
}

// Writes the end of the text and the beginning of the log probabilities.
static void middle_put(const struct output_item *item, bool annotations, struct json_buffer *out)
{
    json_put_literal(out, "\"");
    if (item->kind == ITEM_MESSAGE) {
        json_put_literal(out, annotations ? ",\"annotations\":[]" : "");
        json_put_literal(out, ",\"logprobs\":[");
    }
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

static struct output_item *last_item(const struct item_writer *w)
{
    return &w->items[w->item_count - 1];
}

// Begins an event about a part of the open item.
static void part_event_begin(struct responses *r, const char *name, struct json_buffer *out)
{
    event_begin(r, name, out);
    json_put_member(out, ",\"item_id\":", last_item(&r->items)->id);
    json_put_format(out, ",\"output_index\":%u", r->items.item_count - 1);
    if (last_item(&r->items)->kind != ITEM_CALL)
        json_put_literal(out, ",\"content_index\":0");
}

static void item_event_begin(struct responses *r, const char *name, struct json_buffer *out)
{
    event_begin(r, name, out);
    json_put_format(out, ",\"output_index\":%u,\"item\":", r->items.item_count - 1);
}

static void item_added_put(struct responses *r, struct json_buffer *out)
{
    const struct output_item *item = last_item(&r->items);
    item_event_begin(r, "response.output_item.added", out);
    item_head_put(r, item, "in_progress", out);
    json_put_literal(out, item->kind == ITEM_CALL ? "\"}" : "]}");
    event_end(out);
    if (item->kind == ITEM_CALL)
        return;
    part_event_begin(r, "response.content_part.added", out);
    json_put_literal(out, ",\"part\":");
    part_head_put(item, out);
    middle_put(item, true, out);
    part_tail_put(item, out);
    event_end(out);
}

// Writes a delta of the open item, with the visible log probabilities [from, to).
static void item_delta_put(struct responses *r, struct text text, uint32_t from, uint32_t to,
                           struct json_buffer *out)
{
    static const char *const names[] = {
        [ITEM_MESSAGE] = "response.output_text.delta",
        [ITEM_REASONING] = "response.reasoning_text.delta",
        [ITEM_CALL] = "response.function_call_arguments.delta",
    };
    const struct output_item *item = last_item(&r->items);
    part_event_begin(
        r, is_custom(r, item) ? "response.custom_tool_call_input.delta" : names[item->kind], out);
    json_put_member(out, ",\"delta\":", text);
    if (item->kind == ITEM_MESSAGE) {
        json_put_literal(out, ",\"logprobs\":[");
        logprobs_put_entries(&r->g.choices->logprobs, r->g.options.tokenizer, from, to, out);
        json_put_literal(out, "]");
    }
    event_end(out);
}

// Events that repeat items

static void closing_head_put(struct responses *r, const struct output_item *item,
                             struct json_buffer *out)
{
    static const char *const text_names[] = {
        [ITEM_MESSAGE] = "response.output_text.done",
        [ITEM_REASONING] = "response.reasoning_text.done",
        [ITEM_CALL] = "response.function_call_arguments.done",
    };
    const struct closing_cursor *c = &r->items.cursor;
    if (c->event == CLOSING_TEXT) {
        bool custom = is_custom(r, item);
        part_event_begin(
            r, custom ? "response.custom_tool_call_input.done" : text_names[item->kind], out);
        json_put_literal(out, custom                    ? ",\"input\":\""
                              : item->kind == ITEM_CALL ? ",\"arguments\":\""
                                                        : ",\"text\":\"");
        return;
    }
    if (c->event == CLOSING_PART) {
        part_event_begin(r, "response.content_part.done", out);
        json_put_literal(out, ",\"part\":");
        part_head_put(item, out);
        return;
    }
    if (c->event == CLOSING_ITEM)
        item_event_begin(r, "response.output_item.done", out);
    else
        json_put_literal(out, c->item > 0 ? "," : "");
    item_head_put(r, item, item->complete ? "completed" : "incomplete", out);
    if (item->kind != ITEM_CALL)
        part_head_put(item, out);
}

static void closing_tail_put(const struct responses *r, const struct output_item *item,
                             struct json_buffer *out)
{
    const struct closing_cursor *c = &r->items.cursor;
    if (c->event == CLOSING_PART)
        part_tail_put(item, out);
    else if (c->event != CLOSING_TEXT)
        item_tail_put(item, out);
    else if (item->kind == ITEM_CALL && !is_custom(r, item)) // a custom call's event has no name
        name_put(r, item, out);
    else if (item->kind == ITEM_MESSAGE)
        json_put_literal(out, "]");
    if (c->event != CLOSING_RESPONSE)
        event_end(out);
}

// Ends the present event or item. Moves the cursor to the next event that closes the item, or to
// the next item of the response.
static void cursor_next(struct item_writer *w)
{
    struct closing_cursor *c = &w->cursor, was = *c;
    *c = (struct closing_cursor){.event = was.event, .bare = was.bare, .item = was.item};
    if (was.event == CLOSING_RESPONSE) {
        c->item++;
    } else if (was.event == CLOSING_TEXT && w->items[was.item].kind != ITEM_CALL) {
        c->event = CLOSING_PART;
    } else if (was.event != CLOSING_ITEM) {
        c->event = CLOSING_ITEM;
    } else {
        c->event = CLOSING_NOTHING;
        w->open = false;
    }
}

static void closing_text_put(struct item_writer *w, const struct output_item *item,
                             struct json_buffer *out)
{
    struct closing_cursor *c = &w->cursor;
    const char *at = w->text.at + item->from + c->bytes;
    size_t left = item->bytes - c->bytes;
    size_t bytes = left == 0 ? 0 : utf8_until(at, smaller(left, (size_t)PART_BYTES), left);
    if (bytes > 0)
        json_put_escaped(out, text_span(at, bytes));
    c->bytes += bytes;
    if (c->bytes == item->bytes)
        c->at = AT_MIDDLE;
}

static void closing_entries_put(struct responses *r, const struct output_item *item,
                                struct json_buffer *out)
{
    struct closing_cursor *c = &r->items.cursor;
    uint32_t count = smaller(item->entries - c->entries, (uint32_t)ENTRIES_TOGETHER);
    uint32_t from = item->entries_from + c->entries;
    json_put_literal(out, count > 0 && c->entries > 0 ? "," : "");
    logprobs_put_kept(&r->items.logprobs, r->g.options.tokenizer, from, from + count, out);
    c->entries += count;
    if (c->entries == item->entries)
        c->at = AT_TAIL;
}

static void closing_step(struct responses *r, struct json_buffer *out)
{
    struct closing_cursor *c = &r->items.cursor;
    const struct output_item *item = &r->items.items[c->item];
    switch (c->at) {
    case AT_HEAD:
        closing_head_put(r, item, out);
        c->at = AT_TEXT;
        break;
    case AT_TEXT:
        closing_text_put(&r->items, item, out);
        break;
    case AT_MIDDLE:
        middle_put(item, c->event != CLOSING_TEXT, out);
        c->at = c->bare ? AT_TAIL : AT_ENTRIES;
        break;
    case AT_ENTRIES:
        closing_entries_put(r, item, out);
        break;
    case AT_TAIL:
        closing_tail_put(r, item, out);
        cursor_next(&r->items);
        break;
    }
}

// Items

// Closes the open item; in a stream, begins its closing events. limited: true if a limit ended the
// answer inside the item.
static void item_close(struct responses *r, bool limited)
{
    struct item_writer *w = &r->items;
    struct output_item *item = last_item(w);
    item->complete = item->kind == ITEM_CALL ? call_of(r, item)->complete : !limited;
    if (r->g.stream)
        w->cursor = (struct closing_cursor){.event = CLOSING_TEXT, .item = w->item_count - 1};
    else
        w->open = false;
}

// Opens an item. call: number of the tool call; 0 for other items.
static void item_open(struct responses *r, enum item_kind kind, uint32_t call,
                      struct json_buffer *out)
{
    static const char *const prefixes[] = {
        [ITEM_MESSAGE] = "msg_", [ITEM_REASONING] = "rs_", [ITEM_CALL] = "fc_"};
    struct item_writer *w = &r->items;
    struct arena *arena = exchange_arena(r->g.call.exchange);
    bool custom = kind == ITEM_CALL && r->g.choices->answer.calls[call - 1].custom;
    struct text id = id_make(arena, custom ? "ctc_" : prefixes[kind]);
    struct output_item *items =
        id.at ? arena_extend(arena, w->items, w->item_count, &w->item_max, sizeof *items) : NULL;
    if (!items) {
        generation_fail_memory(&r->g);
        return;
    }
    w->items = items;
    w->items[w->item_count++] = (struct output_item){
        .kind = kind,
        .id = id,
        .call = call,
        .from = w->text.bytes,
        .entries_from = w->logprobs.count,
    };
    w->open = true;
    if (r->g.stream)
        item_added_put(r, out);
}

// Adds text and the visible log probabilities [from, to) to the open item.
static void item_add(struct responses *r, struct text text, uint32_t from, uint32_t to,
                     struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    if (!w->open || (text.bytes == 0 && from == to))
        return;
    struct output_item *item = last_item(w);
    bool kept = arena_text_add(exchange_arena(r->g.call.exchange), &w->text, text);
    kept = kept && logprobs_keep(&w->logprobs, &r->g.choices->logprobs, from, to);
    item->bytes = w->text.bytes - item->from;
    item->entries = w->logprobs.count - item->entries_from;
    if (!kept)
        generation_fail_memory(&r->g);
    if (r->g.stream)
        item_delta_put(r, text, from, to, out);
}

// Before a message is closed, writes log probabilities that became visible after their text.
static void message_end(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    const struct logprobs *l = &r->g.choices->logprobs;
    uint32_t from = w->logprobs_written;
    while (w->logprobs_written < l->visible &&
           l->entries[w->logprobs_written].text_end <= w->text_written)
        w->logprobs_written++;
    item_add(r, (struct text){0}, from, w->logprobs_written, out);
}

static enum item_kind kind_of(const struct answer_piece *piece)
{
    return piece->kind == RUN_TEXT   ? ITEM_MESSAGE
           : piece->kind == RUN_CALL ? ITEM_CALL
                                     : ITEM_REASONING;
}

// Returns true if the piece belongs to the open item.
static bool piece_continues_item(const struct item_writer *w, const struct answer_piece *piece)
{
    return w->open && last_item(w)->kind == kind_of(piece) &&
           (piece->kind != RUN_CALL || last_item(w)->call == piece->call);
}

static void piece_add(struct responses *r, const struct answer_piece *piece, uint32_t from,
                      struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    if (piece->kind == RUN_TEXT) {
        w->logprobs_written -= from;
        w->text_written += piece->text.bytes;
    }
    item_add(r, piece->text, from, piece->entries, out);
    const struct answer_call *call =
        piece->kind == RUN_CALL ? &r->g.choices->answer.calls[piece->call - 1] : NULL;
    if (w->open && call && call->closed &&
        call->written + piece->text.bytes == call->arguments.bytes)
        item_close(r, false); // so that agents can run the call now
}

// Adds the next piece of the answer. Returns false if the previous item must be closed first.
static bool answer_piece_handle(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    struct answer_piece piece = choice_piece(r->g.choices);
    uint32_t from = smaller(w->logprobs_written, piece.entries);
    bool nothing = piece.kind == RUN_TEXT && piece.text.bytes == 0 && from == piece.entries;
    if (!nothing && !piece_continues_item(w, &piece)) {
        if (w->open && last_item(w)->kind == ITEM_MESSAGE)
            message_end(r, out);
        if (w->open)
            item_close(r, false);
        if (w->open)
            return false;
        item_open(r, kind_of(&piece), piece.call, out);
    }
    piece_add(r, &piece, from, out);
    return true;
}

// Closes the last item. An empty answer has one empty message.
static void items_end(struct responses *r, struct json_buffer *out)
{
    if (r->items.item_count == 0)
        item_open(r, ITEM_MESSAGE, 0, out);
    if (r->items.open)
        item_close(r, choice_limited(r->g.choices));
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
                    g->prompt.token_count, g->cached_tokens, output, generation_reasoning(g),
                    (unsigned long long)g->prompt.token_count + output);
}

static enum response_state state_at_end(const struct responses *r)
{
    return r->g.failed                    ? STATE_FAILED
           : choice_limited(r->g.choices) ? STATE_INCOMPLETE
                                          : STATE_COMPLETED;
}

// Writes the failure. The API has few codes; clients retry if the code is server_error.
static void failure_put(const struct generation *g, struct json_buffer *out)
{
    bool own = http_error_status(g->failure.error, SHAPE_OPENAI) >= 500;
    json_put_format(out, "{\"code\":\"%s\",", own ? "server_error" : "invalid_prompt");
    http_error_message(out, &g->failure, SHAPE_OPENAI);
    json_put_literal(out, "}");
}

// Writes the response up to its items.
static void response_head_put(const struct responses *r, enum response_state state,
                              struct json_buffer *out)
{
    static const char *const names[] = {"in_progress", "completed", "incomplete", "failed"};
    const struct generation *g = &r->g;
    json_put_member(out, "{\"id\":", g->id);
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
    json_put_member(out, ",\"model\":", text_of(g->call.model->id));
    json_put_literal(out, ",\"output\":[");
}

static void response_event_begin(struct responses *r, const char *name, enum response_state state,
                                 struct json_buffer *out)
{
    event_begin(r, name, out);
    json_put_literal(out, ",\"response\":");
    response_head_put(r, state, out);
}

// Writes the event "error", which clients raise as an error.
static void error_event_put(struct responses *r, struct json_buffer *out)
{
    const struct http_failure *failure = &r->g.failure;
    event_begin(r, "error", out);
    json_put_format(out, ",\"code\":\"%s\",", http_error_code(failure->error));
    http_error_message(out, failure, SHAPE_OPENAI);
    json_put_literal(out, ",\"param\":");
    http_error_param(out, failure);
    json_put_literal(out, ",\"error\":");
    http_error_object(out, failure, SHAPE_OPENAI);
    event_end(out);
}

// Events of the response

static void response_begin(struct responses *r, const char *name, enum response_state state,
                           uint32_t items, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    w->state = state;
    w->response_items = items;
    w->cursor = (struct closing_cursor){.event = CLOSING_RESPONSE};
    if (r->g.stream)
        response_event_begin(r, name, state, out);
    else
        response_head_put(r, state, out);
}

// Begins response.created or response.in_progress.
static void opening_begin(struct responses *r, struct json_buffer *out)
{
    bool first = r->items.openings-- == OPENINGS;
    response_begin(r, first ? "response.created" : "response.in_progress", STATE_IN_PROGRESS, 0,
                   out);
}

static void end_event_begin(struct responses *r, struct json_buffer *out)
{
    static const char *const names[] = {[STATE_COMPLETED] = "response.completed",
                                        [STATE_INCOMPLETE] = "response.incomplete",
                                        [STATE_FAILED] = "response.failed"};
    struct item_writer *w = &r->items;
    enum response_state state = state_at_end(r);
    w->end_begun = true;
    response_begin(r, names[state], state, w->item_count - w->open, out);
}

// Writes the next part after the items: usage, then the repeated fields in pieces.
static void response_tail_step(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    struct closing_cursor *c = &w->cursor;
    if (c->at == AT_HEAD) {
        json_put_literal(out, "],\"usage\":");
        if (w->state == STATE_COMPLETED || w->state == STATE_INCOMPLETE)
            usage_put(&r->g, out);
        else
            json_put_literal(out, "null");
        c->at = AT_TEXT;
    } else if (c->bytes < r->repeated.bytes) {
        size_t bytes = smaller(r->repeated.bytes - c->bytes, (size_t)PART_BYTES);
        json_put_raw(out, text_span(r->repeated.at + c->bytes, bytes));
        c->bytes += bytes;
    } else {
        json_put_literal(out, "}");
        *c = (struct closing_cursor){.event = CLOSING_NOTHING};
        if (r->g.stream)
            event_end(out);
        if (r->g.stream && w->state == STATE_FAILED)
            error_event_put(r, out);
    }
}

// Writes events that repeat items, until `out` has `most` bytes or they are complete.
static void closing_part(struct responses *r, size_t most, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    while (w->cursor.event != CLOSING_NOTHING && out->bytes < most)
        if (w->cursor.event == CLOSING_RESPONSE && w->cursor.item == w->response_items)
            response_tail_step(r, out);
        else
            closing_step(r, out);
}

static enum stream_step closing_put(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    enum stream_step step = w->end_step;
    closing_part(r, PART_BYTES, out);
    while (w->cursor.event == CLOSING_NOTHING && w->openings > 0 && out->bytes < PART_BYTES) {
        opening_begin(r, out);
        closing_part(r, PART_BYTES, out);
    }
    if (w->cursor.event == CLOSING_NOTHING && step != STEP_CALLBACK && !w->end_begun) {
        end_event_begin(r, out);
        closing_part(r, PART_BYTES, out);
    }
    if (w->cursor.event != CLOSING_NOTHING || step == STEP_CALLBACK)
        return STEP_PART;
    w->end_step = STEP_CALLBACK;
    return step;
}

// Writes the last event of a stream that the server ends, as a whole: without log probabilities,
// and without items if they exceed CUT_BYTES_MAX.
static void cut_event_put(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    end_event_begin(r, out);
    size_t before = out->bytes;
    w->cursor.bare = true;
    while (w->cursor.item < w->response_items && out->bytes - before <= CUT_BYTES_MAX)
        closing_step(r, out);
    if (out->bytes - before > CUT_BYTES_MAX) {
        out->bytes = before;
        w->response_items = 0;
        w->cursor = (struct closing_cursor){.event = CLOSING_RESPONSE};
    }
    closing_part(r, SIZE_MAX, out);
}

// The server ends the stream. If an event is half written, writes no last event: clients ignore an
// incomplete event.
static void cut_put(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    bool between = w->cursor.event == CLOSING_NOTHING ||
                   (w->cursor.event != CLOSING_RESPONSE && w->cursor.at == AT_HEAD);
    w->end_step = STEP_CALLBACK;
    w->openings = 0;
    if (between)
        cut_event_put(r, out);
    w->cursor.event = CLOSING_NOTHING;
}

// Writes a part of a non-streamed answer. First collects its items piece by piece, which happens
// only once although the answer may be written twice.
static enum stream_step complete_put(struct responses *r, struct json_buffer *out)
{
    struct item_writer *w = &r->items;
    if (choice_pending(r->g.choices) > 0) {
        (void)answer_piece_handle(r, out);
        choice_advance(r->g.choices);
        return STEP_PART;
    }
    if (!r->g.complete.at.begun) {
        if (!w->end_begun)
            items_end(r, out);
        end_event_begin(r, out);
        r->g.complete.at.begun = true;
    }
    closing_part(r, out->bytes + PART_BYTES, out);
    return w->cursor.event == CLOSING_NOTHING ? STEP_ANSWER : STEP_PART;
}

enum stream_step responses_next(struct generation *g)
{
    const struct item_writer *w = &((struct responses *)g)->items;
    if (w->cursor.event == CLOSING_NOTHING && w->end_step == STEP_CALLBACK && w->openings == 0)
        return generation_next(g);
    if (g->failed == FAILED_BY_SERVER) {
        g->sent = SENT_END;
        return STEP_FAILURE;
    }
    return exchange_send_space(g->call.exchange) < SEND_SPACE_MIN ? STEP_CALLBACK : STEP_PART;
}

enum stream_step responses_put(struct generation *g, enum stream_step step, struct json_buffer *out)
{
    struct responses *r = (struct responses *)g;
    switch (step) {
    case STEP_CALLBACK:
    case STEP_CHOICE: // STEP_END writes it: there is only one choice
        break;
    case STEP_BEGIN:
        r->items.openings = OPENINGS;
        return closing_put(r, out);
    case STEP_PIECE:
        return answer_piece_handle(r, out) ? step : closing_put(r, out);
    case STEP_PART:
        return closing_put(r, out);
    case STEP_KEEPALIVE:
        openai_step_put(g, step, out);
        break;
    case STEP_ANSWER:
        return complete_put(r, out);
    case STEP_END:
        items_end(r, out);
        r->items.end_step = step;
        return closing_put(r, out);
    case STEP_FAILURE:
        if (g->failed == FAILED_BY_SERVER) {
            cut_put(r, out);
            break;
        }
        r->items.end_step = step;
        return closing_put(r, out);
    }
    return step;
}
