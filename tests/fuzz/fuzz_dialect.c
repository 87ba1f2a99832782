// SPDX-License-Identifier: Apache-2.0
// Hostile replies: the first bytes choose a dialect, the options of the request and the cuts, the
// rest is the reply. No input may crash or be buffered beyond the limit. Events are in order,
// arguments of complete calls are JSON objects, UTF-8 input gives UTF-8 output, and the cuts make
// no difference.
#include "runtime/text/dialect/reply.h"

#include "base/json.h"
#include "base/utf8.h"
#include "runtime/text/dialect/scan.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char tools_source[] = "[{\"function\": {\"name\": \"f\", \"parameters\": "
                                   "{\"properties\": {\"s\": {\"type\": \"string\"},"
                                   " \"n\": {\"type\": \"integer\"}, \"l\": {\"type\": \"array\"}, "
                                   "\"o\": {\"type\": \"object\"}}}}},"
                                   " {\"function\": {\"name\": \"g\"}}]";

struct outcome {
    struct json_buffer line, arguments, text; // text: includes reasoning
    uint32_t calls;
    bool utf8, in_call, over; // utf8: true if the reply is valid UTF-8
};

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool is_text(const struct json_buffer *b)
{
    struct text text = json_buffer_text(b);
    return utf8_valid_prefix(text) == text.bytes;
}

static void call_over(struct outcome *o, const struct reply_event *event)
{
    require(o->in_call);
    o->in_call = false;
    o->calls++;
    require(!o->utf8 || is_text(&o->arguments));
    struct json_scan scan;
    enum json_scan_step step = JSON_SCAN_MORE;
    json_scan_begin(&scan);
    size_t at = 0;
    while (step == JSON_SCAN_MORE && at < o->arguments.bytes)
        step = json_scan_byte(&scan, o->arguments.at[at++]);
    if (event->complete)
        require(step == JSON_SCAN_DONE && at == o->arguments.bytes && o->arguments.at[0] == '{');
}

static void take(struct outcome *o, const struct reply_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct reply_event *e = &events[i];
        bool bytes =
            e->kind == REPLY_TEXT || e->kind == REPLY_REASONING || e->kind == REPLY_ARGUMENTS;
        require(!o->over && (!bytes || e->text.bytes > 0));
        require(o->in_call == (e->kind == REPLY_ARGUMENTS || e->kind == REPLY_CALL_END));
        require(bytes || e->kind == REPLY_END || e->call == o->calls);
        if (e->kind == REPLY_CALL) {
            o->in_call = true;
            o->arguments.bytes = 0;
        } else if (e->kind == REPLY_ARGUMENTS) {
            json_put_raw(&o->arguments, e->text);
        } else if (e->kind == REPLY_CALL_END) {
            call_over(o, e);
        } else if (bytes) {
            json_put_raw(&o->text, e->text);
        }
        o->over = e->kind == REPLY_END;
        for (size_t at = 0; at < e->text.bytes; at++) { // each byte has its kind, so that
            char pair[2] = {(char)('0' + e->kind), e->text.at[at]}; // splitting is no difference
            json_put_raw(&o->line, text_span(pair, 2));
        }
        if (!bytes)
            json_put_format(&o->line, "<%d %d>", (int)e->kind, (int)e->complete);
    }
}

static void read_all(const struct reply_args *args, struct text text, uint32_t cuts,
                     struct outcome *o)
{
    struct reply *r = reply_create(args);
    uint32_t count;
    for (size_t at = 0, step; at < text.bytes; at += step) {
        step = cuts == 0 ? text.bytes : 1 + (at * cuts >> 3) % 7;
        step = step < text.bytes - at ? step : text.bytes - at;
        const struct reply_event *events =
            reply_feed(r, text_span(text.at + at, step), false, &count);
        take(o, events, count);
        require(reply_held(r) <= REPLY_HELD_MAX + 128);
    }
    const struct reply_event *events = reply_finish(r, &count);
    take(o, events, count);
    require(o->over && !o->in_call && (!o->utf8 || is_text(&o->text)));
    reply_destroy(r);
}

static void outcome_free(struct outcome *o)
{
    json_buffer_free(&o->line);
    json_buffer_free(&o->arguments);
    json_buffer_free(&o->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static json_t *tools;
    if (!tools)
        tools = json_loads(tools_source, 0, NULL);
    uint32_t rows = 0, reasonings = 0;
    while (dialect_row_name(rows))
        rows++;
    while (dialect_reasoning_row_name(reasonings))
        reasonings++;
    if (bytes < 4)
        return 0;
    struct dialect d;
    require(dialect_named(&d, dialect_row_name(data[0] % rows),
                          dialect_reasoning_row_name(data[1] % reasonings), NULL));
    const struct reply_args args = {.dialect = &d,
                                    .start = (enum dialect_start)(data[2] % 3),
                                    .calls = (data[2] & 4) == 0,
                                    .reasoning = (data[2] & 8) == 0,
                                    .keep_special = (data[2] & 16) != 0,
                                    .has_text_grammar = (data[2] & 64) != 0,
                                    .free_calls = (data[2] & 128) != 0,
                                    .tools = (data[2] & 32) == 0 ? tools : NULL};
    struct text text = text_span((const char *)data + 4, bytes - 4);
    bool utf8 = utf8_valid_prefix(text) == text.bytes;
    struct outcome whole = {.utf8 = utf8}, cut = {.utf8 = utf8};
    read_all(&args, text, 0, &whole);
    read_all(&args, text, 1u + data[3], &cut);
    require(text_equal(text_span(whole.line.at, whole.line.bytes),
                       text_span(cut.line.at, cut.line.bytes)));
    outcome_free(&whole);
    outcome_free(&cut);
    return 0;
}
