// SPDX-License-Identifier: Apache-2.0
// The scalar functions of dev.h: approximations, integer operations, conversions and atomics.
// Included by dev.h for nvcc only; dev_host_math.h has the versions for the host compiler.
#pragma once

// ex2 (2^x), rcp (1 / x) and rsqrt_approx are approximate: tests do not compare their bits. All
// functions after them are exact or round to nearest even; mul_rn and add_rn are never fused.
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
// Byte k of the result is the byte of b:a whose index is in the low three bits of nibble k; if bit
// 3 of the nibble is set, it is eight copies of that byte's highest bit.
DEV uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t order)
{
    uint32_t y;
    asm("prmt.b32 %0, %1, %2, %3;\n" : "=r"(y) : "r"(a), "r"(b), "r"(order));
    return y;
}
// Returns x & mask | bits in one instruction, which the compiler does not make of two constants.
DEV uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits)
{
    uint32_t y;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;\n" : "=r"(y) : "r"(x), "r"(mask), "r"(bits));
    return y;
}
// Returns x rotated left by 1 to 31 bits in one instruction; of two shifts nvcc may make three.
DEV uint32_t rotate_left(uint32_t x, uint32_t by)
{
    return __funnelshift_l(x, x, by);
}
// Returns the index of the highest set bit; -1 for 0.
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
// Returns a * b + c of pairs of bfloat16, each rounded once; subnormals are kept.
DEV uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
// Widens four FP8 e4m3 codes (kernels/dtype.h) to float16, exactly: out[0] has those of the two low
// bytes. NaN stays NaN. Cards before sm_89 have no instruction for it.
DEV void e4m3_to_f16(uint32_t out[2], uint32_t codes)
{
#if __CUDA_ARCH__ >= 890
    uint16_t half[2];
    asm("mov.b32 {%0, %1}, %2;\n" : "=h"(half[0]), "=h"(half[1]) : "r"(codes));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;\n" : "=r"(out[0]) : "h"(half[0]));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;\n" : "=r"(out[1]) : "h"(half[1]));
#else
    uint32_t nan = (codes & 0x7F7F7F7Fu) + 0x01010101u; // bit 7 of each byte
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t order = i == 0 ? 0x9180u : 0xB3A2u;                    // sign-extended bytes
        uint32_t small = byte_perm(codes, 0, order) << 7 & 0xBF80BF80u; // the value times 2^-8
        out[i] = pack_f16(f16_to_float((uint16_t)small) * 256.0f,
                          f16_to_float((uint16_t)(small >> 16)) * 256.0f) |
                 (byte_perm(nan, 0, order) & 0x7F007F00u);
    }
#endif
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
