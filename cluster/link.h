// SPDX-License-Identifier: Apache-2.0
// Connects a model whose ranks are on all nodes of a group to the other nodes: implements
// runtime/model/link.h with messages of the channel, and has the loop of the nodes that follow node
// 0. Each node has an equal number of consecutive ranks.
#pragma once

#include "cluster/channel.h"
#include "runtime/model/link.h"

struct cluster_link;

struct cluster_link_options {
    uint32_t node, nodes;
    uint32_t model; // index among the split models, equal on all nodes
    uint32_t ranks; // number of the model's ranks, a multiple of `nodes`
};

// Creates the link; call it before the model is planned.
struct cluster_link *cluster_link_create(const struct cluster_link_options *options);
// NULL is allowed. The model must be closed.
void cluster_link_destroy(struct cluster_link *link);
// Returns model_options.link, which the link owns.
const struct model_link *cluster_link_model(const struct cluster_link *link);
struct channel *cluster_link_channel(const struct cluster_link *link); // NULL before _begin
uint32_t cluster_link_index(const struct cluster_link *link);          // index of the model
// Sets the channel, which must outlive the model; call it before model_open. facts: those of the
// plan.
void cluster_link_begin(struct cluster_link *link, struct channel *channel,
                        const struct model_facts *facts);

// Node 0: waits until the model is open on all other nodes. Errors: see channel_receive.
enum status cluster_link_ready(struct cluster_link *link, struct error *err) MUST_USE;
// The other nodes: reports that the model is open, then executes each step that node 0 sends.
// Returns OK when the group ends without a fault; any other status has also ended the channel.
enum status cluster_follow(struct cluster_link *link, struct model *model,
                           struct error *err) MUST_USE;
