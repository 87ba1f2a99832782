// The tokens of one model as bytes, arranged so that one walk finds all that a grammar allows.
//
// Built once a tokenizer, immutable, counted, shared by all engines and threads. Text comes from
// the caller (runtime/text/tokenizer.h: tokenizer_token_bytes); only bytes and ids cross.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vocabulary;

enum {
    VOCABULARY_TOKEN_BYTES_MAX = 1024, // longer tokens are never allowed
    VOCABULARY_SPECIAL_BYTE = 0xFF,
};

struct vocabulary_args {
    uint32_t vocab; // ids of the model's head: a mask row has (vocab + 31) / 32 words
    // [count] bytes of each token as inside a text, copied. at NULL or no bytes: the token is never
    // allowed as text, which is how special and added tokens are kept out; nor is one that holds
    // VOCABULARY_SPECIAL_BYTE. count <= vocab; ids from count on are never allowed.
    const struct text *tokens;
    uint32_t count;
    // [count] or NULL: the text of such special tokens, for free parts (grammar_free_part); read
    // where tokens has no bytes. To a grammar they are VOCABULARY_SPECIAL_BYTE and this text: no
    // UTF-8 has that byte, so grammars of text never allow them.
    const struct text *specials;
    // [end_count] ids that end an answer: allowed exactly where the grammar may end, never as text.
    // Ids outside of 0..vocab-1 are ignored.
    const int32_t *end_ids;
    uint32_t end_count;
};
// Never fails (our own mistakes are checked); ends the process when the system has no memory.
// About 0.15 s and 10 MB for 150,000 tokens.
struct vocabulary *vocabulary_create(const struct vocabulary_args *args);
struct vocabulary *vocabulary_take(struct vocabulary *v); // one more owner; any thread
void vocabulary_give(struct vocabulary *v);               // the last one frees it; NULL is allowed

uint32_t vocabulary_size(const struct vocabulary *v);  // vocab
uint32_t vocabulary_words(const struct vocabulary *v); // uint32 words of a mask row
size_t vocabulary_bytes(const struct vocabulary *v);   // memory it holds
// Bytes of a token that a grammar may allow, with the byte of special ones; bytes == 0: never.
struct text vocabulary_token(const struct vocabulary *v, int32_t token);
// The same of ids that end an answer, too: what a reader sees where one comes and ends nothing.
struct text vocabulary_text(const struct vocabulary *v, int32_t token);
bool vocabulary_is_end(const struct vocabulary *v, int32_t token);
// [8] bytes that its tokens have but the ends; specials: those of special ones, too, for grammars
// that write such. NULL: all that UTF-8 has, so that every text can be written. A byte that stands
// inside of longer tokens alone counts.
const uint32_t *vocabulary_alphabet(const struct vocabulary *v, bool specials);
// Every token with bytes and every end id is allowed by this mask row.
bool vocabulary_allows_all(const struct vocabulary *v, const uint32_t *words);
// No token is allowed by this mask row of so many words.
static inline bool mask_is_empty(const uint32_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (words[i] != 0)
            return false;
    return true;
}
