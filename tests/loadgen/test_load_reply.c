// SPDX-License-Identifier: Apache-2.0
// Server-sent events and replies: all ways to cut the bytes give the same events, each API's stream
// and body is counted, and hostile bytes end as a counted outcome.
#include "loadgen/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct events {
    char text[1024];
};

static bool event_add(void *context, struct text data)
{
    struct events *e = context;
    size_t used = strlen(e->text);
    snprintf(e->text + used, sizeof e->text - used, "[%.*s]", (int)data.bytes, data.at);
    return true;
}

static void test_sse(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"data: a\n\ndata:b\n\n", "[a][b]"},
        {"data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", "[a][b][c]"},
        {"data: a\ndata: b\n\n", "[a\nb]"},
        {": comment\nevent: x\nid: 3\ndata: a\n\n\n\n", "[a]"},
        {"data\n\ndata:\n\n", "[][]"},
        {"database: x\n\ndata : y\n\ndata: z\n\n", "[z]"},
        {"data:  two\n\n", "[ two]"},
        {"data: no end", "[no end]"},
        {"data: no empty line\n", "[no empty line]"},
        {"", ""},
        {"\n\n\r\r\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = strlen(cases[i][0]);
        for (size_t cut = 0; cut <= bytes; cut++) {
            struct sse sse = {0};
            struct events events = {0};
            const char *in = cases[i][0];
            assert_true(sse_feed(&sse, text_span(in, cut), event_add, &events));
            for (size_t at = cut; at < bytes; at++)
                assert_true(sse_feed(&sse, text_span(in + at, 1), event_add, &events));
            sse_end(&sse, event_add, &events);
            assert_string_equal(events.text, cases[i][1]);
            sse_free(&sse);
        }
    }
}

static void test_sse_limit(void **state)
{
    (void)state;
    char *line = malloc(1 << 20);
    memset(line, 'a', 1 << 20);
    memcpy(line, "data: ", 6);
    line[(1 << 20) - 1] = '\n';
    struct events events = {0};
    struct sse one = {0}, many = {0};
    int fed = 0; // bytes without a line end, then lines without an empty one
    while (fed < 20 && sse_feed(&one, text_span(line, (1 << 20) - 1), event_add, &events))
        fed++;
    assert_int_equal(fed, 4);
    for (fed = 0; fed < 20 && sse_feed(&many, text_span(line, 1 << 20), event_add, &events);)
        fed++;
    assert_int_equal(fed, 4);
    sse_free(&one);
    sse_free(&many);
    free(line);
}

static struct bench_histogram gaps;
static double gaps_from;

// Reads a stream or a body in one piece; events of a stream arrive 10 ms apart.
static struct bench_reply reply_of(enum bench_api api, bool streamed, const char *text)
{
    struct bench_reply r = {
        .api = api, .streamed = streamed, .gaps = &gaps, .gaps_from = gaps_from};
    double now = 1;
    gaps = (struct bench_histogram){0};
    bench_reply_start(&r);
    while (*text != '\0') {
        const char *end = streamed ? strstr(text, "\n\n") : NULL;
        size_t bytes = end ? (size_t)(end + 2 - text) : strlen(text);
        assert_true(bench_reply_feed(&r, text_span(text, bytes), now));
        text += bytes;
        now += 0.01;
    }
    bench_reply_end(&r, now);
    bench_reply_free(&r);
    return r;
}

