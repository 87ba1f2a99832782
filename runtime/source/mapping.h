// SPDX-License-Identifier: Apache-2.0
// A file mapped read-only. Reading a page that no longer exists (the file was truncated, its disk
// failed) raises SIGBUS. Inside a mapping the process then ends with an error message and exit
// status 1; elsewhere the previously installed handler runs.
#pragma once

#include "base/status.h"

#include <stddef.h>

struct mapping {
    int fd; // -1: closed
    char *at;
    size_t bytes;
    char *path;           // copy of the path, for the message
    struct mapping *next; // next open mapping
};

// Maps a file. The struct must stay at its address until mapping_close, because it is in a list.
// INVALID: not a regular file, or shorter than bytes_least. NOT_FOUND: no such file. IO: the file
// cannot be opened or mapped.
enum status mapping_open(struct mapping *mapping, const char *path, size_t bytes_least,
                         struct error *err) MUST_USE;
// Removes the pages of bytes [at, at + bytes) of a mapped file from the process's resident memory.
// They stay in the page cache, and reading them again maps them again.
void mapping_drop(const void *at, size_t bytes);
// Unmaps and closes the file; required also after mapping_open failed.
void mapping_close(struct mapping *mapping);
