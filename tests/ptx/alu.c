// SPDX-License-Identifier: Apache-2.0
// Arithmetic, logic, comparisons and conversions of the interpreter, lane by lane.
//
// Operations without .approx are those of IEEE 754 and of C. Approximate operations use C's
// functions and flush denormals if .ftz is given: hardware may differ in their last bits.
#include "tests/ptx/ops.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#define OP1(name, T, A, value)                                                                     \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        T *d = ptx_lanes(w, &i->x[0]);                                                             \
        const A *x = ptx_lanes(w, &i->x[1]);                                                       \
        EACH_LANE(w, d[l] = (T)(value));                                                           \
    }
#define OP2(name, T, A, B, value)                                                                  \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        T *d = ptx_lanes(w, &i->x[0]);                                                             \
        const A *x = ptx_lanes(w, &i->x[1]);                                                       \
        const B *y = ptx_lanes(w, &i->x[2]);                                                       \
        EACH_LANE(w, d[l] = (T)(value));                                                           \
    }
#define OP3(name, T, A, B, C, value)                                                               \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        T *d = ptx_lanes(w, &i->x[0]);                                                             \
        const A *x = ptx_lanes(w, &i->x[1]);                                                       \
        const B *y = ptx_lanes(w, &i->x[2]);                                                       \
        const C *z = ptx_lanes(w, &i->x[3]);                                                       \
        EACH_LANE(w, d[l] = (T)(value));                                                           \
    }
#define SAME2(name, T, value) OP2(name, T, T, T, value)

// --- integers ---

SAME2(add16, uint16_t, x[l] + y[l])
SAME2(add32, uint32_t, x[l] + y[l])
SAME2(add64, uint64_t, x[l] + y[l])
SAME2(sub16, uint16_t, x[l] - y[l])
SAME2(sub32, uint32_t, x[l] - y[l])
SAME2(sub64, uint64_t, x[l] - y[l])
SAME2(mul16, uint16_t, (uint32_t)x[l] * y[l])
SAME2(mul32, uint32_t, x[l] * y[l])
SAME2(mul64, uint64_t, x[l] * y[l])
SAME2(mul_hi_u32, uint32_t, (uint64_t)x[l] * y[l] >> 32)
SAME2(mul_hi_s32, int32_t, (int64_t)x[l] * y[l] >> 32)
SAME2(mul_hi_u64, uint64_t, (unsigned __int128)x[l] * y[l] >> 64)
OP2(mul_wide_u16, uint32_t, uint16_t, uint16_t, (uint32_t)x[l] * y[l])
OP2(mul_wide_s16, int32_t, int16_t, int16_t, (int32_t)x[l] * y[l])
OP2(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)x[l] * y[l])
OP2(mul_wide_s32, int64_t, int32_t, int32_t, (int64_t)x[l] * y[l])
OP3(mad16, uint16_t, uint16_t, uint16_t, uint16_t, (uint32_t)x[l] * y[l] + z[l])
OP3(mad32, uint32_t, uint32_t, uint32_t, uint32_t, x[l] * y[l] + z[l])
OP3(mad64, uint64_t, uint64_t, uint64_t, uint64_t, x[l] * y[l] + z[l])
OP3(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)x[l] * y[l] + z[l])
OP3(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)x[l] * y[l]) + z[l])
SAME2(min_u16, uint16_t, x[l] < y[l] ? x[l] : y[l])
SAME2(max_u16, uint16_t, x[l] > y[l] ? x[l] : y[l])
SAME2(min_s16, int16_t, x[l] < y[l] ? x[l] : y[l])
SAME2(max_s16, int16_t, x[l] > y[l] ? x[l] : y[l])
SAME2(min_u32, uint32_t, x[l] < y[l] ? x[l] : y[l])
SAME2(max_u32, uint32_t, x[l] > y[l] ? x[l] : y[l])
SAME2(min_s32, int32_t, x[l] < y[l] ? x[l] : y[l])
SAME2(max_s32, int32_t, x[l] > y[l] ? x[l] : y[l])
SAME2(min_u64, uint64_t, x[l] < y[l] ? x[l] : y[l])
SAME2(max_u64, uint64_t, x[l] > y[l] ? x[l] : y[l])
SAME2(min_s64, int64_t, x[l] < y[l] ? x[l] : y[l])
SAME2(max_s64, int64_t, x[l] > y[l] ? x[l] : y[l])
// Hardware returns all ones for a division by zero.
SAME2(div_u16, uint16_t, y[l] != 0 ? x[l] / y[l] : UINT16_MAX)
SAME2(div_u32, uint32_t, y[l] != 0 ? x[l] / y[l] : UINT32_MAX)
SAME2(div_s32, int32_t, y[l] == 0 ? -1 : y[l] == -1 ? (int32_t)(0u - (uint32_t)x[l]) : x[l] / y[l])
SAME2(div_s64, int64_t, y[l] == 0 ? -1 : y[l] == -1 ? (int64_t)(0 - (uint64_t)x[l]) : x[l] / y[l])
SAME2(rem_s64, int64_t, y[l] == 0 ? x[l] : y[l] == -1 ? 0 : x[l] % y[l])
SAME2(div_u64, uint64_t, y[l] != 0 ? x[l] / y[l] : UINT64_MAX)
SAME2(rem_u16, uint16_t, y[l] != 0 ? x[l] % y[l] : x[l])
SAME2(rem_u32, uint32_t, y[l] != 0 ? x[l] % y[l] : x[l])
SAME2(rem_s32, int32_t, y[l] == 0 ? x[l] : y[l] == -1 ? 0 : x[l] % y[l])
SAME2(rem_u64, uint64_t, y[l] != 0 ? x[l] % y[l] : x[l])
OP1(neg32, uint32_t, uint32_t, 0 - x[l])
OP1(neg64, uint64_t, uint64_t, 0 - x[l])
OP1(abs_s32, uint32_t, int32_t, x[l] < 0 ? 0 - (uint32_t)x[l] : (uint32_t)x[l])
OP1(not16, uint16_t, uint16_t, ~x[l])
OP1(not32, uint32_t, uint32_t, ~x[l])
OP1(not64, uint64_t, uint64_t, ~x[l])
SAME2(and16, uint16_t, x[l] & y[l])
SAME2(and32, uint32_t, x[l] & y[l])
SAME2(and64, uint64_t, x[l] & y[l])
SAME2(or16, uint16_t, x[l] | y[l])
SAME2(or32, uint32_t, x[l] | y[l])
SAME2(or64, uint64_t, x[l] | y[l])
SAME2(xor16, uint16_t, x[l] ^ y[l])
SAME2(xor32, uint32_t, x[l] ^ y[l])
SAME2(xor64, uint64_t, x[l] ^ y[l])
// Shifts by the width or more leave only the sign.
OP2(shl16, uint16_t, uint16_t, uint32_t, y[l] > 15 ? 0 : (uint32_t)x[l] << y[l])
OP2(shl32, uint32_t, uint32_t, uint32_t, y[l] > 31 ? 0 : x[l] << y[l])
OP2(shl64, uint64_t, uint64_t, uint32_t, y[l] > 63 ? 0 : x[l] << y[l])
OP2(shr_u16, uint16_t, uint16_t, uint32_t, y[l] > 15 ? 0 : x[l] >> y[l])
OP2(shr_u32, uint32_t, uint32_t, uint32_t, y[l] > 31 ? 0 : x[l] >> y[l])
OP2(shr_u64, uint64_t, uint64_t, uint32_t, y[l] > 63 ? 0 : x[l] >> y[l])
OP2(shr_s16, int16_t, int16_t, uint32_t, x[l] >> (y[l] > 15 ? 15 : y[l]))
OP2(shr_s32, int32_t, int32_t, uint32_t, x[l] >> (y[l] > 31 ? 31 : y[l]))
OP2(shr_s64, int64_t, int64_t, uint32_t, x[l] >> (y[l] > 63 ? 63 : y[l]))
static uint32_t bits_reverse(uint32_t x)
{
    uint32_t out = 0;
    for (int b = 0; b < 32; b++)
        out |= (x >> b & 1) << (31 - b);
    return out;
}
OP1(popc32, uint32_t, uint32_t, __builtin_popcount(x[l]))
OP1(clz32, uint32_t, uint32_t, x[l] != 0 ? __builtin_clz(x[l]) : 32)
OP1(brev32, uint32_t, uint32_t, bits_reverse(x[l]))
OP1(bfind_u32, uint32_t, uint32_t, x[l] != 0 ? 31u - (uint32_t)__builtin_clz(x[l]) : UINT32_MAX)

