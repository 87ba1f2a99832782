// POST /v1/responses: its fields and its answers (docs/API.md). Nothing is stored: a request brings
// the whole conversation. Items are read by responses_turns.c, tools by responses_tools.c, answers
// written by responses_write.c; what all shapes share is in generation.c.
#include "http/api/decoding.h"
#include "http/api/endpoints.h"
#include "http/api/prompt.h"
#include "http/api/responses_write.h"
#include "http/api/structured.h"
#include "http/api/tools.h"
#include "http/api/turns.h"

enum { ECHO_BYTES_MAX = 256 * 1024 }; // of what an answer repeats, and three events of a stream

#define STATELESS "nothing is stored: send the items of the conversation in input"

static const struct field_rule reasoning_rows[] = {
    FIELD_TYPED("effort", "s"),
    FIELD_HARMLESS("summary", "s"), // the reasoning itself is answered
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

    FIELD_HARMLESS("max_tool_calls", "i"), // of tools of the server's own
    FIELD_HARMLESS("prompt_cache_key", "s"),
    FIELD_HARMLESS("prompt_cache_retention", "s"),
    FIELD_HARMLESS("prompt_cache_options", "o"),
    FIELD_HARMLESS("access_programs", "o"),

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
    FIELD_NOT_SERVED_BUT("logprobs", "b", "[false]", "use include or top_logprobs"),
    FIELD_NOT_SERVED("n", "i", "[1]"),
    FIELD_NOT_SERVED("continue_final_message", "b", "[false]"),
    FIELD_NOT_SERVED("add_generation_prompt", "b", "[true]"),
};
static const struct field_rules responses_rules = FIELD_RULES(responses_rows, &decoding_rules);

// Reading

// What else an answer may bring. Parts of what is not served here never come.
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
    const json_t *include = fields_get(f, "include");
    bool asked = false;
    for (size_t i = 0; i < json_array_size(include) && !f->failed; i++) {
        const json_t *value = json_array_get(include, i);
        struct text name = json_text(value), shown = text_head(name, 64);
        bool found = false;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            found = found || text_is(name, known[k]);
        asked = asked || text_is(name, logprobs);
        if (!name.at)
            fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "include[%zu]", i),
                        "must be a string");
        else if (!found)
            fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "include[%zu]", i),
                        "must be a value of the interface, got '%.*s'", (int)shown.bytes, shown.at);
    }
    return asked;
}

static void logprobs_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    int64_t top = fields_integer(f, "top_logprobs", (struct integer_range){0, TOP_LOGPROBS_MAX, 0});
    g->options.logprobs = g->submit.sampling.logprob = include_logprobs(f) || top > 0;
    g->options.top_logprobs = g->submit.sampling.top_logprobs = (uint32_t)top;
}

// No prompt is truncated: one that is too long is refused, also with 'auto'.
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
    decoding_read(g, fields_count(f, "max_output_tokens", 0));
    structured_read_responses(g);
    logprobs_read(g);
    prompt_variables_read(g, THINKING_BY_TEMPLATE);
    responses_tools_read(g);
    truncation_check(f);
    g->generation_prompt = true;
    responses_turns_read(&g->conversation, f);
}

// What the answer repeats of the request

static void value_echo(const json_t *value, const char *absent, struct json_buffer *out)
{
    if (value && out->bytes <= ECHO_BYTES_MAX)
        json_put_value(out, value);
    else
        json_put_literal(out, absent);
}

// With the members that the interface wants there.
static void tool_echo(const json_t *tool, struct json_buffer *out)
{
    json_put_literal(out, "{\"type\":\"function\",\"name\":");
    value_echo(json_member(tool, "name"), "\"\"", out);
    json_put_literal(out, ",\"description\":");
    value_echo(json_member(tool, "description"), "null", out);
    json_put_literal(out, ",\"parameters\":");
    value_echo(json_member(tool, "parameters"), "null", out);
    json_put_format(out, ",\"strict\":%s}",
                    json_is_true(json_member(tool, "strict")) ? "true" : "false");
}

