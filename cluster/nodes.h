// SPDX-License-Identifier: Apache-2.0
// Determines the number of nodes, which of them this process is, and the address at which node 0
// listens: from the options, or else from the variables that Slurm, mpirun, torchrun or a
// LeaderWorkerSet sets. A node is one process; several may run on one machine. The rank of a node
// is its number, as in --node-rank; elsewhere a rank is a part of a model (runtime/model/group.h).
// Functions without state.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    NODES_MAX = 8, // RANKS_MAX: each node has at least one rank of a split model
    NODE_RANK_MAX = 7,
    NODES_PORT = 29501, // default of --master-port
    NODE_RANK_UNSET = 0x7FFFFFFF,
    NODE_ADDRESS_MAX = 256 // bytes of a host name, with the NUL
};

struct nodes_options {       // values of the command line
    uint32_t nnodes;         // 0: not given
    uint32_t node_rank;      // NODE_RANK_UNSET: not given
    const char *master_addr; // NULL: not given
    uint32_t master_port;    // 0: not given
};

struct nodes {
    uint32_t count, rank;           // number of nodes, 1: no other node; number of this node
    char address[NODE_ADDRESS_MAX]; // address and port at which node 0 listens
    uint32_t port;
    // name of the option or variable that has the value, for errors; NULL: none, the default is
    // used
    const char *count_from, *rank_from;
};

// Fills `out`. Options have precedence over the environment, which is not read if options->nnodes
// is
// 1. environment returns the value of a variable, or NULL if it is unset or empty. INVALID with one
// sentence if a value is malformed or missing, if two variables contradict each other, or if the
// rank is not below the number of nodes.
enum status nodes_find(struct nodes *out, const struct nodes_options *options,
                       const char *(*environment)(const char *name), struct error *err) MUST_USE;

// Writes the first host of a host list of Slurm: "gpu03" of "gpu[03-05,9],login". Returns false if
// the list is malformed or the host needs more than `size` bytes.
bool nodes_first_host(char *out, uint32_t size, const char *list);
