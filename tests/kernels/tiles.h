// SPDX-License-Identifier: Apache-2.0
// Emulates AMX tiles in C, so that the AMX level runs on any processor with AVX512-BF16. Included
// before the kernels' files (tests/kernels/CMakeLists.txt) in place of the compiler's tile
// intrinsics. Source: Intel's Architecture Instruction Set Extensions reference, chapter on AMX.
// Contains only what weft's kernels use: palette 1, two configurations. Each thread has its
// tiles. An operation that the processor would refuse ends the program.
#pragma once

#include <immintrin.h>
#include <stddef.h>

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbsud
#undef _tile_dpbssd
#define _tile_loadconfig(config) tiles_config(config)
#define _tile_release() tiles_release()
#define _tile_zero(tile) tiles_zero(tile)
#define _tile_loadd(tile, at, stride) tiles_load(tile, at, stride)
#define _tile_stream_loadd(tile, at, stride) tiles_load(tile, at, stride)
#define _tile_stored(tile, at, stride) tiles_store(tile, at, stride)
#define _tile_dpbf16ps(sum, a, b) tiles_dot_bf16(sum, a, b)
#define _tile_dpbsud(sum, a, b) tiles_dot_i8_u8(sum, a, b)
#define _tile_dpbssd(sum, a, b) tiles_dot_i8(sum, a, b)

void tiles_config(const void *config);
void tiles_release(void);
void tiles_zero(int tile);
void tiles_load(int tile, const void *at, size_t stride);
void tiles_store(int tile, void *at, size_t stride);
void tiles_dot_bf16(int sum, int a, int b); // flushes denormals and rounds to nearest, as AMX does
void tiles_dot_i8_u8(int sum, int a, int b);
void tiles_dot_i8(int sum, int a, int b);
