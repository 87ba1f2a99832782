// SPDX-License-Identifier: Apache-2.0
// Loads, stores, atomics and asynchronous copies of the interpreter.
//
// A global address is a host address; the other spaces begin at 0. Alignment and bounds of each
// access are checked before it happens. The data of a cp.async arrives at the wait that covers its
// group and not before: until then its target is poisoned, and using it is a fault.
#include "tests/ptx/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *global(struct ptx_warp *w, const struct ptx_ins *i, uint64_t at, uint32_t bytes)
{
    struct ptx_block *b = w->block;
    const char *p = (const char *)(uintptr_t)at;
    if ((w->early & w->mask) != 0) {
        ptx_fault(w, i, "global memory is used before griddepcontrol.wait");
        return NULL;
    }
    if (p < b->first || p >= b->end || (size_t)(b->end - p) < bytes) {
        if (!b->watch->memory(p, bytes, &b->first, &b->end)) {
            b->first = b->end = NULL;
            ptx_fault(w, i, "%u bytes at %p are in no allocation", bytes, (const void *)p);
            return NULL;
        }
    }
    return (char *)(uintptr_t)at;
}

// The generic address of local memory is a host address, made by cvta.local. A lane can access only
// its local memory.
static char *generic(struct ptx_warp *w, const struct ptx_ins *i, int lane, uint64_t at,
                     uint32_t bytes)
{
    uint64_t room = w->kernel->local_bytes, begins = (uint64_t)(uintptr_t)w->local;
    if (at < begins || at >= begins + PTX_LANES * room)
        return global(w, i, at, bytes);
    uint64_t own = begins + (uint64_t)lane * room;
    if (at >= own && at + bytes <= own + room)
        return (char *)(uintptr_t)at;
    ptx_fault(w, i, "%u bytes of the local memory of lane %u", bytes,
              (uint32_t)((at - begins) / room));
    return NULL;
}

static char *parameter(struct ptx_warp *w, const struct ptx_ins *i, uint64_t at, uint32_t bytes)
{
    uint32_t room = w->kernel->parameter_bytes;
    if (at > room || bytes > room - at) {
        ptx_fault(w, i, "%u bytes at %llu of %u bytes of parameters", bytes, (unsigned long long)at,
                  room);
        return NULL;
    }
    return (char *)w->block->parameters + at; // there are no stores to this space
}

static char *local(struct ptx_warp *w, const struct ptx_ins *i, int lane, uint64_t at,
                   uint32_t bytes)
{
    uint32_t room = w->kernel->local_bytes;
    if (at > room || bytes > room - at) {
        ptx_fault(w, i, "%u bytes at %llu of %u bytes of local memory", bytes,
                  (unsigned long long)at, room);
        return NULL;
    }
    return w->local + (size_t)lane * room + at;
}

uint64_t ptx_address(const struct ptx_warp *w, const struct ptx_operand *o, int lane)
{
    const void *at = ptx_lanes(w, o);
    uint64_t base = o->bytes == 4 ? ((const uint32_t *)at)[lane] : ((const uint64_t *)at)[lane];
    return o->bytes == 4 ? (uint32_t)(base + (uint64_t)(int64_t)o->offset)
                         : base + (uint64_t)(int64_t)o->offset;
}

// Records .nc reads and all writes of global memory.
static bool readonly_kept(struct ptx_warp *w, const struct ptx_ins *i, uint64_t at, uint32_t bytes,
                          enum ptx_use use)
{
    if ((use == USE_READ && !i->access.readonly) ||
        ptx_readonly_use(w->block->readonly, at, bytes, use != USE_READ))
        return true;
    ptx_fault(w, i, "%u bytes at 0x%llx are read by .nc and written in one launch", bytes,
              (unsigned long long)at);
    return false;
}

