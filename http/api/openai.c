// See openai.h.
#include "http/api/openai.h"

void openai_usage_put(const struct generation *g, struct json_buffer *out)
{
    uint32_t output = generation_output(g);
    json_put_format(out,
                    "{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%llu,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":%u},"
                    "\"completion_tokens_details\":{\"reasoning_tokens\":%u}}",
                    g->prompt_tokens, output, (unsigned long long)g->prompt_tokens + output,
                    g->cached_tokens, generation_reasoning(g));
}

void openai_head_put(const struct generation *g, struct json_buffer *out, const char *object)
{
    json_put_literal(out, "{\"id\":");
    json_put_string(out, g->id);
    json_put_format(out, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object,
                    (long long)g->created);
    json_put_string(out, text_of(g->call.model->id));
    json_put_format(out, ",\"system_fingerprint\":\"%s\",\"choices\":[",
                    g->call.model->fingerprint);
}

const char *openai_finish_reason(const struct choice *c)
{
    if (choice_limited(c))
        return "length";
    return c->answer.complete > 0 ? "tool_calls" : "stop"; // also where a stop string followed
}

bool openai_chunk_make(struct generation *g, const char *object)
{
    struct json_buffer chunk = {0};
    if (!g->stream)
        return true;
    json_put_literal(&chunk, "data: ");
    openai_head_put(g, &chunk, object);
    g->chunk = arena_copy(exchange_arena(g->call.exchange), text_span(chunk.at, chunk.bytes));
    json_buffer_free(&chunk);
    return g->chunk.at != NULL;
}

void openai_chunk_begin(const struct generation *g, uint32_t choice, struct json_buffer *out)
{
    json_put_raw(out, g->chunk);
    json_put_format(out, "{\"index\":%u,", choice);
}

void openai_chunk_end(const struct generation *g, struct json_buffer *out)
{
    json_put_literal(out, "}]");
    if (g->continuous_usage) {
        json_put_literal(out, ",\"usage\":");
        openai_usage_put(g, out);
    } else if (g->include_usage) {
        json_put_literal(out, ",\"usage\":null");
    }
    json_put_literal(out, "}\n\n");
}

static void end_put(const struct generation *g, struct json_buffer *out)
{
    if (g->include_usage) {
        json_put_raw(out, g->chunk);
        json_put_literal(out, "],\"usage\":");
        openai_usage_put(g, out);
        json_put_literal(out, "}\n\n");
    }
    json_put_literal(out, "data: [DONE]\n\n");
}

void openai_step_put(const struct generation *g, enum generation_tell step, struct json_buffer *out)
{
    if (step == TELL_IDLE) {
        json_put_literal(out, ": keep-alive\n\n");
    } else if (step == TELL_END) {
        end_put(g, out);
    } else if (step == TELL_FAILURE) {
        json_put_literal(out, "data: ");
        http_error_body(out, &g->failure, SHAPE_OPENAI, g->call.info->request_id);
        json_put_literal(out, "\n\n");
    }
}
