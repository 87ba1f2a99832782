// The writers of calls inside of the room: grammar.c has the answer around calls, arguments.c the
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
    struct writer writer; // of values
    struct schema_parameters parameters;
    uint32_t ends, clear;  // strings with the end of a value in them; schema_strings_clear
    bool fitting;          // the arguments of the function fit its schema
    json_t *types;         // how the reader takes its parameters: name -> enum schema_type
    unsigned types_of_any; // and one that is not in there
};

// A literal of the syntax; id: stands for DIALECT_ID_PLACE.
uint32_t write_literal(struct write *w, const char *literal, uint32_t id);

// arguments.c
void write_arguments_begin(struct write *w);
// The text of all arguments that the schema allows, or (not fitting) of any that the reader makes
// an object of.
enum status write_arguments(struct write *w, const json_t *parameters, bool fitting, uint32_t *out);
