// The limits of this process's control groups (version 2, and version 1 where it is mounted),
// parents included. Called by the thread that opens the device.
#pragma once

#include <stdint.h>

struct cgroups_place {
    const char *mount; // the folder of the hierarchies
    const char *own;   // the file that names this process's groups, a line each
};

extern const struct cgroups_place cgroups_system;

// Bytes left: limit - use + page cache that can be reclaimed. UINT64_MAX: no limit.
uint64_t cgroups_memory_free(const struct cgroups_place *place);

// Processors that the smallest quota allows, rounded up. UINT32_MAX: no quota.
uint32_t cgroups_cores(const struct cgroups_place *place);

// Processors that this process may use, by its affinity and that quota: more threads would spend
// the quota spinning, and then all of them would be throttled. At least 1.
uint32_t cgroups_cores_usable(const struct cgroups_place *place);
