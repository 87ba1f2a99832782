// SPDX-License-Identifier: Apache-2.0
// POST /v1/chat/completions: its fields and its answers (docs/API.md). chat_turns.c reads the
// messages and decoding.c the decoding fields. generation.c contains what all endpoints share,
// openai.c what completions also needs.
#include "http/api/decoding.h"
#include "http/api/endpoints.h"
#include "http/api/shapes.h"
#include "http/api/prompt.h"
#include "http/api/tools.h"

static const struct field_rule chat_rows[] = {
    FIELD_READ_BY("messages"),
    FIELD_READ_BY("max_completion_tokens"),
    FIELD_READ_BY("logprobs"),
    FIELD_READ_BY("top_logprobs"),
    FIELD_READ_BY("continue_final_message"),
    FIELD_READ_BY("add_generation_prompt"),
    FIELD_OBJECT("chat_template_kwargs", prompt_kwargs_members),
    FIELD_READ_BY("reasoning_effort"),
    FIELD_TYPED("tools", "a"),
    FIELD_READ_BY("tool_choice"),
    FIELD_READ_BY("parallel_tool_calls"),
    FIELD_READ_BY("include_reasoning"),
    FIELD_TYPED("thinking_token_budget", "i"),
    FIELD_TYPED("thinking_budget_tokens", "i"),
    FIELD_TYPED("thinking_budget", "i"),
    FIELD_OBJECT("thinking", thinking_chat_members),
    FIELD_OBJECT("reasoning", thinking_reasoning_members),

    FIELD_HARMLESS("prompt_cache_key", "s"),
    FIELD_HARMLESS("prompt_cache_retention", "s"),
    FIELD_HARMLESS("prompt_cache_options", "o"),
    FIELD_HARMLESS("prediction", "o"),
    FIELD_HARMLESS("verbosity", "s"),
    FIELD_HARMLESS("cache_control", "o"),
    FIELD_HARMLESS("inference_geo", "s"),
    FIELD_HARMLESS("speed", "s"),
    FIELD_HARMLESS("diagnostics", "o"),

    FIELD_NOT_SERVED_BUT("functions", "a", "[[]]", "use tools"),
    FIELD_NOT_SERVED_BUT("function_call", "so", "[\"none\",\"auto\"]", "use tools"),
    FIELD_NOT_SERVED_BUT("system", "sa", NULL, "send a message with the role 'system'"),
    FIELD_NOT_SERVED_BUT("stop_sequences", "a", "[[]]", "use stop"),
    FIELD_NOT_SERVED("add_special_tokens", "b", "[false]"),
    FIELD_NOT_SERVED_BUT("prompt", "sa", NULL, "use /v1/completions"),
    FIELD_NOT_SERVED_BUT("suffix", "s", NULL, "use /v1/completions"),
    FIELD_NOT_SERVED_BUT("echo", "b", "[false]", "use /v1/completions"),
};
static const struct field_rules chat_rules = FIELD_RULES(chat_rows, &decoding_rules);

// Reading

static void logprobs_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    bool requested = fields_bool(f, "logprobs", false);
    int64_t top = fields_integer(f, "top_logprobs", (struct integer_range){0, TOP_LOGPROBS_MAX, 0});
    if (top > 0 && !requested)
        fields_fail(f, HTTP_INVALID_VALUE, "top_logprobs", "needs logprobs to be true");
    g->options.logprobs = g->submit.sampling.logprob = requested;
    g->options.top_logprobs = g->submit.sampling.top_logprobs = (uint32_t)top;
}

static void chat_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    if (!call_model(&g->call, MODEL_GENERATOR, &chat_rules))
        return;
    uint32_t tokens_max = fields_count(f, "max_tokens", decoding_tokens_default(g, 0));
    decoding_read(g, fields_count(f, "max_completion_tokens", tokens_max));
    logprobs_read(g);
    prompt_variables_read(g, THINKING_BY_TEMPLATE);
    tools_read(g);
    g->options.hides_reasoning = !fields_bool(f, "include_reasoning", true);
    prompt_turns_read(g);
}

// Writing

static void chat_begin(const struct generation *g, struct json_buffer *out)
{
    for (uint32_t i = 0; i < g->choice_count; i++) {
        openai_chunk_begin(g, i, out);
        json_put_literal(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                              "\"logprobs\":null,\"finish_reason\":null");
        openai_chunk_end(g, out);
    }
}

static void delta_begin(const struct generation *g, struct json_buffer *out)
{
    openai_chunk_begin(g, g->next_choice, out);
    json_put_literal(out, "\"delta\":{");
}

static void delta_end(const struct generation *g, const struct answer_piece *piece,
                      struct json_buffer *out)
{
    json_put_literal(out, "}");
    openai_logprobs_put(g, piece->kind == RUN_TEXT ? generation_choice(g) : NULL, piece->entries,
                        logprobs_part_chat, out);
    json_put_literal(out, ",\"finish_reason\":null");
    openai_chunk_end(g, out);
}

