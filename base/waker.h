// Wakes one thread that sleeps on a file descriptor: any thread raises a waker, the sleeper clears
// it and then looks for news. However often it is raised between two looks, that is one write.
#pragma once

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waker {
    int fd;                   // an eventfd
    _Atomic uint32_t pending; // a flag (flag.h): the eventfd was written and not yet read
};

enum status waker_open(struct waker **out, struct error *err) MUST_USE;
void waker_close(struct waker *waker);   // NULL is allowed
int waker_fd(const struct waker *waker); // readable once the waker was raised; non-blocking
void waker_raise(struct waker *waker);   // called after the news is stored
void waker_clear(struct waker *waker);   // called before looking for it

// Sleeps until the waker is raised, and clears it; false: not within so many milliseconds (-1: no
// limit) or before a signal.
bool waker_wait(struct waker *waker, int ms);
