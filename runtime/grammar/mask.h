// The masks of states: found by a walk over the vocabulary's tries, then kept. See matcher.h.
#pragma once

#include "runtime/grammar/automaton.h"
#include "runtime/grammar/matcher.h"
#include "runtime/grammar/walk.h"

// One edge over plain characters: from a place inside a character by a class of bytes to another.
struct plain_edge {
    uint8_t class, to;
};
enum { UTF8_PLACES = 8, PLAIN_EDGES_MAX = UTF8_PLACES * 256 };

// Where a walk stands at the beginning of a node, and how many bytes it took.
struct walk_place {
    uint32_t state, bytes;
};

// Ids that a walk found, where a mask is kept; more than max are counted only.
struct found_ids {
    int32_t *at;
    uint32_t place, max, count;
};

struct mask_cache {
    struct grammar *g;
    struct vocabulary *v;
    struct automaton a;
    uint32_t start;
    struct matcher *matchers; // all that stand in this cache
    uint32_t *kept;           // masks of states: see mask.c
    size_t kept_count, kept_capacity;
    struct pages pages;       // of kept
    struct plain_edge *edges; // [PLAIN_EDGES_MAX] by place
    uint32_t edge_first[UTF8_PLACES + 1];
    uint8_t sort_class[BYTE_SORTS]; // of the first byte of a sort
    struct walk_place
        *path;       // [2][VOCABULARY_TOKEN_BYTES_MAX + 1] of a walk, and of one for `tails`
    uint32_t *tails; // [words] tokens of KIND_OTHER in the state tails_of; 0: not known
    struct found_ids found;
    bool counts; // the grammar has bounds that automaton_near may take away
    int far;     // of the mask that is made
    uint32_t tails_of;
    uint32_t tails_walks; // how often tails were walked for the mask that is made
    uint32_t *row;        // [words] long tokens of one mask
    uint32_t *ask;        // [words] for matcher_accept
    uint64_t computed, reused, forgotten, over, starved;
    uint64_t work_max;   // of one call
    uint64_t work_limit; // of the automaton's, for all calls
    bool walks;          // over the vocabulary may begin
    bool limited;        // a call met work_limit, or would have begun a walk
    size_t bytes, bytes_most;
};

// The edges over plain characters, and the sorts, for the classes of the grammar.
void mask_classes_find(struct mask_cache *c);
// Writes the mask of a state without end ids. False: a table of the automaton is full, or it is
// over.
bool mask_find(struct mask_cache *c, uint32_t state, uint32_t *words);
// Forgets all masks; their states have forgotten them already.
void mask_forget(struct mask_cache *c);
// Counts what was forgotten: as work of the cache, which takes nothing from the call's bounds.
void mask_charge_forgotten(struct mask_cache *c, size_t bytes);
