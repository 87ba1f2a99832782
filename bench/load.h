// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of the load generator: options, trace, requests, replies, figures. One
// thread; every struct is owned by main() of bench_load.c or by the runner of load_run.c.
#pragma once

#include "base/status.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

enum endpoint {
    ENDPOINT_CHAT,
    ENDPOINT_MESSAGES,
    ENDPOINT_EMBEDDINGS,
    ENDPOINT_RERANK,
    ENDPOINT_COUNT
};

enum { TARGETS_MAX = 16, STATUS_CODES = 600, HISTOGRAM_BUCKETS = 2112, PROMPTS_MAX = 4096 };

// One endpoint of one model, and its share of the clients.
struct load_target {
    enum endpoint endpoint;
    char model[128];
    uint32_t weight;
};

struct load_options {
    const char *url, *key, *trace_path;
    struct load_target targets[TARGETS_MAX];
    uint32_t target_count;
    uint32_t concurrency;  // closed loop: clients; open loop: most requests in flight
    uint64_t requests_max; // most requests to send
    double seconds_max;    // no request is sent after this time
    double request_timeout_s;
    double rate;                    // open loop: arrivals per second, Poisson; 0: off
    double rate_scale;              // open loop: factor by which the trace runs faster
    uint32_t input_max, output_max; // limits that trace lengths are cut to
    uint32_t prompt_words, max_tokens, inputs;
    uint32_t prompts;   // different prompts (or inputs, documents) that a target cycles through
    const char *prompt; // text to use instead of generated prompts
    double temperature;
    uint64_t seed;
    uint32_t leave_every, leave_after; // every n-th stream is dropped after this many pieces
    bool stream, json, check, ignore_eos, insecure;
};

// Returns the exit code to end with, or -1 to go on.
int load_options_read(struct load_options *out, int argc, char **argv);
const char *endpoint_name(enum endpoint endpoint);

// One request to send. hashes: ids of prefix blocks of 512 tokens (Mooncake), or none.
struct arrival {
    double at_s; // seconds since the first arrival
    uint32_t input_tokens, output_tokens;
    uint32_t hash_first, hash_count; // range in trace.hashes
};

struct trace {
    struct arrival *at; // [count] ascending
    uint64_t count, allocated;
    uint32_t *hashes; // [hash_count]
    uint64_t hash_count, hash_allocated;
};

// Reads at most o->requests_max arrivals, scaled and cut according to the options.
enum status trace_read(struct trace *out, const struct load_options *o, struct error *err) MUST_USE;
void trace_poisson(struct trace *out, const struct load_options *o);
void trace_free(struct trace *trace);

// Returns a reproducible random number for a place in a sequence.
uint64_t load_random(uint64_t seed);

struct request_spec {
    const struct load_target *target;
    uint64_t seed; // seed of the generated text
    uint32_t words, max_tokens;
    const uint32_t *hashes; // [hash_count]
    uint32_t hash_count;
};

// Writes the JSON body; the buffer is emptied first.
void request_body(struct json_buffer *out, const struct load_options *o,
                  const struct request_spec *spec);
const char *request_path(enum endpoint endpoint);
bool request_streams(const struct load_options *o, enum endpoint endpoint);

// Durations between a microsecond and an hour, in buckets one percent wide.
struct histogram {
    uint64_t bucket[HISTOGRAM_BUCKETS];
    uint64_t count;
    double sum, max; // seconds
};

void histogram_add(struct histogram *h, double seconds);
void histogram_merge(struct histogram *h, const struct histogram *more);
double histogram_at(const struct histogram *h, double share); // 0..1

struct load_stats {
    uint64_t sent, ok, unconnected, lost, incomplete, event_errors, left, differing, no_retry_after;
    uint64_t status[STATUS_CODES];
    uint64_t prompt_tokens, tokens, pieces, inputs;
    struct histogram first, gap, per_token, whole; // durations; of status 200 only
};

struct load_result {
    struct load_stats targets[TARGETS_MAX];
    double seconds;
    uint32_t in_flight_max;
    struct histogram late; // open loop: delay from arrival to sending
    char lost_why[256];    // reason of the first loss
};

void load_report(const struct load_options *o, const struct load_result *result);

// One reply while it arrives. Streams are read event by event, other replies are stored completely.
struct reply {
    enum endpoint endpoint;
    bool streamed;
    struct json_buffer text; // the incomplete last line of a stream, or the complete body
    double started, first_at, last_at;
    uint64_t pieces, tokens, prompt_tokens;
    uint64_t hash; // hash of the answer's text, vectors or scores
    bool complete, failed;
    struct histogram *gaps;
};

void reply_start(struct reply *r, double now);
bool reply_feed(struct reply *r, const char *at, size_t bytes, double now); // false: too large
void reply_end(struct reply *r, double now); // parses a reply that was stored completely

// Sends all requests of the options and the trace (NULL: closed loop) and waits until they have
// ended.
enum status load_run(struct load_result *out, const struct load_options *o,
                     const struct trace *trace, struct error *err) MUST_USE;
