// What all endpoints with a JSON body do first and last: body -> fields -> model, and failures of
// admission. The first half is for on_prepare, maybe on a text worker, the second for on_request.
#pragma once

#include "http/api/fields.h"
#include "http/counters.h"

// JSON values in one body.
enum { CALL_VALUES_MAX = 1 << 21 };

// The first member of every endpoint's state.
struct call {
    struct exchange *exchange;
    const struct exchange_info *info;
    const struct served_model *model; // set by call_model
    struct port *port;                // set by call_submit
    struct fields fields;
    struct slice *slice; // of a large body, until call_body_end; else NULL
    json_t *body;        // until call_body_end; fields give strings of it
    uint64_t begun_ns, prepare_ns;
};

// Makes the endpoint's state of so many bytes, whose first member is the call, and reads the body
// into fields; they have failed if the body is not a JSON object.
void *call_begin(struct exchange *x, size_t state_bytes);

// Reads the field `model` and checks the body's fields against the tables. False: failed.
bool call_model(struct call *call, enum model_kind kind, const struct field_rules *rules);

// The same; the only model of its kind need not be named.
bool call_model_alone(struct call *call, enum model_kind kind, const struct field_rules *rules);
// A model of any kind; the only one need not be named.
bool call_any_model(struct call *call, const struct field_rules *rules);
// False: the model is of another kind, failed.
bool call_kind(struct call *call, enum model_kind kind);

// Frees the body, whose tree takes a while where it is large.
void call_body_end(struct call *call);

// Answers with the failure of the preparation. True: there was one.
bool call_failed(struct call *call);

// Submits (owner, key and deadline are filled in) and attaches; fails the fields and returns NULL
// where the engine refuses. field: where the prompt or the inputs were read from.
struct request *call_try_submit(struct call *call, struct submit_args *args, const char *field);
// The same, and answers with that failure.
struct request *call_submit(struct call *call, struct submit_args *args, const char *field);

// The client's deadline has passed.
bool call_is_late(const struct call *call);
// It passed while the request waited: fails the fields.
void call_fail_late(struct call *call);

// What a client and the counters are told of how the engine ended a choice or a request.
struct finish_told {
    enum counted_finish counted;
    enum http_error error;
    const char *failure; // NULL: there is an answer
};

const struct finish_told *finish_told(enum finish finish);

void call_fail(struct call *call, enum http_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
