// SPDX-License-Identifier: Apache-2.0
// Emulated AMX tiles; see tiles.h.
#include "tests/kernels/tiles.h"

#include "kernels/cpu/internal.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64, NOTHING_TESTED = 77 };
enum { FLUSH_AND_DENORMALS_ARE_ZERO = 0x8040, MXCSR_DEFAULT = 0x1F80 };

static _Thread_local struct {
    bool configured;
    uint8_t rows[TILES], row_bytes[TILES];
    _Alignas(64) uint8_t row[TILES][ROWS][ROW_BYTES];
} tiles;

// Rows, and bytes of a row, of the eight tiles in the configurations of amx_begin and
// amx_begin_groups.
static const uint8_t shapes[][2][TILES] = {
    {{16, 16, 16, 16, 16, 16, 16, 16}, {64, 64, 64, 64, 64, 64, 64, 64}},
    {{16, 16, 16, 16, 16, 16, 8, 8}, {64, 64, 64, 64, 32, 32, 64, 64}},
};

static void refuse(const char *what)
{
    fprintf(stderr, "tiles: %s\n", what);
    abort();
}

// Skips the tests (exit status 77) on a processor that lacks the instructions that the emulation
// needs. Otherwise the AMX level must pass its trial at startup.
static __attribute__((constructor)) void only_with_tiles(void)
{
    if (cpu_isa_find(CPU_AVX512BF16) != CPU_AVX512BF16) {
        printf(
            "skipped: this processor lacks what the level is emulated on, AVX512-BF16 or AVX2\n");
        exit(NOTHING_TESTED);
    }
    if (cpu_isa_find(CPU_AMX) != CPU_AMX)
        refuse("the AMX level fails its trial at start");
}

bool cpu_isa_reported(enum cpu_isa level)
{
    (void)level;
    return true;
}

void tiles_config(const void *config)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint8_t expected[64] = {[0] = 1};
        for (int tile = 0; tile < TILES; tile++) {
            expected[48 + tile] = shapes[i][0][tile];
            expected[16 + 2 * tile] = shapes[i][1][tile];
        }
        if (memcmp(config, expected, sizeof expected) != 0)
            continue;
        memset(&tiles, 0, sizeof tiles);
        memcpy(tiles.rows, shapes[i][0], sizeof tiles.rows);
        memcpy(tiles.row_bytes, shapes[i][1], sizeof tiles.row_bytes);
        tiles.configured = true;
        return;
    }
    refuse("an unexpected configuration");
}

void tiles_release(void)
{
    tiles.configured = false;
}

static void need(int tile)
{
    if (!tiles.configured)
        refuse("an instruction before the configuration or after the release");
    if (tile < 0 || tile >= TILES)
        refuse("a tile beyond the eighth");
}

void tiles_zero(int tile)
{
    need(tile);
    memset(tiles.row[tile], 0, sizeof tiles.row[tile]);
}

void tiles_load(int tile, const void *at, size_t stride)
{
    need(tile);
    for (size_t r = 0; r < tiles.rows[tile]; r++)
        memcpy(tiles.row[tile][r], (const char *)at + r * stride, tiles.row_bytes[tile]);
}

void tiles_store(int tile, void *at, size_t stride)
{
    need(tile);
    for (size_t r = 0; r < tiles.rows[tile]; r++)
        memcpy((char *)at + r * stride, tiles.row[tile][r], tiles.row_bytes[tile]);
}

static void need_three(int sum, int a, int b)
{
    need(sum);
    need(a);
    need(b);
    if (sum == a || sum == b || a == b)
        refuse("a dot product of a tile with itself");
    if (tiles.rows[sum] != tiles.rows[a] || tiles.row_bytes[sum] != tiles.row_bytes[b] ||
        tiles.row_bytes[a] != 4 * tiles.rows[b])
        refuse("a dot product of tiles whose shapes do not fit");
}

static __m512 upper_half(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xFFFF0000u)));
}

static __m512 lower_half(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}

// Sums even and odd elements separately over the row, adds the two sums, then adds the result to
// `sum`.
void tiles_dot_bf16(int sum, int a, int b)
{
    need_three(sum, a, b);
    unsigned int control = _mm_getcsr();
    _mm_setcsr(MXCSR_DEFAULT | FLUSH_AND_DENORMALS_ARE_ZERO);
    for (size_t m = 0; m < ROWS; m++) {
        __m512 even = _mm512_setzero_ps();
        __m512 odd = _mm512_setzero_ps();
        for (size_t k = 0; k < ROW_BYTES / 4; k++) {
            int32_t pair;
            memcpy(&pair, tiles.row[a][m] + 4 * k, sizeof pair);
            __m512i left = _mm512_set1_epi32(pair);
            __m512i right = _mm512_load_si512(tiles.row[b][k]);
            even = _mm512_fmadd_ps(lower_half(left), lower_half(right), even);
            odd = _mm512_fmadd_ps(upper_half(left), upper_half(right), odd);
        }
        __m512 before = _mm512_load_ps((const float *)(const void *)tiles.row[sum][m]);
        _mm512_store_ps((float *)(void *)tiles.row[sum][m],
                        _mm512_add_ps(before, _mm512_add_ps(even, odd)));
    }
    _mm_setcsr(control);
}

// Adds the products of the signed bytes of `a` and the bytes of `b`, less 256 from `limit` on.
static void dot_bytes(int sum, int a, int b, int limit)
{
    need_three(sum, a, b);
    for (size_t m = 0; m < tiles.rows[a]; m++)
        for (size_t n = 0; n < ROW_BYTES / 4; n++) {
            int32_t total;
            memcpy(&total, tiles.row[sum][m] + 4 * n, sizeof total);
            for (size_t k = 0; k < tiles.row_bytes[a]; k++) {
                int right = tiles.row[b][k / 4][4 * n + k % 4];
                total += (int8_t)tiles.row[a][m][k] * (right < limit ? right : right - 256);
            }
            memcpy(tiles.row[sum][m] + 4 * n, &total, sizeof total);
        }
}

void tiles_dot_i8_u8(int sum, int a, int b)
{
    dot_bytes(sum, a, b, 256);
}

void tiles_dot_i8(int sum, int a, int b)
{
    dot_bytes(sum, a, b, 128);
}
