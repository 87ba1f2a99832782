// SPDX-License-Identifier: Apache-2.0
// The formats in which a device can hold weights as codes with scales, and the blocks of these
// formats in a file. A block is `elements` consecutive elements of a row. The formats and their
// blocks are those of GGUF; an element is
//
//   Q4_0, Q5_0, Q8_0   (code - zero) * scale       groups of 32: scale f16
//   Q4_1, Q5_1         code * scale + least        groups of 32: scale and least f16
//   Q4_K, Q5_K         code * (d * s) - dmin * m   256: d, dmin f16; groups of 32: 6-bit s, m
//   Q6_K               (code - 32) * (d * s)       256: d f16; groups of 16: s int8
//
// Codes are unsigned; Q8_0's int8 elements are held with 128 added.
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
    WEIGHT_FORMAT_COUNT
};

enum { FORMATS_TEXT = 96 }; // bytes of a list of names: "Q4_K, Q6_K"

struct weight_format_facts {
    const char *name;
    uint32_t elements, bytes; // number of elements and bytes of a block in a file
    uint32_t bits;            // bits of a code
    int32_t zero;             // code of the element 0, if there is no least
    bool least;               // true if a group has a least value (minimum)
    bool nested;              // true if the scales of groups are codes themselves
    bool halves;              // true if each half of a group of 32 has its own scale
};

static inline const struct weight_format_facts *weight_format_facts(enum weight_format format)
{
    static const struct weight_format_facts facts[WEIGHT_FORMAT_COUNT] = {
        [WEIGHT_FLOATS] = {"floats", 1, 0, 0, 0, false, false, false},
        [WEIGHT_Q4_0] = {"Q4_0", 32, 18, 4, 8, false, false, false},
        [WEIGHT_Q4_1] = {"Q4_1", 32, 20, 4, 0, true, false, false},
        [WEIGHT_Q5_0] = {"Q5_0", 32, 22, 5, 16, false, false, false},
        [WEIGHT_Q5_1] = {"Q5_1", 32, 24, 5, 0, true, false, false},
        [WEIGHT_Q8_0] = {"Q8_0", 32, 34, 8, 128, false, false, false},
        [WEIGHT_Q4_K] = {"Q4_K", 256, 144, 4, 0, true, true, false},
        [WEIGHT_Q5_K] = {"Q5_K", 256, 176, 5, 0, true, true, false},
        [WEIGHT_Q6_K] = {"Q6_K", 256, 210, 6, 32, false, true, true},
    };
    return &facts[format];
}
