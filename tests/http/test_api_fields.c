// Every field of the four endpoints: wrong type, out of range, null, the harmless value, and what
// the error says: status, code and the JSON path in `param`.
#include "api_fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct endpoint {
    enum model_kind kind;
    const char *path;
    const char *base; // fields without which no request is whole
};

static const struct endpoint chat = {
    MODEL_GENERATOR, "/v1/chat/completions",
    "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"};
static const struct endpoint messages = {
    MODEL_GENERATOR, "/v1/messages",
    "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"};
static const struct endpoint embeddings = {MODEL_EMBEDDER, "/v1/embeddings",
                                           "\"model\":\"m\",\"input\":\"hi\""};
static const struct endpoint rerank = {MODEL_RERANKER, "/v1/rerank",
                                       "\"model\":\"m\",\"query\":\"q\",\"documents\":[\"d\"]"};

static void request(const struct endpoint *e, const char *more)
{
    char body[2048];

    fake_begin(e->kind);
    // Duplicate keys: the last one wins, so a case may replace a field of the base.
    snprintf(body, sizeof body, "{%s%s%s}", e->base, *more ? "," : "", more);
    fake_request(e->path, body);
}

static void expect_ok(const struct endpoint *e, const char *more)
{
    request(e, more);
    if (fake.submits != 1)
        fail_msg("%s {%s}: %s", e->path, more, fake.sent);
    fake_end();
}

static void expect_error(const struct endpoint *e, const char *more, int status, const char *code,
                         const char *param)
{
    request(e, more);
    if (fake.status != status || fake.submits != 0)
        fail_msg("%s {%s}: status %d, %s", e->path, more, fake.status, fake.sent);
    json_t *body = fake_json();
    const json_t *error = json_object_get(body, "error");
    const char *says_code = json_string_value(json_object_get(error, "code"));
    const char *says_param = json_string_value(json_object_get(error, "param"));
    if (e != &messages && (!says_code || strcmp(says_code, code) != 0 || !says_param ||
                           strcmp(says_param, param) != 0)) {
        fail_msg("%s {%s}: wants %s %s, got %s", e->path, more, code, param, fake.sent);
    }
    // OpenAI: 'field' ...; Messages: field: ...
    const char *message = json_string_value(json_object_get(error, "message"));
    if (e == &messages && strncmp(message, param, strlen(param)) != 0)
        fail_msg("%s {%s}: %s", e->path, more, message);
    json_decref(body);
    fake_end();
}

// The value that stands for each JSON type.
static const struct {
    char type;
    const char *value;
} values[] = {
    {'b', "true"}, {'i', "1"}, {'n', "0.5"}, {'s', "\"text\""}, {'a', "[]"}, {'o', "{}"},
};

struct field_case {
    const struct endpoint *endpoint;
    const char *name;
    const char *types; // that it takes: letters of `values`
    const char *good[4];
    const char *bad[5]; // right type, wrong value
};

