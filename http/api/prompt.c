// SPDX-License-Identifier: Apache-2.0
// Conversation -> template variables -> tokens. If the last message is to be continued, a marker is
// appended to its text and the rendered prompt ends at the marker, without what the template writes
// after a message.
#include "http/api/prompt.h"

#include "http/api/tools.h"
#include "http/api/conversation.h"
#include "base/json_keys.h"
#include "runtime/text/prompt.h"

#include <time.h>

// A word between private-use characters: templates do not trim or escape it.
static const char mark[] = "\xF4\x8F\xBF\xBD"
                           "continue-here"
                           "\xF4\x8F\xBF\xBD";

// The first four are set from the request's own fields.
static const struct field_rule kwargs_rows[] = {
    FIELD_NOT_SERVED("messages", NULL, NULL),
    FIELD_NOT_SERVED("tools", NULL, NULL),
    FIELD_NOT_SERVED("documents", NULL, NULL),
    FIELD_NOT_SERVED_BUT("add_generation_prompt", NULL, NULL, "use the field of that name"),
    FIELD_TYPED("enable_thinking", "b"),
    FIELD_READ_BY("*"),
};
const struct field_rules prompt_kwargs_members = FIELD_RULES(kwargs_rows, NULL);

void prompt_turns_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    bool continued = fields_bool(f, "continue_final_message", false);
    g->prompt.opens_answer = fields_bool(f, "add_generation_prompt", true);
    if (continued && fields_get(f, "add_generation_prompt") && g->prompt.opens_answer) {
        fields_fail(f, HTTP_INVALID_VALUE, "continue_final_message",
                    "cannot be true together with add_generation_prompt");
    }
    chat_turns_read(&g->prompt.conversation, f);
    g->prompt.conversation.continued = g->prompt.conversation.continued || continued;
}

static void mark_put(struct generation *g)
{
    struct fields *f = &g->call.fields;
    json_t *messages = g->prompt.conversation.messages;
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    struct text content = json_text(json_object_get(last, "content"));
    struct json_buffer marked = {0};
    if (!text_is(json_text(json_object_get(last, "role")), "assistant") ||
        json_object_get(last, "tool_calls")) {
        fields_fail_plain(f, HTTP_INVALID_VALUE, g->prompt.field,
                          "only an assistant message without tool calls can be continued");
        return;
    }
    json_put_raw(&marked, content);
    json_put_literal(&marked, mark);
    json_object_set_new(last, "content", json_string_of(json_buffer_text(&marked)));
    json_buffer_free(&marked);
}

static enum status prompt_try(struct generation *g, struct error *err)
{
    const struct served_model *model = g->call.model;
    json_t *variables =
        g->prompt.variables ? json_object_copied(g->prompt.variables) : json_object();
    json_object_set(variables, "messages", g->prompt.conversation.messages);
    json_object_set_new(variables, "tools",
                        g->tools.converted && !tools_are_generic(model)
                            ? json_incref(g->tools.converted)
                            : json_null());
    json_object_set_new(variables, "documents", json_null());
    json_object_set_new(variables, "add_generation_prompt", json_boolean(g->prompt.opens_answer));
    struct prompt_args args = {
        .tokenizer = model->tokenizer,
        .chat = model->chat,
        .plain = model->chat_is_plain,
        .variables = variables,
        .now = (int64_t)time(NULL),
        .arena = exchange_scratch(g->call.exchange),
        .slice = g->call.slice,
        .tokens_max = g->count_only || g->prompt.keep > 0 ? 0 : model->facts->max_model_len,
        .until = g->prompt.conversation.continued ? text_of(mark) : (struct text){0},
    };
    enum status status = prompt_tokens(&args, &g->prompt.tokens, &g->prompt.token_count, err);
    json_decref(variables);
    g->prompt.stopped =
        args.tokens_max > 0 && encoding_stopped(status, g->prompt.token_count, args.tokens_max);
    return g->prompt.stopped ? STATUS_OK : status; // generation_tokenize reports the length
}

// Returns true if rendering failed because of what a message contains, not because of its size.
static bool template_failed(enum status status)
{
    return status == STATUS_REFUSED || status == STATUS_INVALID;
}

// Keeps only the last tokens of the prompt (prompt_keep).
static void prompt_cut(struct generation *g)
{
    if (g->prompt.keep == 0 || g->prompt.token_count <= g->prompt.keep)
        return;
    g->prompt.tokens += g->prompt.token_count - g->prompt.keep;
    g->prompt.token_count = g->prompt.keep;
}

