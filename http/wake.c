// See wake.h. Order: the sleeper reads the fd, then lowers the flag, then looks
// at the queues; a waker fills the queue, then raises the flag. Both touch the flag by exchange, so
// either the sleeper sees what was put down, or the waker sees the flag low and writes.
#include "http/wake.h"

#include "base/arena.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct wake {
    int fd;
    _Atomic int pending;
};

enum status wake_open(struct wake **out, struct error *err)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return error_set(err, STATUS_IO, "eventfd: %s", strerror(errno));
    struct wake *wake = heap_take_zeroed(1, sizeof *wake);
    wake->fd = fd;
    *out = wake;
    return STATUS_OK;
}

void wake_close(struct wake *wake)
{
    if (!wake)
        return;
    close(wake->fd);
    heap_give(wake);
}

int wake_fd(const struct wake *wake)
{
    return wake->fd;
}

void wake_send(struct wake *wake)
{
    // acq_rel: what was put down before must be visible to the sleeper that lowers the flag
    if (atomic_exchange_explicit(&wake->pending, 1, memory_order_acq_rel) != 0)
        return;
    uint64_t one = 1;
    while (write(wake->fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

void wake_clear(struct wake *wake)
{
    uint64_t count;
    while (read(wake->fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
    // acq_rel: pairs with wake_send; a plain store could be lowered after a wake was swallowed
    atomic_exchange_explicit(&wake->pending, 0, memory_order_acq_rel);
}

void wake_wait(struct wake *wake)
{
    struct pollfd wanted = {.fd = wake->fd, .events = POLLIN};
    while (poll(&wanted, 1, -1) < 0 && errno == EINTR)
        continue;
    wake_clear(wake);
}