static uint64_t field_mask(uint32_t from, uint32_t count, uint32_t width)
{
    uint64_t bits = count >= 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;
    return from >= width ? 0 : bits << from;
}

// bfi d, field, into, from, count. Only the low bytes of from and count are read.
#define BFI(name, T, width)                                                                        \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        T *d = ptx_lanes(w, &i->x[0]);                                                             \
        const T *field = ptx_lanes(w, &i->x[1]), *into = ptx_lanes(w, &i->x[2]);                   \
        const uint32_t *from = ptx_lanes(w, &i->x[3]), *count = ptx_lanes(w, &i->x[4]);            \
        EACH_LANE(w, uint32_t at = from[l] & 255;                                                  \
                  T mask = (T)field_mask(at, count[l] & 255, width);                               \
                  d[l] = (into[l] & ~mask) | ((at >= width ? 0 : field[l] << at) & mask));         \
    }
BFI(bfi32, uint32_t, 32)
BFI(bfi64, uint64_t, 64)

// bfe d, x, from, count: extracts bits from `from` on. Bits beyond the top are zero, or for .s the
// sign: the highest bit of the field, or that of x if the field extends beyond it.
static uint64_t field_of(uint64_t x, uint32_t from, uint32_t count, uint32_t width, bool is_signed)
{
    uint64_t bits = from >= width ? 0 : x >> from;
    bits &= field_mask(0, count, 64);
    uint32_t top = from + count - 1 < width - 1 ? from + count - 1 : width - 1;
    if (!is_signed || count == 0 || (x >> top & 1) == 0)
        return bits;
    uint32_t known = from >= width ? 0 : top - from + 1;
    return bits | ~field_mask(0, known, 64);
}
#define BFE(name, T, is_signed)                                                                    \
    OP3(name, T, T, uint32_t, uint32_t,                                                            \
        field_of(x[l], y[l] & 255, z[l] & 255, 8 * sizeof(T), is_signed))
BFE(bfe_u32, uint32_t, false)
BFE(bfe_s32, uint32_t, true)
BFE(bfe_u64, uint64_t, false)
BFE(bfe_s64, uint64_t, true)

// shf d, low, high, by: 32 bits of high:low. The distance is taken modulo 32, or limited to 32.
static uint32_t pair_shifted(uint32_t low, uint32_t high, uint32_t by, bool left)
{
    uint64_t both = (uint64_t)high << 32 | low;
    return (uint32_t)(left ? both << by >> 32 : both >> by);
}
#define SHF(name, by, left)                                                                        \
    OP3(name, uint32_t, uint32_t, uint32_t, uint32_t, pair_shifted(x[l], y[l], by, left))
