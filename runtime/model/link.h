// SPDX-License-Identifier: Apache-2.0
// The interface by which a model reaches the other processes that hold ranks of it (nodes). The
// engine of node 0 builds the batches; each launch and sampling is sent to the other nodes, which
// execute it with their ranks (model.h) and return a hash of the results. Implemented by
// cluster/link.h.
//
// The thread that steps the model calls all functions, except comm.exchange, which a rank's thread
// calls, and comm.abort, which any thread calls. An error is one sentence that names the node.
#pragma once

#include "base/hash.h"
#include "kernels/collective.h"
#include "runtime/model/model.h"

#include <stdbool.h>
#include <stdint.h>

struct model_link {
    void *context;
    bool leads;            // true on node 0
    uint32_t count;        // number of ranks of this process; comm.first is the first of them
    struct comm_link comm; // carries the collectives
    // Node 0 only: send a launch or a sampling (as in model.h) to the other nodes, and return
    // without waiting for them. The batch and the masks may be reused afterwards. DEVICE_FAULT
    // after a fault.
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
    // Sets *err to the fault of a node that is lost or has failed. If there is none and `late` is
    // true, sets it to TIMEOUT with the node whose part of a collective has not arrived or that has
    // not started the step. Returns false if no such node is known.
    bool (*fault_find)(void *context, bool late, struct error *err);
};

// Returns the hash of a step's results, which must be equal on all nodes: of the tokens and log
// probabilities of sampled rows, or of the vectors or scores.
struct hash model_output_hash(const struct model_facts *facts, const struct model_output *out);
