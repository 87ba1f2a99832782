// SPDX-License-Identifier: Apache-2.0
// Requests of agent programs: tools in namespaces, custom tools, tools that only the provider runs,
// and such items as history on Responses; deferred tools on Messages; no name of a model.
#include "api_cases.h"

#define TEST(name) API_TEST(name, setup)
#define PLAIN_TEST(name) API_TEST(name, NULL)
#define PATH "/v1/responses"
#define HI "\"model\":\"m\",\"input\":\"hi\""
#define SPACE                                                                                      \
    "{\"type\":\"namespace\",\"name\":\"crm\",\"description\":\"d\",\"tools\":[{\"type\":"         \
    "\"function\",\"name\":\"find\",\"strict\":false,\"parameters\":{\"type\":\"object\"}},"       \
    "{\"type\":\"custom\",\"name\":\"note\"}]}"
#define PATCH                                                                                      \
    "{\"type\":\"custom\",\"name\":\"patch\",\"description\":\"p\",\"format\":{\"type\":"          \
    "\"grammar\",\"syntax\":\"lark\",\"definition\":\"start: x\"}}"
#define HOSTED                                                                                     \
    "{\"type\":\"web_search\",\"external_web_access\":true},{\"type\":\"file_search\"},"           \
    "{\"type\":\"image_generation\",\"output_format\":\"png\"},{\"type\":\"code_interpreter\","    \
    "\"container\":{\"type\":\"auto\"}},{\"type\":\"mcp\",\"server_label\":\"s\"},"                \
    "{\"type\":\"local_shell\"},{\"type\":\"computer_use_preview\"},{\"type\":\"computer\"},"      \
    "{\"type\":\"web_search_preview_2025_03_11\"},{\"type\":\"shell\"},{\"type\":\"tool_search\"}"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"defer_loading\":true}," PATCH "," SPACE    \
    "," HOSTED "]"
#define CALL(name, arguments)                                                                      \
    "<tool_call>{\"name\": \"" name "\", \"arguments\": " arguments "}</tool_call>"

static int setup(void **state)
{
    fake_setup_generator(state);
    fake_thinker("hermes");
    return 0;
}

static void prompt_is(const char *wanted)
{
    if (fake.submits != 1)
        fail_msg("%s", fake.sent);
    char *prompt = fake_prompt();
    if (strcmp(prompt, wanted) != 0)
        print_message("got %s\n", prompt);
    assert_string_equal(prompt, wanted);
    free(prompt);
}

TEST(test_tools_of_agents)
{
    fake_request(PATH, "{" HI "," TOOLS "}");
    prompt_is("[user]hi[tools f patch crm__find crm__note][assistant]");
    fake_text("ok");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    json_t *answer = fake_json();
    const json_t *tools = json_object_get(answer, "tools"); // as they were sent
    assert_int_equal(json_array_size(tools), 14);
    assert_string_equal(fake_string(json_array_get(tools, 2), "type"), "namespace");
    assert_string_equal(fake_string(json_array_get(tools, 4), "type"), "file_search");
    json_decref(answer);
}

// The value as text, without memory of the counted allocator; to be freed.
static char *dumped(const json_t *value)
{
    static char text[32768];
    size_t bytes = json_dumpb(value, text, sizeof text - 1, 0);
    assert_true(bytes < sizeof text);
    text[bytes] = '\0';
    return strdup(text);
}

// The first item of an answer to these tools, whole and streamed; ids are removed. events: the
// stream, to be freed.
static json_t *item_of(const char *text, enum finish finish, char **events)
{
    char *items[2];
    for (int stream = 0; stream < 2; stream++) {
        char body[4096];
        fake_thinker("hermes");
        snprintf(body, sizeof body, "{" HI "," TOOLS "%s}", stream ? ",\"stream\":true" : "");
        fake_request(PATH, body);
        fake_text(text);
        fake_finish(finish, finish == FINISH_STOP ? FAKE_END : -1);
        fake_ready();
        const char *last = stream ? strrchr(fake.sent, '\n') : NULL;
        while (last && strncmp(last, "\ndata: ", 7) != 0)
            last--;
        json_t *whole = stream ? json_loads(last + 7, JSON_DISABLE_EOF_CHECK, NULL) : fake_json();
        const json_t *response = stream ? json_object_get(whole, "response") : whole;
        json_t *item = json_array_get(json_object_get(response, "output"), 0);
        json_object_del(item, "id");
        json_object_del(item, "call_id");
        items[stream] = dumped(item);
        json_decref(whole);
    }
    *events = strdup(fake_events());
    assert_string_equal(items[0], items[1]);
    json_t *item = json_loads(items[0], 0, NULL);
    free(items[0]);
    free(items[1]);
    return item;
}

