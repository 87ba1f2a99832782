// SPDX-License-Identifier: Apache-2.0
// The reply reader combined with decoding parameters, chat completions against the doubles of
// exchange and port: log probabilities, stop strings, limits, continued messages, and that each
// path frees its memory.
#include "api_cases.h"

#define TEST(name) API_TEST(name, setup)
#define PATH "/v1/chat/completions"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOL(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define TOOLS "\"tools\":[" TOOL("f") "," TOOL("g") "]"
#define CALL(name, arguments)                                                                      \
    "<tool_call>{\"name\": \"" name "\", \"arguments\": " arguments "}</tool_call>"

static const char *dialect, *reasoning, *special;

static void again(const char *name, const char *reasoning_name)
{
    fake_end();
    fake_begin(MODEL_GENERATOR);
    fake_facts.max_model_len = 2000;
    fake_dialect_special(dialect = name, reasoning = reasoning_name, special);
}

static int setup(void **state)
{
    fake_setup_generator(state);
    special = NULL;
    again("hermes", "think");
    return 0;
}

static void answer(const char *text, enum finish finish)
{
    fake_text(text);
    fake_finish(finish, finish == FINISH_STOP ? FAKE_END : -1);
    fake_ready();
}

// The first choice of a response, or of all chunks joined.
struct got {
    char content[8192], reasoning[512], entries[512], tops[512], calls[1024], finish[32], ids[256];
    json_int_t completion, thought; // tokens
    int misplaced;                  // entry lists in a chunk without content
};

static void part_take(struct got *g, const json_t *choice, const json_t *message)
{
    const json_t *content = json_object_get(message, "content"),
                 *thought = json_object_get(message, "reasoning_content"), *each, *top;
    const json_t *entries = json_object_get(json_object_get(choice, "logprobs"), "content");
    size_t i, k;
    if (json_is_string(content))
        strcat(g->content, json_string_value(content));
    if (thought)
        strcat(g->reasoning, json_string_value(thought));
    g->misplaced += json_is_object(json_object_get(choice, "logprobs")) && !content;
    json_array_foreach(entries, i, each)
    {
        strcat(g->entries, json_string_value(json_object_get(each, "token")));
        json_array_foreach(json_object_get(each, "top_logprobs"), k, top)
            strcat(g->tops, json_string_value(json_object_get(top, "token")));
    }
    json_array_foreach(json_object_get(message, "tool_calls"), i, each)
    {
        const json_t *function = json_object_get(each, "function"), *id, *name;
        if ((name = json_object_get(function, "name")))
            snprintf(g->calls + strlen(g->calls), 64, "|%s ", json_string_value(name));
        if ((id = json_object_get(each, "id")))
            snprintf(g->ids + strlen(g->ids), 64, "%s ", json_string_value(id));
        strcat(g->calls, json_string_value(json_object_get(function, "arguments")));
    }
    if (json_is_string(json_object_get(choice, "finish_reason")))
        strcpy(g->finish, json_string_value(json_object_get(choice, "finish_reason")));
}

static void usage_take(struct got *g, const json_t *usage)
{
    g->completion = json_integer_value(json_object_get(usage, "completion_tokens"));
    g->thought = json_integer_value(
        json_object_get(json_object_get(usage, "completion_tokens_details"), "reasoning_tokens"));
}

static struct got got_of(void)
{
    struct got g = {0};
    char *copy = strdup(fake.sent), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        bool event = strncmp(line, "data: {", 7) == 0;
        if (!event && line[0] != '{')
            continue;
        json_t *value = json_loads(event ? line + 6 : line, JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        const json_t *choice = json_array_get(json_object_get(value, "choices"), 0);
        if (choice)
            part_take(&g, choice, json_object_get(choice, event ? "delta" : "message"));
        if (json_is_object(json_object_get(value, "usage")))
            usage_take(&g, json_object_get(value, "usage"));
        json_decref(value);
    }
    free(copy);
    return g;
}

