// SPDX-License-Identifier: Apache-2.0
// The stages of the product for many tokens (gemm_wide.h): how a thread copies its share of both
// operands to a stage, and how its lane reads weights there.
#pragma once

#include "kernels/cuda/gemm_scales.h"

enum { WIDE_TOKENS = 64, WIDE_STAGES = 3 };

// Threads of a block that computes a tile of TOKENS tokens: a warp has 32 features x 32 tokens.
template <uint32_t TOKENS> constexpr uint32_t wide_threads()
{
    return WIDE_FEATURES / 32 * TOKENS;
}

// A stage contains WIDE_K columns of both operands. The halves of a row (one slab each) are swapped
// in half of the rows, so that fragment reads of 16 (int8 and FP8: 8) bytes and asynchronous writes
// have no bank conflicts.
template <class W> struct wide_row {
    static constexpr uint32_t BYTES = WIDE_K * sizeof(W), SLAB = PRODUCT_SLAB * sizeof(W);
    static constexpr uint32_t STAGE = WIDE_FEATURES * BYTES; // bytes of the weights of a stage
};
// Codes are in the order of codes.h: a panel of 16 rows has the bytes of both slabs.
template <int KIND, int RUN> struct wide_row<codes<KIND, RUN>> {
    static constexpr uint32_t SLAB = CODE_SLAB_BYTES, PANEL = WIDE_K / CODE_SLAB * SLAB;
    static constexpr uint32_t STAGE = WIDE_FEATURES / CODE_ROWS * PANEL;
};
template <class W, uint32_t TOKENS> struct wide_stage {
    static constexpr uint32_t BYTES = wide_row<W>::STAGE + TOKENS * WIDE_K * 2;
};
template <class W, uint32_t TOKENS> constexpr size_t wide_bytes()
{
    return WIDE_STAGES * wide_stage<W, TOKENS>::BYTES;
}
// Returns the offset of a byte of a row. Rows 8 apart have a constant distance; the other slab is
// at the offset ^ SLAB.
template <class W> static __device__ __forceinline__ uint32_t wide_at(uint32_t row, uint32_t byte)
{
    uint32_t swapped = (sizeof(W) == 1 ? row >> 1 : row) & 1u;
    return row * wide_row<W>::BYTES + (byte ^ swapped * wide_row<W>::SLAB);
}

// The share of an operand that one of THREADS threads copies in a step: the same 16 bytes of rows
// at constant distances in a stage. Rows past the end repeat the last row; their results are not
// stored.
template <class W, uint32_t ROWS, uint32_t THREADS> struct wide_share {
    static constexpr uint32_t CHUNKS = wide_row<W>::BYTES / 16, APART = THREADS / CHUNKS;
    static constexpr uint32_t COUNT = ROWS / APART;
    const char *from[COUNT];
    uint32_t to, k; // offset in the operand's stage; k of its first element
};
template <class W, uint32_t ROWS, uint32_t THREADS, class R>
static __device__ __forceinline__ wide_share<W, ROWS, THREADS>
share_of(const void *from, uint32_t first, uint32_t rows, uint32_t stride, R row_of)
{
    wide_share<W, ROWS, THREADS> share;
    uint32_t row = threadIdx.x / share.CHUNKS, byte = threadIdx.x % share.CHUNKS * 16;
    share.to = wide_at<W>(row, byte);
    share.k = byte / (uint32_t)sizeof(W);
#pragma unroll
    for (uint32_t i = 0; i < share.COUNT; i++) {
        uint32_t at = first + row + i * share.APART;
        share.from[i] = (const char *)from +
                        (size_t)row_of(at < rows ? at : rows - 1) * stride * sizeof(W) + byte;
    }
    return share;
}
// Issues the copy of a step and advances to the next; columns from k on become zeros.
template <class W, uint32_t ROWS, uint32_t THREADS>
static __device__ __forceinline__ void share_copy(wide_share<W, ROWS, THREADS> *share, char *to,
                                                  uint32_t k)
{
    bool valid = share->k < k;
    share->k += WIDE_K;
#pragma unroll
    for (uint32_t i = 0; i < share->COUNT; i++) {
        cp_async16(to + share->to + i * share->APART * wide_row<W>::BYTES, share->from[i], valid);
        share->from[i] += wide_row<W>::BYTES;
    }
}
template <class T> static __device__ __forceinline__ uint4 wide_weight8(T, T, const char *at)
{
    return lds128(at);
}
template <class T> static __device__ __forceinline__ uint4 wide_weight8(int8, T, const char *at)
{
    return weight8(T(), load64(at));
}