static const struct field_case cases[] = {
    {&chat, "temperature", "in", {"0", "2", "1e0", "-0"}, {"-0.1", "2.1", "1e300"}},
    {&chat, "top_p", "in", {"0", "1", "0.3"}, {"-0.1", "1.5"}},
    {&chat, "top_k", "i", {"-1", "0", "7.0", "3000000000"}, {"-2"}}, // no upper bound: all tokens
    {&chat, "max_tokens", "i", {"1", "16.0", "1e2", "999999999999"}, {"0", "-5"}},
    {&chat, "max_completion_tokens", "i", {"1", "4"}, {"0"}},
    {&chat, "seed", "i", {"-1", "9007199254740993", "9223372036854775807"}, {NULL}},
    {&chat, "stream", "b", {"false"}, {NULL}},
    {&chat, "ignore_eos", "b", {"false"}, {NULL}},
    {&chat, "continue_final_message", "b", {"false"}, {NULL}},
    {&chat, "add_generation_prompt", "b", {"false"}, {NULL}},
    {&chat,
     "stream_options",
     "o",
     {"{\"include_usage\":false,\"include_obfuscation\":true}"},
     {NULL}},
    {&chat, "stop", "sa", {"\"\"", "[\"\"]", "[\"a\",\"b\"]"}, {NULL}},
    {&chat, "user", "s", {"\"x\""}, {NULL}},
    {&chat, "metadata", "o", {"{\"a\":\"b\"}"}, {NULL}},
    {&messages, "temperature", "in", {"0", "1"}, {"-0.1", "1.5"}},
    {&messages, "top_p", "in", {"0", "1"}, {"1.5"}},
    {&messages, "top_k", "i", {"0", "3"}, {"-1"}},
    {&messages, "max_tokens", "i", {"1", "100000"}, {"0"}},
    {&messages, "stream", "b", {"false"}, {NULL}},
    {&messages, "stop_sequences", "a", {"[\"\"]", "[\"x\"]"}, {NULL}},
    {&messages, "metadata", "o", {"{\"user_id\":null}"}, {NULL}},
    {&embeddings, "encoding_format", "s", {"\"float\"", "\"base64\""}, {"\"hex\""}},
    {&embeddings, "dimensions", "i", {"4"}, {"0", "5"}},
    {&embeddings, "add_special_tokens", "b", {"false"}, {NULL}},
    {&embeddings, "truncate", "b", {"false"}, {NULL}},
    {&embeddings, "truncate_prompt_tokens", "i", {"-1", "2"}, {"0", "-2"}},
    {&rerank, "top_n", "i", {"1", "2.0", "1000"}, {"0", "-1"}},
    {&rerank, "return_documents", "b", {"false"}, {NULL}},
    {&rerank, "raw_scores", "b", {"false"}, {NULL}},
    {&rerank, "truncate", "b", {"false"}, {NULL}},
    {&rerank, "max_tokens_per_doc", "i", {"1", "100000"}, {"0"}},
};

static bool takes(const struct field_case *c, char type)
{
    return strchr(c->types, type) != NULL;
}

static void test_matrix(void **state)
{
    char more[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct field_case *c = &cases[i];
        snprintf(more, sizeof more, "\"%s\":null", c->name);
        expect_ok(c->endpoint, more);
        for (int k = 0; k < 4 && c->good[k]; k++) {
            snprintf(more, sizeof more, "\"%s\":%s", c->name, c->good[k]);
            expect_ok(c->endpoint, more);
        }
        for (int k = 0; k < 5 && c->bad[k]; k++) {
            snprintf(more, sizeof more, "\"%s\":%s", c->name, c->bad[k]);
            expect_error(c->endpoint, more, 400, "invalid_value", c->name);
        }
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            if (!takes(c, values[k].type)) {
                snprintf(more, sizeof more, "\"%s\":%s", c->name, values[k].value);
                expect_error(c->endpoint, more, 400, "invalid_type", c->name);
            }
        }
    }
}

static void test_required(void **state)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *names[3];
    } required[] = {
        {&chat, {"model", "messages"}},
        {&messages, {"model", "messages"}},
        {&embeddings, {"model", "input"}},
        {&rerank, {"model", "query", "documents"}},
    };
    char more[256];
    (void)state;
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

