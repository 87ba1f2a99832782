// What tests ask of the device ptx beyond the emulator's control (tests/simt/control.h).
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Reads the PTX of every kernel that is linked, and returns how many there are; what cannot be
// read, or lacks an opcode that it must hold, is reported.
unsigned ptx_emitted(void);

#ifdef __cplusplus
}
#endif
