// SPDX-License-Identifier: Apache-2.0
// h2o refuses some requests before routing (a bad Content-Length, broken chunking, a body over its
// own limit) with a text of its own. This filter on the fallback path replaces that text by weft's
// JSON error. Requests that are malformed or exceed the header limits get h2o's fixed 400, because
// no filter runs there. Runs on the h2o thread.
#include "http/internal.h"

struct fallback {
    h2o_ostream_t super;
    h2o_iovec_t body; // allocated in the request's pool
};

enum http_error fallback_error(int status)
{
    if (status == 413)
        return HTTP_TOO_LARGE;
    if (status == 404)
        return HTTP_UNKNOWN_URL;
    return status >= 500 ? HTTP_INTERNAL : HTTP_INVALID_VALUE;
}

// Returns the failure for the status that h2o chose. limit: buffer for the message of a 413, which
// states the body limit; must live as long as the failure.
static struct http_failure failure_of(h2o_req_t *req, char *limit, size_t limit_bytes)
{
    struct http_failure failure = {.error = fallback_error(req->res.status),
                                   .message = text_of("The request is not valid HTTP.")};
    if (failure.error == HTTP_TOO_LARGE) {
        char most[BODY_LIMIT_BYTES];
        body_limit_write(most, sizeof most, loop_of(req)->server->options.body_bytes_max);
        snprintf(limit, limit_bytes, "The body is too large; %s.", most);
        failure.message = text_of(limit);
    } else if (failure.error == HTTP_UNKNOWN_URL) {
        failure.message = text_of("Unknown request URL.");
    } else if (failure.error == HTTP_INTERNAL) {
        failure.message = text_of("The server could not answer.");
    }
    return failure;
}

static void on_send(h2o_ostream_t *stream, h2o_req_t *req, h2o_iovec_t *in, size_t count,
                    h2o_send_state_t state)
{
    (void)in;
    (void)count;
    struct fallback *fallback = (struct fallback *)stream;
    h2o_ostream_send_next(stream, req, &fallback->body, fallback->body.len > 0, state);
    fallback->body.len = 0;
}

static void header_set(h2o_req_t *req, const h2o_token_t *token, const char *value)
{
    ssize_t at = h2o_find_header(&req->res.headers, token, -1);
    if (at >= 0)
        req->res.headers.entries[at].value = h2o_iovec_init(value, strlen(value));
    else
        h2o_add_header(&req->pool, &req->res.headers, token, NULL, value, strlen(value));
}

static void ids_put(h2o_req_t *req, h2o_iovec_t id)
{
    h2o_add_header_by_str(&req->pool, &req->res.headers, H2O_STRLIT("x-request-id"), 0, NULL,
                          id.base, id.len);
    h2o_add_header_by_str(&req->pool, &req->res.headers, H2O_STRLIT("request-id"), 0, NULL, id.base,
                          id.len);
    h2o_add_header_by_str(&req->pool, &req->res.headers, H2O_STRLIT("openai-processing-ms"), 0,
                          NULL, H2O_STRLIT("0"));
}

static void origin_put(h2o_req_t *req)
{
    const struct cors *cors = &loop_of(req)->server->cors;
    ssize_t at = h2o_find_header_by_str(&req->headers, H2O_STRLIT("origin"), -1);
    struct text page = {"", 0};
    if (at >= 0)
        page = text_span(req->headers.entries[at].value.base, req->headers.entries[at].value.len);
    respond_origin(req, cors, cors_origin(cors, text_trim(page)));
}

void fallback_setup(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot)
{
    (void)self;
    if (req->res.status >= 400) {
        char made[REQUEST_ID_MAX + 1];
        ssize_t at = h2o_find_header_by_str(&req->headers, H2O_STRLIT("x-request-id"), -1);
        struct text wanted = {"", 0};
        if (at >= 0)
            wanted =
                text_span(req->headers.entries[at].value.base, req->headers.entries[at].value.len);
        request_id_make(wanted, made);
        h2o_iovec_t id = h2o_strdup(&req->pool, made, SIZE_MAX);
        char limit[96];
        struct http_failure failure = failure_of(req, limit, sizeof limit);
        struct text path = text_span(req->input.path.base, req->input.path.len);
        struct json_buffer body = {0};
        http_error_body(&body, &failure, path_shape(path), text_span(id.base, id.len));
        h2o_ostream_t *made_stream = h2o_add_ostream(req, sizeof(struct fallback), slot);
        struct fallback *fallback = (struct fallback *)made_stream;
        fallback->super.do_send = on_send;
        fallback->body = h2o_strdup(&req->pool, body.at, body.bytes);
        json_buffer_free(&body);
        if (h2o_memis(req->input.method.base, req->input.method.len, H2O_STRLIT("HEAD")))
            fallback->body.len = 0;
        req->res.content_length = fallback->body.len;
        header_set(req, H2O_TOKEN_CONTENT_TYPE, "application/json");
        header_set(req, H2O_TOKEN_CACHE_CONTROL, "no-store");
        ids_put(req, id);
        origin_put(req);
        slot = &fallback->super.next;
    }
    h2o_setup_next_ostream(req, slot);
}
