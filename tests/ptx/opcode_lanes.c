// SPDX-License-Identifier: Apache-2.0
// Rows in which lanes interact: flow, exchanges, fragments, products.
#include "tests/ptx/opcode_rows.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

void together_test(const struct together *t)
{
    char body[4096];
    snprintf(body, sizeof body,
             "mov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%d1, %%r0, 4;\nadd.s64 %%d2, %%d0, %%d1;\n"
             "mov.u32 %%r50, room;\nshl.b32 %%r51, %%r0, 4;\nadd.s32 %%r52, %%r50, %%r51;\n"
             "%s\nst.global.u32 [%%d2], %%r1;\n",
             t->body);
    for (uint32_t k = 0; k < WORDS; k++)
        memory[k] = k < 256 ? 0 : 1000 + k;
    row_run(t->opcode, t->shape, body);
    for (uint32_t l = 0; l < 32 && !instructions_listed; l++)
        if (memory[l] != t->want(l))
            fail_msg("%s: lane %u has 0x%x, not 0x%x", t->opcode, l, memory[l], t->want(l));
}

// Word w of the first 512 bytes of shared memory contains the 16-bit elements 2 w and 2 w + 1.
#define ELEMENTS                                                                                   \
    "mad.lo.u32 %r40, %r0, 524296, 65536;\nadd.u32 %r41, %r40, 131074;\n"                          \
    "add.u32 %r42, %r40, 262148;\nadd.u32 %r43, %r40, 393222;\n"                                   \
    "st.shared.v4.u32 [%r52], {%r40, %r41, %r42, %r43};\nbar.sync 0;\n"
#define MIX2 "mad.lo.u32 %r1, %r5, 3, %r4;\n"
#define MIX4 MIX2 "mad.lo.u32 %r1, %r6, 5, %r1;\nmad.lo.u32 %r1, %r7, 7, %r1;\n"

static uint32_t matrix(uint32_t l, uint32_t m)
{
    uint32_t first = 64 * m + 2 * l; // 8 (l / 4) + 2 (l % 4)
    return first | (first + 1) << 16;
}
static uint32_t matrix_turned(uint32_t l, uint32_t m)
{
    uint32_t first = 64 * m + 16 * (l % 4) + l / 4;
    return first | (first + 8) << 16;
}
static uint32_t one(uint32_t l)
{
    return matrix(l, 0);
}
static uint32_t two(uint32_t l)
{
    return matrix(l, 0) + 3 * matrix(l, 1);
}
static uint32_t four(uint32_t l)
{
    return two(l) + 5 * matrix(l, 2) + 7 * matrix(l, 3);
}
static uint32_t one_turned(uint32_t l)
{
    return matrix_turned(l, 0);
}
static uint32_t two_turned(uint32_t l)
{
    return matrix_turned(l, 0) + 3 * matrix_turned(l, 1);
}
static uint32_t four_turned(uint32_t l)
{
    return two_turned(l) + 5 * matrix_turned(l, 2) + 7 * matrix_turned(l, 3);
}

