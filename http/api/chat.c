// POST /v1/chat/completions: its fields and its answers (http-api.md section 2). The conversation
// is read by chat_turns.c, the life of the request is generation.c. A chunk of a stream is a
// constant beginning, made once, the escaped text and a constant end.
#include "http/api/endpoints.h"
#include "http/api/generation.h"
#include "http/api/ids.h"
#include "http/api/turns.h"

enum { CHAT_STOPS_MAX = 16 };

static const struct field_rule chat_rules[] = {
    {"model", FIELD_READ, NULL, NULL},
    {"messages", FIELD_READ, NULL, NULL},
    {"temperature", FIELD_READ, NULL, NULL},
    {"max_tokens", FIELD_READ, NULL, NULL},
    {"max_completion_tokens", FIELD_READ, NULL, NULL},
    {"stream", FIELD_READ, NULL, NULL},
    {"stream_options", FIELD_READ, NULL, NULL},
    {"top_p", FIELD_READ, NULL, NULL},
    {"top_k", FIELD_READ, NULL, NULL},
    {"stop", FIELD_READ, NULL, NULL},
    {"seed", FIELD_READ, NULL, NULL},
    {"ignore_eos", FIELD_READ, NULL, NULL},
    {"continue_final_message", FIELD_READ, NULL, NULL},
    {"add_generation_prompt", FIELD_READ, NULL, NULL},

    {"user", FIELD_IGNORED, "string", NULL},
    {"metadata", FIELD_IGNORED, "object", NULL},
    {"safety_identifier", FIELD_IGNORED, NULL, NULL},
    {"store", FIELD_IGNORED, NULL, NULL},
    {"service_tier", FIELD_IGNORED, NULL, NULL},
    {"prompt_cache_key", FIELD_IGNORED, NULL, NULL},
    {"prompt_cache_retention", FIELD_IGNORED, NULL, NULL},
    {"prompt_cache_options", FIELD_IGNORED, NULL, NULL},
    {"prediction", FIELD_IGNORED, NULL, NULL},
    {"verbosity", FIELD_IGNORED, NULL, NULL},
    {"cache_control", FIELD_IGNORED, NULL, NULL},
    {"inference_geo", FIELD_IGNORED, NULL, NULL},
    {"speed", FIELD_IGNORED, NULL, NULL},
    {"diagnostics", FIELD_IGNORED, NULL, NULL},

    {"n", FIELD_REFUSED, "[1]", NULL},
    {"tools", FIELD_REFUSED, "[[]]", NULL},
    {"tool_choice", FIELD_REFUSED, "[\"none\",\"auto\"]", NULL},
    {"parallel_tool_calls", FIELD_REFUSED, "[true,false]", NULL},
    {"functions", FIELD_REFUSED, "[[]]", "use tools"},
    {"function_call", FIELD_REFUSED, "[\"none\",\"auto\"]", "use tools"},
    {"response_format", FIELD_REFUSED, "[{\"type\":\"text\"}]", NULL},
    {"structured_outputs", FIELD_REFUSED, "[{}]", NULL},
    {"guided_json", FIELD_REFUSED, NULL, NULL},
    {"guided_regex", FIELD_REFUSED, NULL, NULL},
    {"guided_choice", FIELD_REFUSED, NULL, NULL},
    {"guided_grammar", FIELD_REFUSED, NULL, NULL},
    {"logprobs", FIELD_REFUSED, "[false]", NULL},
    {"top_logprobs", FIELD_REFUSED, "[0]", NULL},
    {"prompt_logprobs", FIELD_REFUSED, NULL, NULL},
    {"logit_bias", FIELD_REFUSED, "[{}]", NULL},
    {"presence_penalty", FIELD_REFUSED, "[0]", NULL},
    {"frequency_penalty", FIELD_REFUSED, "[0]", NULL},
    {"repetition_penalty", FIELD_REFUSED, "[1]", NULL},
    {"repeat_penalty", FIELD_REFUSED, "[1]", NULL},
    {"min_p", FIELD_REFUSED, "[0]", NULL},
    {"min_tokens", FIELD_REFUSED, "[0]", NULL},
    {"stop_token_ids", FIELD_REFUSED, "[[]]", NULL},
    {"bad_words", FIELD_REFUSED, "[[]]", NULL},
    {"include_stop_str_in_output", FIELD_REFUSED, "[false]", NULL},
    {"skip_special_tokens", FIELD_REFUSED, "[true]", NULL},
    {"reasoning_effort", FIELD_REFUSED, "[\"none\"]", NULL},
    {"include_reasoning", FIELD_REFUSED, "[true]", NULL},
    {"thinking_token_budget", FIELD_REFUSED, NULL, NULL},
    {"chat_template_kwargs", FIELD_REFUSED, "[{},{\"enable_thinking\":false}]", NULL},
    {"chat_template", FIELD_REFUSED, NULL, "the server's own template is used"},
    {"truncate_prompt_tokens", FIELD_REFUSED, NULL, NULL},
    {"cache_salt", FIELD_REFUSED, NULL, NULL},
    {"priority", FIELD_REFUSED, "[0]", NULL},
    {"return_token_ids", FIELD_REFUSED, "[false]", NULL},
    {"return_tokens_as_token_ids", FIELD_REFUSED, "[false]", NULL},
    {"timings_per_token", FIELD_REFUSED, "[false]", NULL},
    {"return_progress", FIELD_REFUSED, "[false]", NULL},
    {"best_of", FIELD_REFUSED, "[1]", NULL},
    {"use_beam_search", FIELD_REFUSED, "[false]", NULL},
    {"echo", FIELD_REFUSED, "[false]", NULL},
    {"logits_processors", FIELD_REFUSED, "[[]]", NULL},
    {"audio", FIELD_REFUSED, NULL, NULL},
    {"modalities", FIELD_REFUSED, "[[\"text\"]]", NULL},
    {"web_search_options", FIELD_REFUSED, NULL, NULL},
    {"moderation", FIELD_REFUSED, NULL, NULL},
};

