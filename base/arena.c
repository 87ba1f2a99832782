// SPDX-License-Identifier: Apache-2.0
// Bump allocation; see arena.h. Blocks form a list, newest first; the first block survives a reset.
#include "base/arena.h"

#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *older;
    size_t bytes; // capacity of data
    size_t used;
    _Alignas(ARENA_ALIGNMENT) char data[];
};

struct arena {
    struct arena_block *newest;
    size_t block_bytes;
    size_t bytes_max;
    size_t bytes; // sum of all blocks
};

void *heap_alloc(size_t bytes)
{
    void *piece = malloc(bytes > 0 ? bytes : 1);
    check(piece, "the system has no %zu bytes of memory", bytes);
    return piece;
}

void *heap_alloc_zeroed(size_t count, size_t bytes_each)
{
    void *piece = calloc(count > 0 ? count : 1, bytes_each > 0 ? bytes_each : 1);
    check(piece, "the system has no %zu x %zu bytes of memory", count, bytes_each);
    return piece;
}

void *heap_grow(void *piece, size_t bytes)
{
    void *grown = realloc(piece, bytes > 0 ? bytes : 1);
    check(grown, "the system has no %zu bytes of memory", bytes);
    return grown;
}

void heap_free(void *piece)
{
    free(piece);
}

static struct arena_block *block_add(struct arena *arena, size_t bytes)
{
    if (arena->bytes_max > 0 && bytes > arena->bytes_max - arena->bytes)
        return NULL;
    struct arena_block *block = heap_alloc(sizeof *block + bytes);
    *block = (struct arena_block){.older = arena->newest, .bytes = bytes};
    arena->newest = block;
    arena->bytes += bytes;
    return block;
}

struct arena *arena_create(size_t block_bytes, size_t bytes_max)
{
    struct arena *arena = heap_alloc(sizeof *arena);
    *arena = (struct arena){.block_bytes = block_bytes > 0 ? block_bytes : 64 * 1024,
                            .bytes_max = bytes_max};
    return arena;
}

void arena_destroy(struct arena *arena)
{
    if (!arena)
        return;
    struct arena_block *block = arena->newest;
    while (block) {
        struct arena_block *older = block->older;
        free(block);
        block = older;
    }
    free(arena);
}

void arena_reset(struct arena *arena)
{
    struct arena_block *block = arena->newest;
    while (block && block->older) {
        struct arena_block *older = block->older;
        arena->bytes -= block->bytes;
        free(block);
        block = older;
    }
    arena->newest = block;
    if (block)
        block->used = 0;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t rounded = (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
    struct arena_block *block = arena->newest;
    if (!block || block->bytes - block->used < rounded) {
        size_t wanted = rounded > arena->block_bytes ? rounded : arena->block_bytes;
        block = block_add(arena, wanted);
        if (!block && wanted > rounded) // the rest below the limit may still suffice
            block = block_add(arena, rounded);
        if (!block)
            return NULL;
    }
    void *piece = block->data + block->used;
    block->used += rounded;
    return piece;
}

void *arena_alloc_zeroed(struct arena *arena, size_t count, size_t bytes_each)
{
    if (bytes_each != 0 && count > SIZE_MAX / 2 / bytes_each)
        return NULL;
    void *piece = arena_alloc(arena, count * bytes_each);
    if (piece)
        memset(piece, 0, count * bytes_each);
    return piece;
}

void *arena_grow(struct arena *arena, void *piece, size_t bytes, size_t bytes_wanted)
{
    if (!piece)
        return arena_alloc(arena, bytes_wanted);
    size_t rounded = (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
    if (bytes_wanted <= rounded)
        return piece;
    struct arena_block *block = arena->newest;
    size_t wanted = (bytes_wanted + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
    if (block && (char *)piece + rounded == block->data + block->used &&
        wanted - rounded <= block->bytes - block->used) {
        block->used += wanted - rounded;
        return piece;
    }
    void *grown = arena_alloc(arena, bytes_wanted);
    if (grown)
        memcpy(grown, piece, bytes);
    return grown;
}

void *arena_extend(struct arena *arena, void *items, size_t count, size_t *allocated, size_t each)
{
    if (count < *allocated)
        return items;
    size_t wanted = *allocated == 0 ? 8 : *allocated * 2;
    void *grown = arena_grow(arena, items, count * each, wanted * each);
    if (grown)
        *allocated = wanted;
    return grown;
}

bool arena_text_add(struct arena *arena, struct arena_text *t, struct text more)
{
    enum { TEXT_BYTES_MIN = 64 };
    if (more.bytes > t->max - t->bytes) {
        size_t wanted = 2 * t->max + more.bytes + TEXT_BYTES_MIN;
        char *grown = arena_grow(arena, t->at, t->max, wanted);
        if (!grown)
            return false;
        t->at = grown;
        t->max = wanted;
    }
    if (more.bytes > 0)
        memcpy(t->at + t->bytes, more.at, more.bytes);
    t->bytes += more.bytes;
    return true;
}

struct text arena_copy(struct arena *arena, struct text text)
{
    char *copy = arena_alloc(arena, text.bytes + 1);
    if (!copy)
        return (struct text){NULL, 0};
    if (text.bytes > 0)
        memcpy(copy, text.at, text.bytes);
    copy[text.bytes] = '\0';
    return (struct text){copy, text.bytes};
}

struct text arena_format(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *made = bytes >= 0 ? arena_alloc(arena, (size_t)bytes + 1) : NULL;
    if (made)
        vsnprintf(made, (size_t)bytes + 1, format, again);
    va_end(again);
    return (struct text){made, made ? (size_t)bytes : 0};
}

size_t arena_bytes(const struct arena *arena)
{
    return arena->bytes;
}
