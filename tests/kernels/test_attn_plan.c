// SPDX-License-Identifier: Apache-2.0
// The attention plan of random steps and limits: every query of every row is computed once for each
// KV head, over all parts that it sees, and nothing exceeds the planned capacity.
#include "kernels/attn_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { ROWS = 24, TOKENS = 600, KV_HEADS = 4, BLOCKS = 160 };

static uint32_t below(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

struct scene {
    struct stream_limits limits;
    struct attn_capacity capacity;
    struct step *step;
    uint8_t *used; // [partials] number of uses of each part state
};

static struct scene scene_make(uint64_t *seed, size_t partial_bytes)
{
    static const uint16_t groups[] = {1, 2, 4, 7, 16, 20};
    struct scene s = {0};
    struct attn_shape *shape = &s.limits.attn;
    s.limits.step =
        (struct step_limits){.rows_max = ROWS, .tokens_max = TOKENS, .blocks_max = BLOCKS};
    *shape = (struct attn_shape){
        .kv_heads = 1 + below(seed, KV_HEADS), .dim = 64, .causal = 1, .paged = below(seed, 8) > 0};
    shape->heads = shape->kv_heads * groups[below(seed, 6)];
    shape->window = below(seed, 3) == 0 ? 1 + below(seed, 4000) : 0;
    s.capacity = attn_plan_capacity(&s.limits, partial_bytes, below(seed, 2) * below(seed, 1000));
    struct step_layout layout;
    step_layout_init(&layout, &s.limits.step, attn_plan_bytes(&s.capacity));
    s.step = calloc(1, layout.bytes);
    s.used = calloc(1, s.capacity.partials + 1);
    assert_non_null(s.step);
    assert_non_null(s.used);
    s.step->layout = layout;
    return s;
}

static struct step_row *rows_of(const struct scene *s)
{
    return step_section(s->step, s->step->layout.rows);
}

static void rows_fill(const struct scene *s, uint64_t *seed)
{
    uint32_t left = TOKENS;
    uint32_t count = 1 + below(seed, ROWS);
    for (uint32_t i = 0; i < count && left > 0; i++) {
        uint32_t q_len = below(seed, 2) ? 1 : 1 + below(seed, left < 200 ? left : 200);
        uint32_t more = below(seed, BLOCKS * KV_BLOCK_TOKENS - q_len + 1);
        uint32_t kv_len = q_len + (s->limits.attn.paged ? more : 0);
        rows_of(s)[i] = (struct step_row){
            .q_start = TOKENS - left, .q_len = q_len, .kv_len = below(seed, 20) == 0 ? 0 : kv_len};
        left -= q_len;
        s->step->row_count = i + 1;
    }
    s->step->token_count = TOKENS - left;
}

// Returns the parts of a row: from the first that its first query sees to that of the last key.
static void parts_of(const struct scene *s, const struct step_row *row, uint32_t parts[2])
{
    uint32_t window = s->limits.attn.window;
    uint32_t first = row->kv_len - row->q_len;
    uint32_t low = window > 0 && first + 1 > window ? first + 1 - window : 0;
    uint32_t tokens = attn_plan_of(s->step)->part_tokens;
    parts[0] = low / tokens;
    parts[1] = (row->kv_len + tokens - 1) / tokens;
}

static const void *work_at(const struct scene *s, uint32_t offset)
{
    return (const char *)attn_plan_of(s->step) + offset;
}

// Checks the items of a tile: either one item for all parts, or one per part, with a state for each
// KV head.
static void tile_check(const struct scene *s, uint32_t index, uint32_t tile, bool wide)
{
    const struct attn_work *work = attn_plan_of(s->step);
    const struct attn_item *item = work_at(s, wide ? work->wide_at : work->narrow_at);
    const struct attn_merge *merge = work_at(s, work->merge_at);
    uint32_t count = wide ? work->wide_count : work->narrow_count;
    uint32_t walks = 0, separate = 0, merging = 0, parts[2];
    parts_of(s, &rows_of(s)[index], parts);
    for (uint32_t i = 0; i < count; i++) {
        if (item[i].row != index)
            continue;
        if (item[i].merge == ATTN_ALL_PARTS) {
            walks += item[i].tile_part == tile;
            continue;
        }
        const struct attn_merge *m = &merge[item[i].merge];
        assert_true(item[i].merge < work->merge_count && m->row == index && !wide);
        if (item[i].tile_part >> ATTN_TILE_SHIFT != tile)
            continue;
        uint32_t part = item[i].tile_part & ((1u << ATTN_TILE_SHIFT) - 1);
        merging = separate == 0 ? item[i].merge : merging;
        assert_int_equal(item[i].merge, merging);
        assert_int_equal(part, parts[0] + separate++);
        assert_int_equal(m->first_part, parts[0]);
        assert_int_equal(m->parts, parts[1] - parts[0]);
        for (uint32_t head = 0; head < s->limits.attn.kv_heads; head++) {
            uint32_t partial = m->partial + head * m->parts + part - m->first_part;
            assert_true(partial < s->capacity.partials);
            assert_int_equal(s->used[partial]++, 0);
        }
    }
    uint32_t merges = separate > 0;
    assert_int_equal(walks + merges, 1);
    assert_true(separate == 0 || (merges == 1 && separate == parts[1] - parts[0] && separate > 1));
}

static bool row_is_wide(const struct scene *s, uint32_t index)
{
    const struct attn_work *work = attn_plan_of(s->step);
    const struct attn_item *item = work_at(s, work->wide_at);
    bool wide = false;
    for (uint32_t i = 0; i < work->wide_count; i++)
        wide = wide || item[i].row == index;
    return wide;
}

static void plan_check(const struct scene *s)
{
    const struct attn_work *work = attn_plan_of(s->step);
    uint32_t group = s->limits.attn.heads / s->limits.attn.kv_heads;
    uint32_t items = 0;
    assert_true(work->wide_count + work->narrow_count <= s->capacity.items);
    assert_true(work->merge_count <= s->capacity.merges);
    assert_int_equal(work->narrow_at, work->wide_at + work->wide_count * sizeof(struct attn_item));
    for (uint32_t i = 0; i < s->step->row_count; i++) {
        uint32_t queries = rows_of(s)[i].q_len * group;
        bool wide = row_is_wide(s, i);
        uint32_t each = wide ? ATTN_WIDE_ROWS : ATTN_TILE_ROWS;
        uint32_t tiles = (queries + each - 1) / each;
        assert_true(queries > ATTN_TILE_ROWS || !wide);
        assert_true(queries <= ATTN_TILE_ROWS || wide || s->capacity.workers > 0);
        for (uint32_t tile = 0; tile < tiles; tile++)
            tile_check(s, i, tile, wide);
        items += tiles;
    }
    uint32_t tokens = work->part_tokens;
    assert_true(tokens % ATTN_TILE_KEYS == 0 && tokens > 0);
    assert_true(s->capacity.workers > 0 || tokens == ATTN_PART_TOKENS);
    // there are no items of other tiles: each part of a tile but one is an extra item
    uint32_t parts_more = work->partial_count / s->limits.attn.kv_heads - work->merge_count;
    assert_true(parts_more + work->merge_count <= s->capacity.separate);
    assert_int_equal(work->wide_count + work->narrow_count, items + parts_more);
}

// The lists follow each other without gaps and end at the last copied byte.
static void lists_check(const struct scene *s, size_t bytes)
{
    const struct attn_work *work = attn_plan_of(s->step);
    size_t items = (work->wide_count + work->narrow_count) * sizeof(struct attn_item);
    assert_int_equal(work->wide_at, sizeof *work);
    assert_int_equal(work->merge_at, sizeof *work + items);
    assert_int_equal(bytes, work->merge_at + work->merge_count * sizeof(struct attn_merge));
}

// Runs random steps. Returns the number of tiles whose parts were separate items.
static uint32_t steps_run(uint64_t seed, size_t partial_bytes)
{
    uint32_t merges = 0;
    for (int i = 0; i < 300; i++) {
        struct scene s = scene_make(&seed, partial_bytes);
        rows_fill(&s, &seed);
        // content left by an earlier step
        memset(step_section(s.step, s.step->layout.private_part), 0xA5,
               attn_plan_bytes(&s.capacity));
        size_t bytes = attn_plan_fill(&s.limits, &s.capacity, s.step);
        plan_check(&s);
        lists_check(&s, bytes);
        assert_int_equal(attn_plan_of(s.step)->mask_all, 0);
        merges += attn_plan_of(s.step)->merge_count;
        free(s.step);
        free(s.used);
    }
    return merges;
}

static void test_every_query_once(void **state)
{
    (void)state;
    assert_true(steps_run(1, 64 << 20) > 1000);
}

static void test_little_room_walks(void **state)
{
    (void)state;
    enum { STATE = ATTN_TILE_ROWS * 64 * sizeof(float) };
    uint32_t some = steps_run(2, 20 * STATE);
    assert_true(some > 100 && some < steps_run(2, 64 << 20));
    assert_int_equal(steps_run(3, STATE), 0);
    assert_int_equal(steps_run(4, 0), 0);
}

// One row of the longest possible step, with 16 heads per KV head: 262,144 tiles.
static void test_a_long_chunk_has_all_its_tiles(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20, TILES = LENGTH * 16 / ATTN_WIDE_ROWS };
    struct stream_limits limits = {
        .step = {.rows_max = 1, .tokens_max = LENGTH, .blocks_max = LENGTH / KV_BLOCK_TOKENS},
        .attn = {.heads = 16, .kv_heads = 1, .dim = 64, .causal = 1, .paged = 1}};
    struct attn_capacity capacity = attn_plan_capacity(&limits, 0, 0);
    struct step_layout layout;
    step_layout_init(&layout, &limits.step, attn_plan_bytes(&capacity));
    struct scene s = {limits, capacity, calloc(1, layout.bytes), NULL};
    assert_non_null(s.step);
    s.step->layout = layout;
    s.step->row_count = 1;
    *rows_of(&s) = (struct step_row){.q_len = LENGTH, .kv_len = LENGTH};
    attn_plan_fill(&limits, &capacity, s.step);
    const struct attn_item *item = work_at(&s, attn_plan_of(s.step)->wide_at);
    assert_int_equal(attn_plan_of(s.step)->wide_count, TILES);
    for (uint32_t i = 0; i < TILES; i++)
        assert_int_equal(item[i].tile_part, TILES - 1 - i);
    free(s.step);
}

