// SPDX-License-Identifier: Apache-2.0
// Attention of the cpu device: what op_attn.c and the kernels of the ISA levels share. Pure
// functions.
#pragma once

#include "kernels/attn_tiles.h"
#include "kernels/ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ATTN_GROUP = 4,     // most tiles of ATTN_TILE_ROWS queries computed in one pass over the keys
    ATTN_PARTIALS = 64, // part states per thread, for parts that are separate items
};

// Attention of up to ATTN_GROUP query tiles of one row for one KV head; of one tile if its parts
// are separate items.
struct attn_job {
    const struct attn_args *args;
    const struct step_row *row;
    const uint32_t *blocks; // block table of the row, in TABLE_UNIT_BYTES
    uint32_t kv_head;
    uint32_t first, end; // packed queries: token of the row * group + head of the group
    uint32_t key_first;  // first key to walk, a multiple of ATTN_TILE_KEYS
    uint32_t key_end;    // end of the keys to walk: all that a query sees, or one part of them
    // NULL: the parts are merged and written to args->out. Else `attn` computes one part and stores
    // its state here (64-byte aligned); for attn_merge, the states of all parts, in order.
    float *state;
    uint32_t parts; // attn_merge: number of states
    float *scratch; // attn_scratch_floats() floats
};

// Return the first and the last key that a query at a position sees.
static inline uint32_t attn_low(const struct attn_shape *s, uint32_t position)
{
    return s->window > 0 && position + 1 > s->window ? position + 1 - s->window : 0;
}
static inline uint32_t attn_high(const struct attn_shape *s, uint32_t position, uint32_t kv_len)
{
    if (s->causal)
        return position;
    return s->ahead > 0 && position + s->ahead < kv_len ? position + s->ahead : kv_len - 1;
}

// Returns the address of a head's bias at distance 0; attn_args.reach elements precede it and
// follow it. NULL: there is no bias.
static inline const float *attn_bias_of(const struct attn_args *a, uint32_t head)
{
    const float *all = a->bias ? (const float *)a->bias->data : NULL;
    return all ? all + head * (2 * (size_t)a->reach + 1) + a->reach : NULL;
}

// Returns the sink of a head; there must be sinks.
static inline float attn_sink_of(const struct attn_args *a, uint32_t head)
{
    return ((const float *)a->sinks->data)[head];
}

// Returns the biases of 16 queries for a key: consecutive elements of the table if the queries,
// which are at consecutive positions, have one head and no distance exceeds the reach, otherwise
// copies in `out`. position, bias: [16] positions of the queries, attn_bias_of of their heads.
static inline const float *attn_bias_row(float out[16], const struct attn_args *a,
                                         const uint32_t *position, const float *const *bias,
                                         bool one_head, uint32_t key)
{
    int64_t most = a->reach, first = (int64_t)position[0] - key;
    if (one_head && first >= -most && first + 15 <= most)
        return bias[0] + first;
    for (uint32_t i = 0; i < 16; i++) {
        int64_t distance = (int64_t)position[i] - key;
        out[i] = bias[i][distance < -most ? -most : distance > most ? most : distance];
    }
    return out;
}

static inline uint32_t attn_part_end(const struct attn_job *job, uint32_t key)
{
    uint32_t next = (key / ATTN_PART_TOKENS + 1) * ATTN_PART_TOKENS;
    return next < job->key_end ? next : job->key_end;
}
