// SPDX-License-Identifier: Apache-2.0
// State of an exchange, on the functions themselves: its send space in each state, its status,
// output dropped after the client has left. No server runs and nothing is sent.
#include "http/ids.h"
#include "http/internal.h"

#include <ctype.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct http_thread thread;
static struct exchange x;
static struct arena *arena;

static int fresh(void **state)
{
    (void)state;
    memset(&x, 0, sizeof x);
    arena = arena_create(0, 0);
    x.thread = &thread;
    x.arena = arena;
    return 0;
}

static int clear(void **state)
{
    (void)state;
    json_buffer_free(&x.send.filling);
    json_buffer_free(&x.send.sending);
    arena_destroy(arena);
    return 0;
}

static void write_bytes(size_t bytes)
{
    static const char zeros[SEND_PIECE_BYTES];
    exchange_write(&x, text_span(zeros, bytes));
}

// 4 KiB for a stream, one piece for a long body.
static void test_send_space(void **state)
{
    (void)state;
    assert_int_equal(exchange_send_space(&x), 4096);
    exchange_stream_begin(&x);
    assert_int_equal(exchange_send_space(&x), 4096);
    write_bytes(1000);
    assert_int_equal(exchange_send_space(&x), 3096);
    write_bytes(3096);
    assert_int_equal(exchange_send_space(&x), 0);
    write_bytes(1); // the buffer grows, and no space is left
    assert_int_equal(exchange_send_space(&x), 0);
    exchange_end(&x);
    clear(NULL);
    fresh(NULL);
    exchange_reply_begin(&x, 200, 100000);
    assert_int_equal(exchange_send_space(&x), 65536);
    write_bytes(65535);
    assert_int_equal(exchange_send_space(&x), 1);
}

static void test_no_send_space(void **state)
{
    (void)state;
    exchange_stream_begin(&x);
    x.wire = WIRE_OPEN;
    assert_int_equal(exchange_send_space(&x), 4096);
    x.wire = WIRE_SENDING; // h2o holds a piece
    assert_int_equal(exchange_send_space(&x), 0);
    x.wire = WIRE_LAST;
    assert_int_equal(exchange_send_space(&x), 0);
    x.wire = WIRE_OPEN;
    x.gone = true;
    assert_int_equal(exchange_send_space(&x), 0);
    x.gone = false;
    exchange_end(&x);
    assert_int_equal(exchange_send_space(&x), 0);
}

static void test_status(void **state)
{
    (void)state;
    assert_int_equal(exchange_status(&x), 499); // no response
    assert_false(exchange_answered(&x));
    assert_false(exchange_is_stream(&x));
    exchange_reply_begin(&x, 206, 5);
    assert_int_equal(exchange_status(&x), 206);
    assert_true(exchange_answered(&x));
    assert_false(exchange_is_stream(&x));
    x.client = CLIENT_GONE;
    assert_int_equal(exchange_status(&x), 499);
    clear(NULL);
    fresh(NULL);
    exchange_stream_begin(&x);
    assert_int_equal(exchange_status(&x), 200);
    assert_true(exchange_is_stream(&x));
    assert_string_equal(x.response.content_type, "text/event-stream; charset=utf-8");
    exchange_end(&x);
    assert_int_equal(exchange_status(&x), 200);
}

static void test_answers(void **state)
{
    (void)state;
    exchange_header(&x, "x-a", text_of("b"));
    exchange_reply(&x, 201, text_of("{}"));
    assert_int_equal(x.reply, REPLY_ENDED);
    assert_int_equal(x.response.content_length, 2);
    assert_string_equal(x.response.content_type, "application/json");
    assert_int_equal(x.response.header_count, 1);
    assert_true(text_is(x.response.headers[0].value, "b"));
    assert_memory_equal(x.send.filling.at, "{}", 2);
    assert_null(x.response.code);
}

