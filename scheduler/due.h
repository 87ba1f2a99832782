// SPDX-License-Identifier: Apache-2.0
// Timers of requests: the deadline of a request that has not started, or the time at which a
// request with a slow reader is cancelled. A binary heap, the earliest first; a request is in it at
// most once. Engine thread only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct request;

struct due {
    uint64_t at_ns;
    struct request *request;
};

struct due_heap {
    struct due *entry; // [max_queued_requests]
    uint32_t count;
};

// Adds the request, or moves it if it is already in the heap. at_ns: CLOCK_MONOTONIC.
void due_put(struct due_heap *heap, struct request *request, uint64_t at_ns);
// Removes the request if it is in the heap.
void due_drop(struct due_heap *heap, struct request *request);
