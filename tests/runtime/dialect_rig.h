// What the tests of dialects share: events of a reply joined to one line of text.
#pragma once

#include "base/json.h"
#include "runtime/text/dialect/reply.h"

extern const char rig_tools[]; // a request's tools: f with parameters of all types, g, h

// Where pieces end: a bit for each byte of the text, or all of it in one piece.
struct cuts {
    const unsigned char *after; // [bytes], not 0: a piece ends there; NULL: nowhere
};

// Feeds the text, cut so. Texts of special tokens (rig_special) are pieces of their own. The
// result is like
//   text(Hello)think(hm)call(0 name id)args({"a":1})end(0 1)over
// and lasts until the buffer is used again.
struct text rig_read(const struct reply_args *args, struct text text, struct cuts cuts,
                     struct json_buffer *out);

// The length of the special token that the text begins with, by its look: <|...|> and the like.
size_t rig_special(struct text text);

// A tokenizer that has all special tokens that stand in the text.
struct tokenizer *rig_tokenizer(struct text text);
// The tokenizer of such a tokenizer.json, which is taken over.
struct tokenizer *rig_tokenizer_of(json_t *file);