// Returns the host address of a lane's access; NULL after a report.
static char *place(struct ptx_warp *w, const struct ptx_ins *i, int lane, uint64_t at,
                   enum ptx_use use, const void *value)
{
    uint32_t bytes = (uint32_t)i->access.bytes * i->access.count;
    w->lane = lane;
    if (at % bytes != 0) {
        ptx_fault(w, i, "an access of %u bytes at 0x%llx is not aligned", bytes,
                  (unsigned long long)at);
        return NULL;
    }
    switch (i->access.space) {
    case SPACE_SHARED:
        return ptx_shared(w, i, lane, at, bytes, use, value);
    case SPACE_LOCAL:
        return local(w, i, lane, at, bytes);
    case SPACE_PARAM:
        return parameter(w, i, at, bytes);
    default: {
        char *found = generic(w, i, lane, at, bytes);
        return found && readonly_kept(w, i, at, bytes, use) ? found : NULL;
    }
    }
}

// --- counts ---

// Counts the sectors of 32 bytes that the lanes access, `bytes` each, or of[lane] if `of` is given.
static void sectors_count(uint64_t *requests, uint64_t *sectors, const uint64_t at[PTX_LANES],
                          uint32_t mask, uint32_t bytes, const uint32_t *of)
{
    uint64_t seen[2 * PTX_LANES];
    uint32_t count = 0;
    for (int l = 0; l < PTX_LANES; l++) {
        uint32_t touched = of ? of[l] : bytes;
        if (!(mask >> l & 1) || touched == 0)
            continue;
        for (uint64_t s = at[l] / 32; s <= (at[l] + touched - 1) / 32; s++) {
            uint32_t k = count; // addresses mostly ascend, so the newest sector is the most likely
            while (k > 0 && seen[k - 1] != s)
                k--;
            if (k == 0)
                seen[count++] = s;
        }
    }
    *requests += count != 0;
    *sectors += count;
}

// Lanes are served in groups whose data fits the 32 banks of 4 bytes. Within a group, different
// words of one bank need a pass each. Atomics need a pass per lane.
static void passes_count(struct ptx_counts *c, const uint64_t at[PTX_LANES], uint32_t mask,
                         uint32_t bytes, bool atomic)
{
    uint32_t words = bytes < 4 ? 1 : bytes / 4, lanes = PTX_LANES / words;
    c->shared_requests++;
    for (uint32_t first = 0; first < PTX_LANES; first += lanes) {
        uint32_t word[PTX_LANES], banks[32] = {0}, count = 0, most = 0;
        for (uint32_t l = first; l < first + lanes; l++) {
            for (uint32_t k = 0; (mask >> l & 1) && k < words; k++) {
                uint32_t here = (uint32_t)(at[l] / 4) + k, n = count;
                while (n > 0 && word[n - 1] != here)
                    n--;
                if (n > 0 && !atomic)
                    continue;
                if (n == 0)
                    word[count++] = here;
                banks[here % 32]++;
                most = banks[here % 32] > most ? banks[here % 32] : most;
            }
        }
        c->shared_passes += most;
        c->shared_passes_least += (count + 31) / 32;
    }
}

// Words of local memory at the same address of all lanes are adjacent.
static void local_count(struct ptx_counts *c, const uint64_t at[PTX_LANES], uint32_t mask,
                        uint32_t bytes)
{
    uint64_t lies[PTX_LANES], requests = 0;
    for (uint32_t k = 0; k < (bytes + 3) / 4; k++) {
        for (int l = 0; l < PTX_LANES; l++)
            lies[l] = ((at[l] / 4 + k) * PTX_LANES + (uint64_t)l) * 4;
        sectors_count(&requests, &c->local_sectors, lies, mask, 4, NULL);
    }
    c->local_requests++;
}

static void access_count(struct ptx_warp *w, const struct ptx_ins *i, const uint64_t at[PTX_LANES],
                         bool atomic)
{
    uint32_t bytes = (uint32_t)i->access.bytes * i->access.count;
    struct ptx_counts *c = &w->block->kernel->counts;
    if (i->access.space == SPACE_SHARED)
        passes_count(c, at, w->mask, bytes, atomic);
    else if (i->access.space == SPACE_LOCAL)
        local_count(c, at, w->mask, bytes);
    else if (i->access.space != SPACE_PARAM)
        sectors_count(&c->global_requests, &c->global_sectors, at, w->mask, bytes, NULL);
}

// --- loads and stores ---