void test_matrices_of_fragments(void **state)
{
    (void)state;
#define LOAD "ldmatrix.sync.aligned.m8n8."
    static const struct together all[] = {
        {LOAD "x1.shared.b16", "wa", ELEMENTS LOAD "x1.shared.b16 {%r1}, [%r52];\n", one},
        {LOAD "x2.shared.b16", "wwa", ELEMENTS LOAD "x2.shared.b16 {%r4, %r5}, [%r52];\n" MIX2,
         two},
        {LOAD "x4.shared.b16", "wwwwa",
         ELEMENTS LOAD "x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r52];\n" MIX4, four},
        {LOAD "x1.trans.shared.b16", "wa", ELEMENTS LOAD "x1.trans.shared.b16 {%r1}, [%r52];\n",
         one_turned},
        {LOAD "x2.trans.shared.b16", "wwa",
         ELEMENTS LOAD "x2.trans.shared.b16 {%r4, %r5}, [%r52];\n" MIX2, two_turned},
        {LOAD "x4.trans.shared.b16", "wwwwa",
         ELEMENTS LOAD "x4.trans.shared.b16 {%r4, %r5, %r6, %r7}, [%r52];\n" MIX4, four_turned},
        {"movmatrix.sync.aligned.m8n8.trans.b16", "w4",
         "mad.lo.u32 %r2, %r0, 131074, 65536;\nmovmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;\n",
         one_turned},
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        together_test(&all[k]);
}

static uint32_t lane_before(uint32_t l) // in segments of 8 lanes
{
    return l % 8 >= 3 ? l - 3 : l;
}
static uint32_t lane_after(uint32_t l) // lanes after 5 of a segment of 8 are not read
{
    return l % 8 + 3 <= 5 ? l + 3 : l;
}
// A lane that would read after lane 5 of its segment reads its own value.
static uint32_t lane_across(uint32_t l)
{
    return (l ^ 3) % 8 <= 5 ? l ^ 3 : l;
}
static uint32_t lane_named(uint32_t l) // in segments of 16 lanes
{
    return l / 16 * 16 + (l * 3) % 16;
}
static uint32_t odd_lanes(uint32_t l)
{
    (void)l;
    return 0xAAAAAAAA;
}

void test_exchanges_between_lanes(void **state)
{
    (void)state;
    static const struct together all[] = {
        {"shfl.sync.up.b32", "wq4444", "shfl.sync.up.b32 %r1|%p1, %r0, 3, 0x1800, -1;\n",
         lane_before},
        {"shfl.sync.down.b32", "wq4444", "shfl.sync.down.b32 %r1, %r0, 3, 0x1805, -1;\n",
         lane_after},
        {"shfl.sync.bfly.b32", "wq4444", "shfl.sync.bfly.b32 %r1, %r0, 3, 0x1805, -1;\n",
         lane_across},
        {"shfl.sync.idx.b32", "wq4444",
         "mul.lo.u32 %r2, %r0, 3;\nshfl.sync.idx.b32 %r1, %r0, %r2, 0x101f, -1;\n", lane_named},
        {"vote.sync.ballot.b32", "wp4",
         "and.b32 %r2, %r0, 1;\nsetp.eq.s32 %p1, %r2, 1;\nvote.sync.ballot.b32 %r1, %p1, -1;\n",
         odd_lanes},
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        together_test(&all[k]);
}

static uint32_t small_or_large(uint32_t l)
{
    return l < 7 ? 100 : 200;
}
static uint32_t small_alone(uint32_t l)
{
    return l < 7 ? 100 : 0;
}
static uint32_t neighbour(uint32_t l)
{
    return 5 * (31 - l);
}

#define SMALL "mov.u32 %r1, 100;\nsetp.lt.u32 %p1, %r0, 7;\n"
#define STORED "st.global.u32 [%d2], %r1;\n"
#define EXCHANGED                                                                                  \
    "shl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r50, %r2;\nmul.lo.u32 %r4, %r0, 5;\n"                     \
    "st.shared.u32 [%r3], %r4;\n"
#define READ "sub.s32 %r5, 124, %r2;\nadd.s32 %r5, %r5, %r50;\nld.shared.u32 %r1, [%r5];\n"

void test_flow_and_barriers(void **state)
{
    (void)state;
    static const struct together all[] = {
        {"bra", "l", SMALL "@%p1 bra over;\nmov.u32 %r1, 200;\nover:\n", small_or_large},
        {"bra.uni", "l", SMALL "@%p1 bra over;\nmov.u32 %r1, 200;\nbra.uni over;\nover:\n",
         small_or_large},
        {"ret", "", SMALL "@%p1 " STORED "@%p1 ret;\nmov.u32 %r1, 200;\n", small_or_large},
        {"exit", "", SMALL "@%p1 " STORED "exit;\n", small_alone},
        {"bar.sync", "4", EXCHANGED "bar.sync 1;\n" READ, neighbour},
        {"bar.sync", "44", EXCHANGED "bar.sync 1, 32;\n" READ, neighbour},
        {"barrier.sync", "4", EXCHANGED "barrier.sync 1;\n" READ, neighbour},
        {"bar.warp.sync", "4", EXCHANGED "bar.warp.sync -1;\n" READ, neighbour},
        {"griddepcontrol.wait", "", SMALL "griddepcontrol.wait;\n@!%p1 mov.u32 %r1, 200;\n",
         small_or_large},
        {"griddepcontrol.launch_dependents", "",
         SMALL "griddepcontrol.launch_dependents;\n@!%p1 mov.u32 %r1, 200;\n", small_or_large},
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        together_test(&all[k]);
}

static uint32_t twice_lane(uint32_t l)
{
    return 2 * l;
}

void test_half_of_a_word_may_be_left_out(void **state)
{
    (void)state;
    static const struct together left_out = {
        "mov.b64", "ww8", "cvt.u64.u32 %d5, %r0;\nshl.b64 %d5, %d5, 33;\nmov.b64 {_, %r1}, %d5;\n",
        twice_lane};
    together_test(&left_out);
}

// --- products ---

static uint32_t small_float(int value, bool bf16) // value from 0 to 255
{
    float wide = (float)value;
    uint32_t bits;
    _Float16 half = (_Float16)wide;
    memcpy(&bits, &wide, sizeof bits);
    bits >>= 16;
    if (!bf16)
        memcpy(&bits, &half, sizeof half), bits &= 0xFFFF;
    return bits;
}

// a (r, k) = r + 2 k, b (k, n) = k + 16 n, c (r, n) = 1000 r + n: all elements differ, and sums are
// exact.
static void product_test(const char *opcode, bool bf16)
{
    char body[2048];
    int n = snprintf(body, sizeof body,
                     "mov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%d1, %%r0, 64;\nadd.s64 %%d2, %%d0, "
                     "%%d1;\nld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%d2];\n"
                     "ld.global.v2.u32 {%%r8, %%r9}, [%%d2+16];\n"
                     "ld.global.v4.u32 {%%r10, %%r11, %%r12, %%r13}, [%%d2+32];\n"
                     "%s {%%r14, %%r15, %%r16, %%r17}, {%%r4, %%r5, %%r6, %%r7}, {%%r8, %%r9}, "
                     "{%%r10, %%r11, %%r12, %%r13};\n"
                     "st.global.v4.u32 [%%d2+48], {%%r14, %%r15, %%r16, %%r17};\n",
                     opcode);
    assert_in_range(n, 1, sizeof body - 1);
    for (int l = 0; l < 32; l++) {
        uint32_t *out = memory + 16 * l;
        int g = l / 4, t = 2 * (l % 4);
        const int rows[4] = {g, g + 8, g, g + 8}, ks[4] = {t, t, t + 8, t + 8};
        for (int k = 0; k < 4; k++)
            out[k] = small_float(rows[k] + 2 * ks[k], bf16) |
                     small_float(rows[k] + 2 * (ks[k] + 1), bf16) << 16;
        for (int k = 0; k < 2; k++)
            out[4 + k] = small_float(t + 8 * k + 16 * g, bf16) |
                         small_float(t + 8 * k + 1 + 16 * g, bf16) << 16;
        for (int k = 0; k < 4; k++) {
            float c = (float)(1000 * (g + 8 * (k / 2)) + t + k % 2);
            memcpy(&out[8 + k], &c, sizeof c);
        }
    }
    row_run(opcode, "wwww4444444444", body);
    for (int l = 0; l < 32 && !instructions_listed; l++)
        for (int k = 0; k < 4; k++) {
            int row = l / 4 + 8 * (k / 2), col = 2 * (l % 4) + k % 2;
            int want = 1000 * row + col;
            for (int i = 0; i < 16; i++)
                want += (row + 2 * i) * (i + 16 * col);
            float got;
            memcpy(&got, memory + 16 * l + 12 + k, sizeof got);
            if (got != (float)want)
                fail_msg("%s (%d, %d): %g, not %d", opcode, row, col, (double)got, want);
        }
}

void test_products(void **state)
{
    (void)state;
    product_test("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", true);
    product_test("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", false);
}
