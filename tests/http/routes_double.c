// SPDX-License-Identifier: Apache-2.0
// The tests' routes, in place of http/api/list.c: small handlers that together use every function
// of exchange.h.
#include "http/api/endpoints.h"
#include "tests/http/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct seen seen;

static void echo_request(struct exchange *x)
{
    exchange_header(x, "x-rest", exchange_info(x)->path_rest);
    exchange_reply(x, 200, exchange_info(x)->body);
}

struct submitted {
    struct port *port;
    struct request *request;
};

static void submit(struct exchange *x)
{
    const struct served_model *model = &exchange_info(x)->served->models[0];
    struct submit_args args = {.owner = x, .choice_count = 1, .token_count = 7};
    struct submitted *s = arena_alloc_zeroed(exchange_arena(x), 1, sizeof *s);
    enum admission admission = ADMISSION_FAILED;
    while (admission != ADMITTED && (s->port = exchange_port(x, model, &args)))
        admission = port_submit(s->port, &args, &s->request);
    if (admission != ADMITTED) {
        struct http_failure failure = {.error = HTTP_OVERLOADED, .message = text_of("Full.")};
        exchange_fail(x, &failure);
        return;
    }
    exchange_state_set(x, s);
    exchange_attach(x, s->port, s->request);
    counters_params(x, 1, 1, 16);
}

static void stream_ready(struct exchange *x)
{
    const struct submitted *s = exchange_state(x);
    struct token_event event;
    if (exchange_gone(x))
        seen.ready_when_gone++;
    while (exchange_send_space(x) > 0 && port_next(s->port, s->request, &event, NULL)) {
        if (!exchange_answered(x))
            exchange_stream_begin(x);
        if (event.flags & EVENT_LAST) {
            exchange_write(x, text_of("data: [DONE]\n\n"));
            counters_finish(x, COUNTED_STOP, 3);
            exchange_detach(x);
            exchange_end(x);
            return;
        }
        char line[256];
        counters_tokens(x, 1);
        snprintf(line, sizeof line, "data: {\"t\":%u,\"pad\":\"%0*d\"}\n\n", event.index, 64, 0);
        exchange_write(x, text_of(line));
    }
}

static void wait_ready(struct exchange *x)
{
    const struct submitted *s = exchange_state(x);
    struct token_event event;
    while (port_next(s->port, s->request, &event, NULL)) {
        if ((event.flags & EVENT_LAST) == 0)
            continue;
        exchange_detach(x);
        exchange_reply(x, 200, text_of("{\"done\":true}"));
        return;
    }
}

// Ends the response at the first token, as a stop string does, while the engine request still runs.
static void stop_ready(struct exchange *x)
{
    const struct submitted *s = exchange_state(x);
    struct token_event event;
    if (port_next(s->port, s->request, &event, NULL))
        exchange_reply(x, 200, text_of("{\"stopped\":true}"));
}

static void any_gone(struct exchange *x)
{
    check(exchange_gone(x), "gone without being gone");
    seen.gone++;
    counters_gone(x, 0);
}

static void stream_cut(struct exchange *x, const struct http_failure *failure)
{
    exchange_write(x, arena_format(exchange_arena(x), "data: cut: %.*s\n\n",
                                   (int)failure->message.bytes, failure->message.at));
}

static void any_second(struct exchange *x, uint64_t now)
{
    (void)x;
    (void)now;
    seen.seconds++;
}

static void work_pass(struct exchange *x)
{
    seen.sharing++;
    while (seen.work_hold == 3 && slice_spend(exchange_slice(x), 1 << 20))
        usleep(100);
    seen.sharing--;
}

static void work_run(struct exchange *x)
{
    struct text body = exchange_info(x)->body; // must remain valid after the client has left
    seen.working++;
    while ((seen.work_hold == 1 || (seen.work_hold == 2 && body.bytes > 1 << 20)) &&
           !exchange_gone(x))
        usleep(1000);
    seen.working--;
    if (body.bytes > 8 << 20)
        work_pass(x);
    uint32_t sum = 0;
    for (size_t i = 0; i < body.bytes; i++)
        sum += (unsigned char)body.at[i];
    if (body.bytes == 1 && !exchange_gone(x))
        seen.order[seen.ordered++ % sizeof seen.order] = body.at[0];
    uint32_t *out = arena_alloc(exchange_arena(x), sizeof *out);
    *out = sum;
    exchange_state_set(x, out);
}

static void work_done(struct exchange *x)
{
    if (exchange_gone(x)) {
        seen.done_gone++;
        return;
    }
    const uint32_t *sum = exchange_state(x);
    exchange_reply(x, 200, arena_format(exchange_arena(x), "{\"sum\":%u}", *sum));
}

static void written_done(struct exchange *x)
{
    if (!exchange_gone(x))
        exchange_detach(x);
    work_done(x);
}

