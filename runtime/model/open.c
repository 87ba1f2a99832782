// SPDX-License-Identifier: Apache-2.0
// model_open and model_close: memory of the planned sizes, weights, tables, graphs. Loading thread;
// afterwards the model belongs to its engine's thread.
#include "runtime/model/forward.h"

#include "base/arena.h"
#include "runtime/model/group.h"
#include "runtime/model/link.h"
#include "runtime/model/rank_load.h"
#include "runtime/model/rope.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ROPE_CHUNK = 1024 }; // positions computed and uploaded at a time

// Refuses KV memory that is less than one sequence needs; the error names a length that would fit.
static enum status kv_check(const struct model_plan *plan, uint64_t kv_bytes, struct error *err)
{
    if (plan->facts.block_bytes == 0 || kv_bytes >= plan->kv_bytes_min)
        return STATUS_OK;
    uint64_t blocks = kv_bytes / plan->facts.block_bytes;
    if (blocks == 0)
        return error_set(err, STATUS_TOO_LARGE,
                         "%" PRIu64 " bytes of KV memory do not hold one block of %" PRIu64
                         " bytes: raise --kv-cache-memory",
                         kv_bytes, plan->facts.block_bytes);
    return error_set(err, STATUS_TOO_LARGE,
                     "one sequence of %u tokens needs %" PRIu64 " bytes of KV memory and there are "
                     "%" PRIu64 ": --max-model-len %" PRIu64 " would fit, or raise "
                     "--kv-cache-memory",
                     plan->facts.max_model_len, plan->kv_bytes_min, kv_bytes,
                     blocks * plan->facts.block_tokens);
}

static enum status model_memory_alloc(struct model *m, struct error *err)
{
    const struct device_api *api = m->api;
    const struct model_layout *at = &m->layout;
    enum status status = STATUS_OK;
    if (m->weights_bytes > 0)
        status = api->memory_alloc(m->device, &m->weights_memory, m->weights_bytes, err);
    if (status == STATUS_OK)
        status = api->memory_alloc(m->device, &m->activations, at->activation_bytes, err);
    if (status == STATUS_OK)
        status = api->memory_alloc(m->device, &m->state, at->state_bytes, err);
    if (status == STATUS_OK && at->rope_bytes > 0)
        status = api->memory_alloc(m->device, &m->rope, at->rope_bytes, err);
    if (status == STATUS_OK)
        status = api->host_alloc(m->device, &m->host, at->host_bytes, err);
    if (status == STATUS_OK && m->facts.block_count > 0)
        status = kv_memory_open(&m->kv, api, m->device, m->block_bytes, m->facts.block_count, err);
    return status;
}

// Sets the pointers into the allocated memory.
static void pointers_set(struct model *m)
{
    const struct model_layout *at = &m->layout;
    bool sampled = m->facts.kind == MODEL_GENERATOR;
    m->slots = (struct slot_state){
        .last_token = model_state(m, at->last_token),
        .block_table = m->facts.limits.blocks_max ? model_state(m, at->block_table) : NULL,
        .params = sampled ? model_state(m, at->params) : NULL,
        .done = model_state(m, at->done),
        .penalty = m->facts.limits.penalty_rows ? model_state(m, at->penalty) : NULL,
        .bias = sampled ? model_state(m, at->bias) : NULL,
    };
    char *host = m->host;
    for (uint32_t i = 0; i < MODEL_HOST_STEPS; i++)
        m->host_steps[i] = (struct host_step){
            .record = (struct step *)(host + at->records + i * at->record_bytes),
            .results = (struct sample_result *)(host + at->results + i * at->results_bytes),
            .tops = (struct sample_top *)(host + at->tops + i * at->tops_bytes),
            .values = (float *)(host + at->host_values + i * at->values_bytes),
            .masks = (uint32_t *)(host + at->host_masks + i * at->masks_bytes),
        };
    m->word = (uint32_t *)(host + at->word);
    *m->word = 0;
}

// Computes the factors of queries and copies them to the device.
static enum status query_factors_upload(struct model *m, uint32_t index, struct error *err)
{
    const struct rope_config *rope = &m->config.ropes[index];
    if (rope->query_beta == 0)
        return STATUS_OK;
    uint32_t count = m->facts.max_model_len;
    float *factors = heap_alloc(count * sizeof *factors);
    for (uint32_t i = 0; i < count; i++)
        factors[i] = rope_query_factor(rope, i);
    char *to = (char *)m->rope + m->layout.query_factors[index];
    enum status status = m->api->upload(m->device, to, factors, count * sizeof *factors, err);
    heap_free(factors);
    return status;
}