// Expects equal results without a stream and with a stream that is read after each token; returns
// them.
static struct got whole_and_streamed(const char *fields, const char *text, enum finish finish)
{
    struct got got[2];
    for (int stream = 0; stream < 2; stream++) {
        char body[2048];
        again(dialect, reasoning);
        snprintf(body, sizeof body, "{%s%s%s%s}",
                 strstr(fields, "\"messages\"") ? "\"model\":\"m\"," : HI ",", fields,
                 *fields ? "," : "",
                 stream ? "\"stream\":true,\"stream_options\":{\"include_usage\":true}"
                        : "\"stream\":false");
        fake_request(PATH, body);
        for (const char *p = text; *p; p++) {
            fake_token(*p == 1 ? FAKE_MARK : (unsigned char)*p);
            if (strstr(fields, "top_logprobs"))
                fake_logprob(-1, (struct token_top[]){{*p, -1}, {*p + 1, -2}}, 2);
            if (stream)
                fake_ready();
        }
        if (finish != FINISH_NONE)
            fake_finish(finish, finish == FINISH_STOP ? special ? FAKE_MARK : FAKE_END : -1);
        else
            fake_finish(FINISH_CANCEL, -1); // all choices have ended
        fake_ready();
        if (!fake.ended || fake.status != 200)
            fprintf(stderr, "%s -> %d %s\n", body, fake.status, fake.sent);
        assert_true(fake.ended && fake.status == 200);
        got[stream] = got_of();
    }
    assert_string_equal(got[0].content, got[1].content);
    assert_string_equal(got[0].reasoning, got[1].reasoning);
    assert_string_equal(got[0].entries, got[1].entries);
    assert_string_equal(got[0].tops, got[1].tops);
    assert_string_equal(got[0].calls, got[1].calls);
    assert_string_equal(got[0].finish, got[1].finish);
    assert_int_equal(got[0].completion, got[1].completion);
    assert_int_equal(got[0].thought, got[1].thought);
    assert_int_equal(got[0].misplaced + got[1].misplaced, 0);
    return got[0];
}

