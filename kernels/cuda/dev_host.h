// SPDX-License-Identifier: Apache-2.0
// dev.h for the host compiler: types, qualifiers and launches as CUDA C++ has them, and in
// namespace `simt` the functions that run a kernel. They are declared here and implemented by the
// emulator in tests/simt: each CUDA thread is a fiber, one block runs at a time on the calling OS
// thread, and a collective parks each lane until all lanes of the warp have arrived. No library for
// real devices contains them.
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

// The position of the running thread; kernels read it through threadIdx, blockIdx and so on.
struct view {
    uint3 tid, bid;
    dim3 block, grid;
    unsigned lane;
    bool early; // true if it has not yet waited for the previous kernel, which may still run
};
extern thread_local view *here __attribute__((tls_model("initial-exec")));

// The call site as default arguments, so that a report names the kernel's line.
#define SIMT_SITE const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()
#define SIMT_PASS file_, line_

// Operations of a warp; all lanes must call the same one at the same call site.
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

// Runs a collective for the 32 lanes of a warp; frames: arguments of lanes 0 to 31.
typedef void collective_run(void **frames);
// Suspends the calling lane until all 32 lanes have called it, then calls `run` once.
void collect(int op, void *frame, collective_run *run, const char *file, int line);
void warp_sync(const char *file, int line);
void cta_sync(const char *file, int line);
void named_bar(unsigned id, unsigned threads, const char *file, int line);

// shared_static returns the block's static object with this key, allocated at first use.
// shared_dynamic returns the block's dynamic shared memory, shared_offset an offset from it.
void *shared_static(const void *key, size_t bytes);
void *shared_dynamic();
uint32_t shared_offset(const void *at);

void grid_wait(const char *file, int line);
// Reports an access to device memory by a thread that has not called grid_wait.
void early_access(const void *at, const char *file, int line);
void prefetch(const void *at, size_t bytes, const char *file, int line);

void cp_async16(void *to, const void *from, bool valid, const char *file, int line);
void cp_async_commit();
void cp_async_wait(int groups, const char *file, int line);

// Memory orders of atomics, for the race detector.
enum memory_order_bits { RELAXED = 0, ACQUIRE = 1, RELEASE = 2 };
// Reports an atomic access to the race detector.
void atomic_note(void *at, size_t bytes, int order, bool write);

// Counts and prints a fault of the running kernel.
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct launch_shape {
    dim3 grid, block;
    size_t shared;
    const void *kernel;
    const char *name;
    bool early; // true if it may begin before the previous kernel has ended
};
// Launches a kernel: copies args and runs body(kernel, args) once per thread.
typedef void kernel_body(const void *kernel, const void *args);
void launch(const launch_shape &shape, cudaStream_t stream, kernel_body *body, const void *args,
            size_t bytes);
// As cudaFuncSetAttribute: allows a kernel this much dynamic shared memory.
cudaError_t shared_allow(const void *kernel, size_t bytes);

// Arguments of one lane of a collective.
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
void shfl_run(void **frames); // word_frame.arg: lane to read from

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

#include "kernels/cuda/dev_host_ops.h"
#include "kernels/cuda/dev_host_math.h"
