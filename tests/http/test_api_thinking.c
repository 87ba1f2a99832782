// SPDX-License-Identifier: Apache-2.0
// Thinking options of requests, against the doubles of exchange and port: template variables, the
// budget passed to the engine, refusals.
#include "api_cases.h"

#include "runtime/grammar/token_rules.h"

#define TEST(name) API_TEST(name, setup)
#define CHAT "/v1/chat/completions"
#define MESSAGES "/v1/messages"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static int setup(void **state)
{
    fake_setup_generator(state);
    fake_dialect("hermes", "think");
    fake_chat.by = "enable_thinking";
    return 0;
}

// Ends the request, checks for leaks and starts a new one.
static void again(void)
{
    if (fake.status == 0) {
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
    }
    fake_end();
    setup(NULL);
}

static void ask(const char *path, const char *more)
{
    char body[1024];
    snprintf(body, sizeof body, "{" HI "%s%s%s}",
             strcmp(path, MESSAGES) == 0 ? ",\"max_tokens\":150" : "", *more ? "," : "", more);
    fake_request(path, body);
}

static void refused(const char *path, const char *more, const char *param, const char *words)
{
    ask(path, more);
    assert_int_equal(fake.status, 400);
    if (!strstr(fake.sent, param) || !strstr(fake.sent, words))
        fail_msg("%s: %s", more, fake.sent);
    again();
}

// Expects the template's value of the variable in the prompt; "": none.
static void shown(const char *path, const char *by, uint32_t efforts, const char *variable,
                  const char *more, const char *value)
{
    char expected[128];
    fake_chat.by = by;
    fake_chat.efforts = efforts;
    fake_chat.shows = variable;
    ask(path, more);
    if (fake.status != 0)
        fail_msg("%s: %s", more, fake.sent);
    snprintf(expected, sizeof expected, "[user]hi%s[assistant]", value);
    char *prompt = fake_prompt();
    if (strcmp(prompt, expected) != 0)
        fail_msg("%s, %s: %s", by, more, prompt);
    free(prompt);
    again();
}

TEST(test_each_switch_is_set_by_its_own_name)
{
    static const struct {
        const char *by, *on, *off;
    } switches[] = {
        {"enable_thinking", "{true}", "{false}"},
        {"thinking", "{true}", "{false}"},
        {"thinking_mode", "{\"enabled\"}", "{\"disabled\"}"},
        {"reasoning", "{true}", "{false}"},
        {"reasoning_effort", "{\"high\"}", "{\"no_think\"}"},
        {"thinking_budget", "{-1}", "{0}"},
    };
    static const char *const off[] = {
        "\"reasoning_effort\":\"none\"", "\"thinking\":{\"type\":\"disabled\"}",
        "\"reasoning\":{\"enabled\":false}", "\"reasoning\":{\"effort\":\"none\"}",
        "\"chat_template_kwargs\":{\"enable_thinking\":false}"};
    static const char *const on[] = {
        "\"thinking\":{\"type\":\"enabled\"}", "\"thinking\":{\"type\":\"adaptive\"}",
        "\"reasoning\":{\"enabled\":true}", "\"chat_template_kwargs\":{\"enable_thinking\":true}"};
    for (size_t s = 0; s < sizeof switches / sizeof *switches; s++) {
        const char *by = switches[s].by;
        for (size_t i = 0; i < sizeof off / sizeof *off; i++)
            shown(CHAT, by, 0, by, off[i], switches[s].off);
        for (size_t i = 0; i < sizeof on / sizeof *on; i++)
            shown(CHAT, by, 0, by, on[i], switches[s].on);
        shown(CHAT, by, 0, by, "", "");
        shown(MESSAGES, by, 0, by, "", switches[s].off);
        shown(MESSAGES, by, 0, by, "\"thinking\":{\"type\":\"between_tools\"}", switches[s].off);
        shown(MESSAGES, by, 0, by, "\"thinking\":{\"type\":\"adaptive\"}", switches[s].on);
        shown(MESSAGES, by, 0, "enable_thinking", "\"thinking\":{\"type\":\"adaptive\"}", "{true}");
    }
    // The template's own variable has priority.
    shown(CHAT, "thinking", 0, "thinking",
          "\"chat_template_kwargs\":{\"enable_thinking\":false,\"thinking\":true}", "{true}");
}

