// SPDX-License-Identifier: Apache-2.0
// Reply reader: calls as an object, {"name": ..., "arguments": ...}, with the keys in any order,
// "parameters" instead of "arguments", {"type": "function", "function": {...}} around it, or the
// name as the only key; see read.h.
#include "runtime/text/dialect/read.h"

enum {
    OBJECT_OPEN, // { follows, or [ before it
    OBJECT_FIRST_KEY,
    OBJECT_NEXT_KEY,
    OBJECT_KEY,
    OBJECT_COLON,
    OBJECT_VALUE,
    OBJECT_STRING,    // value of the name or the id
    OBJECT_ARGUMENTS, // arguments before the name is known
    OBJECT_SKIP,      // an ignored value
    OBJECT_AFTER,
};

void read_object_begin(struct reply *r)
{
    r->mode = READ_OBJECT;
    r->object = (struct read_object){.active = true};
    r->name_bytes = r->id_bytes = 0;
}

static void object_failed(struct reply *r, unsigned symbol)
{
    if (r->object.tail) {
        read_between(r);
        read_symbol(r, symbol);
    } else {
        r->from = r->held_count - 1;
        read_head_failed(r);
    }
}

static void key_begin(struct reply *r)
{
    struct read_object *o = &r->object;
    o->state = OBJECT_KEY;
    o->key_bytes = 0;
    o->unescape = (struct json_unescape){0};
    if ((r->row->flags & ROW_KEYED) != 0 && !o->tail)
        r->name_bytes = 0;
}

// Adds a byte to the name or the id. Returns false if it is too long.
static bool string_byte(struct reply *r, bool id, char byte)
{
    uint8_t *bytes = id ? &r->id_bytes : &r->name_bytes;
    if (*bytes == REPLY_NAME_MAX)
        return false;
    (id ? r->id : r->name)[(*bytes)++] = byte;
    return true;
}

// Reads a byte of the name or the id. Returns false if the string is malformed or too long.
static bool string_byte_read(struct reply *r, bool id, char c, bool *over)
{
    char out[8];
    uint32_t bytes;
    enum json_unescape_step step = json_unescape_byte(&r->object.unescape, c, out, &bytes);
    for (uint32_t i = 0; i < bytes; i++)
        if (!string_byte(r, id, out[i]))
            return false;
    *over = step == JSON_UNESCAPE_END;
    return step != JSON_UNESCAPE_BAD;
}

static enum object_key key_kind(const struct read_object *o, bool *known)
{
    static const struct {
        const char *name;
        enum object_key kind;
    } rows[] = {
        {"name", KEY_NAME},  {"tool_name", KEY_NAME},       {"function", KEY_FUNCTION},
        {"id", KEY_ID},      {"tool_call_id", KEY_ID},      {"arguments", KEY_ARGUMENTS},
        {"type", KEY_OTHER}, {"parameters", KEY_ARGUMENTS},
    };
    struct text key = text_span(o->key, o->key_bytes);
    *known = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (text_is(key, rows[i].name))
            return rows[i].kind;
    *known = false;
    return KEY_OTHER;
}

static bool key_over(struct reply *r)
{
    struct read_object *o = &r->object;
    bool known = true, keyed = (r->row->flags & ROW_KEYED) != 0;
    o->kind = keyed ? KEY_ARGUMENTS : (uint8_t)key_kind(o, &known);
    if (o->tail)
        o->kind = KEY_OTHER;
    o->has_name |= keyed && !o->tail;
    o->state = OBJECT_COLON;
    return known || o->tail || !o->bare;
}

static bool key_byte_read(struct reply *r, char c)
{
    struct read_object *o = &r->object;
    bool over = c == '"';
    if ((r->row->flags & ROW_KEYED) != 0 && !o->tail) {
        if (!string_byte_read(r, false, c, &over))
            return false;
    } else if (!over && o->key_bytes < sizeof o->key) {
        o->key[o->key_bytes++] = c;
    }
    return !over || key_over(r);
}

// Reads the arguments that preceded the name.
static void arguments_again(struct reply *r)
{
    size_t from = r->object.arguments_from, to = r->object.arguments_to;
    read_json_begin(r, (char)r->held[from]); // the held symbols stay in memory
    for (size_t i = from + 1; i < to; i++)
        if (r->mode == READ_JSON)
            read_json(r, r->held[i]);
        else if (r->mode == READ_BROKEN)
            read_argument(r, (char)r->held[i]);
    if (r->mode == READ_BROKEN)
        read_call_end(r, false);
    read_between(r);
}

static bool object_close(struct reply *r)
{
    struct read_object *o = &r->object;
    if (o->depth > 0) {
        o->depth--;
        o->state = OBJECT_AFTER;
        return true;
    }
    if (o->tail) {
        read_between(r);
        return true;
    }
    if (!o->has_name || (!o->has_arguments && o->bare))
        return false;
    if (!read_commit(r))
        return true;
    if (o->has_arguments) {
        arguments_again(r);
    } else {
        read_arguments(r, "{}");
        read_call_end(r, true);
    }
    return true;
}

