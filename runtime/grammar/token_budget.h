// How many tokens an answer may spend on reasoning: a rule that counts tokens between a mark that
// opens it and the mark that closes it, and says which token must come once they are spent. Bytes
// and ids only, as vocabulary.h has them (marks of special tokens with VOCABULARY_SPECIAL_BYTE).
//
// It follows the marks as the reader of replies does (runtime/text/dialect/reply.h): reasoning
// opens where a part of the answer begins, and its close is looked for anywhere in it. A part
// begins after a call, too, which ends with a mark or with the bracket that closes its arguments.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TOKEN_BUDGET_MARKS_MAX = 16,
    TOKEN_BUDGET_PARTS_MAX = 12, // of them that are looked for anywhere
    TOKEN_BUDGET_BYTES_MAX = 96,
    TOKEN_BUDGET_LATE = 3, // tokens more that a character may take that was begun
};

enum token_budget_role {
    BUDGET_OPEN,  // reasoning begins after it; it stands at the beginning of a part
    BUDGET_DROP,  // left out at the beginning of a part, which goes on beginning
    BUDGET_FIRST, // a call begins after it; it stands at the beginning of a part
    BUDGET_PART,  // a part of the answer begins after it, wherever it stands outside
    BUDGET_CALL,  // a call begins after it, wherever it stands outside
    BUDGET_END,   // the same as BUDGET_PART inside of a call; left out between calls
};

// How calls end without a mark.
struct token_budget_calls {
    const char *open;  // brackets of the arguments: the call ends where they are closed
    const char *again; // between calls one of these and a string begin another one
    const char *bare;  // likewise at the beginning of a part
    const char *quotes;
};

struct token_budget_mark {
    struct text text; // 1..TOKEN_BUDGET_BYTES_MAX bytes
    enum token_budget_role role;
};

struct token_budget_args {
    uint32_t tokens_max; // inside of reasoning, over the whole answer
    const struct token_budget_mark *marks;
    uint32_t mark_count;
    struct text close; // 1..TOKEN_BUDGET_BYTES_MAX bytes
    // [close.bytes] the token that is forced where the answer ends with so many bytes of the close;
    // -1: none goes on from there. The first one is a token.
    const int32_t *forced;
    // The token that completes the first BUDGET_OPEN after so many bytes of it, and must not once
    // reasoning was closed and the tokens are spent; NULL: none.
    const int32_t *reopen;
    uint8_t reopen_at;
    struct text before; // what the answer continues, as bytes that are not counted
    bool inside;        // it begins inside of reasoning, or of a call
    bool called;
    struct token_budget_calls calls; // static strings, or NULL: none
};

struct token_budget_bytes {
    uint8_t bytes[TOKEN_BUDGET_BYTES_MAX];
    uint8_t back[TOKEN_BUDGET_BYTES_MAX]; // the longest beginning that its first so many end with
    uint8_t count, role;
};

// Where an answer stands. A plain value.
struct token_budget_place {
    uint32_t tokens;   // inside of reasoning, so far
    bool closed;       // some reasoning was, and was closed
    bool inside, head; // head: outside, and nothing but blanks of this part came
    bool called;       // inside of a call
    bool early;        // which began with a bracket, and no string came yet
    bool between;      // at a head: a call came before it
    bool escaped;      // inside of quotes, after a backslash
    char quote;        // of the string of a call, or 0
    uint16_t depth;    // brackets of a call that are open
    uint8_t matched;   // bytes of the close; at the head, of the marks that are `alive`
    uint8_t left;      // bytes that the last character still needs
    uint16_t alive;    // marks that what came since the head may still be
    uint8_t parts[TOKEN_BUDGET_PARTS_MAX]; // bytes of each mark that may stand anywhere
};

struct token_budget { // a plain value, immutable once made
    uint32_t tokens_max, mark_count;
    struct token_budget_bytes marks[TOKEN_BUDGET_MARKS_MAX], close;
    int32_t forced[TOKEN_BUDGET_BYTES_MAX];
    int32_t reopen; // or -1
    uint8_t reopen_at, reopen_mark;
    struct token_budget_calls calls;
    struct token_budget_place start;
};

void token_budget_make(struct token_budget *b, const struct token_budget_args *args);

static inline struct token_budget_place token_budget_start(const struct token_budget *b)
{
    return b->start;
}
// One more token of these bytes, which may be none.
void token_budget_next(const struct token_budget *b, struct token_budget_place *at,
                       struct text bytes);
// The one token that may come, or -1. Not inside of a character, which may take up to
// TOKEN_BUDGET_LATE tokens more.
int32_t token_budget_forced(const struct token_budget *b, const struct token_budget_place *at);
// A token that must not come, because it would open reasoning that is closed at once, or -1. Else
// an answer could open and close it to its end.
int32_t token_budget_banned(const struct token_budget *b, const struct token_budget_place *at);
