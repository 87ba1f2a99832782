// SPDX-License-Identifier: Apache-2.0
// See mask_order.h. The order of keys is start-time fair queueing: each key is charged for the
// shared work that its masks used, and the key charged least is first. A key without a postponed
// row in the previous round is charged at least the current virtual time, so no key saves up
// credit, keys that need little are served first, and the others get equal shares. Work within a
// row's unshared allowance is not charged, because keys that are not served get it too.
#include "scheduler/internal.h"

#include "base/number.h"

#include <string.h>

static struct mask_key *key_find(struct mask_order *o, const struct request *r)
{
    struct mask_key *key = &o->keys[r->run.mask_key]; // index at its last row
    if (key->round != 0 && key->key_id == r->args.key_id)
        return key;
    for (uint32_t i = 0; i < o->key_count; i++)
        if (o->keys[i].key_id == r->args.key_id)
            return &o->keys[i];
    return NULL;
}

// Returns an entry for a new key. There are as many entries as rows in a round, so at least one
// entry has no row in this round; the one unused for the longest time is reused.
static struct mask_key *key_alloc(struct mask_order *o, uint32_t most)
{
    if (o->key_count < most)
        return &o->keys[o->key_count++];
    struct mask_key *oldest = &o->keys[0];
    for (uint32_t i = 1; i < o->key_count; i++)
        if (o->keys[i].round < oldest->round)
            oldest = &o->keys[i];
    return oldest;
}

// Adds a key to the order when its first row of the round is found.
static void key_begin(struct mask_order *o, struct mask_key *key)
{
    if (!key->waits ||
        key->round != o->previous_round) // it had no postponed row in the previous round
        key->spent = larger(key->spent, o->virtual_time);
    key->round = o->round;
    key->began = key->spent;
    key->waits = false;
    key->count = 0;
    uint32_t at = o->round_key_count++;
    for (; at > 0 && o->round_keys[at - 1]->spent > key->spent; at--)
        o->round_keys[at] = o->round_keys[at - 1];
    o->round_keys[at] = key;
}

// Appends a row to the rows of its key, which is created if needed.
static void row_put(struct engine *engine, struct launch *launch, uint32_t row)
{
    struct mask_order *o = &engine->mask_order;
    struct request *r = engine->sequences[launch->rows[row].sequence].request;
    struct mask_key *key = key_find(o, r);
    if (!key) {
        key = key_alloc(o, engine->facts.limits.rows_max);
        *key = (struct mask_key){.key_id = r->args.key_id};
    }
    r->run.mask_key = (uint32_t)(key - o->keys);
    if (r->run.mask_waited !=
        o->previous_round) // a request that did not wait counts as just served
        r->run.mask_served = o->previous_round;
    launch->rows[row].key = r->run.mask_key;
    if (key->round != o->round)
        key_begin(o, key);
    if (key->count++ == 0)
        key->first = row;
    else
        o->next[key->last] = row;
    key->last = row;
}

static const struct sequence *sequence_of(const struct engine *engine, const struct launch *launch,
                                          uint32_t row)
{
    return &engine->sequences[launch->rows[row].sequence];
}

// Order of two rows of a key: by rank within their requests, then the request served longest ago
// first.
static bool rank_before(const struct engine *engine, const struct launch *launch, uint32_t x,
                        uint32_t y)
{
    uint32_t p = launch->rows[x].rank, q = launch->rows[y].rank;
    if (p != q)
        return p < q;
    return sequence_of(engine, launch, x)->request->run.mask_served <
           sequence_of(engine, launch, y)->request->run.mask_served;
}

static bool postponed_before(const struct engine *engine, const struct launch *launch, uint32_t x,
                             uint32_t y)
{
    return sequence_of(engine, launch, x)->postponed > sequence_of(engine, launch, y)->postponed;
}

typedef bool row_before(const struct engine *engine, const struct launch *launch, uint32_t x,
                        uint32_t y);

// Merges two sorted runs, rows[0 .. middle - 1] and rows[middle .. count - 1]. Stable.
static void rows_merge(const struct engine *engine, const struct launch *launch, uint32_t *rows,
                       uint32_t middle, uint32_t count, row_before *before)
{
    uint32_t *left = engine->mask_order.spare, l = 0, r = middle;
    memcpy(left, rows, middle * sizeof *left);
    for (uint32_t at = 0; l < middle; at++) {
        bool right = r < count && before(engine, launch, rows[r], left[l]);
        rows[at] = right ? rows[r++] : left[l++];
    }
}

// Sorts rows by merge sort. Stable.
static void rows_sort(const struct engine *engine, const struct launch *launch, uint32_t *rows,
                      uint32_t count, row_before *before)
{
    for (uint32_t half = 1; half < count; half *= 2)
        for (uint32_t from = 0; from + half < count; from += 2 * half) {
            uint32_t left = count - from;
            rows_merge(engine, launch, rows + from, half, left < 2 * half ? left : 2 * half,
                       before);
        }
}

// Orders the rows of one key: requests are served round-robin; within a request the row postponed
// most often is first. Among equal rows, a different one is first in each round.
static void key_rows(struct engine *engine, struct launch *launch, const struct mask_key *key)
{
    struct mask_order *o = &engine->mask_order;
    uint32_t *next = o->next, *rows = o->rows + o->row_count, row = key->first;
    next[key->last] = key->first; // circular list
    for (uint32_t i = (uint32_t)(launch->mask_round % key->count); i > 0; i--)
        row = next[row];
    for (uint32_t i = 0; i < key->count; i++, row = next[row]) {
        rows[i] = row;
        sequence_of(engine, launch, row)->request->run.mask_rows = 0;
    }
    rows_sort(engine, launch, rows, key->count, postponed_before);
    for (uint32_t i = 0; i < key->count; i++)
        launch->rows[rows[i]].rank = sequence_of(engine, launch, rows[i])->request->run.mask_rows++;
    rows_sort(engine, launch, rows, key->count, rank_before);
    o->row_count += key->count;
}

void mask_order_make(struct engine *engine, struct launch *launch)
{
    struct mask_order *o = &engine->mask_order;
    o->previous_round = o->round;
    o->round = launch->mask_round;
    o->round_key_count = o->row_count = 0;
    for (uint32_t i = 0; i < launch->row_count + launch->waiting_count; i++)
        if (launch->rows[i].mask != BATCH_NO_MASK && sequence_of(engine, launch, i)->request)
            row_put(engine, launch, i);
    for (uint32_t i = 0; i < o->round_key_count; i++)
        key_rows(engine, launch, o->round_keys[i]);
}

void mask_order_charge(struct engine *engine, uint32_t key, uint64_t work, bool postponed)
{
    struct mask_order *o = &engine->mask_order;
    o->keys[key].spent += work;
    o->keys[key].waits = o->keys[key].waits || postponed;
    if (work > 0)
        o->virtual_time = larger(o->virtual_time, o->keys[key].began);
}
