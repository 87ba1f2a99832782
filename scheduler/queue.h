// Requests with sequences left to draw. Keys take turns, and so do the requests of a key: of k keys
// with requests each gets one of k draws. Draws ahead of a longer prompt are counted apart from
// those in turn (decision 0011). Engine thread only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct request;

struct queue_key { // a key that has waiting requests
    uint32_t key_id;
    // Its requests in turn: without penalties, with penalties. They are apart because those with
    // penalties may all wait for a penalty row.
    struct request *first[2], *last[2];
    struct queue_key *next, *previous;             // keys in turn
    struct queue_key *ahead_next, *ahead_previous; // keys in turn for draws ahead
    struct queue_key *chain;                       // next of its bucket, or next free one
};

struct queue {
    struct queue_key *keys;    // [count]
    struct queue_key **bucket; // [mask + 1] by key_id
    struct queue_key *free;
    struct queue_key *first, *last;
    struct queue_key *ahead_first, *ahead_last;
    uint64_t tickets;   // given so far
    uint32_t penalised; // requests that need a penalty row
    uint32_t count, mask;
};

void queue_reset(struct queue *queue); // empty; arrays, count and mask are set by the caller

void queue_put(struct engine *engine, struct request *request);
void queue_drop(struct engine *engine, struct request *request);
// After a draw: key and request go to the end of their turns, or leave. A draw ahead takes the
// key's turn at those.
void queue_rotate(struct engine *engine, struct request *request, bool ahead);
// The next request for which there can be a place and whose next prompt has at most `most` tokens,
// or NULL. If the one whose turn it is is longer, it and its key keep their turn, and *ahead is
// set. Only the first few of each key are looked at.
struct request *queue_next(struct engine *engine, uint32_t most, bool *ahead);