TEST(test_log_probabilities_are_those_of_the_content)
{
    static const struct {
        const char *fields, *text, *content;
        enum finish finish;
    } cases[] = {
        {"\"logprobs\":true", "<think>hm</think>\n\nYes", "Yes", FINISH_STOP},
        {"\"logprobs\":true", "never <thi", "never <thi", FINISH_LENGTH},
        {"\"logprobs\":true," TOOLS, "A " CALL("f", "{\"a\": 1}") " B", "A B", FINISH_STOP},
        {"\"logprobs\":true," TOOLS, CALL("nobody", "{}") "!", CALL("nobody", "{}") "!",
         FINISH_LENGTH},
        {"\"logprobs\":true," TOOLS, CALL("f", "{}"), "", FINISH_STOP},
        {"\"logprobs\":true,\"stop\":\"END\"", "<think>END</think>abENDc", "ab", FINISH_NONE},
        {"\"logprobs\":true,\"stop\":\"END\",\"include_stop_str_in_output\":true", "abENDc",
         "abEND", FINISH_NONE},
        {"\"logprobs\":true,\"stop\":\"END\"," TOOLS, "a <tool_call> bEND", "a <tool_call> b",
         FINISH_NONE},
        {"\"logprobs\":true,\"stop\":\"END\"", "abEN", "abEN", FINISH_STOP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct got g = whole_and_streamed(cases[i].fields, cases[i].text, cases[i].finish);
        assert_string_equal(g.content, cases[i].content);
        assert_string_equal(g.entries, cases[i].content);
    }
}

// A call in reasoning that never closes is a call, whole and streamed alike, also of a strict
// function; otherwise an agent's loop would end there.
TEST(test_calls_in_open_reasoning)
{
#define STRICT_TOOLS                                                                               \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,"              \
    "\"parameters\":{\"type\":\"object\"}}}]"
    static const struct {
        const char *fields, *text, *reasoning, *content, *calls, *finish;
        enum finish end;
    } cases[] = {
        {TOOLS, "<think>I call\n" CALL("f", "{\"a\": 1}"), "I call", "", "|f {\"a\": 1}",
         "tool_calls", FINISH_STOP},
        {STRICT_TOOLS, "<think>I call\n" CALL("f", "{\"a\": 1}"), "I call", "", "|f {\"a\": 1}",
         "tool_calls", FINISH_STOP},
        {TOOLS, "<think>I call\n" CALL("f", "{}") "\n" CALL("g", "{}") "</think>Yes",
         "I call\n" CALL("f", "{}") "\n" CALL("g", "{}"), "Yes", "", "stop", FINISH_STOP},
        {TOOLS, "<think>I call <tool_call>{\"name\": \"f\", \"arguments\": {\"a", "I call", "",
         "|f {\"a", "length", FINISH_LENGTH},
        {TOOLS, "<think>I call " CALL("nobody", "{}"), "I call " CALL("nobody", "{}"), "", "",
         "stop", FINISH_STOP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct got g = whole_and_streamed(cases[i].fields, cases[i].text, cases[i].end);
        assert_string_equal(g.reasoning, cases[i].reasoning);
        assert_string_equal(g.content, cases[i].content);
        assert_string_equal(g.calls, cases[i].calls);
        assert_string_equal(g.finish, cases[i].finish);
    }
}

TEST(test_alternatives_stay_with_their_tokens)
{
    struct got g = whole_and_streamed("\"logprobs\":true,\"top_logprobs\":2",
                                      "<think>hm</think>\n\nNo", FINISH_STOP);
    assert_string_equal(g.entries, "No");
    assert_string_equal(g.tops, "NOop");
    // Whitespace that is not text is dropped; the text after the marker moves up, and part of it
    // may be a stop string.
    g = whole_and_streamed("\"logprobs\":true,\"top_logprobs\":2,\"stop\":\"<tQz\"",
                           "<think>hm</think>\n<tQb", FINISH_STOP);
    assert_string_equal(g.entries, "<tQb");
    assert_string_equal(g.tops, "<=tuQRbc");
}

// A token that contains the end of a marker and the start of the content.
TEST(test_a_token_with_more_than_its_text_has_an_entry)
{
    fake_request(PATH, "{" HI "," TOOLS ",\"logprobs\":true,\"stream\":true}");
    fake_text("<think>");
    fake_token(303); // xxx
    fake_text("</think>a");
    fake_token(302);
    fake_text("<tool_c");
    fake_ready();
    assert_string_equal(got_of().entries, "axx");
    fake_finish(FINISH_LENGTH, -1);
    fake_ready();
    assert_string_equal(got_of().entries, "axx<tool_c");
}

// Parts of a character have entries of their own, at any position.
TEST(test_entries_of_parts_of_characters)
{
    fake_request(PATH, "{" HI ",\"logprobs\":true}");
    answer("<think>\xC3\xA9</think>\xC3\xA9 \xC3", FINISH_LENGTH);
    assert_string_equal(got_of().entries, "\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD");
    assert_string_equal(got_of().content, "\xC3\xA9 \xEF\xBF\xBD");
}

TEST(test_reasoning_tokens_are_at_most_all_tokens)
{
    for (int n = 1; n <= 3; n += 2) { // edge cases 25 and 77
        for (int end = 0; end < 2; end++) {
            char body[256];
            again("hermes", "think");
            fake_chat.opens = true;
            snprintf(body, sizeof body, "{" HI ",\"max_tokens\":%d}", n);
            fake_request(PATH, body);
            fake_text(n == 1 ? "" : "hm");
            fake_finish(end ? FINISH_STOP : FINISH_LENGTH, end ? FAKE_END : 'x');
            fake_ready();
            assert_string_equal(got_of().content, "");
            assert_int_equal(got_of().completion, n);
            assert_int_equal(got_of().thought, n);
        }
    }
}

TEST(test_usage_of_a_stream_tells_reasoning)
{
    struct got g = whole_and_streamed("", "<think>hm</think>Yes", FINISH_STOP);
    assert_int_equal(g.completion, 21);
    assert_int_equal(g.thought, 11);
}

TEST(test_reasoning_of_all_choices_counts)
{
    fake_request(PATH, "{" HI ",\"n\":2}");
    for (uint32_t c = 0; c < 2; c++) {
        fake_choice(c);
        fake_text(c == 0 ? "<think>hm</think>Yes" : "<think>o</think>");
        fake_finish(FINISH_STOP, FAKE_END);
    }
    fake_ready();
    assert_int_equal(got_of().completion, 21 + 17);
    assert_int_equal(got_of().thought, 11 + 10);
}

TEST(test_reasoning_may_be_left_out)
{
    struct got g =
        whole_and_streamed("\"include_reasoning\":false", "<think>hm</think>Yes", FINISH_STOP);
    assert_string_equal(g.reasoning, "");
    assert_string_equal(g.content, "Yes");
    assert_int_equal(g.thought, 11); // but they are counted
}

TEST(test_a_stop_string_after_a_call_does_not_hide_it)
{
    struct got g =
        whole_and_streamed("\"stop\":\"END\"," TOOLS, CALL("f", "{}") " b END c", FINISH_NONE);
    assert_string_equal(g.finish, "tool_calls");
    assert_string_equal(g.calls, "|f {}");
    assert_string_equal(g.content, "b ");
    g = whole_and_streamed(TOOLS, CALL("f", "{}") " b", FINISH_LENGTH);
    assert_string_equal(g.finish, "length"); // reached max_tokens
}

TEST(test_the_first_call_ends_even_if_it_breaks)
{
    struct got g = whole_and_streamed("\"parallel_tool_calls\":false," TOOLS,
                                      CALL("f", "{\"a\":}") CALL("g", "{}"), FINISH_NONE);
    assert_string_equal(g.calls, "|f {\"a\":}}");
    assert_string_equal(g.finish, "stop");
}

// A GPT-OSS call ends with a token that also ends the answer.
TEST(test_the_end_token_may_close_a_call)
{
    special = "<|call|>";
    again("harmony", "harmony");
    struct got g =
        whole_and_streamed(TOOLS, "<|channel|>commentary to=functions.f<|message|>", FINISH_STOP);
    assert_string_equal(g.calls, "|f {}");
    assert_string_equal(g.finish, "tool_calls");
    assert_string_equal(g.content, "");
    g = whole_and_streamed(TOOLS ",\"skip_special_tokens\":false",
                           "<|channel|>commentary to=functions.f<|message|>{\"a\": [", FINISH_STOP);
    assert_string_equal(g.calls, "|f {\"a\": [");
    assert_string_equal(g.finish, "stop");
    g = whole_and_streamed("\"skip_special_tokens\":false", "Yes", FINISH_STOP);
    assert_string_equal(g.content, "Yes");
    assert_int_equal(g.completion, 4);
}

TEST(test_ids_of_calls_differ)
{
    static const struct {
        const char *first, *second;
        bool kept[2];
    } cases[] = {{"abcdefghi", "ABCDEFGH9", {true, true}},
                 {"000000000", "000000000", {true, false}},
                 {"short", "abcdefgh-", {false, false}}};
    again("mistral-list", "none");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512], *ids[2];
        again("mistral-list", "none");
        fake_request(PATH, "{" HI "," TOOLS "}");
        snprintf(text, sizeof text,
                 "[TOOL_CALLS][{\"id\": \"%s\", \"name\": \"f\", \"arguments\": {}}, "
                 "{\"id\": \"%s\", \"name\": \"g\", \"arguments\": {}}]",
                 cases[i].first, cases[i].second);
        answer(text, FINISH_STOP);
        struct got g = got_of();
        ids[0] = strtok(g.ids, " ");
        ids[1] = strtok(NULL, " ");
        assert_string_not_equal(ids[0], ids[1]);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(strlen(ids[k]), 9);
            assert_null(strchr(ids[k], '-'));
            assert_int_equal(strcmp(ids[k], k == 0 ? cases[i].first : cases[i].second) == 0,
                             cases[i].kept[k]);
        }
    }
}

