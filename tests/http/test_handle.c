// SPDX-License-Identifier: Apache-2.0
// Parsing of request heads, case by case, and status lines of responses: content types, deadlines,
// retries, ids, error formats, messages that quote the client's bytes.
#include "tests/http/fixture.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fixture fixture;

static struct http_answer ask(const char *method, const char *path, const char *headers,
                              const char *body)
{
    struct http_answer answer;
    if (!http_once(fixture.port, method, path, headers, body, &answer))
        fail_msg("%s %s: no answer", method, path);
    return answer;
}

static void status_is(const char *headers, int status)
{
    struct http_answer answer = ask("POST", "/v1/test/echo", headers, "{}");
    if (answer.status != status)
        fail_msg("%s%d instead of %d", headers, answer.status, status);
    http_answer_free(&answer);
}

static void test_types_of_a_body(void **state)
{
    static const char *const good[] = {"",
                                       "  ",
                                       "application/json",
                                       "APPLICATION/JSON",
                                       " application/json ; charset=utf-8",
                                       "application/json;charset=UTF8",
                                       "application/json; charset=\"UTF-8\"",
                                       "application/json;",
                                       "application/json; ;",
                                       "application/json; boundary=x; charset=utf-8",
                                       "application/json; chars=latin1",
                                       "a/b+json",
                                       "a/b+JSON; charset=utf-8"};
    static const char *const wrong[] = {"application/jso",
                                        "application/jsonx",
                                        "application/json charset=utf-8",
                                        "text/json",
                                        "json",
                                        "+json",
                                        "ab+json", // not type/subtype
                                        "a/bjson",
                                        "a/b+json5",
                                        "application/json; charset=utf-16",
                                        "application/json; charset=",
                                        "application/json; charset=\"utf-8",
                                        "application/json; charset=\"utf-8;",
                                        "application/json; charset=\"utf-8'",
                                        "application/json; charset=utf-8\"",
                                        "application/json; charset='utf-8'",
                                        "application/json; charset=\"",
                                        "application/json; charset=utf-8; charset=latin1",
                                        "; charset=utf-8",
                                        "*/*"};
    char headers[256];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(headers, sizeof headers, BEARER "Content-Type: %s\r\n", good[i]);
        status_is(headers, 200);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(headers, sizeof headers, BEARER "Content-Type: %s\r\n", wrong[i]);
        status_is(headers, 415);
    }
    status_is(BEARER JSON "Content-Encoding: IDENTITY\r\n", 200);
    status_is(BEARER JSON "Content-Encoding:  identity \r\n", 200);
    status_is(BEARER JSON "Content-Encoding:\r\n", 200);
    status_is(BEARER JSON "Content-Encoding: br\r\n", 415);
    status_is(BEARER JSON "Content-Encoding: identity, gzip\r\n", 415);
    for (int first = 0; first < 2; first++) { // a proxy may read the other one
        struct http_answer two = ask("POST", "/v1/test/echo",
                                     first ? BEARER "Content-Type: text/plain\r\n" JSON
                                           : BEARER JSON "Content-Type: text/plain\r\n",
                                     "{}");
        assert_int_equal(two.status, 415);
        http_answer_free(&two);
    }
    struct http_answer same = ask("POST", "/v1/test/echo", BEARER JSON JSON, "{}");
    assert_int_equal(same.status, 200);
    http_answer_free(&same);
    struct http_answer answer = ask("GET", "/health", "Content-Type: text/plain\r\n", NULL);
    assert_int_equal(answer.status, 200); // checked only if a body is read
    http_answer_free(&answer);
}

static void test_deadlines(void **state)
{
    static const struct {
        const char *value;
        uint64_t ms;
    } cases[] = {{"1", 1000},
                 {"600", 600000},
                 {"1.5", 1500},
                 {"1.25", 1250},
                 {"1.125", 1125},
                 {"1.1256", 1125},
                 {"0.001", 1},
                 {"0.0009", 0},
                 {".5", 500},
                 {"2.", 2000},
                 {" 3 ", 3000},
                 {"007", 7000},
                 {"-1", 0},
                 {"+1", 0},
                 {"1s", 0},
                 {"1.5.5", 0},
                 {"1,5", 0},
                 {"1e3", 0},
                 {"", 0},
                 {".", 0},
                 {"0.000", 0},
                 {"9999999", 9999999000},
                 {"99999999", 99999999000},
                 {"123456789", 0},                // more digits than are parsed
                 {"1.0000000000000000000000", 0}, // 24 letters
                 {"1.000000000000000000000", 1000}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char headers[128];
        snprintf(headers, sizeof headers, BEARER "x-stainless-timeout: %s\r\n", cases[i].value);
        seen.deadline_ms = 5;
        struct http_answer answer = ask("POST", "/v1/test/fail", headers, "2");
        http_answer_free(&answer);
        if (seen.deadline_ms != cases[i].ms)
            fail_msg("'%s' is %llu ms", cases[i].value, (unsigned long long)seen.deadline_ms);
    }
}