// Computes a rotary table and copies it to the device.
static enum status rope_upload(struct model *m, uint32_t index, struct error *err)
{
    const struct rope_config *rope = &m->config.ropes[index];
    uint32_t pairs = rope->dim / 2;
    double frequencies[CONFIG_ROPE_FACTORS_MAX];
    struct rope_span span = {.frequencies = frequencies, .pairs = pairs};
    span.scale = rope_frequencies(frequencies, rope, m->config.positions, m->facts.max_model_len);
    size_t row = pairs * 2 * sizeof(float);
    char *to = (char *)m->rope + m->layout.rope[index];
    float *table = heap_alloc(ROPE_CHUNK * row);
    enum status status = STATUS_OK;
    for (uint32_t first = 0; first < m->facts.max_model_len && status == STATUS_OK;
         first += ROPE_CHUNK) {
        uint32_t left = m->facts.max_model_len - first;
        span.first = first;
        span.count = left < ROPE_CHUNK ? left : ROPE_CHUNK;
        rope_table(table, &span);
        status = m->api->upload(m->device, to + first * row, table, span.count * row, err);
    }
    heap_free(table);
    return status == STATUS_OK ? query_factors_upload(m, index, err) : status;
}

// Records the forward pass of a decode step of `rows` rows, all of them padding. prep is not
// recorded, because its counts change in each step.
static enum status graph_record(struct model *m, uint32_t rows, struct error *err)
{
    struct step *host = m->host_steps[0].record;
    struct batch *none = heap_alloc(batch_bytes(&m->facts.limits));
    batch_init(none, &m->facts.limits);
    step_build(host, m, none, rows);
    heap_free(none);
    enum status status = m->api->graph_begin(m->stream);
    if (status == STATUS_OK)
        status = forward_run(m, host);
    struct graph *graph = NULL;
    enum status ended = m->api->graph_end(m->stream, &graph, err);
    if (ended != STATUS_OK)
        return error_prefix(err, "recording a decode step of %u rows", rows);
    if (status != STATUS_OK) {
        m->api->graph_close(graph);
        return error_set(err, status, "a decode step of %u rows could not be recorded", rows);
    }
    m->graphs[m->graph_count++].graph = graph;
    return STATUS_OK;
}

enum status rank_record(struct model *m, struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < m->limits.graphs; i++)
        status = graph_record(m, m->graphs[i].rows, err);
    return status;
}

// Returns the factor of the embeddings, 0 for none. The reference rounds the root to the type of
// the checkpoint.
static float embed_scale(const struct model_parts *parts)
{
    const struct model_config *c = &parts->config;
    float scale = c->embed_root ? sqrtf((float)c->hidden) : (float)c->embed_factor;
    if (c->embed_root && parts->weights.side == DTYPE_BF16)
        scale = bf16_to_f32(f32_to_bf16(scale));
    if (c->embed_root && parts->weights.side == DTYPE_F16)
        scale = f16_to_f32(f32_to_f16(scale));
    return scale;
}

static struct model *model_new(const struct model_plan *plan, uint64_t kv_bytes)
{
    const struct model_parts *parts = plan->parts;
    struct model *m = heap_alloc_zeroed(1, sizeof *m);
    m->facts = plan->facts;
    m->config = parts->config;
    m->sizes = parts->sizes;
    m->api = parts->api;
    m->device = parts->device;
    m->act = parts->act;
    m->limits = parts->stream;
    m->layout = parts->layout;
    m->step = parts->step;
    m->block_bytes = parts->block_bytes;
    forward_lists_make(&m->lists, &parts->config);
    m->embed_scale = embed_scale(parts);
    struct device_facts facts;
    parts->api->facts(parts->device, &facts);
    m->parts_apart = m->sizes.ranks > 1 && !facts.sums_in_place;
    m->meet_layers = facts.meet_layers;
    memcpy(m->shapes, parts->shapes, sizeof m->shapes);
    memcpy(m->kv_strides, parts->kv_strides, sizeof m->kv_strides);
    m->weights_bytes = parts->options.copy_of ? 0 : parts->weights.bytes;
    m->weights = heap_alloc_zeroed(parts->weights.table_count, sizeof *m->weights);
    m->top_of_slot = heap_alloc_zeroed(m->facts.limits.slots_max, 1);
    for (uint32_t i = 0; i < parts->stream.graphs; i++)
        m->graphs[i].rows = parts->graph_rows[i];
    if (m->facts.block_bytes > 0) {
        uint64_t blocks = kv_bytes / m->facts.block_bytes;
        m->facts.block_count = blocks > INT32_MAX ? INT32_MAX : (uint32_t)blocks;
    }
    return m;
}

