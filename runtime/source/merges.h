// SPDX-License-Identifier: Apache-2.0
// The merges of a vocabulary whose file has scores or ranks instead: SentencePiece's BPE (also in
// GGUF files) and rank files. Loading thread only.
#pragma once

#include "base/arena.h"
#include "base/json.h"

struct scored_tokens {
    const char *tokens_name, *scores_name; // begin errors about one token; about the scores
    const struct text *tokens;             // [count] UTF-8; at == NULL: part of no merge
    const double *scores;                  // [count] the best is merged first; NaN: never merged
    uint32_t count;
    size_t bytes_max; // of the output; writing stops beyond it, and the caller checks
};
// Writes the list of merges that the scores define: every way to combine two tokens to a third, the
// best score first. A hostile vocabulary can have as many as the square of its tokens: TOO_LARGE
// for long tokens and for many merges.
enum status merges_put(struct json_buffer *out, struct arena *scratch,
                       const struct scored_tokens *vocabulary, struct error *err) MUST_USE;
