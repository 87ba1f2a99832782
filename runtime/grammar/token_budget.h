// How many tokens an answer may spend on reasoning: a rule that counts tokens between a mark that
// opens it and the mark that closes it, and says which token must come once they are spent. Bytes
// and ids only, as vocabulary.h has them (marks of special tokens with VOCABULARY_SPECIAL_BYTE).
//
// It follows the marks as the reader of replies does (runtime/text/dialect/reply.h): reasoning
// opens where a part of the answer begins, and its close is looked for anywhere in it.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TOKEN_BUDGET_MARKS_MAX = 12,
    TOKEN_BUDGET_PARTS_MAX = 4, // of them with BUDGET_PART
    TOKEN_BUDGET_BYTES_MAX = 96,
    TOKEN_BUDGET_LATE = 3, // tokens more that a character may take that was begun
};

enum token_budget_role {
    BUDGET_OPEN, // reasoning begins after it; it stands at the beginning of a part
    BUDGET_DROP, // left out at the beginning of a part, which goes on beginning
    BUDGET_PART, // a part of the answer begins after it, wherever it stands outside
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
    struct text before; // what the answer continues, as bytes that are not counted
    bool inside;        // it begins inside of reasoning
};

struct token_budget_bytes {
    uint8_t bytes[TOKEN_BUDGET_BYTES_MAX];
    uint8_t back[TOKEN_BUDGET_BYTES_MAX]; // the longest beginning that its first so many end with
    uint8_t count, role;
};

// Where an answer stands. A plain value.
struct token_budget_place {
    uint32_t tokens;   // inside of reasoning, so far
    bool inside, head; // head: outside, and nothing but blanks of this part came
    uint8_t matched;   // bytes of the close; at the head, of the marks that are `alive`
    uint8_t left;      // bytes that the last character still needs
    uint16_t alive;    // marks that what came since the head may still be
    uint8_t parts[TOKEN_BUDGET_PARTS_MAX]; // bytes of each BUDGET_PART
};

struct token_budget { // a plain value, immutable once made
    uint32_t tokens_max, mark_count;
    struct token_budget_bytes marks[TOKEN_BUDGET_MARKS_MAX], close;
    int32_t forced[TOKEN_BUDGET_BYTES_MAX];
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
