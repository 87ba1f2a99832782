// SPDX-License-Identifier: Apache-2.0
// Private to http/*.c that use h2o: the functions that work on an exchange. Nothing in http/api may
// include this.
#pragma once

#include "http/exchange_state.h"

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
// when the worker returns it. failure: a static struct; not copied.
void exchange_cut(struct exchange *x, const struct http_failure *failure);
// Sends the failure of a cut exchange. Does nothing while it has a job.
void exchange_cut_end(struct exchange *x);
bool exchange_is_stream(const struct exchange *x);
void exchange_forget(struct exchange *x);      // detaches the engine request, notifies the handler
void exchange_scratch_end(struct exchange *x); // frees the scratch arena, if there is one
void exchange_destroy(struct exchange *x);     // h2o and the workers must be done with it
int exchange_status(const struct exchange *x); // 499: the client left before the end of the answer

// offload.c
// Calls `done` of the jobs that workers have finished, and submits waiting ones.
void offload_handle_finished(struct http_thread *thread);
void offload_run(struct exchange *x, struct slice *slice); // runs the job; on a worker
void offload_drop(struct exchange *x);                     // ends a job that no worker has yet
// Cuts x if it waited too long for the grammar thread; returns true if it did.
bool offload_is_late(struct exchange *x, uint64_t now);
bool offload_is_idle(const struct http_thread *thread); // true if no job waits or runs

// exchange_request.c: count the exchange as a user of the list of models and of its model.
void exchange_served_ref(struct exchange *x, const struct served *served);
void exchange_served_unref(struct exchange *x);
// Counts it as a user of this model alone, or of none if NULL. Only the first call has an effect.
void exchange_decide(struct exchange *x, const struct served_model *model);

// exchange_request.c: detaches and cancels the engine request of x; reads the events of all engine
// requests of the thread; returns pages that they no longer use to the system (each second).
void exchange_request_orphan(struct exchange *x);
void exchange_requests_drain(struct http_thread *thread);
void exchange_requests_pages_return(struct http_thread *thread);

// manage.c: if a job of exchange_manage is done, calls on_managed of the thread's exchanges.
void manage_handle_done(struct http_thread *thread);

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
// Returns true if the headers of an HTTP/2 request, with trailers if they were not dropped, exceed
// the limits of framing.h.
bool headers_are_over(const h2o_req_t *req);
// Writes "at most N bytes are accepted", in MiB if the limit is a whole number of them.
void body_limit_write(char *out, size_t out_bytes, uint64_t bytes);
enum { BODY_LIMIT_BYTES = 64 }; // size of its text

// early.c: answers requests without a valid key at their head. Call on the h2o thread: early_begin
// once its loop exists, early_end when it has no connection left.
void early_begin(struct http_thread *thread);
void early_end(struct http_thread *thread);

// linger.c: closes connections whose client may still send. linger_prepare duplicates the
// descriptor before h2o has it sent the last answer. linger_begin, called when h2o has closed its
// socket, returns false if there is nothing to wait for; else it owns the connection's count until
// the client has closed too, has sent 64 KiB, or linger_timeout_ms have passed. linger_open and
// linger_close: begin and end of the thread; linger_close closes what still lingers.
void linger_open(struct http_thread *thread);
void linger_prepare(struct connection *connection);
bool linger_begin(struct connection *connection);
void linger_close(struct http_thread *thread);

// descriptors.c, on the main thread. descriptors_raise raises the limit of open files to at least
// `wanted`, or to the hard limit if that is lower, and returns the limit. descriptors_check fails
// if the limit is too low for the loops, whose creation libh2o does not check. descriptors_share
// raises the limit and sets descriptors_own, drain_connections and connections_most: the number of
// connections that the limit allows next to all other open descriptors and a reserve, at most
// connections_max. descriptors_report warns if this is less than connections_max. descriptors_fit
// returns the number of wanted connections, or fewer if the hard limit does not allow as many.
uint64_t descriptors_raise(uint64_t wanted);
enum status descriptors_check(const struct server *server, struct error *err) MUST_USE;
void descriptors_share(struct server *server);
void descriptors_report(const struct server *server);
uint32_t descriptors_fit(uint32_t wanted);

// fallback.c: replaces the bodies of errors that h2o itself reports
enum http_error fallback_error(int status);
void fallback_setup(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot);

// accesslog.c: logs a request when h2o disposes of it.
void access_log(const struct exchange *x, const h2o_req_t *req);
// Logs a request that h2o refused before an exchange existed.
void access_log_refused(h2o_logger_t *self, h2o_req_t *req);

// counters.c, on the h2o thread of x.
void counters_answered(struct exchange *x); // counts the request when h2o disposes of it
void counters_refused(struct exchange *x);  // counts an answer HTTP_OVERLOADED
// Records the times and tokens of the engine request. Call it just before that is freed.
void counters_request_done(struct exchange *x);
// Counts the request by the reason in x->counts.finish when its exchange ends; a request of which
// no choice was counted is not counted.
void counters_request_finished(struct exchange *x);