// Events that differ in their text only are counted without being parsed; others are not mistaken
// for them.
static void test_forms(void **state)
{
    (void)state;
#define EVENT(text, more) "data: {\"choices\":[{\"delta\":{\"content\":" text "}}]" more "}\n\n"
    static const struct {
        const char *stream;
        uint64_t events, output;
        bool malformed, failed;
    } cases[] = {
        {EVENT("\"a\"", "") EVENT("\"bc\"", "") EVENT("\"\\u00e9\"", "") EVENT("\"\xc3\xa9\"", ""),
         4, 0, false, false},
        {EVENT("\"a\"", "") EVENT("\"\"", "") EVENT("null", "") EVENT("\"b\"", ""), 2, 0, false,
         false},
        {EVENT("\"a\"", "") EVENT("\"b\",\"x\":\"c\"", ""), 2, 0, false, false},
        {EVENT("\"a\"", "") EVENT("\"\xc3\"", ""), 1, 0, true, false},
        {EVENT("\"a\"", "") EVENT("\"b", ""), 1, 0, true, false},
        {EVENT("\"a\"", "") EVENT("\"b\\\"", ""), 1, 0, true, false},
        {EVENT("\"a\"", "") EVENT("\"b\"", ",\"error\":{}"), 2, 0, false, true},
        {EVENT("\"a\"", ",\"usage\":{\"completion_tokens\":1}")
             EVENT("\"b\"", ",\"usage\":{\"completion_tokens\":2}"),
         2, 2, false, false},
    };
#undef EVENT
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench_reply r = reply_of(BENCH_CHAT, true, cases[i].stream);
        assert_int_equal(r.events, cases[i].events);
        assert_int_equal(r.output_tokens, cases[i].output);
        assert_true(r.malformed == cases[i].malformed && r.failed == cases[i].failed);
    }
    // the hash is that of the text, however it is written
    struct bench_reply plain = reply_of(
        BENCH_COMPLETIONS, true,
        "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"b\"}]}\n\n");
    struct bench_reply spaced = reply_of(
        BENCH_COMPLETIONS, true,
        "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\": [{\"text\": \"b\"}]}\n\n");
    assert_true(plain.hash == spaced.hash && plain.events == 2);
}

static void test_streams(void **state)
{
    (void)state;
    struct bench_reply r =
        reply_of(BENCH_CHAT, true,
                 "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
                 "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
                 "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
                 "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\","
                 "\"arguments\":\"\"}}]}}]}\n\n"
                 "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":7,"
                 "\"prompt_tokens_details\":{\"cached_tokens\":4},"
                 "\"completion_tokens_details\":{\"reasoning_tokens\":3}}}\n\n"
                 "data: [DONE]\n\n");
    assert_true(r.complete && !r.failed && !r.malformed && r.has_usage);
    assert_int_equal(r.events, 3);
    assert_int_equal(r.reasoning_events, 1);
    assert_int_equal(r.input_tokens, 9);
    assert_int_equal(r.cached_tokens, 4);
    assert_int_equal(r.output_tokens, 7);
    assert_int_equal(r.reasoning_tokens, 3);
    assert_int_equal(gaps.count, 2);
    assert_true(r.first_at > 1.009 && r.first_at < 1.011); // the event of the role has no output
    static const char *const event = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    char four[256];
    snprintf(four, sizeof four, "%s%s%s%s", event, event, event, event);
    gaps_from = 1.015; // the second event belongs to the ramp
    r = reply_of(BENCH_COMPLETIONS, true, four);
    assert_true(r.events == 4 && gaps.count == 2);
    gaps_from = 0;
    r = reply_of(BENCH_COMPLETIONS, true,
                 "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"\"}]}"
                 "\n\ndata: [DONE]\n\n");
    assert_true(r.complete && r.events == 1 && !r.has_usage);
    r = reply_of(BENCH_RESPONSES, true,
                 "event: response.created\ndata: {\"type\":\"response.created\"}\n\n"
                 "data: {\"type\":\"response.reasoning_text.delta\",\"delta\":\"x\"}\n\n"
                 "data: {\"type\":\"response.output_text.delta\",\"delta\":\"y\"}\n\n"
                 "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{"
                 "\"input_tokens\":5,\"output_tokens\":2,\"input_tokens_details\":{"
                 "\"cached_tokens\":1}}}}\n\n");
    assert_true(r.complete && r.events == 2 && r.reasoning_events == 1);
    assert_true(r.input_tokens == 5 && r.output_tokens == 2 && r.cached_tokens == 1);
    r = reply_of(BENCH_MESSAGES, true,
                 "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,"
                 "\"cache_read_input_tokens\":20,\"cache_creation_input_tokens\":3,"
                 "\"output_tokens\":1}}}\n\n"
                 "data: {\"type\":\"content_block_delta\",\"delta\":{\"thinking\":\"x\"}}\n\n"
                 "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\n\n"
                 "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":6}}\n\n"
                 "data: {\"type\":\"message_stop\"}\n\n");
    assert_true(r.complete && r.events == 2 && r.reasoning_events == 1);
    assert_true(r.input_tokens == 28 && r.cached_tokens == 20 && r.output_tokens == 6);
}

