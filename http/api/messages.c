// SPDX-License-Identifier: Apache-2.0
// POST /v1/messages and /v1/messages/count_tokens: fields and routes (docs/API.md).
// messages_turns.c reads the messages, messages_tools.c the tools, messages_write.c writes the
// answers. generation.c contains what all endpoints share.
#include "http/api/decoding.h"
#include "http/api/endpoints.h"
#include "http/api/shapes.h"
#include "http/api/fields.h"
#include "http/api/prompt.h"
#include "http/api/tools.h"
#include "http/api/conversation.h"

#include <string.h>

enum { MESSAGES_STOPS_MAX = 64, MESSAGES_TOKENS_DEFAULT = 4096, BUDGET_MIN = 1024 };

static const struct field_rule metadata_rows[] = {FIELD_HARMLESS("user_id", "s")};
static const struct field_rules metadata_members = FIELD_RULES(metadata_rows, NULL);

static const struct field_rule thinking_rows[] = {
    FIELD_TYPED("type", "s"),
    FIELD_TYPED("budget_tokens", "i"),
    FIELD_TYPED("display", "s"),
};
static const struct field_rules thinking_members = FIELD_RULES(thinking_rows, NULL);

static const struct field_rule context_rows[] = {FIELD_TYPED("edits", "a")};
static const struct field_rules context_members = FIELD_RULES(context_rows, NULL);

static const struct field_rule choice_rows[] = {
    FIELD_TYPED("type", "s"),
    FIELD_TYPED("name", "s"),
    FIELD_TYPED("disable_parallel_tool_use", "b"),
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
    FIELD_TYPED("tools", "a"),
    FIELD_OBJECT("tool_choice", choice_members),
    FIELD_OBJECT("thinking", thinking_members),
    FIELD_OBJECT("chat_template_kwargs", prompt_kwargs_members),
    FIELD_OBJECT("output_config", structured_config_members),
    FIELD_OBJECT("context_management", context_members),
    FIELD_OBJECT("output_format", structured_output_members),
    FIELD_TYPED("thread", "bo"),
    FIELD_READ_BY("cache_salt"),

    FIELD_OBJECT("metadata", metadata_members),
    FIELD_HARMLESS("user", "s"),
    FIELD_HARMLESS("safety_identifier", "s"),
    FIELD_HARMLESS("store", "b"),
    FIELD_HARMLESS("service_tier", "s"),
    FIELD_HARMLESS("cache_control", "o"),
    FIELD_HARMLESS("inference_geo", "s"),
    FIELD_HARMLESS("speed", "s"),
    FIELD_HARMLESS("diagnostics", "o"),

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
    FIELD_NOT_SERVED("allowed_token_ids", "a", NULL),
    FIELD_NOT_SERVED("bad_words", "a", "[[]]"),
    FIELD_NOT_SERVED("include_stop_str_in_output", "b", "[false]"),
    FIELD_NOT_SERVED("skip_special_tokens", "b", "[true]"),
    FIELD_NOT_SERVED("reasoning_effort", "s", "[\"none\"]"),
    FIELD_NOT_SERVED_BUT("response_format", "o", "[{\"type\":\"text\"}]", "use output_config"),
    FIELD_NOT_SERVED_BUT("structured_outputs", "o", "[{}]", "use output_config"),
    FIELD_NOT_SERVED_BUT("guided_json", "so", NULL, "use output_config"),
    FIELD_NOT_SERVED_BUT("json_schema", "so", NULL, "use output_config"),
    FIELD_NOT_SERVED("grammar", "so", NULL),
    FIELD_NOT_SERVED("regex", "s", NULL),
    FIELD_NOT_SERVED("ebnf", "s", NULL),
    FIELD_NOT_SERVED("guided_regex", "s", NULL),
    FIELD_NOT_SERVED("guided_choice", "a", NULL),
    FIELD_NOT_SERVED("guided_grammar", "s", NULL),
    FIELD_NOT_SERVED_BUT("include_reasoning", "b", "[true]", "use thinking"),
    FIELD_NOT_SERVED_BUT("thinking_token_budget", "i", "[-1]", "use thinking"),
    FIELD_NOT_SERVED_BUT("thinking_budget_tokens", "i", "[-1]", "use thinking"),
    FIELD_NOT_SERVED_BUT("thinking_budget", "i", "[-1]", "use thinking"),
    FIELD_NOT_SERVED("truncate_prompt_tokens", "i", NULL),
    FIELD_NOT_SERVED("add_special_tokens", "b", "[false]"),
    FIELD_NOT_SERVED("prompt", "sa", NULL),
    FIELD_NOT_SERVED("suffix", "s", NULL),
    FIELD_NOT_SERVED("echo", "b", "[false]"),
};
static const struct field_rules messages_rules = FIELD_RULES(messages_rows, &generation_not_served);

