// SPDX-License-Identifier: Apache-2.0
// One reply while it arrives. Streams are read event by event, other replies are stored completely.
#pragma once

#include "loadgen/options.h"
#include "loadgen/samples.h"
#include "loadgen/sse.h"

struct bench_reply {
    enum bench_api api;
    bool streamed;
    struct sse sse;
    struct json_buffer body;  // the complete body, if it is not a stream
    double first_at, last_at; // times of the first and the last event with output
    double now;               // time of the bytes that are being read
    uint64_t events;          // events with output: text, reasoning or arguments of calls
    uint64_t reasoning_events;
    uint64_t input_tokens, cached_tokens, output_tokens, reasoning_tokens; // by usage
    bool has_usage;
    uint64_t hash; // hash of the answer's text, vectors or scores
    // complete: the end was announced; failed: an event was an error; malformed: an event or the
    // body was not the JSON of this API
    bool complete, failed, malformed;
    struct bench_histogram *gaps; // times between events with output
};

void bench_reply_start(struct bench_reply *r);
// Reads bytes that arrived at `now`. Returns false if the reply is too large.
bool bench_reply_feed(struct bench_reply *r, struct text bytes, double now);
void bench_reply_end(struct bench_reply *r,
                     double now); // parses a reply that was stored completely
void bench_reply_free(struct bench_reply *r);
