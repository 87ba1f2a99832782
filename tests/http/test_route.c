// SPDX-License-Identifier: Apache-2.0
// The router with the real route list: exact paths, aliases, trailing slashes, HEAD, OPTIONS,
// Allow, path rests, and the error format on unknown paths.
#include "http/route.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct route rows[] = {
    {.method = "POST", .path = "/v1/chat"},
    {.method = "POST", .path = "/v1/messages", .shape = SHAPE_MESSAGES},
    {.method = "GET", .path = "/v1/models"},
    {.method = "GET", .path = "/v1/models/"},
    {.method = "GET", .path = "/health"},
    {.method = "POST", .path = "/both"},
    {.method = "GET", .path = "/both"},
    {.path = NULL},
};

static struct route_match find(const char *method, const char *path)
{
    static const struct route *const tables[] = {rows, NULL};
    struct route_list list;
    struct route_match match;
    static char room[256];
    route_list_fill(&list, tables);
    route_find(&list, text_of(method), path_decode(text_of(path), room), &match);
    return match;
}

static void test_found(void **state)
{
    (void)state;
    assert_ptr_equal(find("POST", "/v1/chat").route, &rows[0]);
    assert_ptr_equal(find("POST", "/v1/chat/").route, &rows[0]);
    assert_ptr_equal(find("GET", "/v1/models/").route, &rows[2]);
    assert_ptr_equal(find("GET", "/v1/v1/models").route, &rows[2]);
    assert_ptr_equal(find("GET", "/ping").route, &rows[4]);
    assert_ptr_equal(find("GET", "/both").route, &rows[6]);
    assert_int_equal(find("GET", "/both").index, 6);
}

// The base URL of some clients lacks /v1.
static void test_paths_without_v1(void **state)
{
    (void)state;
    assert_ptr_equal(find("GET", "/models").route, &rows[2]);
    struct route_match match = find("GET", "/models/org/name");
    assert_ptr_equal(match.route, &rows[3]);
    assert_true(text_is(match.path_rest, "org/name"));
    assert_null(find("GET", "/modelsx").route);
    assert_int_equal(path_shape(text_of("/messages/nothing")), SHAPE_MESSAGES);
}

static void test_rest(void **state)
{
    (void)state;
    struct route_match match = find("GET", "/v1/models/org/name x ");
    assert_ptr_equal(match.route, &rows[3]);
    assert_true(text_is(match.path_rest, "org/name x ")); // spaces stay
    match = find("GET", "/v1/models/a/");
    assert_true(text_is(match.path_rest, "a"));
    match = find("GET", "/v1/v1/models/org/name"); // a client with base_url .../v1
    assert_ptr_equal(match.route, &rows[3]);
    assert_true(text_is(match.path_rest, "org/name"));
}