SHF(shf_l_wrap, z[l] & 31, true)
SHF(shf_r_wrap, z[l] & 31, false)
SHF(shf_l_clamp, z[l] < 32 ? z[l] : 32, true)
SHF(shf_r_clamp, z[l] < 32 ? z[l] : 32, false)

// Implements the generic mode only: each nibble of the selector selects a byte of y:x; its top bit
// replicates the sign.
static uint32_t bytes_pick(uint32_t x, uint32_t y, uint32_t selector)
{
    uint64_t both = (uint64_t)y << 32 | x;
    uint32_t out = 0;
    for (int b = 0; b < 4; b++) {
        uint32_t nibble = selector >> (4 * b) & 15;
        uint32_t byte = (uint32_t)(both >> (8 * (nibble & 7))) & 255;
        if (nibble & 8)
            byte = byte & 128 ? 255 : 0;
        out |= byte << (8 * b);
    }
    return out;
}
OP3(prmt, uint32_t, uint32_t, uint32_t, uint32_t, bytes_pick(x[l], y[l], z[l]))

// Logic of three operands: bit k of the table is the result for the operands' bits k = 4x + 2y + z.
static void lop3(struct ptx_warp *w, const struct ptx_ins *i)
{
    uint32_t *d = ptx_lanes(w, &i->x[0]);
    const uint32_t *x = ptx_lanes(w, &i->x[1]), *y = ptx_lanes(w, &i->x[2]);
    const uint32_t *z = ptx_lanes(w, &i->x[3]), *table = ptx_lanes(w, &i->x[4]);
    EACH_LANE(w, uint32_t out = 0;
              for (uint32_t k = 0; k < 8; k++) if (table[l] >> k & 1) out |=
              (k & 4 ? x[l] : ~x[l]) & (k & 2 ? y[l] : ~y[l]) & (k & 1 ? z[l] : ~z[l]);
              d[l] = out);
}

// --- floats ---

static float flushed(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

// Replaces any NaN by the canonical NaN, as arithmetic does.
static float settled(float x)
{
    static const uint32_t none = 0x7FFFFFFF;
    float canonical;
    memcpy(&canonical, &none, sizeof canonical);
    return x != x ? canonical : x;
}

// Maximum: a number wins over a NaN, and +0 is greater than -0.
static float larger(float x, float y)
{
    if (isnan(x) || isnan(y))
        return settled(isnan(x) ? y : x);
    if (x == y)
        return signbit(x) ? y : x;
    return x > y ? x : y;
}

static float smaller(float x, float y)
{
    if (isnan(x) || isnan(y))
        return settled(isnan(x) ? y : x);
    if (x == y)
        return signbit(x) ? x : y;
    return x < y ? x : y;
}

static float rounded(int mode, float (*f)(float, float, float), float x, float y, float z)
{
    int before = fegetround();
    fesetround(mode);
    volatile float out = f(x, y, z);
    fesetround(before);
    return out;
}

static float fma_of(float x, float y, float z)
{
    volatile float a = x, b = y, c = z;
    return fmaf(a, b, c);
}

static float add_of(float x, float y, float z)
{
    volatile float a = x, b = y;
    (void)z;
    return a + b;
}

SAME2(add_f32, float, settled(x[l] + y[l]))
SAME2(sub_f32, float, settled(x[l] - y[l]))
SAME2(mul_f32, float, settled(x[l] * y[l]))
SAME2(mul_f32_ftz, float, settled(flushed(flushed(x[l]) * flushed(y[l]))))
SAME2(div_f32, float, settled(x[l] / y[l]))
SAME2(div_f32_ftz, float, settled(flushed(flushed(x[l]) / flushed(y[l]))))
SAME2(add_f64, double, x[l] + y[l])
SAME2(mul_f64, double, x[l] * y[l])
SAME2(add_rz_f32, float, settled(rounded(FE_TOWARDZERO, add_of, x[l], y[l], 0)))
OP3(fma_f32, float, float, float, float, settled(fmaf(x[l], y[l], z[l])))
OP3(fma_f32_ftz, float, float, float, float,
    settled(flushed(fmaf(flushed(x[l]), flushed(y[l]), flushed(z[l])))))
OP3(fma_f64, double, double, double, double, fma(x[l], y[l], z[l]))
OP3(fma_rm_f32, float, float, float, float, settled(rounded(FE_DOWNWARD, fma_of, x[l], y[l], z[l])))
SAME2(max_f32, float, larger(x[l], y[l]))
SAME2(min_f32, float, smaller(x[l], y[l]))
SAME2(max_nan_f32, float, settled(isnan(x[l]) || isnan(y[l]) ? NAN : larger(x[l], y[l])))
SAME2(min_nan_f32, float, settled(isnan(x[l]) || isnan(y[l]) ? NAN : smaller(x[l], y[l])))
OP1(neg_f32, uint32_t, uint32_t, x[l] ^ 0x80000000u)
OP1(abs_f32, uint32_t, uint32_t, x[l] & 0x7FFFFFFFu)
SAME2(copysign_f32, uint32_t, (x[l] & 0x80000000u) | (y[l] & 0x7FFFFFFFu))
OP1(rcp_f32, float, float, settled(1.0f / x[l]))
OP1(sqrt_f32, float, float, settled(sqrtf(x[l])))
OP1(sqrt_f32_ftz, float, float, settled(flushed(sqrtf(flushed(x[l])))))
OP1(rsqrt_f32, float, float, settled(1.0f / sqrtf(x[l])))
OP1(ex2_f32, float, float, settled(exp2f(x[l])))
OP1(lg2_f32, float, float, settled(log2f(x[l])))
OP1(rcp_approx, float, float, settled(flushed(1.0f / flushed(x[l]))))
OP1(rsqrt_approx, float, float, settled(flushed(1.0f / sqrtf(flushed(x[l])))))
OP1(ex2_approx, float, float, settled(flushed(exp2f(flushed(x[l])))))
OP1(lg2_approx, float, float, settled(flushed(log2f(flushed(x[l])))))

// --- conversions ---

// An operand may be in a wider register: its low bytes are read, and a narrow result is extended.

static uint64_t lane_bits(const void *lanes, uint32_t bytes, int l)
{
    switch (bytes) {
    case 2:
        return ((const uint16_t *)lanes)[l];
    case 4:
        return ((const uint32_t *)lanes)[l];
    default:
        return ((const uint64_t *)lanes)[l];
    }
}

static void lane_put(void *lanes, uint32_t bytes, int l, uint64_t value)
{
    switch (bytes) {
    case 2:
        ((uint16_t *)lanes)[l] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)lanes)[l] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)lanes)[l] = value;
    }
}

