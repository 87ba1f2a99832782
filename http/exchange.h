// An exchange is the h2o side of one request: its bytes, its arena, its answer. It belongs to one
// h2o thread. Endpoints (http/api) see only this header: no h2o type and no socket. An exchange
// outlives its connection until the handler has been told (on_gone) and its engine requests are
// freed.
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
    struct text body;      // until on_gone; JSON not yet parsed
    struct text path_rest; // after a route that ends in "/", decoded once
    struct text query;     // of the target, after its "?", not decoded; see query_find
    struct text request_id;
    struct text anthropic_version; // header, or empty
    struct text if_none_match;     // likewise
    uint64_t started_ns;           // CLOCK_MONOTONIC
    uint64_t deadline_ns;          // from X-Stainless-Timeout, 0: none
    bool head;                     // HEAD: headers only
    bool draining;
    uint32_t key_id; // KEY_NONE: the route is open, or no key was accepted
    const struct served *served;
};

enum { KEY_NONE = UINT32_MAX };

const struct exchange_info *exchange_info(const struct exchange *x);
struct arena *exchange_arena(struct exchange *x); // dies with the exchange

// Memory until on_request has returned and what it offloaded is done. on_prepare and on_request
// only.
struct arena *exchange_scratch(struct exchange *x);

// The handler's own state, made from the arena in its on_prepare or on_request.
void exchange_state_set(struct exchange *x, void *state);
void *exchange_state(const struct exchange *x);

// What the body says which model it wants, for the access log; copied.
void exchange_model_named(struct exchange *x, struct text id);

// The port of this h2o thread to an engine of the model: of several copies the one that has the
// least to do for the request (scheduler/route.h). Asked again, one that was not given before;
// NULL: there is none left. Drained requests arrive as on_ready.
struct port *exchange_port(struct exchange *x, const struct served_model *model,
                           const struct submit_args *args);

// Ties an engine request to the exchange (port_submit's owner must be the exchange). When the
// client leaves, the exchange cancels it, unlinks itself, drops its events and frees it.
void exchange_attach(struct exchange *x, struct port *port, struct request *request);
// The handler read the last finish event: frees the engine request.
void exchange_detach(struct exchange *x);

// Answers, once: a failure in the shape of the route, or a JSON body (copied).
void exchange_fail(struct exchange *x, const struct http_failure *failure);
void exchange_reply(struct exchange *x, int status, struct text json);
void exchange_reply_type(struct exchange *x, int status, const char *content_type,
                         struct text body);
// The headers that an answer with a body of so many bytes has, without it: 304.
void exchange_reply_bare(struct exchange *x, int status, const char *content_type, uint64_t bytes);
void exchange_header(struct exchange *x, const char *name, struct text value); // before the answer
void exchange_cache(struct exchange *x, const char *control); // Cache-Control: a literal; no-store

// Large JSON bodies in pieces (embeddings of 2,048 inputs): begin with the exact length.
void exchange_reply_begin(struct exchange *x, int status, uint64_t content_length);

// Answers are only recorded by these calls: the bytes go out when the callback returns. After
// fail, reply or end there are no more callbacks; an engine request that is still attached is
// cancelled and freed by the exchange.
//
// Streams: begin sends 200 and the SSE headers; write appends to the send buffer; where
// exchange_room() is 0, stop reading events (the ring fills, the engine pauses the sequence) and
// continue in on_room; end closes the body once all is sent.
void exchange_stream_begin(struct exchange *x);
size_t exchange_room(const struct exchange *x); // bytes that write takes without growing
void exchange_write(struct exchange *x, struct text bytes);
void exchange_end(struct exchange *x);
// The last event of a stream is this failure: the access line says so beside its status 200.
void exchange_stream_failed(struct exchange *x, enum http_error error);

bool exchange_answered(const struct exchange *x); // status and headers are recorded

