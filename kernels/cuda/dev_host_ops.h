// SPDX-License-Identifier: Apache-2.0
// The functions of dev.h for the host compiler: barriers, copies, matrix instructions, shuffles and
// vector accesses. Each passes its call site to the emulator, so that reports name the kernel's
// line. Included by dev_host.h only.
#pragma once

static inline void grid_wait(SIMT_SITE)
{
    simt::grid_wait(SIMT_PASS);
}
// Does nothing: the emulator starts the next kernel as early as possible in any case.
static inline void grid_trigger()
{
}
static inline void prefetch_l2(const void *p, SIMT_SITE)
{
    simt::prefetch(p, 1, SIMT_PASS);
}
static inline void prefetch_l2_bulk(const void *p, uint32_t bytes, SIMT_SITE)
{
    if ((uintptr_t)p % 16 != 0 || bytes % 16 != 0 || bytes == 0)
        simt::report("bulk prefetch of %u bytes, or its address, no multiple of 16 at %s:%d", bytes,
                     file_, line_);
    simt::prefetch(p, bytes, SIMT_PASS);
}
static inline uint32_t smem_addr(const void *p)
{
    return simt::shared_offset(p);
}
static inline void cp_async16(void *to, const void *from, bool valid, SIMT_SITE)
{
    simt::cp_async16(to, from, valid, SIMT_PASS);
}
static inline void cp_async_commit()
{
    simt::cp_async_commit();
}
template <int N> static inline void cp_async_wait(SIMT_SITE)
{
    simt::cp_async_wait(N, SIMT_PASS);
}
static inline void ldsm_x4(uint32_t r[4], const void *row, SIMT_SITE)
{
    simt::ldsm_frame frame = {r, row};
    simt::collect(simt::OP_LDSM, &frame, simt::ldsm_run, SIMT_PASS);
}
static inline void ldsm_x4_t(uint32_t r[4], const void *row, SIMT_SITE)
{
    simt::ldsm_frame frame = {r, row};
    simt::collect(simt::OP_LDSM_T, &frame, simt::ldsm_t_run, SIMT_PASS);
}
static inline uint32_t movm_t(uint32_t x, SIMT_SITE)
{
    simt::word_frame frame = {x, 0, 0};
    simt::collect(simt::OP_MOVM, &frame, simt::movm_run, SIMT_PASS);
    return frame.out;
}
static inline void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2], SIMT_SITE)
{
    simt::mma_frame frame = {c, a, b};
    simt::collect(simt::OP_MMA_BF16, &frame, simt::mma_bf16_run, SIMT_PASS);
}
static inline void mma_f16(float c[4], const uint32_t a[4], const uint32_t b[2], SIMT_SITE)
{
    simt::mma_frame frame = {c, a, b};
    simt::collect(simt::OP_MMA_F16, &frame, simt::mma_f16_run, SIMT_PASS);
}
template <class T> static inline T shfl_xor(T v, int mask, SIMT_SITE)
{
    return simt::shuffle(simt::OP_SHFL_XOR, v, (int)simt::here->lane ^ mask, SIMT_PASS);
}
template <class T> static inline T shfl_down(T v, int delta, SIMT_SITE)
{
    int from = (int)simt::here->lane + delta;
    return simt::shuffle(simt::OP_SHFL_DOWN, v, from > 31 ? (int)simt::here->lane : from,
                         SIMT_PASS);
}
template <class T> static inline T shfl_idx(T v, int lane, SIMT_SITE)
{
    return simt::shuffle(simt::OP_SHFL_IDX, v, lane & 31, SIMT_PASS);
}
static inline uint32_t warp_ballot(bool p, SIMT_SITE)
{
    simt::word_frame frame = {p, 0, 0};
    simt::collect(simt::OP_BALLOT, &frame, simt::ballot_run, SIMT_PASS);
    return frame.out;
}
static inline void warp_sync(SIMT_SITE)
{
    simt::warp_sync(SIMT_PASS);
}
static inline void cta_sync(SIMT_SITE)
{
    simt::cta_sync(SIMT_PASS);
}
static inline void named_bar_sync(unsigned id, unsigned threads, SIMT_SITE)
{
    simt::named_bar(id, threads, SIMT_PASS);
}
// The host compiler may split a 16-byte access, so the alignment that a GPU requires is checked
// here.
static inline void vector_check(const void *p, const char *file, int line)
{
    if (simt::here->early)
        simt::early_access(p, file, line);
    if ((uintptr_t)p % 16 != 0)
        simt::report("misaligned 16-byte access at %s:%d", file, line);
}
static inline uint4 ldg128(const void *p, SIMT_SITE)
{
    vector_check(p, SIMT_PASS);
    uint4 v;
    memcpy(&v, p, 16);
    return v;
}
static inline uint4 ldg128_stream(const void *p, SIMT_SITE)
{
    return ldg128(p, SIMT_PASS);
}
static inline void stg128(void *p, uint4 v, SIMT_SITE)
{
    vector_check(p, SIMT_PASS);
    memcpy(p, &v, 16);
}
static inline uint4 lds128(const void *p, SIMT_SITE)
{
    return ldg128(p, SIMT_PASS);
}
static inline void sts128(void *p, uint4 v, SIMT_SITE)
{
    stg128(p, v, SIMT_PASS);
}
