// SPDX-License-Identifier: Apache-2.0
// The machine is paused for an hour: no request is ended for the time that passed.
#include "tests/http/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static _Atomic uint64_t paused_s;

int __real_clock_gettime(clockid_t clock, struct timespec *out); // NOLINT: the linker's names
int __wrap_clock_gettime(clockid_t clock, struct timespec *out); // NOLINT
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int failed = __real_clock_gettime(clock, out);
    out->tv_sec += (time_t)paused_s;
    return failed;
}

static bool seconds_came(void *context)
{
    return seen.seconds >= *(uint32_t *)context;
}

static void seconds_await(uint32_t count)
{
    count += seen.seconds;
    assert_true(wait_until(seconds_came, &count));
}

static bool all_are_there(void *context)
{
    const struct fixture *f = context;
    return server_requests(f->server) == 4;
}

static void ask(struct http_client *client, const struct fixture *f, const char *path,
                const char *body)
{
    assert_true(http_client_open_small(client, f->port, 4096));
    assert_true(http_client_request(client, "POST", path, BEARER JSON, body));
}

// A stalled reader and a waiting grammar continue afterwards.
static void test_a_pause_of_the_machine_cuts_nobody(void **state)
{
    (void)state;
    enum { TOKENS = 100000 }; // 9 MB
    struct fixture f;
    struct server_options options = {.http_threads = 1};
    struct http_client slow, witness, compile[2];
    struct http_answer answer;
    fixture_open(&f, &options, true);
    seen.work_hold = 4;
    ask(&slow, &f, "/v1/test/stream", "{}");
    assert_true(fixture_wait_live(&f, 1));
    assert_true(port_double_push(f.ports[0], 0, TOKENS, FINISH_STOP));
    assert_true(http_client_head(&slow));
    ask(&compile[0], &f, "/v1/test/compile", "a");
    ask(&compile[1], &f, "/v1/test/compile", "b");
    ask(&witness, &f, "/v1/test/wait", "{}");
    assert_true(wait_until(all_are_there, &f));
    seconds_await(3);
    paused_s = 3600;
    seconds_await(6); // at most two per scan
    assert_int_equal(metric_value(&f, "weft_readers_stalled_total"), 0);
    assert_true(http_client_until(&slow, "data: [DONE]"));
    seen.work_hold = 0;
    for (int i = 0; i < 2; i++) {
        assert_true(http_client_answer(&compile[i], &answer));
        assert_int_equal(answer.status, 200);
        http_answer_free(&answer);
        http_client_close(&compile[i]);
    }
    http_client_close(&slow);
    http_client_close(&witness);
    assert_true(fixture_wait_cancelled(&f, 1));
    port_double_settle(f.ports[0]);
    assert_true(fixture_wait_live(&f, 0));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pause_of_the_machine_cuts_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
