// SPDX-License-Identifier: Apache-2.0
// '%s' % value and '{}'.format(value): the common conversions of both. An unsupported conversion
// fails instead of printing something else.
#include "runtime/text/jinja/internal.h"

#include <math.h>
#include <stdio.h>

enum { FORMAT_WIDTH_MAX = 10000, FORMAT_NUMBER_MAX = 512 };

// One conversion of a % or {} format.
struct spec {
    uint32_t fill; // character; 0: a blank
    char align;    // '<', '>', '^', '=' or 0
    char sign;     // '+', ' ' or 0
    bool alternate;
    bool zero;
    bool grouped; // thousands separated by ','
    int64_t width;
    int64_t precision; // -1: none
    char kind;         // conversion character; 0: depends on the value
};

static bool bad_format(struct jinja_run *run)
{
    return jinja_fail(run, STATUS_INVALID, "this format is malformed or not supported");
}

// Appends the string with padding. sign: number of sign bytes that '=' keeps before the padding.
static bool put_padded(struct jinja_run *run, struct jinja_builder *b,
                       const struct jinja_string *string, const struct spec *spec, size_t sign)
{
    int64_t count = (int64_t)jinja_utf8_count(jinja_string_text(string));
    int64_t pad = spec->width > count ? spec->width - count : 0;
    int64_t left = spec->align == '<' ? 0 : spec->align == '^' ? pad / 2 : pad;
    char fill[4];
    const struct jinja_string with = {
        .at = fill, .bytes = utf8_write(spec->fill != 0 ? spec->fill : ' ', fill)};
    const struct padding padding = {&with, left, pad - left, spec->align == '=' ? sign : 0};
    return jinja_builder_padded(run, b, string, &padding);
}

static bool put_string(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value,
                       struct spec spec)
{
    struct jinja_value string;
    if (!jinja_to_string(run, value, &string))
        return false;
    struct text text = jinja_string_text(string.as.string);
    size_t kept =
        spec.precision >= 0 ? jinja_utf8_offset(text, (size_t)spec.precision) : text.bytes;
    if (spec.align == 0)
        spec.align = '<';
    return jinja_string_slice(run, string.as.string, 0, kept, &string) &&
           put_padded(run, b, string.as.string, &spec, 0);
}

static bool put_digits(struct jinja_run *run, struct jinja_builder *b, char *digits,
                       struct spec spec)
{
    char grouped[2 * FORMAT_NUMBER_MAX];
    size_t bytes = 0;
    size_t sign = digits[0] == '-' || digits[0] == '+' || digits[0] == ' ';
    size_t whole = sign + strspn(digits + sign, "0123456789");
    for (size_t i = 0; digits[i] != '\0' && bytes < sizeof grouped - 2; i++) {
        grouped[bytes++] = digits[i];
        if (spec.grouped && i + 1 < whole && i >= sign && (whole - i - 1) % 3 == 0)
            grouped[bytes++] = ',';
    }
    grouped[bytes] = '\0';
    struct jinja_string string = {.at = grouped, .bytes = bytes};
    if (spec.zero && spec.align == 0) {
        spec.fill = '0';
        spec.align = '=';
    }
    if (spec.align == 0)
        spec.align = '>';
    return put_padded(run, b, &string, &spec, sign);
}

static bool put_integer(struct jinja_run *run, struct jinja_builder *b, int64_t value,
                        const struct spec *spec)
{
    char digits[FORMAT_NUMBER_MAX];
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const char *sign = value < 0 ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
    const char *mark = !spec->alternate    ? ""
                       : spec->kind == 'x' ? "0x"
                       : spec->kind == 'X' ? "0X"
                       : spec->kind == 'o' ? "0o"
                                           : "";
    const char *format = spec->kind == 'x'   ? "%s%s%.*lx"
                         : spec->kind == 'X' ? "%s%s%.*lX"
                         : spec->kind == 'o' ? "%s%s%.*lo"
                                             : "%s%s%.*lu";
    int precision = spec->precision > 0 && spec->precision < 400 ? (int)spec->precision : 1;
    snprintf(digits, sizeof digits, format, sign, mark, precision, (unsigned long)size);
    return put_digits(run, b, digits, *spec);
}

