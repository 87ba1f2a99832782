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

// options: NULL or what to change; keys and host are filled in. serve: models are handed over.
void fixture_open(struct fixture *f, const struct server_options *options, bool serve);
// The same; options are used as they are but for keys and host.
void fixture_open_as(struct fixture *f, const struct server_options *options, bool serve);
void fixture_serve(struct fixture *f);
void fixture_close(struct fixture *f); // settles cancelled requests, closes
// Waits (at most two minutes) until so many engine requests live / are cancelled over all ports.
bool fixture_wait_live(struct fixture *f, uint32_t count);
bool fixture_wait_cancelled(struct fixture *f, uint32_t count);
bool wait_until(bool (*done)(void *context), void *context); // as long
// Waits as long for a value of /metrics from `from` to `to`; fails the test otherwise.
void metric_wait(const struct fixture *f, const char *series, uint64_t from, uint64_t to);
uint64_t metric_value(const struct fixture *f, const char *series); // UINT64_MAX: not there

// What the test routes saw, over all tests of the process.
struct seen {
    _Atomic uint32_t gone, ready_when_gone, seconds, body_sum, done_gone, prepared;
    _Atomic uint64_t deadline_ms;
    // text work waits while 1; 2: work on bodies over a megabyte; 3: on bodies over eight, which
    // give their turn away meanwhile; 4: what is compiled, even where the client is gone
    _Atomic int work_hold;
    _Atomic uint32_t working;           // held by a worker
    _Atomic uint32_t sharing;           // give their turn away
    _Atomic uint32_t alone, alone_most; // at work at once: now, and ever
    // Bodies of one byte, in the order in which workers were done with them; for one worker.
    char order[64];
    _Atomic uint32_t ordered;
    void (*compiled)(struct exchange *x); // in `done` of what is compiled; or NULL
};
extern struct seen seen;
