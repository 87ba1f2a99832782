// SPDX-License-Identifier: Apache-2.0
// Tools and reasoning of chat completions, streamed and not, against the doubles of exchange and
// port: values passed to the template, parsed answers, refusals.
#include "api_cases.h"

#define TEST(name) API_TEST(name, setup)
#define PATH "/v1/chat/completions"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOL(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define TOOLS "\"tools\":[" TOOL("f") "," TOOL("g") "]"
#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"

static int setup(void **state)
{
    fake_setup_generator(state);
    fake_dialect("hermes", "think");
    return 0;
}

static void answer(const char *text, enum finish finish)
{
    fake_text(text);
    fake_finish(finish, finish == FINISH_STOP ? FAKE_END : ' ');
    fake_ready();
}

static json_t *message_of(const json_t *whole, const char **finish)
{
    json_t *choice = json_array_get(json_object_get(whole, "choices"), 0);
    *finish = json_string_value(json_object_get(choice, "finish_reason"));
    return json_object_get(choice, "message");
}

static const json_t *function_at(const json_t *message, size_t i)
{
    const json_t *call = json_array_get(json_object_get(message, "tool_calls"), i);
    assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
    assert_int_equal(strncmp(json_string_value(json_object_get(call, "id")), "call_", 5), 0);
    return json_object_get(call, "function");
}

static void call_is(const json_t *message, size_t i, const char *name, const char *arguments)
{
    const json_t *function = function_at(message, i);
    assert_string_equal(json_string_value(json_object_get(function, "name")), name);
    assert_string_equal(json_string_value(json_object_get(function, "arguments")), arguments);
}

TEST(test_calls_of_a_whole_answer)
{
    const char *finish;
    fake_request(PATH, "{" HI "," TOOLS "}");
    char *prompt = fake_prompt();
    assert_non_null(strstr(prompt, "[tools f g][assistant]"));
    free(prompt);
    answer("<think>hm</think>\n\nSee: " CALL("f", "{\"a\": \"\xC3\xA9\"}") "\n" CALL("g", "{}"),
           FINISH_STOP);
    json_t *whole = fake_json(), *message = message_of(whole, &finish);
    assert_string_equal(finish, "tool_calls");
    assert_string_equal(json_string_value(json_object_get(message, "content")), "See:");
    assert_string_equal(json_string_value(json_object_get(message, "reasoning_content")), "hm");
    assert_string_equal(json_string_value(json_object_get(message, "reasoning")), "hm");
    assert_int_equal(json_array_size(json_object_get(message, "tool_calls")), 2);
    call_is(message, 0, "f", "{\"a\": \"\xC3\xA9\"}");
    call_is(message, 1, "g", "{}");
    assert_string_not_equal(json_string_value(json_object_get(
                                json_array_get(json_object_get(message, "tool_calls"), 0), "id")),
                            json_string_value(json_object_get(
                                json_array_get(json_object_get(message, "tool_calls"), 1), "id")));
    const json_t *details =
        json_object_get(json_object_get(whole, "usage"), "completion_tokens_details");
    assert_int_equal(json_integer_value(json_object_get(details, "reasoning_tokens")), 11);
    json_decref(whole);
}

static void hermes(void)
{
    fake_dialect("hermes", "think");
}

static void hermes_opened(void)
{
    hermes();
    fake_chat.opens = true; // the prompt opens the reasoning
}

#define BODY(more) PATH, "{" HI "," TOOLS more "}"
#define CONTENT(text) "\"content\":\"" text "\""
#define FINISH(reason) "\"finish_reason\":\"" reason "\""
#define CALL_SENT(name, arguments)                                                                 \
    "\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"arguments\":\"" arguments "\"}"

