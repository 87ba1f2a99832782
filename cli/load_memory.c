// SPDX-License-Identifier: Apache-2.0
// The memory of models on their devices; see load_memory.h.
#include "cli/load_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint32_t gpu_count(const struct loaded_model *m)
{
    return m->choices[0]->kind == DEVICE_CPU ? 1 : model_spec_ranks(&m->spec);
}

bool is_split_over_gpus(const struct loaded_model *m)
{
    return m->choices[0]->kind != DEVICE_CPU && m->spec.settings.tensor_parallel_size > 1;
}

// Returns the rank of the model that is on the device, 0 if the model is not split; -1: none.
static int rank_on(const struct loaded_model *m, const struct loaded_device *device)
{
    uint32_t ranks = gpu_count(m);
    if (ranks == 1)
        return device_same(m->device, device) ? 0 : -1;
    for (uint32_t r = 0; r < ranks; r++)
        if (device_same(m->choices[r], device))
            return (int)r;
    return -1;
}

bool is_on(const struct loaded_model *m, const struct loaded_device *device)
{
    return rank_on(m, device) >= 0;
}

// Returns the bytes that the model needs on a device, without KV blocks; 0: it is not on the
// device.
static uint64_t bytes_on(const struct loaded_model *m, const struct loaded_device *device)
{
    int rank = m->plan ? rank_on(m, device) : -1;
    if (rank < 0)
        return 0;
    return gpu_count(m) == 1 ? m->plan->bytes : model_plan_bytes(m->plan, (uint32_t)rank);
}

uint64_t memory_on(const struct loaded_model *m, const struct loaded_device *device)
{
    uint64_t bytes = bytes_on(m, device);
    return bytes > 0 ? bytes + m->kv_bytes / gpu_count(m) : 0;
}

// Returns the sum of bytes_on of all models.
static uint64_t device_planned(const struct loaded *loaded, const struct loaded_device *device)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < loaded->model_count; i++)
        bytes += bytes_on(&loaded->models[i], device);
    return bytes;
}

// Sets the KV memory of a model without --kv-cache-memory: its share of the available memory, but
// not more than all its sequences can fill. If the device has a default, also not more than that,
// or than the longest possible sequence needs, if this is larger (docs/adr/0046).
static void kv_default(const struct loaded *loaded, struct loaded_model *m, uint64_t share)
{
    uint64_t useful = m->plan->kv_bytes_min * m->plan->facts.limits.slots_max;
    uint64_t modest = m->device->facts.kv_default;
    m->kv_rule = "a share of the free memory";
    m->kv_bytes = share;
    if (m->kv_bytes > useful) {
        m->kv_rule = "all that --max-num-seqs can fill";
        m->kv_bytes = useful;
    }
    bool longest = m->plan->kv_bytes_min > modest;
    modest = longest ? m->plan->kv_bytes_min : modest;
    if (m->device->facts.kv_default > 0 && m->kv_bytes > modest) {
        m->kv_bytes = modest;
        struct text rule =
            arena_format(loaded->arena, "the default, %.4g GiB per model", (double)modest / 0x1p30);
        m->kv_rule = longest ? "one sequence of the maximum length" : rule.at;
    }
}

static enum status kv_too_small(const struct loaded *loaded, const struct loaded_device *device,
                                const struct loaded_model *m, struct error *err)
{
    bool several = loaded->devices.count > 1;
    const struct model_facts *facts = &m->plan->facts;
    uint64_t tokens = m->kv_bytes / facts->block_bytes * facts->block_tokens;
    error_set(err, STATUS_NO_MEMORY,
              "model '%s': a sequence of %u tokens needs %.2f MiB for keys and values, and there "
              "are %.2f MiB%s%s: raise --kv-cache-memory",
              m->spec.id, facts->max_model_len, (double)m->plan->kv_bytes_min / 0x1p20,
              (double)m->kv_bytes / 0x1p20, several ? " on " : "", several ? device->label : "");
    size_t used = strlen(err->text);
    if (tokens > 0)
        snprintf(err->text + used, sizeof err->text - used,
                 ", or --max-model-len %" PRIu64 " would fit", tokens);
    return STATUS_NO_MEMORY;
}

// Returns further advice for a plan that does not fit on a GPU: split a decoder over more GPUs, in
// place of copies if it has any.
static const char *split_advice(const struct loaded *loaded, const struct loaded_device *device)
{
    const char *advice = "";
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        const struct loaded_model *m = &loaded->models[i];
        const struct model_settings *s = &m->spec.settings;
        if (device->kind == DEVICE_CPU || !is_on(m, device) || !m->plan->facts.paged ||
            s->tensor_parallel_size >= device->facts.ranks_max)
            continue;
        if (s->data_parallel_size > 1)
            return ", or split the model over the GPUs: --tensor-parallel-size in place of "
                   "--data-parallel-size";
        advice = ", or split a model over several GPUs: --tensor-parallel-size";
    }
    return advice;
}

