// SPDX-License-Identifier: Apache-2.0
// Values as text; see jinja/internal.h. Text of the request stays marked as such. If a string is
// rewritten (quoted, escaped), the entire result is marked if any part of the string was.
#include "runtime/text/jinja/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

size_t jinja_float_text(double real, char out[FLOAT_TEXT_MAX])
{
    if (isnan(real) || isinf(real))
        return (size_t)snprintf(out, FLOAT_TEXT_MAX, "%s",
                                isnan(real) ? "nan"
                                : real > 0  ? "inf"
                                            : "-inf");
    char shortest[FLOAT_TEXT_MAX];
    for (int digits = 0; digits <= 16; digits++) {
        snprintf(shortest, sizeof shortest, "%.*e", digits, real);
        if (strtod(shortest, NULL) == real)
            break;
    }
    char *mark = strchr(shortest, 'e');
    int exponent = (int)strtol(mark + 1, NULL, 10);
    int digits = (int)(mark - shortest) - (shortest[0] == '-');
    digits -= digits > 1; // without the decimal point
    if (exponent >= -4 && exponent < 16) {
        int decimals = digits - 1 - exponent;
        return (size_t)snprintf(out, FLOAT_TEXT_MAX, "%.*f", decimals > 0 ? decimals : 1, real);
    }
    return (size_t)snprintf(out, FLOAT_TEXT_MAX, "%.*se%c%02d", (int)(mark - shortest), shortest,
                            exponent < 0 ? '-' : '+', abs(exponent));
}

static bool put_format(struct jinja_run *run, struct jinja_builder *b, const char *format,
                       const char *text)
{
    char line[256];
    snprintf(line, sizeof line, format, text);
    return jinja_builder_literal(run, b, line);
}

static bool put_number(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value)
{
    char text[FLOAT_TEXT_MAX];
    if (value.kind == JINJA_WIDE)
        return jinja_builder_add(run, b, value.as.wide->digits, false);
    if (value.kind == JINJA_FLOAT)
        jinja_float_text(value.as.real, text);
    else
        snprintf(text, sizeof text, "%" PRId64, value.as.integer);
    return jinja_builder_literal(run, b, text);
}

// Writes the escape of one character in a repr. Returns its length; 0: none is needed.
static size_t repr_escape(uint32_t point, char quote, char out[16])
{
    const char *simple = point == '\n'   ? "\\n"
                         : point == '\r' ? "\\r"
                         : point == '\t' ? "\\t"
                         : point == '\\' ? "\\\\"
                                         : NULL;
    if (simple)
        return (size_t)snprintf(out, 16, "%s", simple);
    if (point == (uint32_t)quote)
        return (size_t)snprintf(out, 16, "\\%c", quote);
    if (jinja_char_is_printable(point))
        return 0;
    return (size_t)snprintf(out, 16,
                            point < 0x100     ? "\\x%02x"
                            : point < 0x10000 ? "\\u%04x"
                                              : "\\U%08x",
                            point);
}

static bool repr_string(struct jinja_run *run, struct jinja_builder *b,
                        const struct jinja_string *string)
{
    struct text text = jinja_string_text(string);
    bool untrusted = jinja_string_is_untrusted(string);
    bool single = text.bytes > 0 && memchr(text.at, '\'', text.bytes);
    bool twofold = text.bytes > 0 && memchr(text.at, '"', text.bytes);
    char quote = single && !twofold ? '"' : '\'';
    if (string->markup && !jinja_builder_literal(run, b, "Markup("))
        return false;
    if (!jinja_builder_add(run, b, text_span(&quote, 1), untrusted))
        return false;
    size_t from = 0;
    for (size_t at = 0; at < text.bytes;) {
        uint32_t point;
        char escape[16];
        size_t bytes = jinja_utf8_next(text, at, &point);
        size_t escaped = repr_escape(point, quote, escape);
        at += bytes;
        if (escaped == 0)
            continue;
        if (!jinja_builder_add(run, b, text_span(text.at + from, at - bytes - from), untrusted) ||
            !jinja_builder_add(run, b, text_span(escape, escaped), untrusted))
            return false;
        from = at;
    }
    return jinja_builder_add(run, b, text_span(text.at + from, text.bytes - from), untrusted) &&
           jinja_builder_add(run, b, text_span(&quote, 1), untrusted) &&
           (!string->markup || jinja_builder_literal(run, b, ")"));
}