static bool skip_begin(struct reply *r, char c, uint8_t state)
{
    r->object.state = state;
    json_scan_begin(&r->object.scan);
    return json_scan_byte(&r->object.scan, c) != JSON_SCAN_BAD;
}

static bool value_first(struct reply *r, char c)
{
    struct read_object *o = &r->object;
    bool string = c == '"';
    o->unescape = (struct json_unescape){0};
    if (o->kind == KEY_FUNCTION && c == '{') {
        o->depth++;
        o->state = OBJECT_FIRST_KEY;
        return o->depth == 1;
    }
    if (o->kind == KEY_NAME || o->kind == KEY_FUNCTION || (o->kind == KEY_ID && string)) {
        if (o->kind == KEY_ID)
            r->id_bytes = 0;
        else
            r->name_bytes = 0;
        o->state = OBJECT_STRING;
        return string;
    }
    if (o->kind != KEY_ARGUMENTS || c == 'n')
        return skip_begin(r, c, OBJECT_SKIP);
    if (c != '{' && !string)
        return false;
    if (!o->has_name) {
        o->has_arguments = true;
        o->arguments_from = r->held_count - 1;
        return skip_begin(r, c, OBJECT_ARGUMENTS);
    }
    o->state = OBJECT_AFTER;
    if (read_commit(r))
        read_json_begin(r, c);
    return true;
}

static bool between_keys(struct reply *r, char c)
{
    struct read_object *o = &r->object;
    if (o->state == OBJECT_AFTER && c == ',') {
        o->state = OBJECT_NEXT_KEY;
        return true;
    }
    if (c == '}' && o->state != OBJECT_NEXT_KEY)
        return object_close(r);
    if (c != '"' || o->state == OBJECT_AFTER)
        return false;
    key_begin(r);
    return true;
}

static bool object_skip(struct reply *r, char c)
{
    struct read_object *o = &r->object;
    enum json_scan_step step = json_scan_byte(&o->scan, c);
    if (step == JSON_SCAN_BAD)
        return false;
    if (step == JSON_SCAN_MORE)
        return true;
    if (o->state == OBJECT_ARGUMENTS)
        o->arguments_to = r->held_count;
    o->state = OBJECT_AFTER;
    return step == JSON_SCAN_DONE || read_blank((unsigned char)c) || between_keys(r, c);
}

static bool object_string(struct reply *r, char c)
{
    struct read_object *o = &r->object;
    bool over;
    if (!string_byte_read(r, o->kind == KEY_ID, c, &over))
        return false;
    if (over) {
        o->state = OBJECT_AFTER;
        o->has_name |= o->kind != KEY_ID;
    }
    return true;
}

static bool object_open(struct reply *r, char c)
{
    if (c == '[' && !r->object.list)
        return r->object.list = true;
    r->object.state = OBJECT_FIRST_KEY;
    r->object.item = r->held_count - 1;
    return c == '{';
}

static bool object_byte(struct reply *r, char c)
{
    uint8_t state = r->object.state;
    bool inside = state == OBJECT_KEY || state == OBJECT_STRING || state == OBJECT_SKIP ||
                  state == OBJECT_ARGUMENTS;
    if (!inside && read_blank((unsigned char)c))
        return true;
    switch (state) {
    case OBJECT_OPEN:
        return object_open(r, c);
    case OBJECT_KEY:
        return key_byte_read(r, c);
    case OBJECT_COLON:
        r->object.state = OBJECT_VALUE;
        return c == ':';
    case OBJECT_VALUE:
        return value_first(r, c);
    case OBJECT_STRING:
        return object_string(r, c);
    case OBJECT_ARGUMENTS:
    case OBJECT_SKIP:
        return object_skip(r, c);
    default:
        return between_keys(r, c);
    }
}

void read_object_held(struct reply *r)
{
    unsigned symbol = r->held[r->held_count - 1];
    bool python = (r->row->flags & ROW_PYTHON_TOO) != 0 && r->object.state == OBJECT_OPEN &&
                  (symbol | 0x20) >= 'a' && (symbol | 0x20) <= 'z';
    if (python) { // NAME.call(...)
        r->form = FORM_PYTHON;
        r->object.active = false;
        r->from = r->held_count - 1;
        read_name_begin(r);
        read_name_symbols(r);
    } else if ((symbol & READ_SPECIAL) != 0 || !object_byte(r, (char)symbol)) {
        object_failed(r, symbol);
    }
}

void read_object(struct reply *r, unsigned symbol)
{
    if (!r->object.tail) {
        if (read_hold(r, symbol))
            read_object_held(r);
    } else if ((symbol & READ_SPECIAL) != 0 || !object_byte(r, (char)symbol)) {
        object_failed(r, symbol);
    }
}
