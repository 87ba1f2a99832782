// SPDX-License-Identifier: Apache-2.0
// Sources of API keys: options, a file, the environment. A key is generated only on a loopback
// address.
#include "cli/keys.h"
#include "http/key_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct arena *arena;

static void test_a_generated_key(void **state)
{
    (void)state;
    unsetenv("WEFT_API_KEY");
    static const char *const loopback[] = {"127.0.0.1", "127.8.9.1", "::1", "localhost"};
    static const char *const open[] = {"0.0.0.0", "::", "10.0.0.1", "example.org"};
    struct serve_keys a, b;
    struct error err;
    for (int i = 0; i < 4; i++) {
        struct serve_settings s = {.host = loopback[i]};
        assert_int_equal(keys_collect(&a, &s, arena, &err), STATUS_OK);
        assert_true(a.made && a.list.count == 1);
        assert_int_equal(keys_collect(&b, &s, arena, &err), STATUS_OK);
        assert_string_not_equal(a.list.at[0], b.list.at[0]);
        s.host = open[i];
        assert_int_equal(keys_collect(&a, &s, arena, &err), STATUS_REFUSED);
        assert_non_null(strstr(err.text, "--api-key"));
    }
}

static void test_given_keys(void **state)
{
    (void)state;
    char path[] = "/tmp/weft-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(write(fd, "# two keys\nk2\n\nk3\r\n", 19) == 19);
    close(fd);
    const char *given[] = {"k1"};
    struct serve_settings s = {.host = "0.0.0.0", .api_keys = {given, 1}, .api_key_file = path};
    struct serve_keys keys;
    struct error err;
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_OK);
    assert_false(keys.made);
    assert_int_equal(keys.list.count, 3);
    assert_string_equal(keys.list.at[2], "k3");
    unlink(path);
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_NOT_FOUND);
    setenv("WEFT_API_KEY", "from-environment", 1);
    s = (struct serve_settings){.host = "0.0.0.0"};
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_OK);
    assert_string_equal(keys.list.at[0], "from-environment");
    unsetenv("WEFT_API_KEY");
    const char *bad[] = {"has space"};
    s.api_keys = (struct texts){bad, 1};
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_INVALID);
}

static enum status keys_of_bytes(struct serve_keys *keys, struct arena *room, const char *at,
                                 size_t bytes, struct error *err)
{
    char path[] = "/tmp/weft-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(write(fd, at, bytes) == (ssize_t)bytes);
    close(fd);
    enum status status = keys_of_file(keys, path, room, err);
    unlink(path);
    return status;
}

// A NUL would end the list at the key that contains it.
static void test_a_nul_in_a_key_file(void **state)
{
    (void)state;
    static const char *const files[] = {"ab\0cd\nef\n", "abcd\n\0ef\n", "abcdef\n\n\0"};
    struct serve_keys keys;
    struct error err;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(keys_of_bytes(&keys, arena, files[i], 9, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "NUL"));
    }
}

// A file without a key is refused, even if another source gives one.
static void test_a_file_of_no_key(void **state)
{
    (void)state;
    static const char *const files[] = {"", "\n\r\n", "# one\n#two"};
    const char *given[] = {"k1"};
    struct serve_keys keys;
    struct error err;
    setenv("WEFT_API_KEY", "from-environment", 1);
    for (int i = 0; i < 6; i++) {
        const char *text = files[i % 3];
        char path[] = "/tmp/weft-keys-XXXXXX";
        int fd = mkstemp(path);
        assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
        close(fd);
        struct serve_settings s = {.host = "0.0.0.0", .api_key_file = path};
        s.api_keys = (struct texts){given, i < 3 ? 1 : 0};
        assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, " contains no key"));
        unlink(path);
    }
    unsetenv("WEFT_API_KEY");
}

// A bad line is refused with file and line number, whatever the line ends are.
static void test_bad_line(void **state)
{
    (void)state;
    static const char *const files[] = {"# one\n\nk3\nk4 \nk5\n", "k1\r\n\r\n#\r\n\xE4\r\n",
                                        "\n\n\na b"};
    struct serve_keys keys;
    struct error err;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(keys_of_bytes(&keys, arena, files[i], strlen(files[i]), &err),
                         STATUS_INVALID);
        const char *at = strstr(err.text, " line 4: an API key must be ");
        assert_non_null(at);
        assert_ptr_equal(strstr(err.text, "/tmp/weft-keys-"), err.text);
    }
}

static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    struct arena *room = arena_create(0, 0);
    char *text = arena_alloc(room, COUNT * 6 + 1);
    for (int i = 0; i < COUNT; i++)
        snprintf(text + i * 6, 7, "k%04u\n", (unsigned)i % COUNT);
    struct serve_keys keys;
    struct error err;
    assert_int_equal(keys_of_bytes(&keys, room, text, COUNT * 6, &err), STATUS_OK);
    assert_int_equal(keys.list.count, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(atoi(keys.list.at[i] + 1), i);
    assert_in_range(arena_bytes(room), 1, 1 << 20);
    arena_destroy(room);
}

static bool is_blank(const char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != '\0')
            return false;
    return true;
}

// Option, file with its comments, environment: no key text is left in memory.
static void test_wiped(void **state)
{
    (void)state;
    static const char text[] = "# was k0\nk2\n";
    char path[] = "/tmp/weft-keys-XXXXXX", argument[] = "k1";
    int fd = mkstemp(path);
    assert_true(write(fd, text, sizeof text - 1) == sizeof text - 1);
    close(fd);
    const char *given[] = {argument};
    struct serve_settings s = {.host = "0.0.0.0", .api_keys = {given, 1}, .api_key_file = path};
    struct serve_keys keys;
    struct error err;
    setenv("WEFT_API_KEY", "from-environment", 1);
    const char *environment = getenv("WEFT_API_KEY");
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_OK);
    assert_int_equal(keys.list.count, 2);
    assert_int_equal(keys.file.bytes, sizeof text - 1);
    keys_wipe(&keys);
    assert_true(is_blank(argument, 2));
    assert_true(is_blank(environment, strlen("from-environment")));
    assert_true(is_blank(keys.file.at, keys.file.bytes));
    assert_int_equal(keys.list.count, 0);
    unsetenv("WEFT_API_KEY");
    unlink(path);
}

