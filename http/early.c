// SPDX-License-Identifier: Apache-2.0
// Answers requests without a valid key as soon as their head is read. libh2o 2.2.5 calls the
// handler once a body is complete, so clients without a key could hold connections with bodies that
// never end. No route reads the body of such a request: those that need no key only serve GET.
//
// libh2o is linked dynamically and resolves two of its functions to those in this file (decision
// 0057). phr_parse_request parses a head of HTTP/1: if a body is still to come and the head has no
// valid key, libh2o is given the head without Content-Length and Transfer-Encoding and calls the
// handler immediately. The handler closes the connection after the answer (linger.c).
// h2o_hpack_parse_headers parses a head of HTTP/2: a stream without a key is noted. If its body is
// not complete after early_wait_ms, the stream is answered and ended. Until then most small bodies
// are complete, and their clients need not handle a stream that ends before they have sent
// everything. Runs on the h2o thread.
#include "http/framing.h"
#include "http/internal.h"

#include <dlfcn.h>
#include <h2o/http1.h>
#include <h2o/http2.h>
#include <h2o/http2_internal.h>
#include <strings.h>

_Static_assert(HEAD_BYTES_MAX == H2O_MAX_REQLEN && HEAD_LINES_MAX == H2O_MAX_HEADERS,
               "the limits of libh2o");

// The layout that the library uses. A name of NULL continues the header before it.
struct phr_header {
    const char *name;
    size_t name_bytes;
    const char *value;
    size_t value_bytes;
};

// Called by h2o. at: everything received so far; seen: bytes that an earlier call has seen. Returns
// the bytes of the head, -1: malformed, -2: incomplete. *header_count: space in `headers` before,
// number of headers after the call.
int phr_parse_request(const char *at, size_t bytes, const char **method, size_t *method_bytes,
                      const char **path, size_t *path_bytes, int *minor, struct phr_header *headers,
                      size_t *header_count, size_t seen);

typedef int (*phr_function)(const char *, size_t, const char **, size_t *, const char **, size_t *,
                            int *, struct phr_header *, size_t *, size_t);
typedef int (*hpack_function)(h2o_req_t *, h2o_hpack_header_table_t *, const uint8_t *, size_t,
                              int *, size_t *, h2o_cache_digests_t **, const char **);

static _Thread_local struct http_thread *current;

static bool header_is(const struct phr_header *header, const char *name)
{
    return header->name && header->name_bytes == strlen(name) &&
           strncasecmp(header->name, name, header->name_bytes) == 0;
}

static struct text value_of(const struct phr_header *header)
{
    return text_trim(text_span(header->value, header->value_bytes));
}

// Returns true if the body that the headers announce is valid, by the rules of libh2o, and not yet
// complete. have: bytes received after the head. libh2o refuses an invalid one immediately.
static bool body_is_awaited(const struct phr_header *headers, size_t count, size_t have,
                            size_t most)
{
    const struct phr_header *length = NULL, *coding = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!length && header_is(&headers[i], "content-length"))
            length = &headers[i];
        if (header_is(&headers[i], "transfer-encoding"))
            coding = &headers[i];
    }
    if (coding)
        return h2o_lcstris(coding->value, coding->value_bytes, H2O_STRLIT("chunked"));
    if (!length)
        return false;
    size_t bytes = h2o_strtosize(length->value, length->value_bytes);
    return bytes != SIZE_MAX && bytes <= most && bytes > have;
}

static bool has_key(const struct phr_header *headers, size_t count, const struct keys *keys)
{
    struct credential sent[CREDENTIAL_COUNT] = {0};
    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < CREDENTIAL_COUNT; c++)
            if (header_is(&headers[i], credential_names[c]) && sent[c].count++ == 0)
                sent[c].value = value_of(&headers[i]);
    return keys_any_valid(keys, sent);
}

