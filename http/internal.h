// Private to http/*.c that use h2o: the exchange. Nothing in http/api may include this.
//
// The states of an exchange, all on its h2o thread:
//
//   exchange_create -> on_prepare -> on_request -> REPLY_BEGUN -> REPLY_ENDED -> WIRE_LAST ->
//   dispose
//                          |              |              |
//                     text worker         +-- client gone -+-- the client left; dispose follows
//                                         +-- cut -------+-- by the server; then REPLY_ENDED
//
// The h2o request's pool contains a struct answer. Its dispose hook is the only event that is sure
// to happen at the end. The exchange is destroyed when the answer is disposed of and no text worker
// has the exchange. If on_request offloads a grammar to be compiled, the job's `done` submits the
// engine request.
#pragma once

#include "http/loop.h"

enum {
    SEND_BYTES = 4096,            // send buffer of a stream: how far a client may lag
    SEND_PIECE_BYTES = 64 * 1024, // piece of a long body: stalls are noticed per piece
    HEADERS_MAX = 8,
};

// Links an h2o request to its exchange. Allocated in the h2o request's pool.
struct answer {
    h2o_generator_t generator;
    h2o_req_t *req;
    struct exchange *x;
};

struct response_header {
    const char *name; // literal, lower case
    struct text value;
};

// Progress of the handler: what it has recorded so far.
enum reply_state {
    REPLY_NONE,
    REPLY_BEGUN, // status and headers are recorded
    REPLY_ENDED, // the answer is complete: the handler is not called again
};

// Progress of h2o: what was handed to it so far.
enum wire {
    WIRE_NONE,
    WIRE_OPEN,    // the headers; h2o accepts the next bytes
    WIRE_SENDING, // bytes that h2o has not finished sending
    WIRE_LAST,    // the end of the answer, or an error instead of the rest
};

struct exchange {
    struct exchange_info info;
    struct http_thread *thread;
    struct answer *answer; // NULL once h2o has disposed of the request
    uint64_t arrived_ns;   // when the head began to arrive; info.started_ns: body complete
    const struct route *route;
    uint32_t route_index;
    struct exchange *next, **link;                 // list thread->exchanges
    struct exchange *waiting_next, **waiting_link; // list `waiting_in`; link NULL: in no list
    struct exchange_list *waiting_in;              // list of the thread or of a compile group
    struct arena *arena;
    struct arena *scratch; // NULL: none was requested
    void *state;

    struct port *port; // port of the attached engine request
    struct request *request;
    const struct served_model *model;
    const struct served_copy *copy; // the copy of `model` last tried
    uint32_t copies_tried;          // bit i set: exchange_port has returned copy i
    struct text model_named;        // model id in the body, whether served or not
    uint32_t choices;               // number of choices of a generation
    uint32_t tokens_max;            // most output tokens of any finished choice
    uint64_t token_ns;              // when tokens were last read; 0: not yet
    uint64_t tokens_out;
    uint64_t intervals;         // intervals between tokens recorded so far
    uint64_t tokens_answered;   // output tokens of all finished choices, as in the usage
    struct request_facts facts; // facts of the engine request, once it is detached

    // allowed origin of the page that may read the answer, owned by the server; at == NULL: none
    struct text origin;
    int status;
    const char *code; // code of the failure that was answered or ended the stream, or NULL
    const char *content_type;
    const char *cache_control; // NULL: the default of exchange_cache
    uint64_t content_length;
    uint32_t header_count;
    struct response_header headers[HEADERS_MAX];
    struct json_buffer filling; // written by the handler, not yet handed to h2o
    struct json_buffer sending; // the buffer that h2o reads from now
    size_t sending_at;          // offset of the next piece in `sending`
    uint64_t sent_ns;           // when the piece now being sent was handed to h2o

    struct text body_given; // h2o's body, kept here while a worker has a copy
    char *body_copy;
    struct slice *slice; // progress counter of a large job while a worker has it
    struct offload job;
    uint64_t compile_rank;       // rank in the queue for the grammar thread
    uint64_t compile_ns;         // when it first queued for the grammar thread; 0: never
    struct compile_group *group; // jobs that wait for the same compilation, or NULL

    const struct http_failure *cut_with; // why the server cut it, a static struct; NULL: not cut

