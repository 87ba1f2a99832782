// SPDX-License-Identifier: Apache-2.0
// The end of a request: errors of libh2o before routing are answered with our JSON, and requests
// that proxies could read differently are refused.
#include "http/framing.h"
#include "tests/http/fixture.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct fixture fixture;

static int open_main(void **state)
{
    (void)state;
    fixture_open(&fixture, NULL, true);
    return 0;
}

static int close_main(void **state)
{
    (void)state;
    fixture_close(&fixture);
    return 0;
}

// libh2o's errors before routing are sent as our JSON; a head that is not HTTP is not.
static void test_fallback_errors(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: cheese\r\n\r\n",
        "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n" BEARER
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n"
        "Content-Length: 999999999\r\n\r\n",
    };
    static const int statuses[] = {400, 400, 400, 413};
    for (int i = 0; i < 4; i++) {
        struct http_client client;
        struct http_answer answer;
        char value[64];
        assert_true(http_client_open(&client, fixture.port));
        assert_true(http_client_send(&client, heads[i], strlen(heads[i])));
        if (!http_client_answer(&client, &answer))
            fail_msg("no answer to head %d", i);
        assert_int_equal(answer.status, statuses[i]);
        assert_true(http_header(answer.head, "content-type", value, sizeof value));
        assert_string_equal(value, "application/json");
        assert_true(http_header(answer.head, "x-request-id", value, sizeof value));
        assert_int_equal(strcmp(value, "mine") == 0, i == 3);
        json_t *body = json_loadb(answer.body, answer.body_bytes, 0, NULL);
        assert_non_null(json_object_get(body, "error"));
        assert_int_equal(json_object_get(body, "request_id") != NULL, i == 1);
        assert_int_equal(strstr(answer.body, "; at most 32 MiB are accepted.") != NULL, i == 3);
        json_decref(body);
        http_answer_free(&answer);
        http_client_close(&client);
    }
    struct http_answer answer;
    struct http_client client;
    assert_true(http_client_open(&client, fixture.port));
    assert_true(http_client_send(&client, "\x01\x02 garbage\r\n\r\n", 14));
    if (http_client_answer(&client, &answer))
        assert_int_equal(answer.status, 400);
    http_answer_free(&answer);
    http_client_close(&client);
}

#define POST(version) "POST /v1/test/echo HTTP/" version "\r\n" BEARER JSON
#define ECHO POST("1.1") "Host: a\r\n"
#define CHUNKED ECHO "Transfer-Encoding: chunked\r\n\r\n"
#define LENGTH_2 "Content-Length: 2\r\n"

struct framing_case {
    const char *bytes;
    int statuses[2];
};

// A refusal is JSON and closes the connection.
static void case_check(const struct framing_case *one, size_t index, size_t cut)
{
    struct http_client client;
    struct http_answer answer;
    char value[64];
    size_t bytes = strlen(one->bytes);
    assert_true(http_client_open(&client, fixture.port));
    for (size_t at = 0; at < bytes; at += cut)
        if (!http_client_send(&client, one->bytes + at, bytes - at < cut ? bytes - at : cut))
            break; // already refused
    for (int j = 0; j < 2 && one->statuses[j] != 0; j++) {
        if (!http_client_answer(&client, &answer) || answer.status != one->statuses[j])
            fail_msg("case %zu, answer %d: %d %s", index, j, answer.status, answer.body);
        bool closes = http_header(answer.head, "connection", value, sizeof value) &&
                      strcmp(value, "close") == 0;
        assert_true(http_header(answer.head, "content-type", value, sizeof value));
        assert_string_equal(value, "application/json");
        if (answer.status == 400 && (!closes || !http_client_closed(&client, 20000)))
            fail_msg("case %zu: the connection stays open", index);
        http_answer_free(&answer);
    }
    http_client_close(&client);
}

static void cases_check(const struct framing_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        case_check(&cases[i], i, SIZE_MAX / 2);
}

