// Signatures of thinking blocks: a keyed hash of the text. Clients send them back unchanged, and
// the server does not check them. While the process lives, equal texts have equal signatures,
// however they were split into pieces. Plain values; h2o threads.
#pragma once

#include "base/hash.h"
#include "base/json.h"

enum { SIGNATURE_BLOCK = 256 };

struct signature { // all zero: the signature of no text
    struct {
        struct hash before; // hash of the previous blocks
        char bytes[SIGNATURE_BLOCK];
    } block;
    size_t count; // number of bytes in block.bytes
};

// Adds text to the signature.
void signature_add(struct signature *s, struct text text);
void signature_put(const struct signature *s, struct json_buffer *out); // as base64, without quotes
