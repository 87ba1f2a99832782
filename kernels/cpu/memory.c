// Memory of the cpu device: large pieces are mapped with huge pages advised, small ones come from
// the heap (so that a sanitizer sees their ends). And how much may be taken: what the system says,
// bounded by the control groups of this process. Called by the loading thread.
#include "kernels/cpu/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

enum status cpu_memory_take(struct device *device, void **out, size_t bytes, struct error *err)
{
    (void)device;
    *out = NULL;
    if (bytes < HUGE_PAGE) {
        size_t whole = round_up(bytes > 0 ? bytes : 1, 256);
        *out = aligned_alloc(256, whole);
        if (*out == NULL)
            return error_set(err, STATUS_NO_MEMORY, "%zu bytes of memory could not be had", bytes);
        memset(*out, 0, whole);
        return STATUS_OK;
    }
    // one huge page more, so that the piece can begin at one
    size_t whole = round_up(bytes, HUGE_PAGE);
    char *at = mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    if (at == MAP_FAILED)
        return error_set(err, STATUS_NO_MEMORY,
                         "%zu bytes of memory could not be had; free some or lower the limits",
                         bytes);
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

void cpu_memory_give(struct device *device, void *at, size_t bytes)
{
    (void)device;
    if (at == NULL)
        return;
    if (bytes < HUGE_PAGE)
        free(at);
    else
        munmap(at, round_up(bytes, HUGE_PAGE));
}

// The number after `key` in a file of "key value" lines, or the first number where key is "".
// UINT64_MAX where there is none ("max").
static uint64_t file_number(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return UINT64_MAX;
    char line[256];
    uint64_t found = UINT64_MAX;
    size_t length = strlen(key);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, length) != 0)
            continue;
        char *end;
        unsigned long long value = strtoull(line + length, &end, 10);
        if (end != line + length)
            found = value;
        break;
    }
    fclose(file);
    return found;
}

// What one control group leaves: limit - use + what of the use is page cache that can go.
static uint64_t group_free(const char *folder, const char *limit_name, const char *use_name,
                           const char *cache_key)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, limit_name);
    uint64_t limit = file_number(path, "");
    if (limit >= UINT64_MAX / 2)
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, use_name);
    uint64_t use = file_number(path, "");
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    uint64_t cache = file_number(path, cache_key);
    if (use == UINT64_MAX)
        return limit;
    if (cache != UINT64_MAX)
        use = use > cache ? use - cache : 0;
    return limit > use ? limit - use : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// Walks the process's group and its parents (version 2), and looks at version 1's mount.
static uint64_t groups_free(void)
{
    uint64_t free_bytes = group_free("/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                     "memory.usage_in_bytes", "total_inactive_file ");
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL)
        return free_bytes;
    char line[320];
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::", 3) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        char folder[400];
        snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", line + 3);
        for (;;) {
            free_bytes = least(free_bytes, group_free(folder, "memory.max", "memory.current",
                                                      "inactive_file "));
            char *slash = strrchr(folder, '/');
            if (slash == NULL || slash < folder + strlen("/sys/fs/cgroup"))
                break;
            *slash = '\0';
        }
    }
    fclose(file);
    return free_bytes;
}

uint64_t cpu_memory_free(void)
{
    uint64_t kilobytes = file_number("/proc/meminfo", "MemAvailable:");
    uint64_t system = kilobytes < UINT64_MAX / 1024 ? kilobytes * 1024 : UINT64_MAX;
    if (system == UINT64_MAX)
        system = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return least(system, groups_free());
}
