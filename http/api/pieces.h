// SPDX-License-Identifier: Apache-2.0
// Answers that are sent in pieces, so that other requests do not wait until all of a large answer
// is sent: JSON that is in memory (pieces.c), vectors of embeddings (vectors.c), and the answers of
// /tokenize and /detokenize (token_pieces.c).
#pragma once

#include "http/exchange.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/arena.h"
#include "runtime/text/tokenizer.h"

// A complete JSON answer that may be large. It is sent in pieces, so that other requests do not
// wait until all of it is sent. Part of an endpoint's state: the h2o thread or a text worker fills
// `out`, the h2o thread sends it.

enum { ONE_PIECE_BYTES_MAX = 32 * 1024 }; // bytes of an answer that is sent in one piece

struct pieces {
    struct json_buffer out; // the answer
    size_t sent;            // number of bytes sent
};

// Frees the buffer; p is empty afterwards.
void pieces_free(struct pieces *p);

// pieces_send answers with 200 and p->out: a small answer in one piece; of a larger one,
// on_send_space sends the rest with pieces_continue. p is empty once everything is handed to the
// exchange. pieces_continue does nothing if the answer has not begun or is complete.
void pieces_send(struct exchange *x, struct pieces *p);
void pieces_continue(struct exchange *x, struct pieces *p);

// Writes the answer of /v1/embeddings piece by piece: a body with 2,048 vectors is never in memory
// as a whole. Pure: uses no exchange and no port.

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

// Writes the answers of /tokenize and /detokenize piece by piece from the token ids. The answer can
// be many times larger than the request's body and is never in memory as a whole. Pure: uses no
// exchange and no port.

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
