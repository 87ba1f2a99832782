// SPDX-License-Identifier: Apache-2.0
// See waker.h; flag.h explains why no news is lost.
#include "base/waker.h"

#include "base/arena.h"
#include "base/flag.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum status waker_open(struct waker **out, struct error *err)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return error_set(
            err, STATUS_IO,
            "an eventfd cannot be created (%s): raise the limit of open files (ulimit -n)",
            strerror(errno));
    *out = heap_alloc_zeroed(1, sizeof **out);
    (*out)->fd = fd;
    return STATUS_OK;
}

void waker_close(struct waker *waker)
{
    if (!waker)
        return;
    close(waker->fd);
    heap_free(waker);
}

int waker_fd(const struct waker *waker)
{
    return waker->fd;
}

void waker_raise(struct waker *waker)
{
    if (!flag_raise(&waker->pending))
        return;
    uint64_t one = 1;
    ssize_t wrote = write(waker->fd, &one, sizeof one);
    check(wrote == (ssize_t)sizeof one, "eventfd %d accepted %zd bytes", waker->fd, wrote);
}

// Reads before lowering the flag: otherwise the read could consume a write made in between while
// the flag stays up, and no thread would write again.
void waker_clear(struct waker *waker)
{
    uint64_t count;
    ssize_t got = read(waker->fd, &count, sizeof count);
    (void)got; // EAGAIN: an earlier call has read it
    flag_lower(&waker->pending);
}

bool waker_wait(struct waker *waker, int ms)
{
    if (poll(&(struct pollfd){.fd = waker->fd, .events = POLLIN}, 1, ms) <= 0)
        return false;
    waker_clear(waker);
    return true;
}
