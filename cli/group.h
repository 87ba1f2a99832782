// SPDX-License-Identifier: Apache-2.0
// Runs a server as one of several nodes (--nnodes): node 0 serves and schedules, the others only
// compute their ranks of the split models. With one node all functions do nothing and succeed. Main
// thread.
#pragma once

#include "cli/engines.h"
#include "cluster/link.h"

enum { GROUP_MEET_S = 600 }; // seconds that a start waits for the other nodes

struct node_group {
    struct nodes nodes;
    double heartbeat_s;
    const char *secret;               // 64 digits in the arena, or NULL
    char words[NODES_MAX][64];        // memory of word_list
    const char *word_list[NODES_MAX]; // names in messages: "node 1 (rank 1 of 2)"
    uint32_t split_count;             // number of models that are split over the nodes
    struct channel *channel;          // NULL: not open
    struct cluster_link *links[MESSAGE_MODELS_MAX];
    struct signals *signals;
    struct engines *engines; // node 0
    _Atomic bool running;    // true once a fault is handled by main and not as a failed start
};

// Returns true if this process is not node 0: it only computes.
static inline bool node_group_follows(const struct node_group *group)
{
    return group->nodes.rank > 0;
}

// Determines from the settings and the environment which node this is, and reads the secret into
// the arena. Removes from specs[*count] the models of which this node has no ranks, and sets
// `nodes` of the others. INVALID or UNSUPPORTED if options contradict each other or the secret is
// malformed; else as file_read.
enum status node_group_find(struct node_group *group, const struct serve_settings *settings,
                            struct model_spec *specs, uint32_t *count, struct arena *arena,
                            struct error *err) MUST_USE;
// Call after devices_load: sets the links of the models and opens the channel. Errors: see
// channel_open.
enum status node_group_begin(struct node_group *group, struct loaded *loaded,
                             struct signals *signals, struct error *err) MUST_USE;
// Call after models_plan: waits for the other nodes, and node 0 compares options and files. Lowers
// the KV memory of split models to that of the node that has the least. Errors: see channel_meet.
enum status node_group_meet(struct node_group *group, struct loaded *loaded,
                            struct error *err) MUST_USE;
// Node 0, after models_load: waits until all nodes have loaded the models. A later fault ends the
// engines of the split models.
enum status node_group_ready(struct node_group *group, struct engines *engines,
                             struct error *err) MUST_USE;
// The other nodes, after models_load: computes until the group ends. Returns the exit code; if it
// is not 0, threads may hang, and the caller must end the process.
int node_group_follow(struct node_group *group, struct loaded *loaded);

// Node 0, before the models are closed: reports to the other nodes that the group ends.
void node_group_end(struct node_group *group);
// Closes the connections after a failure, whose error (or NULL) the other nodes get. Frees nothing.
void node_group_abandon(struct node_group *group, const struct error *err);
// After the models are closed: frees the links and the channel.
void node_group_close(struct node_group *group);
