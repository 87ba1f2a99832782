// SPDX-License-Identifier: Apache-2.0
// /v1/messages against the doubles of exchange and port: event sequences byte for byte, stop
// reasons, usage, roles and blocks as passed to the template, count_tokens.
#include "api_cases.h"

#define TEST(name) API_TEST(name, fake_setup_generator)
#define PATH "/v1/messages"
#define USER "{\"role\":\"user\",\"content\":\"u\"}"
#define HI "\"model\":\"m\",\"messages\":[" USER "]"

// [user]u[no-think][assistant] is 28 tokens, 3 of them cached.
#define USAGE(input, cached, output)                                                               \
    "\"usage\":{\"input_tokens\":" input ",\"cache_creation_input_tokens\":0,"                     \
    "\"cache_read_input_tokens\":" cached ",\"output_tokens\":" output ","
#define USAGE_NULLS                                                                                \
    "\"cache_creation\":null,\"output_tokens_details\":null,\"server_tool_use\":null,"             \
    "\"service_tier\":null,\"inference_geo\":null,\"speed\":null}"
#define START(input, cached)                                                                       \
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"ID\","          \
    "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],"                  \
    "\"stop_reason\":null,\"stop_sequence\":null,\"stop_details\":null,\"container\":null,"        \
    "\"diagnostics\":null," USAGE(input, cached, "0") USAGE_NULLS "}}\n\n" PING
#define PING "event: ping\ndata: {\"type\":\"ping\"}\n\n"
#define BLOCK_START                                                                                \
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"             \
    "\"content_block\":{\"type\":\"text\",\"text\":\"\",\"citations\":null}}\n\n"
#define DELTA(text)                                                                                \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"             \
    "\"delta\":{\"type\":\"text_delta\",\"text\":\"" text "\"}}\n\n"
#define END(reason, sequence, output)                                                              \
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"           \
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason \
    "\",\"stop_sequence\":" sequence ",\"stop_details\":null,\"container\":null}," USAGE(          \
        "25", "3", output) "\"output_tokens_details\":null,\"server_tool_use\":null}}\n\n"         \
                           "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

TEST(test_stream)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_text("He\n");
    fake_ready();
    fake_text("lo");
    fake_ready();
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_string_equal(fake_events(), START("25", "3") BLOCK_START DELTA("He\\n") DELTA("lo")
                                           END("end_turn", "null", "6"));
    assert_true(fake.ended);
    assert_int_equal(fake.frees, 1);
}

TEST(test_stream_empty)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_string_equal(fake_events(), START("25", "3") BLOCK_START END("end_turn", "null", "1"));
}

TEST(test_stream_from_queue)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_second(6); // the number of cached tokens is not known yet
    assert_string_equal(fake_events(), START("28", "0"));
    fake_second(16);
    assert_string_equal(fake_events(), START("28", "0") PING);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_string_equal(fake_events(),
                        START("28", "0") PING BLOCK_START END("end_turn", "null", "1"));
}

TEST(test_stream_fails)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_text("x");
    fake_ready();
    fake_finish(FINISH_ERROR, -1);
    fake_ready();
    const char *error = strstr(fake.sent, "event: error\ndata: {\"type\":\"error\",\"error\":{");
    assert_non_null(error);
    assert_non_null(strstr(error, "\"type\":\"api_error\""));
    assert_non_null(strstr(error, "\"request_id\":\"req_1\"}\n\n"));
    sent_lacks("message_stop");
    assert_true(fake.ended);
}

TEST(test_whole)
{
    fake_request(PATH, "{" HI ",\"max_tokens\":20}");
    fake_text("Hello.");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_string_equal(
        fake_events(),
        "{\"id\":\"ID\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\","
        "\"content\":[{\"type\":\"text\",\"text\":\"Hello.\",\"citations\":null}],"
        "\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"stop_details\":null,"
        "\"container\":null,\"diagnostics\":null," USAGE("25", "3", "7") USAGE_NULLS "}");
}

TEST(test_whole_empty)
{
    fake_request(PATH, "{" HI "}");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"content\":[{\"type\":\"text\",\"text\":\"\",");
}

static void expect_reason(const char *version, const char *more, enum finish finish,
                          const char *reason)
{
    char body[512], want[128];

    fake_again();
    fake.info.anthropic_version = text_of(version);
    snprintf(body, sizeof body, "{" HI "%s}", more);
    fake_request(PATH, body);
    fake_text("ab");
    fake_finish(finish, 'c');
    fake_ready();
    snprintf(want, sizeof want, "\"stop_reason\":\"%s\"", reason);
    sent_has(want);
}

