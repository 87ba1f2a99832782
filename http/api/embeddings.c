// POST /v1/embeddings: fields, tokens, answer (docs/API.md). The body of the answer is made by
// vectors.c; a large one is measured on a text worker and sent in pieces.
#include "http/api/endpoints.h"
#include "http/api/pooled.h"
#include "http/api/vectors.h"

#include "http/counters.h"

#include <string.h>

enum {
    INPUTS_MAX = 2048,
    INLINE_BYTES_MAX = 8 * 1024, // many short inputs cost more a byte than one text
    WHOLE_VALUES_MAX = 4096,     // more floats than this are sent in pieces
    ID_WORK = 4,                 // bytes of JSON whose parsing takes as long as reading one id
};

static const struct field_rule embeddings_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("input"),
    FIELD_READ_BY("encoding_format"),
    FIELD_READ_BY("dimensions"),
    FIELD_READ_BY("truncate"),
    FIELD_READ_BY("truncate_prompt_tokens"),
    FIELD_READ_BY("add_special_tokens"),

    FIELD_HARMLESS("user", "s"),
    FIELD_HARMLESS("metadata", "o"),
    FIELD_HARMLESS("safety_identifier", "s"),
    FIELD_HARMLESS("store", "b"),
    FIELD_HARMLESS("service_tier", "s"),

    FIELD_NOT_SERVED("priority", "i", "[0]"),
    FIELD_NOT_SERVED("normalize", "b", "[true]"),
    FIELD_NOT_SERVED("normalized", "b", "[true]"),
    FIELD_NOT_SERVED("embd_normalize", "i", "[2]"),
    FIELD_NOT_SERVED("pooling", "s", NULL),
    FIELD_NOT_SERVED("prompt", "s", NULL),
    FIELD_NOT_SERVED("prompt_name", "s", NULL),
    FIELD_NOT_SERVED("instruction", "s", NULL),
    FIELD_NOT_SERVED("input_type", "s", NULL),
    FIELD_NOT_SERVED("task", "s", NULL),
    FIELD_NOT_SERVED("late_chunking", "b", "[false]"),
    FIELD_NOT_SERVED("messages", "a", NULL),
    FIELD_NOT_SERVED("images", "a", "[[]]"),
    FIELD_NOT_SERVED_BUT("output_dimension", "i", NULL, "use dimensions"),
    FIELD_NOT_SERVED_BUT("embedding_type", "sa", "[\"float\"]", "use encoding_format"),
    FIELD_NOT_SERVED_BUT("embedding_types", "a", "[[\"float\"]]", "use encoding_format"),
    FIELD_NOT_SERVED_BUT("output_dtype", "s", "[\"float\"]", "use encoding_format"),
    FIELD_NOT_SERVED("truncation_direction", "s", "[\"Right\",\"right\"]"),
    FIELD_NOT_SERVED("truncation_side", "s", "[\"right\"]"),
};
static const struct field_rules embeddings_rules = FIELD_RULES(embeddings_rows, NULL);

struct embeddings {
    struct pooled pooled;
    bool base64;
    bool special; // special tokens are added to texts
    bool truncate;
    uint32_t token_max; // of one input
    struct token_list list;
    struct vectors vectors;
    bool taken, valid; // the vectors
    uint64_t length;   // of the answer
    struct json_buffer piece;
};

// Reading

// more: counting stopped at `tokens`, but there are more.
static void length_fail(struct embeddings *e, const char *path, uint32_t tokens, bool more)
{
    struct fields *f = &e->pooled.call.fields;

    fields_fail_plain(f, HTTP_CONTEXT_LENGTH, path,
                      "This model's maximum context length is %u tokens. However, your input "
                      "resulted in %s%u tokens. Please reduce the length of the input.",
                      e->token_max, more ? "more than " : "", tokens);
    f->failure.prompt_tokens = tokens + more;
    f->failure.tokens_more = more;
    f->failure.context_tokens = e->token_max;
}

static void tokens_add(struct embeddings *e, const char *path, const int32_t *tokens,
                       uint32_t count)
{
    struct fields *f = &e->pooled.call.fields;

    if (count > e->token_max && !e->truncate) {
        length_fail(e, path, count, false);
        return;
    }
    count = count < e->token_max ? count : e->token_max;
    if (count == 0)
        fields_fail(f, HTTP_INVALID_VALUE, path, "must hold at least one token");
    else if (!token_list_add(&e->list, tokens, count))
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
}

