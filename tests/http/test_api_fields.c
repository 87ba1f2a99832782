// SPDX-License-Identifier: Apache-2.0
// Each field of the endpoints: wrong type, out of range, null, the neutral value, and the error's
// status, code and JSON path in `param`.
#include "api_cases.h"

#define TEST(name) API_TEST(name, NULL)

static const struct field_case cases[] = {
    {&chat_endpoint, "temperature", "in", {"0", "2", "1e0", "-0"}, {"-0.1", "2.1", "1e300"}},
    {&chat_endpoint, "top_p", "in", {"0", "1", "0.3"}, {"-0.1", "1.5"}},
    {&chat_endpoint,
     "top_k",
     "i",
     {"-1", "0", "7.0", "3000000000"},
     {"-2"}}, // no upper limit: all tokens
    {&chat_endpoint, "max_tokens", "i", {"1", "16.0", "1e2", "999999999999"}, {"0", "-5"}},
    {&chat_endpoint, "max_completion_tokens", "i", {"1", "4"}, {"0"}},
    {&chat_endpoint, "seed", "i", {"-1", "9007199254740993", "9223372036854775807"}, {NULL}},
    {&chat_endpoint, "stream", "b", {"false"}, {NULL}},
    {&chat_endpoint, "ignore_eos", "b", {"false"}, {NULL}},
    {&chat_endpoint, "continue_final_message", "b", {"false"}, {NULL}},
    {&chat_endpoint, "add_generation_prompt", "b", {"false"}, {NULL}},
    {&chat_endpoint,
     "stream_options",
     "o",
     {"{\"include_usage\":false,\"include_obfuscation\":true}"},
     {NULL}},
    {&chat_endpoint, "stop", "sa", {"\"\"", "[\"\"]", "[\"a\",\"b\"]"}, {NULL}},
    {&chat_endpoint, "user", "s", {"\"x\""}, {NULL}},
    {&messages_endpoint, "temperature", "in", {"0", "1"}, {"-0.1", "1.5"}},
    {&messages_endpoint, "top_p", "in", {"0", "1"}, {"1.5"}},
    {&messages_endpoint, "top_k", "i", {"0", "3"}, {"-1"}},
    {&messages_endpoint, "max_tokens", "i", {"1", "100000"}, {"0"}},
    {&messages_endpoint, "stream", "b", {"false"}, {NULL}},
    {&messages_endpoint, "stop_sequences", "a", {"[\"\"]", "[\"x\"]"}, {NULL}},
    {&messages_endpoint, "metadata", "o", {"{\"user_id\":null}"}, {NULL}},
    {&embeddings_endpoint, "encoding_format", "s", {"\"float\"", "\"base64\""}, {"\"hex\""}},
    {&embeddings_endpoint, "dimensions", "i", {"4"}, {"0", "5"}},
    {&embeddings_endpoint, "add_special_tokens", "b", {"false"}, {NULL}},
    {&embeddings_endpoint, "truncate", "b", {"false"}, {NULL}},
    {&embeddings_endpoint, "truncation_direction", "s", {"\"Left\"", "\"right\""}, {"\"up\""}},
    {&embeddings_endpoint, "truncation_side", "s", {"\"left\""}, {"\"Left\""}},
    {&embeddings_endpoint, "normalize", "b", {"false", "true"}, {NULL}},
    {&embeddings_endpoint, "normalized", "b", {"false"}, {NULL}},
    {&embeddings_endpoint, "embd_normalize", "i", {"-1", "2"}, {"-2"}},
    {&embeddings_endpoint, "prompt", "s", {"\"\"", "\"q: \""}, {NULL}},
    {&embeddings_endpoint, "prompt_name", "s", {NULL}, {"\"query\""}},
    {&embeddings_endpoint, "truncate_prompt_tokens", "i", {"-1", "2"}, {"0", "-2"}},
    {&rerank_endpoint, "top_n", "i", {"1", "2.0", "1000"}, {"0", "-1"}},
    {&rerank_endpoint, "return_documents", "b", {"false"}, {NULL}},
    {&rerank_endpoint, "raw_scores", "b", {"false"}, {NULL}},
    {&rerank_endpoint, "truncate", "b", {"false"}, {NULL}},
    {&rerank_endpoint, "top_k", "i", {"1", "1000"}, {"0"}},
    {&rerank_endpoint, "truncation", "b", {"false"}, {NULL}},
    {&rerank_endpoint, "truncation_direction", "s", {"\"left\""}, {"\"up\""}},
    {&rerank_endpoint, "truncation_side", "s", {"\"left\""}, {"\"up\""}},
    {&rerank_endpoint, "truncate_prompt_tokens", "i", {"-1", "50"}, {"0", "-2"}},
    {&rerank_endpoint, "activation", "b", {"true", "false"}, {NULL}},
    {&rerank_endpoint, "use_activation", "b", {"false"}, {NULL}},
    {&rerank_endpoint, "max_tokens_per_doc", "i", {"1", "100000"}, {"0"}},
};

