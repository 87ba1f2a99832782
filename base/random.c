// SPDX-License-Identifier: Apache-2.0
// Random bytes from the kernel, buffered per thread; see random.h.
#include "base/random.h"

#include "base/status.h"

#include <string.h>
#include <sys/random.h>

enum { STORE_BYTES = 256 }; // the kernel returns requests up to this size in full (getrandom(2))

// Every request needs an id: a system call for each would be a tenth of a small answer's time.
static _Thread_local unsigned char store[STORE_BYTES];
static _Thread_local size_t left; // number of unused bytes, at the beginning of the store

void random_fill(void *out, size_t bytes)
{
    check(bytes <= STORE_BYTES, "%zu random bytes in one call", bytes);
    if (bytes > left) {
        ssize_t got = getrandom(store, STORE_BYTES, 0);
        check(got == STORE_BYTES, "getrandom returned %zd of %d bytes", got, STORE_BYTES);
        left = STORE_BYTES;
    }
    left -= bytes;
    memcpy(out, store + left, bytes);
    explicit_bzero(store + left, bytes); // so that only the caller has these bytes
}

uint64_t random_seed(void)
{
    uint64_t seed;
    random_fill(&seed, sizeof seed);
    return seed;
}