static void item_is(const char *text, enum finish finish, const char *wanted, const char *event)
{
    char *events;
    json_t *got = item_of(text, finish, &events), *want = json_loads(wanted, 0, NULL);
    char *dump = dumped(got);
    if (!json_equal(got, want))
        fail_msg("%s:\n%s", wanted, dump);
    if (!strstr(events, event))
        fail_msg("%s lacks %s", events, event);
    free(dump);
    free(events);
    json_decref(got);
    json_decref(want);
}

TEST(test_calls_of_such_tools)
{
    item_is(CALL("crm__find", "{\"a\": 1}"), FINISH_STOP,
            "{\"type\":\"function_call\",\"status\":\"completed\",\"name\":\"find\","
            "\"namespace\":\"crm\",\"arguments\":\"{\\\"a\\\": 1}\"}",
            "\"name\":\"find\",\"namespace\":\"crm\"");
    item_is(CALL("patch", "{\"input\": \"*** a\\n\\\"b\\\" \\u00e9\"}"), FINISH_STOP,
            "{\"type\":\"custom_tool_call\",\"status\":\"completed\",\"name\":\"patch\","
            "\"input\":\"*** a\\n\\\"b\\\" \\u00e9\"}",
            "event: response.custom_tool_call_input.delta");
    item_is(CALL("crm__note", "{\"input\": \"\"}"), FINISH_STOP,
            "{\"type\":\"custom_tool_call\",\"status\":\"completed\",\"name\":\"note\","
            "\"namespace\":\"crm\",\"input\":\"\"}",
            "event: response.custom_tool_call_input.done");
    // a limit cuts the string
    item_is("<tool_call>{\"name\": \"patch\", \"arguments\": {\"input\": \"ab", FINISH_LENGTH,
            "{\"type\":\"custom_tool_call\",\"status\":\"incomplete\",\"name\":\"patch\","
            "\"input\":\"\"}",
            "\"input\":\"\"");
    // arguments without the string are no input
    item_is(CALL("patch", "{\"text\": \"x\"}"), FINISH_STOP,
            "{\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":"
            "[{\"type\":\"output_text\",\"text\":\"patch {\\\"text\\\": \\\"x\\\"}\","
            "\"annotations\":[],\"logprobs\":[]}]}",
            "response.output_text.delta");
}

TEST(test_a_long_input_in_pieces)
{
    char text[16384] = "<tool_call>{\"name\": \"patch\", \"arguments\": {\"input\": \"", *events;
    for (int i = 0; i < 5000; i++)
        strcat(text, i % 50 ? "x" : "\xc3\xa9");
    strcat(text, "\"}}</tool_call>");
    json_t *item = item_of(text, FINISH_STOP, &events);
    assert_int_equal(strlen(fake_string(item, "input")), 5100);
    free(events);
    json_decref(item);
}

TEST(test_a_choice_names_them)
{
    static const char *const good[] = {
        "{\"type\":\"custom\",\"name\":\"patch\"}",
        "{\"type\":\"function\",\"name\":\"find\",\"namespace\":\"crm\"}",
        "{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"type\":\"custom\",\"name\":"
        "\"patch\"},{\"type\":\"function\",\"name\":\"f\"}]}",
    };
    static const struct {
        const char *choice, *code, *param;
    } bad[] = {
        {"{\"type\":\"web_search\"}", "unsupported_value", "tool_choice.type"},
        {"{\"type\":\"function\",\"name\":\"find\"}", "invalid_value", "tool_choice.name"},
        {"{\"type\":\"function\",\"name\":\"find\",\"namespace\":\"x\"}", "invalid_value",
         "tool_choice.name"},
        {"{\"type\":\"function\",\"name\":\"f\",\"namespace\":1}", "invalid_type",
         "tool_choice.namespace"},
        {"{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"type\":\"web_search\"}]}",
         "unsupported_value", "tool_choice.tools[0].type"},
    };
    char body[4096];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        fake_thinker("hermes");
        snprintf(body, sizeof body, "{" HI "," TOOLS ",\"tool_choice\":%s}", good[i]);
        fake_request(PATH, body);
        if (fake.status >= 400)
            fail_msg("%s: %s", good[i], fake.sent);
        fake_gone();
    }
    fake_end();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, TOOLS ",\"tool_choice\":%s", bad[i].choice);
        expect_error(&responses_endpoint, body, 400, bad[i].code, bad[i].param);
    }
    fake_begin(MODEL_GENERATOR);
}

