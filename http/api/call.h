// What all endpoints do first and last: body -> fields -> model, and failures of admission. A call
// is prepared on the h2o thread when the body is small, on a text worker when it is large, so that
// no loop is blocked for long; it is always answered on the h2o thread.
#pragma once

#include "http/api/fields.h"
#include "http/exchange.h"

// Larger bodies are prepared on a text worker. Many short inputs cost more a byte than one text.
enum { CALL_INLINE_BYTES_MAX = 32 * 1024, CALL_INLINE_BYTES_MAX_POOLED = 8 * 1024 };

// JSON values in one body.
enum { CALL_VALUES_MAX = 1 << 21 };

// The first member of every endpoint's state.
struct call {
    struct exchange *exchange;
    const struct exchange_info *info;
    const struct served_model *model; // set by call_model
    struct fields fields;
    struct slice *slice;                // of a large body, while it is prepared; else NULL
    struct arena *scratch;              // from call_start until `answer` has returned
    json_t *body;                       // until `prepare` returns; fields give strings of it
    void (*prepare)(struct call *call); // reads fields, makes tokens; may fail the fields
    void (*answer)(struct call *call);  // submits; not called after a failure or a leave
    size_t inline_bytes_max;            // 0: CALL_INLINE_BYTES_MAX
    uint64_t prepare_ns;
};

// call must come from the exchange's arena. Parses, prepares and answers, now or on a worker.
void call_start(struct call *call, struct exchange *x, void (*prepare)(struct call *call),
                void (*answer)(struct call *call));

// The fields `model` and what the tables know. False: failed.
bool call_model(struct call *call, enum model_kind kind, const struct field_rules *rules);

// Submits (owner, key and deadline are filled in) and attaches; answers with a failure and returns
// NULL where the engine refuses.
struct request *call_submit(struct call *call, struct submit_args *args);

void call_fail(struct call *call, enum http_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
