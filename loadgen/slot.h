// SPDX-License-Identifier: Apache-2.0
// A slot holds one request in flight: its libcurl handle, its body and its reply. One thread.
// Private to the load generator.
#pragma once

#include "loadgen/conversation.h"
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
    struct bench_conversation conversation; // multi-turn: the messages of the request
    uint32_t max_tokens;                    // longest answer of each turn
    size_t head_bytes;                      // number of bytes of the headers of the reply up to now
    char refusal[256];                      // start of the body of a refusal, printable ASCII
    uint32_t place;                         // index of the slot
    uint32_t prompt;      // number of the prompt if there are options.prompts of them, else 0
    uint32_t leave_after; // number of events after which a slot that leaves closes its stream
    bool leaves;          // true if the client is to close this stream early
    bool has_left;        // true if it has closed the stream
    bool oversized;       // true if headers, an event or the body exceed their limit
    bool retry_after;     // true if the reply has a Retry-After of at least one second
};

// Headers and addresses of the targets of a run.
struct bench_routes {
    char *url[BENCH_TARGETS_MAX];
    struct curl_slist *headers[BENCH_TARGETS_MAX];
};
// Allocates the addresses and header lists of all targets.
void bench_routes_open(struct bench_routes *out, const struct bench_options *o);
void bench_routes_close(struct bench_routes *routes);

struct bench_slot *bench_slot_create(struct bench_runner *runner, const struct bench_options *o);
void bench_slot_destroy(struct bench_slot *s);
// Resets the slot and sets a request to this target with the slot's body, which must be written
// before and stay unchanged until the request has ended.
void bench_slot_aim(struct bench_slot *s, const struct bench_options *o,
                    const struct bench_routes *routes, uint32_t target);
// Reads the end of the reply, sets record.status and returns how the transfer ended. code: result
// of libcurl; now: time of the end.
enum bench_outcome bench_slot_outcome(struct bench_slot *s, CURLcode code, double now);

// Functions of run.c for the callbacks of a slot: the first returns the time of the bytes being
// read, the second counts events with output at this time.
double bench_runner_now(const struct bench_runner *r);
void bench_runner_events(struct bench_runner *r, double now, uint64_t events);
