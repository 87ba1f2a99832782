// SPDX-License-Identifier: Apache-2.0
// Interface of the device ptx for tests, in addition to the emulator's control
// (tests/simt/control.h).
#pragma once

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// Decodes the PTX of every linked kernel. Returns the number of kernels. Reports kernels that
// cannot be decoded, kernels that lack an opcode that they must contain, and names that must
// contain an opcode but are not found.
unsigned ptx_emitted(void);

// Writes a line of JSON for each kernel that was launched since the last call: the counts, the
// shared memory of a block, the module's number and, if `lines`, pairs of a line of its text and
// the number of times its instruction was issued. Then resets all counts.
void ptx_counts_write(FILE *to, const char *what, bool lines);
// Writes the text of each decoded module N to FOLDER/N.ptx.
void ptx_texts_write(const char *folder);
// NULL: all kernels run. Otherwise only those whose name contains `name` run; launches of the
// others do nothing.
void ptx_run_only(const char *name);

#ifdef __cplusplus
}
#endif