// Known, meaning-changing and not offered: refused by name, but for the value that means "off".
static void test_refused(void **state)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *name, *off, *on;
    } refused[] = {
        {&chat, "n", "1", "2"},
        {&chat, "tools", "[]", "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"},
        {&chat, "tool_choice", "\"none\"", "\"required\""},
        {&chat, "tool_choice", "\"auto\"", "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"},
        {&chat, "allowed_token_ids", "null", "[1,2]"},
        {&chat, "grammar", "null", "\"root ::= x\""},
        {&chat, "json_schema", "null", "{}"},
        {&chat, "n_predict", "-1", "5"},
        {&chat, "enable_thinking", "null", "false"},
        {&chat, "enable_thinking", "null", "true"},
        {&chat, "documents", "[]", "[{}]"},
        {&chat, "suffix", "null", "\"x\""},
        {&chat, "system", "null", "\"x\""},
        {&chat, "stop_sequences", "[]", "[\"x\"]"},
        {&chat, "mirostat", "0", "2"},
        {&chat, "n_probs", "0.0", "3"},
        {&chat, "regex", "null", "\"a\""},
        {&chat, "guided_json", "null", "{}"},
        {&chat, "guided_regex", "null", "\"a\""},
        {&chat, "guided_choice", "null", "[\"a\"]"},
        {&chat, "guided_grammar", "null", "\"a\""},
        {&chat, "logprobs", "false", "true"},
        {&chat, "top_logprobs", "0", "5"},
        {&chat, "logit_bias", "{}", "{\"5\":1}"},
        {&chat, "presence_penalty", "0.0", "1"},
        {&chat, "frequency_penalty", "0", "-1"},
        {&chat, "repetition_penalty", "1.0", "1.1"},
        {&chat, "repeat_penalty", "1", "2"},
        {&chat, "min_p", "0", "0.1"},
        {&chat, "min_tokens", "0", "1"},
        {&chat, "stop_token_ids", "[]", "[1]"},
        {&chat, "bad_words", "[]", "[\"a\"]"},
        {&chat, "include_stop_str_in_output", "false", "true"},
        {&chat, "skip_special_tokens", "true", "false"},
        {&chat, "reasoning_effort", "\"none\"", "\"high\""},
        {&chat, "include_reasoning", "true", "false"},
        {&chat, "thinking_token_budget", "null", "5"},
        {&chat, "chat_template", "null", "\"x\""},
        {&chat, "truncate_prompt_tokens", "null", "5"},
        {&chat, "cache_salt", "null", "\"x\""},
        {&chat, "priority", "0", "1"},
        {&chat, "audio", "null", "{}"},
        {&chat, "modalities", "[\"text\"]", "[\"text\",\"audio\"]"},
        {&chat, "web_search_options", "null", "{}"},
        {&chat, "moderation", "null", "{}"},
        {&chat, "functions", "[]", "[{\"name\":\"f\"}]"},
        {&chat, "function_call", "\"none\"", "{\"name\":\"f\"}"},
        {&chat, "best_of", "1", "2"},
        {&chat, "use_beam_search", "false", "true"},
        {&chat, "echo", "false", "true"},
        {&chat, "logits_processors", "[]", "[1]"},
        {&chat, "return_token_ids", "false", "true"},
        {&messages, "tools", "[]", "[{\"name\":\"f\",\"input_schema\":{}}]"},
        {&messages, "grammar", "null", "\"root ::= x\""},
        {&messages, "allowed_token_ids", "null", "[1]"},
        {&messages, "json_schema", "null", "{}"},
        {&messages, "n_predict", "-1", "5"},
        {&messages, "enable_thinking", "null", "true"},
        {&messages, "min_p", "0", "0.5"},
        {&messages, "stop", "[]", "[\"a\"]"},
        {&messages, "thinking", "{\"type\":\"disabled\"}",
         "{\"type\":\"enabled\",\"budget_tokens\":2000}"},
        {&messages, "container", "null", "\"x\""},
        {&messages, "mcp_servers", "[]", "[{}]"},
        {&embeddings, "normalize", "true", "false"},
        {&embeddings, "input_type", "null", "\"query\""},
        {&embeddings, "output_dimension", "null", "64"},
        {&rerank, "rank_fields", "[\"text\"]", "[\"title\"]"},
        {&rerank, "top_k", "null", "1"},
        {&rerank, "truncation", "true", "false"},
    };
    char more[256];
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        snprintf(more, sizeof more, "\"%s\":%s", refused[i].name, refused[i].off);
        expect_ok(refused[i].endpoint, more);
        snprintf(more, sizeof more, "\"%s\":%s", refused[i].name, refused[i].on);
        expect_error(refused[i].endpoint, more, 400, "unsupported_parameter", refused[i].name);
    }
}