static bool repr_range(struct jinja_run *run, struct jinja_builder *b,
                       const struct jinja_list *list)
{
    int64_t first = list->count > 0 ? list->items[0].as.integer : 0;
    int64_t step = list->count > 1 ? list->items[1].as.integer - first : 1;
    int64_t stop = first + (int64_t)list->count * step;
    char text[128];
    if (list->range) {
        first = list->range[0];
        stop = list->range[1];
        step = list->range[2];
    }
    snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, first, stop);
    if (step != 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", %" PRId64, step);
    return jinja_builder_literal(run, b, text) && jinja_builder_literal(run, b, ")");
}

static bool repr_list(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value)
{
    static const char *const opens[] = {"[",           "(", "", "dict_keys([", "dict_values([",
                                        "dict_items(["};
    static const char *const closes[] = {"]", ")", "", "])", "])", "])"};
    const struct jinja_list *list = value.as.list;
    if (value.flavour == JINJA_IS_RANGE)
        return repr_range(run, b, list);
    if (value.flavour == JINJA_IS_ITERATOR)
        return jinja_builder_literal(run, b, "<generator object>");
    if (!jinja_builder_literal(run, b, opens[value.flavour]))
        return false;
    for (size_t i = 0; i < list->count; i++)
        if ((i > 0 && !jinja_builder_literal(run, b, ", ")) || !jinja_repr(run, b, list->items[i]))
            return false;
    if (value.flavour == JINJA_IS_TUPLE && list->count == 1 && !jinja_builder_literal(run, b, ","))
        return false;
    return jinja_builder_literal(run, b, closes[value.flavour]);
}

static bool repr_dict(struct jinja_run *run, struct jinja_builder *b, const struct jinja_dict *dict)
{
    if (!jinja_builder_literal(run, b, "{"))
        return false;
    for (size_t i = 0; i < dict->count; i++)
        if ((i > 0 && !jinja_builder_literal(run, b, ", ")) ||
            !jinja_repr(run, b, dict->pairs[i].key) || !jinja_builder_literal(run, b, ": ") ||
            !jinja_repr(run, b, dict->pairs[i].value))
            return false;
    return jinja_builder_literal(run, b, "}");
}

static bool repr_namespace(struct jinja_run *run, struct jinja_builder *b,
                           const struct jinja_namespace *space)
{
    if (!jinja_builder_literal(run, b, "<Namespace {"))
        return false;
    for (uint32_t i = 0; i < space->count; i++) {
        struct jinja_string name = {
            .at = space->items[i].name.at, .bytes = space->items[i].name.bytes, .untrusted = true};
        if ((i > 0 && !jinja_builder_literal(run, b, ", ")) || !repr_string(run, b, &name) ||
            !jinja_builder_literal(run, b, ": ") || !jinja_repr(run, b, space->items[i].value))
            return false;
    }
    return jinja_builder_literal(run, b, "}>");
}

static bool repr_inner(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value)
{
    switch (value.kind) {
    case JINJA_NONE:
        return jinja_builder_literal(run, b, "None");
    case JINJA_BOOL:
        return jinja_builder_literal(run, b, value.as.boolean ? "True" : "False");
    case JINJA_INT:
    case JINJA_WIDE:
    case JINJA_FLOAT:
        return put_number(run, b, value);
    case JINJA_STRING:
        return repr_string(run, b, value.as.string);
    case JINJA_LIST:
        return repr_list(run, b, value);
    case JINJA_DICT:
        return repr_dict(run, b, value.as.dict);
    case JINJA_NAMESPACE:
        return repr_namespace(run, b, value.as.space);
    case JINJA_MACRO:
        if (value.as.macro->node->name == NAME_CALLER)
            return jinja_builder_literal(run, b, "<Macro anonymous>");
        return jinja_builder_literal(run, b, "<Macro '") &&
               jinja_builder_add(run, b, value.as.macro->node->text, false) &&
               jinja_builder_literal(run, b, "'>");
    case JINJA_UNDEFINED:
        return jinja_builder_literal(run, b, "Undefined");
    default:
        return put_format(run, b, "<%s>", jinja_kind_name(value));
    }
}

bool jinja_repr(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value)
{
    if (run->depth >= JINJA_DEPTH_MAX)
        return jinja_fail(run, STATUS_TOO_LARGE, "a value is nested too deeply to print");
    run->depth++;
    bool fine = jinja_spend(run, 1) && repr_inner(run, b, value);
    run->depth--;
    return fine;
}

bool jinja_print(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value)
{
    if (value.kind == JINJA_UNDEFINED)
        return true;
    if (value.kind == JINJA_STRING)
        return jinja_builder_string(run, b, value.as.string);
    return jinja_repr(run, b, value);
}

bool jinja_to_string(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    *out = value;
    if (value.kind == JINJA_STRING)
        return true;
    struct jinja_builder *b = jinja_builder_create(run);
    return b && jinja_print(run, b, value) && jinja_builder_done(run, b, out);
}