// A failure has its route's format, with its code for the log and its headers.
static void test_failures(void **state)
{
    static const struct http_failure failure = {.error = HTTP_INVALID_KEY, .message = {"No.", 3}},
                                     large = {.error = HTTP_TOO_LARGE, .message = {"No.", 3}};
    (void)state;
    x.info.shape = SHAPE_MESSAGES;
    x.info.request_id = text_of("r");
    exchange_fail(&x, &failure);
    assert_int_equal(x.response.status, 401);
    assert_string_equal(x.response.code, "invalid_api_key");
    assert_int_equal(x.response.header_count, 1);
    assert_string_equal(x.response.headers[0].name, "www-authenticate");
    assert_false(x.response.close);
    assert_memory_equal(x.send.filling.at, "{\"type\":\"error\"", 15);
    clear(NULL);
    fresh(NULL);
    exchange_fail(&x, &large);
    assert_int_equal(x.response.status, 413);
    assert_true(x.response.close);
    assert_int_equal(x.response.content_length, x.send.filling.bytes);
}

// Output for a client that has left is dropped.
static void test_writing_to_nobody(void **state)
{
    (void)state;
    exchange_stream_begin(&x);
    write_bytes(10);
    x.gone = true;
    write_bytes(10);
    assert_int_equal(x.send.filling.bytes, 10);
    assert_true(exchange_gone(&x));
}

// Ending a stream marks its client as gone, ending a complete response does not.
static void test_leaving(void **state)
{
    (void)state;
    exchange_stream_begin(&x);
    uint64_t before = thread.counters.clients_gone;
    exchange_client_gone(&x);
    assert_int_equal(thread.counters.clients_gone, before + 1);
    assert_true(x.client == CLIENT_GONE && x.gone);
    exchange_client_gone(&x); // once
    assert_int_equal(thread.counters.clients_gone, before + 1);
    clear(NULL);
    fresh(NULL);
    exchange_reply(&x, 200, text_of("{}"));
    exchange_client_gone(&x);
    assert_int_equal(thread.counters.clients_gone, before + 1);
    assert_int_equal(exchange_status(&x), 499);
}

// The server ends streams and exchanges without a response; complete responses and those with a
// length continue.
static void test_cutting(void **state)
{
    static const struct http_failure failure = {.error = HTTP_UNAVAILABLE, .message = {"No.", 3}};
    (void)state;
    exchange_cut(&x, &failure);
    assert_int_equal(x.response.status, 503);
    assert_string_equal(x.response.code, "unavailable");
    assert_true(x.gone);
    assert_int_equal(x.client, CLIENT_CUT);
    clear(NULL);
    fresh(NULL);
    exchange_reply_begin(&x, 200, 5);
    exchange_cut(&x, &failure);
    assert_false(x.gone);
    assert_int_equal(x.reply, REPLY_BEGUN);
    clear(NULL);
    fresh(NULL);
    exchange_reply(&x, 200, text_of("{}"));
    exchange_cut(&x, &failure);
    assert_false(x.gone);
    assert_int_equal(x.response.status, 200);
    clear(NULL);
    fresh(NULL); // a worker has it: answered after the worker is done
    x.job.state = JOB_RUNS;
    exchange_cut(&x, &failure);
    assert_true(x.gone);
    assert_int_equal(x.reply, REPLY_NONE);
    x.job.state = JOB_NONE;
    exchange_cut_end(&x);
    assert_int_equal(x.response.status, 503);
    assert_int_equal(x.reply, REPLY_ENDED);
    x.response.status = 1;
    exchange_cut_end(&x); // once
    assert_int_equal(x.response.status, 1);
}

// Each letter appears at each position, and no id repeats.
static void test_ids(void **state)
{
    enum { IDS = 3000 };
    static char ids[IDS][ID_LETTERS];
    static bool at[ID_LETTERS][256];
    (void)state;
    for (int i = 0; i < IDS; i++) {
        id_letters(ids[i]);
        for (int k = 0; k < ID_LETTERS; k++)
            at[k][(unsigned char)ids[i][k]] = true;
    }
    for (int k = 0; k < ID_LETTERS; k++)
        for (int c = 0; c < 256; c++)
            assert_int_equal(at[k][c], c < 128 && isalnum(c) != 0);
    for (int i = 1; i < IDS; i++)
        assert_memory_not_equal(ids[i], ids[i - 1], ID_LETTERS);
    struct text made = id_make(arena, "req_");
    assert_int_equal(made.bytes, 4 + ID_LETTERS);
    assert_memory_equal(made.at, "req_", 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_send_space), TEST(test_no_send_space), TEST(test_status),
        TEST(test_answers),    TEST(test_failures),      TEST(test_writing_to_nobody),
        TEST(test_leaving),    TEST(test_cutting),       TEST(test_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
