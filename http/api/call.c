// SPDX-License-Identifier: Apache-2.0
// From a body to a submitted request: see call.h.
#include "http/api/call.h"

#include "http/counters.h"
#include "base/clock.h"
#include "base/log.h"

enum { LOOKED_BYTES = 8 }; // scanning this many bytes costs as much as parsing one

// The number of values is limited because a parsed value takes up to 100 times its bytes in the
// body.
static bool values_are_too_many(struct text body)
{
    size_t at = 0; // may exceed the length by 2 if the body is truncated
    uint32_t count = 1;
    if (body.bytes < CALL_VALUES_MAX)
        return false;
    while (at < body.bytes && count <= CALL_VALUES_MAX) {
        char c = body.at[at++];
        count += c == ',' || c == '[' || c == '{';
        if (c == '"') {
            while (at < body.bytes && body.at[at] != '"')
                at += body.at[at] == '\\' ? 2 : 1;
            at++;
        }
    }
    return count > CALL_VALUES_MAX;
}

static void body_parse(struct body_call *call)
{
    struct arena *arena = exchange_arena(call->exchange);
    struct error err;
    call->fields = (struct fields){.arena = arena, .shape = call->info->shape};
    // The result is ignored: json_parse_in_slices notices if the client has left.
    (void)slice_spend(call->slice, call->info->body.bytes / LOOKED_BYTES);
    if (values_are_too_many(call->info->body)) {
        fields_fail_plain(&call->fields, HTTP_TOO_LARGE, NULL,
                          "the request body has more than %d JSON values", CALL_VALUES_MAX);
    } else if (json_parse_in_slices(&call->body, call->info->body, call->slice, &err) !=
               STATUS_OK) {
        call->body = NULL;
        fields_fail_plain(&call->fields, HTTP_INVALID_JSON, NULL,
                          "the request body is not valid JSON: %s", err.text);
    } else {
        fields_init(&call->fields, arena, call->info->shape, call->body);
        call->fields.slice = call->slice;
    }
}

void *call_begin(struct exchange *x, size_t state_bytes)
{
    struct body_call *call = arena_alloc_zeroed(exchange_arena(x), 1, state_bytes);
    check(call, "the arena of an exchange has no space for %zu bytes", state_bytes);
    call->exchange = x;
    call->info = exchange_info(x);
    call->slice = exchange_slice(x);
    call->begun_ns = clock_ns();
    exchange_state_set(x, call);
    body_parse(call);
    return call;
}

void call_body_end(struct body_call *call)
{
    json_decref(call->body);
    call->body = NULL;
    call->fields.root = NULL;
    call->slice = call->fields.slice = NULL;
    call->prepare_ns = clock_ns() - call->begun_ns;
}

// Counts the ignored fields. The first log line has level info, later lines have level debug.
static void ignored_fields_log(struct body_call *call)
{
    struct server_view view;
    uint64_t before = 0;
    struct fields *f = &call->fields;
    server_view_get(call->exchange, &view);
    for (uint32_t i = 0; i < view.thread_count; i++) {
        const struct thread_counters *counters = server_counters(call->exchange, i);
        before += atomic_load_explicit(&counters->fields_ignored, memory_order_relaxed);
    }
    log_line(before == 0 ? LOG_INFO : LOG_DEBUG, "ignored unknown request fields: %.*s%s",
             (int)f->ignored_bytes, f->ignored,
             before == 0 ? " (further ones are counted in weft_fields_ignored_total)" : "");
    counters_fields_ignored(call->exchange, f->ignored_count);
}

bool call_failed(struct body_call *call)
{
    if (call->fields.ignored_count > 0)
        ignored_fields_log(call);
    if (call->fields.failed)
        exchange_fail(call->exchange, &call->fields.failure);
    return call->fields.failed;
}