TEST(test_efforts_are_those_that_the_template_takes)
{
    uint32_t two = 1u << EFFORT_LOW | 1u << EFFORT_HIGH;
    const char *effort = "reasoning_effort";
    shown(CHAT, effort, two, effort, "\"reasoning_effort\":\"minimal\"", "{\"low\"}");
    shown(CHAT, effort, two, effort, "\"reasoning_effort\":\"medium\"", "{\"high\"}");
    shown(CHAT, effort, two, effort, "\"reasoning\":{\"effort\":\"max\"}", "{\"high\"}");
    shown(CHAT, NULL, two, effort, "\"reasoning_effort\":\"xhigh\"", "{\"high\"}");
    shown(CHAT, NULL, 0, effort, "\"reasoning_effort\":\"xhigh\"", "{\"xhigh\"}");
    shown(CHAT, effort, two, effort,
          "\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"enable_thinking\":true}",
          "{\"low\"}");
    // In Messages an effort does not enable thinking.
    const char *low = "\"output_config\":{\"effort\":\"low\"}";
    shown(MESSAGES, effort, two, effort, low, "{\"no_think\"}");
    shown(MESSAGES, effort, two, effort,
          "\"thinking\":{\"type\":\"adaptive\"},\"output_config\":{\"effort\":\"low\"}",
          "{\"low\"}");
    shown(MESSAGES, "enable_thinking", two, effort, low, "{\"low\"}");
}

TEST(test_thinking_that_cannot_be_chosen)
{
    fake_chat.by = NULL;
    refused(CHAT, "\"reasoning_effort\":\"none\"", "\"param\":\"reasoning_effort\"", "cannot turn");
    fake_chat.by = NULL;
    refused(CHAT, "\"thinking\":{\"type\":\"disabled\"}", "\"param\":\"thinking.type\"",
            "thinking_token_budget 0");
    shown(CHAT, NULL, 0, "enable_thinking", "\"thinking\":{\"type\":\"enabled\"}", "{true}");
    shown(MESSAGES, NULL, 0, "enable_thinking", "\"thinking\":{\"type\":\"disabled\"}", "{false}");
    fake_dialect("hermes", "none");
    shown(CHAT, NULL, 0, "enable_thinking", "\"reasoning_effort\":\"none\"", "{false}");
    fake_dialect("hermes", "none");
    shown(CHAT, NULL, 0, "enable_thinking", "\"thinking\":{\"type\":\"adaptive\"}", "");
    fake_dialect("hermes", "none");
    fake_chat.by = NULL;
    refused(CHAT, "\"reasoning\":{\"enabled\":true}", "\"param\":\"reasoning.enabled\"",
            "cannot think");
    refused(CHAT, "\"thinking\":{\"type\":\"on\"}", "\"param\":\"thinking.type\"", "must be");
}

