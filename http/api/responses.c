// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses: its fields and its answers (docs/API.md). Nothing is stored, so every request
// contains the whole conversation. responses_turns.c reads the items, responses_tools.c the tools,
// responses_write.c writes the answers. generation.c contains what all endpoints share.
#include "http/api/decoding.h"
#include "http/api/endpoints.h"
#include "http/api/prompt.h"
#include "http/api/shapes.h"
#include "http/api/tools.h"
#include "http/api/conversation.h"

#include <string.h>

// Limits of the request's fields that an answer repeats. Three events of a stream repeat them as
// well, and they stay in memory while a client reads slowly.
enum {
    LARGE_BYTES_MAX = 256 * 1024, // instructions, metadata, tools and the format together
    SMALL_BYTES_MAX = 16 * 1024   // each other field
};

#define STATELESS "nothing is stored: send the items of the conversation in input"

static const struct field_rule reasoning_rows[] = {
    FIELD_TYPED("effort", "s"),
    FIELD_TYPED("enabled", "b"),
    FIELD_TYPED("max_tokens", "i"),
    FIELD_HARMLESS("summary", "s"), // the answer contains the reasoning itself
    FIELD_HARMLESS("generate_summary", "s"),
    FIELD_HARMLESS("context", "s"),
    FIELD_NOT_SERVED("mode", "s", "[\"standard\"]"),
};
static const struct field_rules reasoning_members = FIELD_RULES(reasoning_rows, NULL);

static const struct field_rule responses_rows[] = {
    FIELD_READ_BY("input"),
    FIELD_READ_BY("instructions"),
    FIELD_READ_BY("max_output_tokens"),
    FIELD_TYPED("tools", "a"),
    FIELD_READ_BY("tool_choice"),
    FIELD_READ_BY("parallel_tool_calls"),
    FIELD_OBJECT("text", structured_text_members),
    FIELD_OBJECT("reasoning", reasoning_members),
    FIELD_TYPED("include", "a"),
    FIELD_READ_BY("top_logprobs"),
    FIELD_READ_BY("truncation"),
    FIELD_OBJECT("chat_template_kwargs", prompt_kwargs_members),
    FIELD_READ_BY("include_reasoning"),
    FIELD_TYPED("thinking_token_budget", "i"),
    FIELD_TYPED("thinking_budget_tokens", "i"),
    FIELD_TYPED("thinking_budget", "i"),
    FIELD_OBJECT("thinking", thinking_chat_members),

    FIELD_HARMLESS("max_tool_calls", "i"), // limits the server's own tools; there are none
    FIELD_HARMLESS("prompt_cache_key", "s"),
    FIELD_HARMLESS("prompt_cache_retention", "s"),
    FIELD_HARMLESS("prompt_cache_options", "o"),
    FIELD_HARMLESS("access_programs", "o"),
    FIELD_HARMLESS("prediction", "o"),
    FIELD_HARMLESS("verbosity", "s"),

    FIELD_NOT_SERVED_BUT("previous_response_id", "s", NULL, STATELESS),
    FIELD_NOT_SERVED_BUT("conversation", "so", NULL, STATELESS),
    FIELD_NOT_SERVED_BUT("background", "b", "[false]", "nothing is stored: wait for the answer"),
    FIELD_NOT_SERVED_BUT("prompt", "so", NULL, "send instructions and input"),
    FIELD_NOT_SERVED("context_management", "a", "[[]]"),
    FIELD_NOT_SERVED_BUT("messages", "a", NULL, "use input"),
    FIELD_NOT_SERVED_BUT("max_tokens", "i", NULL, "use max_output_tokens"),
    FIELD_NOT_SERVED_BUT("max_completion_tokens", "i", NULL, "use max_output_tokens"),
    FIELD_NOT_SERVED_BUT("response_format", "o", NULL, "use text.format"),
    FIELD_NOT_SERVED_BUT("reasoning_effort", "s", NULL, "use reasoning.effort"),
    FIELD_NOT_SERVED_BUT("output_config", "o", "[{}]", "use text.format"),
    FIELD_NOT_SERVED_BUT("output_format", "o", NULL, "use text.format"),
    FIELD_NOT_SERVED_BUT("json_schema", "so", NULL, "use text.format"),
    FIELD_NOT_SERVED_BUT("n_predict", "i", "[-1]", "use max_output_tokens"),
    FIELD_NOT_SERVED_BUT("max_new_tokens", "i", NULL, "use max_output_tokens"),
    FIELD_NOT_SERVED_BUT("system", "sa", NULL, "use instructions"),
    FIELD_NOT_SERVED_BUT("stop_sequences", "a", "[[]]", "use stop"),
    FIELD_NOT_SERVED_BUT("functions", "a", "[[]]", "use tools"),
    FIELD_NOT_SERVED_BUT("function_call", "so", "[\"none\",\"auto\"]", "use tool_choice"),
    FIELD_NOT_SERVED_BUT("suffix", "s", NULL, "use /v1/completions"),
    FIELD_NOT_SERVED_BUT("echo", "b", "[false]", "use /v1/completions"),
    FIELD_NOT_SERVED("add_special_tokens", "b", "[false]"),
    FIELD_NOT_SERVED_BUT("logprobs", "b", "[false]", "use include or top_logprobs"),
    FIELD_NOT_SERVED("n", "i", "[1]"),
    FIELD_NOT_SERVED("continue_final_message", "b", "[false]"),
    FIELD_NOT_SERVED("add_generation_prompt", "b", "[true]"),
};
static const struct field_rules responses_rules = FIELD_RULES(responses_rows, &decoding_rules);

