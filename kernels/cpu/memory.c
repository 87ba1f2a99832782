// SPDX-License-Identifier: Apache-2.0
// Memory of the cpu device: large pieces are mapped with huge pages advised, small ones are on the
// heap, where a sanitizer knows their ends. Free memory is the system's, limited by the control
// groups of this process. Called by the loading thread.
#include "kernels/cpu/memory.h"

#include "base/number.h"
#include "kernels/cpu/cgroups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

enum status cpu_memory_alloc(struct device *device, void **out, size_t bytes, struct error *err)
{
    (void)device;
    *out = NULL;
    if (bytes < HUGE_PAGE) {
        size_t whole = round_up(bytes > 0 ? bytes : 1, 256);
        *out = aligned_alloc(256, whole);
        if (!*out)
            return error_set(err, STATUS_NO_MEMORY, "%zu bytes of memory could not be allocated",
                             bytes);
        memset(*out, 0, whole);
        return STATUS_OK;
    }
    // one more huge page, for alignment
    size_t whole = round_up(bytes, HUGE_PAGE);
    char *at =
        mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return error_set(
            err, STATUS_NO_MEMORY,
            "%zu bytes of memory could not be allocated; free some or lower the limits", bytes);
    char *begin = (char *)round_up((size_t)at, HUGE_PAGE);
    if (begin > at)
        munmap(at, (size_t)(begin - at));
    size_t tail = (size_t)(at + whole + HUGE_PAGE - (begin + whole));
    if (tail > 0)
        munmap(begin + whole, tail);
    madvise(begin, whole, MADV_HUGEPAGE);
    *out = begin;
    return STATUS_OK;
}

void cpu_memory_free(struct device *device, void *at, size_t bytes)
{
    (void)device;
    if (!at)
        return;
    if (bytes < HUGE_PAGE)
        free(at);
    else
        munmap(at, round_up(bytes, HUGE_PAGE));
}

// Returns "MemAvailable" of /proc/meminfo in bytes; UINT64_MAX if it cannot be read.
static uint64_t system_available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[256];
    unsigned long long kilobytes;
    uint64_t found = UINT64_MAX;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kilobytes) == 1)
            found = kilobytes * 1024;
    if (file)
        fclose(file);
    return found;
}

uint64_t cpu_memory_available(void)
{
    uint64_t system = system_available();
    if (system == UINT64_MAX)
        system = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t groups = cgroups_memory_available(&cgroups_system);
    return system < groups ? system : groups;
}