// If a proxy could see the end of a request elsewhere, it is refused and the connection closes,
// also after another request. Two equal lengths, or a length inside the body, are accepted.
static void test_length_in_two_ways(void **state)
{
    (void)state;
    static const struct framing_case cases[] = {
        {ECHO LENGTH_2 "content-length: 3\r\n\r\n{} ", {400}},
        {"\r\n" ECHO LENGTH_2 "content-length: 3\r\n\r\n{} ", {400}},
        {ECHO "Content-Length: 3\r\n" LENGTH_2 LENGTH_2 "\r\n{} ", {400}},
        {ECHO LENGTH_2 "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", {400}},
        {ECHO "Transfer-Encoding: chunked\r\n" LENGTH_2 "\r\n2\r\n{}\r\n0\r\n\r\n", {400}},
        {ECHO "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}},
        {POST("1.0") "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", {400}},
        {ECHO LENGTH_2 "Content-Length:  2 \r\n\r\n{}", {200}},
        {"\r\n" ECHO LENGTH_2 "\r\n{}", {200}},
        {ECHO "Content-Length: 29\r\n\r\n{}\r\ncontent-length: 9\r\n\r\n\n   ", {200}},
        {"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" ECHO LENGTH_2 "Content-Length: 1\r\n\r\n{}",
         {200, 400}},
    };
    cases_check(cases, sizeof cases / sizeof *cases);
}

// Headers continued on a second line; a missing or repeated Host.
static void test_folds_and_hosts(void **state)
{
    (void)state;
    static const struct framing_case cases[] = {
        {ECHO LENGTH_2 "X-A: b\r\n c\r\n\r\n{}", {400}},
        {ECHO LENGTH_2 "X-A:\r\n\tc\r\n\r\n{}", {400}},
        {ECHO "Content-Length: 2\r\n 0\r\n\r\n{}", {400}},
        {POST("1.1") LENGTH_2 "\r\n{}", {400}},
        {ECHO "host: b\r\n" LENGTH_2 "\r\n{}", {400}},
        {ECHO "Host: a\r\n" LENGTH_2 "\r\n{}", {400}},
        {POST("1.0") "Host: a\r\nHost: b\r\n" LENGTH_2 "\r\n{}", {400}},
        {POST("1.0") LENGTH_2 "\r\n{}", {200}},
        {POST("1.1") "Host:\r\n" LENGTH_2 "\r\n{}", {200}},
        {ECHO "X-Host: b\r\n" LENGTH_2 "\r\n{}", {200}},
    };
    static const char *const valid[] = {
        "", "a.b", "a-b_c:80", "a:", "10.0.0.1", "[::1]", "[::1]:80", "%61"};
    static const char *const wrong[] = {"a b",  "a,b/c",   "a/",    "a@b", ":80",
                                        "a:b",  "a:80:80", "[::1",  "::1", "[]:80",
                                        "[x]y", "[::1]80", "\"a\"", "a?b"};
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
        assert_true(host_is_valid(text_of(valid[i])));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char request[256];
        snprintf(request, sizeof request, "%sHost: %s\r\n%s\r\n{}", POST("1.1"), wrong[i],
                 LENGTH_2);
        const struct framing_case refused = {request, {400}};
        assert_false(host_is_valid(text_of(wrong[i])));
        cases_check(&refused, 1);
    }
    cases_check(cases, sizeof cases / sizeof *cases);
}