// A narrow row of several queries: the parts begin where the window of the first query begins.
static void test_a_narrow_row_begins_with_its_first_window(void **state)
{
    (void)state;
    enum { QUERIES = 4, WINDOW = 1024 };
    struct stream_limits limits = {
        .step = {.rows_max = 1, .tokens_max = QUERIES, .blocks_max = BLOCKS},
        .attn = {.heads = 4, .kv_heads = 1, .dim = 64, .window = WINDOW, .causal = 1, .paged = 1}};
    struct attn_capacity capacity = attn_plan_capacity(&limits, 64 << 20, 0);
    struct step_layout layout;
    step_layout_init(&layout, &limits.step, attn_plan_bytes(&capacity));
    // the last query's window begins in part 2, the first query's only at the greatest length
    for (uint32_t beyond = 0; beyond < QUERIES; beyond++) {
        struct scene s = {limits, capacity, calloc(1, layout.bytes), calloc(1, capacity.partials)};
        assert_non_null(s.step);
        assert_non_null(s.used);
        s.step->layout = layout;
        s.step->row_count = 1;
        s.step->token_count = QUERIES;
        uint32_t kv_len = 2 * ATTN_PART_TOKENS + WINDOW + beyond;
        *rows_of(&s) = (struct step_row){.q_len = QUERIES, .kv_len = kv_len};
        lists_check(&s, attn_plan_fill(&limits, &capacity, s.step));
        plan_check(&s);
        const struct attn_item *item = work_at(&s, attn_plan_of(s.step)->narrow_at);
        assert_int_equal(item[0].tile_part, beyond < QUERIES - 1 ? 1 : 2);
        free(s.step);
        free(s.used);
    }
}

