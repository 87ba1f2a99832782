// SPDX-License-Identifier: Apache-2.0
// Limits the number of tokens an answer may spend on reasoning: counts the tokens between a mark
// that opens reasoning and the mark that closes it, and names the token that must follow once they
// are spent. Works on bytes and ids as in vocabulary.h (marks of special tokens contain
// VOCABULARY_SPECIAL_BYTE).
//
// Marks are recognized as by the reply reader (runtime/text/dialect/reply.h): reasoning opens at
// the beginning of a part of the answer, and its close is searched anywhere in it. A new part also
// begins after a call, which ends with a mark or with the bracket that closes its arguments.
// Plain values without locks; a token_budget is read-only after token_budget_make.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TOKEN_BUDGET_MARKS_MAX = 16,
    // of the marks, those that are searched everywhere (role above BUDGET_FIRST)
    TOKEN_BUDGET_PARTS_MAX = 12,
    TOKEN_BUDGET_BYTES_MAX = 96,
    TOKEN_BUDGET_LATE = 3, // tokens over the budget that may complete a character
};

enum token_budget_role {
    BUDGET_OPEN,  // opens reasoning; only at the beginning of a part
    BUDGET_DROP,  // skipped at the beginning of a part; the part begins after it
    BUDGET_FIRST, // begins a call; only at the beginning of a part
    BUDGET_PART,  // begins a new part of the answer, anywhere outside of reasoning
    BUDGET_CALL,  // begins a call, anywhere outside of reasoning
    BUDGET_END,   // inside of a call: begins a new part; between calls: skipped
};

// How calls that have no mark begin and end. Each member is a set of characters, or NULL.
struct token_budget_calls {
    const char *open; // opening brackets of the arguments: the call ends when all are closed
    // opening brackets that begin another call directly after one if a string follows
    const char *again;
    const char *bare;   // opening brackets that begin a call at the beginning of a part
    const char *quotes; // quotes of strings in the arguments
};

struct token_budget_mark {
    struct text text; // 1..TOKEN_BUDGET_BYTES_MAX bytes
    enum token_budget_role role;
};

struct token_budget_args {
    uint32_t tokens_max; // budget for reasoning, over the entire answer
    const struct token_budget_mark *marks;
    uint32_t mark_count;
    struct text close; // 1..TOKEN_BUDGET_BYTES_MAX bytes
    // [close.bytes] forced[i] is the token to force after the first i bytes of the close; -1: no
    // token continues from there. forced[0] is never -1.
    const int32_t *forced;
    struct text before; // text that the answer continues, not counted against the budget
    bool inside;        // true if the answer begins inside of reasoning
    bool called;        // true if the answer begins inside of a call
    struct token_budget_calls calls; // pointers to static strings, or NULL: none
};

// A mark with its failure table (Knuth, Morris, Pratt).
struct token_budget_bytes {
    uint8_t bytes[TOKEN_BUDGET_BYTES_MAX];
    // back[i]: longest proper prefix of the mark that its first i + 1 bytes end with
    uint8_t back[TOKEN_BUDGET_BYTES_MAX];
    uint8_t count, role;
};

// Position of an answer. A plain value that the caller stores.
struct token_budget_place {
    uint32_t tokens;   // tokens spent on reasoning so far
    bool closed;       // true if reasoning was opened and closed before
    bool inside, head; // inside: in reasoning; head: outside, only blanks of this part so far
    bool called;       // true inside of a call
    bool early;        // true if the call began with a bracket and no string followed yet
    bool between;      // at a head: true if a call ended directly before it
    bool escaped;      // true after a backslash inside of quotes
    char quote;        // quote of the open string of a call, or 0
    uint16_t depth;    // number of open brackets of a call
    uint8_t matched;   // matched bytes of the close; at a head, of the marks in `alive`
    uint8_t left;      // continuation bytes that the last character still needs
    uint16_t alive;    // bitmap of the marks that the bytes since the head may still become
    // matched bytes of each mark that is searched everywhere
    uint8_t parts[TOKEN_BUDGET_PARTS_MAX];
};

struct token_budget { // a plain value, immutable after token_budget_make
    uint32_t tokens_max, mark_count;
    struct token_budget_bytes marks[TOKEN_BUDGET_MARKS_MAX], close;
    int32_t forced[TOKEN_BUDGET_BYTES_MAX];
    uint8_t open_mark; // index of the first BUDGET_OPEN mark
    struct token_budget_calls calls;
    struct token_budget_place start;
};

// Fills b from args, whose memory is not used afterwards, except the strings of `calls`.
void token_budget_make(struct token_budget *b, const struct token_budget_args *args);

// Returns the position at the beginning of the answer.
static inline struct token_budget_place token_budget_start(const struct token_budget *b)
{
    return b->start;
}
// Advances *at by one token with these bytes, which may be empty.
void token_budget_next(const struct token_budget *b, struct token_budget_place *at,
                       struct text bytes);
// Returns the only token that may follow, or -1 for any. Forces nothing inside of a character,
// which may take up to TOKEN_BUDGET_LATE tokens more.
int32_t token_budget_forced(const struct token_budget *b, const struct token_budget_place *at);
// Tokens that would open reasoning again although the budget is spent. They must not follow:
// otherwise an answer could open and close reasoning until its end.
struct token_budget_ban {
    // The part of the mark that opens reasoning which the answer lacks: a token that begins with it
    // is banned. 0 bytes: none is.
    struct text rest;
    const char *skip; // set of characters that may precede `rest` in such a token
};
struct token_budget_ban token_budget_banned(const struct token_budget *b,
                                            const struct token_budget_place *at);