TEST(test_matrix)
{
    cases_check(cases, sizeof cases / sizeof cases[0]);
}

TEST(test_required)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *names[3];
    } required[] = {
        {&chat_endpoint, {"messages"}},
        {&completions_endpoint, {"prompt"}},
        {&messages_endpoint, {"messages"}},
        {&embeddings_endpoint, {"input"}},
        {&rerank_endpoint, {"query", "documents"}},
    };
    char more[256];
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        for (int k = 0; k < 3 && required[i].names[k]; k++) {
            snprintf(more, sizeof more, "\"%s\":null", required[i].names[k]);
            expect_error(required[i].endpoint, more, 400, "missing_required_parameter",
                         required[i].names[k]);
            snprintf(more, sizeof more, "\"%s\":1", required[i].names[k]);
            expect_error(required[i].endpoint, more, 400, "invalid_type", required[i].names[k]);
        }
    }
}

// Known fields that change the result and are not supported are refused by name, except with the
// value that means "off".
TEST(test_refused)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *name, *off, *on;
    } refused[] = {
        {&chat_endpoint, "grammar", "null", "\"root ::= x\""},
        {&chat_endpoint, "json_schema", "null", "{}"},
        {&chat_endpoint, "n_predict", "-1", "5"},
        {&chat_endpoint, "enable_thinking", "null", "false"},
        {&chat_endpoint, "enable_thinking", "null", "true"},
        {&chat_endpoint, "documents", "[]", "[{}]"},
        {&chat_endpoint, "suffix", "null", "\"x\""},
        {&chat_endpoint, "system", "null", "\"x\""},
        {&chat_endpoint, "stop_sequences", "[]", "[\"x\"]"},
        {&chat_endpoint, "mirostat", "0", "2"},
        {&chat_endpoint, "n_probs", "0.0", "3"},
        {&chat_endpoint, "regex", "null", "\"a\""},
        {&chat_endpoint, "output_format", "null", "{}"},
        {&messages_endpoint, "guided_json", "null", "{}"},
        {&messages_endpoint, "guided_regex", "null", "\"a\""},
        {&messages_endpoint, "guided_choice", "null", "[\"a\"]"},
        {&messages_endpoint, "guided_grammar", "null", "\"a\""},
        {&messages_endpoint, "structured_outputs", "{}", "{\"regex\":\"a\"}"},
        {&messages_endpoint, "response_format", "{\"type\":\"text\"}",
         "{\"type\\u0000\":\"text\"}"},
        {&messages_endpoint, "bad_words", "[]", "[\"a\"]"},
        {&completions_endpoint, "include_reasoning", "true", "false"},
        {&messages_endpoint, "include_reasoning", "true", "false"},
        {&messages_endpoint, "truncate_prompt_tokens", "null", "5"},
        {&completions_endpoint, "thinking_token_budget", "null", "5"},
        {&messages_endpoint, "thinking_token_budget", "null", "5"},
        {&chat_endpoint, "chat_template", "null", "\"x\""},
        {&chat_endpoint, "priority", "0", "1"},
        {&chat_endpoint, "audio", "null", "{}"},
        {&chat_endpoint, "modalities", "[\"text\"]", "[\"text\",\"audio\"]"},
        {&chat_endpoint, "web_search_options", "null", "{}"},
        {&chat_endpoint, "moderation", "null", "{}"},
        {&chat_endpoint, "functions", "[]", "[{\"name\":\"f\"}]"},
        {&chat_endpoint, "function_call", "\"none\"", "{\"name\":\"f\"}"},
        {&chat_endpoint, "best_of", "1", "2"},
        {&chat_endpoint, "use_beam_search", "false", "true"},
        {&chat_endpoint, "echo", "false", "true"},
        {&chat_endpoint, "logits_processors", "[]", "[1]"},
        {&chat_endpoint, "return_token_ids", "false", "true"},
        {&messages_endpoint, "grammar", "null", "\"root ::= x\""},
        {&messages_endpoint, "allowed_token_ids", "null", "[1]"},
        {&messages_endpoint, "json_schema", "null", "{}"},
        {&messages_endpoint, "n_predict", "-1", "5"},
        {&messages_endpoint, "enable_thinking", "null", "true"},
        {&messages_endpoint, "min_p", "0", "0.5"},
        {&messages_endpoint, "logit_bias", "{}", "{\"5\":1}"},
        {&messages_endpoint, "presence_penalty", "0.0", "1"},
        {&messages_endpoint, "repetition_penalty", "1.0", "1.1"},
        {&messages_endpoint, "min_tokens", "0", "1"},
        {&messages_endpoint, "stop_token_ids", "[]", "[1]"},
        {&messages_endpoint, "include_stop_str_in_output", "false", "true"},
        {&messages_endpoint, "skip_special_tokens", "true", "false"},
        {&messages_endpoint, "reasoning_effort", "\"none\"", "\"high\""},
        {&embeddings_endpoint, "embed_dtype", "\"float32\"", "\"float16\""},
        {&embeddings_endpoint, "endianness", "\"little\"", "\"big\""},
        {&embeddings_endpoint, "use_activation", "true", "false"},
        {&completions_endpoint, "best_of", "1", "2"},
        {&completions_endpoint, "messages", "null", "[]"},
        {&completions_endpoint, "max_completion_tokens", "null", "5"},
        {&completions_endpoint, "top_logprobs", "0", "1"},
        {&completions_endpoint, "grammar", "null", "\"root ::= x\""},
        {&messages_endpoint, "stop", "[]", "[\"a\"]"},
        {&messages_endpoint, "container", "null", "\"x\""},
        {&messages_endpoint, "mcp_servers", "[]", "[{}]"},
        {&responses_endpoint, "system", "null", "\"x\""},
        {&responses_endpoint, "stop_sequences", "[]", "[\"x\"]"},
        {&responses_endpoint, "functions", "[]", "[{\"name\":\"f\"}]"},
        {&responses_endpoint, "function_call", "\"none\"", "{\"name\":\"f\"}"},
        {&responses_endpoint, "output_config", "{}", "{\"effort\":\"low\"}"},
        {&responses_endpoint, "json_schema", "null", "{}"},
        {&responses_endpoint, "n_predict", "-1", "5"},
        {&responses_endpoint, "suffix", "null", "\"x\""},
        {&responses_endpoint, "echo", "false", "true"},
        {&responses_endpoint, "context_management", "[]", "[{}]"},
        {&completions_endpoint, "enable_thinking", "null", "true"},
        {&messages_endpoint, "ebnf", "null", "\"a\""},
        {&embeddings_endpoint, "late_chunking", "false", "true"},
        {&embeddings_endpoint, "input_type", "null", "\"query\""},
        {&embeddings_endpoint, "output_dimension", "null", "64"},
        {&rerank_endpoint, "rank_fields", "[\"text\"]", "[\"title\"]"},
        {&rerank_endpoint, "softmax", "false", "true"},
    };
    char more[256];
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        snprintf(more, sizeof more, "\"%s\":%s", refused[i].name, refused[i].off);
        expect_ok(refused[i].endpoint, more);
        snprintf(more, sizeof more, "\"%s\":%s", refused[i].name, refused[i].on);
        expect_error(refused[i].endpoint, more, 400, "unsupported_parameter", refused[i].name);
    }
}

