// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of dialects: feeds a reply to the reader and joins its events to one line of
// text.
#pragma once

#include "base/json.h"
#include "runtime/text/dialect/reply.h"

extern const char rig_tools[]; // tools of a request: f with parameters of all types, g, h

// Places at which a text is cut into pieces.
struct cuts {
    const unsigned char *after; // [bytes]: not 0 if a piece ends after this byte; NULL: no cuts
};

// Feeds the text in these pieces. If the dialect has a tokenizer, the text of a special token
// (rig_special) is always a piece. Returns a line such as
//   text(Hello)think(hm)call(0 name id)args({"a":1})end(0 1)over
// which is stored in `out` and valid until `out` changes.
struct text rig_read(const struct reply_args *args, struct text text, struct cuts cuts,
                     struct json_buffer *out);

// Returns the length of the special token at the beginning of the text, judged by its form (<|...|>
// and the like), or 0.
size_t rig_special(struct text text);

// Creates a tokenizer whose special tokens are those that occur in the text.
struct tokenizer *rig_tokenizer(struct text text);
// Creates the tokenizer of a tokenizer.json. Takes over the reference to `file`.
struct tokenizer *rig_tokenizer_of(json_t *file);
// Writes one call as the description for grammars says, without what precedes and follows calls.
// id: replaces the place of an id.
void rig_put_call(const struct dialect_syntax *s, const char *name, const char *id,
                  const json_t *arguments, struct json_buffer *out);
