// SPDX-License-Identifier: Apache-2.0
// Shared memory of the attention kernels: tiles of queries, keys and values, in panels of 64
// elements (128 in fp8; 128 bytes a row) whose 16-byte chunks are swizzled by row, so that neither
// ldmatrix nor copies have bank conflicts. Only this file computes addresses and swizzle: eight
// neighbouring threads copy a row of a panel, a thread keeps its chunk and walks down the rows, and
// the block table is read once for 16 keys, which are in one block.
#pragma once

#include "kernels/cuda/attn_form.h"

// A tile of ROWS rows in shared memory.
template <uint32_t ROWS> struct attn_tile {
    char *at;
    static constexpr uint32_t PANEL = ROWS * 128;

    __device__ __forceinline__ char *chunk(uint32_t row, uint32_t panel, uint32_t chunk) const
    {
        return at + panel * PANEL + row * 128 + ((chunk ^ (row & 7u)) << 4);
    }
};
template <class F> struct attn_tiles {
    attn_tile<F::ROWS> query;
    attn_tile<ATTN_TILE_KEYS> keys, values;
};
template <class F>
static __device__ __forceinline__ attn_tiles<F> tiles_of(const attn_args &a, char *shared)
{
    uint32_t panels = (dim_of<F>(a) + 63) / 64;
    uint32_t kv_panels = (dim_of<F>(a) + F::KV_COLUMNS - 1) / F::KV_COLUMNS;
    char *keys = shared + panels * F::ROWS * 128;
    return {{shared}, {keys}, {keys + kv_panels * ATTN_TILE_KEYS * 128}};
}

// Offset of a lane's row in a panel for ldmatrix of 16 elements from column 16 d on. lane_row is
// computed once (odd: for the second eight elements), lane_at for each d: one register, and one
// operation for each d % 4. lane_chunk is for the 16 codes of chunk d (odd: 0).
static __device__ __forceinline__ uint32_t lane_row(uint32_t row, uint32_t odd)
{
    return row * 128 + ((odd ^ (row & 7u)) << 4);
}
static __device__ __forceinline__ uint32_t lane_at(uint32_t lane_row, uint32_t d)
{
    return lane_row ^ d % 4 << 5;
}
static __device__ __forceinline__ uint32_t lane_chunk(uint32_t lane_row, uint32_t d)
{
    return lane_row ^ d % 8 << 4;
}

// Keys (value: 0) or values (1) of a KV head: kv_head_at returns where they begin, kv_offset the
// bytes from there to a key. `paged` equals shape.paged, but may be a compile-time constant.
static __device__ __forceinline__ const char *kv_head_at(const attn_args &a, const attn_span &w,
                                                         uint32_t value, uint32_t element)
{
    const attn_shape &s = a.shape;
    if (s.paged)
        return (const char *)a.kv_base + a.layer_offset + w.kv_head * a.head_bytes +
               (value ? a.value_offset : 0);
    uint32_t head = s.heads + value * s.kv_heads + w.kv_head;
    size_t width = (size_t)(s.heads + 2 * s.kv_heads) * s.dim;
    return (const char *)a.qkv + (w.row.q_start * width + (size_t)head * s.dim) * element;
}
static __device__ __forceinline__ uint64_t kv_stride(const attn_args &a, uint32_t element)
{
    const attn_shape &s = a.shape;
    return s.paged ? a.token_bytes : (uint64_t)(s.heads + 2 * s.kv_heads) * s.dim * element;
}
static __device__ __forceinline__ uint64_t kv_offset(const attn_args &a, const attn_span &w,
                                                     bool paged, uint32_t key, uint64_t stride)
{
    if (!paged)
        return key * stride;
    uint64_t units = a.block_table[(size_t)w.row.slot * a.blocks_max + (key >> a.block_shift)];
    return units * TABLE_UNIT_BYTES + (key & ((1u << a.block_shift) - 1u)) * stride;
}

