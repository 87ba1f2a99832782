// Small arithmetic on numbers.
#pragma once

#include <stdint.h>

// The least power of two that is at least count.
static inline uint32_t power_of_two(uint32_t count)
{
    uint32_t power = 1;
    while (power < count)
        power *= 2;
    return power;
}
