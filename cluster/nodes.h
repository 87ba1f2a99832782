// SPDX-License-Identifier: Apache-2.0
// Which of several nodes a process is, and where node 0 listens: from the options, else from the
// environment that Slurm, mpirun, torchrun or a LeaderWorkerSet sets. A node is one process. Pure
// functions.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    NODES_MAX = 8,
    NODE_RANK_MAX = 7,
    NODES_PORT = 29501,
    NODE_RANK_UNSET = 0x7FFFFFFF,
    NODE_ADDRESS_MAX = 256
};

struct nodes_options {       // as given on the command line
    uint32_t nnodes;         // 0: not given
    uint32_t node_rank;      // NODE_RANK_UNSET: not given
    const char *master_addr; // NULL: not given
    uint32_t master_port;    // 0: not given
};

struct nodes {
    uint32_t count, rank; // count 1: one process, no other node
    char address[NODE_ADDRESS_MAX];
    uint32_t port;
    const char *count_from, *rank_from; // option or environment variable, for messages
};

// Fills `out`; options precede the environment. environment returns a variable, or NULL if it is
// unset or empty. INVALID with one sentence if a value is malformed or missing, if two variables
// contradict each other, or if the rank is not below the number of nodes.
enum status nodes_find(struct nodes *out, const struct nodes_options *options,
                       const char *(*environment)(const char *name), struct error *err) MUST_USE;

// Writes the first host of a list of Slurm, such as "gpu[03-05,9],login": "gpu03". Returns false if
// it is no such list or does not fit.
bool nodes_first_host(char *out, uint32_t size, const char *list);
