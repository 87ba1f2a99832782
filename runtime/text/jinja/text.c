// SPDX-License-Identifier: Apache-2.0
// Operations on strings that filters and methods share; see jinja/internal.h.
#include "runtime/text/jinja/internal.h"

#include <errno.h>
#include <stdlib.h>

bool jinja_arg_given(const struct jinja_call *call, uint32_t index)
{
    return call->args[index].kind != JINJA_MISSING && call->args[index].kind != JINJA_NONE;
}

bool jinja_arg_string(struct jinja_run *run, const struct jinja_call *call, uint32_t index,
                      const struct jinja_string **out)
{
    struct jinja_value value = call->args[index];
    if (value.kind == JINJA_MISSING)
        return true;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.kind != JINJA_STRING)
        return jinja_fail(run, STATUS_INVALID, "%s needs a string here, not type %s", call->name,
                          jinja_kind_name(value));
    *out = value.as.string;
    return true;
}

bool jinja_arg_int(struct jinja_run *run, const struct jinja_call *call, uint32_t index,
                   int64_t *out)
{
    struct jinja_value value = call->args[index];
    if (value.kind == JINJA_MISSING)
        return true;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.kind != JINJA_INT && value.kind != JINJA_BOOL)
        return jinja_fail(run, STATUS_INVALID, "%s needs an integer here, not type %s", call->name,
                          jinja_kind_name(value));
    *out = jinja_as_int(value);
    return true;
}

bool jinja_arg_bool(const struct jinja_call *call, uint32_t index, bool otherwise)
{
    return call->args[index].kind == JINJA_MISSING ? otherwise : jinja_truth(call->args[index]);
}

bool jinja_self_check(struct jinja_run *run, const struct jinja_call *call, bool fits,
                      const char *what)
{
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    return fits || jinja_fail(run, STATUS_INVALID, "%s needs %s, not type %s", call->name, what,
                              jinja_kind_name(call->self));
}

static bool char_is_stripped(uint32_t point, const struct jinja_string *chars)
{
    if (!chars)
        return jinja_char_is_space(point);
    char bytes[4];
    size_t count = utf8_write(point, bytes);
    return chars->bytes > 0 && memmem(chars->at, chars->bytes, bytes, count);
}

bool jinja_strip(struct jinja_run *run, const struct jinja_string *string,
                 const struct jinja_string *chars, enum strip_side side, struct jinja_value *out)
{
    struct text text = jinja_string_text(string);
    size_t from = 0;
    size_t to = text.bytes;
    uint64_t each = chars ? chars->bytes / 64 : 0; // cost of one search in chars
    uint32_t point;
    while ((side & STRIP_LEFT) != 0 && from < to) {
        size_t bytes = jinja_utf8_next(text, from, &point);
        if (!char_is_stripped(point, chars))
            break;
        from += bytes;
        if (!jinja_spend(run, each + ((from & 15) == 0)))
            return false;
    }
    while ((side & STRIP_RIGHT) != 0 && to > from) {
        size_t before = utf8_before(text.at, to);
        jinja_utf8_next(text, before, &point);
        if (!char_is_stripped(point, chars))
            break;
        to = before;
        if (!jinja_spend(run, each + ((to & 15) == 0)))
            return false;
    }
    return jinja_spend(run, 1) && jinja_string_slice(run, string, from, to, out);
}

bool jinja_replace(struct jinja_run *run, const struct jinja_string *string,
                   const struct replacement *r, struct jinja_value *out)
{
    struct text text = jinja_string_text(string);
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b || !jinja_spend(run, 1 + text.bytes / 16))
        return false;
    size_t from = 0;
    size_t at = 0;
    for (int64_t done = 0; done != r->count && at <= text.bytes; done++) {
        const char *hit = r->old->bytes == 0
                              ? text.at + at
                              : memmem(text.at + at, text.bytes - at, r->old->at, r->old->bytes);
        if (!hit)
            break;
        size_t place = (size_t)(hit - text.at);
        if (!jinja_spend(run, 1) || !jinja_builder_part(run, b, string, from, place) ||
            !jinja_builder_string(run, b, r->with))
            return false;
        from = place + r->old->bytes;
        uint32_t point;
        at = r->old->bytes > 0    ? from
             : place < text.bytes ? place + jinja_utf8_next(text, place, &point)
                                  : text.bytes + 1;
    }
    return jinja_builder_part(run, b, string, from, text.bytes) && jinja_builder_done(run, b, out);
}

static bool begins_word(enum text_form form, bool first, uint32_t before)
{
    if (form == FORM_CAPITALIZE || first)
        return first;
    if (form == FORM_TITLE)
        return !jinja_char_is_upper(before) && !jinja_char_is_lower(before);
    return before == '-' || before == '(' || before == '{' || before == '[' || before == '<' ||
           jinja_char_is_space(before);
}

// True if the nearest letter before or after a position has case. Skips characters without case
// that can occur within words.
static bool cased_neighbour(struct text text, size_t at, bool after)
{
    uint32_t point = 0;
    while (after ? at < text.bytes : at > 0) {
        at = after ? at : utf8_before(text.at, at);
        size_t next = at + jinja_utf8_next(text, at, &point);
        if (!jinja_char_is_case_ignorable(point))
            return jinja_char_is_upper(point) || jinja_char_is_lower(point) ||
                   jinja_char_is_title(point);
        at = after ? next : at;
    }
    return false;
}

// True if the capital sigma (U+03A3) at `at` ends a word: a letter precedes it and none follows.
static bool sigma_ends_word(struct text text, size_t from, size_t at)
{
    struct text piece = text_span(text.at + from, text.bytes - from);
    return cased_neighbour(piece, at - from, false) && !cased_neighbour(piece, at - from + 2, true);
}

