// SPDX-License-Identifier: Apache-2.0
// The warp-wide instructions: shuffles, ballots, ldmatrix, movmatrix, mma and asynchronous copies.
// Fragment layouts are those of the PTX manual (mma.m16n8k16). mma.h contains its arithmetic.
#include "emu.h"

#include "mma.h"

namespace simt
{

extern simt_counts counts;

float f16_widen(uint16_t bits)
{
    if ((bits & 0x7C00) != 0x7C00) // finite: by a multiplication, because x86-64 calls a library
        return bits_float((uint32_t)(bits & 0x8000) << 16 | (uint32_t)(bits & 0x7FFF) << 13) *
               0x1p112f;
    _Float16 h;
    memcpy(&h, &bits, 2);
    return (float)h;
}

uint16_t f16_narrow(float value)
{
    _Float16 h = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
}

void shfl_run(void **frames)
{
    for (int i = 0; i < LANES; i++) {
        word_frame *f = (word_frame *)frames[i];
        if (f->arg < 0 || f->arg >= LANES) {
            report("shuffle from lane %d", f->arg);
            f->out = f->in;
        } else {
            f->out = ((word_frame *)frames[f->arg])->in;
        }
    }
}

void ballot_run(void **frames)
{
    uint32_t votes = 0;
    for (int i = 0; i < LANES; i++)
        votes |= (uint32_t)(((word_frame *)frames[i])->in != 0) << i;
    for (int i = 0; i < LANES; i++)
        ((word_frame *)frames[i])->out = votes;
}

// Transposes an 8x8 matrix of 16-bit elements: lane l holds elements (l/4, 2(l%4)) and the next.
void movm_run(void **frames)
{
    uint16_t m[8][8];
    for (int l = 0; l < LANES; l++)
        memcpy(&m[l / 4][2 * (l % 4)], &((word_frame *)frames[l])->in, 4);
    for (int l = 0; l < LANES; l++) {
        int row = l / 4, col = 2 * (l % 4);
        ((word_frame *)frames[l])->out = (uint32_t)m[col][row] | (uint32_t)m[col + 1][row] << 16;
    }
}

// Lanes 8i to 8i+7 hold the addresses of the rows of matrix i. The eight rows of a matrix are one
// phase: 16-byte chunks in different banks are read together.
static void ldsm(void **frames, bool transposed)
{
    fiber *self = current;
    for (int m = 0; m < 4; m++) {
        uint16_t rows[8][8];
        uint32_t banks[8] = {0};
        uint32_t passes = 1;
        for (int r = 0; r < 8; r++) {
            const char *row = (const char *)((ldsm_frame *)frames[8 * m + r])->row;
            current = self - (self->seen.lane) + 8 * m + r; // the lane that makes this access
            if ((uintptr_t)row % 16 != 0)
                report("ldmatrix row is not 16-byte aligned");
            if (!shared_check(row, 16, "ldmatrix")) {
                current = self;
                return;
            }
            if (simt_checks_races())
                access(row, 16, false, false, nullptr);
            else if (async_pending(row, 16))
                report("ldmatrix of a cp.async destination before its wait");
            uint32_t bank = (uint32_t)((row - shared_memory) / 16 % 8);
            banks[bank]++;
            passes = banks[bank] > passes ? banks[bank] : passes;
            memcpy(rows[r], row, 16);
        }
        counts.ldsm++;
        counts.ldsm_conflicts += passes - 1;
        for (int l = 0; l < LANES; l++) {
            int row = l / 4, col = 2 * (l % 4);
            uint16_t lo = transposed ? rows[col][row] : rows[row][col];
            uint16_t hi = transposed ? rows[col + 1][row] : rows[row][col + 1];
            ((ldsm_frame *)frames[l])->r[m] = (uint32_t)lo | (uint32_t)hi << 16;
        }
    }
    current = self;
}

void ldsm_run(void **frames)
{
    ldsm(frames, false);
}

void ldsm_t_run(void **frames)
{
    ldsm(frames, true);
}

// Converts the two elements of a word; `step` apart in to.
template <bool bf16> static inline void widen(float *to, int step, uint32_t word)
{
    to[0] = bf16 ? bits_float(word << 16) : f16_widen((uint16_t)word);
    to[step] = bf16 ? bits_float(word & 0xFFFF0000) : f16_widen((uint16_t)(word >> 16));
}

// Fragments as in the PTX manual.
template <bool bf16> static inline void mma(void **frames)
{
    float a[16][16], b[16][8], d[16][8];
    for (int l = 0; l < LANES; l++) {
        const mma_frame *f = (const mma_frame *)frames[l];
        int r = l / 4, t = 2 * (l % 4);
        widen<bf16>(&a[r][t], 1, f->a[0]);
        widen<bf16>(&a[r + 8][t], 1, f->a[1]);
        widen<bf16>(&a[r][t + 8], 1, f->a[2]);
        widen<bf16>(&a[r + 8][t + 8], 1, f->a[3]);
        widen<bf16>(&b[t][r], 8, f->b[0]);
        widen<bf16>(&b[t + 8][r], 8, f->b[1]);
        memcpy(&d[r][t], &f->c[0], 8);
        memcpy(&d[r + 8][t], &f->c[2], 8);
    }
    static const enum mma_sums sums = mma_sums_read();
    mma_multiply(sums, bf16, a, b, d);
    for (int l = 0; l < LANES; l++) {
        float *c = ((const mma_frame *)frames[l])->c;
        int r = l / 4, t = 2 * (l % 4);
        memcpy(&c[0], &d[r][t], 8);
        memcpy(&c[2], &d[r + 8][t], 8);
    }
}

void mma_bf16_run(void **frames)
{
    mma<true>(frames);
}

void mma_f16_run(void **frames)
{
    mma<false>(frames);
}

// The data arrives at the wait that covers its group, and not before; until then the target is
// poisoned.
void cp_async16(void *to, const void *from, bool valid, const char *file, int line)
{
    if ((uintptr_t)to % 16 != 0 || (valid && (uintptr_t)from % 16 != 0)) {
        report("cp.async at %s:%d is not 16-byte aligned", file, line);
        abandon();
    }
    if (!shared_check(to, 16, "cp.async"))
        abandon();
    if (valid && current->seen.early)
        early_access(from, file, line);
    if (valid && !memory_known(from, 16)) {
        report("cp.async at %s:%d reads outside every allocation", file, line);
        abandon();
    }
    if (simt_checks_races()) {
        if (valid)
            access(from, 16, false, false, nullptr);
        access(to, 16, true, false, nullptr);
    }
    if (options.lint)
        lint_copy({to, from, valid, file, line});
    async_mark(to, 16, true);
    memset(to, 0xFF, 16);
    current->open_group.push_back({to, from, valid, file, line});
}

void cp_async_commit()
{
    current->groups.push_back(std::move(current->open_group));
    current->open_group.clear();
}

void cp_async_wait(int groups, const char *, int)
{
    fiber *f = current;
    while ((int)f->groups.size() > groups) {
        for (async_copy &copy : f->groups.front()) {
            async_mark(copy.to, 16, false);
            if (copy.valid)
                memcpy(copy.to, copy.from, 16);
            else
                memset(copy.to, 0, 16);
            if (simt_checks_races())
                access(copy.to, 16, true, false, nullptr);
        }
        f->groups.pop_front();
    }
}

} // namespace simt
