// Runs a kernel: blocks one after another, the warps of a block in turns, the lanes of a warp
// together.
//
// Lanes that a branch parts run one side after the other until both have come to where they meet. A
// warp runs on until it waits or its turn is over. bar.sync asks for whole warps; what waits for
// warps that have ended is a fault, not a pass.
#include "tests/ptx/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURN = 100000 }; // instructions of a warp before another one runs
static const uint64_t INSTRUCTIONS_MAX =
    4000000000u; // of a block: more is taken for a loop without end

// --- faults
// ---------------------------------------------------------------------------------------

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
    int n = snprintf(text, sizeof text, "%s [block %u, warp %u]", what, w->block->number, w->index);
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

// --- one warp
// -------------------------------------------------------------------------------------

static void path_push(struct ptx_warp *w, const struct ptx_ins *i, uint32_t next, uint32_t meet,
                      uint32_t mask)
{
    if (w->path_count == PTX_PATHS_MAX)
        ptx_fault(w, i, "branches within branches: more than %d", PTX_PATHS_MAX);
    else
        w->paths[w->path_count++] = (struct ptx_path){next, meet, mask};
}

// The lanes part: those of one side that do not meet at once go first.
static void part(struct ptx_warp *w, const struct ptx_ins *i, uint32_t taken, uint32_t next)
{
    struct ptx_path *top = &w->paths[w->path_count - 1];
    uint32_t others = w->mask & ~taken, meet = i->meet;
    if (top->meet == meet)
        w->path_count--; // those below wait there already
    else
        top->next = meet;
    if (i->target != meet)
        path_push(w, i, i->target, meet, taken);
    if (next != meet)
        path_push(w, i, next, meet, others);
}

static void branch(struct ptx_warp *w, const struct ptx_ins *i, uint32_t taken)
{
    struct ptx_path *top = &w->paths[w->path_count - 1];
    uint32_t next = top->next + 1;
    if (taken == 0)
        top->next = next;
    else if (taken == w->mask)
        top->next = i->target;
    else
        part(w, i, taken, next);
}

// The path that runs next; NULL: no lane is left. Paths that have come to where they meet end.
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

