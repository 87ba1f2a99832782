// The interface of the SIMT emulator for kernels: what kernels/cuda/dev.h becomes when the host
// compiler reads a .cu file. Each CUDA thread is a fiber; one block runs at a time on the calling
// OS thread; collectives park each lane until the whole warp has come.
//
// What lives where: simt.cpp fibers, barriers and launches; check.cpp the memory registry, the race
// detector and the access lint; ops.cpp the matrix instructions; runtime.cpp and blas.cpp the
// stand-in CUDA runtime. Nothing here is part of the product's libraries for real devices.
#pragma once

#include "cuda_runtime_api.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <type_traits>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(8) float2 {
    float x, y;
};

namespace simt
{

// Where a fiber stands; kernels read tid through threadIdx.
struct view {
    uint3 tid, bid;
    dim3 block, grid;
    unsigned lane;
    bool early; // it has not yet waited for the kernel in front, which may still run
};
extern thread_local view *here __attribute__((tls_model("initial-exec")));

// Call sites travel as default arguments, so that a report names the kernel's line.
#define SIMT_SITE const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()
#define SIMT_PASS file_, line_

enum collective {
    OP_SHFL_XOR = 1,
    OP_SHFL_DOWN,
    OP_SHFL_IDX,
    OP_BALLOT,
    OP_LDSM,
    OP_LDSM_T,
    OP_MMA_BF16,
    OP_MMA_F16,
    OP_MOVM
};

typedef void collective_run(void **frames); // frames of lanes 0..31
void collect(int op, void *frame, collective_run *run, const char *file, int line);
void warp_sync(const char *file, int line);
void cta_sync(const char *file, int line);
void named_bar(unsigned id, unsigned threads, const char *file, int line);

void *shared_static(const void *key, size_t bytes);
void *shared_dynamic();
uint32_t shared_offset(const void *at);
void *shared_at(uint32_t offset, size_t bytes, const char *file, int line);

void grid_wait(const char *file, int line);
void early_access(const void *at, const char *file, int line); // by a thread that has not waited
void prefetch(const void *at, const char *file, int line);

void cp_async16(void *to, const void *from, bool valid, const char *file, int line);
void cp_async_commit();
void cp_async_wait(int groups, const char *file, int line);

// Orderings between blocks, for the race detector.
enum order { RELAXED = 0, ACQUIRE = 1, RELEASE = 2 };
void atomic_note(void *at, size_t bytes, int order, bool write);

void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct launch_shape {
    dim3 grid, block;
    size_t shared;
    const void *kernel;
    const char *name;
    bool early; // it may begin before the kernel in front has ended
};
// args are copied; body(kernel, args) runs once per thread.
typedef void kernel_body(const void *kernel, const void *args);
void launch(const launch_shape &shape, cudaStream_t stream, kernel_body *body, const void *args,
            size_t bytes);
cudaError_t shared_allow(const void *kernel, size_t bytes);

struct mma_frame {
    float *c;
    const uint32_t *a, *b;
};
struct ldsm_frame {
    uint32_t *r;
    const void *row;
};
struct word_frame {
    uint32_t in, out;
    int arg;
};
void mma_bf16_run(void **frames);
void mma_f16_run(void **frames);
void ldsm_run(void **frames);
void ldsm_t_run(void **frames);
void movm_run(void **frames);
void ballot_run(void **frames);
void shfl_run(void **frames); // arg: the lane read from

float f16_widen(uint16_t bits);
uint16_t f16_narrow(float value);

template <class T> T shuffle(int op, T value, int from, const char *file, int line)
{
    static_assert(sizeof(T) == 4, "shuffles move 4 bytes");
    word_frame frame = {0, 0, from};
    memcpy(&frame.in, &value, 4);
    collect(op, &frame, shfl_run, file, line);
    memcpy(&value, &frame.out, 4);
    return value;
}

template <class A>
void launch_kernel(void (*kernel)(A), launch_shape shape, cudaStream_t stream, const A &args)
{
    static_assert(std::is_trivially_copyable<A>::value && sizeof(A) <= 4096, "plain arguments");
    shape.kernel = (const void *)kernel;
    launch(
        shape, stream, [](const void *k, const void *a) { ((void (*)(A))k)(*(const A *)a); }, &args,
        sizeof(A));
}

} // namespace simt

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict

#define threadIdx (simt::here->tid)
#define blockIdx (simt::here->bid)
#define blockDim (simt::here->block)
#define gridDim (simt::here->grid)