bool call_kind(struct body_call *call, enum model_kind kind)
{
    static const char *const hints[] = {
        [MODEL_GENERATOR] = ("is a generation model: use /v1/chat/completions, "
                             "/v1/completions, /v1/responses or /v1/messages"),
        [MODEL_EMBEDDER] = "is an embedding model: use /v1/embeddings",
        [MODEL_RERANKER] = "is a reranking model: use /v1/rerank",
    };
    static const char *const uses[] = {
        [MODEL_GENERATOR] = "generation",
        [MODEL_EMBEDDER] = "embeddings",
        [MODEL_RERANKER] = "reranking",
    };
    if (call->model->facts->kind != kind)
        fields_fail_plain(&call->fields, HTTP_UNSUPPORTED_MODEL, "model",
                          "the model '%s' does not support %s; it %s", call->model->id, uses[kind],
                          hints[call->model->facts->kind]);
    return !call->fields.failed;
}

// Returns the only model of this kind (-1: of any kind); NULL if there is none or more than one.
static const struct served_model *model_only(const struct body_call *call, int kind)
{
    const struct served *served = call->info->served;
    const struct served_model *found = NULL;
    for (uint32_t i = 0; i < served->count; i++) {
        if (kind >= 0 && (int)served->models[i].facts->kind != kind)
            continue;
        if (found)
            return NULL;
        found = &served->models[i];
    }
    return found;
}

// Finds the model of the body and checks all fields. only: the model to use if the body names none,
// or NULL. Returns false if the fields have failed.
static bool model_read(struct body_call *call, const struct field_rules *rules,
                       const struct served_model *only)
{
    struct fields *f = &call->fields;
    struct text id = fields_string(f, "model");
    if (!id.at && only)
        id = text_of(only->id);
    else
        fields_get_required(f, "model");
    if (f->failed)
        return false;
    exchange_model_named(call->exchange, text_head(id, 200));
    call->model = served_find(call->info->served, id);
    if (!call->model) {
        const char *form =
            f->shape == SHAPE_MESSAGES ? "model: %.*s" : "the model '%.*s' does not exist";
        id = text_head(id, 200);
        fields_fail_plain(f, HTTP_MODEL_NOT_FOUND, "model", form, (int)id.bytes, id.at);
        return false;
    }
    fields_check_known(f, rules);
    return !f->failed;
}

bool call_model(struct body_call *call, enum model_kind kind, const struct field_rules *rules)
{
    return model_read(call, rules, model_only(call, (int)kind)) && call_kind(call, kind);
}

bool call_any_model(struct body_call *call, const struct field_rules *rules)
{
    return model_read(call, rules, model_only(call, -1));
}

void call_fail(struct body_call *call, enum http_error error, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    message_format(message, sizeof message, format, args);
    va_end(args);
    exchange_fail(call->exchange,
                  &(struct http_failure){.error = error, .message = text_of(message)});
}

// The engine does not check token ids. If the tokenizer has more ids than the model, the request
// must fail, not the process.
static bool tokens_fit(const struct body_call *call, const struct submit_args *args)
{
    uint32_t vocab = call->model->facts->vocab;
    uint32_t known = tokens_known(args->tokens, args->token_count, vocab);
    if (known < args->token_count)
        log_line(LOG_ERROR, "the tokenizer of '%s' returned token %d, but the model has only %u",
                 call->model->id, args->tokens[known], vocab);
    return known == args->token_count;
}

// Tries the copies of the model until one accepts the request. If all refuse, 'queue full' takes
// precedence over 'failed', because a full queue may soon have space.
static enum admission copies_submit(struct body_call *call, const struct submit_args *args,
                                    struct request **out)
{
    enum admission admission = ADMISSION_FAILED;
    struct port *port;
    while ((port = exchange_port(call->exchange, call->model, args))) {
        enum admission result = port_submit(port, args, out);
        call->port = port;
        if (result != ADMISSION_BUSY && result != ADMISSION_FAILED)
            return result;
        admission = result == ADMISSION_BUSY ? result : admission;
    }
    return admission;
}

