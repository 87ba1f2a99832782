// SPDX-License-Identifier: Apache-2.0
// The first and the last part of every endpoint with a JSON body: body -> fields -> model, and
// admission failures. The first part runs in on_prepare (h2o thread or text worker), the second in
// on_request (h2o thread).
#pragma once

#include "http/api/fields.h"
#include "http/counters.h"

// Maximum number of JSON values in one body.
enum { CALL_VALUES_MAX = 1 << 21 };

// The first member of every endpoint's state.
struct body_call {
    struct exchange *exchange;
    const struct exchange_info *info;
    const struct served_model *model; // set by call_model
    struct port *port;                // set by call_try_submit
    struct fields fields;
    struct slice *slice; // counts the work on a large body until call_body_end, or NULL
    json_t *body;        // until call_body_end; fields return strings that point into it
    uint64_t begun_ns, prepare_ns;
};

// Allocates the endpoint's state (state_bytes, zeroed, from the exchange's arena), whose first
// member is struct body_call, stores it with exchange_state_set, and parses the body into `fields`.
// If the body is not a JSON object, `fields` has failed. Never returns NULL.
void *call_begin(struct exchange *x, size_t state_bytes);

// Reads the field `model`, which may be omitted if exactly one model of this kind is served, and
// checks the body's fields against the tables. Returns false if a check failed or the model is of
// another kind.
bool call_model(struct body_call *call, enum model_kind kind, const struct field_rules *rules);
// Like call_model, for a model of any kind; `model` may be omitted if exactly one is served.
bool call_any_model(struct body_call *call, const struct field_rules *rules);
// Fails the fields if the model is of another kind. Returns false if the fields have failed, now or
// before.
bool call_kind(struct body_call *call, enum model_kind kind);

// Frees the parsed body: no field can be read afterwards, and strings that point into the body are
// invalid. Also ends the counting of work. Freeing a large tree takes milliseconds, so call it in
// on_prepare.
void call_body_end(struct body_call *call);

// If the preparation failed, sends its failure and returns true. Logs ignored fields.
bool call_failed(struct body_call *call);

// Submits the request to a copy of the model and attaches it to the exchange. Fills in owner, key,
// owner of cached blocks and deadline. If no copy accepts it, fails the fields and returns NULL.
// field: the field that the prompt or the inputs were read from, for the message.
struct request *call_try_submit(struct body_call *call, struct submit_args *args,
                                const char *field);
// Like call_try_submit, and also sends the failure.
struct request *call_submit(struct body_call *call, struct submit_args *args, const char *field);

// Returns true if the client's deadline has passed.
bool call_is_late(const struct body_call *call);
// Fails the fields because the deadline passed while the request waited.
void call_fail_late(struct body_call *call);

// How an engine's finish reason is counted and reported to the client.
struct finish_report {
    enum counted_finish counted;
    enum http_error error;
    const char *failure; // NULL: the request has an answer
};

// Returns the row of a finish reason; static.
const struct finish_report *finish_report(enum finish finish);

// Sends a failure with a formatted message.
void call_fail(struct body_call *call, enum http_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
