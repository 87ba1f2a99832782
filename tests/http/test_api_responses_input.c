// SPDX-License-Identifier: Apache-2.0
// Requests of POST /v1/responses against the doubles of exchange and port: input items converted to
// the prompt, tools in their flat form, the text format, refusals with their path.
#include "api_cases.h"

#define TEST(name) API_TEST(name, setup)
#define PATH "/v1/responses"
#define HI "\"model\":\"m\",\"input\":\"hi\""
#define TOOL(name) "{\"type\":\"function\",\"name\":\"" name "\"}"
#define TOOLS "\"tools\":[" TOOL("f") "," TOOL("g") "]"
#define FORCED(name, arguments)                                                                    \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"
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

static void prompt_is(const char *body, const char *prompt)
{
    again();
    fake_request(PATH, body);
    if (fake.submits != 1)
        fail_msg("%s: %s", body, fake.sent);
    fake_gone(); // frees its tools
    char *got = fake_prompt();
    if (strcmp(got, prompt) != 0)
        fail_msg("%s: %s", body, got);
    free(got);
}

#define INPUT(items) "{\"model\":\"m\",\"input\":[" items "]}"
#define USER "{\"role\":\"user\",\"content\":\"hi\"}"
#define THOUGHT(text)                                                                              \
    "{\"type\":\"reasoning\",\"content\":[{\"type\":\"reasoning_text\",\"text\":\"" text "\"}]}"
#define CALLED(id, name, arguments)                                                                \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name                          \
    "\",\"arguments\":\"" arguments "\"}"
#define RESULT(id, output)                                                                         \
    "{\"type\":\"function_call_output\",\"call_id\":\"" id "\",\"output\":" output "}"

TEST(test_items_in_the_prompt)
{
    prompt_is("{" HI "}", "[user]hi[assistant]");
    prompt_is("{" HI ",\"instructions\":\"be\"}", "[system]be[user]hi[assistant]");
    prompt_is(INPUT("{\"type\":\"message\",\"role\":\"developer\",\"content\":\"d\"}," USER),
              "[system]d[user]hi[assistant]");
    prompt_is(INPUT("{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
                    "{\"type\":\"text\",\"text\":\"b\"}]}"),
              "[user]ab[assistant]");
    // output items sent back unchanged, and tool results
    prompt_is(
        INPUT(
            USER
            ",{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"content\":"
            "[{\"type\":\"reasoning_text\",\"text\":\"hm\"}],\"encrypted_content\":null},"
            "{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"status\":"
            "\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"so\","
            "\"annotations\":[],\"logprobs\":[]}]}," CALLED("c1", "f", "{\\\"a\\\":1}") "," CALLED(
                "c2", "g", "") "," RESULT("c2", "\"two\"") "," RESULT("c1", "[{\"type\":"
                                                                            "\"input_text\","
                                                                            "\"text\":"
                                                                            "\"one\"}]")),
        "[user]hi[assistant]hm/so(f {\"a\":1})(g {})[tool]two[tool]one[assistant]");
    prompt_is(INPUT(USER "," CALLED("c1", "f", "{}") "," RESULT("c1", "\"1\"") "," CALLED(
                  "c2", "f", "{}") "," RESULT("c2", "\"2\"")),
              "[user]hi[assistant](f {})[tool]1[assistant](f {})[tool]2[assistant]");
    // each assistant turn has its own reasoning
    prompt_is(INPUT(THOUGHT("x") ",{\"role\":\"assistant\",\"content\":\"a\"}," USER "," THOUGHT(
                  "y") ",{\"role\":\"assistant\",\"content\":\"b\"}," USER),
              "[assistant]x/a[user]hi[assistant]y/b[user]hi[assistant]");
    // two assistant messages are merged; an answer with reasoning only is dropped
    prompt_is(INPUT(USER ",{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"assistant\","
                         "\"content\":\"b\"}," USER),
              "[user]hi[assistant]a\nb[user]hi[assistant]");
    // an empty message adds no line
    prompt_is(INPUT(USER ",{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"assistant\","
                         "\"content\":\"\"}," USER),
              "[user]hi[assistant]a[user]hi[assistant]");
    prompt_is(INPUT(USER "," THOUGHT("x") ",{\"type\":\"reasoning\",\"summary\":[],\"content\":[]},"
                                          "{\"role\":\"assistant\",\"content\":\"\"},"
                                          "{\"role\":\"assistant\",\"content\":\"b\"}," USER),
              "[user]hi[assistant]x/b[user]hi[assistant]");
    prompt_is(INPUT(USER ",{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\","
                         "\"text\":\"s\"}]}," USER),
              "[user]hi[user]hi[assistant]");
}

