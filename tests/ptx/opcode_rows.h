// What the tests of the table's rows share (test_opcodes.c): one of values lane by lane
// (opcode_values.c), one of what lanes do together and memory (opcode_lanes.c).
#pragma once

#include "tests/ptx/ptx.h"

enum { WORDS = 1024 };
extern uint32_t memory[WORDS];   // the only allocation; %d0 of a body
extern bool instructions_listed; // they are written to a file, and nothing runs

// Runs `body` by one warp, in which the row must be issued, and marks the row as tested.
void row_run(const char *row, const char *shape, const char *body);

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
void test_memory(void **state);
void test_half_of_a_word_may_be_left_out(void **state);
void test_products(void **state);
