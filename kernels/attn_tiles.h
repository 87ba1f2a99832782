// SPDX-License-Identifier: Apache-2.0
// The constants that fix the arithmetic of exact mode (decision 0023), and the tiles that the
// host's plan and the kernels must agree on.
#pragma once

enum {
    PRODUCT_PART = 512,      // K is cut at absolute multiples of this; parts are added in order
    ATTN_PART_TOKENS = 1024, // KV is cut at absolute multiples of this; parts are merged in order
    ATTN_TILE_KEYS = 64,     // keys computed together, in ascending order
    ATTN_TILE_ROWS = 16,     // packed query rows (query token x head of one KV head) per warp
    KV_BLOCK_TOKENS = 64,    // default tokens of a KV block
    TABLE_UNIT_BYTES = 256,  // unit of the device's block-table entries
};
