// SPDX-License-Identifier: Apache-2.0
// Loads and unloads models while a server runs; see manage.h.
//
// Memory: what was free at startup is the budget of the process. A model may be loaded if its plan
// and the plans of the models that are served fit into it, and into what is free now. A model that
// is loaded here has an arena and a record of the devices of its own, so that all of it is freed.
#include "cli/manage.h"

#include "cli/hub/stop.h"
#include "cli/load_memory.h"
#include "cli/serve_config.h"
#include "http/manage.h"
#include "base/clock.h"
#include "base/log.h"

#include <string.h>
#include <unistd.h>

enum { POLL_US = 2000, JOBS_MAX = 16 };

struct manager {
    struct manager_args args;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct manage_job *jobs[JOBS_MAX]; // queue, guarded by lock like the two below
    uint32_t count;
    bool ends;
    _Atomic bool ended; // true when the thread has finished
};

static void reply_text(struct manage_job *job, enum http_error error, struct text message)
{
    job->error = error;
    job->reply.bytes = 0;
    json_put_raw(&job->reply, message);
    job->message = json_buffer_text(&job->reply);
}

static enum http_error error_of(enum status status)
{
    switch (status) {
    case STATUS_INVALID:
    case STATUS_TOO_LARGE:
    case STATUS_NO_DEVICE: // the request names a GPU that is not there
        return HTTP_INVALID_VALUE;
    case STATUS_UNSUPPORTED:
        return HTTP_UNSUPPORTED_VALUE;
    case STATUS_NOT_FOUND:
        return HTTP_MODEL_NOT_FOUND;
    case STATUS_NO_SPACE:
        return HTTP_NO_DISK;
    case STATUS_NO_MEMORY:
        return HTTP_NO_ROOM;
    case STATUS_REFUSED:
    case STATUS_UNWANTED:
        return HTTP_UNAVAILABLE;
    default:
        return HTTP_INTERNAL;
    }
}

static void job_fail(struct manage_job *job, const struct error *err)
{
    reply_text(job, error_of(err->status), text_of(err->text));
}

// Appends the entries of the plan of a model that does not fit to the sentence.
static void plan_add(struct manage_job *job, const struct loaded *fresh)
{
    for (uint32_t i = 0; i < fresh->model_count; i++) {
        const struct loaded_model *m = &fresh->models[i];
        if (!m->plan)
            continue;
        struct device_need need = memory_planned(m);
        json_put_literal(&job->reply, i == 0 ? "; its plan: " : "; the next copy: ");
        for (uint32_t k = 0; k < need.count; k++)
            json_put_format(&job->reply, "%s%s %.2f MiB", k > 0 ? ", " : "", need.entry[k].label,
                            (double)need.entry[k].bytes / 0x1p20);
    }
    job->message = json_buffer_text(&job->reply);
}

// Sets the memory that the new model may use on each device.
static void budget_set(const struct manager *m, struct loaded *fresh)
{
    const struct served_models *all = m->args.models;
    for (uint32_t d = 0; d < fresh->devices.count; d++) {
        struct loaded_device *device = &fresh->devices.at[d];
        uint64_t budget = device->facts.memory_available;
        struct device_facts now;
        device->api->facts(device->device, &now);
        for (uint32_t i = 0; i < all->count; i++) {
            const struct loaded_model *first = all->entries[i]->first;
            for (uint32_t c = 0; c < all->entries[i]->model.copy_count; c++) {
                uint64_t used = memory_on(&first[c], device);
                budget -= used < budget ? used : budget;
            }
        }
        device->facts.memory_available =
            now.memory_available < budget ? now.memory_available : budget;
    }
}

static enum status spec_read(const struct manager *m, struct manage_job *job,
                             struct model_spec *spec, struct arena *arena, struct error *err)
{
    enum status status = config_model_read(spec, job->body, m->args.model, arena, err);
    for (uint32_t i = 0; status == STATUS_OK && i < spec->names.count; i++)
        if (served_models_find(m->args.models, spec->names.at[i]))
            return error_set(err, STATUS_INVALID,
                             "a model named '%s' is served: unload it, or give another 'name'",
                             spec->names.at[i]);
    if (status == STATUS_OK && spec->settings.tensor_parallel_size > 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "a model that is split over ranks can only be loaded at startup");
    return status;
}

// Reads, plans and loads the model. fresh: empty.
static enum status model_load(const struct manager *m, struct loaded *fresh,
                              struct model_spec *spec, struct error *err)
{
    struct loaded *main = m->args.loaded;
    fresh->devices = main->devices;
    enum status status = devices_load(fresh, m->args.device, spec, 1, err);
    main->devices = fresh->devices; // with a device that was not open before
    if (status == STATUS_OK) {
        status = models_fetch(fresh, err);
        if (status == STATUS_IO) // the hub cannot be reached now
            status = err->status = STATUS_REFUSED;
        else if (status == STATUS_REFUSED) // the hub does not let this token read the model
            status = err->status = STATUS_UNSUPPORTED;
    }
    if (status != STATUS_OK)
        return status;
    budget_set(m, fresh);
    status = models_plan(fresh, m->args.http_threads, NULL, err);
    if (status == STATUS_OK)
        status = models_load(fresh, err);
    return status;
}

