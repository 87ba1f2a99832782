// SPDX-License-Identifier: Apache-2.0
// One reply while it arrives. Streams are read event by event; other replies are stored until they
// are complete. Times are seconds of clock_s. One thread.
#pragma once

#include "loadgen/options.h"
#include "loadgen/samples.h"
#include "base/sse.h"

struct bench_reply {
    enum bench_api api;
    bool streamed; // true if the reply is a stream of events
    struct sse sse;
    struct json_buffer body; // the complete body, if it is not a stream
    bool keeps;              // true if the text of the answer is stored
    struct json_buffer said; // text of the answer without reasoning; empty if it is not stored
    struct json_buffer head, tail; // bytes before and after the text of an event; empty: none yet
    uint32_t effects;              // number of texts and usages of the current event
    struct text piece;             // last text of the current event, valid while it is handled
    double first_at, last_at;      // times of the first and the last event with output
    double now;                    // time of the bytes that are being read
    uint64_t events;               // events with output: text, reasoning or arguments of calls
    uint64_t reasoning_events;
    // numbers of tokens of the reply's usage; 0: not given
    uint64_t input_tokens, cached_tokens, output_tokens, reasoning_tokens;
    bool has_usage;
    uint64_t hash;  // hash of the output: text, reasoning and arguments, vectors or scores
    bool complete;  // true if the stream announced its end, or the body is complete
    bool failed;    // true if an event was an error
    bool malformed; // true if an event or the body was not JSON of this API
    struct bench_histogram *gaps; // histogram of the times between events with output; not owned
    double gaps_from;             // time of the clock before which events add nothing to gaps
};

// Prepares for the next reply: resets all fields but api, streamed, keeps, gaps and gaps_from, and
// keeps the memory.
void bench_reply_start(struct bench_reply *r);
// Reads bytes that arrived at `now`. Returns false if an event exceeds SSE_EVENT_BYTES_MAX, or a
// stored body or text 256 MiB.
bool bench_reply_feed(struct bench_reply *r, struct text bytes, double now);
// Handles the end of the reply: the last event of a stream, or the complete body.
void bench_reply_end(struct bench_reply *r, double now);
void bench_reply_free(struct bench_reply *r);
