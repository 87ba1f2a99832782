// SPDX-License-Identifier: Apache-2.0
// The only header from which kernels use features of the GPU: every PTX instruction that weft uses
// is one function here or in dev_math.h. nvcc compiles the PTX; the host compiler uses functions of
// the same names (dev_host.h), so that .cu files contain no conditional code.
//
// Fragments of mma m16n8k16 for lane l, r = l / 4, t = l % 4 (two 16-bit elements a word):
//   A  a0 (r, 2t) a1 (r + 8, 2t) a2 (r, 2t + 8) a3 (r + 8, 2t + 8)
//   B  b0 (k = 2t, n = r) b1 (k = 2t + 8, n = r)      C  c0 c1 (r, 2t) c2 c3 (r + 8, 2t)
// Instructions are those of sm_80, except grid_wait, grid_trigger and prefetch_l2_bulk (sm_90) and,
// where the card has it, the conversion of e4m3_to_f16 (sm_89). nvcc runs with -fmad=false: a
// multiply-add is fused only if a kernel calls fmaf.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#if !defined(__CUDACC__)
#include "kernels/cuda/dev_host.h"
#else
#include <cuda_runtime.h>

#define SHARED(type, name, dims) __shared__ __align__(16) type name dims
#define SHARED_DYNAMIC(type, name)                                                                 \
    extern __shared__ __align__(128) unsigned char shared_dynamic_bytes[];                         \
    type *name = reinterpret_cast<type *>(shared_dynamic_bytes)
#define LAUNCH(kernel, grid, block, shared, stream, args)                                          \
    (kernel)<<<(grid), (block), (shared), (stream)>>>(args)
// If `early`, the kernel may start before the previous kernel of the stream has ended (sm_90 and
// later).
#define LAUNCH_EARLY(kernel, grid, block, shared, stream, early, args)                             \
    launch_early((kernel), {(grid), (block), (shared), (stream), NULL, 0}, (early), (args))
template <class A>
static inline void launch_early(void (*kernel)(A), cudaLaunchConfig_t config, bool early, A args)
{
    cudaLaunchAttribute may = {};
    may.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    may.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &may;
    config.numAttrs = early;
    void *list[] = {&args};
    (void)cudaLaunchKernelExC(&config, (const void *)kernel, list); // see launch_status()
}
#define SHARED_ALLOW(kernel, bytes)                                                                \
    cudaFuncSetAttribute((kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes))
#define OCCUPANCY(kernel, threads, shared, blocks)                                                 \
    cudaOccupancyMaxActiveBlocksPerMultiprocessor((blocks), (const void *)(kernel), (threads),     \
                                                  (shared))
#define DEV __device__ __forceinline__

// grid_wait waits until all previous kernels of the stream have ended and their writes are visible.
// grid_trigger lets the next kernel start once every block has triggered or exited. Below sm_90
// neither is needed.
DEV void grid_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}
DEV void grid_trigger()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}
DEV void prefetch_l2(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];\n" ::"l"(p));
}
// Loads `bytes` bytes into L2, both multiples of 16. Only on sm_90 and later: before, nothing.
DEV void prefetch_l2_bulk(const void *p, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(p), "r"(bytes));
#endif
}
DEV uint32_t smem_addr(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
DEV void cp_async16(void *to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(smem_addr(to)),
                 "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}
DEV void cp_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int N> DEV void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}
DEV void ldsm_x4(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_addr(row))
                 : "memory");
}
DEV void ldsm_x4_t(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_addr(row))
                 : "memory");
}
DEV uint32_t movm_t(uint32_t x)
{
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(y) : "r"(x));
    return y;
}
DEV void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEV void mma_f16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <class T> DEV T shfl_xor(T v, int mask)
{
    return __shfl_xor_sync(0xFFFFFFFFu, v, mask);
}
template <class T> DEV T shfl_down(T v, int delta)
{
    return __shfl_down_sync(0xFFFFFFFFu, v, delta);
}
template <class T> DEV T shfl_idx(T v, int lane)
{
    return __shfl_sync(0xFFFFFFFFu, v, lane);
}
DEV uint32_t warp_ballot(bool p)
{
    return __ballot_sync(0xFFFFFFFFu, p);
}
DEV void warp_sync()
{
    __syncwarp();
}
DEV void cta_sync()
{
    __syncthreads();
}
DEV void named_bar_sync(unsigned id, unsigned threads)
{
    asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}

// Loads and stores of sixteen bytes; ldg128_stream is for weights, which are read once per step.
DEV uint4 ldg128(const void *p)
{
    return *(const uint4 *)p;
}
DEV uint4 ldg128_stream(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
DEV void stg128(void *p, uint4 v)
{
    *(uint4 *)p = v;
}
DEV uint4 lds128(const void *p)
{
    return *(const uint4 *)p;
}
DEV void sts128(void *p, uint4 v)
{
    *(uint4 *)p = v;
}

#include "kernels/cuda/dev_math.h"
#endif
