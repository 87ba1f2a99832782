// SPDX-License-Identifier: Apache-2.0
// JSON texts as grammars, in the shortest form: no blanks between tokens unless requested,
// characters unescaped unless JSON requires an escape, and one way to write each escape: \" \\ \b
// \f \n \r \t, other controls \u00xx in lower case. The functions return expressions of the
// builder.
#pragma once

#include "runtime/text/grammar/writer.h"

// One character of the ranges inside a JSON string; can be used as regex_args.chars.
uint32_t json_grammar_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                            uint32_t count);
// This text (UTF-8) inside of a string, without quotes.
uint32_t json_grammar_text(struct grammar_builder *b, struct text value);
uint32_t json_grammar_string(struct grammar_builder *b); // any string including its quotes
// Any number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
uint32_t json_grammar_number(struct grammar_builder *b);
uint32_t json_grammar_integer(struct grammar_builder *b); // -?(0|[1-9][0-9]*), never -0

// Separation of the tokens of a JSON text.
struct json_style {
    // Expression of the blanks where JSON allows them: after { and [, before } and ], around colons
    // and commas. GRAMMAR_EMPTY: none.
    uint32_t blank;
};
// Returns the rules for any JSON value in this style.
struct json_rules json_grammar_rules(struct grammar_builder *b, struct json_style style);
// At most one blank, or a line end and up to 40 spaces: what models often write between tokens.
uint32_t json_grammar_loose_blank(struct grammar_builder *b);