static const uint32_t chat_rule_count = sizeof(chat_rules) / sizeof(chat_rules[0]);

// Reading

static void stream_options_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *options = fields_get(f, "stream_options");
    static const char *const names[] = {"include_usage", "continuous_usage_stats"};
    bool values[2] = {false, false};

    if (options && !json_is_object(options)) {
        fields_fail(f, HTTP_INVALID_TYPE, "stream_options", "must be an object");
        return;
    }
    for (int i = 0; i < 2; i++) {
        const json_t *value = json_object_get(options, names[i]);
        if (value && !json_is_null(value) && !json_is_boolean(value)) {
            fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "stream_options.%s", names[i]),
                        "must be true or false");
        }
        values[i] = json_is_true(value);
    }
    g->include_usage = values[0];
    g->continuous_usage = values[0] && values[1];
}

static void chat_read_length(struct generation *g)
{
    struct fields *f = &g->call.fields;
    struct integer_range range = {1, INT64_MAX, 0};
    int64_t plain = fields_integer(f, "max_tokens", range);
    int64_t completion = fields_integer(f, "max_completion_tokens", range);
    int64_t wanted = completion ? completion : plain;

    g->max_tokens = wanted > UINT32_MAX ? UINT32_MAX : (uint32_t)wanted;
}

static void chat_read(struct generation *g)
{
    struct fields *f = &g->call.fields;

    if (!call_model(&g->call, MODEL_GENERATOR, chat_rules, chat_rule_count)) {
        return;
    }
    generation_read_sampling(g, 2, -1);
    int64_t seed = fields_integer(f, "seed", (struct integer_range){INT64_MIN, INT64_MAX, 0});
    g->params.seed = fields_get(f, "seed") ? (uint64_t)seed : random_seed();
    chat_read_length(g);
    g->stream = fields_bool(f, "stream", false);
    g->ignore_end = fields_bool(f, "ignore_eos", false);
    stream_options_read(g);
    generation_read_stops(g, "stop", true, CHAT_STOPS_MAX);

    bool continued = fields_bool(f, "continue_final_message", false);
    g->generation_prompt = fields_bool(f, "add_generation_prompt", true);
    if (continued && fields_get(f, "add_generation_prompt") && g->generation_prompt) {
        fields_fail(f, HTTP_INVALID_VALUE, "continue_final_message",
                    "cannot be true together with add_generation_prompt");
    }
    g->thinking_off = fields_get(f, "reasoning_effort") ||
                      json_object_get(fields_get(f, "chat_template_kwargs"), "enable_thinking");
    chat_turns_read(&g->conversation, f);
    g->conversation.continued = g->conversation.continued || continued;
}

