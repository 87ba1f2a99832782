// Text work that has to wait: who came first goes first, and who leaves meanwhile, from whichever
// place, takes nobody with him.
#include "tests/http/fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { CLIENTS = 14 }; // a worker has four, the others wait

static struct fixture fixture;

static bool gone_are(void *context)
{
    return seen.gone == *(uint32_t *)context;
}

static bool arrived_are(void *context)
{
    return server_requests(fixture.server) == *(uint32_t *)context;
}

// Each sends its letter; those of `leave` go before anything is done.
static void order_check(const char *path, const char *leave, const char *wanted)
{
    struct http_client clients[CLIENTS];
    struct http_answer answer;
    uint32_t gone = seen.gone + (uint32_t)strlen(leave), before = seen.ordered = 0, count = 0;
    assert_true(wait_until(arrived_are, &count)); // h2o may still end the last answers
    seen.work_hold = 1;
    for (int i = 0; i < CLIENTS; i++) {
        char body[2] = {(char)('a' + i), '\0'};
        assert_true(http_client_open(&clients[i], fixture.port));
        assert_true(http_client_request(&clients[i], "POST", path, BEARER JSON, body));
        count = (uint32_t)i + 1;
        assert_true(wait_until(arrived_are, &count));
    }
    for (const char *at = leave; *at != '\0'; at++)
        http_client_close(&clients[*at - 'a']);
    assert_true(wait_until(gone_are, &gone));
    seen.work_hold = 0;
    for (int i = 0; i < CLIENTS; i++) {
        char sum[32];
        if (strchr(leave, 'a' + i))
            continue;
        snprintf(sum, sizeof sum, "{\"sum\":%d}", 'a' + i);
        assert_true(http_client_answer(&clients[i], &answer));
        assert_string_equal(answer.body, sum);
        http_answer_free(&answer);
        http_client_close(&clients[i]);
    }
    assert_int_equal(seen.ordered - before, strlen(wanted));
    seen.order[seen.ordered] = '\0';
    assert_string_equal(seen.order, wanted);
}

static void test_first_come_first_served(void **state)
{
    (void)state;
    order_check("/v1/test/work", "", "abcdefghijklmn");
    order_check("/v1/test/alone", "", "abcdefghijklmn");
    order_check("/v1/test/compile", "", "abcdefghijklmn");
}

// The first and the last that wait, one between, two beside each other, all of them.
static void test_who_leaves_while_waiting(void **state)
{
    static const char *const leave[][2] = {{"e", "abcdfghijklmn"}, {"n", "abcdefghijklm"},
                                           {"h", "abcdefgijklmn"}, {"hi", "abcdefgjklmn"},
                                           {"mn", "abcdefghijkl"}, {"nm", "abcdefghijkl"},
                                           {"efghijklmn", "abcd"}};
    (void)state;
    for (size_t i = 0; i < sizeof leave / sizeof *leave; i++)
        order_check("/v1/test/work", leave[i][0], leave[i][1]);
    for (size_t i = 0; i < sizeof leave / sizeof *leave; i++)
        order_check("/v1/test/compile", leave[i][0], leave[i][1]);
}

static bool working_are(void *context)
{
    return seen.working == *(uint32_t *)context;
}

static bool done_gone_are(void *context)
{
    return seen.done_gone == *(uint32_t *)context;
}

// What one key has compiled does not hold up another key for longer than one grammar.
static void test_keys_take_turns_at_grammars(void **state)
{
    enum { OF_ONE = 8, ALL = 11 };
    struct http_client clients[ALL];
    struct http_answer answer;
    uint32_t before = seen.ordered = 0, count = 0;
    (void)state;
    assert_true(wait_until(arrived_are, &count));
    seen.work_hold = 1;
    for (int i = 0; i < ALL; i++) {
        static const char *const heads[] = {BEARER JSON, "Authorization: Bearer sk-other\r\n" JSON};
        char body[2] = {(char)('a' + i), '\0'};
        assert_true(http_client_open(&clients[i], fixture.port));
        assert_true(
            http_client_request(&clients[i], "POST", "/v1/test/compile", heads[i >= OF_ONE], body));
        count = (uint32_t)i + 1;
        assert_true(wait_until(arrived_are, &count));
    }
    seen.work_hold = 0;
    for (int i = 0; i < ALL; i++) {
        assert_true(http_client_answer(&clients[i], &answer));
        assert_int_equal(answer.status, 200);
        http_answer_free(&answer);
        http_client_close(&clients[i]);
    }
    assert_int_equal(seen.ordered - before, ALL);
    seen.order[seen.ordered] = '\0';
    assert_string_equal(seen.order, "aibjckdefgh");
}

// What the grammar thread reads and writes is there until it is done, with and without a client.
static void test_a_client_leaves_while_its_grammar_is_compiled(void **state)
{
    struct http_client client;
    uint32_t one = 1, none = 0, gone = seen.gone + 1, done_gone = seen.done_gone + 1;
    (void)state;
    assert_true(wait_until(arrived_are, &none));
    uint64_t left = metric_value(&fixture, "weft_clients_gone_total");
    seen.work_hold = 4;
    assert_true(http_client_open(&client, fixture.port));
    assert_true(http_client_request(&client, "POST", "/v1/test/compile", BEARER JSON, "abc"));
    assert_true(wait_until(working_are, &one));
    http_client_close(&client);
    metric_wait(&fixture, "weft_clients_gone_total", left, left + 1);
    assert_int_equal(seen.gone, gone - 1); // the handler is told when the thread is done
    seen.work_hold = 0;
    assert_true(wait_until(done_gone_are, &done_gone));
    assert_true(wait_until(gone_are, &gone));
}

static void *drain_main(void *context)
{
    int *lost = context;
    *lost = server_drain(fixture.server);
    return NULL;
}

// A drain waits for the grammar and for its answer. The last test: the server is closed then.
static void test_a_drain_waits_for_a_grammar(void **state)
{
    struct http_client client;
    struct http_answer answer;
    pthread_t thread;
    uint32_t one = 1;
    int lost = -1;
    (void)state;
    seen.work_hold = 4;
    assert_true(http_client_open(&client, fixture.port));
    assert_true(http_client_request(&client, "POST", "/v1/test/compile", BEARER JSON, "ab"));
    assert_true(wait_until(working_are, &one));
    assert_int_equal(pthread_create(&thread, NULL, drain_main, &lost), 0);
    seen.work_hold = 0;
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"sum\":195}");
    http_answer_free(&answer);
    http_client_close(&client);
    pthread_join(thread, NULL);
    assert_int_equal(lost, 0);
}

static int open_main(void **state)
{
    (void)state;
    fixture_open(&fixture, NULL, true); // one worker
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
        cmocka_unit_test(test_first_come_first_served),
        cmocka_unit_test(test_who_leaves_while_waiting),
        cmocka_unit_test(test_keys_take_turns_at_grammars),
        cmocka_unit_test(test_a_client_leaves_while_its_grammar_is_compiled),
        cmocka_unit_test(test_a_drain_waits_for_a_grammar),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
