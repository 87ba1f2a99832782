// SPDX-License-Identifier: Apache-2.0
// The engines of a server and their threads; see engines.h.
#include "cli/engines.h"

#include "cli/load_memory.h"
#include "base/clock.h"
#include "base/log.h"

#include <string.h>
#include <unistd.h>

enum { POLL_US = 1000 };

// Returns true if `other` fails together with `failed`, a rank of which has a failed device. rank:
// that rank; if it equals the number of ranks, it is unknown and every rank counts. On a CPU, ranks
// have threads and memory of their own, which models with the same number of ranks share.
static bool fails_with(const struct loaded_model *failed, uint32_t rank,
                       const struct loaded_model *other)
{
    uint32_t count = gpu_count(failed);
    // A lost node has ranks of all linked models. If instead a GPU here has failed, the other
    // models on it detect that themselves.
    if (failed->link)
        return other == failed || other->link;
    if (failed->device->kind == DEVICE_CPU)
        return device_same(other->device, failed->device) &&
               other->spec.settings.tensor_parallel_size ==
                   failed->spec.settings.tensor_parallel_size;
    if (count == 1)
        return is_on(other, failed->device);
    bool shares = other == failed;
    for (uint32_t r = 0; r < count; r++)
        shares |= (rank == r || rank >= count) && is_on(other, failed->choices[r]);
    return shares;
}

void engines_init(struct engines *engines, struct signals *signals, bool several_devices)
{
    pthread_mutex_init(&engines->lock, NULL);
    engines->signals = signals;
    engines->several_devices = several_devices;
}

bool engine_has_failed(const struct engines *engines, const struct loaded_model *m)
{
    return atomic_load(&engines->slots[m->slot].failed);
}

uint32_t engines_failed(const struct engines *engines)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < engines->count; i++)
        count += engines->slots[i].model && atomic_load(&engines->slots[i].failed);
    return count;
}

bool engines_lost(const struct engines *engines)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < engines->count; i++)
        used += engines->slots[i].model != NULL;
    return used > 0 && engines_failed(engines) == used;
}

// Returns true if a copy of the model on another device still works.
static bool has_working_copy(const struct engines *engines, const struct loaded_model *m)
{
    const struct loaded_model *first = m - m->copy;
    for (uint32_t i = 0; i < m->spec.settings.data_parallel_size; i++)
        if (!engine_has_failed(engines, &first[i]))
            return true;
    return false;
}

static void model_failure_log(struct engines *engines, const struct loaded_model *m)
{
    engine_device_failed(m->engine);
    if (has_working_copy(engines, m))
        log_line(LOG_ERROR, "copy %u of the model '%s' has failed, other copies continue to serve",
                 m->copy, m->spec.id);
    // two copies may fail together
    else if (!atomic_exchange(&engines->slots[m->slot - m->copy].loss_logged, true))
        log_line(LOG_ERROR,
                 "the model '%s' has failed and is not served any more: restart the server",
                 m->spec.id);
}

// Marks as failed, and logs, all engines that fail with this model. Runs on the thread that found
// the failure, usually its engine's; other engines of the device may hang in it. Does nothing if
// another model's failure has already marked this one.
static void device_failed(struct engines *engines, const struct loaded_model *model,
                          const char *text)
{
    bool news[ENGINES_MAX] = {false};
    uint32_t rank = model->link ? 0 : model_failed_rank(model->model);
    if (atomic_exchange(&engines->slots[model->slot].failed, true))
        return;
    pthread_mutex_lock(&engines->lock);
    news[model->slot] = true;
    if (engines->several_devices)
        log_line(LOG_ERROR, "the device failed: %s (%s)", text, model->label);
    else
        log_line(LOG_ERROR, "the device failed: %s", text);
    for (uint32_t i = 0; i < engines->count; i++) {
        struct engine_slot *slot = &engines->slots[i];
        if (slot->model && fails_with(model, rank, slot->model))
            news[i] |= !atomic_exchange(&slot->failed, true);
    }
    for (uint32_t i = 0; i < engines->count; i++)
        if (news[i])
            model_failure_log(engines, engines->slots[i].model);
    pthread_mutex_unlock(&engines->lock);
    signals_post(engines->signals, NEWS_FAULT);
}

