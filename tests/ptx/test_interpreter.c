// SPDX-License-Identifier: Apache-2.0
// The interpreter of PTX on kernels written here: divergence and reconvergence, barriers, shuffles,
// memory and its faults, copies, fragments, edge values, and counts.
#include "tests/ptx/harness.h"

#include <stdlib.h>

// --- flow ---

static void test_lanes_of_a_loop_meet_where_it_ends(void **state)
{
    (void)state;
    expect_run("mov.u32 %r1, 0;\n"
               "again:\nadd.s32 %r1, %r1, 3;\nsetp.lt.u32 %p1, %r1, %r0;\n@%p1 bra again;\n"
               "shfl.sync.bfly.b32 %r2|%p2, %r1, 31, 31, -1;\nadd.s32 %r1, %r1, %r2;\n",
               32);
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t own = l <= 3 ? 3 : (l + 2) / 3 * 3, other = 31 - l <= 3 ? 3 : (31 - l + 2) / 3 * 3;
        assert_int_equal(memory[l], own + other);
    }
}

static void test_branches_within_branches_meet_at_their_own_ends(void **state)
{
    (void)state;
    expect_run("and.b32 %r2, %r0, 1;\nand.b32 %r3, %r0, 2;\nsetp.eq.s32 %p1, %r2, 0;\n"
               "setp.eq.s32 %p2, %r3, 0;\n@%p1 bra even;\nmov.u32 %r1, 1;\nbra.uni done;\n"
               "even:\n@%p2 bra four;\nmov.u32 %r1, 2;\nbra.uni both;\nfour:\nmov.u32 %r1, 4;\n"
               "both:\nadd.s32 %r1, %r1, 10;\ndone:\nbar.sync 0;\nadd.s32 %r1, %r1, 100;\n",
               64);
    for (uint32_t l = 0; l < 64; l++)
        assert_int_equal(memory[l], l % 2 != 0 ? 101u : l % 4 == 0 ? 114u : 112u);
}

static void test_what_a_whole_warp_must_run_is_refused_to_a_part(void **state)
{
    (void)state;
    const char *const half = "setp.lt.u32 %p1, %r0, 16;\n@!%p1 bra over;\n";
    char body[512];
    snprintf(body, sizeof body, "%sbar.sync 0;\nover:\nmov.u32 %%r1, 0;\n", half);
    expect_fault(body, 32, "only the lanes 0x0000ffff run what a whole warp must");
    snprintf(body, sizeof body, "%sshfl.sync.idx.b32 %%r1|%%p2, %%r0, 0, 31, -1;\nover:\n", half);
    expect_fault(body, 32, "names the lanes 0xffffffff, but 0x0000ffff run it");
    snprintf(body, sizeof body, "%smovmatrix.sync.aligned.m8n8.trans.b16 %%r1, %%r0;\nover:\n",
             half);
    expect_fault(body, 32, "only the lanes 0x0000ffff run");
}

static void test_lanes_that_returned_are_missed(void **state)
{
    (void)state;
    expect_fault(
        "setp.lt.u32 %p1, %r0, 16;\n@%p1 ret;\nshfl.sync.idx.b32 %r1|%p2, %r0, 0, 31, -1;\n", 32,
        "but 0xffff0000 run it");
}

static void test_a_barrier_that_a_warp_never_reaches_is_reported(void **state)
{
    (void)state;
    expect_fault("setp.ge.u32 %p1, %r0, 32;\n@%p1 bra over;\nbar.sync 0;\nover:\nmov.u32 %r1, 0;\n",
                 64, "waits at barrier 0 for 2 warps, of which 1 come");
    expect_run(
        "setp.ge.u32 %p1, %r0, 64;\n@%p1 bra over;\nbar.sync 1, 64;\nover:\nmov.u32 %r1, 0;\n",
        128);
}

// --- memory ---

