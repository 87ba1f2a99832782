// SPDX-License-Identifier: Apache-2.0
// Loops that only load the machine's limits: tiles, multiply-adds, reading. The callers first check
// that the processor has the instructions. Compiled with the flags of AMX.
#include "bench/peaks.h"

#include <immintrin.h>

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void tiles_on(void)
{
    static const struct tile_config config = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&config);
}

void peak_amx_bf16(uint64_t rounds)
{
    tiles_on();
    for (uint64_t i = 0; i < rounds; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
}

void peak_amx_int8(uint64_t rounds)
{
    tiles_on();
    for (uint64_t i = 0; i < rounds; i++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_release();
}

void peak_fma(uint64_t rounds)
{
    __m512 sum[12];
    __m512 x = _mm512_set1_ps(1e-3f);
    for (int i = 0; i < 12; i++)
        sum[i] = _mm512_setzero_ps();
    for (uint64_t r = 0; r < rounds; r++) {
        __asm__ volatile("" : "+v"(x)); // keeps the compiler from removing the loop
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum[i] = _mm512_fmadd_ps(sum[i], x, x);
    }
    for (int i = 0; i < 12; i++)
        __asm__ volatile("" : : "v"(sum[i]));
}

void peak_pairs(uint64_t rounds)
{
    __m512 sum[12];
    __m512bh x = (__m512bh)_mm512_set1_ps(1e-3f);
    for (int i = 0; i < 12; i++)
        sum[i] = _mm512_setzero_ps();
    for (uint64_t r = 0; r < rounds; r++) {
        __asm__ volatile("" : "+v"(x));
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], x, x);
    }
    for (int i = 0; i < 12; i++)
        __asm__ volatile("" : : "v"(sum[i]));
}

void peak_quads(uint64_t rounds)
{
    __m512i sum[12];
    __m512i x = _mm512_set1_epi8(3);
    for (int i = 0; i < 12; i++)
        sum[i] = _mm512_setzero_si512();
    for (uint64_t r = 0; r < rounds; r++) {
        __asm__ volatile("" : "+v"(x));
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum[i] = _mm512_dpbusd_epi32(sum[i], x, x);
    }
    for (int i = 0; i < 12; i++)
        __asm__ volatile("" : : "v"(sum[i]));
}
