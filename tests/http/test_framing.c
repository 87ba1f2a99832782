// Where a request ends: what libh2o refuses before routing comes as JSON of ours, and what it reads
// in one of two ways is refused by us.
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

// h2o's own errors, raised before routing, are JSON of ours; a head that is no HTTP is not.
static void test_fallback_errors(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: cheese\r\n\r\n",
        "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
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

// A request whose end a proxy may see elsewhere is refused and the connection closed, also behind
// another one; a length that stands twice alike, or in the body, is none.
static void test_length_in_two_ways(void **state)
{
    (void)state;
#define ECHO "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n" BEARER JSON
    static const struct {
        const char *bytes;
        int statuses[2];
    } cases[] = {
        {ECHO "Content-Length: 2\r\ncontent-length: 3\r\n\r\n{} ", {400}},
        {ECHO "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", {400}},
        {ECHO "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n", {400}},
        {ECHO "Content-Length: 2\r\nContent-Length:  2 \r\n\r\n{}", {200}},
        {ECHO "Content-Length: 29\r\n\r\n{}\r\ncontent-length: 9\r\n\r\n\n   ", {200}},
        {"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" ECHO
         "Content-Length: 2\r\nContent-Length: 1\r\n\r\n{}", {200, 400}},
    };
#undef ECHO
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_client client;
        struct http_answer answer;
        char value[64];
        assert_true(http_client_open(&client, fixture.port));
        assert_true(http_client_send(&client, cases[i].bytes, strlen(cases[i].bytes)));
        for (int j = 0; j < 2 && cases[i].statuses[j] != 0; j++) {
            if (!http_client_answer(&client, &answer) || answer.status != cases[i].statuses[j])
                fail_msg("case %zu, answer %d", i, j);
            bool closes = http_header(answer.head, "connection", value, sizeof value) &&
                          strcmp(value, "close") == 0;
            assert_int_equal(closes, answer.status == 400);
            http_answer_free(&answer);
        }
        http_client_close(&client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fallback_errors),
        cmocka_unit_test(test_length_in_two_ways),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