TEST(test_stop_reasons)
{
    expect_reason("2026-10-21", ",\"max_tokens\":3", FINISH_LENGTH, "max_tokens");
    expect_reason("2026-10-21", ",\"max_tokens\":1000", FINISH_LENGTH,
                  "model_context_window_exceeded");
    expect_reason("2026-10-21", ",\"max_tokens\":172", FINISH_LENGTH,
                  "max_tokens"); // the rest of the window
    expect_reason("2026-10-21", ",\"max_tokens\":173", FINISH_LENGTH,
                  "model_context_window_exceeded");
    expect_reason("2027-01-01", "", FINISH_CONTEXT, "model_context_window_exceeded");
    expect_reason("2023-06-01", ",\"max_tokens\":1000", FINISH_LENGTH, "max_tokens");
    expect_reason("", ",\"max_tokens\":1000", FINISH_CONTEXT, "max_tokens");
    expect_reason("9999", "", FINISH_CONTEXT, "max_tokens");
}

TEST(test_stop_sequence)
{
    fake_request(PATH, "{" HI ",\"stop_sequences\":[\"zz\",\"EN\\\"D\",\"\"],\"stream\":true}");
    fake_text("go EN\"D!");
    fake_ready();
    assert_int_equal(fake.choice_cancels, 1);
    fake_finish(FINISH_CANCEL, -1);
    fake_ready();
    assert_string_equal(fake_events(), START("25", "3") BLOCK_START DELTA("go ")
                                           END("stop_sequence", "\"EN\\\"D\"", "7"));
}

TEST(test_max_tokens_default)
{
    fake_facts.max_model_len = 10000;
    fake_request(PATH, "{" HI "}");
    assert_int_equal(fake.max_tokens, 4096);
}

TEST(test_too_long)
{
    char text[300] = {0}, body[600];
    for (int n = 172; n <= 250; n += 78) { // the template adds 27 of 200 tokens
        fake_again();
        memset(text, 'x', (size_t)n + 1);
        text[n + 1] = 0;
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}", text);
        fake_request(PATH, body);
        assert_int_equal(fake.status, 400);
        const char *says = n == 172 ? "\"prompt is too long: 200 tokens > 199 maximum\""
                                    : "\"prompt is too long: 201 tokens > 199 maximum; it has more "
                                      "than 200 tokens, the rest was not counted\"";
        sent_has(says);
        sent_has("\"type\":\"invalid_request_error\"");
    }
}

// Compares the prompt with want. want NULL: expects a 400 with this message.
static void expect_prompt(const char *messages, const char *rest, const char *want,
                          const char *says)
{
    char body[4096];

    fake_again();
    snprintf(body, sizeof body, "{\"model\":\"m\",\"messages\":%s%s}", messages, rest);
    fake_request(PATH, body);
    if (!want) {
        assert_int_equal(fake.status, 400);
        if (!strstr(fake.sent, says))
            fail_msg("'%s' is not in %s", says, fake.sent);
        return;
    }
    if (fake.status)
        fail_msg("%s", fake.sent);
    char *prompt = fake_prompt();
    assert_string_equal(prompt, want);
    free(prompt);
}

#define BLOCKS(role, blocks) "{\"role\":\"" role "\",\"content\":[" blocks "]}"
#define THINKING "{\"type\":\"thinking\",\"thinking\":\"t\"}"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define USE "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{\"a\":1}}"
#define RESULT "{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":\"r\"}"
#define END_PROMPT "[no-think][assistant]"

TEST(test_roles)
{
    expect_prompt("[" USER "]", "", "[user]u" END_PROMPT, NULL);
    expect_prompt("[{\"role\":\"ctx\",\"content\":\"a\"},{\"role\":\"msg\",\"content\":\"b\"}]", "",
                  "[user]a\nb" END_PROMPT, NULL);
    expect_prompt("[{\"role\":\"assistant\",\"content\":\"a\"}," USER "]", "",
                  "[assistant]a[user]u" END_PROMPT, NULL);
    expect_prompt("[{\"role\":\"User\",\"content\":\"a\"}]", "", NULL, "messages.0.role: must be");
    expect_prompt("[{\"role\":\"developer\",\"content\":\"a\"}]", "", NULL, "messages.0.role");
    expect_prompt("[" BLOCKS("user", TEXT("a") "," TEXT("b")) "]", "", "[user]ab" END_PROMPT, NULL);
}

