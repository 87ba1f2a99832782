// Writes the answer of /v1/embeddings piece by piece: a body with 2,048 vectors is never in memory
// as a whole. Pure: uses no exchange and no port.
#pragma once

#include "base/json.h"
#include "base/slice.h"

struct vectors {
    const float *values; // [count][width] f32
    uint32_t count, width;
    bool base64;
    const char *model;
    uint64_t tokens;
    // Position of the next piece.
    uint32_t row, column;
    bool begun, ended;
};

enum { VECTORS_PIECE_MAX = 2048 }; // approximate size of a piece in bytes

// Appends the next piece. Returns false if it was the last.
bool vectors_put(struct vectors *v, struct json_buffer *out);

// Returns the bytes of the complete answer. Takes as long as writing it, so it counts its work in
// `slice`; if the answer is no longer wanted it returns early with a partial sum.
uint64_t vectors_length(const struct vectors *v, struct slice *slice);

// Returns true if all values are finite.
bool vectors_valid(const struct vectors *v);
