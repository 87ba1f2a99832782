// A file mapped read-only. Reading a page that is gone (the file was truncated, its disk failed)
// raises SIGBUS: inside a mapping the process then ends with one sentence and exit status 1;
// elsewhere the handler before ours runs.
#pragma once

#include "base/status.h"

#include <stddef.h>

struct mapping {
    int fd; // -1: closed
    char *at;
    size_t bytes;
    char *path;
    struct mapping *next;
};

// The mapping stays at its address until mapping_close. INVALID: not a regular file, or fewer than
// bytes_least bytes.
enum status mapping_open(struct mapping *mapping, const char *path, size_t bytes_least,
                         struct error *err) MUST_USE;
void mapping_close(struct mapping *mapping); // also after mapping_open failed
