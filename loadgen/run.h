// SPDX-License-Identifier: Apache-2.0
// One run: sends the requests of the options and records the outcome and the times of each. All
// work is done on the calling thread.
#pragma once

#include "loadgen/arrivals.h"
#include "loadgen/client.h"
#include "loadgen/content.h"
#include "loadgen/samples.h"

#include <math.h>

// How a request ended. The texts are names in results.
#define BENCH_OUTCOME_LIST(X)                                                                      \
    X(OK, "ok")                    /* status 200 and a complete reply */                           \
    X(REFUSED, "refused")          /* another status */                                            \
    X(UNCONNECTED, "unconnected")  /* no address, connection or TLS session */                     \
    X(LOST, "lost")                /* the connection ended, or its bytes were not HTTP */          \
    X(TIMED_OUT, "timed_out")      /* no end within --timeout */                                   \
    X(OVERSIZED, "oversized")      /* headers, an event or a body above its limit */               \
    X(INCOMPLETE, "incomplete")    /* status 200, but the end of the reply is missing */           \
    X(EVENT_ERROR, "event_errors") /* an error in the stream */                                    \
    X(MALFORMED, "malformed")      /* an event or a body that is not JSON of the API */            \
    X(LEFT, "left")                /* closed by the client (--leave-every) */

enum bench_outcome {
#define OUTCOME(name, text) BENCH_OUTCOME_##name,
    BENCH_OUTCOME_LIST(OUTCOME)
#undef OUTCOME
        BENCH_OUTCOME_COUNT
};
const char *bench_outcome_name(enum bench_outcome outcome);

// One request. Times are seconds since the start of the run.
struct bench_record {
    double due;              // intended arrival; closed loop: equal to sent
    double sent;             // time of sending, after the connection was opened
    double first, last, end; // first and last event with output (0: none); end of the reply
    uint32_t input_tokens, cached_tokens;     // by usage; 0: not given
    uint32_t output_tokens, reasoning_tokens; // by usage; if not given, number of their events
    uint32_t events;                          // number of events with output
    uint32_t inputs; // number of texts or documents; 1 if the API generates text
    uint16_t status; // HTTP status; 0: none
    uint8_t outcome; // enum bench_outcome
    uint8_t target;  // index of the target
    uint16_t turn;   // number of earlier requests of the same conversation
    bool streamed, has_usage;
    bool refused_early; // true for status 429, 503 or 529 without Retry-After
    bool differs;       // true if the answer differs from that of the prompt sent alone (--check)
};

enum { BENCH_BINS_PER_S = 10 };

struct bench_run {
    struct bench_record *records; // [count] in the order of their ends
    size_t count, allocated;
    struct bench_histogram *gaps[BENCH_TARGETS_MAX]; // times between events after the ramp; or NULL
    uint32_t *bins; // [bin_count] events with output in each tenth of a second, ramp included
    uint32_t bin_count;
    double seconds;         // from the start to the end of the last request
    double measured_from;   // end of the ramp; records that are due earlier are not measured
    uint32_t in_flight_max; // largest number of requests in flight
    struct bench_client_report client;
    char lost_why[256];    // reason of the first request without a complete reply, if known
    char refused_why[256]; // start of the body of the first refusal, ASCII; empty: none
    // set by bench_series_run: object with the rise of the server's counters (empty: unknown), and
    // means of its own histograms in milliseconds (0: unknown)
    struct json_buffer server;
    double server_ttft_ms, server_e2el_ms;
    int64_t unix_ms; // time of day of the start
};

void bench_run_free(struct bench_run *run);

// Returns the index of the first bin that begins after the ramp.
static inline uint32_t bench_run_bins_from(const struct bench_run *run)
{
    return (uint32_t)ceil(run->measured_from * BENCH_BINS_PER_S);
}

struct bench_run_args {
    const struct bench_options *options;
    const struct bench_trace *trace;     // NULL: none
    const struct bench_dataset *dataset; // NULL: generated prompts
    const struct bench_words *words;
    // Called about once per second; may be NULL. seconds: time since the start; done: number of
    // requests that have ended; events: number of events with output up to now.
    void (*progress)(void *context, double seconds, uint64_t done, uint32_t in_flight,
                     uint64_t events);
    void *context;
};

// Sends the requests and waits until they have ended. Failed requests are records, not errors.
// NO_MEMORY without descriptors; REFUSED if --check gets no answer to a prompt sent alone. The
// caller frees the run, also after an error.
enum status bench_run(struct bench_run *out, const struct bench_run_args *args,
                      struct error *err) MUST_USE;