// Members of fields: the error gives the full path.
TEST(test_members)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *body, *code, *param; // code NULL: accepted
    } members[] = {
        {&chat_endpoint, "\"chat_template_kwargs\":{\"enable_thinking\":true}", NULL, NULL},
        {&chat_endpoint, "\"chat_template_kwargs\":{\"enable_thinking\":\"no\"}", "invalid_type",
         "chat_template_kwargs.enable_thinking"},
        {&chat_endpoint, "\"chat_template_kwargs\":{\"enable_thinking\":false,\"date\":\"x\"}",
         NULL, NULL},
        {&chat_endpoint, "\"chat_template_kwargs\":{\"messages\":[]}", "unsupported_parameter",
         "chat_template_kwargs.messages"},
        {&chat_endpoint, "\"chat_template_kwargs\":{\"add_generation_prompt\":false}",
         "unsupported_parameter", "chat_template_kwargs.add_generation_prompt"},
        {&chat_endpoint, "\"chat_template_kwargs\":[]", "invalid_type", "chat_template_kwargs"},
        {&chat_endpoint, "\"chat_template_kwargs\":{\"enable_thinking\":false,\"date\":null}", NULL,
         NULL},
        {&messages_endpoint, "\"chat_template_kwargs\":{\"a\":1}", NULL, NULL},
        {&messages_endpoint, "\"chat_template_kwargs\":{\"tools\":[]}", "unsupported_parameter",
         "chat_template_kwargs.tools"},
        {&chat_endpoint, "\"thinking\":{\"type\":\"disabled\"}", NULL, NULL},
        {&chat_endpoint, "\"thinking\":{\"type\":\"enabled\"}", NULL, NULL},
        {&chat_endpoint, "\"reasoning\":{\"effort\":\"low\"}", NULL, NULL},
        {&chat_endpoint, "\"reasoning\":{\"effort\":\"most\"}", "invalid_value",
         "reasoning.effort"},
        {&chat_endpoint, "\"reasoning\":{\"summary\":\"auto\"}", "unsupported_parameter",
         "reasoning.summary"},
        {&chat_endpoint, "\"thinking\":{\"display\":\"x\"}", "unsupported_parameter",
         "thinking.display"},
        {&responses_endpoint, "\"reasoning\":{\"enabled\":\"true\"}", "invalid_type",
         "reasoning.enabled"},
        {&responses_endpoint, "\"reasoning\":{\"max_tokens\":\"5\"}", "invalid_type",
         "reasoning.max_tokens"},
        {&responses_endpoint, "\"reasoning\":{\"effort\":\"low\",\"summary\":\"auto\"}", NULL,
         NULL},
        {&responses_endpoint, "\"thinking\":{\"type\":\"disabled\"}", NULL, NULL},
        {&responses_endpoint, "\"thinking\":5", "invalid_type", "thinking"},
        {&responses_endpoint, "\"thinking_budget\":\"5\"", "invalid_type", "thinking_budget"},
        {&responses_endpoint, "\"include_reasoning\":1", "invalid_type", "include_reasoning"},
        {&responses_endpoint, "\"verbosity\":\"low\"", NULL, NULL},
        {&chat_endpoint, "\"stream_options\":{\"include_obfuscation\":\"x\"}", "invalid_type",
         "stream_options.include_obfuscation"},
        {&messages_endpoint, "\"thinking\":{}", "missing_required_parameter", "thinking.type"},
        {&messages_endpoint, "\"thinking\":{\"type\":\"disabled\",\"budget_tokens\":\"x\"}",
         "invalid_type", "thinking.budget_tokens"},
        {&messages_endpoint, "\"metadata\":{\"user_id\":5}", "invalid_type", "metadata.user_id"},
        {&messages_endpoint, "\"tool_choice\":{\"type\":\"any\"}", "invalid_value", "tool_choice"},
        {&messages_endpoint,
         "\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}", NULL, NULL},
        {&messages_endpoint, "\"tool_choice\":\"auto\"", "invalid_type", "tool_choice"},
        {&messages_endpoint, "\"tool_choice\":{}", "missing_required_parameter",
         "tool_choice.type"},
        {&messages_endpoint, "\"tool_choice\":{\"type\":null}", "missing_required_parameter",
         "tool_choice.type"},
        {&messages_endpoint, "\"tool_choice\":null", NULL, NULL},
        {&messages_endpoint, "\"output_config\":{\"effort\":\"low\"}", NULL, NULL},
        {&messages_endpoint, "\"output_config\":{\"effort\":\"none\"}", "invalid_value",
         "output_config.effort"},
        {&messages_endpoint, "\"output_config\":{\"effort\":1}", "invalid_type",
         "output_config.effort"},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (members[i].code) {
            expect_error(members[i].endpoint, members[i].body, 400, members[i].code,
                         members[i].param);
        } else {
            expect_ok(members[i].endpoint, members[i].body);
        }
    }
}

