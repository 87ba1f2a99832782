// Attention on tensor cores, for prefill and decode alike: one routine walks tiles of 64 keys for
// 16 packed query rows (query token x head of one KV head) on a warp. Blocks of four warps share
// the tiles of prefill rows; blocks of one warp serve decode rows. Softmax is kept in base 2; P is
// rounded to the activation's type for P V while the sum takes it unrounded.
//
// Exact by construction: tiles ascend, parts of 1,024 keys are folded in
// order, every multiply-add is an explicit fma, and a fully masked tile leaves the state as it is.
#pragma once

#include "kernels/cuda/lane.h"

struct attn_run {
    attn_args args;
    const attn_work *work; // device
    float *partial_out, *partial_state, *walk_out;
    uint32_t group; // query heads a KV head
    float scale;    // with log2(e)
    bool mask_all;  // of the plan
};

// Shared memory of a block: the query tile, one tile of keys, one of values; panels of 64 elements
// (128 bytes a row) whose 16-byte chunks are swizzled by row, so that ldmatrix and writes have no
// bank conflicts.
static __device__ __forceinline__ uint32_t panel_at(uint32_t rows, uint32_t row, uint32_t chunk)
{
    return (chunk >> 3) * rows * 128 + row * 128 + (((chunk & 7u) ^ (row & 7u)) << 4);
}

// The same for ldmatrix of 16 elements from column 16 d on: the address of a lane's row for each d
// % 4 in a panel. The rest of an address is then a constant and costs no register.
struct lane_rows {
    uint32_t at[4];
};
static __device__ __forceinline__ lane_rows lane_rows_of(uint32_t row, uint32_t odd)
{
    lane_rows rows;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++)
        rows.at[c] = row * 128 + (((2 * c + odd) ^ (row & 7u)) << 4);
    return rows;
}

template <class T>
static __device__ __forceinline__ void mma_attn(T, float c[4], const uint32_t a[4],
                                                const uint32_t b[2]);
