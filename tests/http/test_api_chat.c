// SPDX-License-Identifier: Apache-2.0
// /v1/chat/completions against the doubles of exchange and port: event sequences byte for byte,
// bodies, usage, stop strings, the conversation as passed to the template.
#include "api_cases.h"

#include "http/api/generation.h"

#define TEST(name) API_TEST(name, fake_setup_generator)
#define PATH "/v1/chat/completions"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

#define HEAD                                                                                       \
    "data: {\"id\":\"ID\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\","     \
    "\"system_fingerprint\":\"fp_test\",\"choices\":["
#define CHUNK(delta) HEAD "{\"index\":0,\"delta\":" delta ",\"logprobs\":null,\"finish_reason\":"
#define ROLE CHUNK("{\"role\":\"assistant\",\"content\":\"\"}")

TEST(test_stream)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.answers, 0); // no response before the first token
    fake_text("He\"l");
    fake_ready();
    fake_text("lo");
    fake_ready();
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_string_equal(fake_events(),
                        ROLE "null}]}\n\n" CHUNK("{\"content\":\"He\\\"l\"}") "null}]}\n\n" CHUNK(
                            "{\"content\":\"lo\"}") "null}]}\n\n" CHUNK("{}") "\"stop\"}]}\n\n"
                                                                              "data: [DONE]\n\n");
    assert_true(fake.ended);
    assert_int_equal(fake.frees, 1);
    assert_int_equal(fake.counted[COUNTED_STOP], 1);
    assert_int_equal(fake.counted_tokens, 7);
}

TEST(test_stream_usage)
{
    fake_request(PATH, "{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    fake_text("a");
    fake_finish(FINISH_LENGTH, 'b');
    fake_ready();
    // [user]hi[assistant] are 19 tokens
    assert_string_equal(
        fake_events(),
        ROLE "null}],\"usage\":null}\n\n" CHUNK(
            "{\"content\":\"ab\"}") "null}],\"usage\":null}\n\n" CHUNK("{}") "\"length\"}],"
                                                                             "\"usage\":null}"
                                                                             "\n\n" HEAD
                                                                             "],\"usage\":{"
                                                                             "\"prompt_tokens\":19,"
                                                                             "\"completion_"
                                                                             "tokens\":2,"
                                                                             "\"total_tokens\":21,"
                                                                             "\"prompt_tokens_"
                                                                             "details\":"
                                                                             "{\"cached_tokens\":3}"
                                                                             ","
                                                                             "\"completion_tokens_"
                                                                             "details\":{"
                                                                             "\"reasoning_tokens"
                                                                             "\":0}}}\n\n"
                                                                             "data: [DONE]\n\n");
}

TEST(test_stream_continuous_usage)
{
    fake_request(PATH, "{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true,"
                       "\"continuous_usage_stats\":true}}");
    fake_text("a");
    fake_ready();
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_non_null(strstr(fake_events(),
                           "{\"content\":\"a\"},\"logprobs\":null,\"finish_reason\":null}],"
                           "\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":1,"
                           "\"total_tokens\":20,"));
    assert_null(strstr(fake_events(), "\"usage\":null"));
}

// stream_options null or {} means no usage; without a stream it is ignored.
TEST(test_stream_options_empty)
{
    static const char *const bodies[] = {
        "{" HI ",\"stream\":true,\"stream_options\":null}",
        "{" HI ",\"stream\":true,\"stream_options\":{}}",
    };
    for (int i = 0; i < 2; i++) {
        fake_end();
        fake_begin(MODEL_GENERATOR);
        fake_request(PATH, bodies[i]);
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        sent_lacks("usage");
    }
    fake_end();
    fake_begin(MODEL_GENERATOR);
    fake_request(PATH, "{" HI ",\"stream_options\":{\"include_usage\":true}}");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_int_equal(fake.status, 200);
}

TEST(test_stream_empty)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_string_equal(fake_events(),
                        ROLE "null}]}\n\n" CHUNK("{}") "\"stop\"}]}\n\ndata: [DONE]\n\n");
}

