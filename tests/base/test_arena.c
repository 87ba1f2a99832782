// SPDX-License-Identifier: Apache-2.0
// Allocations of an arena are aligned, do not overlap and survive until reset; the limit is kept.
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_pieces(void **state)
{
    (void)state;
    struct arena *arena = arena_create(256, 0);
    unsigned char *pieces[200];
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = arena_alloc(arena, i * 3);
        assert_int_equal((uintptr_t)pieces[i] % ARENA_ALIGNMENT, 0);
        memset(pieces[i], (int)i, i * 3);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < i * 3; j++)
            assert_int_equal(pieces[i][j], i);
    size_t before = arena_bytes(arena);
    arena_reset(arena);
    assert_true(arena_bytes(arena) < before);
    assert_non_null(arena_alloc(arena, 100));
    arena_destroy(arena);
    arena_destroy(NULL);
}

static void test_limit(void **state)
{
    (void)state;
    struct arena *arena = arena_create(64, 1000);
    size_t got = 0;
    while (arena_alloc(arena, 48))
        got += 48;
    assert_in_range(got, 700, 1000);
    assert_null(arena_alloc(arena, SIZE_MAX - 3));
    assert_null(arena_alloc_zeroed(arena, SIZE_MAX / 2, 16));
    assert_null(arena_copy(arena, text_span("0123456789", 400)).at);
    arena_destroy(arena);
}

static void test_grow_and_text(void **state)
{
    (void)state;
    struct arena *arena = arena_create(128, 0);
    char *piece = arena_grow(arena, NULL, 0, 10);
    memcpy(piece, "0123456789", 10);
    assert_ptr_equal(arena_grow(arena, piece, 10, 60), piece); // the newest: in place
    arena_alloc(arena, 8);
    char *moved = arena_grow(arena, piece, 60, 500);
    assert_ptr_not_equal(moved, piece);
    assert_memory_equal(moved, "0123456789", 10);
    struct text made = arena_format(arena, "%d-%s", 12, "ab");
    assert_true(text_is(made, "12-ab"));
    assert_true(text_equal(arena_copy(arena, made), made));
    arena_destroy(arena);
}

// Blocks of 128 bytes are used to their last byte, and the limit is reached to the byte.
static void test_the_last_bytes_are_used(void **state)
{
    (void)state;
    struct arena *arena = arena_create(128, 304);
    assert_int_equal(arena_bytes(arena), 0);
    char *first = arena_alloc(arena, 112);
    char *last = arena_alloc(arena, 16);
    assert_ptr_equal(last, first + 112);
    assert_int_equal(arena_bytes(arena), 128);
    assert_non_null(arena_alloc(arena, 1));
    assert_int_equal(arena_bytes(arena), 256);
    assert_non_null(arena_alloc(arena, 112)); // one byte is rounded up to 16
    assert_int_equal(arena_bytes(arena), 256);
    assert_null(arena_alloc(arena, 49)); // neither a block of 128 nor one of 64 fits
    assert_non_null(arena_alloc(arena, 48));
    assert_int_equal(arena_bytes(arena), 304);
    assert_null(arena_alloc(arena, 1));
    arena_reset(arena);
    assert_int_equal(arena_bytes(arena), 128); // the first block stays, empty
    assert_ptr_equal(arena_alloc(arena, 128), first);
    arena_destroy(arena);
    arena = arena_create(0, 0);
    assert_non_null(arena_alloc(arena, 64 * 1024));
    assert_int_equal(arena_bytes(arena), 64 * 1024);
    assert_non_null(arena_alloc(arena, 64 * 1024 + 1));
    assert_int_equal(arena_bytes(arena), 2 * 64 * 1024 + 16);
    arena_destroy(arena);
    arena_reset(arena = arena_create(0, 0));
    assert_int_equal(arena_bytes(arena), 0);
    arena_destroy(arena);
}

