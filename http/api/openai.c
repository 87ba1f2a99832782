// SPDX-License-Identifier: Apache-2.0
// Parts of OpenAI answers: see shapes.h.
#include "http/api/shapes.h"

#include <string.h>

void openai_usage_put(const struct generation *g, struct json_buffer *out)
{
    uint32_t output = generation_output(g);
    json_put_format(out,
                    "{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%llu,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":%u},"
                    "\"completion_tokens_details\":{\"reasoning_tokens\":%u}}",
                    g->prompt.token_count, output,
                    (unsigned long long)g->prompt.token_count + output, g->cached_tokens,
                    generation_reasoning(g));
}

void openai_head_put(const struct generation *g, struct json_buffer *out, const char *object)
{
    json_put_member(out, "{\"id\":", g->id);
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
    return c->answer.complete > 0 ? "tool_calls" : "stop"; // even if a stop string followed
}

bool openai_chunk_make(struct generation *g, const char *object)
{
    struct json_buffer chunk = {0};
    if (!g->stream)
        return true;
    json_put_literal(&chunk, "data: ");
    openai_head_put(g, &chunk, object);
    g->chunk = arena_copy(exchange_arena(g->call.exchange), json_buffer_text(&chunk));
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
    if (g->usage.continuous) {
        json_put_literal(out, ",\"usage\":");
        openai_usage_put(g, out);
    } else if (g->usage.included) {
        json_put_literal(out, ",\"usage\":null");
    }
    json_put_literal(out, "}\n\n");
}

static void end_put(const struct generation *g, struct json_buffer *out)
{
    if (g->usage.included) {
        json_put_raw(out, g->chunk);
        json_put_literal(out, "],\"usage\":");
        openai_usage_put(g, out);
        json_put_literal(out, "}\n\n");
    }
    json_put_literal(out, "data: [DONE]\n\n");
}

void openai_step_put(const struct generation *g, enum stream_step step, struct json_buffer *out)
{
    if (step == STEP_KEEPALIVE) {
        json_put_literal(out, ": keep-alive\n\n");
    } else if (step == STEP_END) {
        end_put(g, out);
    } else if (step == STEP_FAILURE) {
        json_put_literal(out, "data: ");
        http_error_body(out, &g->failure, SHAPE_OPENAI, g->call.info->request_id);
        json_put_literal(out, "\n\n");
    }
}

void openai_logprobs_put(const struct generation *g, const struct choice *c, uint32_t count,
                         logprobs_part *part, struct json_buffer *out)
{
    struct logprobs_cursor at = {0};
    json_put_literal(out, ",\"logprobs\":");
    if (!c || !g->options.logprobs) {
        json_put_literal(out, "null");
        return;
    }
    while (part(&c->logprobs, count, g->options.tokenizer, &at, out)) {
    }
}

// Writes the part of a choice that is before its log probabilities.
static void choice_begin(struct generation *g, const struct openai_shape *shape,
                         struct json_buffer *out)
{
    uint32_t choice = g->complete.at.choice;
    if (choice == 0)
        openai_head_put(g, out, shape->object);
    json_put_format(out, "%s{\"index\":%u,", choice > 0 ? "," : "", choice);
    shape->choice(g, choice, out);
    json_put_literal(out, ",\"logprobs\":");
    g->complete.at.begun = true;
}

// Writes the next log probabilities. Returns false if there are more.
static bool choice_entries(struct generation *g, const struct openai_shape *shape,
                           struct json_buffer *out)
{
    const struct logprobs *l = &g->choices[g->complete.at.choice].logprobs;
    if (g->options.logprobs)
        return !shape->entries(l, l->visible, g->options.tokenizer, &g->complete.at.entries, out);
    json_put_literal(out, "null");
    return true;
}

static enum stream_step complete_put(struct generation *g, const struct openai_shape *shape,
                                     struct json_buffer *out)
{
    uint32_t choice = g->complete.at.choice;
    if (!g->complete.at.begun) {
        choice_begin(g, shape, out);
        return STEP_PART;
    }
    if (!choice_entries(g, shape, out))
        return STEP_PART;
    json_put_format(out, ",\"finish_reason\":\"%s\"}", openai_finish_reason(&g->choices[choice]));
    memset(&g->complete.at, 0, sizeof g->complete.at);
    g->complete.at.choice = choice + 1;
    if (choice + 1 < g->choice_count)
        return STEP_PART;
    json_put_literal(out, "],\"usage\":");
    openai_usage_put(g, out);
    json_put_literal(out, "}");
    return STEP_ANSWER;
}

enum stream_step openai_put(struct generation *g, const struct openai_shape *shape,
                            enum stream_step step, struct json_buffer *out)
{
    switch (step) {
    case STEP_CALLBACK:
    case STEP_PART:
        break;
    case STEP_BEGIN:
        shape->begin(g, out);
        break;
    case STEP_PIECE:
        shape->piece(g, out);
        break;
    case STEP_CHOICE:
        openai_chunk_begin(g, g->next_choice, out);
        json_put_format(out, "%s,\"logprobs\":null,\"finish_reason\":\"%s\"", shape->empty,
                        openai_finish_reason(generation_choice(g)));
        openai_chunk_end(g, out);
        break;
    case STEP_ANSWER:
        return complete_put(g, shape, out);
    case STEP_KEEPALIVE:
    case STEP_END:
    case STEP_FAILURE:
        openai_step_put(g, step, out);
        break;
    }
    return step;
}
