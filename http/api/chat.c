// POST /v1/chat/completions: its fields and its answers (docs/API.md). The conversation is read by
// chat_turns.c, what both shapes share is in generation.c. A chunk of a stream is a constant
// beginning, made once, the escaped text and a constant end.
#include "http/api/endpoints.h"
#include "http/api/generation.h"
#include "http/ids.h"
#include "http/api/not_served.h"
#include "http/api/turns.h"

enum { CHAT_STOPS_MAX = 16 };

static const struct field_rule stream_rows[] = {
    FIELD_TYPED("include_usage", "b"),
    FIELD_TYPED("continuous_usage_stats", "b"),
    FIELD_HARMLESS("include_obfuscation", "b"),
};
static const struct field_rules stream_members = FIELD_RULES(stream_rows, NULL);

static const struct field_rule thinking_rows[] = {
    FIELD_NOT_SERVED("type", "s", "[\"disabled\"]"),
    FIELD_NOT_SERVED("*", NULL, NULL),
};
static const struct field_rules thinking_members = FIELD_RULES(thinking_rows, NULL);

static const struct field_rule reasoning_rows[] = {
    FIELD_NOT_SERVED("effort", "s", "[\"none\"]"),
    FIELD_NOT_SERVED("enabled", "b", "[false]"),
    FIELD_NOT_SERVED("*", NULL, NULL),
};
static const struct field_rules reasoning_members = FIELD_RULES(reasoning_rows, NULL);

static const struct field_rule chat_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("messages"),
    FIELD_READ_BY("temperature"),
    FIELD_READ_BY("max_tokens"),
    FIELD_READ_BY("max_completion_tokens"),
    FIELD_READ_BY("stream"),
    FIELD_OBJECT("stream_options", stream_members),
    FIELD_READ_BY("top_p"),
    FIELD_READ_BY("top_k"),
    FIELD_READ_BY("stop"),
    FIELD_READ_BY("seed"),
    FIELD_READ_BY("ignore_eos"),
    FIELD_READ_BY("continue_final_message"),
    FIELD_READ_BY("add_generation_prompt"),

    FIELD_HARMLESS("user", "s"),
    FIELD_HARMLESS("metadata", "o"),
    FIELD_HARMLESS("safety_identifier", "s"),
    FIELD_HARMLESS("store", "b"),
    FIELD_HARMLESS("service_tier", "s"),
    FIELD_HARMLESS("prompt_cache_key", "s"),
    FIELD_HARMLESS("prompt_cache_retention", "s"),
    FIELD_HARMLESS("prompt_cache_options", "o"),
    FIELD_HARMLESS("cache_prompt", "b"),
    FIELD_HARMLESS("prediction", "o"),
    FIELD_HARMLESS("verbosity", "s"),
    FIELD_HARMLESS("cache_control", "o"),
    FIELD_HARMLESS("inference_geo", "s"),
    FIELD_HARMLESS("speed", "s"),
    FIELD_HARMLESS("diagnostics", "o"),
    FIELD_HARMLESS("parallel_tool_calls", "b"), // there are no calls

    FIELD_NOT_SERVED_BUT("n", "i", "[1]", "only 1 is"),
    FIELD_NOT_SERVED("tools", "a", "[[]]"),
    FIELD_NOT_SERVED("tool_choice", "so", "[\"none\",\"auto\"]"),
    FIELD_NOT_SERVED_BUT("functions", "a", "[[]]", "use tools"),
    FIELD_NOT_SERVED_BUT("function_call", "so", "[\"none\",\"auto\"]", "use tools"),
    FIELD_NOT_SERVED("logprobs", "b", "[false]"),
    FIELD_NOT_SERVED("top_logprobs", "i", "[0]"),
    FIELD_OBJECT("thinking", thinking_members),
    FIELD_OBJECT("reasoning", reasoning_members),
    FIELD_NOT_SERVED_BUT("system", "sa", NULL, "send a message with the role 'system'"),
    FIELD_NOT_SERVED_BUT("stop_sequences", "a", "[[]]", "use stop"),
};
static const struct field_rules chat_rules = FIELD_RULES(chat_rows, &generation_not_served);