// If a similar field is supported, the error names it.
TEST(test_hints)
{
    static const struct {
        const char *body, *hint;
    } hints[] = {
        {"\"suffix\":\"x\"", "use /v1/completions"},
        {"\"enable_thinking\":true", "use chat_template_kwargs"},
        {"\"n_predict\":5", "use max_tokens"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        request(&chat_endpoint, hints[i].body);
        if (!strstr(fake.sent, hints[i].hint))
            fail_msg("'%s' lacks '%s'", fake.sent, hints[i].hint);
        fake_end();
    }
}

// The types of refused and ignored fields are checked, too.
TEST(test_types)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *names; // joined by blanks
        const char *wrong;
    } typed[] = {
        {&chat_endpoint,
         "safety_identifier service_tier prompt_cache_key verbosity speed tool_choice "
         "guided_regex chat_template cache_salt reasoning_effort",
         "5"},
        {&chat_endpoint,
         "prediction diagnostics cache_control prompt_cache_options audio thinking "
         "web_search_options stream_options logit_bias",
         "\"text\""},
        {&chat_endpoint,
         "store parallel_tool_calls logprobs skip_special_tokens enable_thinking echo "
         "include_stop_str_in_output",
         "1"},
        {&chat_endpoint,
         "n top_logprobs min_tokens n_predict best_of priority truncate_prompt_tokens "
         "thinking_token_budget",
         "1.5"},
        {&chat_endpoint, "presence_penalty min_p repetition_penalty", "\"1\""},
        {&chat_endpoint, "tools functions stop_token_ids bad_words allowed_token_ids modalities",
         "{}"},
        {&messages_endpoint, "service_tier inference_geo grammar", "5"},
        {&messages_endpoint, "tools mcp_servers", "{}"},
        {&messages_endpoint, "cache_control diagnostics output_config context_management", "[]"},
        {&embeddings_endpoint, "user input_type task", "[]"},
        {&embeddings_endpoint, "normalize late_chunking store", "1"},
        {&rerank_endpoint, "user instruction", "5"},
        {&rerank_endpoint, "priority max_chunks_per_doc top_k", "\"5\""},
    };
    char name[64], more[256];
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++) {
        int n = 0;
        for (const char *at = typed[i].names; sscanf(at, "%63s%n", name, &n) == 1; at += n) {
            snprintf(more, sizeof more, "\"%s\":%s", name, typed[i].wrong);
            expect_error(typed[i].endpoint, more, 400, "invalid_type", name);
        }
    }
}

