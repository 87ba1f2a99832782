// SPDX-License-Identifier: Apache-2.0
// POST /v1/embeddings: fields, tokens, answer (docs/API.md). vectors.c writes the answer; a large
// one is measured on a text worker and sent in pieces.
#include "http/api/endpoints.h"
#include "http/api/inputs.h"
#include "http/api/pieces.h"

#include "http/counters.h"

#include <math.h>
#include <string.h>

enum {
    INLINE_BYTES_MAX = 1024,     // small, because the prompt is tokenized again with each input
    PROMPT_BYTES_PER_TOKEN = 16, // per token of the window: text without tokens costs time too
    ONE_PIECE_VALUES_MAX = 4096, // answers with more floats are sent in pieces
};

static const struct field_rule embeddings_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("input"),
    FIELD_READ_BY("encoding_format"),
    FIELD_READ_BY("dimensions"),
    FIELD_READ_BY("truncate"),
    FIELD_READ_BY("truncate_prompt_tokens"),
    FIELD_READ_BY("truncation_direction"),
    FIELD_READ_BY("truncation_side"),
    FIELD_READ_BY("add_special_tokens"),
    FIELD_READ_BY("prompt_name"),
    FIELD_READ_BY("prompt"),
    FIELD_READ_BY("normalize"),
    FIELD_READ_BY("normalized"),
    FIELD_READ_BY("embd_normalize"),

    FIELD_HARMLESS("user", "s"),
    FIELD_HARMLESS("metadata", "o"),
    FIELD_HARMLESS("safety_identifier", "s"),
    FIELD_HARMLESS("store", "b"),
    FIELD_HARMLESS("service_tier", "s"),

    FIELD_NOT_SERVED("priority", "i", "[0]"),
    FIELD_NOT_SERVED_BUT("embed_dtype", "s", "[\"float32\"]", "vectors are float32"),
    FIELD_NOT_SERVED_BUT("endianness", "s", "[\"native\",\"little\"]", "vectors are little-endian"),
    FIELD_NOT_SERVED_BUT("use_activation", "b", "[true]", "use normalize"),
    FIELD_NOT_SERVED("pooling", "s", NULL),
    FIELD_NOT_SERVED_BUT("instruction", "s", NULL, "use prompt"),
    FIELD_NOT_SERVED_BUT("input_type", "s", NULL, "use prompt_name"),
    FIELD_NOT_SERVED_BUT("task", "s", NULL, "use prompt_name"),
    FIELD_NOT_SERVED("late_chunking", "b", "[false]"),
    FIELD_NOT_SERVED("messages", "a", NULL),
    FIELD_NOT_SERVED("images", "a", "[[]]"),
    FIELD_NOT_SERVED_BUT("output_dimension", "i", NULL, "use dimensions"),
    FIELD_NOT_SERVED_BUT("embedding_type", "sa", "[\"float\"]", "use encoding_format"),
    FIELD_NOT_SERVED_BUT("embedding_types", "a", "[[\"float\"]]", "use encoding_format"),
    FIELD_NOT_SERVED_BUT("output_dtype", "s", "[\"float\"]", "use encoding_format"),
};
static const struct field_rules embeddings_rules = FIELD_RULES(embeddings_rows, NULL);

struct embeddings {
    struct pooled pooled;
    bool base64, raw;    // raw: true if vectors are not normalised
    uint32_t dimensions; // requested dimensions; 0: the model's
    struct inputs inputs;
    struct vectors vectors;
    bool copied, valid; // true if the vectors were copied; are all finite
    uint64_t length;    // bytes of the answer
    struct json_buffer piece;
};

// Reading

static void truncate_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    bool left = pooled_cuts_left(f);
    e->inputs.truncate = fields_bool(f, "truncate", fields_get(f, "truncate_prompt_tokens"));
    e->inputs.token_max = pooled_truncate(&e->pooled, e->inputs.truncate);
    e->inputs.last = e->inputs.truncate && left ? e->inputs.token_max : 0;
}

// Returns true if the model's vectors may be shortened to this length.
static bool dimensions_allow(const struct served_model *model, uint32_t wanted)
{
    const struct model_facts *facts = model->facts;
    bool allowed =
        wanted == facts->output_width || model->dimensions_free || facts->dimensions_free;
    for (uint32_t i = 0; i < facts->dimension_count; i++)
        allowed = allowed || facts->dimensions[i] == wanted;
    return allowed;
}

