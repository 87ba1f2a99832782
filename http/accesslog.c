// SPDX-License-Identifier: Apache-2.0
// Writes one log line per request at level info. h2o's own access log is not used, because it would
// write to a file and block. Runs on the request's h2o thread when h2o disposes of the request.
#include "http/internal.h"

enum { METHOD_BYTES_SHOWN = 32, PATH_BYTES_SHOWN = 200, VALUES_MAX = 16 };

struct access_line {
    struct log_value values[VALUES_MAX];
    uint32_t count;
};

static void text_add(struct access_line *line, const char *name, struct text text)
{
    line->values[line->count++] =
        (struct log_value){.name = name, .kind = LOG_VALUE_TEXT, .text = text};
}

static void number_add(struct access_line *line, const char *name, uint64_t number)
{
    line->values[line->count++] =
        (struct log_value){.name = name, .kind = LOG_VALUE_NUMBER, .number = (double)number};
}

static void ms_add(struct access_line *line, const char *name, uint64_t from_ns, uint64_t to_ns)
{
    if (from_ns == 0 || to_ns < from_ns)
        return;
    line->values[line->count++] = (struct log_value){.name = name,
                                                     .kind = LOG_VALUE_NUMBER,
                                                     .number = (double)(to_ns - from_ns) / 1e6,
                                                     .decimals = 1};
}

static struct text iovec_shown(h2o_iovec_t in, size_t bytes_max)
{
    return text_span(in.base, in.len < bytes_max ? in.len : bytes_max);
}

// Returns the path as sent, without its query, which may contain secrets.
static struct text path_of(const h2o_req_t *req)
{
    h2o_iovec_t path = req->input.path;
    if (req->input.query_at < path.len)
        path.len = req->input.query_at;
    return iovec_shown(path, PATH_BYTES_SHOWN);
}

// Adds method, route, status and error code. code: the one that was answered or that ended the
// stream, or NULL.
static void head_add(struct access_line *line, const h2o_req_t *req, struct text route, int status,
                     const char *code)
{
    text_add(line, "method", iovec_shown(req->input.method, METHOD_BYTES_SHOWN));
    text_add(line, "route", route);
    number_add(line, "status", (uint64_t)status);
    if (code)
        text_add(line, "code", text_of(code));
}

static void wire_add(struct access_line *line, const h2o_req_t *req)
{
    static const char *const protocols[] = {"HTTP/1.0", "HTTP/1.1", "HTTP/2"};
    number_add(line, "bytes_in", req->entity.len);
    number_add(line, "bytes_out", req->bytes_sent);
    text_add(line, "protocol", text_of(protocols[req->version >= 0x200 ? 2 : req->version & 1]));
}

static void tokens_add(struct access_line *line, const struct exchange *x)
{
    const struct request_facts *facts = &x->engine.facts;
    // a text worker that has x may be writing model_named
    if (!x->engine.model && x->job.state == JOB_NONE && x->model_named.bytes > 0)
        text_add(line, "model", x->model_named);
    if (!x->engine.model)
        return;
    text_add(line, "model",
             iovec_shown(h2o_iovec_init(x->engine.model->id, strlen(x->engine.model->id)),
                         PATH_BYTES_SHOWN));
    if (facts->submitted_ns == 0)
        return;
    number_add(line, "tokens_in", facts->prompt_tokens);
    if (x->engine.model->facts->kind == MODEL_GENERATOR)
        number_add(line, "tokens_out", x->counts.tokens_answered);
    ms_add(line, "queue_ms", facts->submitted_ns, facts->started_ns);
    ms_add(line, "first_token_ms", x->arrived_ns, facts->first_token_ns);
}

void access_log(const struct exchange *x, const h2o_req_t *req)
{
    struct access_line line = {.count = 0};
    if (log_level_get() < LOG_INFO)
        return;
    struct text route = x->route ? text_of(x->route->path) : path_of(req);
    head_add(&line, req, route, exchange_status(x), x->response.code);
    tokens_add(&line, x);
    ms_add(&line, "total_ms", x->arrived_ns, clock_ns());
    wire_add(&line, req);
    if (x->info.key_id != KEY_NONE)
        number_add(&line, "key", x->info.key_id);
    line.values[line.count++] = (struct log_value){
        .name = "client_gone", .kind = LOG_VALUE_BOOL, .number = x->client == CLIENT_GONE};
    text_add(&line, "id", x->info.request_id);
    log_values(LOG_INFO, "request", line.values, line.count);
}

void access_log_refused(h2o_logger_t *self, h2o_req_t *req)
{
    (void)self;
    struct access_line line = {.count = 0};
    if (log_level_get() < LOG_INFO)
        return;
    const char *code =
        req->res.status >= 400 ? http_error_code(fallback_error(req->res.status)) : NULL;
    head_add(&line, req, path_of(req), req->res.status, code);
    wire_add(&line, req);
    ssize_t at = h2o_find_header_by_str(&req->res.headers, H2O_STRLIT("x-request-id"), -1);
    if (at >= 0)
        text_add(&line, "id", iovec_shown(req->res.headers.entries[at].value, REQUEST_ID_MAX));
    log_values(LOG_INFO, "request", line.values, line.count);
}
