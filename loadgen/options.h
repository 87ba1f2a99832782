// SPDX-License-Identifier: Apache-2.0
// The options of a measurement: the server, the APIs, the load and the content of requests. The
// caller (the command of cli/) fills the struct and owns the texts that it points to.
#pragma once

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// The formats of requests and replies, with their names for --backend and their paths.
#define BENCH_API_LIST(X)                                                                          \
    X(CHAT, "chat", "/v1/chat/completions")                                                        \
    X(COMPLETIONS, "completions", "/v1/completions")                                               \
    X(RESPONSES, "responses", "/v1/responses")                                                     \
    X(MESSAGES, "messages", "/v1/messages")                                                        \
    X(EMBEDDINGS, "embeddings", "/v1/embeddings")                                                  \
    X(COHERE, "cohere", "/v2/rerank")                                                              \
    X(JINA, "jina", "/v1/rerank")                                                                  \
    X(TEI, "tei", "/rerank")

enum bench_api {
#define API(name, text, path) BENCH_##name,
    BENCH_API_LIST(API)
#undef API
        BENCH_API_COUNT
};

// Finds an API by its name or by the name that another load generator uses. Returns false, and
// leaves *out unchanged, if there is none.
bool bench_api_find(enum bench_api *out, struct text name);
const char *bench_api_name(enum bench_api api);
const char *bench_api_path(enum bench_api api);
bool bench_api_generates(enum bench_api api); // true if replies are text of up to max_tokens tokens

enum { BENCH_TARGETS_MAX = 16 };

// One API of one model, and its share of the requests.
struct bench_target {
    enum bench_api api;
    char model[256];
    uint32_t weight; // share of the requests, relative to the sum of all weights
};

enum bench_arrival_process { BENCH_POISSON, BENCH_GAMMA, BENCH_CONSTANT };

// A distribution of token counts.
enum bench_length_kind {
    BENCH_LENGTH_FIXED,     // a
    BENCH_LENGTH_UNIFORM,   // whole numbers from a to b
    BENCH_LENGTH_NORMAL,    // mean a, standard deviation b
    BENCH_LENGTH_LOGNORMAL, // median a, standard deviation of the logarithm b
};
struct bench_length {
    enum bench_length_kind kind;
    double a, b;
};

// Parses N, uniform:A:B, normal:MEAN:SD or lognormal:MEDIAN:SIGMA. Returns false if malformed.
bool bench_length_parse(struct bench_length *out, const char *text);
// Returns the element at `index` of the sequence of lengths with this seed: 1 to 2^24.
uint32_t bench_length_draw(const struct bench_length *length, uint64_t seed, uint64_t index);

// Limits in milliseconds that a good request keeps; 0: no limit.
struct bench_goodput {
    double ttft, tpot, e2el;
};

// Parses a list such as ttft:200,tpot:50,e2el:5000, in milliseconds; limits that it does not name
// are unchanged. INVALID, with the malformed part in the message; earlier parts are then set.
enum status bench_goodput_parse(struct bench_goodput *out, const char *text,
                                struct error *err) MUST_USE;

struct bench_options {
    const char *url;            // http or https, with or without a path
    const char *path;           // path to use for all APIs; NULL: the usual path of each
    const char *key;            // API key, or NULL
    const char *ca_file;        // certificates to trust (PEM) instead of the system's, or NULL
    const char *const *headers; // [header_count] further header lines "Name: value"
    uint32_t header_count;
    const json_t *extra_body; // members to add to or replace in all bodies; NULL: none
    struct bench_target targets[BENCH_TARGETS_MAX];
    uint32_t target_count;
    uint32_t concurrency;  // closed loop: clients; open loop: most requests in flight, 0: no limit
    uint64_t requests_max; // most requests to send
    double seconds_max;    // time after which no request is sent; INFINITY: no limit
    double request_timeout_s; // most seconds from the start of a request to the end of its reply
    double ramp_s; // time at the start in which the load rises; its requests are not measured
    double rate;   // open loop: arrivals per second; 0: closed loop, or a trace
    enum bench_arrival_process process;
    double burstiness;        // gamma: shape of the distribution of the times between arrivals
    const char *trace_path;   // open loop: recorded arrivals, or NULL
    const char *dataset_path; // file of prompts, or NULL
    uint64_t prompt_first;    // index in the data set of the run's first prompt
    double rate_scale;        // factor by which the trace runs faster
    uint32_t input_max, output_max;    // limits that the lengths of a trace are cut to; 0: none
    struct bench_length input, output; // tokens of prompts and answers
    uint32_t prefix_tokens; // number of equal tokens at the start of all generated prompts
    uint32_t inputs;        // texts per embeddings request, documents per rerank request
    uint32_t prompts;       // number of different generated prompts; 0: each differs
    const char *prompt;     // text to use instead of generated prompts, or NULL
    double temperature;     // negative: the server's default
    uint64_t seed;
    uint32_t leave_every; // every n-th stream is closed early; 0: none
    uint32_t leave_after; // number of events after which such a stream is closed
    struct bench_goodput goodput;
    bool stream;     // true if text is requested as a stream
    bool multi_turn; // true if conversations of the data set are sent turn by turn
    bool check; // true if each prompt is first sent alone and later answers must equal that one
    bool ignore_eos; // true if answers of chat and completions continue after the end token
    bool insecure;   // true if any certificate is accepted
    bool metrics;    // true if the server's /metrics is read before and after a run
};

// Returns true if arrivals do not wait for replies.
static inline bool bench_is_open(const struct bench_options *o)
{
    return o->trace_path || o->rate > 0;
}

// Returns the array with space for at least one more item: doubles *allocated, its number of items,
// if `count` has reached it. The caller frees the array with heap_free.
void *bench_extend(void *items, size_t count, size_t *allocated, size_t each);

// Returns a pseudo-random number that depends on the seed only (SplitMix64).
static inline uint64_t bench_random(uint64_t seed)
{
    uint64_t z = seed + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

// Returns a pseudo-random number above 0 and below 1 that depends on the seed only.
static inline double bench_random_real(uint64_t seed)
{
    return ((double)(bench_random(seed) >> 11) + 0.5) * 0x1p-53;
}

// Returns a number of the standard normal distribution that depends on the seed only.
double bench_random_normal(uint64_t seed);
