// SPDX-License-Identifier: Apache-2.0
// Names of statuses and functions that make error sentences; see status.h.
#include "base/status.h"

#include "base/utf8.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
#define STATUS_NAME(name, text) #name,
    STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
};

const char *status_name(enum status status)
{
    return (unsigned)status < STATUS_COUNT ? names[status] : "UNKNOWN";
}

enum status error_set(struct error *err, enum status status, const char *format, ...)
{
    if (!err)
        return status;
    err->status = status;
    va_list args;
    va_start(args, format);
    int written = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (written >= (int)sizeof err->text)
        err->text[utf8_complete(err->text, sizeof err->text - 1)] = '\0';
    return status;
}

enum status error_thread(struct error *err, int reason, const char *format, ...)
{
    char thread[64];
    va_list args;
    va_start(args, format);
    vsnprintf(thread, sizeof thread, format, args);
    va_end(args);
    return error_set(err, STATUS_NO_MEMORY,
                     "%s cannot be started: %s; a limit of memory or of threads is too low "
                     "(ulimit -v, ulimit -u, a container's pids)",
                     thread, strerror(reason));
}

enum status error_prefix(struct error *err, const char *format, ...)
{
    if (!err)
        return STATUS_INVALID;
    char old[ERROR_TEXT_MAX];
    memcpy(old, err->text, sizeof old);
    va_list args;
    va_start(args, format);
    int written = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (written < 0)
        written = 0;
    size_t at = (size_t)written < sizeof err->text ? (size_t)written : sizeof err->text - 1;
    if ((size_t)snprintf(err->text + at, sizeof err->text - at, ": %s", old) >=
        sizeof err->text - at)
        err->text[utf8_complete(err->text, sizeof err->text - 1)] = '\0';
    return err->status;
}

static void (*check_flush)(void);

void check_flush_set(void (*flush)(void))
{
    check_flush = flush;
}

_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format,
                            ...)
{
    enum { STDERR_WAIT_MS = 500 };
    char text[LINE_BYTES_MAX], values[LINE_BYTES_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(values, sizeof values, format, args);
    va_end(args);
    snprintf(text, sizeof text, "weft: %s:%d: check failed: %s: %s\n", file, line, condition,
             values);
    if (check_flush)
        check_flush();
    // If the reader of stderr stalls, the process must still end.
    if (poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, STDERR_WAIT_MS) > 0) {
        ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
        (void)ignored;
    }
    abort();
}
