// SPDX-License-Identifier: Apache-2.0
// Requests with sequences left to schedule. To schedule a sequence means to remove it from the
// queue and assign a slot to it. API keys are served round-robin, and so are the requests of a key:
// with k keys that have requests, each gets one of k slots. Sequences that overtake a longer prompt
// ("ahead") have a separate rotation of keys (decision 0011). Engine thread only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct request;

struct queue_key { // an API key that has waiting requests
    uint32_t key_id;
    // Its requests in round-robin order: [0] without penalties, [1] with penalties. The lists are
    // separate because all requests with penalties may have to wait for a penalty row.
    struct request *first[2], *last[2];
    struct queue_key *next, *previous;             // list of keys in round-robin order
    struct queue_key *ahead_next, *ahead_previous; // list of keys for scheduling ahead
    struct queue_key *chain; // next key of the hash bucket, or next free entry
};

struct queue {
    struct queue_key *keys;    // [count]
    struct queue_key **bucket; // [mask + 1] hash table by key_id
    struct queue_key *free;    // list of unused entries
    struct queue_key *first, *last;
    struct queue_key *ahead_first, *ahead_last;
    uint64_t tickets;   // last ticket given to a waiting request
    uint32_t penalised; // number of requests that need a penalty row
    uint32_t count, mask;
};

// Makes the queue empty. The caller has set the arrays, count and mask.
void queue_reset(struct queue *queue);

// Appends a request to its key.
void queue_put(struct engine *engine, struct request *request);
// Removes a request, if it is in the queue.
void queue_drop(struct engine *engine, struct request *request);
// Updates the order after a sequence was scheduled: moves the key and the request to the end of
// their lists, or removes them if no sequence is left. ahead: moves the key in the list for
// scheduling ahead instead.
void queue_rotate(struct engine *engine, struct request *request, bool ahead);
// Returns the next request that can get a slot and whose next prompt has at most `most` tokens, or
// NULL. *ahead: true if the request that is next in order is longer, so that another one overtakes
// it; the longer one and its key keep their position. Only the first few requests of each key are
// examined.
struct request *queue_next(struct engine *engine, uint32_t most, bool *ahead);
