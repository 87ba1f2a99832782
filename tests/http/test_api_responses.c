// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses against the doubles of exchange and port: input items converted to the prompt,
// tools in their flat form, responses with several items, streamed and not, each way a response
// ends.
#include "api_cases.h"

#define TEST(name) API_TEST(name, setup)
#define PATH "/v1/responses"
#define HI "\"model\":\"m\",\"input\":\"hi\""
#define TOOL(name) "{\"type\":\"function\",\"name\":\"" name "\"}"
#define TOOLS "\"tools\":[" TOOL("f") "," TOOL("g") "]"
#define CALL(name, arguments)                                                                      \
    "<tool_call>{\"name\": \"" name "\", \"arguments\": " arguments "}</tool_call>"
#define ECHO                                                                                       \
    ",\"instructions\":null,\"max_output_tokens\":null,\"max_tool_calls\":null,\"metadata\":{},"   \
    "\"parallel_tool_calls\":true,\"prompt_cache_key\":null,\"safety_identifier\":null,"           \
    "\"tool_choice\":\"auto\",\"top_logprobs\":0,\"user\":null,\"tools\":[],"                      \
    "\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"},"                          \
    "\"reasoning\":{\"effort\":null,\"summary\":null},\"temperature\":1.0,\"top_p\":1.0,"          \
    "\"background\":false,\"previous_response_id\":null,\"service_tier\":\"default\","             \
    "\"store\":false,\"truncation\":\"disabled\"}"
#define RESPONSE(status, output, usage)                                                            \
    "{\"id\":\"ID\",\"object\":\"response\",\"created_at\":0,\"status\":\"" status "\",%s,"        \
    "\"model\":\"m\",\"output\":[" output "],\"usage\":" usage ECHO
#define ITEM(status, content)                                                                      \
    "{\"id\":\"ID\",\"type\":\"message\",\"status\":\"" status "\",\"role\":\"assistant\","        \
    "\"content\":[" content "]}"
#define PART(text)                                                                                 \
    "{\"type\":\"output_text\",\"text\":\"" text "\",\"annotations\":[],\"logprobs\":[]}"
#define USAGE                                                                                      \
    "{\"input_tokens\":19,\"input_tokens_details\":{\"cached_tokens\":3,"                          \
    "\"cache_write_tokens\":0},\"output_tokens\":3,"                                               \
    "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":22}"
#define EVENT(name, number, more)                                                                  \
    "event: " name "\ndata: {\"type\":\"" name "\",\"sequence_number\":" number more "}\n\n"
#define PLACE ",\"item_id\":\"ID\",\"output_index\":0,\"content_index\":0"

static void again(void)
{
    fake_thinker("hermes");
}

static int setup(void **state)
{
    fake_setup_generator(state);
    again();
    return 0;
}

// Compares a response with `form`, filled with the members between status and model.
static void response_is(const char *form, const char *ends, const char *got)
{
    char wanted[8192];
    snprintf(wanted, sizeof wanted, form, ends); // NOLINT: a literal of this file
    assert_string_equal(got, wanted);
}

#define OVER "\"completed_at\":0,\"error\":null,\"incomplete_details\":null"

TEST(test_a_whole_answer)
{
    fake_request(PATH, "{" HI "}");
    fake_text("yo");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_int_equal(fake.status, 200);
    response_is(RESPONSE("completed", ITEM("completed", PART("yo")), USAGE), OVER, fake_events());
}

TEST(test_a_stream)
{
    char wanted[16384], begun[4096], done[4096];
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_text("yo");
    fake_ready();
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_true(fake.ended);
    snprintf(begun, sizeof begun, RESPONSE("in_progress", "", "null"),
             "\"completed_at\":null,\"error\":null,\"incomplete_details\":null");
    snprintf(done, sizeof done, RESPONSE("completed", ITEM("completed", PART("yo")), USAGE), OVER);
    snprintf(
        wanted, sizeof wanted,
        EVENT("response.created", "0", ",\"response\":%s") EVENT(
            "response.in_progress", "1",
            ",\"response\":%s") EVENT("response.output_item.added", "2",
                                      ",\"output_index\":0,\"item\":" ITEM("in_progress", ""))
            EVENT("response.content_part.added", "3", PLACE ",\"part\":" PART("")) EVENT(
                "response.output_text.delta", "4", PLACE ",\"delta\":\"yo\",\"logprobs\":[]")
                EVENT("response.output_text.done", "5", PLACE ",\"text\":\"yo\",\"logprobs\":[]")
                    EVENT("response.content_part.done", "6", PLACE ",\"part\":" PART("yo"))
                        EVENT("response.output_item.done", "7",
                              ",\"output_index\":0,\"item\":" ITEM("completed", PART("yo")))
                            EVENT("response.completed", "8", ",\"response\":%s"),
        begun, begun, done);
    assert_string_equal(fake_events(), wanted);
}

