// SPDX-License-Identifier: Apache-2.0
// Origins accepted by --allowed-origins and the pages that they allow.
#include "http/cors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char *origin_of(const struct cors *cors, const char *origin)
{
    struct text found = cors_origin(cors, text_of(origin));
    return found.at ? found.at : "none";
}

static void test_listed_origins_alone(void **state)
{
    static const char *const list[] = {"https://App.example, http://localhost:3000",
                                       "tauri://localhost,http://[::1]:80"};
    struct cors cors;
    struct error err;
    (void)state;
    assert_int_equal(cors_open(&cors, list, 2, &err), STATUS_OK);
    assert_int_equal(cors.count, 4);
    assert_string_equal(origin_of(&cors, "http://[::1]:80"), "http://[::1]:80");
    assert_false(cors.any);
    assert_string_equal(origin_of(&cors, "https://app.example"), "https://app.example");
    assert_string_equal(origin_of(&cors, "http://localhost:3000"), "http://localhost:3000");
    assert_string_equal(origin_of(&cors, "tauri://localhost"), "tauri://localhost");
    static const char *const others[] = {"https://app.example.org",
                                         "https://app.exampl",
                                         "http://app.example",
                                         "https://app.example:443",
                                         "http://localhost",
                                         "null",
                                         "*",
                                         ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_string_equal(origin_of(&cors, others[i]), "none");
    cors_close(&cors);
}

static void test_a_star_is_all_of_them(void **state)
{
    static const char *const list[] = {"http://a,*"};
    struct cors cors;
    struct error err;
    (void)state;
    assert_int_equal(cors_open(&cors, list, 1, &err), STATUS_OK);
    assert_true(cors.any);
    assert_string_equal(origin_of(&cors, "null"), "*");
    assert_string_equal(origin_of(&cors, ""), "none"); // not from a page
    cors_close(&cors);
}

static void test_no_list_lets_nobody_in(void **state)
{
    struct cors cors;
    struct error err;
    (void)state;
    assert_int_equal(cors_open(&cors, NULL, 0, &err), STATUS_OK);
    assert_string_equal(origin_of(&cors, "http://a"), "none");
    cors_close(&cors);
}

static void test_what_is_no_origin_is_named(void **state)
{
    static const char *const wrong[] = {
        "",          "app.example", "https://",   "https:/a",       "https://a/",
        "://a",      "1a://b",      "https://a?", "https://u@host", "https://a b",
        "http://a,", "null",        "**",         "http://a,,",     "https://a\r\nx: y"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct cors cors;
        struct error err;
        if (cors_open(&cors, &wrong[i], 1, &err) != STATUS_INVALID)
            fail_msg("'%s' was taken", wrong[i]);
        assert_non_null(strstr(err.text, "--allowed-origins: "));
        cors_close(&cors);
    }
}

static void test_names_of_headers(void **state)
{
    static char longest[1026];
    (void)state;
    assert_true(cors_names_are_fine(text_of("authorization, content-type,x-stainless-os")));
    assert_false(cors_names_are_fine(text_of("")));
    assert_false(cors_names_are_fine(text_of("a\r\nb: c")));
    assert_false(cors_names_are_fine(text_of("a: b")));
    assert_false(cors_names_are_fine(text_span("a\0b", 3)));
    memset(longest, 'a', 1025);
    assert_true(cors_names_are_fine(text_span(longest, 1024)));
    assert_false(cors_names_are_fine(text_span(longest, 1025)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listed_origins_alone),
        cmocka_unit_test(test_a_star_is_all_of_them),
        cmocka_unit_test(test_no_list_lets_nobody_in),
        cmocka_unit_test(test_what_is_no_origin_is_named),
        cmocka_unit_test(test_names_of_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
