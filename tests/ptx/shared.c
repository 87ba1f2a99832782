// Shared memory of a block: where its arrays are, which words wait for a cp.async, and who used
// each word last.
//
// Two uses of a word of which one is a write, by two threads, must be ordered by a barrier:
// bar.sync between warps, it or bar.warp.sync between the lanes of a warp, whatever order they run
// in here. Each warp has a stamp that goes up with its barriers, and knows up to which stamp of
// each other warp it is ordered. A word remembers its last write; of its readers only those since
// all warps met, so named barriers can hide a fault but never make one up.
#include "tests/ptx/internal.h"

#include <stdlib.h>
#include <string.h>

static bool unusable(struct ptx_warp *w, const struct ptx_ins *i, const struct ptx_cell *c,
                     uint64_t at, uint32_t bytes)
{
    if (c->pending)
        ptx_fault(w, i, "shared memory at %llu is used before the wait for its cp.async",
                  (unsigned long long)at);
    else
        ptx_fault(w, i, "%u bytes at %llu of shared memory are in no array", bytes,
                  (unsigned long long)at);
    return false;
}

static bool race(struct ptx_warp *w, const struct ptx_ins *i, uint64_t at, const char *here,
                 const char *before, uint32_t warp)
{
    if (warp == w->index)
        ptx_fault(
            w, i,
            "shared memory at %llu is %s here and was %s by another lane of the warp, with no "
            "barrier between",
            (unsigned long long)at, here, before);
    else
        ptx_fault(w, i,
                  "shared memory at %llu is %s here and was %s by warp %u, with no barrier between",
                  (unsigned long long)at, here, before, warp);
    return false;
}

// Whether a use by another thread, at a stamp of its warp, is before what this lane does now.
static bool ordered(const struct ptx_warp *w, int lane, uint32_t warp, int by, uint32_t stamp)
{
    if (warp == w->index)
        return by == lane || stamp < w->stamp;
    return w->block->seen[w->index][warp] >= stamp;
}

static bool cell_read(struct ptx_warp *w, const struct ptx_ins *i, struct ptx_cell *c, int lane,
                      uint64_t at, uint8_t mask)
{
    uint32_t phase = w->block->phase, bit = 1u << w->index;
    if ((c->write_bytes & mask) && !ordered(w, lane, c->write_warp, c->write_lane, c->write_stamp))
        return race(w, i, at, "read", "written", c->write_warp);
    bool anew = c->read_phase != phase || !(c->read_bytes & mask);
    bool same = !anew && c->read_warp == w->index && c->read_stamp == w->stamp;
    c->read_lane = (uint8_t)(same && c->read_lane != lane ? PTX_SEVERAL : lane);
    c->readers = anew ? bit : c->readers | bit;
    c->read_bytes = anew ? mask : c->read_bytes & mask; // what all of them read
    c->read_phase = phase;
    c->read_stamp = w->stamp;
    c->read_warp = (uint8_t)w->index;
    return true;
}

// A warp that read and is not ordered before a write by this lane; PTX_WARPS_MAX: none.
static uint32_t reader_before(const struct ptx_warp *w, const struct ptx_cell *c, int lane)
{
    const struct ptx_block *b = w->block;
    if (c->read_phase != b->phase)
        return PTX_WARPS_MAX;
    for (uint32_t left = c->readers; left != 0; left &= left - 1) {
        uint32_t r = (uint32_t)__builtin_ctz(left);
        bool own = r == w->index;
        if (own && c->read_warp == r && !ordered(w, lane, r, c->read_lane, c->read_stamp))
            return r;
        if (!own && b->seen[w->index][r] < b->warps[r].phase_stamp)
            return r;
    }
    return PTX_WARPS_MAX;
}

static void cell_written(const struct ptx_warp *w, struct ptx_cell *c, int lane, uint8_t mask,
                         bool atomic)
{
    bool same = c->write_warp == w->index && c->write_lane == lane && c->write_stamp == w->stamp;
    c->write_bytes = same ? c->write_bytes | mask : mask;
    c->write_warp = (uint8_t)w->index;
    c->write_lane = (uint8_t)lane;
    c->write_stamp = w->stamp;
    c->write_atomic = atomic;
}