// Fields inside of fields: the path says which.
static void test_members(void **state)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *body, *code, *param; // code NULL: accepted
    } members[] = {
        {&chat, "\"response_format\":{\"type\":\"json_object\"}", "unsupported_parameter",
         "response_format.type"},
        {&chat, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}",
         "unsupported_parameter", "response_format.type"},
        {&chat, "\"response_format\":{\"type\":\"text\",\"schema\":{}}", "unsupported_parameter",
         "response_format.schema"},
        {&chat, "\"response_format\":{\"type\":5}", "invalid_type", "response_format.type"},
        {&chat, "\"response_format\":{}", "missing_required_parameter", "response_format.type"},
        {&chat, "\"response_format\":\"text\"", "invalid_type", "response_format"},
        {&chat, "\"response_format\":{\"type\":\"text\",\"json_schema\":null}", NULL, NULL},
        {&messages, "\"response_format\":{\"type\":\"json_object\"}", "unsupported_parameter",
         "response_format.type"},
        {&chat, "\"chat_template_kwargs\":{\"enable_thinking\":true}", "unsupported_parameter",
         "chat_template_kwargs.enable_thinking"},
        {&chat, "\"chat_template_kwargs\":{\"enable_thinking\":\"no\"}", "invalid_type",
         "chat_template_kwargs.enable_thinking"},
        {&chat, "\"chat_template_kwargs\":{\"enable_thinking\":false,\"date\":\"x\"}",
         "unsupported_parameter", "chat_template_kwargs.date"},
        {&chat, "\"chat_template_kwargs\":[]", "invalid_type", "chat_template_kwargs"},
        {&chat, "\"chat_template_kwargs\":{\"enable_thinking\":false,\"date\":null}", NULL, NULL},
        {&messages, "\"chat_template_kwargs\":{\"a\":1}", "unsupported_parameter",
         "chat_template_kwargs.a"},
        {&chat, "\"structured_outputs\":{\"regex\":\"a\"}", "unsupported_parameter",
         "structured_outputs.regex"},
        {&chat, "\"structured_outputs\":{}", NULL, NULL},
        {&chat, "\"thinking\":{\"type\":\"disabled\"}", NULL, NULL},
        {&chat, "\"thinking\":{\"type\":\"enabled\"}", "unsupported_parameter", "thinking.type"},
        {&chat, "\"reasoning\":{\"effort\":\"low\"}", "unsupported_parameter", "reasoning.effort"},
        {&chat, "\"stream_options\":{\"include_obfuscation\":\"x\"}", "invalid_type",
         "stream_options.include_obfuscation"},
        {&messages, "\"thinking\":{}", "missing_required_parameter", "thinking.type"},
        {&messages, "\"thinking\":{\"type\":\"disabled\",\"budget_tokens\":\"x\"}", "invalid_type",
         "thinking.budget_tokens"},
        {&messages, "\"metadata\":{\"user_id\":5}", "invalid_type", "metadata.user_id"},
        {&messages, "\"tool_choice\":{\"type\":\"any\"}", "unsupported_parameter",
         "tool_choice.type"},
        {&messages, "\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}", NULL,
         NULL},
        {&messages, "\"tool_choice\":\"auto\"", "invalid_type", "tool_choice"},
        {&messages, "\"tool_choice\":{}", "missing_required_parameter", "tool_choice.type"},
        {&messages, "\"tool_choice\":{\"type\":null}", "missing_required_parameter",
         "tool_choice.type"},
        {&messages, "\"tool_choice\":null", NULL, NULL},
        {&messages, "\"output_config\":{\"effort\":\"low\"}", "unsupported_parameter",
         "output_config.effort"},
        {&messages, "\"output_config\":{}", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (members[i].code) {
            expect_error(members[i].endpoint, members[i].body, 400, members[i].code,
                         members[i].param);
        } else {
            expect_ok(members[i].endpoint, members[i].body);
        }
    }
}