// Items assembled from events; fails if the events arrive in the wrong order.
struct stream {
    json_t *items, *item; // item: the open item
    char text[8192], logprobs[8192];
    json_int_t next;
    json_t *last;
    int errors;
};

static const char *text_key(const json_t *item)
{
    const char *type = fake_string(item, "type");
    return strcmp(type, "message") == 0     ? "output_text"
           : strcmp(type, "reasoning") == 0 ? "reasoning_text"
                                            : "function_call_arguments";
}

static void event_take(struct stream *s, const json_t *event)
{
    const char *type = fake_string(event, "type");
    char name[64];
    assert_int_equal(json_integer_value(json_object_get(event, "sequence_number")), s->next++);
    assert_true(!s->last || strcmp(type, "error") == 0);
    if (s->last) {
        s->errors++;
        return;
    }
    if (json_object_get(event, "output_index") && strcmp(type, "response.output_item.added") != 0) {
        assert_non_null(s->item);
        assert_int_equal(json_integer_value(json_object_get(event, "output_index")),
                         json_array_size(s->items));
    }
    if (strcmp(type, "response.output_item.added") == 0) {
        assert_null(s->item);
        s->item = json_incref(json_object_get(event, "item"));
        s->text[0] = s->logprobs[0] = 0;
        return;
    }
    if (strcmp(type, "response.output_item.done") == 0) {
        assert_string_equal(fake_string(json_object_get(event, "item"), "id"),
                            fake_string(s->item, "id"));
        json_array_append(s->items, json_object_get(event, "item"));
        json_decref(s->item);
        s->item = NULL;
        return;
    }
    if (json_object_get(event, "response")) {
        if (strcmp(type, "response.created") != 0 && strcmp(type, "response.in_progress") != 0)
            s->last = json_incref(json_object_get(event, "response"));
        return;
    }
    assert_string_equal(fake_string(event, "item_id"), fake_string(s->item, "id"));
    snprintf(name, sizeof name, "response.%s.delta", text_key(s->item));
    if (strcmp(type, name) == 0)
        strcat(s->text, fake_string(event, "delta"));
    snprintf(name, sizeof name, "response.%s.done", text_key(s->item));
    if (strcmp(type, name) == 0)
        assert_string_equal(
            fake_string(event, strcmp(text_key(s->item), "function_call_arguments") == 0
                                   ? "arguments"
                                   : "text"),
            s->text);
}

// Returns the last response of a stream; its output must equal the streamed items.
static json_t *streamed(struct stream *s)
{
    char *copy = strdup(fake.sent), *rest = copy;
    *s = (struct stream){.items = json_array()};
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "data: ", 6) != 0)
            continue;
        json_t *event = json_loads(line + 6, JSON_ALLOW_NUL, NULL);
        assert_non_null(event);
        event_take(s, event);
        json_decref(event);
    }
    free(copy);
    assert_null(s->item);
    assert_non_null(s->last);
    assert_true(json_equal(s->items, json_object_get(s->last, "output")));
    json_decref(s->items);
    return s->last;
}

static void ids_hide(json_t *response)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(response, "output"), i, item)
    {
        json_object_del(item, "id");
        json_object_del(item, "call_id");
    }
}

static const char thinking_calls[] = "<think>Two.</think>So: " CALL("f", "{\"a\": \"\xc5\x81\"}")
    CALL("g", "{}") "<think>Again.</think>Done.";

