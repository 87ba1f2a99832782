// SPDX-License-Identifier: Apache-2.0
// A request in flight: its libcurl handle, its body and its reply. Private to the load generator.
#pragma once

#include "loadgen/poll.h"
#include "loadgen/reply.h"
#include "loadgen/run.h"

struct bench_runner;

struct bench_slot {
    struct bench_runner *runner;
    CURL *easy;
    struct json_buffer body;
    struct bench_reply reply;
    struct bench_record record; // times are those of clock_s until the request has ended
    size_t head_bytes;
    uint32_t place, prompt; // index of the slot; number of the prompt
    uint32_t leave_after;   // events after which a slot that leaves closes its stream
    bool leaves, has_left, oversized, retry_after;
};

// Headers and addresses of the targets of a run.
struct bench_routes {
    char *url[BENCH_TARGETS_MAX];
    struct curl_slist *headers[BENCH_TARGETS_MAX];
};
void bench_routes_open(struct bench_routes *out, const struct bench_options *o);
void bench_routes_close(struct bench_routes *routes);

struct bench_slot *bench_slot_create(struct bench_runner *runner, const struct bench_options *o);
void bench_slot_destroy(struct bench_slot *s);
// Sets the request; the body must stay unchanged until its end.
void bench_slot_aim(struct bench_slot *s, const struct bench_options *o,
                    const struct bench_routes *routes, uint32_t target);
// Returns how the transfer ended, after reading the end of its reply.
enum bench_outcome bench_slot_outcome(struct bench_slot *s, CURLcode code, double now);

// The runner's part of reading: the time of the bytes, and a count of events with output.
double bench_runner_now(const struct bench_runner *r);
void bench_runner_events(struct bench_runner *r, double now, uint64_t events);