// Paths are decoded once; an encoded slash is part of a name, never a separator.
static void test_encoded(void **state)
{
    (void)state;
    assert_ptr_equal(find("GET", "/%68ealth").route, &rows[4]);
    assert_ptr_equal(find("GET", "/%68%65alth/").route, &rows[4]);
    static const struct {
        const char *path, *rest;
    } names[] = {
        {"/v1/models/org%2Fname", "org/name"},
        {"/v1/models/org%2fname/", "org/name"},
        {"/v1/models/name%2f", "name/"},
        {"/v1/models/%252e%252E%252fhealth", "%2e%2E%2fhealth"},
        {"/v1/models/a%zz%4", "a%zz%4"},
        {"/v1/v1/models/org%2Fname", "org/name"},
        {"/v1/models/..a/.b/c../...", "..a/.b/c../..."},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct route_match match = find("GET", names[i].path);
        if (match.route != &rows[3] || !text_is(match.path_rest, names[i].rest))
            fail_msg("%s: '%.*s'", names[i].path, (int)match.path_rest.bytes, match.path_rest.at);
    }
    static const char *const unknown[] = {
        "%2fhealth",           "/v1%2Fmodels",       "/v1%2Fmodels/a",  "/health%2F",
        "/v1/models%2fhealth", "/x%2f..%2fhealth",   "/v1/v1%2fmodels", "/ping%2f",
        "/%2568ealth",         "/x/%2e%2e%2fhealth", "/v1/models%2F",   "/health%2f..%2fhealth",
        "/v1/x%2f/../models",
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (find("GET", unknown[i]).path_known)
            fail_msg("%s is known", unknown[i]);
}

// A proxy that admits only /v1/ checks the path as sent, so dots must not lead elsewhere.
static void test_dots(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "/v1/../health",
        "/../health",
        "/./health",
        "/health/.",
        "/health/x/..",
        "/health/./",
        "/v1/%2e%2E/health",
        "/v1/.%2e/health",
        "/%2e/health",
        "/v1/./models/../../health",
        "/v1/models/../../health",
        "/v1/models/%2e%2e/%2e%2e/health",
        "/v1/models/x/../y",
        "/v1/models/..",
        "/v1/models/.",
        "/v1/models/%2e%2e/",
        "/v1/models/..%2f..%2fhealth",
        "/v1/models/a%2F/../../../health",
        "/v1/models/a%2f%2e",
        "/v1/v1/models/../x",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (find("GET", paths[i]).path_known || find("OPTIONS", paths[i]).path_known)
            fail_msg("%s is known", paths[i]);
    assert_int_equal(find("GET", "/v1/messages/../x").shape, SHAPE_MESSAGES);
}

static void test_unknown(void **state)
{
    (void)state;
    static const char *const paths[] = {"/",          "",           "/v1",       "/v1/chatx",
                                        "/v1/chat//", "/V1/chat",   "//v1/chat", "/v1/chat/x",
                                        "/healthz",   "/v1/v1/chat"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct route_match match = find("POST", paths[i]);
        assert_null(match.route);
        if (match.path_known)
            fail_msg("%s is known", paths[i]);
    }
}

static void test_methods(void **state)
{
    (void)state;
    struct route_match match = find("GET", "/v1/chat");
    assert_null(match.route);
    assert_true(match.path_known);
    assert_string_equal(match.allow, "POST");
    match = find("DELETE", "/health");
    assert_string_equal(match.allow, "GET, HEAD");
    assert_string_equal(find("PUT", "/both").allow, "POST, GET, HEAD");
    match = find("HEAD", "/health");
    assert_ptr_equal(match.route, &rows[4]);
    assert_true(match.head);
    assert_null(find("HEAD", "/v1/chat").route);
    assert_null(find("get", "/health").route); // methods are case-sensitive
    match = find("OPTIONS", "/v1/chat");
    assert_true(match.options);
    assert_false(find("OPTIONS", "/nowhere").options);
    static const char *const all[] = {"*", "/*"}; // the complete server
    for (int i = 0; i < 2; i++) {
        match = find("OPTIONS", all[i]);
        assert_true(match.options && match.path_known);
        assert_string_equal(match.allow, "GET, HEAD, POST, OPTIONS");
        assert_false(find("GET", all[i]).path_known);
    }
}

static void test_shapes(void **state)
{
    (void)state;
    assert_int_equal(path_shape(text_of("/v1/messages")), SHAPE_MESSAGES);
    assert_int_equal(path_shape(text_of("/v1/messages/x")), SHAPE_MESSAGES);
    assert_int_equal(path_shape(text_of("/v1/messages?beta=true")), SHAPE_MESSAGES);
    assert_int_equal(path_shape(text_of("/v1/v1/messages/count_tokens")), SHAPE_MESSAGES);
    assert_int_equal(path_shape(text_of("/v1/messagesx")), SHAPE_OPENAI);
    assert_int_equal(path_shape(text_span("/v1/messages\0x", 14)), SHAPE_OPENAI);
    assert_int_equal(path_shape(text_of("/v1/mess")), SHAPE_OPENAI);
    assert_int_equal(find("GET", "/v1/messages").shape, SHAPE_MESSAGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),   cmocka_unit_test(test_paths_without_v1),
        cmocka_unit_test(test_rest),    cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_methods), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_encoded), cmocka_unit_test(test_dots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
