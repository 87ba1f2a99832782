// SPDX-License-Identifier: Apache-2.0
// Instructions in which the 32 lanes of a warp interact: shuffles, votes, matrix fragments and
// products.
//
// Layouts of fragments are those of the PTX manual. Products are added as the emulator adds them
// (tests/simt/mma.h): in ascending order of k in float32, or as a card does if WEFT_SIMT_MMA names
// it.
#include "tests/ptx/ops.h"
#include "tests/simt/mma.h"

#include <string.h>

static float widened(uint32_t word, int half, bool bf16)
{
    uint16_t bits = (uint16_t)(word >> (16 * half));
    if (bf16) {
        uint32_t wide = (uint32_t)bits << 16;
        float value;
        memcpy(&value, &wide, 4);
        return value;
    }
    _Float16 h;
    memcpy(&h, &bits, 2);
    return (float)h;
}

// Checks that the members of a shuffle or vote are the active lanes.
static bool members_run(struct ptx_warp *w, const struct ptx_ins *i, const struct ptx_operand *o)
{
    const uint32_t *members = ptx_lanes(w, o);
    for (int l = 0; l < PTX_LANES; l++)
        if ((w->mask >> l & 1) && members[l] != w->mask) {
            ptx_fault(w, i, "lane %d names the lanes 0x%08x, but 0x%08x run it", l, members[l],
                      w->mask);
            return false;
        }
    return true;
}

enum shuffle { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BUTTERFLY, SHUFFLE_INDEX };

// Returns the lane that a shuffle reads from; `bound` contains the segment's mask (bits 8 to 12)
// and its limit.
static int shuffle_from(enum shuffle kind, int lane, uint32_t by, uint32_t bound, bool *inside)
{
    int segment = (int)(bound >> 8 & 31), limit = (int)(bound & 31), b = (int)(by & 31);
    int most = (lane & segment) | (limit & ~segment), from;
    switch (kind) {
    case SHUFFLE_UP:
        from = lane - b;
        *inside = from >= most;
        break;
    case SHUFFLE_DOWN:
        from = lane + b;
        *inside = from <= most;
        break;
    case SHUFFLE_BUTTERFLY:
        from = lane ^ b;
        *inside = from <= most;
        break;
    default:
        from = (lane & segment) | (b & ~segment);
        *inside = from <= most;
    }
    return *inside ? from : lane;
}

// shfl d|p, value, by, bound, members
static void shuffle(struct ptx_warp *w, const struct ptx_ins *i, enum shuffle kind)
{
    if (!members_run(w, i, &i->x[5]))
        return;
    uint32_t *d = ptx_lanes(w, &i->x[0]), in[PTX_LANES], bits = 0;
    const uint32_t *by = ptx_lanes(w, &i->x[3]), *bound = ptx_lanes(w, &i->x[4]);
    memcpy(in, ptx_lanes(w, &i->x[2]), sizeof in);
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(w->mask >> l & 1))
            continue;
        bool inside;
        int from = shuffle_from(kind, l, by[l], bound[l], &inside);
        if (!(w->mask >> from & 1)) {
            ptx_fault(w, i, "lane %d reads lane %d, which does not run it", l, from);
            return;
        }
        bits |= (uint32_t)inside << l;
        d[l] = in[from];
    }
    if (!i->x[1].absent) {
        uint32_t *p = ptx_lanes(w, &i->x[1]);
        *p = (*p & ~w->mask) | bits;
    }
}

static void shuffle_up(struct ptx_warp *w, const struct ptx_ins *i)
{
    shuffle(w, i, SHUFFLE_UP);
}
static void shuffle_down(struct ptx_warp *w, const struct ptx_ins *i)
{
    shuffle(w, i, SHUFFLE_DOWN);
}
static void shuffle_butterfly(struct ptx_warp *w, const struct ptx_ins *i)
{
    shuffle(w, i, SHUFFLE_BUTTERFLY);
}
static void shuffle_index(struct ptx_warp *w, const struct ptx_ins *i)
{
    shuffle(w, i, SHUFFLE_INDEX);
}

static void ballot(struct ptx_warp *w, const struct ptx_ins *i)
{
    if (!members_run(w, i, &i->x[2]))
        return;
    uint32_t *d = ptx_lanes(w, &i->x[0]);
    uint32_t votes = *(const uint32_t *)ptx_lanes(w, &i->x[1]) & w->mask;
    EACH_LANE(w, d[l] = votes);
}

