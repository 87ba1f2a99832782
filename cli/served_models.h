// SPDX-License-Identifier: Apache-2.0
// The models that a server serves, from their loading to their unloading. One thread at a time
// calls these functions: main at startup and at the end, in between the thread that loads and
// unloads models.
#pragma once

#include "cli/engines.h"
#include "http/server.h"

// One model. Owned by struct served_models.
struct served_entry {
    struct loaded *loaded;      // all models that were loaded together with this one
    struct loaded_model *first; // its first copy
    bool own;                   // true if `loaded` has no other model and is freed with it
    struct served_model model;  // its description for the server
    struct served_use use;
};

struct served_list;

struct served_models {
    struct server *server;
    uint32_t http_threads;
    struct engines engines;
    struct served_entry *entries[MODELS_MAX];
    uint32_t count;
    struct served_list *lists; // the newest one is served; older ones are kept while they are used
    struct grammars *grammars;
    struct port **ports;   // [slot * http_threads + thread] from served_models_begin to _serve
    bool stuck;            // true if an h2o thread did not move on: no list is freed any more
    bool changes;          // true if models may be loaded later: slots are kept for them
    _Atomic bool stopping; // true if served_models_close must no longer wait for requests
};

// Adds a loaded model and assigns slots to its engines; it is not served yet. TOO_LARGE if there
// are too many models. own: see served_entry.
enum status served_models_add(struct served_models *all, struct loaded *loaded,
                              struct loaded_model *first, bool own, struct error *err) MUST_USE;
// At startup, one after the other: served_models_begin sets up the ports of all models added and
// starts their engines; served_models_serve lets the server accept requests for them.
enum status served_models_begin(struct served_models *all, struct error *err) MUST_USE;
void served_models_serve(struct served_models *all);
// At run time, after served_models_add: sets up the ports of the model added last, starts its
// engines and serves it.
enum status served_models_open(struct served_models *all, struct error *err) MUST_USE;
// Stops serving the model, waits until its requests have ended and frees it. REFUSED if its device
// has failed or the server ends: then it stays in memory.
enum status served_models_close(struct served_models *all, struct served_entry *entry,
                                struct error *err) MUST_USE;

// Returns the entry of the model that has this name among its names, or NULL.
struct served_entry *served_models_find(const struct served_models *all, const char *name);

// After server_close: frees models, lists and grammars; main's `loaded` stays.
void served_models_end(struct served_models *all);
