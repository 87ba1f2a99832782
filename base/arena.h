// Bump allocation with one lifetime. The owner resets or destroys it; nothing is freed singly.
// Apart from libraries and devices, host code calls malloc only here.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

enum { ARENA_ALIGNMENT = 16 };

// block_bytes: size of the pieces taken from the system (0: 64 KiB); bytes_max: after that many
// bytes arena_take returns NULL (0: no limit). Ends the process when the system has no memory.
struct arena *arena_create(size_t block_bytes, size_t bytes_max);
void arena_destroy(struct arena *arena); // NULL is allowed

// Gives everything back but the first block.
void arena_reset(struct arena *arena);

// Uninitialised memory, aligned to 16 bytes; NULL only when bytes_max would be exceeded.
void *arena_take(struct arena *arena, size_t bytes);
void *arena_take_zeroed(struct arena *arena, size_t count, size_t bytes_each);

// Grows the newest piece in place if it can, else takes a new one and copies.
void *arena_grow(struct arena *arena, void *piece, size_t bytes, size_t bytes_wanted);
// An array of `count` items with space for one more: doubled where it is full. NULL: no memory.
void *arena_extend(struct arena *arena, void *items, size_t count, size_t *allocated, size_t each);

// A copy with a NUL after it (not counted in bytes); at == NULL when the limit was met.
struct text arena_copy(struct arena *arena, struct text text);
struct text arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));

// A text that grows; all zero at first.
struct arena_text {
    char *at;
    size_t bytes, max;
};
bool arena_text_add(struct arena *arena, struct arena_text *t,
                    struct text more); // false: no memory

size_t arena_bytes(const struct arena *arena); // taken from the system so far

// For long-lived tables whose owner frees them: like malloc, calloc and realloc, but memory that
// cannot be allocated ends the process with one clear line.
void *heap_take(size_t bytes);
void *heap_take_zeroed(size_t count, size_t bytes_each);
void *heap_grow(void *piece, size_t bytes);
void heap_give(void *piece); // NULL is allowed