static void warp_barrier(struct ptx_warp *w, const struct ptx_ins *i)
{
    if (!members_run(w, i, &i->x[0]))
        return;
    if (w->mask == (uint32_t)PTX_ALL)
        ptx_warp_ordered(w);
    else
        ptx_fault(w, i, "a bar.warp.sync of the lanes 0x%08x alone is not known here", w->mask);
}

static void nothing(struct ptx_warp *w, const struct ptx_ins *i)
{
    (void)w;
    (void)i;
}

// --- matrices of 8 x 8 elements of 16 bits ---

// Lane l holds the elements (l / 4, 2 (l % 4)) and the next one in a word.

static void fragment_put(uint32_t *d, uint16_t rows[8][8], bool transposed)
{
    for (int l = 0; l < PTX_LANES; l++) {
        int row = l / 4, col = 2 * (l % 4);
        uint16_t low = transposed ? rows[col][row] : rows[row][col];
        uint16_t high = transposed ? rows[col + 1][row] : rows[row][col + 1];
        d[l] = (uint32_t)low | (uint32_t)high << 16;
    }
}

// Returns the number of bank passes for a matrix: rows at different addresses in the same four
// banks need one each.
static uint32_t matrix_passes(const uint64_t at[8])
{
    uint32_t banks[8] = {0}, most = 0;
    for (uint32_t r = 0; r < 8; r++) {
        uint32_t o = 0;
        while (at[o] != at[r])
            o++;
        uint32_t used = o == r ? ++banks[at[r] / 16 % 8] : 0;
        most = used > most ? used : most;
    }
    return most;
}

// Loads matrices; lanes 8 m to 8 m + 7 hold the addresses of the rows of matrix m.
static void matrices_load(struct ptx_warp *w, const struct ptx_ins *i, uint32_t count,
                          bool transposed)
{
    if (!ptx_whole(w, i))
        return;
    struct ptx_counts *c = &w->block->kernel->counts;
    uint16_t rows[4][8][8];
    for (uint32_t m = 0; m < count; m++) {
        uint64_t at[8];
        for (uint32_t r = 0; r < 8; r++) {
            w->lane = (int)(8 * m + r);
            at[r] = ptx_address(w, &i->x[count], w->lane);
            if (at[r] % 16 != 0)
                ptx_fault(w, i, "row %u of matrix %u at %llu is not aligned to 16 bytes", r, m,
                          (unsigned long long)at[r]);
            if (w->block->broken)
                return;
            const char *row = ptx_shared(w, i, PTX_SEVERAL, at[r], 16, USE_READ, NULL);
            if (!row)
                return;
            memcpy(rows[m][r], row, 16);
        }
        uint32_t passes = matrix_passes(at);
        c->shared_passes += passes;
        c->matrix_conflicts += passes - 1;
        c->shared_passes_least++;
    }
    c->matrices += count;
    c->shared_requests++;
    c->ldmatrix++;
    for (uint32_t m = 0; m < count; m++)
        fragment_put(ptx_lanes(w, &i->x[m]), rows[m], transposed);
}

static void matrices1(struct ptx_warp *w, const struct ptx_ins *i)
{
    matrices_load(w, i, 1, false);
}
static void matrices2(struct ptx_warp *w, const struct ptx_ins *i)
{
    matrices_load(w, i, 2, false);
}
static void matrices4(struct ptx_warp *w, const struct ptx_ins *i)
{
    matrices_load(w, i, 4, false);
}
static void matrices1_transposed(struct ptx_warp *w, const struct ptx_ins *i)
{
    matrices_load(w, i, 1, true);
}
static void matrices2_transposed(struct ptx_warp *w, const struct ptx_ins *i)
{
    matrices_load(w, i, 2, true);
}
static void matrices4_transposed(struct ptx_warp *w, const struct ptx_ins *i)
{
    matrices_load(w, i, 4, true);
}

static void matrix_transpose(struct ptx_warp *w, const struct ptx_ins *i)
{
    if (!ptx_whole(w, i))
        return;
    const uint32_t *x = ptx_lanes(w, &i->x[1]);
    uint16_t rows[8][8];
    for (int l = 0; l < PTX_LANES; l++)
        memcpy(&rows[l / 4][2 * (l % 4)], &x[l], 4);
    fragment_put(ptx_lanes(w, &i->x[0]), rows, true);
}