TEST(test_answers_with_and_without_calls)
{
    static const struct api_case cases[] = {
        {"no call", hermes, BODY(""), .text = "No <tool_call> here", .finish = FINISH_STOP,
         .status = 200, .has = {FINISH("stop"), CONTENT("No <tool_call> here")},
         .lacks = {"\"tool_calls\"", "\"reasoning_content\""}},
        {"14: a marker that never completes", hermes, BODY(""),
         .text = "So <tool_call>{\"name\": \"f\"", .finish = FINISH_STOP, .status = 200,
         .has = {FINISH("stop"), CONTENT("So <tool_call>{\\\"name\\\": \\\"f\\\"")}},
        {"calls alone have null for content", hermes, BODY(",\"tool_choice\":\"auto\""),
         .text = CALL("g", "{}"), .finish = FINISH_STOP, .status = 200,
         .has = {"\"content\":null", "\"tool_calls\":[{\"id\":\"call_", CALL_SENT("g", "{}")}},
        {"max_tokens ends the answer inside a call", hermes, BODY(""),
         .text = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"b", .finish = FINISH_LENGTH,
         .last = ' ', .status = 200,
         .has = {FINISH("length"), "\"tool_calls\":[{\"id\":\"call_",
                 CALL_SENT("f", "{\\\"a\\\":\\\"b ")}},
        {"stop strings are searched for in visible text only", hermes, BODY(",\"stop\":\"END\""),
         .text = "<think>END</think>a " CALL("f", "{\"x\": \"END\"}") " b END c",
         .finish = FINISH_CANCEL, .status = 200,
         .has = {FINISH("tool_calls"), CONTENT("a b "), "\"reasoning_content\":\"END\"",
                 "\"tool_calls\":[{\"id\":\"call_", CALL_SENT("f", "{\\\"x\\\": \\\"END\\\"}")}},
        {"the prompt opens the reasoning", hermes_opened, PATH, "{" HI "}", .text = "hm</think>Yes",
         .finish = FINISH_STOP, .status = 200,
         .has = {CONTENT("Yes"), "\"reasoning_content\":\"hm\""}},
    };
    API_CASES_RUN(cases);
}

TEST(test_11_parallel_calls_of_one_tool)
{
    const char *finish;
    fake_request(PATH, "{" HI "," TOOLS "}");
    answer(CALL("f", "{\"a\": 1}") CALL("f", "{\"a\": 2}"), FINISH_STOP);
    json_t *whole = fake_json(), *message = message_of(whole, &finish);
    const json_t *calls = json_object_get(message, "tool_calls");
    call_is(message, 0, "f", "{\"a\": 1}");
    call_is(message, 1, "f", "{\"a\": 2}");
    assert_string_not_equal(json_string_value(json_object_get(json_array_get(calls, 0), "id")),
                            json_string_value(json_object_get(json_array_get(calls, 1), "id")));
    json_decref(whole);
}

// The deltas of a stream, joined.
struct told {
    char content[512], reasoning[512], calls[1024], finish[32];
};

static struct told told(void)
{
    struct told t = {0};
    char *copy = strdup(fake_events()), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "data: {", 7) != 0)
            continue;
        json_t *chunk = json_loads(line + 6, 0, NULL);
        assert_non_null(chunk);
        const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
        const json_t *delta = json_object_get(choice, "delta");
        const json_t *content = json_object_get(delta, "content"),
                     *reasoning = json_object_get(delta, "reasoning_content"),
                     *call = json_array_get(json_object_get(delta, "tool_calls"), 0);
        assert_true(json_array_size(json_object_get(delta, "tool_calls")) <= 1);
        if (content)
            strcat(t.content, json_string_value(content));
        if (reasoning)
            strcat(t.reasoning, json_string_value(reasoning));
        const json_t *function = json_object_get(call, "function"),
                     *name = json_object_get(function, "name");
        if (name)
            snprintf(t.calls + strlen(t.calls), 128, "|%s %lld %s ",
                     json_string_value(json_object_get(call, "id")),
                     json_integer_value(json_object_get(call, "index")), json_string_value(name));
        if (call)
            strcat(t.calls, json_string_value(json_object_get(function, "arguments")));
        if (json_is_string(json_object_get(choice, "finish_reason")))
            strcat(t.finish, json_string_value(json_object_get(choice, "finish_reason")));
        json_decref(chunk);
    }
    free(copy);
    return t;
}

