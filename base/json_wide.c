// SPDX-License-Identifier: Apache-2.0
// Integers beyond int64; see json_wide.h. jansson has no place for their digits, so they lie in the
// block that jansson allocates for the real, after it. Such a block begins at an address that is
// not a multiple of the alignment of malloc, and no other block does. Decision 0056. Any thread.
#include "base/json_wide.h"

#include "base/json.h"
#include "base/utf8.h"

#include <float.h>
#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Precedes a block with digits; its size makes the block's address recognizable.
struct wide_head {
    uint32_t digits_at, digits_bytes; // offset from the start of the block; length
};

_Static_assert(alignof(max_align_t) == 2 * sizeof(struct wide_head) &&
                   alignof(json_t) <= sizeof(struct wide_head),
               "a block after a head is aligned for json_t, but not as malloc aligns");

enum { MARK_BYTES = 8, CHARACTER_BYTES = 3 }; // "\uXXXX"; a character of the mark in UTF-8

static json_malloc_t plain_alloc; // jansson's own functions
static json_free_t plain_free;
// The digits for the next block that this thread allocates; at == NULL: none.
static _Thread_local struct text pending;

static bool is_wide_block(const void *block)
{
    return (uintptr_t)block % alignof(max_align_t) != 0;
}

static void *block_alloc(size_t bytes)
{
    if (!pending.at)
        return plain_alloc(bytes);
    struct wide_head *head = plain_alloc(sizeof *head + bytes + pending.bytes);
    if (!head)
        return NULL;
    *head = (struct wide_head){(uint32_t)bytes, (uint32_t)pending.bytes};
    memcpy((char *)(head + 1) + bytes, pending.at, pending.bytes);
    pending.at = NULL;
    return head + 1;
}

static void block_free(void *block)
{
    if (is_wide_block(block))
        block = (struct wide_head *)block - 1;
    plain_free(block);
}

// Runs before main, when there is only one thread.
__attribute__((constructor)) static void blocks_install(void)
{
    json_get_alloc_funcs(&plain_alloc, &plain_free);
    json_set_alloc_funcs(block_alloc, block_free);
}

// Returns a real with the nearest value (at most DBL_MAX in size) that carries a copy of the
// digits. digits: a JSON integer of at most JSON_DIGITS_MAX digits and an optional minus.
static json_t *wide_create(struct text digits)
{
    char text[JSON_DIGITS_MAX + 2];
    check(digits.bytes > 0 && digits.bytes < sizeof text, "an integer of %zu digits", digits.bytes);
    memcpy(text, digits.at, digits.bytes);
    text[digits.bytes] = '\0';
    double value = strtod(text, NULL);
    pending = digits;
    json_t *made = json_real(isfinite(value) ? value : copysign(DBL_MAX, value));
    check(made && !pending.at, "no memory for an integer");
    return made;
}

struct text json_integer_digits(const json_t *value)
{
    if (!json_is_real(value) || !is_wide_block(value))
        return (struct text){NULL, 0};
    const struct wide_head *head = (const struct wide_head *)value - 1;
    return text_span((const char *)value + head->digits_at, head->digits_bytes);
}

void json_wide_put_mark(char *at, size_t bytes, uint32_t stand_in, size_t offset)
{
    char mark[32];
    int width = (int)bytes - MARK_BYTES;
    snprintf(mark, sizeof mark, "\"\\u%04X", stand_in);
    memcpy(at, mark, MARK_BYTES - 1);
    for (int i = width; i > 0; i--, offset /= 10)
        at[MARK_BYTES - 2 + i] = (char)('0' + offset % 10);
    at[bytes - 1] = '"';
}

// Returns the integer of a mark; NULL: the value is no mark.
static json_t *mark_read(const json_t *value, const char stand_in[CHARACTER_BYTES],
                         struct text from)
{
    const char *at = json_string_value(value);
    if (!at || json_string_length(value) <= CHARACTER_BYTES ||
        memcmp(at, stand_in, CHARACTER_BYTES) != 0)
        return NULL;
    size_t offset = strtoull(at + CHARACTER_BYTES, NULL, 10), end = offset;
    while (end < from.bytes &&
           (from.at[end] == '-' || (from.at[end] >= '0' && from.at[end] <= '9')))
        end++;
    return wide_create(text_span(from.at + offset, end - offset));
}

// Recursive; the depth is at most the parser's JSON_DEPTH_MAX.
static void marks_restore(json_t *value, const char stand_in[CHARACTER_BYTES], struct text from)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *item = json_array_get(value, i), *made = mark_read(item, stand_in, from);
        if (made)
            json_array_set_new(value, i, made);
        else
            marks_restore(item, stand_in, from);
    }
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
        json_t *item = json_object_iter_value(at), *made = mark_read(item, stand_in, from);
        if (made)
            json_object_iter_set_new(value, at, made);
        else
            marks_restore(item, stand_in, from);
    }
}

void json_wide_restore(json_t **value, uint32_t stand_in, struct text from)
{
    char bytes[4];
    utf8_write(stand_in, bytes);
    json_t *made = mark_read(*value, bytes, from);
    if (!made) {
        marks_restore(*value, bytes, from);
        return;
    }
    json_decref(*value);
    *value = made;
}