// STATUS_TOO_LARGE: more than `most` tokens.
static enum status text_encode(struct embeddings *e, struct text text, unsigned flags,
                               struct arena *arena, uint32_t most, int32_t **tokens,
                               uint32_t *count)
{
    struct error err;
    const struct tokenizer *tokenizer = e->pooled.call.model->tokenizer;
    uint32_t bound = tokenizer_bound(tokenizer, text.bytes);
    bound = bound < most ? bound : most;
    *tokens = arena_take(arena, (size_t)bound * sizeof **tokens);
    unsigned in_text = e->pooled.call.model->special_in_text ? ENCODE_ADDED_TOKENS : ENCODE_PLAIN;
    struct encode_args in = {
        .text = text, .flags = flags | in_text, .arena = arena, .slice = e->pooled.call.slice};

    return *tokens ? tokenizer_encode(tokenizer, &in, *tokens, bound, count, &err) : STATUS_NO_ROOM;
}

// Cuts tokens of the text itself off its end; closing special tokens stay. tokens: [count], special
// tokens included; returns the new count.
static uint32_t text_cut(struct embeddings *e, struct text text, int32_t *tokens, uint32_t count,
                         struct arena *arena)
{
    uint32_t own_count = 0, before = 0;
    int32_t *own;
    bool made =
        text_encode(e, text, ENCODE_PLAIN, arena, UINT32_MAX, &own, &own_count) == STATUS_OK;
    uint32_t added = made && count > own_count ? count - own_count : 0;

    if (!e->special || added == 0 || added >= e->token_max)
        return e->token_max;
    while (before < added && memcmp(tokens + before, own, own_count * sizeof *own) != 0)
        before++;
    uint32_t after = added - before;
    memmove(tokens + e->token_max - after, tokens + count - after, after * sizeof *tokens);
    return e->token_max;
}

static void text_add(struct embeddings *e, const char *path, struct text text, struct arena *arena)
{
    struct fields *f = &e->pooled.call.fields;
    uint32_t count = 0;

    if (text.bytes == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, path, "must not be an empty string");
        return;
    }
    arena_reset(arena);
    int32_t *tokens;
    unsigned flags = e->special ? ENCODE_SPECIAL : ENCODE_PLAIN;
    uint32_t most = e->truncate ? UINT32_MAX : e->token_max; // a text to be cut is encoded whole
    enum status status = text_encode(e, text, flags, arena, most, &tokens, &count);
    if (encoding_stopped(status, count, most)) {
        length_fail(e, path, count, true);
        return;
    }
    if (status != STATUS_OK) {
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
        return;
    }
    if (e->truncate && count > e->token_max)
        count = text_cut(e, text, tokens, count, arena);
    tokens_add(e, path, tokens, count);
}

// An array of token ids, used as given.
static void ids_add(struct embeddings *e, const char *path, const json_t *ids, struct arena *arena)
{
    struct fields *f = &e->pooled.call.fields;
    const struct served_model *model = e->pooled.call.model;
    uint32_t vocab = model->facts->vocab ? model->facts->vocab : tokenizer_vocab(model->tokenizer);
    size_t n = json_array_size(ids), i;
    json_t *value;

    arena_reset(arena);
    int32_t *tokens = arena_take(arena, (n + 1) * sizeof *tokens);
    if (!tokens) {
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
        return;
    }
    json_array_foreach(ids, i, value)
    {
        int64_t id;
        if (!json_is_number(value) || !json_integer_exact(value, &id)) {
            fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "%s[%zu]", path, i),
                        "must be a token id; strings and ids cannot be mixed");
            return;
        }
        if (id < 0 || id >= vocab) {
            fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s[%zu]", path, i),
                        "must be a token id below %u, got %lld", vocab, (long long)id);
            return;
        }
        tokens[i] = (int32_t)id;
    }
    if (fields_spend(f, n * ID_WORK))
        tokens_add(e, path, tokens, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n);
}

