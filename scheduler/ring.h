// What an h2o thread and an engine thread share: rings of request numbers and of token events.
#pragma once

#include "base/flag.h"
#include "base/ring.h"
#include "scheduler/port.h"

struct number_ring {
    struct ring ring;
    uint32_t *entry; // [ring.mask + 1]
};

// A number is in a ring at most once and the ring has an entry for each number: never full.
static inline void number_push(struct number_ring *numbers, uint32_t number)
{
    numbers->entry[ring_place(&numbers->ring)] = number;
    ring_publish(&numbers->ring);
}

static inline bool number_pop(struct number_ring *numbers, uint32_t *out)
{
    uint32_t place;
    if (!ring_peek(&numbers->ring, &place))
        return false;
    *out = numbers->entry[place];
    ring_take(&numbers->ring);
    return true;
}

// Events of one request, from the engine to the reader. The indices belong to the port and outlive
// a life of the request; the mask is chosen for each life while the ring is empty. After a last
// event is published the request is the reader's.
struct event_ring {
    struct ring ring;
    struct token_event *event; // [ring.mask + 1]
    struct token_top *top;     // [ring.mask + 1][TOP_LOGPROBS_MAX], touched only where asked
    _Atomic uint32_t in_ready; // flag: the number is on its way to the reader
    _Atomic uint32_t paused;   // flag: the engine waits for the reader
};
