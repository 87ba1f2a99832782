// SPDX-License-Identifier: Apache-2.0
// Memory and cores that the control groups of this process leave; see cgroups.h. Reads versions 1
// and 2, from the process's group up to the root of the mount. Any thread may call it, at startup.
#include "kernels/cpu/cgroups.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cgroups_place cgroups_system = {"/sys/fs/cgroup", "/proc/self/cgroup"};

enum { PATH_BYTES = 1024 };

// Returns the number after `key` at the start of a line of folder/name; with key "", the number at
// the start of the first line. UINT64_MAX if there is no number ("max", "-1", no such file).
static uint64_t number_in(const char *folder, const char *name, const char *key)
{
    char line[PATH_BYTES];
    if (snprintf(line, sizeof line, "%s/%s", folder, name) >= (int)sizeof line)
        return UINT64_MAX;
    FILE *file = fopen(line, "re");
    if (!file)
        return UINT64_MAX;
    uint64_t found = UINT64_MAX;
    size_t length = strlen(key);
    while (fgets(line, sizeof line, file)) {
        const char *digits = line + length;
        if (strncmp(line, key, length) != 0)
            continue;
        digits += strspn(digits, " ");
        if (*digits >= '0' && *digits <= '9')
            found = strtoull(digits, NULL, 10);
        break;
    }
    fclose(file);
    return found;
}

struct memory_names {
    const char *limit, *use, *cache;
};

static const struct memory_names memory_names[] = {
    {"memory.max", "memory.current", "inactive_file "},
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
};

static uint64_t memory_available(const char *folder, uint64_t least)
{
    for (size_t i = 0; i < sizeof memory_names / sizeof *memory_names; i++) {
        const struct memory_names *names = &memory_names[i];
        uint64_t limit = number_in(folder, names->limit, "");
        uint64_t use = number_in(folder, names->use, "");
        uint64_t cache = number_in(folder, "memory.stat", names->cache);
        if (limit >= UINT64_MAX / 4) // version 1 writes "no limit" as a number of pages near 2^63
            continue;
        use = use == UINT64_MAX ? 0 : use;
        cache = cache == UINT64_MAX ? 0 : cache;
        uint64_t held = use > cache ? use - cache : 0;
        uint64_t left = limit > held ? limit - held : 0;
        least = left < least ? left : least;
    }
    return least;
}

static uint64_t quota_cores(uint64_t quota, uint64_t period, uint64_t least)
{
    if (quota == 0 || quota >= UINT64_MAX / 2 || period == 0 || period >= UINT64_MAX / 2)
        return least;
    uint64_t cores = (quota + period - 1) / period;
    return cores < least ? cores : least;
}

static uint64_t cores_usable(const char *folder, uint64_t least)
{
    least = quota_cores(number_in(folder, "cpu.cfs_quota_us", ""),
                        number_in(folder, "cpu.cfs_period_us", ""), least);
    char path[PATH_BYTES], line[64] = "";
    if (snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path)
        return least;
    FILE *file = fopen(path, "re"); // "QUOTA PERIOD" or "max PERIOD"
    if (!file)
        return least;
    unsigned long long quota, period;
    if (fgets(line, sizeof line, file) && sscanf(line, "%llu %llu", &quota, &period) == 2)
        least = quota_cores(quota, period, least);
    fclose(file);
    return least;
}

typedef uint64_t group_read(const char *folder, uint64_t least);

// Returns the smallest value of a group and its parents up to the root. In a container the named
// group may be outside the mounted tree; then the root is the container's group.
static uint64_t groups_climb(const char *root, const char *group, group_read *read, uint64_t least)
{
    char folder[PATH_BYTES];
    size_t root_length = strlen(root);
    if (snprintf(folder, sizeof folder, "%s%s", root, group) >= (int)sizeof folder)
        return read(root, least);
    for (;;) {
        least = read(folder, least);
        char *slash = strrchr(folder, '/');
        if (!slash || slash < folder + root_length)
            return least;
        *slash = '\0';
    }
}

// Evaluates one line of the file of groups, "NUMBER:CONTROLLERS:GROUP"; version 2 names no
// controllers.
static uint64_t line_read(const char *mount, char *line, const char *controller, group_read *read,
                          uint64_t least)
{
    char root[PATH_BYTES];
    char *names = strchr(line, ':');
    char *group = names ? strchr(names + 1, ':') : NULL;
    if (!group)
        return least;
    *names++ = *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (*names == '\0')
        return groups_climb(mount, group, read, least);
    for (char *rest, *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (strcmp(name, controller) != 0 ||
            snprintf(root, sizeof root, "%s/%s", mount, controller) >= (int)sizeof root)
            continue;
        return groups_climb(root, group, read, least);
    }
    return least;
}

static uint64_t groups_least(const struct cgroups_place *place, const char *controller,
                             group_read *read)
{
    char line[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen(place->own, "re");
    if (!file)
        return least;
    while (fgets(line, sizeof line, file))
        least = line_read(place->mount, line, controller, read, least);
    fclose(file);
    return least;
}

uint64_t cgroups_memory_available(const struct cgroups_place *place)
{
    return groups_least(place, "memory", memory_available);
}

uint32_t cgroups_cores(const struct cgroups_place *place)
{
    uint64_t least = groups_least(place, "cpu", cores_usable);
    return least < UINT32_MAX ? (uint32_t)least : UINT32_MAX;
}

uint32_t cgroups_cores_usable(const struct cgroups_place *place)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cores = online > 0 ? (uint32_t)online : 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        cores = (uint32_t)CPU_COUNT(&set);
    uint32_t paid = cgroups_cores(place);
    return paid < cores ? paid : cores;
}
