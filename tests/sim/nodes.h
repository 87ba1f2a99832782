// SPDX-License-Identifier: Apache-2.0
// Simulated nodes: the production link and followers (cluster/link.c, cluster/follow.c) with fake
// models, connected by a channel in memory (fake_channel.c). Each node has one rank; the followers
// are threads. A planned fault makes one follower late, silent, dead or wrong in one step.
#pragma once

#include "cluster/link.h"
#include "tests/sim/fake.h"

enum node_fault {
    NODE_FINE,
    NODE_LATE_PART,    // does not send its part of a collective before the deadline
    NODE_LATE_RESULT,  // does not send the hash of its results before the deadline
    NODE_SILENT,       // its messages do not arrive, from a step on
    NODE_DIES,         // its connection closes in a step
    NODE_DIES_BETWEEN, // its connection closes between two steps
    NODE_OTHER_RESULT, // its results differ
    NODE_DEVICE_FAULT, // its device fails
    NODE_FAULTS
};

struct node_plan {
    enum node_fault fault;
    uint32_t node; // follower that has the fault
    uint64_t step; // step of the fault, from 1
    uint64_t seed; // of the delays of messages
};

struct sim_nodes;

// Opens node 0 and its followers, each with a fake model of these options. Returns the group.
struct sim_nodes *nodes_open(const struct fake_options *options, uint32_t count,
                             const struct node_plan *plan);
struct model *nodes_model(struct sim_nodes *nodes); // the model of node 0
// Makes the step's KV not finite on all nodes; see fake_spoil. Starts the threads of the followers.
void nodes_start(struct sim_nodes *nodes, uint64_t spoilt_step);
// Returns true if an error is that of the planned fault.
bool nodes_planned(const struct sim_nodes *nodes, const char *error);
// Releases late followers, ends the group, joins the threads, checks how each follower has ended
// and frees everything. failed: true if the engine of node 0 has failed.
void nodes_close(struct sim_nodes *nodes, bool failed);

// fake_channel.c: one channel for each node of a group, in one memory.
struct fake_network;
struct fake_network *fake_network_create(uint32_t nodes, const struct node_plan *plan);
void fake_network_destroy(struct fake_network *network);
struct channel *fake_network_channel(struct fake_network *network, uint32_t node);
void fake_network_end(struct fake_network *network); // the group ends without a fault
