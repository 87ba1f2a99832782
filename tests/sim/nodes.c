// SPDX-License-Identifier: Apache-2.0
// Simulated nodes; see nodes.h.
#include "tests/sim/nodes.h"

#include "base/arena.h"

#include <pthread.h>
#include <string.h>

struct sim_node {
    struct cluster_link *link;
    struct model *model;
    pthread_t thread;
    enum status status; // how the follower has ended
    struct error err;
};

struct sim_nodes {
    struct node_plan plan;
    uint32_t count;
    struct fake_network *network;
    struct sim_node nodes[NODES_MAX];
};

struct sim_nodes *nodes_open(const struct fake_options *options, uint32_t count,
                             const struct node_plan *plan)
{
    struct sim_nodes *n = heap_alloc_zeroed(1, sizeof *n);
    n->plan = *plan;
    n->count = count;
    n->network = fake_network_create(count, plan);
    for (uint32_t i = 0; i < count; i++) {
        struct sim_node *node = &n->nodes[i];
        const struct cluster_link_options link = {i, count, 0, count};
        struct fake_options own = *options;
        node->link = cluster_link_create(&link);
        cluster_link_begin(node->link, fake_network_channel(n->network, i), &options->facts);
        own.ranks = 0;
        own.link = cluster_link_model(node->link);
        node->model = fake_open(&own);
    }
    struct model *odd = n->nodes[plan->node].model;
    if (plan->fault == NODE_LATE_PART || plan->fault == NODE_LATE_RESULT)
        fake_stall(odd, plan->step, plan->fault == NODE_LATE_RESULT);
    if (plan->fault == NODE_LATE_PART)
        fake_late(n->nodes[0].model, plan->step);
    if (plan->fault == NODE_LATE_RESULT) // the next step may be launched before the result is read
        fake_late(n->nodes[0].model, plan->step + 1);
    if (plan->fault == NODE_DEVICE_FAULT)
        fake_fault(odd, plan->step, plan->seed % 2);
    return n;
}

struct model *nodes_model(struct sim_nodes *n)
{
    return n->nodes[0].model;
}

static void *follower_main(void *argument)
{
    struct sim_node *node = argument;
    node->status = cluster_follow(node->link, node->model, &node->err);
    return NULL;
}

void nodes_start(struct sim_nodes *n, uint64_t spoilt_step)
{
    struct error err;
    for (uint32_t i = 0; i < n->count; i++)
        fake_spoil(n->nodes[i].model, spoilt_step);
    for (uint32_t i = 1; i < n->count; i++)
        check(pthread_create(&n->nodes[i].thread, NULL, follower_main, &n->nodes[i]) == 0,
              "no thread");
    enum status status = cluster_link_ready(n->nodes[0].link, &err);
    check(status == STATUS_OK, "%s", err.text);
}

bool nodes_planned(const struct sim_nodes *n, const char *error)
{
    // of a late node, or of a rank that has not begun to wait for it
    static const char part[] = "did not send its part of a collective in time",
                      step[] = "did not end step";
    static const char *const sentences[NODE_FAULTS][3] = {
        [NODE_LATE_PART] = {part, step},
        [NODE_LATE_RESULT] = {"did not respond in time", part, step},
        [NODE_SILENT] = {"has not responded"},
        [NODE_DIES] = {"closed its connection"},
        [NODE_DIES_BETWEEN] = {"closed its connection"},
        [NODE_OTHER_RESULT] = {"has other results than node 0 in step"},
        [NODE_DEVICE_FAULT] = {"the fake device failed"},
    };
    for (int i = 0; i < 3; i++)
        if (sentences[n->plan.fault][i] && strstr(error, sentences[n->plan.fault][i]))
            return true;
    return false;
}

void nodes_close(struct sim_nodes *n, bool failed)
{
    uint64_t steps = fake_steps(n->nodes[0].model);
    bool reached = n->plan.fault == NODE_DIES_BETWEEN ? steps > n->plan.step
                                                      : n->plan.fault && steps >= n->plan.step;
    check(failed || !reached, "fault %d in step %llu of %llu was not noticed", n->plan.fault,
          (unsigned long long)n->plan.step, (unsigned long long)steps);
    for (uint32_t i = 1; i < n->count; i++)
        fake_release(n->nodes[i].model);
    fake_network_end(n->network);
    for (uint32_t i = 1; i < n->count; i++) {
        const struct sim_node *node = &n->nodes[i];
        pthread_join(node->thread, NULL);
        bool fine = node->status == STATUS_OK;
        check(fine != failed || n->plan.fault == NODE_DIES_BETWEEN, "node %u ends with %d: %s", i,
              node->status, fine ? "" : node->err.text);
        check(fine || node->err.text[0] != '\0', "node %u ends without a sentence", i);
    }
    for (uint32_t i = 0; i < n->count; i++) {
        model_close(n->nodes[i].model);
        cluster_link_destroy(n->nodes[i].link);
    }
    fake_network_destroy(n->network);
    heap_free(n);
}
