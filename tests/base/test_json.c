// SPDX-License-Identifier: Apache-2.0
// The JSON rules of the wire specification: JSONTestSuite (y_ files are accepted, n_ refused, i_
// either), each line of the rules' table, and numbers that read back to the same bits.
#include "base/file.h"
#include "base/json.h"
#include "base/json_keys.h"
#include "tests/base/counted.h"
#include "tests/assets.h"

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static enum status parse(json_t **out, const char *text, struct error *err)
{
    return json_parse(out, text_of(text), err);
}

static void refuse(const char *text, const char *sentence)
{
    json_t *value;
    struct error err = {0};
    assert_int_equal(parse(&value, text, &err), STATUS_INVALID);
    assert_null(value);
    if (!strstr(err.text, sentence))
        fail_msg("%s does not say %s", err.text, sentence);
}

static void test_rules(void **state)
{
    (void)state;
    json_t *value;
    struct error err;
    assert_int_equal(parse(&value, "\xEF\xBB\xBF{\"a\":1,\"a\":2}", &err), STATUS_OK);
    assert_int_equal(json_integer_value(json_object_get(value, "a")), 2);
    json_decref(value);
    refuse("{\"a\":1} x", "byte");
    refuse("{\"a\":\"\xFF\"}", "decode byte 0xff");
    refuse("{\"a\":1e400}", "overflow");
    refuse("{\"a\":NaN}", "byte");
    refuse("{\"a\":01}", "byte");
    refuse("", "byte 0");
    assert_int_equal(parse(&value, "[\"\\u0000x\"]", &err), STATUS_OK);
    assert_int_equal(json_string_length(json_array_get(value, 0)), 2);
    json_decref(value);
}

// NUL in a key stays NUL at any position, and next to every noncharacter that could replace it
// internally.
static void test_nul_in_keys(void **state)
{
    (void)state;
    static const char text[] = "{\"z\":[{\"a\\u0000b\":1,\"a\":2,\"\\u0000\\uFDD0\":\"\\u0000\"}],"
                               "\"\\ufdd1\xEF\xB7\x92\":3,\"\\u0000\":{\"\\ud800\":4}}";
    static const char want[] =
        "{\"z\":[{\"a\\u0000b\":1,\"a\":2,\"\\u0000\xEF\xB7\x90\":\"\\u0000\"}],"
        "\"\xEF\xB7\x91\xEF\xB7\x92\":3,\"\\u0000\":{\"\xEF\xBF\xBD\":4}}";
    json_t *value;
    struct error err;
    struct json_buffer b = {0};
    assert_int_equal(parse(&value, text, &err), STATUS_OK);
    json_put_value(&b, value);
    assert_int_equal(b.bytes, sizeof want - 1);
    assert_memory_equal(b.at, want, b.bytes);
    json_t *list = json_array_get(json_object_get(value, "z"), 0);
    assert_int_equal(json_integer_value(json_object_getn(list, "a\0b", 3)), 1);
    assert_int_equal(json_object_size(list), 3);
    json_t *copy = json_object_copied(value);
    json_decref(value);
    b.bytes = 0;
    json_put_value(&b, copy);
    assert_memory_equal(b.at, want, sizeof want - 1);
    json_buffer_free(&b);
    json_decref(copy);
    // The last of equal keys wins with a NUL as well.
    assert_int_equal(parse(&value, "{\"\\u0000\":1,\"b\":2,\"\\u0000\":3}", &err), STATUS_OK);
    assert_int_equal(json_object_size(value), 2);
    assert_int_equal(json_integer_value(json_object_getn(value, "\0", 1)), 3);
    json_decref(value);
}

static void test_surrogates(void **state)
{
    (void)state;
    json_t *value;
    struct error err;
    assert_int_equal(
        parse(&value, "[\"\\ud83d\\ude00 \\ud800 \\udc00\\u0041 \\\\ud800 \\ud800\"]", &err),
        STATUS_OK);
    assert_string_equal(json_string_value(json_array_get(value, 0)),
                        "\xF0\x9F\x98\x80 \xEF\xBF\xBD \xEF\xBF\xBD"
                        "A \\ud800 \xEF\xBF\xBD");
    json_decref(value);
    refuse("[\"\\ud800\", \"\\uZZZZ\"]", "byte");
}

