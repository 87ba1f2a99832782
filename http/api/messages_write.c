// SPDX-License-Identifier: Apache-2.0
// Writes the answers of Messages: see shapes.h. Content blocks are in the order in which
// the model wrote them. A stream opens a block with its first delta and closes it before the next.
#include "http/api/shapes.h"

#include <ctype.h>
#include <string.h>

// Usage and the end of an answer

static void usage_put(const struct messages *m, uint32_t output_tokens, struct json_buffer *out)
{
    json_put_format(out,
                    "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
                    "\"cache_read_input_tokens\":%u,\"output_tokens\":%u,",
                    m->g.prompt.token_count - m->g.cached_tokens, m->g.cached_tokens,
                    output_tokens);
}

static void details_put(const struct messages *m, bool over, struct json_buffer *out)
{
    json_put_literal(out, "\"output_tokens_details\":");
    if (m->blocks.thinking && over)
        json_put_format(out, "{\"thinking_tokens\":%u}", generation_reasoning(&m->g));
    else
        json_put_literal(out, "null");
}

static void usage_complete_put(const struct messages *m, bool over, struct json_buffer *out)
{
    usage_put(m, over ? generation_output(&m->g) : 0, out); // message_start reports 0 output tokens
    json_put_literal(out, "\"cache_creation\":null,");
    details_put(m, over, out);
    json_put_literal(out, ",\"server_tool_use\":null,\"service_tier\":null,"
                          "\"inference_geo\":null,\"speed\":null}");
}

// Returns true if the API version has the stop reason for a full context window. Versions are
// dates; 2026-10-21 introduced it.
static bool version_knows_window(struct text version)
{
    static const char first[] = "2026-10-21";
    if (version.bytes != sizeof first - 1)
        return false;
    for (size_t i = 0; i < version.bytes; i++)
        if (first[i] == '-' ? version.at[i] != '-' : !isdigit((unsigned char)version.at[i]))
            return false;
    return memcmp(version.at, first, sizeof first - 1) >= 0;
}

static const char *stop_reason(const struct messages *m)
{
    const struct choice *c = m->g.choices;
    if (c->end == END_WINDOW && version_knows_window(m->g.call.info->anthropic_version))
        return "model_context_window_exceeded";
    if (choice_limited(c))
        return "max_tokens";
    if (c->answer.complete > 0)
        return "tool_use"; // even if a stop sequence followed
    return c->end == END_STOP_STRING ? "stop_sequence" : "end_turn";
}