// Returns the response's items as "type:status:text" lines. Static buffer.
static char *summary(const json_t *response)
{
    static char out[4096];
    size_t i;
    json_t *item;
    char *o = out;
    *o = 0;
    json_array_foreach(json_object_get(response, "output"), i, item)
    {
        const json_t *part = json_array_get(json_object_get(item, "content"), 0);
        const json_t *call = json_object_get(item, "arguments");
        o += snprintf(o, sizeof out - (size_t)(o - out), "%s:%s:%s%s%s\n",
                      fake_string(item, "type"), fake_string(item, "status"),
                      call ? fake_string(item, "name") : "", call ? " " : "",
                      call ? fake_string(item, "arguments") : fake_string(part, "text"));
    }
    return out;
}

TEST(test_items_however_the_text_is_cut)
{
    static const char wanted[] = "reasoning:completed:Two.\n"
                                 "message:completed:So:\n"
                                 "function_call:completed:f {\"a\": \"\xc5\x81\"}\n"
                                 "function_call:completed:g {}\n"
                                 "reasoning:completed:Again.\n"
                                 "message:completed:Done.\n";
    struct stream s;
    fake_request(PATH, "{" HI "," TOOLS "}");
    fake_text(thinking_calls);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    json_t *whole = fake_json();
    assert_string_equal(summary(whole), wanted);
    const json_t *output = json_object_get(whole, "output");
    assert_int_equal(strncmp(fake_string(json_array_get(output, 0), "id"), "rs_", 3), 0);
    assert_int_equal(strncmp(fake_string(json_array_get(output, 1), "id"), "msg_", 4), 0);
    assert_int_equal(strncmp(fake_string(json_array_get(output, 2), "id"), "fc_", 3), 0);
    assert_int_equal(strncmp(fake_string(json_array_get(output, 2), "call_id"), "call_", 5), 0);
    json_decref(whole);
    char *sent = strdup(fake.sent);
    for (size_t cut = 1; cut < 40; cut++) {
        again();
        fake_request(PATH, "{" HI "," TOOLS ",\"stream\":true}");
        for (size_t at = 0; at < sizeof thinking_calls - 1; at++) {
            fake_token((unsigned char)thinking_calls[at]);
            if (at % cut == 0)
                fake_ready();
        }
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        json_t *response = streamed(&s);
        ids_hide(response);
        whole = json_loads(sent, 0, NULL);
        ids_hide(whole);
        assert_true(
            json_equal(json_object_get(response, "output"), json_object_get(whole, "output")));
        assert_true(
            json_equal(json_object_get(response, "usage"), json_object_get(whole, "usage")));
        json_decref(response);
        json_decref(whole);
    }
    free(sent);
}

// Compares status and items, without a stream and with one.
static void ends_as(const char *more, const char *text, enum finish finish, const char *status,
                    const char *items)
{
    char body[1024];
    struct stream s;
    for (int stream = 0; stream < 2; stream++) {
        again();
        snprintf(body, sizeof body, "{" HI "%s%s}", more, stream ? ",\"stream\":true" : "");
        fake_request(PATH, body);
        fake_text(text);
        fake_finish(finish, finish == FINISH_STOP ? FAKE_END : -1);
        fake_ready();
        json_t *response = stream ? streamed(&s) : fake_json();
        assert_string_equal(fake_string(response, "status"), status);
        assert_string_equal(summary(response), items);
        const json_t *details = json_object_get(response, "incomplete_details");
        bool limited = strcmp(status, "incomplete") == 0;
        assert_int_equal(json_is_object(details), limited);
        if (limited)
            assert_string_equal(fake_string(details, "reason"), "max_output_tokens");
        assert_int_equal(json_is_integer(json_object_get(response, "completed_at")), !limited);
        json_decref(response);
    }
}

