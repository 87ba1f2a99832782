// A file mapped read-only. A page that cannot be read any more (the file was cut, its disk failed)
// raises SIGBUS in whichever thread reads it: inside a mapping that ends the process with one
// sentence and exit status 1, anywhere else it does what it did before.
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

// The mapping stays at its address until mapping_close. INVALID: no regular file, or fewer than
// bytes_least bytes.
enum status mapping_open(struct mapping *mapping, const char *path, size_t bytes_least,
                         struct error *err) MUST_USE;
void mapping_close(struct mapping *mapping); // also one that failed to open
