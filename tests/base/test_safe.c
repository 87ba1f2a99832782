// SPDX-License-Identifier: Apache-2.0
// Text for logs and terminals: which characters are escaped, which pass, and that any input gives
// one printable line of UTF-8.
#include "base/safe.h"
#include "base/status.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_forms(void **state)
{
    static const struct {
        const char *in, *out;
        size_t bytes; // of `in`; 0: up to the NUL
    } cases[] = {
        {"plain, a b/c?d=%25", "plain, a b/c?d=%25", 0},
        {"Grüße 日本 👩‍🚀 \\n", "Grüße 日本 👩‍🚀 \\n", 0},
        {"a\nb\r\tc", "a\\nb\\r\\tc", 0},
        {"\x1b[31mred\x7f", "\\x1b[31mred\\x7f", 0},
        {"a\0b", "a\\x00b", 3},
        {"\xff\xc3(\xc0\xaf", "\\xff\\xc3(\\xc0\\xaf", 0},
        {"\xed\xa0\x80|\xf4\x90\x80\x80", "\\xed\\xa0\\x80|\\xf4\\x90\\x80\\x80", 0},
        {"\xe2\x82", "\\xe2\\x82", 0},
        {"\xc2\x9b"
         "31m\xc2\x85",
         "\\u{9b}31m\\u{85}", 0},
        {"\xc2\x80\xc2\x9f\xc2\xa0", "\\u{80}\\u{9f}\xc2\xa0", 0},
        {"abc\u202Etxt.exe\u202C", "abc\\u{202e}txt.exe\\u{202c}", 0},
        {"\u2066a\u2069\u200F\u061C", "\\u{2066}a\\u{2069}\\u{200f}\\u{61c}", 0},
        {"a\u2028b\u200Bc\uFEFFd", "a\\u{2028}b\\u{200b}c\\u{feff}d", 0},
        {"\U000E0041", "\\u{e0041}", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[256];
        struct text in =
            cases[i].bytes ? text_span(cases[i].in, cases[i].bytes) : text_of(cases[i].in);
        assert_int_equal(safe_put(out, sizeof out, in), strlen(cases[i].out));
        assert_string_equal(out, cases[i].out);
        assert_string_equal(safe_of(in).at, cases[i].out);
        assert_string_equal(safe_of(text_of(out)).at, cases[i].out); // no change
    }
}

// Bytes of all kinds, biased to the dangerous ones: the output is printable and never too long.
static void test_random_bytes(void **state)
{
    static const char *const pieces[] = {"\n", "\x1b", "\u202E", "\u2069", "\xe2\x80",  "\xc2\x90",
                                         "a",  "é",    "\\",     "\xff",   "\U000E0001"};
    (void)state;
    srand(8);
    for (int round = 0; round < 20000; round++) {
        char in[64], out[80];
        size_t bytes = 0, size = 1 + (size_t)rand() % sizeof out;
        while (bytes < 48) {
            const char *piece = pieces[rand() % (int)(sizeof pieces / sizeof pieces[0])];
            bool byte = rand() % 4 == 0;
            memcpy(in + bytes, piece, strlen(piece));
            in[bytes] = byte ? (char)rand() : in[bytes];
            bytes += byte ? 1 : strlen(piece);
        }
        size_t wrote = safe_put(out, size, text_span(in, bytes));
        assert_true(wrote < size);
        assert_int_equal(strlen(out), wrote);
        for (struct text rest = text_span(out, wrote); rest.bytes > 0;) {
            uint32_t point;
            size_t n = utf8_first(rest, &point);
            assert_true(n > 0 && point >= 0x20 && point != 0x7F && (point < 0x80 || point > 0x9F));
            assert_false(point >= 0x2028 && point <= 0x202E);
            assert_false(point >= 0x2066 && point <= 0x2069);
            rest = text_span(rest.at + n, rest.bytes - n);
        }
    }
}

static void test_long_text_is_cut(void **state)
{
    char in[3000], out[8];
    (void)state;
    memset(in, '\x1b', sizeof in);
    struct safe shown = safe_of(text_span(in, sizeof in));
    assert_true(strlen(shown.at) < sizeof shown.at);
    assert_string_equal(shown.at + strlen(shown.at) - 7, "\\x1b...");
    assert_int_equal(safe_put(out, sizeof out, text_span(in, 9)), 4); // no partial escape
    memset(in, 'a', sizeof in);
    assert_int_equal(strlen(safe_of(text_span(in, sizeof shown.at - 1)).at), sizeof shown.at - 1);
    assert_int_equal(strlen(safe_of(text_span(in, sizeof shown.at)).at), sizeof shown.at - 1);
}

static void test_a_line_is_one_line(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    (void)state;
    safe_line(out, "weft: %s: %d", "x\nweft: all is well", 5);
    fclose(out);
    assert_string_equal(text, "weft: x\\nweft: all is well: 5\n");
    free(text);
}

// The ends of every range of escaped characters, and their neighbours.
static void test_ends_of_escaped_ranges(void **state)
{
    static const uint32_t ranges[][2] = {{0x00, 0x1F},     {0x7F, 0x9F},      {0x61C, 0x61C},
                                         {0x180E, 0x180E}, {0x200B, 0x200B},  {0x200E, 0x200F},
                                         {0x2028, 0x202E}, {0x2060, 0x206F},  {0xFEFF, 0xFEFF},
                                         {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const uint32_t points[] = {ranges[i][0], ranges[i][1], ranges[i][0] - 1, ranges[i][1] + 1};
        for (int k = ranges[i][0] == 0 ? 1 : 0; k < 4; k++) {
            char in[4], out[32];
            if (points[k] > 0x10FFFF)
                continue;
            size_t bytes = utf8_write(points[k], in);
            safe_put(out, sizeof out, text_span(in, bytes));
            assert_int_equal(out[0] == '\\', k < 2);
        }
    }
}

static size_t format(char *to, size_t size, const char *form, ...)
    __attribute__((format(printf, 3, 4)));
static size_t format(char *to, size_t size, const char *form, ...)
{
    va_list args;
    va_start(args, form);
    size_t bytes = safe_format(to, size, form, args);
    va_end(args);
    return bytes;
}

// A line has LINE_BYTES_MAX bytes at most, its end included; nothing is written beyond.
static void test_long_lines_are_cut(void **state)
{
    static char in[2 * LINE_BYTES_MAX], out[3 * LINE_BYTES_MAX];
    char *text = NULL;
    size_t bytes = 0;
    (void)state;
    memset(in, 'x', sizeof in - 1);
    memset(out, '?', sizeof out);
    assert_int_equal(format(out, sizeof out, "%s", in), LINE_BYTES_MAX - 1);
    assert_int_equal(strlen(out), LINE_BYTES_MAX - 1);
    assert_int_equal(out[LINE_BYTES_MAX], '?');
    assert_int_equal(format(out, 10, "%s", in), 9);
    assert_int_equal(format(out, sizeof out, "%s", ""), 0);
    assert_string_equal(out, "");
    FILE *lines = open_memstream(&text, &bytes);
    safe_line(lines, "%s", in);
    fclose(lines);
    assert_in_range(bytes, LINE_BYTES_MAX - 2, LINE_BYTES_MAX);
    assert_int_equal(strspn(text, "x"), bytes - 1);
    assert_int_equal(text[bytes - 1], '\n');
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_long_text_is_cut),
        cmocka_unit_test(test_a_line_is_one_line),
        cmocka_unit_test(test_ends_of_escaped_ranges),
        cmocka_unit_test(test_long_lines_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