// Makes a step of `count` rows of `kv_len` keys each (the last row: `last` keys) for a model of 8
// KV heads and this many workers; 0: exact mode.
static struct scene fast_make(uint32_t count, uint32_t kv_len, uint32_t last, uint32_t workers,
                              size_t partial_bytes)
{
    struct scene s = {
        .limits = {.step = {.rows_max = 256, .tokens_max = 256, .blocks_max = 4096},
                   .attn = {.heads = 32, .kv_heads = 8, .dim = 128, .causal = 1, .paged = 1}}};
    s.capacity = attn_plan_capacity(&s.limits, partial_bytes, workers);
    struct step_layout layout;
    step_layout_init(&layout, &s.limits.step, attn_plan_bytes(&s.capacity));
    s.step = calloc(1, layout.bytes);
    s.used = calloc(1, s.capacity.partials + 1);
    assert_non_null(s.step);
    assert_non_null(s.used);
    s.step->layout = layout;
    s.step->row_count = s.step->token_count = count;
    for (uint32_t i = 0; i < count; i++)
        rows_of(&s)[i] =
            (struct step_row){.q_start = i, .q_len = 1, .kv_len = i + 1 == count ? last : kv_len};
    lists_check(&s, attn_plan_fill(&s.limits, &s.capacity, s.step));
    plan_check(&s);
    return s;
}

