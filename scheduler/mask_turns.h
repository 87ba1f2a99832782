// In which order the rows of a step are asked for their masks. What masks may build is shared by
// the rows of a step, so who comes first has most of it: of the API keys that have rows in the step
// the one whose masks took least of it of late; of a key the first row of each request before the
// second ones, the request first whose last turn is longest ago; of a request the row that was
// postponed most often. Equal ones begin with another row in each step. Engine thread only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct launch;

struct mask_key { // an API key whose rows had masks
    uint32_t key_id;
    uint64_t step;               // the last one with a row of it; 0: the entry is free
    uint64_t spent;              // what its masks took of what rows share, on the clock of `now`
    uint64_t began;              // what it was before the step
    bool waits;                  // a row of it was postponed in that step
    uint32_t first, last, count; // its rows in that step, in the order of the batch
};

struct mask_turns {
    struct mask_key *keys;  // [rows_max]
    struct mask_key **turn; // [rows_max] those with rows in the step, who spent least first
    uint32_t *next;         // [rows_max] by row of the batch: the next one of its key
    uint32_t *rows;         // [rows_max] of the batch, in the order in which they are asked for
    uint32_t *spare;        // [rows_max] room to sort them
    uint32_t key_count, turn_count, row_count;
    uint64_t step;   // whose order it is
    uint64_t before; // the one before it that had masks
    uint64_t now;    // the most that a key that took something had spent before
};

// Sets `rows` to the rows of the launch that have a mask.
void mask_turns_make(struct engine *engine, struct launch *launch);
// What a mask of a key, an index into `keys`, took of what rows share, and whether it could not be
// made.
void mask_turns_spend(struct engine *engine, uint32_t key, uint64_t work, bool postponed);
