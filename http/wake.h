// An eventfd and a pending flag: any thread wakes one other thread; many wakes are one write.
#pragma once

#include "base/status.h"

struct wake;

enum status wake_open(struct wake **out, struct error *err) MUST_USE;
void wake_close(struct wake *wake);
int wake_fd(const struct wake *wake); // non-blocking
void wake_send(struct wake *wake);
void wake_clear(struct wake *wake); // then look at everything the waker may have put down
void wake_wait(struct wake *wake);  // blocks until woken, and clears
