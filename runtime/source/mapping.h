// SPDX-License-Identifier: Apache-2.0
// A file mapped read-only. Reading a page that no longer exists (the file was truncated, its disk
// failed) raises SIGBUS. Inside a mapping the rest of the file then reads as zeros, on all threads,
// and mapping_check returns an error: call it after reading, before the result is used. For other
// addresses the previously installed handler runs.
#pragma once

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct mapping {
    int fd; // -1: closed
    char *at;
    size_t bytes;
    char *path;              // copy of the path, for the message
    struct timespec changed; // when the file was last written before it was opened
    _Atomic size_t lost;     // 0: all pages could be read; else 1 + the first byte that could not
    struct mapping *_Atomic next; // next open mapping
};

// Maps a file. The struct must stay at its address until mapping_close, because it is in a list.
// INVALID: not a regular file, or shorter than bytes_least. NOT_FOUND: no such file. IO: the file
// cannot be opened or mapped.
enum status mapping_open(struct mapping *mapping, const char *path, size_t bytes_least,
                         struct error *err) MUST_USE;
// Returns true if a page of the mapping could not be read.
static inline bool mapping_is_cut(const struct mapping *mapping)
{
    return atomic_load_explicit(&mapping->lost, memory_order_relaxed) > 0;
}
// Returns IO if the file was truncated or changed since mapping_open, or a part of it could not be
// read; the error, with path and remedy, replaces that of `status`, which the file explains. Else
// returns `status`, also for a mapping that mapping_open did not open.
enum status mapping_check(const struct mapping *mapping, enum status status,
                          struct error *err) MUST_USE;
// Removes the pages of bytes [at, at + bytes) of a mapped file from the process's resident memory.
// They stay in the page cache, and reading them again maps them again.
void mapping_drop(const void *at, size_t bytes);
// Unmaps and closes the file; required also after mapping_open failed.
void mapping_close(struct mapping *mapping);