static void test_warps_pass_words_through_shared_memory(void **state)
{
    (void)state;
    expect_run("mov.u32 %r4, room;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r4, %r2;\n"
               "mul.lo.s32 %r5, %r0, 7;\nst.shared.u32 [%r3], %r5;\nbar.sync 0;\n"
               "sub.s32 %r6, 63, %r0;\nshl.b32 %r6, %r6, 2;\nadd.s32 %r6, %r4, %r6;\n"
               "ld.shared.u32 %r1, [%r6];\n",
               64);
    for (uint32_t l = 0; l < 64; l++)
        assert_int_equal(memory[l], 7 * (63 - l));
    assert_int_equal(value("ld.shared.u32 %r1, [room+128];\n"), UINT32_MAX);
}

static void test_accesses_outside_and_askew_are_reported(void **state)
{
    (void)state;
    expect_fault("ld.global.u32 %r1, [%d2+1];\n", 32, "an access of 4 bytes at");
    expect_fault("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d2];\n", 32, "16 bytes");
    expect_fault("ld.global.u32 %r1, [%d0+4096];\n", 32, "are in no allocation");
    expect_fault("ld.global.u32 %r1, [%d0+-4];\n", 32, "are in no allocation");
    expect_fault("ld.shared.u32 %r1, [room+8192];\n", 32, "of shared memory are in no array");
    expect_fault("ld.param.u32 %r1, [out+8];\n", 32, "of 8 bytes of parameters");
    assert_non_null(strstr(reported, "[block 0, warp 0, lane 0] at ld.param.u32, line "));
}

static void test_narrow_elements_are_extended_by_their_type(void **state)
{
    (void)state;
    memory[40] = 0x80FF7F81u;
    assert_int_equal(value("ld.global.s8 %r1, [%d0+160];\n"), 0xFFFFFF81u);
    assert_int_equal(value("ld.global.u8 %r1, [%d0+160];\n"), 0x81u);
    assert_int_equal(value("ld.global.u16 %h1, [%d0+162];\ncvt.u32.u16 %r1, %h1;\n"), 0x80FFu);
    assert_int_equal(
        value("ld.global.u8 %h1, [%d0+163];\ncvt.s16.s8 %h2, %h1;\ncvt.s32.s16 %r1, %h2;\n"),
        0xFFFFFF80u);
    assert_int_equal(
        value("ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%d0+160];\ncvt.u32.u16 %r1, %h2;\n"), 0x7Fu);
}

#define COPIES                                                                                     \
    "mul.wide.u32 %d3, %r0, 16;\nadd.s64 %d4, %d0, %d3;\nshl.b32 %r2, %r0, 4;\nmov.u32 %r3, "      \
    "room;\n"                                                                                      \
    "add.s32 %r3, %r3, %r2;\ncp.async.cg.shared.global.L2::128B [%r3], [%d4], 16, %r9;\n"

static void test_copies_arrive_at_their_wait_and_not_before(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < 128; l++)
        memory[l] = 1000 + l;
    expect_run("mov.u32 %r9, 16;\n" COPIES "cp.async.commit_group;\ncp.async.wait_group 0;\n"
               "ld.shared.u32 %r1, [%r3+4];\nbar.sync 0;\n",
               32);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(memory[l], 1000 + 4 * l + 1);
    const char *const early = "is used before the wait for its cp.async";
    expect_fault("mov.u32 %r9, 16;\n" COPIES
                 "cp.async.commit_group;\nld.shared.u32 %r1, [%r3+4];\n",
                 32, early);
    expect_fault("mov.u32 %r9, 16;\n" COPIES "cp.async.commit_group;\ncp.async.wait_group 1;\n"
                 "ld.shared.u32 %r1, [%r3];\n",
                 32, early);
    expect_fault("mov.u32 %r9, 16;\n" COPIES "cp.async.wait_group 0;\nld.shared.u32 %r1, [%r3];\n",
                 32, early);
    expect_run("mov.u32 %r9, 16;\n" COPIES "cp.async.commit_group;\ncp.async.commit_group;\n"
               "cp.async.wait_group 1;\nld.shared.u32 %r1, [%r3];\n",
               32);
    expect_fault("mov.u32 %r9, 16;\n" COPIES "mov.u32 %r1, 0;\n", 32, "a warp ends with 32 copies");
}

