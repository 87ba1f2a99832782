// Wakers: raise from any thread, clear from the one that sleeps. See waker.h.
#include "scheduler/waker.h"

#include "base/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum status waker_init(struct waker *waker, struct error *err)
{
    waker->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    atomic_init(&waker->pending, 0);
    if (waker->fd < 0)
        return error_set(err, STATUS_IO,
                         "no eventfd can be made (%s): raise the limit of open "
                         "files (ulimit -n)",
                         strerror(errno));
    return STATUS_OK;
}

void waker_end(struct waker *waker)
{
    if (waker->fd >= 0)
        close(waker->fd);
    waker->fd = -1;
}

enum status waker_open(struct waker **out, struct error *err)
{
    struct waker *waker = heap_take_zeroed(1, sizeof *waker);
    enum status status = waker_init(waker, err);
    if (status != STATUS_OK) {
        heap_give(waker);
        return status;
    }
    *out = waker;
    return STATUS_OK;
}

void waker_close(struct waker *waker)
{
    if (!waker)
        return;
    waker_end(waker);
    heap_give(waker);
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
    check(wrote == (ssize_t)sizeof one, "eventfd %d took %zd bytes", waker->fd, wrote);
}

// The read comes first: were the flag lowered first, a write made in between would be eaten by the
// read while the flag stays up, and nobody would write again.
void waker_clear(struct waker *waker)
{
    uint64_t count;
    ssize_t got = read(waker->fd, &count, sizeof count);
    (void)got; // EAGAIN: another call has read it
    flag_lower(&waker->pending);
}
