// SPDX-License-Identifier: Apache-2.0
// The channels of simulated nodes: implements the functions of cluster/channel.h that steps use, in
// memory. A lock guards everything. A sender waits for a random time before its message arrives, so
// the messages of different nodes arrive in any order. Deadlines are not read: a reader that waits
// for a late node gets TIMEOUT at once, and one that waits for a silent node ends the group as the
// heartbeats of the production channel do.
#include "tests/sim/nodes.h"

#include "base/arena.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

struct letter {
    struct letter *next;
    struct message_head head;
    size_t bytes;
    char at[];
};

struct lane {
    struct letter *first, *last;
};

struct channel { // of one node
    struct fake_network *network;
    uint32_t node;
    bool stopped;                        // data lanes
    struct lane lanes[NODES_MAX][LANES]; // by sender
    uint64_t read[NODES_MAX][LANES];     // number of the last message read, by sender
    uint64_t dice;                       // random state of the delays
};

struct fake_network {
    struct node_plan plan;
    uint32_t nodes;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool failed, ended;
    struct error err;
    struct channel channels[NODES_MAX];
};

struct fake_network *fake_network_create(uint32_t nodes, const struct node_plan *plan)
{
    struct fake_network *n = heap_alloc_zeroed(1, sizeof *n);
    n->plan = *plan;
    n->nodes = nodes;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->moved, NULL);
    for (uint32_t i = 0; i < nodes; i++)
        n->channels[i] =
            (struct channel){.network = n, .node = i, .dice = plan->seed * NODES_MAX + i};
    return n;
}

void fake_network_destroy(struct fake_network *n)
{
    for (uint32_t i = 0; i < n->nodes; i++)
        for (uint32_t from = 0; from < NODES_MAX; from++)
            for (int lane = 0; lane < LANES; lane++)
                for (struct letter *l = n->channels[i].lanes[from][lane].first, *next; l;
                     l = next) {
                    next = l->next;
                    heap_free(l);
                }
    pthread_cond_destroy(&n->moved);
    pthread_mutex_destroy(&n->lock);
    heap_free(n);
}

struct channel *fake_network_channel(struct fake_network *n, uint32_t node)
{
    return &n->channels[node];
}

void fake_network_end(struct fake_network *n)
{
    pthread_mutex_lock(&n->lock);
    n->ended = !n->failed;
    pthread_cond_broadcast(&n->moved);
    pthread_mutex_unlock(&n->lock);
}

// Ends the group with an error. The caller holds the lock.
static void network_fail(struct fake_network *n, const struct error *err)
{
    if (n->failed || n->ended)
        return;
    n->failed = true;
    n->err = *err;
    n->err.status = STATUS_DEVICE_FAULT;
    pthread_cond_broadcast(&n->moved);
}

static void network_lose(struct fake_network *n, const char *how)
{
    struct error err;
    error_set(&err, STATUS_DEVICE_FAULT, "node %u %s", n->plan.node, how);
    network_fail(n, &err);
}

// Returns OK while the group works, else sets the error. The caller holds the lock.
static enum status network_check(const struct fake_network *n, struct error *err)
{
    if (n->failed) {
        *err = n->err;
        return err->status;
    }
    return n->ended ? error_set(err, STATUS_UNWANTED, "the group has ended") : STATUS_OK;
}

static void sender_delay(struct channel *c)
{
    enum { YIELD_IN = 32, SPIN_IN = 4, SPINS = 4096 };
    uint64_t x = c->dice += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    if (x % YIELD_IN == 0)
        sched_yield();
    for (uint64_t i = x % SPIN_IN == 0 ? (x >> 32) % SPINS : 0; i > 0; i--)
        atomic_signal_fence(memory_order_seq_cst);
}

static struct letter *letter_make(const struct channel *c, enum message_kind kind, uint32_t model,
                                  uint64_t number, const struct channel_part *parts, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += parts[i].bytes;
    struct letter *l = heap_alloc(sizeof *l + bytes);
    l->next = NULL;
    l->bytes = 0;
    message_head_write(&l->head, kind, c->node, model, number);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].bytes > 0)
            memcpy(l->at + l->bytes, parts[i].at, parts[i].bytes);
        l->bytes += parts[i].bytes;
    }
    return l;
}

static void letter_file(struct channel *to, const struct letter *from)
{
    struct letter *l = heap_alloc(sizeof *l + from->bytes);
    struct lane *lane =
        &to->lanes[from->head.origin][from->head.kind == MESSAGE_DATA ? LANE_DATA : LANE_CONTROL];
    memcpy(l, from, sizeof *l + from->bytes);
    if (lane->first)
        lane->last->next = l;
    else
        lane->first = l;
    lane->last = l;
}