static void inputs_add(struct embeddings *e, const json_t *input, struct arena *arena)
{
    struct fields *f = &e->pooled.call.fields;
    bool strings = json_is_string(json_array_get(input, 0));
    size_t i;
    json_t *value;

    json_array_foreach(input, i, value)
    {
        const char *path = fields_path(f, "input[%zu]", i);
        if (f->failed)
            return;
        if (strings && json_is_string(value)) {
            text_add(e, path, json_text(value), arena);
        } else if (!strings && json_is_array(value)) {
            ids_add(e, path, value, arena);
        } else {
            fields_fail(f, HTTP_INVALID_TYPE, path, "must be %s like the inputs before it",
                        strings ? "a string" : "an array of token ids");
        }
    }
}

static void input_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    const json_t *input = fields_get_required(f, "input");
    size_t n = json_array_size(input);
    bool single = json_is_string(input) || json_is_number(json_array_get(input, 0));
    const json_t *first = json_array_get(input, 0);

    if (f->failed)
        return;
    if (!json_is_string(input) && !json_is_array(input)) {
        fields_fail(f, HTTP_INVALID_TYPE, "input",
                    "must be a string, an array of strings or arrays of token ids");
    } else if (json_is_array(input) && n == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, "input", "must not be empty");
    } else if (!single && !json_is_string(first) && !json_is_array(first)) {
        fields_fail(f, HTTP_INVALID_TYPE, "input[0]",
                    "must be a string, a token id or an array of token ids");
    } else if (!single && n > INPUTS_MAX) {
        fields_fail(f, HTTP_INVALID_VALUE, "input", "must hold at most %d inputs, got %zu",
                    INPUTS_MAX, n);
    }
    if (f->failed)
        return;
    struct call *call = &e->pooled.call;
    struct arena *arena = arena_create(0, scratch_bytes_max(call->info->body.bytes));
    if (!token_list_begin(&e->list, exchange_scratch(e->pooled.call.exchange),
                          single ? 1 : (uint32_t)n))
        fields_fail(f, HTTP_TOO_LARGE, "input", "is too large");
    else if (json_is_string(input))
        text_add(e, "input", json_text(input), arena);
    else if (single)
        ids_add(e, "input", input, arena);
    else
        inputs_add(e, input, arena);
    arena_destroy(arena);
}

static void truncate_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    uint32_t window = e->pooled.call.model->facts->max_model_len;
    int64_t limit =
        fields_integer(f, "truncate_prompt_tokens", (struct integer_range){-1, INT64_MAX, 0});

    e->token_max = window;
    e->truncate = fields_bool(f, "truncate", false);
    if (!fields_get(f, "truncate_prompt_tokens"))
        return;
    if (limit == 0)
        fields_fail(f, HTTP_INVALID_VALUE, "truncate_prompt_tokens", "must be -1 or at least 1");
    e->truncate = true;
    e->token_max = limit > 0 && limit < window ? (uint32_t)limit : window;
}

static void dimensions_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    uint32_t native = e->pooled.call.model->facts->output_width;
    int64_t wanted = fields_integer(f, "dimensions", (struct integer_range){1, native, native});

    if (!f->failed && wanted != native) {
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, "dimensions",
                    "must be %u or absent: the vectors of this model cannot be shortened", native);
    }
}

static void embeddings_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;

    if (!call_model(&e->pooled.call, MODEL_EMBEDDER, &embeddings_rules))
        return;
    struct text format = fields_string(f, "encoding_format");
    e->base64 = text_is(format, "base64");
    if (!f->failed && format.at && !e->base64 && !text_is(format, "float"))
        fields_fail(f, HTTP_INVALID_VALUE, "encoding_format", "must be 'float' or 'base64'");
    e->special = fields_bool(f, "add_special_tokens", true);
    dimensions_read(e);
    truncate_read(e);
    input_read(e);
}

static void embeddings_prepare(struct exchange *x)
{
    struct embeddings *e = call_begin(x, sizeof *e);

    embeddings_read(e);
    call_body_end(&e->pooled.call);
}

static void embeddings_request(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);
    struct submit_args args = {
        .kind = REQUEST_EMBED,
        .tokens = e->list.tokens,
        .token_count = (uint32_t)e->list.count,
        .sequence_count = e->list.sequence_count,
        .sequence_start = e->list.starts,
    };
    e->vectors.count = e->list.sequence_count;
    if (!call_failed(&e->pooled.call))
        pooled_submit(&e->pooled, &args);
}