#define CONTINUED(text)                                                                            \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":"    \
    "\"" text "\"}],\"continue_final_message\":true,\"add_generation_prompt\":false"

// The response contains the rest of a block that the message has begun; it does not start it again.
TEST(test_a_continued_message_is_read_first)
{
    struct got g = whole_and_streamed(CONTINUED("<think>\\nLet me") ",\"logprobs\":true",
                                      " see.</think>\nYes", FINISH_STOP);
    assert_string_equal(g.reasoning, " see.");
    assert_string_equal(g.content, "Yes");
    assert_string_equal(g.entries, "Yes");
    assert_int_equal(g.thought, 13);
    g = whole_and_streamed(CONTINUED("Sure. <tool_call>{\\\"name\\\": \\\"f\\\",") "," TOOLS,
                           " \"arguments\": {\"a\": 1}}</tool_call>", FINISH_STOP);
    assert_string_equal(g.calls, "|f {\"a\": 1}");
    assert_string_equal(g.content, "");
    assert_string_equal(g.finish, "tool_calls");
    g = whole_and_streamed(CONTINUED("<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": "
                                     "{\\\"a\\\": ") "," TOOLS,
                           "1}}</tool_call>", FINISH_STOP);
    assert_string_equal(g.calls, "|f {\"a\": 1}"); // the arguments stay one JSON text
    g = whole_and_streamed(CONTINUED("So <tool") ",\"logprobs\":true," TOOLS, "s are good",
                           FINISH_STOP);
    assert_string_equal(g.content, "s are good");
    assert_string_equal(g.entries, "s are good");
    g = whole_and_streamed(CONTINUED("So ") "," TOOLS, "<think>x</think>", FINISH_STOP);
    assert_string_equal(g.content, "<think>x</think>");
    again("json", "none");
    g = whole_and_streamed(CONTINUED("The JSON is ") "," TOOLS, "{\"name\":\"f\",\"arguments\":{}}",
                           FINISH_STOP);
    assert_string_equal(g.content, "{\"name\":\"f\",\"arguments\":{}}");
    assert_string_equal(g.calls, "");
}

