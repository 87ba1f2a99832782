// SPDX-License-Identifier: Apache-2.0
// Status line and headers of every answer, failures, request ids. On the exchange's h2o thread;
// header values are in the exchange's arena or in the request's pool.
#include "http/ids.h"
#include "http/internal.h"

#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>

struct reason {
    int status;
    const char *text;
};

static const char *reason_of(int status)
{
    static const struct reason reasons[] = {
        {200, "OK"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {413, "Payload Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {429, "Too Many Requests"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {529, "Overloaded"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Answer";
}

static bool id_is_fine(struct text id)
{
    if (id.bytes == 0 || id.bytes > REQUEST_ID_MAX)
        return false;
    for (size_t i = 0; i < id.bytes; i++) {
        char c = id.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

void request_id_make(struct text wanted, char *out)
{
    static const char prefix[] = "req_";
    enum { PREFIX_BYTES = sizeof prefix - 1 };
    if (id_is_fine(wanted)) {
        memcpy(out, wanted.at, wanted.bytes);
        out[wanted.bytes] = '\0';
        return;
    }
    memcpy(out, prefix, PREFIX_BYTES);
    id_letters(out + PREFIX_BYTES);
    out[PREFIX_BYTES + ID_LETTERS] = '\0';
}

static void header_put(h2o_req_t *req, const char *name, struct text value)
{
    h2o_add_header_by_str(&req->pool, &req->res.headers, name, strlen(name), 1, NULL, value.at,
                          value.bytes);
}

void respond_origin(h2o_req_t *req, const struct cors *cors, struct text origin)
{
    if (cors->count > 0 && !cors->any)
        header_put(req, "vary", text_of("origin"));
    if (!origin.at)
        return;
    header_put(req, "access-control-allow-origin", origin);
    header_put(req, "access-control-expose-headers",
               text_of("x-request-id, request-id, retry-after"));
}

void respond_headers(struct exchange *x)
{
    h2o_req_t *req = x->answer->req;
    req->res.status = x->response.status;
    req->res.reason = reason_of(x->response.status);
    // RFC 9110, 8.6: no content-length with 204
    if (x->response.content_length != UINT64_MAX && x->response.status != 204)
        req->res.content_length = (size_t)x->response.content_length;
    if (x->response.close)
        req->http1_is_persistent = 0;
    if (x->response.content_type)
        header_put(req, "content-type", text_of(x->response.content_type));
    header_put(req, "x-request-id", x->info.request_id);
    header_put(req, "request-id", x->info.request_id);
    uint64_t ms = (clock_ns() - x->info.started_ns) / 1000000;
    struct text processing = arena_format(x->arena, "%llu", (unsigned long long)ms);
    if (processing.at)
        header_put(req, "openai-processing-ms", processing);
    const char *cache = exchange_is_stream(x) ? "no-cache" : "no-store";
    header_put(req, "cache-control",
               text_of(x->response.cache_control ? x->response.cache_control : cache));
    if (exchange_is_stream(x))
        header_put(req, "x-accel-buffering", text_of("no"));
    respond_origin(req, &x->thread->server->cors, x->response.origin);
    for (uint32_t i = 0; i < x->response.header_count; i++)
        header_put(req, x->response.headers[i].name, x->response.headers[i].value);
}

// Returns the shortest queue among the model's working copies: a retry is sent to the copy that has
// space first.
static uint64_t least_waiting(const struct served_model *model)
{
    uint64_t least = 0;
    bool found = false;
    for (uint32_t i = 0; i < model->copy_count; i++) {
        const struct served_copy *copy = &model->copies[i];
        if (served_copy_failed(copy))
            continue;
        const struct engine_stats *stats = engine_stats(copy->engine);
        uint64_t here = atomic_load_explicit(&stats->sequences_waiting, memory_order_relaxed);
        least = found ? smaller(least, here) : here;
        found = true;
    }
    return least;
}

// Returns the whole seconds until a retry may be accepted, 1 to 60: some clients ignore 0 and
// values above 60.
static uint32_t retry_seconds(const struct exchange *x, enum http_error error)
{
    enum { PER_SECOND = 16, SECONDS_MAX = 60, LOADING = 5 };
    if (error == HTTP_UNAVAILABLE)
        return x->info.draining ? 1 : LOADING;
    if (!x->engine.copy)
        return 1;
    uint64_t seconds = 1 + least_waiting(x->engine.model) / PER_SECOND;
    return seconds < SECONDS_MAX ? (uint32_t)seconds : SECONDS_MAX;
}

static void failure_headers(struct exchange *x, enum http_error error)
{
    if (error == HTTP_MISSING_KEY || error == HTTP_INVALID_KEY)
        exchange_header(x, "www-authenticate", text_of("Bearer"));
    if (error == HTTP_INTERNAL_SAME || error == HTTP_GRAMMAR)
        exchange_header(x, "x-should-retry", text_of("false"));
    if (error == HTTP_CROWDED)
        exchange_header(x, "x-should-retry", text_of("true"));
    if (error == HTTP_TOO_LARGE)
        x->response.close = true;
    if (error != HTTP_OVERLOADED && error != HTTP_CROWDED && error != HTTP_UNAVAILABLE)
        return;
    char value[32];
    uint32_t seconds = retry_seconds(x, error);
    snprintf(value, sizeof value, "%u", seconds);
    exchange_header(x, "retry-after", text_of(value));
    snprintf(value, sizeof value, "%u000", seconds);
    exchange_header(x, "retry-after-ms", text_of(value));
}

void exchange_fail(struct exchange *x, const struct http_failure *failure)
{
    failure_headers(x, failure->error);
    x->response.code = http_error_code(failure->error);
    if (failure->error == HTTP_OVERLOADED)
        counters_refused(x);
    struct json_buffer body = {0};
    http_error_body(&body, failure, x->info.shape, x->info.request_id);
    exchange_reply(x, http_error_status(failure->error, x->info.shape), json_buffer_text(&body));
    json_buffer_free(&body);
}