// Integer to integer: reads by the source's type, truncates or extends to the target's.
#define CVT_INTEGER(name, T, A)                                                                    \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        void *d = ptx_lanes(w, &i->x[0]);                                                          \
        const void *x = ptx_lanes(w, &i->x[1]);                                                    \
        EACH_LANE(w, lane_put(d, i->x[0].bytes, l,                                                 \
                              (uint64_t)(int64_t)(T)(A)lane_bits(x, i->x[1].bytes, l)));           \
    }
CVT_INTEGER(cvt_u8_u16, uint8_t, uint16_t)
CVT_INTEGER(cvt_u16_u8, uint16_t, uint8_t)
CVT_INTEGER(cvt_s16_s8, int16_t, int8_t)
CVT_INTEGER(cvt_u32_u8, uint32_t, uint8_t)
CVT_INTEGER(cvt_s32_s8, int32_t, int8_t)
CVT_INTEGER(cvt_u16_u32, uint16_t, uint32_t)
CVT_INTEGER(cvt_u16_u64, uint16_t, uint64_t)
CVT_INTEGER(cvt_u32_u16, uint32_t, uint16_t)
CVT_INTEGER(cvt_s32_s16, int32_t, int16_t)
CVT_INTEGER(cvt_u64_u16, uint64_t, uint16_t)
CVT_INTEGER(cvt_s64_s16, int64_t, int16_t)
OP1(cvt_u32_u64, uint32_t, uint64_t, x[l])
OP1(cvt_u64_u32, uint64_t, uint32_t, x[l])
OP1(cvt_s64_s32, int64_t, int32_t, x[l])

static float f32_of_f16(uint16_t bits)
{
    _Float16 h;
    memcpy(&h, &bits, 2);
    return (float)h;
}

static uint16_t f16_of_f32(float value)
{
    _Float16 h = (_Float16)value;
    uint16_t bits;
    if (isnan(value))
        return 0x7FFF;
    memcpy(&bits, &h, 2);
    return bits;
}

static float f32_of_bf16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, 4);
    return value;
}

