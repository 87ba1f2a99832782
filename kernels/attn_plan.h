// SPDX-License-Identifier: Apache-2.0
// The attention plan of a step, which the host makes once per step for all layers: which query
// tiles of which rows are computed together, and which long rows are cut into parts of their keys
// that are computed separately and then merged. It is the device-private part of the step record,
// on the cpu device and on CUDA.
//
// A part (ATTN_PART_TOKENS keys) begins with an empty state and parts are merged in order, whether
// one item computes all of them or each part is a separate item, so the plan does not affect
// results. Outside exact mode a device may request shorter parts, so that the narrow rows, or a few
// wide rows over many keys, fill its processors; results then depend on the step. Separate parts
// keep a device busy that has more threads than a long sequence has KV heads (Dao et al.,
// "Flash-Decoding for long-context inference", 2023).
//
// Threads: pure functions of the record, run by the engine thread. Included by C and by .cu files.
#pragma once

#include "kernels/attn_tiles.h"
#include "kernels/device.h"

// ATTN_ALL_PARTS, ATTN_TILE_SHIFT: see attn_item. ATTN_WIDE_ROWS: default of wide_rows.
// ATTN_SEPARATE_MAX: upper limit of attn_capacity.separate.
enum {
    ATTN_ALL_PARTS = 0xFFFF,
    ATTN_WIDE_ROWS = 64,
    ATTN_SEPARATE_MAX = 4096,
    ATTN_TILE_SHIFT = 20
};

// A unit of attention work: the packed queries (query token x head of one KV head) of one tile of a
// row, and either one part of the keys, whose state is merged later, or all parts in order. All KV
// heads have the same items, so an item is listed once: piece i of a list is KV head i % kv_heads
// of item i / kv_heads.
struct attn_item {      // 8 bytes
    uint16_t row;       // index of the row in the step
    uint16_t merge;     // index of the merge that uses the part, or ATTN_ALL_PARTS: all parts
    uint32_t tile_part; // ATTN_ALL_PARTS: index of the tile (of 16 or wide_rows queries). Else tile
                        // index from bit ATTN_TILE_SHIFT on, and below it the index of the part (of
                        // part_tokens keys)
};

// The merge of a narrow tile of a row whose parts are separate items. The last part is the row's
// last; in a layer with a narrower window the first parts are empty. The states of KV head h begin
// at index partial + h * parts.
struct attn_merge { // 16 bytes
    uint32_t row;
    uint32_t partial;    // index of the state of the first part, first KV head
    uint32_t first_part; // index of the first part within the row
    uint32_t parts;      // number of parts
};

// The private part of a step record: this header, then the lists. Narrow items directly follow wide
// items.
struct attn_work {
    uint32_t wide_count;   // items of up to wide_rows packed queries
    uint32_t narrow_count; // items of up to 16: short rows and pieces of wide rows
    uint32_t merge_count;
    uint32_t partial_count;                // part states, of all KV heads
    uint32_t wide_at, narrow_at, merge_at; // byte offsets of the lists from this header
    uint32_t mask_all;                     // 1 (tests only): also mask tiles that need no mask
    uint32_t part_tokens;                  // keys of a part that is a separate item
};

// Sizes of the lists of a plan and of the scratch memory it refers to.
struct attn_capacity {
    uint32_t items, merges; // most items and merges of a step
    uint32_t separate;      // most items that are parts; bounds the bytes that are copied
    uint32_t partials;      // part states, of all KV heads
    uint32_t wide_rows;     // packed queries of a wide item
    uint32_t workers; // items that can run at the same time; 0: parts have ATTN_PART_TOKENS keys
};

// Returns the capacity that any step within the limits needs. wide_rows is ATTN_WIDE_ROWS; a device
// with other kernels may change it afterwards. workers: see attn_capacity. Part states, each 16 x
// dim floats, take at most partial_bytes_max bytes. If a step uses up the states or the items for
// parts, its remaining rows, which are the shortest, are not cut into parts.
struct attn_capacity attn_plan_capacity(const struct stream_limits *limits,
                                        size_t partial_bytes_max, uint32_t workers);
// Returns the largest size of the private part in bytes.
size_t attn_plan_bytes(const struct attn_capacity *capacity);
// Fills the private part of a record from its rows. limits and capacity must be those that the
// record's layout was made for. Returns the bytes used: the lists have no gaps, because they are
// copied to the device each step.
size_t attn_plan_fill(const struct stream_limits *limits, const struct attn_capacity *capacity,
                      struct step *step);

// Returns the plan in a record.
static inline const struct attn_work *attn_plan_of(const struct step *step)
{
    return (const struct attn_work *)((const char *)step + step->layout.private_part);
}
