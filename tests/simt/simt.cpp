// SPDX-License-Identifier: Apache-2.0
// Fibers, barriers, collectives and launches of the emulator. One block runs at a time; its threads
// are fibers that are switched by a few instructions (below). A fiber runs until a collective or
// barrier needs another fiber; the last fiber to arrive does the work of a collective for all
// lanes.
//
// Everything runs on the calling OS thread, under emu_lock. Stacks are allocated once.
#include "emu.h"

#include <numeric>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN_ONLY(code) code
#else
#define ASAN_ONLY(code)
#endif

// The saved registers and the return address are on the fiber's stack. Returning by a jump instead
// of `ret` avoids mispredictions of the return predictor (four times faster).
asm(".text\n.hidden simt_switch\n.globl simt_switch\n.type simt_switch,@function\nsimt_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\n"
    "popq %rcx\njmp *%rcx\n.size simt_switch,.-simt_switch\n");
extern "C" void simt_switch(void **save, void *to);

namespace simt
{

emu_mutex emu_lock;
thread_local unsigned emu_mutex::depth;
simt_options options = [] {
    simt_options eight{};
    eight.devices = 7; // more devices, for copies and ranks
    return eight;
}();
thread_local fiber *current;
thread_local view *here;
block_run block;
std::vector<warp> warps;
uint32_t launch_number;
const char *launch_name = "";
char *shared_memory;
char *stacks;
size_t stacks_bytes;
extern simt_counts counts;

struct launch_work {
    launch_shape shape;
    kernel_body *body;
    std::vector<char> args;
};

static std::vector<fiber> fibers;
static struct {
    fiber *at[THREADS_MAX]; // a ring that contains each fiber at most once
    unsigned first, count;
} ready;
static void *scheduler_sp;
static const launch_work *running;
static uint32_t random_state = 1;
ASAN_ONLY(static void *scheduler_fake; static const void *scheduler_bottom;
          static size_t scheduler_bytes;)

uint32_t random_next()
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static fiber **ready_at(unsigned i)
{
    return &ready.at[(ready.first + i) % THREADS_MAX];
}

void make_ready(fiber *f)
{
    f->state = READY;
    *ready_at(ready.count++) = f;
}

// Returns the fiber to run next; nullptr: none can run, or the launch has ended.
static fiber *next_ready()
{
    if (ready.count == 0 || block.broken)
        return nullptr;
    if (options.seed != 0 && ready.count > 1)
        std::swap(*ready_at(0), *ready_at(random_next() % ready.count));
    fiber *f = *ready_at(0);
    ready.first = (ready.first + 1) % THREADS_MAX;
    ready.count--;
    current = f;
    here = &f->seen;
    return f;
}

// Switches directly to the next fiber; by way of the scheduler two switches would be needed.
void park()
{
    fiber *f = current;
    fiber *next = next_ready();
    ASAN_ONLY(__sanitizer_start_switch_fiber(f->state == DONE ? nullptr : &f->fake_stack,
                                             next ? next->stack : scheduler_bottom,
                                             next ? (size_t)STACK_BYTES : scheduler_bytes);)
    simt_switch(&f->sp, next ? next->sp : scheduler_sp);
    ASAN_ONLY(__sanitizer_finish_switch_fiber(f->fake_stack, nullptr, nullptr);)
}

void abandon()
{
    block.broken = true;
    current->state = DONE;
    park();
    abort(); // the fiber is never resumed
}

static void thread_main()
{
    ASAN_ONLY(const void *from; size_t bytes;
              __sanitizer_finish_switch_fiber(nullptr, &from, &bytes);
              if (scheduler_bottom == nullptr) { // the first fiber of a block
                  scheduler_bottom = from;
                  scheduler_bytes = bytes;
              })
    running->body(running->shape.kernel, running->args.data());
    fiber *f = current;
    if (!f->groups.empty() || !f->open_group.empty())
        report("thread %u ends with a cp.async that it never waited for", f->thread);
    f->state = DONE;
    block.done++;
    if (f->seen.early) {
        report("thread %u ends and never waited for the kernel in front", f->thread);
        block.broken = true;
    }
    if (block.waiting != 0 && block.waiting + block.done == block.threads) {
        report("the barrier at %s:%d would be passed only because other threads ended", block.file,
               block.line);
        block.broken = true;
    }
    park();
    abort();
}

static void fiber_prepare(fiber *f, unsigned thread, const launch_shape &shape, uint3 bid)
{
    f->seen.block = shape.block;
    f->seen.grid = shape.grid;
    f->seen.bid = bid;
    f->seen.tid = {thread % shape.block.x, thread / shape.block.x % shape.block.y,
                   thread / (shape.block.x * shape.block.y)};
    f->seen.lane = thread % LANES;
    f->seen.early = shape.early;
    f->thread = thread;
    f->w = &warps[thread / LANES];
    f->state = READY;
    f->releases = 1;
    f->acquired.reset();
    f->groups.clear();
    f->open_group.clear();
    ASAN_ONLY(__asan_unpoison_memory_region(f->stack, STACK_BYTES);)
    void **top = (void **)(f->stack + STACK_BYTES - 64);
    *--top = nullptr; // return address of thread_main, never used
    *--top = (void *)thread_main;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    f->sp = top;
}

static void report_stuck()
{
    for (fiber &f : fibers) {
        if (f.thread >= block.threads || f.state == DONE || f.state == READY)
            continue;
        if (f.state == WAIT_WARP)
            report("deadlock: warp %u waits at %s:%d, lanes 0x%08x have come", f.w->index, f.file,
                   f.line, f.w->arrived);
        else
            report("deadlock: thread %u waits at the barrier %s:%d (%u of %u threads have come)",
                   f.thread, f.file, f.line, block.waiting, block.threads);
        return;
    }
}

static void run_block(const launch_shape &shape, uint3 bid)
{
    ready.first = ready.count = 0;
    for (unsigned i = 0; i < block.threads; i++) {
        fiber_prepare(&fibers[i], i, shape, bid);
        make_ready(&fibers[i]);
    }
    ASAN_ONLY(scheduler_bottom = nullptr;)
    if (fiber *f = next_ready()) {
        ASAN_ONLY(__sanitizer_start_switch_fiber(&scheduler_fake, f->stack, STACK_BYTES);)
        simt_switch(&scheduler_sp, f->sp);
        ASAN_ONLY(__sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);)
    }
    current = nullptr;
    here = nullptr;
    if (!block.broken && block.done != block.threads) {
        report_stuck();
        block.broken = true;
    }
}