TEST(test_a_stream_says_the_same)
{
    const char *text = "<think>hm</think>\n\nSee: " CALL("f", "{\"a\": 1}") "\n" CALL("g", "{}");
    for (size_t step = 1; step < 60; step += step < 4 ? 1 : 19) {
        if (step > 1) {
            fake_end();
            fake_begin(MODEL_GENERATOR);
            fake_dialect("hermes", "think");
        }
        fake_request(PATH, "{" HI "," TOOLS ",\"stream\":true}");
        for (size_t i = 0; text[i]; i++) {
            fake_token((unsigned char)text[i]);
            if (i % step == 0)
                fake_ready();
        }
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        struct told t = told();
        assert_string_equal(t.content, "See:");
        assert_string_equal(t.reasoning, "hm");
        assert_string_equal(t.calls, "|ID 0 f {\"a\": 1}|ID 1 g {}");
        assert_string_equal(t.finish, "tool_calls");
        sent_lacks("tool_call>");
        assert_true(fake.ended);
    }
}

static void first_call_ends(const char *more)
{
    char body[1024];
    const char *finish;
    snprintf(body, sizeof body, "{" HI "," TOOLS "%s,\"stop\":\"zz\"}", more);
    fake_request(PATH, body);
    fake_text("zA " CALL("f", "{}") CALL("g", "{}"));
    fake_ready();
    assert_int_equal(fake.choice_cancels, 1);
    fake_finish(FINISH_CANCEL, -1);
    fake_ready();
    json_t *whole = fake_json(), *message = message_of(whole, &finish);
    assert_string_equal(finish, "tool_calls");
    assert_string_equal(json_string_value(json_object_get(message, "content")), "zA");
    assert_int_equal(json_array_size(json_object_get(message, "tool_calls")), 1);
    json_decref(whole);
}

TEST(test_the_first_call_ends_an_answer_that_may_have_one)
{
    first_call_ends(",\"parallel_tool_calls\":false");
}

TEST(test_the_first_call_ends_an_answer_whose_template_takes_no_more)
{
    fake_one_call();
    first_call_ends("");
    fake_again();
    fake_dialect("hermes", "think");
    fake_one_call();
    first_call_ends(",\"parallel_tool_calls\":true"); // allows several calls, requires none
}

// Text held back as a possible call is released in one piece, larger than the buffer of the stop
// string search.
TEST(test_a_long_call_that_breaks_is_scanned_for_stop_strings)
{
    static const int lengths[] = {1, 15, 16, 17, 255, 256, 600, 4000};
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        char text[5000], wanted[5000];
        const char *finish;
        bool stops = i % 2;
        int bytes = snprintf(text, sizeof text, "<tool_call>{\"note\": \"%0*d%s", lengths[i / 2], 0,
                             stops ? "###more" : "");
        snprintf(wanted, sizeof wanted, "%.*s%s", stops ? bytes - 7 : bytes, text,
                 stops ? "" : " ");
        if (i > 0) {
            fake_end();
            fake_begin(MODEL_GENERATOR);
            fake_dialect("hermes", "think");
        }
        fake_request(PATH, "{" HI "," TOOLS ",\"stop\":\"###\"}");
        answer(text, FINISH_LENGTH);
        json_t *whole = fake_json(), *message = message_of(whole, &finish);
        assert_string_equal(json_string_value(json_object_get(message, "content")), wanted);
        assert_string_equal(finish, stops ? "stop" : "length");
        json_decref(whole);
    }
}

TEST(test_tools_that_may_not_be_called_are_not_rendered)
{
    const char *finish;
    fake_request(PATH, "{" HI "," TOOLS ",\"tool_choice\":\"none\"}");
    char *prompt = fake_prompt();
    assert_null(strstr(prompt, "[tools"));
    free(prompt);
    answer(CALL("f", "{}"), FINISH_STOP);
    json_t *whole = fake_json(), *message = message_of(whole, &finish);
    assert_string_equal(finish, "stop");
    assert_string_equal(json_string_value(json_object_get(message, "content")), CALL("f", "{}"));
    json_decref(whole);
}

