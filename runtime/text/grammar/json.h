// JSON's text as grammars, in its shortest form: no blanks between tokens unless asked, characters
// as they are but for those that must be escaped, which have one way of being written: \" \\ \b \f
// \n \r \t, other controls \u00xx in lower case. Everything a client may read back.
#pragma once

#include "runtime/text/grammar/writer.h"

// One character inside a JSON string; fits regex_args.chars.
uint32_t json_grammar_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                            uint32_t count);
// This text (UTF-8) inside of a string, without its quotes.
uint32_t json_grammar_text(struct grammar_builder *b, struct text value);
uint32_t json_grammar_string(struct grammar_builder *b); // any string with its quotes
// Any number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
uint32_t json_grammar_number(struct grammar_builder *b);
uint32_t json_grammar_integer(struct grammar_builder *b); // -?(0|[1-9][0-9]*), never -0

// How tokens of JSON are set apart.
struct json_style {
    // Blanks where JSON allows them: GRAMMAR_EMPTY: none. Used after { [ , : and before } ] as is.
    uint32_t blank;
};
struct json_rules json_grammar_rules(struct grammar_builder *b, struct json_style style);
// At most one blank or line end and a few spaces: what models like to write between tokens.
uint32_t json_grammar_loose_blank(struct grammar_builder *b);
