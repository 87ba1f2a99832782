// SPDX-License-Identifier: Apache-2.0
// Shared memory of a block: its arrays, the words that wait for a cp.async, and the last uses of
// each word.
//
// Two uses of a word by two threads, of which one is a write, must be ordered by a barrier:
// bar.sync between warps, bar.sync or bar.warp.sync between the lanes of a warp, in whatever order
// they run here. Writes that cannot be distinguished need no order among themselves: atomics, or
// stores of one value. Each warp has a stamp that its barriers increment, and records the stamp of
// each other warp that it is ordered after. For a word the last write and the last read are
// recorded, and the warps that wrote and read it since all warps met, without their time; so named
// barriers can hide a fault but never cause a false one. For a word that is partly used this is
// recorded per byte.
#include "tests/ptx/internal.h"

#include <stdlib.h>
#include <string.h>

enum { NO_WARP = PTX_WARPS_MAX };

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

// Returns true if a use is ordered before the current instruction of this lane.
static bool ordered(const struct ptx_warp *w, int lane, const struct ptx_user *u)
{
    if (u->warp == w->index)
        return (u->lane == lane && lane != PTX_SEVERAL) || u->stamp < w->stamp;
    return w->block->seen[w->index][u->warp] >= u->stamp;
}

// Returns a warp with a use that is not ordered before the current instruction of this lane, from
// the last use and those of `warps` in this phase; NO_WARP: there is none.
static uint32_t unordered(const struct ptx_warp *w, int lane, const struct ptx_user *last,
                          uint32_t warps)
{
    const struct ptx_block *b = w->block;
    if (!ordered(w, lane, last))
        return last->warp;
    uint32_t others = warps & ~(1u << w->index) & ~(1u << last->warp);
    for (; others != 0; others &= others - 1) {
        uint32_t o = (uint32_t)__builtin_ctz(others);
        if (b->seen[w->index][o] < b->warps[o].phase_stamp)
            return o;
    }
    return NO_WARP;
}

static void used(struct ptx_user *u, const struct ptx_warp *w, int lane)
{
    bool same = u->warp == w->index && u->stamp == w->stamp && u->lane != lane;
    *u = (struct ptx_user){w->stamp, (uint8_t)w->index, (uint8_t)(same ? PTX_SEVERAL : lane)};
}

static void phase_enter(const struct ptx_block *b, struct ptx_cell *c)
{
    if (c->phase == b->phase)
        return;
    c->phase = b->phase;
    c->writers = c->readers = 0;
}

static bool cell_read(struct ptx_warp *w, const struct ptx_ins *i, struct ptx_cell *c, int lane,
                      uint64_t at)
{
    phase_enter(w->block, c);
    uint32_t writer = unordered(w, lane, &c->write, c->writers);
    if (writer != NO_WARP)
        return race(w, i, at, "read", "written", writer);
    used(&c->read, w, lane);
    c->readers |= 1u << w->index;
    return true;
}

// Records a write. `joins`: it belongs to the group of the last write.
static void cell_written(const struct ptx_warp *w, struct ptx_cell *c, int lane, enum ptx_use use,
                         bool joins)
{
    if (!joins)
        c->before = c->write;
    used(&c->write, w, lane);
    if (use == USE_COPY) // the copied value is not known, so no write joins it
        c->before = c->write;
    c->atomic = use == USE_ATOMIC;
    c->writers |= 1u << w->index;
}

// Checks and records a write. `equal`: the value is already there.
static bool cell_write(struct ptx_warp *w, const struct ptx_ins *i, struct ptx_cell *c, int lane,
                       uint64_t at, enum ptx_use use, bool equal)
{
    phase_enter(w->block, c);
    bool joins = use == USE_ATOMIC ? c->atomic : equal && !c->atomic;
    uint32_t writer =
        joins ? unordered(w, lane, &c->before, 0) : unordered(w, lane, &c->write, c->writers);
    if (writer != NO_WARP)
        return race(w, i, at, "written", "written", writer);
    uint32_t reader = unordered(w, lane, &c->read, c->readers);
    if (reader != NO_WARP)
        return race(w, i, at, "written", "read", reader);
    cell_written(w, c, lane, use, joins);
    return true;
}

// Returns the cell of a word, or the cells of its bytes if some were used separately; *count:
// number of cells.
static struct ptx_cell *cells_of(struct ptx_block *b, uint64_t at, uint32_t bytes, uint32_t *count)
{
    struct ptx_cell *word = &b->cells[at / 4], *parts = &b->parts[at / 4 * 4];
    *count = 1;
    if (bytes == 4 && !word->split)
        return word;
    for (int k = 0; !word->split && k < 4; k++)
        parts[k] = *word;
    word->split = true;
    *count = bytes;
    return parts + at % 4;
}

// Checks and records a use of a word or of a part of it.
static bool word_use(struct ptx_warp *w, const struct ptx_ins *i, int lane, uint64_t at,
                     uint32_t bytes, enum ptx_use use, const char *value)
{
    struct ptx_block *b = w->block;
    uint32_t count;
    struct ptx_cell *c = cells_of(b, at, bytes, &count);
    size_t each = bytes / count;
    for (uint32_t k = 0; k < count; k++) {
        if (use == USE_READ && !cell_read(w, i, &c[k], lane, at))
            return false;
        bool equal = use == USE_WRITE && memcmp(b->shared + at + k, value + k, each) == 0;
        if (use != USE_READ && !cell_write(w, i, &c[k], lane, at, use, equal))
            return false;
    }
    b->cells[at / 4].pending = use == USE_COPY;
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
    uint32_t each = bytes < 4 ? bytes : 4; // aligned, so within one word
    uint8_t mask = (uint8_t)(((1u << each) - 1) << at % 4);
    const char *values = value;
    for (uint64_t p = at; p < at + bytes; p += each) {
        const struct ptx_cell *c = &b->cells[p / 4];
        if ((c->pending || (c->closed & mask)) && !unusable(w, i, c, p, each))
            return NULL;
        if (!word_use(w, i, lane, p, each, use, values ? values + (p - at) : NULL))
            return NULL;
    }
    return b->shared + at;
}

void ptx_shared_arrived(struct ptx_warp *w, const struct ptx_copy *c)
{
    struct ptx_block *b = w->block;
    for (uint32_t p = c->to; p < c->to + c->bytes; p += 4) {
        uint32_t count;
        struct ptx_cell *cells = cells_of(b, p, 4, &count);
        b->cells[p / 4].pending = false;
        for (uint32_t k = 0; k < count; k++) {
            phase_enter(b, &cells[k]);
            cell_written(w, &cells[k], c->lane, USE_COPY, false);
        }
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

// --- a block's room ---

static void array_open(struct ptx_block *b, uint32_t at, uint32_t bytes)
{
    for (uint32_t p = at; p < at + bytes; p++)
        b->fresh[p / 4].closed &= (uint8_t)~(1u << p % 4);
}

bool ptx_shared_alloc(struct ptx_block *b)
{
    const struct ptx_kernel *k = b->kernel;
    size_t count = b->shared_bytes / 4 + 1;
    b->shared = malloc(b->shared_bytes + 16);
    b->cells = malloc(count * sizeof *b->cells);
    b->parts = malloc(4 * count * sizeof *b->parts);
    b->fresh = calloc(count, sizeof *b->fresh);
    if (!b->shared || !b->cells || !b->parts || !b->fresh)
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

void ptx_shared_free(struct ptx_block *b)
{
    free(b->shared);
    free(b->cells);
    free(b->parts);
    free(b->fresh);
}