static void test_copies_of_fewer_bytes_leave_zeros(void **state)
{
    (void)state;
    memory[0] = 5, memory[1] = 6;
    expect_run("mov.u32 %r9, 4;\n" COPIES
               "cp.async.wait_all;\nld.shared.v2.u32 {%r4, %r5}, [%r3];\n"
               "setp.eq.s32 %p1, %r0, 0;\nselp.b32 %r1, %r5, 9, %p1;\n",
               32);
    assert_int_equal(memory[0], 0);
    expect_run("mov.u32 %r9, 0;\n" COPIES "cp.async.wait_all;\nld.shared.u32 %r1, [%r3];\n", 32);
    assert_int_equal(memory[0], 0);
    expect_fault("mov.u32 %r9, 17;\n" COPIES "cp.async.wait_all;\nmov.u32 %r1, 0;\n", 32,
                 "a copy of 16 bytes reads 17");
}

static void test_atomics_of_one_word_add_up(void **state)
{
    (void)state;
    memory[200] = 0;
    expect_run("atom.global.add.u32 %r1, [%d0+800], 2;\n", 64);
    assert_int_equal(memory[200], 128);
    uint32_t seen = 0;
    for (uint32_t l = 0; l < 64; l++)
        seen += memory[l];
    assert_int_equal(seen, 64 * 63); // each lane got another even number
}

// --- what lanes do together ---

static void test_shuffles_read_the_lane_they_name(void **state)
{
    (void)state;
    expect_run("shfl.sync.down.b32 %r1|%p1, %r0, 3, 31, -1;\n@!%p1 add.s32 %r1, %r1, 100;\n", 32);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(memory[l], l < 29 ? l + 3 : l + 100);
    expect_run("shfl.sync.up.b32 %r1, %r0, 1, 0, -1;\n", 32);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(memory[l], l > 0 ? l - 1 : 0);
    expect_run("shfl.sync.idx.b32 %r1|%p1, %r0, 5, 6175, -1;\n",
               32); // segments of 8: mask 24, limit 31
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(memory[l], l / 8 * 8 + 5);
    expect_run(
        "and.b32 %r2, %r0, 1;\nsetp.eq.s32 %p1, %r2, 1;\nvote.sync.ballot.b32 %r1, %p1, -1;\n", 32);
    assert_int_equal(memory[7], 0xAAAAAAAAu);
}

// Matrix m has 8 rows of 16 bytes; its element (r, c) is 100 m + 8 r + c.
#define MATRICES                                                                                   \
    "mov.u32 %r20, room;\nshl.b32 %r21, %r0, 4;\nadd.s32 %r22, %r20, %r21;\nshr.u32 %r23, %r0, "   \
    "3;\n"                                                                                         \
    "and.b32 %r24, %r0, 7;\nshl.b32 %r24, %r24, 3;\nmad.lo.s32 %r25, %r23, 100, %r24;\n"           \
    "mul.lo.s32 %r26, %r25, 65537;\nadd.s32 %r27, %r26, 65536;\nadd.s32 %r28, %r26, 196610;\n"     \
    "add.s32 %r29, %r26, 327684;\nadd.s32 %r30, %r26, 458758;\n"                                   \
    "st.shared.v4.u32 [%r22], {%r27, %r28, %r29, %r30};\nbar.sync 0;\n"

static void test_matrices_are_loaded_as_the_manual_has_them(void **state)
{
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++)
        for (uint32_t m = 0; m < 4; m++) {
            char body[2048];
            snprintf(body, sizeof body,
                     "%sldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%r4, %%r5, %%r6, %%r7}, "
                     "[%%r22];\nmov.u32 %%r1, %%r%u;\n",
                     MATRICES, transposed ? ".trans" : "", 4 + m);
            expect_run(body, 32);
            for (uint32_t l = 0; l < 32; l++) {
                uint32_t row = l / 4, col = l % 4 * 2;
                uint32_t low = 100 * m + (transposed ? 8 * col + row : 8 * row + col);
                assert_int_equal(memory[l], low | (low + (transposed ? 8 : 1)) << 16);
            }
        }
}