TEST(test_whole)
{
    fake_request(PATH, "{" HI "}");
    fake_text("Hello.");
    fake_ready();
    assert_int_equal(fake.answers, 0);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_int_equal(fake.status, 200);
    assert_string_equal(
        fake_events(),
        "{\"id\":\"ID\",\"object\":\"chat.completion\",\"created\":0,\"model\":\"m\","
        "\"system_fingerprint\":\"fp_test\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
        "\"assistant\",\"content\":\"Hello.\",\"refusal\":null},\"logprobs\":null,"
        "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":7,"
        "\"total_tokens\":26,\"prompt_tokens_details\":{\"cached_tokens\":3},"
        "\"completion_tokens_details\":{\"reasoning_tokens\":0}}}");
}

// A queued stream gets its 200 after 5 s, and a comment after 10 s of silence.
TEST(test_queue_and_silence)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_second(4);
    assert_int_equal(fake.answers, 0);
    fake_second(5);
    assert_string_equal(fake_events(), ROLE "null}]}\n\n");
    fake_second(14);
    sent_lacks("keep-alive");
    fake_second(15);
    sent_has("\n\n: keep-alive\n\n");
    size_t before = fake.sent_bytes;
    fake_text("y");
    fake_second(30); // events read in the meantime end the silence
    assert_true(fake.sent_bytes > before);
    assert_null(strstr(fake.sent + before, "keep-alive"));
    fake_text("x");
    fake_ready();
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    const char *role = strstr(fake.sent, "\"role\"");
    assert_null(strstr(role + 1, "\"role\"")); // one role chunk only
}

TEST(test_fail_before_stream)
{
    static const struct {
        enum finish finish;
        int status;
    } cases[] = {{FINISH_TIMEOUT, 504}, {FINISH_ERROR, 500}, {FINISH_CANCEL, 503}};
    for (int i = 0; i < 3; i++) {
        fake_end();
        fake_begin(MODEL_GENERATOR);
        fake_request(PATH, "{" HI ",\"stream\":true}");
        fake_finish(cases[i].finish, -1);
        fake_ready();
        assert_int_equal(fake.status, cases[i].status);
        assert_int_equal(fake.answers, 1);
        assert_int_equal(fake.frees, 1);
        json_t *body = fake_json();
        assert_non_null(json_object_get(body, "error"));
        json_decref(body);
    }
}

TEST(test_fail_in_stream)
{
    fake_request(PATH, "{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    fake_text("x");
    fake_ready();
    fake_finish(FINISH_ERROR, -1);
    fake_ready();
    const char *error = strstr(fake.sent, "data: {\"error\":{\"message\":");
    assert_non_null(error);
    assert_non_null(strstr(error, "\"type\":\"server_error\",\"param\":null,"
                                  "\"code\":\"internal_error\"}}\n\n"));
    sent_lacks("[DONE]");
    sent_lacks("prompt_tokens");               // no usage in a stream that ends with an error
    assert_int_equal(fake.stream_failures, 1); // for the access log
    assert_int_equal(fake.error, HTTP_INTERNAL);
    assert_true(fake.ended);
}

TEST(test_busy)
{
    static const struct {
        enum admission admission;
        int status;
    } cases[] = {{ADMISSION_BUSY, 503},
                 {ADMISSION_TOO_MANY_TOKENS, 400},
                 {ADMISSION_DRAINING, 503},
                 {ADMISSION_FAILED, 503}};
    for (int i = 0; i < 4; i++) {
        fake_end();
        fake_begin(MODEL_GENERATOR);
        fake.admission = cases[i].admission;
        fake_request(PATH, "{" HI "}");
        assert_int_equal(fake.status, cases[i].status);
        assert_int_equal(fake.frees, 0);
    }
}

TEST(test_slow_reader)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_text("a");
    fake_ready();
    fake.send_space = 100;
    fake_text("b");
    fake_ready();
    assert_int_equal(fake.event_next, 1); // the rest stays in the ring
    fake_finish(FINISH_STOP, FAKE_END);
    fake.send_space = 4096;
    fake_send_space();
    assert_int_equal(fake.event_next, 3);
    assert_true(fake.ended);
}