// Reading

static void budget_read(struct generation *g, const json_t *thinking)
{
    struct fields *f = &g->call.fields;
    const json_t *value = json_member(thinking, "budget_tokens");
    int64_t budget = 0;
    if (!value) {
        fields_fail(f, HTTP_MISSING_FIELD, "thinking.budget_tokens", "is required");
    } else if (!json_integer_exact(value, &budget) || budget < BUDGET_MIN) {
        fields_fail(f, HTTP_INVALID_VALUE, "thinking.budget_tokens", "must be at least %d",
                    BUDGET_MIN);
    } else if (!g->count_only && budget >= g->submit.max_tokens) {
        fields_fail(f, HTTP_INVALID_VALUE, "thinking.budget_tokens",
                    "must be below max_tokens, which is %u", g->submit.max_tokens);
    } else {
        thinking_budget_set(g, (uint32_t)budget, "thinking.budget_tokens");
    }
}

static bool thinking_type_read(struct generation *g, const json_t *thinking)
{
    struct fields *f = &g->call.fields;
    struct text type = json_text(json_member(thinking, "type"));
    bool thinks = thinking_is_supported(g->call.model);
    fields_require_type(f, "thinking");
    if (!text_is(type, "enabled") && !text_is(type, "adaptive") && !text_is(type, "disabled") &&
        !text_is(type, "between_tools"))
        fields_fail(f, HTTP_INVALID_VALUE, "thinking.type",
                    "must be 'enabled', 'disabled', 'adaptive' or 'between_tools'");
    return thinks && (text_is(type, "enabled") || text_is(type, "adaptive"));
}

static void display_read(struct messages *m, const json_t *thinking)
{
    struct text display = json_text(json_member(thinking, "display"));
    m->blocks.thinking_omitted = text_is(display, "omitted");
    if (display.at && !m->blocks.thinking_omitted && !text_is(display, "summarized"))
        fields_fail(&m->g.call.fields, HTTP_INVALID_VALUE, "thinking.display",
                    "must be 'summarized' or 'omitted'");
}

// Thinking is off unless the client requests it, even if the template's default is on, so that the
// first block is text. If the model thinks anyway, its reasoning is not sent.
static void thinking_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *thinking = fields_get(f, "thinking");
    bool requested = thinking && thinking_type_read(g, thinking);
    prompt_variables_read(g, requested ? THINKING_ON : THINKING_OFF);
    requested = thinking_is_on(g);
    if (text_is(json_text(json_member(thinking, "type")), "enabled"))
        budget_read(g, thinking);
    struct messages *m = (struct messages *)g;
    display_read(m, thinking);
    m->blocks.thinking = requested;
    g->options.hides_reasoning = !requested;
}

// Rejects `thread`. If it were ignored, the client's next request would contain only new messages.
static void thread_read(struct fields *f)
{
    const json_t *thread = fields_get(f, "thread");
    if (thread && !json_is_false(thread))
        fields_fail(f, HTTP_UNSUPPORTED_THREAD, "thread",
                    "is not supported: no conversation is kept here, send all of its messages");
}

