// SPDX-License-Identifier: Apache-2.0
// Filters of strings and numbers.
#include "runtime/text/jinja/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Returns the operand as a string, whatever its type, as Jinja does.
static bool self_string(struct jinja_run *run, const struct jinja_call *call,
                        const struct jinja_string **out)
{
    struct jinja_value text;
    if (!jinja_to_string(run, call->self, &text))
        return false;
    *out = text.as.string;
    return true;
}

// For filters that call a string method: fails unless the operand is a string.
static bool self_must_be_string(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_self_check(run, call, call->self.kind == JINJA_STRING, "a string");
}

static bool filter_tojson(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_builder *b = jinja_builder_create(run);
    struct jinja_json form = {.between_items = text_of(", "), .between_key = text_of(": ")};
    if (!b)
        return false;
    form.ascii = jinja_arg_bool(call, 0, false);
    form.sorted = jinja_arg_bool(call, 3, false);
    if (jinja_arg_given(call, 1) && call->args[1].kind == JINJA_STRING) {
        form.indent = jinja_string_text(call->args[1].as.string);
    } else if (jinja_arg_given(call, 1)) {
        int64_t width = 0;
        static const char blanks[] = "                                ";
        if (!jinja_arg_int(run, call, 1, &width))
            return false;
        width = width < 0 ? 0 : width;
        if (width >= (int64_t)sizeof blanks)
            return jinja_fail(run, STATUS_TOO_LARGE, "tojson: the indent is too wide");
        form.indent = text_span(blanks, (size_t)width);
    }
    if (form.indent.at)
        form.between_items = text_of(",");
    if (jinja_arg_given(call, 2)) {
        struct jinja_list pair;
        if (!jinja_iterate(run, call->args[2], &pair))
            return false;
        if (pair.count != 2 || pair.items[0].kind != JINJA_STRING ||
            pair.items[1].kind != JINJA_STRING)
            return jinja_fail(run, STATUS_INVALID, "tojson: separators must be two strings");
        form.between_items = jinja_string_text(pair.items[0].as.string);
        form.between_key = jinja_string_text(pair.items[1].as.string);
    }
    return jinja_json(run, b, call->self, &form) && jinja_builder_done(run, b, out);
}

static bool filter_form(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    const struct jinja_string *string;
    enum text_form form = call->name[0] == 'u'   ? FORM_UPPER
                          : call->name[0] == 'l' ? FORM_LOWER
                          : call->name[0] == 't' ? FORM_WORDS
                                                 : FORM_CAPITALIZE;
    return self_string(run, call, &string) && jinja_change_case(run, string, form, out);
}

static bool filter_trim(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    const struct jinja_string *string;
    const struct jinja_string *chars = NULL;
    if (!self_string(run, call, &string) ||
        (jinja_arg_given(call, 0) && !jinja_arg_string(run, call, 0, &chars)))
        return false;
    return jinja_strip(run, string, chars, STRIP_BOTH, out);
}

static bool filter_string(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return jinja_to_string(run, call->self, out);
}

static bool filter_safe(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    const struct jinja_string *string;
    return self_string(run, call, &string) && jinja_string_markup(run, string, out);
}

static bool filter_escape(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    const struct jinja_string *string;
    *out = call->self;
    if (call->self.kind == JINJA_STRING && call->self.as.string->markup && call->name[0] == 'e')
        return true;
    return self_string(run, call, &string) && jinja_string_escape(run, string, out);
}

static bool filter_replace(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    const struct jinja_string *string;
    struct jinja_value old;
    struct jinja_value with;
    struct replacement r = {.count = -1};
    if (!self_string(run, call, &string) || !jinja_to_string(run, call->args[0], &old) ||
        !jinja_to_string(run, call->args[1], &with) ||
        (jinja_arg_given(call, 2) && !jinja_arg_int(run, call, 2, &r.count)))
        return false;
    r.old = old.as.string;
    r.with = with.as.string;
    return jinja_replace(run, string, &r, out);
}

static bool filter_int(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    int64_t base = 10;
    int64_t integer;
    double real = NAN;
    *out = call->args[0].kind == JINJA_MISSING ? jinja_int(0) : call->args[0];
    if (!jinja_arg_int(run, call, 1, &base))
        return false;
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    if (call->self.kind == JINJA_INT || call->self.kind == JINJA_BOOL) {
        *out = jinja_int(jinja_as_int(call->self));
        return true;
    }
    if (call->self.kind == JINJA_WIDE) {
        *out = call->self;
        return true;
    }
    if (call->self.kind == JINJA_STRING && base >= 0 && base <= 36 && base != 1) {
        struct text text = jinja_string_text(call->self.as.string);
        if (jinja_parse_int(text, (int)base, &integer)) {
            *out = jinja_int(integer);
            return true;
        }
        if (!jinja_parse_float(text, &real))
            return true;
    } else if (call->self.kind == JINJA_FLOAT) {
        real = call->self.as.real;
    }
    if (isnan(real) || isinf(real))
        return true;
    if (fabs(real) >= 9.2e18)
        return jinja_fail(run, STATUS_INVALID, "an integer does not fit 64 bits");
    *out = jinja_int((int64_t)real);
    return true;
}