TEST(test_what_input_may_not_be)
{
    static const struct {
        const char *input, *code, *param;
    } cases[] = {
        {"1", "invalid_type", "input"},
        {"{}", "invalid_type", "input"},
        {"null", "missing_required_parameter", "input"},
        {"[]", "invalid_value", "input"},
        {"[1]", "invalid_type", "input[0]"},
        {"[{\"type\":1}]", "invalid_type", "input[0].type"},
        {"[{\"content\":\"a\"}]", "missing_required_parameter", "input[0].role"},
        {"[{\"role\":\"user\"}]", "missing_required_parameter", "input[0].content"},
        {"[{\"role\":\"User\",\"content\":\"a\"}]", "invalid_value", "input[0].role"},
        {"[{\"role\":\"tool\",\"content\":\"a\"}]", "invalid_value", "input[0].role"},
        {"[{\"role\":\"user\",\"content\":1}]", "invalid_type", "input[0].content"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]",
         "unsupported_content_type", "input[0].content[0].type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"a\"}]}]",
         "invalid_value", "input[0].content[0].type"},
        {"[{\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\"}]}]",
         "missing_required_parameter", "input[0].content[0].text"},
        {"[" USER ",{\"type\":\"item_reference\",\"id\":\"msg_1\"}]", "unsupported_value",
         "input[1].type"},
        {"[{\"type\":\"teleport_call\"}]", "unsupported_value", "input[0].type"},
        {"[{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"\"}]",
         "missing_required_parameter", "input[0].call_id"},
        {"[{\"type\":\"function_call\",\"call_id\":\"c\",\"arguments\":\"\"}]",
         "missing_required_parameter", "input[0].name"},
        {"[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}]",
         "missing_required_parameter", "input[0].arguments"},
        {"[" RESULT("c", "\"a\"") "]", "invalid_value", "input[0].call_id"},
        {"[" CALLED("c", "f", "") "," RESULT("c", "\"a\"") "," RESULT("c", "\"a\"") "]",
         "invalid_value", "input[2].call_id"},
        {"[" CALLED("c", "f", "") "," CALLED("c", "f", "") "]", "invalid_value",
         "input[1].call_id"},
        {"[" CALLED("c", "f", "") ",{\"type\":\"function_call_output\",\"call_id\":\"c\"}]",
         "missing_required_parameter", "input[1].output"},
        {"[{\"type\":\"function_call_output\",\"output\":\"a\"}]", "missing_required_parameter",
         "input[0].call_id"},
        {"[{\"type\":\"reasoning\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]",
         "invalid_value", "input[0].content[0].type"},
    };
    char more[512];
    fake_end();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(more, sizeof more, "\"input\":%s", cases[i].input);
        expect_error(&responses_endpoint, more, 400, cases[i].code, cases[i].param);
    }
    fake_begin(MODEL_GENERATOR);
}

TEST(test_what_is_not_served)
{
    static const char *const refused[][2] = {
        {"previous_response_id", "\"resp_1\""},
        {"conversation", "\"conv_1\""},
        {"conversation", "{\"id\":\"conv_1\"}"},
        {"background", "true"},
        {"prompt", "{\"id\":\"p\"}"},
        {"context_management", "[{\"type\":\"compaction\"}]"},
        {"messages", "[]"},
        {"max_tokens", "3"},
        {"response_format", "{\"type\":\"text\"}"},
        {"reasoning_effort", "\"low\""},
        {"n", "2"},
    };
    char more[256];
    fake_end();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(more, sizeof more, "\"%s\":%s", refused[i][0], refused[i][1]);
        expect_error(&responses_endpoint, more, 400, "unsupported_parameter", refused[i][0]);
    }
    expect_ok(&responses_endpoint,
              "\"previous_response_id\":null,\"conversation\":null,\"background\":false,"
              "\"prompt\":null,\"n\":1,\"store\":true,\"service_tier\":\"auto\","
              "\"prompt_cache_key\":\"k\",\"max_tool_calls\":3,\"user\":\"u\","
              "\"stream_options\":{\"include_obfuscation\":false},\"context_management\":[]");
    expect_error(&responses_endpoint, "\"tools\":[{\"type\":\"teleport\"}]", 400,
                 "unsupported_value", "tools[0].type");
    expect_error(&responses_endpoint, "\"include\":[\"all\"]", 400, "invalid_value", "include[0]");
    expect_error(&responses_endpoint, "\"include\":[1]", 400, "invalid_type", "include[0]");
    char many[4096] = "\"include\":[\"file_search_call.results\"";
    for (int i = 1; i < 64; i++)
        strcat(many, ",\"file_search_call.results\"");
    size_t end = strlen(many);
    expect_ok(&responses_endpoint, strcat(many, "]"));
    strcpy(many + end, ",\"file_search_call.results\"]");
    expect_error(&responses_endpoint, many, 400, "invalid_value", "include");
    expect_error(&responses_endpoint, "\"truncation\":\"some\"", 400, "invalid_value",
                 "truncation");
    expect_ok(&responses_endpoint, "\"truncation\":\"auto\",\"include\":"
                                   "[\"reasoning.encrypted_content\",\"web_search_call.results\"]");
    expect_error(&responses_endpoint, "\"reasoning\":{\"mode\":\"pro\"}", 400,
                 "unsupported_parameter", "reasoning.mode");
    expect_error(&responses_endpoint, "\"reasoning\":{\"effort\":\"some\"}", 400, "invalid_value",
                 "reasoning.effort");
    fake_begin(MODEL_GENERATOR);
}