static uint32_t fast_items(uint32_t count, uint32_t kv_len, uint32_t workers, uint32_t *tokens)
{
    struct scene s = fast_make(count, kv_len, kv_len, workers, 64 << 20);
    uint32_t items = attn_plan_of(s.step)->narrow_count * 8; // number of KV heads
    *tokens = attn_plan_of(s.step)->part_tokens;
    free(s.step);
    free(s.used);
    return items;
}

// Outside exact mode parts fill the processors: at batch 1 and 1,024 keys at least 100 of 132. With
// more keys the parts are fewer and longer, because the time of a merge grows with its parts, but
// they are still more than the processors.
static void test_parts_fill_the_processors(void **state)
{
    (void)state;
    enum { PROCESSORS = 132, WORKERS = 6 * PROCESSORS };
    uint32_t tokens;
    assert_in_range(fast_items(1, 1024, WORKERS, &tokens), 100, WORKERS);
    assert_int_equal(tokens, 64);
    assert_int_equal(fast_items(1, 2048, WORKERS, &tokens), 32 * 8);
    assert_int_equal(tokens, 64);
    assert_int_equal(fast_items(1, 4096, WORKERS, &tokens), 32 * 8);
    assert_int_equal(tokens, 128);
    assert_int_equal(fast_items(1, 8192, WORKERS, &tokens), 26 * 8);
    assert_int_equal(tokens, 320);
    assert_int_equal(fast_items(2, 8192, WORKERS, &tokens), 2 * 26 * 8);
    assert_int_equal(tokens, 320);
    assert_int_equal(fast_items(8, 8192, WORKERS, &tokens), 8 * 12 * 8); // all run at once
    assert_int_equal(tokens, 704);
    assert_int_equal(fast_items(1, 32768, WORKERS, &tokens), 47 * 8);
    assert_int_equal(tokens, 704);
    assert_in_range(fast_items(1, 131072, WORKERS, &tokens), WORKERS, 1024);
    assert_int_equal(tokens, 1024);
    assert_int_equal(fast_items(256, 1024, WORKERS, &tokens), 256 * 8); // not cut
    assert_int_equal(fast_items(1, 1024, 0, &tokens), 8);               // exact mode
    assert_int_equal(tokens, 1024);
}

