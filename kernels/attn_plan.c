// SPDX-License-Identifier: Apache-2.0
// The plan of attention work; see attn_plan.h.
#include "kernels/attn_plan.h"

#include <string.h>

static uint32_t divide_round_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

struct attn_capacity attn_plan_capacity(const struct stream_limits *limits,
                                        size_t partial_bytes_max, uint32_t workers)
{
    const struct attn_shape *shape = &limits->attn;
    struct attn_capacity capacity = {.wide_rows = ATTN_WIDE_ROWS, .workers = workers};
    if (shape->kv_heads == 0)
        return capacity;
    uint32_t group = shape->heads / shape->kv_heads;
    uint64_t queries = (uint64_t)limits->step.tokens_max * group;
    uint64_t tiles = limits->step.rows_max + queries / ATTN_WIDE_ROWS + 1;
    check(limits->step.rows_max <= UINT16_MAX + 1, "%u rows, an item of attention counts to 65535",
          limits->step.rows_max);
    check(queries <= UINT32_MAX && (tiles + ATTN_SEPARATE_MAX) * shape->kv_heads <= UINT32_MAX,
          "a step of %u tokens has more attention than 32 bits count", limits->step.tokens_max);
    uint64_t keys = (uint64_t)limits->step.blocks_max * KV_BLOCK_TOKENS;
    uint64_t parts = (keys + ATTN_PART_TOKENS - 1) / ATTN_PART_TOKENS;
    uint64_t walks = (uint64_t)limits->step.rows_max * shape->kv_heads;
    uint64_t partials = 0;
    if (shape->paged && (parts > 1 || workers > 0)) {
        uint64_t fit = partial_bytes_max / ((uint64_t)ATTN_TILE_ROWS * shape->dim * 4);
        partials = walks * parts;
        // Part states of rows that are cut to fill the workers: one per worker, and two more for
        // each narrow tile (at most walks + workers of them), whose keys begin and end inside a
        // part.
        uint64_t filling = workers > 0 ? workers + 2 * (walks + workers) : 0;
        partials = partials > filling ? partials : filling;
        partials = partials < fit ? partials : fit;
    }
    uint64_t separate = partials / shape->kv_heads;
    separate = separate < ATTN_SEPARATE_MAX ? separate : ATTN_SEPARATE_MAX;
    capacity.partials = (uint32_t)partials;
    capacity.separate = (uint32_t)separate;
    uint64_t narrow = limits->step.rows_max + workers / shape->kv_heads; // narrow tiles
    capacity.merges = (uint32_t)(separate / 2 < narrow ? separate / 2 : narrow);
    capacity.items = (uint32_t)(tiles + workers / shape->kv_heads + separate);
    return capacity;
}

size_t attn_plan_bytes(const struct attn_capacity *capacity)
{
    return sizeof(struct attn_work) + capacity->items * sizeof(struct attn_item) +
           capacity->merges * sizeof(struct attn_merge);
}

// A plan under construction: wide items in a first pass, narrow items and their merges in a second.
struct attn_planner {
    const struct attn_shape *shape;
    const struct attn_capacity *capacity;
    uint32_t group;
    uint32_t narrow_most; // rows of at most this many packed queries are cut into narrow tiles
    struct attn_work *work;
    struct attn_item *items; // wide items, then narrow items
    struct attn_merge *merges;
    uint32_t item_count, separate_count;
};

static bool row_is_narrow(const struct attn_planner *p, const struct step_row *row)
{
    return (uint64_t)row->q_len * p->group <= p->narrow_most;
}

static uint32_t row_narrow_tiles(const struct attn_planner *p, const struct step_row *row)
{
    return divide_round_up(row->q_len * p->group, ATTN_TILE_ROWS);
}

// Computes the pieces [first, last) of `tokens` keys each that contain keys seen by the row's
// queries.
static void row_pieces(const struct attn_planner *p, const struct step_row *row, uint32_t tokens,
                       uint32_t pieces[2])
{
    uint32_t position = row->kv_len > row->q_len ? row->kv_len - row->q_len : 0;
    uint32_t window = p->shape->window;
    uint32_t low = window != 0 && position + 1 > window ? position + 1 - window : 0;
    pieces[0] = low / tokens;
    pieces[1] = divide_round_up(row->kv_len, tokens);
}

