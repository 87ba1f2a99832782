// SPDX-License-Identifier: Apache-2.0
// The cpu device: opening, streams, their scratch memory and the device slot. The asynchronous part
// of the contract is simple here: an op is done when it returns, and wait() never blocks. Ops are
// in op_*.c.
#include "kernels/cpu/internal.h"
#include "kernels/cpu/memory.h"

#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_STRETCH 2.5 // the goal is 3; lower, because measured times are noisy

static enum status index_check(const struct device_options *options, struct error *err)
{
    if (!options->parent && options->index != 0)
        return error_set(err, STATUS_NO_DEVICE, "the cpu device has index 0, not %u",
                         options->index);
    if (!options->parent)
        return STATUS_OK;
    if (options->index >= options->ranks)
        return error_set(err, STATUS_NO_DEVICE, "there is no rank %u of %u", options->index,
                         options->ranks);
    uint32_t threads = threads_count(options->parent->threads);
    if (options->ranks > threads) // ranks on one core would wait for each other in every layer
        return error_set(err, STATUS_UNSUPPORTED,
                         "--tensor-parallel-size %u needs as many threads and the cpu device has "
                         "%u: lower it, or raise --threads",
                         options->ranks, threads);
    return STATUS_OK;
}

// Returns the number of threads of the device; for a rank, its share of the threads of `parent`,
// divided as evenly as possible.
static uint32_t threads_wanted(const struct device_options *options)
{
    if (!options->parent)
        return options->threads;
    uint32_t all = threads_count(options->parent->threads), rank = options->index;
    return all * (rank + 1) / options->ranks - all * rank / options->ranks;
}

enum status cpu_device_open(struct device **out, const struct device_options *options,
                            enum cpu_isa highest, struct error *err)
{
    *out = NULL;
    enum status status = index_check(options, err);
    if (status != STATUS_OK)
        return status;
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return error_set(err, STATUS_NO_MEMORY, "no memory to open the cpu device");
    // before the threads start, because they inherit the permission to use tiles
    device->level = options->parent ? options->parent->level : cpu_isa_find(highest);
    device->kernels = cpu_isa_kernels(device->level);
    device->parent = options->parent;
    status = threads_open(&device->threads, threads_wanted(options), err);
    if (status != STATUS_OK) {
        free(device);
        return status;
    }
    device_slot_init(&device->slot);
    *out = device;
    return STATUS_OK;
}

static enum status cpu_open(struct device **out, const struct device_options *options,
                            struct error *err)
{
    return cpu_device_open(out, options, CPU_ISA_COUNT, err);
}

static void cpu_close(struct device *device)
{
    if (!device)
        return;
    threads_close(device->threads);
    device_slot_deinit(&device->slot);
    free(device);
}

// Returns the default token budget of a step. It is small, because sequences that decode wait for
// the complete step, and products get no faster beyond a panel of rows; with few threads half a
// panel is as fast.
static uint32_t step_tokens(const struct device *device)
{
    const struct device *all = device->parent ? device->parent : device; // ranks share a step
    return threads_count(all->threads) < 8 ? PANEL_ROWS / 2 : PANEL_ROWS;
}

static void cpu_facts(const struct device *device, struct device_facts *out)
{
    *out = (struct device_facts){.step_tokens = step_tokens(device),
                                 .exact = true,
                                 .memory_available = cpu_memory_available(),
                                 .experts = true,
                                 .codes = (1u << WEIGHT_FORMAT_CODES) - (1u << WEIGHT_Q4_0),
                                 .code_tables = true,
                                 .kv_int8 = true,
                                 .float32_runs_as = DTYPE_F32,
                                 .quantised_runs_as = DTYPE_BF16,
                                 .unheld_runs_as = DTYPE_I8,
                                 .kv_share = 0.25, // leaves memory for other programs
                                 .kv_default = 1ull << 30,
                                 .step_stretch = STEP_STRETCH,
                                 .ranks_max = RANKS_MAX};
    snprintf(out->name, sizeof out->name, "cpu: %u threads, %s", threads_count(device->threads),
             cpu_isa_name(device->level));
    for (int i = 0; i < DTYPE_COUNT; i++)
        out->activation[i] = DTYPE_F32;
}

struct scratch_sizes {
    size_t panel, sums, attn, partial, sample; // bytes
};

