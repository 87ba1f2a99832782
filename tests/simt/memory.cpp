// SPDX-License-Identifier: Apache-2.0
// The memory registry: all device and pinned memory of the emulator. It has margins and is poisoned
// with 0xFF (NaN in every float format), so that accesses outside of it are found.
#include "emu.h"
#include "poison.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace simt
{

enum { MARGIN = 4096 }; // pinned memory begins on a page boundary, as the driver's does

std::vector<allocation> allocations; // all allocations, sorted by address

const allocation *memory_at(const void *at)
{
    auto after = std::upper_bound(allocations.begin(), allocations.end(), (const char *)at,
                                  [](const char *p, const allocation &a) { return p < a.at; });
    if (after == allocations.begin())
        return nullptr;
    const allocation *a = &*(after - 1);
    return (const char *)at < a->at + a->bytes ? a : nullptr;
}

// Returns the bytes of an allocation with its margins, in complete pages.
static size_t pages_of(size_t padded)
{
    return (padded + 2 * MARGIN + MARGIN - 1) / MARGIN * MARGIN;
}

// Returns true if WEFT_SIMT_HIDE is set: device memory is then accessible only while queued work
// runs, so a host that accesses it by its address crashes, as with a card.
static bool hiding()
{
    static const bool on = getenv("WEFT_SIMT_HIDE") != nullptr;
    return on;
}

void memory_shown(const allocation &a, bool shown)
{
    size_t pages = pages_of((a.bytes + 255) & ~(size_t)255);
    size_t ends = std::min(pages, (size_t)(16 * MARGIN)); // of large allocations only the ends
    for (size_t at : {(size_t)0, pages - ends})
        if (hiding() && !a.pinned)
            (void)mprotect(a.at - MARGIN + at, ends, shown ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void memory_show(bool shown)
{
    for (auto &a : allocations)
        memory_shown(a, shown);
}

void *memory_alloc(size_t bytes, bool pinned)
{
    size_t padded = (bytes + 255) & ~(size_t)255;
    char *base = (char *)aligned_alloc(MARGIN, pages_of(padded));
    if (base == nullptr)
        return nullptr;
    memset(base, 0xFF, padded + 2 * MARGIN);
    POISON(base, MARGIN);
    POISON(base + MARGIN + bytes, MARGIN + padded - bytes);
    allocation a = {base + MARGIN, bytes, pinned, device_of_thread(), nullptr, 0};
    a.shadow_bytes = race_shadow_bytes(padded);
    a.shadow = mmap(nullptr, a.shadow_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a.shadow == MAP_FAILED)
        a.shadow = nullptr;
    allocations.insert(
        std::upper_bound(allocations.begin(), allocations.end(), a,
                         [](const allocation &x, const allocation &y) { return x.at < y.at; }),
        a);
    counts.device_bytes += pinned ? 0 : bytes;
    counts.live++;
    memory_shown(a, false);
    return a.at;
}

bool memory_free(void *at, bool pinned)
{
    const allocation *a = memory_at(at);
    if (a == nullptr || a->at != at || a->pinned != pinned) {
        report("%s of a pointer that was not taken so", pinned ? "cudaFreeHost" : "cudaFree");
        return false;
    }
    size_t padded = (a->bytes + 255) & ~(size_t)255;
    memory_shown(*a, true);
    UNPOISON(a->at - MARGIN, padded + 2 * MARGIN);
    bool margin_hit = false;
    for (size_t i = 0; i < MARGIN; i++)
        margin_hit |= (uint8_t)a->at[-1 - (ptrdiff_t)i] != 0xFF;
    for (size_t i = a->bytes; i < padded + MARGIN; i++)
        margin_hit |= (uint8_t)a->at[i] != 0xFF;
    if (margin_hit)
        report("bytes beside an allocation of %zu were overwritten", a->bytes);
    counts.device_bytes -= pinned ? 0 : a->bytes;
    counts.live--;
    if (a->shadow != nullptr)
        munmap(a->shadow, a->shadow_bytes);
    free(a->at - MARGIN);
    allocations.erase(allocations.begin() + (a - allocations.data()));
    return true;
}

const allocation *memory_of(const void *at, size_t bytes)
{
    const allocation *a = memory_at(at);
    return a != nullptr && (const char *)at + bytes <= a->at + a->bytes ? a : nullptr;
}

bool memory_known(const void *at, size_t bytes)
{
    return memory_of(at, bytes) != nullptr;
}

bool memory_pinned(const void *at)
{
    const allocation *a = memory_at(at);
    return a != nullptr && a->pinned;
}

} // namespace simt

using namespace simt;

extern "C" int simt_device_of(const void *at)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    const allocation *a = memory_at(at);
    return a != nullptr ? a->device : -1;
}
