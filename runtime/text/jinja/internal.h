// SPDX-License-Identifier: Apache-2.0
// The functions that the files of the evaluator share: expressions (jinja/eval.c,
// jinja/operators.c, jinja/access.c), calls (jinja/call.c), statements (jinja/exec.c), tables of
// filters and methods, values as text. The evaluator walks the nodes recursively; run->depth counts
// the levels. Functions that can fail return false after jinja_fail. Only this folder includes this
// header.
#pragma once

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/string.h"

// Evaluates an expression; frame: the innermost scope.
bool jinja_eval(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
                struct jinja_value *out);
// Executes a statement; output is appended to run->out.
bool jinja_exec(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node);
// Enters one more level, which the caller leaves with run->depth--. Fails at JINJA_DEPTH_MAX.
bool jinja_enter(struct jinja_run *run);

// Returns the precision that prints a name with %.*s in a message: its bytes, at most 200.
static inline int jinja_name_precision(struct text name)
{
    return (int)(name.bytes < 200 ? name.bytes : 200);
}

// Operators: a op b with Python's rules; op is a character or an enum jinja_operator.
bool jinja_binary(struct jinja_run *run, int op, struct jinja_value a, struct jinja_value b,
                  struct jinja_value *out);
bool jinja_compare(struct jinja_run *run, int op, struct jinja_value a, struct jinja_value b,
                   bool *out);
bool jinja_contains(struct jinja_run *run, struct jinja_value container, struct jinja_value item,
                    bool *out);

// Set *out to an attribute or item of a value. If the value has none of this name, the result is an
// undefined value and not a failure; if `of` itself is undefined, the call fails.
bool jinja_getattr(struct jinja_run *run, struct jinja_value of, struct text name,
                   struct jinja_value *out);
bool jinja_getitem(struct jinja_run *run, struct jinja_value of, struct jinja_value key,
                   struct jinja_value *out);
// of[part[0]:part[1]:part[2]]; a JINJA_MISSING part was not given.
bool jinja_getslice(struct jinja_run *run, struct jinja_value of, const struct jinja_value part[3],
                    struct jinja_value *out);
// Returns an undefined value; using it fails with a message that contains `name`.
struct jinja_value jinja_undefined_name(struct jinja_run *run, struct text name);

// Calls. jinja_call calls any callable value, jinja_row_call a row of the tables: it assigns the
// arguments to the parameters that the row names. jinja_eval_args evaluates the arguments.
bool jinja_call(struct jinja_run *run, struct jinja_value callee, const struct jinja_call *call,
                struct jinja_value *out);
bool jinja_row_call(struct jinja_run *run, const struct jinja_row *row,
                    const struct jinja_call *call, struct jinja_value *out);
bool jinja_eval_args(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *args, struct jinja_call *call);
// The positional arguments from index `from` on as a list, and the keyword arguments as a dict.
bool jinja_args_list(struct jinja_run *run, const struct jinja_call *call, uint32_t from,
                     enum jinja_flavour flavour, struct jinja_value *out);
bool jinja_keywords_dict(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out);
// Applies the filter or the test `name`. Fails if there is none of this name.
bool jinja_filter(struct jinja_run *run, struct text name, const struct jinja_call *call,
                  struct jinja_value *out);
bool jinja_test(struct jinja_run *run, struct text name, const struct jinja_call *call, bool *out);
// Executes the for loop `node` over the items of `over`; depth0: nesting of recursive calls.
bool jinja_for(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
               struct jinja_value over, uint32_t depth0);

// Lookup in the tables. NULL: there is no such row.
const struct jinja_row *jinja_method_find(struct jinja_value of, struct text name);
const struct jinja_row *jinja_global_find(struct text name);
const struct jinja_row *jinja_row_find(const struct jinja_row *rows, size_t count,
                                       struct text name);
const struct jinja_row *jinja_text_filter(struct text name);     // filters of strings and numbers
const struct jinja_row *jinja_sequence_filter(struct text name); // filters of lists and dicts
// filters that call other filters or tests
const struct jinja_row *jinja_map_filter(struct text name);
const struct jinja_row *jinja_test_find(struct text name);

// '%s' % value and '{}'.format(value). Text of the format and of the arguments keeps its origin
// (trusted or not).
bool jinja_format_percent(struct jinja_run *run, const struct jinja_string *format,
                          struct jinja_value args, struct jinja_value *out);