// Where something similar is served, the sentence names it.
static void test_hints(void **state)
{
    static const struct {
        const char *body, *hint;
    } hints[] = {
        {"\"n\":2", "is not supported; only 1 is"},
        {"\"enable_thinking\":true", "thinking can only be turned off"},
        {"\"n_predict\":5", "use max_tokens"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        request(&chat, hints[i].body);
        if (!strstr(fake.sent, hints[i].hint))
            fail_msg("'%s' lacks '%s'", fake.sent, hints[i].hint);
        fake_end();
    }
}

// The types of refused and ignored fields are checked as well.
static void test_types(void **state)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *names; // joined by blanks
        const char *wrong;
    } typed[] = {
        {&chat,
         "safety_identifier service_tier prompt_cache_key verbosity speed tool_choice "
         "guided_regex chat_template cache_salt reasoning_effort",
         "5"},
        {&chat,
         "prediction diagnostics cache_control prompt_cache_options audio thinking "
         "web_search_options stream_options logit_bias",
         "\"text\""},
        {&chat,
         "store parallel_tool_calls logprobs skip_special_tokens enable_thinking echo "
         "include_stop_str_in_output",
         "1"},
        {&chat,
         "n top_logprobs min_tokens n_predict best_of priority truncate_prompt_tokens "
         "thinking_token_budget",
         "1.5"},
        {&chat, "presence_penalty min_p repetition_penalty", "\"1\""},
        {&chat, "tools functions stop_token_ids bad_words allowed_token_ids modalities", "{}"},
        {&messages, "service_tier inference_geo grammar", "5"},
        {&messages, "tools mcp_servers", "{}"},
        {&messages, "cache_control diagnostics output_config context_management", "[]"},
        {&embeddings, "user input_type task", "[]"},
        {&embeddings, "normalize late_chunking store", "1"},
        {&rerank, "user instruction", "5"},
        {&rerank, "priority max_chunks_per_doc top_k", "\"5\""},
    };
    char name[64], more[256];
    (void)state;
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++) {
        int n = 0;
        for (const char *at = typed[i].names; sscanf(at, "%63s%n", name, &n) == 1; at += n) {
            snprintf(more, sizeof more, "\"%s\":%s", name, typed[i].wrong);
            expect_error(typed[i].endpoint, more, 400, "invalid_type", name);
        }
    }
}

static void test_harmless(void **state)
{
    (void)state;
    expect_ok(&chat, "\"store\":true,\"service_tier\":\"auto\",\"prompt_cache_key\":\"k\","
                     "\"prediction\":{},\"verbosity\":\"low\",\"safety_identifier\":\"x\","
                     "\"parallel_tool_calls\":false,\"prompt_cache_retention\":\"24h\"");
    expect_ok(&messages, "\"service_tier\":\"auto\",\"cache_control\":{},\"inference_geo\":\"us\","
                         "\"speed\":\"fast\",\"diagnostics\":{}");
    expect_ok(&rerank, "\"max_chunks_per_doc\":10,\"priority\":3,\"user\":\"u\"");
    expect_ok(&embeddings, "\"user\":\"u\"");
}

static void test_model(void **state)
{
    static const struct endpoint wrong_kind[] = {
        {MODEL_EMBEDDER, "/v1/chat/completions", "\"model\":\"m\",\"messages\":[]"},
        {MODEL_RERANKER, "/v1/chat/completions", "\"model\":\"m\",\"messages\":[]"},
        {MODEL_GENERATOR, "/v1/embeddings", "\"model\":\"m\",\"input\":\"x\""},
        {MODEL_EMBEDDER, "/v1/rerank", "\"model\":\"m\",\"query\":\"x\",\"documents\":[]"},
    };
    static const char *const names[] = {"/v1/embeddings", "/v1/rerank", "/v1/chat/completions",
                                        "/v1/embeddings"};
    (void)state;
    expect_error(&chat, "\"model\":\"nope\"", 404, "model_not_found", "model");
    expect_error(&embeddings, "\"model\":\"M\"", 404, "model_not_found", "model");
    expect_error(&rerank, "\"model\":\"m \"", 404, "model_not_found", "model");
    for (int i = 0; i < 4; i++) {
        request(&wrong_kind[i], "");
        assert_int_equal(fake.status, 400);
        assert_non_null(strstr(fake.sent, "\"code\":\"unsupported_model\""));
        assert_non_null(strstr(fake.sent, names[i])); // where this kind is served
        fake_end();
    }
    request(&messages, "\"model\":\"nope\"");
    assert_int_equal(fake.status, 404);
    assert_non_null(strstr(fake.sent, "\"type\":\"not_found_error\""));
    assert_non_null(strstr(fake.sent, "\"message\":\"model: nope\""));
    fake_end();
}

static void test_bodies(void **state)
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
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        fake_begin(MODEL_GENERATOR);
        fake_request("/v1/chat/completions", bodies[i].body);
        assert_int_equal(fake.status, 400);
        if (!strstr(fake.sent, bodies[i].code))
            fail_msg("%s: %s", bodies[i].body, fake.sent);
        fake_end();
    }
}