TEST(test_harmless)
{
    expect_ok(&chat_endpoint, "\"store\":true,\"service_tier\":\"auto\",\"prompt_cache_key\":\"k\","
                              "\"prediction\":{},\"verbosity\":\"low\",\"safety_identifier\":\"x\","
                              "\"parallel_tool_calls\":false,\"prompt_cache_retention\":\"24h\"");
    expect_ok(&messages_endpoint,
              "\"service_tier\":\"auto\",\"cache_control\":{},\"inference_geo\":\"us\","
              "\"speed\":\"fast\",\"diagnostics\":{}");
    expect_ok(&rerank_endpoint, "\"max_chunks_per_doc\":10,\"priority\":3,\"user\":\"u\"");
    expect_ok(&embeddings_endpoint, "\"user\":\"u\"");
}

TEST(test_model)
{
    static const struct endpoint wrong_kind[] = {
        {MODEL_EMBEDDER, "/v1/chat/completions", "\"model\":\"m\",\"messages\":[]"},
        {MODEL_RERANKER, "/v1/chat/completions", "\"model\":\"m\",\"messages\":[]"},
        {MODEL_GENERATOR, "/v1/embeddings", "\"model\":\"m\",\"input\":\"x\""},
        {MODEL_EMBEDDER, "/v1/rerank", "\"model\":\"m\",\"query\":\"x\",\"documents\":[]"},
    };
    static const char *const names[] = {"/v1/embeddings", "/v1/rerank", "/v1/chat/completions",
                                        "/v1/embeddings"};
    expect_error(&chat_endpoint, "\"model\":\"nope\"", 404, "model_not_found", "model");
    expect_error(&embeddings_endpoint, "\"model\":\"M\"", 404, "model_not_found", "model");
    expect_error(&rerank_endpoint, "\"model\":\"m \"", 404, "model_not_found", "model");
    for (int i = 0; i < 4; i++) {
        request(&wrong_kind[i], "");
        assert_int_equal(fake.status, 400);
        sent_has("\"code\":\"unsupported_model\"");
        sent_has(names[i]); // names the endpoint that serves this kind
        fake_end();
    }
    request(&messages_endpoint, "\"model\":\"nope\"");
    assert_int_equal(fake.status, 404);
    sent_has("\"type\":\"not_found_error\"");
    sent_has("\"message\":\"model: nope\"");
    fake_end();
}

TEST(test_bodies)
{
    static const struct {
        const char *body, *code;
    } bodies[] = {
        {"", "invalid_json"},
        {"{", "invalid_json"},
        {"{} x", "invalid_json"},
        {"{\"model\":01}", "invalid_json"},
        {"{\"a\":NaN}", "invalid_json"},
        {"{\"a\":1e400}", "invalid_json"},
        {"\xFF", "invalid_json"},
        {"[]", "invalid_type"},
        {"\"x\"", "invalid_type"},
        {"null", "invalid_type"},
        {"\xEF\xBB\xBF{}", "missing_required_parameter"}, // one BOM is skipped
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        fake_begin(MODEL_GENERATOR);
        fake_request("/v1/chat/completions", bodies[i].body);
        assert_int_equal(fake.status, 400);
        if (!strstr(fake.sent, bodies[i].code))
            fail_msg("%s: %s", bodies[i].body, fake.sent);
        fake_end();
    }
}