// Chunks according to the RFC, in one piece and byte by byte.
static void test_chunks(void **state)
{
    (void)state;
#define LAST "\r\n0\r\n\r\n"
    static const struct framing_case cases[] = {
        {CHUNKED "0x2\r\n{}" LAST, {400}},
        {CHUNKED "2x\r\n{}" LAST, {400}},
        {CHUNKED "0zzz\r\n\r\n", {400}},
        {CHUNKED "2 xyz\r\n{}" LAST, {400}},
        {CHUNKED "2 \r\n{}" LAST, {400}},
        {CHUNKED " 2\r\n{}" LAST, {400}},
        {CHUNKED "+2\r\n{}" LAST, {400}},
        {CHUNKED "-2\r\n{}" LAST, {400}},
        {CHUNKED "\r\n{}" LAST, {400}},
        {CHUNKED "00000000000000002\r\n{}" LAST, {400}},
        {CHUNKED "2\n{}" LAST, {400}},
        {CHUNKED "2\r{}" LAST, {400}},
        {CHUNKED "2;a\n{}" LAST, {400}},
        {CHUNKED "2;a\x01\r\n{}" LAST, {400}},
        {CHUNKED "2\r\n{}\n0\r\n\r\n", {400}},
        {CHUNKED "2\r\n{}\r\r\n0\r\n\r\n", {400}},
        {CHUNKED "2\r\n{}0\r\n\r\n", {400}},
        {CHUNKED "1\r\n{}" LAST, {400}},
        {CHUNKED "2\r\n{}\r\n0\n\r\n", {400}},
        {CHUNKED "2\r\n{}\r\n0\r\n\n", {400}},
        {CHUNKED "2\r\n{}\r\n0\r\n\rx", {400}},
        {CHUNKED "2\r\n{}\r\n0\r\nA: b\n\r\n", {400}},
        {CHUNKED "2\r\n{}\r\n0\r\n A: b\r\n\r\n", {400}},
        {CHUNKED "2\r\n{}\r\n0\r\nA\r\n\r\n", {400}},
        {CHUNKED "2\r\n{}\r\n0\r\nA: b\rc\r\n\r\n", {400}},
        {CHUNKED "2\r\n{}" LAST, {200}},
        {CHUNKED "1\r\n{\r\n01\r\n}" LAST, {200}},
        {CHUNKED "2;a=\"b c\"\r\n{}\r\n000;x\r\n\r\n", {200}},
        {CHUNKED "2\r\n{}\r\n0\r\nA: b\r\nC:d\r\n\r\n", {200}},
        {CHUNKED "A\r\n[\"5678901\"\r\n1\r\n]" LAST, {200}},
        {CHUNKED "000000000000000a\r\n[\"5678901\"\r\n1\r\n]" LAST, {200}},
        {CHUNKED "2\r\n{}\r\n0\r\nA: b\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n", {200, 200}},
        {CHUNKED "2\r\n{}\r\n0\r\n\r\n" CHUNKED "2 \r\n{}" LAST, {200, 400}},
    };
#undef LAST
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        case_check(&cases[i], i, SIZE_MAX / 2);
        case_check(&cases[i], i, 1);
    }
}

// An extension is skipped, but its length is limited.
static void test_endless_extension(void **state)
{
    (void)state;
    static char bytes[1000];
    memset(bytes, 'a', sizeof bytes - 1);
    memcpy(bytes, CHUNKED "2;", strlen(CHUNKED "2;"));
    strcpy(bytes + 700, "\r\n{}\r\n0\r\n\r\n");
    case_check(&(struct framing_case){bytes, {400}}, 0, SIZE_MAX / 2);
}

static void body_check(const char *bytes, const char *wanted)
{
    struct http_client client;
    struct http_answer answer;
    assert_true(http_client_open(&client, fixture.port));
    assert_true(http_client_send(&client, bytes, strlen(bytes)));
    assert_true(http_client_answer(&client, &answer));
    assert_string_equal(answer.body, wanted);
    http_answer_free(&answer);
    http_client_close(&client);
}

// The body is the content of the chunks; the next request starts after them.
static void test_chunks_joined(void **state)
{
    (void)state;
    body_check(CHUNKED "5;x=y\r\n[1,2,\r\n3\r\n3,4\r\n01\r\n]\r\n0\r\nA: b\r\n\r\n", "[1,2,3,4]");
    body_check(CHUNKED "4\r\n\"\r\n\"\r\n0\r\n\r\n", "\"\r\n\"");
}

