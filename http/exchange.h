// SPDX-License-Identifier: Apache-2.0
// An exchange is the h2o side of one request: its bytes, its arena, its answer. It belongs to one
// h2o thread. Endpoints (http/api) see only this header: no h2o type and no socket. An exchange may
// outlive its connection: it lives until the handler was notified (on_gone) and its engine request
// is freed.
#pragma once

#include "http/errors.h"
#include "http/served.h"
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct http_thread; // one h2o loop

struct exchange_info { // read-only for handlers
    enum shape shape;
    struct text body;      // raw JSON text; valid until on_gone
    struct text path_rest; // path after a route that ends in "/", percent-decoded
    struct text query;     // part of the target after "?", not decoded; see query_find
    struct text request_id;
    struct text anthropic_version; // value of the header, or empty
    struct text if_none_match;     // value of the If-None-Match header, or empty
    uint64_t started_ns;           // when the body was complete, CLOCK_MONOTONIC
    uint64_t deadline_ns;          // CLOCK_MONOTONIC, from X-Stainless-Timeout; 0: none
    bool head;                     // true for HEAD: only headers are sent
    bool draining;
    uint32_t key_id; // id of the API key; KEY_NONE: open route, or no key was accepted
    const struct served *served;
};

enum { KEY_NONE = UINT32_MAX };

const struct exchange_info *exchange_info(const struct exchange *x);
struct arena *exchange_arena(struct exchange *x); // memory that lives as long as the exchange

// Returns the arena for temporary data. It is freed once on_request has returned and the work that
// it offloaded is done. Call it in on_prepare and on_request only.
struct arena *exchange_scratch(struct exchange *x);

// Stores the handler's own state, which it allocates from the arena in on_prepare or on_request.
void exchange_state_set(struct exchange *x, void *state);
void *exchange_state(const struct exchange *x);

// Records the model id from the body for the access log. Copies it.
void exchange_model_named(struct exchange *x, struct text id);

// Returns this h2o thread's port to an engine of `model`, which must be in exchange_info.served. If
// the model has several copies, chooses the one with the least to compute for this request
// (scheduler/route.h). A repeated call returns the port of a copy that was not chosen before; NULL:
// none is left. Events of the engine request lead to on_ready.
struct port *exchange_port(struct exchange *x, const struct served_model *model,
                           const struct submit_args *args);

// Attaches an engine request to the exchange (its owner in port_submit must be the exchange). If
// the client leaves, the exchange cancels the request, detaches it, drops its events and frees it.
void exchange_attach(struct exchange *x, struct port *port, struct request *request);
// Frees the attached engine request. Call it once the handler has read its last finish event.
void exchange_detach(struct exchange *x);

// Record the complete answer. An exchange has one answer: call one of these three, or one of
// exchange_reply_bare, exchange_reply_begin and exchange_stream_begin, and only once. exchange_fail
// writes the failure in the shape of the route. Bodies are copied; content_type is a literal.
void exchange_fail(struct exchange *x, const struct http_failure *failure);
void exchange_reply(struct exchange *x, int status, struct text json);
void exchange_reply_type(struct exchange *x, int status, const char *content_type,
                         struct text body);
// Sends the headers of an answer whose body would have `bytes` bytes, without that body (304).
void exchange_reply_bare(struct exchange *x, int status, const char *content_type, uint64_t bytes);
// Adds a header; `name` is a literal, `value` is copied. Call it before the answer begins.
void exchange_header(struct exchange *x, const char *name, struct text value);
// Sets Cache-Control to a string literal. Default: no-store; no-cache for streams.
void exchange_cache(struct exchange *x, const char *control);

// Begins a JSON body that is sent in pieces with exchange_write (embeddings of 2,048 inputs).
// content_length must be exact.
void exchange_reply_begin(struct exchange *x, int status, uint64_t content_length);

// The calls above only record an answer: its bytes are sent after the callback has returned. After
// fail, reply or end no callback follows; the exchange cancels and frees an engine request that is
// still attached.
//
// Streams: begin sends 200 and the SSE headers; write appends to the send buffer; end closes the
// body once everything is sent. If exchange_send_space() is 0, stop reading events (the event ring
// fills up and the engine pauses the sequence) and continue in on_send_space.
void exchange_stream_begin(struct exchange *x);
// Returns how many bytes may be written now; 0: wait for on_send_space, unless the answer has ended
// or the client is gone.
size_t exchange_send_space(const struct exchange *x);
void exchange_write(struct exchange *x, struct text bytes);
void exchange_end(struct exchange *x);
// Marks a stream whose last event is a failure, so that the access log shows this code with status
// 200.
void exchange_stream_failed(struct exchange *x, enum http_error error);

bool exchange_answered(const struct exchange *x); // true if status and headers are recorded

