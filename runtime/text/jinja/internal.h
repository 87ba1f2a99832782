// What the files of the evaluator offer each other: expressions (jinja/eval.c, jinja/operators.c,
// jinja/access.c), calls (jinja/call.c), statements (jinja/exec.c), tables of filters and methods,
// values as text. A walk over the nodes; its depth is run->depth. Only this folder includes it.
#pragma once

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/string.h"

bool jinja_eval(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
                struct jinja_value *out);
bool jinja_exec(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node);
bool jinja_enter(struct jinja_run *run); // one level deeper; run->depth-- ends it

// Operators.
bool jinja_binary(struct jinja_run *run, int op, struct jinja_value a, struct jinja_value b,
                  struct jinja_value *out);
bool jinja_compare(struct jinja_run *run, int op, struct jinja_value a, struct jinja_value b,
                   bool *out);
bool jinja_contains(struct jinja_run *run, struct jinja_value container, struct jinja_value item,
                    bool *out);

// Attributes and items. What does not exist is an undefined value, not a failure.
bool jinja_getattr(struct jinja_run *run, struct jinja_value of, struct text name,
                   struct jinja_value *out);
bool jinja_getitem(struct jinja_run *run, struct jinja_value of, struct jinja_value key,
                   struct jinja_value *out);
bool jinja_getslice(struct jinja_run *run, struct jinja_value of, const struct jinja_value part[3],
                    struct jinja_value *out); // MISSING parts: not given
struct jinja_value jinja_undefined_name(struct jinja_run *run, struct text name);

// Calls. bind assigns the arguments of a call to the parameters that the row names.
bool jinja_call(struct jinja_run *run, struct jinja_value callee, const struct jinja_call *call,
                struct jinja_value *out);
bool jinja_row_call(struct jinja_run *run, const struct jinja_row *row,
                    const struct jinja_call *call, struct jinja_value *out);
bool jinja_eval_args(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *args, struct jinja_call *call);
// The arguments from `from` on, and the named ones.
bool jinja_args_list(struct jinja_run *run, const struct jinja_call *call, uint32_t from,
                     enum jinja_flavour flavour, struct jinja_value *out);
bool jinja_keywords_dict(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out);
bool jinja_filter(struct jinja_run *run, struct text name, const struct jinja_call *call,
                  struct jinja_value *out);
bool jinja_test(struct jinja_run *run, struct text name, const struct jinja_call *call, bool *out);
bool jinja_for(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
               struct jinja_value over, uint32_t depth0);

// The tables. NULL: there is no such row.
const struct jinja_row *jinja_method_find(struct jinja_value of, struct text name);
const struct jinja_row *jinja_global_find(struct text name);
const struct jinja_row *jinja_row_find(const struct jinja_row *rows, size_t count,
                                       struct text name);
const struct jinja_row *jinja_text_filter(struct text name);     // of strings and numbers
const struct jinja_row *jinja_sequence_filter(struct text name); // of lists and dicts
const struct jinja_row *jinja_map_filter(struct text name);      // those that call others
const struct jinja_row *jinja_test_find(struct text name);

// '%s' % value and '{}'.format(value): the strings of the template and of the arguments keep their
// origin.
bool jinja_format_percent(struct jinja_run *run, const struct jinja_string *format,
                          struct jinja_value args, struct jinja_value *out);
bool jinja_format_braces(struct jinja_run *run, const struct jinja_string *format,
                         const struct jinja_call *call, struct jinja_value *out);
bool jinja_strftime(struct jinja_run *run, struct text format, struct jinja_value *out);

// The attribute path "a.b.0" of a value, as the filters take it; MISSING or none: the value itself.
// `otherwise`, if it is not MISSING or none, replaces an attribute that does not exist.
bool jinja_attribute(struct jinja_run *run, struct jinja_value value, struct jinja_value attribute,
                     struct jinja_value otherwise, struct jinja_value *out);

// Stable, by jinja_order of the keys; values[i] belongs to keys[i].
bool jinja_sort(struct jinja_run *run, struct jinja_value *keys, struct jinja_value *values,
                size_t count, bool reverse);

// Values as text: what {{ }} prints, what Python's repr shows inside containers, and JSON.
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

// What filters and methods of strings share. Origins of spans stay with them through all of it.
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
// Fails where the operand does not fit, which is what a filter needs.
bool jinja_self_must(struct jinja_run *run, const struct jinja_call *call, bool fits,
                     const char *what);

// Python's int() and float() of a string. False: it is not a number.
bool jinja_parse_int(struct text text, int base, int64_t *out);
bool jinja_parse_float(struct text text, double *out);
