// SPDX-License-Identifier: Apache-2.0
// The checks of a request before its endpoint sees it: framing (400), route (404), method (405),
// key (401), content type (415), size (413), drain (503), readiness (503), in this order. On the
// connection's h2o thread.
#include "http/framing.h"
#include "http/internal.h"

#include <stdlib.h>
#include <strings.h>

enum { HTTP_1_0 = 0x100, HTTP_1_1, HTTP_2 = 0x200 };

static struct text header_of(const h2o_req_t *req, const char *name)
{
    ssize_t at = h2o_find_header_by_str(&req->headers, name, strlen(name), -1);
    if (at < 0)
        return (struct text){"", 0};
    h2o_iovec_t value = req->headers.entries[at].value;
    return text_span(value.base, value.len);
}

static struct credential credential_of(const h2o_req_t *req, const char *name)
{
    struct credential found = {.value = {"", 0}};
    size_t bytes = strlen(name);
    for (ssize_t at = h2o_find_header_by_str(&req->headers, name, bytes, -1); at >= 0;
         at = h2o_find_header_by_str(&req->headers, name, bytes, at)) {
        h2o_iovec_t value = req->headers.entries[at].value;
        if (found.count++ == 0)
            found.value = text_trim(text_span(value.base, value.len));
    }
    return found;
}

static void credentials_read(const h2o_req_t *req, struct credential *out)
{
    for (int i = 0; i < CREDENTIAL_COUNT; i++)
        out[i] = credential_of(req, credential_names[i]);
}

bool request_has_key(const h2o_req_t *req, const struct keys *keys)
{
    struct credential sent[CREDENTIAL_COUNT];
    credentials_read(req, sent);
    return keys_any_valid(keys, sent);
}

static bool is_word(struct text in, const char *word)
{
    return in.bytes == strlen(word) && strncasecmp(in.at, word, in.bytes) == 0;
}

// Removes the part before the next ';' from *rest and returns it, trimmed.
static struct text part_pop(struct text *rest)
{
    const char *cut = memchr(rest->at, ';', rest->bytes);
    size_t bytes = cut ? (size_t)(cut - rest->at) : rest->bytes;
    struct text part = text_span(rest->at, bytes);
    size_t skip = cut ? bytes + 1 : bytes;
    *rest = text_span(rest->at + skip, rest->bytes - skip);
    return text_trim(part);
}

static bool parameter_is_fine(struct text part)
{
    static const char name[] = "charset=";
    enum { NAME_BYTES = sizeof name - 1 };
    if (part.bytes < NAME_BYTES || strncasecmp(part.at, name, NAME_BYTES) != 0)
        return true; // other parameters are ignored
    struct text value = text_span(part.at + NAME_BYTES, part.bytes - NAME_BYTES);
    if (value.bytes >= 2 && value.at[0] == '"' && value.at[value.bytes - 1] == '"')
        value = text_span(value.at + 1, value.bytes - 2);
    return is_word(value, "utf-8") || is_word(value, "utf8");
}

// Returns true for application/json, any type ending in +json, or no header; a charset must be
// utf-8.
static bool is_json_type(struct text value)
{
    struct text rest = text_trim(value);
    if (rest.bytes == 0)
        return true;
    struct text type = part_pop(&rest);
    bool plus = type.bytes > 5 && memchr(type.at, '/', type.bytes) &&
                strncasecmp(type.at + type.bytes - 5, "+json", 5) == 0;
    if (!is_word(type, "application/json") && !plus)
        return false;
    while (rest.bytes > 0)
        if (!parameter_is_fine(part_pop(&rest)))
            return false;
    return true;
}

// Returns true if every content-type header is a JSON type: of several, a reverse proxy may use
// another one than libh2o.
static bool is_json(const h2o_req_t *req)
{
    static const char name[] = "content-type";
    bool json = true;
    for (ssize_t at = h2o_find_header_by_str(&req->headers, name, sizeof name - 1, -1); at >= 0;
         at = h2o_find_header_by_str(&req->headers, name, sizeof name - 1, at)) {
        h2o_iovec_t value = req->headers.entries[at].value;
        json = json && is_json_type(text_span(value.base, value.len));
    }
    return json;
}

static void request_refuse(struct exchange *x, enum http_error error, const char *message)
{
    struct http_failure failure = {.error = error, .message = text_of(message)};
    exchange_fail(x, &failure);
}

void body_limit_write(char *out, size_t out_bytes, uint64_t bytes)
{
    enum { MIB = 1 << 20 };
    bool mib = bytes > 0 && bytes % MIB == 0;
    snprintf(out, out_bytes, "at most %llu %s are accepted",
             (unsigned long long)(mib ? bytes / MIB : bytes), mib ? "MiB" : "bytes");
}

