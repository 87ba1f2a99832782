// SPDX-License-Identifier: Apache-2.0
// The engines of a server, their threads and what happens if a device fails. Slots are opened and
// closed by one thread at a time.
#pragma once

#include "cli/load.h"
#include "cli/signals.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MODELS_MAX = 64, ENGINES_MAX = MODELS_MAX * COPIES_MAX };

struct engines;

struct engine_slot {
    const struct loaded_model *model; // NULL: the slot is free
    struct engines *all;
    pthread_t thread;
    bool started;
    _Atomic bool ended;  // true when the thread has finished
    _Atomic bool failed; // true if its device failed
    // first copies only: true if a log line states that no copy of the model works any more
    _Atomic bool loss_logged;
};

struct engines {
    struct engine_slot slots[ENGINES_MAX]; // the copies of a model are next to each other
    uint32_t count;                        // slots from this one on are free
    bool several_devices;
    // lock that a thread holds while it changes slots or handles the failure of a device
    pthread_mutex_t lock;
    struct signals *signals;
};

void engines_init(struct engines *engines, struct signals *signals, bool several_devices);

// Stores the copies of a model, first[0] to first[copies - 1], in free slots and sets their
// members `slot`. Returns false if too few are free.
bool engines_add(struct engines *engines, struct loaded_model *first);
// Starts the threads of the copies. After an error those started before run on.
enum status engines_start(struct engines *engines, const struct loaded_model *first,
                          struct error *err) MUST_USE;
// Makes the engines of the copies refuse new requests, waits until they have none, ends their
// threads and frees their slots. Returns false, and changes nothing more, if the device of one has
// failed.
bool engines_remove(struct engines *engines, const struct loaded_model *first);

bool engine_has_failed(const struct engines *engines, const struct loaded_model *model);
uint32_t engines_failed(const struct engines *engines); // number of engines that have failed
bool engines_lost(const struct engines *engines);       // true if there are engines and all failed

// Any thread, after the loss of a node: marks the engines of all models with ranks on other nodes
// as failed; their requests end with an error. text: sentence for the log.
void engines_nodes_failed(struct engines *engines, const char *text);

// Makes the engines refuse new requests and waits for their threads until the deadline
// (CLOCK_MONOTONIC, ns), at least for a second. Returns false if one still runs; threads of engines
// whose device has failed do not count and are not waited for.
bool engines_end(struct engines *engines, uint64_t deadline);
