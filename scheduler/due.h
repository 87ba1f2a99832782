// Requests for which something is due: the deadline of one in the queue, or the time at which a
// slow reader is cancelled. A binary heap, the earliest first; a request is in it at most once.
// Engine thread only.
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

void due_put(struct due_heap *heap, struct request *request, uint64_t at_ns); // or moves it
void due_drop(struct due_heap *heap, struct request *request);                // if it is there