// An integer beyond int64, in decimal only.
static bool put_wide(struct jinja_run *run, struct jinja_builder *b, struct text text,
                     const struct spec *spec)
{
    char digits[FORMAT_NUMBER_MAX];
    bool minus = text.at[0] == '-';
    const char *sign = minus || spec->sign == 0 ? "" : spec->sign == '+' ? "+" : " ";
    if (spec->kind != 'd' || spec->precision > 0 || text.bytes + 2 > sizeof digits)
        return bad_format(run);
    snprintf(digits, sizeof digits, "%s%.*s", sign, (int)text.bytes, text.at);
    return put_digits(run, b, digits, *spec);
}

static bool put_real(struct jinja_run *run, struct jinja_builder *b, double value,
                     const struct spec *spec)
{
    char digits[FORMAT_NUMBER_MAX];
    char format[16];
    int64_t precision = spec->precision < 0 ? 6 : spec->precision;
    char kind = spec->kind;
    if (precision > 100 || fabs(value) > 1e300)
        return bad_format(run);
    if (kind == '%')
        value *= 100;
    snprintf(format, sizeof format, "%%%s%s.*%c",
             spec->sign == '+'   ? "+"
             : spec->sign == ' ' ? " "
                                 : "",
             spec->alternate ? "#" : "", kind == '%' ? 'f' : kind);
    int bytes = snprintf(digits, sizeof digits - 1, format, (int)precision, value);
    if (bytes < 0 || (size_t)bytes >= sizeof digits - 1)
        return bad_format(run);
    if (kind == '%')
        memcpy(digits + bytes, "%", 2);
    return put_digits(run, b, digits, *spec);
}

static bool put_number(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value,
                       const struct spec *spec)
{
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_fail(run, STATUS_INVALID, "a format needs a number, not type %s",
                          jinja_kind_name(value));
    if (strchr("eEfFgG%", spec->kind))
        return put_real(run, b, jinja_as_double(value), spec);
    if (value.kind == JINJA_WIDE)
        return put_wide(run, b, value.as.wide->digits, spec);
    if (value.kind != JINJA_FLOAT)
        return put_integer(run, b, jinja_as_int(value), spec);
    return bad_format(run);
}

// Reads digits at *at; without digits *out is unchanged. Returns false if the number is too large.
static bool read_number(struct text text, size_t *at, int64_t *out)
{
    int64_t value = 0;
    bool any = false;
    while (*at < text.bytes && text.at[*at] >= '0' && text.at[*at] <= '9') {
        value = value * 10 + (text.at[(*at)++] - '0');
        any = true;
        if (value > FORMAT_WIDTH_MAX)
            return false;
    }
    if (any)
        *out = value;
    return true;
}

struct percent {
    const struct jinja_string *format;
    size_t at;
    struct jinja_value args;
    size_t used; // number of arguments used
};

static bool percent_next(struct jinja_run *run, struct percent *p, struct jinja_value *out)
{
    bool tuple = p->args.kind == JINJA_LIST && p->args.flavour == JINJA_IS_TUPLE;
    size_t count = tuple ? p->args.as.list->count : 1;
    if (p->used >= count)
        return jinja_fail(run, STATUS_INVALID, "not enough arguments for the format");
    *out = tuple ? p->args.as.list->items[p->used] : p->args;
    p->used++;
    return true;
}

