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

extern uint32_t memory[WORDS];   // the only allocation; results begin it
extern char reported[1024];      // the last fault
extern struct ptx_counts counts; // of the last run
extern uint32_t seed;            // of the runs that follow; each test leaves 0
extern uint32_t dynamic_bytes;   // of shared memory; the same
extern uint32_t blocks;          // of the grid; each test leaves 1
extern bool launched_early;      // launched so; each test leaves false

// The text of a kernel of one parameter: %d0 is the memory, %r0 the thread, %d2 the thread's word,
// which takes %r1, room 8,192 bytes of shared memory. Overwritten by the next call.
const char *whole(const char *body);

void fault_heard(const char *text); // for a watch: keeps it as `reported`
void runs(const char *body, uint32_t threads);
void faults(const char *body, uint32_t threads, const char *words); // of the report
void refuses(const char *body, const char *words);                  // to decode it
uint32_t value(const char *body); // that every lane of a warp comes to
