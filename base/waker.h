// SPDX-License-Identifier: Apache-2.0
// Wakes one thread that sleeps on a file descriptor. Any thread may raise a waker; the sleeping
// thread clears it and then looks for news. However often it is raised before it is cleared, this
// costs one write.
#pragma once

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waker {
    int fd;                   // an eventfd
    _Atomic uint32_t pending; // a flag (flag.h): 1 if the eventfd was written and not yet read
};

// Opens a waker, which the caller frees with waker_close. IO if no descriptor is free.
enum status waker_open(struct waker **out, struct error *err) MUST_USE;
void waker_close(struct waker *waker);   // NULL is allowed
int waker_fd(const struct waker *waker); // readable once the waker was raised; non-blocking
void waker_raise(struct waker *waker);   // wakes the thread; call it after the news is stored
void waker_clear(struct waker *waker);   // call it before looking for news

// Sleeps until the waker is raised, clears it and returns true. Returns false after `ms`
// milliseconds (-1: no limit) or if a signal interrupts it. Called by the sleeping thread only.
bool waker_wait(struct waker *waker, int ms);
