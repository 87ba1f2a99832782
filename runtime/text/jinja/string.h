// Strings of the template language: UTF-8 with the origin of each span, cut and joined without
// losing it. Positions in the interface are bytes; code points where the name says so.
#pragma once

#include "base/utf8.h"
#include "runtime/text/jinja/value.h"

// A string in the making. Strings finished from it stay valid while it grows further.
struct jinja_builder {
    char *at;
    size_t bytes;
    size_t allocated;
    struct jinja_mark *marks; // [count]
    uint32_t count;
    size_t allocated_marks;
};

bool jinja_builder_add(struct jinja_run *run, struct jinja_builder *b, struct text text,
                       bool plain);
bool jinja_builder_literal(struct jinja_run *run, struct jinja_builder *b, const char *text);
bool jinja_builder_string(struct jinja_run *run, struct jinja_builder *b,
                          const struct jinja_string *string);
// Bytes [from, to) of the string.
bool jinja_builder_part(struct jinja_run *run, struct jinja_builder *b,
                        const struct jinja_string *string, size_t from, size_t to);
// The string between so many times `with`; the left ones come after its first `sign` bytes.
struct padding {
    const struct jinja_string *with;
    int64_t left, right;
    size_t sign;
};
bool jinja_builder_padded(struct jinja_run *run, struct jinja_builder *b,
                          const struct jinja_string *string, const struct padding *p);
// The builder must lie in the arena and be used for this string alone.
bool jinja_builder_done(struct jinja_run *run, struct jinja_builder *b, struct jinja_value *out);
struct jinja_builder *jinja_builder_create(struct jinja_run *run);

bool jinja_string_make(struct jinja_run *run, struct text text, bool plain,
                       struct jinja_value *out);
bool jinja_string_slice(struct jinja_run *run, const struct jinja_string *string, size_t from,
                        size_t to, struct jinja_value *out);
bool jinja_string_join(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                       struct jinja_value *out); // a + b
bool jinja_string_repeat(struct jinja_run *run, const struct jinja_string *string, int64_t times,
                         struct jinja_value *out);
bool jinja_string_plain(const struct jinja_string *string); // whether any of it is plain
// &, <, >, ' and " as HTML writes them.
bool jinja_string_escape(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_value *out);
bool jinja_string_markup(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_value *out); // the same, marked as HTML
struct text jinja_string_text(const struct jinja_string *string);

// UTF-8. Input is valid: templates are checked when opened, JSON by its reader.
size_t jinja_utf8_count(struct text text);                 // code points
size_t jinja_utf8_offset(struct text text, size_t points); // bytes of that many code points
size_t jinja_utf8_next(struct text text, size_t at, uint32_t *point); // bytes of the one at `at`

// As Python sees characters.
bool jinja_char_is_space(uint32_t point);
bool jinja_char_is_line_end(uint32_t point);
bool jinja_char_is_printable(uint32_t point);
bool jinja_char_is_alpha(uint32_t point);
bool jinja_char_is_digit(uint32_t point);
bool jinja_char_is_numeric(uint32_t point);
bool jinja_char_is_decimal(uint32_t point);
int jinja_char_decimal(uint32_t point); // 0 to 9; -1: none
bool jinja_char_is_upper(uint32_t point);
bool jinja_char_is_title(uint32_t point);
bool jinja_char_is_passed_by_case(uint32_t point);
bool jinja_char_is_lower(uint32_t point);

enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE };
// Adds one character in that case (may be several characters).
size_t jinja_char_cased(uint32_t point, enum letter_case wanted, char *out); // up to 12 bytes