// --- products: d = a b + c, 16 x 8 = (16 x 16) (16 x 8) ---

// Operands: d 0 to 3, a 4 to 7, b 8 and 9, c 10 to 13.
static void product(struct ptx_warp *w, const struct ptx_ins *i, bool bf16)
{
    if (!ptx_whole(w, i))
        return;
    float a[16][16], b[16][8], d[16][8];
    const uint32_t *x[10];
    const float *c[4];
    for (int k = 4; k < 10; k++)
        x[k] = ptx_lanes(w, &i->x[k]);
    for (int k = 0; k < 4; k++)
        c[k] = ptx_lanes(w, &i->x[10 + k]);
    for (int l = 0; l < PTX_LANES; l++) {
        int r = l / 4, t = l % 4;
        for (int h = 0; h < 2; h++) {
            a[r][2 * t + h] = widened(x[4][l], h, bf16);
            a[r + 8][2 * t + h] = widened(x[5][l], h, bf16);
            a[r][2 * t + 8 + h] = widened(x[6][l], h, bf16);
            a[r + 8][2 * t + 8 + h] = widened(x[7][l], h, bf16);
            b[2 * t + h][r] = widened(x[8][l], h, bf16);
            b[2 * t + 8 + h][r] = widened(x[9][l], h, bf16);
            d[r][2 * t + h] = c[h][l];
            d[r + 8][2 * t + h] = c[2 + h][l];
        }
    }
    static int sums = -1;
    if (sums < 0)
        sums = (int)mma_sums_read();
    mma_multiply((enum mma_sums)sums, bf16, a, b, d);
    for (int k = 0; k < 4; k++) {
        float *out = ptx_lanes(w, &i->x[k]);
        for (int l = 0; l < PTX_LANES; l++)
            out[l] = d[l / 4 + 8 * (k / 2)][2 * (l % 4) + k % 2];
    }
    w->block->kernel->counts.mma++;
}

static void product_bf16(struct ptx_warp *w, const struct ptx_ins *i)
{
    product(w, i, true);
}
static void product_f16(struct ptx_warp *w, const struct ptx_ins *i)
{
    product(w, i, false);
}

// The previous kernel has already run completely. Until a lane has waited it must not access device
// memory.
static void grid_wait(struct ptx_warp *w, const struct ptx_ins *i)
{
    (void)i;
    w->early &= ~w->mask;
}

// run.c implements control flow; these rows only define its operands.
const struct ptx_form ptx_warp_forms[] = {
    {"bra", "l", nothing, FLOW_BRANCH},
    {"bra.uni", "l", nothing, FLOW_BRANCH},
    {"ret", "", nothing, FLOW_RETURN},
    {"exit", "", nothing, FLOW_RETURN},
    {"bar.sync", "4", nothing, FLOW_BARRIER},
    {"bar.sync", "44", nothing, FLOW_BARRIER},
    {"barrier.sync", "4", nothing, FLOW_BARRIER},
    {"bar.warp.sync", "4", warp_barrier, 0},
    {"shfl.sync.up.b32", "wq4444", shuffle_up, 0},
    {"shfl.sync.down.b32", "wq4444", shuffle_down, 0},
    {"shfl.sync.bfly.b32", "wq4444", shuffle_butterfly, 0},
    {"shfl.sync.idx.b32", "wq4444", shuffle_index, 0},
    {"vote.sync.ballot.b32", "wp4", ballot, 0},
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16", "wa", matrices1, 0},
    {"ldmatrix.sync.aligned.m8n8.x2.shared.b16", "wwa", matrices2, 0},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "wwwwa", matrices4, 0},
    {"ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", "wa", matrices1_transposed, 0},
    {"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", "wwa", matrices2_transposed, 0},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "wwwwa", matrices4_transposed, 0},
    {"griddepcontrol.wait", "", grid_wait, 0},
    {"griddepcontrol.launch_dependents", "", nothing, 0},
    {"movmatrix.sync.aligned.m8n8.trans.b16", "w4", matrix_transpose, 0},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "wwww4444444444", product_bf16, 0},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "wwww4444444444", product_f16, 0},
    {NULL, NULL, NULL, 0},
};