// A text worker writes the response; until then the engine owns the request.
static void written_ready(struct exchange *x)
{
    const struct submitted *s = exchange_state(x);
    struct token_event event;
    while (port_next(s->port, s->request, &event, NULL))
        if (event.flags & EVENT_LAST)
            exchange_offload(
                x, (struct offload){.work = work_run, .done = written_done, .reads_body = true});
}

static void work_request(struct exchange *x)
{
    exchange_offload(x, (struct offload){.work = work_run,
                                         .done = work_done,
                                         .reads_body = true,
                                         .bytes = exchange_info(x)->body.bytes});
}

// Queued like a response of ten megabytes, whatever the body's size.
static void answer_request(struct exchange *x)
{
    exchange_offload(x, (struct offload){.work = work_run,
                                         .done = work_done,
                                         .reads_body = true,
                                         .answers = true,
                                         .bytes = 10 << 20});
}

static void alone_run(struct exchange *x)
{
    uint32_t now = ++seen.alone;
    seen.alone_most = now > seen.alone_most ? now : seen.alone_most;
    usleep(2000);
    work_run(x);
    seen.alone--;
}

static void alone_request(struct exchange *x)
{
    exchange_offload(
        x,
        (struct offload){.work = alone_run, .done = work_done, .reads_body = true, .serial = true});
}

// State of a compile job for the grammar thread; its input is in the scratch arena. Body "s...": a
// stream that begins at the next second; "t...": a stream that begins immediately; "r...": compiled
// twice.
struct compiled {
    struct text text;
    uint32_t sum; // written by the grammar thread
    bool streams, begin_due, begun, asked_again, done;
    const struct http_failure *cut;
};

// Waits while work_hold is 4, even if the client has left.
static void compile_run(struct exchange *x)
{
    struct compiled *c = exchange_state(x);
    seen.working++;
    while (seen.work_hold == 4 || (seen.work_hold == 1 && !exchange_gone(x)))
        usleep(1000);
    seen.working--;
    if (!exchange_gone(x))
        seen.order[seen.ordered++ % sizeof seen.order] = c->text.at[0];
    for (size_t i = 0; i < c->text.bytes; i++)
        c->sum += (unsigned char)c->text.at[i];
}

static void compile_ready(struct exchange *x)
{
    struct compiled *c = exchange_state(x);
    if (c->begin_due && !c->begun) {
        exchange_stream_begin(x);
        exchange_write(x, text_of("begun "));
        c->begun = true;
    }
    if (c->begun && c->cut)
        exchange_write(x, c->cut->message);
    else if (c->begun && c->done) {
        exchange_write(x, arena_format(exchange_arena(x), "%u", c->sum));
        exchange_end(x);
    }
}

static void compile_second(struct exchange *x, uint64_t now)
{
    struct compiled *c = exchange_state(x);
    (void)now;
    c->begin_due = c->streams;
}

static void compile_cut(struct exchange *x, const struct http_failure *failure)
{
    ((struct compiled *)exchange_state(x))->cut = failure;
}

static void compile_done(struct exchange *x);

// Compiles again the first time, as if the result had left the cache.
static bool asks_again(struct exchange *x, struct compiled *c)
{
    if (c->text.at[0] != 'r' || c->asked_again || exchange_gone(x))
        return false;
    c->asked_again = true;
    check(exchange_compile(x, (struct offload){.work = compile_run, .done = compile_done}),
          "nobody else waits");
    return true;
}

static void compile_done(struct exchange *x)
{
    struct compiled *c = exchange_state(x);
    if (seen.compiled)
        seen.compiled(x);
    if (asks_again(x, c))
        return;
    c->done = true;
    if (exchange_gone(x))
        seen.done_gone++;
    else if (!c->begun)
        exchange_reply(x, 200, arena_format(exchange_arena(x), "{\"sum\":%u}", c->sum));
}

// Bodies of two or more bytes share a compile job if their first bytes are equal.
static void compile_request(struct exchange *x)
{
    static const struct http_failure full = {.error = HTTP_OVERLOADED,
                                             .message = {"too many", sizeof "too many" - 1}};
    struct compiled *c = arena_alloc_zeroed(exchange_arena(x), 1, sizeof *c);
    c->text = arena_copy(exchange_scratch(x), exchange_info(x)->body);
    c->streams = c->text.at[0] == 's';
    exchange_state_set(x, c);
    uint64_t same = c->text.bytes > 1 ? (uint64_t)c->text.at[0] : 0;
    if (!exchange_compile(
            x, (struct offload){.work = compile_run, .done = compile_done, .share_key = same}))
        exchange_fail(x, &full);
    else if (c->text.at[0] == 't') {
        c->begin_due = true;
        compile_ready(x);
    }
}

static void prepared_request(struct exchange *x)
{
    seen.prepared++;
    work_done(x);
}