// For work over about a millisecond: `work` runs on a text worker, then `done` on this h2o thread,
// also if the client has left or the server has cut the request meanwhile: then exchange_gone is
// true and nothing may be answered. Between the two nobody else touches the exchange's arena or
// state, but for what compiles.
struct offload {
    void (*work)(struct exchange *x);
    void (*done)(struct exchange *x);
    bool reads_body; // `work` gets a copy; else it finds an empty body
    uint64_t bytes;  // roughly what it reads or writes: the size it is sorted by
    bool alone;      // one of these at a time per h2o thread, treated as a small one
    bool answers;    // it writes an answer: a large one waits for no body
    bool compiles;   // set by exchange_compile
    // What compiles the same has the same number: once one is through, the others that wait get
    // `done` without `work`. 0: like no other.
    uint64_t same;
};
void exchange_offload(struct exchange *x, struct offload job);
// The same for work of up to a second, on the grammar thread. Who waits for that has on_second,
// on_ready and on_room called as ever, and may begin a stream; `work` must not touch what they do.
// False: too many wait already, of this key or of all (HTTP_OVERLOADED). Who waits too long, or
// past its deadline, is cut.
bool exchange_compile(struct exchange *x, struct offload job) MUST_USE;
bool exchange_gone(const struct exchange *x);
// Only inside `work`, to count what it does; NULL for small sizes. Once it reports the result as
// unwanted, nothing that was made is read.
struct slice *exchange_slice(const struct exchange *x);

// Bodies up to this are prepared on the loop: it takes below a millisecond.
enum { BODY_INLINE_BYTES_MAX = 32 * 1024 };

// Limit of one arena while a body of so many bytes is prepared. Measured worst case: a text that is
// merged as one word takes 60 bytes a byte.
static inline uint64_t scratch_bytes_max(uint64_t body_bytes)
{
    return (UINT64_C(64) << 20) + 96 * body_bytes;
}

// An endpoint: callbacks on the h2o thread; NULL where there is nothing to do.
struct route {
    const char *method; // "POST"; "GET" also serves HEAD
    const char *path;   // exact; a trailing "/" takes the rest of the path
    enum shape shape;
    uint32_t flags; // enum route_flag
    // All checks of route, key, type and size are done. on_prepare, where there is one, comes
    // first: on a text worker if the body is over inline_bytes_max, else on the loop.
    uint32_t inline_bytes_max;
    void (*on_prepare)(struct exchange *x);
    void (*on_request)(struct exchange *x);
    void (*on_ready)(struct exchange *x); // the attached engine request has events
    void (*on_room)(struct exchange *x);  // the send buffer has room again
    void (*on_second)(struct exchange *x, uint64_t now_ns); // once a second; on_ready follows
    // The server ends a stream that has begun. on_ready follows and writes its last event, then
    // on_gone.
    void (*on_cut)(struct exchange *x, const struct http_failure *failure);
    // The client left, or the server cut the request, before fail, reply or end; the last call. The
    // attached engine request has been taken back and may be freed: do not touch it.
    void (*on_gone)(struct exchange *x);
};

enum route_flag {
    ROUTE_OPEN = 1,             // needs no key
    ROUTE_BEARER = 2,           // Authorization: Bearer
    ROUTE_X_API_KEY = 4,        // x-api-key, or a Bearer where it is missing
    ROUTE_EITHER_KEY = 8,       // either header; of both, the one of the caller's shape
    ROUTE_JSON = 16,            // POST body must be JSON by content type
    ROUTE_SHAPE_OF_CALLER = 32, // Messages shape if an anthropic-version header is there
};

// A POST of a JSON body; what follows are its callbacks.
#define JSON_ROUTE(route_path, route_shape, key, inline_bytes, ...)                                \
    {                                                                                              \
        .method = "POST",                                                                          \
        .path = route_path,                                                                        \
        .shape = route_shape,                                                                      \
        .flags = (key) | ROUTE_JSON,                                                               \
        .inline_bytes_max = inline_bytes,                                                          \
        __VA_ARGS__,                                                                               \
    }

// All routes: an array of each endpoint file, which ends with a row without a path. The list of
// them, in http/api/list.c, ends with NULL.
extern const struct route *const route_tables[];