static void register_put(const struct ptx_warp *w, const struct ptx_operand *o, int lane,
                         const char *from, const struct ptx_access *a)
{
    uint64_t value = 0;
    memcpy(&value, from, a->bytes);
    if (a->is_signed && a->bytes < 8 && value >> (8 * a->bytes - 1) & 1)
        value |= ~(uint64_t)0 << (8 * a->bytes);
    memcpy((char *)ptx_lanes(w, o) + (size_t)lane * o->bytes, &value, o->bytes);
}

static void load(struct ptx_warp *w, const struct ptx_ins *i)
{
    const struct ptx_access *a = &i->access;
    uint64_t at[PTX_LANES];
    for (int l = 0; l < PTX_LANES; l++)
        at[l] = w->mask >> l & 1 ? ptx_address(w, &i->x[a->count], l) : 0;
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(w->mask >> l & 1))
            continue;
        const char *from = place(w, i, l, at[l], USE_READ, NULL);
        if (!from)
            return;
        for (uint32_t k = 0; k < a->count; k++)
            register_put(w, &i->x[k], l, from + k * a->bytes, a);
    }
    access_count(w, i, at, false);
}

enum { ACCESS_MAX = 16 }; // most bytes of one access of a lane

// Checks that lanes which store to the same address store the same value: on a card it is undefined
// which value remains.
static bool stores_agree(struct ptx_warp *w, const struct ptx_ins *i, const uint64_t at[PTX_LANES],
                         char value[PTX_LANES][ACCESS_MAX])
{
    uint32_t bytes = (uint32_t)i->access.bytes * i->access.count;
    uint64_t before = 0;
    bool rising = true;
    for (int l = 0; l < PTX_LANES; l++)
        if (w->mask >> l & 1) {
            rising = rising && at[l] >= before;
            before = at[l] + bytes;
        }
    if (rising || i->access.space == SPACE_LOCAL)
        return true;
    for (int l = 1; l < PTX_LANES; l++)
        for (int o = 0; (w->mask >> l & 1) && o < l; o++)
            if ((w->mask >> o & 1) && at[o] == at[l] && memcmp(value[o], value[l], bytes) != 0) {
                w->lane = l;
                ptx_fault(w, i, "lane %d stores another value to 0x%llx at the same time", o,
                          (unsigned long long)at[l]);
                return false;
            }
    return true;
}

static void store(struct ptx_warp *w, const struct ptx_ins *i)
{
    const struct ptx_access *a = &i->access;
    uint64_t at[PTX_LANES] = {0};
    char value[PTX_LANES][ACCESS_MAX];
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(w->mask >> l & 1))
            continue;
        at[l] = ptx_address(w, &i->x[0], l);
        for (uint32_t k = 0; k < a->count; k++) {
            const struct ptx_operand *o = &i->x[1 + k];
            memcpy(value[l] + k * a->bytes, (const char *)ptx_lanes(w, o) + (size_t)l * o->bytes,
                   a->bytes);
        }
    }
    if (!stores_agree(w, i, at, value))
        return;
    for (int l = 0; l < PTX_LANES; l++) {
        char *to = w->mask >> l & 1 ? place(w, i, l, at[l], USE_WRITE, value[l]) : NULL;
        if (w->block->broken)
            return;
        if (to)
            memcpy(to, value[l], (size_t)a->bytes * a->count);
    }
    access_count(w, i, at, false);
}

// Runs the lanes one after the other: the sum is the same in any order.
#define ATOMIC(name, T, value)                                                                     \
    static void name(struct ptx_warp *w, const struct ptx_ins *i)                                  \
    {                                                                                              \
        T *d = ptx_lanes(w, &i->x[0]);                                                             \
        const T *y = ptx_lanes(w, &i->x[2]);                                                       \
        uint64_t at[PTX_LANES];                                                                    \
        for (int l = 0; l < PTX_LANES; l++) {                                                      \
            at[l] = w->mask >> l & 1 ? ptx_address(w, &i->x[1], l) : 0;                            \
            char *to = w->mask >> l & 1 ? place(w, i, l, at[l], USE_ATOMIC, NULL) : NULL;          \
            if (!to)                                                                               \
                continue;                                                                          \
            T x;                                                                                   \
            memcpy(&x, to, sizeof x);                                                              \
            T out = (T)(value);                                                                    \
            memcpy(to, &out, sizeof out);                                                          \
            d[l] = x;                                                                              \
        }                                                                                          \
        access_count(w, i, at, true);                                                              \
    }
