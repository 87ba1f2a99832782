// SPDX-License-Identifier: Apache-2.0
// Opening devices; see devices.h. Runs on the main thread.
#include "cli/devices.h"

#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [DEVICE_CPU] = "cpu", [DEVICE_CUDA] = "cuda", [DEVICE_SIMT] = "simt"};

// The name of the GPUs' kind if several of them are used, else NULL.
static _Atomic(const char *) several;

// Logs a line of the plugin, after the name of the GPU if several are used.
static void device_note(uint32_t index, const char *line)
{
    const char *kind = atomic_load(&several);
    if (kind)
        log_line(LOG_INFO, "%s:%u: %s", kind, index, line);
    else
        log_line(LOG_INFO, "%s", line);
}

// Opens the device that `d` names. device_acquire adds it to the count of the list afterwards.
static enum status device_open(struct loaded_device *d, const struct device_settings *settings,
                               struct error *err)
{
    d->options = (struct device_options){
        .index = d->index, .threads = settings->threads, .exact = settings->exact};
    if (d->kind == DEVICE_CPU) {
        d->api = device_cpu();
        if (settings->exact == 0)
            log_line(LOG_WARNING, "--no-exact changes nothing on a CPU, whose results are exact");
        return d->api->open(&d->device, &d->options, err);
    }
    enum status status = device_plugin_open(&d->api, names[d->kind], settings->device_library, err);
    if (status != STATUS_OK)
        return status;
    d->options.cache_folder = settings->device_cache;
    d->options.serial = !settings->overlap_kernels;
    d->options.note = device_note;
    return d->api->open(&d->device, &d->options, err);
}

static enum status device_acquire(struct device_list *list, struct loaded_device **out,
                                  enum device_choice kind, uint32_t index,
                                  const struct device_settings *settings, struct error *err)
{
    for (uint32_t i = 0; i < list->count; i++) {
        *out = &list->at[i];
        if ((*out)->kind == kind && (*out)->index == index)
            return STATUS_OK;
    }
    if (list->count == DEVICES_MAX)
        return error_set(err, STATUS_INVALID, "the models name more than %d devices", DEVICES_MAX);
    struct loaded_device *d = *out = &list->at[list->count];
    *d = (struct loaded_device){.kind = kind, .index = index};
    snprintf(d->label, sizeof d->label, kind == DEVICE_CPU ? "%s" : "%s:%u", names[kind], index);
    for (uint32_t i = 0; i < list->count; i++)
        if (kind != DEVICE_CPU && list->at[i].kind == kind)
            atomic_store(&several, names[kind]);
    enum status status = device_open(d, settings, err);
    if (status != STATUS_OK)
        return status;
    d->api->facts(d->device, &d->facts);
    list->count++;
    return STATUS_OK;
}

// Decides what auto means: CUDA if its first device can be opened, else the CPU. The device stays
// open.
static enum status auto_choose(struct device_list *list, const struct device_settings *settings,
                               struct error *err)
{
    struct loaded_device *first;
    enum status status = device_acquire(list, &first, DEVICE_CUDA, 0, settings, err);
    list->chosen = DEVICE_CUDA;
    if (status == STATUS_OK)
        return status;
    bool built = status != STATUS_NOT_FOUND;
    log_line(LOG_INFO, "no GPU is used: %s",
             built ? err->text : "the CUDA plugin is not built (make cuda)");
    if (!built)
        log_line(LOG_DEBUG, "%s", err->text);
    list->chosen = DEVICE_CPU;
    return STATUS_OK;
}

// Adds advice to the error that a GPU was requested by name and there is none.
static enum status gpu_missing(enum status status, struct error *err)
{
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s--device cpu computes without a GPU",
             status == STATUS_NOT_FOUND ? "'make cuda' builds the plugin if nvcc is installed, "
                                        : "");
    return status;
}

