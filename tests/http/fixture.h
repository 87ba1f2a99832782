// SPDX-License-Identifier: Apache-2.0
// A real server in the test process: real sockets on loopback, test routes, ports driven by hand.
#pragma once

#include "http/counters.h"
#include "http/server.h"
#include "tests/http/http_client.h"
#include "tests/http/port_double.h"

enum { FIXTURE_THREADS_MAX = 4, DRAIN_MS = 120000 };

#define KEY "sk-test"
#define BEARER "Authorization: Bearer " KEY "\r\n"
#define JSON "Content-Type: application/json\r\n"

struct fixture {
    struct server *server;
    uint32_t port, threads;
    struct engine *engine;
    struct port *ports[2 * FIXTURE_THREADS_MAX]; // [model * threads + thread]
    struct served_model models[2];
    struct served_copy copies[2]; // one of each
    struct served served;
};

// Opens a server. options: overrides of the fixture's defaults, or NULL; the fixture sets keys and
// host. serve: true if the models are served immediately.
void fixture_open(struct fixture *f, const struct server_options *options, bool serve);
// Opens a server with exactly these options, except keys and host. serve: see fixture_open.
void fixture_open_as(struct fixture *f, const struct server_options *options, bool serve);
void fixture_serve(struct fixture *f);
void fixture_close(struct fixture *f); // finishes cancelled requests, then closes
// Waits at most two minutes until `count` engine requests are live (cancelled), over all ports.
bool fixture_wait_live(struct fixture *f, uint32_t count);
bool fixture_wait_cancelled(struct fixture *f, uint32_t count);
bool wait_until(bool (*done)(void *context), void *context); // at most two minutes
// Waits at most two minutes for a value of /metrics in [from, to]; fails the test otherwise.
void metric_wait(const struct fixture *f, const char *series, uint64_t from, uint64_t to);
uint64_t metric_value(const struct fixture *f, const char *series); // UINT64_MAX: no such series

// Values that the test routes recorded, over all tests of the process.
struct seen {
    _Atomic uint32_t gone, ready_when_gone, seconds, done_gone, prepared;
    _Atomic uint64_t deadline_ms;
    // Which work waits. 1: all text work; 2: work on bodies over 1 MiB; 3: on bodies over 8 MiB,
    // which yield meanwhile; 4: compile jobs, even if the client has left.
    _Atomic int work_hold;
    _Atomic uint32_t working;           // jobs held by a worker
    _Atomic uint32_t sharing;           // jobs that yield
    _Atomic uint32_t alone, alone_most; // serial jobs running now; their maximum so far
    // One-byte bodies in the order in which the workers finished them; for a test with one worker.
    char order[64];
    _Atomic uint32_t ordered;
    void (*compiled)(struct exchange *x); // called in `done` of compile jobs, or NULL
};
extern struct seen seen;