// a (16 x 16) has a one at (r, (r + 3) % 16), b (16 x 8) is 8 k + n, c is 1000: d (r, n) = 8 ((r +
// 3) % 16) + n + 1000.
static void test_a_product_is_that_of_the_manual(void **state)
{
    (void)state;
    static const uint16_t one = 0x3F80; // 1 in bfloat16
    uint16_t a[16][16] = {{0}};
    for (int r = 0; r < 16; r++)
        a[r][(r + 3) % 16] = one;
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t r = l / 4, t = l % 4 * 2;
        const uint32_t rows[4] = {r, r + 8, r, r + 8}, cols[4] = {t, t, t + 8, t + 8};
        for (int k = 0; k < 4; k++)
            memcpy(&memory[256 + 8 * l + k], &a[rows[k]][cols[k]], 4);
        for (uint32_t k = 0; k < 4; k++) {
            float value = (float)(8 * (t + k % 2 + 8 * (k / 2)) + r);
            uint32_t bits;
            memcpy(&bits, &value, 4);
            memory[256 + 8 * l + 4 + k / 2] =
                k % 2 == 0 ? bits >> 16 : memory[256 + 8 * l + 4 + k / 2] | (bits & 0xFFFF0000u);
        }
    }
    for (uint32_t n = 0; n < 4; n++) {
        char body[2048];
        snprintf(body, sizeof body,
                 "mul.wide.u32 %%d3, %%r0, 32;\nadd.s64 %%d4, %%d0, %%d3;\n"
                 "ld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%d4+1024];\n"
                 "ld.global.v2.u32 {%%r8, %%r9}, [%%d4+1040];\n"
                 "mov.f32 %%f1, 0f447A0000;\nmov.f32 %%f2, %%f1;\nmov.f32 %%f3, %%f1;\nmov.f32 "
                 "%%f4, %%f1;\n"
                 "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%%f5, %%f6, %%f7, %%f8}, "
                 "{%%r4, %%r5, %%r6, %%r7}, {%%r8, %%r9}, {%%f1, %%f2, %%f3, %%f4};\n"
                 "cvt.rzi.u32.f32 %%r1, %%f%u;\n",
                 5 + n);
        expect_run(body, 32);
        for (uint32_t l = 0; l < 32; l++) {
            uint32_t row = l / 4 + 8 * (n / 2), col = l % 4 * 2 + n % 2;
            assert_int_equal(memory[l], 8 * ((row + 3) % 16) + col + 1000);
        }
    }
}

// --- values at their edges ---

static void test_values_at_the_edges_of_integers(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        uint32_t want;
    } cases[] = {
        {"mov.u32 %r2, 32;\nmov.u32 %r3, 5;\nshl.b32 %r1, %r3, %r2;\n", 0},
        {"mov.u32 %r2, -8;\nshr.s32 %r1, %r2, 40;\n", UINT32_MAX},
        {"mov.u32 %r2, -8;\nshr.u32 %r1, %r2, 28;\n", 15},
        {"mov.u32 %r2, 0;\nmov.u32 %r3, 7;\ndiv.u32 %r1, %r3, %r2;\n", UINT32_MAX},
        {"mov.u32 %r2, 0;\nmov.u32 %r3, 7;\nrem.u32 %r1, %r3, %r2;\n", 7},
        {"mov.u32 %r2, 0x80000001;\nmul.hi.u32 %r1, %r2, 4;\n", 2},
        {"mov.u32 %r2, 255;\nmov.u32 %r3, -1;\nbfi.b32 %r1, %r2, %r3, 4, 3;\n", UINT32_MAX},
        {"mov.u32 %r2, 0;\nmov.u32 %r3, -1;\nbfi.b32 %r1, %r2, %r3, 4, 3;\n", 0xFFFFFF8Fu},
        {"mov.u32 %r2, 0x33221100;\nmov.u32 %r3, 0x776655C4;\nprmt.b32 %r1, %r2, %r3, 0x4C70;\n",
         0xC4FF7700u},
        {"mov.u32 %r2, 0xF0F0;\nmov.u32 %r3, 0xFF00;\nmov.u32 %r4, 0x00AA;\nlop3.b32 %r1, %r2, "
         "%r3, %r4, 0xEA;\n",
         0xF0AAu},
        {"mov.b64 %d5, 0x100000002;\ncvt.u32.u64 %r1, %d5;\n", 2},
        {"mov.b64 %d5, 0x100000002;\nmov.b64 {%r2, %r1}, %d5;\n", 1},
        {"mov.u16 %h1, 3;\nmov.u16 %h2, 4;\nmov.b32 %r1, {%h1, %h2};\n", 0x40003u},
        {"mov.u32 %r2, -3;\nmov.u32 %r3, 2;\nmul.wide.s32 %d5, %r2, %r3;\nshr.u64 %d5, %d5, "
         "32;\ncvt.u32.u64 %r1, %d5;\n",
         UINT32_MAX},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        if (value(cases[k].body) != cases[k].want)
            fail_msg("%s gives 0x%08x, not 0x%08x", cases[k].body, memory[0], cases[k].want);
}