// Names of the members of a call: those of a function, or of a custom tool.
static const char *call_member(const struct answer_call *call)
{
    return call->custom ? "custom" : "function";
}

static const char *call_input(const struct answer_call *call)
{
    return call->custom ? ANSWER_CUSTOM_INPUT : "arguments";
}

static void call_head_put(const struct answer_call *call, struct json_buffer *out)
{
    const char *member = call_member(call);
    json_put_member(out, "\"id\":", call->id);
    json_put_format(out, ",\"type\":\"%s\",\"%s\":{\"name\":", member, member);
    json_put_string(out, call->name);
    json_put_format(out, ",\"%s\":", call_input(call));
}

// Returns the index of a call in the answer, which does not count calls that became text.
static uint32_t call_index(const struct answer_parts *a, uint32_t call)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < call; i++)
        index += !a->calls[i].broken;
    return index;
}

// Writes the new part of a call as chunks: its id and name, its arguments, or one chunk for each.
static void call_put(const struct generation *g, const struct answer_piece *piece,
                     struct json_buffer *out)
{
    const struct answer_parts *a = &generation_choice(g)->answer;
    const struct answer_call *call = &a->calls[piece->call - 1];
    uint32_t i = call_index(a, piece->call - 1);
    if (!call->begun) {
        delta_begin(g, out);
        json_put_format(out, "\"tool_calls\":[{\"index\":%u,", i);
        call_head_put(call, out);
        json_put_literal(out, "\"\"}}]");
        delta_end(g, piece, out);
    }
    if (piece->text.bytes > 0) {
        delta_begin(g, out);
        json_put_format(out, "\"tool_calls\":[{\"index\":%u,\"%s\":{\"%s\":", i, call_member(call),
                        call_input(call));
        json_put_string(out, piece->text);
        json_put_literal(out, "}}]");
        delta_end(g, piece, out);
    }
}

static void reasoning_put(struct text text, struct json_buffer *out)
{
    json_put_member(out, "\"reasoning_content\":", text);
    json_put_member(out, ",\"reasoning\":", text);
}

static void chat_piece(const struct generation *g, struct json_buffer *out)
{
    struct answer_piece piece = choice_piece(generation_choice(g));
    if (piece.kind == RUN_CALL) {
        call_put(g, &piece, out);
        return;
    }
    delta_begin(g, out);
    if (piece.kind == RUN_REASONING)
        reasoning_put(piece.text, out);
    else
        json_put_member(out, "\"content\":", piece.text);
    delta_end(g, &piece, out);
}

// Writes reasoning and calls of a complete message; its content is written before them.
static void parts_put(const struct choice *c, struct json_buffer *out)
{
    const struct answer_parts *a = &c->answer;
    if (a->reasoning.bytes > 0) {
        json_put_literal(out, ",");
        reasoning_put(text_span(a->reasoning.at, a->reasoning.bytes), out);
    }
    uint32_t written = 0;
    for (uint32_t i = 0; i < a->call_count; i++) {
        const struct answer_call *call = &a->calls[i];
        if (call->broken)
            continue;
        json_put_literal(out, written++ > 0 ? ",{" : ",\"tool_calls\":[{");
        call_head_put(call, out);
        json_put_string(out, text_span(call->arguments.at, call->arguments.bytes));
        json_put_literal(out, "}}");
    }
    json_put_literal(out, written > 0 ? "]" : "");
}

static void chat_choice(const struct generation *g, uint32_t choice, struct json_buffer *out)
{
    const struct choice *c = &g->choices[choice];
    json_put_literal(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->text.bytes == 0 && c->answer.call_count > 0)
        json_put_literal(out, "null");
    else
        json_put_string(out, text_span(c->text.at, c->text.bytes));
    json_put_literal(out, ",\"refusal\":null");
    parts_put(c, out);
    json_put_literal(out, "}");
}

static enum stream_step chat_put(struct generation *g, enum stream_step step,
                                 struct json_buffer *out)
{
    static const struct openai_shape shape = {
        .object = "chat.completion",
        .empty = "\"delta\":{}",
        .entries = logprobs_part_chat,
        .begin = chat_begin,
        .piece = chat_piece,
        .choice = chat_choice,
    };
    return openai_put(g, &shape, step, out);
}

// Callbacks of the route, in the order in which they run

static void chat_prepare(struct exchange *x)
{
    struct generation *g = generation_open(x);
    chat_read(g);
    generation_tokenize(g);
}

static void chat_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    generation_submit(g, generation_begin(g, "chatcmpl-") &&
                             openai_chunk_make(g, "chat.completion.chunk"));
}

static void chat_answer(struct exchange *x)
{
    generation_answer(exchange_state(x), generation_next, chat_put);
}

const struct route chat_routes[] = {
    JSON_ROUTE("/v1/chat/completions", SHAPE_OPENAI, ROUTE_BEARER, BODY_INLINE_BYTES_MAX,
               .on_prepare = chat_prepare, .on_request = chat_request,
               GENERATION_CALLS(chat_answer)),
    {.path = NULL},
};
