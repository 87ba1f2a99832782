// The answers of /tokenize and /detokenize, made piece by piece out of the token ids: their texts,
// many times as large as the body that asked for them, are never in memory as a whole. Pure: no
// exchange, no port.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "runtime/text/tokenizer.h"

struct token_pieces {
    const struct tokenizer *tokenizer;
    const int32_t *ids; // [count] i32
    uint32_t count;
    bool text;       // the answer is the text of the ids, else the ids
    bool strings;    // of ids: and the text of each
    uint32_t window; // of ids: the model's
    char *room;      // [detok_bound(tokenizer)]
    // Place of the next piece.
    uint32_t part, at;
    uint64_t taken; // ids of all parts so far
    struct detok detok;
};

enum { TOKEN_PIECE_BYTES = 2048 }; // about, where no token is longer

// Takes the room from the arena; false: it has none. The other members are set.
bool token_pieces_begin(struct token_pieces *p, struct arena *arena);

// Appends the next piece; false: it was the last.
bool token_pieces_put(struct token_pieces *p, struct json_buffer *out);

// Bytes of the whole answer. Takes as long as writing it, so it counts its work in slices; where
// the answer is unwanted it ends early.
uint64_t token_pieces_length(const struct token_pieces *p, struct slice *slice);