// A long run of tokens is sent as several chunks; none exceeds the buffer.
TEST(test_long_run)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    for (int i = 0; i < 1000; i++)
        fake_token('a');
    fake_finish(FINISH_LENGTH, 'b');
    fake_ready();
    int chunks = 0;
    for (const char *p = fake.sent; (p = strstr(p, "\"content\":\"a")); p++)
        chunks++;
    assert_int_equal(chunks, 2);
    assert_true(fake.ended);
}

TEST(test_stop_string)
{
    fake_request(PATH, "{" HI ",\"stop\":[\"END\",\"\"],\"stream\":true,"
                       "\"stream_options\":{\"include_usage\":true}}");
    fake_text("one E");
    fake_ready();
    sent_has("\"content\":\"one \""); // "E" could start a stop string
    fake_text("Nx EN");
    fake_ready();
    sent_has("\"content\":\"ENx \"");
    fake_text("D after");
    fake_ready();
    assert_int_equal(fake.choice_cancels, 1);
    assert_false(fake.ended); // until the engine has released the request
    fake_text("more");
    fake_finish(FINISH_CANCEL, -1);
    fake_ready();
    sent_lacks("after");
    sent_has("\"finish_reason\":\"stop\"");
    sent_has("\"completion_tokens\":11,"); // up to and including the D
    assert_int_equal(fake.counted[COUNTED_STOP], 1);
    assert_int_equal(fake.choice_cancels, 1);
}

TEST(test_stop_strings_that_do_not_match)
{
    static const struct api_case cases[] = {
        {"incomplete at the end", NULL, PATH, "{" HI ",\"stop\":\"END\"}", .text = "one EN",
         .finish = FINISH_STOP, .status = 200, .has = {"\"content\":\"one EN\""}},
        {"not searched for in the prompt", NULL, PATH, "{" HI ",\"stop\":\"hi\"}", .text = "oh",
         .finish = FINISH_STOP, .status = 200, .has = {"\"content\":\"oh\""}},
    };
    API_CASES_RUN(cases);
}

TEST(test_15_characters_over_several_tokens)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_token(0xF0);
    fake_ready();
    fake_token(0x9F);
    fake_token(0x98);
    fake_ready();
    sent_lacks("\"content\":\"\xF0");
    fake_token(0x80);
    fake_ready();
    sent_has("\"content\":\"\xF0\x9F\x98\x80\"");
    fake_token(0xE2); // never completed
    fake_finish(FINISH_LENGTH, 0x80);
    fake_ready();
    sent_has("\"content\":\"\xEF\xBF\xBD\"");
}

// The joined deltas equal the complete text, however the tokens are drained.
TEST(test_cut_everywhere)
{
    static const char text[] = "ab \xC3\xA9 EN\"D\n ENDx";
    char joined[64];
    for (unsigned cuts = 0; cuts < 1u << (sizeof text - 1); cuts += 37) {
        fake_end();
        fake_begin(MODEL_GENERATOR);
        fake_request(PATH, "{" HI ",\"stream\":true,\"stop\":\"END\"}");
        for (size_t i = 0; i + 1 < sizeof text; i++) {
            fake_token((unsigned char)text[i]);
            if (cuts >> i & 1)
                fake_ready();
        }
        fake_finish(FINISH_CANCEL, -1);
        fake_ready();
        joined[0] = 0;
        for (char *line = strtok(fake.sent, "\n"); line; line = strtok(NULL, "\n")) {
            json_t *chunk = json_loads(line + 6, 0, NULL);
            json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
            const char *delta =
                json_string_value(json_object_get(json_object_get(choice, "delta"), "content"));
            strcat(joined, delta ? delta : "");
            json_decref(chunk);
        }
        assert_string_equal(joined, "ab \xC3\xA9 EN\"D\n ");
    }
}

