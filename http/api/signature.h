// Signatures of thinking blocks: a keyed hash of the text, which clients send back as they got it
// and nobody checks. The same text has the same signature, however it came, while the process
// lives. Values; h2o threads.
#pragma once

#include "base/hash.h"
#include "base/json.h"

enum { SIGNATURE_BLOCK = 256 };

struct signature { // zero: of no text
    struct {
        struct hash before; // of the blocks before
        char bytes[SIGNATURE_BLOCK];
    } block;
    size_t count; // bytes of the present block
};

void signature_add(struct signature *s, struct text text);
void signature_put(const struct signature *s, struct json_buffer *out); // base64, without quotes