PLAIN_TEST(test_wrong_tools)
{
    static const struct {
        const char *tools, *code, *param;
    } bad[] = {
        {"{\"type\":\"teleport\"}", "unsupported_value", "tools[0].type"},
        {"{\"type\":\"namespace\",\"tools\":[]}", "missing_required_parameter", "tools[0].name"},
        {"{\"type\":\"namespace\",\"name\":\"n\"}", "missing_required_parameter", "tools[0].tools"},
        {"{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[" SPACE "]}", "unsupported_value",
         "tools[0].tools[0].type"},
        {"{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":\"function\"}]}",
         "missing_required_parameter", "tools[0].tools[0].name"},
        {SPACE "," SPACE, "invalid_value", "tools[1].tools[0].name"},
        {SPACE ",{\"type\":\"function\",\"name\":\"crm__find\"}", "invalid_value", "tools[1].name"},
        {"{\"type\":\"custom\",\"name\":\"c\",\"format\":{\"type\":\"regex\"}}",
         "unsupported_value", "tools[0].format.type"},
        {"{\"type\":\"custom\",\"name\":\"c\",\"format\":{\"type\":\"grammar\"}}",
         "missing_required_parameter", "tools[0].format.syntax"},
    };
    char more[2048];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(more, sizeof more, "\"tools\":[%s]", bad[i].tools);
        expect_error(&responses_endpoint, more, 400, bad[i].code, bad[i].param);
    }
}

// Every type of item that agents send back becomes a part of the prompt.
TEST(test_items_of_such_tools)
{
    fake_request(
        PATH,
        "{\"model\":\"m\"," TOOLS ",\"input\":[{\"type\":\"message\",\"role\":\"user\","
        "\"content\":\"u\"},"
        "{\"type\":\"custom_tool_call\",\"id\":\"ctc_1\",\"call_id\":\"1\",\"name\":\"patch\","
        "\"input\":\"i\"},"
        "{\"type\":\"custom_tool_call_output\",\"call_id\":\"1\",\"output\":\"o\"},"
        "{\"type\":\"function_call\",\"call_id\":\"2\",\"namespace\":\"crm\",\"name\":\"find\","
        "\"arguments\":\"{}\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"2\",\"output\":\"p\"},"
        "{\"type\":\"web_search_call\",\"id\":\"ws\",\"status\":\"completed\",\"action\":"
        "{\"query\":\"q\"}},"
        "{\"type\":\"image_generation_call\",\"id\":\"ig\",\"result\":\"AAAA\"},"
        "{\"type\":\"local_shell_call\",\"call_id\":\"3\",\"action\":{\"command\":[\"ls\"]}},"
        "{\"type\":\"local_shell_call_output\",\"id\":\"3\",\"output\":\"r\"}]}");
    prompt_is("[user]u[assistant](patch {\"input\":\"i\"})[tool]o[assistant](crm__find {})[tool]p"
              "[assistant]{\"type\":\"web_search_call\",\"action\":{\"query\":\"q\"}}\n"
              "{\"type\":\"image_generation_call\"}\n"
              "{\"type\":\"local_shell_call\",\"action\":{\"command\":[\"ls\"]}}"
              "[user]{\"type\":\"local_shell_call_output\",\"output\":\"r\"}"
              "[tools f patch crm__find crm__note][assistant]");
    fake_gone();
}

