// Expressions as plain trees, matched in the slowest and simplest way: what grammars are compared
// with. A tree is built as a grammar, too, by oracle_build.
#pragma once

#include "runtime/grammar/grammar.h"

enum oracle_kind {
    ORACLE_BYTES,
    ORACLE_CHARS,
    ORACLE_JOIN,
    ORACLE_EITHER,
    ORACLE_REPEAT,
    ORACLE_RULE
};

struct oracle_node {
    enum oracle_kind kind;
    uint32_t set[8];                 // bytes
    struct grammar_range ranges[2];  // chars
    const struct oracle_node *a, *b; // join, either; a: repeat
    uint32_t min, max;
    uint32_t rule;
};

enum { ORACLE_NODES = 400, ORACLE_RULES = 4, ORACLE_TEXT_MAX = 62 };

struct oracle {
    struct oracle_node nodes[ORACLE_NODES];
    uint32_t count;
    const struct oracle_node *rules[ORACLE_RULES], *root;
    uint64_t seed, number; // number: what it was grown from
};

// A random tree; with_rules: it may recurse.
void oracle_grow(struct oracle *o, uint64_t seed, bool with_rules);
uint32_t oracle_build(const struct oracle *o, struct grammar_builder *b);

struct oracle_result {
    bool matches; // the whole text
    bool begins;  // the text is the beginning of a match, or one
};
struct oracle_result oracle_match(const struct oracle *o, struct text text);

uint32_t oracle_random(uint64_t *seed, uint32_t below);