// Stores the number of GPUs of a model: as many as the option numbers, else one per rank or copy.
static enum status gpus_count(uint32_t *count, const struct model_spec *spec, struct error *err)
{
    const struct option_devices *requested = &spec->settings.device;
    uint32_t copies = spec->settings.data_parallel_size;
    uint32_t ranks = model_spec_ranks(spec);
    bool split = spec->settings.tensor_parallel_size > 1;
    if (split && copies > 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "model '%s': copies of a model that is split over GPUs are not supported: "
                         "omit --data-parallel-size or --tensor-parallel-size",
                         spec->id);
    if (split && requested->count > 0 && requested->count != ranks && spec->nodes > 1)
        return error_set(err, STATUS_INVALID,
                         "model '%s': --tensor-parallel-size %u over %u nodes needs %u GPU%s on "
                         "each and --device names %u",
                         spec->id, spec->settings.tensor_parallel_size, spec->nodes, ranks,
                         ranks == 1 ? "" : "s", requested->count);
    if (split && requested->count > 0 && requested->count != ranks)
        return error_set(err, STATUS_INVALID,
                         "model '%s': --tensor-parallel-size %u needs as many GPUs and --device "
                         "names %u: add ,device= with %u numbers",
                         spec->id, ranks, requested->count, ranks);
    *count = requested->count > 0 ? requested->count : split ? ranks : copies;
    return STATUS_OK;
}

enum status devices_of(struct device_list *list, struct loaded_device *out[OPTION_DEVICES_MAX],
                       uint32_t *count, const struct model_spec *spec,
                       const struct device_settings *settings, struct error *err)
{
    const struct option_devices *requested = &spec->settings.device;
    uint32_t copies = spec->settings.data_parallel_size;
    enum device_choice kind = (enum device_choice)requested->kind;
    enum status status = STATUS_OK;
    if (kind == DEVICE_AUTO && list->chosen == DEVICE_AUTO)
        status = auto_choose(list, settings, err);
    if (kind == DEVICE_AUTO)
        kind = list->chosen;
    if (requested->count > 0 && requested->count < copies)
        return error_set(
            err, STATUS_INVALID,
            "model '%s': --data-parallel-size %u needs as many GPUs and --device or ,device= names "
            "%u: name more, or append ,data-parallel-size=%u to the model argument",
            spec->id, copies, requested->count, requested->count);
    *count = 1;
    if (status == STATUS_OK && kind != DEVICE_CPU)
        status = gpus_count(count, spec, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < *count && status == STATUS_OK; i++) {
        uint32_t index = requested->count > 0 ? requested->at[i] : i;
        status = device_acquire(list, &out[i], kind, index, settings, err);
        if (status != STATUS_OK && i > 0 && requested->count == 0)
            return error_prefix(
                err, "model '%s': --%s-parallel-size %u needs as many GPUs: lower it to at most %u",
                spec->id, copies > 1 ? "data" : "tensor", *count, i);
        if (status != STATUS_OK && index > 0)
            error_prefix(err, "model '%s': device %s:%u", spec->id, names[kind], index);
    }
    return status != STATUS_OK && kind == DEVICE_CUDA ? gpu_missing(status, err) : status;
}

// With lazy loading CUDA loads a kernel's code at its first launch, and may then wait for all work
// of that GPU, while that work waits for another rank, which waits for the loader (CUDA C++
// Programming Guide, "Lazy Loading"). The driver reads the variable once, before the first device
// is opened.
void devices_begin(const struct model_spec *specs, uint32_t count)
{
    bool split = false;
    for (uint32_t i = 0; i < count; i++)
        if (specs[i].settings.device.kind != DEVICE_CPU)
            split = split || specs[i].settings.tensor_parallel_size > 1;
    if (!split)
        return;
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    log_line(LOG_DEBUG, "a model is split over GPUs: they load all code at startup, unless the "
                        "environment sets CUDA_MODULE_LOADING");
}

void devices_close(struct device_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        list->at[i].api->close(list->at[i].device);
}