PLAIN_TEST(test_no_type_of_item_is_refused)
{
    static const char *const types[] = {
        "web_search_call",
        "file_search_call",
        "image_generation_call",
        "code_interpreter_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "local_shell_call",
        "shell_call",
        "local_shell_call_output",
        "shell_call_output",
        "computer_call",
        "computer_call_output",
        "apply_patch_call",
        "tool_search_call",
        "tool_search_output",
        "apply_patch_call_output",
    };
    char more[512];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        snprintf(more, sizeof more,
                 "\"input\":[{\"type\":\"%s\",\"call_id\":\"c\",\"output\":[{\"a\":1}]}]",
                 types[i]);
        expect_ok(&responses_endpoint, more);
    }
    expect_error(&responses_endpoint,
                 "\"input\":[{\"type\":\"custom_tool_call\",\"call_id\":\"c\"}]", 400,
                 "missing_required_parameter", "input[0].name");
    expect_error(&responses_endpoint, "\"input\":[{\"type\":\"compaction\"}]", 400,
                 "unsupported_value", "input[0].type");
}

static void action_is(const char *rest, const char *code)
{
    const struct route *row = responses_routes;
    fake_thinker("hermes");
    fake.info.path_rest = text_of(rest);
    while (strcmp(row->path, "/v1/responses/") != 0 || strcmp(row->method, "POST") != 0)
        row++;
    row->on_request((struct exchange *)&fake);
    json_t *body = fake_json();
    assert_int_equal(fake.status, 404);
    assert_string_equal(fake_string(json_object_get(body, "error"), "code"), code);
    json_decref(body);
}

TEST(test_actions_on_responses)
{
    action_is("compact", "unknown_url");
    action_is("resp_1", "unknown_url");
    action_is("resp_1/cancel", "response_not_found");
}

#define DEFERRED(name)                                                                             \
    "{\"name\":\"" name "\",\"defer_loading\":true,\"input_schema\":{\"type\":\"object\"}}"
#define MESSAGES_TOOLS                                                                             \
    "\"tools\":[{\"name\":\"find\",\"input_schema\":{}}," DEFERRED("a") "," DEFERRED("b") "]"

static void messages_prompt_is(const char *more, const char *wanted)
{
    char body[4096];
    fake_thinker("hermes");
    snprintf(body, sizeof body, "{\"model\":\"m\"," MESSAGES_TOOLS ",%s}", more);
    fake_request("/v1/messages", body);
    prompt_is(wanted);
    fake_gone();
}

