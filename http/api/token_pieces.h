// Writes the answers of /tokenize and /detokenize piece by piece from the token ids. The answer can
// be many times larger than the request's body and is never in memory as a whole. Pure: uses no
// exchange and no port.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "runtime/text/tokenizer.h"

struct token_pieces {
    const struct tokenizer *tokenizer;
    const int32_t *ids; // [count] i32
    uint32_t count;
    bool text;       // true: the answer is the text of the ids; false: the ids
    bool strings;    // ids: true if the answer also has the text of each id
    uint32_t window; // ids: the model's context window
    char *scratch;   // [detok_bound(tokenizer)] scratch for one token's text
    // Position of the next piece.
    uint32_t part, at;
    uint64_t ids_written; // ids written, summed over all parts
    struct detok detok;
};

enum { TOKEN_PIECE_BYTES = 2048 }; // approximate size of a piece, unless a token is longer

// Allocates the scratch buffer; the caller has set the members before it. Returns false if the
// arena is full.
bool token_pieces_begin(struct token_pieces *p, struct arena *arena);

// Appends the next piece. Returns false if it was the last.
bool token_pieces_put(struct token_pieces *p, struct json_buffer *out);

// Returns the bytes of the complete answer. Takes as long as writing it, so it counts its work in
// `slice`; if the answer is no longer wanted it returns early with a partial sum.
uint64_t token_pieces_length(const struct token_pieces *p, struct slice *slice);