// Reading

// Reads `include`. Returns true if it requests log probabilities. The other values concern features
// that are not served; they are accepted and have no effect.
static bool include_logprobs(struct fields *f)
{
    static const char logprobs[] = "message.output_text.logprobs";
    static const char *const known[] = {logprobs,
                                        "reasoning.encrypted_content",
                                        "file_search_call.results",
                                        "web_search_call.results",
                                        "web_search_call.action.sources",
                                        "message.input_image.image_url",
                                        "computer_call_output.output.image_url",
                                        "code_interpreter_call.outputs"};
    enum { INCLUDE_MAX = 64 };
    const json_t *include = fields_get(f, "include");
    bool requested = false;
    if (json_array_size(include) > INCLUDE_MAX)
        fields_fail(f, HTTP_INVALID_VALUE, "include", "must hold at most %d values, got %zu",
                    INCLUDE_MAX, json_array_size(include));
    for (size_t i = 0; i < json_array_size(include) && !f->failed; i++) {
        const json_t *value = json_array_get(include, i);
        struct text name = json_text(value), shown = text_head(name, 64);
        bool found = false;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            found = found || text_is(name, known[k]);
        requested = requested || text_is(name, logprobs);
        if (!name.at)
            fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "include[%zu]", i),
                        "must be a string");
        else if (!found)
            fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "include[%zu]", i),
                        "is not a known value, got '%.*s'", (int)shown.bytes, shown.at);
    }
    return requested;
}

static void logprobs_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    int64_t top = fields_integer(f, "top_logprobs", (struct integer_range){0, TOP_LOGPROBS_MAX, 0});
    g->options.logprobs = g->submit.sampling.logprob = include_logprobs(f) || top > 0;
    g->options.top_logprobs = g->submit.sampling.top_logprobs = (uint32_t)top;
}

// Prompts are never truncated: with 'auto' as well, a prompt that is too long is rejected.
static void truncation_check(struct fields *f)
{
    struct text truncation = fields_string(f, "truncation");
    if (truncation.at && !text_is(truncation, "auto") && !text_is(truncation, "disabled"))
        fields_fail(f, HTTP_INVALID_VALUE, "truncation", "must be 'auto' or 'disabled'");
}

static void responses_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    if (!call_model(&g->call, MODEL_GENERATOR, &responses_rules))
        return;
    decoding_read(g, fields_count(f, "max_output_tokens", decoding_tokens_default(g, 0)));
    structured_read_responses(g);
    logprobs_read(g);
    prompt_variables_read(g, THINKING_BY_TEMPLATE);
    responses_tools_read(g);
    g->options.hides_reasoning = !fields_bool(f, "include_reasoning", true);
    truncation_check(f);
    g->prompt.opens_answer = true;
    responses_turns_read(&g->prompt.conversation, f);
}

