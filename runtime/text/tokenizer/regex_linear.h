// SPDX-License-Identifier: Apache-2.0
// A second matcher for patterns that pattern.h has translated, used where PCRE2 runs out of memory
// for backtracking: it simulates all threads of the pattern at once (Pike's algorithm), so its time
// is proportional to the text and its memory to the pattern. regex_program.c compiles a pattern to
// a program, regex_linear.c runs it. A program is immutable; a state belongs to one thread.
#pragma once

#include "base/arena.h"
#include "runtime/text/tokenizer/regex.h"

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

enum {
    LINEAR_ATOMS_MAX = 63, // different sets of characters; a bit each, and one more
    LINEAR_LOOKS_MAX = 32, // lookaheads and lookbehinds
    LINEAR_LOOK_OPS = 64,  // instructions of a lookaround; a bit each
    LINEAR_OPS_MAX = 4096, // instructions of a pattern
};

enum linear_op_kind {
    LINEAR_ATOM,  // x: index of a set; matches one of its characters
    LINEAR_SPLIT, // continues at x, and with lower priority at y
    LINEAR_JUMP,  // continues at x
    LINEAR_LOOK,  // x: index of a lookaround; y: 1 if it must not match
    LINEAR_AT,    // x: enum linear_place
    LINEAR_MATCH,
};
enum linear_place { PLACE_START, PLACE_END, PLACE_LAST, PLACE_LINE_START, PLACE_LINE_END };

struct linear_op {
    enum linear_op_kind kind;
    uint32_t x, y;
};

// A set of characters. code: PCRE2's, anchored at both ends; NULL: only the character `literal`.
struct linear_atom {
    struct text source;
    pcre2_code *code;
    uint32_t literal;
};

struct linear_look {
    bool behind;
    uint64_t atoms;              // not 0: it is one character of these sets, and has no program
    const struct linear_op *ops; // [count]
    uint32_t count;
};

struct linear {
    struct arena *arena; // owns the program
    struct linear_op *ops;
    uint32_t count;
    struct linear_look looks[LINEAR_LOOKS_MAX]; // an inner one has a smaller index
    uint32_t look_count;
    struct linear_atom atoms[LINEAR_ATOMS_MAX];
    uint32_t atom_count;
};

// Compiles a translated pattern. NULL: it has a construct that is not supported: captures, back
// references, atomic groups, possessive groups, \K, \G, \R, repeats of what may be empty.
struct linear *linear_create(struct text pattern);
void linear_destroy(struct linear *linear); // NULL is allowed

// One thread's tables for one program: the sets of the characters seen, and where lookarounds match
// in the text of the search.
struct linear_state;

struct regex_scratch {
    struct arena *arena; // memory of the other members
    pcre2_match_data *data;
    struct linear_state *states; // list with one state for each program that has run
    uint64_t steps;              // number of instructions that programs have run
};

// Finds the first match at or after `from`, as regex_find does. from == 0 begins a new text.
// Returns REGEX_LIMIT if the arena is full.
enum regex_found linear_find(const struct linear *linear, struct regex_scratch *scratch,
                             struct text text, size_t from, struct regex_span *out);