template <>
__device__ __forceinline__ void mma_attn(bf16, float c[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_bf16(c, a, b);
}
template <>
__device__ __forceinline__ void mma_attn(f16, float c[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_f16(c, a, b);
}

// One item's work; the same in all threads of the block.
struct attn_span {
    step_row row;
    uint32_t kv_head, first_row; // first packed row of the block
    uint32_t position;           // of the row's first query token
};

// Keys a query at position p sees: [lo, hi).
static __device__ __forceinline__ uint32_t attn_lo(const attn_shape &s, uint32_t p)
{
    return s.window != 0 && p + 1 > s.window ? p + 1 - s.window : 0;
}
static __device__ __forceinline__ uint32_t attn_hi(const attn_shape &s, uint32_t p, uint32_t kv_len)
{
    return s.causal && p + 1 < kv_len ? p + 1 : kv_len;
}

// Address of a key (value: 0) or value (1) row.
template <class T>
static __device__ __forceinline__ const T *kv_row(const attn_args &a, const attn_span &w,
                                                  uint32_t key, uint32_t value)
{
    const attn_shape &s = a.shape;
    if (!s.paged) {
        size_t width = (size_t)(s.heads + 2 * s.kv_heads) * s.dim;
        size_t head = s.heads + value * s.kv_heads + w.kv_head;
        return (const T *)a.qkv + (w.row.q_start + key) * width + head * s.dim;
    }
    uint64_t units = a.block_table[(size_t)w.row.slot * a.blocks_max + (key >> a.block_shift)];
    return (const T *)((const char *)a.kv_base + units * TABLE_UNIT_BYTES + a.layer_offset +
                       (key & ((1u << a.block_shift) - 1u)) * a.token_bytes +
                       w.kv_head * a.head_bytes + (value ? a.value_offset : 0));
}

// Starts the copy of one tile of keys or values; rows from kv_len on and columns from dim on become
// zeros (0 x NaN would poison the sums).
template <class T, int THREADS>
static __device__ __forceinline__ void tile_issue(const attn_args &a, const attn_span &w, char *to,
                                                  uint32_t first, uint32_t value)
{
    uint32_t chunks = (a.shape.dim + 15) / 16 * 2;
    for (uint32_t i = threadIdx.x; i < ATTN_TILE_KEYS * chunks; i += THREADS) {
        uint32_t key = i / chunks, chunk = i % chunks;
        bool valid = first + key < w.row.kv_len && chunk * 8 < a.shape.dim;
        const T *from = valid ? kv_row<T>(a, w, first + key, value) + chunk * 8 : (const T *)a.qkv;
        cp_async16(to + panel_at(ATTN_TILE_KEYS, key, chunk), from, valid);
    }
}

// State of the two query rows (r and r + 8) of a lane: rows are shared by the four lanes of a quad.
template <int DP> struct attn_state {
    float max[2], sum[2]; // sum: this lane's share
    float out[DP / 8][4];
};

template <int DP> static __device__ __forceinline__ void state_clear(attn_state<DP> *s)
{
    s->max[0] = s->max[1] = -INFINITY;
    s->sum[0] = s->sum[1] = 0;
#pragma unroll
    for (int i = 0; i < DP / 8; i++)
        s->out[i][0] = s->out[i][1] = s->out[i][2] = s->out[i][3] = 0;
}

// S = Q K^T for 16 rows x 64 keys of a warp.
template <class T, int DP, int ROWS>
static __device__ __forceinline__ void tile_scores(float s[8][4], const char *query,
                                                   const char *keys, uint32_t dim)
{
    uint32_t lane = threadIdx.x % 32, row0 = threadIdx.x / 32 * 16;
    lane_rows mine = lane_rows_of(row0 + lane % 16, lane / 16);
    lane_rows theirs = lane_rows_of(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int i = 0; i < 8; i++)
        s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0;
#pragma unroll 4
    for (int d = 0; d < DP / 16; d++) {
        if ((uint32_t)d * 16 >= dim)
            continue;
        uint32_t a[4], b[4];
        ldsm_x4(a, query + d / 4 * ROWS * 128 + mine.at[d % 4]);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            ldsm_x4(b, keys + d / 4 * ATTN_TILE_KEYS * 128 + j * 16 * 128 + theirs.at[d % 4]);
            mma_attn(T(), s[2 * j], a, b);
            mma_attn(T(), s[2 * j + 1], a, b + 2);
        }
    }
}

// Masks scores of keys outside [lo, hi) of their row.
static __device__ __forceinline__ void tile_mask(float s[8][4], uint32_t first,
                                                 const uint32_t lo[2], const uint32_t hi[2])
{
    uint32_t t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint32_t key = first + 8 * i + 2 * t + (e & 1);
            if (key < lo[e >> 1] || key >= hi[e >> 1])
                s[i][e] = -INFINITY;
        }
}

// Scores become probabilities against the new maximum; the state is rescaled to it.
template <int DP>
static __device__ __forceinline__ void tile_softmax(float s[8][4], attn_state<DP> *st, float scale)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = -INFINITY;
#pragma unroll
        for (int i = 0; i < 8; i++)
            top = fmaxf(top, fmaxf(s[i][2 * h], s[i][2 * h + 1]));
        top = fmaxf(top, shfl_xor(top, 1));
        top = fmaxf(top, shfl_xor(top, 2));
        float now = fmaxf(st->max[h], mul_rn(top, scale));
        float against = now == -INFINITY ? 0.0f : now;
        float keep = now == st->max[h] ? 1.0f : ex2(add_rn(st->max[h], -against));
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; e++) {
                s[i][e] = ex2(fmaf(s[i][e], scale, -against));
                sum = add_rn(sum, s[i][e]);
            }
        st->max[h] = now;
        st->sum[h] = fmaf(st->sum[h], keep, sum);