TEST(test_stops)
{
    char more[1024] = "\"stop\":[";
    for (int i = 0; i < 17; i++)
        strcat(more, i ? ",\"a\"" : "\"a\"");
    strcat(more, "]");
    expect_error(&chat_endpoint, more, 400, "invalid_value", "stop");
    snprintf(more, sizeof more, "\"stop\":\"%0257d\"", 0);
    expect_error(&chat_endpoint, more, 400, "invalid_value", "stop");
    expect_error(&chat_endpoint, "\"stop\":[\"a\",5]", 400, "invalid_type", "stop[1]");
    expect_error(&messages_endpoint, "\"stop_sequences\":[\"a\",5]", 400, "invalid_type",
                 "stop_sequences.1");
    expect_error(&chat_endpoint, "\"stream_options\":{\"include_usage\":1}", 400, "invalid_type",
                 "stream_options.include_usage");
}

TEST(test_chat_messages)
{
    static const struct {
        const char *value, *code, *param;
    } wrong[] = {
        {"[]", "invalid_value", "messages"},
        {"\"hi\"", "invalid_type", "messages"},
        {"[5]", "invalid_type", "messages[0]"},
        {"[{}]", "missing_required_parameter", "messages[0].role"},
        {"[{\"role\":5}]", "invalid_type", "messages[0].role"},
        {"[{\"role\":\"Assistant\",\"content\":\"x\"}]", "invalid_value", "messages[0].role"},
        {"[{\"role\":\"function\",\"content\":\"x\"}]", "invalid_value", "messages[0].role"},
        {"[{\"role\":\"user\"}]", "missing_required_parameter", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":null}]", "missing_required_parameter",
         "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":5}]", "invalid_type", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[\"x\"]}]", "invalid_type", "messages[0].content[0]"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "missing_required_parameter",
         "messages[0].content[0].text"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"odd\"}]}"
         "]",
         "invalid_value", "messages[0].content[1].type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]",
         "unsupported_content_type", "messages[0].content[0].type"},
        {"[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\",\"content\":\"b\"}]",
         "missing_required_parameter", "messages[1].tool_call_id"},
        {"[{\"role\":\"assistant\",\"tool_calls\":5}]", "invalid_type", "messages[0].tool_calls"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"function\":{}}]}]",
         "missing_required_parameter", "messages[0].tool_calls[0].function.name"},
        {"[{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\"}}]", "unsupported_parameter",
         "messages[0].function_call"},
        {"[{\"role\":\"user\",\"content\":\"a\",\"name\":5}]", "invalid_type", "messages[0].name"},
        {"[{\"role\":\"user\",\"content\":\"a\",\"reasoning_content\":5}]", "invalid_type",
         "messages[0].reasoning_content"},
        {"[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":[]}]", "invalid_type",
         "messages[0].reasoning"},
        {"[{\"role\":\"assistant\",\"content\":\"a\",\"prefix\":1}]", "invalid_type",
         "messages[0].prefix"},
        {"[{\"role\":\"assistant\",\"content\":\"a\",\"partial\":true}]", "unsupported_parameter",
         "messages[0].partial"},
        {"[{\"role\":\"assistant\",\"content\":\"a\",\"refusal\":{}}]", "invalid_type",
         "messages[0].refusal"},
        {"[{\"role\":\"assistant\",\"content\":\"a\",\"audio\":{\"id\":\"x\"}}]",
         "unsupported_parameter", "messages[0].audio"},
        {"[{\"role\":\"system\",\"content\":\"a\",\"annotations\":\"x\"}]", "invalid_type",
         "messages[0].annotations"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":1}]"
         "}]",
         "invalid_type", "messages[0].content[0].cache_control"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":5,\"function\":{\"name\":\"f\"}}]}]",
         "invalid_type", "messages[0].tool_calls[0].id"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"function\":\"f\"}]}]",
         "invalid_type", "messages[0].tool_calls[0].function"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\","
         "\"arguments\":[]}}]}]",
         "invalid_type", "messages[0].tool_calls[0].function.arguments"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"index\":\"0\",\"function\":"
         "{\"name\":\"f\"}}]}]",
         "invalid_type", "messages[0].tool_calls[0].index"},
        {"[{\"role\":\"user\",\"content\":[{}]}]", "missing_required_parameter",
         "messages[0].content[0].type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":5}]}]", "invalid_type",
         "messages[0].content[0].type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":5}]}]", "invalid_type",
         "messages[0].content[0].text"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}]",
         "invalid_value", "messages[0].content[0].type"},
        {"[{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\"}]}]",
         "missing_required_parameter", "messages[0].content[0].refusal"},
        {"[{\"role\":\"assistant\",\"content\":{\"type\":\"text\"}}]", "invalid_type",
         "messages[0].content"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[\"f\"]}]", "invalid_type",
         "messages[0].tool_calls[0]"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"mcp\",\"function\":{"
         "\"name\":\"f\"}}]}]",
         "invalid_value", "messages[0].tool_calls[0].type"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"custom\",\"function\":{"
         "\"name\":\"f\"}}]}]",
         "missing_required_parameter", "messages[0].tool_calls[0].custom"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}]",
         "missing_required_parameter", "messages[0].tool_calls[0].id"},
        {"[{\"role\":\"user\",\"content\":\"a\"},7]", "invalid_type", "messages[1]"},
    };
    char more[512];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(more, sizeof more, "\"messages\":%s", wrong[i].value);
        expect_error(&chat_endpoint, more, 400, wrong[i].code, wrong[i].param);
    }
}