template <class T> static __device__ __forceinline__ uint4 wide_weight8(fp8, T, const char *at)
{
    return weight8(T(), e4m3x8{load64(at)});
}
template <class T> static __device__ __forceinline__ uint4 wide_weight8(fp8_128, T, const char *at)
{
    return weight8(T(), e4m3x8{load64(at)});
}

// The weights of a tile: how a thread copies them to a stage, and how its lane reads them there.
// A lane's features in tile i of 16 rows are 16 * i + r and 16 * i + r + 8, counted from the
// warp's.
template <class T, class W, uint32_t THREADS> struct wide_weights {
    wide_share<W, WIDE_FEATURES, THREADS> share;
    __device__ __forceinline__ void begin(const gemm_run &g, uint32_t feature)
    {
        share = share_of<W, WIDE_FEATURES, THREADS>(g.weight, feature, g.n, g.stride, row_itself());
    }
    __device__ __forceinline__ void copy(char *stage, uint32_t k)
    {
        share_copy(&share, stage, k);
    }
    // Returns the lane's offset in a stage. row0: the warp's first feature.
    static __device__ __forceinline__ uint32_t first(uint32_t row0)
    {
        uint32_t lane = threadIdx.x % 32;
        return wide_at<W>(row0 + lane / 4, lane % 4 * 8 * sizeof(W));
    }
    // Loads what the next step needs besides its stage.
    __device__ __forceinline__ void step_begin()
    {
    }
    // Reads tile i of slab `slab` of a step. at: the lane's place in the slab.
    __device__ __forceinline__ void read(const char *at, int i, int slab, uint4 *low,
                                         uint4 *high) const
    {
        const uint32_t row = wide_row<W>::BYTES;
        (void)slab;
        *low = wide_weight8(W(), T(), at + 16 * i * row);
        *high = wide_weight8(W(), T(), at + (16 * i + 8) * row);
    }
};

// Weights held as codes. The scales of a step are loaded before its stage is waited for.
template <class T, int KIND, int RUN, uint32_t THREADS>
struct wide_weights<T, codes<KIND, RUN>, THREADS> {
    typedef wide_row<codes<KIND, RUN>> row;
    static constexpr int SCALES = RUN > 1 ? 1 : 2; // number of scales that a row has in a step
    static constexpr uint32_t COPIES = row::STAGE / 16 / THREADS;
    code_lane<KIND, RUN> at[2]; // place of the lane in each of its tiles
    const char *from[COPIES];   // the thread's 16 bytes of the next step to copy
    uint32_t k;                 // first column of that step
    uint32_t slab0, slabs;
    code_words scale[SCALES][2]; // [slab of the step][tile]
    __device__ __forceinline__ void begin(const gemm_run &g, uint32_t feature)
    {
        uint32_t last = code_panels(g.n) - 1, first = feature / CODE_ROWS;
#pragma unroll
        for (uint32_t i = 0; i < COPIES; i++) {
            uint32_t mine = first + (i * THREADS + threadIdx.x) / 32;
            from[i] = g.codes.slabs + threadIdx.x % 32 * 16 +
                      (size_t)(mine < last ? mine : last) * g.codes.panel_slabs * CODE_SLAB_BYTES;
        }
        k = slab0 = 0;
        slabs = g.codes.groups << g.codes.group_shift;
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t panel = first + threadIdx.x / 32 % 4 * 2 + i;
            at[i].begin(g.codes, panel < last ? panel : last);
        }
    }
    __device__ __forceinline__ void copy(char *stage, uint32_t columns)
    {
#pragma unroll
        for (uint32_t i = 0; i < COPIES; i++) {
            cp_async16(stage + (i * THREADS + threadIdx.x) * 16, from[i], k < columns);
            from[i] += row::PANEL;
        }
        k += WIDE_K;
    }
    static __device__ __forceinline__ uint32_t first(uint32_t row0)
    {
        return row0 / CODE_ROWS * row::PANEL + threadIdx.x % 32 * 8;
    }
    __device__ __forceinline__ void step_begin()
    {
#pragma unroll
        for (uint32_t s = 0; s < SCALES; s++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                scale[s][i] = at[i].words_of(slab0 + s < slabs ? slab0 + s : slabs - 1);
        slab0 += 2;
    }
    __device__ __forceinline__ void read(const char *stage, int i, int slab, uint4 *low,
                                         uint4 *high) const
    {
        const code_words &words = scale[slab % SCALES][i];
        uint2 code = load64(stage + i * row::PANEL);
        *low = code_elements<KIND>(code.x, code_factors_of<KIND>(words, 0), T());
        *high = code_elements<KIND>(code.y, code_factors_of<KIND>(words, 1), T());
    }
};
