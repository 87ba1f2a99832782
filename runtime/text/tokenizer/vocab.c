// SPDX-License-Identifier: Apache-2.0
// Hash table from token bytes to ids: open addressing, at most half full; see tokenizer/vocab.h.
#include "runtime/text/tokenizer/vocab.h"

struct word_key {
    uint64_t low, high;
};

static uint64_t load_eight(const char *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

static uint32_t load_four(const char *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

// Together with the length this determines keys of up to 16 bytes.
static struct word_key key_of(const char *at, size_t bytes)
{
    if (bytes >= 8)
        return (struct word_key){load_eight(at), load_eight(at + bytes - 8)};
    if (bytes >= 4)
        return (struct word_key){load_four(at), load_four(at + bytes - 4)};
    uint64_t low = 0;
    for (size_t i = 0; i < bytes; i++)
        low = low << 8 | (unsigned char)at[i];
    return (struct word_key){low, 0};
}

static uint64_t hash_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(struct word_key key, const char *at, size_t bytes)
{
    uint64_t hash =
        hash_mix(key.low ^ 0x9E3779B97F4A7C15u, key.high ^ (0xC2B2AE3D27D4EB4Fu + bytes));
    for (size_t i = 8; i + 8 < bytes; i += 8)
        hash = hash_mix(hash ^ load_eight(at + i), 0x9E3779B97F4A7C15u);
    return hash;
}

bool word_table_init(struct word_table *table, struct arena *arena, size_t count)
{
    size_t entries = 16;
    while (entries < count * 2)
        entries *= 2;
    table->entries = arena_alloc_zeroed(arena, entries, sizeof *table->entries);
    table->mask = entries - 1;
    return table->entries != NULL;
}

static struct word_entry *entry_for(const struct word_table *table, const char *at, size_t bytes)
{
    struct word_key key = key_of(at, bytes);
    uint64_t i = hash_of(key, at, bytes) & table->mask;
    for (;; i = (i + 1) & table->mask) {
        struct word_entry *entry = &table->entries[i];
        if (!entry->at)
            return entry;
        if (entry->low == key.low && entry->high == key.high && entry->bytes == bytes &&
            (bytes <= 16 || memcmp(entry->at, at, bytes) == 0))
            return entry;
    }
}

void word_table_put(struct word_table *table, struct text key, uint32_t id)
{
    struct word_entry *entry = entry_for(table, key.at, key.bytes);
    struct word_key ends = key_of(key.at, key.bytes);
    *entry = (struct word_entry){ends.low, ends.high, key.at, id, (uint32_t)key.bytes};
}

struct word_entry *word_table_find(const struct word_table *table, const char *at, size_t bytes)
{
    struct word_entry *entry = entry_for(table, at, bytes);
    return entry->at ? entry : NULL;
}