static void prompt_fail(struct generation *g, enum status status, const struct error *err)
{
    struct fields *f = &g->call.fields;
    if (status == STATUS_REFUSED) {
        fields_fail_plain(f, HTTP_INVALID_VALUE, g->prompt.field,
                          "the model's chat template refuses these messages: %s", err->text);
    } else if (status == STATUS_NO_SPACE || status == STATUS_TOO_LARGE) {
        fields_fail_plain(f, HTTP_TOO_LARGE, g->prompt.field, "the prompt is too large: %s",
                          err->text);
    } else {
        fields_fail_plain(f, HTTP_INVALID_VALUE, g->prompt.field,
                          "the model's chat template cannot render these messages: %s", err->text);
    }
}

struct text prompt_continued(const struct generation *g)
{
    const json_t *messages = g->prompt.conversation.messages;
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    struct text text = json_text(json_object_get(last, "content"));
    if (!g->prompt.conversation.continued || text.bytes < sizeof mark - 1)
        return (struct text){0};
    return text_span(text.at, text.bytes - (sizeof mark - 1));
}

// Feeds the continued message to the reply parser, because the answer may end a call or reasoning
// that the message began.
static void continued_read(struct generation *g)
{
    enum { PIECE = 4096 };
    struct arena *arena = exchange_arena(g->call.exchange);
    struct text text = prompt_continued(g);
    struct answer_parts *parts = arena_alloc_zeroed(arena, 1, sizeof *parts);
    if (!parts) {
        fields_fail_plain(&g->call.fields, HTTP_TOO_LARGE, g->prompt.field,
                          "the prompt is too large");
        return;
    }
    parts->arena = arena;
    parts->id_prefix = g->options.call_ids;
    answer_open(parts, &g->options.reply, NULL);
    g->options.continued = parts;
    for (size_t at = 0; at < text.bytes && slice_spend(g->call.slice, PIECE); at += PIECE) {
        size_t left = text.bytes - at;
        answer_continue(parts, text_span(text.at + at, left < PIECE ? left : PIECE));
    }
    if (answer_begun(parts).bytes > ANSWER_BEGUN_MAX)
        fields_fail_plain(&g->call.fields, HTTP_INVALID_VALUE, "messages",
                          "a message that is continued inside a tool call must have at most %d "
                          "bytes of its arguments",
                          ANSWER_BEGUN_MAX);
}

// Finds out whether the prompt ends inside reasoning or a call. Uses the complete prompt, before
// prompt_cut.
static void start_find(struct generation *g)
{
    struct decode_args prompt = {.tokens = g->prompt.tokens,
                                 .count = g->prompt.token_count,
                                 .arena = exchange_scratch(g->call.exchange)};
    struct error err;
    enum status status = dialect_start_find(g->options.reply.dialect, g->call.model->tokenizer,
                                            &prompt, &g->options.reply.start, &err);
    if (status != STATUS_OK)
        prompt_fail(g, status, &err);
}

// Settles system messages inside of the conversation and applies the endpoint's rule for neighbours
// of one role again, because tool results may follow text of the user now.
static void system_settle(struct generation *g)
{
    if (!conversation_settle_system(&g->prompt.conversation, g->call.model->chat))
        return;
    if (g->call.fields.shape == SHAPE_MESSAGES)
        conversation_merge(&g->prompt.conversation);
    else
        conversation_join_tail(&g->prompt.conversation);
}

void prompt_make(struct generation *g)
{
    struct fields *f = &g->call.fields;
    struct error err;
    if (tools_are_generic(g->call.model))
        conversation_tools_as_text(&g->prompt.conversation, g->tools.converted);
    system_settle(g);
    if (g->prompt.conversation.continued) {
        mark_put(g);
        g->prompt.opens_answer = false;
    }
    if (f->failed)
        return;
    g->options.continues = g->prompt.conversation.continued || g->call.model->chat_is_plain;
    g->options.reply.has_text_grammar = tools_form_text(g);
    enum status status = prompt_try(g, &err);
    // Some templates reject arguments that are text.
    if (template_failed(status) && g->prompt.conversation.raw_arguments) {
        struct error again;
        conversation_wrap_arguments(&g->prompt.conversation);
        if (prompt_try(g, &again) == STATUS_OK)
            status = STATUS_OK;
    }
    if (status != STATUS_OK) {
        prompt_fail(g, status, &err);
    } else if (g->prompt.token_count == 0) {
        fields_fail_plain(f, HTTP_INVALID_VALUE, g->prompt.field,
                          "the prompt is empty: it has no tokens");
    } else if (g->options.reads_reply && !g->prompt.stopped && !g->count_only) {
        g->options.reply.must = g->tools.choice.must;
        g->options.reply.free_calls = !tools_form_text(g) && !tools_form_calls(g);
        if (g->prompt.conversation.continued)
            continued_read(g);
        else
            start_find(g);
    }
    prompt_cut(g);
}
