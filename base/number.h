// SPDX-License-Identifier: Apache-2.0
// Small arithmetic functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

// smaller(a, b) and larger(a, b) for two values of one type: uint32_t, uint64_t or double. Each
// argument is evaluated once.
#define NUMBER_PAIR(name, type)                                                                    \
    static inline type smaller_##name(type a, type b)                                              \
    {                                                                                              \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    static inline type larger_##name(type a, type b)                                               \
    {                                                                                              \
        return a > b ? a : b;                                                                      \
    }
NUMBER_PAIR(u32, uint32_t)
NUMBER_PAIR(u64, uint64_t)
NUMBER_PAIR(real, double)
#undef NUMBER_PAIR

// If b has another type than a, no function is selected and the call does not compile.
#define NUMBER_OF(function, type, b) _Generic((b), type: function, default: (void)0)
#define NUMBER_CHOOSE(which, a, b)                                                                 \
    _Generic((a),                                                                                  \
        uint32_t: NUMBER_OF(which##_u32, uint32_t, b),                                             \
        uint64_t: NUMBER_OF(which##_u64, uint64_t, b),                                             \
        double: NUMBER_OF(which##_real, double, b))(a, b)
#define smaller(a, b) NUMBER_CHOOSE(smaller, a, b)
#define larger(a, b) NUMBER_CHOOSE(larger, a, b)

// Returns the smallest multiple of `to` that is at least n.
static inline size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

// Returns the smallest power of two that is at least count, at least 1. count: at most 2^31, else
// the loop does not end.
static inline uint32_t power_of_two(uint32_t count)
{
    uint32_t power = 1;
    while (power < count)
        power *= 2;
    return power;
}