// An unknown field is ignored and counted.
TEST(test_unknown)
{
    request(&chat_endpoint, "\"zebra\":1,\"yak\":{}");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 2);
    fake_end();
    request(&chat_endpoint,
            "\"a, b\":1,\"stream_options\":{\"x\":1},\"messages\":[{\"role\":\"user\","
            "\"content\":[{\"type\":\"text\",\"text\":\"hi\",\"y\":{}}],\"z\":5}]");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 4);
    fake_end();
    request(&messages_endpoint,
            "\"n\":2,\"logprobs\":true,\"messages\":[{\"role\":\"user\",\"content\":"
            "[{\"type\":\"text\",\"text\":\"hi\",\"y\":{}}],\"z\":5}]");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 4);
    fake_end();
    request(&chat_endpoint,
            "\"tools\":[{\"type\":\"function\",\"x\":1,\"function\":{\"name\":\"f\",\"y\":1}}]");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 2);
    fake_gone(); // frees the tools
    fake_end();
    expect_error(&chat_endpoint, "\"suffix\":\"x\"", 400, "unsupported_parameter", "suffix");
    // the vocabulary has no fill-in-the-middle tokens
    expect_error(&completions_endpoint, "\"suffix\":\"x\"", 400, "unsupported_value", "suffix");
    expect_error(&completions_endpoint, "\"suffix\":5", 400, "invalid_type", "suffix");
}

// Blocks of Messages.
TEST(test_blocks)
{
    static const struct {
        const char *content, *param;
    } blocks[] = {
        {"[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":5}]",
         "messages.0.content.0.cache_control"},
        {"[{\"type\":\"text\",\"text\":\"a\",\"citations\":\"x\"}]",
         "messages.0.content.0.citations"},
        {"[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"is_error\":1}]",
         "messages.0.content.0.is_error"},
    };
    char more[512];
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        snprintf(more, sizeof more, "\"messages\":[{\"role\":\"user\",\"content\":%s}]",
                 blocks[i].content);
        expect_error(&messages_endpoint, more, 400, "invalid_type", blocks[i].param);
    }
    expect_error(&messages_endpoint,
                 "\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                 "\"content\":[{\"type\":\"thinking\",\"thinking\":\"a\",\"signature\":5}]}]",
                 400, "invalid_type", "messages.1.content.0.signature");
    expect_error(&messages_endpoint,
                 "\"system\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":[]}]", 400,
                 "invalid_type", "system.0.cache_control");
    static const struct {
        const char *more, *code, *param;
    } wrong[] = {
        {"\"messages\":[]", "invalid_value", "messages"},
        {"\"messages\":[\"a\"]", "invalid_type", "messages.0"},
        {"\"messages\":[{\"role\":\"tool\",\"content\":\"a\"}]", "invalid_value",
         "messages.0.role"},
        {"\"messages\":[{\"role\":\"user\"}]", "missing_required_parameter", "messages.0.content"},
        {"\"messages\":[{\"role\":\"user\",\"content\":5}]", "invalid_type", "messages.0.content"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]", "invalid_type",
         "messages.0.content.0"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}]",
         "missing_required_parameter", "messages.0.content.0.type"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]",
         "missing_required_parameter", "messages.0.content.0.text"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"a\",\"content\":5}]}]",
         "invalid_type", "messages.0.content.0.content"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"a\",\"content\":[\"b\"]}]}]",
         "invalid_type", "messages.0.content.0.content.0"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"content\":"
         "\"b\"}]}]",
         "missing_required_parameter", "messages.0.content.0.tool_use_id"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\","
         "\"name\":\"f\",\"input\":{}}]}]",
         "unsupported_content_type", "messages.0.content.0"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":["
         "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\"}]}]",
         "missing_required_parameter", "messages.1.content.0.input"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":["
         "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":[]}]}]",
         "invalid_type", "messages.1.content.0.input"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":["
         "{\"type\":\"tool_use\",\"id\":\"a\",\"input\":{}}]}]",
         "missing_required_parameter", "messages.1.content.0.name"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":["
         "{\"type\":\"tool_result\",\"tool_use_id\":\"a\"}]}]",
         "unsupported_content_type", "messages.1.content.0"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":["
         "{\"type\":\"image\",\"source\":{}}]}]",
         "unsupported_content_type", "messages.1.content.0"},
        {"\"system\":5", "invalid_type", "system"},
        {"\"system\":[\"a\"]", "invalid_type", "system.0"},
        {"\"system\":[{\"type\":\"image\"}]", "unsupported_content_type", "system.0"},
        {"\"system\":[{\"type\":\"text\"}]", "missing_required_parameter", "system.0.text"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_error(&messages_endpoint, wrong[i].more, 400, wrong[i].code, wrong[i].param);
}