static void test_values_at_the_edges_of_floats(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        uint32_t want;
    } cases[] = {
        {"max.f32 %f1, 0f7FC00000, 0fBF800000;\n", 0xBF800000u}, // a number wins over a NaN
        {"min.f32 %f1, 0f00000000, 0f80000000;\n", 0x80000000u}, // -0 is less than +0
        {"cvt.sat.f32.f32 %f1, 0f7FC00000;\n", 0},
        {"cvt.sat.f32.f32 %f1, 0f40000000;\n", 0x3F800000u},
        {"cvt.rni.f32.f32 %f1, 0f40200000;\n", 0x40000000u}, // 2.5, to even
        {"ex2.approx.ftz.f32 %f1, 0fC3000000;\n", 0},        // 2^-128 is flushed
        {"ex2.approx.ftz.f32 %f1, 0f40400000;\n", 0x41000000u},
        {"add.rz.f32 %f1, 0f3F800000, 0f33C00000;\n", 0x3F800000u}, // 1 + 1.5 * 2^-24
        {"add.rn.f32 %f1, 0f3F800000, 0f33C00000;\n", 0x3F800001u},
        {"fma.rm.f32 %f1, 0f3F800000, 0f33C00000, 0f3F800000;\n", 0x3F800000u},
        {"copysign.f32 %f1, 0fBF800000, 0f40000000;\n", 0xC0000000u},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char body[256];
        snprintf(body, sizeof body, "%smov.b32 %%r1, %%f1;\n", cases[k].body);
        if (value(body) != cases[k].want)
            fail_msg("%s gives 0x%08x, not 0x%08x", cases[k].body, memory[0], cases[k].want);
    }
    assert_int_equal(value("cvt.rzi.s32.f32 %r1, 0f7FC00000;\n"), 0);
    assert_int_equal(value("cvt.rzi.u32.f32 %r1, 0fBF800000;\n"), 0);
    assert_int_equal(value("cvt.rn.bf16x2.f32 %r1, 0f3F800000, 0f40000000;\n"),
                     0x3F804000u); // the first operand is the upper half
    assert_int_equal(value("cvt.rn.f16.f32 %h1, 0f477FF000;\ncvt.u32.u16 %r1, %h1;\n"),
                     0x7C00u); // greater than 65,504
}