TEST(test_how_answers_end)
{
    ends_as("", "", FINISH_STOP, "completed", "message:completed:\n");
    ends_as("", "ab", FINISH_LENGTH, "incomplete", "message:incomplete:ab\n");
    ends_as("", "ab", FINISH_CONTEXT, "incomplete", "message:incomplete:ab\n");
    ends_as("", "<think>ab", FINISH_LENGTH, "incomplete", "reasoning:incomplete:ab\n");
    ends_as("," TOOLS, CALL("f", "{\"a\": 1}"), FINISH_LENGTH, "incomplete",
            "function_call:completed:f {\"a\": 1}\n");
    ends_as("," TOOLS, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", FINISH_LENGTH,
            "incomplete", "function_call:incomplete:f {\"a\": \n");
    // the model itself ends it
    ends_as("," TOOLS, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", FINISH_STOP,
            "completed", "function_call:incomplete:f {\"a\": \n");
    ends_as("," TOOLS,
            CALL("g", "{}") "a<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", FINISH_STOP,
            "completed",
            "function_call:completed:g {}\nmessage:completed:a\n"
            "function_call:incomplete:f {\"a\": \n");
    ends_as("," TOOLS ",\"parallel_tool_calls\":false", CALL("f", "{}") CALL("g", "{}"),
            FINISH_LENGTH, "completed", "function_call:completed:f {}\n");
    ends_as(",\"stop\":\"b\"", "abc", FINISH_LENGTH, "completed", "message:completed:a\n");
    ends_as("," TOOLS, "<tool_call>{\"name\": \"h\"", FINISH_STOP, "completed",
            "message:completed:<tool_call>{\"name\": \"h\"\n");
}

static void failed_with(const char *code, const char *message)
{
    struct stream s;
    json_t *response = streamed(&s);
    const json_t *error = json_object_get(response, "error");
    assert_string_equal(fake_string(response, "status"), "failed");
    assert_string_equal(fake_string(error, "code"), "server_error");
    assert_string_equal(fake_string(error, "message"), message);
    assert_true(json_is_null(json_object_get(response, "usage")));
    assert_int_equal(s.errors, 1);
    const char *last = strstr(fake.sent, "event: error\ndata: ");
    json_t *event = json_loads(last + strlen("event: error\ndata: "), JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(fake_string(event, "code"), code);
    assert_string_equal(fake_string(event, "message"), message);
    assert_true(json_is_null(json_object_get(event, "param")));
    assert_string_equal(fake_string(json_object_get(event, "error"), "code"), code);
    assert_string_equal(fake_string(json_object_get(event, "error"), "type"), "server_error");
    json_decref(event);
    json_decref(response);
    assert_int_equal(fake.stream_failures, 1);
}

TEST(test_62_a_failure_in_mid_stream)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_text("<think>a</think>");
    fake_ready();
    fake_finish(FINISH_ERROR, -1);
    // no end event for the open item
    fake_ready();
    sent_has("event: response.failed\n");
    sent_has("event: error\n");
    assert_true(fake.ended);
    assert_int_equal(fake.stream_failures, 1);

    again(); // a status, if before the first byte
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_finish(FINISH_ERROR, -1);
    fake_ready();
    assert_int_equal(fake.status, 500);
    sent_lacks("event:");
}

TEST(test_a_stream_that_the_server_cuts)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_second(6); // created and in_progress are sent before the first token
    sent_has("event: response.in_progress\n");
    fake_second(20);
    sent_has("\n\n: keep-alive\n\n");
    fake_cut(&(struct http_failure){.error = HTTP_UNAVAILABLE, .message = text_of("closing")});
    failed_with("unavailable", "closing");
}

// Requests text whose bytes JSON escapes to six bytes each, in an arena of arena_bytes. Returns
// whether the response succeeded.
static bool fits(size_t arena_bytes, bool stream)
{
    enum { TOKENS = 3900 };
    struct stream s;
    again();
    fake_arena_limit(arena_bytes);
    fake_request(PATH, stream ? "{" HI ",\"stream\":true}" : "{" HI "}");
    for (int i = 0; fake.submits == 1 && i < TOKENS; i++) {
        fake_token(1);
        if (i % 64 == 0)
            fake_ready();
    }
    fake_finish(FINISH_STOP, FAKE_END);
    if (fake.submits == 1)
        fake_ready();
    if (fake.error == 0) {
        json_t *response = stream ? streamed(&s) : fake_json();
        const json_t *item = json_array_get(json_object_get(response, "output"), 0);
        const json_t *text =
            json_object_get(json_array_get(json_object_get(item, "content"), 0), "text");
        assert_int_equal(json_string_length(text), TOKENS);
        json_decref(response);
        return true;
    }
    if (stream && fake.submits == 1)
        sent_has("event: response.failed\n");
    else
        assert_int_equal(fake.status, fake.submits == 1 ? 500 : 413);
    return false;
}

