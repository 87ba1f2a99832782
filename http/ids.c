// SPDX-License-Identifier: Apache-2.0
// Random ids from the kernel's random numbers (base/random.h). Any thread.
#include "http/ids.h"

void id_letters(char out[ID_LETTERS])
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    unsigned char bytes[ID_LETTERS * 2];
    random_fill(bytes, sizeof bytes);
    for (int i = 0; i < ID_LETTERS; i++) // 16 bits per letter: modulo 62 has a bias below 0.1 %
        out[i] = letters[((unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1]) % 62];
}

struct text id_make(struct arena *arena, const char *prefix)
{
    char id[ID_LETTERS];
    id_letters(id);
    return arena_format(arena, "%s%.*s", prefix, ID_LETTERS, id);
}