// Makes a step of rows with `q_len` queries over `kv_len` keys each.
static struct scene turn_make(uint32_t rows, uint32_t q_len, uint32_t kv_len,
                              struct attn_shape shape, uint32_t workers)
{
    struct scene s = {.limits = {.step = {.rows_max = 256, .tokens_max = 8192, .blocks_max = 4096},
                                 .attn = shape}};
    s.capacity = attn_plan_capacity(&s.limits, 64 << 20, workers);
    struct step_layout layout;
    step_layout_init(&layout, &s.limits.step, attn_plan_bytes(&s.capacity));
    s.step = calloc(1, layout.bytes);
    s.used = calloc(1, s.capacity.partials + 1);
    assert_non_null(s.step);
    assert_non_null(s.used);
    s.step->layout = layout;
    s.step->row_count = rows;
    s.step->token_count = rows * q_len;
    for (uint32_t i = 0; i < rows; i++)
        rows_of(&s)[i] = (struct step_row){.q_start = i * q_len, .q_len = q_len, .kv_len = kv_len};
    lists_check(&s, attn_plan_fill(&s.limits, &s.capacity, s.step));
    plan_check(&s);
    return s;
}

// The next turn of a chat (few new tokens over many cached keys) would be one wide item per KV
// head; so would a decode row of more than 16 heads per KV head. Outside exact mode such rows are
// cut into parts that fill the processors. Rows stay wide if the step fills the processors anyway,
// or has few keys.
static void test_few_wide_rows_fill_the_processors(void **state)
{
    (void)state;
    enum { PROCESSORS = 132, WORKERS = 6 * PROCESSORS, WIDE = 0 };
    static const struct attn_shape llama = {32, 8, 128, 0, 0.09f, 1, 1, 0};
    static const struct attn_shape one = {71, 1, 64, 0, 0.125f, 1, 1, 0};
    static const struct {
        uint32_t rows, q_len, kv_len;
        const struct attn_shape *shape;
        uint32_t workers, least; // least: items expected; WIDE: not cut
    } cases[] = {
        {1, 8, 100000, &llama, WORKERS, WORKERS - 2 * 16},
        {1, 32, 100000, &llama, WORKERS, WORKERS - 64},
        {1, 32, 1024, &llama, WORKERS, WORKERS / 2},
        {4, 8, 20000, &llama, WORKERS, WORKERS - 64},
        {1, 1, 32768, &one, WORKERS, 512}, // 71 heads: several tiles of one token
        {32, 1, 32768, &one, WORKERS, WORKERS - 160},
        {1, 32, 100000, &llama, 0, WIDE}, // exact mode
        {1, 2048, 100000, &llama, WORKERS, WIDE},
        {64, 32, 8192, &llama, WORKERS, WIDE},
        {1, 32, 200, &llama, WORKERS, WIDE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scene s = turn_make(cases[i].rows, cases[i].q_len, cases[i].kv_len, *cases[i].shape,
                                   cases[i].workers);
        const struct attn_work *work = attn_plan_of(s.step);
        if (cases[i].least != WIDE) {
            assert_int_equal(work->wide_count, 0);
            uint32_t heads = cases[i].shape->kv_heads;
            assert_in_range(work->narrow_count * heads, cases[i].least,
                            WORKERS + 2 * work->merge_count * heads);
        } else {
            assert_int_equal(work->narrow_count, 0);
        }
        free(s.step);
        free(s.used);
    }
}

// With 255 rows of 4K keys before it, a row of 128K keys has all its parts as separate items,
// though there are not enough states for all rows.
static void test_the_longest_row_takes_partials_first(void **state)
{
    (void)state;
    enum { STATE = ATTN_TILE_ROWS * 128 * sizeof(float) };
    struct scene s = fast_make(256, 4096, 131072, 0, 2048 * (size_t)STATE);
    const struct attn_work *work = attn_plan_of(s.step);
    const struct attn_item *item = work_at(&s, work->narrow_at);
    uint32_t separate = 0;
    for (uint32_t i = 0; i < work->narrow_count; i++)
        separate += item[i].row == 255 && item[i].merge != ATTN_ALL_PARTS;
    assert_int_equal(separate, 128);
    assert_int_equal(item[0].row, 255);
    assert_in_range(work->partial_count, 2044, 2048);
    free(s.step);
    free(s.used);
}

// The plan of a decode step of 256 rows has at most 40 KB, whatever the contexts and the model's KV
// heads, so that the step stays below 64 KB.
static void test_the_plan_of_256_rows_is_small(void **state)
{
    (void)state;
    static const struct {
        uint32_t kv_heads, dim, workers;
    } models[] = {{1, 64, 792},  {1, 64, 0},  {2, 64, 792},
                  {8, 128, 792}, {8, 128, 0}, {32, 128, 792}};
    static const uint32_t contexts[] = {64, 1024, 8192, 40000, 262144};
    size_t most = 0;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct stream_limits limits = {
            .step = {.rows_max = 256, .tokens_max = 256, .blocks_max = 4096},
            .attn = {.heads = 32,
                     .kv_heads = models[i].kv_heads,
                     .dim = models[i].dim,
                     .causal = 1,
                     .paged = 1}};
        struct attn_capacity capacity = attn_plan_capacity(&limits, 64 << 20, models[i].workers);
        struct step_layout layout;
        step_layout_init(&layout, &limits.step, attn_plan_bytes(&capacity));
        struct scene s = {limits, capacity, calloc(1, layout.bytes), NULL};
        assert_non_null(s.step);
        s.step->layout = layout;
        s.step->row_count = s.step->token_count = 256;
        for (size_t j = 0; j < sizeof contexts / sizeof contexts[0]; j++) {
            for (uint32_t row = 0; row < 256; row++)
                rows_of(&s)[row] = (struct step_row){
                    .q_start = row, .q_len = 1, .kv_len = contexts[(j + row % 2 * row) % 5]};
            size_t bytes = attn_plan_fill(&limits, &capacity, s.step);
            lists_check(&s, bytes);
            most = bytes > most ? bytes : most;
        }
        free(s.step);
    }
    assert_in_range(most, ATTN_SEPARATE_MAX * 7, 40 << 10); // reaches the limit of parts
}