// Removes the headers that announce a body.
static size_t body_leave_out(struct phr_header *headers, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!header_is(&headers[i], "content-length") &&
            !header_is(&headers[i], "transfer-encoding"))
            headers[kept++] = headers[i];
    return kept;
}

static void head_check(const char **method, struct phr_header *headers, size_t *count, size_t have)
{
    // h2o passes the address of a member of its request
    h2o_req_t *req = H2O_STRUCT_FROM_MEMBER(h2o_req_t, input.method.base, method);
    struct server *server = current->server;
    if (!body_is_awaited(headers, *count, have, server->conf.max_request_entity_size) ||
        has_key(headers, *count, access_of(server)->keys))
        return;
    *count = body_leave_out(headers, *count);
    request_connection(req)->early = true; // until the exchange ends, and with it the connection
}

// RFC 9112, 2.2: empty lines before a request line are ignored. The library skips only one.
static size_t blank_bytes(const char *at, size_t bytes)
{
    size_t blank = 0;
    while (bytes - blank >= 2 && at[blank] == '\r' && at[blank + 1] == '\n')
        blank += 2;
    return blank;
}

__attribute__((visibility("default"))) int
phr_parse_request(const char *at, size_t bytes, const char **method, size_t *method_bytes,
                  const char **path, size_t *path_bytes, int *minor, struct phr_header *headers,
                  size_t *header_count, size_t seen)
{
    static _Atomic(phr_function) library;
    if (!library)
        library = (phr_function)dlsym(RTLD_NEXT, "phr_parse_request");
    size_t blank = blank_bytes(at, bytes);
    int head = library(at + blank, bytes - blank, method, method_bytes, path, path_bytes, minor,
                       headers, header_count, seen > blank ? seen - blank : 0);
    if (head <= 0)
        return head;
    size_t all = blank + (size_t)head;
    if (current)
        head_check(method, headers, header_count, bytes - all);
    return (int)all;
}

// A stream of HTTP/2 whose head has no valid key and whose body is still to come. Allocated in the
// pool of its request, so it ends with the stream.
struct early_stream {
    struct http_thread *thread;
    h2o_http2_stream_t *stream;
    h2o_timeout_entry_t wait;
    struct early_stream *next, **link; // link NULL: in no list
};

static void list_push(struct early_stream **list, struct early_stream *one)
{
    one->next = *list;
    one->link = list;
    if (one->next)
        one->next->link = &one->next;
    *list = one;
}

static struct early_stream *list_pop(struct early_stream **list)
{
    struct early_stream *one = *list;
    if (!one)
        return NULL;
    *list = one->next;
    if (one->next)
        one->next->link = list;
    one->link = NULL;
    return one;
}

static void on_dispose(void *memory)
{
    struct early_stream *one = memory;
    h2o_timeout_unlink(&one->wait);
    if (one->link)
        list_pop(one->link);
}

// The streams whose wait ends now are answered together, in the next iteration.
static void on_wait_end(h2o_timeout_entry_t *entry)
{
    struct early_stream *one = H2O_STRUCT_FROM_MEMBER(struct early_stream, wait, entry);
    struct http_thread *thread = one->thread;
    list_push(&thread->early, one);
    if (!h2o_timeout_is_linked(&thread->early_run))
        h2o_timeout_link(thread->ctx.loop, &thread->ctx.zero_timeout, &thread->early_run);
}

static void wait_begin(struct early_stream *one)
{
    h2o_timeout_link(one->thread->ctx.loop, &one->thread->early_timeout, &one->wait);
}

static void stream_note(h2o_req_t *req)
{
    h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, req);
    if (!stream->_req_body || request_has_key(req, access_of(current->server)->keys))
        return;
    struct early_stream *one = h2o_mem_alloc_shared(&req->pool, sizeof *one, on_dispose);
    *one = (struct early_stream){.thread = current, .stream = stream, .wait.cb = on_wait_end};
    wait_begin(one);
}

