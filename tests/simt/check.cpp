// SPDX-License-Identifier: Apache-2.0
// Checks memory accesses: reports, shared memory, the race detector and the access hooks. Race
// detector (if kernels are compiled with access hooks): for each two bytes of shared and global
// memory the last write and last read are recorded; an access is a race unless a barrier, a
// warp_sync or a release-acquire chain orders it after them, in any schedule. Kernels therefore
// write at least two bytes at a time. memory.cpp has the memory that may be accessed, lint.cpp
// counts accesses.
#include "emu.h"
#include "poison.h"

#include <algorithm>
#include <dlfcn.h>
#include <link.h>
#include <set>
#include <stdarg.h>
#include <stdio.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace simt
{

simt_counts counts;
static std::string &first_report = *new std::string; // never destroyed: report_left reads it
static thread_local const void *access_pc;

#if defined(SIMT_RACE)
static const bool hooked = true; // true: kernels of this build call the access hooks
#else
static const bool hooked = false;
#endif

enum { GRAIN = 2 }; // bytes of which accesses are recorded together

// A recorded access. many: who else has read since the last write.
struct seen_access {
    uint32_t launch, block, barrier, warp_epoch, clock;
    uint16_t thread;
    uint8_t atomic, many; // bits of many: 1 other lanes of the warp, 2 other warps, 4 other blocks
};
struct cell {
    seen_access write, read;
};

static cell *shared_cells;
static std::vector<uint8_t> shared_pending; // 1 for each byte for which a cp.async is pending

// --- reports ------------------------------------------------------------------------------------

static std::string place(const void *pc)
{
    Dl_info info;
    if (pc == nullptr || dladdr(pc, &info) == 0)
        return "?";
    char command[512];
    snprintf(command, sizeof command, "addr2line -s -i -e '%s' 0x%lx 2>/dev/null", info.dli_fname,
             (unsigned long)((const char *)pc - (const char *)info.dli_fbase) - 1);
    FILE *pipe = popen(command, "r");
    if (pipe == nullptr)
        return "?";
    std::string out;
    char line[256];
    while (fgets(line, sizeof line, pipe) != nullptr) {
        line[strcspn(line, "\n (")] = 0;
        out += out.empty() ? line : std::string(" from ") + line;
    }
    pclose(pipe);
    return out;
}

static std::string device_word() // returns "simt" or "ptx"
{
    return std::string(device_title, strcspn(device_title, ":"));
}

void report(const char *format, ...)
{
    counts.reports++;
    static std::set<const void *> printed;
    if (access_pc != nullptr && !first_report.empty() && !printed.insert(access_pc).second)
        return;
    if (counts.reports > 20)
        return;
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    std::string whole = std::string(launch_name) + ": " + text;
    if (current != nullptr)
        whole += " [block " + std::to_string(block.index) + ", thread " +
                 std::to_string(current->thread) + "]";
    if (access_pc != nullptr)
        whole += " at " + place(access_pc);
    if (first_report.empty())
        first_report = whole;
    if (!options.quiet)
        fprintf(stderr, "%s: %s\n", device_word().c_str(), whole.c_str());
}

// Fails the process if reports were not read by a test.
__attribute__((destructor)) static void report_left()
{
    if (counts.reports == 0)
        return;
    fprintf(stderr, "%s: %llu reports; the first: %s\n", device_word().c_str(),
            (unsigned long long)counts.reports, first_report.c_str());
    fflush(stdout);
    _exit(70);
}

// --- shared memory ------------------------------------------------------------------------------

static size_t shared_used()
{
    return block.dynamic_bytes + block.static_bytes;
}

void check_launch()
{
    if (options.lint)
        lint_launch();
    if (shared_cells == nullptr) {
        shared_cells =
            (cell *)mmap(nullptr, (SHARED_MAX / GRAIN + 1) * sizeof(cell), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        shared_pending.assign(SHARED_MAX, 0);
    }
}

// Dynamic shared memory is first; static objects follow in the order of their first use.
void check_block()
{
    UNPOISON(shared_memory, SHARED_MAX);
    memset(shared_memory, 0xFF, block.dynamic_bytes);
    POISON(shared_memory + block.dynamic_bytes, SHARED_MAX - block.dynamic_bytes);
    if (block.dynamic_bytes != 0)
        block.objects.push_back({0, block.dynamic_bytes});
    block.static_bytes = 0;
}

void check_block_end()
{
    std::fill(shared_pending.begin(), shared_pending.begin() + (ptrdiff_t)shared_used(), 0);
    if (options.lint)
        lint_end();
}

void *shared_static(const void *key, size_t bytes)
{
    for (auto &known : block.statics)
        if (known.first == key)
            return shared_memory + known.second;
    // leaves a gap, so that overruns are detected
    size_t at = (shared_used() + 32 + 127) & ~(size_t)127;
    if (at + bytes > SHARED_MAX) {
        report("%zu bytes of shared memory do not fit", at + bytes);
        abandon();
    }
    block.static_bytes = at + bytes - block.dynamic_bytes;
    block.statics.push_back({key, at});
    block.objects.push_back({at, bytes});
    UNPOISON(shared_memory + at, bytes);
    memset(shared_memory + at, 0xFF, bytes);
    return shared_memory + at;
}

void *shared_dynamic()
{
    return shared_memory;
}

uint32_t shared_offset(const void *at)
{
    return (uint32_t)((const char *)at - shared_memory);
}

static bool in_shared(const void *at)
{
    return (size_t)((const char *)at - shared_memory) < SHARED_MAX;
}

bool shared_check(const void *at, size_t bytes, const char *what)
{
    size_t offset = (size_t)((const char *)at - shared_memory);
    for (auto &object : block.objects)
        if (offset >= object.first && offset + bytes <= object.first + object.second)
            return true;
    report("%s of %zu bytes outside shared memory (offset %zd, %zu dynamic bytes)", what, bytes,
           (ptrdiff_t)offset, block.dynamic_bytes);
    return false;
}

bool async_pending(const void *at, size_t bytes)
{
    size_t offset = (size_t)((const char *)at - shared_memory);
    for (size_t i = 0; i < bytes; i++)
        if (shared_pending[offset + i])
            return true;
    return false;
}

void async_mark(void *at, size_t bytes, bool pending)
{
    size_t offset = (size_t)((char *)at - shared_memory);
    for (size_t i = 0; i < bytes; i++) {
        if (pending && shared_pending[offset + i])
            report("two cp.async to one place of shared memory at once");
        shared_pending[offset + i] = pending;
    }
}

// --- clocks -------------------------------------------------------------------------------------
// Keys name whose accesses are known: a block up to a barrier, a warp up to a warp_sync, a thread
// up to one of its releases.

static uint64_t key_block(uint32_t b)
{
    return (uint64_t)b << 16;
}
static uint64_t key_warp(uint32_t b, unsigned w)
{
    return (1ull << 62) | (uint64_t)b << 16 | w;
}
static uint64_t key_thread(uint32_t b, unsigned t)
{
    return (2ull << 62) | (uint64_t)b << 16 | t;
}

static void clock_raise(clock_map *map, uint64_t key, uint32_t value)
{
    uint32_t &slot = (*map)[key];
    slot = std::max(slot, value);
}

void clock_merge(clock_map *into, const clock_map &from)
{
    for (auto &entry : from)
        clock_raise(into, entry.first, entry.second);
}

void clock_release(fiber *f, clock_map *into)
{
    clock_raise(into, key_block(block.index), block.barriers);
    clock_raise(into, key_warp(block.index, f->w->index), f->w->epoch);
    clock_raise(into, key_thread(block.index, f->thread), ++f->releases);
    clock_merge(into, block.known);
    if (f->acquired)
        clock_merge(into, *f->acquired);
}

void clock_acquire(fiber *f, const clock_map &from)
{
    if (!f->acquired)
        f->acquired = std::make_unique<clock_map>();
    clock_merge(f->acquired.get(), from);
}

static bool clock_covers(const clock_map *map, const seen_access &a)
{
    if (map == nullptr || map->empty())
        return false;
    auto entry = map->find(key_block(a.block));
    if (entry != map->end() && entry->second > a.barrier)
        return true;
    entry = map->find(key_warp(a.block, a.thread / LANES));
    if (entry != map->end() && entry->second > a.warp_epoch && !(a.many & 6))
        return true;
    entry = map->find(key_thread(a.block, a.thread));
    return entry != map->end() && entry->second > a.clock && a.many == 0;
}

static bool ordered(const seen_access &a, bool shared)
{
    const fiber *f = current;
    if (a.launch != launch_number || (shared && a.block != block.index))
        return true; // from an earlier launch, or of an earlier block with the same shared memory
    if (a.block == block.index && !(a.many & 4)) {
        if (a.barrier < block.barriers)
            return true;
        if (a.many == 0 && a.thread == f->thread)
            return true;
        if (!(a.many & 2) && a.thread / LANES == f->w->index && a.warp_epoch < f->w->epoch)
            return true;
    }
    return clock_covers(f->acquired.get(), a) || clock_covers(&block.known, a);
}

static std::unordered_map<const void *, clock_map> sync_clocks;
static uint32_t sync_launch;

// --- races --------------------------------------------------------------------------------------

size_t race_shadow_bytes(size_t bytes)
{
    return (bytes / GRAIN + 1) * sizeof(cell);
}

static void remember(seen_access *a, bool atomic)
{
    a->launch = launch_number;
    a->block = block.index;
    a->barrier = block.barriers;
    a->warp_epoch = current->w->epoch;
    a->clock = current->releases;
    a->thread = (uint16_t)current->thread;
    a->atomic = atomic;
    a->many = 0;
}

static void remember_read(seen_access *a, bool atomic, bool shared)
{
    uint8_t many = 0;
    if (a->launch == launch_number && !ordered(*a, shared)) {
        many = a->many;
        if (a->block != block.index)
            many |= 4;
        else if (a->thread / LANES != current->thread / LANES)
            many |= 2;
        else
            many |= 1;
    }
    remember(a, atomic);
    a->many = many;
}

static const char *race_name(const cell *c, bool write, bool atomic, bool shared,
                             const seen_access **other)
{
    if (!ordered(c->write, shared) && !(atomic && c->write.atomic)) {
        *other = &c->write;
        return write ? "write-write race" : "read-after-write race";
    }
    if (write && !ordered(c->read, shared) && !(atomic && c->read.atomic)) {
        *other = &c->read;
        return "write-after-read race";
    }
    return nullptr;
}

static void race_check(cell *c, size_t cells, bool write, bool atomic, bool shared)
{
    for (size_t i = 0; i < cells; i++, c++) {
        const seen_access *other = nullptr;
        const char *name = race_name(c, write, atomic, shared, &other);
        if (name != nullptr)
            report("%s (%s) with thread %u of block %u", name, shared ? "shared" : "global",
                   other->thread, other->block);
        else if (shared && !write && c->write.launch != launch_number)
            report("read of uninitialised shared memory");
        else if (shared && !write && c->write.block != block.index)
            report("read of uninitialised shared memory");
        if (write)
            remember(&c->write, atomic);
        else
            remember_read(&c->read, atomic, shared);
    }
}

// --- one access ---------------------------------------------------------------------------------

static bool in_image(const void *at)
{
    static std::vector<std::pair<uintptr_t, uintptr_t>> segments;
    if (segments.empty())
        dl_iterate_phdr(
            [](dl_phdr_info *info, size_t, void *) {
                for (int i = 0; i < info->dlpi_phnum; i++)
                    if (info->dlpi_phdr[i].p_type == PT_LOAD)
                        segments.push_back({info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
                                            info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
                                                info->dlpi_phdr[i].p_memsz});
                return 0;
            },
            nullptr);
    for (auto &s : segments)
        if ((uintptr_t)at >= s.first && (uintptr_t)at < s.second)
            return true;
    return false;
}

void access(const void *at, size_t bytes, bool write, bool atomic, const void *pc)
{
    const char *p = (const char *)at;
    if ((size_t)(p - current->stack) < STACK_BYTES || p == (const char *)&here ||
        (size_t)(p - (const char *)current) < sizeof *current)
        return; // local variables, and threadIdx and the like
    access_pc = pc;
    if (bytes <= 16 && (bytes & (bytes - 1)) == 0 && (uintptr_t)at % bytes != 0)
        report("misaligned access of %zu bytes", bytes);
    if (in_shared(at)) {
        if (shared_check(at, bytes, write ? "write" : "read")) {
            size_t offset = (size_t)(p - shared_memory);
            if (async_pending(at, bytes))
                report("%s of a cp.async destination before its wait", write ? "write" : "read");
            race_check(shared_cells + offset / GRAIN, (bytes + GRAIN - 1) / GRAIN, write, atomic,
                       true);
            if (options.lint && !atomic && pc != nullptr)
                lint_note(at, bytes, true, pc);
        }
    } else if ((size_t)(p - stacks) < stacks_bytes) {
        report("access to another thread's local memory");
    } else if (const allocation *a = memory_at(at)) {
        if (current->seen.early)
            report("%s of global memory before the wait for the kernel in front",
                   write ? "write" : "read");
        if (p + bytes > a->at + a->bytes)
            report("%s past the end of an allocation of %zu bytes", write ? "write" : "read",
                   a->bytes);
        else if (a->shadow != nullptr)
            race_check((cell *)a->shadow + (size_t)(p - a->at) / GRAIN, (bytes + GRAIN - 1) / GRAIN,
                       write, atomic, false);
        if (options.lint && !atomic && pc != nullptr)
            lint_note(at, bytes, false, pc);
    } else if (!in_launch_args(at) && !in_image(at)) { // constants are in the executable's image
        report("%s of %zu bytes outside every allocation", write ? "write" : "read", bytes);
    }
    access_pc = nullptr;
}

void atomic_note(void *at, size_t bytes, int order, bool write)
{
    if (current == nullptr)
        return;
    if (hooked)
        access(at, bytes, write, true, __builtin_return_address(0));
    if (sync_launch != launch_number) {
        sync_clocks.clear();
        sync_launch = launch_number;
    }
    if (order & RELEASE)
        clock_release(current, &sync_clocks[at]);
    if (order & ACQUIRE) {
        auto entry = sync_clocks.find(at);
        if (entry != sync_clocks.end())
            clock_acquire(current, entry->second);
    }
}

static void hook(const void *at, size_t bytes, bool write, const void *pc)
{
    if (current != nullptr)
        access(at, bytes, write, false, pc);
}

} // namespace simt

using namespace simt;

extern "C" {

void simt_configure(const struct simt_options *wanted)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    options = *wanted;
    code_forget();
}

void simt_reset(void)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    uint64_t bytes = counts.device_bytes, live = counts.live, windows = counts.nccl_windows;
    counts = simt_counts();
    lint_reset();
    counts.device_bytes = bytes;
    counts.live = live;
    counts.nccl_windows = windows;
    first_report.clear();
}