#pragma unroll
        for (int i = 0; i < DP / 8; i++) {
            st->out[i][2 * h] = mul_rn(st->out[i][2 * h], keep);
            st->out[i][2 * h + 1] = mul_rn(st->out[i][2 * h + 1], keep);
        }
    }
}

// O += P V: two score tiles side by side are, packed, one A fragment.
template <class T, int DP>
static __device__ __forceinline__ void tile_values(attn_state<DP> *st, const float s[8][4],
                                                   const char *values, uint32_t dim)
{
    uint32_t lane = threadIdx.x % 32;
    lane_rows theirs = lane_rows_of(lane % 16, lane / 16);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t a[4] = {pack2(s[2 * j], T()), pack2(s[2 * j] + 2, T()), pack2(s[2 * j + 1], T()),
                         pack2(s[2 * j + 1] + 2, T())};
#pragma unroll
        for (int d = 0; d < DP / 16; d++) {
            if ((uint32_t)d * 16 >= dim)
                continue;
            uint32_t b[4];
            ldsm_x4_t(b, values + d / 4 * ATTN_TILE_KEYS * 128 + j * 16 * 128 + theirs.at[d % 4]);
            mma_attn(T(), st->out[2 * d], a, b);
            mma_attn(T(), st->out[2 * d + 1], a, b + 2);
        }
    }
}

// Folds the state of one part into that of earlier parts. Used by the walk below and, element by
// element, by the merge kernel.
static __device__ __forceinline__ void fold_weights(float before, float part, float *keep,
                                                    float *add, float *max)
{
    *max = fmaxf(before, part);
    *keep = before == *max ? 1.0f : ex2(add_rn(before, -*max));
    *add = part == *max ? 1.0f : ex2(add_rn(part, -*max));
}

struct attn_place {
    char *query, *keys, *values;
};

// One part (or, clipped, less) of an item: keys [first, last), which lie in one part.
template <class T, int DP, int WARPS>
static __device__ __forceinline__ void part_run(const attn_run &run, const attn_span &w,
                                                const attn_place &at, uint32_t first, uint32_t last,
                                                attn_state<DP> *st)
{
    const attn_args &a = run.args;
    uint32_t r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, lo[2], hi[2];
    uint32_t packed = w.row.q_len * run.group;
#pragma unroll
    for (int h = 0; h < 2; h++) { // rows past the end see nothing
        uint32_t row = w.first_row + r + 8 * h, p = w.position + row / run.group;
        lo[h] = attn_lo(a.shape, p);
        hi[h] = row < packed ? attn_hi(a.shape, p, w.row.kv_len) : 0;
    }
    uint32_t end_row = w.first_row + 16 * WARPS < packed ? w.first_row + 16 * WARPS : packed;
    // A tile whose keys all rows of the item see is not masked. Rows past the end may then see it
    // too: their queries are zeros and their results are not read.
    uint32_t lo_last = attn_lo(a.shape, w.position + (end_row - 1) / run.group);
    uint32_t hi_first =
        run.mask_all ? 0 : attn_hi(a.shape, w.position + w.first_row / run.group, w.row.kv_len);
    tile_issue<T, 32 * WARPS>(a, w, at.keys, first, 0);
    cp_async_commit();
    tile_issue<T, 32 * WARPS>(a, w, at.values, first, 1);
    cp_async_commit();
    for (uint32_t tile = first; tile < last; tile += ATTN_TILE_KEYS) {
        float s[8][4];
        uint32_t next = tile + ATTN_TILE_KEYS;
        cp_async_wait<1>();
        cta_sync();
        tile_scores<T, DP, 16 * WARPS>(s, at.query, at.keys, a.shape.dim);
        cta_sync();
        if (next < last)
            tile_issue<T, 32 * WARPS>(a, w, at.keys, next, 0);
        cp_async_commit();
        if (tile < lo_last || next > hi_first)
            tile_mask(s, tile, lo, hi);
        tile_softmax(s, st, run.scale);
        cp_async_wait<1>();
        cta_sync();
        tile_values<T>(st, s, at.values, a.shape.dim);
        cta_sync();
        if (next < last)
            tile_issue<T, 32 * WARPS>(a, w, at.values, next, 1);
        cp_async_commit();
    }
    cp_async_wait<0>();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        st->sum[h] = add_rn(st->sum[h], shfl_xor(st->sum[h], 1));
        st->sum[h] = add_rn(st->sum[h], shfl_xor(st->sum[h], 2));
    }
}

