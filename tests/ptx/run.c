// SPDX-License-Identifier: Apache-2.0
// Runs a kernel: blocks one after the other, the warps of a block in time slices, the lanes of a
// warp together.
//
// After a divergent branch the two sides run one after the other until both reach the point of
// reconvergence. A warp runs until it waits or its time slice ends. With a seed, slices are short,
// and their order, the order of the blocks, the side of a branch that runs first, and all poison
// are random. bar.sync requires complete warps; waiting for warps that have ended is a fault.
#include "tests/ptx/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURN = 100000, TURN_SEEDED = 200 }; // most instructions of a warp before another warp runs
// Most instructions of a warp; a warp that runs longer is assumed to be in an endless loop.
static const uint64_t INSTRUCTIONS_MAX = 20000000;

// --- chance ---

static uint64_t random64(struct ptx_block *b) // splitmix64
{
    uint64_t z = b->random += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t ptx_random(struct ptx_block *b)
{
    return (uint32_t)(random64(b) >> 32);
}

void ptx_poison(struct ptx_block *b, void *to, size_t bytes)
{
    if (!b->seeded) {
        memset(to, 0xFF, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = random64(b);
        memcpy((char *)to + at, &word, bytes - at < 8 ? bytes - at : 8);
    }
}

// --- faults ---

static const char *file_of(const struct ptx_kernel *k, uint32_t number)
{
    const struct ptx_module *m = k->module;
    if (number >= m->file_count || !m->files[number])
        return "?";
    const char *slash = strrchr(m->files[number], '/');
    return slash != NULL ? slash + 1 : m->files[number];
}

void ptx_fault(struct ptx_warp *w, const struct ptx_ins *i, const char *format, ...)
{
    if (w->block->broken)
        return;
    char what[256], text[768];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    int n = snprintf(text, sizeof text, "%s [block %llu, warp %u", what,
                     (unsigned long long)w->block->number, w->index);
    if (w->lane >= 0)
        n += snprintf(text + n, sizeof text - (size_t)n, ", lane %d", w->lane);
    n += snprintf(text + n, sizeof text - (size_t)n, "]");
    if (i)
        snprintf(text + n, sizeof text - (size_t)n, " at %s, line %u of the PTX, %s:%u",
                 w->kernel->opcodes[i->opcode].opcode, i->line, file_of(w->kernel, i->file),
                 i->source_line);
    w->block->watch->report(text);
    w->block->broken = true;
}

bool ptx_whole(struct ptx_warp *w, const struct ptx_ins *i)
{
    if (w->mask == (uint32_t)PTX_ALL)
        return true;
    ptx_fault(w, i, "only the lanes 0x%08x run what a whole warp must", w->mask);
    return false;
}

// --- one warp ---

static void path_push(struct ptx_warp *w, const struct ptx_ins *i, uint32_t next, uint32_t meet,
                      uint32_t mask)
{
    if (w->path_count == PTX_PATHS_MAX)
        ptx_fault(w, i, "branches within branches: more than %d", PTX_PATHS_MAX);
    else
        w->paths[w->path_count++] = (struct ptx_path){next, meet, mask};
}

// Splits the lanes at a divergent branch; the lanes of one side that do not reconverge immediately
// go first.
static void part(struct ptx_warp *w, const struct ptx_ins *i, uint32_t taken, uint32_t next)
{
    struct ptx_path *top = &w->paths[w->path_count - 1];
    uint32_t others = w->mask & ~taken, meet = i->meet;
    if (top->meet == meet)
        w->path_count--; // the paths below already wait there
    else
        top->next = meet;
    bool turned = w->block->seeded && (ptx_random(w->block) & 1);
    for (int side = 0; side < 2; side++) {
        bool target = (side == 0) != turned;
        uint32_t to = target ? i->target : next;
        if (to != meet)
            path_push(w, i, to, meet, target ? taken : others);
    }
}

static void branch(struct ptx_warp *w, const struct ptx_ins *i, uint32_t taken)
{
    struct ptx_path *top = &w->paths[w->path_count - 1];
    uint32_t next = top->next + 1;
    if (taken == 0)
        top->next = next;
    else if (taken == w->mask)
        top->next = i->target;
    else if (i->uniform)
        ptx_fault(w, i, "only the lanes 0x%08x of 0x%08x take a branch that is said to be uniform",
                  taken, w->mask);
    else
        part(w, i, taken, next);
}

// Returns the path that runs next; NULL: no lane is left. Ends paths that have reached their
// reconvergence point.
static struct ptx_path *path_top(struct ptx_warp *w)
{
    while (w->path_count != 0) {
        struct ptx_path *top = &w->paths[w->path_count - 1];
        w->mask = top->mask & ~w->gone;
        if (w->mask != 0 && top->next != top->meet)
            return top;
        w->path_count--;
    }
    return NULL;
}

// Checks that all lanes have the same value: the number or the thread count of a barrier.
static bool lanes_agree(struct ptx_warp *w, const struct ptx_ins *i, const uint32_t *x)
{
    for (int l = 1; l < PTX_LANES; l++)
        if (x[l] != x[0]) {
            w->lane = l;
            ptx_fault(w, i, "the barrier's operand is %u, and %u in lane 0", x[l], x[0]);
            return false;
        }
    return true;
}

static void barrier_pass(struct ptx_block *b, uint32_t id)
{
    uint32_t warps = 0;
    b->kernel->counts.barriers++;
    b->barriers[id].arrived = 0;
    for (uint32_t n = 0; n < b->warp_count; n++)
        if (b->warps[n].state == WARP_AT_BARRIER && b->warps[n].barrier == id) {
            b->warps[n].state = WARP_READY;
            warps |= 1u << n;
        }
    ptx_warps_meet(b, warps);
}

static void barrier_arrive(struct ptx_warp *w, const struct ptx_ins *i)
{
    if (!ptx_whole(w, i))
        return;
    struct ptx_block *b = w->block;
    const uint32_t *id = ptx_lanes(w, &i->x[0]);
    const uint32_t *threads = i->operands > 1 ? ptx_lanes(w, &i->x[1]) : NULL;
    if (!lanes_agree(w, i, id) || (threads && !lanes_agree(w, i, threads)))
        return;
    uint32_t expected = threads ? threads[0] / PTX_LANES : b->warp_count;
    if (id[0] >= PTX_BARRIERS) {
        ptx_fault(w, i, "barrier %u: there are %d", id[0], PTX_BARRIERS);
        return;
    }
    if (threads && (expected == 0 || expected > b->warp_count || threads[0] % PTX_LANES != 0)) {
        ptx_fault(w, i, "barrier %u for %u threads of %u: not so many whole warps", id[0],
                  threads[0], b->warp_count * PTX_LANES);
        return;
    }
    struct ptx_barrier *bar = &b->barriers[id[0]];
    if (bar->arrived != 0 && bar->expected != expected) {
        ptx_fault(w, i, "barrier %u is for %u warps here and for %u elsewhere", id[0], expected,
                  bar->expected);
        return;
    }
    bar->expected = expected;
    w->state = WARP_AT_BARRIER;
    w->barrier = id[0];
    if (++bar->arrived == expected)
        barrier_pass(b, id[0]);
}

static uint32_t guarded(const struct ptx_warp *w, const struct ptx_ins *i)
{
    if (i->guard.absent)
        return w->mask;
    uint32_t p = *(const uint32_t *)ptx_lanes(w, &i->guard);
    return w->mask & (i->guard_negated ? ~p : p);
}

// Runs one instruction. Returns false if the warp has ended.
static bool step(struct ptx_warp *w)
{
    struct ptx_path *top = path_top(w);
    if (!top)
        return false;
    const struct ptx_ins *i = &w->kernel->code[top->next];
    struct ptx_kernel *k = w->block->kernel;
    k->issued[top->next]++;
    k->counts.instructions++;
    k->counts.divisions += i->division;
    w->issued++;
    w->lane = -1;
    uint32_t mask = guarded(w, i);
    if (i->flow == FLOW_BRANCH) {
        branch(w, i, mask);
        return true;
    }
    top->next++;
    if (i->flow == FLOW_RETURN) {
        w->gone |= mask;
        return true;
    }
    if (mask == 0)
        return true;
    w->mask = mask;
    if (i->flow == FLOW_BARRIER)
        barrier_arrive(w, i);
    else
        i->run(w, i);
    return true;
}

static void turn(struct ptx_warp *w, uint32_t most)
{
    uint32_t n = 0;
    for (; n < most && w->state == WARP_READY && !w->block->broken; n++)
        if (!step(w)) {
            w->state = WARP_DONE;
            ptx_copies_left(w);
            if (w->early != 0)
                ptx_fault(w, NULL, "the lanes 0x%08x end without griddepcontrol.wait", w->early);
        }
    if (w->issued > INSTRUCTIONS_MAX && w->state != WARP_DONE && !w->block->broken)
        ptx_fault(w, &w->kernel->code[w->paths[w->path_count - 1].next],
                  "the warp has run %llu instructions and does not end: it may wait for another "
                  "block, and blocks run one after another",
                  (unsigned long long)INSTRUCTIONS_MAX);
}

// --- one block ---

static uint32_t special_value(const struct ptx_warp *w, uint8_t which, uint32_t lane)
{
    const struct ptx_shape *s = w->block->shape;
    uint32_t thread = w->index * PTX_LANES + lane;
    const uint32_t tid[3] = {thread % s->block[0], thread / s->block[0] % s->block[1],
                             thread / (s->block[0] * s->block[1])};
    if (which == SPECIAL_LANE)
        return lane;
    if (which >= SPECIAL_NCTAID_X)
        return s->grid[which - SPECIAL_NCTAID_X];
    if (which >= SPECIAL_CTAID_X)
        return w->block->index[which - SPECIAL_CTAID_X];
    return which >= SPECIAL_NTID_X ? s->block[which - SPECIAL_NTID_X] : tid[which];
}

static void warp_prepare(struct ptx_warp *w, uint32_t index)
{
    const struct ptx_kernel *k = w->kernel;
    w->index = index;
    w->gone = 0;
    w->early = w->block->shape->early ? (uint32_t)PTX_ALL : 0;
    w->state = WARP_READY;
    w->path_count = 1;
    w->paths[0] = (struct ptx_path){0, k->code_count, (uint32_t)PTX_ALL};
    w->copy_count = 0;
    memset(w->group, 0, sizeof w->group);
    w->lane = -1;
    w->issued = 0;
    w->stamp = w->phase_stamp = 1;
    ptx_poison(w->block, w->registers, k->register_bytes);
    ptx_poison(w->block, w->local, (size_t)k->local_bytes * PTX_LANES);
    for (uint32_t n = 0; n < k->special_count; n++)
        for (uint32_t l = 0; l < PTX_LANES; l++)
            ((uint32_t *)(w->registers + k->specials[n].at))[l] =
                special_value(w, k->specials[n].which, l);
}

static void block_prepare(struct ptx_block *b, uint64_t number)
{
    const uint32_t *grid = b->shape->grid;
    b->number = number;
    b->index[0] = (uint32_t)(number % grid[0]);
    b->index[1] = (uint32_t)(number / grid[0] % grid[1]);
    b->index[2] = (uint32_t)(number / grid[0] / grid[1]);
    ptx_shared_begin(b);
    memset(b->barriers, 0, sizeof b->barriers);
    for (uint32_t n = 0; n < b->warp_count; n++)
        warp_prepare(&b->warps[n], n);
}

static void waiting_report(struct ptx_block *b)
{
    for (uint32_t n = 0; n < b->warp_count; n++) {
        struct ptx_warp *w = &b->warps[n];
        if (w->state == WARP_AT_BARRIER && !b->broken)
            ptx_fault(w, &w->kernel->code[w->paths[w->path_count - 1].next - 1],
                      "waits at barrier %u for %u warps, of which %u come", w->barrier,
                      b->barriers[w->barrier].expected, b->barriers[w->barrier].arrived);
    }
}

// Returns the next warp that can run, from `first` on; NULL: none.
static struct ptx_warp *ready_from(struct ptx_block *b, uint32_t first)
{
    for (uint32_t n = 0; n < b->warp_count; n++) {
        struct ptx_warp *w = &b->warps[(n + first) % b->warp_count];
        if (w->state == WARP_READY)
            return w;
    }
    return NULL;
}

static void block_run(struct ptx_block *b)
{
    uint32_t next = 0;
    while (!b->broken) {
        struct ptx_warp *w = ready_from(b, b->seeded ? ptx_random(b) % b->warp_count : next);
        if (!w)
            break;
        turn(w, b->seeded ? 1 + ptx_random(b) % TURN_SEEDED : TURN);
        next = w->index + 1;
    }
    if (!b->broken)
        waiting_report(b);
}

static bool block_alloc(struct ptx_block *b)
{
    const struct ptx_kernel *k = b->kernel;
    b->warps = calloc(b->warp_count, sizeof *b->warps);
    b->readonly = ptx_readonly_new();
    bool fine = b->warps && ptx_shared_alloc(b);
    for (uint32_t n = 0; fine && n < b->warp_count; n++) {
        struct ptx_warp *w = &b->warps[n];
        w->kernel = k;
        w->block = b;
        w->registers = malloc(k->register_bytes + 64);
        w->local = malloc((size_t)k->local_bytes * PTX_LANES + 1);
        fine = w->registers && w->local;
    }
    return fine;
}

static void block_free(struct ptx_block *b)
{
    for (uint32_t n = 0; b->warps != NULL && n < b->warp_count; n++) {
        free(b->warps[n].registers);
        free(b->warps[n].local);
        free(b->warps[n].copies);
    }
    free(b->warps);
    ptx_readonly_free(b->readonly);
    ptx_shared_free(b);
}

// Returns the reason for which a driver would refuse the launch; NULL: none.
static const char *refusal(const struct ptx_kernel *k, const struct ptx_shape *s)
{
    uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2];
    if (threads == 0 || threads % PTX_LANES != 0 || threads > PTX_WARPS_MAX * PTX_LANES)
        return "a block of so many threads is not possible";
    if ((uint64_t)k->shared_bytes + s->shared_bytes > PTX_SHARED_MAX)
        return "a block of so much shared memory is not possible";
    if (k->threads_max != 0 && threads > k->threads_max)
        return "the block has more threads than the kernel's .maxntid (__launch_bounds__)";
    if (k->threads[0] != 0 && memcmp(k->threads, s->block, sizeof k->threads) != 0)
        return "the block has not the threads of the kernel's .reqntid";
    return NULL;
}

static uint64_t common_divisor(uint64_t x, uint64_t y)
{
    return y == 0 ? x : common_divisor(y, x % y);
}

// With a seed, blocks run in random strides around the grid, so that any two blocks may run in
// either order.
static void blocks_run(struct ptx_block *b)
{
    const uint32_t *grid = b->shape->grid;
    struct ptx_counts *c = &b->kernel->counts;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2], at = 0, by = 1;
    if (b->seeded && blocks > 1) {
        at = ptx_random(b) % blocks;
        do
            by = 1 + ptx_random(b) % (blocks - 1);
        while (common_divisor(blocks, by) != 1);
    }
    c->launches++;
    for (uint64_t n = 0; n < blocks && !b->broken; n++, at = (at + by) % blocks) {
        block_prepare(b, at);
        c->blocks++;
        c->warps += b->warp_count;
        block_run(b);
    }
}

bool ptx_kernel_run(struct ptx_kernel *kernel, const struct ptx_shape *shape,
                    const void *parameters, const struct ptx_watch *watch)
{
    const char *why = refusal(kernel, shape);
    if (why) {
        watch->report(why);
        return false;
    }
    struct ptx_block b = {.kernel = kernel,
                          .shape = shape,
                          .watch = watch,
                          .parameters = parameters,
                          .shared_bytes = kernel->dynamic_at + shape->shared_bytes,
                          .warp_count =
                              shape->block[0] * shape->block[1] * shape->block[2] / PTX_LANES,
                          .seeded = shape->seed != 0,
                          .random = shape->seed};
    if (!block_alloc(&b))
        abort();
    struct ptx_counts before = kernel->counts;
    blocks_run(&b);
    if (b.broken)
        kernel->counts = before; // an incomplete launch is not counted
    block_free(&b);
    return !b.broken;
}
