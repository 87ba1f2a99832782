// Hash from token bytes to ids: open addressing, at most half full; see tokenizer/vocab.h.
#include "runtime/text/tokenizer/vocab.h"

struct key {
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
static struct key key_of(const char *at, size_t bytes)
{
    if (bytes >= 8)
        return (struct key){load_eight(at), load_eight(at + bytes - 8)};
    if (bytes >= 4)
        return (struct key){load_four(at), load_four(at + bytes - 4)};
    uint64_t low = 0;
    for (size_t i = 0; i < bytes; i++)
        low = low << 8 | (unsigned char)at[i];
    return (struct key){low, 0};
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(struct key key, const char *at, size_t bytes)
{
    uint64_t hash = mix(key.low ^ 0x9E3779B97F4A7C15u, key.high ^ (0xC2B2AE3D27D4EB4Fu + bytes));
    for (size_t i = 8; i + 8 < bytes; i += 8)
        hash = mix(hash ^ load_eight(at + i), 0x9E3779B97F4A7C15u);
    return hash;
}

bool word_table_init(struct word_table *table, struct arena *arena, size_t count)
{
    size_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    table->slots = arena_take_zeroed(arena, slots, sizeof *table->slots);
    table->mask = slots - 1;
    return table->slots != NULL;
}

static struct word_slot *slot_for(const struct word_table *table, const char *at, size_t bytes)
{
    struct key key = key_of(at, bytes);
    uint64_t i = hash_of(key, at, bytes) & table->mask;
    for (;; i = (i + 1) & table->mask) {
        struct word_slot *slot = &table->slots[i];
        if (!slot->at)
            return slot;
        if (slot->low == key.low && slot->high == key.high && slot->bytes == bytes &&
            (bytes <= 16 || memcmp(slot->at, at, bytes) == 0))
            return slot;
    }
}

void word_table_put(struct word_table *table, struct text key, uint32_t id)
{
    struct word_slot *slot = slot_for(table, key.at, key.bytes);
    struct key ends = key_of(key.at, key.bytes);
    *slot = (struct word_slot){ends.low, ends.high, key.at, id, (uint32_t)key.bytes};
}

struct word_slot *word_table_find(const struct word_table *table, const char *at, size_t bytes)
{
    struct word_slot *slot = slot_for(table, at, bytes);
    return slot->at ? slot : NULL;
}
