// SPDX-License-Identifier: Apache-2.0
// Private header of the grammar module: expression nodes, the builder, the compiled tables.
#pragma once

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/intern.h"
#include "runtime/grammar/byte_groups.h"

#include <stdatomic.h>

// a and b are expressions (JOIN, EITHER, REPEAT, LEVEL, ONCE), a set or a rule. Except through
// rules, an expression has a higher number than its children.
enum expr_kind {
    EXPR_NOTHING,
    EXPR_EMPTY,
    EXPR_SET,    // a: byte set
    EXPR_JOIN,   // a, then b
    EXPR_EITHER, // a or b
    EXPR_REPEAT, // a, at least b and at most c times
    EXPR_RULE,   // a: rule
    EXPR_LEVEL,  // a, which closes a nesting level: see grammar_level
    EXPR_ONCE,   // see grammar_once. a: chain of EITHER of the members; b: other; c: ONCE_ bits
};
// Bits of an EXPR_ONCE. ONCE_SEPARATED: each member begins with the separator, as the first child
// of a JOIN. ONCE_FILLED: the empty string is left out.
enum { ONCE_OTHERS = 0xFF, ONCE_SEPARATED = 1 << 8, ONCE_FILLED = 1 << 9 };
// An item of EXPR_ONCE has the set of members that occurred in `low` and in the lower bits of
// `high`, and the number of others in the upper bits.
enum { ONCE_COUNT_SHIFT = 24 };

struct expr {
    uint32_t kind, a, b, c;
};
enum { EXPR_WORDS = 4, SET_WORDS = 8, RULE_UNSET = -1 };

struct rule {
    int64_t body;   // expression, or RULE_UNSET
    size_t name_at; // name: name_bytes bytes at builder.names + name_at
    uint32_t name_bytes;
};

struct grammar_builder {
    struct grammar_limits limits;
    struct intern exprs, sets;
    struct intern compared; // compared pairs of expressions (product.c): one, other, except
    uint32_t *results;      // [compared.capacity] resulting expression, or a RESULT_ value
    struct rule *rules;
    uint32_t rule_count, rule_capacity;
    char *names;
    size_t name_bytes, name_capacity;
    uint32_t utf8_tails[4]; // [n]: any n continuation bytes of UTF-8; GRAMMAR_NOTHING: unset
    uint64_t work;
    struct error failure; // first failure; STATUS_OK: none yet
};

// After grammar_finish: the same kinds of nodes, reduced to those that are reachable and can match.
// No repeat has a body that can be empty, and there is no left recursion.
struct grammar {
    _Atomic uint32_t owners;
    struct expr *exprs;
    uint32_t *sets;   // [set_count][SET_WORDS] bitmaps
    uint32_t *bodies; // [rule_count] expression of each rule
    uint32_t expr_count, set_count, rule_count, root;
    uint32_t class_count;     // number of byte classes; bytes of a class are in the same sets
    uint8_t class_of[256];    // byte -> class
    uint8_t class_first[256]; // class -> its first byte
    uint64_t *cuts;           // [set_count] byte_groups_cut of each set
    uint64_t cut;             // union of cuts; all bytes of any other group are in one class
    uint16_t *heights;        // [expr_count] see expr_find_heights
    uint16_t *levels;         // [expr_count] see expr_find_heights
    uint8_t *shortest;        // [expr_count] lower bound of the bytes of a string, at most 255
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

// Records the failure unless there is one already. Returns GRAMMAR_NOTHING.
uint32_t builder_fail(struct grammar_builder *b, enum status status, const char *sentence);
// Values of grammar_builder.results that are no expression: not computed yet; needs too many
// states.
#define RESULT_UNKNOWN UINT32_MAX
#define RESULT_TOO_LARGE (UINT32_MAX - 1)
// Returns the index into `results` for (one and other), or with `except` for (one without other). A
// new pair is added with RESULT_UNKNOWN. INTERN_NONE: a limit was exceeded.
uint32_t builder_compared(struct grammar_builder *b, uint32_t one, uint32_t other, bool except);
// Creates an EXPR_ONCE; members: its `a`.
uint32_t builder_once(struct grammar_builder *b, uint32_t members, uint32_t other, uint32_t bits);
struct text builder_rule_name(const struct grammar_builder *b, uint32_t rule);

// analyse.c. `wanted` and `truth` are arrays of [expr_count] allocated by the caller. Marks all
// expressions reachable from root in `wanted`; as an input of the functions below it restricts them
// to marked expressions, whose rules must have bodies.
void expr_mark_reachable(const struct grammar_builder *b, uint32_t root, uint8_t *wanted);
// Least solution of "matches some string" and "matches the empty string" for each expression.
void expr_find_productive(const struct grammar_builder *b, const uint8_t *wanted, uint8_t *truth);
void expr_find_nullable(const struct grammar_builder *b, const uint8_t *wanted, uint8_t *truth);
// Returns a left-recursive rule (one that can begin with itself), or -1.
int64_t expr_left_recursion(const struct grammar_builder *b, const uint8_t *wanted,
                            const uint8_t *nullable);
// heights[e]: the number of items by which the automaton's item list must grow at least in order to
// read some string of expression e to its end; HEIGHT_MAX + 1: more than HEIGHT_MAX. levels[e]: the
// same, counting only items of kind EXPR_LEVEL.
enum { HEIGHT_MAX = 4000 };
void expr_find_heights(const struct grammar_builder *b, const uint8_t *wanted, uint16_t *heights,
                       uint16_t *levels);
// Returns a rule that contains itself other than at its end, or -1.
int64_t expr_nesting(const struct grammar_builder *b, const uint8_t *wanted);

// finish.c. grammar_finish without destroying b, which is not changed. *out NULL with STATUS_OK: no
// string matches.
enum status grammar_compile(const struct grammar_builder *b, uint32_t root, struct grammar **out,
                            struct error *err) MUST_USE;