ATOMIC(atom_add32, uint32_t, x + y[l])
ATOMIC(atom_add64, uint64_t, x + y[l])
ATOMIC(atom_or32, uint32_t, x | y[l])
ATOMIC(atom_and32, uint32_t, x &y[l])
ATOMIC(atom_max_u32, uint32_t, y[l] > x ? y[l] : x)
ATOMIC(atom_exch32, uint32_t, y[l])

// A prefetch is a hint and may precede the wait for the previous kernel; its first byte (a bulk
// prefetch: all bytes) must be in an allocation. bulk: operand 1 is the number of bytes.
static void prefetch_check(struct ptx_warp *w, const struct ptx_ins *i, bool bulk)
{
    const char *first, *end;
    const uint32_t *sizes = bulk ? ptx_lanes(w, &i->x[1]) : NULL;
    for (int l = 0; l < PTX_LANES; l++) {
        uint64_t at = ptx_address(w, &i->x[0], l);
        uint32_t bytes = bulk ? sizes[l] : 1;
        if (!(w->mask >> l & 1))
            continue;
        w->lane = l;
        if (bulk && (at % 16 != 0 || bytes % 16 != 0 || bytes == 0)) {
            ptx_fault(w, i, "a bulk prefetch of %u bytes at 0x%llx, no multiples of 16", bytes,
                      (unsigned long long)at);
            return;
        }
        if (w->block->watch->memory((const void *)(uintptr_t)at, bytes, &first, &end))
            continue;
        ptx_fault(w, i, "a prefetch of 0x%llx, which is in no allocation", (unsigned long long)at);
        return;
    }
}

static void prefetch(struct ptx_warp *w, const struct ptx_ins *i)
{
    prefetch_check(w, i, false);
}

static void prefetch_bulk(struct ptx_warp *w, const struct ptx_ins *i)
{
    prefetch_check(w, i, true);
}

// --- asynchronous copies ---

static struct ptx_copy *copy_new(struct ptx_warp *w)
{
    if (w->copy_count == w->copy_room) {
        w->copy_room = w->copy_room != 0 ? 2 * w->copy_room : 256;
        w->copies = realloc(w->copies, w->copy_room * sizeof *w->copies);
        if (!w->copies)
            abort();
    }
    return &w->copies[w->copy_count++];
}

static bool copy_begin(struct ptx_warp *w, const struct ptx_ins *i, int lane, uint32_t bytes,
                       uint32_t from_bytes)
{
    uint64_t to = ptx_address(w, &i->x[0], lane), from = ptx_address(w, &i->x[1], lane);
    w->lane = lane;
    if (to % bytes != 0 || (from_bytes != 0 && from % bytes != 0))
        return ptx_fault(w, i, "a copy of %u bytes from 0x%llx to %llu is not aligned", bytes,
                         (unsigned long long)from, (unsigned long long)to),
               false;
    if (from_bytes > bytes)
        return ptx_fault(w, i, "a copy of %u bytes reads %u", bytes, from_bytes), false;
    char *room = ptx_shared(w, i, lane, to, bytes, USE_COPY, NULL);
    if (!room || (from_bytes != 0 && !global(w, i, from, from_bytes)))
        return false;
    ptx_poison(w->block, room, bytes);
    *copy_new(w) = (struct ptx_copy){.ins = i,
                                     .from = (const char *)(uintptr_t)from,
                                     .to = (uint32_t)to,
                                     .from_bytes = from_bytes,
                                     .bytes = bytes,
                                     .group = w->group[lane],
                                     .lane = (uint8_t)lane};
    return true;
}

// cp.async [to], [from], bytes{, bytes read}
static void copy(struct ptx_warp *w, const struct ptx_ins *i)
{
    const uint32_t *bytes = ptx_lanes(w, &i->x[2]);
    const uint32_t *from_bytes = ptx_lanes(w, i->operands > 3 ? &i->x[3] : &i->x[2]);
    uint64_t to[PTX_LANES] = {0}, from[PTX_LANES] = {0};
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(w->mask >> l & 1))
            continue;
        if (!copy_begin(w, i, l, bytes[0], from_bytes[l]))
            return;
        to[l] = ptx_address(w, &i->x[0], l);
        from[l] = ptx_address(w, &i->x[1], l);
    }
    struct ptx_counts *c = &w->block->kernel->counts;
    c->copies++;
    passes_count(c, to, w->mask, bytes[0], false);
    sectors_count(&c->global_requests, &c->global_sectors, from, w->mask, bytes[0], from_bytes);
}

