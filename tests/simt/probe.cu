// SPDX-License-Identifier: Apache-2.0
// The kernels of probe.h: one small kernel per wrapper of dev.h, and kernels with faults that the
// emulator must report. Each runs one block of 128 threads if not stated otherwise; none is
// optimized.
#include "kernels/cuda/e4m3.h"
#include "tests/simt/probe.h"

struct probe_args {
    const uint32_t *in; // [PROBE_WORDS]
    uint32_t *out;      // [PROBE_WORDS]
    int which;
};

static __device__ void run_mma(const probe_args &p, uint32_t lane)
{
    uint32_t a[4], b[2];
    float c[4];
    for (int i = 0; i < 4; i++) {
        a[i] = p.in[lane * 4 + i];
        c[i] = bits_float(p.in[256 + lane * 4 + i]);
    }
    b[0] = p.in[128 + lane * 2];
    b[1] = p.in[128 + lane * 2 + 1];
    if (p.which == PROBE_MMA_BF16)
        mma_bf16(c, a, b);
    else
        mma_f16(c, a, b);
    for (int i = 0; i < 4; i++)
        p.out[lane * 4 + i] = float_bits(c[i]);
}

static __device__ void run_matrix(const probe_args &p, uint32_t lane)
{
    SHARED(uint32_t, tile, [32 * 4]); // [32 rows][16 bytes]
    for (int i = 0; i < 4; i++)
        tile[lane * 4 + i] = p.in[lane * 4 + i];
    warp_sync();
    uint32_t r[4] = {0, 0, 0, 0};
    if (p.which == PROBE_LDSM)
        ldsm_x4(r, tile + lane * 4);
    else if (p.which == PROBE_LDSM_T)
        ldsm_x4_t(r, tile + lane * 4);
    else
        for (int i = 0; i < 4; i++)
            r[i] = movm_t(p.in[i * 32 + lane]);
    for (int i = 0; i < 4; i++)
        p.out[lane * 4 + i] = r[i];
}

static __device__ void run_shuffle(const probe_args &p, uint32_t lane)
{
    uint32_t v = p.in[lane];
    p.out[lane] = shfl_xor(v, 5);
    p.out[32 + lane] = shfl_down(v, 3);
    p.out[64 + lane] = shfl_idx(v, (int)(p.in[32] & 31u));
    float f = (float)(v & 1023u);
    for (int step = 16; step > 0; step >>= 1)
        f += shfl_xor(f, step);
    p.out[96 + lane] = float_bits(f);
    p.out[128 + lane] = warp_ballot((v & 1u) != 0);
}

static __device__ void run_convert(const probe_args &p, uint32_t lane)
{
    for (uint32_t i = lane; i < 512; i += 32) {
        float x = bits_float(p.in[i]);
        bool nan = x != x;
        p.out[i] = nan ? 0 : float_to_bf16(x);
        p.out[512 + i] = nan ? 0 : float_to_f16(x);
        p.out[1024 + i] = nan ? 0 : pack_bf16(x, x * 0.5f);
        p.out[1536 + i] = float_bits(bf16_to_float((uint16_t)p.in[i]));
        // no infinities, because the bits of NaN may differ
        uint16_t half = (uint16_t)(p.in[i] & 0xBFFFu);
        p.out[2048 + i] = float_bits(f16_to_float(half));
        p.out[2560 + i] = mulhi(p.in[i], 0x9E3779B9u);
        p.out[3072 + i] = pop_count(p.in[i]) | (uint32_t)find_msb(p.in[i] | 1u) << 8 |
                          and_or(p.in[i], p.in[511 - i], p.in[i ^ 1u]) << 16;
        p.out[3584 + i] = byte_perm(p.in[i], p.in[511 - i], p.in[i ^ 1u]);
    }
}

// Codes of the words' bytes, and words as float32, which the codes' range contains half of.
static __device__ void run_e4m3(const probe_args &p, uint32_t lane)
{
    for (uint32_t i = lane; i < 512; i += 32) {
        uint32_t w = p.in[i];
        float x = bits_float((w & 0x80FFFFFFu) | (112u + (w >> 24 & 31u)) << 23);
        e4m3_unpack4(w, p.out + i, p.out + 512 + i, bf16());
        e4m3_unpack4(w, p.out + 1024 + i, p.out + 1536 + i, f16());
        p.out[2048 + i] = float_to_e4m3(bits_float(w));
        p.out[2560 + i] = float_to_e4m3(x);
        p.out[3072 + i] = float_bits(e4m3_to_float(i & 0xFFu));
        p.out[3584 + i] = float_to_e4m3(e4m3_to_float(i & 0xFFu));
    }
}

