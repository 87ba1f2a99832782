// SPDX-License-Identifier: Apache-2.0
// Forced and strict tool calls: the grammar for each tool_choice, combinations with other fields,
// refusals with their path. Against the doubles of exchange and port; the grammars passed to the
// engine are checked byte by byte.
#include "api_cases.h"

#include "http/api/grammars.h"

#define TEST(name) API_TEST(name, setup)
#define PATH "/v1/chat/completions"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CITY                                                                                       \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"Oslo\",\"Rome\"]}},"               \
    "\"required\":[\"city\"],\"additionalProperties\":false}"
#define TOOL(name, more) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"" more "}}"
#define TOOLS "\"tools\":[" TOOL("f", ",\"parameters\":" CITY) "," TOOL("g", "") "],"
#define STRICT                                                                                     \
    "\"tools\":[" TOOL("f", ",\"strict\":true,\"parameters\":" CITY) "," TOOL(                     \
        "g", ",\"strict\":false") "]"
#define NAMED(name) "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define ALLOWED(mode, tools)                                                                       \
    "\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"" mode              \
    "\",\"tools\":[" tools "]}}"
#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"
#define OFF "\"chat_template_kwargs\":{\"enable_thinking\":false},"
#define F CALL("f", "{\"city\":\"Oslo\"}")
#define G CALL("g", "{}")

// Each test starts its own fake.
static int setup(void **state)
{
    (void)state;
    return 0;
}

static void ask(const char *more)
{
    char body[4096];
    fake_begin(MODEL_GENERATOR);
    fake_dialect("hermes", "think");
    snprintf(body, sizeof body, "{" HI ",%s}", more);
    fake_request(PATH, body);
}