// Keys are numbered in the log in this order: options, then the file. The environment is read only
// if neither gives a key.
static void test_order_of_sources(void **state)
{
    (void)state;
    char path[] = "/tmp/weft-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(write(fd, "f1\nf2", 5) == 5);
    close(fd);
    const char *given[] = {"o1", "o2"};
    struct serve_settings s = {.host = "0.0.0.0", .api_keys = {given, 2}, .api_key_file = path};
    struct serve_keys keys;
    struct error err;
    setenv("WEFT_API_KEY", "e", 1);
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_OK);
    static const char *const wanted[] = {"o1", "o2", "f1", "f2"};
    assert_int_equal(keys.list.count, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(keys.list.at[i], wanted[i]);
    s.api_keys.count = 0;
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_OK);
    assert_int_equal(keys.list.count, 2);
    s.api_key_file = NULL;
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_OK);
    assert_int_equal(keys.list.count, 1);
    assert_string_equal(keys.list.at[0], "e");
    assert_false(keys.made);
    setenv("WEFT_API_KEY", "a b", 1);
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_INVALID);
    assert_ptr_equal(strstr(err.text, "WEFT_API_KEY: "), err.text);
    setenv("WEFT_API_KEY", "", 1); // same as unset
    s.host = "127.0.0.1";
    assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_OK);
    assert_true(keys.made);
    unsetenv("WEFT_API_KEY");
    unlink(path);
}

// A generated key contains 160 random bits in characters that need no quotes, and the server
// accepts it.
static void test_form_of_a_generated_key(void **state)
{
    (void)state;
    struct serve_settings s = {.host = "localhost"};
    struct serve_keys keys;
    struct error err;
    unsetenv("WEFT_API_KEY");
    bool seen_letter[128] = {false};
    int letters = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(keys_collect(&keys, &s, arena, &err), STATUS_OK);
        const char *key = keys.list.at[0];
        assert_int_equal(strlen(key), 37);
        assert_int_equal(strncmp(key, "weft-", 5), 0);
        assert_int_equal(strspn(key + 5, "abcdefghijklmnopqrstuvwxyz234567"), 32);
        for (const char *at = key + 5; *at != '\0'; at++) {
            letters += !seen_letter[(unsigned char)*at];
            seen_letter[(unsigned char)*at] = true;
        }
        assert_int_equal(key_check(key, &err), STATUS_OK);
    }
    assert_int_equal(letters, 32); // all 32 occur among 640
}

static void test_rules(void **state)
{
    (void)state;
    char key[514];
    struct error err;
    memset(key, 'k', sizeof key);
    key[513] = '\0';
    assert_int_equal(key_check(key, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "1 to 512 printable ASCII characters"));
    key[512] = '\0';
    assert_int_equal(key_check(key, &err), STATUS_OK);
    static const char *const good[] = {"!", "~", "a:b,c\"d'e"}, *const bad[] = {"", " ", "a\x7f",
                                                                                "\x1f", "\x80"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(key_check(good[i], &err), STATUS_OK);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(key_check(bad[i], &err), STATUS_INVALID);
    static const char *const loopback[] = {"127.0.0.1", "127.255.255.255", "::1", "localhost"};
    static const char *const open[] = {"126.0.0.1", "128.0.0.1",        "::", "::2",
                                       "Localhost", "::ffff:127.0.0.1", "",   "127.1"};
    for (size_t i = 0; i < 4; i++)
        assert_true(host_is_loopback(loopback[i]));
    for (size_t i = 0; i < 8; i++)
        assert_false(host_is_loopback(open[i]));
}

// A check of the arguments does not need the key file to exist.
static void test_options_are_checked_without_the_file(void **state)
{
    (void)state;
    const char *bad[] = {"fine", "a b"};
    struct error err;
    struct serve_settings s = {.host = "0.0.0.0", .api_key_file = "/nonexistent"};
    unsetenv("WEFT_API_KEY");
    assert_int_equal(keys_options_check(&s, &err), STATUS_OK);
    s.api_keys = (struct texts){bad, 2};
    assert_int_equal(keys_options_check(&s, &err), STATUS_INVALID);
    assert_ptr_equal(strstr(err.text, "--api-key: "), err.text);
    s = (struct serve_settings){.host = "0.0.0.0"};
    assert_int_equal(keys_options_check(&s, &err), STATUS_REFUSED);
    setenv("WEFT_API_KEY", "e", 1);
    assert_int_equal(keys_options_check(&s, &err), STATUS_OK);
    unsetenv("WEFT_API_KEY");
}

int main(void)
{
    arena = arena_create(0, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_generated_key),
                                       cmocka_unit_test(test_given_keys),
                                       cmocka_unit_test(test_a_nul_in_a_key_file),
                                       cmocka_unit_test(test_a_file_of_no_key),
                                       cmocka_unit_test(test_bad_line),
                                       cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_wiped),
                                       cmocka_unit_test(test_order_of_sources),
                                       cmocka_unit_test(test_form_of_a_generated_key),
                                       cmocka_unit_test(test_rules),
                                       cmocka_unit_test(test_options_are_checked_without_the_file)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(arena);
    return failed;
}