static bool percent_key(struct jinja_run *run, struct percent *p, struct jinja_value *out,
                        bool *named)
{
    struct text text = jinja_string_text(p->format);
    *named = p->at < text.bytes && text.at[p->at] == '(';
    if (!*named)
        return true;
    const char *end = memchr(text.at + p->at, ')', text.bytes - p->at);
    if (!end || p->args.kind != JINJA_DICT)
        return bad_format(run);
    struct jinja_string key = {.at = text.at + p->at + 1,
                               .bytes = (size_t)(end - text.at) - p->at - 1};
    const struct jinja_value *found;
    if (!jinja_dict_find(run, p->args.as.dict, jinja_of_string(&key), &found))
        return false;
    if (!found)
        return jinja_fail(run, STATUS_INVALID, "the format names a key that is not there");
    *out = *found;
    p->used = SIZE_MAX / 2;
    p->at = (size_t)(end - text.at) + 1;
    return true;
}

static bool percent_spec(struct jinja_run *run, struct percent *p, struct spec *spec)
{
    struct text text = jinja_string_text(p->format);
    *spec = (struct spec){.precision = -1};
    for (; p->at < text.bytes && strchr("-+ #0", text.at[p->at]); p->at++) {
        char flag = text.at[p->at];
        if (flag == '\0')
            return bad_format(run);
        if (flag == '-')
            spec->align = '<';
        else if (flag == '#')
            spec->alternate = true;
        else if (flag == '0')
            spec->zero = true;
        else
            spec->sign = spec->sign == '+' ? '+' : flag;
    }
    if (!read_number(text, &p->at, &spec->width))
        return bad_format(run);
    if (p->at < text.bytes && text.at[p->at] == '.') {
        p->at++;
        spec->precision = 0;
        if (!read_number(text, &p->at, &spec->precision))
            return bad_format(run);
    }
    if (p->at >= text.bytes)
        return bad_format(run);
    spec->kind = text.at[p->at++];
    return true;
}

static bool percent_one(struct jinja_run *run, struct jinja_builder *b, struct percent *p)
{
    struct jinja_value value = {0};
    struct spec spec;
    bool named;
    if (!percent_key(run, p, &value, &named) || !percent_spec(run, p, &spec))
        return false;
    if (spec.kind == '%')
        return jinja_builder_literal(run, b, "%");
    if (!named && !percent_next(run, p, &value))
        return false;
    if (spec.kind == 's')
        return put_string(
            run, b, value,
            spec.align == '<'
                ? spec
                : (struct spec){.width = spec.width, .align = '>', .precision = spec.precision});
    if (spec.kind == 'r') {
        struct jinja_builder *shown = jinja_builder_create(run);
        spec.align = spec.align == '<' ? '<' : '>';
        return shown && jinja_repr(run, shown, value) && jinja_builder_done(run, shown, &value) &&
               put_string(run, b, value, spec);
    }
    if (spec.kind == 'i' || spec.kind == 'u')
        spec.kind = 'd';
    if (spec.kind == '\0' || !strchr("dxXoeEfFgG", spec.kind))
        return bad_format(run);
    if (spec.kind == 'd' && value.kind == JINJA_FLOAT && fabs(value.as.real) < 9e18)
        value = jinja_int((int64_t)value.as.real);
    return put_number(run, b, value, &spec);
}

bool jinja_format_percent(struct jinja_run *run, const struct jinja_string *format,
                          struct jinja_value args, struct jinja_value *out)
{
    struct percent p = {.format = format, .args = args};
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b)
        return false;
    while (p.at < format->bytes) {
        const char *mark = memchr(format->at + p.at, '%', format->bytes - p.at);
        size_t end = mark ? (size_t)(mark - format->at) : format->bytes;
        if (!jinja_builder_part(run, b, format, p.at, end))
            return false;
        p.at = end + 1;
        if (mark && (!jinja_spend(run, 1) || !percent_one(run, b, &p)))
            return false;
    }
    bool tuple = args.kind == JINJA_LIST && args.flavour == JINJA_IS_TUPLE;
    bool loose = args.kind == JINJA_DICT || args.kind == JINJA_UNDEFINED ||
                 (args.kind == JINJA_LIST && !tuple && args.flavour <= JINJA_IS_RANGE);
    if (!loose && p.used < (tuple ? args.as.list->count : 1))
        return jinja_fail(run, STATUS_INVALID, "not all arguments of the format are used");
    return jinja_builder_done(run, b, out);
}