// Writing

struct chat_writer {
    struct text chunk; // `data: {"id":...,"choices":[{"index":0,"delta":`
};

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

static void chunk_begin(const struct generation *g, struct json_buffer *out)
{
    const struct chat_writer *writer = g->writer;
    json_put_raw(out, writer->chunk);
    json_put_literal(out, "{\"index\":0,\"delta\":");
}

// Behind the finish reason of a choice.
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
    struct arena *arena = exchange_arena(g->call.exchange);
    struct chat_writer *writer = arena_take_zeroed(arena, 1, sizeof(*writer));
    struct json_buffer chunk = {0};

    json_put_literal(&chunk, "data: ");
    head_put(g, &chunk, "chat.completion.chunk");
    if (writer) {
        writer->chunk = arena_copy(arena, text_span(chunk.at, chunk.bytes));
    }
    json_buffer_free(&chunk);
    g->writer = writer;
    check(writer && writer->chunk.at, "the arena of an exchange has no room for %zu bytes",
          chunk.bytes);
    chunk_begin(g, out);
    json_put_literal(out, "{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                          "\"finish_reason\":null");
    chunk_end(g, out);
}

static void chat_text(struct generation *g, struct json_buffer *out, struct text delta)
{
    chunk_begin(g, out);
    json_put_literal(out, "{\"content\":");
    json_put_string(out, delta);
    json_put_literal(out, "},\"logprobs\":null,\"finish_reason\":null");
    chunk_end(g, out);
}

static void chat_idle(struct generation *g, struct json_buffer *out)
{
    (void)g;
    json_put_literal(out, ": keep-alive\n\n");
}

static const char *finish_reason(const struct generation *g)
{
    return g->end == END_LENGTH || g->end == END_WINDOW ? "length" : "stop";
}

static void chat_end(struct generation *g, struct json_buffer *out)
{
    const struct chat_writer *writer = g->writer;

    chunk_begin(g, out);
    json_put_format(out, "{},\"logprobs\":null,\"finish_reason\":\"%s\"", finish_reason(g));
    chunk_end(g, out);
    if (g->include_usage) {
        json_put_raw(out, writer->chunk);
        json_put_literal(out, "],\"usage\":");
        usage_put(g, out);
        json_put_literal(out, "}}\n\n");
    }
    json_put_literal(out, "data: [DONE]\n\n");
}

static void chat_whole(struct generation *g, struct json_buffer *out, struct text text)
{
    head_put(g, out, "chat.completion");
    json_put_literal(out, "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    json_put_string(out, text);
    json_put_format(out,
                    ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"%s\"}],\"usage\":",
                    finish_reason(g));
    usage_put(g, out);
    json_put_literal(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":0}}}");
}

static void chat_failure(struct generation *g, struct json_buffer *out,
                         const struct http_failure *failure)
{
    json_put_literal(out, "data: ");
    http_error_body(out, failure, SHAPE_OPENAI, g->call.info->request_id);
    json_put_literal(out, "\n\n");
}

static const struct generation_shape chat_shape = {
    .read = chat_read,
    .begin = chat_begin,
    .text = chat_text,
    .idle = chat_idle,
    .end = chat_end,
    .whole = chat_whole,
    .failure = chat_failure,
    .id_prefix = "chatcmpl-",
};

static void chat_request(struct exchange *x)
{
    generation_start(x, &chat_shape, false);
}

const struct route chat_routes[CHAT_ROUTE_COUNT] = {
    {
        .method = "POST",
        .path = "/v1/chat/completions",
        .shape = SHAPE_OPENAI,
        .flags = ROUTE_BEARER | ROUTE_JSON,
        .on_request = chat_request,
        .on_ready = generation_ready,
        .on_room = generation_ready,
        .on_second = generation_second,
        .on_gone = generation_gone,
    },
};
