// SPDX-License-Identifier: Apache-2.0
// Failures of generations, against the doubles: a status before the first token, the last event in
// a stream, in the format of each endpoint; ends by the server; each refusal of the engine.
#include "api_cases.h"

#include "http/api/call.h"

#define TEST(name) API_TEST(name, fake_setup_generator)
#define CHAT "/v1/chat/completions"
#define MESSAGES "/v1/messages"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define FAILURE                                                                                    \
    "{\"message\":\"Going "                                                                        \
    "down.\",\"type\":\"server_error\",\"param\":null,\"code\":\"unavailable\"}"

// Endpoints that stream: the start of an error event in a stream, and the last event of a stream
// that the server ends after its first text.
static const struct {
    const char *path, *body, *says, *cut;
} routes[] = {
    {CHAT, HI, "data: {\"error\":{", "data: {\"error\":" FAILURE "}\n\n"},
    {"/v1/completions", "\"model\":\"m\",\"prompt\":\"hi\"", "data: {\"error\":{",
     "data: {\"error\":" FAILURE "}\n\n"},
    {"/v1/responses", "\"model\":\"m\",\"input\":\"hi\"", "event: error\ndata: {",
     "event: error\ndata: {\"type\":\"error\",\"sequence_number\":6,\"code\":\"unavailable\","
     "\"message\":\"Going down.\",\"param\":null,\"error\":" FAILURE "}\n\n"},
    {MESSAGES, HI, "event: error\ndata: {\"type\":\"error\",\"error\":{",
     "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":"
     "\"Going down.\"},\"request_id\":\"req_1\"}\n\n"},
};
enum { ROUTES = sizeof routes / sizeof *routes };

static void stream_request(size_t route, bool stream)
{
    char body[256];
    fake_again();
    snprintf(body, sizeof body, "{%s,\"stream\":%s}", routes[route].body,
             stream ? "true" : "false");
    fake_request(routes[route].path, body);
}

struct end_case {
    enum finish finish;
    int status; // status if nothing was sent before
    enum http_error error;
    enum counted_finish counted;
    const char *says;
};

// Before the first token, a failure is a status. In a stream it is the last event, and the access
// log gets its code. Each is counted once.
TEST(test_ends_without_an_answer)
{
    static const struct end_case ends[] = {
        {FINISH_CANCEL, 503, HTTP_UNAVAILABLE, COUNTED_ABORT, "the server ended the request"},
        {FINISH_TIMEOUT, 504, HTTP_TIMEOUT, COUNTED_ERROR,
         "the request waited in the queue past its deadline"},
        {FINISH_STALLED, 504, HTTP_TIMEOUT, COUNTED_ABORT,
         "the client did not read the response for too long"},
        {FINISH_ERROR, 500, HTTP_INTERNAL, COUNTED_ERROR, "the model failed on this request"},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        for (size_t turn = 0; turn < 3 * ROUTES; turn++) {
            bool stream = turn % 3 > 0, begun = turn % 3 == 2;
            stream_request(turn / 3, stream);
            if (begun) {
                fake_text("x");
                fake_ready();
            }
            fake_finish(ends[i].finish, -1);
            fake_ready();
            assert_int_equal(fake.status, begun ? 200 : ends[i].status);
            assert_int_equal(fake.error, ends[i].error);
            assert_int_equal(fake.stream_failures, begun);
            assert_int_equal(fake.answers, 1);
            assert_int_equal(fake.frees, 1);
            assert_true(fake.ended);
            sent_has(ends[i].says);
            if (begun)
                sent_has(routes[turn / 3].says);
            for (int c = 0; c < COUNTED_FINISH_COUNT; c++)
                assert_int_equal(fake.counted[c], c == (int)ends[i].counted);
            fake_ready(); // no further output
            assert_int_equal(fake.answers, 1);
        }
    }
}

// If the server ends a stream, its last event has the endpoint's format and nothing follows.
TEST(test_cut_by_the_server)
{
    static const struct http_failure failure = {.error = HTTP_UNAVAILABLE,
                                                .message = {"Going down.", 11}};
    for (size_t i = 0; i < ROUTES; i++) {
        stream_request(i, true);
        fake_text("x");
        fake_ready();
        fake_cut(&failure);
        size_t bytes = strlen(routes[i].cut);
        assert_string_equal(fake.sent + fake.sent_bytes - bytes, routes[i].cut);
        assert_memory_equal(fake.sent + fake.sent_bytes - bytes - 2, "\n\n", 2);
        assert_int_equal(fake.stream_failures, 1);
        assert_int_equal(fake.error, HTTP_UNAVAILABLE);
        assert_false(fake.ended); // the exchange ends it
        assert_int_equal(fake.counted[COUNTED_ABORT], 1);
        bytes = fake.sent_bytes;
        fake_second(60);
        assert_int_equal(fake.sent_bytes, bytes);
    }
}