TEST(test_an_answer_that_outgrows_its_memory)
{
    for (int stream = 0; stream < 2; stream++) {
        int answered = 0, refused = 0;
        for (size_t bytes = 6144; bytes < 60000; bytes += 512)
            fits(bytes, stream) ? answered++ : refused++;
        assert_true(answered > 5);
        assert_true(refused > 5);
    }
}

TEST(test_what_the_answer_repeats)
{
    fake_request(
        PATH,
        "{" HI ",\"instructions\":\"be \\\"it\\\"\",\"temperature\":0.7,\"top_p\":0.9,"
        "\"max_output_tokens\":9,\"metadata\":{\"k\":\"v\"},\"parallel_tool_calls\":false,"
        "\"tool_choice\":\"auto\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":null,"
        "\"parameters\":{\"type\":\"object\"}}],\"reasoning\":{\"effort\":\"low\"},"
        "\"text\":{\"verbosity\":\"high\"},\"user\":\"u\",\"store\":true,\"truncation\":\"auto\"}");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    json_t *got = fake_json();
    json_t *wanted = json_loads(
        "{\"instructions\":\"be \\\"it\\\"\",\"temperature\":0.7,\"top_p\":0.9,"
        "\"max_output_tokens\":9,\"metadata\":{\"k\":\"v\"},\"parallel_tool_calls\":false,"
        "\"tool_choice\":\"auto\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":"
        "false,"
        "\"description\":null,\"parameters\":{\"type\":\"object\"}}],"
        "\"reasoning\":{\"effort\":\"low\",\"summary\":null},"
        "\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"high\"},\"user\":\"u\","
        "\"store\":false,\"truncation\":\"disabled\"}",
        0, NULL);
    const char *name;
    json_t *value;
    json_object_foreach(wanted, name, value)
    {
        if (!json_equal(value, json_object_get(got, name)))
            fail_msg("%s: %s", name, fake.sent);
    }
    json_decref(wanted);
    json_decref(got);
}

// Returns form with %s replaced by this many letters; to be freed.
static char *body_with(const char *form, size_t letters)
{
    char *body = calloc(1, letters + strlen(form) + 1), *o = body;
    const char *at = strstr(form, "%s");
    o = mempcpy(o, form, (size_t)(at - form));
    o = memset(o, 'x', letters);
    strcpy(o + letters, at + 2);
    return body;
}