TEST(test_fields)
{
    static const struct field_case cases[] = {
        {&responses_endpoint, "max_output_tokens", "i", {"1", "1e2"}, {"0", "-1"}},
        {&responses_endpoint, "top_logprobs", "i", {"0", "20"}, {"-1", "21"}},
        {&responses_endpoint, "temperature", "ni", {"0", "2"}, {"-1", "2.1"}},
        {&responses_endpoint, "parallel_tool_calls", "b", {"true", "false"}, {NULL}},
        {&responses_endpoint, "instructions", "s", {"\"\"", "\"a\""}, {NULL}},
        {&responses_endpoint, "metadata", "o", {"{\"a\":\"b\"}"}, {NULL}},
        {&responses_endpoint, "max_tool_calls", "i", {"1"}, {NULL}},
    };
    fake_end();
    cases_check(cases, sizeof cases / sizeof *cases);
    request(&responses_endpoint, "\"max_output_tokens\":7,\"reasoning\":{\"effort\":\"low\","
                                 "\"summary\":\"auto\"}");
    assert_int_equal(fake.max_tokens, 7);
    char *prompt = fake_prompt();
    assert_string_equal(prompt, "[user]hi[effort low][assistant]");
    free(prompt);
    fake_end();
    request(&responses_endpoint, "\"reasoning\":{\"effort\":\"none\"}");
    prompt = fake_prompt();
    assert_string_equal(prompt, "[user]hi[no-think][assistant]");
    free(prompt);
}

TEST(test_tools_as_the_template_gets_them)
{
    prompt_is("{" HI "," TOOLS "}", "[user]hi[tools f g][assistant]");
    prompt_is("{" HI "," TOOLS ",\"tool_choice\":\"none\"}", "[user]hi[assistant]");
    prompt_is("{" HI "," TOOLS ",\"tool_choice\":{\"type\":\"function\",\"name\":\"g\"}}",
              "[user]hi[tools f g][assistant]");
    assert_true(fake_grammar_has(FORCED("g", "{}")));
    assert_false(fake_grammar_has(FORCED("f", "{}")));
    prompt_is("{" HI "," TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\","
              "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}}",
              "[user]hi[tools f g][assistant]");
    assert_true(fake_grammar_has(FORCED("f", "{}")));
    assert_false(fake_grammar_has(FORCED("g", "{}")));
    prompt_is("{" HI ",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":true,"
              "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
              "\"required\":[\"a\"],\"additionalProperties\":false}}]}",
              "[user]hi[tools f][assistant]");
    assert_true(fake_grammar_has(FORCED("f", "{\"a\":1}")));
    assert_false(fake_grammar_has(FORCED("f", "{\"a\":true}")));
    prompt_is("{" HI "," TOOLS "}", "[user]hi[tools f g][assistant]"); // strict is off by default
    assert_null(fake.grammar);
}

