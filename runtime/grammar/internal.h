// The inside of grammars: nodes of expressions, the builder, the compiled tables.
#pragma once

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/intern.h"
#include "runtime/grammar/sorts.h"

#include <stdatomic.h>

// a and b are expressions (JOIN, EITHER, REPEAT, LEVEL), a set or a rule; children have smaller
// numbers than what they are in, but for rules.
enum expr_kind {
    EXPR_NOTHING,
    EXPR_EMPTY,
    EXPR_SET,    // a: byte set
    EXPR_JOIN,   // a, then b
    EXPR_EITHER, // a or b
    EXPR_REPEAT, // a, at least b and at most c times
    EXPR_RULE,   // a: rule
    EXPR_LEVEL,  // a, which closes a level: see grammar_level
};
struct expr {
    uint32_t kind, a, b, c;
};
enum { EXPR_WORDS = 4, SET_WORDS = 8, RULE_UNSET = -1 };

struct rule {
    int64_t body; // RULE_UNSET: none yet
    size_t name_at;
    uint32_t name_bytes;
};

struct grammar_builder {
    struct grammar_limits limits;
    struct intern exprs, sets;
    struct intern compared; // pairs of expressions that product.c compared, and how
    uint32_t *results;      // [compared.capacity] of these, or a RESULT
    struct rule *rules;
    uint32_t rule_count, rule_capacity;
    char *names;
    size_t name_bytes, name_capacity;
    uint32_t whole[4]; // any continuation of so many bytes; GRAMMAR_NOTHING: not made yet
    uint64_t work;
    struct error failure; // STATUS_OK: none yet
};

// After grammar_finish: the same nodes, only those that are reachable and productive, no repeat of
// what may be empty, no left recursion.
struct grammar {
    _Atomic uint32_t owners;
    struct expr *exprs;
    uint32_t *sets; // [set_count][SET_WORDS]
    uint32_t *bodies;
    uint32_t expr_count, set_count, rule_count, root;
    uint32_t class_count;     // bytes of one class are in the same sets
    uint8_t class_of[256];    // byte -> class
    uint8_t class_first[256]; // class -> its first byte
    uint64_t *cuts;           // [set_count] byte_sorts_cut
    uint64_t cut;             // of any set; bytes of all other sorts are of one class
    uint16_t *heights;        // [expr_count] expr_find_heights
    uint16_t *levels;         // [expr_count] likewise
    struct grammar_hash hash;
    size_t bytes;
};

static inline const struct expr *expr_of(const struct grammar_builder *b, uint32_t e)
{
    return (const struct expr *)(const void *)(b->exprs.at + (size_t)e * EXPR_WORDS);
}

static inline bool set_has(const uint32_t *set, uint32_t byte)
{
    return set[byte / 32] >> (byte % 32) & 1;
}

// The first failure stands; returns GRAMMAR_NOTHING.
uint32_t builder_fail(struct grammar_builder *b, enum status status, const char *sentence);
// The place in results of what two expressions have in common, or of the first without the second;
// INTERN_NONE: a limit was met.
#define RESULT_UNKNOWN UINT32_MAX
#define RESULT_TOO_LARGE (UINT32_MAX - 1)
uint32_t builder_compared(struct grammar_builder *b, uint32_t one, uint32_t other, bool except);
struct text builder_rule_name(const struct grammar_builder *b, uint32_t rule);

// analyse.c. [expr_count] of bytes, from heap_take; the rules must have bodies where wanted is set.
void expr_mark_reachable(const struct grammar_builder *b, uint32_t root, uint8_t *wanted);
// The least solution: which expressions match some string, or the empty one.
void expr_find_productive(const struct grammar_builder *b, const uint8_t *wanted, uint8_t *truth);
void expr_find_nullable(const struct grammar_builder *b, const uint8_t *wanted, uint8_t *truth);
// A rule that begins with itself, or -1.
int64_t expr_left_recursion(const struct grammar_builder *b, const uint8_t *wanted,
                            const uint8_t *nullable);
// [expr_count]: by how many items a list grows at least where the expression is put on it and some
// string of it is read to its end; HEIGHT_MAX + 1: by more.
// levels: the same, of items that close a level.
enum { HEIGHT_MAX = 4000 };
void expr_find_heights(const struct grammar_builder *b, const uint8_t *wanted, uint16_t *heights,
                       uint16_t *levels);
// A rule that contains itself other than at its end, or -1.
int64_t expr_nesting(const struct grammar_builder *b, const uint8_t *wanted);

// finish.c. b stays as it is. Errors as grammar_finish; *out NULL with STATUS_OK: no string
// matches.
enum status grammar_compile(const struct grammar_builder *b, uint32_t root, struct grammar **out,
                            struct error *err) MUST_USE;