static void members_echo(const json_t *asked, struct json_buffer *out)
{
    static const struct {
        const char *name, *absent;
    } members[] = {
        {"instructions", "null"},        {"max_output_tokens", "null"},
        {"max_tool_calls", "null"},      {"metadata", "{}"},
        {"parallel_tool_calls", "true"}, {"prompt_cache_key", "null"},
        {"safety_identifier", "null"},   {"tool_choice", "\"auto\""},
        {"top_logprobs", "0"},           {"user", "null"},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        json_put_format(out, ",\"%s\":", members[i].name);
        value_echo(json_member(asked, members[i].name), members[i].absent, out);
    }
}

static void echo_put(const struct sampling *sampling, const json_t *asked, struct json_buffer *out)
{
    const json_t *tools = json_member(asked, "tools"), *text = json_member(asked, "text");
    const json_t *reasoning = json_member(asked, "reasoning");
    members_echo(asked, out);
    json_put_literal(out, ",\"tools\":[");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_put_literal(out, i > 0 ? "," : "");
        tool_echo(json_array_get(tools, i), out);
    }
    json_put_literal(out, "],\"text\":{\"format\":");
    value_echo(json_member(text, "format"), "{\"type\":\"text\"}", out);
    json_put_literal(out, ",\"verbosity\":");
    value_echo(json_member(text, "verbosity"), "\"medium\"", out);
    json_put_literal(out, "},\"reasoning\":{\"effort\":");
    value_echo(json_member(reasoning, "effort"), "null", out);
    json_put_literal(out, ",\"summary\":");
    value_echo(json_member(reasoning, "summary"), "null", out);
    json_put_literal(out, "},\"temperature\":");
    json_put_float(out, sampling->temperature);
    json_put_literal(out, ",\"top_p\":");
    json_put_float(out, sampling->top_p);
    json_put_literal(out, ",\"background\":false,\"previous_response_id\":null,"
                          "\"service_tier\":\"default\",\"store\":false,"
                          "\"truncation\":\"disabled\"");
}

static void echo_make(struct responses *r)
{
    struct fields *f = &r->g.call.fields;
    struct json_buffer echo = {0};
    if (f->failed)
        return;
    echo_put(&r->g.submit.sampling, f->root, &echo);
    (void)fields_spend(f, echo.bytes);
    if (echo.bytes > ECHO_BYTES_MAX) { // a slow reader would hold it three times
        echo.bytes = 0;
        echo_put(&r->g.submit.sampling, NULL, &echo);
    }
    r->echo = arena_copy(f->arena, text_span(echo.at, echo.bytes));
    if (!r->echo.at)
        fields_fail_plain(f, HTTP_TOO_LARGE, NULL, "the request is too large to be repeated");
    json_buffer_free(&echo);
}

// The life of a request, in the order of the calls

static void responses_prepare(struct exchange *x)
{
    struct generation *g = generation_open_in(x, sizeof(struct responses));
    g->turns = "input";
    responses_read(g);
    echo_make((struct responses *)g);
    generation_tokenize(g);
}

static void responses_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    generation_submit(g, generation_begin(g, "resp_"));
}

static void responses_answer(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    struct json_buffer out = {0};
    enum generation_tell step;
    while ((step = generation_next(g)) != TELL_WAIT) {
        responses_put((struct responses *)g, step, &out);
        generation_send(g, step, &out);
    }
    json_buffer_free(&out);
}

const struct route responses_routes[] = {
    {
        .method = "POST",
        .path = "/v1/responses",
        .shape = SHAPE_OPENAI,
        .flags = ROUTE_BEARER | ROUTE_JSON,
        .inline_bytes_max = BODY_INLINE_BYTES_MAX,
        .on_prepare = responses_prepare,
        .on_request = responses_request,
        .on_ready = responses_answer,
        .on_room = responses_answer,
        .on_second = generation_clock,
        .on_cut = generation_cut,
        .on_gone = generation_gone,
    },
    {.path = NULL},
};