static uint16_t bf16_of_f32(float value)
{
    uint32_t word;
    memcpy(&word, &value, 4);
    if (isnan(value))
        return 0x7FFF;
    return (uint16_t)((word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
}

// The low halves. Rounding to odd in float32 keeps what decides the rounding to bfloat16.
static uint32_t fma_bf16(uint32_t x, uint32_t y, uint32_t z)
{
    feclearexcept(FE_INEXACT);
    float cut = rounded(FE_TOWARDZERO, fma_of, f32_of_bf16((uint16_t)x), f32_of_bf16((uint16_t)y),
                        f32_of_bf16((uint16_t)z));
    uint32_t word;
    memcpy(&word, &cut, 4);
    word |= fetestexcept(FE_INEXACT) != 0;
    memcpy(&cut, &word, 4);
    return bf16_of_f32(cut);
}

OP3(fma_bf16x2, uint32_t, uint32_t, uint32_t, uint32_t,
    fma_bf16(x[l] >> 16, y[l] >> 16, z[l] >> 16) << 16 | fma_bf16(x[l], y[l], z[l]))

static uint16_t f16_of_e4m3(uint32_t code)
{
    uint16_t sign = (uint16_t)((code & 0x80) << 8);
    uint32_t exponent = code >> 3 & 15, mantissa = code & 7;
    if ((code & 0x7F) == 0x7F)
        return 0x7FFF;
    if (exponent == 0)
        return sign | f16_of_f32((float)mantissa * 0x1p-9f);
    return (uint16_t)(sign | (exponent + 8) << 10 | mantissa << 7);
}

OP1(cvt_f16x2_e4m3x2, uint32_t, uint16_t,
    (uint32_t)f16_of_e4m3(x[l] >> 8) << 16 | f16_of_e4m3(x[l] & 0xFFu))
OP1(cvt_f32_f16, float, uint16_t, f32_of_f16(x[l]))
OP1(cvt_f32_bf16, float, uint16_t, f32_of_bf16(x[l]))
OP1(cvt_f16_f32, uint16_t, float, f16_of_f32(x[l]))
OP1(cvt_bf16_f32, uint16_t, float, bf16_of_f32(x[l]))
// The first operand becomes the upper half.
OP2(cvt_f16x2_f32, uint32_t, float, float, (uint32_t)f16_of_f32(x[l]) << 16 | f16_of_f32(y[l]))
OP2(cvt_bf16x2_f32, uint32_t, float, float, (uint32_t)bf16_of_f32(x[l]) << 16 | bf16_of_f32(y[l]))
OP1(cvt_f32_u16, float, uint16_t, x[l])
OP1(cvt_f32_s16, float, int16_t, x[l])
OP1(cvt_f32_u32, float, uint32_t, x[l])
OP1(cvt_f32_s32, float, int32_t, x[l])
OP1(cvt_f32_u64, float, uint64_t, x[l])
OP1(cvt_f64_u64, double, uint64_t, x[l])
OP1(cvt_f64_f32, double, float, x[l])
OP1(cvt_f32_f64, float, double, settled((float)x[l]))
OP1(cvt_sat_f32, float, float, isnan(x[l]) || x[l] <= 0 ? 0.0f : x[l] > 1 ? 1.0f : x[l])
OP1(cvt_rzi_f32, float, float, settled(truncf(x[l])))
OP1(cvt_rni_f32, float, float, settled(nearbyintf(x[l])))
OP1(cvt_rmi_f32, float, float, settled(floorf(x[l])))
OP1(cvt_rmi_f32_ftz, float, float, settled(floorf(flushed(x[l]))))

// Values outside the target's range become its nearest value. A NaN becomes 0, but if a side has 64
// bits, only the highest bit is set.
static uint64_t u64_of(double x)
{
    return isnan(x) ? (uint64_t)1 << 63 : !(x > 0) ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}
static uint32_t u32_of(double x)
{
    return !(x > 0) ? 0 : x >= 0x1p32 ? UINT32_MAX : (uint32_t)x;
}
static int32_t s32_of(double x)
{
    return isnan(x) ? 0 : x >= 0x1p31 ? INT32_MAX : x <= -0x1p31 ? INT32_MIN : (int32_t)x;
}
OP1(cvt_rzi_u64_f64, uint64_t, double, u64_of(x[l]))
OP1(cvt_rzi_u64_f32, uint64_t, float, u64_of((double)x[l]))
OP1(cvt_rzi_u32_f32, uint32_t, float, u32_of((double)x[l]))
OP1(cvt_rzi_s32_f32, int32_t, float, s32_of((double)x[l]))

// --- moves ---

OP1(mov16, uint16_t, uint16_t, x[l])
OP1(mov32, uint32_t, uint32_t, x[l])
OP1(mov64, uint64_t, uint64_t, x[l])
OP2(join32, uint32_t, uint16_t, uint16_t, x[l] | (uint32_t)y[l] << 16) // mov.b32 d, {low, high}
OP2(join64, uint64_t, uint32_t, uint32_t, x[l] | (uint64_t)y[l] << 32)

static void split32(struct ptx_warp *w, const struct ptx_ins *i)
{
    uint16_t *low = ptx_lanes(w, &i->x[0]), *high = ptx_lanes(w, &i->x[1]);
    const uint32_t *x = ptx_lanes(w, &i->x[2]);
    EACH_LANE(w, uint32_t word = x[l]; low[l] = (uint16_t)word; high[l] = (uint16_t)(word >> 16));
}

static void split64(struct ptx_warp *w, const struct ptx_ins *i)
{
    uint32_t *low = ptx_lanes(w, &i->x[0]), *high = ptx_lanes(w, &i->x[1]);
    const uint64_t *x = ptx_lanes(w, &i->x[2]);
    EACH_LANE(w, uint64_t word = x[l]; low[l] = (uint32_t)word; high[l] = (uint32_t)(word >> 32));
}

// --- predicates ---

static void predicate_put(struct ptx_warp *w, const struct ptx_operand *o, uint32_t bits)
{
    uint32_t *d = ptx_lanes(w, o);
    *d = (*d & ~w->mask) | (bits & w->mask);
}

static uint32_t predicate(const struct ptx_warp *w, const struct ptx_operand *o)
{
    return *(const uint32_t *)ptx_lanes(w, o);
}

#define PREDICATE2(name, value)                                                                    \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        uint32_t x = predicate(w, &i->x[1]), y = predicate(w, &i->x[2]);                           \
        predicate_put(w, &i->x[0], value);                                                         \
    }
PREDICATE2(and_pred, x &y)
PREDICATE2(or_pred, x | y)
PREDICATE2(xor_pred, x ^ y)

static void not_pred(struct ptx_warp *w, const struct ptx_ins *i)
{
    predicate_put(w, &i->x[0], ~predicate(w, &i->x[1]));
}

static void mov_pred(struct ptx_warp *w, const struct ptx_ins *i)
{
    predicate_put(w, &i->x[0], predicate(w, &i->x[1]));
}

#define SETP(name, T, compare)                                                                     \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        const T *x = ptx_lanes(w, &i->x[1]), *y = ptx_lanes(w, &i->x[2]);                          \
        uint32_t bits = 0;                                                                         \
        for (int l = 0; l < PTX_LANES; l++)                                                        \
            bits |= (uint32_t)(compare) << l;                                                      \
        predicate_put(w, &i->x[0], bits);                                                          \
    }