static void test_depth(void **state)
{
    (void)state;
    char text[2 * JSON_DEPTH_MAX + 3] = {0};
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    json_t *value;
    struct error err;
    assert_int_equal(parse(&value, text, &err), STATUS_OK);
    json_decref(value);
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    refuse(text, "byte 128");
}

static void test_integers(void **state)
{
    (void)state;
    json_t *value;
    struct error err;
    int64_t got;
    assert_int_equal(parse(&value, "[9007199254740993, 16.0, 1e2, 16.5, \"1\", -5]", &err),
                     STATUS_OK);
    assert_true(json_integer_exact(json_array_get(value, 0), &got) && got == 9007199254740993);
    assert_true(json_integer_exact(json_array_get(value, 1), &got) && got == 16);
    assert_true(json_integer_exact(json_array_get(value, 2), &got) && got == 100);
    assert_false(json_integer_exact(json_array_get(value, 3), &got));
    assert_false(json_integer_exact(json_array_get(value, 4), &got));
    assert_true(json_integer_exact(json_array_get(value, 5), &got) && got == -5);
    json_decref(value);
    assert_int_equal(
        parse(&value, "[99999999999999999999, 7, 9007199254740993, 9007199254740993.0]", &err),
        STATUS_OK);
    assert_false(json_integer_exact(json_array_get(value, 0), &got));
    assert_true(json_integer_exact(json_array_get(value, 1), &got) && got == 7);
    assert_true(json_integer_exact(json_array_get(value, 2), &got) && got == 9007199254740993);
    assert_false(json_integer_exact(json_array_get(value, 3), &got)); // not exact as a double
    json_decref(value);
}

static void expect_written(const json_t *value, const char *text)
{
    struct json_buffer b = {0};
    json_put_value(&b, value);
    if (!text_is(json_buffer_text(&b), text))
        fail_msg("%.*s is not %s", (int)b.bytes, b.at, text);
    json_buffer_free(&b);
}

// Integers beyond int64 become the nearest doubles and keep their digits; values next to them are
// unchanged.
static void test_wide_integers(void **state)
{
    (void)state;
    static const char *const wide[] = {
        "9223372036854775808",  "-9223372036854775809", "18446744073709551615",
        "9223372036854776832",  "9223372036854776833",  "9223372036854776831",
        "99999999999999999999", "9999999999999999999",  "-123456789012345678901234567890",
    };
    static const char *const narrow[] = {"9223372036854775807", "-9223372036854775808"};
    json_t *value;
    struct error err;
    char text[400];
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        snprintf(text, sizeof text, "{\"9223372036854775808\":[\"\\ud800%s\",%s,%s.5]}", wide[i],
                 wide[i], wide[i]);
        assert_int_equal(parse(&value, text, &err), STATUS_OK);
        const json_t *list = json_object_get(value, "9223372036854775808");
        assert_string_equal(json_string_value(json_array_get(list, 0)) + 3, wide[i]);
        assert_true(json_is_real(json_array_get(list, 1)));
        assert_true(json_real_value(json_array_get(list, 1)) == strtod(wide[i], NULL));
        assert_true(text_is(json_integer_digits(json_array_get(list, 1)), wide[i]));
        assert_null(json_integer_digits(json_array_get(list, 0)).at);
        assert_null(json_integer_digits(json_array_get(list, 2)).at);
        expect_written(json_array_get(list, 1), wide[i]);
        snprintf(text, sizeof text, "%s.5", wide[i]);
        assert_true(json_real_value(json_array_get(list, 2)) == strtod(text, NULL));
        json_decref(value);
    }
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        assert_int_equal(parse(&value, narrow[i], &err), STATUS_OK);
        assert_true(json_integer_value(value) == strtoll(narrow[i], NULL, 10));
        assert_true(json_is_integer(value));
        assert_null(json_integer_digits(value).at);
        json_decref(value);
    }
    refuse("[18446744073709551615, x]", "byte 24");
    refuse("[0018446744073709551615]", "byte");
    refuse("{18446744073709551615:1}", "byte");
    refuse("{-18446744073709551615 :1}", "byte");
    refuse("[18446744073709551615-1]", "byte");
    refuse("[\"a\"18446744073709551615]", "byte");
    refuse("[--18446744073709551615]", "byte");
}

