// SipHash with 128 bits of output: the keyed hash of the prefix cache and of signatures. Keyed by a
// secret, so that nobody can make two texts collide.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t low, high;
};

// SipHash-2-4-128 of the bytes under the key.
struct hash hash_bytes(const uint64_t key[2], const void *at, size_t bytes);
// The same under a random key of the process. Any thread.
struct hash hash_own(const void *at, size_t bytes);
