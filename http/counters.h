// SPDX-License-Identifier: Apache-2.0
// Counters of the HTTP module for /metrics, one set per h2o thread and model copy. Only the owning
// h2o thread writes them; the thread that answers /metrics reads them (relaxed atomics). The
// exchange records most of them, endpoints the rest.
#pragma once

#include "http/exchange.h"

#include <stdatomic.h>

enum counted_finish {
    COUNTED_STOP,   // an end id, stop id or stop string
    COUNTED_LENGTH, // max_tokens was reached or the context is full
    COUNTED_ABORT,  // cancelled, or the client disconnected
    COUNTED_ERROR,
    COUNTED_POOLED, // embeddings or rerank result
    COUNTED_FINISH_COUNT
};

// Records the parameters of a generation once its request is admitted (after exchange_attach).
void counters_params(struct exchange *x, uint32_t choice_count, uint32_t n, uint32_t max_tokens);
// Records that `tokens` tokens, summed over all choices, were read just now. The exchange stores
// the time of the previous call.
void counters_tokens(struct exchange *x, uint32_t tokens);
// Records that one choice (or a complete pooling request) has finished with `tokens` output tokens.
void counters_finish(struct exchange *x, enum counted_finish finish, uint32_t tokens);
// Records in on_gone that a choice ended early with `tokens` output tokens: as an error if the
// server cut the request because of a failure of the model, else as an abort.
void counters_gone(struct exchange *x, uint32_t tokens);
// Records the nanoseconds that the endpoint spent on the template and the tokenizer.
void counters_tokenized(struct exchange *x, uint64_t ns);

// Histograms: id, name and kind of buckets. Times are recorded in nanoseconds and reported in
// seconds; other values are plain counts.
#define HISTOGRAM_LIST(X)                                                                          \
    X(TTFT, "time_to_first_token_seconds", FIRST)                                                  \
    X(INTER_TOKEN, "inter_token_latency_seconds", TOKEN)                                           \
    X(PER_OUTPUT_TOKEN, "request_time_per_output_token_seconds", TOKEN)                            \
    X(E2E, "e2e_request_latency_seconds", REQUEST)                                                 \
    X(QUEUE, "request_queue_time_seconds", REQUEST)                                                \
    X(INFERENCE, "request_inference_time_seconds", REQUEST)                                        \
    X(PREFILL, "request_prefill_time_seconds", REQUEST)                                            \
    X(DECODE, "request_decode_time_seconds", REQUEST)                                              \
    X(TOKENIZE, "request_tokenization_time_seconds", FIRST)                                        \
    X(PROMPT_TOKENS, "request_prompt_tokens", TOKENS)                                              \
    X(GENERATION_TOKENS, "request_generation_tokens", TOKENS)                                      \
    X(GENERATION_TOKENS_MAX, "request_max_num_generation_tokens", TOKENS)                          \
    X(PARAMS_N, "request_params_n", FEW)                                                           \
    X(PARAMS_MAX_TOKENS, "request_params_max_tokens", TOKENS)                                      \
    X(PREFILL_COMPUTED, "request_prefill_kv_computed_tokens", TOKENS)                              \
    X(PREEMPTIONS, "request_num_preemptions", FEW)

enum histogram_id {
#define HISTOGRAM_ENUM(id, name, buckets) HISTOGRAM_##id,
    HISTOGRAM_LIST(HISTOGRAM_ENUM)
#undef HISTOGRAM_ENUM
        HISTOGRAM_COUNT
};

enum { HISTOGRAM_BUCKETS_MAX = 32 };

struct histogram {
    // counts per bucket, not cumulative; the last one is +Inf
    _Atomic uint64_t bucket[HISTOGRAM_BUCKETS_MAX + 1];
    _Atomic uint64_t sum;
};

enum { ROUTES_MAX = 64 };

struct model_counters {
    struct histogram histograms[HISTOGRAM_COUNT];
    _Atomic uint64_t finished[COUNTED_FINISH_COUNT]; // choices and pooling requests
    // number of requests by route and by the reason that comes last in enum counted_finish among
    // those of its choices; the last route is not used
    _Atomic uint64_t requests_finished[ROUTES_MAX + 1][COUNTED_FINISH_COUNT];
    _Atomic uint64_t refused_busy; // 503 and 529 answers because the queue was full
};

// Properties of a histogram: its name in /metrics.
const char *histogram_name(enum histogram_id id);
// Writes the upper bounds of all buckets but +Inf, in seconds or counts, and returns their number.
// Bounds of token counts end at `window`, the model's context length.
uint32_t histogram_bounds(enum histogram_id id, uint32_t window,
                          double bounds[HISTOGRAM_BUCKETS_MAX]);
bool histogram_in_seconds(enum histogram_id id); // false: plain counts
// Counts one value: nanoseconds, or a plain count.
void histogram_add(struct histogram *h, enum histogram_id id, uint32_t window, uint64_t value);

// Index of an HTTP status in route_counters.requests: its first digit (0 is unused), except for
// 499, which is counted separately, because a client that left is no error of the request.
enum { STATUS_GONE = 6, STATUS_CLASSES };

struct route_counters {
    _Atomic uint64_t requests[STATUS_CLASSES];
    _Atomic uint64_t bytes_in, bytes_out;
    struct histogram seconds; // request duration; buckets of HISTOGRAM_E2E
};

struct thread_counters {
    // indexed by route; the last entry counts unknown paths
    struct route_counters routes[ROUTES_MAX + 1];
    _Atomic uint64_t connections, connections_total;
    _Atomic uint64_t orphans;      // engine requests whose exchange is gone
    _Atomic uint64_t quiet_closed; // idle connections closed because new ones were waiting
    _Atomic uint64_t clients_gone; // clients that left before the answer was complete (499)
    // requests aborted because the client read nothing for stall_timeout_ms
    _Atomic uint64_t stalled;
    _Atomic uint64_t resets_over;    // HTTP/2 connections closed because of too many stream resets
    _Atomic uint64_t body_bytes;     // bytes of all request bodies now in memory
    _Atomic uint64_t body_floods;    // connections closed because bodies exceeded the memory budget
    _Atomic uint64_t retries;        // requests with X-Stainless-Retry-Count > 0
    _Atomic uint64_t fields_ignored; // unknown request fields that were ignored
    // body bytes of requests that have ended, and 4 KiB for each (server_memory_return)
    _Atomic uint64_t ended_bytes;
    struct model_counters *copies; // [slot]; NULL until server_serve
};

// Adds `count` unknown request fields that this request contained and that were ignored.
void counters_fields_ignored(struct exchange *x, uint32_t count);

// The server state that /health, /ready and /metrics read. Any h2o thread.
struct server_view {
    const struct served *served; // NULL until server_serve
    bool draining;
    bool vllm_metrics;
    uint32_t thread_count;
    uint64_t beat_oldest_ns; // start of the last loop iteration of the slowest h2o thread
    int64_t started_unix;
    uint32_t route_count;
    const struct route *const *routes; // [route_count]
};

// Fills *out with the present state of the server. Call it on the h2o thread of x.
void server_view_get(const struct exchange *x, struct server_view *out);
// Returns the counters of h2o thread number `thread` of this server, which writes them meanwhile:
// read them with atomic loads.
const struct thread_counters *server_counters(const struct exchange *x, uint32_t thread);
