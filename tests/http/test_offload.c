// Text work that has to wait: who came first goes first, and who leaves meanwhile, from whichever
// place, takes nobody with him.
#include "tests/http/fixture.h"

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
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