static void test_retries_are_counted(void **state)
{
    static const struct {
        const char *headers;
        uint64_t more;
    } cases[] = {{"", 0},
                 {"X-Stainless-Retry-Count: 0\r\n", 0},
                 {"X-Stainless-Retry-Count:\r\n", 0},
                 {"X-Stainless-Retry-Count: 1\r\n", 1},
                 {"X-Stainless-Retry-Count:  2 \r\n", 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t before = metric_value(&fixture, "weft_client_retries_total");
        struct http_answer answer = ask("GET", "/version", cases[i].headers, NULL);
        http_answer_free(&answer);
        assert_int_equal(metric_value(&fixture, "weft_client_retries_total"),
                         before + cases[i].more);
    }
}

// An id of letters, digits, dots, underscores and hyphens is kept, up to 128 bytes.
static void test_ids(void **state)
{
    char longest[130], given[256], headers[320], id[256], other[256] = "";
    static const char *const wrong[] = {"a b", "a/b", "a:b", "a\"b", "\xc3\xa4",
                                        "a,b", "a@b", "a[b", "a`b",  "a{b"};
    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    longest[129] = '\0';
    for (int bytes = 127; bytes <= 129; bytes++) {
        snprintf(headers, sizeof headers, "X-Request-Id: %.*s\r\n", bytes, longest);
        struct http_answer answer = ask("GET", "/version", headers, NULL);
        assert_true(http_header(answer.head, "x-request-id", id, sizeof id));
        assert_int_equal(strlen(id), bytes <= 128 ? bytes : 28);
        http_answer_free(&answer);
    }
    struct http_answer answer = ask("GET", "/version", "x-request-id: AZaz09._-\r\n", NULL);
    assert_true(http_header(answer.head, "request-id", id, sizeof id));
    assert_string_equal(id, "AZaz09._-");
    http_answer_free(&answer);
    answer = ask("GET", "/version", "x-request-id: \ta \t\r\n", NULL);
    assert_true(http_header(answer.head, "request-id", id, sizeof id));
    assert_string_equal(id, "a");
    http_answer_free(&answer);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(given, sizeof given, "X-Request-Id: %s\r\n", wrong[i]);
        answer = ask("GET", "/version", given, NULL);
        assert_true(http_header(answer.head, "x-request-id", id, sizeof id));
        assert_int_equal(strncmp(id, "req_", 4), 0);
        assert_int_equal(strspn(id + 4, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "abcdefghijklmnopqrstuvwxyz"),
                         24);
        assert_string_not_equal(id, other);
        strcpy(other, id);
        http_answer_free(&answer);
    }
}

static void message_is(struct http_answer *answer, const char *wanted)
{
    json_t *body = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    const char *said =
        json_string_value(json_object_get(json_object_get(body, "error"), "message"));
    if (!said || strcmp(said, wanted) != 0)
        fail_msg("'%s' instead of '%s'", answer->body, wanted);
    json_decref(body);
    http_answer_free(answer);
}

// Quoted text in messages is truncated, and a query is never quoted.
static void test_sentences(void **state)
{
    char path[200], wanted[300];
    (void)state;
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[150] = '\0';
    snprintf(wanted, sizeof wanted, "Unknown request URL: GET %.128s", path);
    struct http_answer answer = ask("GET", path, NULL, NULL);
    message_is(&answer, wanted);
    answer = ask("GET", "/nowhere/?key=secret", NULL, NULL);
    message_is(&answer, "Unknown request URL: GET /nowhere");
    answer = ask("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ", "/no%77here", NULL, NULL);
    message_is(&answer, "Unknown request URL: ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF /nowhere");
    answer = ask("PUT", "/v1/test/echo", BEARER, NULL);
    message_is(&answer, "The method is not allowed here; allowed: POST.");
    answer = ask("POST", "/version", NULL, "{}");
    message_is(&answer, "The method is not allowed here; allowed: GET, HEAD.");
    answer = ask("POST", "/v1/test/echo", BEARER "Content-Type: text/plain\r\n", "{}");
    message_is(&answer, "The body must be JSON in UTF-8: send 'Content-Type: application/json'.");
    answer = ask("POST", "/v1/test/echo", BEARER "Content-Encoding: gzip\r\n", "{}");
    message_is(&answer,
               "Compressed bodies are not accepted: send the body without Content-Encoding.");
    answer = ask("POST", "/v1/test/echo", BEARER, "12345678901234567890123456789012345");
    message_is(&answer, "The body has 35 bytes; at most 32 bytes are accepted.");
}