static void dimensions_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    const struct model_facts *facts = e->pooled.call.model->facts;
    uint32_t native = facts->output_width;
    int64_t wanted = fields_integer(f, "dimensions", (struct integer_range){1, native, native});
    e->dimensions = wanted < native ? (uint32_t)wanted : 0;
    if (f->failed || dimensions_allow(e->pooled.call.model, (uint32_t)wanted))
        return;
    struct json_buffer lengths = {0};
    for (uint32_t i = 0; i < facts->dimension_count; i++)
        json_put_format(&lengths, "%u, ", facts->dimensions[i]);
    fields_fail(f, HTTP_UNSUPPORTED_VALUE, "dimensions",
                "must be %.*s%u or absent: other lengths are not supported", (int)lengths.bytes,
                lengths.at ? lengths.at : "", native);
    json_buffer_free(&lengths);
}

// Reads the three names of the option: normalize (text-embeddings-inference), normalized (Jina) and
// embd_normalize (llama-server).
static void normalize_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    static const char norm_name[] = "embd_normalize";
    int64_t norm = fields_integer(f, norm_name, (struct integer_range){-1, INT64_MAX, 2});
    pooled_alias(f, "normalize", norm_name);
    pooled_alias(f, "normalized", norm_name);
    e->raw = !pooled_flag(f, "normalize", "normalized", norm >= 0);
    if (norm != -1 && norm != 2)
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, norm_name, "must be 2, -1 or absent");
}

static void prompt_text_read(struct embeddings *e, struct text prompt)
{
    struct fields *f = &e->pooled.call.fields;
    uint64_t most = (uint64_t)e->pooled.call.model->facts->max_model_len * PROMPT_BYTES_PER_TOKEN;
    if (prompt.bytes > most)
        fields_fail(f, HTTP_INVALID_VALUE, "prompt", "must be at most %llu bytes long, got %zu",
                    (unsigned long long)most, prompt.bytes);
    e->inputs.prompt = prompt;
}

static void prompt_name_read(struct embeddings *e, struct text name)
{
    enum { SHOWN_MAX = 64 };
    struct fields *f = &e->pooled.call.fields;
    const struct sentence_prompts *prompts = &e->pooled.call.model->prompts;
    const struct sentence_prompt *prompt = sentence_prompts_find(prompts, name);
    if (prompt) {
        e->inputs.prompt = prompt->text;
        return;
    }
    if (prompts->count == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, "prompt_name",
                    "must be absent: this model has no prompts");
        return;
    }
    struct text names = text_head(sentence_prompts_names(prompts, f->arena), 8 * SHOWN_MAX);
    fields_fail(f, HTTP_INVALID_VALUE, "prompt_name",
                "must be the name of a prompt of this model (%.*s)", (int)names.bytes, names.at);
}

// Sets the prompt that is put before texts: the one that the request contains or names, else the
// model's default. Token ids are used as they are.
static void prompt_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    const struct sentence_prompt *own = e->pooled.call.model->prompts.default_prompt;
    const json_t *input = fields_get(f, "input");
    const json_t *first = json_is_array(input) ? json_array_get(input, 0) : input;
    bool requested = pooled_alias(f, "prompt_name", "prompt");
    struct text given = fields_string(f, "prompt"), name = fields_string(f, "prompt_name");
    if (f->failed)
        return;
    if (requested && first && !json_is_string(first))
        fields_fail(f, HTTP_INVALID_VALUE, given.at ? "prompt" : "prompt_name",
                    "cannot be combined with token ids: send texts");
    else if (given.at)
        prompt_text_read(e, given);
    else if (name.at)
        prompt_name_read(e, name);
    else if (own && json_is_string(first))
        e->inputs.prompt = own->text;
    e->inputs.prompt_counts = e->pooled.call.model->facts->prompt_unpooled;
    if (e->inputs.prompt_counts && e->inputs.prompt.bytes > 0 && e->inputs.last > 0)
        fields_fail(f, HTTP_UNSUPPORTED_VALUE,
                    fields_get(f, "truncation_side") ? "truncation_side" : "truncation_direction",
                    "must be 'right': this model excludes the prompt from its vectors, and 'left' "
                    "would cut the prompt");
}

static void embeddings_read(struct embeddings *e)
{
    struct body_call *call = &e->pooled.call;
    struct fields *f = &call->fields;
    if (!call_model(call, MODEL_EMBEDDER, &embeddings_rules))
        return;
    e->inputs =
        (struct inputs){.call = call, .field = "input", .count_max = call->model->inputs_max};
    struct text format = fields_string(f, "encoding_format");
    e->base64 = text_is(format, "base64");
    if (!f->failed && format.at && !e->base64 && !text_is(format, "float"))
        fields_fail(f, HTTP_INVALID_VALUE, "encoding_format", "must be 'float' or 'base64'");
    e->inputs.special = fields_bool(f, "add_special_tokens", true);
    dimensions_read(e);
    normalize_read(e);
    truncate_read(e);
    prompt_read(e);
    inputs_read(&e->inputs);
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
        .tokens = e->inputs.list.tokens,
        .token_count = (uint32_t)e->inputs.list.count,
        .sequence_count = e->inputs.list.sequence_count,
        .sequence_start = e->inputs.list.starts,
        .pool_from = e->inputs.prompt_tokens,
        .pool_raw = e->raw,
    };
    e->vectors.count = e->inputs.list.sequence_count;
    if (!call_failed(&e->pooled.call))
        pooled_submit(&e->pooled, &args, e->inputs.field);
}

