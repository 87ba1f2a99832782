// What a request constrains its answer by, as the text in which it came, and the grammar that it
// means. Compilers of each kind stand in headers of their own; here is the one entry for all.
//
// One call, one thread. The text is read by the call alone: JSON is parsed from it anew, so nothing
// is shared with whoever holds the request's body.
#pragma once

#include "runtime/grammar/grammar.h"

enum grammar_kind {
    GRAMMAR_KIND_NONE,   // the answer is free
    GRAMMAR_KIND_JSON,   // any JSON object; the text is empty
    GRAMMAR_KIND_SCHEMA, // instances of a JSON schema
    GRAMMAR_KIND_REGEX,  // what matches a regular expression as a whole
    GRAMMAR_KIND_CHOICE, // one of a JSON array of strings
    GRAMMAR_KIND_GBNF,   // the language of a grammar
    // Calls of tools (dialect/grammar.h), as a JSON object: "tools"; "allowed", or absent; "must",
    // "parallel", "reasoning"; "start": enum dialect_start; "content": {"kind", "text"} of a source
    // for an answer without a call, or absent.
    GRAMMAR_KIND_CALLS,
};

struct dialect;

struct grammar_source {
    enum grammar_kind kind;
    struct text text;              // UTF-8
    const struct dialect *dialect; // of CALLS: must outlive all uses of the source
};

// The expression of the source, for grammar_finish or for a larger grammar. STATUS_UNSUPPORTED,
// STATUS_INVALID or STATUS_TOO_LARGE: err says what the text has that cannot be served; a limit of
// the builder shows in grammar_failed, as ever.
enum status grammar_source_build(struct grammar_builder *b, const struct grammar_source *source,
                                 uint32_t *root, struct error *err) MUST_USE;

// The grammar of the source, within the limits that grammar_begin has by default.
enum status grammar_source_compile(const struct grammar_source *source, struct grammar **out,
                                   struct error *err) MUST_USE;