// The limit itself is accepted; type, encoding and size of a body are checked in this order.
static void test_size_of_a_body(void **state)
{
    static const char longest[] = "12345678901234567890123456789012",
                      above[] = "123456789012345678901234567890123";
    char value[32];
    (void)state;
    struct http_answer answer = ask("POST", "/v1/test/echo", BEARER, longest);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, longest);
    assert_false(http_header(answer.head, "connection", value, sizeof value) &&
                 strcmp(value, "close") == 0);
    http_answer_free(&answer);
    answer = ask("POST", "/v1/test/echo", BEARER, above);
    assert_int_equal(answer.status, 413);
    assert_true(http_header(answer.head, "connection", value, sizeof value));
    assert_string_equal(value, "close");
    http_answer_free(&answer);
    answer =
        ask("POST", "/v1/test/echo", BEARER "Content-Type: a/b\r\nContent-Encoding: x\r\n", above);
    assert_non_null(strstr(answer.body, "unsupported_media_type"));
    http_answer_free(&answer);
    answer = ask("POST", "/v1/test/echo", BEARER "Content-Encoding: x\r\n", above);
    assert_non_null(strstr(answer.body, "unsupported_content_encoding"));
    http_answer_free(&answer);
    answer = ask("POST", "/v1/test/echo", "", above); // the key is checked first
    assert_int_equal(answer.status, 401);
    http_answer_free(&answer);
}

// The reason phrase of each status.
static void test_first_lines(void **state)
{
    static const struct {
        int error;
        const char *openai, *messages;
    } lines[] = {
        {HTTP_INVALID_JSON, "400 Bad Request", "400 Bad Request"},
        {HTTP_INVALID_KEY, "401 Unauthorized", "401 Unauthorized"},
        {HTTP_MODEL_NOT_FOUND, "404 Not Found", "404 Not Found"},
        {HTTP_METHOD, "405 Method Not Allowed", "405 Method Not Allowed"},
        {HTTP_TOO_LARGE, "413 Payload Too Large", "413 Payload Too Large"},
        {HTTP_MEDIA_TYPE, "415 Unsupported Media Type", "415 Unsupported Media Type"},
        {HTTP_OVERLOADED, "503 Service Unavailable", "529 Overloaded"},
        {HTTP_UNAVAILABLE, "503 Service Unavailable", "503 Service Unavailable"},
        {HTTP_TIMEOUT, "504 Gateway Timeout", "504 Gateway Timeout"},
        {HTTP_INTERNAL, "500 Internal Server Error", "500 Internal Server Error"},
    };
    char body[16];
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(body, sizeof body, "%d", lines[i].error);
        struct http_answer answer = ask("POST", "/v1/test/fail", BEARER JSON, body);
        assert_memory_equal(answer.head + 9, lines[i].openai, strlen(lines[i].openai));
        http_answer_free(&answer);
        answer = ask("POST", "/v1/messages/fail", BEARER JSON, body);
        assert_memory_equal(answer.head + 9, lines[i].messages, strlen(lines[i].messages));
        http_answer_free(&answer);
    }
    struct http_answer answer = ask("GET", "/version", NULL, NULL);
    assert_memory_equal(answer.head, "HTTP/1.1 200 OK\r\n", 17);
    http_answer_free(&answer);
    answer = ask("OPTIONS", "/version", NULL, NULL);
    assert_memory_equal(answer.head + 9, "204 No Content", 14);
    assert_false(http_header(answer.head, "content-length", body, sizeof body));
    assert_false(http_header(answer.head, "transfer-encoding", body, sizeof body));
    http_answer_free(&answer);
}

// Headers that are sent with one error only.
static void test_headers_of_failures(void **state)
{
    static const char *const names[] = {"www-authenticate", "retry-after", "x-should-retry",
                                        "connection"};
    (void)state;
    for (int error = 0; error < HTTP_ERROR_COUNT; error++) {
        bool key = error == HTTP_MISSING_KEY || error == HTTP_INVALID_KEY;
        const char *wanted[] = {key ? "Bearer" : NULL,
                                error == HTTP_OVERLOADED || error == HTTP_CROWDED ? "1"
                                : error == HTTP_UNAVAILABLE                       ? "5"
                                                                                  : NULL,
                                error == HTTP_INTERNAL_SAME || error == HTTP_GRAMMAR ? "false"
                                : error == HTTP_CROWDED                              ? "true"
                                                                                     : NULL,
                                error == HTTP_TOO_LARGE ? "close" : "keep-alive"};
        char body[16], value[32];
        snprintf(body, sizeof body, "%d", error);
        struct http_answer answer = ask("POST", "/v1/test/fail", BEARER JSON, body);
        for (int i = 0; i < 4; i++) {
            bool there = http_header(answer.head, names[i], value, sizeof value);
            if (there != (wanted[i] != NULL) || (there && strcmp(value, wanted[i]) != 0))
                fail_msg("error %d, %s: %s", error, names[i], there ? value : "none");
        }
        http_answer_free(&answer);
    }
}

