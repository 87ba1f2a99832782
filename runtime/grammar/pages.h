// Large tables that are zero and cost memory only where they are touched.
#pragma once

#include <stddef.h>

// All tables of one owner, cut off in order.
struct pages {
    char *at;
    size_t used, bytes;
};

// Zero bytes from the system; ends the process when there are none.
void pages_open(struct pages *p, size_t bytes);
void pages_close(struct pages *p);
// The next piece, aligned to 64 bytes; a check() fails where too few are left.
void *pages_take(struct pages *p, size_t count, size_t bytes_each);
// Items now..before of a table are not needed: the system has their memory back, they read as zero
// (but for those on pages that are shared with others).
void pages_drop(void *table, size_t bytes_each, size_t now, size_t before);