static void memory_map()
{
    if (shared_memory != nullptr)
        return;
    shared_memory = (char *)mmap(nullptr, SHARED_MAX + 4096, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stacks_bytes = (size_t)STACK_STEP * THREADS_MAX;
    stacks = (char *)mmap(nullptr, stacks_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared_memory == MAP_FAILED || stacks == MAP_FAILED)
        abort();
    fibers.resize(THREADS_MAX);
    for (size_t i = 0; i < THREADS_MAX; i++)
        fibers[i].stack = stacks + i * STACK_STEP;
}

bool in_launch_args(const void *at)
{
    return (size_t)((const char *)at - running->args.data()) < running->args.size();
}

// Makes device memory accessible to the kernel, or inaccessible.
static void memory_reach(bool on)
{
    for (auto &a : allocations) {
        memory_shown(a, on);
        ASAN_ONLY(if (!a.pinned && on) __asan_unpoison_memory_region(a.at, a.bytes);
                  if (!a.pinned && !on) __asan_poison_memory_region(a.at, a.bytes);)
    }
}

static void run_launch(const launch_work &work)
{
    const launch_shape &shape = work.shape;
    memory_map();
    launch_number++;
    launch_name = shape.name;
    counts.launches++;
    counts.early += shape.early;
    product_record(shape.name);
    random_state = options.seed * 2654435761u + launch_number;
    running = &work;
    check_launch();
    uint32_t blocks = shape.grid.x * shape.grid.y * shape.grid.z;
    uint32_t threads = shape.block.x * shape.block.y * shape.block.z;
    uint32_t at = 0, by = 1; // a step that visits every block, so that any block may be the last
    if (options.seed != 0 && blocks > 1) {
        at = random_next() % blocks;
        do
            by = 1 + random_next() % (blocks - 1);
        while (std::gcd(blocks, by) != 1);
    }
    for (uint32_t i = 0; i < blocks; i++, at = (uint32_t)(((uint64_t)at + by) % blocks)) {
        uint32_t b = at;
        block = block_run();
        block.index = b;
        block.threads = threads;
        block.barriers = 1;
        block.early = shape.early ? threads : 0;
        block.hidden = shape.early && i == 0;
        block.dynamic_bytes = (shape.shared + 15) & ~(size_t)15;
        warps.assign(threads / LANES, warp());
        for (unsigned w = 0; w < warps.size(); w++) {
            warps[w].index = w;
            warps[w].epoch = 1;
        }
        counts.blocks++;
        check_block();
        if (block.hidden)
            memory_reach(false);
        run_block(shape, {b % shape.grid.x, b / shape.grid.x % shape.grid.y,
                          b / (shape.grid.x * shape.grid.y)});
        if (block.hidden) // a thread never called grid_wait
            memory_reach(true);
        check_block_end();
        if (block.broken)
            return;
    }
}

static std::unordered_map<const void *, size_t> &shared_allowed()
{
    static std::unordered_map<const void *, size_t> allowed;
    return allowed;
}

cudaError_t shared_allow(const void *kernel, size_t bytes)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (bytes > (options.shared_most != 0 ? options.shared_most : (uint32_t)SHARED_MAX))
        return call_failed(cudaErrorInvalidValue);
    shared_allowed()[kernel] = bytes;
    return cudaSuccess;
}

