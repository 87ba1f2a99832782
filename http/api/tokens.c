// SPDX-License-Identifier: Apache-2.0
// POST /tokenize and /detokenize: a prompt or a conversation -> token ids, and back, for a model of
// any kind (docs/API.md). The length of the answer is measured in on_prepare, for a large body on a
// text worker.
#include "http/api/endpoints.h"
#include "http/api/inputs.h"
#include "http/api/pieces.h"
#include "http/api/prompt.h"
#include "http/api/tools.h"

enum {
    TOKENS_MAX = CALL_VALUES_MAX, // tokens of one answer: as many values as a body may have
    TEXT_BYTES_MAX = 16 << 20,    // bytes of a text made from tokens
    INLINE_BYTES_MAX = 4 * 1024,  // small, because an id can stand for a long text
    AT_ONCE_BYTES = 16 * 1024,    // bytes of a large answer written in one callback
    LOOKED_TOGETHER = 4096,       // tokens between two checks whether the client has left
};

static const struct field_rule tokenize_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("prompt"),
    FIELD_READ_BY("content"),
    FIELD_TYPED("add_special_tokens", "b"),
    FIELD_TYPED("add_special", "b"),
    FIELD_READ_BY("parse_special"),
    FIELD_READ_BY("return_token_strs"),

    FIELD_NOT_SERVED_BUT("with_pieces", "b", "[false]", "use return_token_strs"),
    FIELD_NOT_SERVED_BUT("tools", "a", "[[]]", "send messages"),
    FIELD_NOT_SERVED_BUT("chat_template_kwargs", "o", "[{}]", "send messages"),
};
static const struct field_rules tokenize_rules = FIELD_RULES(tokenize_rows, NULL);

static const struct field_rule tokenize_chat_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("messages"),
    FIELD_TYPED("tools", "a"),
    FIELD_READ_BY("add_generation_prompt"),
    FIELD_READ_BY("continue_final_message"),
    FIELD_OBJECT("chat_template_kwargs", prompt_kwargs_members),
    FIELD_READ_BY("return_token_strs"),
    FIELD_READ_BY("tool_choice"),
    FIELD_READ_BY("parallel_tool_calls"),
    FIELD_READ_BY("reasoning_effort"),
    FIELD_TYPED("thinking_token_budget", "i"),
    FIELD_TYPED("thinking_budget_tokens", "i"),
    FIELD_TYPED("thinking_budget", "i"),
    FIELD_OBJECT("thinking", thinking_chat_members),
    FIELD_OBJECT("reasoning", thinking_reasoning_members),

    FIELD_NOT_SERVED_BUT("prompt", "s", NULL, "send either prompt or messages"),
    FIELD_NOT_SERVED_BUT("content", "s", NULL, "send either content or messages"),
    FIELD_NOT_SERVED_BUT("add_special_tokens", "b", "[false]", "the chat template writes them"),
    FIELD_NOT_SERVED_BUT("chat_template", "s", NULL, "the server's own template is used"),
};
static const struct field_rules tokenize_chat_rules = FIELD_RULES(tokenize_chat_rows, NULL);

static const struct field_rule detokenize_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("tokens"),
};
static const struct field_rules detokenize_rules = FIELD_RULES(detokenize_rows, NULL);

struct tokens {
    struct generation generation; // first member; used for conversations
    bool strings;                 // true if the answer includes the text of each token
    struct token_pieces pieces;   // writer of the answer
    uint64_t length, written;     // bytes of the answer; bytes written
};

// Reading

static void conversation_encode(struct tokens *t)
{
    struct generation *g = &t->generation;
    if (call_any_model(&g->call, &tokenize_chat_rules) && call_kind(&g->call, MODEL_GENERATOR)) {
        prompt_variables_read(g, THINKING_BY_TEMPLATE);
        tools_read(g);
        prompt_turns_read(g);
    }
    generation_tokenize(g);
}

// Tokenizes a text. vLLM's body has `prompt` and adds special tokens by default; llama-server's has
// `content` and does not.
static void text_encode(struct tokens *t)
{
    struct generation *g = &t->generation;
    struct fields *f = &g->call.fields;
    if (!call_any_model(&g->call, &tokenize_rules))
        return;
    bool content = fields_get(f, "content") && !fields_get(f, "prompt");
    const char *name = content ? "content" : "prompt";
    fields_get_required(f, name);
    struct text text = fields_string(f, name);
    const char *special_name =
        fields_get(f, "add_special_tokens") ? "add_special_tokens" : "add_special";
    bool special = fields_bool(f, special_name, !content);
    if (fields_bool(f, "add_special", special) != special)
        fields_fail(f, HTTP_INVALID_VALUE, "add_special", "must equal add_special_tokens");
    if (!content && fields_get(f, "content"))
        fields_fail(f, HTTP_INVALID_VALUE, "content", "cannot be given together with prompt");
    bool in_text = fields_bool(f, "parse_special", g->call.model->special_in_text);
    if (f->failed)
        return;
    enum status status = input_encode(&g->call, text, input_flags(in_text, special),
                                      exchange_scratch(g->call.exchange), TOKENS_MAX,
                                      &g->prompt.tokens, &g->prompt.token_count);
    if (encoding_stopped(status, g->prompt.token_count, TOKENS_MAX))
        g->prompt.token_count = TOKENS_MAX + 1;
    else if (status != STATUS_OK)
        fields_fail(f, HTTP_TOO_LARGE, name, "is too large");
}

// Writing

