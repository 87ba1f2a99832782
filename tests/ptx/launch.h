// What tests ask of the device ptx beyond the emulator's control (tests/simt/control.h).
#pragma once

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reads the PTX of every kernel that is linked, and returns how many there are; what cannot be
// read, or lacks an opcode that it must hold, is reported, and where no kernel has the name of one
// that must hold an opcode.
unsigned ptx_emitted(void);

// A line of JSON for each kernel that was launched since the last call: what is counted, the shared
// memory of a block, the module's number and, where `lines` is asked for, pairs of a line of its
// text and how often the instruction there was issued. Then all counts begin anew.
void ptx_counts_write(FILE *to, const char *what, bool lines);
// The text of module N as FOLDER/N.ptx, of those that were read.
void ptx_texts_write(const char *folder);
// NULL: all kernels run. Else only those whose name holds it do; others are launched, and nothing
// happens.
void ptx_run_only(const char *name);

#ifdef __cplusplus
}
#endif