// Factors and addends as they are, then with exponents near each other; products of codes E2M1 as
// codes_math.h has them.
static __device__ void run_fma_bf16(const probe_args &p, uint32_t lane)
{
    for (uint32_t i = lane; i < 512; i += 32) {
        uint32_t a = p.in[i], b = p.in[512 + i], c = p.in[1024 + i];
        const uint32_t near = 0x87FF87FFu, one = 0x3C003C00u, none = 0x80008000u;
        p.out[i] = fma_bf16x2(a, b, c);
        p.out[512 + i] = fma_bf16x2((a & near) | one, (b & near) | one, (c & near) | one);
        p.out[1024 + i] =
            fma_bf16x2(fma_bf16x2(a & 0x81C081C0u, 0x7E807E80u, none), b & 0x7F807F80u, none);
        p.out[1536 + i] = rotate_left(a, 1) ^ rotate_left(b, 10) ^ rotate_left(c, 31);
    }
}

static __device__ void run_approx(const probe_args &p, uint32_t lane)
{
    for (uint32_t i = lane; i < 512; i += 32) {
        float x = (float)(p.in[i] & 0xFFFFu) * 0x1p-10f - 32.0f;
        p.out[i] = float_bits(ex2(x));
        p.out[512 + i] = float_bits(rcp(x + 64.5f));
        p.out[1024 + i] = float_bits(rsqrt_approx(x + 33.0f));
        p.out[1536 + i] = float_bits(fmaf(x, 1.0009765625f, 3.0f));
        p.out[2048 + i] = float_bits(expf(x));
        p.out[2560 + i] = float_bits(logf(x + 33.0f));
        p.out[3072 + i] = float_bits(erff(x * 0.0625f));
        p.out[3584 + i] = float_bits(tanhf(x * 0.0625f));
    }
}

static __device__ void run_vector(const probe_args &p, uint32_t lane)
{
    SHARED(uint4, room, [32]);
    uint4 v = ldg128_stream(p.in + lane * 4);
    uint4 w = ldg128(p.in + 128 + lane * 4);
    sts128(&room[lane ^ 1u], v);
    warp_sync();
    uint4 u = lds128(&room[lane]);
    u.x ^= w.x;
    u.w ^= w.w;
    stg128(p.out + lane * 4, u);
}

// Runs as one warp.
static __global__ void __launch_bounds__(32) probe_warp(probe_args p)
{
    uint32_t lane = threadIdx.x;
    switch (p.which) {
    case PROBE_MMA_BF16:
    case PROBE_MMA_F16:
        run_mma(p, lane);
        break;
    case PROBE_LDSM:
    case PROBE_LDSM_T:
    case PROBE_MOVM:
        run_matrix(p, lane);
        break;
    case PROBE_SHUFFLE:
    case PROBE_BALLOT:
        run_shuffle(p, lane);
        break;
    case PROBE_CONVERT:
        run_convert(p, lane);
        break;
    case PROBE_APPROX:
        run_approx(p, lane);
        break;
    case PROBE_E4M3:
        run_e4m3(p, lane);
        break;
    case PROBE_FMA_BF16:
        run_fma_bf16(p, lane);
        break;
    default:
        run_vector(p, lane);
        break;
    }
}

// cp.async with zero fill: every third chunk is not valid. Waits for two groups one after the
// other.
static __global__ void __launch_bounds__(128) probe_async(probe_args p)
{
    SHARED(uint32_t, tile, [2][128 * 4]);
    uint32_t i = threadIdx.x;
    cp_async16(tile[0] + i * 4, p.in + i * 4, i % 3 != 0);
    cp_async_commit();
    cp_async16(tile[1] + i * 4, p.in + 512 + i * 4, i % 3 != 1);
    cp_async_commit();
    cp_async_wait<1>();
    cta_sync();
    uint32_t other = i ^ 37u;
    for (int j = 0; j < 4; j++)
        p.out[i * 4 + j] = tile[0][other * 4 + j];
    cp_async_wait<0>();
    cta_sync();
    for (int j = 0; j < 4; j++)
        p.out[512 + i * 4 + j] = tile[1][other * 4 + j];
}