// Fields of the request that the answer repeats

struct repetition {
    struct fields *fields;
    struct json_buffer out;
    size_t left; // bytes left for all large fields together
};

// Writes a value, or `absent` if it is NULL or too large. large: the limit is r->left, which all
// large fields share; else SMALL_BYTES_MAX.
static void value_repeat(struct repetition *r, const json_t *value, bool large, const char *absent)
{
    size_t before = r->out.bytes, most = before + (large ? r->left : SMALL_BYTES_MAX);
    bool fits = value && !r->fields->failed && json_put_value_within(&r->out, value, most) &&
                r->out.bytes <= most;
    (void)fields_spend(r->fields, r->out.bytes - before);
    if (fits) {
        r->left -= large ? r->out.bytes - before : 0;
    } else {
        r->out.bytes = before;
        json_put_literal(&r->out, absent);
    }
}

// Writes a tool of another type than 'function' unchanged, or only its type if it is too large.
static void other_tool_repeat(struct repetition *r, const json_t *tool)
{
    size_t before = r->out.bytes;
    value_repeat(r, tool, true, "");
    if (r->out.bytes > before)
        return;
    json_put_literal(&r->out, "{\"type\":");
    value_repeat(r, json_member(tool, "type"), false, "\"\"");
    json_put_literal(&r->out, "}");
}

// Writes a tool with the members that the API's clients expect.
static void tool_repeat(struct repetition *r, const json_t *tool)
{
    if (!text_is(json_text(json_member(tool, "type")), "function")) {
        other_tool_repeat(r, tool);
        return;
    }
    json_put_literal(&r->out, "{\"type\":\"function\",\"name\":");
    value_repeat(r, json_member(tool, "name"), false, "\"\"");
    json_put_literal(&r->out, ",\"description\":");
    value_repeat(r, json_member(tool, "description"), true, "null");
    json_put_literal(&r->out, ",\"parameters\":");
    value_repeat(r, json_member(tool, "parameters"), true, "null");
    json_put_format(&r->out, ",\"strict\":%s}",
                    json_is_true(json_member(tool, "strict")) ? "true" : "false");
}

// Writes the format. A schema that is too large is replaced by {}.
static void format_repeat(struct repetition *r, const json_t *format)
{
    size_t before = r->out.bytes;
    value_repeat(r, format, true, "");
    if (r->out.bytes > before)
        return;
    json_put_literal(&r->out, "{\"type\":");
    value_repeat(r, json_member(format, "type"), false, "\"text\"");
    if (json_member(format, "schema")) {
        json_put_literal(&r->out, ",\"name\":");
        value_repeat(r, json_member(format, "name"), false, "\"\"");
        json_put_literal(&r->out, ",\"schema\":{}");
    }
    json_put_literal(&r->out, "}");
}

static void members_repeat(struct repetition *r)
{
    static const struct {
        const char *name;
        bool large;
        const char *absent;
    } members[] = {
        {"instructions", true, "null"},         {"max_output_tokens", false, "null"},
        {"max_tool_calls", false, "null"},      {"metadata", true, "{}"},
        {"parallel_tool_calls", false, "true"}, {"prompt_cache_key", false, "null"},
        {"safety_identifier", false, "null"},   {"tool_choice", false, "\"auto\""},
        {"top_logprobs", false, "0"},           {"user", false, "null"},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        json_put_format(&r->out, ",\"%s\":", members[i].name);
        value_repeat(r, fields_get(r->fields, members[i].name), members[i].large,
                     members[i].absent);
    }
}