TEST(test_calls_are_not_continued)
{
    fake_request(PATH, "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"content\":\"So\","
                       "\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\"}}],"
                       "\"prefix\":true}]," TOOLS "}");
    assert_int_equal(fake.status, 400);
    sent_has("only an assistant message without tool calls can be");
}

TEST(test_each_choice_goes_on_with_the_message)
{
    fake_request(PATH, "{\"model\":\"m\",\"n\":2," TOOLS "," CONTINUED(
                           "<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {") "}");
    for (uint32_t c = 0; c < 2; c++) {
        fake_choice(c);
        fake_text(c == 0 ? "\"a\": 0}}" : "}}");
        fake_finish(FINISH_STOP, FAKE_END);
    }
    fake_ready();
    sent_has("\"arguments\":\"{\\\"a\\\": 0}\"}}]}");
    sent_has("\"arguments\":\"{}\"}}]}");
}

// A stream that continues a call begins with the first token, not with the given part of the call:
// a failure before that token is answered with an HTTP status.
TEST(test_a_failure_before_the_first_token_of_a_continued_call)
{
    fake_request(PATH, "{\"model\":\"m\",\"stream\":true," TOOLS "," CONTINUED(
                           "<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {") "}");
    fake_finish(FINISH_ERROR, -1);
    fake_ready();
    assert_int_equal(fake.status, 500);
    assert_false(fake.streaming);
}

// Markers that a dialect writes around plain answers are not text, with or without tools.
TEST(test_marks_of_plain_answers_are_left_out)
{
    again("granite", "none");
    struct got g = whole_and_streamed("", "<response>Yes</response>", FINISH_STOP);
    assert_string_equal(g.content, "Yes");
    g = whole_and_streamed(TOOLS, "<response>Yes</response>", FINISH_STOP);
    assert_string_equal(g.content, "Yes");
}

TEST(test_min_tokens_beside_a_held_head)
{
    struct got g =
        whole_and_streamed("\"min_tokens\":4,\"stop\":\"<\"," TOOLS, "<tool oh", FINISH_STOP);
    assert_string_equal(g.content, "");
    g = whole_and_streamed("\"min_tokens\":7,\"stop\":\"<\"," TOOLS, "<tool oh", FINISH_STOP);
    assert_string_equal(g.content, "<tool oh");
}

TEST(test_a_stop_of_one_choice_leaves_the_calls_of_others)
{
    fake_request(PATH, "{" HI "," TOOLS ",\"n\":2,\"stop\":\"END\"}");
    fake_choice(0);
    fake_text("aEND");
    fake_choice(1);
    fake_text(CALL("f", "{\"x\": \"END\"}"));
    fake_ready();
    assert_int_equal(fake.choice_cancels, 1);
    assert_int_equal(fake.choice_cancelled, 0);
    fake_choice(0);
    fake_finish(FINISH_CANCEL, -1);
    fake_choice(1);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"content\":\"a\"");
    sent_has("{\\\"x\\\": \\\"END\\\"}");
}

