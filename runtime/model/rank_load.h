// SPDX-License-Identifier: Apache-2.0
// Loading the weights of all ranks of this process. Used by the loading thread.
#pragma once

#include "runtime/model/internal.h"

struct rank_load_args {
    struct model *const *models;           // [count], whose memory is allocated
    const struct model_plan *const *plans; // [count]
    uint32_t count;
    // NULL, or called with the bytes loaded so far by all ranks and their sum: by several threads,
    // one at a time
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
};

// Loads the weights of each rank: one after another if the ranks share the device's threads (cpu),
// else at the same time, with a thread for each rank. If ranks fail, the others end early, and the
// error of the first that failed, by number, is returned.
enum status ranks_load(const struct rank_load_args *args, struct error *err) MUST_USE;
