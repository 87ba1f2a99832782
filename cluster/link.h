// SPDX-License-Identifier: Apache-2.0
// A model whose ranks are on all nodes of a group: the model's way to the other nodes
// (runtime/model/link.h) through the channel, and the loop of the nodes that follow node 0. The
// ranks are divided evenly, node after node.
#pragma once

#include "cluster/channel.h"
#include "runtime/model/link.h"

struct cluster_link;

struct cluster_link_options {
    uint32_t node, nodes;
    uint32_t model; // index among the split models, equal on all nodes
    uint32_t ranks; // of the model, a multiple of `nodes`
};

// Creates the link before the model is planned; it is used from cluster_link_begin on.
struct cluster_link *cluster_link_create(const struct cluster_link_options *options);
// NULL is allowed. The model must be closed.
void cluster_link_destroy(struct cluster_link *link);
// Returns the member of model_options; lives as long as the link.
const struct model_link *cluster_link_model(const struct cluster_link *link);
struct channel *cluster_link_channel(const struct cluster_link *link);
uint32_t cluster_link_index(const struct cluster_link *link); // of the model
// Call before model_open. The channel must outlive the model; facts are those of the plan.
void cluster_link_begin(struct cluster_link *link, struct channel *channel,
                        const struct model_facts *facts);

// Node 0: waits until the model is open on all other nodes.
enum status cluster_link_ready(struct cluster_link *link, struct error *err) MUST_USE;
// The other nodes: reports that the model is open, then executes what node 0 sends. Returns OK when
// the group ends. After a fault the channel has failed, too.
enum status cluster_follow(struct cluster_link *link, struct model *model,
                           struct error *err) MUST_USE;
