// SPDX-License-Identifier: Apache-2.0
// Text work that waits: jobs run in the order of their arrival, and a client that leaves, from any
// position, affects no other job.
#include "http/internal.h"
#include "tests/http/fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CLIENTS = 14 }; // a worker accepts four, the others wait

static struct fixture fixture;

static bool gone_are(void *context)
{
    return seen.gone == *(uint32_t *)context;
}

static bool arrived_are(void *context)
{
    return server_requests(fixture.server) == *(uint32_t *)context;
}

// Each client sends its letter; the clients in `leave` disconnect before any work is done.
static void order_check(const char *path, const char *leave, const char *wanted)
{
    struct http_client clients[CLIENTS];
    struct http_answer answer;
    uint32_t gone = seen.gone + (uint32_t)strlen(leave), before = seen.ordered = 0, count = 0;
    assert_true(wait_until(arrived_are, &count)); // h2o may still be sending the last responses
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

// The first and the last that wait, one between, two neighbours, all of them.
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

// The jobs of one key delay another key by at most one grammar.
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

static bool sharing_is(void *context)
{
    return seen.sharing == *(uint32_t *)context;
}

// A response of a body's size is written while that body is prepared.
static void test_answers_wait_for_no_body(void **state)
{
    enum { BYTES = 10 << 20 };
    struct http_client client;
    struct http_answer answer;
    uint32_t one = 1, none = 0;
    char *body = malloc(BYTES + 1);
    (void)state;
    assert_true(wait_until(arrived_are, &none));
    memset(body, '1', BYTES);
    body[BYTES] = '\0';
    seen.work_hold = 3;
    assert_true(http_client_open(&client, fixture.port));
    assert_true(http_client_request(&client, "POST", "/v1/test/work", BEARER JSON, body));
    assert_true(wait_until(sharing_is, &one));
    assert_true(http_once(fixture.port, "POST", "/v1/test/answer", BEARER JSON, "ab", &answer));
    assert_string_equal(answer.body, "{\"sum\":195}");
    http_answer_free(&answer);
    assert_int_equal(seen.sharing, 1);
    seen.work_hold = 0;
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    http_client_close(&client);
    free(body);
}

static struct fixture bounded; // compile queue: four jobs per key, six in all

struct asked {
    struct http_client client;
    struct http_answer answer;
};

static void compile_ask(struct asked *asked, const char *heads, const char *body)
{
    assert_true(http_client_request(&asked->client, "POST", "/v1/test/compile", heads, body));
}

static void compile_send(struct asked *asked, const char *heads, const char *body)
{
    assert_true(http_client_open(&asked->client, bounded.port));
    compile_ask(asked, heads, body);
}

static void compile_read(struct asked *asked, int status, const char *body)
{
    assert_true(http_client_answer(&asked->client, &asked->answer));
    assert_int_equal(asked->answer.status, status);
    if (!strstr(asked->answer.body, body))
        fail_msg("%s instead of %s", asked->answer.body, body);
    char retry[8];
    assert_int_equal(http_header(asked->answer.head, "retry-after", retry, sizeof retry),
                     status == 503);
    http_answer_free(&asked->answer);
}

static void compile_expect(struct asked *asked, int status, const char *body)
{
    compile_read(asked, status, body);
    http_client_close(&asked->client);
}

static bool bounded_are(void *context)
{
    return server_requests(bounded.server) == *(uint32_t *)context;
}

#define OTHER "Authorization: Bearer sk-other\r\n" JSON

// Waits until the job is with the grammar thread or queued.
static void compile_put(struct asked *asked, const char *heads, const char *body, uint32_t count)
{
    compile_send(asked, heads, body);
    assert_true(wait_until(bounded_are, &count));
}

static void bounded_open_of(uint64_t wait_ms, uint32_t threads)
{
    fixture_open(&bounded,
                 &(struct server_options){.http2 = -1,
                                          .http_threads = threads,
                                          .shutdown_timeout_ms = DRAIN_MS,
                                          .compiles_max = 6,
                                          .compiles_key_max = 4,
                                          .compile_wait_ms = wait_ms},
                 true);
}

static void bounded_open(uint64_t wait_ms)
{
    bounded_open_of(wait_ms, 1);
    seen.work_hold = 4;
}

static void test_so_many_grammars_may_wait(void **state)
{
    static const char *const bodies[] = {"a", "b", "c", "d", "e"};
    struct asked of_one[5], of_other[2], over;
    uint32_t count = 0, none = 0;
    (void)state;
    bounded_open(0);
    for (int i = 0; i < 5; i++) // the first is being compiled
        compile_put(&of_one[i], BEARER JSON, bodies[i], ++count);
    compile_send(&over, BEARER JSON, "f");
    compile_expect(&over, 503, "too many");
    for (int i = 0; i < 2; i++)
        compile_put(&of_other[i], OTHER, bodies[i], ++count);
    compile_send(&over, OTHER, "f");
    compile_expect(&over, 503, "too many");
    http_client_close(&of_one[4].client); // makes room
    count--;
    assert_true(wait_until(bounded_are, &count));
    compile_put(&of_one[4], OTHER, "g", ++count);
    seen.work_hold = 0;
    for (int i = 0; i < 5; i++)
        compile_expect(&of_one[i], 200, "{\"sum\":");
    for (int i = 0; i < 2; i++)
        compile_expect(&of_other[i], 200, "{\"sum\":");
    assert_true(wait_until(bounded_are, &none));
    fixture_close(&bounded);
}

// Equal sources count once and are compiled once, by the job that is first. If its client leaves,
// the next job takes its place.
static void test_equal_grammars_are_compiled_once(void **state)
{
    static const char *const bodies[] = {"aa", "bb", "cc", "dd"};
    struct asked asked[4], same[4], more[2];
    uint32_t count = 0, none = 0;
    (void)state;
    bounded_open(0);
    uint32_t ordered = seen.ordered;
    for (int i = 0; i < 4; i++) {
        compile_put(&asked[i], BEARER JSON, bodies[i], ++count);
        compile_put(&same[i], BEARER JSON, bodies[i], ++count);
    }
    compile_put(&more[0], BEARER JSON, "e", ++count); // the fourth waiting job
    compile_send(&more[1], BEARER JSON, "f");
    compile_expect(&more[1], 503, "too many");
    http_client_close(&asked[3].client); // its duplicate counts from now on
    count--;
    assert_true(wait_until(bounded_are, &count));
    compile_send(&more[1], BEARER JSON, "f");
    compile_expect(&more[1], 503, "too many");
    compile_put(&asked[3], BEARER JSON, "dd", ++count);
    seen.work_hold = 0;
    for (int i = 0; i < 4; i++) {
        char sum[32];
        snprintf(sum, sizeof sum, "{\"sum\":%d}", 2 * bodies[i][0]);
        compile_expect(&asked[i], 200, i < 3 ? sum : "{\"sum\":0}");
        compile_expect(&same[i], 200, i < 3 ? "{\"sum\":0}" : sum);
    }
    compile_expect(&more[0], 200, "{\"sum\":101}");
    assert_true(wait_until(bounded_are, &none));
    assert_int_equal(seen.ordered - ordered, 5);
    fixture_close(&bounded);
}

static struct {
    _Atomic uint32_t most;     // maximum number of `done` calls per iteration
    _Atomic uint64_t asked;    // calls
    _Atomic uint64_t since[2]; // when the first two had queued first
} ended;

static void ended_count(struct exchange *x)
{
    static uint64_t turn; // iteration of the only loop
    static uint32_t count;
    uint64_t now = atomic_load(&x->thread->iterations);
    count = now == turn ? count + 1 : 1;
    turn = now;
    if (count > ended.most)
        ended.most = count;
    ended.since[ended.asked % 2] = x->job.compile.since_ns;
    ended.asked++;
}

static void ended_begin(void)
{
    ended.most = 0;
    ended.asked = 0;
    seen.compiled = ended_count;
}

// The limit of duplicates is sixteen times the limit of queued jobs: 64 of a key, 96 in all. They
// complete over several iterations.
static void test_so_many_may_repeat_a_grammar(void **state)
{
    enum { OF_KEY = 64, ALL = 96 };
    static struct asked asked[ALL + 1];
    struct asked over, other;
    uint32_t none = 0, count = 0;
    (void)state;
    bounded_open(600000); // long enough for a slow machine
    ended_begin();
    for (int i = 0; i <= ALL; i++) { // the first is being compiled
        if (i == OF_KEY + 1) {
            compile_send(&over, BEARER JSON, "aa");
            compile_expect(&over, 503, "too many");
        }
        compile_put(&asked[i], i <= OF_KEY ? BEARER JSON : OTHER, "aa", ++count);
    }
    compile_send(&over, OTHER, "aa");
    compile_expect(&over, 503, "too many");
    http_client_close(&asked[ALL].client); // makes room
    count--;
    assert_true(wait_until(bounded_are, &count));
    compile_put(&asked[ALL], OTHER, "aa", ++count);
    compile_put(&other, OTHER, "b", ++count); // the other key has its own limit
    seen.work_hold = 0;
    for (int i = 0; i <= ALL; i++)
        compile_expect(&asked[i], 200, i == 0 ? "{\"sum\":194}" : "{\"sum\":0}");
    compile_expect(&other, 200, "{\"sum\":98}");
    assert_true(wait_until(bounded_are, &none));
    assert_in_range(ended.most, 2, 33); // 32 duplicates, and the compiled job
    fixture_close(&bounded);
}

// A key that is served earlier does not wait for another key's job with the same source; a job
// whose client leaves is replaced by its duplicate.
static void test_who_repeats_a_grammar_keeps_its_turn(void **state)
{
    struct asked held, ahead[3], first, sooner[2], last;
    uint32_t none = 0, count = 0, ordered = seen.ordered;
    (void)state;
    bounded_open(600000);
    compile_put(&held, BEARER JSON, "h", ++count);
    for (int i = 0; i < 3; i++)
        compile_put(&ahead[i], BEARER JSON, (const char *[]){"i", "j", "k"}[i], ++count);
    compile_put(&first, BEARER JSON, "dd", ++count);
    compile_put(&sooner[0], OTHER, "dd", ++count); // queued before the first one
    compile_put(&sooner[1], OTHER, "dd", ++count);
    compile_put(&last, OTHER, "l", ++count);
    http_client_close(&sooner[0].client);
    count--;
    assert_true(wait_until(bounded_are, &count));
    seen.work_hold = 0;
    compile_expect(&held, 200, "{\"sum\":104}");
    for (int i = 0; i < 3; i++)
        compile_expect(&ahead[i], 200, "{\"sum\":10");
    compile_expect(&first, 200, "{\"sum\":200}");
    compile_expect(&sooner[1], 200, "{\"sum\":0}");
    compile_expect(&last, 200, "{\"sum\":108}");
    assert_true(wait_until(bounded_are, &none));
    assert_int_equal(seen.ordered - ordered, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(seen.order[(ordered + i) % sizeof seen.order], "hdiljk"[i]);
    fixture_close(&bounded);
}

static _Atomic uint32_t noted;

static void thread_note(struct exchange *x)
{
    noted = x->thread->index;
}

// Opens `count` connections to the first h2o thread and one to the second.
static void threads_connect(struct asked *first, int count, struct asked *second)
{
    int found = 0;
    bool other = false;
    seen.work_hold = 0;
    seen.compiled = thread_note;
    for (int tries = 0; found < count || !other; tries++) {
        struct asked asked;
        assert_true(tries < 10000);
        compile_send(&asked, BEARER JSON, "q");
        compile_read(&asked, 200, "{\"sum\":113}");
        if (noted == 0 && found < count) {
            first[found++] = asked;
        } else if (noted == 1 && !other) {
            *second = asked;
            other = true;
        } else {
            http_client_close(&asked.client);
        }
    }
    seen.compiled = NULL;
    seen.work_hold = 4;
}

// The first job waits at the grammar thread, which is busy with another; then its client leaves or
// its deadline passes. Its duplicate takes its place, although its key's limit is reached.
static void passed_on_check(bool leaves)
{
    enum { REPEATS = 3, AHEAD = 1 + REPEATS, ALL = AHEAD + 4 };
    static const char *const bodies[ALL] = {"dd", "dd", "dd", "dd", "i", "j", "k", "l"};
    struct asked asked[ALL], other;
    uint32_t one = 1, none = 0, count = 1;
    bounded_open_of(600000, 2);
    threads_connect(asked, ALL, &other);
    uint32_t ordered = seen.ordered;
    uint64_t gone = metric_value(&bounded, "weft_clients_gone_total");
    compile_ask(&other, BEARER JSON, "h");
    assert_true(wait_until(working_are, &one));
    for (int i = 0; i < ALL; i++) {
        compile_ask(&asked[i],
                    i > 0 || leaves ? BEARER JSON : BEARER JSON "X-Stainless-Timeout: 0.1\r\n",
                    bodies[i]);
        count++;
        assert_true(wait_until(bounded_are, &count));
    }
    if (leaves) {
        http_client_close(&asked[0].client);
        metric_wait(&bounded, "weft_clients_gone_total", gone + 1, gone + 1);
    } else {
        usleep(200000); // its deadline is 100 ms
    }
    seen.work_hold = 0;
    compile_expect(&other, 200, "{\"sum\":104}");
    for (int i = leaves; i < ALL; i++)
        compile_expect(&asked[i], 200,
                       i == 1      ? "{\"sum\":200}"
                       : i < AHEAD ? "{\"sum\":0}"
                                   : "{\"sum\":10");
    assert_true(wait_until(bounded_are, &none));
    assert_int_equal(seen.ordered - ordered, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(seen.order[(ordered + i) % sizeof seen.order], "hdijkl"[i]);
    fixture_close(&bounded);
}

static void test_who_repeats_a_grammar_that_is_not_compiled_has_its_turn(void **state)
{
    (void)state;
    passed_on_check(true);
    passed_on_check(false);
}

// The wait limit starts at the first compile request.
static void test_who_asks_again_has_waited_before(void **state)
{
    struct asked again;
    uint32_t none = 0, count = 0;
    (void)state;
    bounded_open(600000);
    ended_begin();
    compile_put(&again, BEARER JSON, "r", ++count);
    seen.work_hold = 0;
    compile_expect(&again, 200, "{\"sum\":228}");
    assert_int_equal(ended.asked, 2);
    assert_true(ended.since[0] > 0);
    assert_int_equal(ended.since[1], ended.since[0]);
    assert_true(wait_until(bounded_are, &none));
    fixture_close(&bounded);
}

static void test_a_deadline_passes_while_a_grammar_waits(void **state)
{
    struct asked held, late;
    uint32_t none = 0, gone = seen.gone + 1, done_gone = seen.done_gone + 1;
    (void)state;
    bounded_open(0);
    compile_put(&held, BEARER JSON, "a", 1);
    compile_send(&late, BEARER JSON "X-Stainless-Timeout: 0.1\r\n", "b");
    compile_expect(&late, 504, "its deadline");
    assert_int_equal(seen.gone, gone);
    assert_int_equal(seen.done_gone, done_gone);
    seen.work_hold = 0;
    compile_expect(&held, 200, "{\"sum\":97}");
    assert_true(wait_until(bounded_are, &none));
    fixture_close(&bounded);
}

static bool time_is(void *context)
{
    return clock_ns() > *(uint64_t *)context;
}

// Only a compile is abandoned after its deadline: a finished response is sent.
static void test_an_answer_is_sent_after_its_deadline(void **state)
{
    enum { ANSWERS = 8 }; // more than are written concurrently
    struct asked asked[ANSWERS];
    uint32_t none = 0;
    (void)state;
    bounded_open(0);
    seen.work_hold = 1;
    for (uint32_t i = 0; i < ANSWERS; i++) {
        uint32_t count = i + 1;
        assert_true(http_client_open(&asked[i].client, bounded.port));
        assert_true(http_client_request(&asked[i].client, "POST", "/v1/test/answer",
                                        BEARER JSON "X-Stainless-Timeout: 0.1\r\n", "ab"));
        assert_true(wait_until(bounded_are, &count));
    }
    uint64_t after = clock_ns() + 200000000;
    assert_true(wait_until(time_is, &after));
    seen.work_hold = 0;
    for (uint32_t i = 0; i < ANSWERS; i++)
        compile_expect(&asked[i], 200, "{\"sum\":195}");
    assert_true(wait_until(bounded_are, &none));
    fixture_close(&bounded);
}

// If a stream has already started, it gets the error as an event.
static void test_a_grammar_waits_so_long_at_most(void **state)
{
    struct asked held, late, stream;
    uint32_t none = 0;
    (void)state;
    bounded_open(100);
    compile_put(&held, BEARER JSON, "a", 1);
    compile_put(&stream, BEARER JSON, "t", 2);
    compile_send(&late, BEARER JSON, "b");
    assert_true(http_client_head(&stream.client));
    assert_int_equal(stream.client.status, 200);
    assert_true(http_client_until(&stream.client, "begun Too many grammars wait to be compiled"));
    compile_expect(&late, 503, "Too many grammars wait to be compiled");
    http_client_close(&stream.client);
    seen.work_hold = 0;
    compile_expect(&held, 200, "{\"sum\":97}");
    assert_true(wait_until(bounded_are, &none));
    fixture_close(&bounded);
}

// A stream starts while its grammar waits or is compiled, and continues with it; a client that
// leaves affects no other stream.
static void test_a_stream_begins_before_its_grammar(void **state)
{
    struct asked first, second, third;
    uint32_t none = 0, two = 2, gone = seen.gone + 1;
    (void)state;
    bounded_open(0);
    compile_put(&first, BEARER JSON, "s", 1);
    compile_put(&second, BEARER JSON, "s", 2);
    compile_put(&third, BEARER JSON, "s", 3);
    assert_true(http_client_head(&first.client));
    assert_true(http_client_until(&first.client, "begun "));
    assert_true(http_client_head(&second.client));
    assert_true(http_client_until(&second.client, "begun "));
    assert_true(http_client_head(&third.client));
    http_client_close(&second.client);
    assert_true(wait_until(bounded_are, &two));
    seen.work_hold = 0;
    assert_true(http_client_until(&first.client, "115"));
    assert_true(http_client_until(&third.client, "115"));
    http_client_close(&first.client);
    http_client_close(&third.client);
    assert_true(wait_until(bounded_are, &none));
    assert_int_equal(seen.gone, gone);
    fixture_close(&bounded);
}

// The input and output of the grammar thread remain valid until it is done, even if the client has
// left.
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
    assert_int_equal(seen.gone, gone - 1); // the handler is notified after the thread is done
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

// A drain waits for the grammar and its response. Last test: it closes the server.
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

// A response whose last token has arrived is sent, even if the device fails while it is written.
static void test_a_device_fails_while_an_answer_is_written(void **state)
{
    (void)state;
    struct http_client written, waits;
    struct http_answer answer;
    seen.work_hold = 1;
    assert_true(http_client_open(&written, fixture.port));
    assert_true(http_client_request(&written, "POST", "/v1/test/written", BEARER JSON, "1"));
    assert_true(fixture_wait_live(&fixture, 1));
    assert_true(port_double_push(fixture.ports[0], 0, 1, FINISH_STOP));
    assert_true(wait_until(working_are, &(uint32_t){1}));
    assert_true(http_client_open(&waits, fixture.port));
    assert_true(http_client_request(&waits, "POST", "/v1/test/wait", BEARER JSON, "{}"));
    assert_true(fixture_wait_live(&fixture, 2));
    engine_double_stats(fixture.engine)->failed = 1;
    assert_true(fixture_wait_cancelled(&fixture, 1)); // each exchange is checked each second
    assert_true(http_client_answer(&waits, &answer));
    assert_int_equal(answer.status, 500);
    http_answer_free(&answer);
    seen.work_hold = 0;
    assert_true(http_client_answer(&written, &answer));
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"sum\":49}");
    http_answer_free(&answer);
    engine_double_stats(fixture.engine)->failed = 0;
    port_double_settle(fixture.ports[0]);
    assert_true(fixture_wait_live(&fixture, 0));
    http_client_close(&written);
    http_client_close(&waits);
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
        cmocka_unit_test(test_answers_wait_for_no_body),
        cmocka_unit_test(test_keys_take_turns_at_grammars),
        cmocka_unit_test(test_so_many_grammars_may_wait),
        cmocka_unit_test(test_equal_grammars_are_compiled_once),
        cmocka_unit_test(test_so_many_may_repeat_a_grammar),
        cmocka_unit_test(test_who_repeats_a_grammar_keeps_its_turn),
        cmocka_unit_test(test_who_repeats_a_grammar_that_is_not_compiled_has_its_turn),
        cmocka_unit_test(test_who_asks_again_has_waited_before),
        cmocka_unit_test(test_a_deadline_passes_while_a_grammar_waits),
        cmocka_unit_test(test_an_answer_is_sent_after_its_deadline),
        cmocka_unit_test(test_a_grammar_waits_so_long_at_most),
        cmocka_unit_test(test_a_stream_begins_before_its_grammar),
        cmocka_unit_test(test_a_client_leaves_while_its_grammar_is_compiled),
        cmocka_unit_test(test_a_device_fails_while_an_answer_is_written),
        cmocka_unit_test(test_a_drain_waits_for_a_grammar),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