// An item stores its row in 16 bits; a model without attention has no plan.
static void test_the_widest_and_none(void **state)
{
    (void)state;
    struct stream_limits limits = {
        .step = {.rows_max = UINT16_MAX + 1, .tokens_max = UINT16_MAX + 1, .blocks_max = 1},
        .attn = {.heads = 1, .kv_heads = 1, .dim = 16, .causal = 1, .paged = 1}};
    struct attn_capacity capacity = attn_plan_capacity(&limits, 0, 0);
    struct step_layout layout;
    step_layout_init(&layout, &limits.step, attn_plan_bytes(&capacity));
    struct scene s = {limits, capacity, calloc(1, layout.bytes), NULL};
    assert_non_null(s.step);
    s.step->layout = layout;
    s.step->row_count = s.step->token_count = UINT16_MAX + 1;
    for (uint32_t i = 0; i <= UINT16_MAX; i++)
        rows_of(&s)[i] = (struct step_row){.q_start = i, .q_len = 1, .kv_len = 1};
    attn_plan_fill(&limits, &capacity, s.step);
    const struct attn_item *item = work_at(&s, attn_plan_of(s.step)->narrow_at);
    assert_int_equal(attn_plan_of(s.step)->narrow_count, UINT16_MAX + 1);
    for (uint32_t i = 0; i <= UINT16_MAX; i++)
        assert_int_equal(item[i].row, i);
    limits.attn = (struct attn_shape){0};
    assert_int_equal(attn_plan_fill(&limits, &capacity, s.step), sizeof(struct attn_work));
    assert_int_equal(attn_plan_of(s.step)->narrow_count, 0);
    capacity = attn_plan_capacity(&limits, 1 << 20, 0);
    assert_int_equal(capacity.items + capacity.merges + capacity.partials, 0);
    free(s.step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_query_once),
        cmocka_unit_test(test_little_room_walks),
        cmocka_unit_test(test_a_long_chunk_has_all_its_tiles),
        cmocka_unit_test(test_a_narrow_row_begins_with_its_first_window),
        cmocka_unit_test(test_parts_fill_the_processors),
        cmocka_unit_test(test_few_wide_rows_fill_the_processors),
        cmocka_unit_test(test_the_longest_row_takes_partials_first),
        cmocka_unit_test(test_the_plan_of_256_rows_is_small),
        cmocka_unit_test(test_the_widest_and_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
