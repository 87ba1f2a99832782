// Eventfd and pending flag of a thread that sleeps: one for each h2o thread (shared by its ports)
// and one for each engine. wake.c of http says why nothing is lost.
#pragma once

#include "scheduler/ring.h"

struct waker {
    int fd;
    _Atomic uint32_t pending; // written to the fd and not yet read
};

enum status waker_init(struct waker *waker, struct error *err) MUST_USE;
void waker_end(struct waker *waker);
void waker_raise(struct waker *waker); // any thread; one write for many calls
