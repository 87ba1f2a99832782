// SPDX-License-Identifier: Apache-2.0
// Completion of JSON objects: see answer.h.
#include "http/api/answer.h"

#include "runtime/text/dialect/scan.h"

bool json_begun(struct text text)
{
    struct json_scan scan;
    json_scan_begin_object(&scan);
    for (size_t i = 0; i < text.bytes; i++)
        if (json_scan_byte(&scan, text.at[i]) == JSON_SCAN_BAD)
            return false;
    return true;
}

struct begun {
    char closers[JSON_SCAN_DEPTH_MAX]; // closing brackets of the open containers
    uint32_t depth;
    bool in_string, escaped;
    bool value; // true if the open or the next string is a value; false: a key
};

// Handles a byte inside a string. Returns true if it ends a string that is a value.
static bool string_byte(struct begun *w, char c)
{
    w->in_string = w->escaped || c != '"';
    w->escaped = !w->escaped && c == '\\';
    return !w->in_string && w->value;
}

// Handles a byte. Returns true if the text may be cut after it: no key or value is incomplete.
static bool begun_byte(struct begun *w, char c)
{
    if (w->in_string)
        return string_byte(w, c);
    bool list = w->depth > 0 && w->closers[w->depth - 1] == ']';
    switch (c) {
    case '{':
    case '[':
        w->closers[w->depth++] = c == '{' ? '}' : ']';
        w->value = c == '[';
        return true;
    case '}':
    case ']':
        w->depth--;
        return true;
    case ',':
        w->value = list;
        return false;
    case ':':
        w->value = true;
        return false;
    case '"':
        w->in_string = true;
        return false;
    default:
        return false;
    }
}

static bool word_ends(struct text before)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text_ends(before, words[i]))
            return true;
    return false;
}

void json_begun_put(struct json_buffer *out, struct text text)
{
    struct begun w = {0};
    size_t kept = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        bool inside = w.in_string;
        if (begun_byte(&w, text.at[i]) || (!inside && word_ends(text_span(text.at, i + 1))))
            kept = i + 1;
        else if (!inside && text.at[i] == ',')
            kept = i; // it ends a number
    }
    if (kept == 0)
        json_put_literal(out, "{");
    json_put_raw(out, text_span(text.at, kept));
    if (kept == 0)
        json_put_literal(out, "}");
    while (kept > 0 && w.depth > 0)
        json_put_raw(out, text_span(&w.closers[--w.depth], 1));
}
