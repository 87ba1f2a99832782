// SPDX-License-Identifier: Apache-2.0
// Compiles grammars that clients send: llama.cpp's GBNF, and the common subset of it and the EBNF
// of xgrammar and vLLM. `name ::= ...` defines a rule, `root` is the start; "text", [a-z] [^"] and
// . for one character; groups in ( ), | between alternatives, * + ? {m} {m,} {m,n}, # comments. A
// rule ends where the next `name ::=` begins, so lines may be broken anywhere. If the grammar
// defines a rule with a dot in its name, names may have dots between their other characters;
// otherwise each dot is a character.
// Escapes: \n \t \r \\ \" \' \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH.
// Refused with an error that names the construct: left recursion (by grammar_finish), token
// references <...>, look-ahead (= ...), Lark's `name:`.
// One call, one thread; the source is not used afterwards.
#pragma once

#include "runtime/grammar/grammar.h"

enum { GBNF_BYTES_MAX = 256 * 1024 };

// Sets *root to the expression for grammar_finish. STATUS_INVALID, _UNSUPPORTED or _TOO_LARGE: err
// contains the reason and the line. If a limit of b was exceeded, grammar_failed is true.
enum status gbnf_compile(struct grammar_builder *b, struct text source, uint32_t *root,
                         struct error *err) MUST_USE;
