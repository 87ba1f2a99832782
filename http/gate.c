// See gate.h. Each waiting worker has its own condition variable, and the worker that leaves
// chooses which of them runs next, so that a worker that arrives later cannot overtake them.
#include "http/gate.h"

#include <stddef.h>

struct gate_place {
    struct gate_place *next;
    pthread_cond_t call;
    bool large, called;
};

void gate_open(struct work_gate *gate, uint32_t most, uint32_t most_large)
{
    *gate = (struct work_gate){.most = most, .most_large = most_large};
    pthread_mutex_init(&gate->lock, NULL);
    gate->end = &gate->first;
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
    for (struct gate_place **at = &gate->first; *at;) {
        struct gate_place *place = *at;
        if (!gate_has_capacity(gate, place->large)) {
            at = &place->next;
            continue;
        }
        *at = place->next;
        if (gate->end == &place->next)
            gate->end = at;
        gate->running++;
        gate->running_large += place->large;
        gate->waiting--;
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
    *gate->end = &place;
    gate->end = &place.next;
    gate->waiting++;
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
    uint32_t waiting = gate->waiting;
    pthread_mutex_unlock(&gate->lock);
    return waiting;
}