static void load_run(const struct manager *m, struct manage_job *job)
{
    struct served_models *all = m->args.models;
    struct arena *arena = arena_create(0, 0);
    struct loaded *fresh = arena_alloc_zeroed(arena, 1, sizeof *fresh);
    struct model_spec spec;
    struct error err;
    uint64_t begun = clock_ns();
    fresh->arena = arena;
    enum status status = spec_read(m, job, &spec, arena, &err);
    if (status == STATUS_OK)
        status = model_load(m, fresh, &spec, &err);
    if (status == STATUS_OK)
        status = served_models_add(all, fresh, fresh->models, true, &err);
    if (status != STATUS_OK) {
        job_fail(job, &err);
        if (status == STATUS_NO_MEMORY)
            plan_add(job, fresh);
        loaded_discard(fresh);
        return;
    }
    sources_close(fresh);
    struct served_entry *entry = all->entries[all->count - 1];
    status = served_models_open(all, &err);
    if (status != STATUS_OK) {
        job_fail(job, &err);
        if (served_models_close(all, entry, &err) != STATUS_OK)
            log_line(LOG_ERROR, "%s", err.text);
        return;
    }
    double seconds = (double)(clock_ns() - begun) * 1e-9;
    log_line(LOG_INFO, "model '%s' was loaded in %.1f s and is served", spec.id, seconds);
    json_put_member(&job->reply, "{\"id\":", text_of(spec.id));
    json_put_format(&job->reply,
                    ",\"object\":\"model\",\"status\":\"loaded\",\"kind\":\"%s\",\"seconds\":%.3f}",
                    model_kind_name(entry->model.facts->kind), seconds);
}

static void unload_run(const struct manager *m, struct manage_job *job)
{
    struct served_models *all = m->args.models;
    const char *name = json_string_value(json_object_get(job->body, "model"));
    struct served_entry *entry = served_models_find(all, name);
    struct error err;
    if (!entry) {
        error_set(&err, STATUS_NOT_FOUND, "no model named '%s' is served", name);
        job_fail(job, &err);
        return;
    }
    json_put_member(&job->reply, "{\"id\":", text_of(entry->first->spec.id));
    json_put_literal(&job->reply, ",\"object\":\"model\",\"status\":\"unloaded\"}");
    if (served_models_close(all, entry, &err) != STATUS_OK)
        job_fail(job, &err);
    else
        log_line(LOG_INFO, "model '%s' was unloaded", name);
}

static void *manager_main(void *argument)
{
    struct manager *m = argument;
    pthread_setname_np(pthread_self(), "models");
    for (;;) {
        pthread_mutex_lock(&m->lock);
        while (m->count == 0 && !m->ends)
            pthread_cond_wait(&m->news, &m->lock);
        struct manage_job *job = m->count > 0 ? m->jobs[0] : NULL;
        bool ends = m->ends;
        if (job)
            memmove(m->jobs, m->jobs + 1, --m->count * sizeof(struct manage_job *));
        pthread_mutex_unlock(&m->lock);
        if (!job)
            break;
        if (ends)
            reply_text(job, HTTP_UNAVAILABLE, text_of("The server is shutting down."));
        else if (job->unload)
            unload_run(m, job);
        else
            load_run(m, job);
        server_manage_done(m->args.models->server, job);
    }
    atomic_store(&m->ended, true);
    return NULL;
}

enum status manager_open(struct manager **out, const struct manager_args *args, struct error *err)
{
    struct manager *m = heap_alloc_zeroed(1, sizeof *m);
    m->args = *args;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->news, NULL);
    int failed = pthread_create(&m->thread, NULL, manager_main, m);
    *out = m;
    return failed == 0 ? STATUS_OK : error_thread(err, failed, "the thread that loads models");
}

void manager_job(void *context, struct manage_job *job)
{
    struct manager *m = *(struct manager **)context;
    pthread_mutex_lock(&m->lock);
    bool queued = m->count < JOBS_MAX && !m->ends, ends = m->ends;
    if (queued)
        m->jobs[m->count++] = job;
    pthread_cond_signal(&m->news);
    pthread_mutex_unlock(&m->lock);
    if (queued)
        return;
    reply_text(job, HTTP_UNAVAILABLE,
               text_of(ends ? "The server is shutting down."
                            : "Too many models wait to be loaded or unloaded."));
    server_manage_done(m->args.models->server, job);
}

void manager_stop(struct manager *m)
{
    pthread_mutex_lock(&m->lock);
    m->ends = true;
    pthread_cond_signal(&m->news);
    pthread_mutex_unlock(&m->lock);
    hub_stop();
}

bool manager_close(struct manager *m, uint64_t deadline)
{
    atomic_store(&m->args.models->stopping, true);
    while (!atomic_load(&m->ended) && clock_ns() < deadline)
        usleep(POLL_US);
    if (!atomic_load(&m->ended))
        return false;
    pthread_join(m->thread, NULL);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->news);
    heap_free(m);
    return true;
}