// A queued stream gets its 200 after 5 s; a failure after that is an event.
TEST(test_62_an_error_between_the_200_and_the_first_token)
{
    static const enum finish finishes[] = {FINISH_ERROR, FINISH_TIMEOUT, FINISH_CANCEL};
    for (size_t i = 0; i < ROUTES; i++)
        for (size_t k = 0; k < sizeof finishes / sizeof *finishes; k++) {
            stream_request(i, true);
            fake_second(5);
            assert_int_equal(fake.status, 200);
            sent_lacks("error\":{");
            fake_finish(finishes[k], -1);
            fake_ready();
            sent_has(routes[i].says);
            sent_lacks("[DONE]");
            sent_lacks("message_stop");
            sent_lacks("response.completed");
            assert_true(fake.ended);
            assert_int_equal(fake.answers, 1);
            assert_int_equal(fake.stream_failures, 1);
        }
}

TEST(test_refusals_of_the_engine)
{
    static const struct {
        enum admission admission;
        int status;
        const char *code, *says;
    } refusals[] = {
        {ADMISSION_BUSY, 503, "overloaded", "the queue is full; try again later"},
        {ADMISSION_TOO_MANY_TOKENS, 400, "invalid_value",
         "the request has 19 tokens, more than max-queued-tokens (5000) allows"},
        {ADMISSION_TOO_MANY_BYTES, 400, "invalid_value",
         "the answer to 1 inputs is larger than max-result-bytes"},
        {ADMISSION_FAILED, 503, "unavailable",
         "the device of model 'm' has failed; the model is unavailable"},
        {ADMISSION_DRAINING, 503, "unavailable", "the server is shutting down"},
    };
    char code[64];
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        fake_again();
        fake.admission = refusals[i].admission;
        fake_request(CHAT, "{" HI "}");
        assert_int_equal(fake.status, refusals[i].status);
        snprintf(code, sizeof code, "\"code\":\"%s\"", refusals[i].code);
        sent_has(code);
        sent_has(refusals[i].says);
        sent_has(refusals[i].status == 400 ? "\"param\":\"messages\"" : "\"param\":null");
        fake_ready(); // no request is running
        fake_gone();
        assert_int_equal(fake.answers, 1);
        assert_int_equal(fake.counted[COUNTED_ABORT], 0);
    }
}

// If a copy refuses, the next one is tried. If all refuse, the response is "overloaded" if any was
// busy.
TEST(test_refusals_of_copies)
{
    static const struct {
        enum admission said[3];
        uint32_t submits;
        const char *says; // NULL: admitted
    } cases[] = {
        {{ADMISSION_BUSY, ADMITTED}, 2, NULL},
        {{ADMISSION_FAILED, ADMISSION_BUSY, ADMITTED}, 3, NULL},
        {{ADMISSION_FAILED, ADMISSION_BUSY, ADMISSION_FAILED}, 3, "\"code\":\"overloaded\""},
        {{ADMISSION_BUSY, ADMISSION_FAILED, ADMISSION_FAILED}, 3, "\"code\":\"overloaded\""},
        {{ADMISSION_FAILED, ADMISSION_FAILED, ADMISSION_FAILED}, 3, "the model is unavailable"},
        {{ADMISSION_TOO_MANY_TOKENS, ADMITTED}, 1, "max-queued-tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_again();
        fake.more_copies = 2;
        memcpy(fake.said, cases[i].said, sizeof cases[i].said);
        fake_request(CHAT, "{" HI "}");
        assert_int_equal(fake.submits, cases[i].submits);
        assert_int_equal(fake.answers, cases[i].says ? 1 : 0);
        if (cases[i].says)
            sent_has(cases[i].says);
    }
}

// A message longer than call_fail's buffer is cut after a complete character, whatever precedes the
// two-byte characters.
TEST(test_a_long_message_is_cut_between_characters)
{
    for (int offset = 0; offset < 2; offset++) {
        struct body_call call = {0};
        char text[1024], *end = text;
        fake_again();
        for (int i = 0; i < offset; i++)
            *end++ = 'x';
        for (; end + 3 <= text + sizeof text; end += 2)
            memcpy(end, "\xC3\xA9", 2);
        *end = 0;
        call_fail(&call, HTTP_INTERNAL, "%s", text);
        json_t *body = fake_json(); // NULL if the text is not UTF-8
        const char *message =
            json_string_value(json_object_get(json_object_get(body, "error"), "message"));
        size_t bytes = strlen(message);
        assert_in_range(bytes, 510, 511);
        assert_memory_equal(message, text, bytes);
        assert_int_equal((unsigned char)message[bytes - 1], 0xA9);
        json_decref(body);
    }
}