void simt_read(struct simt_counts *out)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    *out = counts;
}

const char *simt_first_report(void)
{
    return first_report.c_str();
}

bool simt_checks_races(void)
{
    return hooked;
}

// The functions that code compiled with -fsanitize=thread calls; libtsan is never linked.
#if defined(SIMT_RACE)
#define CALLER __builtin_return_address(0)
#define HOOKS(bytes)                                                                               \
    void __tsan_read##bytes(void *p)                                                               \
    {                                                                                              \
        hook(p, bytes, false, CALLER);                                                             \
    }                                                                                              \
    void __tsan_write##bytes(void *p)                                                              \
    {                                                                                              \
        hook(p, bytes, true, CALLER);                                                              \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *p)                                                     \
    {                                                                                              \
        hook(p, bytes, false, CALLER);                                                             \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *p)                                                    \
    {                                                                                              \
        hook(p, bytes, true, CALLER);                                                              \
    }                                                                                              \
    void __tsan_volatile_read##bytes(void *p)                                                      \
    {                                                                                              \
        hook(p, bytes, false, CALLER);                                                             \
    }                                                                                              \
    void __tsan_volatile_write##bytes(void *p)                                                     \
    {                                                                                              \
        hook(p, bytes, true, CALLER);                                                              \
    }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_init(void)
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void)
{
}
void __tsan_vptr_update(void **, void *)
{
}
void __tsan_vptr_read(void **)
{
}
void __tsan_read_range(void *p, unsigned long bytes)
{
    hook(p, bytes, false, CALLER);
}
void __tsan_write_range(void *p, unsigned long bytes)
{
    hook(p, bytes, true, CALLER);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    hook(from, bytes, false, CALLER);
    hook(to, bytes, true, CALLER);
    return memcpy(to, from, bytes);
}
void *__tsan_memset(void *to, int byte, size_t bytes)
{
    hook(to, bytes, true, CALLER);
    return memset(to, byte, bytes);
}
#endif
}