// Counters in global memory; `which` selects the operation. Eight blocks of 64 threads.
static __global__ void __launch_bounds__(64) probe_blocks(probe_args p)
{
    SHARED(uint32_t, last, [1]);
    uint32_t i = threadIdx.x, b = blockIdx.x;
    uint32_t *counter = p.out + 1024;
    if (p.which == PROBE_ATOMIC) {
        atom_add(counter + 1, p.in[b * 64 + i] & 255u);
        atom_max(counter + 2, p.in[b * 64 + i]);
        atom_add((uint64_t *)(counter + 4), (uint64_t)p.in[b * 64 + i]);
        return;
    }
    p.out[b * 64 + i] = p.in[b * 64 + i] * 3u;
    cta_sync();
    if (i == 0)
        last[0] = atom_add_acqrel_gpu(counter, 1u);
    cta_sync();
    if (last[0] != gridDim.x - 1)
        return;
    uint32_t sum = 0;
    for (uint32_t block = 0; block < gridDim.x; block++)
        sum += p.out[block * 64 + i];
    p.out[512 + i] = sum;
    if (i == 0)
        st_release_sys(p.out + 600, ld_acquire_gpu(counter) + ld_acquire_sys(p.in));
}

// Warps 0 and 1 exchange a value through named barrier 1 while warps 2 and 3 use barrier 2.
static __global__ void __launch_bounds__(128) probe_named(probe_args p)
{
    SHARED(uint32_t, room, [128]);
    uint32_t i = threadIdx.x;
    room[i] = p.in[i] + 1u;
    named_bar_sync(1 + i / 64, 64);
    p.out[i] = room[i ^ 33u];
}

struct fault_args {
    uint32_t *words;   // [1024]
    uint32_t *counter; // [1] initially zero
    int which;
};

static __global__ void __launch_bounds__(64) fault_async(fault_args p)
{
    SHARED(uint32_t, tile, [2][256]);
    uint32_t i = threadIdx.x;
    for (int g = 0; g < 2; g++) {
        cp_async16(tile[g] + i * 4, p.words + g * 256 + i * 4, true);
        cp_async_commit();
    }
    if (p.which == FAULT_ASYNC_UNWAITED)
        return;
    if (p.which == FAULT_WEAK_WAIT)
        cp_async_wait<1>();
    else
        cp_async_wait<0>();
    if (p.which != FAULT_NO_BARRIER_ASYNC)
        cta_sync();
    uint32_t r[4];
    ldsm_x4(r, tile[1] + ((i * 4) ^ 128u));
    p.words[512 + i] = r[0];
}

static __global__ void __launch_bounds__(64) fault_block(fault_args p)
{
    SHARED(uint32_t, room, [64]);
    SHARED(uint64_t, pointer, [1]);
    uint32_t i = threadIdx.x;
    uint32_t mine = i;
    if (p.which != FAULT_UNWRITTEN || i != 5)
        room[p.which == FAULT_SHARED_OVERRUN ? i + 1 : i] = i * 7u;
    if (p.which == FAULT_NO_WARP_SYNC)
        p.words[i] = room[i ^ 1u];
    if (p.which == FAULT_DIVERGENT_BARRIER && i < 32)
        return;
    if (p.which != FAULT_NO_BARRIER)
        cta_sync();
    uint32_t v = p.which == FAULT_SHARED_OVERRUN ? room[i] : room[63 - i];
    if (p.which == FAULT_SHARED_REUSED)
        room[i] = v;
    if (p.which == FAULT_DIVERGENT_SHUFFLE && i % 32 < 16)
        v += shfl_xor(v, 1);
    if (p.which == FAULT_LOCAL_OF_OTHER) {
        if (i == 0)
            pointer[0] = (uint64_t)&mine;
        cta_sync();
        v += *(uint32_t *)pointer[0];
    }
    p.words[i] = v;
}

// Runs as two blocks.
static __global__ void __launch_bounds__(64) fault_grid(fault_args p)
{
    SHARED(uint32_t, last, [1]);
    uint32_t i = threadIdx.x, b = blockIdx.x;
    if (p.which == FAULT_GLOBAL_OVERRUN)
        p.words[1024 + i] = 1;
    if (p.which == FAULT_MISALIGNED && i == 0 && b == 0)
        p.words[600] = ldg128((char *)p.words + 3208).x;
    p.words[p.which == FAULT_TWO_BLOCKS ? i : b * 64 + i] = i;
    cta_sync();
    if (i == 0)
        last[0] = p.which == FAULT_NO_RELEASE ? atom_add(p.counter, 1u)
                                              : atom_add_acqrel_gpu(p.counter, 1u);
    cta_sync();
    if (last[0] != 1)
        return;
    p.words[512 + i] = p.words[i] + p.words[64 + i];
    if (i == 0)
        *p.counter = 0; // the last block resets it after all have counted
}