#define SETP_INTEGER(suffix, T)                                                                    \
    SETP(setp_eq_##suffix, T, x[l] == y[l])                                                        \
    SETP(setp_ne_##suffix, T, x[l] != y[l])                                                        \
    SETP(setp_lt_##suffix, T, x[l] < y[l])                                                         \
    SETP(setp_le_##suffix, T, x[l] <= y[l])                                                        \
    SETP(setp_gt_##suffix, T, x[l] > y[l])                                                         \
    SETP(setp_ge_##suffix, T, x[l] >= y[l])
SETP_INTEGER(u16, uint16_t)
SETP_INTEGER(s16, int16_t)
SETP_INTEGER(u32, uint32_t)
SETP_INTEGER(s32, int32_t)
SETP_INTEGER(u64, uint64_t)
SETP_INTEGER(s64, int64_t)
// The comparisons that end with u are true for NaN, too; ne is not, as eq.
SETP(setp_eq_f32, float, x[l] == y[l])
SETP(setp_ne_f32, float, x[l]<y[l] || x[l]> y[l])
SETP(setp_lt_f32, float, x[l] < y[l])
SETP(setp_le_f32, float, x[l] <= y[l])
SETP(setp_gt_f32, float, x[l] > y[l])
SETP(setp_ge_f32, float, x[l] >= y[l])
SETP(setp_equ_f32, float, !(x[l] < y[l] || x[l] > y[l]))
SETP(setp_neu_f32, float, x[l] != y[l])
SETP(setp_ltu_f32, float, !(x[l] >= y[l]))
SETP(setp_leu_f32, float, !(x[l] > y[l]))
SETP(setp_gtu_f32, float, !(x[l] <= y[l]))
SETP(setp_geu_f32, float, !(x[l] < y[l]))
SETP(setp_nan_f32, float, isnan(x[l]) || isnan(y[l]))

#define SELP(name, T)                                                                              \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        T *d = ptx_lanes(w, &i->x[0]);                                                             \
        const T *x = ptx_lanes(w, &i->x[1]), *y = ptx_lanes(w, &i->x[2]);                          \
        uint32_t first = predicate(w, &i->x[3]);                                                   \
        EACH_LANE(w, d[l] = first >> l & 1 ? x[l] : y[l]);                                         \
    }
SELP(selp16, uint16_t)
SELP(selp32, uint32_t)
SELP(selp64, uint64_t)

// --- the table ---

#define ROWS_SETP_INTEGER(type, suffix, shape)                                                     \
    {"setp.eq." type, shape, setp_eq_##suffix, 0}, {"setp.ne." type, shape, setp_ne_##suffix, 0},  \
        {"setp.lt." type, shape, setp_lt_##suffix, 0},                                             \
        {"setp.le." type, shape, setp_le_##suffix, 0},                                             \
        {"setp.gt." type, shape, setp_gt_##suffix, 0},                                             \
        {"setp.ge." type, shape, setp_ge_##suffix, 0}

const struct ptx_form ptx_alu_forms[] = {
    {"add.s16", "h22", add16, 0},
    {"add.u16", "h22", add16, 0},
    {"add.s32", "w44", add32, 0},
    {"add.u32", "w44", add32, 0},
    {"add.s64", "d88", add64, 0},
    {"add.u64", "d88", add64, 0},
    {"sub.s16", "h22", sub16, 0},
    {"sub.s32", "w44", sub32, 0},
    {"sub.u32", "w44", sub32, 0},
    {"sub.s64", "d88", sub64, 0},
    {"sub.u64", "d88", sub64, 0},
    {"mul.lo.s16", "h22", mul16, 0},
    {"mul.lo.u16", "h22", mul16, 0},
    {"mul.lo.s32", "w44", mul32, 0},
    {"mul.lo.u32", "w44", mul32, 0},
    {"mul.lo.s64", "d88", mul64, 0},
    {"mul.lo.u64", "d88", mul64, 0},
    {"mul.hi.u32", "w44", mul_hi_u32, 0},
    {"mul.hi.s32", "w44", mul_hi_s32, 0},
    {"mul.hi.u64", "d88", mul_hi_u64, 0},
    {"mul.wide.u16", "w22", mul_wide_u16, 0},
    {"mul.wide.s16", "w22", mul_wide_s16, 0},
    {"mul.wide.u32", "d44", mul_wide_u32, 0},
    {"mul.wide.s32", "d44", mul_wide_s32, 0},
    {"mad.lo.s16", "h222", mad16, 0},
    {"mad.lo.u16", "h222", mad16, 0},
    {"mad.lo.s32", "w444", mad32, 0},
    {"mad.lo.u32", "w444", mad32, 0},
    {"mad.lo.s64", "d888", mad64, 0},
    {"mad.lo.u64", "d888", mad64, 0},
    {"mad.wide.u32", "d448", mad_wide_u32, 0},
    {"mad.wide.s32", "d448", mad_wide_s32, 0},
    {"min.u16", "h22", min_u16, 0},
    {"max.u16", "h22", max_u16, 0},
    {"min.s16", "h22", min_s16, 0},
    {"max.s16", "h22", max_s16, 0},
    {"min.u32", "w44", min_u32, 0},
    {"max.u32", "w44", max_u32, 0},
    {"min.s32", "w44", min_s32, 0},
    {"max.s32", "w44", max_s32, 0},
    {"min.u64", "d88", min_u64, 0},
    {"max.u64", "d88", max_u64, 0},
    {"min.s64", "d88", min_s64, 0},
    {"max.s64", "d88", max_s64, 0},
    {"div.u16", "h22", div_u16, 0},
    {"div.u32", "w44", div_u32, 0},
    {"div.s32", "w44", div_s32, 0},
    {"div.u64", "d88", div_u64, 0},
    {"div.s64", "d88", div_s64, 0},
    {"rem.s64", "d88", rem_s64, 0},
    {"rem.u16", "h22", rem_u16, 0},
    {"rem.u32", "w44", rem_u32, 0},
    {"rem.s32", "w44", rem_s32, 0},
    {"rem.u64", "d88", rem_u64, 0},
    {"neg.s32", "w4", neg32, 0},
    {"neg.s64", "d8", neg64, 0},
    {"abs.s32", "w4", abs_s32, 0},
    {"not.b16", "h2", not16, 0},
    {"not.b32", "w4", not32, 0},
    {"not.b64", "d8", not64, 0},
    {"and.b16", "h22", and16, 0},
    {"and.b32", "w44", and32, 0},
    {"and.b64", "d88", and64, 0},
    {"or.b16", "h22", or16, 0},
    {"or.b32", "w44", or32, 0},
    {"or.b64", "d88", or64, 0},
    {"xor.b16", "h22", xor16, 0},
    {"xor.b32", "w44", xor32, 0},
    {"xor.b64", "d88", xor64, 0},
    {"shl.b16", "h24", shl16, 0},
    {"shl.b32", "w44", shl32, 0},
    {"shl.b64", "d84", shl64, 0},
    {"shr.u16", "h24", shr_u16, 0},
    {"shr.u32", "w44", shr_u32, 0},
    {"shr.u64", "d84", shr_u64, 0},
    {"shr.s16", "h24", shr_s16, 0},
    {"shr.s32", "w44", shr_s32, 0},
    {"shr.s64", "d84", shr_s64, 0},
    {"shr.b32", "w44", shr_u32, 0},
    {"shr.b64", "d84", shr_u64, 0},
    {"popc.b32", "w4", popc32, 0},
    {"clz.b32", "w4", clz32, 0},
    {"brev.b32", "w4", brev32, 0},
    {"bfind.u32", "w4", bfind_u32, 0},
    {"bfi.b32", "w4444", bfi32, 0},
    {"bfi.b64", "d8844", bfi64, 0},
    {"bfe.u32", "w444", bfe_u32, 0},
    {"bfe.s32", "w444", bfe_s32, 0},
    {"bfe.u64", "d844", bfe_u64, 0},
    {"bfe.s64", "d844", bfe_s64, 0},
    {"shf.l.wrap.b32", "w444", shf_l_wrap, 0},
    {"shf.r.wrap.b32", "w444", shf_r_wrap, 0},
    {"shf.l.clamp.b32", "w444", shf_l_clamp, 0},
    {"shf.r.clamp.b32", "w444", shf_r_clamp, 0},
    {"prmt.b32", "w444", prmt, 0},
    {"lop3.b32", "w4444", lop3, 0},
    {"add.rn.f32", "w44", add_f32, 0},
    {"add.f32", "w44", add_f32, 0},
    {"add.rz.f32", "w44", add_rz_f32, 0},
    {"sub.rn.f32", "w44", sub_f32, 0},
    {"sub.f32", "w44", sub_f32, 0},
    {"mul.rn.f32", "w44", mul_f32, 0},
    {"mul.f32", "w44", mul_f32, 0},
    {"mul.ftz.f32", "w44", mul_f32_ftz, 0},
    {"add.rn.f64", "d88", add_f64, 0},
    {"mul.rn.f64", "d88", mul_f64, 0},
    {"fma.rn.f32", "w444", fma_f32, 0},
    {"fma.rn.ftz.f32", "w444", fma_f32_ftz, 0},
    {"fma.rn.f64", "d888", fma_f64, 0},
    {"fma.rm.f32", "w444", fma_rm_f32, 0},
    {"fma.rn.bf16x2", "w444", fma_bf16x2, 0},
    {"div.rn.f32", "w44", div_f32, 0},
    {"div.rn.ftz.f32", "w44", div_f32_ftz, 0},
    {"div.full.f32", "w44", div_f32, 0},
    {"min.f32", "w44", min_f32, 0},
    {"max.f32", "w44", max_f32, 0},
    {"min.NaN.f32", "w44", min_nan_f32, 0},
    {"max.NaN.f32", "w44", max_nan_f32, 0},
    {"neg.f32", "w4", neg_f32, 0},
    {"abs.f32", "w4", abs_f32, 0},
    {"copysign.f32", "w44", copysign_f32, 0},
    {"rcp.rn.f32", "w4", rcp_f32, 0},
    {"sqrt.rn.f32", "w4", sqrt_f32, 0},
    {"sqrt.rn.ftz.f32", "w4", sqrt_f32_ftz, 0},
    {"sqrt.approx.f32", "w4", sqrt_f32, 0},
    {"sqrt.approx.ftz.f32", "w4", sqrt_f32_ftz, 0},
    {"rcp.approx.f32", "w4", rcp_f32, 0},
    {"rsqrt.approx.f32", "w4", rsqrt_f32, 0},
    {"ex2.approx.f32", "w4", ex2_f32, 0},
    {"lg2.approx.f32", "w4", lg2_f32, 0},
    {"rcp.approx.ftz.f32", "w4", rcp_approx, 0},
    {"rsqrt.approx.ftz.f32", "w4", rsqrt_approx, 0},
    {"ex2.approx.ftz.f32", "w4", ex2_approx, 0},
    {"lg2.approx.ftz.f32", "w4", lg2_approx, 0},
    {"cvt.u8.u16", "tn", cvt_u8_u16, 0},
    {"cvt.u16.u8", "tn", cvt_u16_u8, 0},
    {"cvt.s16.s8", "tn", cvt_s16_s8, 0},
    {"cvt.u32.u8", "tn", cvt_u32_u8, 0},
    {"cvt.s32.s8", "tn", cvt_s32_s8, 0},
    {"cvt.u16.u32", "tn", cvt_u16_u32, 0},
    {"cvt.u16.u64", "tn", cvt_u16_u64, 0},
    {"cvt.u32.u16", "tn", cvt_u32_u16, 0},
    {"cvt.s32.s16", "tn", cvt_s32_s16, 0},
    {"cvt.u64.u16", "tn", cvt_u64_u16, 0},
    {"cvt.s64.s16", "tn", cvt_s64_s16, 0},
    {"cvt.u32.u64", "w8", cvt_u32_u64, 0},
    {"cvt.u64.u32", "d4", cvt_u64_u32, 0},
    {"cvt.s64.s32", "d4", cvt_s64_s32, 0},
    {"cvt.f32.f16", "w2", cvt_f32_f16, 0},
    {"cvt.f32.bf16", "w2", cvt_f32_bf16, 0},
    {"cvt.rn.f16.f32", "h4", cvt_f16_f32, 0},
    {"cvt.rn.bf16.f32", "h4", cvt_bf16_f32, 0},
    {"cvt.rn.f16x2.f32", "w44", cvt_f16x2_f32, 0},
    {"cvt.rn.f16x2.e4m3x2", "w2", cvt_f16x2_e4m3x2, 0},
    {"cvt.rn.bf16x2.f32", "w44", cvt_bf16x2_f32, 0},
    {"cvt.rn.f32.u16", "w2", cvt_f32_u16, 0},
    {"cvt.rn.f32.s16", "w2", cvt_f32_s16, 0},
    {"cvt.rn.f32.u32", "w4", cvt_f32_u32, 0},
    {"cvt.rn.f32.s32", "w4", cvt_f32_s32, 0},
    {"cvt.rn.f32.u64", "w8", cvt_f32_u64, 0},
    {"cvt.rn.f64.u64", "d8", cvt_f64_u64, 0},
    {"cvt.f64.f32", "d4", cvt_f64_f32, 0},
    {"cvt.rn.f32.f64", "w8", cvt_f32_f64, 0},
    {"cvt.sat.f32.f32", "w4", cvt_sat_f32, 0},
    {"cvt.rzi.f32.f32", "w4", cvt_rzi_f32, 0},
    {"cvt.rni.f32.f32", "w4", cvt_rni_f32, 0},
    {"cvt.rmi.f32.f32", "w4", cvt_rmi_f32, 0},
    {"cvt.rmi.ftz.f32.f32", "w4", cvt_rmi_f32_ftz, 0},
    {"cvt.rzi.u64.f64", "d8", cvt_rzi_u64_f64, 0},
    {"cvt.rzi.u64.f32", "d4", cvt_rzi_u64_f32, 0},
    {"cvt.rzi.u32.f32", "w4", cvt_rzi_u32_f32, 0},
    {"cvt.rzi.s32.f32", "w4", cvt_rzi_s32_f32, 0},
    {"mov.u16", "h2", mov16, 0},
    {"mov.b16", "h2", mov16, 0},
    {"mov.u32", "w4", mov32, 0},
    {"mov.s32", "w4", mov32, 0},
    {"mov.b32", "w4", mov32, 0},
    {"mov.f32", "w4", mov32, 0},
    {"mov.u64", "d8", mov64, 0},
    {"mov.s64", "d8", mov64, 0},
    {"mov.b64", "d8", mov64, 0},
    {"mov.f64", "d8", mov64, 0},
    {"mov.pred", "pP", mov_pred, 0},
    {"mov.b32", "w22", join32, 0},
    {"mov.b64", "d44", join64, 0},
    {"mov.b32", "hh4", split32, 0},
    {"mov.b64", "ww8", split64, 0},
    {"cvta.to.global.u64", "d8", mov64, 0},
    {"and.pred", "ppp", and_pred, 0},
    {"or.pred", "ppp", or_pred, 0},
    {"xor.pred", "ppp", xor_pred, 0},
    {"not.pred", "pp", not_pred, 0},
    ROWS_SETP_INTEGER("u16", u16, "p22"),
    ROWS_SETP_INTEGER("s16", s16, "p22"),
    ROWS_SETP_INTEGER("u32", u32, "p44"),
    ROWS_SETP_INTEGER("s32", s32, "p44"),
    ROWS_SETP_INTEGER("u64", u64, "p88"),
    ROWS_SETP_INTEGER("s64", s64, "p88"),
    {"setp.eq.b16", "p22", setp_eq_u16, 0},
    {"setp.ne.b16", "p22", setp_ne_u16, 0},
    {"setp.eq.b32", "p44", setp_eq_u32, 0},
    {"setp.ne.b32", "p44", setp_ne_u32, 0},
    {"setp.eq.b64", "p88", setp_eq_u64, 0},
    {"setp.ne.b64", "p88", setp_ne_u64, 0},
    {"setp.eq.f32", "p44", setp_eq_f32, 0},
    {"setp.ne.f32", "p44", setp_ne_f32, 0},
    {"setp.lt.f32", "p44", setp_lt_f32, 0},
    {"setp.le.f32", "p44", setp_le_f32, 0},
    {"setp.gt.f32", "p44", setp_gt_f32, 0},
    {"setp.ge.f32", "p44", setp_ge_f32, 0},
    {"setp.equ.f32", "p44", setp_equ_f32, 0},
    {"setp.neu.f32", "p44", setp_neu_f32, 0},
    {"setp.ltu.f32", "p44", setp_ltu_f32, 0},
    {"setp.leu.f32", "p44", setp_leu_f32, 0},
    {"setp.gtu.f32", "p44", setp_gtu_f32, 0},
    {"setp.geu.f32", "p44", setp_geu_f32, 0},
    {"setp.nan.f32", "p44", setp_nan_f32, 0},
    {"selp.b16", "h22p", selp16, 0},
    {"selp.u16", "h22p", selp16, 0},
    {"selp.b32", "w44p", selp32, 0},
    {"selp.u32", "w44p", selp32, 0},
    {"selp.s32", "w44p", selp32, 0},
    {"selp.f32", "w44p", selp32, 0},
    {"selp.b64", "d88p", selp64, 0},
    {"selp.u64", "d88p", selp64, 0},
    {"selp.s64", "d88p", selp64, 0},
    {"selp.f64", "d88p", selp64, 0},
    {NULL, NULL, NULL, 0},
};