static uint32_t row_parts(const struct attn_planner *p, const struct step_row *row)
{
    uint32_t parts[2];
    row_pieces(p, row, p->work->part_tokens, parts);
    return parts[1] > parts[0] ? parts[1] - parts[0] : 0;
}

static uint32_t row_key_tiles(const struct attn_planner *p, const struct step_row *row)
{
    uint32_t seen[2];
    row_pieces(p, row, ATTN_TILE_KEYS, seen);
    return seen[1] > seen[0] ? seen[1] - seen[0] : 0;
}

// Returns the number of packed queries up to which rows are cut into narrow tiles. A wide item
// walks all its keys one after the other. If a step has few wide items over many keys, most
// processors would be idle; such rows are then cut into narrow tiles, whose parts are items. A
// narrow tile costs about twice as much as a tile that shares its keys with others, so the work of
// all narrow tiles must be at most half of what the workers do in the time of the longest walk.
static uint32_t narrow_most_of(const struct attn_planner *p, const struct step_row *rows,
                               uint32_t count)
{
    uint32_t workers = p->capacity->workers;
    uint32_t most = workers / (2 * p->shape->kv_heads) * ATTN_TILE_ROWS;
    uint64_t tiles = 0;
    uint64_t work = 0;
    uint64_t longest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t queries = (uint64_t)rows[i].q_len * p->group;
        if (queries <= ATTN_TILE_ROWS || queries > most)
            continue;
        uint64_t mine = (uint64_t)row_narrow_tiles(p, &rows[i]) * p->shape->kv_heads;
        uint64_t keys = row_key_tiles(p, &rows[i]);
        tiles += mine;
        work += mine * keys;
        longest = keys > longest ? keys : longest;
    }
    bool few = tiles <= workers && 2 * work <= workers * longest;
    bool many_keys = longest * ATTN_TILE_KEYS >= ATTN_PART_TOKENS;
    return p->shape->paged && few && many_keys ? most : ATTN_TILE_ROWS;
}

enum {
    MERGED_A_TILE = 4, // parts that a merge handles in the time of a key tile (bench/gpu_model)
    FILLED_LEAST = 4,  // at least one worker in this many gets a part
};

// Returns the key tiles per part with which the merge of a row, by one warp, takes about as long as
// one part.
static uint64_t balanced_tiles(uint64_t row_tiles)
{
    uint64_t tiles = 1;
    while (MERGED_A_TILE * (tiles + 1) * (tiles + 1) <= row_tiles)
        tiles++;
    return tiles;
}

// Returns the keys per part, a multiple of ATTN_TILE_KEYS. The step's narrow rows are to have about
// as many parts as items that run at the same time, or fewer if the merge of the longest row would
// take longer than its parts. If wide rows are cut into narrow tiles, the merge is not considered:
// all parts run at the same time.
static uint32_t part_tokens_of(const struct attn_planner *p, const struct step_row *rows,
                               uint32_t count)
{
    uint32_t workers = p->capacity->workers;
    uint64_t all = 0;
    uint64_t longest = 0;
    if (workers == 0)
        return ATTN_PART_TOKENS;
    for (uint32_t i = 0; i < count; i++) {
        if (!row_is_narrow(p, &rows[i]))
            continue;
        uint64_t keys = row_key_tiles(p, &rows[i]);
        all += keys * row_narrow_tiles(p, &rows[i]) * p->shape->kv_heads;
        longest = keys > longest ? keys : longest;
    }
    uint64_t tiles = (all + workers - 1) / workers;
    tiles = tiles > 1 ? tiles : 1;
    if (p->narrow_most != ATTN_TILE_ROWS)
        return (uint32_t)tiles * ATTN_TILE_KEYS;
    uint64_t balanced = balanced_tiles(longest);
    uint64_t filled = FILLED_LEAST * all / workers;
    balanced = balanced < filled ? balanced : filled;
    tiles = tiles > balanced ? tiles : balanced;
    uint64_t most = ATTN_PART_TOKENS / ATTN_TILE_KEYS;
    return (uint32_t)(tiles < most ? tiles : most) * ATTN_TILE_KEYS;
}

