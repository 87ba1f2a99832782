// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of call grammars: random walks through the grammar of a dialect, with a
// vocabulary of single bytes and the dialect's special tokens, and what the dialect's reader
// returns for the written answer.
#pragma once

#include "base/json.h"
#include "runtime/grammar/matcher.h"
#include "runtime/text/dialect/grammar.h"
#include "runtime/text/dialect/reply.h"

#define WALK_OTHER "<|other|>" // a special token that no dialect uses

enum { BYTES = 256, SPECIALS = 64, HEARD_CALLS_MAX = 4 * DIALECT_CALLS_MAX };

// Returns a pseudo-random number from 0 to below - 1 and advances the seed.
uint32_t walk_random(uint64_t *seed, uint32_t below);

// A dialect under test: its reasoning row, its tokenizer, and a vocabulary of bytes and special
// tokens.
struct subject {
    struct dialect d;
    const char *reasoning;
    struct tokenizer *tokenizer; // NULL: all markers are plain text
    struct vocabulary *v;
    struct text tokens[BYTES + SPECIALS], specials[BYTES + SPECIALS];
    char bytes[BYTES];
    uint32_t count;        // number of tokens; also the id of the end token
    bool has_text_grammar; // passed to the reader: the text has a grammar
};

// Opens the dialect of this row; an unknown row fails the test. special: markers that look like
// special tokens are special tokens.
void subject_open(struct subject *s, const char *name, bool special);
// Frees the tokenizer and the vocabulary.
void subject_close(struct subject *s);
// Calls `use` for every dialect that has calls, without and with special tokens.
void subject_each(void (*use)(const struct subject *s, uint64_t *seed));

// An answer: its bytes, and for each byte a mark: 0 for text, 2 for the first byte of a special
// token, 1 for its other bytes.
struct written {
    struct json_buffer text, special;
};

// Writes the literal as tokens, to the matcher and to `out`. Returns false if the grammar does not
// allow it.
bool subject_write(const struct subject *s, struct matcher *m, const char *literal,
                   struct written *out);
// Writes the special token that no dialect uses. Returns false if the subject has no special tokens
// or the grammar does not allow it.
bool subject_write_other(const struct subject *s, struct matcher *m, struct written *out);
void subject_put(const struct subject *s, uint32_t token, struct written *out); // appends one token
// Draws random allowed tokens until the answer ends. Returns false if it does not end within the
// limit.
bool subject_walk(const struct subject *s, struct matcher *m, uint64_t *seed, struct written *out);
// Creates a mask cache of the answers' grammar; an error fails the test. If the text has a grammar
// but args->content is none, the text is digits.
struct mask_cache *subject_cache(const struct subject *s, const struct dialect_grammar_args *args);
// Returns the literal that begins the first call.
const char *subject_opening(const struct subject *s);

// The reader's events for an answer, collected per call and, by heard_line, as one line.
struct heard {
    struct json_buffer line, arguments[HEARD_CALLS_MAX];
    char names[HEARD_CALLS_MAX][REPLY_NAME_MAX + 1];
    bool complete[HEARD_CALLS_MAX];
    uint32_t count;
    bool reasons; // true if the answer ends in reasoning, where no grammar holds
    struct json_buffer text, reasoning;
};

// Feeds the answer to a reader. cut: 0: pieces end only at special tokens, 1: each byte is a piece,
// otherwise at random bytes.
void subject_hear(const struct subject *s, const json_t *tools, const struct written *w,
                  enum dialect_start start, uint32_t cut, uint64_t *seed, struct heard *h);
// Ends the answer after each byte and special token. Returns the first length for which the
// arguments are not a prefix of those of the complete answer, or SIZE_MAX if there is none.
size_t subject_cut(const struct subject *s, const json_t *tools, const struct written *w,
                   enum dialect_start start, const struct heard *whole);
void heard_line(struct heard *h); // writes h->line: calls, text and reasoning
// Frees the buffers of `h`.
void heard_free(struct heard *h);
