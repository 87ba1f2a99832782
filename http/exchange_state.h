// SPDX-License-Identifier: Apache-2.0
// The struct of an exchange and its states. Private to http/*.c that use h2o: they include
// http/internal.h. Four states are independent of each other; each changes on the exchange's h2o
// thread only.
//
// reply: what the handler has recorded. exchange_reply and exchange_fail pass through BEGUN.
//
//     NONE -- answer_begin --> BEGUN -- exchange_end --> ENDED
//
// wire: what h2o has been given.
//
//     NONE -- exchange_settle --> OPEN <------ on_proceed ------- SENDING           LAST
//                                  |                                 ^               ^
//                                  +--------- exchange_pump ---------+---------------+
//     from every state: on_stop, exchange_abort, on_proceed of a client that is GONE --> LAST
//
// client: whether the client still waits. While it is CUT, exchange_cut_end sends the failure.
//
//     WAITS -- exchange_cut --> CUT -- exchange_client_gone --> GONE
//       +------------------ exchange_client_gone ----------------^
//
// job: where the offloaded job is. offload_finish and offload_drop call its `done`.
//
//     NONE -- exchange_offload, exchange_compile --> WAITS -- class_submit --> RUNS
//      ^                                              |                        |
//      +-- offload_drop; offload_finish: duplicate ---+                        |
//      +----------------------------- offload_finish --------------------------+
//
// A new exchange (exchange_create) runs on_prepare, here or as a job, then on_request. If the
// client is not waiting any more, on_gone is the handler's last call; a running job is awaited
// first. The h2o request's pool contains a struct answer, whose dispose hook is the only event that
// is sure to happen at the end. The exchange is destroyed once the answer is disposed of and the
// job is NONE. If on_request offloads a grammar to be compiled, the job's `done` submits the engine
// request.
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

enum reply_state {
    REPLY_NONE,
    REPLY_BEGUN, // status and headers are recorded
    REPLY_ENDED, // the answer is complete: the handler is not called again
};

enum wire_state {
    WIRE_NONE,
    WIRE_OPEN,    // h2o has the headers and accepts the next bytes
    WIRE_SENDING, // h2o has bytes that it has not finished sending
    WIRE_LAST,    // h2o has the end of the answer, or an error instead of the rest
};

enum client_state {
    CLIENT_WAITS,
    CLIENT_CUT,  // the server ends the request; the handler may not answer
    CLIENT_GONE, // the client has disconnected, or is treated as if it had
};

enum job_state {
    JOB_NONE,
    JOB_WAITS, // queued
    JOB_RUNS,  // at a worker
};

// The engine request of an exchange, and what was chosen for it.
struct exchange_engine {
    const struct served_model *model;
    bool decided;                   // true if it looks up no further model in info.served
    const struct served_copy *copy; // the copy of `model` last tried
    uint32_t copies_tried;          // bit i set: exchange_port has returned copy i
    struct port *port;              // port of the attached engine request
    struct request *request;        // attached engine request, or NULL
    struct request_facts facts;     // facts of the engine request, once it is detached
};

// Tokens of a generation, for the counters.
struct exchange_counts {
    uint32_t choices;         // number of choices
    uint32_t tokens_max;      // most output tokens of any finished choice
    uint64_t token_ns;        // when tokens were last read; 0: not yet
    uint64_t tokens_out;      // number of tokens read
    uint64_t intervals;       // intervals between tokens recorded so far
    uint64_t tokens_answered; // output tokens of all finished choices, as in the usage
    uint32_t finishes;        // number of finished choices; 1 for a finished pooling request
    // reason of the request: of its choices', the last in the order of enum counted_finish
    enum counted_finish finish;
};

struct exchange_response {
    // allowed origin of the page that may read the answer, owned by the server; at == NULL: none
    struct text origin;
    int status;
    const char *code; // code of the failure that was answered or ended the stream, or NULL
    const char *content_type;
    const char *cache_control; // NULL: the default of exchange_cache
    uint64_t content_length;   // UINT64_MAX: a stream
    uint32_t header_count;
    struct response_header headers[HEADERS_MAX];
    bool close; // true: the connection closes after this answer
};

struct exchange_send {
    struct json_buffer filling; // written by the handler, not yet handed to h2o
    struct json_buffer sending; // the buffer that h2o reads from now
    size_t sending_at;          // offset of the next piece in `sending`
    uint64_t sent_ns;           // when the piece now being sent was handed to h2o
};

struct exchange_compile {
    uint64_t since_ns;           // when it first queued for the grammar thread; 0: never
    struct compile_group *group; // jobs that wait for the same compilation, or NULL
};

struct exchange_job {
    enum job_state state;
    struct offload offload;
    struct wait_item item; // queued while JOB_WAITS: by the thread or in a compile group
    struct exchange_compile compile;
    struct text body_original; // h2o's body, kept here while a worker has a copy
    char *body_copy;
    struct slice *slice; // progress counter of a large job while it runs
    bool worked;         // true if the last job's work was run; written by the worker
};

struct exchange {
    struct exchange_info info;
    struct http_thread *thread;
    struct answer *answer; // NULL once h2o has disposed of the request
    uint64_t arrived_ns;   // when the head began to arrive; info.started_ns: body complete
    const struct route *route;
    uint32_t route_index;
    struct exchange *next, **link; // list thread->exchanges
    struct arena *arena;
    struct arena *scratch;   // NULL: none was requested
    void *state;             // the handler's own state
    struct text model_named; // model id in the body, whether served or not

    enum reply_state reply;
    enum wire_state wire;
    enum client_state client;
    _Atomic bool gone; // true unless CLIENT_WAITS; atomic because text workers read it
    const struct http_failure *cut_with; // failure of exchange_cut, a static struct, or NULL
    bool watched;                        // true while its socket is in the epoll of watch.c
    bool counted_aborted;                // true if it was counted in aborted_count

    struct exchange_engine engine;
    struct exchange_counts counts;
    struct exchange_response response;
    struct exchange_send send;
    struct exchange_job job;
};

// Returns true if a text worker has the exchange or will have it: neither the handler nor h2o may
// be called. A job of exchange_compile does not touch the exchange's data.
static inline bool exchange_is_lent(const struct exchange *x)
{
    return x->job.state != JOB_NONE && !x->job.offload.compiles;
}
