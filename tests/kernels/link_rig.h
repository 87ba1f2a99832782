// SPDX-License-Identifier: Apache-2.0
// Threads of a test in place of processes that hold ranks of one communicator: their comm_link
// copies the pieces through memory. The seat of a process must outlive its communicator.
#pragma once

#include "kernels/collective.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct link_rig;

struct link_seat {
    struct link_rig *rig;
    uint32_t end; // first rank after those of the process
    struct comm_link link;
};

struct link_rig {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint32_t count, arrived; // processes; those that wait in the current exchange
    uint64_t rounds;         // exchanges that ended
    bool aborted;
    char *bytes[2]; // pieces of the current exchange and of the one before
    size_t size[2]; // bytes allocated
    struct link_seat seats[RANKS_MAX];
};

// Sets up `count` processes; process i has ranks[i] ranks.
void link_rig_open(struct link_rig *rig, uint32_t count, const uint32_t *ranks);
void link_rig_close(struct link_rig *rig);
