// SPDX-License-Identifier: Apache-2.0
// Messages to a service manager: both forms of address, a manager that does not read, addresses
// that are none.
#include "cli/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

// Opens a service manager's socket. bytes: length of the name, including the NUL at the end of a
// path or at the beginning of an abstract name.
static int manager_open(const char *name, size_t bytes)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, name, bytes);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
    assert_int_equal(bind(fd, (const void *)&at, length), 0);
    return fd;
}

static void expect(int fd, const char *message)
{
    char got[256] = "";
    assert_int_equal(recv(fd, got, sizeof got - 1, 0), strlen(message));
    assert_string_equal(got, message);
}

static void test_a_path(void **state)
{
    (void)state;
    char folder[] = "/tmp/notifyXXXXXX", path[64];
    struct error err;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    int fd = manager_open(path, strlen(path) + 1);
    assert_int_equal(notify_send(path, "READY=1\nSTATUS=two lines", &err), STATUS_OK);
    assert_int_equal(notify_send(path, "STOPPING=1", &err), STATUS_OK);
    expect(fd, "READY=1\nSTATUS=two lines"); // one datagram for each message
    expect(fd, "STOPPING=1");
    close(fd);
    assert_int_equal(notify_send(path, "READY=1", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "Connection refused"));
    unlink(path);
    assert_int_equal(notify_send(path, "READY=1", &err), STATUS_IO);
    assert_non_null(strstr(err.text, path));
    rmdir(folder);
}

static void test_an_abstract_name(void **state)
{
    (void)state;
    char name[64];
    struct error err;
    snprintf(name, sizeof name, "@weft-test-%d", (int)getpid());
    char bound[64];
    memcpy(bound, name, sizeof bound);
    bound[0] = '\0';
    int fd = manager_open(bound, strlen(name)); // without a NUL at its end
    assert_int_equal(notify_send(name, "READY=1", &err), STATUS_OK);
    expect(fd, "READY=1");
    close(fd);
}

// The queue of a socket that is not read is full after a few messages; sending ends after a second.
static void test_a_manager_that_does_not_read(void **state)
{
    (void)state;
    char bound[] = "-weft-stalled-0123456789";
    snprintf(bound + 1, sizeof bound - 1, "weft-stalled-%d", (int)getpid());
    char name[sizeof bound];
    memcpy(name, bound, sizeof name);
    name[0] = '@';
    bound[0] = '\0';
    int fd = manager_open(bound, strlen(name));
    struct error err;
    enum status status = STATUS_OK;
    for (uint32_t sent = 0; status == STATUS_OK && sent < 100000; sent++)
        status = notify_send(name, "STATUS=x", &err);
    assert_int_equal(status, STATUS_IO);
    close(fd);
}

static void test_addresses_that_are_none(void **state)
{
    (void)state;
    struct error err;
    char far[200] = "/";
    memset(far + 1, 'a', sizeof far - 2);
    far[sizeof far - 1] = '\0';
    const char *const wrong[] = {"socket", "vsock:2:1234", "@", "/", far};
    assert_int_equal(notify_send(NULL, "READY=1", &err), STATUS_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(notify_send(wrong[i], "READY=1", &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "at most 107 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_path),
        cmocka_unit_test(test_an_abstract_name),
        cmocka_unit_test(test_a_manager_that_does_not_read),
        cmocka_unit_test(test_addresses_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