// A job that takes more than about a millisecond. `work` runs on a text worker, then `done` runs on
// this h2o thread. `done` runs even if the client has left or the server has cut the request
// meanwhile: then exchange_gone is true and nothing may be answered. In between, only `work` may
// touch the exchange's arena and state, except for jobs of exchange_compile.
struct offload {
    void (*work)(struct exchange *x);
    void (*done)(struct exchange *x);
    bool reads_body; // true: `work` gets a copy of the body; false: it sees an empty body
    uint64_t bytes;  // approximate bytes that it reads or writes; decides which workers run it
    bool serial;     // true: one such job at a time per h2o thread, on the workers for small bodies
    bool answers;    // true: it writes an answer; large answers have their own workers
    bool compiles;   // set by exchange_compile
    // Jobs with the same non-zero key share one compilation: when the first is done, `done` of the
    // others runs without their `work`. 0: shares with no other job.
    uint64_t share_key;
};
// Queues a job for the text workers; an exchange has one job at a time.
void exchange_offload(struct exchange *x, struct offload job);
// Offloads a job of up to a second to the grammar thread. While the job waits or runs, on_second,
// on_ready and on_send_space are still called, and the handler may begin a stream; `work` must not
// touch data that they use. Returns false if too many jobs wait already, for this API key or in all
// (answer HTTP_OVERLOADED). The server cuts a request whose job waits too long or past the
// request's deadline.
bool exchange_compile(struct exchange *x, struct offload job) MUST_USE;
bool exchange_gone(const struct exchange *x);
// Returns the slice with which `work` counts its progress; NULL for small jobs. Call it only inside
// `work`. Once slice_spend returns false, the result is not used, so `work` should return.
struct slice *exchange_slice(const struct exchange *x);

// Largest body that is prepared on the h2o thread: that takes less than a millisecond.
enum { BODY_INLINE_BYTES_MAX = 32 * 1024 };

// Memory limit of one arena while a body of this size is prepared. The measured worst case is 60
// bytes per byte: a text that the tokenizer merges as one word.
static inline uint64_t scratch_bytes_max(uint64_t body_bytes)
{
    return (UINT64_C(64) << 20) + 96 * body_bytes;
}

// An endpoint. Its callbacks run on the h2o thread, except where noted; NULL: nothing to do.
struct route {
    const char *method; // "POST"; "GET" also serves HEAD
    const char *path;   // exact path; with a trailing "/" it also matches longer paths
    enum shape shape;
    uint32_t flags; // enum route_flag bits
    // Called after route, key, content type and size were checked. on_prepare (optional) runs
    // first: on a text worker if the body exceeds inline_bytes_max, else on the h2o thread.
    uint32_t inline_bytes_max;
    void (*on_prepare)(struct exchange *x);
    void (*on_request)(struct exchange *x);
    void (*on_ready)(struct exchange *x);      // the attached engine request may have events
    void (*on_send_space)(struct exchange *x); // the send buffer has space again
    void (*on_second)(struct exchange *x, uint64_t now_ns); // called once a second; then on_ready
    // A job of exchange_manage on this thread is done, maybe that of another exchange: check
    // manage_is_done.
    void (*on_managed)(struct exchange *x);
    // The server ends a stream that has begun. on_ready is called next and writes the last event;
    // then on_gone, unless that ended the answer.
    void (*on_cut)(struct exchange *x, const struct http_failure *failure);
    // The client left, or the server cut the request, before fail, reply or end. This is the last
    // call. The engine request is detached and may be freed already: do not touch it.
    void (*on_gone)(struct exchange *x);
};

enum route_flag {
    ROUTE_OPEN = 1,             // no key is needed
    ROUTE_BEARER = 2,           // if several headers have a key, Authorization decides
    ROUTE_X_API_KEY = 4,        // if several headers have a key, x-api-key decides
    ROUTE_JSON = 16,            // a POST body's content type must be JSON
    ROUTE_ADMIN = 64,           // only keys of --admin-key are accepted
    ROUTE_SHAPE_OF_CALLER = 32, // Messages shape, also for the key, if anthropic-version is sent
};

// A route for POST with a JSON body; the variable arguments are its callbacks.
#define JSON_ROUTE(route_path, route_shape, key, inline_bytes, ...)                                \
    {                                                                                              \
        .method = "POST",                                                                          \
        .path = route_path,                                                                        \
        .shape = route_shape,                                                                      \
        .flags = (key) | ROUTE_JSON,                                                               \
        .inline_bytes_max = inline_bytes,                                                          \
        __VA_ARGS__,                                                                               \
    }

// All routes: one array per endpoint file, each terminated by a row without a path. The list of
// arrays is in http/api/list.c and ends with NULL.
extern const struct route *const route_tables[];