// Returns advice on the models of a plan that does not fit: --dtype int8 halves weights that are
// held as floats, but does not make codes smaller.
static const char *models_advice(const struct loaded *loaded, const struct loaded_device *device)
{
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        const struct loaded_model *m = &loaded->models[i];
        if (is_on(m, device) && m->plan->facts.dtype != DTYPE_I8 &&
            m->plan->facts.formats[0] == '\0')
            return "serve fewer models, smaller ones or with --dtype int8";
    }
    return "serve fewer or smaller models";
}

static enum status plan_too_large(const struct loaded *loaded, const struct loaded_device *device,
                                  uint64_t needed, struct error *err)
{
    bool several = loaded->devices.count > 1;
    return error_set(err, STATUS_NO_MEMORY,
                     "the plan needs %.2f GiB%s%s and %.2f GiB are free: %s, or lower "
                     "--kv-cache-memory, --max-num-batched-tokens, --max-num-seqs or "
                     "--max-model-len%s",
                     (double)needed / 0x1p30, several ? " of " : "", several ? device->label : "",
                     (double)device->facts.memory_available / 0x1p30, models_advice(loaded, device),
                     split_advice(loaded, device));
}

enum status kv_split(struct loaded *loaded, const struct loaded_device *device, struct error *err)
{
    uint64_t planned = device_planned(loaded, device);
    uint64_t fixed = 0;
    double shares = 0;
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        uint64_t requested = m->spec.settings.kv_cache_memory;
        if (bytes_on(m, device) == 0 || m->plan->kv_bytes_min == 0)
            continue;
        if (requested > 0) {
            m->kv_bytes = requested;
            m->kv_rule = "--kv-cache-memory";
        }
        fixed += requested / gpu_count(m);
        shares += requested == 0 ? m->spec.settings.kv_share : 0;
    }
    uint64_t memory = device->facts.memory_available;
    if (planned + fixed > memory)
        return plan_too_large(loaded, device, planned + fixed, err);
    uint64_t left = memory - planned - fixed;
    uint64_t most = (uint64_t)((double)memory * device->facts.kv_share);
    uint64_t available = left > most ? most : left;
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        uint64_t others_allow = m->kv_bytes; // limit from the GPUs of other ranks; 0: no limit yet
        const char *rule = m->kv_rule;
        if (bytes_on(m, device) == 0 || m->plan->kv_bytes_min == 0)
            continue;
        if (m->spec.settings.kv_cache_memory == 0)
            kv_default(loaded, m,
                       (uint64_t)((double)available * (m->spec.settings.kv_share / shares)) *
                           gpu_count(m));
        if (others_allow > 0 && others_allow < m->kv_bytes) {
            m->kv_bytes = others_allow;
            m->kv_rule = rule;
        }
        if (m->kv_bytes < m->plan->kv_bytes_min)
            return kv_too_small(loaded, device, m, err);
    }
    return STATUS_OK;
}

struct device_need memory_planned(const struct loaded_model *m)
{
    struct device_need need = m->plan->need;
    if (m->kv_bytes == 0)
        return need;
    check(need.count < DEVICE_NEED_MAX, "over %d memory labels", DEVICE_NEED_MAX);
    need.entry[need.count].label = "keys and values";
    need.entry[need.count++].bytes = m->kv_bytes;
    return need;
}

static bool has_earlier_copy(const struct loaded_model *m, const struct loaded_device *device)
{
    for (uint32_t back = 1; back <= m->copy; back++)
        if (m[-(ptrdiff_t)back].device == device)
            return true;
    return false;
}

struct loaded_device *device_choose(const struct loaded *loaded, const struct loaded_model *m)
{
    struct loaded_device *best = NULL;
    uint64_t most = 0;
    if (gpu_count(m) > 1)
        return m->choices[0];
    for (uint32_t i = 0; i < m->choice_count; i++) {
        struct loaded_device *device = m->choices[i];
        uint64_t planned = device_planned(loaded, device), free = device->facts.memory_available;
        uint64_t left = free > planned ? free - planned : 0;
        if (m->choice_count > 1 && has_earlier_copy(m, device))
            continue;
        if (!best || left > most) {
            best = device;
            most = left;
        }
    }
    check(best, "no device is left for copy %u", m->copy);
    return best;
}
