// SPDX-License-Identifier: Apache-2.0
// Hash tables with open addressing for values of one size. See intern.h.
#include "runtime/grammar/intern.h"

#include "base/arena.h"

#include <string.h>

static uint32_t *slot_of(struct intern *t, const uint32_t *value)
{
    uint32_t mask = t->slot_count - 1;
    uint32_t i = (uint32_t)intern_hash(value, t->words) & mask;
    while (t->slots[i] != 0 && memcmp(t->at + (size_t)(t->slots[i] - 1) * t->words, value,
                                      t->words * sizeof *value) != 0)
        i = (i + 1) & mask;
    return &t->slots[i];
}

static void slots_fill(struct intern *t)
{
    memset(t->slots, 0, t->slot_count * sizeof *t->slots);
    for (uint32_t i = 0; i < t->count; i++)
        *slot_of(t, t->at + (size_t)i * t->words) = i + 1;
}

uint32_t intern_put(struct intern *t, const uint32_t *value)
{
    if (t->slot_count == 0)
        return INTERN_NONE;
    uint32_t *slot = slot_of(t, value);
    if (*slot != 0)
        return *slot - 1;
    if (t->count == t->capacity)
        return INTERN_NONE;
    memcpy(t->at + (size_t)t->count * t->words, value, t->words * sizeof *value);
    *slot = ++t->count;
    if (t->slot_count < t->slot_max && 2 * t->count > t->slot_count) {
        t->slot_count *= 2;
        slots_fill(t);
    }
    return t->count - 1;
}

void intern_grow(struct intern *t, uint32_t capacity)
{
    uint32_t slots = 16;
    while (slots < 2 * (uint64_t)capacity)
        slots *= 2;
    t->at = heap_grow(t->at, (size_t)capacity * t->words * sizeof *t->at);
    t->capacity = capacity;
    if (slots == t->slot_count)
        return;
    heap_free(t->slots);
    t->slots = heap_alloc(slots * sizeof *t->slots);
    t->slot_count = slots;
    slots_fill(t);
}

void intern_free(struct intern *t)
{
    heap_free(t->at);
    heap_free(t->slots);
    *t = (struct intern){.words = t->words};
}

size_t intern_bytes(const struct intern *t)
{
    return ((size_t)t->capacity * t->words + t->slot_count) * sizeof *t->at;
}
