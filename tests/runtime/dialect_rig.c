// SPDX-License-Identifier: Apache-2.0
// See dialect_rig.h.
#include "tests/runtime/dialect_rig.h"
#include "tests/runtime/tokenizer_memory.h"

#include <stdlib.h>

const char rig_tools[] =
    "[{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"$defs\": {\"t\":"
    " {\"enum\": [\"a\", \"b\"]}}, \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": "
    "{\"type\":"
    " \"integer\"}, \"b\": {\"type\": \"boolean\"}, \"l\": {\"type\": \"array\", \"items\": "
    "{\"type\":"
    " \"integer\"}}, \"o\": {\"type\": \"object\", \"properties\": {\"k\": {\"type\": "
    "\"string\"}}},"
    " \"u\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}, \"r\": {\"$ref\":"
    " \"#/$defs/t\"}, \"item\": {\"type\": \"object\"}}}}}, {\"function\": {\"name\": \"g\"}},"
    " {\"name\": \"h\", \"input_schema\": {\"properties\": {\"x\": {\"const\": \"1\"}}}}]";

struct line {
    struct json_buffer *out;
    enum reply_event_kind last;
    bool open;
};

static void part_close(struct line *line)
{
    if (line->open)
        json_put_literal(line->out, ")");
    line->open = false;
}

static void event_put(struct line *line, const struct reply_event *event)
{
    static const char *const names[] = {"text(", "think(", "call(", "args(", "end(", "over"};
    struct json_buffer *out = line->out;
    bool bytes = event->kind == REPLY_TEXT || event->kind == REPLY_REASONING ||
                 event->kind == REPLY_ARGUMENTS;
    if (!line->open || event->kind != line->last || !bytes) {
        part_close(line);
        json_put_literal(out, names[event->kind]);
        line->open = event->kind != REPLY_END;
    }
    line->last = event->kind;
    if (event->kind == REPLY_CALL) {
        json_put_format(out, "%u ", event->call);
        json_put_raw(out, event->text);
        json_put_literal(out, event->id.bytes > 0 ? " " : "");
        json_put_raw(out, event->id);
    } else if (event->kind == REPLY_CALL_END) {
        json_put_format(out, "%u %d", event->call, event->complete);
    } else {
        json_put_raw(out, event->text);
    }
}