static void copy_commit(struct ptx_warp *w, const struct ptx_ins *i)
{
    (void)i;
    for (int l = 0; l < PTX_LANES; l++)
        w->group[l] += w->mask >> l & 1;
}

static void copy_deliver(struct ptx_warp *w, const struct ptx_copy *c)
{
    char *to = w->block->shared + c->to;
    memset(to, 0, c->bytes);
    memcpy(to, c->from, c->from_bytes);
    ptx_shared_arrived(w, c);
}

// All but the newest `left` groups of each lane arrive, and if `open`, the open group, too.
static void copies_arrive(struct ptx_warp *w, uint32_t left, bool open)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < w->copy_count; k++) {
        const struct ptx_copy *c = &w->copies[k];
        uint32_t committed = w->group[c->lane];
        bool due = (w->mask >> c->lane & 1) && (open || c->group + left < committed);
        if (due)
            copy_deliver(w, c);
        else
            w->copies[kept++] = *c;
    }
    w->copy_count = kept;
}

static void copy_wait(struct ptx_warp *w, const struct ptx_ins *i)
{
    const uint32_t *left = ptx_lanes(w, &i->x[0]);
    copies_arrive(w, left[0], false);
}

static void copy_wait_all(struct ptx_warp *w, const struct ptx_ins *i)
{
    (void)i;
    copies_arrive(w, 0, true);
}

void ptx_copies_left(struct ptx_warp *w)
{
    if (w->copy_count != 0) {
        w->lane = w->copies[0].lane;
        ptx_fault(w, w->copies[0].ins,
                  "a warp ends with %u copies that it never waited for; the first of them",
                  w->copy_count);
    }
    w->copy_count = 0;
}

static void local_address(struct ptx_warp *w, const struct ptx_ins *i)
{
    uint64_t *d = ptx_lanes(w, &i->x[0]);
    const uint64_t *at = ptx_lanes(w, &i->x[1]);
    uint64_t begins = (uint64_t)(uintptr_t)w->local, room = w->kernel->local_bytes;
    EACH_LANE(w, d[l] = begins + (uint64_t)l * room + at[l]);
}

// --- the table ---

// ld and st: forms.c parses the suffixes and makes the shape from them.
const struct ptx_form ptx_memory_forms[] = {
    {"ld", "", load, 0},
    {"st", "", store, 0},
    {"atom.add.u32", "wa4", atom_add32, 0},
    {"atom.add.u64", "da8", atom_add64, 0},
    {"atom.or.b32", "wa4", atom_or32, 0},
    {"atom.and.b32", "wa4", atom_and32, 0},
    {"atom.max.u32", "wa4", atom_max_u32, 0},
    {"atom.exch.b32", "wa4", atom_exch32, 0},
    {"cp.async.cg.shared.global", "aaC", copy, 0},
    {"cp.async.cg.shared.global", "aaC4", copy, 0},
    {"cp.async.ca.shared.global", "aaA", copy, 0},
    {"cp.async.ca.shared.global", "aaB", copy, 0},
    {"cp.async.ca.shared.global", "aaC", copy, 0},
    {"cp.async.ca.shared.global", "aaA4", copy, 0},
    {"cp.async.ca.shared.global", "aaB4", copy, 0},
    {"cp.async.ca.shared.global", "aaC4", copy, 0},
    {"prefetch.global.L2", "a", prefetch, 0},
    {"cp.async.bulk.prefetch.L2.global", "aw", prefetch_bulk, 0},
    {"cvta.local.u64", "d8", local_address, 0},
    {"cp.async.commit_group", "", copy_commit, 0},
    {"cp.async.wait_group", "i", copy_wait, 0},
    {"cp.async.wait_all", "", copy_wait_all, 0},
    {NULL, NULL, NULL, 0},
};
