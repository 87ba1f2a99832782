// SPDX-License-Identifier: Apache-2.0
// SipHash with 128 bits of output: the keyed hash of the prefix cache and of signatures. The key is
// secret, so that no client can construct two texts with equal hashes.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t low, high;
};

// Returns SipHash-2-4-128 of the bytes under the key.
struct hash hash_bytes(const uint64_t key[2], const void *at, size_t bytes);
// Returns the hash of the bytes under a random key, created by the first call of the process. Any
// thread.
struct hash hash_own(const void *at, size_t bytes);