bool jinja_change_case(struct jinja_run *run, const struct jinja_string *string,
                       enum text_form form, struct jinja_value *out)
{
    struct text text = jinja_string_text(string);
    struct jinja_builder *b = jinja_builder_create(run);
    uint32_t before = 0;
    size_t mark = 0;
    size_t from = 0;
    size_t lowered = 0; // start of the current part of the text that is lowered as a unit
    if (!b || !jinja_spend(run, 1 + text.bytes / 16))
        return false;
    for (size_t at = 0; at < text.bytes;) {
        uint32_t point;
        char cased[16];
        size_t bytes = jinja_utf8_next(text, at, &point);
        enum letter_case wanted = form == FORM_UPPER ? CASE_UPPER : CASE_LOWER;
        if (form >= FORM_TITLE && begins_word(form, at == 0, before)) {
            wanted = form == FORM_WORDS ? CASE_UPPER : CASE_TITLE;
            lowered = form == FORM_WORDS ? at + bytes : 0;
        }
        if (point == 0x3A3 && wanted == CASE_LOWER && sigma_ends_word(text, lowered, at))
            point = 0x3C2;
        size_t count = jinja_char_cased(point, wanted, cased);
        before = point;
        at += bytes;
        if (count == bytes && memcmp(cased, text.at + at - bytes, bytes) == 0)
            continue; // unchanged: copied later with its neighbours
        while (mark < string->mark_count && string->marks[mark].end < at)
            mark++;
        bool untrusted = string->mark_count > 0 ? string->marks[mark].untrusted : string->untrusted;
        if (!jinja_builder_part(run, b, string, from, at - bytes) ||
            !jinja_builder_add(run, b, text_span(cased, count), untrusted))
            return false;
        from = at;
    }
    return jinja_builder_part(run, b, string, from, text.bytes) && jinja_builder_done(run, b, out);
}

bool jinja_lines(struct jinja_run *run, const struct jinja_string *string, bool keep_ends,
                 struct jinja_items *lines)
{
    struct text text = jinja_string_text(string);
    size_t from = 0;
    if (!jinja_spend(run, 1 + text.bytes / 16))
        return false;
    for (size_t at = 0; at < text.bytes;) {
        uint32_t point;
        size_t bytes = jinja_utf8_next(text, at, &point);
        at += bytes;
        if (!jinja_char_is_line_end(point) && at < text.bytes)
            continue;
        size_t end = jinja_char_is_line_end(point) ? at - bytes : at;
        if (point == '\r' && at < text.bytes && text.at[at] == '\n')
            at++;
        struct jinja_value line;
        if (!jinja_string_slice(run, string, from, keep_ends ? at : end, &line) ||
            !jinja_items_add(run, lines, line))
            return false;
        from = at;
    }
    return true;
}

static struct text text_trimmed(struct text text)
{
    uint32_t point;
    while (text.bytes > 0) {
        size_t bytes = jinja_utf8_next(text, 0, &point);
        if (!jinja_char_is_space(point))
            break;
        text = text_span(text.at + bytes, text.bytes - bytes);
    }
    while (text.bytes > 0) {
        size_t before = utf8_before(text.at, text.bytes);
        jinja_utf8_next(text, before, &point);
        if (!jinja_char_is_space(point))
            break;
        text.bytes = before;
    }
    return text;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

// Returns the character at *at as Python reads numbers: decimal digits of any script become ASCII.
static char number_next(struct text text, size_t *at)
{
    uint32_t point;
    *at += jinja_utf8_next(text, *at, &point);
    int digit = point < 0x80 ? -1 : jinja_char_decimal(point);
    return point < 0x80 ? (char)point : digit < 0 ? '?' : (char)('0' + digit);
}

bool jinja_parse_int(struct text text, int base, int64_t *out)
{
    text = text_trimmed(text);
    bool negative = text.bytes > 0 && text.at[0] == '-';
    size_t at = negative || (text.bytes > 0 && text.at[0] == '+');
    bool digit_before = false; // true after a digit or the prefix of a base
    if (base != 10 && at + 2 < text.bytes && text.at[at] == '0') {
        int mark = text.at[at + 1] | 0x20;
        int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
        if (marked != 0 && (base == 0 || base == marked)) {
            base = marked;
            at += 2;
            digit_before = true;
        }
    }
    base = base == 0 ? 10 : base;
    *out = 0;
    while (at < text.bytes) {
        char c = number_next(text, &at);
        if (c == '_' && digit_before) {
            digit_before = false;
            continue;
        }
        int digit = digit_of(c);
        if (digit >= base || __builtin_mul_overflow(*out, base, out) ||
            // accumulated as negative: that range is larger
            __builtin_sub_overflow(*out, digit, out))
            return false;
        digit_before = true;
    }
    if (!negative && *out == INT64_MIN)
        return false;
    *out = negative ? *out : -*out;
    return digit_before;
}

bool jinja_parse_float(struct text text, double *out)
{
    char copy[512];
    text = text_trimmed(text);
    size_t bytes = 0;
    if (text.bytes == 0 || text.bytes >= sizeof copy)
        return false;
    char before = '\0';
    for (size_t at = 0; at < text.bytes;) {
        char c = number_next(text, &at);
        size_t next = at;
        bool digits =
            digit_of(before) < 10 && at < text.bytes && digit_of(number_next(text, &next)) < 10;
        before = c;
        if (c == '_' && digits)
            continue;
        if (c == 'x' || c == 'X' || c == '(' || c == '_' ||
            // strtod accepts more than Python does.
            c == '\0')
            return false;
        copy[bytes++] = c;
    }
    copy[bytes] = '\0';
    char *end;
    *out = strtod(copy, &end);
    return *end == '\0' && end != copy;
}