// Applies the planned fault to a message of the node. Returns false if it does not arrive.
static bool fault_apply(struct fake_network *n, struct letter *l)
{
    const struct node_plan *plan = &n->plan;
    bool data = l->head.kind == MESSAGE_DATA, result = l->head.kind == MESSAGE_RESULT;
    if (l->head.origin != plan->node || !(data || result))
        return true;
    if (plan->fault == NODE_SILENT)
        return l->head.number < plan->step;
    if (plan->fault == NODE_DIES && data && l->head.number == plan->step)
        network_lose(n, "closed its connection");
    if (plan->fault == NODE_OTHER_RESULT && result && l->head.number == plan->step)
        l->at[0] ^= 1;
    return true;
}

enum status channel_send(struct channel *c, enum message_kind kind, uint32_t model, uint64_t number,
                         const struct channel_part *parts, uint32_t count, struct error *err)
{
    struct fake_network *n = c->network;
    struct letter *l = letter_make(c, kind, model, number, parts, count);
    sender_delay(c);
    pthread_mutex_lock(&n->lock);
    enum status status = network_check(n, err);
    bool arrives = status == STATUS_OK && fault_apply(n, l);
    bool all = c->node == 0 || kind == MESSAGE_DATA;
    for (uint32_t i = 0; i < n->nodes && arrives; i++)
        if (i != c->node && (all || i == 0))
            letter_file(&n->channels[i], l);
    if (arrives && n->plan.fault == NODE_DIES_BETWEEN && kind == MESSAGE_RESULT &&
        c->node == n->plan.node && number == n->plan.step)
        network_lose(n, "closed its connection");
    pthread_cond_broadcast(&n->moved);
    pthread_mutex_unlock(&n->lock);
    heap_free(l);
    return status;
}

// Returns true if the message that a reader waits for does not arrive before the deadline because
// of the planned fault. The caller holds the lock.
static bool reader_waits_in_vain(const struct channel *c, uint32_t from, enum channel_lane lane,
                                 uint64_t deadline_ns)
{
    const struct node_plan *plan = &c->network->plan;
    uint64_t next = c->read[from][lane] + 1;
    if (from != plan->node || (lane == LANE_CONTROL && deadline_ns == UINT64_MAX)) // READY arrives
        return false;
    if (plan->fault == NODE_LATE_RESULT)
        return lane == LANE_CONTROL && next == plan->step;
    return plan->fault == NODE_SILENT && next >= plan->step;
}

// Handles a wait in vain: the deadline passes, or the heartbeats find the silent node.
static enum status wait_end(struct fake_network *n, struct error *err)
{
    if (n->plan.fault == NODE_LATE_RESULT)
        return error_set(err, STATUS_TIMEOUT, "node %u did not respond in time", n->plan.node);
    network_lose(n, "has not responded");
    return network_check(n, err);
}

enum status channel_receive(struct channel *c, uint32_t from, uint32_t model,
                            enum channel_lane lane, uint64_t deadline_ns,
                            struct channel_letter *out, struct error *err)
{
    struct fake_network *n = c->network;
    struct lane *queue = &c->lanes[from][lane];
    enum status status;
    (void)model;
    pthread_mutex_lock(&n->lock);
    while ((status = network_check(n, err)) == STATUS_OK) {
        if (lane == LANE_DATA && c->stopped)
            status = error_set(err, STATUS_DEVICE_FAULT, "the step was cancelled");
        else if (!queue->first && reader_waits_in_vain(c, from, lane, deadline_ns))
            status = wait_end(n, err);
        if (status != STATUS_OK || queue->first)
            break;
        pthread_cond_wait(&n->moved, &n->lock);
    }
    if (status == STATUS_OK) {
        struct letter *l = queue->first;
        queue->first = l->next;
        c->read[from][lane] = l->head.number;
        *out = (struct channel_letter){{l->head, l->at, l->bytes}, l};
    }
    pthread_mutex_unlock(&n->lock);
    return status;
}

void channel_letter_free(struct channel_letter *letter)
{
    heap_free(letter->frame);
    letter->frame = NULL;
}

// The parts of a collective show which node is late.
void channel_step_started(struct channel *c, uint32_t model, uint64_t step)
{
    (void)c, (void)model, (void)step;
}

uint64_t channel_step_of(struct channel *c, uint32_t node, uint32_t model)
{
    (void)c, (void)node, (void)model;
    return UINT64_MAX;
}

void channel_stop(struct channel *c, uint32_t model)
{
    (void)model;
    pthread_mutex_lock(&c->network->lock);
    c->stopped = true;
    pthread_cond_broadcast(&c->network->moved);
    pthread_mutex_unlock(&c->network->lock);
}

void channel_fail(struct channel *c, const struct error *err)
{
    pthread_mutex_lock(&c->network->lock);
    network_fail(c->network, err);
    pthread_mutex_unlock(&c->network->lock);
}

bool channel_failed(struct channel *c, struct error *err)
{
    pthread_mutex_lock(&c->network->lock);
    bool failed = c->network->failed;
    if (failed)
        *err = c->network->err;
    pthread_mutex_unlock(&c->network->lock);
    return failed;
}
