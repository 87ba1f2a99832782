// POST /tokenize and /detokenize: a prompt or a conversation -> token ids, and back, for a model of
// any kind (docs/API.md). The answer is written where the body is read, on a text worker if that is
// large.
#include "http/api/endpoints.h"
#include "http/api/inputs.h"
#include "http/api/pieces.h"
#include "http/api/prompt.h"
#include "http/api/tools.h"

enum {
    TOKENS_MAX = CALL_VALUES_MAX, // of one answer, as many as a body may hold
    TEXT_BYTES_MAX = 16 << 20,    // of a text made of tokens
    INLINE_BYTES_MAX = 4 * 1024,  // ids may be of long tokens
    WRITTEN_TOGETHER = 1024,      // tokens between two looks whether somebody waits
};

static const struct field_rule tokenize_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("prompt"),
    FIELD_READ_BY("content"),
    FIELD_READ_BY("add_special_tokens"),
    FIELD_READ_BY("add_special"),
    FIELD_READ_BY("return_token_strs"),

    FIELD_NOT_SERVED_BUT("with_pieces", "b", "[false]", "use return_token_strs"),
    FIELD_NOT_SERVED("parse_special", "b", "[false]"),
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
    struct generation generation; // for the chat form
    bool strings;                 // the answer has the text of each token
    struct pieces answer;
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

// Of vLLM's names for a field and llama-server's, which have other defaults.
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
    bool special =
        content ? fields_bool(f, "add_special", false) : fields_bool(f, "add_special_tokens", true);
    if (!content && fields_get(f, "content"))
        fields_fail(f, HTTP_INVALID_VALUE, "content", "cannot be given together with prompt");
    if (f->failed)
        return;
    enum status status =
        input_encode(&g->call, text, special ? ENCODE_SPECIAL : ENCODE_PLAIN,
                     exchange_scratch(g->call.exchange), TOKENS_MAX, &g->tokens, &g->prompt_tokens);
    if (encoding_stopped(status, g->prompt_tokens, TOKENS_MAX))
        g->prompt_tokens = TOKENS_MAX + 1;
    else if (status != STATUS_OK)
        fields_fail(f, HTTP_TOO_LARGE, name, "is too large");
}

// Writing

static void token_put(struct json_buffer *out, const struct tokenizer *tokenizer, int32_t id,
                      bool string)
{
    struct text text = tokenizer_token_text(tokenizer, id);
    if (!string)
        json_put_format(out, "%d", id);
    else if (text.at)
        json_put_string(out, text);
    else
        json_put_literal(out, "\"\"");
}

static void tokens_put(struct tokens *t, bool strings)
{
    const struct generation *g = &t->generation;
    struct json_buffer *out = &t->answer.out;
    struct slice *slice = exchange_slice(g->call.exchange);
    size_t before = out->bytes;
    json_put_literal(out, "[");
    for (uint32_t i = 0; i < g->prompt_tokens; i++) {
        json_put_literal(out, i > 0 ? "," : "");
        token_put(out, g->call.model->tokenizer, g->tokens[i], strings);
        if (i % WRITTEN_TOGETHER > 0)
            continue;
        if (!slice_spend(slice, out->bytes - before))
            return;
        before = out->bytes;
    }
    json_put_literal(out, "]");
}

static void tokenize_put(struct tokens *t)
{
    struct json_buffer *out = &t->answer.out;
    const struct generation *g = &t->generation;
    json_put_format(out, "{\"count\":%u,\"max_model_len\":%u,\"tokens\":", g->prompt_tokens,
                    g->call.model->facts->max_model_len);
    tokens_put(t, false);
    json_put_literal(out, ",\"token_strs\":");
    if (t->strings)
        tokens_put(t, true);
    else
        json_put_literal(out, "null");
    json_put_literal(out, "}");
}

