// SPDX-License-Identifier: Apache-2.0
// The order in which the masks of a step's rows are requested. The rows of a step share a limit on
// the work of building masks (mask_limits), so earlier rows get most of it. The order is:
// - API keys: the key whose masks used the least shared work recently is first.
// - Within a key, requests are served round-robin: the first row of each request precedes
//   the second rows, and the request that was served longest ago is first.
// - Within a request, the row that was postponed most often is first.
// Among equal rows, a different one is first in each round. Engine thread only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct launch;

struct mask_key { // an API key that has or had rows with masks
    uint32_t key_id;
    uint64_t round; // last round of masks with a row of this key; 0: unused entry
    uint64_t spent; // shared work of its masks; raised to the virtual time when it joins a round
    uint64_t began; // value of `spent` before the round
    bool waits;     // true if a row of the key was postponed in that round
    uint32_t first, last, count; // its rows in that round, a list in batch order
};

struct mask_order {
    struct mask_key *keys;        // [rows_max]
    struct mask_key **round_keys; // [rows_max] keys with rows in the round, least `spent` first
    uint32_t *next;               // [rows_max] by row of the launch: the next row of the same key
    uint32_t *rows;  // [rows_max] rows of the launch, in the order of their mask requests
    uint32_t *spare; // [rows_max] scratch space for sorting
    uint32_t key_count, round_key_count, row_count;
    uint64_t round;          // round of masks that the order is for
    uint64_t previous_round; // round before it
    uint64_t virtual_time;   // largest `began` of a key that used shared work
};

// Sets `rows` to the rows of the launch that have a mask, including the waiting ones, in order.
void mask_order_make(struct engine *engine, struct launch *launch);
// Charges a key for one mask. key: index into `keys`; work: shared work that the mask used;
// postponed: true if the mask could not be made in this round.
void mask_order_charge(struct engine *engine, uint32_t key, uint64_t work, bool postponed);
