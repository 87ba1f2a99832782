// Small arithmetic on numbers.
#pragma once

#include <stdint.h>

// smaller(a, b) and larger(a, b) of one type: uint32_t, uint64_t or double.
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

#define NUMBER_CHOOSE(which, a, b)                                                                 \
    _Generic((a) + (b), uint32_t: which##_u32, uint64_t: which##_u64, double: which##_real)(a, b)
#define smaller(a, b) NUMBER_CHOOSE(smaller, a, b)
#define larger(a, b) NUMBER_CHOOSE(larger, a, b)

// The least power of two that is at least count.
static inline uint32_t power_of_two(uint32_t count)
{
    uint32_t power = 1;
    while (power < count)
        power *= 2;
    return power;
}
