// SPDX-License-Identifier: Apache-2.0
// Records of a run, without the sending of requests; see run.h. Pure functions.
#include "loadgen/run.h"

const char *bench_outcome_name(enum bench_outcome outcome)
{
    static const char *const names[BENCH_OUTCOME_COUNT] = {
#define OUTCOME(name, text) text,
        BENCH_OUTCOME_LIST(OUTCOME)
#undef OUTCOME
    };
    return names[outcome];
}

void bench_run_free(struct bench_run *run)
{
    for (uint32_t i = 0; i < BENCH_TARGETS_MAX; i++)
        heap_free(run->gaps[i]);
    heap_free(run->records);
    heap_free(run->bins);
    json_buffer_free(&run->server);
    *run = (struct bench_run){0};
}
