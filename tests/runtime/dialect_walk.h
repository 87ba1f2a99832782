// What the tests of calls' grammars share: random walks through the grammar of a dialect with a
// vocabulary of single bytes and its special tokens, and what the dialect's reader makes of them.
#pragma once

#include "base/json.h"
#include "runtime/grammar/matcher.h"
#include "runtime/text/dialect/grammar.h"
#include "runtime/text/dialect/reply.h"

#define WALK_OTHER "<|other|>" // a special token that stands in no dialect

enum { BYTES = 256, SPECIALS = 64 };

uint32_t walk_random(uint64_t *seed, uint32_t below);

// A dialect with its reasoning's row, its tokenizer and the vocabulary of bytes and special tokens.
struct subject {
    struct dialect d;
    const char *reasoning;
    struct tokenizer *tokenizer; // NULL: all markers are text
    struct vocabulary *v;
    struct text tokens[BYTES + SPECIALS], specials[BYTES + SPECIALS];
    char bytes[BYTES];
    uint32_t count;        // the end has this id
    bool has_text_grammar; // its reader knows that text has a form
};

// Ends the test's process where the row is not known. special: marks that look like special tokens
// are such.
void subject_open(struct subject *s, const char *name, bool special);
void subject_close(struct subject *s);
// All dialects that have calls, with special tokens and without.
void subject_each(void (*use)(const struct subject *s, uint64_t *seed));

// What was written: bytes, and those of special tokens marked.
struct written {
    struct json_buffer text, special;
};

// The literal as tokens, into the matcher and the text. False: the grammar does not have it.
bool subject_write(const struct subject *s, struct matcher *m, const char *literal,
                   struct written *out);
// The special token that no dialect has; false: nor has the subject, or the grammar.
bool subject_write_other(const struct subject *s, struct matcher *m, struct written *out);
void subject_put(const struct subject *s, uint32_t token, struct written *out); // one token
// Draws until the answer ends. False: it did not within the limit.
bool subject_walk(const struct subject *s, struct matcher *m, uint64_t *seed, struct written *out);
// The grammar of answers; fails the test where there is none. A form of the text without content is
// digits.
struct mask_cache *subject_cache(const struct subject *s, const struct dialect_grammar_args *args);
// What the first call begins with.
const char *subject_opening(const struct subject *s);

// What the reader makes of it, as one line; pieces end at random or nowhere.
struct heard {
    struct json_buffer line, arguments[DIALECT_CALLS_MAX];
    char names[DIALECT_CALLS_MAX][REPLY_NAME_MAX + 1];
    bool complete[DIALECT_CALLS_MAX];
    uint32_t count;
    struct json_buffer text, reasoning;
};

// cut: 0: as few pieces as there are special tokens, 1: single bytes, else at random.
void subject_hear(const struct subject *s, const json_t *tools, const struct written *w,
                  enum dialect_start start, uint32_t cut, uint64_t *seed, struct heard *h);
// The first cut (bytes of what was written) at which the arguments of an answer that ends there are
// not a beginning of the whole answer's; SIZE_MAX: there is none.
size_t subject_cut(const struct subject *s, const json_t *tools, const struct written *w,
                   enum dialect_start start, const struct heard *whole);
void heard_line(struct heard *h); // fills in the line
void heard_free(struct heard *h);