static void item_add(struct attn_planner *p, uint32_t row, uint32_t merge, uint32_t tile_part)
{
    check(p->item_count < p->capacity->items, "%u attention items", p->item_count);
    p->items[p->item_count++] =
        (struct attn_item){.row = (uint16_t)row, .merge = (uint16_t)merge, .tile_part = tile_part};
}

// Adds the items of a narrow row. The tiles of a part are next to each other in the list, because
// they read the same keys.
static void narrow_add(struct attn_planner *p, uint32_t index, const struct step_row *row)
{
    struct attn_work *work = p->work;
    uint32_t parts[2];
    row_pieces(p, row, work->part_tokens, parts);
    uint32_t count = row_parts(p, row);
    uint32_t tiles = row_narrow_tiles(p, row);
    uint64_t items = (uint64_t)count * tiles;
    uint64_t partials = work->partial_count + items * p->shape->kv_heads;
    if (count <= 1 || partials > p->capacity->partials ||
        p->separate_count + items > p->capacity->separate ||
        work->merge_count + tiles > p->capacity->merges) {
        for (uint32_t tile = 0; tile < tiles; tile++)
            item_add(p, index, ATTN_ALL_PARTS, tile);
        return;
    }
    for (uint32_t part = parts[0]; part < parts[1]; part++)
        for (uint32_t tile = 0; tile < tiles; tile++)
            item_add(p, index, work->merge_count + tile, part | tile << ATTN_TILE_SHIFT);
    for (uint32_t tile = 0; tile < tiles; tile++) {
        p->merges[work->merge_count++] = (struct attn_merge){
            .row = index, .partial = work->partial_count, .first_part = parts[0], .parts = count};
        work->partial_count += count * p->shape->kv_heads;
    }
    p->separate_count += (uint32_t)items;
}

// Adds all narrow rows, those with many parts first (by powers of two): they get the part states
// and are started first.
static void narrow_add_all(struct attn_planner *p, const struct step_row *rows, uint32_t count)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        if (row_is_narrow(p, &rows[i]) && row_parts(p, &rows[i]) > most)
            most = row_parts(p, &rows[i]);
    for (uint32_t least = most > 0 ? 1u << (31 - __builtin_clz(most)) : 0;; least /= 2) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t parts = row_is_narrow(p, &rows[i]) ? row_parts(p, &rows[i]) : UINT32_MAX;
            if (parts >= least && (parts < 2 * least || parts == least))
                narrow_add(p, i, &rows[i]);
        }
        if (least == 0)
            return;
    }
}

// Adds the items of a wide row, last tiles first: in causal rows these see the most keys.
static void wide_add(struct attn_planner *p, uint32_t index, const struct step_row *row)
{
    uint32_t tiles = divide_round_up(row->q_len * p->group, p->capacity->wide_rows);
    while (tiles-- > 0)
        item_add(p, index, ATTN_ALL_PARTS, tiles);
}

size_t attn_plan_fill(const struct stream_limits *limits, const struct attn_capacity *capacity,
                      struct step *step)
{
    const struct step_row *rows = step_section(step, step->layout.rows);
    struct attn_work *work = step_section(step, step->layout.private_part);
    *work = (struct attn_work){.wide_at = sizeof *work};
    if (limits->attn.kv_heads == 0)
        return sizeof *work;
    struct attn_planner p = {
        .shape = &limits->attn,
        .capacity = capacity,
        .group = limits->attn.heads / limits->attn.kv_heads,
        .work = work,
        .items = (struct attn_item *)(work + 1),
    };
    p.merges = (struct attn_merge *)(p.items + capacity->items);
    p.narrow_most = narrow_most_of(&p, rows, step->row_count);
    work->part_tokens = part_tokens_of(&p, rows, step->row_count);
    for (uint32_t i = 0; i < step->row_count; i++)
        if (!row_is_narrow(&p, &rows[i]))
            wide_add(&p, i, &rows[i]);
    work->wide_count = p.item_count;
    narrow_add_all(&p, rows, step->row_count);
    work->narrow_count = p.item_count - work->wide_count;
    work->narrow_at = work->wide_at + work->wide_count * (uint32_t)sizeof(struct attn_item);
    memmove(p.items + p.item_count, p.merges, work->merge_count * sizeof *p.merges);
    work->merge_at = work->wide_at + p.item_count * (uint32_t)sizeof(struct attn_item);
    return work->merge_at + work->merge_count * sizeof *p.merges;
}
