// SPDX-License-Identifier: Apache-2.0
// Large tables that are initially zero and use memory only for the pages that are touched.
#pragma once

#include <stddef.h>

// Memory of all tables of one owner, handed out in order.
struct pages {
    char *at;
    size_t used, bytes;
};

// Maps `bytes` zero bytes; ends the process if the system has none.
void pages_init(struct pages *p, size_t bytes);
void pages_deinit(struct pages *p);
// Returns the next count * bytes_each bytes, aligned to 64 bytes; too few left is a failed check().
void *pages_alloc(struct pages *p, size_t count, size_t bytes_each);
// Returns the memory of the items [now, before) of a table to the system: a table that had `before`
// items has `now` items left. The items read as zero afterwards, except on pages that also contain
// other items, which are not returned.
void pages_drop(void *table, size_t bytes_each, size_t now, size_t before);
