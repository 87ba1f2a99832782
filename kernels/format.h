// SPDX-License-Identifier: Apache-2.0
// The formats in which a device can hold weights as codes with scales. A block is `elements`
// consecutive elements of a row. The formats whose names begin with Q are GGUF's, and files store
// their blocks. The int4 formats hold the weights of AWQ, GPTQ and compressed-tensors, which files
// store as arrays (struct weight_int4 of weight.h) in groups of 32, 64 or 128. The value of an
// element is
//
//   Q4_0, Q5_0, Q8_0   (code - zero) * scale       groups of 32: scale f16
//   Q4_1, Q5_1         code * scale + least        groups of 32: scale and least f16
//   Q4_K, Q5_K         code * (d * s) - dmin * m   256: d, dmin f16; groups of 32: 6-bit s, m
//   Q6_K               (code - 32) * (d * s)       256: d f16; groups of 16: s int8
//   MXFP4              (twice E2M1 of the code) * scale  groups of 32: scale 2^(e - 128), e a byte
//   int4_64, _128      (code - 8) * scale          groups of 64, 128: scale f16 (of 32: Q4_0)
//   int4z_32, _64, _128  (code - zero) * scale     groups: scale f16, zero point of 4 bits
//   FP8                value of the code * scale   rows: scale f32
//   FP8_128            value of the code * scale   128 columns of FP8_SCALE_ROWS rows: scale f32
//
// Codes are unsigned; Q8_0's int8 elements are held with 128 added. Twice the value of an E2M1 code
// is an integer (weight_e2m1_twice). The codes of FP8 and FP8_128 are e4m3, of eight bits: sign,
// four bits of exponent with bias 7, three of mantissa; 0x7F and 0xFF are NaN.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum weight_format {
    WEIGHT_FLOATS, // no codes: elements of a dtype
    WEIGHT_Q4_0,
    WEIGHT_Q4_1,
    WEIGHT_Q5_0,
    WEIGHT_Q5_1,
    WEIGHT_Q8_0,
    WEIGHT_Q4_K,
    WEIGHT_Q5_K,
    WEIGHT_Q6_K,
    WEIGHT_INT4_64,
    WEIGHT_INT4_128,
    WEIGHT_INT4Z_32,
    WEIGHT_INT4Z_64,
    WEIGHT_INT4Z_128,
    WEIGHT_MXFP4,
    WEIGHT_FP8, // from here on: where device_facts.e4m3 is true; before: device_facts.codes
    WEIGHT_FP8_128,
    WEIGHT_FORMAT_COUNT
};

enum { FORMATS_TEXT = 96 };                // bytes of a list of names: "Q4_K, Q6_K"
enum { WEIGHT_FORMAT_CODES = WEIGHT_FP8 }; // formats before this one: device_facts.codes

// A block of a checkpoint has 128 x 128 elements. Scales are held for fewer rows, so that the rows
// of several tensors, or the part of a rank, can follow each other in a weight.
enum { FP8_SCALE_ROWS = 16, FP8_SCALE_COLUMNS = 128 };

struct weight_format_facts {
    const char *name;
    uint32_t elements; // number of elements of a block, which has one scale if not nested
    uint32_t bytes;    // bytes of a block in a file; 0: no file has blocks of this format
    uint32_t bits;     // bits of a code
    // Code whose element is 0; unused if `least` is true. MXFP4: 16, because a CPU multiplies twice
    // the value of a code plus 16 as if it were a code.
    int32_t zero;
    bool least;  // true if a group has a minimum, stored or computed from a zero point
    bool nested; // true if the scales of groups are codes, with a scale for each block
    bool halves; // true if each half of a group of 32 has its own scale
    bool zeros;  // true if the minimum of a group is -scale * zero point
    bool e2m1;   // true if codes are E2M1 and scales are powers of two
};

// Returns twice the value of a 4-bit code of E2M1: 0, 1, 2, 3, 4, 6, 8 or 12, negative if bit 3 is
// set.
static inline int32_t weight_e2m1_twice(uint32_t code)
{
    int32_t low = code & 7, value = low < 4 ? low : low < 6 ? 2 * low - 4 : 4 * low - 16;
    return code & 8 ? -value : value;
}

static inline const struct weight_format_facts *weight_format_facts(enum weight_format format)
{
    static const struct weight_format_facts facts[WEIGHT_FORMAT_COUNT] = {
        [WEIGHT_FLOATS] = {"floats", 1, 0, 0, 0, false, false, false, false, false},
        [WEIGHT_Q4_0] = {"Q4_0", 32, 18, 4, 8, false, false, false, false, false},
        [WEIGHT_Q4_1] = {"Q4_1", 32, 20, 4, 0, true, false, false, false, false},
        [WEIGHT_Q5_0] = {"Q5_0", 32, 22, 5, 16, false, false, false, false, false},
        [WEIGHT_Q5_1] = {"Q5_1", 32, 24, 5, 0, true, false, false, false, false},
        [WEIGHT_Q8_0] = {"Q8_0", 32, 34, 8, 128, false, false, false, false, false},
        [WEIGHT_Q4_K] = {"Q4_K", 256, 144, 4, 0, true, true, false, false, false},
        [WEIGHT_Q5_K] = {"Q5_K", 256, 176, 5, 0, true, true, false, false, false},
        [WEIGHT_Q6_K] = {"Q6_K", 256, 210, 6, 32, false, true, true, false, false},
        [WEIGHT_INT4_64] = {"int4_64", 64, 0, 4, 8, false, false, false, false, false},
        [WEIGHT_INT4_128] = {"int4_128", 128, 0, 4, 8, false, false, false, false, false},
        [WEIGHT_INT4Z_32] = {"int4z_32", 32, 0, 4, 0, true, false, false, true, false},
        [WEIGHT_INT4Z_64] = {"int4z_64", 64, 0, 4, 0, true, false, false, true, false},
        [WEIGHT_INT4Z_128] = {"int4z_128", 128, 0, 4, 0, true, false, false, true, false},
        [WEIGHT_MXFP4] = {"MXFP4", 32, 17, 4, 16, false, false, false, false, true},
        [WEIGHT_FP8] = {"FP8", 1, 0, 8, 0, false, false, false, false, false},
        [WEIGHT_FP8_128] = {"FP8_128", FP8_SCALE_COLUMNS, 0, 8, 0, false, false, false, false,
                            false},
    };
    return &facts[format];
}