TEST(test_system)
{
    expect_prompt("[" USER "]", ",\"system\":\"s\"", "[system]s[user]u" END_PROMPT, NULL);
    expect_prompt(
        "[" USER "]",
        ",\"system\":[" TEXT("a") "," TEXT("x-anthropic-billing-header: 1") "," TEXT("b") "]",
        "[system]a\nb[user]u" END_PROMPT, NULL);
    expect_prompt("[" USER "]", ",\"system\":\"\"", "[user]u" END_PROMPT, NULL);
    expect_prompt("[" USER "]", ",\"system\":[]", "[user]u" END_PROMPT, NULL);
    expect_prompt("[" USER "]", ",\"system\":null", "[user]u" END_PROMPT, NULL);
    expect_prompt("[" USER "]", ",\"system\":5", NULL, "system: must be a string");
    expect_prompt("[" USER "]", ",\"system\":[{\"type\":\"image\"}]", NULL,
                  "system.0: has the content type 'image'");
    const char *inside = "[" USER ",{\"role\":\"system\",\"content\":\"t\"}]";
    expect_prompt(inside, ",\"system\":\"s\"", "[system]s[user]u[system]t" END_PROMPT, NULL);
    fake_chat.system_inside = false;
    expect_prompt(inside, ",\"system\":\"s\"", "[system]s[user]u\nt" END_PROMPT, NULL);
    // The messages before and after it become neighbours and are merged.
    expect_prompt("[" USER ",{\"role\":\"system\",\"content\":\"t\"}," USER "]", "",
                  "[user]u\nt\nu" END_PROMPT, NULL);
    expect_prompt("[" USER ",{\"role\":\"assistant\",\"content\":\"a\"},"
                  "{\"role\":\"system\",\"content\":\"t\"},"
                  "{\"role\":\"assistant\",\"content\":\"b\"}]",
                  "", "[user]u[assistant]a[user]t[assistant]b", NULL);
}

TEST(test_prefill)
{
    expect_prompt("[" USER ",{\"role\":\"assistant\",\"content\":\"so \"}]", "",
                  "[user]u[assistant]so ", NULL);
    expect_prompt("[" USER
                  ",{\"role\":\"assistant\",\"content\":\"a\"}," BLOCKS("assistant", TEXT("b")) "]",
                  "", "[user]u[assistant]a\nb", NULL);
    expect_prompt("[" USER "," BLOCKS("assistant", USE) "]", "", NULL, "t1");
}

