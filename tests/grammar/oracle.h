// SPDX-License-Identifier: Apache-2.0
// The reference for grammars: expressions as plain trees, matched in the slowest and simplest way.
// oracle_build writes the same tree as a grammar, so that a test can compare the two.
#pragma once

#include "runtime/grammar/grammar.h"

enum oracle_kind {
    ORACLE_BYTES,
    ORACLE_CHARS,
    ORACLE_JOIN,
    ORACLE_EITHER,
    ORACLE_REPEAT,
    ORACLE_ONCE, // grammar_once
    ORACLE_RULE
};
enum { ORACLE_MEMBERS = 3 };

struct oracle_node {
    enum oracle_kind kind;
    uint32_t set[8];                 // BYTES: bit i is set if byte i matches
    struct grammar_range ranges[2];  // CHARS: code points that match
    const struct oracle_node *a, *b; // operands of JOIN and EITHER; only `a` for REPEAT
    uint32_t min, max;               // REPEAT: number of repeats; ONCE: max limits the others
    uint32_t rule;
    const struct oracle_node *members[ORACLE_MEMBERS]; // ONCE; a: separator or NULL, b: other
};

enum { ORACLE_NODES = 400, ORACLE_RULES = 4, ORACLE_TEXT_MAX = 62 };

struct oracle {
    struct oracle_node nodes[ORACLE_NODES];
    uint32_t count;
    const struct oracle_node *rules[ORACLE_RULES], *root;
    uint64_t seed, number; // number: the seed it was grown from
};

// Fills `o` with a random tree, a function of `seed`. with_rules: the tree may refer to rules,
// which may recurse.
void oracle_grow(struct oracle *o, uint64_t seed, bool with_rules);
// Fills `o` with a random tree whose root is a ONCE.
void oracle_grow_once(struct oracle *o, uint64_t seed);
// Adds the tree to the builder. Returns the expression of its root.
uint32_t oracle_build(const struct oracle *o, struct grammar_builder *b);

struct oracle_result {
    bool matches; // the complete text is a match
    bool begins;  // the text is a match or a prefix of one
};
// Matches at most ORACLE_TEXT_MAX bytes of text against the tree.
struct oracle_result oracle_match(const struct oracle *o, struct text text);

// Returns a pseudo-random number from 0 to below - 1 and advances the seed.
uint32_t oracle_random(uint64_t *seed, uint32_t below);
