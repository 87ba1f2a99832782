// SPDX-License-Identifier: Apache-2.0
// A priority queue of waiting items: the lowest rank comes first, equal ranks in order of arrival.
// Jobs wait in queues for a text worker, one queue for each class of jobs (offload.c), and workers
// wait in one at the gate (gate.c). The owner embeds struct wait_item and uses a queue from one
// thread or under a lock. Zeroed structs are an empty queue and an item that is in no queue.
#pragma once

#include <stdint.h>

struct wait_item {
    struct wait_queue *queue; // NULL: not queued
    struct wait_item *before, *after;
    uint64_t rank;
    uint32_t key; // API key of the item; only wait_rounds_rank and wait_rounds_begin read it
};

struct wait_queue {
    struct wait_item *first, *last;
    uint32_t count;
};

// Queues the item after all items of this or a lower rank.
void wait_push(struct wait_queue *queue, struct wait_item *item, uint64_t rank);
// Queues the item, with this rank, after `before`; NULL: as the first one.
void wait_insert(struct wait_queue *queue, struct wait_item *item, struct wait_item *before,
                 uint64_t rank);
void wait_remove(struct wait_item *item);

// Ranks that give each key one item per round, so that no key waits for all items of another.
enum { WAIT_KEYS = 64 }; // size of tables per key, indexed by key modulo this
struct wait_rounds {
    uint64_t rank;                // rank of the item processed last
    uint64_t key_rank[WAIT_KEYS]; // rank of each key's item that was processed last
};
// Returns the rank of a new item of this key.
uint64_t wait_rounds_rank(const struct wait_rounds *rounds, const struct wait_queue *queue,
                          uint32_t key);
// Records that the item is processed now.
void wait_rounds_begin(struct wait_rounds *rounds, const struct wait_item *item);
