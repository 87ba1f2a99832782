// SPDX-License-Identifier: Apache-2.0
// The tokens of one model as bytes, arranged so that one walk finds all tokens that a grammar
// allows.
//
// Created once per tokenizer, immutable, reference-counted, shared by all engines and threads. The
// caller provides the bytes of the tokens (runtime/text/tokenizer.h: tokenizer_token_bytes).
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vocabulary;

enum {
    VOCABULARY_TOKEN_BYTES_MAX = 1024, // longer tokens are never allowed by a grammar
    VOCABULARY_SPECIAL_BYTE = 0xFF,    // precedes the text of a special token; not a byte of UTF-8
};

struct vocabulary_args {
    uint32_t vocab; // number of ids of the model's head; a mask row has (vocab + 31) / 32 words
    // [count] bytes of each token as they appear inside a text; copied. An entry with at NULL or 0
    // bytes is never allowed as text, which keeps out special and added tokens; nor is a token that
    // contains VOCABULARY_SPECIAL_BYTE. count <= vocab; ids from count on are never allowed.
    const struct text *tokens;
    uint32_t count;
    // [count] or NULL: texts of special tokens, for free parts (grammar_free_part); only read for
    // tokens without bytes in `tokens`. A grammar sees them as VOCABULARY_SPECIAL_BYTE and this
    // text. UTF-8 does not contain that byte, so grammars of text never allow them.
    const struct text *specials;
    // [end_count] ids that end an answer: allowed exactly if the grammar may end, never as text.
    // Ids outside of 0..vocab-1 are ignored.
    const int32_t *end_ids;
    uint32_t end_count;
};
// Creates a vocabulary. Ends the process if no memory is left. Takes about 0.15 s and 10 MB for
// 150,000 tokens.
struct vocabulary *vocabulary_create(const struct vocabulary_args *args);
struct vocabulary *vocabulary_ref(struct vocabulary *v); // adds a reference; any thread
// Drops a reference, the last frees it; NULL is allowed.
void vocabulary_unref(struct vocabulary *v);

uint32_t vocabulary_size(const struct vocabulary *v);  // number of ids
uint32_t vocabulary_words(const struct vocabulary *v); // number of uint32 words of a mask row
size_t vocabulary_bytes(const struct vocabulary *v);   // memory of the vocabulary
// Returns the bytes of a token as a grammar sees them, with VOCABULARY_SPECIAL_BYTE for a special
// token; 0 bytes: never allowed.
struct text vocabulary_token(const struct vocabulary *v, int32_t token);
// As vocabulary_token, but also for ids that end an answer: the text to show for one that does not
// end it.
struct text vocabulary_text(const struct vocabulary *v, int32_t token);
bool vocabulary_is_end(const struct vocabulary *v, int32_t token);
// Returns the bitmap [8] of the bytes that tokens other than end ids contain; with `specials`
// including special tokens, for grammars that contain them. NULL: every byte of UTF-8, so that
// every text can be written. A byte counts even if it only occurs inside of longer tokens.
const uint32_t *vocabulary_alphabet(const struct vocabulary *v, bool specials);
// Returns true if the mask row allows every token with bytes and every end id.
bool vocabulary_allows_all(const struct vocabulary *v, const uint32_t *words);
// Clears the bits of all tokens whose bytes begin with `begin` (at least one byte), also after any
// number of the characters of `skip`, none of which begins `begin`.
void vocabulary_forbid(const struct vocabulary *v, struct text begin, const char *skip,
                       uint32_t *words);
// Returns true if a mask row of `count` words allows no token.
static inline bool mask_is_empty(const uint32_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (words[i] != 0)
            return false;
    return true;
}
