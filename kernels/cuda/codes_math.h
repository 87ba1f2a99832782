// SPDX-License-Identifier: Apache-2.0
// Computes elements from 4-bit codes (codes.h). The value of an element is exact in float32 (of
// MXFP4: in bfloat16, or infinite), or rounded once where a minimum is added, and is then rounded
// to T: these are the bits of the element of T that a conversion of the checkpoint would store, so
// a product with codes has the bits of a product with these elements.
#pragma once

#include "kernels/cuda/codes.h"
#include "kernels/cuda/lane.h"

// The arrays of a part, in device memory, from its first panel on (codes.h).
struct code_arrays {
    const char *slabs, *scales, *supers;
    uint32_t panel_slabs;   // slabs of a panel
    uint32_t groups;        // groups of a row
    uint32_t group_shift;   // log2 of the slabs of a group
    uint32_t supers_of_row; // Q4_K: blocks of 256 columns of a row
};

static __device__ __forceinline__ uint2 load64(const void *p)
{
    uint64_t v = *(const uint64_t *)p;
    uint2 w = {(uint32_t)v, (uint32_t)(v >> 32)};
    return w;
}

// Type of the weight of a product whose codes are of a kind (enum code_kind). RUN consecutive slabs
// share their scales, and the first of them has a number that is a multiple of RUN. RUN is 4 in
// groups of 128, else 1.
template <int KIND, int RUN> struct codes {
};

// element = factor * (base + code) + addend. Codes are or-ed into the mantissa of a float whose
// value is then base + code: for half of the codes of a word the base is 128, for half 2048. Where
// a minimum is added, the base is subtracted first.
struct code_factors {
    float factor, addend128, addend2048;
    uint32_t pair; // MXFP4, in place of these: the scale twice, in bfloat16
};

// The scales of rows r and r + 8 in a group, as they are stored.
struct code_words {
    uint32_t scale, other; // other: zero points or minima; Q4_K: d of both rows
    uint32_t least;        // Q4_K: dmin of both rows
};

static __device__ __forceinline__ uint32_t code_panels(uint32_t rows)
{
    return (rows + CODE_ROWS - 1) / CODE_ROWS;
}

// Where a lane reads the codes and scales of its rows from a slab on.
template <int KIND, int RUN> struct code_lane {
    static constexpr uint32_t GROUP = KIND == CODES_ZERO || KIND == CODES_LEAST ? 64 : 32; // bytes
    const char *code, *scale, *super;
    uint32_t group_shift, first; // first: number of the slab in its panel
    // panel: number of the panel in its part.
    __device__ __forceinline__ void begin(const code_arrays &a, uint32_t panel)
    {
        uint32_t lane = threadIdx.x % 32;
        code = a.slabs + (size_t)panel * a.panel_slabs * CODE_SLAB_BYTES + lane * 8;
        scale = a.scales + (size_t)panel * a.groups * GROUP + lane / 4 * (GROUP / 8);
        super = a.supers + (size_t)panel * a.supers_of_row * 64 + lane / 4 * 8;
        group_shift = a.group_shift;
        first = 0;
    }
    // Returns the group of a slab. Only codes with a zero point have groups of several slabs.
    __device__ __forceinline__ uint32_t group_of(uint32_t slab) const
    {
        bool several = KIND == CODES_EIGHT || KIND == CODES_ZERO;
        return RUN > 1 ? slab / RUN : several ? slab >> group_shift : slab;
    }
    // Returns the place of a slab, and of those counted from there if it is a multiple of four.
    __device__ __forceinline__ code_lane after(uint32_t slab) const
    {
        code_lane to = *this;
        to.code += (size_t)slab * CODE_SLAB_BYTES;
        to.scale += group_of(slab) * GROUP;
        to.first += slab;
        return to;
    }
    __device__ __forceinline__ uint2 codes_of(uint32_t slab) const
    {
        return load64(code + slab * CODE_SLAB_BYTES);
    }
    __device__ __forceinline__ code_words words_of(uint32_t slab) const
    {
        const char *at = scale + group_of(slab) * GROUP;
        code_words w = {0, 0, 0};
        if (GROUP == 64) {
            uint2 both = load64(at);
            w.scale = both.x;
            w.other = both.y;
        } else {
            w.scale = *(const uint32_t *)at;
        }
        if (KIND == CODES_NESTED) {
            uint2 d = load64(super + (first + slab) / 8 * 64);
            w.other = d.x;
            w.least = d.y;
        }
        return w;
    }
};

