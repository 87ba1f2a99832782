// POST /v1/messages and /v1/messages/count_tokens: fields and answers (http-api.md section 3).
// The turns are read by messages_turns.c, the life of the request is generation.c.
#include "http/api/endpoints.h"
#include "http/api/generation.h"
#include "http/api/ids.h"
#include "http/api/turns.h"

#include <ctype.h>

enum { MESSAGES_STOPS_MAX = 64, MESSAGES_TOKENS_DEFAULT = 4096 };

static const struct field_rule messages_rules[] = {
    {"model", FIELD_READ, NULL, NULL},
    {"messages", FIELD_READ, NULL, NULL},
    {"max_tokens", FIELD_READ, NULL, NULL},
    {"system", FIELD_READ, NULL, NULL},
    {"temperature", FIELD_READ, NULL, NULL},
    {"top_p", FIELD_READ, NULL, NULL},
    {"top_k", FIELD_READ, NULL, NULL},
    {"stop_sequences", FIELD_READ, NULL, NULL},
    {"stream", FIELD_READ, NULL, NULL},
    {"thinking", FIELD_READ, NULL, NULL},

    {"metadata", FIELD_IGNORED, "object", NULL},
    {"user", FIELD_IGNORED, "string", NULL},
    {"safety_identifier", FIELD_IGNORED, NULL, NULL},
    {"store", FIELD_IGNORED, NULL, NULL},
    {"service_tier", FIELD_IGNORED, NULL, NULL},
    {"cache_control", FIELD_IGNORED, NULL, NULL},
    {"inference_geo", FIELD_IGNORED, NULL, NULL},
    {"speed", FIELD_IGNORED, NULL, NULL},
    {"diagnostics", FIELD_IGNORED, NULL, NULL},

    {"tools", FIELD_REFUSED, "[[]]", NULL},
    {"tool_choice", FIELD_REFUSED, "[{\"type\":\"none\"},{\"type\":\"auto\"}]", NULL},
    {"output_config", FIELD_REFUSED, "[{}]", NULL},
    {"output_format", FIELD_REFUSED, NULL, NULL},
    {"container", FIELD_REFUSED, NULL, NULL},
    {"mcp_servers", FIELD_REFUSED, "[[]]", NULL},
    {"context_management", FIELD_REFUSED, "[{}]", NULL},
    {"chat_template_kwargs", FIELD_REFUSED, "[{},{\"enable_thinking\":false}]", NULL},
};

static const uint32_t messages_rule_count = sizeof(messages_rules) / sizeof(messages_rules[0]);

// Reading

// Thinking is not offered; forms that mean "none" pass, as does adaptive where the model's
// template cannot think anyway.
static void thinking_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *thinking = fields_get(f, "thinking");
    struct text type = json_text(json_object_get(thinking, "type"));

    g->thinking_off = true; // also where the template's own default is on
    if (!thinking) {
        return;
    }
    if (!json_is_object(thinking)) {
        fields_fail(f, HTTP_INVALID_TYPE, "thinking", "must be an object");
    } else if (!type.at) {
        fields_fail(f, HTTP_MISSING_FIELD, "thinking.type", "must be a string");
    } else if (text_is(type, "enabled") ||
               (text_is(type, "adaptive") &&
                chat_template_uses(g->call.model->chat, "enable_thinking"))) {
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

    if (!call_model(&g->call, MODEL_GENERATOR, messages_rules, messages_rule_count)) {
        return;
    }
    generation_read_sampling(g, 1, 0);
    g->params.seed = random_seed();
    if (!g->count_only) { // no fields of count_tokens
        struct integer_range range = {1, INT64_MAX, MESSAGES_TOKENS_DEFAULT};
        int64_t wanted = fields_integer(f, "max_tokens", range);
        g->max_tokens = wanted > UINT32_MAX ? UINT32_MAX : (uint32_t)wanted;
        g->stream = fields_bool(f, "stream", false);
    }
    g->generation_prompt = true;
    generation_read_stops(g, "stop_sequences", false, MESSAGES_STOPS_MAX);
    thinking_read(g);
    messages_turns_read(&g->conversation, f);
}

// Writing. `writer` is not NULL once the text block is open.

static void usage_put(const struct generation *g, struct json_buffer *out)
{
    json_put_format(out,
                    "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
                    "\"cache_read_input_tokens\":%u,\"output_tokens\":%u,",
                    g->prompt_tokens - g->cached_tokens, g->cached_tokens, g->output_tokens);
}

