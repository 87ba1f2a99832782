// SPDX-License-Identifier: Apache-2.0
// See wait_queue.h. wait_push searches from the end, so that an item of the highest rank is
// queued in constant time.
#include "http/wait_queue.h"

#include "base/number.h"

#include <stddef.h>

void wait_insert(struct wait_queue *queue, struct wait_item *item, struct wait_item *before,
                 uint64_t rank)
{
    item->queue = queue;
    item->rank = rank;
    item->before = before;
    item->after = before ? before->after : queue->first;
    *(item->before ? &item->before->after : &queue->first) = item;
    *(item->after ? &item->after->before : &queue->last) = item;
    queue->count++;
}

void wait_push(struct wait_queue *queue, struct wait_item *item, uint64_t rank)
{
    struct wait_item *before = queue->last;
    while (before && before->rank > rank)
        before = before->before;
    wait_insert(queue, item, before, rank);
}

void wait_remove(struct wait_item *item)
{
    struct wait_queue *queue = item->queue;
    *(item->before ? &item->before->after : &queue->first) = item->after;
    *(item->after ? &item->after->before : &queue->last) = item->before;
    queue->count--;
    item->queue = NULL;
}

uint64_t wait_rounds_rank(const struct wait_rounds *rounds, const struct wait_queue *queue,
                          uint32_t key)
{
    uint64_t rank = larger(rounds->key_rank[key % WAIT_KEYS] + 1, rounds->rank);
    const struct wait_item *own = queue->last; // the key's last item has its highest rank
    while (own && own->key != key)
        own = own->before;
    return own && own->rank >= rank ? own->rank + 1 : rank;
}

void wait_rounds_begin(struct wait_rounds *rounds, const struct wait_item *item)
{
    rounds->rank = rounds->key_rank[item->key % WAIT_KEYS] = item->rank;
}