// Launched after fault_block so that it may begin early.
static __global__ void __launch_bounds__(64) fault_early(fault_args p)
{
    uint32_t i = threadIdx.x, v = 0;
    prefetch_l2(p.words + (p.which == FAULT_PREFETCH_OVERRUN ? 1u << 24 : 16 * i));
    if (p.which == FAULT_LATE_GRID_WAIT)
        v = ldg128(p.words + 4 * i).x;
    if (p.which == FAULT_NO_GRID_WAIT && i == 5)
        return;
    grid_wait();
    grid_trigger();
    p.words[512 + i] = v + p.words[i];
}

struct lint_args {
    uint32_t *words; // [1024]
    uint32_t stride;
};

static __global__ void __launch_bounds__(32) lint_kernel(lint_args p)
{
    SHARED(uint32_t, room, [1024]);
    uint32_t at = threadIdx.x * p.stride % 1024u;
    room[at] = threadIdx.x;
    warp_sync();
    p.words[at] = room[at];
}

// --- launches -----------------------------------------------------------------------------------

const char *probe_name(enum probe probe)
{
    static const char *const name[PROBE_COUNT] = {
        "mma_bf16",     "mma_f16",       "ldsm_x4", "ldsm_x4_t", "movm_t", "shuffle",
        "ballot",       "cp_async",      "convert", "approx",    "atomic", "vector",
        "last_arriver", "named_barrier", "e4m3",    "fma_bf16x2"};
    return name[probe];
}

void probe_run(enum probe probe, const uint32_t *in, uint32_t *out, cudaStream_t stream)
{
    probe_args p = {in, out, (int)probe};
    if (probe == PROBE_CP_ASYNC)
        LAUNCH(probe_async, dim3(1), dim3(128), 0, stream, p);
    else if (probe == PROBE_ATOMIC || probe == PROBE_LAST_ARRIVER)
        LAUNCH(probe_blocks, dim3(8), dim3(64), 0, stream, p);
    else if (probe == PROBE_NAMED_BARRIER)
        LAUNCH(probe_named, dim3(1), dim3(128), 0, stream, p);
    else
        LAUNCH(probe_warp, dim3(1), dim3(32), 0, stream, p);
}

const char *fault_name(enum fault fault)
{
    static const char *const name[FAULT_COUNT] = {"none",
                                                  "no barrier",
                                                  "no warp_sync",
                                                  "shared memory reused",
                                                  "weak wait",
                                                  "no barrier after the wait",
                                                  "shared overrun",
                                                  "global overrun",
                                                  "divergent barrier",
                                                  "divergent shuffle",
                                                  "two blocks, one word",
                                                  "release removed",
                                                  "misaligned",
                                                  "unwritten shared word",
                                                  "copy never waited for",
                                                  "local of another thread",
                                                  "no wait for the kernel in front",
                                                  "read before that wait",
                                                  "prefetch overrun",
                                                  "early behind no kernel"};
    return name[fault];
}

void fault_run(enum fault fault, uint32_t *words, uint32_t *counter, cudaStream_t stream)
{
    fault_args p = {words, counter, (int)fault};
    bool async = fault == FAULT_WEAK_WAIT || fault == FAULT_NO_BARRIER_ASYNC ||
                 fault == FAULT_ASYNC_UNWAITED;
    bool early = fault >= FAULT_NO_GRID_WAIT;
    bool grid = fault == FAULT_GLOBAL_OVERRUN || fault == FAULT_TWO_BLOCKS ||
                fault == FAULT_NO_RELEASE || fault == FAULT_MISALIGNED;
    if (async || fault == FAULT_NONE)
        LAUNCH(fault_async, dim3(1), dim3(64), 0, stream, p);
    if (grid || fault == FAULT_NONE)
        LAUNCH(fault_grid, dim3(2), dim3(64), 0, stream, p);
    if ((!async && !grid) || fault == FAULT_NONE)
        LAUNCH(fault_block, dim3(1), dim3(64), 0, stream, p);
    if (fault == FAULT_EARLY_AFTER_FILL)
        (void)cudaMemsetAsync(words, 0, 64, stream);
    if (early || fault == FAULT_NONE)
        LAUNCH_EARLY(fault_early, dim3(1), dim3(64), 0, stream, true, p);
}

void lint_run(uint32_t *words, uint32_t stride, cudaStream_t stream)
{
    lint_args p = {words, stride};
    LAUNCH(lint_kernel, dim3(1), dim3(32), 0, stream, p);
}