static bool body_is_refused(struct exchange *x, const h2o_req_t *req)
{
    const struct server_options *options = &x->thread->server->options;
    struct text encoding = text_trim(header_of(req, "content-encoding"));
    bool json = (x->route->flags & ROUTE_JSON) != 0;
    if (json && !is_json(req)) {
        request_refuse(x, HTTP_MEDIA_TYPE,
                       "The body must be JSON in UTF-8: send 'Content-Type: application/json'.");
    } else if (encoding.bytes > 0 && !is_word(encoding, "identity")) {
        request_refuse(
            x, HTTP_CONTENT_ENCODING,
            "Compressed bodies are not accepted: send the body without Content-Encoding.");
    } else if (req->entity.len > options->body_bytes_max) {
        char message[128], limit[BODY_LIMIT_BYTES];
        body_limit_write(limit, sizeof limit, options->body_bytes_max);
        snprintf(message, sizeof message, "The body has %zu bytes; %s.", req->entity.len, limit);
        request_refuse(x, HTTP_TOO_LARGE, message);
    } else {
        return false;
    }
    return true;
}

// Answers a CORS preflight, the OPTIONS request that a browser sends before a request with a key.
static void preflight_answer(struct exchange *x, const h2o_req_t *req)
{
    struct text names = text_trim(header_of(req, "access-control-request-headers"));
    if (!x->response.origin.at || header_of(req, "access-control-request-method").bytes == 0)
        return;
    exchange_header(x, "access-control-allow-methods", text_of("GET, POST, DELETE, OPTIONS"));
    exchange_header(x, "access-control-max-age", text_of("600"));
    if (cors_names_are_fine(names))
        exchange_header(x, "access-control-allow-headers", names);
}

static void unknown_path(struct exchange *x, struct text method, struct text path)
{
    enum { METHOD_SHOWN = 32, PATH_SHOWN = 128 };
    char message[256];
    snprintf(message, sizeof message, "Unknown request URL: %.*s %.*s",
             (int)(method.bytes < METHOD_SHOWN ? method.bytes : METHOD_SHOWN), method.at,
             (int)(path.bytes < PATH_SHOWN ? path.bytes : PATH_SHOWN), path.at);
    request_refuse(x, HTTP_UNKNOWN_URL, message);
}

bool headers_are_over(const h2o_req_t *req)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < req->headers.size; i++)
        bytes += req->headers.entries[i].name->len + req->headers.entries[i].value.len;
    return req->headers.size > HEAD_LINES_MAX || bytes > HEAD_BYTES_MAX;
}

static const char *fault_of(h2o_req_t *req)
{
    h2o_iovec_t authority = req->input.authority;
    if (req->version >= HTTP_2 && headers_are_over(req))
        return head_fault;
    if (req->version >= HTTP_2) // HTTP/2 frames delimit the body
        return host_is_valid(text_span(authority.base, authority.len)) ? NULL : host_fault;
    const h2o_buffer_t *input = req->conn->callbacks->get_socket(req->conn)->input;
    bool body_read = !request_connection(req)->early;
    return framing_fault(text_span(input->bytes, input->size), req->version - HTTP_1_0, body_read);
}

static bool is_refused(struct exchange *x, h2o_req_t *req, const struct route_match *match,
                       struct text path)
{
    const char *fault = fault_of(req);
    if (fault) {
        x->response.close = true;
        request_refuse(x, HTTP_INVALID_VALUE, fault);
        return true;
    }
    if (!match->path_known) {
        unknown_path(x, text_span(req->method.base, req->method.len), path);
        return true;
    }
    if (match->options) {
        exchange_header(x, "allow", text_of(match->allow));
        preflight_answer(x, req);
        exchange_reply_type(x, 204, NULL, (struct text){"", 0});
        return true;
    }
    if (!match->route) {
        char message[160];
        snprintf(message, sizeof message, "The method is not allowed here; allowed: %s.",
                 match->allow);
        exchange_header(x, "allow", text_of(match->allow));
        request_refuse(x, HTTP_METHOD, message);
        return true;
    }
    uint32_t flags = match->route->flags;
    if ((flags & ROUTE_SHAPE_OF_CALLER) && x->info.shape == SHAPE_MESSAGES)
        flags |= ROUTE_X_API_KEY;
    struct credential sent[CREDENTIAL_COUNT];
    credentials_read(req, sent);
    const struct access *access = access_of(x->thread->server);
    struct verdict verdict = keys_check(access->keys, flags, sent);
    if (!verdict.allowed) {
        request_refuse(x, verdict.error, verdict.message);
        return true;
    }
    if ((flags & ROUTE_OPEN) == 0) {
        x->info.key_id = verdict.key_id;
        request_connection(x->answer->req)->keyed_with = access->generation;
    }
    if ((flags & ROUTE_ADMIN) && verdict.key_id >= x->thread->server->options.admin_keys) {
        request_refuse(x, HTTP_ADMIN_KEY,
                       "This needs a key that the server was given with --admin-key.");
        return true;
    }
    if (body_is_refused(x, req))
        return true;
    if (match->route->flags & ROUTE_OPEN)
        return false;
    if (drain_refuses(x->thread, req)) {
        request_refuse(x, HTTP_UNAVAILABLE, "The server is shutting down.");
        return true;
    }
    if (x->info.served)
        return false;
    request_refuse(x, HTTP_UNAVAILABLE, "The models are still being loaded.");
    return true;
}