static void test_comparisons_with_no_number(void **state)
{
    (void)state;
    static const char *const holds_for_none[] = {"neu", "ltu", "leu", "gtu", "geu", "equ", "nan"};
    static const char *const fails_for_none[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    char body[256];
    for (size_t k = 0; k < 7; k++) {
        snprintf(body, sizeof body,
                 "setp.%s.f32 %%p1, 0f7FC00000, 0f3F800000;\nselp.b32 %%r1, 1, 0, %%p1;\n",
                 holds_for_none[k]);
        assert_int_equal(value(body), 1);
    }
    for (size_t k = 0; k < 6; k++) {
        snprintf(body, sizeof body,
                 "setp.%s.f32 %%p1, 0f7FC00000, 0f3F800000;\nselp.b32 %%r1, 1, 0, %%p1;\n",
                 fails_for_none[k]);
        assert_int_equal(value(body), 0);
    }
}

// --- reading and counting ---

static void test_what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    expect_refusal("frobnicate.u32 %r1, %r0;\n",
                   "line 17: the opcode 'frobnicate.u32' is not known");
    expect_refusal("add.s32 %r1, %r0;\n", "the operands of 'add.s32' are not what it takes");
    expect_refusal("add.s32 %r1, %d0, %r0;\n", "the operands of 'add.s32'");
    expect_refusal("mov.u32 %r1, %r99;\n", "'%r99' is no register that is known");
    expect_refusal("mov.u32 %r1, %clock;\n", "'%clock' is no register that is known");
    expect_refusal("bra.uni nowhere;\n", "no instruction stands at the label 'nowhere'");
    expect_refusal("ld.global.f128 %r1, [%d0];\n", "'ld.global.f128'");
    expect_refusal("mov.u32 %r1, 12x;\n", "'12x' is no number");
    expect_refusal(".surface .b32 x;\n", "the directive '.surface' is not known");
    char why[256];
    const char *text = ".version 9.0\n.entry k()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, 0;\n}\n";
    assert_null(ptx_module_read(text, strlen(text), why, sizeof why));
    assert_non_null(strstr(why, "runs over its end"));
    text = kernel_text("mov.u32 %r1, 0;\n");
    for (size_t cut = 0; cut < strlen(text); cut++) {
        char *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part + 1, text, cut); // so that reading too far leaves the allocation
        struct ptx_module *m = ptx_module_read(part + 1, cut, why, sizeof why);
        if (m)
            ptx_module_free(m);
        free(part);
    }
}

// Invalid texts are refused, because no ptxas has checked the text before.
static void test_what_an_assembler_refuses_is_refused(void **state)
{
    (void)state;
    expect_refusal("ld.global.v4.u64 {%d3, %d4, %d5, %d6}, [%d0];\n",
                   "'ld.global.v4.u64' is not known");
    expect_refusal("st.param.u32 [out], %r1;\n", "'st.param.u32' is not known");
    expect_refusal("atom.local.add.u32 %r1, [%d0], 1;\n", "'atom.local.add.u32' is not known");
    expect_refusal("add.s32 5, %r1, %r0;\n", "the operands of 'add.s32'");
    expect_refusal("mov.u32 %tid.x, %r1;\n", "the operands of 'mov.u32'");
    expect_refusal("st.global.u32 [%d2], %h1;\n", "the operands of 'st.global.u32'");
    expect_refusal("ld.global.u32 %h1, [%d2];\n", "the operands of 'ld.global.u32'");
    expect_refusal("cvt.u16.u32 %h1, %h2;\n", "the operands of 'cvt.u16.u32'");
    expect_refusal("cvt.u32.u16 %h1, %h2;\n", "the operands of 'cvt.u32.u16'");
    expect_refusal("cvt.u32 %r1, %r2;\n", "the opcode 'cvt.u32' is not known");
    expect_refusal("here:\nmov.u32 %r1, 0;\nhere:\nmov.u32 %r1, 1;\n",
                   "the label 'here' stands twice");
    expect_refusal(".reg .b %x<2>;\n", "'.b' is no type that is known");
    expect_refusal(".reg .b128 %x<2>;\n", "'.b128' is no type that is known");
    expect_refusal(".shared .pred x;\n", "a declaration of a predicate");
    expect_refusal(".shared .align 65536 .b8 x;\n", "aligned to more than");
    expect_refusal(".reg .b64 %x<20000000>;\n", "registers %x");
    expect_refusal(".shared .b8 x[4294967295];\n", "'x' has more than");
    expect_refusal("ld.global.u32 %r1, [%d0+4294967296];\n", "the offset 4294967296 does not fit");
    expect_refusal("ld.global.u32 %r1, [%d0+2147483647+1];\n",
                   "the offset 2147483648 does not fit");
}

