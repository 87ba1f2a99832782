// POST /v1/messages and /v1/messages/count_tokens: fields and answers (docs/API.md). The turns are
// read by messages_turns.c, what both shapes share is in generation.c.
#include "http/api/decoding.h"
#include "http/api/endpoints.h"
#include "http/api/not_served.h"
#include "http/api/prompt.h"
#include "http/api/structured.h"
#include "http/api/turns.h"

#include <ctype.h>

enum { MESSAGES_STOPS_MAX = 64, MESSAGES_TOKENS_DEFAULT = 4096 };

static const struct field_rule metadata_rows[] = {FIELD_HARMLESS("user_id", "s")};
static const struct field_rules metadata_members = FIELD_RULES(metadata_rows, NULL);

static const struct field_rule thinking_rows[] = {
    FIELD_TYPED("type", "s"),
    FIELD_TYPED("budget_tokens", "i"),
    FIELD_HARMLESS("display", "s"),
};
static const struct field_rules thinking_members = FIELD_RULES(thinking_rows, NULL);

static const struct field_rule choice_rows[] = {
    FIELD_NOT_SERVED("type", "s", "[\"none\",\"auto\"]"), FIELD_NOT_SERVED("name", "s", NULL),
    FIELD_HARMLESS("disable_parallel_tool_use", "b"), // there are no calls
};
static const struct field_rules choice_members = FIELD_RULES(choice_rows, NULL);

static const struct field_rule messages_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("messages"),
    FIELD_READ_BY("max_tokens"),
    FIELD_READ_BY("system"),
    FIELD_READ_BY("temperature"),
    FIELD_READ_BY("top_p"),
    FIELD_READ_BY("top_k"),
    FIELD_READ_BY("stop_sequences"),
    FIELD_READ_BY("stream"),
    FIELD_OBJECT("thinking", thinking_members),
    FIELD_OBJECT("chat_template_kwargs", prompt_kwargs_members),
    FIELD_OBJECT("output_config", structured_config_members),
    FIELD_OBJECT("output_format", structured_output_members),

    FIELD_OBJECT("metadata", metadata_members),
    FIELD_HARMLESS("user", "s"),
    FIELD_HARMLESS("safety_identifier", "s"),
    FIELD_HARMLESS("store", "b"),
    FIELD_HARMLESS("service_tier", "s"),
    FIELD_HARMLESS("cache_control", "o"),
    FIELD_HARMLESS("inference_geo", "s"),
    FIELD_HARMLESS("speed", "s"),
    FIELD_HARMLESS("diagnostics", "o"),

    FIELD_NOT_SERVED("tools", "a", "[[]]"),
    FIELD_OBJECT("tool_choice", choice_members),
    FIELD_NOT_SERVED_BUT("stop", "sa", "[[],\"\"]", "use stop_sequences"),
    FIELD_NOT_SERVED_BUT("max_completion_tokens", "i", NULL, "use max_tokens"),
    FIELD_NOT_SERVED("logit_bias", "oa", "[{},[]]"),
    FIELD_NOT_SERVED("presence_penalty", "n", "[0]"),
    FIELD_NOT_SERVED("frequency_penalty", "n", "[0]"),
    FIELD_NOT_SERVED("repetition_penalty", "n", "[1]"),
    FIELD_NOT_SERVED("repeat_penalty", "n", "[1]"),
    FIELD_NOT_SERVED("min_p", "n", "[0]"),
    FIELD_NOT_SERVED("min_tokens", "i", "[0]"),
    FIELD_NOT_SERVED("stop_token_ids", "a", "[[]]"),
    FIELD_NOT_SERVED("include_stop_str_in_output", "b", "[false]"),
    FIELD_NOT_SERVED("skip_special_tokens", "b", "[true]"),
    FIELD_NOT_SERVED("reasoning_effort", "s", "[\"none\"]"),
    FIELD_NOT_SERVED_BUT("response_format", "o", "[{\"type\":\"text\"}]", "use output_config"),
    FIELD_NOT_SERVED_BUT("structured_outputs", "o", "[{}]", "use output_config"),
    FIELD_NOT_SERVED_BUT("guided_json", "so", NULL, "use output_config"),
    FIELD_NOT_SERVED("guided_regex", "s", NULL),
    FIELD_NOT_SERVED("guided_choice", "a", NULL),
    FIELD_NOT_SERVED("guided_grammar", "s", NULL),
    FIELD_NOT_SERVED("add_special_tokens", "b", "[false]"),
    FIELD_NOT_SERVED("prompt", "sa", NULL),
    FIELD_NOT_SERVED("suffix", "s", NULL),
    FIELD_NOT_SERVED("echo", "b", "[false]"),
};
static const struct field_rules messages_rules = FIELD_RULES(messages_rows, &generation_not_served);