// Creates a rank's model and allocates its memory.
static enum status rank_create(struct model **out, const struct model_plan *plan, uint64_t kv_bytes,
                               struct error *err)
{
    check(plan->parts->tensors || plan->parts->options.load_dummy, "a plan opens one model");
    struct model *m = *out = plan->parts->model = model_new(plan, kv_bytes);
    atomic_store(&plan->parts->busy, true);
    enum status status = model_memory_alloc(m, err);
    if (status == STATUS_OK)
        pointers_set(m);
    atomic_store(&plan->parts->busy, false);
    return status;
}

// Returns `status`, or the error of a file that was truncated or changed while it was read.
static enum status files_check(const struct model_plan *plan, enum status status, struct error *err)
{
    const struct model_parts *parts = plan->parts;
    if (!parts->tensors)
        return status;
    status = tensors_check(parts->tensors, status, err);
    for (uint32_t i = 0; i < parts->config.module_count; i++)
        status = tensors_check(parts->module_tensors[i], status, err);
    return status;
}

// Opens what a rank's model needs besides weights, and closes its files, which are no longer
// needed.
static enum status rank_finish(struct model *m, const struct model_plan *plan, struct error *err)
{
    struct tensors *tensors = plan->parts->tensors;
    atomic_store(&plan->parts->busy, true);
    struct hash hash = tensors ? tensors_hash(tensors) : (struct hash){0};
    enum status status = files_check(plan, STATUS_OK, err);
    for (uint32_t i = 0; i < m->config.rope_count && status == STATUS_OK; i++)
        status = rope_upload(m, i, err);
    if (status == STATUS_OK)
        status = m->api->stream_open(m->device, &m->stream, &m->limits, err);
    if (status == STATUS_OK && m->limits.sums_bytes > 0)
        m->sums = m->api->sums_buffer(m->stream);
    atomic_store(&plan->parts->busy, false);
    if (status != STATUS_OK || !tensors)
        return status;
    m->facts.checkpoint_hash[0] = hash.low;
    m->facts.checkpoint_hash[1] = hash.high;
    model_files_close(plan->parts);
    return STATUS_OK;
}

// Opens the models of all ranks of this process, except their graphs, whose collectives need the
// communicator. models: of each rank, also those of the others after a failure.
static enum status ranks_open(struct model **models, struct rank_load_args *args, uint64_t kv_bytes,
                              struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t r = 0; r < args->count && status == STATUS_OK; r++) {
        const struct model_plan *plan = args->plans[r];
        if (r > 0)
            kv_bytes = plan->facts.block_bytes * models[0]->facts.block_count;
        status = rank_create(&models[r], plan, kv_bytes, err);
        if (r > 0)
            models[0]->others[r] = models[r];
    }
    args->models = models;
    if (status == STATUS_OK)
        status = ranks_load(args, err);
    bool hangs = status == STATUS_DEVICE_FAULT || status == STATUS_TIMEOUT;
    for (uint32_t r = 0; r < args->count && status != STATUS_OK && !hangs; r++)
        status = files_check(args->plans[r], status, err);
    for (uint32_t r = 0; r < args->count && status == STATUS_OK; r++)
        status = rank_finish(models[r], args->plans[r], err);
    return status;
}

