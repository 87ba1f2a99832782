// SPDX-License-Identifier: Apache-2.0
// See device_wrap.h. Its globals are the state of the one device.
#include "tests/runtime/device_wrap.h"

#include "base/arena.h"

#include <string.h>

enum { RECORDED_MAX = 256, ARGS_MAX = 512 };

enum op_index {
#define INDEX(name) OP_INDEX_##name,
    OP_LIST(INDEX)
#undef INDEX
};

struct recorded {
    enum op_index op;
    _Alignas(16) char args[ARGS_MAX];
};

struct graph {
    uint32_t count;
    struct recorded ops[RECORDED_MAX];
};

static struct device_wrap_counts counts;
static struct device_api wrapped;
static struct op_table recording_ops;
static struct graph *recording; // the graph that ops are recorded to; NULL: ops run
static uint32_t steps_in_flight;
static bool has_graphs;
static enum dtype float32_runs_as;
static uint32_t failing; // number of the op that fails; 0: none

static uint32_t refusing; // number of the load call that fails; 0: none

static enum status load_count(struct error *err)
{
    if (++counts.loads != refusing)
        return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "load call %u is refused", counts.loads);
}

static void facts(const struct device *device, struct device_facts *out)
{
    device_cpu()->facts(device, out);
    out->steps_in_flight = steps_in_flight;
    out->graphs = has_graphs;
    out->float32_runs_as = float32_runs_as;
}

static enum status memory_alloc(struct device *device, void **out, size_t bytes, struct error *err)
{
    *out = NULL;
    enum status status = load_count(err);
    if (status != STATUS_OK)
        return status;
    counts.taken += bytes;
    return device_cpu()->memory_alloc(device, out, bytes, err);
}

static void memory_free(struct device *device, void *at, size_t bytes)
{
    counts.given += bytes;
    device_cpu()->memory_free(device, at, bytes);
}

static enum status host_alloc(struct device *device, void **out, size_t bytes, struct error *err)
{
    *out = NULL;
    enum status status = load_count(err);
    if (status != STATUS_OK)
        return status;
    counts.taken += bytes;
    return device_cpu()->host_alloc(device, out, bytes, err);
}

static void host_free(struct device *device, void *at, size_t bytes)
{
    counts.given += bytes;
    device_cpu()->host_free(device, at, bytes);
}

static enum status upload(struct device *device, void *to, const void *from, size_t bytes,
                          struct error *err)
{
    enum status status = load_count(err);
    if (status != STATUS_OK)
        return status;
    if (counts.uploads++ == 0)
        counts.upload_at = to;
    check((char *)to == counts.upload_at + counts.uploaded, "upload %u leaves a gap",
          counts.uploads);
    counts.uploaded += bytes;
    return device_cpu()->upload(device, to, from, bytes, err);
}

static enum status weight_put(struct device *device, struct weight *weight, uint32_t first_row,
                              const struct weight_source *source, struct error *err)
{
    enum status status = load_count(err);
    return status == STATUS_OK ? device_cpu()->weight_put(device, weight, first_row, source, err)
                               : status;
}

static enum status weight_finish(struct device *device, struct weight *weight, struct error *err)
{
    enum status status = load_count(err);
    return status == STATUS_OK ? device_cpu()->weight_finish(device, weight, err) : status;
}

static enum status stream_open(struct device *device, struct stream **out,
                               const struct stream_limits *limits, struct error *err)
{
    *out = NULL;
    enum status status = load_count(err);
    return status == STATUS_OK ? device_cpu()->stream_open(device, out, limits, err) : status;
}

static enum status copy_in(struct stream *stream, void *to, const void *from, size_t bytes)
{
    counts.copied = bytes;
    return device_cpu()->copy_in(stream, to, from, bytes);
}

static enum status graph_begin(struct stream *stream)
{
    (void)stream;
    recording = heap_alloc_zeroed(1, sizeof *recording);
    return STATUS_OK;
}