// Integers may be as long as Python allows; those beyond the range of doubles are the largest one.
static void test_long_integers(void **state)
{
    (void)state;
    static char text[JSON_DIGITS_MAX + 8];
    json_t *value;
    struct error err;
    for (size_t digits = 300; digits <= JSON_DIGITS_MAX; digits += digits == 310 ? 3990 : 1) {
        text[0] = '-';
        memset(text + 1, '9', digits);
        text[1 + digits] = '\0';
        assert_int_equal(parse(&value, text, &err), STATUS_OK);
        assert_true(json_real_value(value) == (digits > 308 ? -DBL_MAX : strtod(text, NULL)));
        assert_true(text_is(json_integer_digits(value), text));
        expect_written(value, text);
        json_decref(value);
    }
    memset(text, '9', JSON_DIGITS_MAX + 1);
    text[JSON_DIGITS_MAX + 1] = '\0';
    refuse(text, "byte 0: an integer of over 4300 digits");
}

#define FDD0 "\xEF\xB7\x90" // U+FDD0
#define FDD1 "\xEF\xB7\x91"

// Wide integers in every place of a value, next to strings that look like their stand-ins, and next
// to keys with NUL.
static void test_wide_integers_in_their_places(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "18446744073709551615",
        "{\"a\":18446744073709551615,\"b\":[-18446744073709551616,{\"c\":[99999999999999999999]}]}",
        "[\"" FDD0 "18446744073709551615\",18446744073709551615]",
        "[\"" FDD0 FDD1 "\",\"" FDD0 "0000000000001\",-18446744073709551615,1e30]",
        "{\"\\u0000\":18446744073709551615,\"x\":\"18446744073709551615\"}",
        "[1.5,18446744073709551615,7,1e23,100000000000000000000000]",
    };
    struct error err;
    json_t *value;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(parse(&value, texts[i], &err), STATUS_OK);
        expect_written(value, texts[i]);
        json_decref(value);
    }
    // The last of equal keys is used.
    assert_int_equal(parse(&value, "{\"a\":18446744073709551615,\"a\":18446744073709551616}", &err),
                     STATUS_OK);
    expect_written(value, "{\"a\":18446744073709551616}");
    json_decref(value);
}

// A short form of the suite below, whose files are optional.
static void test_syntax(void **state)
{
    (void)state;
    // clang-format off
    static const char *const good[] = {
        "0", "-0", "-0.0e+1", "[]", "{}", " [ 1 ,\t2\r\n] ", "\"\"", "null", "true", "[[[[1]]]]",
        "{\"a\":{\"b\":[{}]}}", "\"\\u00e9\\ud83d\\ude00\\\"\\/\"", "\"\x7f\"", "\"\\u0000\"",
        "{\"\":0}", "[1,1]", "-1", "1.5e-3", "\"\xc3\xa9\"",
    };
    static const char *const bad[] = {
        "", " ", "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x1", "Infinity", "NaN", "nul", "True",
        "[1,]", "[,1]", "[1 2]", "[1", "]", "{\"a\":}", "{\"a\" 1}", "{a:1}", "{\"a\":1,}",
        "{1:1}", "{\"a\":1", "'a'", "\"a", "\"\\x41\"", "\"\\u12\"", "\"\\ud800\\n", "\"\n\"",
        "\"\t\"", "\"\x01\"", "\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "1 2", "[] x", "/**/1", "[1]//", "[\x0c]", "--1",
        "1e1.5", "\\u0031", "[\"a\",\n", "{\"a\":\"b\":\"c\"}", "{\"a\",1}", "[-]", "[1e]",
    };
    // clang-format on
    struct error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        json_t *value = NULL;
        if (json_parse(&value, text_of(good[i]), &err) != STATUS_OK)
            fail_msg("%s: %s", good[i], err.text);
        json_decref(value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *value = NULL;
        if (json_parse(&value, text_of(bad[i]), &err) == STATUS_OK)
            fail_msg("%s was accepted", bad[i]);
    }
}