// Reading

static void stream_options_read(struct generation *g)
{
    const json_t *options = fields_get(&g->call.fields, "stream_options");

    g->include_usage = json_is_true(json_object_get(options, "include_usage"));
    g->continuous_usage =
        g->include_usage && json_is_true(json_object_get(options, "continuous_usage_stats"));
}

// Only values that mean "off" pass the tables; without one the template's default stays.
static bool thinking_is_off(const struct fields *f)
{
    return json_member(f->root, "reasoning_effort") ||
           json_member(fields_get(f, "thinking"), "type") ||
           json_member(fields_get(f, "reasoning"), "effort") ||
           json_member(fields_get(f, "reasoning"), "enabled") ||
           json_member(fields_get(f, "chat_template_kwargs"), "enable_thinking");
}

static void chat_read(struct generation *g)
{
    struct fields *f = &g->call.fields;

    if (!call_model(&g->call, MODEL_GENERATOR, &chat_rules))
        return;
    generation_read_sampling(g, 2, -1);
    int64_t seed = fields_integer(f, "seed", (struct integer_range){INT64_MIN, INT64_MAX, 0});
    g->submit.sampling.seed = fields_get(f, "seed") ? (uint64_t)seed : random_seed();
    g->submit.max_tokens = fields_count(f, "max_tokens", 0);
    g->submit.max_tokens = fields_count(f, "max_completion_tokens", g->submit.max_tokens);
    g->stream = fields_bool(f, "stream", false);
    g->submit.ignore_end = fields_bool(f, "ignore_eos", false);
    stream_options_read(g);
    generation_read_stops(g, "stop", true, CHAT_STOPS_MAX);

    bool continued = fields_bool(f, "continue_final_message", false);
    g->generation_prompt = fields_bool(f, "add_generation_prompt", true);
    if (continued && fields_get(f, "add_generation_prompt") && g->generation_prompt) {
        fields_fail(f, HTTP_INVALID_VALUE, "continue_final_message",
                    "cannot be true together with add_generation_prompt");
    }
    g->thinking_off = thinking_is_off(f);
    fields_require_type(f, "response_format");
    chat_turns_read(&g->conversation, f);
    g->conversation.continued = g->conversation.continued || continued;
}

// Writing

static void usage_put(const struct generation *g, struct json_buffer *out)
{
    json_put_format(out,
                    "{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%llu,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":%u}",
                    g->prompt_tokens, g->output_tokens,
                    (unsigned long long)g->prompt_tokens + g->output_tokens, g->cached_tokens);
}

static void head_put(const struct generation *g, struct json_buffer *out, const char *object)
{
    json_put_literal(out, "{\"id\":");
    json_put_string(out, g->id);
    json_put_format(out, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object,
                    (long long)g->created);
    json_put_string(out, text_of(g->call.model->id));
    json_put_format(out, ",\"system_fingerprint\":\"%s\",\"choices\":[",
                    g->call.model->fingerprint);
}

// False: the arena is full.
static bool chunk_make(struct generation *g)
{
    struct json_buffer chunk = {0};

    if (!g->stream)
        return true;
    json_put_literal(&chunk, "data: ");
    head_put(g, &chunk, "chat.completion.chunk");
    g->chunk = arena_copy(exchange_arena(g->call.exchange), text_span(chunk.at, chunk.bytes));
    json_buffer_free(&chunk);
    return g->chunk.at != NULL;
}

static void chunk_begin(const struct generation *g, struct json_buffer *out)
{
    json_put_raw(out, g->chunk);
    json_put_literal(out, "{\"index\":0,\"delta\":");
}

