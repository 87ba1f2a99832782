// SPDX-License-Identifier: Apache-2.0
// Steps and collectives as messages; see link.h. The thread of the model's engine, or of
// cluster_follow, calls the functions of model_link. The functions of comm_link have the threads
// that kernels/collective.h states: `pieces_exchange` is called by one thread at a time,
// `collectives_stop` and `node_failed` by any thread.
#include "cluster/link.h"

#include "base/arena.h"
#include "runtime/model/batch_wire.h"

#include <stdatomic.h>
#include <string.h>

struct cluster_link {
    struct cluster_link_options options;
    struct model_link model; // interface that the model calls
    struct channel *channel;
    struct model_facts facts;
    void *wire;             // node 0: the batch as bytes
    uint64_t step;          // node 0: step that was sent last
    uint64_t exchanges;     // number of exchanges begun
    _Atomic uint32_t await; // node whose piece an exchange waits for; `nodes`: none
};

static uint32_t ranks_each(const struct cluster_link *l)
{
    return l->options.ranks / l->options.nodes;
}

// Writes the range of bytes of a node's ranks: [*first, *end).
static void range_of(const struct cluster_link *l, uint32_t node, const size_t ends[RANKS_MAX],
                     size_t *first, size_t *end)
{
    uint32_t each = ranks_each(l);
    *first = node > 0 ? ends[node * each - 1] : 0;
    *end = ends[(node + 1) * each - 1];
}

// Receives the piece of a node.
static enum status piece_receive(struct cluster_link *l, uint32_t node, char *to, size_t bytes)
{
    struct channel_letter letter;
    struct error err;
    enum status status =
        channel_receive(l->channel, node, l->options.model, LANE_DATA, UINT64_MAX, &letter, &err);
    if (status != STATUS_OK)
        return STATUS_DEVICE_FAULT;
    const struct node_message *m = &letter.message;
    if (m->head.number == l->exchanges && m->bytes == bytes) {
        memcpy(to, m->at, bytes);
    } else {
        status = error_set(&err, STATUS_DEVICE_FAULT,
                           "node %u sent %zu bytes in collective %llu, and %zu in collective %llu "
                           "were expected",
                           node, m->bytes, (unsigned long long)m->head.number, bytes,
                           (unsigned long long)l->exchanges);
        channel_fail(l->channel, &err);
    }
    channel_letter_free(&letter);
    return status;
}

static enum status pieces_exchange(void *context, void *pieces, const size_t ends[RANKS_MAX])
{
    struct cluster_link *l = context;
    const struct cluster_link_options *o = &l->options;
    struct error err;
    size_t first, end;
    range_of(l, o->node, ends, &first, &end);
    const struct channel_part part = {(char *)pieces + first, end - first};
    enum status status =
        channel_send(l->channel, MESSAGE_DATA, o->model, ++l->exchanges, &part, 1, &err);
    for (uint32_t node = 0; node < o->nodes && status == STATUS_OK; node++) {
        if (node == o->node)
            continue;
        range_of(l, node, ends, &first, &end);
        atomic_store(&l->await, node);
        status = piece_receive(l, node, (char *)pieces + first, end - first);
    }
    if (status == STATUS_OK)
        atomic_store(&l->await, o->nodes);
    return status == STATUS_OK ? status : STATUS_DEVICE_FAULT;
}

static void collectives_stop(void *context)
{
    struct cluster_link *l = context;
    channel_stop(l->channel, l->options.model);
}

static bool node_failed(void *context, struct error *err)
{
    struct cluster_link *l = context;
    return channel_failed(l->channel, err);
}

static enum status launch_send(void *context, struct batch *batch, struct error *err)
{
    struct cluster_link *l = context;
    const struct channel_part part = {l->wire, batch_wire_bytes(batch)};
    batch_write(l->wire, batch);
    l->step = batch->step;
    return channel_send(l->channel, MESSAGE_LAUNCH, l->options.model, batch->step, &part, 1, err);
}

static size_t mask_bytes(const struct cluster_link *l)
{
    return (l->facts.vocab + 31) / 32 * sizeof(uint32_t);
}

static enum status sample_send(void *context, const uint32_t *masks, uint32_t count,
                               struct error *err)
{
    struct cluster_link *l = context;
    const struct channel_part part = {masks, count * mask_bytes(l)};
    return channel_send(l->channel, MESSAGE_SAMPLE, l->options.model, count, &part, 1, err);
}

