// SPDX-License-Identifier: Apache-2.0
// An engine is one model and the thread that owns its inference state. engine_step is one pass of
// the loop: accept requests, plan, launch, settle. The time is an argument, so that a simulation
// can run the production scheduler.
#pragma once

#include "runtime/model/model.h"
#include "scheduler/port.h"
#include "scheduler/stats.h"

struct vocabulary;   // runtime/grammar/vocabulary.h
struct kv_event_log; // scheduler/kv_events.h

enum { MASK_IDLE_GRAMMAR_BYTES = 32 << 20 }; // limit for all engines of a process together

struct engine_options {
    uint32_t port_count;          // number of h2o threads
    uint32_t max_queued_requests; // number of requests submitted and not yet freed, over all ports
    uint32_t max_queued_tokens;   // sum of the prompt tokens of these requests
    uint64_t max_result_bytes;    // sum of the sizes of their pooled vectors and scores
    uint32_t choices_max;         // number of choices of one request, over all its prompts
    bool prefix_cache;            // true if KV blocks are kept and shared between requests
    // Limit for the duration of a step with prompt tokens, as a multiple of the median step; 1 or
    // less: no limit.
    double step_stretch;
    uint64_t step_deadline_ns; // a step that takes longer is a device fault; 0: 120 s
    uint64_t hash_key[2];      // key of the prefix cache's hashes, equal in all copies of a model
    // The model's tokens as grammars read them, with as many ids as the model has. The engine holds
    // a reference from engine_open to engine_close. NULL: no request may have a grammar.
    struct vocabulary *vocabulary;
    // Receives the changes of the prefix cache (kv_events.h); it must outlive the engine. NULL:
    // none.
    struct kv_event_log *kv_events;
    // Limit for the size of grammars that no request uses and that are kept only because of their
    // mask cache; 0: MASK_IDLE_GRAMMAR_BYTES. The caller divides that limit among the engines of a
    // process.
    size_t mask_idle_bytes;
};

// Returns the number of bytes that engine_open maps. The system provides pages when they are
// touched.
uint64_t engine_bytes(const struct model_facts *facts, const struct engine_options *options);

// Opens an engine for a model, which must outlive it. options are copied. Options that do not match
// the model's facts end the process. NO_MEMORY if the mapping fails; otherwise errors of the waker
// or of the mask worker's thread.
enum status engine_open(struct engine **out, struct model *model,
                        const struct engine_options *options, struct error *err) MUST_USE;
// Ends the mask worker and unmaps the engine; its thread must have ended. NULL is allowed.
void engine_close(struct engine *engine);

// Returns port `index` of the engine, which the engine owns, for use by one h2o thread. waker: of
// that thread, borrowed until engine_close; the engine raises it when the port has events. Called
// once for each index below port_count before the engine runs.
struct port *engine_port(struct engine *engine, uint32_t index, struct waker *waker);

enum engine_news {
    ENGINE_IDLE,   // nothing to do until the engine's waker is raised or a timer ends
    ENGINE_WORKED, // call engine_step again without sleeping
    ENGINE_FAULT,  // the device failed, in this pass or before
};

// Engine thread: runs one pass of the loop at time now_ns (CLOCK_MONOTONIC). Returns ENGINE_FAULT
// after a device fault: every live request has received FINISH_ERROR, and engine_error holds the
// cause. Later calls end each new request with FINISH_ERROR and return ENGINE_FAULT, too.
enum engine_news engine_step(struct engine *engine, uint64_t now_ns);

// Runs the engine thread's loop and sleeps when idle. Returns ENGINE_IDLE after engine_stop, once
// no request is live, or ENGINE_FAULT after a device fault, once every request has ended.
enum engine_news engine_run(struct engine *engine);
// Any thread: makes the engine refuse new requests and finish the live ones.
void engine_stop(struct engine *engine);

// Any thread: reports that the device failed under another engine. New requests are refused; live
// requests end with FINISH_ERROR when this engine's thread runs again. That thread may hang in the
// device forever, so the caller must not free anything of the engine.
void engine_device_failed(struct engine *engine);

// Any thread: returns the number of requests that were submitted and are not freed.
uint64_t engine_requests(const struct engine *engine);

// Returns how long a step may take, in ns. Any thread.
uint64_t engine_step_timeout(const struct engine *engine);
// Returns the error of the last device fault. Engine thread, or any thread after engine_run.
const struct error *engine_error(const struct engine *engine);
// Returns the counters and gauges of the engine (stats.h). Any thread.
const struct engine_stats *engine_stats(const struct engine *engine);
// Returns the facts of the engine's model, which do not change. Any thread.
const struct model_facts *engine_facts(const struct engine *engine);