TEST(test_tool_history)
{
    const char *want = "[user]u[assistant]c(f {\"a\":1})[tool]r[user]x" END_PROMPT;
#define TURN(blocks)                                                                               \
    "[" USER "," BLOCKS("assistant", TEXT("c") "," USE) "," BLOCKS("user", blocks) "]"
    expect_prompt(TURN(RESULT "," TEXT("x")), "", want, NULL);
    expect_prompt(TURN(TEXT("x") "," RESULT), "", want, NULL); // results come first
    expect_prompt(TURN(RESULT), "", "[user]u[assistant]c(f {\"a\":1})[tool]r" END_PROMPT, NULL);
    expect_prompt(
        TURN(
            "{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"is_error\":true,\"content\":[" TEXT(
                "p") "," TEXT("q") "]}"),
        "", "[user]u[assistant]c(f {\"a\":1})[tool]Error: p\nq" END_PROMPT, NULL);
    expect_prompt(TURN("{\"type\":\"tool_result\",\"tool_use_id\":\"t1\"}"), "",
                  "[user]u[assistant]c(f {\"a\":1})[tool]" END_PROMPT, NULL);
    expect_prompt("[" USER "," BLOCKS("assistant", USE) "," BLOCKS("user", RESULT) "," BLOCKS(
                      "assistant", TEXT("d")) "," USER "]",
                  "", "[user]u[assistant](f {\"a\":1})[tool]r[assistant]d[user]u" END_PROMPT, NULL);
    expect_prompt(TURN(TEXT("x")), "", NULL, "t1"); // no result
    expect_prompt(TURN(RESULT "," RESULT), "", NULL, "twice");
    expect_prompt(
        "[" USER "," BLOCKS("assistant", USE "," USE) "," BLOCKS("user", RESULT) "]", "", NULL,
        "messages.1.content.1.id: must differ from the ids of the turn's other calls; 't1'");
    expect_prompt(
        "[" USER "," BLOCKS("assistant", USE) "," BLOCKS("user", RESULT) "," BLOCKS(
            "assistant", USE) "," BLOCKS("user", RESULT) "]",
        "", "[user]u[assistant](f {\"a\":1})[tool]r[assistant](f {\"a\":1})[tool]r" END_PROMPT,
        NULL);
    expect_prompt("[" BLOCKS("user", RESULT) "]", "", NULL, "messages.0.content.0.tool_use_id");
    expect_prompt("[" BLOCKS("user", USE) "]", "", NULL, "content type 'tool_use'");
    expect_prompt(
        TURN("{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":[{\"type\":"
             "\"image\"}]}"),
        "", NULL,
        "messages.2.content.0.content.0: has the content type 'image', which is not served");
}

// Gateways send the blocks of one turn as separate messages.
TEST(test_neighbours_are_one_turn)
{
#define USE2 "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"g\",\"input\":{}}"
#define RESULT2 "{\"type\":\"tool_result\",\"tool_use_id\":\"t2\",\"content\":\"s\"}"
#define ASKED(turns) "[" USER "," turns "," BLOCKS("user", RESULT "," RESULT2 "," TEXT("x")) "]"
    static const char want[] =
        "[user]u[assistant](f {\"a\":1})(g {})[tool]r[tool]s[user]x" END_PROMPT;
    static const char thought[] =
        "[user]u[assistant]t/c\nd(f {\"a\":1})(g {})[tool]r[tool]s[user]x" END_PROMPT;
    expect_prompt(ASKED(BLOCKS("assistant", USE "," USE2)), "", want, NULL);
    expect_prompt(ASKED(BLOCKS("assistant", USE) "," BLOCKS("assistant", USE2)), "", want, NULL);
    expect_prompt(ASKED(BLOCKS("assistant", THINKING) "," BLOCKS(
                      "assistant", TEXT("c") "," USE) "," BLOCKS("assistant", TEXT("d") "," USE2)),
                  "", thought, NULL);
    expect_prompt(ASKED(BLOCKS("assistant", TEXT("c") "," USE) "," BLOCKS(
                      "assistant", THINKING) "," BLOCKS("assistant", USE2 "," TEXT("d"))),
                  "", thought, NULL);
    expect_prompt("[" USER "," BLOCKS("assistant", USE) "," BLOCKS("assistant", USE2) "," BLOCKS(
                      "user", RESULT2 "," TEXT("x")) "," BLOCKS("user", RESULT) "]",
                  "", "[user]u[assistant](f {\"a\":1})(g {})[tool]s[tool]r[user]x" END_PROMPT,
                  NULL);
    expect_prompt(
        "[" USER "," BLOCKS("assistant", USE) "," BLOCKS("assistant", USE2) "," BLOCKS(
            "user", RESULT) "," BLOCKS("assistant", TEXT("d")) "," USER "]",
        "", NULL,
        "messages.3.content: must hold a tool_result for each tool_use of the turn before; "
        "'t2' has none");
    expect_prompt("[" USER "," BLOCKS("assistant", USE) "," BLOCKS("assistant", TEXT("d")) "]", "",
                  NULL, "'t1' has none"); // edge case 38
    expect_prompt("[" USER "," BLOCKS("assistant", USE) "," USER "," BLOCKS("assistant", USE2) "]",
                  "", NULL, "messages.2.content: must hold a tool_result");
}

// Edits that only clear context are accepted and ignored; other edits would change the result and
// are refused.
TEST(test_context_management)
{
#define CONTEXT(edits) ",\"context_management\":{\"edits\":[" edits "]}"
#define EDIT(type) "{\"type\":\"" type "\",\"keep\":\"all\"}"
    static const char *const fine[] = {
        CONTEXT(""), CONTEXT(EDIT("clear_thinking_20251015")),
        CONTEXT(EDIT("clear_thinking_20251015") "," EDIT("clear_tool_uses_20250919")),
        ",\"context_management\":null", ",\"context_management\":{}"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        expect_prompt("[" USER "]", fine[i], "[user]u" END_PROMPT, NULL);
    expect_prompt("[" USER "]",
                  CONTEXT(EDIT("clear_thinking_20251015") "," EDIT("compact_20260112")), NULL,
                  "context_management.edits.1.type: must begin with 'clear_': edits of the type "
                  "'compact_20260112' are not supported");
    expect_prompt("[" USER "]", CONTEXT("5"), NULL,
                  "context_management.edits.0: must be an object");
    expect_prompt("[" USER "]", CONTEXT("{}"), NULL,
                  "context_management.edits.0.type: is required");
    expect_prompt("[" USER "]", CONTEXT("{\"type\":5}"), NULL,
                  "context_management.edits.0.type: must be a string");
    expect_prompt("[" USER "]", ",\"context_management\":{\"edits\":{}}", NULL,
                  "context_management.edits: must be an array");
}

TEST(test_blocks)
{
    expect_prompt("[" USER
                  "," BLOCKS("assistant",
                             "{\"type\":\"thinking\",\"thinking\":\"t\"},"
                             "{\"type\":\"redacted_thinking\",\"data\":\"x\"}," TEXT("a")) "," USER
                                                                                           "]",
                  "", "[user]u[assistant]t/a[user]u" END_PROMPT, NULL);
    expect_prompt("[" USER "," BLOCKS("assistant", THINKING "," TEXT("a")) "," USER "," BLOCKS(
                      "assistant", TEXT("b")) "," USER "]",
                  "", "[user]u[assistant]t/a[user]u[assistant]b[user]u" END_PROMPT, NULL);
    expect_prompt("[" BLOCKS("user", "{\"type\":\"text\",\"text\":\"\",\"cache_control\":{\"type\":"
                                     "\"ephemeral\"},\"citations\":null}") "]",
                  "", "[user]" END_PROMPT, NULL);
    expect_prompt("[" BLOCKS("user", "{\"type\":\"image\",\"source\":{}}") "]", "", NULL,
                  "messages.0.content.0: has the content type 'image', which is not served: this "
                  "server reads text only, also with multimodal models");
    expect_prompt("[" BLOCKS("user", TEXT("a") ",{\"type\":\"text\"}") "]", "", NULL,
                  "messages.0.content.1.text: is required");
    expect_prompt("[" BLOCKS("user", "5") "]", "", NULL, "messages.0.content.0: must be an object");
    expect_prompt("[{\"role\":\"user\"}]", "", NULL, "messages.0.content: is required");
    expect_prompt("[\"x\"]", "", NULL, "messages.0: must be an object");
}

TEST(test_thinking)
{
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"disabled\"}", "[user]u" END_PROMPT,
                  NULL);
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"adaptive\"}", "[user]u" END_PROMPT,
                  NULL);
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}",
                  "[user]u" END_PROMPT, NULL);
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"x\"}", NULL, "thinking.type");
    fake_chat.thinks = true;
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"adaptive\"}",
                  "[user]u[think][assistant]", NULL);
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"between_tools\"}", "[user]u" END_PROMPT,
                  NULL);
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}",
                  "[user]u[think][assistant]", NULL);
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"enabled\"}", NULL,
                  "thinking.budget_tokens: is required");
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1023}", NULL,
                  "thinking.budget_tokens: must be at least 1024");
    expect_prompt("[" USER "]",
                  ",\"max_tokens\":2000,\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2000}",
                  NULL, "thinking.budget_tokens: must be below max_tokens, which is 2000");
    expect_prompt("[" USER "]", ",\"thinking\":{\"type\":\"adaptive\",\"display\":\"x\"}", NULL,
                  "thinking.display: must be");
    expect_prompt("[" USER "]", ",\"output_config\":{\"effort\":\"low\"}",
                  "[user]u[no-think][effort low][assistant]", NULL);
    expect_prompt("[" USER "]", ",\"chat_template_kwargs\":{\"enable_thinking\":true}",
                  "[user]u[think][assistant]", NULL);
}

