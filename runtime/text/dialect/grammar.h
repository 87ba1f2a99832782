// The grammar of an answer in which calls of tools may or must come, as the dialect writes them
// (dialect.h): what it allows, reply.h reads as whole calls whose arguments fit their schemas.
//
// Special tokens stand in it as VOCABULARY_SPECIAL_BYTE and their text, so the vocabulary of the
// model must have them as specials (runtime/grammar/vocabulary.h).
#pragma once

#include "runtime/grammar/grammar.h"
#include "runtime/text/dialect/dialect.h"

#include <jansson.h>

enum { DIALECT_CALLS_MAX = 32 }; // calls of one answer under a grammar

struct dialect_grammar_args {
    const struct dialect *dialect;
    // Array of {"function": {"name", "parameters", "strict"}} or of such functions; all that the
    // reader of the answer is given, too. NULL or empty: nothing is called (then not `must`).
    const json_t *tools;
    const json_t *allowed; // array of names that may be called; NULL: all
    // A call must come, and nothing but reasoning before it; all arguments fit their schemas.
    // Else: free text, in which from the mark of a call on the grammar holds; arguments of
    // functions with "strict": true fit their schemas, those of others are any object.
    bool must;
    bool parallel;            // more than one call may come, where the dialect can write such
    bool reasoning;           // marks of reasoning are such; calls inside of it are text
    bool no_thoughts;         // and none begins, with `must` or `formed`
    enum dialect_start start; // MIDST: not with `must`
    // The text of an answer without a call is one of these, without such as begin like a call or
    // like thoughts; the reader must know it (reply_args.formed). Thoughts have an end then,
    // because this text follows them. Not with `must`.
    bool formed;
    uint32_t content;
};

// *root: for grammar_finish. STATUS_UNSUPPORTED, STATUS_INVALID, STATUS_TOO_LARGE: err begins with
// "tool 'NAME': " and says what the tool's schema has that cannot be forced, or it speaks of the
// content; *root is GRAMMAR_NOTHING then. A limit of the builder that no function met shows in
// grammar_failed.
// One call, one thread; nothing is kept of the arguments.
enum status dialect_grammar(struct grammar_builder *b, const struct dialect_grammar_args *args,
                            uint32_t *root, struct error *err) MUST_USE;
