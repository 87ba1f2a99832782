// SPDX-License-Identifier: Apache-2.0
// The automaton of a grammar over byte classes, built lazily as it is walked.
//
// An item is an expression and the item that follows it. Items form lists that share their tails,
// so an item is both a position and its stack; items of counted repeats contain the remaining
// bounds. A state is a set of items: all ways to continue after the bytes read so far. Items and
// states are interned, so a transition that was followed before is one load. The memory is fixed at
// creation. One thread at a time.
#pragma once

#include "runtime/grammar/internal.h"
#include "runtime/grammar/pages.h"

enum {
    STATE_FAILED = 0, // a table is full, or automaton.limit_hit is set
    STATE_DEAD = 1,   // no string continues like this
    STATE_FIRST = 2,
    ITEM_END = 0, // end of the list: the string may end here
    // as uint32_t: the item would exceed AUTOMATON_DEPTH_MAX or GRAMMAR_LEVELS_MAX
    ITEM_TOO_DEEP = -1,
    // maximum length of a list of items; an item that needs a longer one to end is dropped
    AUTOMATON_DEPTH_MAX = HEIGHT_MAX,
    STATE_MEMBERS_MAX = 16384, // maximum members of a state; more set automaton.limit_hit
    STATE_MEMBERS_MANY = 16,   // members from which equal heads share the union of their tails
};

struct item {
    // low, high: bounds of a repeat, or the members of EXPR_ONCE; next: item that follows
    uint32_t expr, low, high, next;
};
// value of expr: the item is the union of the items `low` and `next`
#define ITEM_UNION UINT32_MAX
enum item_flags { ITEM_EXPANDED = 1, ITEM_ENDS = 2, ITEM_KEPT = 4 };
struct item_info {
    uint32_t pairs_at, pair_count; // its transitions by one byte, see struct pair
    uint32_t stamp, flags;
    uint16_t depth, levels; // length of the list item, next, ...; number of EXPR_LEVEL in it
    uint32_t coarse[2];     // automaton_coarse of the item; 0: unknown (ITEM_END maps to itself)
};
struct pair {
    uint32_t set, next; // a byte of the set leads to the item `next`
};
enum state_flags {
    STATE_ENDS_KNOWN = 1,
    STATE_ENDS = 2,
    STATE_KEPT = 4,
    STATE_PLAIN_KNOWN = 8, // STATE_PLAIN is valid (mask.c)
    STATE_PLAIN = 16,      // each plain character leads back to the state
};
#define GROUPS_KNOWN (1ull << 63) // flag in a bitmap of groups: the bitmap was computed
struct automaton_state {
    uint32_t first, count; // its members in automaton.members
    uint32_t flags;
    uint32_t kept, kept_long; // mask.c: positions of its cached masks; 0: none
    uint32_t coarse[2];       // result of automaton_coarse; 0: unknown
    // mask.c: groups of bytes (byte_groups.h) that lead back to the state; 0: unknown
    uint64_t loops;
    uint64_t cut; // result of automaton_cut; 0: unknown
};

struct automaton {
    const struct grammar *g;
    struct intern items;
    struct item_info *info;
    struct pair *pairs;
    uint32_t pair_count, pair_capacity;
    uint32_t *members; // members of all states
    uint32_t member_count, member_capacity;
    struct automaton_state *states;
    uint32_t state_count, state_capacity;
    uint32_t *slots;               // [slot_count] hash table of state numbers; 0: free
    uint32_t slot_count, slot_max; // as in struct intern
    uint32_t *moved;   // [state_capacity] new state number after automaton_compact, by old number
    uint32_t *next;    // [state_capacity][class_count] next state; 0: unknown
    uint32_t *list;    // [items.capacity] work list of items
    uint32_t *scratch; // [STATE_MEMBERS_MAX] members of the state being built
    uint32_t *tails;   // [STATE_MEMBERS_MAX] tails of items with equal heads
    uint32_t stamp;
    uint32_t reach[2]; // in bytes, see automaton_coarse; set once by the owner
    uint64_t work;     // items, pairs and members processed, in steps of about 5 ns
    uint64_t work_max; // bound of work, set by the owner; nothing new is built above it
    bool limit_hit;    // true if work_max or STATE_MEMBERS_MAX was exceeded; the owner clears it
    // true if an item was dropped because of AUTOMATON_DEPTH_MAX or GRAMMAR_LEVELS_MAX
    bool too_deep;
    uint32_t kept_items, kept_members; // number marked by automaton_keep
    struct pages pages;                // memory of all tables
};

// bytes: memory for all tables, at least 2 MiB. The grammar must outlive the automaton. work_max is
// initially unlimited.
void automaton_init(struct automaton *a, const struct grammar *g, size_t bytes);
void automaton_deinit(struct automaton *a);
size_t automaton_used(const struct automaton *a); // bytes of the tables in use

// Returns the start state, or the state after one byte of the class: a state number, STATE_DEAD or
// STATE_FAILED.
uint32_t automaton_start(struct automaton *a);
uint32_t automaton_step_new(struct automaton *a, uint32_t state, uint32_t class);
static inline uint32_t automaton_step(struct automaton *a, uint32_t state, uint32_t class)
{
    uint32_t to = a->next[(size_t)state * a->g->class_count + class];
    return to != 0 ? to : automaton_step_new(a, state, class);
}
// Sets *cut to the groups of bytes (byte_groups.h) whose bytes may lead to different states; all
// bytes of any other group lead to the same state. Returns false on STATE_FAILED.
bool automaton_cut(struct automaton *a, uint32_t state, uint64_t *cut);
// 1: a string may end here; 0: not; -1: STATE_FAILED.
int automaton_ends(struct automaton *a, uint32_t state);

// Returns a state that accepts the same texts of at most a->reach[reach] bytes. Repeat bounds that
// this many bytes cannot reach are removed, so that many states share one. Returns STATE_FAILED if
// a table is full.
uint32_t automaton_coarse(struct automaton *a, uint32_t state, int reach);
bool automaton_has_far_bounds(
    const struct automaton *a); // true if automaton_coarse can remove bounds

// automaton_keep marks a state; automaton_compact drops all states that are not marked, stores the
// new state numbers in moved[] and clears the marks.
void automaton_keep(struct automaton *a, uint32_t state);
void automaton_unkeep(struct automaton *a); // clears all marks
void automaton_compact(struct automaton *a);
// Returns an upper bound of the items and members that keeping the state uses.
uint64_t automaton_weight(const struct automaton *a, uint32_t state);
// Returns true if the marked items or members fill more than half of their table.
bool automaton_half_full(const struct automaton *a);

static inline const struct item *item_of(const struct automaton *a, uint32_t item)
{
    return (const struct item *)(const void *)(a->items.at + (size_t)item * 4);
}
