// See random.h.
#include "base/random.h"

#include "base/status.h"

#include <sys/random.h>

void random_fill(void *out, size_t bytes)
{
    ssize_t got = getrandom(out, bytes, 0); // up to 256 bytes are never cut short
    check(got == (ssize_t)bytes, "getrandom gave %zd of %zu bytes", got, bytes);
}

uint64_t random_seed(void)
{
    uint64_t seed;
    random_fill(&seed, sizeof seed);
    return seed;
}
