// SPDX-License-Identifier: Apache-2.0
// Strings of the template language: UTF-8 with the origin of each span (template or request), which
// slicing and joining preserve. Positions are in bytes unless stated otherwise.
#pragma once

#include "base/utf8.h"
#include "runtime/text/jinja/value.h"

// A string under construction. Strings finished from it stay valid while it grows further.
struct jinja_builder {
    char *at;
    size_t bytes;
    size_t allocated;
    struct jinja_mark *marks; // [count]
    uint32_t count;
    size_t allocated_marks;
};

// Append to the builder. untrusted: text of the request; a literal is text of the template.
bool jinja_builder_add(struct jinja_run *run, struct jinja_builder *b, struct text text,
                       bool untrusted);
bool jinja_builder_literal(struct jinja_run *run, struct jinja_builder *b, const char *text);
bool jinja_builder_string(struct jinja_run *run, struct jinja_builder *b,
                          const struct jinja_string *string);
// Appends the bytes [from, to) of a string.
bool jinja_builder_part(struct jinja_run *run, struct jinja_builder *b,
                        const struct jinja_string *string, size_t from, size_t to);
// jinja_builder_padded appends a string with padding around it: `left` times `with` before it
// (after its first `sign` bytes) and `right` times after it.
struct padding {
    const struct jinja_string *with;
    int64_t left, right;
    size_t sign;
};
bool jinja_builder_padded(struct jinja_run *run, struct jinja_builder *b,
                          const struct jinja_string *string, const struct padding *p);
// Finishes a string that shares the builder's memory. The builder must be allocated in the
// rendering's arena (jinja_builder_create) and used for this string only.
bool jinja_builder_done(struct jinja_run *run, struct jinja_builder *b, struct jinja_value *out);
struct jinja_builder *jinja_builder_create(struct jinja_run *run);

// Create string values in the arena of the rendering. jinja_string_make does not copy the text.
bool jinja_string_make(struct jinja_run *run, struct text text, bool untrusted,
                       struct jinja_value *out);
bool jinja_string_slice(struct jinja_run *run, const struct jinja_string *string, size_t from,
                        size_t to, struct jinja_value *out);
// a + b of two strings. If exactly one of them is markup, the other one is escaped.
bool jinja_string_join(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                       struct jinja_value *out);
bool jinja_string_repeat(struct jinja_run *run, const struct jinja_string *string, int64_t times,
                         struct jinja_value *out);
bool jinja_string_is_untrusted(const struct jinja_string *string); // true if any span is untrusted
// Replaces &, <, >, ' and " by HTML entities and marks the result as markup.
bool jinja_string_escape(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_value *out);
// Returns the same text, marked as markup (HTML).
bool jinja_string_markup(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_value *out);
struct text jinja_string_text(const struct jinja_string *string);

// UTF-8. The input is valid: templates are checked when opened, request text by the JSON reader.
size_t jinja_utf8_count(struct text text);                 // number of code points
size_t jinja_utf8_offset(struct text text, size_t points); // byte offset of a code point
// Reads the code point at byte `at`; returns its length in bytes.
size_t jinja_utf8_next(struct text text, size_t at, uint32_t *point);

// Character classes of Python's str.
bool jinja_char_is_space(uint32_t point);
bool jinja_char_is_line_end(uint32_t point);
bool jinja_char_is_printable(uint32_t point);
bool jinja_char_is_alpha(uint32_t point);
bool jinja_char_is_digit(uint32_t point);
bool jinja_char_is_numeric(uint32_t point);
bool jinja_char_is_decimal(uint32_t point);
int jinja_char_decimal(uint32_t point); // digit value 0 to 9; -1: no decimal digit
bool jinja_char_is_upper(uint32_t point);
bool jinja_char_is_title(uint32_t point);
bool jinja_char_is_case_ignorable(uint32_t point); // Unicode's Case_Ignorable
bool jinja_char_is_lower(uint32_t point);

enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE };
// Writes a character in the given case, possibly as several characters. Returns the number of
// bytes, at most 12.
size_t jinja_char_cased(uint32_t point, enum letter_case wanted, char *out);