// Reading

// Thinking is not offered; forms that mean "none" pass, as does adaptive where the model's
// template cannot think anyway.
static void thinking_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *thinking = fields_get(f, "thinking");
    struct text type = json_text(json_object_get(thinking, "type"));
    prompt_variables_read(g, true); // also where the template's own default is on
    if (!thinking)
        return;
    fields_require_type(f, "thinking");
    if (text_is(type, "enabled") ||
        (text_is(type, "adaptive") && chat_template_uses(g->call.model->chat, "enable_thinking"))) {
        fields_fail(f, HTTP_UNSUPPORTED_PARAMETER, "thinking", "is not supported");
    } else if (!text_is(type, "disabled") && !text_is(type, "between_tools") &&
               !text_is(type, "adaptive")) {
        fields_fail(f, HTTP_INVALID_VALUE, "thinking.type",
                    "must be 'enabled', 'disabled', 'adaptive' or 'between_tools'");
    }
}

static void messages_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    if (!call_model(&g->call, MODEL_GENERATOR, &messages_rules))
        return;
    decoding_read_sampling(g, 1, 0);
    if (!g->count_only) { // count_tokens has neither
        g->submit.max_tokens = fields_count(f, "max_tokens", MESSAGES_TOKENS_DEFAULT);
        g->stream = fields_bool(f, "stream", false);
    }
    g->generation_prompt = true;
    decoding_read_stops(g, "stop_sequences", false, MESSAGES_STOPS_MAX);
    thinking_read(g);
    fields_require_type(f, "tool_choice");
    structured_read_messages(g);
    messages_turns_read(&g->conversation, f);
}

// Writing

static void usage_put(const struct generation *g, uint32_t output_tokens, struct json_buffer *out)
{
    json_put_format(out,
                    "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
                    "\"cache_read_input_tokens\":%u,\"output_tokens\":%u,",
                    g->prompt_tokens - g->cached_tokens, g->cached_tokens, output_tokens);
}

static void usage_whole_put(const struct generation *g, uint32_t output_tokens,
                            struct json_buffer *out)
{
    usage_put(g, output_tokens, out);
    json_put_literal(out, "\"cache_creation\":null,\"output_tokens_details\":null,"
                          "\"server_tool_use\":null,\"service_tier\":null,"
                          "\"inference_geo\":null,\"speed\":null}");
}

