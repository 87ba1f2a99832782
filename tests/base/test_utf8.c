// SPDX-License-Identifier: Apache-2.0
// UTF-8 over every character and every sequence of three bytes, compared with a table of encodings;
// cuts at every offset.
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { LAST = 0x10FFFF };

static bool is_character(uint32_t c)
{
    return c <= LAST && (c < 0xD800 || c > 0xDFFF);
}

static void test_every_character_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= LAST; c++) {
        char at[8] = "ab";
        size_t bytes = utf8_write(c, at + 2), read = 0;
        if (!is_character(c)) {
            assert_int_equal(utf8_valid(at + 2, bytes), 0);
            continue;
        }
        uint32_t first = 0;
        assert_int_equal(bytes, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        assert_int_equal(utf8_valid(at + 2, bytes), bytes);
        assert_int_equal(utf8_length(at + 2), bytes);
        assert_int_equal(utf8_read(at + 2, &read), c);
        assert_int_equal(read, bytes);
        assert_int_equal(utf8_first(text_span(at + 2, bytes), &first), bytes);
        assert_int_equal(first, c);
        assert_int_equal(utf8_before(at, 2 + bytes), 2);
        assert_int_equal(utf8_complete(at, 2 + bytes), 2 + bytes);
        for (size_t cut = 1; cut < bytes; cut++) {
            assert_int_equal(utf8_valid(at + 2, cut), 0);
            assert_true(utf8_is_beginning(at + 2, cut));
            assert_int_equal(utf8_complete(at, 2 + cut), 2);
            assert_int_equal(utf8_bad_length(at + 2, cut), cut);
        }
        assert_false(utf8_is_beginning(at + 2, bytes));
    }
}

// Length of the character that begins with these three bytes, of which a four-byte character may be
// incomplete; 0: none.
static unsigned char wanted[1 << 24];

static void test_every_three_bytes(void **state)
{
    (void)state;
    for (uint32_t c = 0x80; c <= LAST; c++) {
        unsigned char at[4] = {0};
        if (!is_character(c))
            continue;
        size_t bytes = utf8_write(c, (char *)at);
        uint32_t place = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8;
        for (uint32_t last = 0; bytes == 2 && last < 256; last++)
            wanted[place | last] = 2;
        if (bytes > 2)
            wanted[place | at[2]] = (unsigned char)bytes;
    }
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < sizeof wanted; i++) {
        char at[3] = {(char)(i >> 16), (char)(i >> 8), (char)i};
        size_t length = i >> 16 < 0x80 ? 1 : wanted[i] == 4 ? 0 : wanted[i];
        wrong += utf8_valid(at, 3) != length || utf8_is_beginning(at, 3) != (wanted[i] == 4);
    }
    assert_int_equal(wrong, 0);
}

static void test_one_replacement_per_invalid_sequence(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"plain text", "plain text"},
        {"a\xFFz", "a\xEF\xBF\xBDz"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"}, // overlong
        {"\xE2\x82", "\xEF\xBF\xBD"},             // cut
        {"\xE2\x82"
         "A",
         "\xEF\xBF\xBD"
         "A"},                                                    // cut inside
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, // a surrogate
        {"\xF0\x9F\x98\x80\x80", "\xF0\x9F\x98\x80\xEF\xBF\xBD"}, // one byte too many
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, // over U+10FFFF
    };
    struct arena *arena = arena_create(0, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text out = utf8_lossy(arena, text_of(rows[i].in));
        assert_true(text_is(out, rows[i].out));
        assert_int_equal(utf8_valid_prefix(out), out.bytes);
    }
    arena_destroy(arena);
}

static void test_hexadecimal_digits(void **state)
{
    (void)state;
    assert_int_equal(text_hex_read(text_of("00fF"), 4), 0xFF);
    assert_int_equal(text_hex_read(text_of("FFFFFFFF0"), 8), 0xFFFFFFFF);
    assert_int_equal(text_hex_read(text_of("12"), 3), -1);
    assert_int_equal(text_hex_read(text_of("1g"), 2), -1);
    assert_int_equal(text_hex_read(text_of("@0"), 2), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character_is_read_as_it_was_written),
        cmocka_unit_test(test_every_three_bytes),
        cmocka_unit_test(test_one_replacement_per_invalid_sequence),
        cmocka_unit_test(test_hexadecimal_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