static void test_suite(void **state)
{
    (void)state;
    const char *folder = assets_path("schema/JSONTestSuite/test_parsing");
    DIR *listing = opendir(folder);
    if (!listing) {
        print_message("%s: not there, so the suite is left out\n", folder);
        return;
    }
    int accepted = 0, refused = 0;
    struct dirent *entry;
    struct arena *arena = arena_create(0, 0);
    while ((entry = readdir(listing)) != NULL) {
        if (!strstr(entry->d_name, ".json"))
            continue;
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        struct text content;
        struct error err;
        assert_int_equal(file_read(&content, arena, path, 1 << 20, &err), STATUS_OK);
        json_t *value;
        enum status status = json_parse(&value, content, &err);
        if (entry->d_name[0] == 'y' && status != STATUS_OK)
            fail_msg("%s: %s", entry->d_name, err.text);
        if (entry->d_name[0] == 'n' && status == STATUS_OK)
            fail_msg("%s was accepted", entry->d_name);
        accepted += status == STATUS_OK;
        refused += status != STATUS_OK;
        json_decref(value);
    }
    closedir(listing);
    arena_destroy(arena);
    print_message("JSONTestSuite: %d accepted, %d refused\n", accepted, refused);
    assert_true(accepted + refused > 200);
}

static int numbers = 60000; // random numbers in test_numbers_read_back

static void test_numbers_read_back(void **state)
{
    (void)state;
    struct json_buffer b = {0};
    uint32_t bits = 12345;
    for (int i = 0; i < numbers; i++) {
        bits = bits * 1664525u + 1013904223u;
        float value;
        memcpy(&value, &bits, sizeof value);
        if (i % 2 == 0) // values in the range of embeddings
            value = (float)(bits >> 8) * 0x1p-24f - 0.5f;
        if (!isfinite(value))
            continue;
        b.bytes = 0;
        json_put_float(&b, value);
        json_put_raw(&b, text_span("", 1));
        assert_true(strtof(b.at, NULL) == value);
        char shortest[40];
        int precision = 0;
        do
            snprintf(shortest, sizeof shortest, "%.*e", precision++, (double)value);
        while (strtof(shortest, NULL) != value);
        int digits = 0; // number of significant digits written
        int zeros = 0;
        for (const char *at = b.at; *at != '\0' && *at != 'e'; at++)
            if (*at >= '0' && *at <= '9') {
                zeros = *at == '0' ? zeros + (digits > 0) : 0;
                digits += *at != '0' || digits > 0;
            }
        if (digits - zeros > precision)
            fail_msg("%s is longer than %s", b.at, shortest);
    }
    b.bytes = 0;
    json_put_float(&b, -0.0f);
    json_put_literal(&b, " ");
    json_put_double(&b, 0.1);
    json_put_literal(&b, " ");
    json_put_double(&b, -1e300);
    json_put_literal(&b, " ");
    json_put_double(&b, 100);
    assert_true(text_is(text_span(b.at, b.bytes), "0.0 0.1 -1e300 100.0"));
    json_buffer_free(&b);
}

