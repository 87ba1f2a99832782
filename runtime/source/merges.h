// SPDX-License-Identifier: Apache-2.0
// Computes the merges of a vocabulary whose file has scores or ranks instead: SentencePiece's BPE
// (also in GGUF files) and rank files. Loading thread only.
#pragma once

#include "base/arena.h"
#include "base/json.h"

struct scored_tokens {
    const char *tokens_name, *scores_name; // beginnings of errors about a token, about the scores
    const struct text *tokens;             // [count] UTF-8; at == NULL: part of no merge
    const double *scores;                  // [count] highest is merged first; NaN: never merged
    uint32_t count;
    size_t bytes_max; // limit of out->bytes; writing stops above it, which the caller must check
};
// Writes the merges that the scores define as a JSON array: every way to combine two tokens to a
// third, the highest score first. Their number can be the square of that of the tokens, so hostile
// vocabularies with long tokens or too many merges are TOO_LARGE. scratch: memory of the merges.
enum status merges_put(struct json_buffer *out, struct arena *scratch,
                       const struct scored_tokens *vocabulary, struct error *err) MUST_USE;
