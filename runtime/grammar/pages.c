// SPDX-License-Identifier: Apache-2.0
// Tables in mapped pages: malloc would return used memory, which then must be cleared completely.
// See pages.h.
#include "runtime/grammar/pages.h"

#include "base/status.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void pages_init(struct pages *p, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(at != MAP_FAILED, "cannot allocate %zu bytes", bytes);
    *p = (struct pages){at, 0, bytes};
}

void pages_deinit(struct pages *p)
{
    if (p->at)
        munmap(p->at, p->bytes);
    *p = (struct pages){0};
}

void *pages_alloc(struct pages *p, size_t count, size_t bytes_each)
{
    size_t bytes = (count * bytes_each + 63) / 64 * 64;
    check(bytes <= p->bytes - p->used, "%zu bytes of tables, %zu are left", bytes,
          p->bytes - p->used);
    void *at = p->at + p->used;
    p->used += bytes;
    return at;
}

void pages_drop(void *table, size_t bytes_each, size_t now, size_t before)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)table;
    uintptr_t from = (at + now * bytes_each + page - 1) / page * page;
    uintptr_t to = (at + before * bytes_each) / page * page;
    if (from < to) // on failure the memory is just not returned
        madvise((char *)table + (from - at), to - from, MADV_DONTNEED);
}