// `equal`: the word holds what is written already, so that nobody can tell.
static bool cell_write(struct ptx_warp *w, const struct ptx_ins *i, struct ptx_cell *c, int lane,
                       uint64_t at, uint8_t mask, enum ptx_use use, bool equal)
{
    bool atomics = use == USE_ATOMIC && c->write_atomic;
    if (!equal && !atomics && (c->write_bytes & mask) &&
        !ordered(w, lane, c->write_warp, c->write_lane, c->write_stamp))
        return race(w, i, at, "written", "written", c->write_warp);
    uint32_t reader = !equal && (c->read_bytes & mask) ? reader_before(w, c, lane) : PTX_WARPS_MAX;
    if (reader != PTX_WARPS_MAX)
        return race(w, i, at, "written", "read", reader);
    cell_written(w, c, lane, mask, use == USE_ATOMIC);
    c->pending = use == USE_COPY;
    return true;
}

char *ptx_shared(struct ptx_warp *w, const struct ptx_ins *i, int lane, uint64_t at, uint32_t bytes,
                 enum ptx_use use, const void *value)
{
    struct ptx_block *b = w->block;
    if (at > b->shared_bytes || bytes > b->shared_bytes - at) {
        ptx_fault(w, i, "%u bytes at %llu of %u bytes of shared memory", bytes,
                  (unsigned long long)at, b->shared_bytes);
        return NULL;
    }
    uint32_t each = bytes < 4 ? bytes : 4; // aligned: within one word
    uint8_t mask = (uint8_t)(((1u << each) - 1) << at % 4);
    for (uint64_t p = at; p < at + bytes; p += each) {
        struct ptx_cell *c = &b->cells[p / 4];
        if ((c->pending || (c->closed & mask)) && !unusable(w, i, c, p, each))
            return NULL;
        bool equal = use == USE_WRITE && value &&
                     memcmp(b->shared + p, (const char *)value + (p - at), each) == 0;
        if (!(use == USE_READ ? cell_read(w, i, c, lane, p, mask)
                              : cell_write(w, i, c, lane, p, mask, use, equal)))
            return NULL;
    }
    return b->shared + at;
}

void ptx_shared_arrived(struct ptx_warp *w, const struct ptx_copy *c)
{
    for (uint32_t p = c->to; p < c->to + c->bytes; p += 4) {
        struct ptx_cell *cell = &w->block->cells[p / 4];
        cell->pending = false;
        cell_written(w, cell, c->lane, 15, false);
    }
}

void ptx_warp_ordered(struct ptx_warp *w)
{
    w->stamp++;
}

void ptx_warps_meet(struct ptx_block *b, uint32_t warps)
{
    uint32_t known[PTX_WARPS_MAX] = {0};
    bool all = true;
    for (uint32_t n = 0; n < b->warp_count; n++) {
        all = all && (warps >> n & 1);
        for (uint32_t o = 0; (warps >> n & 1) && o < b->warp_count; o++) {
            uint32_t stamp = o == n ? b->warps[n].stamp : b->seen[n][o];
            known[o] = stamp > known[o] ? stamp : known[o];
        }
    }
    b->phase += all;
    for (uint32_t n = 0; n < b->warp_count; n++) {
        if (!(warps >> n & 1))
            continue;
        memcpy(b->seen[n], known, sizeof known);
        b->warps[n].stamp++;
        if (all)
            b->warps[n].phase_stamp = b->warps[n].stamp;
    }
}

// --- a block's room
// -------------------------------------------------------------------------------

static void array_open(struct ptx_block *b, uint32_t at, uint32_t bytes)
{
    for (uint32_t p = at; p < at + bytes; p++)
        b->fresh[p / 4].closed &= (uint8_t)~(1u << p % 4);
}

bool ptx_shared_take(struct ptx_block *b)
{
    const struct ptx_kernel *k = b->kernel;
    size_t count = b->shared_bytes / 4 + 1;
    b->shared = malloc(b->shared_bytes + 16);
    b->cells = malloc(count * sizeof *b->cells);
    b->fresh = calloc(count, sizeof *b->fresh);
    if (!b->shared || !b->cells || !b->fresh)
        return false;
    for (size_t n = 0; n < count; n++)
        b->fresh[n].closed = 15;
    for (uint32_t n = 0; n < k->array_count; n++)
        array_open(b, k->arrays[n].at, k->arrays[n].bytes);
    array_open(b, k->dynamic_at, b->shape->shared_bytes);
    return true;
}

void ptx_shared_begin(struct ptx_block *b)
{
    ptx_poison(b, b->shared, b->shared_bytes);
    memcpy(b->cells, b->fresh, (b->shared_bytes / 4 + 1) * sizeof *b->cells);
    memset(b->seen, 0, sizeof b->seen);
    b->phase = 1;
}

void ptx_shared_give(struct ptx_block *b)
{
    free(b->shared);
    free(b->cells);
    free(b->fresh);
}