// One field enables thinking and another disables it: in either order, the error names both.
TEST(test_fields_that_ask_for_the_opposite)
{
    static const struct {
        const char *fields, *path; // path: as reported
    } on[] = {{"\"thinking\":{\"type\":\"enabled\"}", "thinking.type"},
              {"\"reasoning\":{\"enabled\":true}", "reasoning.enabled"},
              {"\"reasoning\":{\"effort\":\"low\"}", "reasoning.effort"},
              {"\"reasoning_effort\":\"max\"", "reasoning_effort"},
              {"\"chat_template_kwargs\":{\"enable_thinking\":true}",
               "chat_template_kwargs.enable_thinking"}},
      off[] = {{"\"thinking\":{\"type\":\"disabled\"}", "thinking.type"},
               {"\"reasoning\":{\"enabled\":false}", "reasoning.enabled"},
               {"\"reasoning\":{\"effort\":\"none\"}", "reasoning.effort"},
               {"\"reasoning_effort\":\"none\"", "reasoning_effort"},
               {"\"chat_template_kwargs\":{\"enable_thinking\":false}",
                "chat_template_kwargs.enable_thinking"}};
    char both[256];
    fake_chat.by = "enable_thinking";
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        for (size_t k = 0; k < sizeof off / sizeof *off; k++) {
            size_t same = strcspn(on[i].fields, ":");
            if (strncmp(on[i].fields, off[k].fields, same + 1) == 0)
                continue; // the same field
            snprintf(both, sizeof both, "%s,%s", on[i].fields, off[k].fields);
            refused(CHAT, both, on[i].path, "contradicts");
            refused(CHAT, both, off[k].path, "\"code\":\"invalid_value\"");
        }
    }
    refused(CHAT, "\"reasoning\":{\"enabled\":false,\"effort\":\"high\"}",
            "'reasoning.effort' contradicts 'reasoning.enabled'", "\"param\":\"reasoning.effort\"");
    fake_chat.by = "thinking";
    refused(CHAT, "\"reasoning_effort\":\"none\",\"chat_template_kwargs\":{\"thinking\":true}",
            "'chat_template_kwargs.thinking' contradicts", "reasoning_effort");
    refused(MESSAGES,
            "\"thinking\":{\"type\":\"disabled\"},\"chat_template_kwargs\":{\"enable_thinking\":"
            "true}",
            "chat_template_kwargs.enable_thinking", "contradicts 'thinking.type'");
    refused(MESSAGES,
            "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024},\"max_tokens\":2048,"
            "\"reasoning_effort\":\"none\"",
            "reasoning_effort", "contradicts 'thinking.type'");
    // A budget, a low effort and adaptive thinking neither enable nor disable it. A variable that
    // the template does not read contradicts nothing.
    const char
        *by = "enable_thinking",
        *off_kwargs =
            "\"reasoning_effort\":\"medium\",\"chat_template_kwargs\":{\"enable_thinking\":false}";
    shown(CHAT, by, 0, by, "\"thinking\":{\"type\":\"adaptive\"},\"reasoning_effort\":\"none\"",
          "{false}");
    refused(MESSAGES, "\"thinking\":{\"type\":\"adaptive\"},\"reasoning_effort\":\"none\"",
            "reasoning_effort", "contradicts 'thinking.type'");
    shown(
        MESSAGES, by, 0, by,
        "\"thinking\":{\"type\":\"adaptive\"},\"chat_template_kwargs\":{\"enable_thinking\":false}",
        "{false}");
    shown(CHAT, NULL, 0, by, off_kwargs, "{false}");
    shown(CHAT, by, 0, by, "\"reasoning_effort\":\"minimal\",\"reasoning\":{\"enabled\":false}",
          "{false}");
    shown(CHAT, by, 0, by, "\"thinking_token_budget\":5,\"reasoning_effort\":\"none\"", "{false}");
    shown(CHAT, by, 0, by, "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":0}", "{true}");
    shown(MESSAGES, by, 0, by, "\"chat_template_kwargs\":{\"enable_thinking\":true}", "{true}");
}

// A budget of 0 disables thinking, even if the model has no marker to end it.
TEST(test_a_budget_of_nothing_turns_thinking_off)
{
    static const char *const fields[] = {"\"thinking_token_budget\":0", "\"thinking_budget\":0",
                                         "\"thinking\":{\"budget_tokens\":0}",
                                         "\"reasoning\":{\"max_tokens\":0}"};
    const char *by = "enable_thinking";
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        fake_dialect("hermes", "none");
        shown(CHAT, NULL, 0, by, fields[i], "{false}");
        fake_dialect("hermes", "none");
        shown(CHAT, "thinking", 0, "thinking", fields[i], "{false}");
    }
    fake_dialect("hermes", "none");
    shown(CHAT, NULL, 0, by, "\"thinking_budget\":0,\"reasoning_effort\":\"medium\"", "{false}");
    fake_dialect("hermes", "none");
    shown(CHAT, NULL, 0, by,
          "\"reasoning_effort\":\"medium\",\"chat_template_kwargs\":{\"enable_thinking\":false}",
          "{false}");
    fake_dialect("hermes", "none");
    shown(CHAT, NULL, 0, by, "\"thinking_token_budget\":-1,\"thinking_budget\":0", "");
    fake_dialect("hermes", "none");
    refused(CHAT, "\"thinking_token_budget\":1,\"thinking_budget\":0",
            "\"param\":\"thinking_token_budget\"", "no markers");
}