static void all_repeat(struct repetition *r, const struct sampling *sampling)
{
    const json_t *tools = fields_get(r->fields, "tools"), *text = fields_get(r->fields, "text");
    const json_t *reasoning = fields_get(r->fields, "reasoning");
    struct json_buffer *out = &r->out;
    members_repeat(r);
    json_put_literal(out, ",\"tools\":[");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_put_literal(out, i > 0 ? "," : "");
        tool_repeat(r, json_array_get(tools, i));
    }
    json_put_literal(out, "],\"text\":{\"format\":");
    format_repeat(r, json_member(text, "format"));
    json_put_literal(out, ",\"verbosity\":");
    value_repeat(r, json_member(text, "verbosity"), false, "\"medium\"");
    json_put_literal(out, "},\"reasoning\":{\"effort\":");
    value_repeat(r, json_member(reasoning, "effort"), false, "null");
    json_put_literal(out, ",\"summary\":");
    value_repeat(r, json_member(reasoning, "summary"), false, "null");
    json_put_literal(out, "},\"temperature\":");
    json_put_float(out, sampling->temperature);
    json_put_literal(out, ",\"top_p\":");
    json_put_float(out, sampling->top_p);
    json_put_literal(out, ",\"background\":false,\"previous_response_id\":null,"
                          "\"service_tier\":\"default\",\"store\":false,"
                          "\"truncation\":\"disabled\"");
}

static void repeat_make(struct responses *r)
{
    struct fields *f = &r->g.call.fields;
    struct repetition repeat = {.fields = f, .left = LARGE_BYTES_MAX};
    if (f->failed)
        return;
    all_repeat(&repeat, &r->g.submit.sampling);
    r->repeated = arena_copy(f->arena, json_buffer_text(&repeat.out));
    if (!r->repeated.at)
        fields_fail_plain(f, HTTP_TOO_LARGE, NULL, "the request is too large to be repeated");
    json_buffer_free(&repeat.out);
}

// Callbacks of the route, in the order in which they run

static void responses_prepare(struct exchange *x)
{
    struct generation *g = generation_open_in(x, sizeof(struct responses));
    g->prompt.field = "input";
    responses_read(g);
    repeat_make((struct responses *)g);
    generation_tokenize(g);
}

static void responses_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    generation_submit(g, generation_begin(g, "resp_"));
}

static void responses_answer(struct exchange *x)
{
    generation_answer(exchange_state(x), responses_next, responses_put);
}

// Counting the tokens of an input

static void count_prepare(struct exchange *x)
{
    struct generation *g = generation_open(x);
    g->prompt.field = "input";
    g->count_only = true;
    responses_read(g);
    generation_tokenize(g);
}

static void count_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    if (!call_failed(&g->call))
        exchange_reply(x, 200,
                       arena_format(exchange_arena(x),
                                    "{\"object\":\"response.input_tokens\",\"input_tokens\":%u}",
                                    g->prompt.token_count));
}

// Stored responses, which clients try to get, delete or cancel: there are none

static void stored_request(struct exchange *x)
{
    struct http_failure failure = {
        .error = HTTP_RESPONSE_NOT_FOUND,
        .message = text_of("there is no such response, since " STATELESS),
    };
    exchange_fail(x, &failure);
}

// POST knows only /v1/responses/{id}/cancel. Others, such as /v1/responses/compact, are actions
// that are not served, and clients must not read their error as one about a response.
static void action_request(struct exchange *x)
{
    static const char cancel[] = "/cancel";
    struct text rest = exchange_info(x)->path_rest;
    size_t bytes = sizeof cancel - 1;
    struct http_failure failure = {.error = HTTP_UNKNOWN_URL,
                                   .message = text_of("Unknown request URL.")};
    if (rest.bytes > bytes && memcmp(rest.at + rest.bytes - bytes, cancel, bytes) == 0)
        stored_request(x);
    else
        exchange_fail(x, &failure);
}

const struct route responses_routes[] = {
    JSON_ROUTE("/v1/responses", SHAPE_OPENAI, ROUTE_BEARER, BODY_INLINE_BYTES_MAX,
               .on_prepare = responses_prepare, .on_request = responses_request,
               GENERATION_CALLS(responses_answer)),
    JSON_ROUTE("/v1/responses/input_tokens", SHAPE_OPENAI, ROUTE_BEARER, BODY_INLINE_BYTES_MAX,
               .on_prepare = count_prepare, .on_request = count_request),
    {.method = "GET",
     .path = "/v1/responses/",
     .flags = ROUTE_BEARER,
     .on_request = stored_request},
    {.method = "DELETE",
     .path = "/v1/responses/",
     .flags = ROUTE_BEARER,
     .on_request = stored_request},
    {.method = "POST",
     .path = "/v1/responses/",
     .flags = ROUTE_BEARER,
     .on_request = action_request},
    {.path = NULL},
};