static enum status graph_end(struct stream *stream, struct graph **out, struct error *err)
{
    (void)stream;
    (void)err;
    *out = recording;
    recording = NULL;
    counts.graphs++;
    return STATUS_OK;
}

static void graph_close(struct graph *graph)
{
    heap_free(graph);
}

static void record(enum op_index op, const void *args, size_t bytes)
{
    check(recording->count < RECORDED_MAX && bytes <= ARGS_MAX, "op %u", recording->count);
    struct recorded *r = &recording->ops[recording->count++];
    r->op = op;
    memcpy(r->args, args, bytes);
    if (op == OP_INDEX_attn) { // a replay must not read the host record of its recording
        struct attn_args *attn = (struct attn_args *)r->args;
        attn->step_host = attn->step;
    }
}

// Counts the rows of a product. Called before an op runs, also in a replay.
static void note(enum op_index op, const void *args)
{
    if (op != OP_INDEX_gemm)
        return;
    counts.last_rows = ((const struct gemm_args *)args)->rows;
    counts.first_rows = counts.first_rows > 0 ? counts.first_rows : counts.last_rows;
}

#define RECORD(name)                                                                               \
    static enum status wrap_##name(struct stream *stream, const struct name##_args *args)          \
    {                                                                                              \
        if (++counts.ops == failing)                                                               \
            return STATUS_DEVICE_FAULT;                                                            \
        if (!recording) {                                                                          \
            note(OP_INDEX_##name, args);                                                           \
            return device_cpu()->ops->name(stream, args);                                          \
        }                                                                                          \
        record(OP_INDEX_##name, args, sizeof *args);                                               \
        return STATUS_OK;                                                                          \
    }
OP_LIST(RECORD)
#undef RECORD

static enum status replay(struct stream *stream, const struct recorded *r)
{
    note(r->op, r->args);
    switch (r->op) {
#define REPLAY(name)                                                                               \
    case OP_INDEX_##name:                                                                          \
        return device_cpu()->ops->name(stream, (const struct name##_args *)r->args);
        OP_LIST(REPLAY)
#undef REPLAY
    }
    return STATUS_UNSUPPORTED;
}

static enum status graph_launch(struct stream *stream, struct graph *graph)
{
    counts.replays++;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < graph->count; i++)
        status = replay(stream, &graph->ops[i]);
    return status;
}

const struct device_api *device_wrap(uint32_t flight, bool graphs)
{
    counts = (struct device_wrap_counts){0};
    refusing = 0;
    steps_in_flight = flight;
    has_graphs = graphs;
    float32_runs_as = DTYPE_F32;
    wrapped = *device_cpu();
    wrapped.facts = facts;
    wrapped.memory_alloc = memory_alloc;
    wrapped.memory_free = memory_free;
    wrapped.host_alloc = host_alloc;
    wrapped.host_free = host_free;
    wrapped.upload = upload;
    wrapped.weight_put = weight_put;
    wrapped.weight_finish = weight_finish;
    wrapped.stream_open = stream_open;
    wrapped.copy_in = copy_in;
    wrapped.graph_begin = graph_begin;
    wrapped.graph_end = graph_end;
    wrapped.graph_launch = graph_launch;
    wrapped.graph_close = graph_close;
#define FIELD(name) recording_ops.name = wrap_##name;
    OP_LIST(FIELD)
#undef FIELD
    wrapped.ops = &recording_ops;
    return &wrapped;
}

const struct device_wrap_counts *device_wrap_counts(void)
{
    return &counts;
}

void device_wrap_float32(enum dtype dtype)
{
    float32_runs_as = dtype;
}

void device_wrap_fail(uint32_t op)
{
    counts.ops = counts.first_rows = counts.last_rows = 0;
    failing = op;
}

void device_wrap_refuse(uint32_t n)
{
    counts.loads = 0;
    refusing = n;
}
