// SPDX-License-Identifier: Apache-2.0
// Progress of a download on stderr: on a terminal one line that is rewritten every 0.2 s, else a
// new line every ten seconds; nothing if the log level is below warning. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hub_progress {
    const char *verb, *what;     // "fetching" or "checking"; name of the model
    uint64_t bytes_all, bytes;   // sum of the sizes of the files; number of bytes in the cache
    uint64_t bytes_first;        // number of bytes in the cache at the start
    uint64_t begun_ns, shown_ns; // clock_ns at the start and at the last line
    bool terminal;               // true if stderr is a terminal
    bool open;                   // true if the terminal shows the line
};

// Sets the fields to a start now, with the caller's texts; the caller then sets the bytes.
void hub_progress_begin(struct hub_progress *p, const char *verb, const char *what);
// Writes the line if it is due.
void hub_progress_show(struct hub_progress *p);
void hub_progress_end(struct hub_progress *p); // clears the line
