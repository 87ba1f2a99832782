// What the control groups of this process leave it: version 2, and version 1 where it is mounted.
// A group counts with all those above it. Called by the thread that opens the device.
#pragma once

#include <stdint.h>

struct cgroups_place {
    const char *mount; // the folder of the hierarchies
    const char *own;   // the file that names this process's groups, a line each
};

extern const struct cgroups_place cgroups_system;

// Bytes: limit - use + what of the use is page cache that can go. UINT64_MAX: no limit.
uint64_t cgroups_memory_free(const struct cgroups_place *place);

// Processors' worth of time that the least quota allows, rounded up. UINT32_MAX: no quota.
uint32_t cgroups_cores(const struct cgroups_place *place);
