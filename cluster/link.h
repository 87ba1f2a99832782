// SPDX-License-Identifier: Apache-2.0
// Connects a model that is split over the nodes of a group to the other nodes. Implements the
// interface runtime/model/link.h with messages of the channel, and the loop in which the nodes
// other than node 0 execute its steps. Each node has an equal number of consecutive ranks.
#pragma once

#include "cluster/channel.h"
#include "runtime/model/link.h"

struct cluster_link;

struct cluster_link_options {
    uint32_t node, nodes;
    uint32_t model; // index among the split models, equal on all nodes
    uint32_t ranks; // number of the model's ranks on all nodes, a multiple of `nodes`
};

// Creates the link; call it before the model is planned.
struct cluster_link *cluster_link_create(const struct cluster_link_options *options);
// Frees the link; call it after the model is closed. NULL is allowed.
void cluster_link_destroy(struct cluster_link *link);
// Returns the value for model_options.link; the link owns it.
const struct model_link *cluster_link_model(const struct cluster_link *link);
struct channel *cluster_link_channel(const struct cluster_link *link); // NULL before _begin
uint32_t cluster_link_index(const struct cluster_link *link);          // index of the model
// Sets the channel, which must outlive the model, and copies the facts, which are those of the
// model's plan. Call it before model_open and before the first exchange.
void cluster_link_begin(struct cluster_link *link, struct channel *channel,
                        const struct model_facts *facts);

// Node 0: waits, without a time limit, until the model is open on all other nodes. DEVICE_FAULT if
// a node sends another message than READY; other errors: see channel_receive.
enum status cluster_link_ready(struct cluster_link *link, struct error *err) MUST_USE;
// The other nodes: reports that the model is open, then executes each step that node 0 sends.
// Returns OK when the group ends without a fault. Before it returns any other status, it drops the
// model (model_drop) and calls channel_fail.
enum status cluster_follow(struct cluster_link *link, struct model *model,
                           struct error *err) MUST_USE;
