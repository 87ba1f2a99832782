// The automaton of a grammar over classes of bytes, built as far as it is walked.
//
// An item is an expression and what follows it, a list that shares its tails, so it is at once a
// position and its stack; counted repeats carry what is left of their bounds. A state is a set of
// items: all the ways that a string read so far can go on. Items and states are numbered once, so
// a step that was taken before is one load. Memory is fixed at creation. One thread at a time.
#pragma once

#include "runtime/grammar/internal.h"
#include "runtime/grammar/pages.h"

enum {
    STATE_NO_ROOM = 0, // a table is full, or automaton.over
    STATE_DEAD = 1,    // no string goes on like this
    STATE_FIRST = 2,
    ITEM_END = 0,                     // the string may end
    ITEM_TOO_DEEP = -1,               // as uint32_t
    AUTOMATON_DEPTH_MAX = HEIGHT_MAX, // items in a list; what could not be closed is not allowed
    STATE_MEMBERS_MAX = 16384,        // more ways at once are not followed: automaton.over
    STATE_MEMBERS_MANY = 16, // from here on equal heads share the union of what follows them
};

struct item {
    uint32_t expr, low, high, next; // bounds of repeats; next: item
};
#define ITEM_UNION UINT32_MAX // as expr: what one of the items low and next stands for
enum item_flags { ITEM_EXPANDED = 1, ITEM_ENDS = 2, ITEM_KEPT = 4 };
struct item_info {
    uint32_t pairs_at, pair_count; // how it can go on by one byte
    uint32_t stamp, flags;
    uint16_t depth, levels; // items of the list; those of them that close a level
    uint32_t near[2];       // automaton_near of the item; 0: not known yet (the end is near itself)
};
struct pair {
    uint32_t set, next; // a byte of the set leads to the item
};
enum state_flags {
    STATE_ENDS_KNOWN = 1,
    STATE_ENDS = 2,
    STATE_KEPT = 4,
    STATE_PLAIN_KNOWN = 8, // mask.c:
    STATE_PLAIN = 16,      // each plain character leads back to it
};
#define SORTS_KNOWN (1ull << 63)
struct automaton_state {
    uint32_t first, count; // members
    uint32_t flags;
    uint32_t kept, kept_far; // mask.c: where its masks lie; 0: nowhere
    uint32_t near[2];        // automaton_near; 0: not known yet
    uint64_t
        loops;    // mask.c: sorts of bytes (sorts.h) that lead back to it; SORTS_KNOWN: they stand
    uint64_t cut; // automaton_cut, likewise
};

struct automaton {
    const struct grammar *g;
    struct intern items;
    struct item_info *info;
    struct pair *pairs;
    uint32_t pair_count, pair_capacity;
    uint32_t *members; // of states
    uint32_t member_count, member_capacity;
    struct automaton_state *states;
    uint32_t state_count, state_capacity;
    uint32_t *slots;               // state number; 0: free
    uint32_t slot_count, slot_max; // as those of items
    uint32_t *moved;               // [state_capacity] automaton_compact: old number -> new one
    uint32_t *next;                // [state_capacity][class_count] state; 0: not known yet
    uint32_t *list;                // [items.capacity] items to look at
    uint32_t *scratch;             // [STATE_MEMBERS_MAX] members of a state to be
    uint32_t *tails;               // [STATE_MEMBERS_MAX] what follows equal heads
    uint32_t stamp;
    uint32_t reach[2]; // bytes; set by the owner, never changed
    uint64_t work;     // items, pairs and members that were looked at, in steps of about 5 ns
    uint64_t work_max; // nothing new is built from there on; the owner raises it
    bool over;         // work_max or STATE_MEMBERS_MAX was met; the owner clears it
    bool too_deep; // something is not allowed because of AUTOMATON_DEPTH_MAX or GRAMMAR_LEVELS_MAX
    uint32_t kept_items, kept_members; // marked by automaton_keep
    struct pages pages;                // all of these
};

// bytes: of all tables, at least 2 MiB. The grammar must outlive it. work_max has no bound yet.
void automaton_open(struct automaton *a, const struct grammar *g, size_t bytes);
void automaton_close(struct automaton *a);
size_t automaton_used(const struct automaton *a);

// A state number, STATE_DEAD or STATE_NO_ROOM.
uint32_t automaton_start(struct automaton *a);
uint32_t automaton_step_new(struct automaton *a, uint32_t state, uint32_t class);
static inline uint32_t automaton_step(struct automaton *a, uint32_t state, uint32_t class)
{
    uint32_t to = a->next[(size_t)state * a->g->class_count + class];
    return to != 0 ? to : automaton_step_new(a, state, class);
}
// The sorts of bytes (sorts.h) that may lead to different states; all bytes of each other one lead
// to the same. False: no room.
bool automaton_cut(struct automaton *a, uint32_t state, uint64_t *cut);
int automaton_ends(struct automaton *a, uint32_t state); // 1: a string may end here; -1: no room

// A state from which the same texts of at most a->reach[far] bytes go on: bounds of repeats that so
// few bytes cannot meet are taken away, so that many states have one. STATE_NO_ROOM: as ever.
uint32_t automaton_near(struct automaton *a, uint32_t state, int far);
bool automaton_has_far(const struct automaton *a); // there are such bounds

// Forgets all but the states that were kept since the last time; moved[] tells their new numbers.
void automaton_keep(struct automaton *a, uint32_t state);
void automaton_unkeep(struct automaton *a); // none is kept
void automaton_compact(struct automaton *a);
// At most how many items and members keeping a state takes.
uint64_t automaton_weight(const struct automaton *a, uint32_t state);
// What is kept takes more than half of a table.
bool automaton_is_crowded(const struct automaton *a);

static inline const struct item *item_of(const struct automaton *a, uint32_t item)
{
    return (const struct item *)(const void *)(a->items.at + (size_t)item * 4);
}