// Issues a thread's share of the copy of a tile. WHOLE: all keys of the tile exist and are in
// blocks without gaps; every address is then at a constant offset from that of 16 keys. Rows from
// kv_len on and columns from dim on become zeros (0 x NaN would poison the sums).
template <class F, bool WHOLE>
static __device__ __forceinline__ void share_issue(const attn_args &a, const attn_span &w,
                                                   const attn_tile<ATTN_TILE_KEYS> &to,
                                                   uint32_t first, uint32_t value)
{
    constexpr uint32_t element = sizeof(typename F::KV);
    uint32_t row = threadIdx.x / 8, chunk = threadIdx.x % 8, dim = dim_of<F>(a);
    uint32_t chunks = (dim * element + 31) / 32 * 2; // ldmatrix reads two of a row at once
    uint32_t end = w.row.kv_len;
    uint64_t stride = WHOLE ? F::DIM * element : kv_stride(a, element);
    bool paged = WHOLE || a.shape.paged;
    const char *head = kv_head_at(a, w, value, element) + chunk * 16;
#pragma unroll F::UNROLL
    for (uint32_t group = 0; group < ATTN_TILE_KEYS; group += 16) {
        uint32_t key = WHOLE || first + group < end ? first + group : first;
        const char *from = head + kv_offset(a, w, paged, key + row, stride);
#pragma unroll F::UNROLL
        for (uint32_t i = 0; i < 16; i += F::STEP)
#pragma unroll F::UNROLL
            for (uint32_t p = 0; p < (F::COLUMNS + F::KV_COLUMNS - 1) / F::KV_COLUMNS; p++) {
                if (8 * p + chunk >= chunks)
                    continue;
                bool valid = (WHOLE || first + group + row + i < end) &&
                             (F::DIM != 0 || (8 * p + chunk) * F::KV_CHUNK < dim);
                cp_async16(to.chunk(group + row + i, p, chunk), from + i * stride + p * 128, valid);
            }
    }
}
template <class F>
static __device__ __forceinline__ void tile_issue(const attn_args &a, const attn_span &w,
                                                  const attn_tile<ATTN_TILE_KEYS> &to,
                                                  uint32_t first, uint32_t value)
{
    if (F::DIM != 0 && a.shape.paged && a.token_bytes == F::DIM * sizeof(typename F::KV) &&
        first + ATTN_TILE_KEYS <= w.row.kv_len)
        share_issue<F, F::DIM != 0>(a, w, to, first, value);
    else
        share_issue<F, false>(a, w, to, first, value);
}

// Issues the copy of an item's queries; rows past its end become zeros.
template <class F>
static __device__ __forceinline__ void query_issue(const attn_run &run, const attn_span &w,
                                                   const attn_tile<F::ROWS> &to)
{
    const attn_args &a = run.args;
    const uint32_t element = sizeof(typename F::T);
    uint32_t chunk = threadIdx.x % 8, dim = dim_of<F>(a), chunks = (dim + 15) / 16 * 2;
    size_t all = a.shape.heads + 2 * a.shape.kv_heads;
#pragma unroll
    for (uint32_t i = 0; i < F::ROWS; i += F::STEP) {
        uint32_t local = i + threadIdx.x / 8, row = w.first_row + local;
        bool there = row < w.row.q_len * run.group;
        size_t token = w.row.q_start + row / run.group;
        uint32_t head = w.kv_head * run.group + row % run.group;
        const char *from =
            (const char *)a.qkv + (there ? (token * all + head) * dim * element : 0) + chunk * 16;
#pragma unroll
        for (uint32_t p = 0; p < (F::COLUMNS + 63) / 64; p++)
            if (8 * p + chunk < chunks)
                cp_async16(to.chunk(local, p, chunk), from + p * 128,
                           there && (F::DIM != 0 || (8 * p + chunk) * 8 < dim));
    }
}

// Converts a thread's share of the queries to float16 in place, once its copies have arrived: for
// tensor cores that multiply float16. A query beyond 65504 becomes an infinity, so its results are
// not finite.
template <class F>
static __device__ __forceinline__ void query_convert(const attn_args &a,
                                                     const attn_tile<F::ROWS> &at)
{
    uint32_t chunk = threadIdx.x % 8, chunks = (dim_of<F>(a) + 15) / 16 * 2;
#pragma unroll
    for (uint32_t i = 0; i < F::ROWS; i += F::STEP)
#pragma unroll
        for (uint32_t p = 0; p < (F::COLUMNS + 63) / 64; p++) {
            if (8 * p + chunk >= chunks)
                continue;
            char *to = at.chunk(i + threadIdx.x / 8, p, chunk);
            float v[8];
            load8((const typename F::T *)to, v);
            store8((f16 *)to, v);
        }
}
