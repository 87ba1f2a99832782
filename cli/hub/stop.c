// SPDX-License-Identifier: Apache-2.0
// A flag of the process that ends downloads; see stop.h.
#include "cli/hub/stop.h"

#include <stdatomic.h>
#include <unistd.h>

enum { SLICE_MS = 100 };

// relaxed accesses suffice: nothing else is passed to the thread that downloads
static _Atomic bool stopped;

void hub_stop(void)
{
    atomic_store_explicit(&stopped, true, memory_order_relaxed);
}

bool hub_is_stopped(void)
{
    return atomic_load_explicit(&stopped, memory_order_relaxed);
}

bool hub_sleep(uint32_t ms)
{
    for (uint32_t slept = 0; slept < ms && !hub_is_stopped(); slept += SLICE_MS)
        usleep(1000 * (ms - slept < SLICE_MS ? ms - slept : SLICE_MS));
    return !hub_is_stopped();
}

enum status hub_stopped(const char *repo, struct error *err)
{
    return error_set(err, STATUS_UNWANTED,
                     "the download of %s was stopped because the process ends: the next one "
                     "continues it",
                     repo);
}