// Opens the communicator of the ranks' streams and the ranks' threads.
static enum status ranks_join(struct model *const *models, uint32_t count,
                              const struct model_options *options, struct error *err)
{
    struct model *m = models[0];
    struct stream *streams[RANKS_MAX];
    for (uint32_t r = 0; r < count; r++)
        streams[r] = models[r]->stream;
    enum status status = m->api->comm_open(&m->comm, streams, count,
                                           options->link ? &options->link->comm : NULL, err);
    const struct group_args args = {models,  options->device_names, count, m->api,
                                    m->comm, options->link};
    if (status == STATUS_OK)
        status = group_open(&m->group, &args, err);
    for (uint32_t r = 0; r < count && status == STATUS_OK && m->meet_layers > 0; r++)
        models[r]->meets = m->group;
    if (status == STATUS_OK && options->start_ns > 0)
        group_deadline(m->group, options->start_ns);
    return status;
}

// Prepares the steps. All ranks finish each part before one of them begins the next
// (group_start).
static enum status model_start(struct model *m, struct error *err)
{
    if (m->group)
        return group_start(m->group, err);
    enum status status = rank_tune(m, err);
    if (status == STATUS_OK)
        status = rank_warm(m, err);
    return status == STATUS_OK ? rank_record(m, err) : status;
}

uint32_t model_plan_loading(const struct model_plan *plan)
{
    uint32_t count = model_ranks_here(plan->parts);
    for (uint32_t r = 0; r < count; r++)
        if (atomic_load(&(r > 0 ? plan->parts->others[r] : plan)->parts->busy))
            return r;
    return plan->parts->sizes.ranks;
}

uint32_t model_failed_rank(const struct model *m)
{
    return m->group ? group_failed_rank(m->group) : m->sizes.ranks;
}

// Returns true if closing the model could block: a rank or a device did not finish its work.
static bool close_would_block(const struct model *m, enum status status)
{
    return status == STATUS_TIMEOUT || (m && m->group && group_hangs(m->group));
}

enum status model_open(struct model **out, const struct model_plan *plan, uint64_t kv_bytes,
                       void (*progress)(void *context, uint64_t done, uint64_t total),
                       void *context, struct error *err)
{
    const struct model_plan *plans[RANKS_MAX] = {plan};
    struct model *models[RANKS_MAX] = {NULL};
    struct rank_load_args args = {.plans = plans,
                                  .count = model_ranks_here(plan->parts),
                                  .progress = progress,
                                  .context = context};
    for (uint32_t r = 1; r < args.count; r++)
        plans[r] = plan->parts->others[r];
    enum status status = kv_check(plan, kv_bytes, err);
    if (status == STATUS_OK)
        status = ranks_open(models, &args, kv_bytes, err);
    struct model *m = models[0];
    if (status == STATUS_OK && (args.count > 1 || plan->parts->options.link))
        status = ranks_join(models, args.count, &plan->parts->options, err);
    if (status == STATUS_OK)
        status = model_start(m, err);
    if (close_would_block(m, status))
        return err->status = STATUS_TIMEOUT;
    if (status != STATUS_OK) {
        model_close(m);
        return status;
    }
    *out = m;
    return STATUS_OK;
}

static void device_free(const struct model *m, void *at, size_t bytes)
{
    if (at)
        m->api->memory_free(m->device, at, bytes);
}

static void rank_close(struct model *m)
{
    if (!m)
        return;
    if (m->stream)
        m->api->stream_close(m->stream);
    kv_memory_close(&m->kv);
    if (m->host)
        m->api->host_free(m->device, m->host, m->layout.host_bytes);
    device_free(m, m->rope, m->layout.rope_bytes);
    device_free(m, m->state, m->layout.state_bytes);
    device_free(m, m->activations, m->layout.activation_bytes);
    device_free(m, m->weights_memory, m->weights_bytes);
    heap_free(m->top_of_slot);
    heap_free(m->weights);
    heap_free(m);
}

static void graphs_close(struct model *m)
{
    for (uint32_t i = 0; i < m->graph_count; i++)
        m->api->graph_close(m->graphs[i].graph);
}

// Graphs contain collectives, so the graphs of all ranks are closed before the communicator.
void model_close(struct model *m)
{
    if (!m)
        return;
    group_close(m->group);
    graphs_close(m);
    for (uint32_t r = 1; r < RANKS_MAX && m->others[r]; r++)
        graphs_close(m->others[r]);
    if (m->comm)
        m->api->comm_close(m->comm);
    for (uint32_t r = 1; r < RANKS_MAX; r++)
        rank_close(m->others[r]);
    rank_close(m);
}

const struct model_facts *model_facts(const struct model *m)
{
    return &m->facts;
}