static void test_a_piece_grows_where_it_lies(void **state)
{
    (void)state;
    struct arena *arena = arena_create(128, 0);
    char *piece = arena_alloc(arena, 10);
    memcpy(piece, "0123456789", 10);
    assert_ptr_equal(arena_grow(arena, piece, 10, 16), piece); // within its rounded size
    assert_ptr_equal(arena_alloc(arena, 16), piece + 16);
    assert_ptr_equal(arena_grow(arena, piece, 10, 4), piece);
    char *moved = arena_grow(arena, piece, 10, 17); // another allocation follows it
    assert_ptr_equal(moved, piece + 32);
    assert_memory_equal(moved, "0123456789", 10);
    assert_ptr_equal(arena_grow(arena, moved, 17, 96), moved); // to the end of the block
    assert_int_equal(arena_bytes(arena), 128);
    char *other = arena_grow(arena, moved, 96, 97);
    assert_ptr_not_equal(other, moved);
    assert_int_equal(arena_bytes(arena), 256);
    assert_memory_equal(other, "0123456789", 10);
    assert_ptr_equal(arena_alloc(arena, 16), other + 112); // 97 bytes are rounded up to 112
    arena_destroy(arena);
    arena = arena_create(64, 64);
    piece = arena_alloc(arena, 64);
    assert_null(arena_grow(arena, piece, 64, 65));
    assert_null(arena_format(arena, "%d", 5).at);
    assert_int_equal(arena_format(arena, "%d", 5).bytes, 0);
    assert_null(arena_alloc_zeroed(arena, 1, 1));
    arena_destroy(arena);
}

static void test_zeroed_pieces_are_zero(void **state)
{
    (void)state;
    static const char zeros[96];
    struct arena *arena = arena_create(96, 0);
    memset(arena_alloc(arena, 96), 0x5A, 96);
    arena_reset(arena);
    assert_memory_equal(arena_alloc_zeroed(arena, 32, 3), zeros, 96);
    assert_non_null(arena_alloc_zeroed(arena, 7, 0));
    assert_non_null(arena_alloc_zeroed(arena, 0, 7));
    struct text copy = arena_copy(arena, text_span("ab\0c", 4));
    assert_int_equal(copy.bytes, 4);
    assert_memory_equal(copy.at, "ab\0c", 5); // followed by a NUL
    assert_non_null(arena_copy(arena, text_span(NULL, 0)).at);
    char *piece = heap_alloc_zeroed(32, 3);
    assert_memory_equal(piece, zeros, 96);
    heap_free(piece);
    heap_free(heap_alloc(0));
    heap_free(heap_alloc_zeroed(0, 0));
    piece = heap_grow(NULL, 0);
    assert_non_null(piece);
    heap_free(piece);
    arena_destroy(arena);
}

// A text grows piece by piece. A piece beyond the limit is refused and changes nothing.
static void test_a_text_grows(void **state)
{
    (void)state;
    struct arena *arena = arena_create(64, 2000);
    struct arena_text t = {0};
    char wanted[1000] = "";
    assert_true(arena_text_add(arena, &t, text_span(NULL, 0)));
    assert_int_equal(t.bytes, 0);
    for (size_t i = 0; i + 7 <= 420; i += 7) {
        memcpy(wanted + i, "abcdefg", 7);
        assert_true(arena_text_add(arena, &t, text_span("abcdefg", 7)));
        assert_int_equal(t.bytes, i + 7);
        assert_memory_equal(t.at, wanted, t.bytes);
    }
    assert_false(arena_text_add(arena, &t, text_span(wanted, sizeof wanted)));
    assert_int_equal(t.bytes, 420);
    assert_memory_equal(t.at, wanted, 420);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces),
                                       cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_grow_and_text),
                                       cmocka_unit_test(test_a_text_grows),
                                       cmocka_unit_test(test_the_last_bytes_are_used),
                                       cmocka_unit_test(test_a_piece_grows_where_it_lies),
                                       cmocka_unit_test(test_zeroed_pieces_are_zero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
