// SPDX-License-Identifier: Apache-2.0
// Shows how far a download is; see progress.h.
#include "cli/hub/progress.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/safe.h"

#include <stdio.h>
#include <unistd.h>

enum { COLUMNS = 79, NAME_BYTES = 36 };

void hub_progress_begin(struct hub_progress *p, const char *verb, const char *what)
{
    *p = (struct hub_progress){.verb = verb, .what = what, .terminal = isatty(STDERR_FILENO)};
    p->begun_ns = p->shown_ns = clock_ns();
}

// Writes the speed since the start and the time that the rest takes at this speed.
static void speed_write(const struct hub_progress *p, char *out, size_t size, uint64_t now)
{
    double seconds = (double)(now - p->begun_ns) * 1e-9;
    double speed = (double)(p->bytes - p->bytes_first) / seconds;
    out[0] = '\0';
    if (seconds < 0.5 || speed < 1)
        return;
    double left = (double)(p->bytes_all - p->bytes) / speed;
    unsigned minutes = left < 3600 * 99 ? (unsigned)(left / 60) : 99 * 60;
    snprintf(out, size, ", %.1f MB/s, %u:%02u left", speed * 1e-6, minutes, (unsigned)left % 60);
}

void hub_progress_show(struct hub_progress *p)
{
    uint64_t now = clock_ns();
    double since = (double)(now - p->shown_ns) * 1e-9;
    if (since < (p->terminal ? 0.2 : 10.0) || log_level_get() < LOG_WARNING || p->bytes_all == 0)
        return;
    char name[NAME_BYTES], line[256], speed[64];
    p->shown_ns = now;
    p->open = p->terminal;
    safe_put(name, sizeof name, text_of(p->what));
    speed_write(p, speed, sizeof speed, now);
    snprintf(line, sizeof line, "%s %s: %.0f %% of %.2f GB%s", p->verb, name,
             100.0 * (double)p->bytes / (double)p->bytes_all, (double)p->bytes_all * 1e-9, speed);
    if (p->terminal)
        log_text("\r%-*.*s", COLUMNS, COLUMNS, line);
    else
        log_text("%s\n", line);
}

void hub_progress_end(struct hub_progress *p)
{
    if (p->open)
        log_text("\r%*s\r", COLUMNS, "");
    p->open = false;
}
