// SPDX-License-Identifier: Apache-2.0
// Ways of the cuda device that are not its defaults, so that both can be measured on a card.
#pragma once

enum device_way {        // bits of device_options.ways
    WAY_CARVEOUTS = 1,   // the driver divides an SM's memory anew for each kernel
    WAY_SECTORS = 2,     // weights are prefetched in sectors of 32 bytes, not in bulk
    WAY_ONE_COMM = 4,    // recorded and launched collectives share a communicator of NCCL
    WAY_ROUND_APART = 8, // activations become FP8 codes in a launch of their own
    WAY_NO_WINDOWS = 16, // NCCL sums parts of ranks in memory that is not registered with it
    WAY_NO_MEETS = 32,   // the ranks of a launched step do not wait for each other between layers
    WAY_ONE_READER = 64, // the loading thread alone fills staging buffers
};
