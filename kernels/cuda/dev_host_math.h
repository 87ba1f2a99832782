// SPDX-License-Identifier: Apache-2.0
// The functions of dev_math.h for the host compiler. Included by dev_host.h only.
#pragma once

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
static inline uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t order)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t byte = (uint32_t)(bytes >> 8 * (order >> 4 * k & 7)) & 0xFF;
        if (order >> (4 * k + 3) & 1)
            byte = byte & 0x80 ? 0xFF : 0;
        out |= byte << 8 * k;
    }
    return out;
}
static inline uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits)
{
    return (x & mask) | bits;
}
static inline uint32_t rotate_left(uint32_t x, uint32_t by)
{
    return x << by | x >> (32 - by);
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
// Returns the neighbour of x toward the exact value x + lost if the last bit of x is even: rounded
// to odd, so that rounding to fewer bits then is as if it were done at once.
static inline double odd_f64(double x, double lost)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    if ((bits & 1) == 0 && (lost < 0 || lost > 0))
        bits += (lost > 0) == (x > 0) ? 1 : -1;
    memcpy(&x, &bits, 8);
    return x;
}
static inline float odd_f32(double x)
{
    float y = (float)x;
    uint32_t bits = float_bits(y);
    if ((bits & 1) == 0 && (y < x || y > x))
        bits += fabs(y) < fabs(x) ? 1 : -1;
    return bits_float(bits);
}
static inline uint16_t fma_bf16(uint16_t a, uint16_t b, uint16_t c)
{
    double product = (double)bf16_to_float(a) * bf16_to_float(b), z = bf16_to_float(c); // exact
    double sum = product + z, part = sum - product;
    double lost = (product - (sum - part)) + (z - part); // NaN if the sum is not finite
    return float_to_bf16(odd_f32(odd_f64(sum, lost)));
}
static inline uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return fma_bf16((uint16_t)a, (uint16_t)b, (uint16_t)c) |
           (uint32_t)fma_bf16((uint16_t)(a >> 16), (uint16_t)(b >> 16), (uint16_t)(c >> 16)) << 16;
}
static inline void e4m3_to_f16(uint32_t out[2], uint32_t codes)
{
    out[0] = out[1] = 0;
    for (uint32_t i = 0; i < 4; i++) {
        int code = codes >> 8 * i & 0x7F, exponent = code >> 3, mantissa = code & 7;
        float value = exponent == 0 ? ldexpf((float)mantissa, -9)
                                    : ldexpf((float)(8 + mantissa), exponent - 10);
        uint32_t half = code == 0x7F ? 0x7FFFu : float_to_f16(value);
        out[i / 2] |= (half | (codes >> (8 * i + 7) & 1u) << 15) << 16 * (i % 2);
    }
}

// Atomics: the value is computed here and the memory order is passed to the race detector. Their
// accesses are not instrumented, because they would be reported as plain accesses.
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