// fake_end counts JSON values, the leak sanitizer finds the reader's memory.
TEST(test_nothing_is_left_on_the_other_ways_out)
{
    const struct http_failure failure = {HTTP_UNAVAILABLE, .message = {"over", 4}};
    fake_request(PATH, "{" HI "," TOOLS ",\"stream\":true}");
    fake_text("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\"");
    fake_ready();
    fake_cut(&failure); // inside a call
    sent_has("\"error\":");
    again("hermes", "think");
    fake.admission = ADMISSION_BUSY;
    fake_request(PATH, "{" HI "," TOOLS ","
                       "\"n\":8}");
    assert_int_equal(fake.status, 503);
    again("hermes", "think");
    fake.gone = true; // between on_prepare and on_request
    fake_request(PATH, "{" HI "," TOOLS "}");
    fake_gone();
    assert_int_equal(fake.submits, 0);
    bool refused = false, taken = false;
    for (size_t bytes = 6000; bytes < 60000; bytes += 500) { // too small for all choices at first
        again("hermes", "think");
        fake_arena_limit(bytes);
        fake_request(PATH, "{" HI "," TOOLS ",\"n\":8,\"stop\":\"zz\"}");
        refused |= fake.status == 413;
        taken |= fake.submits == 1;
        if (fake.submits == 1)
            fake_gone();
    }
    assert_true(refused && taken);
}

// Sends thoughts and a call in an arena of arena_bytes: both must be returned completely, or the
// response is 500.
static bool reply_fits(size_t arena_bytes)
{
    enum { LETTERS = 700 };
    char thoughts[LETTERS + 1] = {0}, argument[LETTERS + 1] = {0};
    char reply[3 * LETTERS], want[LETTERS + 16];
    memset(thoughts, 't', LETTERS);
    memset(argument, 'a', LETTERS);
    again("hermes", "think");
    fake_arena_limit(arena_bytes);
    fake_request(PATH, "{" HI "," TOOLS "}");
    if (fake.submits == 0)
        return false;
    snprintf(reply, sizeof reply, "<think>%s</think>" CALL("f", "{\"x\": \"%s\"}"), thoughts,
             argument);
    answer(reply, FINISH_STOP);
    if (fake.error != 0) {
        assert_int_equal(fake.status, 500);
        return false;
    }
    sent_has(thoughts);
    snprintf(want, sizeof want, "\\\"%s\\\"}", argument);
    sent_has(want);
    return true;
}

TEST(test_a_reply_that_outgrows_its_memory)
{
    int whole = 0, failed = 0;
    for (size_t bytes = 6144; bytes < 20000; bytes += 32)
        reply_fits(bytes) ? whole++ : (failed += fake.submits);
    assert_true(whole > 5);
    assert_true(failed > 5);
}

// A woman, a skin tone, a joiner and a rocket: each is sent as soon as its own bytes are complete.
TEST(test_16_joined_characters_are_not_held_together)
{
    static const char *const characters[] = {
        "\xF0\x9F\x91\xA9", "\xF0\x9F\x8F\xBD", "\xE2\x80\x8D", "\xF0\x9F\x9A\x80", "e",
        "\xCC\x81"};
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_text("x"); // with the role
    fake_ready();
    for (size_t i = 0; i < sizeof characters / sizeof *characters; i++) {
        char told[64];
        for (const char *at = characters[i]; *at; at++) {
            size_t before = fake.sent_bytes;
            fake_token((unsigned char)*at);
            fake_ready();
            assert_int_equal(fake.sent_bytes > before, at[1] == 0);
        }
        snprintf(told, sizeof told, "\"content\":\"%s\"", characters[i]);
        sent_has(told);
    }
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_lacks("\xEF\xBF\xBD");
}

// Usage and [DONE] are sent only if the stream succeeds.
TEST(test_78_no_usage_after_a_choice_that_fails)
{
    fake_request(PATH, "{" HI "," TOOLS ",\"n\":2,\"stream\":true,"
                       "\"stream_options\":{\"include_usage\":true}}");
    fake_choice(0);
    fake_text("a");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"finish_reason\":\"stop\"");
    fake_choice(1);
    fake_text("b");
    fake_finish(FINISH_ERROR, -1);
    fake_ready();
    sent_has("\"error\":{");
    sent_lacks("[DONE]");
    sent_lacks("prompt_tokens");
    assert_true(fake.ended);
    assert_int_equal(fake.stream_failures, 1);
}
