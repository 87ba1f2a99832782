// SPDX-License-Identifier: Apache-2.0
// The limits of this process's control groups (version 2, and version 1 if it is mounted),
// including those of parent groups. Called by the thread that opens the device.
#pragma once

#include <stdint.h>

struct cgroups_place {
    const char *mount; // mount point of the hierarchies
    const char *own;   // file that lists this process's groups, one per line
};

extern const struct cgroups_place cgroups_system;

// Returns the bytes left: limit - use + page cache that can be reclaimed. UINT64_MAX: no limit.
uint64_t cgroups_memory_available(const struct cgroups_place *place);

// Returns the processors that the smallest quota allows, rounded up. UINT32_MAX: no quota.
uint32_t cgroups_cores(const struct cgroups_place *place);

// Returns the processors that this process may use according to its affinity and that quota. More
// threads would use up the quota by spinning, and then all would be throttled. At least 1.
uint32_t cgroups_cores_usable(const struct cgroups_place *place);
