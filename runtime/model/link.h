// SPDX-License-Identifier: Apache-2.0
// The interface by which a model reaches the other nodes: the processes that hold its other ranks.
// The engine of node 0 builds the batches. Node 0 sends each launch and sampling to the other
// nodes, which execute it with their ranks (model.h) and return a hash of the results. Implemented
// by cluster/link.h.
//
// The thread that steps the model calls all functions except those of `comm`, whose threads
// kernels/collective.h states. An error is one sentence; if a node caused it, it names the node.
#pragma once

#include "base/hash.h"
#include "kernels/collective.h"
#include "runtime/model/model.h"

#include <stdbool.h>
#include <stdint.h>

struct model_link {
    void *context;
    bool leads;            // true on node 0
    uint32_t count;        // number of ranks of this process, from comm.first on
    struct comm_link comm; // carries the collectives
    // Node 0 only: send a launch or a sampling (as in model.h) to the other nodes, and return
    // without waiting for them. The batch and the masks are copied. DEVICE_FAULT after a fault,
    // UNWANTED after the end of the group, TOO_LARGE or NO_MEMORY if the message cannot be made.
    enum status (*launch)(void *context, struct batch *batch, struct error *err);
    enum status (*sample)(void *context, const uint32_t *masks, uint32_t count, struct error *err);
    // Node 0 only: waits until all other nodes have sent the hash of their results of a step.
    // DEVICE_FAULT if a hash differs from `own` or a node is lost, TIMEOUT at deadline_ns
    // (CLOCK_MONOTONIC).
    enum status (*agree)(void *context, uint64_t step, const struct hash *own, uint64_t deadline_ns,
                         struct error *err);
    // Reports to the other nodes that this one has failed, so that they end with the error's text.
    // Later calls do nothing.
    void (*fail)(void *context, const struct error *err);
    // Sets *err to the fault if a node is lost or has failed, and returns true. If there is no
    // fault and `late` is true, looks for a node whose part of a collective has not arrived or
    // (GPUs, only on node 0) that has not started the step, and sets *err to a TIMEOUT that names
    // it. Returns false if no such node is known.
    bool (*fault_find)(void *context, bool late, struct error *err);
};

// Returns a hash of the tokens and log probabilities of a step's sampled rows, or of its vectors or
// scores. It must be equal on all nodes.
struct hash model_output_hash(const struct model_facts *facts, const struct model_output *out);