// Templates get a tool in one form, independent of the endpoint; null is treated as absent.
TEST(test_what_templates_see_of_a_tool)
{
    static const char *const cases[][2] = {
        {"\"cache_control\":{\"type\":\"ephemeral\"},\"function\":{\"name\":\"f\",\"description\":"
         "null,\"parameters\":null,\"strict\":null,\"x_more\":1}",
         "{\"name\":\"f\"}"},
        {"\"function\":{\"strict\":true,\"parameters\":{\"type\":\"object\",\"title\":null},"
         "\"description\":\"d\",\"name\":\"f\"}",
         "{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"title\":null}"
         ","
         "\"strict\":true}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024], want[1024];
        snprintf(body, sizeof body, "{" HI ",\"tools\":[{\"type\":\"function\",%s}]}", cases[i][0]);
        snprintf(want, sizeof want, "[tools f]{[{\"type\":\"function\",\"function\":%s}]}",
                 cases[i][1]);
        fake_thinker("hermes");
        fake_chat.shows = "tools";
        fake_request(PATH, body);
        char *prompt = fake_prompt();
        if (!strstr(prompt, want))
            fail_msg("%s: %s", body, prompt);
        free(prompt);
        fake_gone();
    }
    fake_chat.shows = NULL;
}

TEST(test_special_tokens_are_told_to_the_reader)
{
    const char *finish;
    fake_request(PATH, "{" HI "," TOOLS "}");
    fake_text("a");
    fake_token(FAKE_END);
    answer("b " CALL("f", "{}"), FINISH_STOP);
    json_t *whole = fake_json(), *message = message_of(whole, &finish);
    assert_string_equal(json_string_value(json_object_get(message, "content")), "ab");
    json_decref(whole);
    fake_end();
    fake_begin(MODEL_GENERATOR);
    fake_dialect("hermes", "think");
    fake_request(PATH, "{" HI "," TOOLS ",\"skip_special_tokens\":false}");
    fake_text("a");
    fake_token(FAKE_END);
    answer("b", FINISH_STOP);
    whole = fake_json();
    message = message_of(whole, &finish);
    assert_string_equal(json_string_value(json_object_get(message, "content")), "a<end>b");
    json_decref(whole);
}

TEST(test_each_choice_has_calls_of_its_own)
{
    fake_request(PATH, "{" HI "," TOOLS ",\"n\":2}");
    const char *texts[] = {CALL("f", "{}"), CALL("g", "{}")};
    for (size_t i = 0; texts[0][i]; i++)
        for (uint32_t c = 0; c < 2; c++) {
            fake_choice(c);
            fake_token((unsigned char)texts[c][i]);
        }
    for (uint32_t c = 0; c < 2; c++) {
        fake_choice(c);
        fake_finish(FINISH_STOP, FAKE_END);
    }
    fake_ready();
    json_t *whole = fake_json();
    for (size_t c = 0; c < 2; c++)
        call_is(json_object_get(json_array_get(json_object_get(whole, "choices"), c), "message"), 0,
                c == 0 ? "f" : "g", "{}");
    json_decref(whole);
}

TEST(test_nothing_is_left_when_the_client_goes)
{
    fake_request(PATH, "{" HI "," TOOLS ",\"stream\":true}");
    fake_text("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\"");
    fake_ready();
    fake_gone();
}

TEST(test_what_tools_may_not_be)
{
    static const struct {
        const char *fields, *param;
        int status;
    } cases[] = {
        {"\"tools\":5", "tools", 400},
        {"\"tools\":[5]", "tools[0]", 400},
        {"\"tools\":[{}]", "tools[0].type", 400},
        {"\"tools\":[{\"type\":7}]", "tools[0].type", 400},
        {"\"tools\":[{\"type\":\"web_search\"}]", "tools[0].type", 400},
        {"\"tools\":[{\"type\":\"function\"}]", "tools[0].function", 400},
        {"\"tools\":[{\"type\":\"function\",\"function\":7}]", "tools[0].function", 400},
        {"\"tools\":[{\"type\":\"function\",\"function\":{}}]", "tools[0].function.name", 400},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":7}}]", "tools[0].function.name",
         400},
        {"\"tools\":[" TOOL("") "]", "tools[0].function.name", 400},
        {"\"tools\":[" TOOL("a b") "]", "tools[0].function.name", 400},
        {"\"tools\":[" TOOL("f") "," TOOL("f") "]", "tools[1].function.name", 400},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":7}}]",
         "tools[0].function.strict", 400},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}}]",
         "tools[0].function.parameters", 400},
        {TOOLS ",\"tool_choice\":\"maybe\"", "tool_choice", 400},
        {TOOLS ",\"tool_choice\":7", "tool_choice", 400},
        {"\"tool_choice\":\"required\"", "tool_choice", 400},
        {TOOLS ",\"parallel_tool_calls\":7", "parallel_tool_calls", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        snprintf(body, sizeof body, "{" HI ",%s}", cases[i].fields);
        fake_request(PATH, body);
        if (fake.status != cases[i].status)
            fail_msg("%s: %d", cases[i].fields, fake.status);
        json_t *whole = fake_json(), *error = json_object_get(whole, "error");
        assert_string_equal(json_string_value(json_object_get(error, "param")), cases[i].param);
        json_decref(whole);
        fake_end();
        fake_begin(MODEL_GENERATOR);
        fake_dialect("hermes", "think");
    }
    fake_dialect("none", "none");
    fake_request(PATH, "{" HI "," TOOLS "}");
    assert_int_equal(fake.status, 400);
    sent_has("does not support tools");
}