TEST(test_count)
{
    fake_request("/v1/messages/count_tokens", "{" HI "}");
    assert_int_equal(fake.status, 200);
    assert_string_equal(fake.sent, "{\"input_tokens\":28}");
    assert_int_equal(fake.submits, 0);
    fake_again(); // the fields of the other endpoint are unknown here
    fake_request("/v1/messages/count_tokens", "{" HI ",\"max_tokens\":0,\"stream\":\"x\"}");
    assert_string_equal(fake.sent, "{\"input_tokens\":28}");
}

// n and logprobs are unknown here and therefore ignored.
TEST(test_foreign_fields)
{
    fake_request(PATH, "{" HI ",\"n\":3,\"logprobs\":true,\"seed\":5}");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 3);
}

// Paths of late blocks are exact, even after a result with many blocks.
TEST(test_paths_of_many_blocks)
{
    char body[4096], blocks[1024];
    int n = 0;
    for (int i = 0; i < 20; i++)
        n += sprintf(blocks + n, "{\"type\":\"text\",\"text\":\"a\"},");
    sprintf(body,
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[%s{\"type\":5}]}]}",
            blocks);
    fake_request(PATH, body);
    sent_has("messages.0.content.20.type: must be a string");
    fake_again();
    sprintf(body,
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
            "\"tool_result\",\"tool_use_id\":\"x\",\"content\":[%s{\"type\":\"text\",\"text\":"
            "\"a\"}]}]}]}",
            blocks);
    fake_request(PATH, body);
    sent_has("messages.0.content.0.tool_use_id: must name a tool call");
}