static void head_put(const struct generation *g, struct json_buffer *out)
{
    json_put_literal(out, "{\"id\":");
    json_put_string(out, g->id);
    json_put_literal(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    json_put_string(out, text_of(g->call.model->id));
    json_put_literal(out, ",\"content\":[");
}

static void messages_begin(struct generation *g, struct json_buffer *out)
{
    json_put_literal(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    head_put(g, out);
    json_put_literal(out, "],\"stop_reason\":null,\"stop_sequence\":null,\"stop_details\":null,"
                          "\"container\":null,\"diagnostics\":null,");
    usage_whole_put(g, 0, out); // none has been given out yet
    json_put_literal(out, "}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
}

static void block_open(struct generation *g, struct json_buffer *out)
{
    if (!g->block_open) {
        g->block_open = true;
        json_put_literal(out, "event: content_block_start\n"
                              "data: {\"type\":\"content_block_start\",\"index\":0,"
                              "\"content_block\":{\"type\":\"text\",\"text\":\"\","
                              "\"citations\":null}}\n\n");
    }
}

// Versions are dates; the reason for a full window came with 2026-10-21.
static bool version_knows_window(struct text version)
{
    static const char first[] = "2026-10-21";
    if (version.bytes != sizeof first - 1)
        return false;
    for (size_t i = 0; i < version.bytes; i++)
        if (first[i] == '-' ? version.at[i] != '-' : !isdigit((unsigned char)version.at[i]))
            return false;
    return memcmp(version.at, first, sizeof first - 1) >= 0;
}

static void stop_put(const struct generation *g, struct json_buffer *out)
{
    static const char *const reasons[] = {
        [END_TURN] = "end_turn",
        [END_STOP_STRING] = "stop_sequence",
        [END_LENGTH] = "max_tokens",
        [END_WINDOW] = "model_context_window_exceeded",
    };
    const struct choice *c = g->choices;
    enum generation_end end = c->end;
    if (end == END_WINDOW && !version_knows_window(g->call.info->anthropic_version))
        end = END_LENGTH;
    json_put_format(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reasons[end]);
    if (end == END_STOP_STRING)
        json_put_string(out, g->options.stops.strings[c->scan.which]);
    else
        json_put_literal(out, "null");
    json_put_literal(out, ",\"stop_details\":null,\"container\":null");
}

static void messages_end(struct generation *g, struct json_buffer *out)
{
    block_open(g, out); // an empty answer is one empty text block
    json_put_literal(out, "event: content_block_stop\n"
                          "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
                          "event: message_delta\n"
                          "data: {\"type\":\"message_delta\",\"delta\":{");
    stop_put(g, out);
    json_put_literal(out, "},");
    usage_put(g, generation_output(g), out);
    json_put_literal(out, "\"output_tokens_details\":null,\"server_tool_use\":null}}\n\n"
                          "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void messages_whole(const struct generation *g, struct json_buffer *out)
{
    head_put(g, out);
    json_put_literal(out, "{\"type\":\"text\",\"text\":");
    json_put_string(out, text_span(g->choices->text.at, g->choices->text.bytes));
    json_put_literal(out, ",\"citations\":null}],");
    stop_put(g, out);
    json_put_literal(out, ",\"diagnostics\":null,");
    usage_whole_put(g, generation_output(g), out);
    json_put_literal(out, "}");
}

static void messages_put(struct generation *g, enum generation_tell step, struct json_buffer *out)
{
    switch (step) {
    case TELL_WAIT:
    case TELL_CHOICE: // TELL_END says it: there is one choice
        break;
    case TELL_BEGIN:
        messages_begin(g, out);
        break;
    case TELL_TEXT:
        block_open(g, out);
        json_put_literal(out, "event: content_block_delta\n"
                              "data: {\"type\":\"content_block_delta\",\"index\":0,"
                              "\"delta\":{\"type\":\"text_delta\",\"text\":");
        json_put_string(out, text_span(g->choices->text.at, g->choices->text.bytes));
        json_put_literal(out, "}}\n\n");
        break;
    case TELL_IDLE:
        json_put_literal(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
        break;
    case TELL_END:
        messages_end(g, out);
        break;
    case TELL_WHOLE:
        messages_whole(g, out);
        break;
    case TELL_FAILURE:
        json_put_literal(out, "event: error\ndata: ");
        http_error_body(out, &g->failure, SHAPE_MESSAGES, g->call.info->request_id);
        json_put_literal(out, "\n\n");
        break;
    }
}

// The life of a request, in the order of the calls

static void messages_prepare(struct exchange *x)
{
    struct generation *g = generation_open(x);
    messages_read(g);
    generation_tokenize(g);
}

static void messages_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    generation_submit(g, generation_begin(g, "msg_"));
}

static void messages_answer(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    struct json_buffer out = {0};
    enum generation_tell step;
    while ((step = generation_next(g)) != TELL_WAIT) {
        messages_put(g, step, &out);
        generation_send(g, step, &out);
    }
    json_buffer_free(&out);
}

// Counting the tokens of a prompt

static void count_prepare(struct exchange *x)
{
    struct generation *g = generation_open(x);
    g->count_only = true;
    messages_read(g);
    generation_tokenize(g);
}

static void count_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    if (!call_failed(&g->call))
        exchange_reply(x, 200,
                       arena_format(exchange_arena(x), "{\"input_tokens\":%u}", g->prompt_tokens));
}

#define MESSAGES_ROUTE(route_path)                                                                 \
    {                                                                                              \
        .method = "POST",                                                                          \
        .path = route_path,                                                                        \
        .shape = SHAPE_MESSAGES,                                                                   \
        .flags = ROUTE_X_API_KEY | ROUTE_JSON,                                                     \
        .inline_bytes_max = BODY_INLINE_BYTES_MAX,                                                 \
        .on_prepare = messages_prepare,                                                            \
        .on_request = messages_request,                                                            \
        .on_ready = messages_answer,                                                               \
        .on_room = messages_answer,                                                                \
        .on_second = generation_clock,                                                             \
        .on_cut = generation_cut,                                                                  \
        .on_gone = generation_gone,                                                                \
    }
#define COUNT_ROUTE(route_path)                                                                    \
    {                                                                                              \
        .method = "POST",                                                                          \
        .path = route_path,                                                                        \
        .shape = SHAPE_MESSAGES,                                                                   \
        .flags = ROUTE_X_API_KEY | ROUTE_JSON,                                                     \
        .inline_bytes_max = BODY_INLINE_BYTES_MAX,                                                 \
        .on_prepare = count_prepare,                                                               \
        .on_request = count_request,                                                               \
    }

// The aliases are for clients that append /v1/messages to a base that ends in /v1.
const struct route messages_routes[] = {
    MESSAGES_ROUTE("/v1/messages"),
    MESSAGES_ROUTE("/v1/v1/messages"),
    COUNT_ROUTE("/v1/messages/count_tokens"),
    COUNT_ROUTE("/v1/v1/messages/count_tokens"),
    {.path = NULL},
};
