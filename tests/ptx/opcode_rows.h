// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the table's rows (test_opcodes.c): rows that compute values lane by lane
// (opcode_values.c), rows in which lanes interact (opcode_lanes.c), and rows that access memory
// (opcode_memory.c).
#pragma once

#include "tests/ptx/ptx.h"

enum { WORDS = 1024 };
extern uint32_t memory[WORDS];   // the only allocation; %d0 of a body
extern uint32_t given[4];        // parameter of 16 bytes with this name
extern bool instructions_listed; // true: instructions are written to a file and do not run

// Runs `body` by one warp, checks that the row is issued, and marks the row as tested.
void row_run(const char *row, const char *shape, const char *body);

// A row that gives each lane a word: %r0 is the lane, %d2 the address of its word, %r1 the value it
// stores there; %r52 is the address of its 16 bytes of shared memory, which begin at %r50. Words 0
// to 255 are 0, word k of the others is 1000 + k.
struct together {
    const char *opcode, *shape, *body;
    uint32_t (*want)(uint32_t lane);
};
void together_test(const struct together *t);

void test_values_of_integers(void **state);
void test_values_of_bits(void **state);
void test_values_of_floats(void **state);
void test_values_of_conversions(void **state);
void test_values_of_moves(void **state);
void test_comparisons_of_integers(void **state);
void test_comparisons_of_floats(void **state);
void test_matrices_of_fragments(void **state);
void test_exchanges_between_lanes(void **state);
void test_flow_and_barriers(void **state);
void test_loads(void **state);
void test_stores(void **state);
void test_atomics(void **state);
void test_copies(void **state);
void test_local_addresses(void **state);
void test_half_of_a_word_may_be_left_out(void **state);
void test_products(void **state);
