// Grammars that clients write: llama.cpp's GBNF, and the EBNF of xgrammar and vLLM as far as it is
// the same. `name ::= ...` a rule, `root` the first; "text", [a-z] [^"] and . for one character;
// groups in ( ), | between alternatives, * + ? {m} {m,} {m,n}, # comments. A rule ends where the
// next `name ::=` begins, so lines may be broken anywhere. A name may have dots between its other
// characters in a grammar that has such a rule; elsewhere each dot is a character.
// Escapes: \n \t \r \\ \" \' \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH.
// Refused by name: left recursion (by grammar_finish), token references <...>, look-ahead (= ...),
// Lark's `name:`.
#pragma once

#include "runtime/grammar/grammar.h"

enum { GBNF_BYTES_MAX = 256 * 1024 };

// *root: the expression for grammar_finish. STATUS_INVALID, _UNSUPPORTED or _TOO_LARGE: err says
// what and in which line.
enum status gbnf_compile(struct grammar_builder *b, struct text source, uint32_t *root,
                         struct error *err) MUST_USE;