static bool filter_float(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    double real;
    *out = call->args[0].kind == JINJA_MISSING ? jinja_float(0) : call->args[0];
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    if (jinja_is_number(call->self))
        *out = jinja_float(jinja_as_double(call->self));
    else if (call->self.kind == JINJA_STRING &&
             jinja_parse_float(jinja_string_text(call->self.as.string), &real))
        *out = jinja_float(real);
    return true;
}

static bool filter_abs(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    if (call->self.kind == JINJA_FLOAT) {
        *out = jinja_float(fabs(call->self.as.real));
        return true;
    }
    if (!jinja_self_check(run, call, jinja_is_number(call->self), "a number"))
        return false;
    if (call->self.kind == JINJA_WIDE)
        return jinja_wide_signed(run, call->self, call->self.as.wide->nearest < 0, out);
    int64_t value = jinja_as_int(call->self);
    return jinja_binary(run, '*', jinja_int(value), jinja_int(value < 0 ? -1 : 1), out);
}

// Rounds correctly, half to even, like Python's round().
static double round_to(double real, int64_t digits)
{
    char text[512];
    if (digits > 17 || isnan(real) || isinf(real))
        return real;
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, real);
        return strtod(text, NULL);
    }
    double unit = pow(10, (double)-digits);
    return isinf(unit) ? 0 : nearbyint(real / unit) * unit;
}

static bool filter_round(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    int64_t digits = 0;
    const struct jinja_string *how = NULL;
    if (!jinja_self_check(run, call, jinja_is_number(call->self), "a number") ||
        !jinja_arg_int(run, call, 0, &digits) || !jinja_arg_string(run, call, 1, &how))
        return false;
    struct text method = how ? jinja_string_text(how) : text_of("common");
    double real = jinja_as_double(call->self);
    if (call->self.kind == JINJA_WIDE && text_is(method, "common")) {
        *out = call->self;
        return digits >= 0 || jinja_fail(run, STATUS_INVALID, "an integer does not fit 64 bits");
    }
    if (text_is(method, "common")) {
        bool whole = call->self.kind != JINJA_FLOAT && digits >= 0;
        *out = whole ? jinja_int(jinja_as_int(call->self)) : jinja_float(round_to(real, digits));
        if (!whole && call->self.kind != JINJA_FLOAT)
            *out = jinja_int((int64_t)out->as.real);
        return true;
    }
    if (!text_is(method, "ceil") && !text_is(method, "floor"))
        return jinja_fail(run, STATUS_INVALID, "round: the method is common, ceil or floor");
    double unit = pow(10, (double)digits);
    double scaled = text_is(method, "ceil") ? ceil(real * unit) : floor(real * unit);
    *out = jinja_float(scaled / unit);
    return true;
}

static bool filter_indent(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_items lines = {0};
    struct jinja_value indent;
    struct jinja_string blank = {.at = " ", .bytes = 1};
    int64_t width = 4;
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b || !self_must_be_string(run, call))
        return false;
    if (call->args[0].kind == JINJA_STRING)
        indent = call->args[0];
    else if (!jinja_arg_int(run, call, 0, &width) ||
             !jinja_string_repeat(run, &blank, width, &indent))
        return false;
    bool first = jinja_arg_bool(call, 1, false);
    bool blanks = jinja_arg_bool(call, 2, false);
    const struct jinja_string *string = call->self.as.string;
    if (!jinja_lines(run, string, false, &lines))
        return false;
    // Jinja first appends a newline, so a string that ends with a line end has an empty last line.
    bool ended = string->bytes == 0;
    if (string->bytes > 0) {
        struct jinja_items kept = {0};
        if (!jinja_lines(run, string, true, &kept))
            return false;
        ended = kept.items[kept.count - 1].as.string->bytes !=
                    lines.items[lines.count - 1].as.string->bytes &&
                // A final \r and the appended newline are one line end.
                string->at[string->bytes - 1] != '\r';
    }
    struct jinja_value empty;
    if (ended && (!jinja_string_make(run, text_of(""), false, &empty) ||
                  !jinja_items_add(run, &lines, empty)))
        return false;
    for (size_t i = 0; i < lines.count; i++) {
        const struct jinja_string *line = lines.items[i].as.string;
        bool shifted = i == 0 ? first : blanks || line->bytes > 0;
        if ((i > 0 && !jinja_builder_literal(run, b, "\n")) ||
            (shifted && !jinja_builder_string(run, b, indent.as.string)) ||
            !jinja_builder_string(run, b, line))
            return false;
    }
    return jinja_builder_done(run, b, out);
}

