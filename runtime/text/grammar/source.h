// What a request constrains its answer by, as the text in which it came, and the grammar that it
// means. Compilers of each kind stand in headers of their own; here is the one entry for all.
//
// One call, one thread. The text is read by the call alone: JSON is parsed from it anew, so nothing
// is shared with whoever holds the request's body.
#pragma once

#include "base/json.h"
#include "runtime/grammar/grammar.h"
#include "runtime/text/dialect/dialect.h"

#include <jansson.h>

enum grammar_kind {
    GRAMMAR_KIND_NONE,   // the answer is free
    GRAMMAR_KIND_JSON,   // any JSON object; the text is empty
    GRAMMAR_KIND_SCHEMA, // instances of a JSON schema
    GRAMMAR_KIND_REGEX,  // what matches a regular expression as a whole
    GRAMMAR_KIND_CHOICE, // one of a JSON array of strings
    GRAMMAR_KIND_GBNF,   // the language of a grammar
    GRAMMAR_KIND_CALLS,  // calls of tools (dialect/grammar.h): what grammar_calls_put wrote
};

struct grammar_source {
    enum grammar_kind kind;
    struct text text;              // UTF-8
    const struct dialect *dialect; // of CALLS: must outlive all uses of the source
    // Bytes that the model can write (vocabulary_alphabet, whose vocabulary must outlive all uses
    // of the source): the grammar is of texts of these. NULL: all.
    const uint32_t *alphabet;
};

// The members of struct dialect_grammar_args.
struct grammar_calls {
    const json_t *tools, *allowed; // of a tool its name, parameters and strict count
    bool must, parallel, reasoning, no_thoughts;
    enum dialect_start start;
    struct grammar_source content; // of KIND_NONE: text has no form
};
// The text of a source of CALLS, a JSON object, into an empty buffer. False: the tools take more
// than so many bytes of it, and not all is written.
bool grammar_calls_put(struct json_buffer *out, const struct grammar_calls *calls,
                       size_t tools_bytes_max);

// The expression of the source, for grammar_finish or for a larger grammar. STATUS_UNSUPPORTED,
// STATUS_INVALID or STATUS_TOO_LARGE: err says what the text has that cannot be served; of CALLS it
// begins with "tool '" where that is a tool's and not the content's. A limit of the builder shows
// in grammar_failed, as ever.
enum status grammar_source_build(struct grammar_builder *b, const struct grammar_source *source,
                                 uint32_t *root, struct error *err) MUST_USE;

// The grammar of the source, within the limits that grammar_begin has by default. STATUS_INVALID
// also where the alphabet leaves no text.
enum status grammar_source_compile(const struct grammar_source *source, struct grammar **out,
                                   struct error *err) MUST_USE;