    enum reply_state reply;
    enum wire wire;
    // true if client_gone or cut: the handler may not answer; atomic because text workers read it
    // too
    _Atomic bool gone;
    bool client_gone;     // true if the client has disconnected, or is treated as if it had
    bool offloaded;       // true while a worker has it or it waits for one
    bool worked;          // true if the last job's work was run; written by the worker
    bool watched;         // true while its socket is in the epoll of watch.c
    bool close;           // true: the connection closes after this answer
    bool counted_aborted; // true if it was counted in aborted_count
};

// exchange.c
// Creates the exchange of a request whose body is complete, and adds it to thread->exchanges.
struct exchange *exchange_create(struct http_thread *thread, h2o_req_t *req,
                                 const struct route_match *match);
void exchange_begin(struct exchange *x); // runs on_prepare, then on_request
// Runs the callback (unless the answer has ended), then exchange_settle.
void exchange_run(struct exchange *x, void (*callback)(struct exchange *x));
void exchange_settle(struct exchange *x); // hands h2o what was recorded
// Handles that the client has disconnected, or is treated as if it had; notifies the handler.
void exchange_client_gone(struct exchange *x);
void exchange_abort(struct exchange *x); // exchange_client_gone, and ends the h2o side
// The server ends the exchange: with this failure if no answer has begun, with a last event if it
// is a stream. A complete answer continues to be sent. If a text worker has the exchange, it ends
// when the worker returns it.
void exchange_cut(struct exchange *x, const struct http_failure *failure);
void exchange_cut_end(
    struct exchange *x); // sends the failure of a cut exchange, unless it is out at a worker
bool exchange_is_stream(const struct exchange *x);
void exchange_forget(struct exchange *x);      // detaches the engine request, notifies the handler
void exchange_scratch_end(struct exchange *x); // frees the scratch arena, if there is one
void exchange_destroy(struct exchange *x);     // h2o and the workers must be done with it
int exchange_status(const struct exchange *x); // 499: the client left before the end of the answer

// offload.c
void offload_handle_finished(struct http_thread *thread);  // those that workers have finished
void offload_run(struct exchange *x, struct slice *slice); // runs the job; on a worker
void offload_drop(struct exchange *x);                     // ends a job that no worker has yet
// Cuts x if it waited too long for the grammar thread; returns true if it did.
bool offload_is_late(struct exchange *x, uint64_t now);
bool offload_is_idle(const struct http_thread *thread); // true if no job waits or runs

// exchange_request.c: detaches and cancels the engine request of x; reads the events of all engine
// requests of the thread.
void exchange_request_orphan(struct exchange *x);
void exchange_requests_drain(struct http_thread *thread);

// respond.c: respond_headers fills h2o's response from x.
void respond_headers(struct exchange *x);
// Adds the CORS headers for a page. origin: the result of cors_origin.
void respond_origin(h2o_req_t *req, const struct cors *cors, struct text origin);
// Writes the client's request id if it is valid, else a new one. out: REQUEST_ID_MAX + 1 bytes.
void request_id_make(struct text wanted, char *out);
enum { REQUEST_ID_MAX = 128 };

// handle.c: request_has_key returns true if the request contains a valid key; its head must be
// complete. handle_request is the handler that h2o calls.
bool request_has_key(const h2o_req_t *req, const struct keys *keys);
int handle_request(h2o_handler_t *self, h2o_req_t *req);
// Writes "at most N bytes are accepted", in MiB if the limit is a whole number of them.
void body_limit_write(char *out, size_t out_bytes, uint64_t bytes);
enum { BODY_LIMIT_BYTES = 64 }; // size of its text

// fallback.c: replaces the bodies of errors that h2o itself reports
enum http_error fallback_error(int status);
void fallback_setup(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot);

// accesslog.c: logs a request when h2o disposes of it.
void access_log(const struct exchange *x, const h2o_req_t *req);
// Logs a request that h2o refused before an exchange existed.
void access_log_refused(h2o_logger_t *self, h2o_req_t *req);

// counters.c: count a request when h2o disposes of it, when it is refused because the queue is
// full, and when its engine request is about to be freed.
void counters_answered(struct exchange *x);
void counters_refused(struct exchange *x);
void counters_request_done(struct exchange *x);
