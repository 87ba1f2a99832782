// What filters and methods of strings share, and how they read their arguments. Origins of spans
// stay with them through all of it.
#pragma once

#include "runtime/text/jinja/string.h"

enum strip_side { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 };
enum text_form { FORM_UPPER, FORM_LOWER, FORM_TITLE, FORM_CAPITALIZE, FORM_WORDS };

// chars NULL: white space.
bool jinja_strip(struct jinja_run *run, const struct jinja_string *string,
                 const struct jinja_string *chars, enum strip_side side, struct jinja_value *out);
// count < 0: all.
struct replacement {
    const struct jinja_string *old;
    const struct jinja_string *with;
    int64_t count;
};
bool jinja_replace(struct jinja_run *run, const struct jinja_string *string,
                   const struct replacement *r, struct jinja_value *out);
// FORM_WORDS: the title filter, which knows other word ends than the title method.
bool jinja_reform(struct jinja_run *run, const struct jinja_string *string, enum text_form form,
                  struct jinja_value *out);
bool jinja_lines(struct jinja_run *run, const struct jinja_string *string, bool keep_ends,
                 struct jinja_items *lines);

// Arguments. A missing one leaves *out as it was.
bool jinja_arg_string(struct jinja_run *run, const struct jinja_call *call, uint32_t index,
                      const struct jinja_string **out);
bool jinja_arg_int(struct jinja_run *run, const struct jinja_call *call, uint32_t index,
                   int64_t *out);
bool jinja_arg_bool(const struct jinja_call *call, uint32_t index, bool otherwise);
bool jinja_arg_given(const struct jinja_call *call, uint32_t index); // and not none

// Python's int() and float() of a string. False: it is not a number.
bool jinja_parse_int(struct text text, int base, int64_t *out);
bool jinja_parse_float(struct text text, double *out);
