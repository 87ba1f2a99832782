// An arena's pieces are aligned, do not overlap and survive until reset; the limit is kept.
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
        pieces[i] = arena_take(arena, i * 3);
        assert_int_equal((uintptr_t)pieces[i] % ARENA_ALIGNMENT, 0);
        memset(pieces[i], (int)i, i * 3);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < i * 3; j++)
            assert_int_equal(pieces[i][j], i);
    size_t before = arena_bytes(arena);
    arena_reset(arena);
    assert_true(arena_bytes(arena) < before);
    assert_non_null(arena_take(arena, 100));
    arena_destroy(arena);
    arena_destroy(NULL);
}

static void test_limit(void **state)
{
    (void)state;
    struct arena *arena = arena_create(64, 1000);
    size_t got = 0;
    while (arena_take(arena, 48))
        got += 48;
    assert_in_range(got, 700, 1000);
    assert_null(arena_take(arena, SIZE_MAX - 3));
    assert_null(arena_take_zeroed(arena, SIZE_MAX / 2, 16));
    assert_null(arena_copy(arena, text_span("0123456789", 400)).at);
    arena_destroy(arena);
}

static void test_grow_and_text(void **state)
{
    (void)state;
    struct arena *arena = arena_create(128, 0);
    char *piece = arena_grow(arena, NULL, 0, 10);
    memcpy(piece, "0123456789", 10);
    assert_ptr_equal(arena_grow(arena, piece, 10, 60), piece); // newest: in place
    arena_take(arena, 8);
    char *moved = arena_grow(arena, piece, 60, 500);
    assert_ptr_not_equal(moved, piece);
    assert_memory_equal(moved, "0123456789", 10);
    struct text made = arena_format(arena, "%d-%s", 12, "ab");
    assert_true(text_is(made, "12-ab"));
    assert_true(text_equal(arena_copy(arena, made), made));
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_grow_and_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