static void stop_put(const struct messages *m, struct json_buffer *out)
{
    const char *reason = stop_reason(m);
    json_put_format(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (strcmp(reason, "stop_sequence") == 0)
        json_put_string(out, m->g.options.stops.strings[m->g.choices->scan.which]);
    else
        json_put_literal(out, "null");
    json_put_literal(out, ",\"stop_details\":null,\"container\":null");
}

static void head_put(const struct messages *m, struct json_buffer *out)
{
    json_put_member(out, "{\"id\":", m->g.id);
    json_put_member(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":",
                    text_of(m->g.call.model->id));
    json_put_literal(out, ",\"content\":[");
}

// Text of the runs of an answer

struct cursor {
    const struct choice *choice;
    size_t text, reasoning; // bytes of each that previous runs used
};

static struct text run_text(struct cursor *at, const struct answer_run *run)
{
    bool text = run->kind == RUN_TEXT;
    const struct arena_text *all = text ? &at->choice->text : &at->choice->answer.reasoning;
    size_t *used = text ? &at->text : &at->reasoning;
    *used += run->bytes;
    return text_span(all->at + *used - run->bytes, run->bytes);
}

static void tool_head_put(const struct answer_call *call, struct json_buffer *out)
{
    json_put_member(out, "{\"type\":\"tool_use\",\"id\":", call->id);
    json_put_member(out, ",\"name\":", call->name);
    json_put_literal(out, ",\"input\":");
}

static const char tool_tail[] = ",\"caller\":{\"type\":\"direct\"}}";

// Streams

static void event_begin(const struct messages *m, const char *name, struct json_buffer *out)
{
    json_put_format(out, "event: %s\ndata: {\"type\":\"%s\",\"index\":%u", name, name,
                    m->blocks.count - 1);
}

static void delta_put(const struct messages *m, const char *type, const char *key,
                      struct text value, struct json_buffer *out)
{
    event_begin(m, "content_block_delta", out);
    json_put_format(out, ",\"delta\":{\"type\":\"%s\",\"%s\":", type, key);
    json_put_string(out, value);
    json_put_literal(out, "}}\n\n");
}

static void block_close(struct messages *m, struct json_buffer *out)
{
    if (m->blocks.open == BLOCK_THINKING) {
        event_begin(m, "content_block_delta", out);
        json_put_literal(out, ",\"delta\":{\"type\":\"signature_delta\",\"signature\":\"");
        signature_put(&m->blocks.signature, out);
        json_put_literal(out, "\"}}\n\n");
    }
    if (m->blocks.open != BLOCK_NONE) {
        event_begin(m, "content_block_stop", out);
        json_put_literal(out, "}\n\n");
    }
    m->blocks.open = BLOCK_NONE;
}

static void block_begin(struct messages *m, struct json_buffer *out)
{
    block_close(m, out);
    m->blocks.count++;
    event_begin(m, "content_block_start", out);
    json_put_literal(out, ",\"content_block\":");
}

// Writes a text delta. broken: number of the malformed call that the text shows and that gets its
// own block; 0: none.
static void text_put(struct messages *m, struct text text, uint32_t broken, struct json_buffer *out)
{
    if (m->blocks.open != BLOCK_TEXT || m->blocks.broken_call != broken) {
        block_begin(m, out);
        json_put_literal(out, "{\"type\":\"text\",\"text\":\"\",\"citations\":null}}\n\n");
        m->blocks.open = BLOCK_TEXT;
        m->blocks.broken_call = broken;
    }
    if (text.bytes > 0)
        delta_put(m, "text_delta", "text", text, out);
}

static void thinking_put(struct messages *m, struct text text, struct json_buffer *out)
{
    if (m->blocks.open != BLOCK_THINKING) {
        block_begin(m, out);
        json_put_literal(out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n");
        m->blocks.open = BLOCK_THINKING;
        m->blocks.signature = (struct signature){0};
    }
    signature_add(&m->blocks.signature, text);
    if (!m->blocks.thinking_omitted)
        delta_put(m, "thinking_delta", "thinking", text, out);
}

// Returns how many bytes of the arguments can be part of a JSON object. Clients reject a stream
// with other input_json_delta events.
static size_t scan_arguments(struct block_writer *w, struct text text)
{
    size_t at = 0;
    while (!w->broken && at < text.bytes) {
        w->broken = json_scan_byte(&w->scan, text.at[at]) == JSON_SCAN_BAD;
        at += !w->broken;
    }
    return at;
}

static void call_put(struct messages *m, const struct answer_piece *piece, struct json_buffer *out)
{
    struct block_writer *w = &m->blocks;
    struct text text = piece->text;
    if (w->call != piece->call) {
        w->call = piece->call;
        w->broken = false;
        json_scan_begin_object(&w->scan);
        block_begin(m, out);
        tool_head_put(&m->g.choices->answer.calls[piece->call - 1], out);
        json_put_format(out, "{}%s}\n\n", tool_tail);
        w->open = BLOCK_TOOL;
    }
    size_t fine = scan_arguments(w, text);
    if (fine > 0)
        delta_put(m, "input_json_delta", "partial_json", text_span(text.at, fine), out);
    if (fine < text.bytes)
        text_put(m, text_span(text.at + fine, text.bytes - fine), piece->call, out);
}

static void stream_piece(struct messages *m, struct json_buffer *out)
{
    struct answer_piece piece = choice_piece(m->g.choices);
    if (piece.kind == RUN_CALL)
        call_put(m, &piece, out);
    else if (piece.kind == RUN_REASONING)
        thinking_put(m, piece.text, out);
    else
        text_put(m, piece.text, piece.call, out);
}

static void stream_begin(struct messages *m, struct json_buffer *out)
{
    json_put_literal(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    head_put(m, out);
    json_put_literal(out, "],\"stop_reason\":null,\"stop_sequence\":null,\"stop_details\":null,"
                          "\"container\":null,\"diagnostics\":null,");
    usage_complete_put(m, false, out);
    json_put_literal(out, "}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
}

static void stream_end(struct messages *m, struct json_buffer *out)
{
    if (m->blocks.count == 0)
        text_put(m, (struct text){0}, 0, out); // an empty answer consists of one empty text block
    block_close(m, out);
    json_put_literal(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
    stop_put(m, out);
    json_put_literal(out, "},");
    usage_put(m, generation_output(&m->g), out);
    details_put(m, true, out);
    json_put_literal(out, ",\"server_tool_use\":null}}\n\n"
                          "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

// Non-streamed answers

static void text_block_put(struct text text, struct json_buffer *out)
{
    json_put_member(out, "{\"type\":\"text\",\"text\":", text);
    json_put_literal(out, ",\"citations\":null}");
}

static void thinking_block_put(const struct messages *m, struct text text, struct json_buffer *out)
{
    struct signature signature = {0};
    signature_add(&signature, text);
    json_put_member(out, "{\"type\":\"thinking\",\"thinking\":",
                    m->blocks.thinking_omitted ? (struct text){"", 0} : text);
    json_put_literal(out, ",\"signature\":\"");
    signature_put(&signature, out);
    json_put_literal(out, "\"}");
}

static void call_block_put(const struct answer_call *call, struct json_buffer *out)
{
    tool_head_put(call, out);
    json_put_raw(out, text_span(call->arguments.at, call->arguments.bytes));
    json_put_raw(out, text_of(tool_tail));
}

static void complete_put(const struct messages *m, struct json_buffer *out)
{
    struct cursor at = {.choice = m->g.choices};
    const struct answer_parts *a = &m->g.choices->answer;
    head_put(m, out);
    for (uint32_t i = 0; i < a->run_count; i++) {
        const struct answer_run *run = &a->runs[i];
        json_put_literal(out, i > 0 ? "," : "");
        if (run->kind == RUN_CALL)
            call_block_put(&a->calls[run->call - 1], out);
        else if (run->kind == RUN_REASONING)
            thinking_block_put(m, run_text(&at, run), out);
        else
            text_block_put(run_text(&at, run), out);
    }
    if (a->run_count == 0)
        text_block_put((struct text){"", 0}, out);
    json_put_literal(out, "],");
    stop_put(m, out);
    json_put_literal(out, ",\"diagnostics\":null,");
    usage_complete_put(m, true, out);
    json_put_literal(out, "}");
}

enum stream_step messages_put(struct generation *g, enum stream_step step, struct json_buffer *out)
{
    struct messages *m = (struct messages *)g;
    switch (step) {
    case STEP_CALLBACK:
    case STEP_PART:
    case STEP_CHOICE: // STEP_END writes it: there is only one choice
        break;
    case STEP_BEGIN:
        stream_begin(m, out);
        break;
    case STEP_PIECE:
        stream_piece(m, out);
        break;
    case STEP_KEEPALIVE:
        json_put_literal(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
        break;
    case STEP_END:
        stream_end(m, out);
        break;
    case STEP_ANSWER:
        complete_put(m, out);
        break;
    case STEP_FAILURE:
        json_put_literal(out, "event: error\ndata: ");
        http_error_body(out, &m->g.failure, SHAPE_MESSAGES, m->g.call.info->request_id);
        json_put_literal(out, "\n\n");
        break;
    }
    return step;
}