TEST(test_sampling)
{
    fake_request(PATH, "{" HI ",\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,"
                       "\"seed\":9007199254740993,\"max_tokens\":9,\"ignore_eos\":true}");
    assert_true(fake.sampling.temperature == 0.5f);
    assert_true(fake.sampling.top_p == 0.25f);
    assert_int_equal(fake.sampling.top_k, 7);
    assert_true(fake.sampling.seed == 9007199254740993ull); // 2^53 + 1
    assert_true(fake.sampling.repetition == 1.0f);
    assert_int_equal(fake.max_tokens, 9);
    assert_true(fake.ignore_end);
}

TEST(test_sampling_defaults)
{
    uint64_t seed;
    fake_request(PATH,
                 "{" HI ",\"max_tokens\":5,\"max_completion_tokens\":6,\"temperature\":null}");
    assert_true(fake.sampling.temperature == 1.0f);
    assert_true(fake.sampling.top_p == 1.0f);
    assert_int_equal(fake.sampling.top_k, 0);
    assert_int_equal(fake.max_tokens, 6); // the newer field name has priority
    seed = fake.sampling.seed;
    fake_end();
    fake_begin(MODEL_GENERATOR);
    fake_request(PATH, "{" HI ",\"temperature\":1e-9,\"top_k\":-1,\"seed\":-1}");
    assert_true(fake.sampling.temperature == 0.0f);
    assert_int_equal(fake.sampling.top_k, 0);
    assert_true(fake.sampling.seed == UINT64_MAX);
    assert_int_equal(fake.max_tokens, 200 - 19); // the rest of the window
    assert_true(seed != fake.sampling.seed);
}

TEST(test_length)
{
    char body[600], text[300];
    memset(text, 'x', sizeof text);
    // The template adds 17 tokens; the window is 200 tokens.
    for (int n = 182; n <= 184; n++) {
        fake_end();
        fake_begin(MODEL_GENERATOR);
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"stream\":true,\"max_tokens\":50,"
                 "\"messages\":[{\"role\":\"user\",\"content\":\"%.*s\"}]}",
                 n, text);
        fake_request(PATH, body);
        if (n == 182) {
            assert_int_equal(fake.max_tokens, 1); // cut to the rest of the window
            continue;
        }
        assert_int_equal(fake.status, 400);
        assert_int_equal(fake.submits, 0);
        json_t *body_json = fake_json();
        json_t *error = json_object_get(body_json, "error");
        assert_string_equal(json_string_value(json_object_get(error, "code")),
                            "context_length_exceeded");
        assert_int_equal(json_integer_value(json_object_get(error, "n_prompt_tokens")), n + 17);
        assert_int_equal(strstr(fake.sent, "resulted in more than 200 tokens") != NULL, n == 184);
        assert_int_equal(json_integer_value(json_object_get(error, "n_ctx")), 200);
        json_decref(body_json);
    }
}

static void expect_prompt(const char *messages, const char *rest, const char *want)
{
    char body[4096];

    fake_end();
    struct chat_template chat = fake_chat;
    bool plain = fake_plain;
    fake_begin(MODEL_GENERATOR);
    fake_chat = chat;
    fake_plain = plain;
    snprintf(body, sizeof body, "{\"model\":\"m\",\"messages\":%s%s}", messages, rest);
    fake_request(PATH, body);
    if (!want) {
        assert_int_equal(fake.status, 400);
        assert_int_equal(fake.submits, 0);
        return;
    }
    if (fake.status)
        fail_msg("%s", fake.sent);
    char *prompt = fake_prompt();
    assert_string_equal(prompt, want);
    free(prompt);
}

#define CALL "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
#define USER "{\"role\":\"user\",\"content\":\"u\"}"
#define RESULT(id) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"r\"}"

TEST(test_roles)
{
    expect_prompt("[{\"role\":\"developer\",\"content\":\"d\"}," USER "]", "",
                  "[system]d[user]u[assistant]");
    expect_prompt("[{\"role\":\"user\",\"name\":\"x\",\"content\":[{\"type\":\"text\",\"text\":"
                  "\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]",
                  "", "[user]ab[assistant]");
    expect_prompt("[{\"role\":\"user\",\"content\":[]}]", "", "[user][assistant]");
    expect_prompt("[" USER
                  ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                  "{\"type\":\"refusal\",\"refusal\":\"no\"}],\"audio\":null,\"annotations\":[],"
                  "\"function_call\":null}," USER "]",
                  "", "[user]u[assistant]ano[user]u[assistant]");
    expect_prompt("[" USER ",{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":\"t\"}," USER
                  "]",
                  "", "[user]u[assistant]t/a[user]u[assistant]");
    expect_prompt("[{\"role\":\"system\",\"content\":\"s\"}]", "", "[system]s[assistant]");
}

