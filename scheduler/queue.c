// SPDX-License-Identifier: Apache-2.0
// See queue.h: two lists of keys, and lists of the requests of each key. Engine thread only.
#include "scheduler/internal.h"

#include <string.h>

// Most requests skipped in one search: per key, in total.
enum { PASSED_EACH = 16, PASSED_MOST = 256 };

void queue_reset(struct queue *queue)
{
    memset(queue->bucket, 0, (queue->mask + 1) * sizeof(struct queue_key *));
    queue->free = queue->first = queue->last = NULL;
    queue->ahead_first = queue->ahead_last = NULL;
    for (uint32_t i = queue->count; i-- > 0;) {
        queue->keys[i].chain = queue->free;
        queue->free = &queue->keys[i];
    }
}

static void order_append(struct queue *queue, struct queue_key *key)
{
    LIST_APPEND(queue->first, queue->last, key, next, previous);
}

static void order_unlink(struct queue *queue, struct queue_key *key)
{
    LIST_REMOVE(queue->first, queue->last, key, next, previous);
}

static void ahead_append(struct queue *queue, struct queue_key *key)
{
    LIST_APPEND(queue->ahead_first, queue->ahead_last, key, ahead_next, ahead_previous);
}

static void ahead_unlink(struct queue *queue, struct queue_key *key)
{
    LIST_REMOVE(queue->ahead_first, queue->ahead_last, key, ahead_next, ahead_previous);
}

// Rotates the list of keys for scheduling ahead so that `key`, which is not the first, becomes the
// first.
static void ahead_begin(struct queue *queue, struct queue_key *key)
{
    queue->ahead_last->ahead_next = queue->ahead_first;
    queue->ahead_first->ahead_previous = queue->ahead_last;
    queue->ahead_first = key;
    queue->ahead_last = key->ahead_previous;
    queue->ahead_last->ahead_next = NULL;
    key->ahead_previous = NULL;
}

// Returns the entry of an API key. A new entry is appended to both lists.
static struct queue_key *key_open(struct queue *queue, uint32_t key_id)
{
    struct queue_key **head = &queue->bucket[key_id & queue->mask];
    for (struct queue_key *key = *head; key; key = key->chain)
        if (key->key_id == key_id)
            return key;
    struct queue_key *key = queue->free;
    check(key, "more than %u keys wait", queue->count);
    queue->free = key->chain;
    *key = (struct queue_key){.key_id = key_id, .chain = *head};
    *head = key;
    order_append(queue, key);
    ahead_append(queue, key);
    return key;
}

static void key_close(struct queue *queue, struct queue_key *key)
{
    struct queue_key **link = &queue->bucket[key->key_id & queue->mask];
    while (*link != key)
        link = &(*link)->chain;
    *link = key->chain;
    order_unlink(queue, key);
    ahead_unlink(queue, key);
    key->chain = queue->free;
    queue->free = key;
}

static void request_append(struct queue *queue, struct queue_key *key, struct request *r)
{
    bool penalised = sequence_penalised(r);
    queue->penalised += penalised;
    r->run.wait_key = key;
    r->run.wait_ticket = ++queue->tickets;
    LIST_APPEND(key->first[penalised], key->last[penalised], r, run.wait_next, run.wait_previous);
}

static void request_unlink(struct queue *queue, struct queue_key *key, struct request *r)
{
    bool penalised = sequence_penalised(r);
    queue->penalised -= penalised;
    LIST_REMOVE(key->first[penalised], key->last[penalised], r, run.wait_next, run.wait_previous);
    r->run.wait_key = NULL;
}

void queue_put(struct engine *engine, struct request *r)
{
    request_append(&engine->queue, key_open(&engine->queue, r->args.key_id), r);
}

void queue_drop(struct engine *engine, struct request *r)
{
    struct queue_key *key = r->run.wait_key;
    if (!key)
        return;
    request_unlink(&engine->queue, key, r);
    if (!key->first[0] && !key->first[1])
        key_close(&engine->queue, key);
}

void queue_rotate(struct engine *engine, struct request *r, bool ahead)
{
    struct queue_key *key = r->run.wait_key;
    if (ahead) {
        ahead_unlink(&engine->queue, key);
        ahead_append(&engine->queue, key);
    } else {
        order_unlink(&engine->queue, key);
        order_append(&engine->queue, key);
    }
    if (!sequence_waits(r)) {
        queue_drop(engine, r);
        return;
    }
    request_unlink(&engine->queue, key, r);
    request_append(&engine->queue, key, r);
}

// Returns the next request of the key that can get a slot and whose next prompt has at most `most`
// tokens. possible: whether a slot is possible without and with a penalty row.
static struct request *key_next(const struct queue_key *key, const bool possible[2], uint32_t most,
                                uint32_t *passed)
{
    struct request *plain = possible[0] ? key->first[0] : NULL;
    struct request *penalised = possible[1] ? key->first[1] : NULL;
    for (uint32_t i = 0; i < PASSED_EACH; i++) {
        bool second = !plain || (penalised && penalised->run.wait_ticket < plain->run.wait_ticket);
        struct request **r = second ? &penalised : &plain;
        if (!*r || sequence_next_known(*r) <= most)
            return *r;
        *r = (*r)->run.wait_next;
        (*passed)++;
    }
    return NULL;
}

// Returns the next request in round-robin order, whatever the length of its prompt.
static struct request *next_round_robin(const struct queue *queue, const bool possible[2])
{
    struct request *r = NULL;
    uint32_t passed = 0;
    for (const struct queue_key *key = queue->first; key && !r; key = key->next)
        r = key_next(key, possible, UINT32_MAX, &passed);
    return r;
}

// Returns the next request with at most `most` tokens. A search that ends at the limit is continued
// by the next call.
static struct request *next_ahead(struct queue *queue, const bool possible[2], uint32_t most)
{
    uint32_t passed = 0;
    struct queue_key *key = queue->ahead_first;
    for (; key && passed < PASSED_MOST; key = key->ahead_next) {
        struct request *r = key_next(key, possible, most, &passed);
        if (r)
            return r;
    }
    if (key)
        ahead_begin(queue, key);
    return NULL;
}

struct request *queue_next(struct engine *engine, uint32_t most, bool *ahead)
{
    struct queue *queue = &engine->queue;
    if (!queue->first)
        return NULL;
    bool possible[2] = {slot_possible(engine, false),
                        queue->penalised > 0 && slot_possible(engine, true)};
    if (!possible[0])
        return NULL;
    struct request *r = next_round_robin(queue, possible);
    *ahead = r && sequence_next_known(r) > most;
    return *ahead ? next_ahead(queue, possible, most) : r;
}