// A field that is too large to repeat is left out; all other fields are repeated.
TEST(test_not_all_is_repeated)
{
#define BESIDE                                                                                     \
    "\"tool_choice\":\"none\",\"parallel_tool_calls\":false,\"user\":\"u\",\"metadata\":{\"a\":"   \
    "\"b\"}"
    static const struct {
        const char *body, *left_out, *absent;
    } cases[] = {
        {"{" HI "," BESIDE ",\"instructions\":\"%s\"}", "instructions", "null"},
        {"{" HI "," BESIDE ",\"instructions\":\"i\",\"metadata\":{\"k\":\"%s\"}}", "metadata",
         "{}"},
        {"{" HI "," BESIDE ",\"instructions\":\"i\",\"tools\":[{\"type\":\"function\",\"name\":"
         "\"f\",\"description\":\"%s\"}]}",
         "tools",
         "[{\"type\":\"function\",\"name\":\"f\",\"description\":null,\"parameters\":null,"
         "\"strict\":false}]"},
        {"{" HI "," BESIDE ",\"instructions\":\"i\",\"text\":{\"format\":{\"type\":\"json_schema\","
         "\"name\":\"n\",\"schema\":{\"description\":\"%s\"}}}}",
         "text",
         "{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{}},"
         "\"verbosity\":\"medium\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t kib = 200; kib <= 300; kib += 100) {
            again();
            fake_facts.max_model_len = 400000;
            char *body = body_with(cases[i].body, kib * 1024);
            fake_request(PATH, body);
            free(body);
            fake_finish(FINISH_STOP, FAKE_END);
            fake_ready();
            json_t *got = fake_json(), *absent = json_loads(cases[i].absent, JSON_DECODE_ANY, NULL);
            bool left_out = json_equal(json_object_get(got, cases[i].left_out), absent);
            assert_int_equal(left_out, kib == 300);
            assert_string_equal(fake_string(got, "tool_choice"), "none");
            assert_string_equal(fake_string(got, "user"), "u");
            assert_true(json_is_false(json_object_get(got, "parallel_tool_calls")));
            if (i > 0)
                assert_string_equal(fake_string(got, "instructions"), "i");
            json_decref(absent);
            json_decref(got);
        }
}

TEST(test_a_call_ends_before_the_answer)
{
    fake_request(PATH, "{" HI "," TOOLS ",\"stream\":true}");
    fake_text(CALL("f", "{\"a\": 1}"));
    fake_ready();
    sent_has("event: response.output_item.done\n");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    struct stream s;
    json_t *response = streamed(&s);
    assert_string_equal(summary(response), "function_call:completed:f {\"a\": 1}\n");
    json_decref(response);
}

TEST(test_a_call_of_many_pieces)
{
    enum { LETTERS = 5000 };
    char letters[LETTERS + 1] = "", arguments[LETTERS + 16];
    struct stream s;
    memset(letters, 'x', LETTERS);
    letters[LETTERS] = 0;
    snprintf(arguments, sizeof arguments, "{\"a\": \"%s\"}", letters);
    fake_facts.max_model_len = 8000;
    fake_request(PATH, "{" HI "," TOOLS ",\"stream\":true}");
    fake_text("<tool_call>{\"name\": \"f\", \"arguments\": ");
    fake_text(arguments);
    fake_text("}</tool_call>");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    json_t *response = streamed(&s);
    const json_t *item = json_array_get(json_object_get(response, "output"), 0);
    assert_string_equal(fake_string(item, "arguments"), arguments);
    assert_int_equal(json_array_size(json_object_get(response, "output")), 1);
    json_decref(response);
}

static void entries_join(const json_t *entries, char *out)
{
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry)
    {
        strcat(out, fake_string(entry, "token"));
    }
}

// Each text has the log probabilities of its own tokens, even if its last token contains the start
// of a call's marker, which may be known only after the message has ended.
TEST(test_log_probabilities_of_each_text)
{
    static const char text[] = "a*_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>cd";
    char joined[64];
    for (size_t cut = 0; cut < 70; cut++) {
        again();
        fake_request(PATH, cut ? "{" HI "," TOOLS ",\"top_logprobs\":1,\"stream\":true}"
                               : "{" HI "," TOOLS
                                 ",\"include\":[\"message.output_text.logprobs\"]}");
        assert_true(fake.sampling.logprob);
        for (size_t at = 0; at < sizeof text - 1; at++) {
            struct token_top top = {.token = 'x', .logprob = -2};
            fake_token(text[at] == '*' ? FAKE_SPAN : (unsigned char)text[at]);
            fake_logprob(-0.5f, &top, cut ? 1 : 0);
            if (cut && at % cut == 0)
                fake_ready();
        }
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        struct stream s;
        json_t *response = cut ? streamed(&s) : fake_json();
        const json_t *output = json_object_get(response, "output");
        assert_int_equal(json_array_size(output), 3);
        for (size_t i = 0; i < 3; i += 2) {
            const json_t *part =
                json_array_get(json_object_get(json_array_get(output, i), "content"), 0);
            joined[0] = 0;
            entries_join(json_object_get(part, "logprobs"), joined);
            assert_string_equal(joined, i == 0 ? "ab<tool" : "cd");
            const json_t *tops = json_object_get(
                json_array_get(json_object_get(part, "logprobs"), 0), "top_logprobs");
            assert_int_equal(json_array_size(tops), cut ? 1 : 0);
        }
        json_decref(response);
    }
}

TEST(test_nothing_is_left_when_the_client_goes)
{
    fake_request(PATH, "{" HI "," TOOLS ",\"stream\":true}");
    fake_text("<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{\"a\"");
    fake_ready();
    fake_gone();
}
