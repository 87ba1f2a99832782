// The answer of /v1/embeddings, made piece by piece: a body of 2,048 vectors is never in memory as
// a whole. Pure: no exchange, no port.
#pragma once

#include "base/json.h"
#include "base/slice.h"

struct vectors {
    const float *values; // [count][width] f32
    uint32_t count, width;
    bool base64;
    const char *model;
    uint64_t tokens;
    // Place of the next piece.
    uint32_t row, column;
    bool begun, ended;
};

enum { VECTORS_PIECE_MAX = 2048 }; // bytes, about

// Appends the next piece; false: it was the last.
bool vectors_put(struct vectors *v, struct json_buffer *out);

// Bytes of the whole answer. Takes as long as writing it, so it counts its work in slices; where
// the answer is unwanted it ends early.
uint64_t vectors_length(const struct vectors *v, struct slice *slice);

// All finite?
bool vectors_valid(const struct vectors *v);