TEST(test_fields_that_say_nothing_of_tools_pass)
{
    static const char *const fields[] = {"\"tools\":[]", "\"tools\":null",
                                         "\"tool_choice\":\"auto\"", "\"tool_choice\":\"none\"",
                                         "\"parallel_tool_calls\":false"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char body[1024];
        fake_dialect("none", "none");
        snprintf(body, sizeof body, "{" HI ",%s}", fields[i]);
        fake_request(PATH, body);
        answer("ok", FINISH_STOP);
        assert_int_equal(fake.status, 200);
        fake_end();
        fake_begin(MODEL_GENERATOR);
    }
}

#define ASKS(arguments)                                                                            \
    "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{"  \
    "\"name\":\"f\",\"arguments\":\"" arguments "\"}}]}"
#define RESULT "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"r\"}"

static void conversation_is(const char *messages, int status, const char *says)
{
    char body[1024];
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"u\"},%s]}", messages);
    fake_again();
    fake_request(PATH, body);
    assert_int_equal(fake.status, status);
    assert_int_equal(fake.submits, status == 0);
    if (says && !strstr(fake.sent, says))
        fail_msg("%s", fake.sent);
}

// If a template refuses string arguments, they are tried again as an object, except after
// STATUS_TOO_LARGE; if both fail, the first error is reported.
TEST(test_what_a_template_says_of_broken_arguments)
{
    fake_chat.text_fails = STATUS_REFUSED;
    conversation_is(ASKS("{broken") "," RESULT, 0, NULL);
    fake_chat.wrapped_fails = true;
    conversation_is(ASKS("{broken") "," RESULT, 400, "line 3: arguments must be a mapping");
    fake_chat.wrapped_fails = false;
    fake_chat.text_fails = STATUS_TOO_LARGE;
    conversation_is(ASKS("{broken") "," RESULT, 413, NULL);
}

// A result names its call, so the calls of a turn need different ids, even in two messages; another
// turn may reuse them.
TEST(test_ids_of_calls_of_a_turn_differ)
{
    conversation_is(ASKS("{}") "," ASKS("{}") "," RESULT, 400,
                    "\"param\":\"messages[2].tool_calls[0].id\"");
    sent_has("'c1' is used twice");
    conversation_is(ASKS("{}") "," RESULT "," ASKS("{}") "," RESULT, 0, NULL);
}