// Agents request that old tool results and thoughts are cleared. This only saves tokens, so it is
// accepted and ignored. Other edits would change the answer.
static void context_read(struct fields *f)
{
    const json_t *edits = json_member(fields_get(f, "context_management"), "edits");
    static const char clears[] = "clear_";
    for (size_t i = 0; i < json_array_size(edits) && !f->failed; i++) {
        const json_t *edit = json_array_get(edits, i);
        struct field_path path =
            fields_path_keep(fields_path(f, "context_management.edits[%zu]", i));
        struct text type = fields_member_string(f, edit, path.at, "type"),
                    shown = text_head(type, 64);
        if (!f->failed && strncmp(type.at, clears, sizeof clears - 1) != 0)
            fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "%s.type", path.at),
                        "must begin with '%s': edits of the type '%.*s' are not supported", clears,
                        (int)shown.bytes, shown.at);
    }
}

static void messages_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    if (!call_model(&g->call, MODEL_GENERATOR, &messages_rules))
        return;
    thread_read(f);
    decoding_read_sampling(g, 1, 0);
    if (!g->count_only) { // count_tokens has neither field
        g->submit.max_tokens =
            fields_count(f, "max_tokens", decoding_tokens_default(g, MESSAGES_TOKENS_DEFAULT));
        g->stream = fields_bool(f, "stream", false);
    }
    g->prompt.opens_answer = true;
    decoding_read_stops(g, "stop_sequences", false, MESSAGES_STOPS_MAX);
    decoding_read_salt(g);
    thinking_read(g);
    messages_tools_read(g);
    structured_read_messages(g);
    context_read(f);
    messages_turns_read(&g->prompt.conversation, f);
}

// Callbacks of the route, in the order in which they run

static void messages_prepare(struct exchange *x)
{
    struct generation *g = generation_open_in(x, sizeof(struct messages));
    g->options.call_ids = "toolu_";
    messages_read(g);
    generation_tokenize(g);
}

static void messages_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    // A grammar keeps the arguments valid, so a stream need not defer these calls (docs/adr/0032).
    bool whole = g->structured.source.kind == GRAMMAR_KIND_CALLS && !g->structured.optional;
    g->options.defer_calls = !g->stream || !whole;
    g->options.streamed_tools = g->stream ? g->tools.streamed : NULL;
    generation_submit(g, generation_begin(g, "msg_"));
}

static void messages_answer(struct exchange *x)
{
    generation_answer(exchange_state(x), generation_next, messages_put);
}

// Counting the tokens of a prompt

static void count_prepare(struct exchange *x)
{
    struct generation *g = generation_open_in(x, sizeof(struct messages));
    g->count_only = true;
    messages_read(g);
    generation_tokenize(g);
}

static void count_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    if (!call_failed(&g->call))
        exchange_reply(
            x, 200,
            arena_format(exchange_arena(x), "{\"input_tokens\":%u}", g->prompt.token_count));
}

#define MESSAGES_ROUTE(route_path)                                                                 \
    JSON_ROUTE(route_path, SHAPE_MESSAGES, ROUTE_X_API_KEY, BODY_INLINE_BYTES_MAX,                 \
               .on_prepare = messages_prepare, .on_request = messages_request,                     \
               GENERATION_CALLS(messages_answer))
#define COUNT_ROUTE(route_path)                                                                    \
    JSON_ROUTE(route_path, SHAPE_MESSAGES, ROUTE_X_API_KEY, BODY_INLINE_BYTES_MAX,                 \
               .on_prepare = count_prepare, .on_request = count_request)

// The aliases are for clients that append /v1/messages to a base URL that ends in /v1.
const struct route messages_routes[] = {
    MESSAGES_ROUTE("/v1/messages"),
    MESSAGES_ROUTE("/v1/v1/messages"),
    COUNT_ROUTE("/v1/messages/count_tokens"),
    COUNT_ROUTE("/v1/v1/messages/count_tokens"),
    {.path = NULL},
};
