// SPDX-License-Identifier: Apache-2.0
// Compiles regular expressions: the syntax and meaning of ECMA-262, plus Python's spellings of the
// same constructs, as JSON schemas (`pattern`) and clients (`guided_regex`) use them.
//
// Supported: literals, ., classes, \d \w \s (as ECMA-262: ASCII digits and words, Unicode spaces),
// \p{L} and other general categories, groups with and without names, alternatives, quantifiers
// (lazy ones match the same strings), ^ $ \A \Z \z anywhere, escapes of all kinds. Refused with an
// error that names the construct: look-around, back-references, word boundaries, atomic groups,
// possessive quantifiers, flags, conditionals. The text is UTF-8; characters above U+FFFF count as
// one character.
#pragma once

#include "runtime/grammar/grammar.h"

enum { REGEX_BYTES_MAX = 64 * 1024 };

// Returns an expression for one character of the ranges, as grammar_chars does.
typedef uint32_t (*regex_chars)(struct grammar_builder *b, const struct grammar_range *ranges,
                                uint32_t count);

struct regex_args {
    struct text pattern;
    // true: the match may be anywhere in the text (JSON schema); false: it is the entire text
    bool search;
    // encoding of a character in the text, e.g. json_grammar_chars; NULL: grammar_chars
    regex_chars chars;
};

// Sets *out to the expression of all matching texts. STATUS_INVALID: the pattern is malformed;
// STATUS_UNSUPPORTED: it contains a refused construct; STATUS_TOO_LARGE: it is too long, too deep
// or needs too much memory. err contains the reason and the byte offset in the pattern. If a limit
// of b was exceeded, STATUS_OK may be returned and grammar_failed is true.
enum status regex_compile(struct grammar_builder *b, const struct regex_args *args, uint32_t *out,
                          struct error *err) MUST_USE;
