// The log sink: the one mutable global besides the stop flag; see log.h.
#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 4096 };

static enum log_level level_max = LOG_INFO;

void log_level_set(enum log_level level)
{
    level_max = level;
}

enum log_level log_level_get(void)
{
    return level_max;
}

void log_line(enum log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (level > level_max)
        return;
    char line[LINE_BYTES_MAX];
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t at = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &parts);
    at += (size_t)snprintf(line + at, sizeof line - at, ".%03ldZ %s ", now.tv_nsec / 1000000,
                           names[level]);
    va_list args;
    va_start(args, format);
    int written = vsnprintf(line + at, sizeof line - at - 1, format, args);
    va_end(args);
    if (written > 0)
        at += (size_t)written < sizeof line - at - 1 ? (size_t)written : sizeof line - at - 2;
    line[at++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, at); // a log that cannot be written is dropped
    (void)ignored;
}
