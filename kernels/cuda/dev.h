// The only header from which kernels use features of the GPU: every PTX instruction that weft uses
// is one function here. nvcc compiles the PTX below; the host compiler uses the emulator's
// functions of the same names (tests/simt/simt.h), so that .cu files contain no conditional code.
//
// Fragments of mma m16n8k16 for lane l, r = l / 4, t = l % 4 (two 16-bit elements a word):
//   A  a0 (r, 2t) a1 (r + 8, 2t) a2 (r, 2t + 8) a3 (r + 8, 2t + 8)
//   B  b0 (k = 2t, n = r) b1 (k = 2t + 8, n = r)      C  c0 c1 (r, 2t) c2 c3 (r + 8, 2t)
// Instructions are those of sm_80, except grid_wait and grid_trigger. nvcc runs with -fmad=false: a
// multiply-add is fused only if a kernel calls fmaf.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#if !defined(__CUDACC__)
#include "tests/simt/simt.h"
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

// Approximate functions: tests do not compare their bits.
DEV float ex2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}
DEV float rcp(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}
DEV float rsqrt_approx(float x)
{
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}
DEV float mul_rn(float a, float b)
{
    return __fmul_rn(a, b);
}
DEV float add_rn(float a, float b)
{
    return __fadd_rn(a, b);
}
DEV uint32_t mulhi(uint32_t a, uint32_t b)
{
    return __umulhi(a, b);
}
DEV uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t order)
{
    return __byte_perm(a, b, order);
}
DEV int find_msb(uint32_t x)
{
    return 31 - __clz((int)x);
}
DEV uint32_t pop_count(uint32_t x)
{
    return (uint32_t)__popc(x);
}
DEV uint32_t float_bits(float x)
{
    return __float_as_uint(x);
}
DEV float bits_float(uint32_t u)
{
    return __uint_as_float(u);
}
DEV float f16_to_float(uint16_t h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;\n" : "=f"(x) : "h"(h));
    return x;
}
DEV uint16_t float_to_f16(float x)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;\n" : "=h"(h) : "f"(x));
    return h;
}
DEV float bf16_to_float(uint16_t h)
{
    return __uint_as_float((uint32_t)h << 16);
}
DEV uint16_t float_to_bf16(float x)
{
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;\n" : "=h"(h) : "f"(x));
    return h;
}
DEV uint32_t pack_bf16(float lo, float hi)
{
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}
DEV uint32_t pack_f16(float lo, float hi)
{
    uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

// Atomics. Functions without a suffix are relaxed; the others name their order and scope.
DEV uint32_t atom_add(uint32_t *p, uint32_t v)
{
    return atomicAdd(p, v);
}
DEV uint64_t atom_add(uint64_t *p, uint64_t v)
{
    return atomicAdd((unsigned long long *)p, (unsigned long long)v);
}
DEV uint32_t atom_or(uint32_t *p, uint32_t v)
{
    return atomicOr(p, v);
}
DEV uint32_t atom_max(uint32_t *p, uint32_t v)
{
    return atomicMax(p, v);
}
DEV uint32_t atom_add_acqrel_gpu(uint32_t *p, uint32_t v)
{
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;\n"
                 : "=r"(old)
                 : "l"(p), "r"(v)
                 : "memory");
    return old;
}
DEV uint32_t ld_acquire_gpu(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(v) : "l"(p) : "memory");
    return v;
}
DEV void st_release_gpu(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(p), "r"(v) : "memory");
}
DEV uint32_t ld_acquire_sys(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];\n" : "=r"(v) : "l"(p) : "memory");
    return v;
}
DEV void st_release_sys(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;\n" ::"l"(p), "r"(v) : "memory");
}
#endif