// Where lane (r, t) keeps element (row r + 8 h, column 8 i + 2 t) of a [16][dim] f32 tile.
static __device__ __forceinline__ uint32_t tile_at(uint32_t dim, int h, int i)
{
    uint32_t lane = threadIdx.x % 32;
    return (lane / 4 + 8 * h) * dim + 8 * i + 2 * (lane % 4);
}

// The walked state of a warp lies in global scratch, 16 bytes for each lane and column pair; only
// this warp reads it, so the order is its own. All DP columns are kept, so that nothing depends on
// the head dim here and few addresses need registers beside the sums.
template <int DP>
static __device__ __forceinline__ void walk_keep(const attn_state<DP> *st, char *scratch)
{
#pragma unroll
    for (int i = 0; i < DP / 8; i++) {
        const float *o = st->out[i];
        uint4 v = {float_bits(o[0]), float_bits(o[1]), float_bits(o[2]), float_bits(o[3])};
        stg128(scratch + i * 512, v);
    }
}

// Folds st onto the walked state and leaves the sum in st.
template <int DP>
static __device__ __forceinline__ void walk_fold(attn_state<DP> *st, float before_max[2],
                                                 float before_sum[2], const char *scratch)
{
    float keep[2], add[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        fold_weights(before_max[h], st->max[h], &keep[h], &add[h], &st->max[h]);
        st->sum[h] = fmaf(add[h], st->sum[h], mul_rn(keep[h], before_sum[h]));
    }
#pragma unroll
    for (int i = 0; i < DP / 8; i++) {
        uint4 v = ldg128(scratch + i * 512);
        float at[4] = {bits_float(v.x), bits_float(v.y), bits_float(v.z), bits_float(v.w)};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float *mine = &st->out[i][e];
            *mine = fmaf(add[e >> 1], *mine, mul_rn(keep[e >> 1], at[e]));
        }
    }
}

// All parts in order. The scratch is touched only where there is more than one part.
template <class T, int DP, int WARPS>
static __device__ __forceinline__ void walk_run(const attn_run &run, const attn_span &w,
                                                const attn_place &at, uint32_t first, uint32_t last,
                                                attn_state<DP> *st)
{
    char *scratch =
        (char *)(run.walk_out + ((size_t)blockIdx.x * 4 + threadIdx.x / 32) * ATTN_TILE_ROWS * DP) +
        threadIdx.x % 32 * 16;
    float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    bool folded = false;
    for (uint32_t from = first; from < last;) {
        uint32_t part_end = (from / ATTN_PART_TOKENS + 1) * ATTN_PART_TOKENS;
        uint32_t end = part_end < last ? part_end : last;
        state_clear(st);
        part_run<T, DP, WARPS>(run, w, at, from, end, st);
        if (folded)
            walk_fold(st, max, sum, scratch);
        if (end == last)
            return;
        walk_keep(st, scratch);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            max[h] = st->max[h];
            sum[h] = st->sum[h];
        }
        folded = true;
        from = end;
    }
}