// True if the value is no string and has a length of at most `most`.
static bool is_short(struct jinja_value value, int64_t most)
{
    bool list = value.kind == JINJA_LIST && value.flavour != JINJA_IS_ITERATOR;
    size_t count = list                       ? value.as.list->count
                   : value.kind == JINJA_DICT ? value.as.dict->count
                                              : 0;
    return (list || value.kind == JINJA_DICT || value.kind == JINJA_UNDEFINED) &&
           (int64_t)count <= most;
}

static bool filter_truncate(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out)
{
    int64_t length = 255;
    int64_t leeway = 5;
    const struct jinja_string dots = {.at = "...", .bytes = 3};
    const struct jinja_string *end = &dots;
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b || !jinja_arg_int(run, call, 0, &length) || !jinja_arg_string(run, call, 2, &end) ||
        (jinja_arg_given(call, 3) && !jinja_arg_int(run, call, 3, &leeway)))
        return false;
    *out = call->self;
    if (length >= 3 && length < 1000000 && leeway >= 0 && leeway < 1000000 &&
        is_short(call->self, length + leeway))
        return true;
    if (!self_must_be_string(run, call))
        return false;
    const struct jinja_string *string = call->self.as.string;
    struct text text = jinja_string_text(string);
    int64_t tail = (int64_t)jinja_utf8_count(jinja_string_text(end));
    if (length < tail || leeway < 0)
        return jinja_fail(run, STATUS_INVALID, "truncate: the length is too small");
    *out = call->self;
    if (!jinja_spend(run, 1 + text.bytes / 32) ||
        (int64_t)jinja_utf8_count(text) - leeway <= length)
        return run->status == STATUS_OK;
    size_t kept = jinja_utf8_offset(text, (size_t)(length - tail));
    if (!jinja_arg_bool(call, 1, false)) {
        const char *space = memrchr(text.at, ' ', kept);
        kept = space ? (size_t)(space - text.at) : kept;
    }
    return jinja_builder_part(run, b, string, 0, kept) && jinja_builder_string(run, b, end) &&
           jinja_builder_done(run, b, out);
}

static bool filter_wordcount(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    const struct jinja_string *string;
    if (!self_string(run, call, &string) || !jinja_spend(run, 1 + string->bytes / 16))
        return false;
    struct text text = jinja_string_text(string);
    int64_t count = 0;
    bool inside = false;
    for (size_t at = 0; at < text.bytes;) {
        uint32_t point;
        at += jinja_utf8_next(text, at, &point);
        bool word = jinja_char_is_alpha(point) || jinja_char_is_numeric(point) || point == '_';
        count += word && !inside;
        inside = word;
    }
    *out = jinja_int(count);
    return true;
}

static bool filter_format(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    const struct jinja_string *string;
    struct jinja_value args;
    bool named = call->keyword_count > 0;
    if (!self_string(run, call, &string))
        return false;
    if (named && call->count > 0)
        return jinja_fail(run, STATUS_INVALID, "format: positions and names do not mix");
    return (named ? jinja_keywords_dict(run, call, &args)
                  : jinja_args_list(run, call, 0, JINJA_IS_TUPLE, &args)) &&
           jinja_format_percent(run, string, args, out);
}

static bool filter_center(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_call padded = *call;
    struct jinja_value width = jinja_int(80);
    if (!jinja_to_string(run, call->self, &padded.self))
        return false;
    if (call->args[0].kind != JINJA_MISSING)
        width = call->args[0];
    padded.args = &width;
    padded.count = 1;
    return jinja_row_call(run, jinja_method_find(padded.self, text_of("center")), &padded, out);
}

static bool url_quote(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value,
                      bool query)
{
    struct jinja_value string;
    if (!jinja_to_string(run, value, &string))
        return false;
    struct text text = jinja_string_text(string.as.string);
    bool untrusted = jinja_string_is_untrusted(string.as.string);
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.at[i];
        char quoted[4] = {(char)c};
        bool kept = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                    (c != 0 && strchr("_.-~", c)) || (c == '/' && !query);
        if (!kept && query && c == ' ')
            quoted[0] = '+';
        else if (!kept)
            snprintf(quoted, sizeof quoted, "%%%02X", c);
        if (!jinja_builder_add(run, b, text_span(quoted, kept || quoted[0] == '+' ? 1 : 3),
                               untrusted))
            return false;
    }
    return true;
}