// Edge cases 1 to 8 of the wire specification.
TEST(test_tool_history)
{
#define ONE(message) "[" USER "," message "," RESULT("c1") "]"
#define ASKS(content, arguments)                                                                   \
    "{\"role\":\"assistant\"," content "\"tool_calls\":[" CALL arguments "}}]}"
    const char *want = "[user]u[assistant](f {\"a\":1})[tool]r[assistant]";
    expect_prompt(ONE(ASKS("\"content\":null,", "\"{\\\"a\\\":1}\"")), "", want);
    expect_prompt(ONE(ASKS("\"content\":\"\",", "\"{\\\"a\\\":1}\"")), "", want);
    expect_prompt(ONE(ASKS("", "{\"a\":1}")), "", want);
    want = "[user]u[assistant](f {})[tool]r[assistant]";
    expect_prompt(ONE(ASKS("", "\"\"")), "", want);
    expect_prompt(ONE(ASKS("", "\"null\"")), "", want);
    expect_prompt(ONE(ASKS("", "\"{broken\"")), "",
                  "[user]u[assistant](f \"{broken\")[tool]r[assistant]");
    want = "[user]u[assistant](f \"[1]\")[tool]r[assistant]"; // JSON, but not an object
    expect_prompt(ONE(ASKS("", "\"[1]\"")), "", want);        // fake_end detects leaks
    want = "[user]u[assistant](f {\"arguments\":\"{broken\"})[tool]r[assistant]";
    fake_chat.text_fails = STATUS_INVALID; // from here on the string is wrapped in an object
    for (int i = 0; i < 2; i++, fake_chat.text_fails = STATUS_REFUSED)
        expect_prompt(ONE(ASKS("", "\"{broken\"")), "", want);
    expect_prompt("[" USER ",{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[]}," USER
                  "]",
                  "", "[user]u[assistant]a[user]u[assistant]");
    expect_prompt("[" USER ",{\"role\":\"assistant\",\"tool_calls\":null}," USER "]", "",
                  "[user]u[assistant][user]u[assistant]");
    expect_prompt("[" USER "," RESULT("c1") "," ASKS("", "\"\"") "]", "", NULL);
    expect_prompt("[" USER "," ASKS("", "\"\"") "," RESULT("c9") "]", "", NULL);
    sent_has("c9");
    sent_has("messages[2].tool_call_id");
    expect_prompt("[" USER "," ASKS("", "\"\"") "," RESULT("c1") "," RESULT("c1") "]", "", NULL);
    expect_prompt(
        "[" USER ",{\"role\":\"assistant\",\"tool_calls\":[" CALL "\"\"}},{\"id\":\"c2\","
        "\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"\"}}]}," RESULT(
            "c2") "," RESULT("c1") "]",
        "", "[user]u[assistant](f {})(g {})[tool]r[tool]r[assistant]");
    expect_prompt(
        "[" USER "," ASKS(
            "", "\"\"") ",{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":"
                        "[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"text\",\"text\":\"y\"}]}]",
        "", "[user]u[assistant](f {})[tool]xy[assistant]");
}

TEST(test_system_inside)
{
    const char *const messages = "[{\"role\":\"system\",\"content\":\"s\"}," USER
                                 ",{\"role\":\"system\",\"content\":\"t\"}]";
    expect_prompt(messages, "", "[system]s[user]u[system]t[assistant]");
    fake_chat.system_inside = false;
    expect_prompt(messages, "", "[system]s[user]u\nt[assistant]");
    expect_prompt(
        "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"developer\",\"content\":\"t\"}," USER
        "]",
        "", "[system]s\nt[user]u[assistant]");
}

