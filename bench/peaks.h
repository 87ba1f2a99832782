// SPDX-License-Identifier: Apache-2.0
// The limits of the machine, measured in the same run as the figures compared with them.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Loops on one thread, which return when done. They must be called only if the processor has the
// instructions.
void peak_amx_bf16(uint64_t rounds);              // 4 x 16384 operations per round
void peak_amx_int8(uint64_t rounds);              // 4 x 32768
void peak_fma(uint64_t rounds);                   // 12 x 32, AVX-512
void peak_pairs(uint64_t rounds);                 // 12 x 64, AVX512-BF16
void peak_quads(uint64_t rounds);                 // 12 x 128, AVX512-VNNI
uint64_t peak_read(const void *at, size_t bytes); // reads all bytes once