// Prepares the answer: copies the ids, because the scratch arena ends with on_request, and measures
// the length.
static void tokens_answer(struct tokens *t, const int32_t *ids, size_t count)
{
    struct generation *g = &t->generation;
    struct exchange *x = g->call.exchange;
    struct arena *arena = exchange_arena(x);
    struct token_pieces *p = &t->pieces;
    struct text copy = arena_copy(arena, text_span((const char *)ids, count * sizeof *ids));
    p->tokenizer = g->call.model->tokenizer;
    p->ids = (const int32_t *)copy.at;
    p->count = (uint32_t)count;
    p->strings = t->strings;
    p->window = g->call.model->facts->max_model_len;
    if (!copy.at || !token_pieces_begin(p, arena))
        fields_fail_plain(&g->call.fields, HTTP_TOO_LARGE, NULL, "there are too many tokens");
    else
        t->length = token_pieces_length(p, exchange_slice(x));
}

static void tokens_reply(struct tokens *t)
{
    struct json_buffer all = {0}, piece = {0};
    for (bool more = true; more; piece.bytes = 0) {
        more = token_pieces_put(&t->pieces, &piece);
        json_put_raw(&all, json_buffer_text(&piece));
    }
    exchange_reply(t->generation.call.exchange, 200, json_buffer_text(&all));
    json_buffer_free(&all);
    json_buffer_free(&piece);
}

// Writes the next bytes, at most as many as the h2o thread may write in one callback.
static void tokens_continue(struct tokens *t)
{
    struct exchange *x = t->generation.call.exchange;
    struct json_buffer piece = {0};
    uint64_t before = t->written;
    while (t->written < t->length && t->written - before < AT_ONCE_BYTES &&
           exchange_send_space(x) >= TOKEN_PIECE_BYTES) {
        piece.bytes = 0;
        (void)token_pieces_put(&t->pieces, &piece);
        exchange_write(x, json_buffer_text(&piece));
        t->written += piece.bytes;
    }
    json_buffer_free(&piece);
    if (t->written == t->length)
        exchange_end(x);
}

// Callbacks of the routes, in the order in which they run

static void tokenize_prepare(struct exchange *x)
{
    struct tokens *t = (struct tokens *)generation_open_in(x, sizeof *t);
    struct generation *g = &t->generation;
    struct fields *f = &g->call.fields;
    bool conversation = fields_get(f, "messages") != NULL;
    g->count_only = true;
    t->strings = fields_bool(f, "return_token_strs", false);
    if (conversation)
        conversation_encode(t);
    else
        text_encode(t);
    if (!f->failed && g->prompt.token_count > TOKENS_MAX) {
        fields_fail_plain(f, HTTP_TOO_LARGE, conversation ? "messages" : NULL,
                          "the text has more than %d tokens", TOKENS_MAX);
    }
    if (!conversation)
        generation_prepared(g);
    if (!f->failed)
        tokens_answer(t, g->prompt.tokens, g->prompt.token_count);
}

// Checks that the text of the ids is not longer than an answer may be.
static bool ids_are_fine(struct body_call *call, const int32_t *ids, size_t count)
{
    struct fields *f = &call->fields;
    size_t bytes = 0;
    for (size_t i = 0; i < count && !f->failed; i++) {
        bytes += tokenizer_token_bytes(call->model->tokenizer, ids[i]).bytes;
        if (i % LOOKED_TOGETHER == 0)
            (void)fields_spend(f, LOOKED_TOGETHER);
    }
    if (bytes > TEXT_BYTES_MAX)
        fields_fail(f, HTTP_TOO_LARGE, "tokens", "make a text of more than %d bytes",
                    TEXT_BYTES_MAX);
    return !f->failed;
}

static void detokenize_read(struct tokens *t)
{
    struct body_call *call = &t->generation.call;
    struct fields *f = &call->fields;
    const json_t *ids = fields_get_required(f, "tokens");
    size_t count = json_array_size(ids);
    if (ids && !json_is_array(ids))
        fields_fail(f, HTTP_INVALID_TYPE, "tokens", "must be an array of token ids");
    if (f->failed)
        return;
    int32_t *tokens = arena_alloc(exchange_scratch(call->exchange), (count + 1) * sizeof *tokens);
    if (!tokens)
        fields_fail(f, HTTP_TOO_LARGE, "tokens", "are too many");
    else if (fields_token_ids(f, ids, "tokens", input_vocab(call->model), (struct id_hints){"", ""},
                              tokens) &&
             ids_are_fine(call, tokens, count))
        tokens_answer(t, tokens, count);
}

static void detokenize_prepare(struct exchange *x)
{
    struct tokens *t = (struct tokens *)generation_open_in(x, sizeof *t);
    t->pieces.text = true;
    if (call_any_model(&t->generation.call, &detokenize_rules))
        detokenize_read(t);
    generation_prepared(&t->generation);
}

static void tokens_request(struct exchange *x)
{
    struct tokens *t = exchange_state(x);
    if (call_failed(&t->generation.call))
        return;
    if (t->length <= ONE_PIECE_BYTES_MAX) {
        tokens_reply(t);
    } else {
        exchange_reply_begin(x, 200, t->length);
        tokens_continue(t);
    }
}

static void tokens_send_space(struct exchange *x)
{
    struct tokens *t = exchange_state(x);
    if (t && exchange_answered(x) && t->written < t->length)
        tokens_continue(t);
}

#define TOKENS_ROUTE(route_path, prepare)                                                          \
    JSON_ROUTE(route_path, SHAPE_OPENAI, ROUTE_BEARER, INLINE_BYTES_MAX, .on_prepare = prepare,    \
               .on_request = tokens_request, .on_send_space = tokens_send_space)

const struct route tokens_routes[] = {
    TOKENS_ROUTE("/tokenize", tokenize_prepare),
    TOKENS_ROUTE("/detokenize", detokenize_prepare),
    {.path = NULL},
};