// Overrides libh2o's function of this name, and calls it. exists: NULL for trailers. Trailers are
// dropped, so that they cannot pass for headers, unless head and trailers exceed the limits: then
// they stay, and handle.c refuses the request.
__attribute__((visibility("default"))) int
h2o_hpack_parse_headers(h2o_req_t *req, h2o_hpack_header_table_t *table, const uint8_t *at,
                        size_t bytes, int *exists, size_t *content_length,
                        h2o_cache_digests_t **digests, const char **error)
{
    static _Atomic(hpack_function) library;
    if (!library)
        library = (hpack_function)dlsym(RTLD_NEXT, "h2o_hpack_parse_headers");
    size_t before = req->headers.size;
    int result = library(req, table, at, bytes, exists, content_length, digests, error);
    if (result != 0)
        return result;
    if (!exists && !headers_are_over(req))
        req->headers.size = before;
    if (exists && current)
        stream_note(req);
    return result;
}

// Runs the handler as if the stream had ended with its head.
static void stream_answer(h2o_http2_conn_t *conn, h2o_http2_stream_t *stream)
{
    h2o_buffer_dispose(&stream->_req_body);
    h2o_http2_stream_set_state(conn, stream, H2O_HTTP2_STREAM_STATE_REQ_PENDING);
    h2o_http2_stream_set_state(conn, stream, H2O_HTTP2_STREAM_STATE_SEND_HEADERS);
    if (conn->pull_stream_ids.max_processed < stream->stream_id)
        conn->pull_stream_ids.max_processed = stream->stream_id;
    h2o_process_request(&stream->req);
}

// Writes the answers of a connection immediately: libh2o drops an answer if a DATA frame of its
// stream arrives first.
static void connection_write(h2o_http2_conn_t *conn)
{
    h2o_timeout_entry_t *write = &conn->_write.timeout_entry;
    if (!h2o_timeout_is_linked(write))
        return;
    h2o_timeout_unlink(write);
    write->cb(write);
}

// Answers the streams that still wait for a body. After a complete answer, RST_STREAM with NO_ERROR
// asks the client to stop sending (RFC 9113, 8.1). A timer calls this, because libh2o handles the
// end of a write immediately after timers.
static void on_run(h2o_timeout_entry_t *entry)
{
    struct http_thread *thread = H2O_STRUCT_FROM_MEMBER(struct http_thread, early_run, entry);
    struct early_stream *one, *answered = NULL;
    while ((one = list_pop(&thread->early))) {
        h2o_http2_conn_t *conn = (h2o_http2_conn_t *)one->stream->req.conn;
        if (one->stream->state != H2O_HTTP2_STREAM_STATE_RECV_BODY ||
            conn->state != H2O_HTTP2_CONN_STATE_OPEN) // closing, or the server drains
            continue;
        if (conn->sock->_cb.write) // a write is in flight: the answer could not be sent at once
            wait_begin(one);
        else
            list_push(&answered, one);
    }
    for (one = answered; one; one = one->next)
        stream_answer((h2o_http2_conn_t *)one->stream->req.conn, one->stream);
    for (one = answered; one; one = one->next)
        connection_write((h2o_http2_conn_t *)one->stream->req.conn);
    while ((one = list_pop(&answered))) {
        h2o_http2_conn_t *conn = (h2o_http2_conn_t *)one->stream->req.conn;
        if (one->stream->state != H2O_HTTP2_STREAM_STATE_END_STREAM)
            continue;
        h2o_http2__encode_rst_stream_frame(&conn->_write.buf, one->stream->stream_id, 0);
        h2o_http2_conn_request_write(conn);
    }
}

void early_begin(struct http_thread *thread)
{
    current = thread;
    thread->early_run.cb = on_run;
    h2o_timeout_init(thread->ctx.loop, &thread->early_timeout,
                     thread->server->options.early_wait_ms);
}

void early_end(struct http_thread *thread)
{
    h2o_timeout_unlink(&thread->early_run);
    h2o_timeout_dispose(thread->ctx.loop, &thread->early_timeout);
}