// Returns the deadline in CLOCK_MONOTONIC ns, or 0. X-Stainless-Timeout is in seconds and may have
// a fraction.
static uint64_t deadline_of(const h2o_req_t *req, uint64_t started)
{
    char digits[24];
    struct text value = text_trim(header_of(req, "x-stainless-timeout"));
    if (value.bytes == 0 || value.bytes >= sizeof digits)
        return 0;
    memcpy(digits, value.at, value.bytes);
    digits[value.bytes] = '\0';
    uint64_t whole = 0, milli = 0, scale = 100;
    const char *p = digits;
    for (; *p >= '0' && *p <= '9' && whole < 10000000; p++)
        whole = whole * 10 + (uint64_t)(*p - '0');
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
            milli += (uint64_t)(*p - '0') * scale;
    if (*p != '\0' || whole + milli == 0)
        return 0;
    return started + whole * 1000000000 + milli * 1000000;
}

static void headers_read(struct exchange *x, const h2o_req_t *req, const struct route_match *match)
{
    char id[REQUEST_ID_MAX + 1];
    request_id_make(text_trim(header_of(req, "x-request-id")), id);
    x->info.request_id = arena_copy(x->arena, text_of(id));
    x->info.anthropic_version = arena_copy(x->arena, header_of(req, "anthropic-version"));
    if (match->shape_of_caller && x->info.anthropic_version.bytes > 0)
        x->info.shape = SHAPE_MESSAGES;
    x->info.if_none_match = arena_copy(x->arena, header_of(req, "if-none-match"));
    x->info.deadline_ns = deadline_of(req, x->info.started_ns);
    x->response.origin = cors_origin(&x->thread->server->cors, text_trim(header_of(req, "origin")));
    struct text retries = text_trim(header_of(req, "x-stainless-retry-count"));
    if (retries.bytes > 0 && !text_is(retries, "0"))
        atomic_fetch_add_explicit(&x->thread->counters.retries, 1, memory_order_relaxed);
}

// Returns the path of the request's target, not decoded. The target may be in absolute form ("GET
// http://host/path").
static struct text target_path(const h2o_req_t *req)
{
    static const char *const schemes[] = {"http://", "https://"};
    struct text path = text_span(req->path.base, req->path.len);
    const char *query = memchr(path.at, '?', path.bytes);
    if (query)
        path.bytes = (size_t)(query - path.at);
    for (int i = 0; i < 2; i++) {
        size_t bytes = strlen(schemes[i]);
        if (path.bytes <= bytes || strncasecmp(path.at, schemes[i], bytes) != 0)
            continue;
        const char *slash = memchr(path.at + bytes, '/', path.bytes - bytes);
        if (slash)
            return text_span(slash, path.bytes - (size_t)(slash - path.at));
    }
    return path;
}

// RFC 9112, 9.3: "close" closes, wherever it is in the list; else HTTP/1.1 persists, and HTTP/1.0
// with "keep-alive". libh2o reads the last Connection header only and looks for "keep-alive".
static void persistence_decide(struct exchange *x, h2o_req_t *req)
{
    if (req->version >= HTTP_2)
        return;
    struct connection *connection = request_connection(req);
    bool close = false, keep = req->version >= HTTP_1_1;
    for (ssize_t at = h2o_find_header(&req->headers, H2O_TOKEN_CONNECTION, -1); at >= 0;
         at = h2o_find_header(&req->headers, H2O_TOKEN_CONNECTION, at)) {
        h2o_iovec_t value = req->headers.entries[at].value;
        close = close || h2o_contains_token(value.base, value.len, H2O_STRLIT("close"), ',');
        keep = keep || h2o_contains_token(value.base, value.len, H2O_STRLIT("keep-alive"), ',');
    }
    req->http1_is_persistent = keep && !req->conn->ctx->shutdown_requested;
    if (connection->early) // its body was left out
        linger_prepare(connection);
    x->response.close = x->response.close || close || connection->early;
}

int handle_request(h2o_handler_t *self, h2o_req_t *req)
{
    (void)self;
    struct http_thread *thread = loop_of(req);
    struct route_match match;
    struct text raw = target_path(req);
    struct path path = path_decode(raw, h2o_mem_alloc_pool(&req->pool, raw.bytes + 1));
    route_find(&thread->server->routes, text_span(req->method.base, req->method.len), path, &match);
    struct exchange *x = exchange_create(thread, req, &match);
    headers_read(x, req, &match);
    persistence_decide(x, req);
    if (is_refused(x, req, &match, path.text)) {
        exchange_settle(x);
        return 0;
    }
    exchange_run(x, exchange_begin);
    // an answer completely handed to h2o needs no watch; x is valid until h2o's loop disposes of it
    if (x->wire != WIRE_LAST)
        watch_add(x);
    return 0;
}