void engines_nodes_failed(struct engines *engines, const char *text)
{
    for (uint32_t i = 0; i < engines->count; i++)
        if (engines->slots[i].model && engines->slots[i].model->link) {
            device_failed(engines, engines->slots[i].model, text);
            return; // the others fail with it
        }
}

static void *engine_main(void *argument)
{
    struct engine_slot *self = argument;
    struct engine *engine = self->model->engine;
    pthread_setname_np(pthread_self(), "engine");
    if (engine_run(engine) == ENGINE_FAULT)
        device_failed(self->all, self->model, engine_error(engine)->text);
    atomic_store(&self->ended, true);
    return NULL;
}

bool engines_add(struct engines *engines, struct loaded_model *first)
{
    uint32_t copies = first->spec.settings.data_parallel_size, from = 0, free = 0;
    while (free < copies && from + free < ENGINES_MAX)
        if (engines->slots[from + free].model) {
            from += free + 1;
            free = 0;
        } else {
            free++;
        }
    if (free < copies)
        return false;
    pthread_mutex_lock(&engines->lock);
    for (uint32_t i = 0; i < copies; i++) {
        struct engine_slot *slot = &engines->slots[from + i];
        memset(slot, 0, sizeof *slot);
        slot->all = engines;
        slot->model = &first[i];
        first[i].slot = from + i;
    }
    if (engines->count < from + copies)
        engines->count = from + copies;
    pthread_mutex_unlock(&engines->lock);
    return true;
}

enum status engines_start(struct engines *engines, const struct loaded_model *first,
                          struct error *err)
{
    for (uint32_t i = 0; i < first->spec.settings.data_parallel_size; i++) {
        struct engine_slot *slot = &engines->slots[first[i].slot];
        int failed = pthread_create(&slot->thread, NULL, engine_main, slot);
        if (failed != 0)
            return error_thread(err, failed, "an engine's thread");
        slot->started = true;
    }
    return STATUS_OK;
}

bool engines_remove(struct engines *engines, const struct loaded_model *first)
{
    uint32_t copies = first->spec.settings.data_parallel_size;
    for (uint32_t i = 0; i < copies; i++)
        if (engines->slots[first[i].slot].started)
            engine_stop(first[i].engine);
    for (uint32_t i = 0; i < copies; i++) {
        struct engine_slot *slot = &engines->slots[first[i].slot];
        while (slot->started &&
               (!atomic_load(&slot->ended) || engine_requests(first[i].engine) > 0)) {
            if (atomic_load(&slot->failed))
                return false;
            usleep(POLL_US);
        }
        if (slot->started)
            pthread_join(slot->thread, NULL);
        slot->started = false;
    }
    pthread_mutex_lock(&engines->lock);
    for (uint32_t i = 0; i < copies; i++)
        engines->slots[first[i].slot].model = NULL;
    pthread_mutex_unlock(&engines->lock);
    return true;
}

bool engines_end(struct engines *engines, uint64_t deadline)
{
    enum { LEAST_MS = 1000 };
    uint64_t least = clock_ns() + LEAST_MS * 1000000ull;
    deadline = deadline > least ? deadline : least;
    for (uint32_t i = 0; i < engines->count; i++)
        if (engines->slots[i].started)
            engine_stop(engines->slots[i].model->engine);
    bool all = true;
    for (uint32_t i = 0; i < engines->count; i++) {
        struct engine_slot *slot = &engines->slots[i];
        if (!slot->started || atomic_load(&slot->failed)) // its thread may hang
            continue;
        while (!atomic_load(&slot->ended) && clock_ns() < deadline)
            usleep(POLL_US);
        if (atomic_load(&slot->ended)) {
            pthread_join(slot->thread, NULL);
            slot->started = false;
            continue;
        }
        all = false;
        log_line(LOG_ERROR,
                 "the engine of '%s' did not end within --shutdown-timeout and is abandoned",
                 slot->model->spec.id);
    }
    return all;
}
