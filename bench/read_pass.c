// SPDX-License-Identifier: Apache-2.0
// See read_pass.h. The threads exist only during a pass.
#include "bench/read_pass.h"

#include "base/clock.h"
#include "base/status.h"
#include "bench/peaks.h"

#include <pthread.h>

enum { THREADS_MAX = 64, LINE = 64 };

struct reader {
    const struct read_pass *pass;
    uint32_t index;
    uint64_t sum; // keeps the compiler from removing the reads
};

void read_pass_add(struct read_pass *pass, const struct weight *weight)
{
    check(pass->count < READ_WEIGHTS_MAX, "more than %d weights", READ_WEIGHTS_MAX);
    pass->weights[pass->count++] = *weight;
    pass->bytes += weight->bytes;
}

static void *reader_main(void *argument)
{
    struct reader *r = argument;
    const struct read_pass *pass = r->pass;
    for (uint32_t i = 0; i < pass->count; i++) {
        size_t lines = pass->weights[i].bytes / LINE;
        size_t first = lines * r->index / pass->threads;
        size_t end = lines * (r->index + 1) / pass->threads;
        r->sum +=
            peak_read((const char *)pass->weights[i].data + first * LINE, (end - first) * LINE);
    }
    return NULL;
}

double read_pass_ms(const struct read_pass *pass)
{
    struct reader readers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    check(pass->threads > 0 && pass->threads <= THREADS_MAX, "%u threads", pass->threads);
    double start = clock_s();
    for (uint32_t i = 0; i < pass->threads; i++) {
        readers[i] = (struct reader){pass, i, 0};
        check(pthread_create(&threads[i], NULL, reader_main, &readers[i]) == 0, "no thread");
    }
    for (uint32_t i = 0; i < pass->threads; i++)
        pthread_join(threads[i], NULL);
    return (clock_s() - start) * 1e3;
}
