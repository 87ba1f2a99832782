// POST /v1/embeddings: fields, tokens, answer (docs/API.md). The body of the answer is made by
// vectors.c; a large one is measured on a text worker and sent in pieces.
#include "http/api/endpoints.h"
#include "http/api/inputs.h"
#include "http/api/vectors.h"

#include "http/counters.h"

#include <math.h>
#include <string.h>

enum {
    INPUTS_MAX = 2048,
    INLINE_BYTES_MAX = 8 * 1024, // many short inputs cost more a byte than one text
    WHOLE_VALUES_MAX = 4096,     // more floats than this are sent in pieces
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
    uint32_t dimensions; // fewer than the model's vectors have; 0: theirs
    struct inputs inputs;
    struct vectors vectors;
    bool taken, valid; // the vectors
    uint64_t length;   // of the answer
    struct json_buffer piece;
};

// Reading

static void truncate_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    uint32_t window = e->pooled.call.model->facts->max_model_len;
    int64_t limit =
        fields_integer(f, "truncate_prompt_tokens", (struct integer_range){-1, INT64_MAX, 0});
    e->inputs.token_max = window;
    e->inputs.truncate = fields_bool(f, "truncate", false);
    if (!fields_get(f, "truncate_prompt_tokens"))
        return;
    if (limit == 0)
        fields_fail(f, HTTP_INVALID_VALUE, "truncate_prompt_tokens", "must be -1 or at least 1");
    e->inputs.truncate = true;
    e->inputs.token_max = limit > 0 && limit < window ? (uint32_t)limit : window;
}

static void dimensions_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    uint32_t native = e->pooled.call.model->facts->output_width;
    int64_t wanted = fields_integer(f, "dimensions", (struct integer_range){1, native, native});
    e->dimensions = wanted < native ? (uint32_t)wanted : 0;
    if (!f->failed && wanted != native && !e->pooled.call.model->dimensions_free) {
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, "dimensions",
                    "must be %u or absent: the vectors of this model cannot be shortened", native);
    }
}

static void embeddings_read(struct embeddings *e)
{
    struct fields *f = &e->pooled.call.fields;
    if (!call_model(&e->pooled.call, MODEL_EMBEDDER, &embeddings_rules))
        return;
    e->inputs = (struct inputs){.call = &e->pooled.call, .field = "input", .count_max = INPUTS_MAX};
    struct text format = fields_string(f, "encoding_format");
    e->base64 = text_is(format, "base64");
    if (!f->failed && format.at && !e->base64 && !text_is(format, "float"))
        fields_fail(f, HTTP_INVALID_VALUE, "encoding_format", "must be 'float' or 'base64'");
    e->inputs.special = fields_bool(f, "add_special_tokens", true);
    dimensions_read(e);
    truncate_read(e);
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
    };
    e->vectors.count = e->inputs.list.sequence_count;
    if (!call_failed(&e->pooled.call))
        pooled_submit(&e->pooled, &args);
}

// Writing

static uint32_t width_of(const struct embeddings *e)
{
    return e->dimensions > 0 ? e->dimensions : e->pooled.call.model->facts->output_width;
}

// What is left of a shortened vector gets the length 1 again.
static void normalize(float *vector, uint32_t width)
{
    double squares = 0;
    for (uint32_t i = 0; i < width; i++)
        squares += (double)vector[i] * vector[i];
    double scale = squares > 0 ? 1 / sqrt(squares) : 1;
    for (uint32_t i = 0; i < width; i++)
        vector[i] = (float)(vector[i] * scale);
}

// Copies the values out of the engine's memory at once, so that a slow reader holds none of it.
static bool values_take(struct embeddings *e)
{
    struct vectors *v = &e->vectors;
    const struct served_model *model = e->pooled.call.model;
    uint32_t width = width_of(e);
    size_t row_bytes = (size_t)width * sizeof(float);
    float *values = arena_take(exchange_arena(e->pooled.call.exchange), v->count * row_bytes);
    if (!values)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        memcpy(values + (size_t)i * width, request_values(e->pooled.request, i), row_bytes);
        if (e->dimensions > 0 && model->facts->normalize)
            normalize(values + (size_t)i * width, width);
    }
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
    uint64_t values = (uint64_t)e->vectors.count * width_of(e);
    return values * (e->base64 ? BASE64_LETTERS : FLOAT_LETTERS);
}

static void embeddings_ready(struct exchange *x)
{
    struct embeddings *e = exchange_state(x);
    if (!pooled_done(&e->pooled))
        return;
    if ((size_t)e->vectors.count * width_of(e) > WHOLE_VALUES_MAX) {
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
