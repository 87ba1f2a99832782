// SPDX-License-Identifier: Apache-2.0
// The constraint of an answer, as the text in which the request contained it, and its compilation
// to a grammar. This is the common entry of the compilers in the other headers of this folder.
//
// One call runs on one thread. It only reads the text and parses JSON from it again, so it shares
// nothing with the owner of the request body.
#pragma once

#include "base/json.h"
#include "runtime/grammar/grammar.h"
#include "runtime/text/dialect/dialect.h"

#include <jansson.h>

enum grammar_kind {
    GRAMMAR_KIND_NONE,   // no constraint
    GRAMMAR_KIND_JSON,   // any JSON object; the text is empty
    GRAMMAR_KIND_SCHEMA, // instances of a JSON schema
    GRAMMAR_KIND_REGEX,  // texts that a regular expression matches completely
    GRAMMAR_KIND_CHOICE, // one of a JSON array of strings
    GRAMMAR_KIND_GBNF,   // the language of a grammar
    // calls of tools (dialect/grammar.h); the text is that of grammar_calls_put
    GRAMMAR_KIND_CALLS,
};

struct grammar_source {
    enum grammar_kind kind;
    struct text text;              // UTF-8
    const struct dialect *dialect; // for CALLS; must outlive the source
    // [8] bitmap of the bytes that the model can write (vocabulary_alphabet, whose vocabulary must
    // outlive the source): only texts of these bytes are allowed. NULL: all bytes.
    const uint32_t *alphabet;
    bool strict; // for SCHEMA: objects have no members that it does not name (SCHEMA_OTHERS_NONE)
};

// Constraint of tool calls; see struct dialect_grammar_args for the members.
struct grammar_calls {
    const json_t *tools, *allowed; // of each tool only name, parameters and strict count
    bool must, parallel, resumes, reasoning, no_reasoning, reasoning_once;
    enum dialect_start start;
    struct grammar_source content; // constraint of text outside calls; KIND_NONE: free text
};
// Writes the text of a source of CALLS, a JSON object, to an empty buffer. Returns false if the
// tools need more than tools_bytes_max bytes; the text is then incomplete.
bool grammar_calls_put(struct json_buffer *out, const struct grammar_calls *calls,
                       size_t tools_bytes_max);

// Sets *root to the expression of the source, for grammar_finish or for use in a larger grammar.
// STATUS_UNSUPPORTED, STATUS_INVALID or STATUS_TOO_LARGE: err names the part of the text that
// cannot be compiled; for CALLS it begins with "tool '" if the error is in a tool and not in the
// content. If a limit of b was exceeded, grammar_failed is true.
enum status grammar_source_build(struct grammar_builder *b, const struct grammar_source *source,
                                 uint32_t *root, struct error *err) MUST_USE;

// Compiles the source with the default limits of grammar_builder_create. Errors as
// grammar_source_build and grammar_finish; STATUS_INVALID also if no text is possible with the
// alphabet.
enum status grammar_source_compile(const struct grammar_source *source, struct grammar **out,
                                   struct error *err) MUST_USE;