// The finished rows go out through the warp's own rows of the query tile, in 16-byte stores.
template <class T, int DP, int WARPS>
static __device__ __forceinline__ void tile_store(const attn_run &run, const attn_span &w,
                                                  char *shared, const attn_state<DP> *st)
{
    uint32_t lane = threadIdx.x % 32, row0 = threadIdx.x / 32 * 16, dim = run.args.shape.dim;
    warp_sync();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float inverse = st->sum[h] > 0.0f ? 1.0f / st->sum[h] : 0.0f;
#pragma unroll
        for (int i = 0; i < DP / 8; i++) {
            if ((uint32_t)i * 8 >= dim)
                continue;
            float v[2] = {mul_rn(st->out[i][2 * h], inverse),
                          mul_rn(st->out[i][2 * h + 1], inverse)};
            char *at = shared + panel_at(16 * WARPS, row0 + lane / 4 + 8 * h, i) + lane % 4 * 4;
            *(uint32_t *)at = pack2(v, T());
        }
    }
    warp_sync();
    uint32_t chunks = dim / 8, packed = w.row.q_len * run.group;
    for (uint32_t i = lane; i < 16 * chunks; i += 32) {
        uint32_t local = row0 + i / chunks, row = w.first_row + local;
        if (row >= packed)
            break;
        size_t token = w.row.q_start + row / run.group;
        uint32_t head = w.kv_head * run.group + row % run.group;
        T *out = (T *)run.args.out + (token * run.args.shape.heads + head) * dim + i % chunks * 8;
        stg128(out, lds128(shared + panel_at(16 * WARPS, local, i % chunks)));
    }
}

template <int DP>
static __device__ __forceinline__ void part_store(const attn_run &run, uint32_t partial,
                                                  const attn_state<DP> *st)
{
    uint32_t lane = threadIdx.x % 32, dim = run.args.shape.dim;
    float *out = run.partial_out + (size_t)partial * ATTN_TILE_ROWS * dim;
    float *state = run.partial_state + (size_t)partial * ATTN_TILE_ROWS * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int i = 0; i < DP / 8; i++) {
            if ((uint32_t)i * 8 >= dim)
                continue;
            out[tile_at(dim, h, i)] = st->out[i][2 * h];
            out[tile_at(dim, h, i) + 1] = st->out[i][2 * h + 1];
        }
        if (lane % 4 == 0) {
            state[(lane / 4 + 8 * h) * 2] = st->max[h];
            state[(lane / 4 + 8 * h) * 2 + 1] = st->sum[h];
        }
    }
}

// Blocks per processor that the compiler must leave registers for; 0: its own choice. At dim 128 it
// would stop at 168 registers, for a third block, and spill.
template <int DP, int WARPS> constexpr int attn_blocks()
{
    return DP == 128 ? (WARPS == 4 ? 2 : 8) : 0;
}

// WARPS warps for an item of 16 * WARPS packed rows; blocks take items in turn, so the grid is
// fixed. Shared: (16 * WARPS + 128) * DP * 2 bytes. Bound: four warps math, one warp the bytes of K
// and V.
template <class T, int DP, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS, (attn_blocks<DP, WARPS>()))
    attn_kernel(attn_run run)
{
    SHARED_DYNAMIC(char, shared);
    const attn_args &a = run.args;
    attn_place at = {shared, shared + WARPS * 16 * DP * 2,
                     shared + (WARPS * 16 + ATTN_TILE_KEYS) * DP * 2};
    const attn_item *items =
        (const attn_item *)((const char *)run.work +
                            (WARPS == 1 ? run.work->narrow_at : run.work->wide_at));
    uint32_t count = WARPS == 1 ? run.work->narrow_count : run.work->wide_count;
    const step_row *rows = (const step_row *)((const char *)a.step + a.step->layout.rows);
    for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
        attn_item item = items[i];
        attn_span w = {rows[item.row], item.kv_head, item.tile * 16u * WARPS, 0};
        uint32_t packed = w.row.q_len * run.group, kv_len = w.row.kv_len;
        w.position = kv_len > w.row.q_len ? kv_len - w.row.q_len : 0;
        uint32_t chunks = (a.shape.dim + 15) / 16 * 2;
        for (uint32_t c = threadIdx.x; c < 16 * WARPS * chunks; c += 32 * WARPS) {
            uint32_t row = w.first_row + c / chunks, chunk = c % chunks;
            bool valid = row < packed && chunk * 8 < a.shape.dim;
            size_t token = w.row.q_start + row / run.group;
            uint32_t head = w.kv_head * run.group + row % run.group;
            size_t all = a.shape.heads + 2 * a.shape.kv_heads;
            const T *from =
                (const T *)a.qkv + (valid ? (token * all + head) * a.shape.dim + chunk * 8 : 0);
            cp_async16(at.query + panel_at(16 * WARPS, c / chunks, chunk), from, valid);
        }
        cp_async_commit(); // waited for with the first tile of keys
        uint32_t end_row = w.first_row + 16 * WARPS < packed ? w.first_row + 16 * WARPS : packed;
        uint32_t first = attn_lo(a.shape, w.position + w.first_row / run.group);
        uint32_t last = attn_hi(a.shape, w.position + (end_row - 1) / run.group, kv_len);
        attn_state<DP> st;
        state_clear(&st);
        first = first / ATTN_TILE_KEYS * ATTN_TILE_KEYS;
        if (item.part == ATTN_WALK) {
            walk_run<T, DP, WARPS>(run, w, at, first, last, &st);
            cp_async_wait<0>();
            tile_store<T, DP, WARPS>(run, w, at.query, &st);
        } else {
            uint32_t begin = item.part * ATTN_PART_TOKENS, end = begin + ATTN_PART_TOKENS;
            part_run<T, DP, WARPS>(run, w, at, first > begin ? first : begin,
                                   last < end ? last : end, &st);
            part_store(run, item.partial, &st);
        }
        cta_sync();
    }
}

