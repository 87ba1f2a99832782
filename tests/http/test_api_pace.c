// SPDX-License-Identifier: Apache-2.0
// Long responses to slow readers, against the doubles of exchange and port: a stream is written in
// pieces and waits for send space between them; nothing is lost or changed.
#include "api_cases.h"

#include "http/api/fields.h"

#define TEST(name) API_TEST(name, setup)
#define CHAT "/v1/chat/completions"
#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"

enum { ROOM = 4096, CHUNK_MAX = 2 * 2048 + 600 }; // an escaped piece and the JSON around it

static int setup(void **state)
{
    fake_setup_generator(state);
    fake_facts.max_model_len = 100000;
    fake_dialect("hermes", "think");
    return 0;
}

// The values of one member in all chunks of a choice, concatenated.
struct gathered {
    struct json_buffer text;
    size_t chunks;
};

static const json_t *member_of(const json_t *delta, const char *key)
{
    const json_t *call = json_array_get(json_object_get(delta, "tool_calls"), 0);
    const json_t *value = json_object_get(delta, key);
    return value ? value : json_object_get(json_object_get(call, "function"), key);
}

static struct gathered gather(uint32_t choice, const char *key)
{
    struct gathered g = {0};
    char *copy = strdup(fake.sent), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "data: {", 7) != 0)
            continue;
        assert_true(strlen(line) < CHUNK_MAX);
        json_t *chunk = json_loads(line + 6, JSON_ALLOW_NUL, NULL);
        assert_non_null(chunk); // also: valid UTF-8
        const json_t *first = json_array_get(json_object_get(chunk, "choices"), 0);
        const json_t *delta = json_object_get(first, "delta");
        struct text found = json_text(member_of(delta ? delta : first, key));
        if (json_integer_value(json_object_get(first, "index")) == choice && found.bytes > 0) {
            json_put_raw(&g.text, found);
            g.chunks++;
        }
        json_decref(chunk);
    }
    free(copy);
    return g;
}

static void expect_text(uint32_t choice, const char *key, struct text want, size_t chunks_min)
{
    struct gathered g = gather(choice, key);
    if (!text_equal(text_span(g.text.at, g.text.bytes), want))
        fail_msg("%u %s: %zu bytes, not %zu", choice, key, g.text.bytes, want.bytes);
    assert_true(g.chunks >= chunks_min);
    json_buffer_free(&g.text);
}

// Reads everything repeatedly, checks that no write exceeds chunk_max, and returns the number of
// reads.
static int read_pieces(size_t chunk_max)
{
    int reads = 0;
    for (size_t before = SIZE_MAX; before != fake.sent_bytes && !fake.ended; reads++) {
        before = fake.sent_bytes;
        fake.send_space = ROOM;
        fake_send_space();
        assert_true(fake.sent_bytes - before < ROOM + chunk_max);
    }
    return reads;
}

static int read_slowly(void)
{
    return read_pieces(CHUNK_MAX);
}

// Returns a body that contains `unit` `times` times; to be freed.
static char *body_with(const char *before, const char *unit, size_t times, const char *after)
{
    struct json_buffer b = {0};
    json_put_raw(&b, text_of(before));
    for (size_t i = 0; i < times; i++)
        json_put_raw(&b, text_of(unit));
    json_put_raw(&b, text_of(after));
    char *out = strndup(b.at, b.bytes);
    json_buffer_free(&b);
    return out;
}

