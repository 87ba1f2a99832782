// A flag that one thread raises to announce news and another lowers before it looks for them. Both
// exchange it, and exchanges of one flag have one order: a raise before the lowering shows its news
// to the thread that lowers; a raise after it finds the flag down and announces again. A plain
// store on either side would lose news.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// After the news are put down. True: the flag was down, so the other side must be told.
static inline bool flag_raise(_Atomic uint32_t *flag)
{
    return atomic_exchange_explicit(flag, 1, memory_order_acq_rel) == 0;
}

// Before the look for news. True: the flag was up.
static inline bool flag_lower(_Atomic uint32_t *flag)
{
    return atomic_exchange_explicit(flag, 0, memory_order_acq_rel) == 1;
}