static void test_strings(void **state)
{
    (void)state;
    struct json_buffer b = {0};
    json_put_string(&b, text_span("a\"\\\b\f\n\r\t\x01\x7F\0z\xE2\x80\xA8", 15));
    assert_true(text_is(text_span(b.at, b.bytes),
                        "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007f\\u0000z\xE2\x80\xA8\""));
    json_t *value;
    struct error err;
    assert_int_equal(parse(&value, "{\"b\":[1,2.5,null,true,\"x\"],\"a\":{}}", &err), STATUS_OK);
    b.bytes = 0;
    json_put_value(&b, value);
    assert_true(text_is(text_span(b.at, b.bytes), "{\"b\":[1,2.5,null,true,\"x\"],\"a\":{}}"));
    json_decref(value);
    json_buffer_free(&b);
}

static void test_unsigned_numbers(void **state)
{
    struct json_buffer b = {0};
    (void)state;
    json_put_unsigned(&b, 0);
    json_put_literal(&b, " ");
    json_put_unsigned(&b, 1203);
    json_put_literal(&b, " ");
    json_put_unsigned(&b, UINT64_MAX);
    assert_true(text_is(text_span(b.at, b.bytes), "0 1203 18446744073709551615"));
    json_buffer_free(&b);
}

// Writing stops when the output exceeds its limit, and long strings are not started.
static void test_writing_within_a_bound(void **state)
{
    enum { MOST = 100, LONG = 1 << 20 };
    static char text[4 * LONG];
    struct json_buffer b = {0};
    struct error err;
    json_t *value;
    (void)state;
    for (int more = 0; more < 2; more++) {
        int n = sprintf(text, "{\"k\":[1,2.5,null],\"l\":\"");
        memset(text + n, 'x', (size_t)(MOST - n - 2 + more));
        strcpy(text + MOST - 2 + more, "\"}");
        assert_int_equal(parse(&value, text, &err), STATUS_OK);
        b.bytes = 0;
        assert_int_equal(json_put_value_within(&b, value, MOST), !more);
        assert_true(more || text_is(text_span(b.at, b.bytes), text));
        json_decref(value);
    }
    static const char *const forms[][2] = {
        {"[\"", "\"]"}, {"{\"", "\":1}"}, {"[[[[{\"a\":\"", "\"}]]]]"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char *at = stpcpy(text, forms[i][0]);
        memset(at, 'x', LONG);
        strcpy(at + LONG, forms[i][1]);
        assert_int_equal(parse(&value, text, &err), STATUS_OK);
        b.bytes = 0;
        assert_false(json_put_value_within(&b, value, MOST));
        assert_true(b.bytes_allocated <= 1024);
        json_decref(value);
    }
    char *at = text;
    *at++ = '[';
    for (int i = 0; i < LONG; i++, at += 2)
        memcpy(at, "1,", 2);
    strcpy(at, "1]");
    assert_int_equal(parse(&value, text, &err), STATUS_OK);
    b.bytes = 0;
    assert_false(json_put_value_within(&b, value, MOST));
    assert_true(b.bytes_allocated <= 1024);
    json_decref(value);
    json_buffer_free(&b);
}

// A text is parsed in slices in proportion to its bytes, and parsing can be stopped after any
// slice.
static void test_slices(void **state)
{
    (void)state;
    enum { BYTES = 80000, EACH = 1000 };
    static char text[BYTES + 1];
    for (int mended = 0; mended < 2; mended++) { // a lone surrogate needs a second scan
        memset(text, 'x', BYTES);
        memcpy(text, mended ? "[\"\\ud800" : "[\"xxxxxx", 8);
        memcpy(text + BYTES - 2, "\"]", 2);
        json_t *value;
        struct error err;
        struct slice slice = counted_begin(EACH, 0);
        struct text in = text_span(text, BYTES);
        assert_int_equal(json_parse_in_slices(&value, in, &slice, &err), STATUS_OK);
        assert_int_equal(json_string_length(json_array_get(value, 0)), BYTES - (mended ? 7 : 4));
        json_decref(value);
        uint32_t all = (BYTES + (mended + 1) * BYTES / 8) / EACH;
        assert_int_equal(counted.passes, all);
        for (uint32_t stop = 1; stop <= all; stop++) {
            slice = counted_begin(EACH, stop);
            enum status status = json_parse_in_slices(&value, in, &slice, &err);
            if (stop == all && status == STATUS_OK) { // it had finished
                json_decref(value);
                break;
            }
            assert_int_equal(status, STATUS_UNWANTED);
            assert_null(value);
            assert_int_equal(counted.passes, stop);
        }
    }
}

// The nearest double of many powers of ten is below them, so it has one digit less.
static void test_powers_of_ten(void **state)
{
    (void)state;
    for (int power = 19; power <= 308; power++)
        for (int minus = 0; minus < 2; minus++) {
            char text[320] = "-1";
            size_t bytes = (size_t)minus + 1 + (size_t)power;
            memset(text + 2, '0', (size_t)power);
            text[2 + power] = '\0';
            json_t *value;
            struct error err;
            struct text in = text_span(text + 1 - minus, bytes);
            assert_int_equal(json_parse(&value, in, &err), STATUS_OK);
            assert_true(json_real_value(value) == strtod(text + 1 - minus, NULL));
            expect_written(value, in.at);
            json_decref(value);
        }
}

// Integers beyond int64 cost more work than their bytes: each is replaced while parsing.
static void test_wide_integers_are_counted(void **state)
{
    (void)state;
    static const char one[] = "99999999999999999999,";
    enum { COUNT = 1000, EACH = 1000, PIECE = sizeof one - 1 };
    static char text[COUNT * PIECE + 2];
    uint32_t passes[2];
    for (int wide = 0; wide < 2; wide++) {
        text[0] = '[';
        for (size_t i = 0; i < COUNT; i++) {
            memcpy(text + 1 + i * PIECE, one, PIECE);
            if (!wide)
                text[1 + i * PIECE + 10] = '.';
        }
        text[COUNT * PIECE] = ']';
        json_t *value;
        struct error err;
        struct slice slice = counted_begin(EACH, 0);
        struct text in = text_span(text, COUNT * PIECE + 1);
        assert_int_equal(json_parse_in_slices(&value, in, &slice, &err), STATUS_OK);
        assert_int_equal(json_array_size(value), COUNT);
        json_decref(value);
        passes[wide] = counted.passes;
    }
    assert_true(passes[1] >= passes[0] + COUNT * 100 / EACH);
}

static void test_files(void **state)
{
    (void)state;
    json_t *value;
    struct error err;
    assert_int_equal(json_file_parse(&value, "no/such/file.json", 100, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "no/such/file.json"));
    assert_int_equal(json_file_parse(&value, WEFT_SOURCE_DIR "/CMakePresets.json", 10, &err),
                     STATUS_TOO_LARGE);
    assert_int_equal(json_file_parse(&value, WEFT_SOURCE_DIR "/CMakeLists.txt", 1 << 20, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "CMakeLists.txt: invalid JSON at byte"));
    assert_int_equal(json_file_parse(&value, WEFT_SOURCE_DIR, 10, &err), STATUS_IO);
}

// usage: test_json [all: more random numbers]
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        numbers = 500000;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules),
                                       cmocka_unit_test(test_nul_in_keys),
                                       cmocka_unit_test(test_surrogates),
                                       cmocka_unit_test(test_depth),
                                       cmocka_unit_test(test_integers),
                                       cmocka_unit_test(test_wide_integers),
                                       cmocka_unit_test(test_long_integers),
                                       cmocka_unit_test(test_wide_integers_in_their_places),
                                       cmocka_unit_test(test_powers_of_ten),
                                       cmocka_unit_test(test_syntax),
                                       cmocka_unit_test(test_suite),
                                       cmocka_unit_test(test_numbers_read_back),
                                       cmocka_unit_test(test_strings),
                                       cmocka_unit_test(test_unsigned_numbers),
                                       cmocka_unit_test(test_writing_within_a_bound),
                                       cmocka_unit_test(test_slices),
                                       cmocka_unit_test(test_wide_integers_are_counted),
                                       cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