// Writing

static uint32_t width_of(const struct embeddings *e)
{
    return e->dimensions > 0 ? e->dimensions : e->pooled.call.model->facts->output_width;
}

// Normalises a shortened vector to length 1.
static void vector_normalize(float *vector, uint32_t width)
{
    double squares = 0;
    for (uint32_t i = 0; i < width; i++)
        squares += (double)vector[i] * vector[i];
    double scale = squares > 0 ? 1 / sqrt(squares) : 1;
    for (uint32_t i = 0; i < width; i++)
        vector[i] = (float)(vector[i] * scale);
}

// Copies all values out of the engine's memory, so that a slow client does not keep the engine's
// request alive.
static bool values_copy(struct embeddings *e)
{
    struct vectors *v = &e->vectors;
    const struct served_model *model = e->pooled.call.model;
    uint32_t width = width_of(e);
    size_t row_bytes = (size_t)width * sizeof(float);
    float *values = arena_alloc(exchange_arena(e->pooled.call.exchange), v->count * row_bytes);
    if (!values)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        memcpy(values + (size_t)i * width, request_values(e->pooled.request, i), row_bytes);
        if (e->dimensions > 0 && model->facts->normalize && !e->raw)
            vector_normalize(values + (size_t)i * width, width);
    }
    v->values = values;
    v->width = width;
    v->base64 = e->base64;
    v->model = model->id;
    v->tokens = e->pooled.prompt_tokens;
    return true;
}

static void answer_reply(struct embeddings *e)
{
    struct json_buffer out = {0};
    while (vectors_put(&e->vectors, &out)) {
    }
    exchange_reply(e->pooled.call.exchange, 200, json_buffer_text(&out));
    json_buffer_free(&out);
}

static void answer_continue(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);
    bool more = !e->vectors.ended;
    while (more && exchange_send_space(x) >= VECTORS_PIECE_MAX) {
        e->piece.bytes = 0;
        more = vectors_put(&e->vectors, &e->piece);
        exchange_write(x, json_buffer_text(&e->piece));
    }
    if (e->vectors.ended) {
        json_buffer_free(&e->piece);
        exchange_end(x);
    }
}

static bool answer_failed(struct embeddings *e)
{
    if (!e->copied)
        call_fail(&e->pooled.call, HTTP_INTERNAL, "the response does not fit into memory");
    else if (!e->valid)
        call_fail(&e->pooled.call, HTTP_INTERNAL_SAME,
                  "the model computed a vector that is not finite");
    return !e->copied || !e->valid;
}

// Runs on a text worker, because it copies and checks megabytes. The engine's request stays
// attached meanwhile, even if the client leaves.
static void answer_measure(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);
    e->copied = values_copy(e);
    e->valid = e->copied && vectors_valid(&e->vectors);
    e->length = e->valid ? vectors_length(&e->vectors, exchange_slice(x)) : 0;
}

static void answer_begin(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);
    pooled_close(&e->pooled); // even if the client has left: the last event was read
    if (!exchange_gone(x) && !answer_failed(e)) {
        exchange_reply_begin(x, 200, e->length);
        answer_continue(x);
    }
}

static uint64_t answer_bytes(const struct embeddings *e)
{
    enum { FLOAT_LETTERS = 12, BASE64_LETTERS = 6 }; // approximate bytes per value
    uint64_t values = (uint64_t)e->vectors.count * width_of(e);
    return values * (e->base64 ? BASE64_LETTERS : FLOAT_LETTERS);
}

static void embeddings_ready(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);
    if (!pooled_done(&e->pooled))
        return;
    if ((size_t)e->vectors.count * width_of(e) > ONE_PIECE_VALUES_MAX) {
        exchange_offload(x, (struct offload){.work = answer_measure,
                                             .done = answer_begin,
                                             .answers = true,
                                             .bytes = answer_bytes(e)});
        return;
    }
    e->copied = values_copy(e);
    e->valid = e->copied && vectors_valid(&e->vectors);
    pooled_close(&e->pooled);
    if (!answer_failed(e))
        answer_reply(e);
}

static void embeddings_send_space(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);
    if (e && exchange_answered(x) && !e->vectors.ended)
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
    JSON_ROUTE("/v1/embeddings", SHAPE_OPENAI, ROUTE_BEARER, INLINE_BYTES_MAX,
               .on_prepare = embeddings_prepare, .on_request = embeddings_request,
               .on_ready = embeddings_ready, .on_send_space = embeddings_send_space,
               .on_gone = embeddings_gone),
    {.path = NULL},
};