// A deferred tool is in the prompt from the first block on that refers to it.
TEST(test_deferred_tools)
{
    messages_prompt_is("\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]",
                       "[user]u[tools find][no-think][assistant]");
    messages_prompt_is(
        "\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":"
        "[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"find\",\"input\":{}}]},{\"role\":\"user\","
        "\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":[{\"type\":"
        "\"tool_reference\",\"tool_name\":\"b\"},{\"type\":\"tool_reference\",\"tool_name\":"
        "\"gone\"}]}]}]",
        "[user]u[assistant](find {})[tool]The tool b is now available.\n"
        "The tool gone is now available.[tools find b][no-think][assistant]");
    messages_prompt_is("\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],\"tool_choice\":"
                       "{\"type\":\"tool\",\"name\":\"a\"}",
                       "[user]u[tools find a][no-think][assistant]");
}

// A model without thinking ignores a request for it, in every shape.
PLAIN_TEST(test_thinking_without_a_thinker)
{
    static const char on[] = "\"max_tokens\":2000,\"thinking\":{\"type\":\"enabled\","
                             "\"budget_tokens\":1024}";
    expect_ok(&messages_endpoint, on);
    expect_ok(&messages_endpoint, "\"thinking\":{\"type\":\"adaptive\"}");
    expect_error(&messages_endpoint, "\"thinking\":{\"type\":\"enabled\"}", 400,
                 "missing_required_parameter", "thinking.budget_tokens");
    expect_ok(&chat_endpoint, "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":9}");
    expect_ok(&responses_endpoint, "\"thinking\":{\"type\":\"enabled\"}");
}

// A body without 'model' means the only model of the endpoint's kind.
PLAIN_TEST(test_no_model)
{
    const struct endpoint *const all[] = {&chat_endpoint,       &completions_endpoint,
                                          &messages_endpoint,   &responses_endpoint,
                                          &embeddings_endpoint, &rerank_endpoint};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        expect_ok(all[i], "\"model\":null");
        expect_error(all[i], "\"model\":\"gpt-5\"", 404, "model_not_found", "model");
        expect_error(all[i], "\"model\":1", 400, "invalid_type", "model");
    }
    fake_begin(MODEL_GENERATOR);
    fake_models(2);
    fake_request("/v1/responses", "{\"input\":\"hi\"}");
    assert_int_equal(fake.status, 400);
    assert_non_null(strstr(fake.sent, "missing_required_parameter"));
    fake_end();
}

// An agent sends a system message in each turn to a template that takes one only at the front: the
// prompt of a turn begins with that of the turn before, so its blocks are cached.
PLAIN_TEST(test_prompts_grow_at_the_end)
{
    static const char *const turns[] = {
        "{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"system\",\"content\":\"9 left\"}",
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"f\","
        "\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
        "\"tool_use_id\":\"1\",\"content\":\"r\"}]},{\"role\":\"system\",\"content\":\"8 left\"}",
        "{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"7 left\"},"
        "{\"role\":\"user\",\"content\":\"v\"}",
    };
    char messages[4096] = "", body[8192], *before = strdup("");
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        snprintf(messages + strlen(messages), sizeof messages - strlen(messages), "%s%s",
                 i ? "," : "", turns[i]);
        fake_begin(MODEL_GENERATOR);
        fake_facts.max_model_len = 4000;
        fake_chat.system_inside = false;
        snprintf(body, sizeof body, "{\"system\":\"s\",\"messages\":[%s]}", messages);
        fake_request("/v1/messages", body);
        assert_int_equal(fake.submits, 1);
        char *prompt = fake_prompt(), *end = strstr(prompt, "[no-think]");
        *(end ? end : strrchr(prompt, '[')) = '\0'; // without the answer's beginning
        if (strncmp(prompt, before, strlen(before)) != 0)
            fail_msg("'%s' does not begin with '%s'", prompt, before);
        free(before);
        before = prompt;
        fake_gone();
        fake_end();
    }
    assert_string_equal(before, "[system]s[user]u\n9 left[assistant](f {})[tool]r[user]8 left"
                                "[assistant]a[user]7 left\nv");
    free(before);
}

// A template without tools: they are described in the system message, calls and results are text.
PLAIN_TEST(test_generic_calls)
{
    fake_begin(MODEL_GENERATOR);
    fake_facts.max_model_len = 4000;
    fake_dialect("none", "none");
    fake_generic_calls();
    fake_request("/v1/chat/completions",
                 "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"messages\":["
                 "{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"},"
                 "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":"
                 "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}},"
                 "{\"id\":\"2\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                 "\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"r\"},"
                 "{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":\"q\"}]}");
    prompt_is(
        "[system]You can call these tools:\n{\"name\":\"f\"}\nTo call a tool, answer only with "
        "JSON: {\"name\": NAME, \"arguments\": {...}}\n\ns[user]u"
        "[assistant]{\"name\":\"f\",\"arguments\":{\"a\":1}}\n{\"name\":\"f\",\"arguments\":{}}"
        "[user]Result of f: r\nResult of f: q[assistant]");
    fake_text("{\"name\": \"f\", \"arguments\": {\"a\": 2}}");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_non_null(strstr(fake.sent, "\"finish_reason\":\"tool_calls\""));
    assert_non_null(strstr(fake.sent, "{\\\"a\\\": 2}"));
    fake_end();
}

// --- custom tools on chat completions ---

#define CHAT "/v1/chat/completions"
#define CHAT_HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CHAT_FORMAT(syntax, definition)                                                            \
    "\"format\":{\"type\":\"grammar\",\"grammar\":{\"syntax\":\"" syntax                           \
    "\",\"definition\":\"" definition "\"}}"
#define CHAT_CUSTOM(name, more) "{\"type\":\"custom\",\"custom\":{\"name\":\"" name "\"," more "}}"
#define CHAT_TOOLS                                                                                 \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}," CHAT_CUSTOM(               \
        "patch", CHAT_FORMAT("lark", "start: x")) "]"
