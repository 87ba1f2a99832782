// The constants that fix the arithmetic of exact mode (docs/ARCHITECTURE.md) and the tiles that the
// host plan and the kernels must agree on. One place, so that they cannot drift apart.
#pragma once

enum {
    PRODUCT_PART = 512,      // K is cut at absolute multiples of this; parts are added in order
    ATTN_PART_TOKENS = 1024, // KV is cut at absolute multiples of this; parts are merged in order
    ATTN_TILE_KEYS = 64,     // keys walked at once, in ascending order
    ATTN_TILE_ROWS = 16,     // packed query rows (query token x head of one KV head) on one warp
    KV_BLOCK_TOKENS = 64,    // default tokens a KV block holds (a run-time shift)
    TABLE_UNIT_BYTES = 256,  // unit of the device's block-table entries
};