bool jinja_format_braces(struct jinja_run *run, const struct jinja_string *format,
                         const struct jinja_call *call, struct jinja_value *out);
// Formats the time run->now in UTC.
bool jinja_strftime(struct jinja_run *run, struct text format, struct jinja_value *out);

// Looks up the attribute path "a.b.0" of a value, which filters take as an argument; MISSING or
// none gives the value itself. `otherwise`, unless MISSING or none, replaces an undefined
// attribute.
bool jinja_attribute(struct jinja_run *run, struct jinja_value value, struct jinja_value attribute,
                     struct jinja_value otherwise, struct jinja_value *out);

// Sorts keys and values together by jinja_order of the keys; values[i] belongs to keys[i]. Stable.
bool jinja_sort(struct jinja_run *run, struct jinja_value *keys, struct jinja_value *values,
                size_t count, bool reverse);

// Appends a value as text: as {{ }} prints it, as Python's repr shows it inside containers, or as
// JSON.
bool jinja_print(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value);
bool jinja_repr(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value);
// Returns the printed form as a string value; a string is returned unchanged.
bool jinja_to_string(struct jinja_run *run, struct jinja_value value, struct jinja_value *out);

struct jinja_json {
    struct text indent; // indent of one level; at == NULL: everything on one line
    struct text between_items;
    struct text between_key;
    bool ascii;
    bool sorted;
};
// Appends the value as JSON in this form. Fails if it has no JSON form.
bool jinja_json(struct jinja_run *run, struct jinja_builder *b, struct jinja_value value,
                const struct jinja_json *form);

enum { FLOAT_TEXT_MAX = 40 };
// Writes the shortest text that reads back equal, as Python does. Returns its length in bytes.
size_t jinja_float_text(double real, char out[FLOAT_TEXT_MAX]);

// Functions that filters and methods of strings share. Every span keeps its origin.
enum strip_side { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 };
enum text_form { FORM_UPPER, FORM_LOWER, FORM_TITLE, FORM_CAPITALIZE, FORM_WORDS };

// Removes the characters in `chars` (NULL: white space) from the given ends.
bool jinja_strip(struct jinja_run *run, const struct jinja_string *string,
                 const struct jinja_string *chars, enum strip_side side, struct jinja_value *out);
// Arguments of jinja_replace. count: number of replacements; < 0: all.
struct replacement {
    const struct jinja_string *old;
    const struct jinja_string *with;
    int64_t count;
};
// Replaces occurrences from the left; an empty `old` is found before each character and at the end.
bool jinja_replace(struct jinja_run *run, const struct jinja_string *string,
                   const struct replacement *r, struct jinja_value *out);
// Changes upper and lower case. FORM_WORDS: the title filter, whose word boundaries differ from
// those of the title method.
bool jinja_change_case(struct jinja_run *run, const struct jinja_string *string,
                       enum text_form form, struct jinja_value *out);
// Appends the lines of a string to `lines`, with or without their line ends.
bool jinja_lines(struct jinja_run *run, const struct jinja_string *string, bool keep_ends,
                 struct jinja_items *lines);

// Access to the arguments of a call whose row names its parameters; index: of the parameter. If the
// argument is missing, jinja_arg_string and jinja_arg_int leave *out unchanged, and jinja_arg_bool
// returns `otherwise`.
bool jinja_arg_string(struct jinja_run *run, const struct jinja_call *call, uint32_t index,
                      const struct jinja_string **out);
bool jinja_arg_int(struct jinja_run *run, const struct jinja_call *call, uint32_t index,
                   int64_t *out);
bool jinja_arg_bool(const struct jinja_call *call, uint32_t index, bool otherwise);
bool jinja_arg_given(const struct jinja_call *call, uint32_t index); // true if given and not none
// For filters with an operand of one type. Fails unless `fits`; `what` names the type in the
// message.
bool jinja_self_check(struct jinja_run *run, const struct jinja_call *call, bool fits,
                      const char *what);

// Set *out to what Python's int() and float() of a string give. base: 2 to 36; 0: that of the
// prefix 0x, 0o or 0b, else 10. Return false if the string is not a number, if the integer does not
// fit, or if the float has more than 511 bytes; no error is recorded.
bool jinja_parse_int(struct text text, int base, int64_t *out);
bool jinja_parse_float(struct text text, double *out);