TEST(test_what_tools_may_not_be)
{
    static const char *const cases[][3] = {
        {"\"tools\":{}", "invalid_type", "tools"},
        {"\"tools\":[1]", "invalid_type", "tools[0]"},
        {"\"tools\":[{}]", "missing_required_parameter", "tools[0].type"},
        {"\"tools\":[{\"type\":\"function\"}]", "missing_required_parameter", "tools[0].name"},
        {"\"tools\":[{\"type\":\"function\",\"name\":\"a b\"}]", "invalid_value", "tools[0].name"},
        {"\"tools\":[" TOOL("f") "," TOOL("f") "]", "invalid_value", "tools[1].name"},
        {"\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":1}]", "invalid_type",
         "tools[0].parameters"},
        {"\"tool_choice\":\"required\"", "invalid_value", "tool_choice"},
        {TOOLS ",\"tool_choice\":\"any\"", "invalid_value", "tool_choice"},
        {TOOLS ",\"tool_choice\":{\"type\":\"function\"}", "missing_required_parameter",
         "tool_choice.name"},
        {TOOLS ",\"tool_choice\":{\"type\":\"function\",\"name\":\"h\"}", "invalid_value",
         "tool_choice.name"},
        {TOOLS ",\"tool_choice\":{\"type\":\"web_search\"}", "unsupported_value",
         "tool_choice.type"},
        {TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[]}",
         "invalid_value", "tool_choice.tools"},
        {TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":"
               "[{\"type\":\"function\",\"name\":\"h\"}]}",
         "invalid_value", "tool_choice.tools[0].name"},
        {TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"any\",\"tools\":"
               "[{\"type\":\"function\",\"name\":\"f\"}]}",
         "invalid_value", "tool_choice.mode"},
    };
    fake_end();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_error(&responses_endpoint, cases[i][0], 400, cases[i][1], cases[i][2]);
    fake_begin(MODEL_GENERATOR);
}

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],"     \
    "\"additionalProperties\":false}"

TEST(test_the_form_of_the_text)
{
    static const char *const bad[][3] = {
        {"1", "invalid_type", "text.format"},
        {"{}", "missing_required_parameter", "text.format.type"},
        {"{\"type\":\"xml\"}", "invalid_value", "text.format.type"},
        {"{\"type\":\"json_schema\",\"name\":\"n\"}", "missing_required_parameter",
         "text.format.schema"},
        {"{\"type\":\"text\",\"schema\":{}}", "invalid_value", "text.format.schema"},
    };
    char more[256];
    fake_end();
    request(&responses_endpoint, "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\","
                                 "\"strict\":true,\"schema\":" SCHEMA "},\"verbosity\":\"low\"}");
    assert_true(fake_grammar_has("{\"a\":1}"));
    assert_false(fake_grammar_has("{\"a\":\"b\"}"));
    fake_end();
    request(&responses_endpoint, "\"text\":{\"format\":{\"type\":\"json_object\"}}");
    assert_true(fake_grammar_has("{\"a\":\"b\"}"));
    assert_false(fake_grammar_has("a"));
    fake_end();
    expect_ok(&responses_endpoint, "\"text\":{\"format\":{\"type\":\"text\"}}");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(more, sizeof more, "\"text\":{\"format\":%s}", bad[i][0]);
        expect_error(&responses_endpoint, more, 400, bad[i][1], bad[i][2]);
    }
    fake_begin(MODEL_GENERATOR);
}

TEST(test_an_input_that_is_too_long)
{
    fake_facts.max_model_len = 19;
    fake_request(PATH, "{" HI "}");
    assert_int_equal(fake.status, 400);
    json_t *body = fake_json();
    const json_t *error = json_object_get(body, "error");
    assert_string_equal(fake_string(error, "code"), "context_length_exceeded");
    assert_string_equal(fake_string(error, "param"), "input");
    json_decref(body);
}

// Requests about a stored response.
TEST(test_nothing_is_stored)
{
    again();
    fake.info.path_rest = text_of("resp_1");
    fake_request("/v1/responses/", "");
    assert_int_equal(fake.status, 404);
    json_t *body = fake_json();
    const json_t *error = json_object_get(body, "error");
    assert_string_equal(fake_string(error, "code"), "response_not_found");
    assert_non_null(strstr(fake_string(error, "message"), "nothing is stored"));
    json_decref(body);
}

// Counts the same tokens as the request for a response has.
TEST(test_tokens_are_counted)
{
    static const char body[] = "{" HI ",\"instructions\":\"be\"," TOOLS "}";
    again();
    fake_request(PATH, body);
    uint32_t count = fake.token_count;
    fake_gone(); // frees its tools
    again();
    fake_request("/v1/responses/input_tokens", body);
    char wanted[96];
    snprintf(wanted, sizeof wanted, "{\"object\":\"response.input_tokens\",\"input_tokens\":%u}",
             count);
    assert_int_equal(fake.submits, 0);
    assert_string_equal(fake.sent, wanted);
    again();
    fake_request("/v1/responses/input_tokens", "{\"model\":\"m\"}");
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"input\"");
}