// What ends every chunk after the finish reason of its choice.
static void chunk_end(const struct generation *g, struct json_buffer *out)
{
    json_put_literal(out, "}]");
    if (g->continuous_usage) {
        json_put_literal(out, ",\"usage\":");
        usage_put(g, out);
        json_put_literal(out, "}");
    } else if (g->include_usage) {
        json_put_literal(out, ",\"usage\":null");
    }
    json_put_literal(out, "}\n\n");
}

static void chat_begin(struct generation *g, struct json_buffer *out)
{
    chunk_begin(g, out);
    json_put_literal(out, "{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                          "\"finish_reason\":null");
    chunk_end(g, out);
}

static const char *finish_reason(const struct generation *g)
{
    return g->end == END_LENGTH || g->end == END_WINDOW ? "length" : "stop";
}

static void chat_end(const struct generation *g, struct json_buffer *out)
{
    chunk_begin(g, out);
    json_put_format(out, "{},\"logprobs\":null,\"finish_reason\":\"%s\"", finish_reason(g));
    chunk_end(g, out);
    if (g->include_usage) {
        json_put_raw(out, g->chunk);
        json_put_literal(out, "],\"usage\":");
        usage_put(g, out);
        json_put_literal(out, "}}\n\n");
    }
    json_put_literal(out, "data: [DONE]\n\n");
}

static void chat_whole(const struct generation *g, struct json_buffer *out)
{
    head_put(g, out, "chat.completion");
    json_put_literal(out, "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    json_put_string(out, generation_text(g));
    json_put_format(out,
                    ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"%s\"}],\"usage\":",
                    finish_reason(g));
    usage_put(g, out);
    json_put_literal(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":0}}}");
}

static void chat_put(struct generation *g, enum generation_step step, struct json_buffer *out)
{
    switch (step) {
    case STEP_WAIT:
        break;
    case STEP_BEGIN:
        chat_begin(g, out);
        break;
    case STEP_TEXT:
        chunk_begin(g, out);
        json_put_literal(out, "{\"content\":");
        json_put_string(out, generation_text(g));
        json_put_literal(out, "},\"logprobs\":null,\"finish_reason\":null");
        chunk_end(g, out);
        break;
    case STEP_IDLE:
        json_put_literal(out, ": keep-alive\n\n");
        break;
    case STEP_END:
        chat_end(g, out);
        break;
    case STEP_WHOLE:
        chat_whole(g, out);
        break;
    case STEP_FAILURE:
        json_put_literal(out, "data: ");
        http_error_body(out, &g->failure, SHAPE_OPENAI, g->call.info->request_id);
        json_put_literal(out, "\n\n");
        break;
    }
}

// The life of a request, in the order of the calls

static void chat_prepare(struct exchange *x)
{
    struct generation *g = generation_open(x);

    chat_read(g);
    generation_tokenize(g);
}

static void chat_request(struct exchange *x)
{
    generation_submit(exchange_state(x), "chatcmpl-", chunk_make);
}

static void chat_answer(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    struct json_buffer out = {0};
    enum generation_step step;

    while ((step = generation_next(g)) != STEP_WAIT) {
        chat_put(g, step, &out);
        generation_send(g, step, &out);
    }
    json_buffer_free(&out);
}

static void chat_second(struct exchange *x, uint64_t now_ns)
{
    generation_clock(exchange_state(x), now_ns);
    chat_answer(x);
}

static void chat_cut(struct exchange *x, const struct http_failure *failure)
{
    generation_cut(exchange_state(x), failure);
    chat_answer(x);
}

const struct route chat_routes[] = {
    {
        .method = "POST",
        .path = "/v1/chat/completions",
        .shape = SHAPE_OPENAI,
        .flags = ROUTE_BEARER | ROUTE_JSON,
        .inline_bytes_max = BODY_INLINE_BYTES_MAX,
        .on_prepare = chat_prepare,
        .on_request = chat_request,
        .on_ready = chat_answer,
        .on_room = chat_answer,
        .on_second = chat_second,
        .on_cut = chat_cut,
        .on_gone = generation_gone,
    },
    {.path = NULL},
};