// Returns the value of a replacement field "name.attribute[item]".
static bool field_value(struct jinja_run *run, const struct jinja_call *call, struct text field,
                        int64_t *next, struct jinja_value *out)
{
    size_t end = 0;
    int64_t index = -1;
    while (end < field.bytes && field.at[end] != '.' && field.at[end] != '[')
        end++;
    struct text name = text_span(field.at, end);
    size_t digits = 0;
    if (name.bytes > 0 && !read_number(name, &digits, &index))
        return bad_format(run);
    bool by_index = digits == name.bytes;
    // {0.x} counts neither as numbered nor as automatic
    bool numbered = by_index && name.bytes > 0 && end == field.bytes;
    if (numbered ? *next > 0 : name.bytes == 0 && *next < 0)
        return jinja_fail(run, STATUS_INVALID, "a format must number all of its fields or none");
    if (numbered)
        *next = -1;
    else if (name.bytes == 0)
        index = (*next)++;
    *out = (struct jinja_value){0};
    if (by_index && index >= 0 && index < (int64_t)call->count)
        *out = call->args[index];
    for (uint32_t i = 0; !by_index && i < call->keyword_count; i++)
        if (text_equal(call->keywords[i].name, name))
            *out = call->keywords[i].value;
    if (out->kind == JINJA_MISSING)
        return jinja_fail(run, STATUS_INVALID, "the format names an argument that is not there");
    while (end < field.bytes) {
        bool item = field.at[end++] == '[';
        size_t from = end;
        while (end < field.bytes &&
               (item ? field.at[end] != ']' : field.at[end] != '.' && field.at[end] != '['))
            end++;
        struct text part = text_span(field.at + from, end - from);
        struct jinja_value key;
        int64_t number = -1;
        digits = 0;
        end += item;
        if (part.bytes == 0 || !read_number(part, &digits, &number))
            return bad_format(run);
        if (!item && !jinja_getattr(run, *out, part, out))
            return false;
        if (!item)
            continue;
        if (digits == part.bytes)
            key = jinja_int(number);
        else if (!jinja_string_make(run, part, false, &key))
            return false;
        if (!jinja_getitem(run, *out, key, out))
            return false;
    }
    return true;
}