static bool filter_urlencode(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b)
        return false;
    if (call->self.kind == JINJA_STRING || !jinja_iterable(call->self))
        return url_quote(run, b, call->self, false) && jinja_builder_done(run, b, out);
    struct jinja_call items = {.self = call->self};
    struct jinja_value pairs = call->self;
    struct jinja_list list;
    if (call->self.kind == JINJA_DICT &&
        !jinja_row_call(run, jinja_method_find(call->self, text_of("items")), &items, &pairs))
        return false;
    if (!jinja_iterate(run, pairs, &list))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_list pair;
        if (!jinja_iterate(run, list.items[i], &pair))
            return false;
        if (pair.count != 2)
            return jinja_fail(run, STATUS_INVALID, "urlencode needs pairs");
        if ((i > 0 && !jinja_builder_literal(run, b, "&")) ||
            !url_quote(run, b, pair.items[0], true) || !jinja_builder_literal(run, b, "=") ||
            !url_quote(run, b, pair.items[1], true))
            return false;
    }
    return jinja_builder_done(run, b, out);
}

static bool attribute_add(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value)
{
    const struct jinja_call call = {.name = "escape", .self = value};
    struct jinja_value escaped;
    return filter_escape(run, &call, &escaped) && jinja_builder_string(run, b, escaped.as.string);
}

static bool filter_xmlattr(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b)
        return false;
    if (call->self.kind != JINJA_DICT)
        return jinja_fail(run, STATUS_INVALID, "xmlattr needs a dict");
    bool space = jinja_arg_bool(call, 0, true);
    for (size_t i = 0; i < call->self.as.dict->count; i++) {
        const struct jinja_pair *pair = &call->self.as.dict->pairs[i];
        if (pair->value.kind == JINJA_NONE || pair->value.kind == JINJA_UNDEFINED)
            continue;
        const struct jinja_string *key = pair->key.as.string;
        bool named = pair->key.kind == JINJA_STRING;
        for (size_t k = 0; named && k < key->bytes; k++)
            named = key->at[k] != '\0' && !strchr(" \t\n\r\f\v/>=", key->at[k]);
        if (!named)
            return jinja_fail(run, STATUS_INVALID, "xmlattr: a key is no attribute name");
        if (((space || b->bytes > 0) && !jinja_builder_literal(run, b, " ")) ||
            !attribute_add(run, b, pair->key) || !jinja_builder_literal(run, b, "=\"") ||
            !attribute_add(run, b, pair->value) || !jinja_builder_literal(run, b, "\""))
            return false;
    }
    return jinja_builder_done(run, b, out);
}

static bool filter_default(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    bool absent = call->self.kind == JINJA_UNDEFINED ||
                  (jinja_arg_bool(call, 1, false) && !jinja_truth(call->self));
    *out = absent ? call->args[0] : call->self;
    if (out->kind == JINJA_MISSING)
        return jinja_string_make(run, text_of(""), false, out);
    return true;
}

const struct jinja_row *jinja_text_filter(struct text name)
{
    static const struct jinja_row rows[] = {
        {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
        {"default", "default_value boolean", 0, filter_default},
        {"d", "default_value boolean", 0, filter_default},
        {"trim", "chars", 0, filter_trim},
        {"string", "", 0, filter_string},
        {"upper", "", 0, filter_form},
        {"lower", "", 0, filter_form},
        {"title", "", 0, filter_form},
        {"capitalize", "", 0, filter_form},
        {"safe", "", 0, filter_safe},
        {"escape", "", 0, filter_escape},
        {"e", "", 0, filter_escape},
        {"forceescape", "", 0, filter_escape},
        {"replace", "old new count", 2, filter_replace},
        {"int", "default base", 0, filter_int},
        {"float", "default", 0, filter_float},
        {"abs", "", 0, filter_abs},
        {"round", "precision method", 0, filter_round},
        {"indent", "width first blank", 0, filter_indent},
        {"truncate", "length killwords end leeway", 0, filter_truncate},
        {"wordcount", "", 0, filter_wordcount},
        {"format", NULL, 0, filter_format},
        {"center", "width", 0, filter_center},
        {"urlencode", "", 0, filter_urlencode},
        {"xmlattr", "autospace", 0, filter_xmlattr},
    };
    return jinja_row_find(rows, sizeof rows / sizeof *rows, name);
}
