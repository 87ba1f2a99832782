// SPDX-License-Identifier: Apache-2.0
// The tojson filter: JSON like that of Python's json.dumps, with the options that chat templates
// set. It is not escaped for HTML, because a prompt is not HTML. The entire output is marked as
// text of the request.
#include "runtime/text/jinja/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static bool json_write(struct jinja_run *run, struct jinja_builder *b, struct text text)
{
    return jinja_builder_add(run, b, text, true);
}

static size_t json_escape(uint32_t point, bool ascii, char out[16])
{
    static const char from[] = "\"\\\n\r\t\f\b";
    static const char to[] = "\"\\nrtfb";
    const char *simple = point != 0 && point < 0x80 ? strchr(from, (int)point) : NULL;
    if (simple)
        return (size_t)snprintf(out, 16, "\\%c", to[simple - from]);
    if (point >= 0x20 && (point < 0x7f || !ascii))
        return 0;
    if (point >= 0x10000)
        return (size_t)snprintf(out, 16, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                                0xdc00 + ((point - 0x10000) & 0x3ff));
    return (size_t)snprintf(out, 16, "\\u%04x", point);
}

static bool json_text(struct jinja_run *run, struct jinja_builder *b, struct text text, bool ascii)
{
    size_t from = 0;
    if (!json_write(run, b, text_of("\"")))
        return false;
    for (size_t at = 0; at < text.bytes;) {
        uint32_t point;
        char escape[16];
        size_t bytes = jinja_utf8_next(text, at, &point);
        size_t escaped = json_escape(point, ascii, escape);
        at += bytes;
        if (escaped == 0)
            continue;
        if (!json_write(run, b, text_span(text.at + from, at - bytes - from)) ||
            !json_write(run, b, text_span(escape, escaped)))
            return false;
        from = at;
    }
    return json_write(run, b, text_span(text.at + from, text.bytes - from)) &&
           json_write(run, b, text_of("\""));
}

static struct text scalar_text(struct jinja_value value, char out[FLOAT_TEXT_MAX])
{
    switch (value.kind) {
    case JINJA_NONE:
        return text_of("null");
    case JINJA_BOOL:
        return text_of(value.as.boolean ? "true" : "false");
    case JINJA_INT:
        snprintf(out, FLOAT_TEXT_MAX, "%" PRId64, value.as.integer);
        return text_of(out);
    case JINJA_WIDE:
        return value.as.wide->digits;
    case JINJA_FLOAT:
        if (isnan(value.as.real))
            return text_of("NaN");
        if (isinf(value.as.real))
            return text_of(value.as.real > 0 ? "Infinity" : "-Infinity");
        jinja_float_text(value.as.real, out);
        return text_of(out);
    default:
        return (struct text){NULL, 0};
    }
}

struct json_writer {
    struct jinja_run *run;
    struct jinja_builder *b;
    const struct jinja_json *form;
    uint32_t level;
};

static bool json_inner(struct json_writer *w, struct jinja_value value);

static bool line_break(struct json_writer *w)
{
    if (!w->form->indent.at)
        return true;
    if (!json_write(w->run, w->b, text_of("\n")))
        return false;
    for (uint32_t i = 0; i < w->level; i++)
        if (!jinja_spend(w->run, 1) || !json_write(w->run, w->b, w->form->indent))
            return false;
    return true;
}

static bool json_key(struct json_writer *w, struct jinja_value key)
{
    char number[FLOAT_TEXT_MAX];
    struct text text =
        key.kind == JINJA_STRING ? jinja_string_text(key.as.string) : scalar_text(key, number);
    if (!text.at)
        return jinja_fail(w->run, STATUS_INVALID, "tojson: a key of type %s is not possible",
                          jinja_kind_name(key));
    return json_text(w->run, w->b, text, w->form->ascii) &&
           json_write(w->run, w->b, w->form->between_key);
}

// Returns the pairs sorted by key; NULL after failing.
static const struct jinja_pair *pairs_sorted(struct jinja_run *run, const struct jinja_dict *dict)
{
    size_t count = dict->count;
    struct jinja_value *keys = jinja_alloc(run, 2 * count, sizeof *keys);
    struct jinja_pair *pairs = jinja_alloc(run, count, sizeof *pairs);
    for (size_t i = 0; keys && pairs && i < count; i++) {
        keys[i] = dict->pairs[i].key;
        keys[count + i] = dict->pairs[i].value;
    }
    if (!keys || !pairs || !jinja_sort(run, keys, keys + count, count, false))
        return NULL;
    for (size_t i = 0; i < count; i++)
        pairs[i] = (struct jinja_pair){.key = keys[i], .value = keys[count + i]};
    return pairs;
}

static bool json_dict(struct json_writer *w, const struct jinja_dict *dict)
{
    const struct jinja_pair *pairs = w->form->sorted ? pairs_sorted(w->run, dict) : dict->pairs;
    if ((w->form->sorted && !pairs) || !json_write(w->run, w->b, text_of("{")))
        return false;
    w->level++;
    for (size_t i = 0; i < dict->count; i++)
        if ((i > 0 && !json_write(w->run, w->b, w->form->between_items)) || !line_break(w) ||
            !json_key(w, pairs[i].key) || !json_inner(w, pairs[i].value))
            return false;
    w->level--;
    return (dict->count == 0 || line_break(w)) && json_write(w->run, w->b, text_of("}"));
}

static bool json_list(struct json_writer *w, const struct jinja_list *list)
{
    if (!json_write(w->run, w->b, text_of("[")))
        return false;
    w->level++;
    for (size_t i = 0; i < list->count; i++)
        if ((i > 0 && !json_write(w->run, w->b, w->form->between_items)) || !line_break(w) ||
            !json_inner(w, list->items[i]))
            return false;
    w->level--;
    return (list->count == 0 || line_break(w)) && json_write(w->run, w->b, text_of("]"));
}

static bool json_inner(struct json_writer *w, struct jinja_value value)
{
    char number[FLOAT_TEXT_MAX];
    struct text scalar = scalar_text(value, number);
    if (scalar.at)
        return jinja_spend(w->run, 1) && json_write(w->run, w->b, scalar);
    if (value.kind == JINJA_STRING)
        return json_text(w->run, w->b, jinja_string_text(value.as.string), w->form->ascii);
    bool list = value.kind == JINJA_LIST && value.flavour <= JINJA_IS_TUPLE;
    if (!list && value.kind != JINJA_DICT)
        return jinja_fail(w->run, STATUS_INVALID, "tojson: a value of type %s is not possible",
                          jinja_kind_name(value));
    if (w->run->depth >= JINJA_DEPTH_MAX)
        return jinja_fail(w->run, STATUS_TOO_LARGE, "tojson: the value is nested too deeply");
    w->run->depth++;
    bool fine = jinja_spend(w->run, 1) &&
                (list ? json_list(w, value.as.list) : json_dict(w, value.as.dict));
    w->run->depth--;
    return fine;
}

bool jinja_json(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value,
                const struct jinja_json *form)
{
    struct json_writer w = {.run = run, .b = b, .form = form};
    return json_inner(&w, value);
}