#define CHAT_BODY(more) CHAT, "{" CHAT_HI "," CHAT_TOOLS more "}"
#define CHAT_CALL(input)                                                                           \
    "\"type\":\"custom\",\"custom\":{\"name\":\"patch\",\"input\":\"" input "\"}}]"

static void hermes(void)
{
    fake_dialect("hermes", "none");
}

TEST(test_custom_tools_of_chat)
{
    static const struct api_case cases[] = {
        {"an answer", hermes, CHAT_BODY(""),
         .text = CALL("patch", "{\"input\": \"a\\n\\\"b\\\"\"}"), .finish = FINISH_STOP,
         .status = 200, .has = {"\"finish_reason\":\"tool_calls\"", CHAT_CALL("a\\n\\\"b\\\"")}},
        {"a stream", hermes, CHAT_BODY(",\"stream\":true"),
         .text = CALL("f", "{}") "\n" CALL("patch", "{\"input\": \"ab\"}"), .finish = FINISH_STOP,
         .status = 200,
         .has = {"{\"tool_calls\":[{\"index\":1,\"id\":\"call_", CHAT_CALL(""),
                 "{\"tool_calls\":[{\"index\":1,\"custom\":{\"input\":\"ab\"}}]"}},
        {"arguments without the string are text", hermes, CHAT_BODY(""),
         .text = CALL("patch", "{\"a\": 1}") "\n" CALL("f", "{}"), .finish = FINISH_STOP,
         .status = 200,
         .has = {"\"content\":\"patch {\\\"a\\\": 1}", "\"tool_calls\":[{\"id\":\"call_",
                 "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]"},
         .lacks = {"\"custom\""}},
        {"such a call in a stream", hermes, CHAT_BODY(",\"stream\":true"),
         .text = CALL("patch", "{\"a\": 1}") "\n" CALL("f", "{}"), .finish = FINISH_STOP,
         .status = 200, .has = {"\"content\":\"patch {\\\"a\\\": 1}", "\"index\":0,\"id\""},
         .lacks = {"\"custom\"", "\"index\":1"}},
        {"a limit", hermes, CHAT_BODY(""),
         .text = "<tool_call>{\"name\": \"patch\", \"arguments\": {\"input\": \"ab",
         .finish = FINISH_LENGTH, .status = 200,
         .has = {"\"finish_reason\":\"length\"", CHAT_CALL("")}},
    };
    API_CASES_RUN(cases);
}

TEST(test_custom_tools_of_chat_as_history)
{
    fake_request(CHAT,
                 "{" CHAT_TOOLS ",\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":"
                 "\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"custom\",\"custom\":"
                 "{\"name\":\"patch\",\"input\":\"i\"}}]},{\"role\":\"tool\",\"tool_call_id\":"
                 "\"1\",\"content\":\"o\"}]}");
    prompt_is("[user]u[assistant](patch {\"input\":\"i\"})[tool]o[tools f patch][assistant]");
    fake_gone();
}