// Writing

// Copies the values out of the engine's memory at once, so that a slow reader holds none of it.
static bool values_take(struct embeddings *e)
{
    struct vectors *v = &e->vectors;
    const struct served_model *model = e->pooled.call.model;
    uint32_t width = model->facts->output_width;
    size_t row_bytes = (size_t)width * sizeof(float);
    float *values = arena_take(exchange_arena(e->pooled.call.exchange), v->count * row_bytes);

    if (!values)
        return false;
    for (uint32_t i = 0; i < v->count; i++)
        memcpy(values + (size_t)i * width, request_values(e->pooled.request, i), row_bytes);
    v->values = values;
    v->width = width;
    v->base64 = e->base64;
    v->model = model->id;
    v->tokens = e->pooled.prompt_tokens;
    return true;
}

static void answer_whole(struct embeddings *e)
{
    struct json_buffer out = {0};

    while (vectors_put(&e->vectors, &out)) {
    }
    exchange_reply(e->pooled.call.exchange, 200, text_span(out.at, out.bytes));
    json_buffer_free(&out);
}

static void answer_continue(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);
    bool more = !e->vectors.ended;

    while (more && exchange_room(x) >= VECTORS_PIECE_MAX) {
        e->piece.bytes = 0;
        more = vectors_put(&e->vectors, &e->piece);
        exchange_write(x, text_span(e->piece.at, e->piece.bytes));
    }
    if (e->vectors.ended) {
        json_buffer_free(&e->piece);
        exchange_end(x);
    }
}

static bool answer_failed(struct embeddings *e)
{
    if (!e->taken)
        call_fail(&e->pooled.call, HTTP_INTERNAL, "the answer has no room");
    else if (!e->valid)
        call_fail(&e->pooled.call, HTTP_INTERNAL_SAME, "the model gave no finite vector");
    return !e->taken || !e->valid;
}

// On a text worker, because megabytes are copied and checked. The engine request stays attached
// meanwhile, even if the client leaves.
static void answer_measure(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);

    e->taken = values_take(e);
    e->valid = e->taken && vectors_valid(&e->vectors);
    e->length = e->valid ? vectors_length(&e->vectors, exchange_slice(x)) : 0;
}

static void answer_begin(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);

    pooled_close(&e->pooled); // also if the client has left: the last event was read
    if (!exchange_gone(x) && !answer_failed(e)) {
        exchange_reply_begin(x, 200, e->length);
        answer_continue(x);
    }
}

static uint64_t answer_bytes(const struct embeddings *e)
{
    enum { FLOAT_LETTERS = 12, BASE64_LETTERS = 6 }; // of a value, about
    uint64_t values = (uint64_t)e->vectors.count * e->pooled.call.model->facts->output_width;
    return values * (e->base64 ? BASE64_LETTERS : FLOAT_LETTERS);
}

static void embeddings_ready(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);

    if (!pooled_done(&e->pooled))
        return;
    if ((size_t)e->vectors.count * e->pooled.call.model->facts->output_width > WHOLE_VALUES_MAX) {
        exchange_offload(x, (struct offload){.work = answer_measure,
                                             .done = answer_begin,
                                             .bytes = answer_bytes(e)});
        return;
    }
    e->taken = values_take(e);
    e->valid = e->taken && vectors_valid(&e->vectors);
    pooled_close(&e->pooled);
    if (!answer_failed(e))
        answer_whole(e);
}

static void embeddings_room(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);

    if (e && exchange_streaming(x) && !e->vectors.ended)
        answer_continue(x);
}

static void embeddings_gone(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);

    if (e) {
        pooled_gone(&e->pooled);
        json_buffer_free(&e->piece);
    }
}

const struct route embeddings_routes[] = {
    {
        .method = "POST",
        .path = "/v1/embeddings",
        .shape = SHAPE_OPENAI,
        .flags = ROUTE_BEARER | ROUTE_JSON,
        .inline_bytes_max = INLINE_BYTES_MAX,
        .on_prepare = embeddings_prepare,
        .on_request = embeddings_request,
        .on_ready = embeddings_ready,
        .on_room = embeddings_room,
        .on_gone = embeddings_gone,
    },
    {.path = NULL},
};
