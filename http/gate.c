// SPDX-License-Identifier: Apache-2.0
// See gate.h. Each waiting worker has its own condition variable, and the worker that leaves
// chooses which of them runs next, so that a worker that arrives later cannot overtake them.
#include "http/gate.h"

#include <stddef.h>

struct gate_place {
    struct wait_item item; // must be first: gate_call casts it back
    pthread_cond_t call;
    bool large, called;
};

void gate_open(struct work_gate *gate, uint32_t most, uint32_t most_large)
{
    *gate = (struct work_gate){.most = most, .most_large = most_large};
    pthread_mutex_init(&gate->lock, NULL);
}

void gate_close(struct work_gate *gate)
{
    pthread_mutex_destroy(&gate->lock);
}

static bool gate_has_capacity(const struct work_gate *gate, bool large)
{
    return gate->running < gate->most && (!large || gate->running_large < gate->most_large);
}

// Lets waiting workers run while the limits allow. Passes over workers with large bodies if their
// limit is reached, so that small bodies do not wait for large ones.
static void gate_call(struct work_gate *gate)
{
    struct wait_item *after;
    for (struct wait_item *item = gate->waiting.first; item; item = after) {
        struct gate_place *place = (struct gate_place *)item;
        after = item->after;
        if (!gate_has_capacity(gate, place->large))
            continue;
        wait_remove(item);
        gate->running++;
        gate->running_large += place->large;
        place->called = true;
        pthread_cond_signal(&place->call);
    }
}

static void gate_leave_locked(struct work_gate *gate, bool large)
{
    gate->running--;
    gate->running_large -= large;
}

static void gate_wait_locked(struct work_gate *gate, bool large)
{
    struct gate_place place = {.call = PTHREAD_COND_INITIALIZER, .large = large};
    wait_push(&gate->waiting, &place.item, 0);
    gate_call(gate);
    while (!place.called)
        pthread_cond_wait(&place.call, &gate->lock);
    pthread_cond_destroy(&place.call);
}

void gate_enter(struct work_gate *gate, bool large)
{
    pthread_mutex_lock(&gate->lock);
    gate_wait_locked(gate, large);
    pthread_mutex_unlock(&gate->lock);
}

void gate_pass(struct work_gate *gate, bool large)
{
    pthread_mutex_lock(&gate->lock);
    gate_leave_locked(gate, large);
    gate_wait_locked(gate, large);
    pthread_mutex_unlock(&gate->lock);
}

void gate_leave(struct work_gate *gate, bool large)
{
    pthread_mutex_lock(&gate->lock);
    gate_leave_locked(gate, large);
    gate_call(gate);
    pthread_mutex_unlock(&gate->lock);
}

uint32_t gate_waiting(struct work_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    uint32_t waiting = gate->waiting.count;
    pthread_mutex_unlock(&gate->lock);
    return waiting;
}