TEST(test_continued)
{
#define LAST(more) "[" USER ",{\"role\":\"assistant\",\"content\":\"so \"" more "}]"
    expect_prompt(LAST(""), "", "[user]u[assistant]so [assistant]"); // a new turn
    expect_prompt(LAST(""), ",\"continue_final_message\":true", "[user]u[assistant]so ");
    expect_prompt(LAST(",\"prefix\":true"), "", "[user]u[assistant]so ");
    expect_prompt(LAST(""), ",\"add_generation_prompt\":false", "[user]u[assistant]so ");
    expect_prompt(LAST(""), ",\"continue_final_message\":true,\"add_generation_prompt\":true",
                  NULL);
    expect_prompt("[" USER "]", ",\"continue_final_message\":true", NULL);
    expect_prompt("[" USER ",{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"assistant\","
                  "\"content\":\"b\"}]",
                  ",\"continue_final_message\":true", "[user]u[assistant]a\nb");
}

TEST(test_plain_template)
{
    fake_plain = true;
    expect_prompt("[{\"role\":\"system\",\"content\":\"s\"}," USER "]", "", "^s\nu");
}

TEST(test_thinking_off)
{
    expect_prompt("[" USER "]", "", "[user]u[assistant]");
    expect_prompt("[" USER "]", ",\"reasoning_effort\":\"none\"", "[user]u[no-think][assistant]");
    expect_prompt("[" USER "]", ",\"chat_template_kwargs\":{\"enable_thinking\":false}",
                  "[user]u[no-think][assistant]");
}

// A template marker in a user's message stays text.
TEST(test_markers_stay_text)
{
    fake_request(PATH,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"[user]\"}]}");
    for (int i = 0; i < 12; i++)
        assert_int_equal(fake.tokens[i], (i < 6 ? 1000 : 0) + "[user]"[i % 6]);
}

TEST(test_template_refuses)
{
    fake_chat.refuses = true;
    fake_request(PATH, "{" HI "}");
    assert_int_equal(fake.status, 400);
    sent_has("Roles must alternate");
    sent_has("\"param\":\"messages\"");
}

TEST(test_strings_round_trip)
{
    fake_request(PATH,
                 "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":"
                 "\"a\\u0000\\u2028\\ufeff\"}]}");
    assert_int_equal(fake.tokens[7], 0);
    assert_int_equal(fake.token_count, 6 + 2 + 3 + 3 + 11);
    fake_token(0);
    fake_text("\r\n\xE2\x80\xA8");
    fake_ready();
    sent_has("\"content\":\"\\u0000\\r\\n");
}