static struct attn_capacity attn_capacity_of(const struct device *device,
                                             const struct stream_limits *limits)
{
    size_t tile = (size_t)ATTN_TILE_ROWS * limits->attn.dim * sizeof(float);
    return attn_plan_capacity(limits, threads_count(device->threads) * ATTN_PARTIALS * tile, 0);
}

// A panel holds at least 32 rows of the widest product, so that any product can be cut into pieces
// of rows.
static struct scratch_sizes scratch_of(const struct device *device,
                                       const struct stream_limits *limits)
{
    uint32_t threads = threads_count(device->threads);
    size_t tokens = round_up(limits->step.tokens_max > 0 ? limits->step.tokens_max : 1, 32);
    size_t rows = tokens < PANEL_ROWS ? tokens : PANEL_ROWS;
    size_t widest = round_up(limits->width_max, 64);
    size_t usual = widest < 16384 ? widest : 16384;
    size_t panel = rows * usual * sizeof(uint16_t);
    size_t least = 32 * widest * sizeof(uint16_t);
    struct scratch_sizes sizes = {
        .panel = round_up(panel > least ? panel : least, 256),
        .sums = (size_t)threads * SLAB_GROUP * PANEL_ROWS * SLAB_COLUMNS * sizeof(float),
        .attn = threads * attn_scratch_floats(limits->attn.dim) * sizeof(float),
        .partial = attn_capacity_of(device, limits).partials * attn_state_floats(limits->attn.dim) *
                   sizeof(float),
        .sample = round_up((size_t)threads * 3 * limits->step.vocab * sizeof(float), 256),
    };
    return sizes;
}

static enum status cpu_need(const struct device *device, const struct stream_limits *limits,
                            struct device_need *out, struct error *err)
{
    (void)err;
    struct scratch_sizes sizes = scratch_of(device, limits);
    *out = (struct device_need){.count = 3};
    out->entry[0].label = "scratch of products";
    out->entry[0].bytes = sizes.panel + sizes.sums;
    out->entry[1].label = "scratch of attention";
    out->entry[1].bytes = sizes.attn + sizes.partial;
    out->entry[2].label = "scratch of sampling";
    out->entry[2].bytes = sizes.sample;
    return STATUS_OK;
}

static struct device_slot *device_slot_of(const struct stream *stream)
{
    struct device *device = stream->device;
    return device->parent ? &device->parent->slot : &device->slot;
}

static enum status cpu_stream_open(struct device *device, struct stream **out,
                                   const struct stream_limits *limits, struct error *err)
{
    *out = NULL;
    if (limits->attn.dim > 256 || limits->width_max == 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "heads of %u and products of width %u are not supported; heads go up to "
                         "256",
                         limits->attn.dim, limits->width_max);
    struct scratch_sizes sizes = scratch_of(device, limits);
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return error_set(err, STATUS_NO_MEMORY, "no memory to open a stream");
    stream->device = device;
    stream->limits = *limits;
    stream->scratch_bytes = sizes.panel + sizes.sums + sizes.attn + sizes.partial + sizes.sample;
    enum status status = cpu_memory_alloc(device, &stream->scratch, stream->scratch_bytes, err);
    if (status != STATUS_OK) {
        free(stream);
        return status;
    }
    char *at = stream->scratch;
    stream->panel = at;
    stream->panel_bytes = sizes.panel;
    stream->sums = (float *)(void *)(at += sizes.panel);
    stream->attn = (float *)(void *)(at += sizes.sums);
    stream->attn_floats = attn_scratch_floats(limits->attn.dim);
    stream->attn_capacity = attn_capacity_of(device, limits);
    stream->partial = (float *)(void *)(at += sizes.attn);
    stream->sample = (float *)(void *)(at += sizes.partial);
    device_slot_join(device_slot_of(stream), &stream->slot_user);
    *out = stream;
    return STATUS_OK;
}

static void cpu_stream_close(struct stream *stream)
{
    if (!stream)
        return;
    device_slot_leave(device_slot_of(stream), &stream->slot_user);
    cpu_memory_free(stream->device, stream->scratch, stream->scratch_bytes);
    free(stream);
}

static enum status cpu_upload(struct device *device, void *to, const void *from, size_t bytes,
                              struct error *err)
{
    (void)device;
    (void)err;
    memcpy(to, from, bytes);
    return STATUS_OK;
}

