// Regular expressions as grammars: ECMA-262's syntax and meaning with Python's spellings of the
// same things, as JSON schemas (`pattern`) and clients (`guided_regex`) write them.
//
// Read: literals, ., classes, \d \w \s (as ECMA-262: ASCII digits and words, Unicode spaces), \p{L}
// and other general categories, groups with and without names, alternatives, quantifiers (lazy ones
// match the same strings), ^ $ \A \Z \z anywhere, escapes of all kinds. Refused in one sentence
// that names it: look-around, back-references, word boundaries, atomic groups, possessive
// quantifiers, flags, conditionals. The text is UTF-8; a pattern of characters over U+FFFF means
// characters.
#pragma once

#include "runtime/grammar/grammar.h"

enum { REGEX_BYTES_MAX = 64 * 1024 };

// Writes one character of the ranges, as grammar_chars does.
typedef uint32_t (*regex_chars)(struct grammar_builder *b, const struct grammar_range *ranges,
                                uint32_t count);

struct regex_args {
    struct text pattern;
    bool search;       // it may match anywhere in the text (JSON schema), not the whole of it
    regex_chars chars; // how the text writes a character, e.g. json_grammar_chars; NULL: as it is
};

// *out: the expression of all texts that match. STATUS_INVALID: the pattern is malformed;
// STATUS_UNSUPPORTED: it uses something of the list above; STATUS_TOO_LARGE. err says what and at
// which byte of the pattern. A builder's limit shows in grammar_failed, as ever.
enum status regex_compile(struct grammar_builder *b, const struct regex_args *args, uint32_t *out,
                          struct error *err) MUST_USE;