struct request *call_try_submit(struct body_call *call, struct submit_args *args, const char *field)
{
    struct request *request = NULL;
    struct fields *f = &call->fields;
    if (!tokens_fit(call, args)) {
        fields_fail_plain(f, HTTP_INTERNAL_SAME, NULL,
                          "the model's tokenizer does not fit its weights");
        return NULL;
    }
    args->owner = call->exchange;
    args->key_id = call->info->key_id;
    args->cache_owner = call->model->cache_by_key ? (uint64_t)args->key_id + 1 : 0;
    args->deadline_ns = call->info->deadline_ns;
    switch (copies_submit(call, args, &request)) {
    case ADMITTED:
        exchange_attach(call->exchange, call->port, request);
        counters_tokenized(call->exchange, call->prepare_ns);
        return request;
    case ADMISSION_BUSY:
        fields_fail_plain(f, HTTP_OVERLOADED, NULL, "the queue is full; try again later");
        break;
    case ADMISSION_TOO_MANY_TOKENS:
        fields_fail_plain(f, HTTP_INVALID_VALUE, field,
                          "the request has %u tokens, more than max-queued-tokens (%u) allows",
                          args->token_count, call->model->max_queued_tokens);
        break;
    case ADMISSION_TOO_MANY_BYTES:
        fields_fail_plain(f, HTTP_INVALID_VALUE, field,
                          "the answer to %u inputs is larger than max-result-bytes",
                          args->sequence_count);
        break;
    case ADMISSION_FAILED:
        fields_fail_plain(f, HTTP_UNAVAILABLE, NULL,
                          "the device of model '%s' has failed; the model is unavailable",
                          call->model->id);
        break;
    case ADMISSION_DRAINING:
        fields_fail_plain(f, HTTP_UNAVAILABLE, NULL, "the server is shutting down");
        break;
    }
    return NULL;
}

struct request *call_submit(struct body_call *call, struct submit_args *args, const char *field)
{
    struct request *request = call_try_submit(call, args, field);
    if (!request)
        exchange_fail(call->exchange, &call->fields.failure);
    return request;
}

bool call_is_late(const struct body_call *call)
{
    return call->info->deadline_ns != 0 && clock_ns() > call->info->deadline_ns;
}

void call_fail_late(struct body_call *call)
{
    fields_fail_plain(&call->fields, HTTP_TIMEOUT, NULL, "%s",
                      finish_report(FINISH_TIMEOUT)->failure);
}

// One row for each finish reason; a missing row is a compile error.
#define FINISH_REPORT_STOP {COUNTED_STOP, 0, NULL}
#define FINISH_REPORT_LENGTH {COUNTED_LENGTH, 0, NULL}
#define FINISH_REPORT_CONTEXT {COUNTED_LENGTH, 0, NULL}
#define FINISH_REPORT_CANCEL {COUNTED_ABORT, HTTP_UNAVAILABLE, "the server ended the request"}
#define FINISH_REPORT_TIMEOUT                                                                      \
    {COUNTED_ERROR, HTTP_TIMEOUT, "the request waited in the queue past its deadline"}
#define FINISH_REPORT_STALLED                                                                      \
    {COUNTED_ABORT, HTTP_TIMEOUT, "the client did not read the response for too long"}
#define FINISH_REPORT_ERROR {COUNTED_ERROR, HTTP_INTERNAL, "the model failed on this request"}
#define FINISH_REPORT_STUCK                                                                        \
    {COUNTED_ERROR, HTTP_GRAMMAR, "no token of the model matches the grammar at this position"}
#define FINISH_REPORT_OVER                                                                         \
    {COUNTED_ERROR, HTTP_GRAMMAR,                                                                  \
     "the grammar is too ambiguous to compute the next token: make it smaller, or nest "           \
     "fewer repetitions and alternatives"}
#define FINISH_REPORT_CROWDED                                                                      \
    {COUNTED_ERROR, HTTP_CROWDED,                                                                  \
     "other answers use the memory that this grammar needs; try again later"}
#define FINISH_REPORT_DONE {COUNTED_POOLED, 0, NULL}

const struct finish_report *finish_report(enum finish finish)
{
    static const struct finish_report reports[FINISH_COUNT] = {
        [FINISH_NONE] = {COUNTED_STOP, 0, NULL},
#define FINISH_REPORT(name, counted) [FINISH_##name] = FINISH_REPORT_##name,
        FINISH_LIST(FINISH_REPORT)
#undef FINISH_REPORT
    };
    check(finish < FINISH_COUNT, "finish %d", (int)finish);
    return &reports[finish];
}