static void barrier_arrive(struct ptx_warp *w, const struct ptx_ins *i)
{
    if (!ptx_whole(w, i))
        return;
    struct ptx_block *b = w->block;
    const uint32_t *id = ptx_lanes(w, &i->x[0]);
    const uint32_t *threads = i->operands > 1 ? ptx_lanes(w, &i->x[1]) : NULL;
    uint32_t expected = threads ? threads[0] / PTX_LANES : b->warp_count;
    if (id[0] >= PTX_BARRIERS || expected == 0 || expected > b->warp_count ||
        (threads && threads[0] % PTX_LANES != 0)) {
        ptx_fault(w, i, "barrier %u for %u warps", id[0], expected);
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
    if (++bar->arrived < expected)
        return;
    b->kernel->counts.barriers++;
    bar->arrived = 0;
    for (uint32_t n = 0; n < b->warp_count; n++)
        if (b->warps[n].state == WARP_AT_BARRIER && b->warps[n].barrier == id[0])
            b->warps[n].state = WARP_READY;
}

static uint32_t guarded(const struct ptx_warp *w, const struct ptx_ins *i)
{
    if (i->guard.absent)
        return w->mask;
    uint32_t p = *(const uint32_t *)ptx_lanes(w, &i->guard);
    return w->mask & (i->guard_negated ? ~p : p);
}

// One instruction. false: the warp has ended.
static bool step(struct ptx_warp *w)
{
    struct ptx_path *top = path_top(w);
    if (!top)
        return false;
    const struct ptx_ins *i = &w->kernel->code[top->next];
    struct ptx_kernel *k = w->block->kernel;
    k->counts.instructions++;
    k->opcodes[i->opcode].issued++;
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

static void turn(struct ptx_warp *w)
{
    for (uint32_t n = 0; n < TURN && w->state == WARP_READY && !w->block->broken; n++)
        if (!step(w)) {
            w->state = WARP_DONE;
            ptx_copies_left(w);
        }
}

// --- one block
// ------------------------------------------------------------------------------------

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
    w->state = WARP_READY;
    w->path_count = 1;
    w->paths[0] = (struct ptx_path){0, k->code_count, (uint32_t)PTX_ALL};
    w->copy_count = 0;
    memset(w->group, 0, sizeof w->group);
    memset(w->registers, 0xFF, k->register_bytes);
    memset(w->local, 0xFF, (size_t)k->local_bytes * PTX_LANES);
    for (uint32_t n = 0; n < k->special_count; n++)
        for (uint32_t l = 0; l < PTX_LANES; l++)
            ((uint32_t *)(w->registers + k->specials[n].at))[l] =
                special_value(w, k->specials[n].which, l);
}

static void block_prepare(struct ptx_block *b, uint32_t number)
{
    const uint32_t *grid = b->shape->grid;
    b->number = number;
    b->index[0] = number % grid[0];
    b->index[1] = number / grid[0] % grid[1];
    b->index[2] = number / (grid[0] * grid[1]);
    memset(b->shared, 0xFF, b->shared_bytes);
    memset(b->pending, 0, b->shared_bytes / 16 + 1);
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

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void block_run(struct ptx_block *b, uint32_t *random)
{
    uint64_t end = b->kernel->counts.instructions + INSTRUCTIONS_MAX;
    for (bool ran = true; ran && !b->broken;) {
        ran = false;
        uint32_t first = *random != 0 ? random_next(random) % b->warp_count : 0;
        for (uint32_t n = 0; n < b->warp_count && !b->broken; n++) {
            struct ptx_warp *w = &b->warps[(n + first) % b->warp_count];
            ran = ran || w->state == WARP_READY;
            turn(w);
        }
        if (b->kernel->counts.instructions > end && !b->broken)
            ptx_fault(&b->warps[0], NULL, "the block has run %llu instructions and does not end",
                      (unsigned long long)INSTRUCTIONS_MAX);
    }
    if (!b->broken)
        waiting_report(b);
}

static bool block_take(struct ptx_block *b)
{
    const struct ptx_kernel *k = b->kernel;
    b->shared = malloc(b->shared_bytes + 16);
    b->pending = malloc(b->shared_bytes / 16 + 1);
    b->warps = calloc(b->warp_count, sizeof *b->warps);
    bool fine = b->shared && b->pending && b->warps;
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

static void block_give(struct ptx_block *b)
{
    for (uint32_t n = 0; b->warps != NULL && n < b->warp_count; n++) {
        free(b->warps[n].registers);
        free(b->warps[n].local);
        free(b->warps[n].copies);
    }
    free(b->warps);
    free(b->pending);
    free(b->shared);
}

bool ptx_kernel_run(struct ptx_kernel *kernel, const struct ptx_shape *shape,
                    const void *parameters, const struct ptx_watch *watch)
{
    uint32_t threads = shape->block[0] * shape->block[1] * shape->block[2];
    struct ptx_block b = {.kernel = kernel,
                          .shape = shape,
                          .watch = watch,
                          .parameters = parameters,
                          .shared_bytes = kernel->shared_bytes + shape->shared_bytes,
                          .warp_count = threads / PTX_LANES};
    if (threads == 0 || threads % PTX_LANES != 0 || b.warp_count > PTX_WARPS_MAX ||
        b.shared_bytes > PTX_SHARED_MAX) {
        watch->report("a block of so many threads or so much shared memory is not possible");
        return false;
    }
    if (!block_take(&b))
        abort();
    uint32_t blocks = shape->grid[0] * shape->grid[1] * shape->grid[2], random = shape->seed;
    uint32_t first = random != 0 ? random_next(&random) % blocks : 0;
    kernel->counts.launches++;
    for (uint32_t n = 0; n < blocks && !b.broken; n++) {
        block_prepare(&b, (n + first) % blocks);
        kernel->counts.blocks++;
        kernel->counts.warps += b.warp_count;
        block_run(&b, &random);
    }
    block_give(&b);
    return !b.broken;
}
