// SPDX-License-Identifier: Apache-2.0
// A flag that one thread raises to announce news and another lowers before it looks for it. Both
// use an atomic exchange, and all exchanges of one flag have one order: the thread that lowers it
// sees the news of every raise before, and a raise after that finds the flag down and announces
// again. With a plain store on either side news could be lost.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Raises the flag. Called after the news is stored. Returns true if the flag was down: the caller
// must then wake the other thread.
static inline bool flag_raise(_Atomic uint32_t *flag)
{
    return atomic_exchange_explicit(flag, 1, memory_order_acq_rel) == 0;
}

// Lowers the flag. Called before looking for news. Returns true if the flag was up.
static inline bool flag_lower(_Atomic uint32_t *flag)
{
    return atomic_exchange_explicit(flag, 0, memory_order_acq_rel) == 1;
}
