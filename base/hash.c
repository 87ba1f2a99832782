// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 with 128 bits of output, from the published description (Aumasson, Bernstein).
#include "base/hash.h"

#include "base/random.h"

#include <pthread.h>
#include <string.h>

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t bits_rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static inline void sip_rounds(struct sip *s, unsigned count)
{
    for (; count > 0; count--) {
        s->a += s->b;
        s->c += s->d;
        s->b = bits_rotate(s->b, 13) ^ s->a;
        s->d = bits_rotate(s->d, 16) ^ s->c;
        s->a = bits_rotate(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = bits_rotate(s->b, 17) ^ s->c;
        s->d = bits_rotate(s->d, 21) ^ s->a;
        s->c = bits_rotate(s->c, 32);
    }
}

struct hash hash_bytes(const uint64_t key[2], const void *at, size_t bytes)
{
    struct sip s = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du ^ 0xee,
                    key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    const unsigned char *from = at;
    uint64_t word;
    for (size_t left = bytes; left >= sizeof word; left -= sizeof word, from += sizeof word) {
        memcpy(&word, from, sizeof word); // little endian: all supported machines are
        s.d ^= word;
        sip_rounds(&s, 2);
        s.a ^= word;
    }
    word = 0;
    memcpy(&word, from, bytes % sizeof word);
    word |= (uint64_t)bytes << 56;
    s.d ^= word;
    sip_rounds(&s, 2);
    s.a ^= word;
    s.c ^= 0xee;
    sip_rounds(&s, 4);
    struct hash out = {.low = s.a ^ s.b ^ s.c ^ s.d};
    s.b ^= 0xdd;
    sip_rounds(&s, 4);
    out.high = s.a ^ s.b ^ s.c ^ s.d;
    return out;
}

static uint64_t own_key[2];

static void own_key_make(void)
{
    random_fill(own_key, sizeof own_key);
}

struct hash hash_own(const void *at, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, own_key_make);
    return hash_bytes(own_key, at, bytes);
}