TEST(test_each_choice_has_its_grammar)
{
    static const struct {
        const char *more, *has[5], *not[6];
    } cases[] = {
        {TOOLS "\"tool_choice\":\"required\"",
         {F, G, F "\n" G, "<think>\n<tool_call>\n</think>\n\n" G,
          CALL("f", "{\"city\": \"Rome\"}")},
         {"", "Hi", CALL("f", "{}"), CALL("g", "{\"a\":1}"), "<think>so</think>", F "Hi"}},
        {TOOLS NAMED("g"), {G}, {F, "Hi", G "\n" F, G "\n" G}},
        {TOOLS "\"parallel_tool_calls\":true," NAMED("g"), {G}, {G "\n" G}},
        {TOOLS "\"tool_choice\":\"required\"", {G "\n" G}, {""}},
        {TOOLS OFF NAMED("g"), {G}, {"<think>x</think>" G}},
        {TOOLS "\"parallel_tool_calls\":false,\"tool_choice\":\"required\"", {F}, {F "\n" G}},
        {TOOLS ALLOWED("required", TOOL("f", "")), {F}, {G, "Hi"}},
        {TOOLS ALLOWED("auto", TOOL("f", "")), {"Hi", "", "Hi " F}, {G, "Hi " G, "<tool_call>"}},
        {STRICT, {"Hi", F, "Hi\n" G}, {CALL("f", "{}"), F "Hi", CALL("g", "{\"a\":[1]}")}},
        {STRICT ",\"response_format\":{\"type\":\"json_object\"}",
         {"{\"a\":1}", F, "<think>x</think>\n{}"},
         {"Hi", "{} " F}},
        {TOOLS "\"response_format\":{\"type\":\"json_object\"}", {"{\"a\":1}", G}, {"Hi"}},
        {OFF "\"response_format\":{\"type\":\"json_object\"}",
         {"{\"a\":1}"},
         {"<think>x</think>{}", "<", "\n"}},
        {TOOLS OFF "\"structured_outputs\":{\"regex\":\"[^#]*\"}",
         {"Hi <think>", "<thin", G},
         {"<think>x", "<think>x</think>Hi"}},
        {TOOLS "\"tool_choice\":\"required\",\"response_format\":{\"type\":\"json_object\"}",
         {G},
         {"{}"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(cases[i].more);
        if (fake.submits != 1)
            fail_msg("%s: %s", cases[i].more, fake.sent);
        for (int k = 0; k < 5 && cases[i].has[k]; k++)
            if (!fake_grammar_has(cases[i].has[k]))
                fail_msg("%s: does not have %s", cases[i].more, cases[i].has[k]);
        for (int k = 0; k < 6 && cases[i].not[k]; k++)
            if (fake_grammar_has(cases[i].not[k]))
                fail_msg("%s: has %s", cases[i].more, cases[i].not[k]);
        fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

// Sends a request whose grammar must have one text and not another.
static void ask_for(const char *path, const char *body, const char *has, const char *lacks)
{
    fake_begin(MODEL_GENERATOR);
    fake_dialect("hermes", "think");
    fake_request(path, body);
    if (fake.submits != 1)
        fail_msg("%s: %s", body, fake.sent);
    if (!fake_grammar_has(has))
        fail_msg("%s: does not have %s", body, has);
    if (fake_grammar_has(lacks))
        fail_msg("%s: has %s", body, lacks);
    fake_gone();
    fake_end();
}

// On Responses, too, a named tool is called exactly once.
TEST(test_a_named_choice_of_responses_is_one_call)
{
#define FLAT "{\"type\":\"function\",\"name\":\"g\"}"
    static const char *const parallel[] = {"", "\"parallel_tool_calls\":true,",
                                           "\"parallel_tool_calls\":false,"};
    for (int i = 0; i < 3; i++) {
        char body[1024];
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"input\":\"hi\",%s\"tools\":[" FLAT "],\"tool_choice\":" FLAT
                 "}",
                 parallel[i]);
        ask_for("/v1/responses", body, G, G "\n" G);
    }
    fake_begin(MODEL_GENERATOR);
}

// Arguments have no members that the schema does not name: in forced and strict calls, and in any
// call of a function whose properties are {}.
TEST(test_arguments_that_the_schema_does_not_name)
{
#define OPEN "{\"type\":\"object\",\"properties\":{\"a\":{}}}"
#define WITH(more, parameters) "\"tools\":[" TOOL("f", more ",\"parameters\":" parameters) "]"
#define ASK(more) "{" HI "," more "}"
#define MUST ",\"tool_choice\":\"required\""
    static const struct {
        const char *body, *has, *lacks;
    } cases[] = {
        {ASK(WITH("", OPEN) MUST), CALL("f", "{\"a\":1}"), CALL("f", "{\"a\":1,\"b\":1}")},
        {ASK(WITH("", OPEN) "," NAMED("f")), CALL("f", "{}"), CALL("f", "{\"b\":1}")},
        {ASK(WITH(",\"strict\":true", OPEN)), CALL("f", "{\"a\":1}"), CALL("f", "{\"b\":1}")},
        {ASK(WITH("", "{\"type\":\"object\"}") MUST), CALL("f", "{}"), CALL("f", "{\"b\":1}")},
        {ASK(WITH("", "{\"type\":\"object\",\"properties\":{\"o\":{\"type\":\"object\"}}}") MUST),
         CALL("f", "{\"o\":{\"b\":1}}"), CALL("f", "{\"b\":1}")},
        {ASK(WITH(",\"strict\":true", "{\"properties\":{\"o\":{\"type\":\"object\"}}}")),
         CALL("f", "{\"o\":{}}"), CALL("f", "{\"o\":{\"b\":1}}")},
        {ASK("\"tools\":[" TOOL("f", ",\"strict\":true,\"parameters\":" OPEN) "," TOOL(
             "g", ",\"parameters\":{\"type\":\"object\",\"properties\":{}}") "]"),
         G, CALL("g", "{\"b\":1}")},
        {ASK("\"tools\":[" TOOL("f", ",\"strict\":true,\"parameters\":" OPEN) "," TOOL(
             "g", ",\"parameters\":" OPEN) "]"),
         CALL("g", "{\"b\":1,\"a\":1}"), CALL("g", "{\"a\":1,\"a\":1}")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ask_for(PATH, cases[i].body, cases[i].has, cases[i].lacks);
    fake_begin(MODEL_GENERATOR);
}

// Messages has its own names for these choices.
TEST(test_each_choice_of_messages)
{
#define INPUT(name, more) "{\"name\":\"" name "\",\"input_schema\":" CITY more "}"
    static const struct {
        const char *more, *has, *not;
    } cases[] = {
        {"\"tools\":[" INPUT("f", "") "],\"tool_choice\":{\"type\":\"any\"}", F "\n" F, "Hi"},
        {"\"tools\":[" INPUT("f", "") "," INPUT(
             "g", "") "],"
                      "\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\"}",
         F, CALL("g", "{\"city\":\"Oslo\"}")},
        {"\"tools\":[" INPUT(
             "f", "") "],"
                      "\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true}",
         F, F "\n" F},
        {"\"tools\":[" INPUT("f", ",\"strict\":true") "]", "Hi " F, CALL("f", "{}")},
        {"\"tools\":[{\"name\":\"f\",\"input_schema\":{\"properties\":{\"a\":{}}}}],"
         "\"tool_choice\":{\"type\":\"any\"}",
         CALL("f", "{\"a\":1}"), CALL("f", "{\"b\":1}")},
        {"\"tools\":[" INPUT("f", "") "],\"tool_choice\":{\"type\":\"any\"}", F,
         "<think>x</think>" F},
        {"\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":" CITY "}}",
         "{\"city\":\"Oslo\"}", "<think>x</think>{\"city\":\"Oslo\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[4096];
        fake_begin(MODEL_GENERATOR);
        fake_dialect("hermes", "think");
        snprintf(body, sizeof body, "{" HI ",\"max_tokens\":9,%s}", cases[i].more);
        fake_request("/v1/messages", body);
        if (fake.submits != 1)
            fail_msg("%s: %s", cases[i].more, fake.sent);
        assert_true(fake_grammar_has(cases[i].has));
        assert_false(fake_grammar_has(cases[i].not));
        fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

// If the template allows one call, the grammar allows only one, whichever field requests calls.
TEST(test_a_template_of_one_call_leaves_one_to_the_grammar)
{
    static const struct {
        const char *path, *more, *has;
    } cases[] = {
        {PATH, TOOLS "\"tool_choice\":\"required\"", ""},
        {PATH, TOOLS "\"parallel_tool_calls\":true,\"tool_choice\":\"required\"", ""},
        {PATH, STRICT, "Hi "},
        {"/v1/messages", "\"tools\":[" INPUT("f", "") "],\"tool_choice\":{\"type\":\"any\"}", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[4096];
        fake_begin(MODEL_GENERATOR);
        fake_dialect("hermes", "think");
        fake_one_call();
        snprintf(body, sizeof body, "{" HI ",\"max_tokens\":9,%s}", cases[i].more);
        fake_request(cases[i].path, body);
        if (fake.submits != 1)
            fail_msg("%s: %s", cases[i].more, fake.sent);
        snprintf(body, sizeof body, "%s" F, cases[i].has);
        assert_true(fake_grammar_has(body));
        snprintf(body, sizeof body, "%s" F "\n" F, cases[i].has);
        assert_false(fake_grammar_has(body));
        fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

// Nothing forced: no grammar.
TEST(test_free_calls_cost_nothing)
{
    static const char *const free_[] = {
        TOOLS "\"tool_choice\":\"auto\"", TOOLS "\"tool_choice\":\"none\"",
        STRICT ",\"tool_choice\":\"none\"", TOOLS "\"parallel_tool_calls\":false"};
    for (size_t i = 0; i < sizeof free_ / sizeof *free_; i++) {
        ask(free_[i]);
        assert_int_equal(fake.submits, 1);
        if (fake.grammar)
            fail_msg("%s has a grammar", free_[i]);
        fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

TEST(test_wrong_choices_name_their_path)
{
    static const struct {
        const char *more, *code, *param;
    } cases[] = {
        {"\"tool_choice\":\"required\"", "invalid_value", "tool_choice"},
        {"\"tools\":[]," NAMED("f"), "invalid_value", "tool_choice"},
        {TOOLS "\"tool_choice\":\"any\"", "invalid_value", "tool_choice"},
        {TOOLS "\"tool_choice\":true", "invalid_type", "tool_choice"},
        {TOOLS "\"tool_choice\":{}", "missing_required_parameter", "tool_choice.type"},
        {TOOLS "\"tool_choice\":{\"type\":7}", "invalid_type", "tool_choice.type"},
        {TOOLS "\"tool_choice\":{\"type\":\"mcp\"}", "unsupported_value", "tool_choice.type"},
        {TOOLS "\"tool_choice\":{\"type\":\"custom\"}", "missing_required_parameter",
         "tool_choice.custom"},
        {TOOLS "\"tool_choice\":{\"type\":\"function\"}", "missing_required_parameter",
         "tool_choice.function"},
        {TOOLS "\"tool_choice\":{\"type\":\"function\",\"function\":{}}",
         "missing_required_parameter", "tool_choice.function.name"},
        {TOOLS NAMED("h"), "invalid_value", "tool_choice.function.name"},
        {TOOLS NAMED("f\\u0000x"), "invalid_value", "tool_choice.function.name"},
        {TOOLS "\"tool_choice\":{\"type\":\"allowed_tools\"}", "missing_required_parameter",
         "tool_choice.allowed_tools"},
        {TOOLS "\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"tools\":[]}}",
         "missing_required_parameter", "tool_choice.allowed_tools.mode"},
        {TOOLS ALLOWED("all", ""), "invalid_value", "tool_choice.allowed_tools.mode"},
        {TOOLS ALLOWED("auto", ""), "invalid_value", "tool_choice.allowed_tools.tools"},
        {TOOLS ALLOWED("auto", "7"), "invalid_type", "tool_choice.allowed_tools.tools[0]"},
        {TOOLS ALLOWED("auto", "{\"type\":\"mcp\"}"), "unsupported_value",
         "tool_choice.allowed_tools.tools[0].type"},
        {TOOLS ALLOWED("auto", TOOL("f", "") "," TOOL("h", "")), "invalid_value",
         "tool_choice.allowed_tools.tools[1].function.name"},
        {"\"tools\":[" TOOL("f", ",\"strict\":1") "]", "invalid_type", "tools[0].function.strict"},
        {"\"tools\":[" TOOL("f",
                            ",\"parameters\":{\"type\":\"string\"}") "],"
                                                                     "\"tool_choice\":\"required\"",
         "invalid_value", "tools"},
        {"\"tools\":[" TOOL("f", ",\"strict\":true,\"parameters\":{\"properties\":{\"k\":"
                                 "{\"type\":\"array\",\"uniqueItems\":true}}}") "]",
         "unsupported_value", "tools"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(cases[i].more);
        json_t *whole = json_loads(fake.sent, 0, NULL), *error = json_object_get(whole, "error");
        const char *code = json_string_value(json_object_get(error, "code"));
        const char *param = json_string_value(json_object_get(error, "param"));
        if (fake.status != 400 || !code || !param || strcmp(code, cases[i].code) != 0 ||
            strcmp(param, cases[i].param) != 0)
            fail_msg("%s: %s", cases[i].more, fake.sent);
        json_decref(whole);
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

TEST(test_a_refused_schema_names_tool_and_keyword)
{
    ask("\"tools\":[" TOOL("weather",
                           ",\"parameters\":{\"properties\":{\"k\":"
                           "{\"type\":\"array\",\"uniqueItems\":true}}}") "]," NAMED("weather"));
    assert_int_equal(fake.status, 400);
    sent_has("tool 'weather'");
    sent_has("uniqueItems at #/properties/k");
}

// A forced call is returned like any other call.
TEST(test_a_forced_call_is_answered)
{
    ask(TOOLS NAMED("g"));
    fake_text(G);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_int_equal(fake.status, 200);
    sent_has("\"finish_reason\":\"tool_calls\"");
    sent_has("\"name\":\"g\",\"arguments\":\"{}\"");
}

// If max_tokens ends the only call, the finish reason is "length"; an engine error fails the
// request.
TEST(test_a_call_that_the_limit_cuts_is_no_end)
{
    for (int failed = 0; failed < 2; failed++) {
        ask(TOOLS "\"parallel_tool_calls\":false," NAMED("f"));
        fake_text("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"ci");
        fake_finish(failed ? FINISH_ERROR : FINISH_LENGTH, failed ? -1 : 't');
        fake_ready();
        assert_int_equal(fake.status, failed ? 500 : 200);
        assert_int_equal(strstr(fake.sent, "\"finish_reason\":\"length\"") != NULL, !failed);
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

// The start of a forced call is not content, and stop strings are not searched for in it.
TEST(test_a_head_that_the_limit_cuts_is_no_text)
{
    for (int stream = 0; stream < 2; stream++) {
        ask(stream ? TOOLS "\"stream\":true,\"stop\":[\"\\\"\"],\"tool_choice\":\"required\""
                   : TOOLS "\"stop\":[\"\\\"\"],\"tool_choice\":\"required\"");
        fake_text("<tool_call>\n{\"name\": \"f\", \"argu");
        fake_finish(FINISH_LENGTH, 't');
        fake_ready();
        assert_int_equal(fake.status, 200);
        sent_has("\"finish_reason\":\"length\"");
        sent_lacks("tool_call>");
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

// Returns a member of the response's message, or NULL. *sent: the complete response, to be freed.
static const char *message_member(json_t **sent, const char *name)
{
    *sent = json_loads(fake.sent, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(*sent, "choices"), 0);
    return json_string_value(json_object_get(json_object_get(choice, "message"), name));
}

// Markers inside text that a grammar constrains are part of the text.
TEST(test_marks_in_a_formed_text_are_text)
{
#define STRING                                                                                     \
    "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":"                   \
    "{\"type\":\"string\"}}}"
#define RECORD                                                                                     \
    "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{"                  \
    "\"properties\":{\"name\":{\"type\":\"string\"},\"parameters\":{\"type\":\"object\"}}}}}"
    static const struct {
        const char *dialect, *reasoning, *more, *text;
    } cases[] = {
        {"granite", "none", STRING, "\"a <response> b\""},
        {"granite", "none", "\"structured_outputs\":{\"regex\":\".*\"}",
         "<response>yes</response>"},
        {"qwen3-coder", "think", STRICT "," STRING,
         "\"see <tool_call><function=f></function></tool_call>\""},
        {"hermes", "think", STRICT "," STRING,
         "\"<tool_call>{\\\"name\\\": \\\"f\\\"}</tool_call>\""},
        {"llama-json", "none", STRICT "," RECORD, "{\"name\":\"f\",\"parameters\":{\"city\":7}}"},
        {"llama-json", "none", STRICT "," STRING, "\"{\""},
        {"hermes", "think", "\"structured_outputs\":{\"regex\":\" *x\"}", "  x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[4096];
        json_t *sent;
        fake_begin(MODEL_GENERATOR);
        fake_dialect(cases[i].dialect, cases[i].reasoning);
        snprintf(body, sizeof body, "{" HI ",%s}", cases[i].more);
        fake_request(PATH, body);
        if (fake.submits != 1)
            fail_msg("%s: %s", cases[i].more, fake.sent);
        if (!fake_grammar_has(cases[i].text))
            fail_msg("%s: does not have %s", cases[i].more, cases[i].text);
        fake_text(cases[i].text);
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        const char *content = message_member(&sent, "content");
        if (!content || strcmp(content, cases[i].text) != 0 || strstr(fake.sent, "tool_calls"))
            fail_msg("%s: %s", cases[i].text, fake.sent);
        json_decref(sent);
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

#define CONTINUED(text)                                                                            \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":"             \
    "\"assistant\","                                                                               \
    "\"content\":\"" text "\"}],\"continue_final_message\":true,\"add_generation_prompt\":false,"
#define OBJECT "\"response_format\":{\"type\":\"json_object\"}"

// The grammar starts in the state that the continued message has reached.
TEST(test_a_grammar_begins_where_the_continued_message_ends)
{
    static const struct {
        const char *dialect, *body, *has, *not;
    } cases[] = {
        {"hermes", CONTINUED("<think>Let me see") OBJECT "}", "so</think>\n\n{\"a\":1}",
         "{\"a\":1}"},
        {"hermes", CONTINUED("<think>Let me see") STRICT "}", "so</think>" F,
         "</think>" CALL("f", "{}")},
        {"hermes", CONTINUED("<think>so</think>\\n") OBJECT "}", "{\"a\":1}", "so"},
        {"hermes", CONTINUED("Well") STRICT "}", ", " F, CALL("f", "{}")},
        {"hermes", CONTINUED("Well ") STRICT "}", "<think>" CALL("f", "{\"city\":\"Oslo\"}"),
         "<think>" CALL("f", "{}")},
        {"llama-json", CONTINUED("Well: ") STRICT "}", "{\"name\": \"f\", \"parameters\": {}}",
         NULL},
        {"hermes", CONTINUED("[1, ") OBJECT "}", "{\"a\":1}", F},
        {"hermes",
         CONTINUED("<tool_call>\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {") STRICT "}", NULL,
         NULL},
        {"hermes", CONTINUED("<tool_") STRICT "}", NULL, NULL},
        {"hermes", CONTINUED("Hm <tool_call>") OBJECT "," TOOLS "\"n\":1}", "{\"a\":1}", F},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_begin(MODEL_GENERATOR);
        fake_dialect(cases[i].dialect, "think");
        fake_request(PATH, cases[i].body);
        if (cases[i].has && fake.submits != 1)
            fail_msg("%s: %s", cases[i].body, fake.sent);
        if (!cases[i].has && (fake.status != 400 || !strstr(fake.sent, "\"param\":\"messages\"")))
            fail_msg("%s: %s", cases[i].body, fake.sent);
        if (cases[i].has && !fake_grammar_has(cases[i].has))
            fail_msg("%s: does not have %s", cases[i].body, cases[i].has);
        if (cases[i].not&&fake_grammar_has(cases[i].not))
            fail_msg("%s: has %s", cases[i].body, cases[i].not);
        if (cases[i].has)
            fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

static void ask_watched(const char *dialect, const char *body)
{
    fake_begin(MODEL_GENERATOR);
    fake_dialect(dialect, "think");
    fake_watch();
    fake_request(PATH, body);
    if (fake.submits != 1)
        fail_msg("%s: %s", body, fake.sent);
}

// Under plain auto a grammar holds from the marker of a call on: of any call of the tools, with
// text and calls around it.
TEST(test_optional_calls_have_a_grammar)
{
    static const struct {
        const char *dialect, *more;
        bool watched; // false: the answer has no such grammar
        const char *has[6], *not[6];
    } cases[] = {
        {"hermes",
         TOOLS "\"n\":1",
         true,
         {"", "Hi", F, CALL("f", "{\"city\":[1]}"), "Hi\n" G "so\n" F "\nend <tool", F "\n" G},
         {"Hi <tool_call>", "<tool_call>\nno", CALL("h", "{}"), CALL("f", "[]"), F "<tool_call>\n",
          "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n"}},
        {"hermes",
         TOOLS "\"n\":1",
         true,
         {"<think>\n<tool_call>\nwhat", "<think><tool_call></think>\n" G, "a <think><tool_"},
         {"<think></think><tool_call>x", "a <think><tool_call>"}},
        {"hermes", TOOLS "\"parallel_tool_calls\":false", true, {"Hi " F}, {"<tool_call>x"}},
        {"hermes",
         WITH("", OPEN),
         true,
         {CALL("f", "{\"b\":1,\"a\":2}"), CALL("f", "{}")},
         {CALL("f", "{\"a\":1,\"b\":1,\"a\":1}")}},
        {"hermes",
         WITH("", "{\"type\":\"object\",\"properties\":{}}"),
         true,
         {CALL("f", "{}")},
         {CALL("f", "{\"b\":1}")}},
        {"hermes", STRICT, false, {"Hi"}, {F "Hi"}},
        {"hermes", TOOLS "\"tool_choice\":\"required\"", false, {F}, {"Hi"}},
        {"hermes", TOOLS ALLOWED("auto", TOOL("f", "")), false, {"Hi"}, {G}},
        {"hermes", TOOLS OBJECT, false, {"{}"}, {"Hi"}},
        {"glm",
         TOOLS "\"n\":1",
         true,
         {"Hi<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>.",
          "<tool_call>g\n</tool_call>\n<tool_call>g\n</tool_call>"},
         {"<tool_call>h\n</tool_call>", "<tool_call>f\ncity</arg_key>"}},
    };
    char body[4096];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body, "{" HI ",%s}", cases[i].more);
        ask_watched(cases[i].dialect, body);
        assert_int_equal(fake.watch_phase, cases[i].watched ? TOKEN_HEAD : TOKEN_UNWATCHED);
        for (int k = 0; k < 6 && cases[i].has[k]; k++)
            if (!fake_grammar_has(cases[i].has[k]))
                fail_msg("%s: does not have %s", cases[i].more, cases[i].has[k]);
        for (int k = 0; k < 6 && cases[i].not[k]; k++)
            if (fake_grammar_has(cases[i].not[k]))
                fail_msg("%s: has %s", cases[i].more, cases[i].not[k]);
        fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

// The phase is that of the prompt's end, or of the message that is continued. Inside a call there
// is no grammar, and none is needed if it would be refused otherwise.
TEST(test_where_optional_calls_begin)
{
    static const struct {
        const char *dialect, *body;
        enum token_phase phase;
    } cases[] = {
        {"hermes", CONTINUED("<think>Let me see") TOOLS "\"n\":1}", TOKEN_REASONING},
        {"hermes", CONTINUED("<think>so</think>") TOOLS "\"n\":1}", TOKEN_HEAD},
        {"hermes", CONTINUED("Well") TOOLS "\"n\":1}", TOKEN_TEXT},
        {"hermes", CONTINUED("<tool_call>\\n{\\\"name\\\": ") TOOLS "\"n\":1}", TOKEN_UNWATCHED},
        {"hermes", "{" HI ",\"tool_choice\":\"none\"," TOOLS "\"n\":1}", TOKEN_UNWATCHED},
        {"hermes", "{" HI "}", TOKEN_UNWATCHED},
        {"llama-json", "{" HI "," TOOLS "\"n\":1}", TOKEN_UNWATCHED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask_watched(cases[i].dialect, cases[i].body);
        if (fake.watch_phase != cases[i].phase)
            fail_msg("%s: phase %d", cases[i].body, (int)fake.watch_phase);
        assert_int_equal(fake.grammar != NULL, cases[i].phase != TOKEN_UNWATCHED);
        fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

// A stream of Messages sends optional calls when they have ended, because their grammar may be
// given up inside of one; forced calls are sent while they are written.
TEST(test_streams_of_messages_defer_optional_calls)
{
    static const char *const choices[] = {"", "\"tool_choice\":{\"type\":\"any\"},"};
    char body[2048];
    for (int forced = 0; forced < 2; forced++) {
        snprintf(body, sizeof body,
                 "{" HI ",\"max_tokens\":50,\"stream\":true,%s\"tools\":[{\"name\":\"f\","
                 "\"input_schema\":" CITY "}]}",
                 choices[forced]);
        fake_begin(MODEL_GENERATOR);
        fake_dialect("hermes", "think");
        fake_watch();
        fake_request("/v1/messages", body);
        assert_int_equal(fake.submits, 1);
        fake_text("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\":\"Os");
        fake_ready();
        if ((strstr(fake.sent, "\"type\":\"tool_use\"") != NULL) != forced)
            fail_msg("forced %d: %s", forced, fake.sent);
        fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

// Without memory for the grammar, or with a set of tools that no grammar can express, the request
// is served without it; one whose calls are forced is not.
TEST(test_optional_calls_refuse_no_request)
{
    static const char *const more[] = {TOOLS "\"n\":1", TOOLS "\"tool_choice\":\"required\""};
    char body[4096];
    for (int forced = 0; forced < 2; forced++) {
        fake_begin(MODEL_GENERATOR);
        fake_dialect("hermes", "think");
        fake_watch();
        fake_grammar_bytes(100);
        snprintf(body, sizeof body, "{" HI ",%s}", more[forced]);
        fake_request(PATH, body);
        assert_int_equal(fake.submits, !forced);
        assert_null(fake.grammar);
        assert_true(forced || fake.watch_phase == TOKEN_UNWATCHED);
        if (!forced)
            fake_gone();
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
}

static void expect_refused(const char *dialect, const char *more, const char *param,
                           const char *part)
{
    char *body = NULL;
    fake_begin(MODEL_GENERATOR);
    fake_dialect(dialect, "think");
    assert_true(asprintf(&body, "{" HI ",%s}", more) > 0);
    fake_request(PATH, body);
    json_t *whole = json_loads(fake.sent, 0, NULL), *error = json_object_get(whole, "error");
    const char *got = json_string_value(json_object_get(error, "param"));
    if (fake.status != 400 || !got || strcmp(got, param) != 0 || !strstr(fake.sent, part))
        fail_msg("%.500s: %s", more, fake.sent);
    json_decref(whole);
    free(body);
    fake_end();
}

// A grammar that matches no text is refused, not ignored; so is text that cannot be distinguished
// from a call.
TEST(test_forms_that_leave_nothing_are_refused)
{
    static const char *const nothing[] = {"[^\\\\s\\\\S]", "$a"};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        char more[512];
        snprintf(more, sizeof more, "\"structured_outputs\":{\"regex\":\"%s\"}", nothing[i]);
        expect_refused("hermes", more, "structured_outputs.regex", "no text at all matches");
        snprintf(more, sizeof more, TOOLS "\"structured_outputs\":{\"regex\":\"%s\"}", nothing[i]);
        expect_refused("hermes", more, "structured_outputs.regex", "no text at all matches");
    }
    expect_refused("hermes", "\"structured_outputs\":{\"choice\":[\"<think>\"]}",
                   "structured_outputs.choice", "begins like a call");
    expect_refused("hermes",
                   TOOLS
                   "\"structured_outputs\":{\"grammar\":\"root ::= [<>a-z_] root | \\\"(\\\" root "
                   "\\\")\\\" | \\\".\\\"\"}",
                   "structured_outputs.grammar", "may begin like a call");
    fake_begin(MODEL_GENERATOR);
}

// Errors of a tool's schema name the tools; errors of the response format name its field.
TEST(test_what_is_refused_has_its_own_path)
{
#define UNIQUE "{\"type\":\"array\",\"uniqueItems\":true}"
#define FORMAT(schema)                                                                             \
    "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":" schema "}}"
    expect_refused(
        "hermes",
        "\"tools\":[" TOOL("f", ",\"strict\":true,\"parameters\":{\"properties\":{\"k\":" UNIQUE
                                "}}") "]," FORMAT("{}"),
        "tools", "tool 'f'");
    expect_refused("hermes", STRICT "," FORMAT(UNIQUE), "response_format.json_schema.schema",
                   "uniqueItems");
    // A schema is not too long only because escaping lengthens its source text.
    enum { QUOTES = 300 * 1000 };
    char *quotes = malloc(2 * QUOTES + 1), *more = NULL;
    for (size_t i = 0; i < QUOTES; i++)
        memcpy(quotes + 2 * i, "\\\"", 2);
    quotes[2 * QUOTES] = 0;
    assert_true(asprintf(&more, "{" HI "," FORMAT("{\"description\":\"%s\"}") "}", quotes) > 0);
    fake_begin(MODEL_GENERATOR);
    fake_dialect("hermes", "think");
    fake_request(PATH, more);
    if (fake.submits != 1)
        fail_msg("%.300s", fake.sent);
    fake_gone();
    fake_end();
    free(more);
    free(quotes);
    fake_begin(MODEL_GENERATOR);
}

// Sends `count` entries in allowed_tools, all named f.
static void ask_allowed(uint32_t count)
{
    char *more = calloc(1, 400 + 80 * (size_t)count), *at = more;
    at +=
        sprintf(at, TOOLS "\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":"
                          "\"required\",\"tools\":[");
    for (uint32_t i = 0; i < count; i++)
        at += sprintf(at, "%s" TOOL("f", ""), i > 0 ? "," : "");
    char *body = calloc(1, 800 + 80 * (size_t)count);
    sprintf(body, "{" HI ",%s]}}}", more);
    fake_request(PATH, body);
    free(more);
    free(body);
}

// A function that is named repeatedly counts once; the list is no longer than the list of tools.
TEST(test_allowed_tools_are_bounded)
{
    fake_begin(MODEL_GENERATOR);
    fake_dialect("hermes", "think");
    ask_allowed(1);
    assert_int_equal(fake.submits, 1);
    fake_gone(); // frees its tools
    fake.gone = false;
    ask_allowed(128);
    assert_int_equal(fake.submits, 2);
    assert_int_equal(fake.compiles, 1); // one source
    fake_gone();
    fake_end();
    fake_begin(MODEL_GENERATOR);
    fake_dialect("hermes", "think");
    ask_allowed(129);
    assert_int_equal(fake.status, 400);
    sent_has("must have at most 128 tools, got 129");
    sent_has("\"param\":\"tool_choice.allowed_tools.tools\"");
}
