// Where API keys come from: options, a file, the environment; one is generated on loopback only.
#include "cli/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct arena *arena;

static void test_made(void **state)
{
    (void)state;
    unsetenv("WEFT_API_KEY");
    static const char *const loopback[] = {"127.0.0.1", "127.8.9.1", "::1", "localhost"};
    static const char *const open[] = {"0.0.0.0", "::", "10.0.0.1", "example.org"};
    struct keys a, b;
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

static void test_given(void **state)
{
    (void)state;
    char path[] = "/tmp/weft-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(write(fd, "# two keys\nk2\n\nk3\r\n", 19) == 19);
    close(fd);
    const char *given[] = {"k1"};
    struct serve_settings s = {.host = "0.0.0.0", .api_keys = {given, 1}, .api_key_file = path};
    struct keys keys;
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

static enum status keys_of_bytes(struct keys *keys, struct arena *room, const char *at,
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

// A NUL would end the list at the key it stands in.
static void test_no_text(void **state)
{
    (void)state;
    static const char *const files[] = {"ab\0cd\nef\n", "abcd\n\0ef\n", "abcdef\n\n\0"};
    struct keys keys;
    struct error err;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(keys_of_bytes(&keys, arena, files[i], 9, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "NUL"));
    }
}

// A bad line is found: refused with file and line, whatever the line ends are.
static void test_bad_line(void **state)
{
    (void)state;
    static const char *const files[] = {"# one\n\nk3\nk4 \nk5\n", "k1\r\n\r\n#\r\n\xE4\r\n",
                                        "\n\n\na b"};
    struct keys keys;
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
    char *text = arena_take(room, COUNT * 6 + 1);
    for (int i = 0; i < COUNT; i++)
        snprintf(text + i * 6, 7, "k%04u\n", (unsigned)i % COUNT);
    struct keys keys;
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
    struct keys keys;
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

int main(void)
{
    arena = arena_create(0, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made),    cmocka_unit_test(test_given),
        cmocka_unit_test(test_no_text), cmocka_unit_test(test_bad_line),
        cmocka_unit_test(test_many),    cmocka_unit_test(test_wiped)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(arena);
    return failed;
}
