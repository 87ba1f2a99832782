// SPDX-License-Identifier: Apache-2.0
// Private header of the grammar of calls: grammar.c writes the answer around calls, arguments.c the
// arguments of one function.
#pragma once

#include "runtime/text/dialect/grammar.h"
#include "runtime/text/dialect/row.h"
#include "runtime/text/grammar/schema.h"

struct write {
    struct grammar_builder *b;
    const struct dialect_grammar_args *args;
    const struct dialect *d;
    const struct dialect_syntax *syntax;
    struct error *err;
    // arguments.c
    struct writer writer; // writer of values
    struct schema_parameters parameters;
    // ends: strings that contain the end of a value; unambiguous: see schema_unquoted_strings
    uint32_t ends, unambiguous;
    bool fitting;          // true unless FIT_ANY
    json_t *types;         // name -> enum schema_type, as the reader interprets the parameter
    unsigned types_of_any; // types of parameters that are not in `types`
};

// Returns the expression of a literal of the syntax. id: expression that replaces DIALECT_ID_PLACE.
uint32_t write_literal(struct write *w, const char *literal, uint32_t id);

// arguments.c
void write_arguments_begin(struct write *w);
// How closely the arguments of a function follow its schema.
enum arguments_fit {
    FIT_ANY,    // any arguments that the reader turns into an object
    FIT_FORCED, // matching arguments, in which objects that name members have no others
    FIT_STRICT, // matching arguments, in which no object has other members
};
// Sets *out to the text of the arguments. parameters: NULL: the function has none.
enum status write_arguments(struct write *w, const json_t *parameters, enum arguments_fit fit,
                            uint32_t *out);
