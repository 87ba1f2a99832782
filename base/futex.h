// SPDX-License-Identifier: Apache-2.0
// Waiting for a word in memory that another thread changes: some tens of microseconds of spinning,
// then the kernel's futex. The thread that changes the word does so with seq_cst order and calls
// futex_notify afterwards. Each word has one counter `sleepers`, 0 at first: the number of threads
// that sleep until the word changes.
#pragma once

#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_NS = 60000,  // how long a waiting thread spins before it sleeps
    SPIN_PAUSES = 4,  // pause instructions between two checks, about 0.2 microseconds
    SPIN_CHECKS = 32, // checks between two readings of the clock
};

// Plain futex calls (futex(2)); private to the process.
static inline void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

// Executes SPIN_PAUSES pause instructions.
static inline void pause_some(void)
{
    for (int i = 0; i < SPIN_PAUSES; i++)
#if defined(__x86_64__)
        __builtin_ia32_pause();
#else
        atomic_signal_fence(memory_order_seq_cst);
#endif
}

// Sleeps until *word is not `old`, without spinning: for threads whose core others need. Returns
// false if CLOCK_MONOTONIC reaches until_ns first (UINT64_MAX: no limit).
static inline bool futex_sleep(_Atomic uint32_t *word, uint32_t old, _Atomic uint32_t *sleepers,
                               uint64_t until_ns)
{
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    bool changed;
    // The changing thread stores the word and then reads sleepers; this thread adds to sleepers and
    // then reads the word. With seq_cst order at least one of them sees the other's store.
    atomic_fetch_add(sleepers, 1);
    while (!(changed = atomic_load(word) != old) && clock_ns() < until_ns)
        syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, old,
                until_ns == UINT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
    atomic_fetch_sub(sleepers, 1);
    return changed;
}

// Returns once *word is not `old`: spins for SPIN_NS, then sleeps. The change is read with acquire.
static inline void futex_await(_Atomic uint32_t *word, uint32_t old, _Atomic uint32_t *sleepers)
{
    uint64_t until = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_CHECKS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != old)
                return;
            pause_some();
        }
    } while (clock_ns() < until);
    futex_sleep(word, old, sleepers, UINT64_MAX);
}

// Wakes all threads that sleep on the word. Called after the word was changed with seq_cst order
// (not release, or a sleeper is missed); the seq_cst load here pairs with futex_sleep.
static inline void futex_notify(_Atomic uint32_t *word, _Atomic uint32_t *sleepers)
{
    if (atomic_load(sleepers) > 0)
        futex_wake(word, INT_MAX);
}
