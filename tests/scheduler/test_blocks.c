// SPDX-License-Identifier: Apache-2.0
// KV blocks, the prefix table, the hash and the chunk stores of requests, without an engine: states
// and counts of blocks, eviction of the oldest, comparison of tokens on a hit, the published vector
// of SipHash.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/number.h"
#include "scheduler/prefix.h"
#include "scheduler/store.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 6, EACH = 4 };

struct world {
    struct blocks blocks;
    struct block block[COUNT];
    int32_t token[COUNT * EACH];
    uint32_t free[COUNT], bucket[8];
};

static void world_init(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->blocks = (struct blocks){.count = COUNT,
                                .tokens = EACH,
                                .block = w->block,
                                .token = w->token,
                                .free = w->free,
                                .bucket = w->bucket,
                                .bucket_mask = power_of_two(COUNT) - 1};
    blocks_reset(&w->blocks);
}

static const uint64_t secret[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

static struct prefix_key name_of(const int32_t *tokens, struct hash parent)
{
    return (struct prefix_key){prefix_hash(secret, &parent, tokens, EACH), parent, tokens};
}

// The empty input under the key 00..0f gives the first reference vector of SipHash-2-4-128. Longer
// inputs and other keys give other hashes.
static void test_hash_is_siphash(void **state)
{
    (void)state;
    unsigned char in[15];
    for (unsigned i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)i;
    struct hash empty = hash_bytes(secret, in, 0);
    assert_int_equal(empty.low, 0xe6a825ba047f81a3u);
    assert_int_equal(empty.high, 0x930255c71472f66du);
    struct hash last = hash_bytes(secret, in, sizeof in);
    assert_int_not_equal(last.low, empty.low);
    in[14] ^= 1;
    assert_int_not_equal(hash_bytes(secret, in, sizeof in).low, last.low);
    static const uint64_t other[2] = {1, 2};
    assert_int_not_equal(hash_bytes(other, in, 0).low, empty.low);
}

static void test_blocks_change_states(void **state)
{
    (void)state;
    static struct world w;
    static const int32_t tokens[EACH] = {1, 2, 3, 4};
    struct prefix_key name = name_of(tokens, (struct hash){9, 9});
    for (int keep = 0; keep < 2; keep++) {
        world_init(&w);
        uint32_t id = block_alloc(&w.blocks);
        assert_int_equal(blocks_available(&w.blocks), COUNT - 1);
        assert_int_equal(prefix_find(&w.blocks, &name), BLOCK_NONE);
        prefix_put(&w.blocks, id, &name, false);
        assert_int_equal(prefix_find(&w.blocks, &name), id);
        w.block[id].ready = true;
        block_ref(&w.blocks, id);
        block_unref(&w.blocks, id, false);
        assert_int_equal(w.block[id].refs, 1);
        assert_int_equal(blocks_available(&w.blocks), COUNT - 1);
        w.block[id].ready = keep; // only a computed block stays cached
        block_unref(&w.blocks, id, false);
        assert_int_equal(blocks_available(&w.blocks), COUNT);
        assert_int_equal(w.blocks.cached_count, keep);
        assert_int_equal(prefix_find(&w.blocks, &name), keep ? id : BLOCK_NONE);
    }
}

static void test_eviction_takes_the_oldest(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    static const int32_t tokens[3][EACH] = {{1}, {2}, {3}};
    struct prefix_key names[3];
    uint32_t ids[3];
    for (uint32_t i = 0; i < 3; i++) {
        names[i] = name_of(tokens[i], (struct hash){0, 0});
        ids[i] = block_alloc(&w.blocks);
        prefix_put(&w.blocks, ids[i], &names[i], true);
    }
    for (uint32_t i = 0; i < 3; i++)
        block_unref(&w.blocks, ids[i], false);
    block_ref(&w.blocks, ids[0]); // used again: now it is the newest
    block_unref(&w.blocks, ids[0], false);
    for (uint32_t i = 0; i < COUNT - 3; i++)
        (void)block_alloc(&w.blocks); // free blocks are allocated first
    assert_int_equal(w.blocks.cached_count, 3);
    assert_int_equal(block_alloc(&w.blocks), ids[1]);
    assert_int_equal(prefix_find(&w.blocks, &names[1]), BLOCK_NONE);
    assert_int_equal(prefix_find(&w.blocks, &names[0]), ids[0]);
    assert_int_equal(block_alloc(&w.blocks), ids[2]);
    assert_int_equal(block_alloc(&w.blocks), ids[0]);
    assert_int_equal(blocks_available(&w.blocks), 0);
}

// A sequence may rely on a chain it found until `breaks` changes. `breaks` counts evicted blocks
// whose successor in the chain is still cached.
static void test_evictions_inside_a_chain_are_counted(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    static const int32_t tokens[4][EACH] = {{1}, {2}, {3}, {4}};
    uint32_t ids[4];
    struct hash parent = {0, 0};
    for (uint32_t i = 0; i < 4; i++) {
        struct prefix_key name = name_of(tokens[i], parent);
        ids[i] = block_alloc(&w.blocks);
        prefix_put(&w.blocks, ids[i], &name, true);
        if (i > 0)
            prefix_link(&w.blocks, ids[i], ids[i - 1]);
        parent = name.hash;
    }
    prefix_drop(&w.blocks, ids[3]); // it has no successor
    assert_int_equal(w.blocks.breaks, 0);
    prefix_drop(&w.blocks, ids[1]); // its successor stays cached
    assert_int_equal(w.blocks.breaks, 1);
    prefix_drop(&w.blocks, ids[0]); // its successor was evicted earlier
    prefix_drop(&w.blocks, ids[2]);
    assert_int_equal(w.blocks.breaks, 1);
}

// A lookup compares tokens and parent, so a hash collision does not return a wrong block.
static void test_a_lookup_compares_tokens_and_parent(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    static const int32_t tokens[EACH] = {1, 2, 3, 4}, others[EACH] = {1, 2, 3, 5};
    struct prefix_key name = name_of(tokens, (struct hash){1, 1});
    prefix_put(&w.blocks, block_alloc(&w.blocks), &name, true);
    struct prefix_key wrong = name;
    wrong.tokens = others;
    assert_int_equal(prefix_find(&w.blocks, &wrong), BLOCK_NONE);
    wrong = name;
    wrong.parent.high++;
    assert_int_equal(prefix_find(&w.blocks, &wrong), BLOCK_NONE);
    struct prefix_key moved = name_of(tokens, (struct hash){2, 1});
    assert_true(moved.hash.low != name.hash.low || moved.hash.high != name.hash.high);
}

static void test_leaving_blocks_are_counted(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    static const int32_t tokens[EACH] = {1, 2, 3, 4};
    struct prefix_key name = name_of(tokens, (struct hash){1, 1});
    uint32_t id = block_alloc(&w.blocks);
    prefix_put(&w.blocks, id, &name, true);
    block_ref(&w.blocks, id);
    block_unref_later(&w.blocks, id);
    assert_int_equal(w.blocks.releasing_count, 0); // one reference remains
    block_unref_later(&w.blocks, id);
    assert_int_equal(w.blocks.releasing_count, 1);
    block_ref(&w.blocks, id); // a new reference
    assert_int_equal(w.blocks.releasing_count, 0);
    block_unref(&w.blocks, id, true);
    block_unref(&w.blocks, id, true);
    assert_int_equal(w.block[id].refs, 1);
    assert_int_equal(w.block[id].leaving, 0);
    block_unref_later(&w.blocks, id);
    assert_int_equal(w.blocks.releasing_count, 1);
    block_unref(&w.blocks, id, true);
    assert_int_equal(w.blocks.releasing_count, 0);
    assert_int_equal(blocks_available(&w.blocks), COUNT);
}

static void test_stores_keep_owners_apart(void **state)
{
    (void)state;
    enum { CHUNKS = 8, ITEMS = 3, OWNERS = 3 };
    static int32_t memory[CHUNKS * ITEMS];
    static uint32_t free[CHUNKS], table[OWNERS * CHUNKS];
    struct store store = {.memory = (char *)memory,
                          .free = free,
                          .table = table,
                          .chunk_count = CHUNKS,
                          .table_stride = CHUNKS,
                          .items_each = ITEMS,
                          .item_bytes = sizeof *memory};
    static const int32_t in[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    int32_t out[10];
    for (uint32_t lap = 0; lap < 4; lap++) {
        store_alloc(&store, 0, 7);
        store_alloc(&store, 1, 10);
        store_write(&store, 0, 0, 7, in + 3);
        store_write(&store, 1, 2, 8, in);
        store_read(&store, 0, 2, 5, out);
        assert_memory_equal(out, in + 5, 5 * sizeof *in);
        store_read(&store, 1, 4, 6, out);
        assert_memory_equal(out, in + 2, 6 * sizeof *in);
        assert_int_equal(*(int32_t *)store_item(&store, 1, 9), 8);
        store_free(&store, 0, 7);
        store_free(&store, 1, 10);
        assert_int_equal(store.free_count, store.fresh);
        assert_true(store.touched == 7); // freed chunks are reused: no new ones were needed
    }
}

static uint32_t pages_resident(void *memory, size_t bytes, size_t page)
{
    unsigned char here[1024];
    uint32_t count = 0;
    assert_int_equal(mincore(memory, bytes, here), 0);
    for (size_t i = 0; i < bytes / page; i++)
        count += here[i] & 1;
    return count;
}

// Pages of free chunks after the used ones return to the system, in pieces, but for the first ones;
// the contents of used chunks and what lies before and after the store stay.
static void test_stores_return_pages(void **state)
{
    (void)state;
    enum { CHUNKS = 300, KEPT_PAGES = 16, PIECE_PAGES = 64, ALL_PAGES = 512 };
    size_t page = (size_t)getpagesize(), each = page + 64, bytes = ALL_PAGES * page;
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static uint32_t free[CHUNKS], table[2 * CHUNKS];
    struct store store = {.memory = (char *)memory + 100,
                          .free = free,
                          .table = table,
                          .chunk_count = CHUNKS,
                          .table_stride = CHUNKS,
                          .items_each = 1,
                          .item_bytes = (uint32_t)each};
    size_t end = 100 + CHUNKS * each;
    assert_true(memory != MAP_FAILED);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (int lap = 0; lap < 2; lap++) {
        store_alloc(&store, 0, 100);
        store_alloc(&store, 1, 200);
        memset(memory, 7, bytes);
        store_free(&store, 0, 100);
        store_pages_return(&store, KEPT_PAGES * page, PIECE_PAGES * page);
        assert_int_equal(pages_resident(memory, bytes, page),
                         ALL_PAGES); // the last chunks are used
        store_free(&store, 1, 200);
        uint32_t before = ALL_PAGES, now;
        for (int call = 0; call < 8; call++, before = now) {
            store_pages_return(&store, KEPT_PAGES * page, PIECE_PAGES * page);
            now = pages_resident(memory, bytes, page);
            assert_in_range(before - now, call < 4 ? PIECE_PAGES - 2 : 0, PIECE_PAGES + 1);
        }
        assert_in_range(now, KEPT_PAGES + (bytes - end) / page,
                        KEPT_PAGES + (bytes - end) / page + 12);
        for (size_t i = 0; i < 100; i++)
            assert_int_equal(memory[i], 7);
        for (size_t i = end; i < bytes; i++)
            assert_int_equal(memory[i], 7);
    }
    munmap(memory, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_is_siphash),
        cmocka_unit_test(test_blocks_change_states),
        cmocka_unit_test(test_eviction_takes_the_oldest),
        cmocka_unit_test(test_evictions_inside_a_chain_are_counted),
        cmocka_unit_test(test_a_lookup_compares_tokens_and_parent),
        cmocka_unit_test(test_leaving_blocks_are_counted),
        cmocka_unit_test(test_stores_keep_owners_apart),
        cmocka_unit_test(test_stores_return_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