static enum status results_agree(void *context, uint64_t step, const struct hash *own,
                                 uint64_t deadline_ns, struct error *err)
{
    struct cluster_link *l = context;
    enum status status = STATUS_OK;
    for (uint32_t node = 1; node < l->options.nodes && status == STATUS_OK; node++) {
        struct channel_letter letter;
        status = channel_receive(l->channel, node, l->options.model, LANE_CONTROL, deadline_ns,
                                 &letter, err);
        if (status != STATUS_OK)
            break;
        const struct node_message *m = &letter.message;
        if (m->head.kind != MESSAGE_RESULT || m->head.number != step ||
            memcmp(m->at, own, sizeof *own) != 0)
            status = error_set(err, STATUS_DEVICE_FAULT,
                               "node %u has other results than node 0 in step %llu", node,
                               (unsigned long long)step);
        channel_letter_free(&letter);
    }
    return status;
}

static void link_fail(void *context, const struct error *err)
{
    struct cluster_link *l = context;
    channel_fail(l->channel, err);
}

// Node 0: returns the first node that had not started the step at its last ping; `nodes`: none. If
// a launch returns only when the step is done, nodes are in it while they wait for a late one.
static uint32_t late_find(const struct cluster_link *l)
{
    bool starts = l->options.node == 0 && l->facts.steps_in_flight > 0;
    uint32_t node = starts ? 1 : l->options.nodes;
    while (node < l->options.nodes &&
           channel_step_of(l->channel, node, l->options.model) >= l->step)
        node++;
    return node;
}

static bool fault_find(void *context, bool late, struct error *err)
{
    struct cluster_link *l = context;
    uint32_t node = atomic_load(&l->await);
    bool awaited = node < l->options.nodes;
    if (channel_failed(l->channel, err))
        return true;
    if (late && !awaited) // GPUs exchange their parts without a call of `exchange`
        node = late_find(l);
    if (!late || node == l->options.nodes)
        return false;
    error_set(err, STATUS_TIMEOUT, "node %u (ranks from %u of %u) did not %s in time", node,
              node * ranks_each(l), l->options.ranks,
              awaited ? "send its part of a collective" : "start the step");
    return true;
}

struct cluster_link *cluster_link_create(const struct cluster_link_options *options)
{
    struct cluster_link *l = heap_alloc_zeroed(1, sizeof *l);
    check(options->ranks <= RANKS_MAX && options->ranks % options->nodes == 0, "%u ranks, %u nodes",
          options->ranks, options->nodes);
    l->options = *options;
    atomic_store(&l->await, options->nodes);
    l->model = (struct model_link){
        .context = l,
        .leads = options->node == 0,
        .count = ranks_each(l),
        .comm = {l, options->node * ranks_each(l), options->ranks, pieces_exchange,
                 collectives_stop, node_failed},
        .launch = launch_send,
        .sample = sample_send,
        .agree = results_agree,
        .fail = link_fail,
        .fault_find = fault_find,
    };
    return l;
}

void cluster_link_destroy(struct cluster_link *l)
{
    if (!l)
        return;
    heap_free(l->wire);
    heap_free(l);
}

const struct model_link *cluster_link_model(const struct cluster_link *l)
{
    return &l->model;
}

struct channel *cluster_link_channel(const struct cluster_link *l)
{
    return l->channel;
}

uint32_t cluster_link_index(const struct cluster_link *l)
{
    return l->options.model;
}

void cluster_link_begin(struct cluster_link *l, struct channel *channel,
                        const struct model_facts *facts)
{
    l->channel = channel;
    l->facts = *facts;
    l->wire = heap_alloc(batch_wire_bytes_max(&facts->limits));
}

enum status cluster_link_ready(struct cluster_link *l, struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t node = 1; node < l->options.nodes && status == STATUS_OK; node++) {
        struct channel_letter letter;
        status = channel_receive(l->channel, node, l->options.model, LANE_CONTROL, UINT64_MAX,
                                 &letter, err);
        if (status != STATUS_OK)
            break;
        if (letter.message.head.kind != MESSAGE_READY)
            status =
                error_set(err, STATUS_DEVICE_FAULT, "node %u sent a result before a step", node);
        channel_letter_free(&letter);
    }
    return status;
}