static bool is_align(uint32_t c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool brace_spec(struct jinja_run *run, struct text text, struct spec *spec)
{
    size_t at = 0;
    uint32_t point = 0;
    *spec = (struct spec){.precision = -1};
    size_t first = text.bytes > 0 ? jinja_utf8_next(text, 0, &point) : 0;
    if (first < text.bytes && first > 0 && is_align((unsigned char)text.at[first])) {
        spec->fill = point;
        spec->align = text.at[first];
        at = first + 1;
    } else if (text.bytes > 0 && is_align((unsigned char)text.at[0])) {
        spec->align = text.at[at++];
    }
    if (at < text.bytes && (text.at[at] == '+' || text.at[at] == '-' || text.at[at] == ' '))
        spec->sign = text.at[at++];
    if (at < text.bytes && text.at[at] == '#')
        spec->alternate = text.at[at++] == '#';
    if (at < text.bytes && text.at[at] == '0')
        spec->zero = text.at[at++] == '0';
    if (!read_number(text, &at, &spec->width))
        return bad_format(run);
    if (at < text.bytes && text.at[at] == ',')
        spec->grouped = text.at[at++] == ',';
    if (at < text.bytes && text.at[at] == '.') {
        at++;
        if (!read_number(text, &at, &spec->precision) || spec->precision < 0)
            return bad_format(run);
    }
    if (at < text.bytes)
        spec->kind = text.at[at++];
    bool zeros_grouped = spec->zero && spec->grouped; // padding zeros would need commas as well
    return (at == text.bytes && !zeros_grouped) || bad_format(run);
}

static bool put_brace(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value,
                      struct text spec_text)
{
    struct spec spec;
    if (!brace_spec(run, spec_text, &spec))
        return false;
    if (spec_text.bytes == 0)
        return jinja_print(run, b, value);
    bool text = value.kind == JINJA_STRING && (spec.kind == 0 || spec.kind == 's');
    if (text && spec.align != '=' && spec.sign == 0 && !spec.zero)
        return put_string(run, b, value, spec);
    bool whole = value.kind == JINJA_INT || value.kind == JINJA_WIDE ||
                 (value.kind == JINJA_BOOL && spec.kind != 0);
    if (whole && spec.kind == 0)
        spec.kind = 'd';
    if (value.kind == JINJA_FLOAT && spec.kind == 0 && spec.precision < 0) {
        char digits[FLOAT_TEXT_MAX + 1] = {spec.sign == '+' || spec.sign == ' ' ? spec.sign : '\0'};
        bool signs = digits[0] != '\0' && !signbit(value.as.real);
        jinja_float_text(value.as.real, digits + signs);
        return put_digits(run, b, digits, spec);
    }
    bool known = spec.kind != 0 && strchr("dxXoeEfFgG%", spec.kind);
    if (!jinja_is_number(value) || !known || (spec.kind == 'd' && spec.precision >= 0))
        return bad_format(run);
    return put_number(run, b, value, &spec);
}

// Writes the field that begins at state[0]; advances state[0] after its }.
static bool brace_one(struct jinja_run *run, struct jinja_builder *b,
                      const struct jinja_string *format, const struct jinja_call *call,
                      int64_t state[2])
{
    struct text text = jinja_string_text(format);
    size_t from = (size_t)state[0];
    const char *end = memchr(text.at + from, '}', text.bytes - from);
    if (!end)
        return bad_format(run);
    struct text field = text_span(text.at + from, (size_t)(end - text.at) - from);
    if (memchr(field.at, '{', field.bytes))
        return bad_format(run);
    state[0] = (end - text.at) + 1;
    const char *colon = field.bytes > 0 ? memchr(field.at, ':', field.bytes) : NULL;
    struct text spec = {"", 0};
    if (colon) {
        spec = text_span(colon + 1, (size_t)(field.at + field.bytes - colon) - 1);
        field.bytes = (size_t)(colon - field.at);
    }
    bool repr = field.bytes >= 2 && memcmp(field.at + field.bytes - 2, "!r", 2) == 0;
    bool str = field.bytes >= 2 && memcmp(field.at + field.bytes - 2, "!s", 2) == 0;
    field.bytes -= repr || str ? 2 : 0;
    struct jinja_value value;
    struct jinja_builder *shown = jinja_builder_create(run);
    if (!shown || !field_value(run, call, field, &state[1], &value))
        return false;
    if (repr && (!jinja_repr(run, shown, value) || !jinja_builder_done(run, shown, &value)))
        return false;
    if (str && !jinja_to_string(run, value, &value))
        return false;
    return put_brace(run, b, value, spec);
}

bool jinja_format_braces(struct jinja_run *run, const struct jinja_string *format,
                         const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_builder *b = jinja_builder_create(run);
    // offset in the format; index of the next {}, or -1 if fields are numbered
    int64_t state[2] = {0, 0};
    size_t from = 0;
    if (!b)
        return false;
    for (size_t at = 0; at < format->bytes;) {
        char c = format->at[at];
        if (c != '{' && c != '}') {
            at++;
            continue;
        }
        bool twice = at + 1 < format->bytes && format->at[at + 1] == c;
        if (!jinja_spend(run, 1) || !jinja_builder_part(run, b, format, from, at + twice))
            return false;
        state[0] = (int64_t)at + (twice ? 2 : 1);
        if (!twice && c == '}')
            return bad_format(run);
        if (!twice && !brace_one(run, b, format, call, state))
            return false;
        at = (size_t)state[0];
        from = at;
    }
    return jinja_builder_part(run, b, format, from, format->bytes) &&
           jinja_builder_done(run, b, out);
}