// --- launch -------------------------------------------------------------------------------------

static inline attn_run attn_run_of(struct stream *stream, const struct attn_args *args)
{
    attn_run run;
    run.args = *args;
    run.work = (const attn_work *)((const char *)args->step + args->step_host->layout.private_part);
    run.partial_out = stream->partial_out;
    run.partial_state = stream->partial_state;
    run.walk_out = stream->walk_out;
    run.group = args->shape.heads / args->shape.kv_heads;
    run.scale = args->shape.scale * 1.44269504088896341f;
    run.mask_all = attn_plan_of(args->step_host)->mask_all != 0;
    return run;
}

template <class T, int DP, int WARPS>
static enum status attn_launch(struct stream *stream, const attn_run &run, uint32_t count)
{
    if (count == 0)
        return STATUS_OK;
    size_t shared = (size_t)(16 * WARPS + 2 * ATTN_TILE_KEYS) * DP * 2;
    if (SHARED_ALLOW((attn_kernel<T, DP, WARPS>), shared) != cudaSuccess)
        return STATUS_DEVICE_FAULT;
    uint32_t blocks = count < stream->walk_blocks ? count : stream->walk_blocks;
    LAUNCH((attn_kernel<T, DP, WARPS>), dim3(blocks), dim3(32 * WARPS), shared, stream->cuda, run);
    return launch_status();
}

// While a graph is recorded the counts of later replays are unknown: the whole grid is launched,
// the wide kernel only where one query token has more than 16 heads a KV head.
template <int DP> static enum status attn_of(struct stream *stream, const struct attn_args *args)
{
    attn_run run = attn_run_of(stream, args);
    const struct attn_work *work = attn_plan_of(args->step_host);
    uint32_t wide = work->wide_count, narrow = work->narrow_count;
    if (stream->capturing) {
        wide = run.group > ATTN_TILE_ROWS || args->step_host->q_len_max > 1 ? 0xFFFFFFFFu : 0;
        narrow = run.group > ATTN_TILE_ROWS ? 0 : 0xFFFFFFFFu;
    }
    if (args->act == DTYPE_BF16) {
        enum status status = attn_launch<bf16, DP, 4>(stream, run, wide);
        return status != STATUS_OK ? status : attn_launch<bf16, DP, 1>(stream, run, narrow);
    }
    enum status status = attn_launch<f16, DP, 4>(stream, run, wide);
    return status != STATUS_OK ? status : attn_launch<f16, DP, 1>(stream, run, narrow);
}
