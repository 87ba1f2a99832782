// SPDX-License-Identifier: Apache-2.0
// Bump allocation: all pieces of an arena have one lifetime. The owner resets or destroys the
// arena; single pieces are not freed. An arena is used by one thread at a time. Apart from
// libraries and devices, host code calls malloc only here.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

enum { ARENA_ALIGNMENT = 16 };

// Creates an arena. block_bytes: size of the blocks allocated from the system (0: 64 KiB);
// bytes_max: limit of their sum (0: none). Ends the process if the system has no memory.
struct arena *arena_create(size_t block_bytes, size_t bytes_max);
void arena_destroy(struct arena *arena); // NULL is allowed

// Frees all blocks except the first; all pieces become invalid.
void arena_reset(struct arena *arena);

// Allocate uninitialised or zeroed memory, aligned to 16 bytes; NULL only if bytes_max would be
// exceeded.
void *arena_alloc(struct arena *arena, size_t bytes);
void *arena_alloc_zeroed(struct arena *arena, size_t count, size_t bytes_each);

// Enlarges a piece from `bytes` to bytes_wanted: in place if it is the newest and fits its block,
// else allocates a new piece and copies it. NULL: bytes_max would be exceeded.
void *arena_grow(struct arena *arena, void *piece, size_t bytes, size_t bytes_wanted);
// Returns an array of `count` items with space for at least one more; a full array is doubled.
// NULL: bytes_max would be exceeded.
void *arena_extend(struct arena *arena, void *items, size_t count, size_t *allocated, size_t each);

// Copy or format a text into the arena, with a NUL after it (not counted in bytes); at == NULL:
// bytes_max would be exceeded.
struct text arena_copy(struct arena *arena, struct text text);
struct text arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));

// A text that grows; zeroed by the caller first.
struct arena_text {
    char *at;
    size_t bytes, max;
};
bool arena_text_add(struct arena *arena, struct arena_text *t,
                    struct text more); // appends; false: bytes_max would be exceeded

size_t arena_bytes(const struct arena *arena); // bytes allocated from the system now

// For long-lived tables that their owner frees: malloc, calloc, realloc and free, but if the system
// has no memory they end the process with an error line.
void *heap_alloc(size_t bytes);
void *heap_alloc_zeroed(size_t count, size_t bytes_each);
void *heap_grow(void *piece, size_t bytes);
void heap_free(void *piece); // NULL is allowed