// A regular expression is enforced; other grammars are text for the model.
PLAIN_TEST(test_custom_formats)
{
    static const struct {
        const char *path, *more, *has, *not;
    } cases[] = {
        {CHAT, CHAT_HI ",\"tools\":[" CHAT_CUSTOM("re", CHAT_FORMAT("regex", "a+|b")) "]",
         CALL("re", "{\"input\": \"aa\"}"), CALL("re", "{\"input\": \"ab\"}")},
        {PATH,
         HI ",\"tools\":[{\"type\":\"custom\",\"name\":\"re\",\"format\":{\"type\":\"grammar\","
            "\"syntax\":\"regex\",\"definition\":\"a+|b\"}}]",
         CALL("re", "{\"input\": \"b\"}"), CALL("re", "{\"input\": \"xa\"}")},
        {CHAT,
         CHAT_HI "," CHAT_TOOLS ",\"tool_choice\":{\"type\":\"custom\",\"custom\":{\"name\":"
                 "\"patch\"}}",
         CALL("patch", "{\"input\": \"any\"}"), CALL("f", "{}")},
        {CHAT,
         CHAT_HI "," CHAT_TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":"
                 "{\"mode\":\"required\",\"tools\":[{\"type\":\"custom\",\"custom\":{\"name\":"
                 "\"patch\"}}]}}",
         CALL("patch", "{\"input\": \"any\"}"), CALL("f", "{}")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[2048], text[256];
        fake_begin(MODEL_GENERATOR);
        fake_facts.max_model_len = 4000;
        fake_dialect("hermes", "none");
        snprintf(body, sizeof body, "{%s}", cases[i].more);
        fake_request(cases[i].path, body);
        if (fake.submits != 1)
            fail_msg("%s: %s", body, fake.sent);
        for (int k = 0; k < 2; k++) { // as the dialect writes calls, with line ends
            const char *call = k ? cases[i].not : cases[i].has;
            snprintf(text, sizeof text, "<tool_call>\n%.*s\n</tool_call>",
                     (int)(strlen(call) - strlen("<tool_call></tool_call>")),
                     call + strlen("<tool_call>"));
            if (fake_grammar_has(text) != (k == 0))
                fail_msg("%s: %s", body, text);
        }
        fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
    hermes();
    fake_request(CHAT,
                 "{" CHAT_HI ",\"tools\":[" CHAT_CUSTOM("re", CHAT_FORMAT("regex", "(?=a)b")) "]}");
    assert_int_equal(fake.status, 400);
    sent_has("tool 're'");
    fake_end();
    expect_error(&chat_endpoint, "\"tools\":[{\"type\":\"custom\"}]", 400,
                 "missing_required_parameter", "tools[0].custom");
    expect_error(&chat_endpoint, "\"tools\":[{\"type\":\"custom\",\"custom\":{}}]", 400,
                 "missing_required_parameter", "tools[0].custom.name");
    expect_error(&chat_endpoint,
                 "\"tools\":[" CHAT_CUSTOM("c", "\"format\":{\"type\":\"regex\"}") "]", 400,
                 "unsupported_value", "tools[0].custom.format.type");
}

// --- tools that Anthropic's servers run ---

#define MESSAGES_HOSTED                                                                            \
    "{\"type\":\"web_search_20250305\",\"name\":\"web_search\",\"max_uses\":8},"                   \
    "{\"type\":\"web_fetch_20250910\",\"name\":\"web_fetch\"},"                                    \
    "{\"type\":\"code_execution_20250825\",\"name\":\"code_execution\"},"                          \
    "{\"type\":\"tool_search_tool_regex_20251119\",\"name\":\"tool_search_tool_regex\"},"          \
    "{\"type\":\"mcp_toolset\",\"mcp_server_name\":\"s\"}"
#define MESSAGES_ALL "\"tools\":[" MESSAGES_HOSTED ",{\"name\":\"find\",\"input_schema\":{}}]"

TEST(test_hosted_tools_of_messages)
{
    fake_request("/v1/messages",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]," MESSAGES_ALL "}");
    prompt_is("[user]u[tools find][no-think][assistant]");
    fake_gone();
    fake_thinker("hermes");
    fake_request("/v1/messages",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],\"tools\":[" MESSAGES_HOSTED
                 "]}");
    prompt_is("[user]u[no-think][assistant]");
    fake_gone();
    fake_end();
    expect_error(&messages_endpoint,
                 MESSAGES_ALL ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"web_search\"}", 400,
                 NULL, "tool_choice.name");
    fake_begin(MODEL_GENERATOR);
}

// Blocks of such tools, in a history that another server wrote, are text.
TEST(test_blocks_of_hosted_tools)
{
    fake_request(
        "/v1/messages",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":["
        "{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":\"server_tool_use\",\"id\":\"s1\","
        "\"name\":\"web_search\",\"input\":{\"query\":\"q\"}},{\"type\":\"web_search_tool_result\","
        "\"tool_use_id\":\"s1\",\"content\":[{\"type\":\"web_search_result\",\"title\":\"t\","
        "\"encrypted_content\":\"AAAA\"}]}]},{\"role\":\"user\",\"content\":\"v\"}]}");
    prompt_is("[user]u[assistant]I look.\n"
              "{\"type\":\"server_tool_use\",\"name\":\"web_search\",\"input\":{\"query\":\"q\"}}\n"
              "{\"type\":\"web_search_tool_result\",\"content\":[{\"type\":\"web_search_result\","
              "\"title\":\"t\"}]}[user]v[no-think][assistant]");
    fake_gone();
}