// Names quoted in errors are cut at a character boundary: the response is valid JSON.
TEST(test_long_names)
{
    char more[512] = "\"logit_bias\":{\"";
    for (int i = 0; i < 60; i++)
        strcat(more, "\xE2\x82\xAC");
    strcat(more, "\":1}");
    request(&chat_endpoint, more);
    assert_int_equal(fake.status, 400);
    json_t *body = fake_json();
    assert_non_null(body);
    json_decref(body);
    fake_end();
}

// The key and the deadline of a request reach the engine.
TEST(test_key_and_deadline)
{
    static const struct endpoint *const all[] = {&chat_endpoint, &messages_endpoint,
                                                 &embeddings_endpoint, &rerank_endpoint};
    char body[512];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        fake_begin(all[i]->kind);
        fake.info.key_id = 7;
        fake.info.deadline_ns = 5000;
        snprintf(body, sizeof body, "{%s}", all[i]->base);
        fake_request(all[i]->path, body);
        assert_int_equal(fake.submits, 1);
        assert_int_equal(fake.key_id, 7);
        assert_int_equal(fake.deadline_ns, 5000);
        fake_end();
    }
}

// A request owns its cached blocks if the model keeps the blocks of API keys apart. Owner 0 means
// that a request has no owner, so no key has it.
TEST(test_owner_of_cached_blocks)
{
    static const struct endpoint *const all[] = {&chat_endpoint,       &completions_endpoint,
                                                 &messages_endpoint,   &responses_endpoint,
                                                 &embeddings_endpoint, &rerank_endpoint};
    static const uint32_t keys[] = {0, 7, KEY_NONE};
    char body[512];
    for (size_t i = 0; i < 6 * sizeof all / sizeof all[0]; i++) {
        const struct endpoint *e = all[i / 6];
        fake_begin(e->kind);
        fake.info.key_id = keys[i % 3];
        ((struct served_model *)fake.info.served->models)->cache_by_key = i % 6 >= 3;
        snprintf(body, sizeof body, "{%s}", e->base);
        fake_request(e->path, body);
        assert_int_equal(fake.submits, 1);
        assert_int_equal(fake.cache_owner, i % 6 >= 3 ? (uint64_t)keys[i % 3] + 1 : 0);
        fake_end();
    }
}

// A large body need not contain many values: the content of strings does not count.
TEST(test_values_in_strings)
{
    enum { PARTS = 4200, COMMAS = 1024 };
    char *body = malloc(PARTS * (COMMAS + 2) + 256);
    size_t bytes = (size_t)sprintf(body, "{%s,\"user\":\"", chat_endpoint.base);
    for (int i = 0; i < PARTS; i++) {
        memcpy(body + bytes, "\\\"", 2);
        memset(body + bytes + 2, ',', COMMAS);
        bytes += COMMAS + 2;
    }
    memcpy(body + bytes, "\"}", 3);
    fake_begin(MODEL_GENERATOR);
    fake_request("/v1/chat/completions", body);
    assert_int_equal(fake.status, 0);
    assert_int_equal(fake.submits, 1);
    fake_end();
    free(body);
}

TEST(test_an_integer_that_is_too_large)
{
    static const struct {
        const char *number, *sentence;
    } rows[] = {
        {"1e30", "'seed' must be an integer of at most 63 bits"},
        {"1180591620717411303424", "'seed' must be an integer of at most 63 bits"},
        {"-1e19", "'seed' must be an integer of at most 63 bits"},
        {"1e16", "'seed' is too large to be read exactly: write it without"},
        {"9007199254740993.0", "'seed' is too large to be read exactly: write it without"},
        {"1.5", "'seed' must be an integer\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[200];
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                 "\"seed\":%s}",
                 rows[i].number);
        fake_begin(MODEL_GENERATOR);
        fake_request("/v1/chat/completions", body);
        assert_int_equal(fake.status, 400);
        sent_has(rows[i].sentence);
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
    fake_request("/v1/chat/completions",
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                 "\"seed\":9007199254740993,\"x\":99999999999999999999}");
    assert_int_equal(fake.submits, 1);
    assert_true(fake.sampling.seed == 9007199254740993u);
    fake_end();
}
