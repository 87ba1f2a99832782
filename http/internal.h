// Private to http/*.c that know h2o: the exchange. Nothing in http/api may include this.
//
// An exchange's life (all on its h2o thread):
//
//   exchange_create -> on_prepare -> on_request -> REPLY_BEGUN -> REPLY_ENDED -> WIRE_LAST ->
//   dispose
//                          |              |              |
//                     text worker         +-- left ------+-- the client is gone; dispose follows
//                                         +-- cut -------+-- by the server; then REPLY_ENDED
//
// The h2o request holds a struct answer in its pool, whose dispose hook is the only sure end. The
// exchange is destroyed when the answer is gone and no text worker has it. Where on_request
// offloads work, of a grammar, the request is submitted by what follows that.
#pragma once

#include "http/loop.h"

enum {
    SEND_BYTES = 4096,            // a stream's send buffer: how far a client may fall behind
    SEND_PIECE_BYTES = 64 * 1024, // of a long body, so that each piece shows progress
    HEADERS_MAX = 8,
};

// The h2o side of an exchange, in the request's pool.
struct answer {
    h2o_generator_t generator;
    h2o_req_t *req;
    struct exchange *x;
};

struct response_header {
    const char *name; // literal, lower case
    struct text value;
};

// What the handler has recorded.
enum reply_state {
    REPLY_NONE,
    REPLY_BEGUN, // status and headers
    REPLY_ENDED, // all of it: the handler is not called again
};

// What h2o was given.
enum wire {
    WIRE_NONE,
    WIRE_OPEN,    // the headers; it takes bytes
    WIRE_SENDING, // bytes that it still has
    WIRE_LAST,    // the end, or the error in place of it
};

struct exchange {
    struct exchange_info info;
    struct http_thread *thread;
    struct answer *answer; // NULL once h2o has disposed of the request
    uint64_t arrived_ns;   // when its head began; info.started_ns: its body was complete
    const struct route *route;
    uint32_t route_index;
    struct exchange *next, **link;                 // thread->exchanges
    struct exchange *waiting_next, **waiting_link; // in `waiting_in`; link NULL: in no list
    struct exchange_list *waiting_in;              // one of the thread's, or of a group's
    struct arena *arena;
    struct arena *scratch; // NULL: none was asked for
    void *state;

    struct port *port; // attached engine request
    struct request *request;
    const struct served_model *model;
    const struct served_copy *copy; // of it, that was asked last
    uint32_t copies_asked;          // bit set: exchange_port gave this one
    struct text model_named;        // by the body, served or not
    uint32_t choices;               // of a generation
    uint32_t tokens_max;            // of any choice
    uint64_t token_ns;              // when the last tokens were read
    uint64_t tokens_out;
    uint64_t intervals;         // between tokens, recorded so far
    uint64_t tokens_answered;   // of all choices, as the usage counts them
    struct request_facts facts; // of the engine request, once it was given back

    struct text origin; // of the page that may read the answer, the server's; at == NULL: none
    int status;
    const char *code; // of the failure that is the answer or ends the stream, or NULL
    const char *content_type;
    const char *cache_control; // NULL: the usual one
    uint64_t content_length;
    uint32_t header_count;
    struct response_header headers[HEADERS_MAX];
    struct json_buffer filling; // written, not yet given to h2o
    struct json_buffer sending; // what h2o reads now
    size_t sending_at;          // of a long body: where the next piece begins
    uint64_t sent_ns;           // when h2o took the piece in flight

    struct text body_given; // h2o's, while a worker has the copy
    char *body_copy;
    struct slice *slice; // of its work, while a worker has it
    struct offload job;
    uint64_t turn;               // where it waits for the grammar thread
    uint64_t compile_ns;         // since when, from the first time; 0: it never did
    struct compile_group *group; // that compile the same; NULL: there is no other

    const struct http_failure *cut_with; // why the server ended it, static; or NULL

    enum reply_state reply;
    enum wire wire;
    _Atomic bool gone; // left or cut: the handler answers no more; also read by the text worker
    bool left;         // the client is gone, or counts as gone
    bool offloaded;    // a text worker has it, or it waits for one
    bool worked;       // the last job's work was done; written by the text worker while it has it
    bool watched;
    bool close; // the connection closes after this answer
    bool lost;  // counted as accepted and not answered
};

// exchange.c
struct exchange *exchange_create(struct http_thread *thread, h2o_req_t *req,
                                 const struct route_match *match);
void exchange_begin(struct exchange *x); // on_prepare, then on_request
void exchange_run(struct exchange *x, void (*callback)(struct exchange *x)); // and settle
void exchange_settle(struct exchange *x);
void exchange_left(struct exchange *x);  // the client is gone; tells the handler
void exchange_abort(struct exchange *x); // the same, and ends the h2o side
// The server ends it: with a failure where no answer has begun, with the last event of a stream. A
// complete answer that is being sent goes on. One that a text worker has ends once it is back.
void exchange_cut(struct exchange *x, const struct http_failure *failure);
void exchange_cut_end(
    struct exchange *x); // answers a cut one, at once or when it is back from a worker
bool exchange_is_stream(const struct exchange *x);
void exchange_forget(struct exchange *x); // takes the engine request back, tells the handler
void exchange_scratch_end(struct exchange *x);
void exchange_destroy(struct exchange *x);
int exchange_status(const struct exchange *x); // 499: the client left before the answer's end

// offload.c
void offload_take(struct http_thread *thread);             // what the text workers gave back
void offload_run(struct exchange *x, struct slice *slice); // on a text worker
void offload_drop(struct exchange *x);                     // gone before a worker had it
bool offload_is_late(struct exchange *x, uint64_t now);    // cut: it waited too long for a grammar
bool offload_is_idle(const struct http_thread *thread);

// exchange_request.c
void exchange_request_orphan(struct exchange *x);
void exchange_requests_drain(struct http_thread *thread);

// respond.c
void respond_headers(struct exchange *x);
// What a web page of this origin may read; origin: as of cors_origin.
void respond_origin(h2o_req_t *req, const struct cors *cors, struct text origin);
void request_id_make(struct text wanted, char *out);
enum { REQUEST_ID_MAX = 128 };

// handle.c
bool request_shows_key(const h2o_req_t *req, const struct keys *keys); // its head must be complete
int handle_request(h2o_handler_t *self, h2o_req_t *req);

// fallback.c: h2o's own errors in our shapes
enum http_error fallback_error(int status);
void fallback_setup(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot);

// accesslog.c
void access_log(const struct exchange *x, const h2o_req_t *req);
void access_log_refused(h2o_logger_t *self, h2o_req_t *req); // by h2o, before there is an exchange

// counters.c
void counters_answered(struct exchange *x);
void counters_refused(struct exchange *x);
void counters_request_done(struct exchange *x);