bool shape_possible(const launch_shape &shape, cudaStream_t stream)
{
    if (shape.early && !stream_after_kernel(stream)) {
        report("launch of %s may begin early, but what is in front of it is no kernel", shape.name);
        return false;
    }
    uint64_t threads = (uint64_t)shape.block.x * shape.block.y * shape.block.z;
    uint64_t blocks = (uint64_t)shape.grid.x * shape.grid.y * shape.grid.z;
    if (threads == 0 || threads > THREADS_MAX || threads % LANES != 0 || blocks == 0 ||
        shape.grid.y > 65535 || shape.grid.z > 65535) {
        report("launch of %s with %llu blocks of %llu threads is not possible", shape.name,
               (unsigned long long)blocks, (unsigned long long)threads);
        return false;
    }
    if (shape.shared > SHARED_PLAIN_MAX && shared_allowed()[shape.kernel] < shape.shared) {
        report("launch of %s with %zu bytes of shared memory that were not allowed first",
               shape.name, shape.shared);
        return false;
    }
    return true;
}

void launch(const launch_shape &shape, cudaStream_t stream, kernel_body *body, const void *args,
            size_t bytes)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (!stream_accepts(stream))
        return;
    if (!shape_possible(shape, stream))
        return;
    code_use(shape.kernel);
    const char *from = (const char *)args;
    launch_work work = {shape, body, std::vector<char>(from, from + bytes)};
    stream_push(stream, [work = std::move(work)] { run_launch(work); }, true);
}

// --- barriers and collectives --------------------------------------------------------------------

