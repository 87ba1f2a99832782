// SPDX-License-Identifier: Apache-2.0
// Bump allocation: all pieces of an arena have one lifetime. The owner resets or destroys the
// arena; single pieces are not freed. An arena is used by one thread at a time. If the system has
// no memory, every function of this file ends the process. Host code outside libraries and devices
// allocates only through this file.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

enum { ARENA_ALIGNMENT = 16 };

// Creates an arena. block_bytes: size of the blocks allocated from the system (0: 64 KiB); a larger
// piece gets a block of its own size. bytes_max: limit of the sum of all blocks (0: none).
struct arena *arena_create(size_t block_bytes, size_t bytes_max);
void arena_destroy(struct arena *arena); // NULL is allowed

// Frees all blocks except the oldest; all pieces become invalid.
void arena_reset(struct arena *arena);

// Allocate uninitialised or zeroed memory, aligned to 16 bytes; 0 bytes are allowed. Return NULL if
// bytes_max would be exceeded or the size is over SIZE_MAX / 2.
void *arena_alloc(struct arena *arena, size_t bytes);
void *arena_alloc_zeroed(struct arena *arena, size_t count, size_t bytes_each);

// Enlarges a piece (NULL: none yet) that was allocated with `bytes` to bytes_wanted and returns it:
// in place if it is the newest piece and fits its block, else a new piece with a copy. The added
// part is uninitialised. Never makes it smaller. Returns NULL, and leaves the piece valid, if
// bytes_max would be exceeded.
void *arena_grow(struct arena *arena, void *piece, size_t bytes, size_t bytes_wanted);
// Returns an array of `count` items with space for at least one more. If count == *allocated, it is
// moved to twice the space (8 items at first) and *allocated is updated. items: NULL with
// *allocated == 0 for an empty array. each: bytes per item. Returns NULL, and leaves `items` valid,
// if bytes_max would be exceeded.
void *arena_extend(struct arena *arena, void *items, size_t count, size_t *allocated, size_t each);

// Copy or format a text into the arena, with a NUL after it (not counted in bytes); at == NULL:
// bytes_max would be exceeded.
struct text arena_copy(struct arena *arena, struct text text);
struct text arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));

// A text that grows, without a NUL after it; zeroed by the caller first.
struct arena_text {
    char *at;          // memory of the arena; moves when the text grows
    size_t bytes, max; // length of the text; bytes allocated
};
bool arena_text_add(struct arena *arena, struct arena_text *t,
                    struct text more); // appends; false: bytes_max would be exceeded

size_t arena_bytes(const struct arena *arena); // sum of the blocks allocated from the system now

// For long-lived tables that their owner frees: malloc, calloc, realloc and free, but they never
// return NULL. Any thread.
void *heap_alloc(size_t bytes);
void *heap_alloc_zeroed(size_t count, size_t bytes_each);
void *heap_grow(void *piece, size_t bytes);
void heap_free(void *piece); // NULL is allowed
