// Counters of the HTTP side for /metrics, per h2o thread and model: written by that thread alone,
// read by the thread that answers /metrics (relaxed atomics). The exchange records most of them;
// endpoints record what only they know.
#pragma once

#include "http/exchange.h"

#include <stdatomic.h>

enum counted_finish {
    COUNTED_STOP,   // an end id, stop id or stop string
    COUNTED_LENGTH, // max_tokens or the context
    COUNTED_ABORT,  // cancelled, the client left
    COUNTED_ERROR,
    COUNTED_POOLED, // embeddings, rerank
    COUNTED_FINISH_COUNT
};

// A generation whose request is admitted (after exchange_attach).
void counters_params(struct exchange *x, uint32_t choice_count, uint32_t n, uint32_t max_tokens);
// Tokens of all choices were read just now; the exchange keeps the time of the last ones.
void counters_tokens(struct exchange *x, uint32_t tokens);
// One choice (or a whole pooling request) has finished with `tokens` output tokens.
void counters_finish(struct exchange *x, enum counted_finish finish, uint32_t tokens);
// The same for on_gone: an abort, or an error where the server cut it for a failure of the model.
void counters_gone(struct exchange *x, uint32_t tokens);
// Nanoseconds the endpoint spent on template and tokenizer.
void counters_tokenized(struct exchange *x, uint64_t ns);

// Histograms: seconds are recorded in nanoseconds, the rest as they are.
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
    _Atomic uint64_t bucket[HISTOGRAM_BUCKETS_MAX + 1]; // not cumulative; the last is +Inf
    _Atomic uint64_t sum;
};

struct model_counters {
    struct histogram histograms[HISTOGRAM_COUNT];
    _Atomic uint64_t finished[COUNTED_FINISH_COUNT];
    _Atomic uint64_t refused_busy; // answers 503 and 529 for want of room
};

// Facts about a histogram: bounds in seconds or counts.
const char *histogram_name(enum histogram_id id);
// The upper bounds of all buckets but the last; those of token counts end at the model's window.
uint32_t histogram_bounds(enum histogram_id id, uint32_t window,
                          double bounds[HISTOGRAM_BUCKETS_MAX]);
bool histogram_in_seconds(enum histogram_id id);
void histogram_add(struct histogram *h, enum histogram_id id, uint32_t window, uint64_t value);

enum { ROUTES_MAX = 64, STATUS_CLASSES = 6 };

struct route_counters {
    _Atomic uint64_t requests[STATUS_CLASSES]; // by first digit of the status
    _Atomic uint64_t bytes_in, bytes_out;
    struct histogram seconds; // buckets of HISTOGRAM_E2E
};

struct thread_counters {
    struct route_counters routes[ROUTES_MAX + 1]; // the last: unknown paths
    _Atomic uint64_t connections, connections_total;
    _Atomic uint64_t orphans;        // engine requests whose exchange is gone
    _Atomic uint64_t quiet_closed;   // connections without a request, while others waited for one
    _Atomic uint64_t clients_gone;   // left before the answer was complete (499)
    _Atomic uint64_t stalled;        // readers that took nothing for stall_timeout_ms
    _Atomic uint64_t resets_over;    // HTTP/2 connections closed by the reset budget
    _Atomic uint64_t body_bytes;     // held by the bodies of requests under way
    _Atomic uint64_t body_floods;    // connections closed by the body budget
    _Atomic uint64_t retries;        // requests with X-Stainless-Retry-Count > 0
    _Atomic uint64_t fields_ignored; // unknown request fields
    struct model_counters *copies;   // [served->copy_count] once served
};

// Unknown request fields of this exchange that were ignored.
void counters_fields_ignored(struct exchange *x, uint32_t count);

// What /health, /ready and /metrics read of the server; any h2o thread.
struct server_view {
    const struct served *served; // NULL until server_serve
    bool draining;
    bool vllm_metrics;
    uint32_t thread_count;
    uint64_t beat_oldest_ns; // last turn of the slowest h2o loop
    int64_t started_unix;
    uint32_t route_count;
    const struct route *const *routes; // [route_count]
};

void server_view_get(const struct exchange *x, struct server_view *out);
const struct thread_counters *server_counters(const struct exchange *x, uint32_t thread);