#define SHARED(type, name, dims)                                                                   \
    static char name##_key;                                                                        \
    typedef type name##_type dims;                                                                 \
    name##_type &name =                                                                            \
        *reinterpret_cast<name##_type *>(simt::shared_static(&name##_key, sizeof(name##_type)))
#define SHARED_DYNAMIC(type, name) type *name = reinterpret_cast<type *>(simt::shared_dynamic())
#define LAUNCH(kernel, grid, block, shared, stream, args)                                          \
    LAUNCH_EARLY(kernel, grid, block, shared, stream, false, args)
#define LAUNCH_EARLY(kernel, grid, block, shared, stream, early, args)                             \
    simt::launch_kernel((kernel),                                                                  \
                        simt::launch_shape{(grid), (block), (shared), nullptr, #kernel, (early)},  \
                        (stream), (args))
#define SHARED_ALLOW(kernel, bytes) simt::shared_allow((const void *)(kernel), (bytes))
#define OCCUPANCY(kernel, threads, shared, blocks)                                                 \
    cudaOccupancyMaxActiveBlocksPerMultiprocessor((blocks), (const void *)(kernel), (threads),     \
                                                  (shared))

// --- the wrappers of dev.h, emulated -------------------------------------------------------------

static inline void grid_wait(SIMT_SITE)
{
    simt::grid_wait(SIMT_PASS);
}
static inline void grid_trigger() // kernels behind it begin as early as can be, whatever it says
{
}
static inline void prefetch_l2(const void *p, SIMT_SITE)
{
    simt::prefetch(p, SIMT_PASS);
}
static inline uint32_t smem_addr(const void *p)
{
    return simt::shared_offset(p);
}
static inline void cp_async16(void *to, const void *from, bool valid, SIMT_SITE)
{
    simt::cp_async16(to, from, valid, SIMT_PASS);
}
static inline void cp_async_commit()
{
    simt::cp_async_commit();
}
template <int N> static inline void cp_async_wait(SIMT_SITE)
{
    simt::cp_async_wait(N, SIMT_PASS);
}
static inline void ldsm_x4(uint32_t r[4], const void *row, SIMT_SITE)
{
    simt::ldsm_frame frame = {r, row};
    simt::collect(simt::OP_LDSM, &frame, simt::ldsm_run, SIMT_PASS);
}
static inline void ldsm_x4_t(uint32_t r[4], const void *row, SIMT_SITE)
{
    simt::ldsm_frame frame = {r, row};
    simt::collect(simt::OP_LDSM_T, &frame, simt::ldsm_t_run, SIMT_PASS);
}
static inline uint32_t movm_t(uint32_t x, SIMT_SITE)
{
    simt::word_frame frame = {x, 0, 0};
    simt::collect(simt::OP_MOVM, &frame, simt::movm_run, SIMT_PASS);
    return frame.out;
}
static inline void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2], SIMT_SITE)
{
    simt::mma_frame frame = {c, a, b};
    simt::collect(simt::OP_MMA_BF16, &frame, simt::mma_bf16_run, SIMT_PASS);
}
static inline void mma_f16(float c[4], const uint32_t a[4], const uint32_t b[2], SIMT_SITE)
{
    simt::mma_frame frame = {c, a, b};
    simt::collect(simt::OP_MMA_F16, &frame, simt::mma_f16_run, SIMT_PASS);
}
template <class T> static inline T shfl_xor(T v, int mask, SIMT_SITE)
{
    return simt::shuffle(simt::OP_SHFL_XOR, v, (int)simt::here->lane ^ mask, SIMT_PASS);
}
template <class T> static inline T shfl_down(T v, int delta, SIMT_SITE)
{
    int from = (int)simt::here->lane + delta;
    return simt::shuffle(simt::OP_SHFL_DOWN, v, from > 31 ? (int)simt::here->lane : from,
                         SIMT_PASS);
}
template <class T> static inline T shfl_idx(T v, int lane, SIMT_SITE)
{
    return simt::shuffle(simt::OP_SHFL_IDX, v, lane & 31, SIMT_PASS);
}
static inline uint32_t warp_ballot(bool p, SIMT_SITE)
{
    simt::word_frame frame = {p, 0, 0};
    simt::collect(simt::OP_BALLOT, &frame, simt::ballot_run, SIMT_PASS);
    return frame.out;
}
static inline void warp_sync(SIMT_SITE)
{
    simt::warp_sync(SIMT_PASS);
}
static inline void cta_sync(SIMT_SITE)
{
    simt::cta_sync(SIMT_PASS);
}
static inline void named_bar_sync(unsigned id, unsigned threads, SIMT_SITE)
{
    simt::named_bar(id, threads, SIMT_PASS);
}
// The compiler may split a 16-byte access, so the alignment that hardware asks for is tested here.
static inline void vector_check(const void *p, const char *file, int line)
{
    if (simt::here->early)
        simt::early_access(p, file, line);
    if ((uintptr_t)p % 16 != 0)
        simt::report("misaligned 16-byte access at %s:%d", file, line);
}
static inline uint4 ldg128(const void *p, SIMT_SITE)
{
    vector_check(p, SIMT_PASS);
    uint4 v;
    memcpy(&v, p, 16);
    return v;
}
static inline uint4 ldg128_stream(const void *p, SIMT_SITE)
{
    return ldg128(p, SIMT_PASS);
}
static inline void stg128(void *p, uint4 v, SIMT_SITE)
{
    vector_check(p, SIMT_PASS);
    memcpy(p, &v, 16);
}
static inline uint4 lds128(const void *p, SIMT_SITE)
{
    return ldg128(p, SIMT_PASS);
}
static inline void sts128(void *p, uint4 v, SIMT_SITE)
{
    stg128(p, v, SIMT_PASS);
}
static inline float ex2(float x)
{
    return exp2f(x);
}
static inline float rcp(float x)
{
    return 1.0f / x;
}
static inline float rsqrt_approx(float x)
{
    return 1.0f / sqrtf(x);
}
static inline float mul_rn(float a, float b)
{
    return a * b;
}
static inline float add_rn(float a, float b)
{
    return a + b;
}
static inline uint32_t mulhi(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
// Byte k of the result is the byte of b:a that the low three bits of nibble k name.
static inline uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t order)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (uint32_t k = 0; k < 4; k++)
        out |= (uint32_t)(bytes >> 8 * (order >> 4 * k & 7) & 0xFF) << 8 * k;
    return out;
}
static inline int find_msb(uint32_t x)
{
    return x ? 31 - __builtin_clz(x) : -1;
}
static inline uint32_t pop_count(uint32_t x)
{
    return (uint32_t)__builtin_popcount(x);
}
static inline uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static inline float f16_to_float(uint16_t h)
{
    return simt::f16_widen(h);
}
static inline uint16_t float_to_f16(float x)
{
    return simt::f16_narrow(x);
}
static inline float bf16_to_float(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}
static inline uint16_t float_to_bf16(float x)
{
    uint32_t u = float_bits(x);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u)
        return 0x7FFF;
    return (uint16_t)((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}
static inline uint32_t pack_bf16(float lo, float hi)
{
    return float_to_bf16(lo) | (uint32_t)float_to_bf16(hi) << 16;
}
static inline uint32_t pack_f16(float lo, float hi)
{
    return float_to_f16(lo) | (uint32_t)float_to_f16(hi) << 16;
}

// Atomics: the value is computed here, the ordering is told to the race detector; their own
// accesses are not instrumented, else each would be reported as a plain access.
#define SIMT_RAW __attribute__((noinline, unused, no_sanitize("thread")))
template <class T> SIMT_RAW static T atom_add(T *p, T v)
{
    simt::atomic_note(p, sizeof(T), simt::RELAXED, true);
    T old = *p;
    *p = (T)(old + v);
    return old;
}
template <class T> SIMT_RAW static T atom_or(T *p, T v)
{
    simt::atomic_note(p, sizeof(T), simt::RELAXED, true);
    T old = *p;
    *p = (T)(old | v);
    return old;
}
template <class T> SIMT_RAW static T atom_max(T *p, T v)
{
    simt::atomic_note(p, sizeof(T), simt::RELAXED, true);
    T old = *p;
    if (v > old)
        *p = v;
    return old;
}
SIMT_RAW static uint32_t atom_add_acqrel_gpu(uint32_t *p, uint32_t v)
{
    simt::atomic_note(p, 4, simt::ACQUIRE | simt::RELEASE, true);
    uint32_t old = *p;
    *p = old + v;
    return old;
}
SIMT_RAW static uint32_t ld_acquire_gpu(const uint32_t *p)
{
    simt::atomic_note((void *)p, 4, simt::ACQUIRE, false);
    return *p;
}
SIMT_RAW static void st_release_gpu(uint32_t *p, uint32_t v)
{
    simt::atomic_note(p, 4, simt::RELEASE, true);
    *p = v;
}
SIMT_RAW static uint32_t ld_acquire_sys(const uint32_t *p)
{
    simt::atomic_note((void *)p, 4, simt::ACQUIRE, false);
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
SIMT_RAW static void st_release_sys(uint32_t *p, uint32_t v)
{
    simt::atomic_note(p, 4, simt::RELEASE, true);
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