// The life of a request, in the order of the calls

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
    if (!f->failed && g->prompt_tokens > TOKENS_MAX) {
        fields_fail_plain(f, HTTP_TOO_LARGE, conversation ? "messages" : NULL,
                          "the text has more than %d tokens", TOKENS_MAX);
    }
    if (!conversation)
        generation_prepared(g);
    if (!f->failed)
        tokenize_put(t);
}

// Not a longer text than an answer may have.
static bool ids_are_fine(struct call *call, const int32_t *ids, size_t count)
{
    struct fields *f = &call->fields;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += tokenizer_token_bytes(call->model->tokenizer, ids[i]).bytes;
    if (bytes > TEXT_BYTES_MAX)
        fields_fail(f, HTTP_TOO_LARGE, "tokens", "make a text of more than %d bytes",
                    TEXT_BYTES_MAX);
    return !f->failed && fields_spend(f, bytes + count * ID_WORK);
}

static struct text ids_decode(struct call *call)
{
    struct fields *f = &call->fields;
    const json_t *ids = fields_get_required(f, "tokens");
    struct arena *arena = exchange_scratch(call->exchange);
    size_t count = json_array_size(ids);
    struct decode_args args = {.count = (uint32_t)count, .arena = arena};
    struct text text = {0};
    struct error err;
    if (ids && !json_is_array(ids))
        fields_fail(f, HTTP_INVALID_TYPE, "tokens", "must be an array of token ids");
    int32_t *tokens = arena_take(arena, (count + 1) * sizeof *tokens);
    args.tokens = tokens;
    if (!f->failed && tokens &&
        !fields_token_ids(f, ids, "tokens", input_vocab(call->model), "", tokens))
        return text;
    if (f->failed || (tokens && !ids_are_fine(call, tokens, count)))
        return text;
    if (!tokens || tokenizer_decode(call->model->tokenizer, &args, &text, &err) != STATUS_OK)
        fields_fail(f, HTTP_TOO_LARGE, "tokens", "are too many");
    return text;
}

static void detokenize_prepare(struct exchange *x)
{
    struct tokens *t = (struct tokens *)generation_open_in(x, sizeof *t);
    struct call *call = &t->generation.call;
    struct json_buffer *out = &t->answer.out;
    if (call_any_model(call, &detokenize_rules)) {
        struct text text = ids_decode(call);
        if (!call->fields.failed) {
            json_put_literal(out, "{\"prompt\":");
            json_put_string(out, text);
            json_put_literal(out, ",\"content\":");
            json_put_string(out, text);
            json_put_literal(out, "}");
        }
    }
    generation_prepared(&t->generation);
}

static void tokens_request(struct exchange *x)
{
    struct tokens *t = exchange_state(x);
    if (call_failed(&t->generation.call))
        pieces_free(&t->answer);
    else
        pieces_send(x, &t->answer);
}

static void tokens_room(struct exchange *x)
{
    struct tokens *t = exchange_state(x);
    if (t)
        pieces_continue(x, &t->answer);
}

static void tokens_gone(struct exchange *x)
{
    struct tokens *t = exchange_state(x);
    if (t)
        pieces_free(&t->answer);
}

#define TOKENS_ROUTE(route_path, prepare)                                                          \
    {                                                                                              \
        .method = "POST",                                                                          \
        .path = route_path,                                                                        \
        .shape = SHAPE_OPENAI,                                                                     \
        .flags = ROUTE_BEARER | ROUTE_JSON,                                                        \
        .inline_bytes_max = INLINE_BYTES_MAX,                                                      \
        .on_prepare = prepare,                                                                     \
        .on_request = tokens_request,                                                              \
        .on_room = tokens_room,                                                                    \
        .on_gone = tokens_gone,                                                                    \
    }

const struct route tokens_routes[] = {
    TOKENS_ROUTE("/tokenize", tokenize_prepare),
    TOKENS_ROUTE("/detokenize", detokenize_prepare),
    {.path = NULL},
};