size_t rig_special(struct text text)
{
    static const char *const whole[] = {"[TOOL_CALLS]",  "[ARGS]",      "[THINK]",    "[/THINK]",
                                        "]<]minimax[>[", "<|\"|>",      "<|channel>", "<channel|>",
                                        "<|tool_call>",  "<tool_call|>"};
    static const char *const ends[][2] = {{"<|", "|>"}, {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (text.bytes >= strlen(whole[i]) && memcmp(text.at, whole[i], strlen(whole[i])) == 0)
            return strlen(whole[i]);
    for (size_t i = 0; i < 2; i++) {
        size_t open = strlen(ends[i][0]), close = strlen(ends[i][1]);
        if (text.bytes < open || memcmp(text.at, ends[i][0], open) != 0)
            continue;
        for (size_t end = open; end + close <= text.bytes && end < 60; end++)
            if (memcmp(text.at + end, ends[i][1], close) == 0)
                return end + close;
    }
    return 0;
}

struct text rig_read(const struct reply_args *args, struct text text, struct cuts cuts,
                     struct json_buffer *out)
{
    struct line line = {.out = out};
    struct reply *r = reply_create(args);
    uint32_t count;
    const struct reply_event *events;
    out->bytes = 0;
    for (size_t at = 0; at < text.bytes;) {
        struct text rest = text_span(text.at + at, text.bytes - at);
        size_t end = args->dialect->tokenizer ? rig_special(rest) : 0;
        bool special = end > 0;
        while (!special && end < rest.bytes) {
            end++;
            struct text next = text_span(rest.at + end, rest.bytes - end);
            if ((cuts.after && cuts.after[at + end - 1]) ||
                (args->dialect->tokenizer && rig_special(next) > 0))
                break;
        }
        events = reply_feed(r, text_span(rest.at, end), special, &count);
        for (uint32_t i = 0; i < count; i++)
            event_put(&line, &events[i]);
        at += end;
        if (cuts.after && at % 3 == 0) { // a copy of the reader must behave like the original
            struct reply *copy = reply_copy(r);
            reply_destroy(r);
            r = copy;
        }
    }
    events = reply_finish(r, &count);
    for (uint32_t i = 0; i < count; i++)
        event_put(&line, &events[i]);
    reply_destroy(r);
    return text_span(out->at, out->bytes);
}

struct tokenizer *rig_tokenizer(struct text text)
{
    json_t *added = json_array(), *seen = json_object();
    for (size_t at = 0; at < text.bytes; at++) {
        size_t bytes = rig_special(text_span(text.at + at, text.bytes - at));
        json_t *content = bytes > 0 ? json_stringn(text.at + at, bytes) : NULL;
        if (content && !json_object_get(seen, json_string_value(content))) {
            json_object_set_new(seen, json_string_value(content), json_true());
            json_array_append_new(added, json_pack("{s:i, s:O, s:b, s:b, s:b, s:b, s:b}", "id",
                                                   (int)json_array_size(added) + 1, "content",
                                                   content, "special", 1, "normalized", 0, "lstrip",
                                                   0, "rstrip", 0, "single_word", 0));
        }
        json_decref(content);
    }
    json_t *file =
        json_pack("{s:s, s:o, s:n, s:n, s:n, s:n, s:{s:s, s:{s:i}, s:[]}}", "version", "1.0",
                  "added_tokens", added, "normalizer", "pre_tokenizer", "post_processor", "decoder",
                  "model", "type", "BPE", "vocab", "a", 0, "merges");
    json_decref(seen);
    return rig_tokenizer_of(file);
}

struct tokenizer *rig_tokenizer_of(json_t *file)
{
    char *source = json_dumps(file, JSON_COMPACT);
    struct tokenizer *t = NULL;
    struct error err = {0};
    enum status status = tokenizer_open_memory(&t, text_of(source), text_span(NULL, 0), &err);
    check(status == STATUS_OK, "%s", err.text);
    free(source);
    json_decref(file);
    return t;
}

// --- calls written by the descriptions for grammars ---

static void put_elements(const struct dialect_syntax *s, const char *key, const json_t *value,
                         struct json_buffer *out)
{
    json_put_format(out, "%s%s%s", s->key_open, key, s->string_open);
    const char *name;
    json_t *item;
    size_t i;
    if (json_is_object(value))
        json_object_foreach((json_t *)value, name, item) put_elements(s, name, item, out);
    else if (json_is_array(value))
        json_array_foreach(value, i, item) put_elements(s, "item", item, out);
    else if (json_is_string(value))
        json_put_literal(out, json_string_value(value));
    else
        json_put_value(out, value);
    json_put_format(out, "%s%s%s", s->value_close, key, s->value_end);
}

// Writes a value as a Python literal, or as an object with bare keys.
static void put_literal(const struct dialect_syntax *s, const json_t *value,
                        struct json_buffer *out)
{
    const char *name, *between = "";
    json_t *item;
    size_t i;
    bool python = s->arguments == ARGUMENTS_PYTHON;
    if (json_is_object(value)) {
        json_put_literal(out, "{");
        json_object_foreach((json_t *)value, name, item)
        {
            json_put_format(out, python ? "%s'%s': " : "%s%s:", between, name);
            put_literal(s, item, out);
            between = python ? ", " : ",";
        }
        json_put_literal(out, "}");
    } else if (json_is_array(value)) {
        json_put_literal(out, "[");
        json_array_foreach(value, i, item)
        {
            json_put_literal(out, i > 0 ? ", " : "");
            put_literal(s, item, out);
        }
        json_put_literal(out, "]");
    } else if (json_is_string(value)) {
        json_put_format(out, "%s%s%s", python ? "'" : s->string_open, json_string_value(value),
                        python ? "'" : s->value_close);
    } else if (json_is_true(value) && python) {
        json_put_literal(out, "True");
    } else {
        json_put_value(out, value);
    }
}

static void put_arguments(const struct dialect_syntax *s, const json_t *arguments,
                          struct json_buffer *out)
{
    const char *key, *between = "";
    json_t *value;
    if (s->arguments == ARGUMENTS_JSON) {
        json_put_value(out, arguments);
    } else if (s->arguments == ARGUMENTS_BARE_KEYS) {
        put_literal(s, arguments, out);
    } else {
        json_object_foreach((json_t *)arguments, key, value)
        {
            json_put_literal(out, between);
            if (s->arguments == ARGUMENTS_ELEMENTS) {
                put_elements(s, key, value, out);
            } else if (s->arguments == ARGUMENTS_PYTHON) {
                json_put_format(out, "%s=", key);
                put_literal(s, value, out);
            } else {
                bool string = json_is_string(value);
                json_put_format(out, "%s%s%s", s->key_open, key,
                                string ? s->string_open : s->other_open);
                if (string)
                    json_put_literal(out, json_string_value(value));
                else
                    json_put_value(out, value);
                json_put_literal(out, s->value_close);
            }
            between = s->arguments == ARGUMENTS_PYTHON ? ", " : s->parameter_separator;
        }
    }
}

// Writes a literal, with `id` in place of an id placeholder.
static void put_with_id(const char *literal, const char *id, struct json_buffer *out)
{
    for (; *literal; literal++)
        if (*literal == DIALECT_ID_PLACE)
            json_put_literal(out, id);
        else
            json_put_raw(out, text_span(literal, 1));
}

void rig_put_call(const struct dialect_syntax *s, const char *name, const char *id,
                  const json_t *arguments, struct json_buffer *out)
{
    put_with_id(s->call_open, id, out);
    json_put_literal(out, name);
    put_with_id(s->name_close, id, out);
    put_arguments(s, arguments, out);
    put_with_id(s->call_close, id, out);
}