#define CONTINUED                                                                                  \
    "{\"model\":\"m\",\"stream\":true,\"n\":3,\"continue_final_message\":true,"                    \
    "\"add_generation_prompt\":false,\"tools\":[" TOOL "],\"messages\":[{\"role\":\"user\","       \
    "\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"<tool_call>{\\\"name\\\": "         \
    "\\\"f\\\", \\\"arguments\\\": {\\\"a\\\": \\\""

// Each choice repeats the part of the call that the message has begun.
TEST(test_a_begun_call_comes_in_pieces)
{
    char *body = body_with(CONTINUED, "\xC3\xA9\xE2\x82\xAC-", 10000, "\"}]}");
    fake.rationed = true;
    fake_request(CHAT, body);
    free(body);
    assert_int_equal(fake.submits, 1);
    for (uint32_t i = 0; i < 3; i++) {
        fake_choice(i);
        fake_text(i == 1 ? "!\"}}</tool_call>" : "\"}}</tool_call>");
        fake_finish(FINISH_STOP, FAKE_END);
    }
    fake_ready();
    assert_true(fake.sent_bytes < ROOM + CHUNK_MAX);
    assert_true(read_slowly() > 3 * 60000 / ROOM);
    assert_true(fake.ended);
    char *want = body_with("{\"a\": \"", "\xC3\xA9\xE2\x82\xAC-", 10000, "\"}");
    char *other = body_with("{\"a\": \"", "\xC3\xA9\xE2\x82\xAC-", 10000, "!\"}");
    expect_text(0, "arguments", text_of(want), 20);
    expect_text(1, "arguments", text_of(other), 20);
    expect_text(2, "arguments", text_of(want), 20);
    expect_text(0, "name", text_of("f"), 1);
    free(want);
    free(other);
}

TEST(test_a_begun_call_is_bounded)
{
    for (size_t bytes = 64 * 1024 - 8; bytes <= 64 * 1024; bytes += 8) { // after {"a": "
        fake_again();
        fake_facts.max_model_len = 100000;
        fake_dialect("hermes", "think");
        char *body = body_with(CONTINUED, "x", bytes, "\"}]}");
        fake_request(CHAT, body);
        free(body);
        assert_int_equal(fake.status, bytes < 64 * 1024 ? 0 : 400);
        if (bytes < 64 * 1024)
            fake_gone();
        else
            sent_has("at most 65536 bytes of its arguments");
    }
}

// Text before a call and text after it, ready at the same time.
TEST(test_a_piece_has_its_own_log_probabilities)
{
    fake_request(CHAT,
                 "{\"model\":\"m\",\"stream\":true,\"logprobs\":true,\"tools\":[" TOOL "]," HI "}");
    fake_text("ab<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>cd");
    fake_finish(FINISH_STOP, -1);
    fake_ready();
    static const char *const pieces[] = {"\"content\":\"ab\"", "\"content\":\"cd\""};
    for (size_t i = 0; i < 2; i++) {
        const char *piece = strstr(fake.sent, pieces[i]);
        assert_non_null(piece);
        const char *end = strstr(piece, "\n\n");
        size_t entries = 0;
        for (const char *at = piece; (at = strstr(at, "\"logprob\":")) && at < end; at++)
            entries++;
        assert_int_equal(entries, 2);
    }
}

// The start of a call that turns out to be none becomes text immediately, up to 64 KiB.
TEST(test_held_text_comes_in_pieces)
{
    enum { LETTERS = 6000 };
    fake.rationed = true;
    fake_request(CHAT, "{\"model\":\"m\",\"stream\":true,\"logprobs\":true,\"top_logprobs\":2,"
                       "\"tools\":[" TOOL "]," HI "}");
    fake_text("<tool_call>{\"x\": \"");
    const struct token_top tops[2] = {{'a', -1}, {'b', -2}};
    for (int i = 0; i < LETTERS; i++) {
        fake_token(i % 3 == 0 ? 0xC3 : i % 3 == 1 ? 0xA9 : 'z');
        fake_logprob(-0.5F, tops, 2);
    }
    fake_finish(FINISH_LENGTH, -1);
    fake_ready();
    assert_true(read_slowly() > 100);
    char *want = body_with("<tool_call>{\"x\": \"", "\xC3\xA9z", LETTERS / 3, "");
    expect_text(0, "content", text_of(want), 100);
    free(want);
    size_t entries = 0;
    for (const char *at = fake.sent; (at = strstr(at, "\"top_logprobs\":[")); at++)
        entries++;
    assert_int_equal(entries, LETTERS + strlen("<tool_call>{\"x\": \""));
}

TEST(test_echoes_come_in_pieces)
{
    static const char head[] = "{\"model\":\"m\",\"stream\":true,\"echo\":true,\"n\":2,"
                               "\"prompt\":[\"a";
    char *body = body_with(head, "y", 30000, "\",\"b\"]}");
    fake.rationed = true;
    fake_request("/v1/completions", body);
    free(body);
    assert_int_equal(fake.submits, 1);
    for (uint32_t i = 0; i < 4; i++) {
        fake_choice(i);
        fake_text("!?");
        fake_finish(FINISH_STOP, FAKE_END);
    }
    fake_ready();
    assert_true(fake.sent_bytes < ROOM + CHUNK_MAX);
    assert_true(read_slowly() > 2 * 30000 / ROOM);
    char *want = body_with("a", "y", 30000, "!?");
    expect_text(0, "text", text_of(want), 15);
    expect_text(1, "text", text_of(want), 15);
    expect_text(2, "text", text_of("b!?"), 1);
    expect_text(3, "text", text_of("b!?"), 1);
    free(want);
}

TEST(test_echoes_of_one_answer_are_bounded)
{
    for (int stream = 0; stream < 2; stream++) {
        char head[128];
        fake_again();
        fake_facts.max_model_len = 1 << 20;
        snprintf(head, sizeof head,
                 "{\"model\":\"m\",\"stream\":%s,\"echo\":true,\"n\":8,\"prompt\":\"",
                 stream ? "true" : "false");
        char *body = body_with(head, "y", 600000, "\"}");
        fake_request("/v1/completions", body);
        free(body);
        assert_int_equal(fake.status, stream ? 0 : 400);
        if (stream)
            fake_gone();
        else
            sent_has("\"param\":\"echo\"");
    }
}

// Sends thoughts and a call with one argument, each of `letters` letters. The call's input is sent
// when it is complete.
static void thoughts_and_call(int letters)
{
    fake_text("<think>");
    for (int i = 0; i < letters; i++)
        fake_token('t');
    fake_text("</think><tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"");
    for (int i = 0; i < letters; i++)
        fake_token('i');
    fake_text("\"}}</tool_call>");
    fake_finish(FINISH_STOP, FAKE_END);
}

TEST(test_blocks_come_in_pieces)
{
    enum { LETTERS = 3500 };
    fake.rationed = true;
    fake_request("/v1/messages",
                 "{\"model\":\"m\",\"stream\":true,\"thinking\":{\"type\":\"adaptive\"},"
                 "\"tools\":[{\"name\":\"f\",\"input_schema\":{}}]," HI "}");
    thoughts_and_call(LETTERS);
    fake.send_space = 0;
    fake_ready();
    fake.send_space = ROOM;
    fake_send_space();
    sent_lacks("input_json_delta");
    assert_true(read_slowly() > 1);
    assert_true(fake.ended);
    size_t thoughts = 0, inputs = 0, deltas = 0;
    for (const char *at = fake.sent; *at; at++) {
        deltas += strncmp(at, "input_json_delta", 16) == 0;
        thoughts += strncmp(at, "tttttttttt", 10) == 0;
        inputs += strncmp(at, "iiiiiiiiii", 10) == 0;
    }
    assert_int_equal(deltas, 2); // of 3,507 bytes
    assert_true(thoughts > LETTERS / 2 && inputs > LETTERS / 2);
    sent_has("\"stop_reason\":\"tool_use\"");
}

enum { ALTERNATIVES = 20, RESPONSE_CHUNK_MAX = 2 * 8 * ALTERNATIVES * 80 }; // twice eight entries

static void response_begin(int letters)
{
    struct token_top tops[ALTERNATIVES];
    for (int k = 0; k < ALTERNATIVES; k++)
        tops[k] = (struct token_top){'a' + k, -1.25F - (float)k};
    fake.rationed = true;
    fake_request("/v1/responses",
                 "{\"model\":\"m\",\"input\":\"hi\",\"stream\":true,\"top_logprobs\":20}");
    for (int i = 0; i < letters; i++) {
        fake_token(i % 2 == 0 ? 0xC3 : 0xA9);
        fake_logprob(-0.5F, tops, ALTERNATIVES);
    }
    fake_finish(FINISH_LENGTH, -1);
    fake_ready();
}

static size_t times(const char *what)
{
    size_t count = 0, bytes = strlen(what); // no strstr: sanitizers make it measure the text
    for (size_t i = 0; i + bytes <= fake.sent_bytes; i++)
        count += fake.sent[i] == *what && memcmp(fake.sent + i, what, bytes) == 0;
    return count;
}

// Four events repeat the text and its log probabilities; little memory is kept for them.
TEST(test_what_is_repeated_comes_in_pieces)
{
    enum { LETTERS = 3000, TIMES = 5 };
    response_begin(LETTERS);
    assert_true(read_pieces(RESPONSE_CHUNK_MAX) > LETTERS / 8);
    assert_true(fake.ended);
    assert_true(arena_bytes(exchange_arena((struct exchange *)&fake)) < 1024 * 1024);
    assert_int_equal(times("\"top_logprobs\":["), TIMES * LETTERS);
    assert_int_equal(times("\xC3\xA9"), TIMES * LETTERS / 2);
    const char *last = strstr(fake.sent, "event: response.incomplete\ndata: ");
    json_t *event = json_loads(strchr(last, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *item =
        json_array_get(json_object_get(json_object_get(event, "response"), "output"), 0);
    const json_t *part = json_array_get(json_object_get(item, "content"), 0);
    assert_int_equal(json_string_length(json_object_get(part, "text")), LETTERS);
    assert_int_equal(json_array_size(json_object_get(part, "logprobs")), LETTERS);
    const json_t *top = json_object_get(
        json_array_get(json_object_get(part, "logprobs"), LETTERS - 1), "top_logprobs");
    assert_int_equal(json_array_size(top), ALTERNATIVES);
    json_decref(event);
}

// If the server ends the stream while the client still reads, the client gets complete events only,
// the last one a failure, or none if an event was half written.
TEST(test_a_stream_is_cut_in_what_is_repeated)
{
    size_t failures = 0, halves = 0;
    for (size_t reads = 20; reads < 140; reads++) {
        fake_again();
        fake_facts.max_model_len = 100000;
        response_begin(300);
        for (size_t i = 0; i < reads && !fake.ended; i++) {
            fake.send_space = ROOM;
            fake_send_space();
        }
        if (fake.ended)
            break;
        fake_cut(&(struct http_failure){.error = HTTP_UNAVAILABLE, .message = text_of("closing")});
        assert_int_equal(fake.stream_failures, 1);
        bool half = strcmp(fake.sent + fake.sent_bytes - 2, "\n\n") != 0;
        assert_int_equal(times("event: error\n"), half ? 0 : 1);
        assert_int_equal(times("event: response.failed\n"), half ? 0 : 1);
        failures += !half;
        halves += half;
    }
    assert_true(halves > 1);
    assert_true(failures > 1);
}

// The first two events and the last one repeat the request; they wait for send space, too.
TEST(test_what_was_asked_comes_in_pieces)
{
    enum { LETTERS = 200 * 1024 };
    char *body = body_with("{\"model\":\"m\",\"input\":\"hi\",\"stream\":true,\"instructions\":\"",
                           "i", LETTERS, "\"}");
    size_t events = 0;
    fake_facts.max_model_len = 2 * LETTERS;
    fake.rationed = true;
    fake.send_space = ROOM;
    fake_request("/v1/responses", body);
    free(body);
    fake_text("text");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_true(fake.sent_bytes < ROOM + CHUNK_MAX);
    assert_true(read_slowly() > 3 * LETTERS / (ROOM + CHUNK_MAX));
    assert_true(fake.ended);
    for (const char *at = fake.sent; (at = strstr(at, "data: ")); at++) {
        json_t *event = json_loads(strchr(at, '{'), JSON_DISABLE_EOF_CHECK, NULL);
        const json_t *response = json_object_get(event, "response");
        assert_non_null(event);
        assert_int_equal(json_integer_value(json_object_get(event, "sequence_number")), events++);
        if (response)
            assert_int_equal(json_string_length(json_object_get(response, "instructions")),
                             LETTERS);
        json_decref(event);
    }
    assert_int_equal(times("event: response.created\n") + times("event: response.in_progress\n") +
                         times("event: response.completed\n"),
                     3);
}

// The server ends a stream before, between or inside its first events.
TEST(test_a_stream_is_cut_in_its_first_events)
{
    size_t failures = 0, halves = 0;
    for (size_t reads = 0; reads < 40; reads++) {
        char *body = body_with("{\"model\":\"m\",\"input\":\"hi\",\"stream\":true,"
                               "\"instructions\":\"",
                               "i", 20000, "\"}");
        fake_again();
        fake_facts.max_model_len = 100000;
        fake.rationed = true;
        fake.send_space = ROOM;
        fake_request("/v1/responses", body);
        free(body);
        fake_text("text");
        fake_ready();
        for (size_t i = 0; i < reads; i++) {
            fake.send_space = ROOM;
            fake_send_space();
        }
        fake_cut(&(struct http_failure){.error = HTTP_UNAVAILABLE, .message = text_of("closing")});
        bool half = strcmp(fake.sent + fake.sent_bytes - 2, "\n\n") != 0;
        assert_int_equal(times("event: response.failed\n"), half ? 0 : 1);
        assert_int_equal(fake.stream_failures, 1);
        failures += !half;
        halves += half;
    }
    assert_true(halves > 1);
    assert_true(failures > 1);
}

// Streams text and a call with log probabilities, then lets the server end the stream. Returns the
// output of the last event.
static json_t *response_cut(const char *first, size_t times)
{
    struct json_buffer text = {0};
    fake_again();
    fake_dialect("hermes", "think");
    fake_facts.max_model_len = 100000;
    fake_request("/v1/responses", "{\"model\":\"m\",\"input\":\"hi\",\"stream\":true,"
                                  "\"top_logprobs\":1,\"tools\":[{\"type\":\"function\","
                                  "\"name\":\"f\"}]}");
    for (size_t i = 0; i < times; i++)
        json_put_literal(&text, first);
    json_put_literal(&text, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>more");
    json_put_raw(&text, text_span("\0", 1));
    for (const char *at = text.at; *at; at++) {
        fake_token((unsigned char)*at);
        fake_logprob(-0.5F, NULL, 0);
        if (fake.event_count == 8000) {
            fake_ready();
            fake.event_count = fake.event_next = 0;
        }
    }
    json_buffer_free(&text);
    fake_ready();
    fake_cut(&(struct http_failure){.error = HTTP_UNAVAILABLE, .message = text_of("closing")});
    const char *last = strstr(fake.sent, "event: response.failed\ndata: ");
    assert_non_null(last);
    json_t *event = json_loads(strchr(last, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    json_t *output = json_incref(json_object_get(json_object_get(event, "response"), "output"));
    json_decref(event);
    return output;
}

// The last event of an ended stream repeats the closed items without log probabilities, if their
// JSON is at most 64 KiB.
TEST(test_a_stream_that_is_cut_keeps_its_items)
{
    json_t *output = response_cut("text", 1);
    assert_int_equal(json_array_size(output), 2);
    const json_t *message = json_array_get(output, 0), *call = json_array_get(output, 1);
    const json_t *part = json_array_get(json_object_get(message, "content"), 0);
    assert_string_equal(fake_string(part, "text"), "text");
    assert_int_equal(json_array_size(json_object_get(part, "logprobs")), 0);
    assert_true(json_is_array(json_object_get(part, "logprobs")));
    assert_string_equal(fake_string(call, "name"), "f");
    json_decref(output);
    output = response_cut("\x01\x01\x01\x01", 3000); // 72,000 bytes as JSON
    assert_int_equal(json_array_size(output), 0);
    json_decref(output);
}

static void somebody_leaves(void)
{
    fake.gone = true;
}

// A text worker measures a response with many log probabilities; it is written as send space
// allows.
TEST(test_a_whole_answer_with_log_probabilities)
{
    static const struct {
        const char *path, *body;
    } requests[] = {
        {CHAT, "{\"model\":\"m\",\"logprobs\":true,\"top_logprobs\":20," HI "}"},
        {"/v1/completions", "{\"model\":\"m\",\"logprobs\":20,\"prompt\":\"hi\"}"},
        {"/v1/responses", "{\"model\":\"m\",\"top_logprobs\":20,\"input\":\"hi\"}"},
    };
    struct token_top tops[ALTERNATIVES];
    for (int k = 0; k < ALTERNATIVES; k++)
        tops[k] = (struct token_top){'a' + k, -1.25F};
    for (size_t i = 0; i < 9; i++) {
        bool many = i % 3 > 0, leaves = i % 3 > 1;
        fake_again();
        fake_facts.max_model_len = 100000;
        fake.rationed = true;
        fake_request(requests[i / 3].path, requests[i / 3].body);
        for (int t = 0; t < (many ? 600 : 100); t++) {
            fake_token('x');
            fake_logprob(-0.5F, tops, ALTERNATIVES);
        }
        fake_finish(FINISH_LENGTH, -1);
        fake.offloaded = false;
        fake.worked = leaves ? somebody_leaves : NULL;
        fake_ready();
        assert_int_equal(fake.offloaded, many);
        if (leaves) {
            assert_int_equal(fake.sent_bytes, 0);
            fake_gone();
            continue;
        }
        if (many) {
            assert_true(fake.sent_bytes < ROOM + RESPONSE_CHUNK_MAX);
            assert_true(read_pieces(RESPONSE_CHUNK_MAX) > 10);
            assert_true(fake.ended);
            assert_int_equal(fake.sent_bytes, fake.length);
        }
        json_t *answer = fake_json();
        assert_non_null(answer);
        json_decref(answer);
        // completions repeat it among the alternatives
        assert_int_equal(times("-0.5"), (i / 3 == 1 ? 2 : 1) * (many ? 600 : 100));
    }
}

// Counts `letter` in the deltas of events of this type.
static size_t deltas_of(const char *type, char letter)
{
    size_t found = 0;
    char *copy = strdup(fake.sent), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "data: {", 7) != 0)
            continue;
        json_t *event = json_loads(line + 6, 0, NULL);
        assert_non_null(event);
        struct text delta = json_text(json_object_get(event, "delta"));
        if (text_is(json_text(json_object_get(event, "type")), type)) {
            assert_true(delta.bytes < CHUNK_MAX);
            for (size_t i = 0; i < delta.bytes; i++)
                found += delta.at[i] == letter;
        }
        json_decref(event);
    }
    free(copy);
    return found;
}

// Thoughts and a call, streamed to a slow reader: everything arrives, in pieces.
TEST(test_61_thoughts_and_calls_wait_for_room)
{
    enum { LETTERS = 3500 };
    static const char flat[] = "{\"model\":\"m\",\"stream\":true,\"input\":\"hi\",\"tools\":["
                               "{\"type\":\"function\",\"name\":\"f\"}]}";
    for (int responses = 0; responses < 2; responses++) {
        fake_again();
        fake_facts.max_model_len = 100000;
        fake_dialect("hermes", "think");
        fake.rationed = true;
        fake_request(responses ? "/v1/responses" : CHAT,
                     responses ? flat
                               : "{\"model\":\"m\",\"stream\":true,\"tools\":[" TOOL "]," HI "}");
        thoughts_and_call(LETTERS);
        fake_ready();
        assert_true(fake.sent_bytes < ROOM + CHUNK_MAX);
        assert_true(read_slowly() > 1);
        assert_true(fake.ended);
        if (responses) {
            assert_int_equal(deltas_of("response.reasoning_text.delta", 't'), LETTERS);
            assert_int_equal(deltas_of("response.function_call_arguments.delta", 'i'), LETTERS);
            sent_has("event: response.completed\n");
            continue;
        }
        char *thoughts = body_with("", "t", LETTERS, ""),
             *call = body_with("{\"a\": \"", "i", LETTERS, "\"}");
        expect_text(0, "reasoning_content", text_of(thoughts), 2);
        expect_text(0, "arguments", text_of(call), 2);
        free(thoughts);
        free(call);
    }
}

// While a call is collected, the stream sends only pings.
TEST(test_pings_while_a_call_is_gathered)
{
    fake_request("/v1/messages", "{\"model\":\"m\",\"stream\":true,\"tools\":[{\"name\":\"f\","
                                 "\"input_schema\":{}}],\"messages\":[{\"role\":\"user\","
                                 "\"content\":\"hi\"}]}");
    fake_text("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"");
    fake_ready();
    size_t before = fake.sent_bytes;
    for (uint64_t second = 1; second <= 30; second++) {
        fake_token('x');
        fake_ready();
        fake_second(second);
    }
    const char *since = fake.sent + before;
    int pings = 0;
    for (; (since = strstr(since, "event: ping")); since++)
        pings++;
    assert_in_range(pings, 2, 3);
    fake_gone();
}
