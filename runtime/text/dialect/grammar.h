// SPDX-License-Identifier: Apache-2.0
// The grammar of an answer in which tool calls may or must occur, as the dialect writes them
// (dialect.h). reply.h reads every text that it allows as complete calls whose arguments match
// their schemas.
//
// In the grammar VOCABULARY_SPECIAL_BYTE precedes the text of special tokens, so the vocabulary of
// the model must have them as specials (runtime/grammar/vocabulary.h).
#pragma once

#include "runtime/grammar/grammar.h"
#include "runtime/text/dialect/dialect.h"

#include <jansson.h>

enum { DIALECT_CALLS_MAX = 32 }; // maximum number of calls in one answer under a grammar

struct dialect_grammar_args {
    const struct dialect *dialect;
    // Array of {"function": {"name", "parameters", "strict"}} or of such functions: the tools that
    // the reader of the answer also gets. NULL or empty: nothing can be called (not allowed with
    // `must`).
    const json_t *tools;
    const json_t *allowed; // array of names that may be called; NULL: all
    // true: the answer is a call, preceded by nothing but reasoning, and all arguments match their
    // schemas. false: free text, in which the grammar applies from the mark of a call on; arguments
    // of functions with "strict": true match their schemas, those of others are any object in which
    // the names of the schema occur once each, with at most SCHEMA_OTHERS_MAX others.
    bool must;
    bool parallel; // true: more than one call is allowed if the dialect can write that
    // true: after a call, text and other calls may follow, and `start` does not matter, because the
    // grammar always begins at the beginning of an answer; the phases of dialect_watch (watch.h)
    // lead elsewhere. Ids with the number of the call have any number. Not with `must` or
    // has_text_grammar.
    bool resumes;
    bool reasoning;    // true: marks of reasoning count; calls inside of reasoning are text
    bool no_reasoning; // true: with `must` or `has_text_grammar` the answer contains no reasoning
    // true: with `has_text_grammar` the answer contains reasoning at most once; for requests that
    // limit its tokens
    bool reasoning_once;
    enum dialect_start start; // MIDST is not allowed with `must`
    // true: the text of an answer without a call is a string of `content`, except those that begin
    // like a call or like reasoning. The reader must get the same flag
    // (reply_args.has_text_grammar). Reasoning must then have an end, because this text follows it.
    // Not allowed with `must`.
    bool has_text_grammar;
    uint32_t content;
};

// Sets *root to the expression for grammar_finish. STATUS_UNSUPPORTED, STATUS_INVALID,
// STATUS_TOO_LARGE: err begins with "tool 'NAME': " and names the part of the tool's schema that
// cannot be forced, or it is about the content; *root is GRAMMAR_NOTHING. If a limit of b was
// exceeded elsewhere, grammar_failed is true.
// One call, one thread; keeps no reference to the arguments.
enum status dialect_grammar(struct grammar_builder *b, const struct dialect_grammar_args *args,
                            uint32_t *root, struct error *err) MUST_USE;