static void test_stops(void **state)
{
    char more[1024] = "\"stop\":[";
    (void)state;
    for (int i = 0; i < 17; i++)
        strcat(more, i ? ",\"a\"" : "\"a\"");
    strcat(more, "]");
    expect_error(&chat, more, 400, "invalid_value", "stop");
    snprintf(more, sizeof more, "\"stop\":\"%0257d\"", 0);
    expect_error(&chat, more, 400, "invalid_value", "stop");
    expect_error(&chat, "\"stop\":[\"a\",5]", 400, "invalid_type", "stop[1]");
    expect_error(&messages, "\"stop_sequences\":[\"a\",5]", 400, "invalid_type",
                 "stop_sequences.1");
    expect_error(&chat, "\"stream_options\":{\"include_usage\":1}", 400, "invalid_type",
                 "stream_options.include_usage");
}

static void test_chat_messages(void **state)
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
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"custom\",\"function\":{"
         "\"name\":\"f\"}}]}]",
         "invalid_value", "messages[0].tool_calls[0].type"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}]",
         "missing_required_parameter", "messages[0].tool_calls[0].id"},
        {"[{\"role\":\"user\",\"content\":\"a\"},7]", "invalid_type", "messages[1]"},
    };
    char more[512];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(more, sizeof more, "\"messages\":%s", wrong[i].value);
        expect_error(&chat, more, 400, wrong[i].code, wrong[i].param);
    }
}

// An unknown field is ignored and counted.
static void test_unknown(void **state)
{
    (void)state;
    request(&chat, "\"zebra\":1,\"yak\":{}");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 2);
    fake_end();
    request(&chat, "\"a, b\":1,\"stream_options\":{\"x\":1},\"messages\":[{\"role\":\"user\","
                   "\"content\":[{\"type\":\"text\",\"text\":\"hi\",\"y\":{}}],\"z\":5}]");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 4);
    fake_end();
    request(&messages, "\"n\":2,\"logprobs\":true,\"messages\":[{\"role\":\"user\",\"content\":"
                       "[{\"type\":\"text\",\"text\":\"hi\",\"y\":{}}],\"z\":5}]");
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.ignored_fields, 4);
    fake_end();
}

// Blocks of Messages.
static void test_blocks(void **state)
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
    (void)state;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        snprintf(more, sizeof more, "\"messages\":[{\"role\":\"user\",\"content\":%s}]",
                 blocks[i].content);
        expect_error(&messages, more, 400, "invalid_type", blocks[i].param);
    }
    expect_error(&messages,
                 "\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                 "\"content\":[{\"type\":\"thinking\",\"thinking\":\"a\",\"signature\":5}]}]",
                 400, "invalid_type", "messages.1.content.0.signature");
    expect_error(&messages, "\"system\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":[]}]",
                 400, "invalid_type", "system.0.cache_control");
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
        expect_error(&messages, wrong[i].more, 400, wrong[i].code, wrong[i].param);
}

// Names that come back are cut at a character: the answer is JSON.
static void test_long_names(void **state)
{
    char more[512] = "\"chat_template_kwargs\":{\"";
    (void)state;
    for (int i = 0; i < 60; i++)
        strcat(more, "\xE2\x82\xAC");
    strcat(more, "\":1}");
    request(&chat, more);
    assert_int_equal(fake.status, 400);
    json_t *body = fake_json();
    assert_non_null(body);
    json_decref(body);
    fake_end();
}

// The key and the deadline of a request reach the engine.
static void test_key_and_deadline(void **state)
{
    static const struct endpoint *const all[] = {&chat, &messages, &embeddings, &rerank};
    char body[512];
    (void)state;
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

// A body of many bytes need not have many values: what is inside strings does not count.
static void test_values_in_strings(void **state)
{
    enum { PARTS = 4200, COMMAS = 1024 };
    char *body = malloc(PARTS * (COMMAS + 2) + 256);
    size_t bytes = (size_t)sprintf(body, "{%s,\"user\":\"", chat.base);
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_required),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_harmless),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_chat_messages),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_values_in_strings),
        cmocka_unit_test(test_key_and_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