// Returns the only token allowed after the answer so far, or -1.
static int32_t forced_after(const char *answer)
{
    const struct token_budget *budget = token_rules_budget(fake.rules);
    assert_non_null(budget);
    struct token_budget_place at = token_budget_start(budget);
    for (const char *c = answer; *c; c++)
        token_budget_next(budget, &at, text_span(c, 1));
    return token_budget_forced(budget, &at);
}

TEST(test_a_budget_reaches_the_engine)
{
    static const char *const fields[] = {
        "\"thinking_token_budget\":3",
        "\"thinking_budget_tokens\":3",
        "\"thinking_budget\":3",
        "\"thinking\":{\"budget_tokens\":3}",
        "\"reasoning\":{\"max_tokens\":3}",
        "\"thinking_token_budget\":3,\"thinking_budget\":9",
        "\"thinking_token_budget\":3,\"bad_words\":[\"</think>\",\"<\"]"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        ask(CHAT, fields[i]);
        assert_int_equal(fake.status, 0);
        assert_int_equal(token_rules_owners(fake.rules), 1);
        assert_int_equal(forced_after("<think>ab"), -1);
        assert_int_equal(forced_after("<think>abc"), 1000 + '<');
        assert_int_equal(forced_after("<think>abc</th"), 1000 + 'i');
        assert_int_equal(forced_after("abcdef"), -1);
        again();
    }
    static const char *const none[] = {
        "\"thinking_token_budget\":-1", "\"thinking_token_budget\":-1,\"thinking_budget\":9",
        "\"thinking_token_budget\":-1,\"reasoning\":{\"max_tokens\":9}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        ask(CHAT, none[i]);
        assert_null(fake.rules);
        again();
    }
    // Thoughts after a call count, too.
    ask(CHAT,
        "\"thinking_token_budget\":3,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
        "\"f\"}}]");
    assert_int_equal(
        forced_after("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
                     "<think>abc"),
        1000 + '<');
    again();
    fake_chat.opens = true; // the prompt opens the thought
    ask(CHAT, "\"thinking_token_budget\":0");
    assert_int_equal(forced_after(""), 1000 + '<');
    again();
    fake_facts.max_model_len = 4096;
    fake_request(MESSAGES, "{" HI ",\"max_tokens\":2000,\"thinking\":{\"type\":\"enabled\","
                           "\"budget_tokens\":1024}}");
    assert_int_equal(forced_after("<think>abc"), -1);
    assert_int_equal(token_rules_budget(fake.rules)->tokens_max, 1024);
    again();
    shown(CHAT, NULL, 0, "thinking_budget", "\"thinking_token_budget\":512", "{512}");
}

TEST(test_budgets_that_cannot_be)
{
    refused(CHAT, "\"thinking_token_budget\":-2", "\"param\":\"thinking_token_budget\"",
            "must be -1");
    refused(CHAT, "\"thinking_token_budget\":1.5", "\"param\":\"thinking_token_budget\"",
            "an integer");
    refused(CHAT, "\"thinking\":{\"budget_tokens\":\"1\"}", "\"param\":\"thinking.budget_tokens\"",
            "an integer");
    refused(CHAT, "\"reasoning\":{\"max_tokens\":-5}", "\"param\":\"reasoning.max_tokens\"",
            "must");
    fake_dialect("hermes", "none");
    refused(CHAT, "\"thinking_budget\":4", "\"param\":\"thinking_budget\"", "no markers");
}

// The continued message opens the thought, but its tokens do not count.
TEST(test_a_continued_thought_has_the_whole_budget)
{
    fake_request(CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
                       "{\"role\":\"assistant\",\"content\":\"<think>so far </th\"}],"
                       "\"continue_final_message\":true,\"add_generation_prompt\":false,"
                       "\"thinking_token_budget\":2}");
    assert_int_equal(fake.status, 0);
    assert_int_equal(forced_after("i"), -1);
    assert_int_equal(forced_after("ab"), 1000 + '<');
    assert_int_equal(forced_after("ink>abc"), -1);
    again();
}

// A prompt that opens a thought counts as such even if truncated.
TEST(test_a_cut_prompt_has_opened_reasoning)
{
    fake_chat.opens = true;
    ask(CHAT, "\"truncate_prompt_tokens\":3");
    assert_int_equal(fake.token_count, 3);
    fake_text("hm</think>Yes");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"content\":\"Yes\"");
    sent_has("\"reasoning_content\":\"hm\"");
}