static void cpu_slot_acquire(struct stream *stream)
{
    device_slot_acquire(device_slot_of(stream), &stream->slot_user);
}

static void cpu_slot_release(struct stream *stream)
{
    device_slot_release(device_slot_of(stream), &stream->slot_user);
}

static void cpu_slot_announce(struct stream *stream, bool more)
{
    device_slot_announce(device_slot_of(stream), &stream->slot_user, more);
}

uint64_t cpu_stream_steps(const struct stream *stream)
{
    return stream->slot_user.acquired;
}

static size_t cpu_private_bytes(const struct device *device, const struct stream_limits *limits)
{
    struct attn_capacity capacity = attn_capacity_of(device, limits);
    return attn_plan_bytes(&capacity);
}

static size_t cpu_step_plan(struct stream *stream, struct step *host)
{
    return attn_plan_fill(&stream->limits, &stream->attn_capacity, host);
}

static enum status cpu_copy_in(struct stream *stream, void *to, const void *from, size_t bytes)
{
    (void)stream;
    if (bytes > 0)
        memmove(to, from, bytes);
    return STATUS_OK;
}

static enum status cpu_copy_out(struct stream *stream, void *to, const void *from, size_t bytes)
{
    return cpu_copy_in(stream, to, from, bytes);
}

static enum status cpu_signal(struct stream *stream, uint32_t *word, uint32_t value)
{
    (void)stream;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return STATUS_OK;
}

static enum status cpu_wait(struct stream *stream, const uint32_t *word, uint32_t value,
                            uint64_t deadline_ns, struct error *err)
{
    (void)stream;
    (void)deadline_ns;
    uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if ((int32_t)(seen - value) >= 0)
        return STATUS_OK;
    return error_set(err, STATUS_TIMEOUT,
                     "the cpu waits for signal %u and has no work left (last signal: %u)", value,
                     seen);
}

static enum status cpu_graph_begin(struct stream *stream)
{
    (void)stream;
    return STATUS_UNSUPPORTED;
}

static enum status cpu_graph_end(struct stream *stream, struct graph **out, struct error *err)
{
    (void)stream;
    *out = NULL;
    return error_set(err, STATUS_UNSUPPORTED, "the cpu device records no graphs");
}

static enum status cpu_graph_launch(struct stream *stream, struct graph *graph)
{
    (void)stream;
    (void)graph;
    return STATUS_UNSUPPORTED;
}

static void cpu_graph_close(struct graph *graph)
{
    (void)graph;
}

// Ranks are loaded one after the other, so all threads work on each.
static struct threads *cpu_threads(struct device *device)
{
    return (device->parent ? device->parent : device)->threads;
}

#define OP_OF(name) cpu_##name
#include "kernels/op_table.inc"
#undef OP_OF

const struct device_api *device_cpu(void)
{
    static const struct device_api api = {
        .abi = DEVICE_ABI,
        .name = "cpu",
        .open = cpu_open,
        .close = cpu_close,
        .facts = cpu_facts,
        .need = cpu_need,
        .memory_alloc = cpu_memory_alloc,
        .memory_free = cpu_memory_free,
        .host_alloc = cpu_memory_alloc,
        .host_free = cpu_memory_free,
        .upload = cpu_upload,
        .weight_bytes = cpu_weight_bytes,
        .weight_put = cpu_weight_put,
        .weight_finish = cpu_weight_finish,
        .threads = cpu_threads,
        .stream_open = cpu_stream_open,
        .stream_close = cpu_stream_close,
        .device_slot_acquire = cpu_slot_acquire,
        .device_slot_release = cpu_slot_release,
        .device_slot_announce = cpu_slot_announce,
        .step_private_bytes = cpu_private_bytes,
        .step_plan = cpu_step_plan,
        .copy_in = cpu_copy_in,
        .copy_out = cpu_copy_out,
        .signal = cpu_signal,
        .wait = cpu_wait,
        .graph_begin = cpu_graph_begin,
        .graph_end = cpu_graph_end,
        .graph_launch = cpu_graph_launch,
        .graph_close = cpu_graph_close,
        .comm_open = cpu_comm_open,
        .comm_abort = cpu_comm_abort,
        .comm_close = cpu_comm_close,
        .ops = &op_rows,
    };
    return &api;
}
