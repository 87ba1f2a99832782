// The plan of a step's attention work, made once a step by the host for all layers: which query
// tiles of which rows are computed together, and where the parts of a long row are computed apart
// and merged. The device-private part of a step record, on the cpu device as on CUDA.
//
// A part (ATTN_PART_TOKENS keys) begins with an empty state and parts are merged in order, whether
// one item computes them all or each is an item of its own, so the plan does not affect results.
// Outside of exact mode a device may ask for parts that fill its processors, of few wide rows over
// many keys as of narrow ones; results then depend on the step.
// Computing parts apart keeps a device busy that has more threads than a long sequence has KV heads
// (Dao et al., "Flash-Decoding for long-context inference", 2023).
//
// Threads: pure code over the record, run by the engine's thread. Included by C and by .cu files.
#pragma once

#include "kernels/attn_tiles.h"
#include "kernels/device.h"

enum { ATTN_WALK = 0xFFFF, ATTN_WIDE_ROWS = 64, ATTN_APART_MAX = 4096, ATTN_TILE_SHIFT = 20 };

// Work that every KV head has alike, so it is listed once: piece i of a list is KV head i %
// kv_heads of item i / kv_heads. The packed queries of one tile of a row, and either one part of
// the keys, whose state goes to a merge, or all parts in order.
struct attn_item {  // 8 bytes
    uint16_t row;   // of the step
    uint16_t merge; // index of the merge that takes the part, or ATTN_WALK: all parts
    uint32_t at;    // the tile: queries from at * (16 or wide_rows) on; of a part the tile from bit
                    // ATTN_TILE_SHIFT on, below it the part: keys from there times part_tokens on
};

// A narrow tile of a row whose parts were computed apart. The last part is the row's last; a layer
// with a narrower window leaves the first ones empty. States of KV head h begin at partial + h *
// parts.
struct attn_merge { // 16 bytes
    uint32_t row;
    uint32_t partial; // of the first part of the first KV head
    uint32_t part;    // which part of the row is the first
    uint32_t parts;
};

// The private part of a step record: this header, then the lists. Wide items lie right before
// narrow ones.
struct attn_work {
    uint32_t wide_count; // items of up to wide_rows packed queries
    uint32_t
        narrow_count; // items of up to 16: of rows with no more, and of wide rows cut into such
    uint32_t merge_count;
    uint32_t partial_count;
    uint32_t wide_at, narrow_at, merge_at; // bytes from this header
    uint32_t mask_all;                     // 1 (tests only): tiles that need no mask are masked too
    uint32_t part_tokens;                  // keys of a part that is an item of its own
};

struct attn_capacity {
    uint32_t items, merges; // listed
    uint32_t apart;         // items that are parts, at most: this bounds the bytes that are copied
    uint32_t partials;      // states, of all KV heads
    uint32_t wide_rows;     // packed queries of a wide item
    uint32_t workers;       // items that should run at once; 0: parts are ATTN_PART_TOKENS
};

// What any step within the limits needs. Partials, each 16 x dim floats, take at most
// partial_bytes_max; once they or the items apart are used up, further rows are walked whole: the
// shortest.
struct attn_capacity attn_plan_capacity(const struct stream_limits *limits,
                                        size_t partial_bytes_max, uint32_t workers);
size_t attn_plan_bytes(const struct attn_capacity *capacity);
// limits and capacity must be those of the record's layout. Returns the bytes it used: the lists
// are put together without gaps, since they are copied to the device each step.
size_t attn_plan_fill(const struct stream_limits *limits, const struct attn_capacity *capacity,
                      struct step *step);

static inline const struct attn_work *attn_plan_of(const struct step *step)
{
    return (const struct attn_work *)((const char *)step + step->layout.private_part);
}
