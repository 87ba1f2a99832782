// SPDX-License-Identifier: Apache-2.0
// Computes the token mask of an automaton state by a walk over the vocabulary's tries, and caches
// it.
// Used by the thread that uses the mask cache: see matcher.h.
#pragma once

#include "runtime/grammar/automaton.h"
#include "runtime/grammar/matcher.h"
#include "runtime/grammar/walk.h"

// Transition over plain characters: from a position within a UTF-8 character, bytes of the class
// lead to position `to`. mask_cache.edge_first groups them by their source position.
struct plain_edge {
    uint8_t class, to;
};
// Number of positions within a UTF-8 character, see mask.c
enum { UTF8_PLACES = 8, PLAIN_EDGES_MAX = UTF8_PLACES * 256 };

// State of a walk before a trie node, and the number of token bytes read up to there.
struct walk_place {
    uint32_t state, bytes;
};

// Ids that a walk found, written directly into mask_cache.kept; ids beyond max are only counted.
struct found_ids {
    int32_t *at;
    uint32_t place, max, count;
};

struct mask_cache {
    struct grammar *g;
    struct vocabulary *v;
    struct automaton a;
    uint32_t start;
    struct matcher *matchers; // list of all matchers that use this cache
    uint32_t *kept;           // cached masks, see mask.c for the format
    size_t kept_count, kept_capacity;
    struct pages pages;       // memory of kept
    struct plain_edge *edges; // [PLAIN_EDGES_MAX] grouped by source position
    uint32_t edge_first[UTF8_PLACES + 1];
    uint8_t group_class[BYTE_GROUPS]; // class of the first byte of each group
    // [2][VOCABULARY_TOKEN_BYTES_MAX + 1] [0]: main walk, [1]: walk over tails; by trie level
    struct walk_place *walk_stack;
    // [words] allowed tokens of KIND_OTHER in state tails_of; valid if tails_of != 0
    uint32_t *tails;
    struct found_ids found;
    bool has_far_bounds; // true if the grammar has repeat bounds that automaton_coarse may remove
    int reach;           // index into automaton.reach for the mask being computed
    uint32_t tails_of;
    uint32_t tails_walks; // number of walks over tails for the mask being computed
    uint32_t *row;        // [words] scratch: long tokens of one mask
    uint32_t *accept_row; // [words] scratch of matcher_accept
    uint64_t computed, reused, forgotten, over, out_of_memory; // see struct mask_cache_stats
    uint64_t work_max;   // bound of the work of one call, in steps
    uint64_t work_limit; // bound of the automaton's total work, for all calls
    bool walks;          // true if walks over the vocabulary may begin
    bool limited;        // true if a call reached work_limit or needed a walk that was not allowed
    size_t bytes, bytes_most; // memory bound; most memory in use when a table was cleared
};

// Computes edges, edge_first and group_class for the classes of the grammar.
void mask_classes_find(struct mask_cache *c);
// Writes the mask of a state, without end ids. Returns false if a table of the automaton is full or
// its work bound is exceeded (automaton.limit_hit).
bool mask_find(struct mask_cache *c, uint32_t state, uint32_t *words);
// Drops all cached masks. The caller has already reset the references in the states.
void mask_forget(struct mask_cache *c);
// Counts the work of clearing `bytes` of tables; raises the bounds of the call by the same amount.
void mask_charge_forgotten(struct mask_cache *c, size_t bytes);
