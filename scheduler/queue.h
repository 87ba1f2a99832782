// Requests with sequences left to draw. Draws go round by key, then by request of that key: of k
// keys with such requests each gets one of k draws (decision 0011). Engine thread only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct request;

struct queue_key { // a key that has waiting requests
    uint32_t key_id;
    // Its requests in turn: without penalties, with penalties. Apart, because the latter may all
    // have to wait for a penalty row, and nobody should walk past them in every step.
    struct request *first[2], *last[2];
    struct queue_key *next, *previous; // keys in turn
    struct queue_key *chain;           // next of its bucket, or next free one
};

struct queue {
    struct queue_key *keys;    // [count]: never more than there are requests
    struct queue_key **bucket; // [mask + 1] by key_id
    struct queue_key *free;
    struct queue_key *first, *last;
    uint64_t turns;     // given so far
    uint32_t penalised; // requests that need a penalty row
    uint32_t count, mask;
};

void queue_reset(struct queue *queue); // empty; arrays, count and mask are set by the caller

void queue_put(struct engine *engine, struct request *request); // the last of its key
void queue_drop(struct engine *engine, struct request *request);
// One of its sequences was drawn: key and request go to the end, or leave.
void queue_turn(struct engine *engine, struct request *request);
// Whose turn it is of those that can be drawn with at most `most` tokens to compute, or NULL. One
// that has more keeps its turn; `ahead`: there was such a one. Looks at the first few of each key.
struct request *queue_next(struct engine *engine, uint32_t most, bool *ahead);