void collect(int op, void *frame, collective_run *run, const char *file, int line)
{
    fiber *f = current;
    warp *w = f->w;
    if (w->arrived == 0) {
        w->op = op;
        w->file = file;
        w->line = line;
    } else if (w->op != op || w->line != line || w->file != file) {
        report("divergence in warp %u: lanes 0x%08x are at %s:%d, lane %u is at %s:%d", w->index,
               w->arrived, w->file, w->line, f->seen.lane, file, line);
        abandon();
    }
    w->frames[f->seen.lane] = frame;
    w->arrived |= 1u << f->seen.lane;
    if (w->arrived != 0xFFFFFFFFu) {
        f->state = WAIT_WARP;
        f->file = file;
        f->line = line;
        park();
        return;
    }
    run(w->frames);
    w->arrived = 0;
    unsigned first = w->index * LANES;
    for (unsigned i = 0; i < LANES; i++)
        if (fibers[first + i].state == WAIT_WARP)
            make_ready(&fibers[first + i]);
}

void warp_sync(const char *file, int line)
{
    collect(0, nullptr, [](void **) { current->w->epoch++; }, file, line);
    // what one lane has acquired, all lanes have; this is rare, so the map of the block is used
    if (current->acquired)
        clock_merge(&block.known, *current->acquired);
}

void cta_sync(const char *file, int line)
{
    fiber *f = current;
    if (block.waiting == 0) {
        block.file = file;
        block.line = line;
    } else if (block.line != line || block.file != file) {
        report("threads of one block wait at different barriers: %s:%d and %s:%d", block.file,
               block.line, file, line);
        abandon();
    }
    block.waiting++;
    if (block.waiting + block.done != block.threads) {
        f->state = WAIT_BLOCK;
        f->file = file;
        f->line = line;
        park();
        return;
    }
    if (block.done != 0) {
        report("the barrier at %s:%d would be passed only because other threads ended", file, line);
        abandon();
    }
    block.waiting = 0;
    block.barriers++;
    for (unsigned i = 0; i < block.threads; i++) {
        fiber *other = &fibers[i];
        if (other->acquired) {
            clock_merge(&block.known, *other->acquired);
            other->acquired.reset();
        }
        if (other->state == WAIT_BLOCK)
            make_ready(other);
    }
}

// A kernel that may begin early behaves as if the previous kernel had not run yet: device memory is
// inaccessible to its first block until all threads of the block have called grid_wait.
void grid_wait(const char *file, int line)
{
    fiber *f = current;
    if (!f->seen.early)
        return;
    f->seen.early = false;
    block.early--;
    if (!block.hidden)
        return;
    if (block.early != 0) {
        f->state = WAIT_GRID;
        f->file = file;
        f->line = line;
        park();
        return;
    }
    memory_reach(true);
    block.hidden = false;
    for (unsigned i = 0; i < block.threads; i++)
        if (fibers[i].state == WAIT_GRID)
            make_ready(&fibers[i]);
}

void early_access(const void *at, const char *file, int line)
{
    if (!memory_known(at, 1))
        return;
    report("global memory is used at %s:%d before the wait for the kernel in front", file, line);
    abandon();
}

void prefetch(const void *at, size_t bytes, const char *file, int line)
{
    counts.prefetches++;
    counts.prefetched += bytes;
    if (!memory_known(at, bytes))
        report("prefetch at %s:%d outside every allocation", file, line);
}

void named_bar(unsigned id, unsigned threads, const char *file, int line)
{
    fiber *f = current;
    if (id == 0 || id > 15 || threads % LANES != 0 || threads > block.threads) {
        report("named barrier %u with %u threads at %s:%d", id, threads, file, line);
        abandon();
    }
    named_barrier *bar = &block.named[id];
    clock_release(f, &bar->clock);
    bar->arrived++;
    if (bar->arrived != threads) {
        bar->waiting.push_back(f);
        f->state = WAIT_NAMED;
        f->file = file;
        f->line = line;
        park();
        return;
    }
    clock_acquire(f, bar->clock);
    for (fiber *other : bar->waiting) {
        clock_acquire(other, bar->clock);
        make_ready(other);
    }
    bar->waiting.clear();
    bar->arrived = 0;
    bar->clock.clear();
}

} // namespace simt
