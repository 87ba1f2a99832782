// SPDX-License-Identifier: Apache-2.0
// The rings between an h2o thread and an engine thread: request numbers and token events.
#pragma once

#include "base/flag.h"
#include "base/ring.h"
#include "scheduler/port.h"

struct number_ring {
    struct ring ring;
    uint32_t *entry; // [ring.mask + 1]
};

// Appends a number. The ring is never full: it has an entry for each number, and a number is in it
// at most once.
static inline void number_push(struct number_ring *numbers, uint32_t number)
{
    numbers->entry[ring_place(&numbers->ring)] = number;
    ring_publish(&numbers->ring);
}

// Removes the oldest number; returns false if the ring is empty.
static inline bool number_pop(struct number_ring *numbers, uint32_t *out)
{
    uint32_t place;
    if (!ring_peek(&numbers->ring, &place))
        return false;
    *out = numbers->entry[place];
    ring_pop(&numbers->ring);
    return true;
}

// Events of one request, from the engine to the reader (its h2o thread). The indices persist when
// the request number is used again; the mask is set at each submit, while the ring is empty. After
// the last event is published, the reader owns the request.
struct event_ring {
    struct ring ring;
    struct token_event *event; // [ring.mask + 1]
    struct token_top *top;     // [ring.mask + 1][TOP_LOGPROBS_MAX], used only with top_logprobs
    _Atomic uint32_t in_ready; // flag: the request's number is in port.ready
    _Atomic uint32_t paused;   // flag: the engine wants a notice when the reader reads an event
};