static void fail_request(struct exchange *x)
{
    char digits[8] = "";
    struct text body = exchange_info(x)->body;
    memcpy(digits, body.at, body.bytes < 7 ? body.bytes : 7);
    struct http_failure failure = {.error = (enum http_error)atoi(digits),
                                   .message = text_of("Said \"so\"."),
                                   .prompt_tokens = 9,
                                   .context_tokens = 8};
    seen.deadline_ms =
        (exchange_info(x)->deadline_ns > 0)
            ? (exchange_info(x)->deadline_ns - exchange_info(x)->started_ns) / 1000000
            : 0;
    exchange_fail(x, &failure);
}

struct big {
    uint64_t bytes, written;
};

static void big_send(struct exchange *x)
{
    struct big *big = exchange_state(x);
    static const char zeros[4096];
    size_t space;
    while (big->written < big->bytes && (space = exchange_send_space(x)) > 0) {
        uint64_t left = big->bytes - big->written;
        size_t bytes = space < sizeof zeros ? space : sizeof zeros;
        bytes = left < bytes ? (size_t)left : bytes;
        exchange_write(x, text_span(zeros, bytes));
        big->written += bytes;
    }
    if (big->written == big->bytes)
        exchange_end(x);
}

static void big_request(struct exchange *x)
{
    char digits[16] = "";
    struct text body = exchange_info(x)->body;
    memcpy(digits, body.at, body.bytes < 15 ? body.bytes : 15);
    struct big *big = arena_alloc_zeroed(exchange_arena(x), 1, sizeof *big);
    big->bytes = strtoull(digits, NULL, 10);
    exchange_state_set(x, big);
    exchange_reply_begin(x, 200, big->bytes);
    big_send(x);
}

enum { POST_FLAGS = ROUTE_BEARER | ROUTE_JSON };

static const struct route test_routes[] = {
    {"POST", "/v1/test/echo", SHAPE_OPENAI, POST_FLAGS, .on_request = echo_request},
    // GET is unused: test_metrics counts a path whose second method is POST
    {"GET", "/v1/test/rest/", SHAPE_OPENAI, ROUTE_BEARER, .on_request = echo_request},
    {"POST", "/v1/test/rest/", SHAPE_OPENAI, POST_FLAGS, .on_request = echo_request},
    {"POST", "/v1/messages", SHAPE_MESSAGES, ROUTE_X_API_KEY | ROUTE_JSON,
     .on_request = echo_request},
    {"POST", "/v1/test/stream", SHAPE_OPENAI, POST_FLAGS, .on_request = submit,
     .on_ready = stream_ready, .on_send_space = stream_ready, .on_second = any_second,
     .on_cut = stream_cut, .on_gone = any_gone},
    {"POST", "/v1/test/wait", SHAPE_OPENAI, POST_FLAGS, .on_request = submit,
     .on_ready = wait_ready, .on_second = any_second, .on_gone = any_gone},
    {"POST", "/v1/test/stop", SHAPE_OPENAI, POST_FLAGS, .on_request = submit,
     .on_ready = stop_ready, .on_gone = any_gone},
    {"POST", "/v1/test/written", SHAPE_OPENAI, POST_FLAGS, .on_request = submit,
     .on_ready = written_ready, .on_second = any_second, .on_gone = any_gone},
    {"POST", "/v1/test/work", SHAPE_OPENAI, POST_FLAGS, .on_request = work_request,
     .on_gone = any_gone},
    {"POST", "/v1/test/answer", SHAPE_OPENAI, POST_FLAGS, .on_request = answer_request,
     .on_gone = any_gone},
    {"POST", "/v1/test/alone", SHAPE_OPENAI, POST_FLAGS, .on_request = alone_request,
     .on_gone = any_gone},
    {"POST", "/v1/test/compile", SHAPE_OPENAI, POST_FLAGS, .on_request = compile_request,
     .on_ready = compile_ready, .on_second = compile_second, .on_cut = compile_cut,
     .on_gone = any_gone},
    {"POST", "/v1/test/prepare", SHAPE_OPENAI, POST_FLAGS, .inline_bytes_max = 4,
     .on_prepare = work_run, .on_request = prepared_request, .on_gone = any_gone},
    {"POST", "/v1/test/fail", SHAPE_OPENAI, POST_FLAGS, .on_request = fail_request},
    {"POST", "/v1/messages/fail", SHAPE_MESSAGES, ROUTE_X_API_KEY | ROUTE_JSON,
     .on_request = fail_request},
    {"POST", "/v1/test/big", SHAPE_OPENAI, POST_FLAGS, .on_request = big_request,
     .on_send_space = big_send, .on_gone = any_gone},
    {.path = NULL},
};

const struct route *const route_tables[] = {test_routes, health_routes, models_routes,
                                            metrics_routes, NULL};