static void usage_whole_put(const struct generation *g, struct json_buffer *out)
{
    usage_put(g, out);
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
    uint32_t output_tokens = g->output_tokens;

    json_put_literal(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    head_put(g, out);
    json_put_literal(out, "],\"stop_reason\":null,\"stop_sequence\":null,\"stop_details\":null,"
                          "\"container\":null,\"diagnostics\":null,");
    g->output_tokens = 0; // none has been given out yet
    usage_whole_put(g, out);
    g->output_tokens = output_tokens;
    json_put_literal(out, "}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
}

static void block_open(struct generation *g, struct json_buffer *out)
{
    if (!g->writer) {
        g->writer = g;
        json_put_literal(out, "event: content_block_start\n"
                              "data: {\"type\":\"content_block_start\",\"index\":0,"
                              "\"content_block\":{\"type\":\"text\",\"text\":\"\","
                              "\"citations\":null}}\n\n");
    }
}

static void messages_text(struct generation *g, struct json_buffer *out, struct text delta)
{
    block_open(g, out);
    json_put_literal(out, "event: content_block_delta\n"
                          "data: {\"type\":\"content_block_delta\",\"index\":0,"
                          "\"delta\":{\"type\":\"text_delta\",\"text\":");
    json_put_string(out, delta);
    json_put_literal(out, "}}\n\n");
}

static void messages_idle(struct generation *g, struct json_buffer *out)
{
    (void)g;
    json_put_literal(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

// Versions are dates; the reason for a full window came with 2026-10-21.
static bool version_knows_window(struct text version)
{
    static const char first[] = "2026-10-21";

    if (version.bytes != sizeof(first) - 1) {
        return false;
    }
    for (size_t i = 0; i < version.bytes; i++) {
        if (first[i] == '-' ? version.at[i] != '-' : !isdigit((unsigned char)version.at[i])) {
            return false;
        }
    }
    return memcmp(version.at, first, sizeof(first) - 1) >= 0;
}

static void stop_put(const struct generation *g, struct json_buffer *out)
{
    static const char *const reasons[] = {
        [END_TURN] = "end_turn",
        [END_STOP_STRING] = "stop_sequence",
        [END_LENGTH] = "max_tokens",
        [END_WINDOW] = "model_context_window_exceeded",
    };
    enum generation_end end = g->end;

    if (end == END_WINDOW && !version_knows_window(g->call.info->anthropic_version)) {
        end = END_LENGTH;
    }
    json_put_format(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reasons[end]);
    if (end == END_STOP_STRING) {
        json_put_string(out, g->stops.strings[g->scan.which]);
    } else {
        json_put_literal(out, "null");
    }
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
    usage_put(g, out);
    json_put_literal(out, "\"output_tokens_details\":null,\"server_tool_use\":null}}\n\n"
                          "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void messages_whole(struct generation *g, struct json_buffer *out, struct text text)
{
    if (g->count_only) {
        json_put_format(out, "{\"input_tokens\":%u}", g->prompt_tokens);
        return;
    }
    head_put(g, out);
    json_put_literal(out, "{\"type\":\"text\",\"text\":");
    json_put_string(out, text);
    json_put_literal(out, ",\"citations\":null}],");
    stop_put(g, out);
    json_put_literal(out, ",\"diagnostics\":null,");
    usage_whole_put(g, out);
    json_put_literal(out, "}");
}

static void messages_failure(struct generation *g, struct json_buffer *out,
                             const struct http_failure *failure)
{
    json_put_literal(out, "event: error\ndata: ");
    http_error_body(out, failure, SHAPE_MESSAGES, g->call.info->request_id);
    json_put_literal(out, "\n\n");
}

static const struct generation_shape messages_shape = {
    .read = messages_read,
    .begin = messages_begin,
    .text = messages_text,
    .idle = messages_idle,
    .end = messages_end,
    .whole = messages_whole,
    .failure = messages_failure,
    .id_prefix = "msg_",
};

static void messages_request(struct exchange *x)
{
    generation_start(x, &messages_shape, false);
}

static void count_request(struct exchange *x)
{
    generation_start(x, &messages_shape, true);
}

#define MESSAGES_ROUTE(route_path, request)                                                        \
    {                                                                                              \
        .method = "POST", .path = route_path, .shape = SHAPE_MESSAGES,                             \
        .flags = ROUTE_X_API_KEY | ROUTE_JSON, .on_request = request,                              \
        .on_ready = generation_ready, .on_room = generation_ready, .on_second = generation_second, \
        .on_gone = generation_gone,                                                                \
    }

// The aliases are for clients that put /v1/messages behind a base that ends in /v1.
const struct route messages_routes[MESSAGES_ROUTE_COUNT] = {
    MESSAGES_ROUTE("/v1/messages", messages_request),
    MESSAGES_ROUTE("/v1/v1/messages", messages_request),
    MESSAGES_ROUTE("/v1/messages/count_tokens", count_request),
    MESSAGES_ROUTE("/v1/v1/messages/count_tokens", count_request),
};