static void test_names_of_a_piece_of_assembly_end_with_it(void **state)
{
    (void)state;
    assert_int_equal(value("mov.u32 %r1, 1;\n{ .reg .b32 t;\n.reg .pred p;\nmov.u32 t, "
                           "41;\nsetp.eq.s32 p, t, 41;\n"
                           "@p add.s32 %r1, %r1, t; }\n{ .reg .b32 t;\nmov.u32 t, 5;\n@!%p1 "
                           "add.s32 %r1, %r1, 0; }\n"),
                     42);
    expect_refusal("{ .reg .b32 t;\nmov.u32 t, 41; }\nmov.u32 %r1, t;\n",
                   "the operands of 'mov.u32'");
}

static void test_sectors_and_passes_are_counted(void **state)
{
    (void)state;
    expect_run("ld.global.u32 %r1, [%d2];\n", 32);
    assert_int_equal(counts.global_sectors, 8); // four sectors read, four written
    expect_run(
        "shl.b32 %r2, %r0, 5;\ncvt.u64.u32 %d3, %r2;\nadd.s64 %d3, %d3, %d0;\nld.global.u32 %r1, "
        "[%d3];\n",
        32);
    assert_int_equal(counts.global_sectors, 36);
    expect_run(
        "shl.b32 %r2, %r0, 7;\nmov.u32 %r3, room;\nadd.s32 %r3, %r3, %r2;\nld.shared.u32 %r1, "
        "[%r3];\n",
        32);
    assert_int_equal(counts.shared_passes, 32);
    assert_int_equal(counts.shared_passes_least, 1);
    expect_run("shl.b32 %r2, %r0, 4;\nmov.u32 %r3, room;\nadd.s32 %r3, %r3, %r2;\n"
               "ld.shared.v4.u32 {%r1, %r4, %r5, %r6}, [%r3];\n",
               32);
    assert_int_equal(counts.shared_passes, 4);
    expect_run("ld.shared.u32 %r1, [room];\n", 32);
    assert_int_equal(counts.shared_passes, 1);
    expect_run("mov.u32 %r1, 0;\n", 64);
    assert_int_equal(counts.instructions, 2 * 7);
    assert_int_equal(counts.warps, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_of_a_loop_meet_where_it_ends),
        cmocka_unit_test(test_branches_within_branches_meet_at_their_own_ends),
        cmocka_unit_test(test_what_a_whole_warp_must_run_is_refused_to_a_part),
        cmocka_unit_test(test_lanes_that_returned_are_missed),
        cmocka_unit_test(test_a_barrier_that_a_warp_never_reaches_is_reported),
        cmocka_unit_test(test_warps_pass_words_through_shared_memory),
        cmocka_unit_test(test_accesses_outside_and_askew_are_reported),
        cmocka_unit_test(test_narrow_elements_are_extended_by_their_type),
        cmocka_unit_test(test_copies_arrive_at_their_wait_and_not_before),
        cmocka_unit_test(test_copies_of_fewer_bytes_leave_zeros),
        cmocka_unit_test(test_atomics_of_one_word_add_up),
        cmocka_unit_test(test_shuffles_read_the_lane_they_name),
        cmocka_unit_test(test_matrices_are_loaded_as_the_manual_has_them),
        cmocka_unit_test(test_a_product_is_that_of_the_manual),
        cmocka_unit_test(test_values_at_the_edges_of_integers),
        cmocka_unit_test(test_values_at_the_edges_of_floats),
        cmocka_unit_test(test_comparisons_with_no_number),
        cmocka_unit_test(test_what_is_not_known_is_refused_by_name),
        cmocka_unit_test(test_what_an_assembler_refuses_is_refused),
        cmocka_unit_test(test_names_of_a_piece_of_assembly_end_with_it),
        cmocka_unit_test(test_sectors_and_passes_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
