// The limits of the machine, measured in the run that they are compared with.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Loops of one thread; each returns when done. Only where the processor has the instructions.
void peak_amx_bf16(uint64_t rounds);              // 4 x 16384 operations a round
void peak_amx_int8(uint64_t rounds);              // 4 x 32768
void peak_fma(uint64_t rounds);                   // 12 x 32, AVX-512
void peak_pairs(uint64_t rounds);                 // 12 x 64, AVX512-BF16
void peak_quads(uint64_t rounds);                 // 12 x 128, AVX512-VNNI
uint64_t peak_read(const void *at, size_t bytes); // reads it all once