// Empty lines before a request are ignored, in one piece and byte by byte, also between requests
// and before a refused one.
static void test_blank_lines(void **state)
{
    (void)state;
    static const struct framing_case cases[] = {
        {"\r\n\r\n" ECHO LENGTH_2 "\r\n{}", {200}},
        {"\r\n\r\n\r\n\r\n\r\nGET /version HTTP/1.1\r\nHost: a\r\n\r\n", {200}},
        {ECHO LENGTH_2 "\r\n{}\r\n\r\n\r\n" ECHO LENGTH_2 "\r\n{}", {200, 200}},
        {CHUNKED "2\r\n{}\r\n0\r\n\r\n\r\n\r\n" CHUNKED "2\r\n{}\r\n0\r\n\r\n", {200, 200}},
        {"\r\n\r\n" ECHO LENGTH_2 "content-length: 3\r\n\r\n{} ", {400}},
        {"\r\n\r\n" ECHO "Host: b\r\n" LENGTH_2 "\r\n{}", {400}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        case_check(&cases[i], i, SIZE_MAX / 2);
        case_check(&cases[i], i, 1);
        case_check(&cases[i], i, 3);
    }
}

// Trailers within the limits of the headers are skipped; more of them are refused.
static void test_trailers(void **state)
{
    (void)state;
    enum { LINES = 101 };
    static char bytes[LINES * 8 + 512];
    for (size_t lines = LINES - 6; lines <= LINES; lines += 6) {
        size_t at = (size_t)snprintf(bytes, sizeof bytes, "%s2\r\n{}\r\n0\r\n", CHUNKED);
        for (size_t i = 0; i < lines; i++)
            at += (size_t)snprintf(bytes + at, sizeof bytes - at, "A: b\r\n");
        snprintf(bytes + at, sizeof bytes - at, "\r\n");
        case_check(&(struct framing_case){bytes, {lines < LINES - 5 ? 200 : 400}}, lines,
                   SIZE_MAX / 2);
    }
}

// RFC 9112, 9.3: which connections persist.
static void test_persistence(void **state)
{
    (void)state;
    static const struct {
        const char *version, *headers;
        bool closes;
    } cases[] = {
        {"1.1", "", false},
        {"1.1", "Connection: keep-alive\r\n", false},
        {"1.1", "Connection: close\r\n", true},
        {"1.1", "Connection: close, keep-alive\r\n", true},
        {"1.1", "Connection: keep-alive, close\r\n", true},
        {"1.1", "Connection: keep-alive,CLOSE ,te\r\n", true},
        {"1.1", "Connection: close\r\nConnection: keep-alive\r\n", true},
        {"1.1", "Connection: keep-alive\r\nConnection: close\r\n", true},
        {"1.1", "Connection: te\r\n", false},
        {"1.1", "Connection: closed\r\n", false},
        {"1.0", "", true},
        {"1.0", "Connection: keep-alive\r\n", false},
        {"1.0", "Connection: keep-alive\r\nConnection: te\r\n", false},
        {"1.0", "Connection: close, keep-alive\r\n", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_client client;
        struct http_answer answer;
        char request[256], value[64];
        snprintf(request, sizeof request, "GET /version HTTP/%s\r\nHost: a\r\n%s\r\n",
                 cases[i].version, cases[i].headers);
        assert_true(http_client_open(&client, fixture.port));
        for (int again = 0; again < (cases[i].closes ? 1 : 2); again++) {
            assert_true(http_client_send(&client, request, strlen(request)));
            assert_true(http_client_answer(&client, &answer));
            assert_true(http_header(answer.head, "connection", value, sizeof value));
            if (strcmp(value, cases[i].closes ? "close" : "keep-alive") != 0)
                fail_msg("case %zu: %s", i, value);
            http_answer_free(&answer);
        }
        if (cases[i].closes)
            assert_true(http_client_closed(&client, 120000));
        http_client_close(&client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fallback_errors),   cmocka_unit_test(test_length_in_two_ways),
        cmocka_unit_test(test_folds_and_hosts),   cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_endless_extension), cmocka_unit_test(test_chunks_joined),
        cmocka_unit_test(test_blank_lines),       cmocka_unit_test(test_trailers),
        cmocka_unit_test(test_persistence),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