// Returns an integer below 2^16 as float32.
static __device__ __forceinline__ float small_float(uint32_t x)
{
    return add_rn(bits_float(x | 0x4B000000u), -8388608.0f);
}

// Computes scale and addends of row r (half: 0) or r + 8 (half: 1).
template <int KIND>
static __device__ __forceinline__ code_factors code_factors_of(const code_words &w, uint32_t half)
{
    code_factors s = {0, 0, 0, 0};
    uint16_t scale = (uint16_t)(half ? w.scale >> 16 : w.scale);
    uint32_t other = half ? w.other >> 16 : w.other & 0xFFFFu;
    if (KIND == CODES_E2M1) {
        s.pair = byte_perm(w.scale, 0, half ? 0x3232u : 0x1010u);
    } else if (KIND == CODES_NESTED) {
        uint16_t least = (uint16_t)(half ? w.least >> 16 : w.least);
        s.factor = mul_rn(f16_to_float((uint16_t)other), small_float(scale & 255u));
        s.addend128 = -mul_rn(f16_to_float(least), small_float(scale >> 8));
    } else if (KIND == CODES_LEAST) {
        s.factor = f16_to_float(scale);
        s.addend128 = f16_to_float((uint16_t)other);
    } else { // these products are exact
        uint32_t zero = KIND == CODES_EIGHT ? 8 : other;
        s.factor = f16_to_float(scale);
        s.addend128 = -mul_rn(bits_float(0x43000000u | zero << 16), s.factor);
        s.addend2048 = -mul_rn(bits_float(0x45000000u | zero << 12), s.factor);
    }
    return s;
}

// Returns the eight codes of a word of MXFP4 as pairs of bfloat16, the value of E2M1 times 2^-126:
// its exponent and mantissa are bits 6 to 8, so that 0.5 is subnormal, and its sign is bit 15.
// The first pair is in place, two are rotated; the bits of the fourth are moved by one
// multiplication that adds three shifted copies.
static __device__ __forceinline__ uint4 e2m1_pairs(uint32_t word)
{
    const uint32_t bits = 0x81C081C0u;
    uint4 pairs = {word & bits, rotate_left(word, 10) & bits, rotate_left(word, 13) & bits,
                   (word & 0x1B001Bu) * (1u << 3 | 1u << 8 | 1u << 14) & bits};
    return pairs;
}

// Multiplies a pair of e2m1_pairs by 2^126 and by the scale, from 2^-127 to 2^127. The results are
// exact, or infinite; adding -0 keeps the sign of zero. mul.bf16x2 would need sm_90.
static __device__ __forceinline__ uint32_t e2m1_scaled(uint32_t pair, uint32_t scale, bf16)
{
    const uint32_t none = 0x80008000u;
    return fma_bf16x2(fma_bf16x2(pair, 0x7E807E80u, none), scale, none);
}
// As above; then rounded to float16, in which the infinite ones are infinite, too.
static __device__ __forceinline__ uint32_t e2m1_scaled(uint32_t pair, uint32_t scale, f16)
{
    uint32_t x = e2m1_scaled(pair, scale, bf16());
    return pack_f16(bits_float(x << 16), bits_float(x & 0xFFFF0000u));
}

// Computes the eight elements of a word of codes.
template <int KIND, class T>
static __device__ __forceinline__ uint4 code_elements(uint32_t word, code_factors s, T)
{
    if (KIND == CODES_E2M1) {
        uint4 p = e2m1_pairs(word);
        uint4 w = {e2m1_scaled(p.x, s.pair, T()), e2m1_scaled(p.y, s.pair, T()),
                   e2m1_scaled(p.z, s.pair, T()), e2m1_scaled(p.w, s.pair, T())};
        return w;
    }
    float v[8];
    const uint32_t turned[4] = {word << 8, word, word >> 8, byte_perm(word, word, 0x1032u)};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float x = bits_float(and_or(turned[i], 0xF000u, 0x45000000u));  // 2048 + code
        float y = bits_float(and_or(turned[i], 0xF0000u, 0x43000000u)); // 128 + code
        bool exact = KIND == CODES_EIGHT || KIND == CODES_ZERO;
        v[2 * i] = exact ? fmaf(x, s.factor, s.addend2048)
                         : fmaf(add_rn(x, -2048.0f), s.factor, s.addend128);
        v[2 * i + 1] = fmaf(exact ? y : add_rn(y, -128.0f), s.factor, s.addend128);
    }
    uint4 w = {pack2(v, T()), pack2(v + 2, T()), pack2(v + 4, T()), pack2(v + 6, T())};
    return w;
}
