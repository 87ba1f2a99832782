// SPDX-License-Identifier: Apache-2.0
// The start of a model that is split among several ranks: its parts, and the graphs with their
// communicator. The device is a CPU with ops that do nothing, except the collectives.
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

// A device whose graphs contain only the collectives, which run when they are recorded.
static bool comm_there;
static _Atomic uint32_t recorded, closed_early, closed_late;

#define SKIP(name)                                                                                 \
    static enum status skip_##name(struct stream *stream, const struct name##_args *args)          \
    {                                                                                              \
        (void)stream;                                                                              \
        (void)args;                                                                                \
        return STATUS_OK;                                                                          \
    }
OP_LIST(SKIP)
#undef SKIP

static void graph_facts(const struct device *device, struct device_facts *out)
{
    device_cpu()->facts(device, out);
    out->graphs = true;
}

static enum status graph_comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                                   const struct comm_link *link, struct error *err)
{
    comm_there = true;
    return device_cpu()->comm_open(out, streams, count, link, err);
}

static void graph_comm_close(struct comm *comm)
{
    comm_there = false;
    device_cpu()->comm_close(comm);
}

static enum status graph_begin(struct stream *stream)
{
    (void)stream;
    return STATUS_OK;
}

static enum status graph_end(struct stream *stream, struct graph **out, struct error *err)
{
    (void)err;
    *out = (struct graph *)stream; // never dereferenced
    atomic_fetch_add(&recorded, 1);
    return STATUS_OK;
}

static void graph_close(struct graph *graph)
{
    (void)graph;
    atomic_fetch_add(comm_there ? &closed_early : &closed_late, 1);
}

static struct device_api graph_api(struct op_table *ops)
{
    struct device_api api = *device_cpu();
#define FIELD(name) ops->name = skip_##name;
    OP_LIST(FIELD)
#undef FIELD
    ops->all_reduce = device_cpu()->ops->all_reduce;
    ops->all_gather = device_cpu()->ops->all_gather;
    api.ops = ops;
    api.facts = graph_facts;
    api.comm_open = graph_comm_open;
    api.comm_close = graph_comm_close;
    api.graph_begin = graph_begin;
    api.graph_end = graph_end;
    api.graph_close = graph_close;
    return api;
}

// The graphs of all ranks are recorded together, with the communicator that they need, and are
// closed before it.
static void test_graphs_live_within_the_communicator(void **state)
{
    (void)state;
    char folder[64];
    struct rig rig;
    struct op_table ops;
    struct device_api api = graph_api(&ops);
    struct model_options options = rig_options();
    options.max_num_seqs = 4; // graphs of 1, 2 and 4 rows
    golden_folder(folder, "llama", DTYPE_F32);
    rig_open_ranks(&rig, &api, folder, &options, 2);
    assert_int_equal(recorded, 2 * 3);
    rig_close(&rig);
    assert_int_equal(closed_early, 2 * 3);
    assert_int_equal(closed_late, 0);
    folder_remove(folder);
}

// Each part of a start takes longer on the last rank than on the others. tuned: ranks that have
// tuned; waited: waits for warm-up steps that have ended; reduced_early, recorded_early:
// collectives and recordings that began before all ranks had finished the part before.
enum { RANKS = 2, STEPS = 2, LATE_US = 30000 };
static const struct stream *late_stream;
static uint32_t opened;
static _Atomic uint32_t tuned, waited, reduced, reduced_early, recorded_early;

static enum status start_stream_open(struct device *device, struct stream **out,
                                     const struct stream_limits *limits, struct error *err)
{
    enum status status = device_cpu()->stream_open(device, out, limits, err);
    if (++opened == RANKS)
        late_stream = *out;
    return status;
}

static uint32_t start_tune(struct stream *stream, uint32_t rows)
{
    if (rows == 0)
        return 1;
    if (stream == late_stream)
        usleep(LATE_US);
    atomic_fetch_add(&tuned, 1);
    return 0;
}

static enum status start_reduce(struct stream *stream, const struct all_reduce_args *args)
{
    atomic_fetch_add(&reduced, 1);
    if (atomic_load(&tuned) < RANKS)
        atomic_fetch_add(&reduced_early, 1);
    return device_cpu()->ops->all_reduce(stream, args);
}

static enum status start_wait(struct stream *stream, const uint32_t *word, uint32_t value,
                              uint64_t deadline_ns, struct error *err)
{
    enum status status = device_cpu()->wait(stream, word, value, deadline_ns, err);
    if (stream == late_stream)
        usleep(LATE_US);
    atomic_fetch_add(&waited, 1);
    return status;
}

static enum status start_graph_begin(struct stream *stream)
{
    if (atomic_load(&waited) < RANKS * STEPS)
        atomic_fetch_add(&recorded_early, 1);
    return graph_begin(stream);
}

// No rank starts a collective while another one tunes, and none records while another one runs the
// warm-up steps: on GPUs the start could then hang.
static void test_ranks_start_together(void **state)
{
    (void)state;
    char folder[64];
    struct rig rig;
    struct op_table ops;
    struct device_api api = graph_api(&ops);
    struct model_options options = rig_options();
    recorded = 0;
    api.stream_open = start_stream_open;
    api.device_slot_acquire = api.device_slot_release = NULL; // ranks on GPUs have no common slot
    api.tune = start_tune;
    api.wait = start_wait;
    api.graph_begin = start_graph_begin;
    ops.all_reduce = start_reduce;
    golden_folder(folder, "llama", DTYPE_F32);
    rig_open_ranks(&rig, &api, folder, &options, RANKS);
    assert_int_equal(tuned, RANKS);
    assert_int_equal(waited, RANKS * STEPS);
    assert_true(reduced > 0 && recorded > 0);
    assert_int_equal(reduced_early, 0);
    assert_int_equal(recorded_early, 0);
    rig_close(&rig);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs_live_within_the_communicator),
        cmocka_unit_test(test_ranks_start_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