static void test_faults(void **state)
{
    (void)state;
    struct bench_reply r = reply_of(BENCH_CHAT, true, "data: {\"error\":{\"message\":\"x\"}}\n\n");
    assert_true(r.failed && !r.complete);
    static const char *const wrong[] = {"data: {not json}\n\n", "data: \xff\xfe\n\n", "data: 7\n\n",
                                        "data: {\"choices\":\"\xc0\"}\n\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_true(reply_of(BENCH_CHAT, true, wrong[i]).malformed);
    r = reply_of(BENCH_MESSAGES, true, "data: {\"no\":\"type\"}\n\n");
    assert_true(r.malformed);
    r = reply_of(BENCH_RESPONSES, true, "data: {\"type\":\"response.failed\"}\n\n");
    assert_true(r.failed && !r.complete);
    r = reply_of(BENCH_CHAT, true, "<html>not a stream</html>");
    assert_true(!r.complete && r.events == 0);
    // types that are not those of the API
    r = reply_of(BENCH_CHAT, true,
                 "data: {\"choices\":{\"0\":1},\"usage\":[1],\"type\":5,\"error\":null}\n\n"
                 "data: {\"choices\":[{\"delta\":{\"content\":7,\"tool_calls\":\"x\"}}],"
                 "\"usage\":{\"completion_tokens\":-3,\"prompt_tokens\":\"9\"}}\n\n");
    assert_true(!r.failed && r.events == 0 && r.output_tokens == 0 && r.input_tokens == 0);
}

static void test_bodies(void **state)
{
    (void)state;
    static const struct {
        enum bench_api api;
        const char *body;
        uint64_t in, out;
    } cases[] = {
        {BENCH_CHAT,
         "{\"choices\":[{\"message\":{\"content\":\"a\"}}],"
         "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}",
         3, 2},
        {BENCH_COMPLETIONS, "{\"choices\":[{\"text\":\"a\"}]}", 0, 0},
        {BENCH_RESPONSES,
         "{\"output\":[{\"content\":[{\"text\":\"a\"}]}],"
         "\"usage\":{\"input_tokens\":4,\"output_tokens\":1}}",
         4, 1},
        {BENCH_MESSAGES,
         "{\"content\":[{\"text\":\"a\"}],"
         "\"usage\":{\"input_tokens\":4,\"output_tokens\":1}}",
         4, 1},
        {BENCH_EMBEDDINGS,
         "{\"data\":[{\"embedding\":[0.5]}],"
         "\"usage\":{\"prompt_tokens\":6,\"total_tokens\":6}}",
         6, 0},
        {BENCH_COHERE,
         "{\"results\":[{\"index\":0,\"relevance_score\":1}],"
         "\"meta\":{\"tokens\":{\"input_tokens\":8}}}",
         8, 0},
        {BENCH_JINA, "{\"results\":[{\"index\":0}],\"usage\":{\"total_tokens\":7}}", 7, 0},
        {BENCH_TEI, "[{\"index\":0,\"score\":0.5}]", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench_reply r = reply_of(cases[i].api, false, cases[i].body);
        assert_true(r.complete && !r.malformed);
        assert_int_equal(r.input_tokens, cases[i].in);
        assert_int_equal(r.output_tokens, cases[i].out);
        for (size_t k = 0; k < strlen(cases[i].body); k++) { // each beginning of it
            char *cut = strndup(cases[i].body, k);
            r = reply_of(cases[i].api, false, cut);
            assert_true(!r.complete && r.malformed);
            free(cut);
        }
        assert_true(reply_of(cases[i].api, false, "{}").malformed);
        assert_true(reply_of(cases[i].api, false, "[]").malformed);
        assert_true(reply_of(cases[i].api, false, "5").malformed);
    }
    uint64_t one = reply_of(BENCH_TEI, false, "[{\"score\":0.5}]").hash;
    assert_true(one == reply_of(BENCH_TEI, false, "[ {\"score\": 0.5} ]").hash);
    assert_true(one != reply_of(BENCH_TEI, false, "[{\"score\":0.25}]").hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sse),     cmocka_unit_test(test_sse_limit),
        cmocka_unit_test(test_streams), cmocka_unit_test(test_forms),
        cmocka_unit_test(test_faults),  cmocka_unit_test(test_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