// The anthropic-version header selects the format on routes that serve both client families, and on
// no others.
static void test_shape_of_the_caller(void **state)
{
    (void)state;
    struct http_answer answer =
        ask("POST", "/v1/test/fail", BEARER "anthropic-version: 1\r\n", "2");
    assert_null(strstr(answer.body, "\"type\":\"error\""));
    http_answer_free(&answer);
    answer = ask("GET", "/v1/models/x", BEARER "anthropic-version: 1\r\n", NULL);
    assert_non_null(strstr(answer.body, "{\"type\":\"error\""));
    http_answer_free(&answer);
    answer = ask("GET", "/v1/models/x", BEARER "anthropic-version:\r\n", NULL);
    assert_null(strstr(answer.body, "{\"type\":\"error\""));
    http_answer_free(&answer);
    answer = ask("GET", "/v1/messages/nowhere", NULL, NULL); // a path of Messages
    assert_non_null(strstr(answer.body, "{\"type\":\"error\""));
    assert_non_null(strstr(answer.body, "\"type\":\"not_found_error\""));
    http_answer_free(&answer);
}

// A key sent twice is invalid, even if one of the two is correct.
static void test_keys_sent_twice(void **state)
{
    static const struct {
        const char *path, *headers;
        int status;
    } cases[] = {
        {"/v1/test/echo", BEARER BEARER, 401},
        {"/v1/test/echo", BEARER "Authorization: Bearer other\r\n", 401},
        {"/v1/test/echo", BEARER "x-api-key: a\r\nx-api-key: b\r\n", 401},
        {"/v1/messages", "x-api-key: " KEY "\r\nx-api-key: " KEY "\r\n", 401},
        {"/v1/messages", "x-api-key: " KEY "\r\n" BEARER BEARER, 401},
        {"/v1/messages", "x-api-key: " KEY "\r\nAuthorization: Bearer no\r\n", 200},
        {"/v1/messages", BEARER "x-api-key:\r\n", 200}, // an empty header has no key
        {"/v1/test/echo", "x-api-key: " KEY "\r\n", 200},
        {"/v1/test/echo", "api-key: " KEY "\r\n", 200},
        {"/v1/messages", "api-key: " KEY "\r\n", 200},
        {"/v1/test/echo", BEARER "x-api-key: other\r\n", 200},
        {"/messages", BEARER, 200},
        {"/v1/messages", "x-api-key: \t" KEY " \t\r\n", 200}, // surrounding blanks are removed
        {"/v1/messages", "Authorization:  Bearer " KEY "\t\r\n", 200},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_answer answer = ask("POST", cases[i].path, cases[i].headers, "{}");
        if (answer.status != cases[i].status)
            fail_msg("%s %s%d", cases[i].path, cases[i].headers, answer.status);
        http_answer_free(&answer);
    }
}

// Absolute request targets, as proxies send them.
static void test_targets(void **state)
{
    static const struct {
        const char *target;
        int status;
    } targets[] = {
        {"http://a/version", 200},       {"HTTP://a:80/version?x", 200}, {"https://a/version", 200},
        {"http://a/v1/../version", 404}, {"ftp://a/version", 404},       {"/http://a/version", 404},
        {"http://a?x=/version", 404},    {"/version?x=http://a/y", 200}, {"/version//", 404}};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct http_answer answer = ask("GET", targets[i].target, NULL, NULL);
        if (answer.status != targets[i].status)
            fail_msg("%s: %d", targets[i].target, answer.status);
        http_answer_free(&answer);
    }
}

static int open_main(void **state)
{
    (void)state;
    struct server_options options = {.body_bytes_max = 32};
    fixture_open(&fixture, &options, true);
    return 0;
}

static int close_main(void **state)
{
    (void)state;
    fixture_close(&fixture);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_of_a_body),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_retries_are_counted),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_size_of_a_body),
        cmocka_unit_test(test_first_lines),
        cmocka_unit_test(test_headers_of_failures),
        cmocka_unit_test(test_shape_of_the_caller),
        cmocka_unit_test(test_keys_sent_twice),
        cmocka_unit_test(test_targets),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
