// An engine is one model and the thread that owns its inference state. engine_step is the whole
// loop: take requests, plan, launch, settle. Time is an argument, so that a simulation can run the
// production scheduler.
#pragma once

#include "runtime/model/model.h"
#include "scheduler/port.h"
#include "scheduler/stats.h"

struct vocabulary; // runtime/grammar/vocabulary.h

enum { MASK_IDLE_GRAMMAR_BYTES = 32 << 20 }; // of all engines of a process

struct engine_options {
    uint32_t port_count;          // h2o threads
    uint32_t max_queued_requests; // requests that are not finished, over all ports
    uint32_t max_queued_tokens;   // prompt tokens of those
    uint64_t max_result_bytes;    // pooled vectors and scores of those
    uint32_t choices_max;         // n
    bool prefix_cache;
    double step_stretch; // with prompts a step takes at most so many times as long; 0: no bound
    uint64_t step_deadline_ns; // a step later than this is a device fault; 0: 120 s
    uint64_t hash_key[2];      // of the prefix cache; copies of a model have the same
    // The model's tokens as grammars read them, of as many ids as the model has; engine_open takes
    // a count, engine_close gives it back. NULL: no request may have a grammar.
    struct vocabulary *vocabulary;
    // Of grammars that have masks and no request any more; 0: all of MASK_IDLE_GRAMMAR_BYTES. The
    // engines of a process share the memory for grammars, so each has its part of that.
    size_t mask_idle_bytes;
};

// Host memory that the engine takes.
uint64_t engine_bytes(const struct model_facts *facts, const struct engine_options *options);

// The model must outlive the engine.
enum status engine_open(struct engine **out, struct model *model,
                        const struct engine_options *options, struct error *err) MUST_USE;
void engine_close(struct engine *engine);

// The port of an h2o thread and that thread's waker. Once for each index, before the engine runs.
struct port *engine_port(struct engine *engine, uint32_t index, struct waker *waker);

enum engine_news { ENGINE_IDLE, ENGINE_WORKED, ENGINE_FAULT };

// One pass of the loop at time now_ns. FAULT: every live request got FINISH_ERROR; engine_error
// says why.
enum engine_news engine_step(struct engine *engine, uint64_t now_ns);

// The engine thread's loop; sleeps when idle. Returns after engine_stop once nothing is live, or at
// once after a fault (ENGINE_FAULT).
enum engine_news engine_run(struct engine *engine);
void engine_stop(struct engine *engine); // from any thread: refuse new requests, finish the live

// From any thread: the device failed under another engine. New requests are refused; live ones end
// with FINISH_ERROR once the engine's thread runs again. It may hang in the device for ever, so
// nothing of the engine may be freed.
void engine_lose_device(struct engine *engine);

uint64_t engine_step_patience(const struct engine *engine); // how long a step may take, in ns
const struct error *engine_error(const struct engine *engine);
const struct engine_stats *engine_stats(const struct engine *engine);
const struct model_facts *engine_facts(const struct engine *engine);