// The path of a late part is as exact as the path of the first.
TEST(test_paths_of_many_parts)
{
    char body[4096];
    int n = sprintf(body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[");
    for (int i = 0; i < 20; i++)
        n += sprintf(body + n, "{\"type\":\"text\",\"text\":\"a\"},");
    strcpy(body + n, "{\"type\":\"text\",\"text\":5}]}]}");
    fake_request(PATH, body);
    sent_has("\"param\":\"messages[0].content[20].text\"");

    fake_end();
    fake_begin(MODEL_GENERATOR);
    n = sprintf(body, "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
    for (int i = 0; i < 20; i++)
        n += sprintf(body + n, "{\"id\":\"c%d\",\"function\":{\"name\":\"f\"}},", i);
    strcpy(body + n, "{\"id\":\"x\"}]}]}");
    fake_request(PATH, body);
    sent_has("\"param\":\"messages[0].tool_calls[20].function\"");

    fake_end();
    fake_begin(MODEL_GENERATOR);
    fake_request(PATH, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"u\","
                       "\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\"}}]}]}");
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"messages[0].tool_calls\"");
    fake_end();
    fake_begin(MODEL_GENERATOR);
    fake_request(PATH, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"u\","
                       "\"tool_calls\":[]}]}");
    assert_int_equal(fake.submits, 1);
}

TEST(test_too_many_values)
{
    enum { COUNT = CALL_VALUES_MAX + 1 };
    char *body = malloc(2 * COUNT + 100);
    size_t n = (size_t)sprintf(body, "{" HI ",\"x\":[0");
    size_t front = n;
    for (int i = 0; i < COUNT; i++) {
        memcpy(body + n, ",0", 2);
        n += 2;
    }
    strcpy(body + n, "]}");
    fake_request(PATH, body);
    assert_int_equal(fake.status, 413);
    sent_has("has more than 2097152 JSON values");

    fake_end();
    fake_begin(MODEL_GENERATOR);
    body[front - 2] = '"'; // inside a string the same bytes are one value
    strcpy(body + n, "\"}");
    fake_request(PATH, body);
    assert_int_equal(fake.submits, 1);
    free(body);
}

// A body that ends inside a string or after a backslash is counted without reading past its end.
TEST(test_truncated_bodies)
{
    static const char *const ends[] = {"\"", "\"\\", "\"a\\", "\"\\\""};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t bytes = CALL_VALUES_MAX + strlen(ends[i]);
        char *body = malloc(bytes); // exact size: sanitizers see a read past the end
        memset(body, ' ', bytes);
        body[0] = '[';
        memcpy(body + bytes - strlen(ends[i]), ends[i], strlen(ends[i]));
        fake_again();
        fake_request_bytes(PATH, text_span(body, bytes));
        assert_int_equal(fake.status, 400);
        sent_has("is not valid JSON");
        free(body);
    }
}

// A chunk prefix that does not fit in the arena is refused; the process does not abort.
TEST(test_no_room_for_chunks)
{
    enum { NAME = 70000, ROOM = 80000 };
    char *name = calloc(1, NAME + 1), *body = malloc(NAME + 200);
    memset(name, 'm', NAME);
    for (int stream = 1; stream >= 0; stream--) {
        sprintf(body,
                "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                "\"stream\":%s}",
                name, stream ? "true" : "false");
        fake_end();
        fake_begin(MODEL_GENERATOR);
        fake_model_name(name);
        fake_arena_limit(ROOM);
        fake_request(PATH, body);
        assert_int_equal(fake.submits, !stream);
        assert_int_equal(fake.status, stream ? 413 : 0);
        sent_has(stream ? "exceeds the memory limit of one request" : "");
    }
    free(name);
    free(body);
}

// A stop string that does not fit in the arena is refused by name, not replaced by another one.
TEST(test_no_room_for_stop_strings)
{
    char string[257] = {0}, body[1400];
    uint32_t named = 0;
    memset(string, 's', sizeof string - 1);
    sprintf(body, "{" HI ",\"stop\":[\"%s\",\"%s\",\"%s\",\"%s\"]}", string, string, string,
            string);
    for (size_t room = 512; room < 2048; room += 16) {
        fake_again();
        fake_arena_limit(sizeof(struct generation) + room);
        fake_request(PATH, body);
        assert_int_equal(fake.submits, 0); // the buffer of the response text does not fit, either
        assert_int_equal(fake.status, 413);
        named += strstr(fake.sent, "\"stop[3]\"") != NULL;
    }
    assert_true(named > 0);
}

// Token ids beyond the model's vocabulary must not reach the engine.
TEST(test_ids_beyond_the_model)
{
    fake_facts.vocab = 1000;
    fake_request(PATH, "{" HI "}");
    assert_int_equal(fake.submits, 0);
    assert_int_equal(fake.status, 500);
    assert_int_equal(fake.error, HTTP_INTERNAL_SAME);
}

TEST(test_large_body_is_offloaded)
{
    static char body[40000];
    int n = sprintf(body, "{" HI ",\"x\":\"");
    memset(body + n, 'y', 36000);
    strcpy(body + n + 36000, "\"}");
    fake_request(PATH, body);
    assert_true(fake.offloaded);
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 1);
}

TEST(test_client_leaves)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_text("x");
    fake_ready();
    fake_gone();
    fake_second(30);
    fake_ready();
    assert_int_equal(fake.counted[COUNTED_ABORT], 1);
    assert_int_equal(fake.frees, 0); // the exchange frees it
}
