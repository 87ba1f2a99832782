// Values as text: what {{ }} prints, what Python's repr shows inside containers, and JSON.
#pragma once

#include "runtime/text/jinja/string.h"

bool jinja_print(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value);
bool jinja_repr(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value);
// As a string value; a string stays itself.
bool jinja_to_string(struct jinja_run *run, struct jinja_value value, struct jinja_value *out);

struct jinja_json {
    struct text indent; // one level; at == NULL: all on one line
    struct text between_items;
    struct text between_key;
    bool ascii;
    bool sorted;
};
bool jinja_json(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value,
                const struct jinja_json *form);

enum { FLOAT_TEXT_MAX = 40 };
// Shortest text that reads back equal, as Python writes it. Returns its bytes.
size_t jinja_float_text(double real, char out[FLOAT_TEXT_MAX]);
