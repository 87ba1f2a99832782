// SPDX-License-Identifier: Apache-2.0
// Reply reader: arguments as nested elements, converted to JSON while they arrive; see read.h. An
// element that contains elements is an object, or an array if they are called "item" and the schema
// does not exclude it; all other elements are values (parameters.c).
#include "runtime/text/dialect/read.h"

enum { ELEMENTS_CONTENT, ELEMENTS_TAG };

void read_elements_begin(struct reply *r)
{
    r->mode = READ_ELEMENTS;
    r->held_count = r->from = 0;
    r->literal = ELEMENTS_CONTENT;
    r->depth = 1;
    r->levels[0] = (struct read_level){.kind = '{', .schema = r->schema};
    r->value.decided = true; // there is no value
    read_arguments(r, "{");
}

// The first element inside of an element decides whether it is an object or an array.
static void container_open(struct reply *r, struct text tag)
{
    struct read_level *level = &r->levels[r->depth - 1];
    unsigned types = tool_types(r->schema, level->schema);
    if (types != 0 && (types & (SCHEMA_ARRAY | SCHEMA_OBJECT)) == 0)
        r->unread = true; // an end tag is missing
    bool list = text_is(tag, "item");
    if (types != 0 && (types & SCHEMA_ARRAY) == 0)
        list = false;
    level->kind = list ? '[' : '{';
    read_argument(r, level->kind);
}

static uint32_t tag_hash(struct text tag)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < tag.bytes; i++)
        hash = (hash ^ (unsigned char)tag.at[i]) * 16777619u;
    return hash;
}

static void element_open(struct reply *r, struct text tag)
{
    struct read_level *parent = &r->levels[r->depth - 1];
    if (r->depth == READ_DEPTH_MAX ||
        (parent->kind == 0 && (r->value.decided || r->value.streams))) {
        r->mode = READ_BROKEN;
        return;
    }
    if (parent->kind == 0)
        container_open(r, tag);
    if (parent->filled)
        read_argument(r, ',');
    parent->filled = true;
    const json_t *schema = NULL;
    if (parent->kind == '{') {
        read_argument(r, '"');
        for (size_t i = 0; i < tag.bytes; i++)
            read_argument_escaped(r, tag.at[i]);
        read_arguments(r, "\":");
        schema = tool_property(r->schema, parent->schema, tag);
    } else {
        schema = tool_items(r->schema, parent->schema);
    }
    r->levels[r->depth++] = (struct read_level){.schema = schema, .name = tag_hash(tag)};
    read_value_begin(r, tool_types(r->schema, schema), false);
}

static void element_close(struct reply *r)
{
    struct read_level *level = &r->levels[r->depth - 1];
    bool empty = r->value.held.bytes == 0 && !r->value.streams;
    unsigned types = level->kind == 0 ? tool_types(r->schema, level->schema) : 0;
    if (level->kind != 0)
        read_argument(r, level->kind == '{' ? '}' : ']');
    else if (empty && types == SCHEMA_OBJECT)
        read_arguments(r, "{}");
    else if (empty && types == SCHEMA_ARRAY)
        read_arguments(r, "[]");
    else
        read_value_close(r);
    r->value.decided = true;
    r->depth--;
}

// Ends the call; the end tags of open elements are missing. Only the last one may be.
static void call_over(struct reply *r)
{
    while (r->depth > 1) {
        r->unread |= r->depth > 2 || r->levels[r->depth - 1].kind != 0;
        element_close(r);
        r->unread |= r->mode == READ_BROKEN;
    }
    read_arguments(r, "}");
    read_call_end(r, true);
}

// Another call begins inside of this one, whose end tag is missing.
static void call_next(struct reply *r)
{
    const struct dialect *d = r->args.dialect;
    char tag[READ_KEY_MAX];
    uint32_t bytes = r->key_bytes, i = 0, now = r->at;
    memcpy(tag, r->key, bytes);
    while (d->markers[i].role != ROLE_TAG)
        i++;
    const struct dialect_marker *mark = &d->markers[i];
    r->unread |= r->depth > 1 || !r->levels[0].filled;
    call_over(r);
    uint32_t count = mark->count + bytes + 1;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = k - mark->count;
        r->at = now + 1 - (count - k);
        read_symbol(r, k < mark->count ? mark->symbols[k]
                       : at < bytes    ? (unsigned char)tag[at]
                                       : '>');
    }
    r->at = now;
}

static void tag_over(struct reply *r)
{
    struct text tag = text_span(r->key, r->key_bytes);
    r->literal = ELEMENTS_CONTENT;
    static const char call[] = "invoke name=\"";
    if (tag.bytes >= sizeof call && memcmp(tag.at, call, sizeof call - 1) == 0) {
        call_next(r);
        return;
    }
    if (tag.bytes == 0 || tag.at[0] != '/') {
        element_open(r, tag);
        return;
    }
    struct text name = text_span(tag.at + 1, tag.bytes - 1);
    bool fits = r->depth > 1 && r->levels[r->depth - 1].name == tag_hash(name);
    if (!fits && text_is(name, "invoke")) {
        call_over(r);
    } else if (!fits && text_is(name, "tool_call")) {
        call_over(r);
        read_marker_in_call(r, ROLE_SECTION_CLOSE);
    } else {
        r->unread |= !fits;
        if (r->depth > 1)
            element_close(r);
    }
}

// Symbols between elements do not belong to the arguments; symbols of an element without nested
// elements belong to its value.
static void element_content(struct reply *r, unsigned symbol)
{
    if (r->levels[r->depth - 1].kind == 0)
        read_value_put(r, symbol);
    else
        r->unread |= !read_blank(symbol);
}

void read_elements(struct reply *r, unsigned symbol)
{
    if (r->literal == ELEMENTS_TAG) {
        if (symbol == '>')
            tag_over(r);
        else if (r->key_bytes < sizeof r->key)
            r->key[r->key_bytes++] = (char)symbol;
        else
            read_key_too_long(r, symbol);
        return;
    }
    if (r->held_count == 0 && !r->first_of[symbol & 0xFF]) {
        element_content(r, symbol);
        return;
    }
    read_hold(r, symbol);
    while (r->mode == READ_ELEMENTS && r->held_count > 0) {
        int marker = read_try(r, ROLE_BIT(ROLE_TAG));
        if (marker >= 0) {
            r->held_count = 0;
            r->key_bytes = 0;
            r->literal = ELEMENTS_TAG;
        }
        if (marker != TRY_NONE)
            return;
        unsigned first = r->held[0];
        read_drop(r, 1);
        element_content(r, first);
    }
}

void read_elements_cut(struct reply *r)
{
    bool opens = r->literal == ELEMENTS_TAG && r->key_bytes > 0 && r->key[0] != '/';
    if (!opens && r->levels[r->depth - 1].kind == 0)
        read_value_cut(r);
}
