// SPDX-License-Identifier: Apache-2.0
// Runs pieces of PTX for the tests of the interpreter: each is the body of a kernel whose result is
// the word %r1 of each thread.
#pragma once

#include "tests/ptx/ptx.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 1024 };

extern uint32_t memory[WORDS];   // the only allocation; begins with the results
extern char reported[1024];      // text of the last fault
extern struct ptx_counts counts; // counts of the last run
extern uint32_t seed;            // seed of the following runs; each test resets it to 0
// Dynamic shared memory of the following runs; each test resets it to 0
extern uint32_t dynamic_bytes;
extern uint32_t blocks; // blocks of the following grids; each test resets it to 1
// True: launched so that they may begin early; each test resets it to false
extern bool launched_early;

// Returns the text of a kernel with one parameter: %d0 is the memory, %r0 the thread, %d2 the
// address of the thread's word, to which %r1 is written; `room` is 8,192 bytes of shared memory.
// Overwritten by the next call.
const char *kernel_text(const char *body);

void fault_record(const char *text); // callback of a watch: stores the text in `reported`
void expect_run(const char *body, uint32_t threads);
// Expects a fault whose report contains `words`
void expect_fault(const char *body, uint32_t threads, const char *words);
// Expects that decoding fails with a text that contains `words`
void expect_refusal(const char *body, const char *words);
uint32_t value(const char *body); // returns the value that every lane of a warp computes
