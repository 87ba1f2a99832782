// Ids and seeds: see ids.h.
#include "http/ids.h"

#include "base/status.h"

#include <sys/random.h>

static void random_fill(void *out, size_t bytes)
{
    ssize_t n = getrandom(out, bytes, 0); // up to 256 bytes are never cut short
    check(n == (ssize_t)bytes, "getrandom gave %zd of %zu bytes", n, bytes);
}

void id_letters(char out[ID_LETTERS])
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    unsigned char bytes[ID_LETTERS * 2];

    random_fill(bytes, sizeof bytes);
    for (int i = 0; i < ID_LETTERS; i++) // 16 bits a letter: the bias of 62 is below 0.1 %
        out[i] = letters[((unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1]) % 62];
}

struct text id_make(struct arena *arena, const char *prefix)
{
    char id[ID_LETTERS];

    id_letters(id);
    return arena_format(arena, "%s%.*s", prefix, ID_LETTERS, id);
}

uint64_t random_seed(void)
{
    uint64_t seed;

    random_fill(&seed, sizeof seed);
    return seed;
}
