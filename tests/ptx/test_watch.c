// SPDX-License-Identifier: Apache-2.0
// Faults that the interpreter detects: uses of shared memory that no barrier orders, arrays and
// their alignment, poison, launches that a driver refuses, endless loops; and the counts of memory
// accesses.
#include "tests/ptx/harness.h"

// %r3 is the address of the thread's word of `room`; %p1 is true for the first warp.
#define OWN_WORD                                                                                   \
    "mov.u32 %r4, room;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r4, %r2;\nmov.u32 %r1, 0;\n"          \
    "setp.lt.u32 %p1, %r0, 32;\n"

// Runs `body` with `between` in place of its $. words: part of the expected fault; NULL: no fault.
static void with_order(const char *body, const char *between, uint32_t threads, const char *words)
{
    char text[2048];
    const char *at = strchr(body, '$');
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - body), body, between, at + 1);
    if (words)
        expect_fault(text, threads, words);
    else
        expect_run(text, threads);
}

// --- order of uses ---

static void test_warps_need_a_barrier_between_a_write_and_other_uses(void **state)
{
    (void)state;
    static const struct {
        const char *body, *words;
    } cases[] = {
        {OWN_WORD "@%p1 st.shared.u32 [%r3], 7;\n$@!%p1 ld.shared.u32 %r1, [%r3+-128];\n",
         "is read here and was written by warp 0, with no barrier between"},
        {OWN_WORD "@%p1 ld.shared.u32 %r1, [%r3];\n$@!%p1 st.shared.u32 [%r3+-128], 7;\n",
         "is written here and was read by warp 0"},
        {OWN_WORD "@%p1 st.shared.u32 [%r3], 7;\n$@!%p1 st.shared.u32 [%r3+-128], 8;\n",
         "is written here and was written by warp 0"},
        {OWN_WORD "@%p1 atom.shared.add.u32 %r5, [%r3], 7;\n$@!%p1 ld.shared.u32 %r1, "
                  "[%r3+-128];\n",
         "is read here and was written by warp 0"},
    };
    for (seed = 0; seed < 4; seed++)
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            with_order(cases[k].body, "bar.sync 0;\n", 64, NULL);
            if (seed == 0) // otherwise the other warp may be first
                with_order(cases[k].body, "", 64, cases[k].words);
            else
                with_order(cases[k].body, "", 64, "with no barrier between");
            with_order(cases[k].body, "bar.warp.sync -1;\n", 64, "with no barrier between");
        }
    seed = 0;
}

// %p1 is true for the first lane of each warp, %p2 for the thread `who`, %p3 for the thread
// `other`; `room` begins with 0.
static void with_threads(const char *body, uint32_t who, uint32_t other, const char *words)
{
    char text[2048];
    snprintf(text, sizeof text,
             "mov.u32 %%r1, 0;\nand.b32 %%r2, %%r0, 31;\nsetp.eq.s32 %%p1, %%r2, 0;\n"
             "setp.eq.s32 %%p2, %%r0, %u;\nsetp.eq.s32 %%p3, %%r0, %u;\n"
             "setp.eq.s32 %%p4, %%r0, 0;\n@%%p4 st.shared.u32 [room], 0;\nbar.sync 0;\n%s",
             who, other, body);
    for (seed = 0; seed < 16; seed++)
        if (words)
            expect_fault(text, 128, words);
        else
            expect_run(text, 128);
    seed = 0;
}

#define READ_IT "ld.shared.u32 %r1, [room];\n"
#define ADD_ONE "atom.shared.add.u32 %r5, [room], 1;\n"

static void test_uses_without_order_are_seen_in_any_order_of_running(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "@%p1 " ADD_ONE "$@%p2 " READ_IT, // adds of other warps
        "@%p1 st.shared.u32 [room], 0;\n$@%p2 st.shared.u32 [room], 1;\n",
        "@%p2 st.shared.u32 [room], 2;\n@%p2 st.shared.u32 [room], 1;\n"
        "$@%p3 st.shared.u32 [room], 1;\n",
        "@%p2 st.shared.u32 [room], 2;\n@%p2 " ADD_ONE "$@%p3 " ADD_ONE,
        "@%p2 st.shared.u32 [room], 0;\n$@%p3 " READ_IT, // the value that is already there
        "mov.u16 %h1, 3;\n@%p2 st.shared.u16 [room], %h1;\n"
        "@%p3 st.shared.u16 [room+2], %h1;\n$@%p3 " READ_IT,
        "mov.u16 %h1, 3;\n@%p2 st.shared.u8 [room+1], %h1;\n"
        "@%p3 st.shared.u8 [room+3], %h1;\n$@%p3 ld.shared.u16 %h2, [room];\n",
        "@%p2 ld.shared.u16 %h1, [room];\n@%p3 ld.shared.u16 %h1, [room+2];\n"
        "$@%p3 st.shared.u32 [room], 1;\n",
        "@%p2 ld.shared.u16 %h1, [room];\n@%p3 ld.shared.u32 %r6, [room];\n"
        "$@%p3 st.shared.u16 [room], 1;\n",
    };
    char body[1024];
    for (size_t k = 0; k < sizeof bodies / sizeof bodies[0]; k++)
        for (uint32_t who = 0; who < 128; who += 32) {
            const char *at = strchr(bodies[k], '$');
            snprintf(body, sizeof body, "%.*s%s", (int)(at - bodies[k]), bodies[k], at + 1);
            with_threads(body, who, 96 - who, "with no barrier between");
            snprintf(body, sizeof body, "%.*sbar.sync 0;\n%s", (int)(at - bodies[k]), bodies[k],
                     at + 1);
            with_threads(body, who, 96 - who, NULL);
        }
}

static void test_lanes_that_add_to_a_word_are_not_ordered_by_that(void **state)
{
    (void)state;
    const char *const body = ADD_ONE "$setp.eq.s32 %p1, %r0, 31;\n@%p1 " READ_IT;
    const char *const words = "was written by another lane of the warp, with no barrier between";
    with_order(body, "", 32, words);
    with_order(body, "bar.warp.sync -1;\n", 32, NULL);
    const char *const matrix = // a matrix whose rows are the same memory, written by all lanes
        "st.shared.v4.u32 [room], {7, 7, 7, 7};\n$"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r5, %r6, %r7}, [room];\n";
    with_order(matrix, "", 32, words);
    with_order(matrix, "bar.warp.sync -1;\n", 32, NULL);
}

static void test_a_barrier_of_some_lanes_is_refused(void **state)
{
    (void)state;
    expect_fault(OWN_WORD "setp.lt.u32 %p2, %r0, 16;\n@!%p2 bra over;\nst.shared.u32 [%r3], %r0;\n"
                          "bar.warp.sync 0xffff;\nover:\nmov.u32 %r1, 0;\n",
                 32, "a bar.warp.sync of the lanes 0x0000ffff alone is not known here");
}

static void test_uses_that_nobody_can_tell_apart_are_none(void **state)
{
    (void)state;
    // Two warps add and meet at a separate barrier; one of them reads.
    expect_run("mov.u32 %r1, 0;\nsetp.lt.u32 %p2, %r0, 64;\n@!%p2 bra over;\n" ADD_ONE
               "bar.sync 1, 64;\nsetp.lt.u32 %p3, %r0, 32;\n@%p3 " READ_IT
               "over:\nadd.s32 %r1, %r1, 0;\n",
               128);
    expect_run("st.shared.u32 [room], 7;\nmov.u32 %r1, 0;\n", 64); // all write the same value
    expect_run("atom.shared.add.u32 %r1, [room], 1;\n", 64);
    expect_run("ld.shared.u32 %r1, [room];\n", 64);
    // The halves of a word belong to two threads.
    expect_run(
        "mov.u32 %r4, room;\nshl.b32 %r2, %r0, 1;\nadd.s32 %r3, %r4, %r2;\ncvt.u16.u32 %h1, %r0;\n"
        "st.shared.u16 [%r3], %h1;\nld.shared.u16 %h2, [%r3];\nst.shared.u16 [%r3], 3;\n"
        "cvt.u32.u16 %r1, %h2;\n",
        64);
    for (uint32_t l = 0; l < 64; l++)
        assert_int_equal(memory[l], l);
}

static void test_a_named_barrier_orders_those_who_meet_there(void **state)
{
    (void)state;
    const char *const body =
        OWN_WORD "st.shared.u32 [%r3], %r0;\nshr.u32 %r5, %r0, 6;\nadd.s32 %r6, %r5, 1;\n"
                 "bar.sync %r6, 64;\nxor.b32 %r7, %r0, $;\nshl.b32 %r7, %r7, 2;\n"
                 "add.s32 %r7, %r4, %r7;\nld.shared.u32 %r1, [%r7];\n";
    with_order(body, "32", 128, NULL);
    for (uint32_t l = 0; l < 128; l++)
        assert_int_equal(memory[l], l ^ 32);
    with_order(body, "64", 128, "with no barrier between");
    // The third warp was not at the barrier.
    expect_fault(OWN_WORD
                 "@%p1 st.shared.u32 [%r3], 7;\nsetp.lt.u32 %p2, %r0, 64;\n@!%p2 bra outside;\n"
                 "bar.sync 1, 64;\noutside:\n@!%p2 ld.shared.u32 %r1, [%r3+-256];\n",
                 96, "is read here and was written by warp 0, with no barrier between");
}

static void test_what_a_warp_knew_goes_on_at_its_next_barrier(void **state)
{
    (void)state;
    // Warps 0 and 1 meet at barrier 1, warps 1 and 2 at barrier 2: writes of warp 0 are ordered
    // before warp 2.
    expect_run(OWN_WORD "@%p1 st.shared.u32 [%r3], %r0;\nsetp.lt.u32 %p2, %r0, 64;\n"
                        "setp.ge.u32 %p3, %r0, 32;\n@!%p2 bra second;\nbar.sync 1, 64;\n"
                        "second:\n@!%p3 bra over;\nbar.sync 2, 64;\n@!%p2 ld.shared.u32 %r1, "
                        "[%r3+-256];\nover:\nadd.s32 %r1, %r1, 0;\n",
               96);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(memory[64 + l], l);
}

static void test_lanes_of_a_warp_need_one_too(void **state)
{
    (void)state;
    const char *const body = OWN_WORD "st.shared.u32 [%r3], %r0;\nxor.b32 %r5, %r2, 4;\n"
                                      "add.s32 %r5, %r4, %r5;\n$ld.shared.u32 %r1, [%r5];\n";
    const char *const words = "was written by another lane of the warp, with no barrier between";
    with_order(body, "bar.warp.sync -1;\n", 32, NULL);
    assert_int_equal(memory[6], 7);
    with_order(body, "", 32, words);
    with_order(body, "shfl.sync.idx.b32 %r6, %r0, 0, 31, -1;\n", 32,
               words); // a shuffle orders no memory
    const char *const matrix =
        "mov.u32 %r4, room;\nshl.b32 %r2, %r0, 4;\nadd.s32 %r3, %r4, %r2;\n"
        "st.shared.v4.u32 [%r3], {%r0, %r0, %r0, %r0};\n$"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r5, %r6, %r7}, [%r3];\n";
    with_order(matrix, "bar.warp.sync -1;\n", 32, NULL);
    with_order(matrix, "", 32, words);
}

#define COPY_OWN                                                                                   \
    OWN_WORD "cvt.u64.u32 %d3, %r2;\nadd.s64 %d4, %d0, %d3;\n"                                     \
             "cp.async.ca.shared.global [%r3], [%d4], 4;\ncp.async.commit_group;\n"

static void test_a_wait_covers_the_own_copies_and_not_those_of_others(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < 64; l++)
        memory[l] = 500 + l;
    const char *const body = COPY_OWN "cp.async.wait_group 0;\n$xor.b32 %r5, %r2, 128;\n"
                                      "add.s32 %r5, %r4, %r5;\nld.shared.u32 %r1, [%r5];\n"
                                      "bar.sync 0;\n";
    with_order(body, "bar.sync 0;\n", 64, NULL);
    assert_int_equal(memory[3], 535);
    with_order(body, "", 64, "shared memory at");
    const char *const copied_by_first = // the first thread waits, the second does not
        OWN_WORD "@%p1 cp.async.ca.shared.global [%r3], [%d0], 4;\ncp.async.wait_all;\n"
                 "$@!%p1 ld.shared.u32 %r1, [%r3+-128];\n";
    with_order(copied_by_first, "bar.sync 0;\n", 64, NULL);
    with_order(copied_by_first, "", 64, "is read here and was written by warp 0");
    const char *const read_first = "ld.shared.u32 %r1, [room];\n$" COPY_OWN "cp.async.wait_all;\n";
    with_order(read_first, "bar.sync 0;\n", 64, NULL);
    with_order(read_first, "", 64, "is written here and was read by");
}

static void test_lanes_do_not_store_different_values_to_one_word(void **state)
{
    (void)state;
    const char *const words = "stores another value to";
    expect_fault("st.global.u32 [%d0+800], %r0;\nmov.u32 %r1, 0;\n", 32, words);
    expect_fault("st.shared.u32 [room], %r0;\nmov.u32 %r1, 0;\n", 32, words);
    expect_run("st.global.u32 [%d0+800], 5;\nmov.u32 %r1, 0;\n", 32);
    expect_run("sub.s32 %r2, 31, %r0;\nmul.wide.u32 %d3, %r2, 4;\nadd.s64 %d3, %d0, %d3;\n"
               "st.global.u32 [%d3+800], %r0;\nmov.u32 %r1, 0;\n",
               32);
    assert_int_equal(memory[200], 31);
}

static void test_what_is_read_as_constant_is_not_written(void **state)
{
    (void)state;
    const char *const words = "read by .nc and written in one launch";
    expect_fault("st.global.u32 [%d2], 3;\nld.global.nc.u32 %r1, [%d2];\n", 32, words);
    expect_fault("ld.global.nc.u32 %r1, [%d2];\n", 32, words); // the kernel writes its result there
    expect_fault("ld.global.nc.v4.u32 {%r1, %r3, %r4, %r5}, [%d0+1024];\n"
                 "atom.global.add.u32 %r2, [%d0+1036], 1;\n",
                 32, words);
    expect_run("ld.global.nc.u32 %r1, [%d2+2048];\n", 64);
    const char *const bytes = "ld.global.nc.u8 %r1, [%d0+1024];\nmov.u16 %h1, 3;\n"
                              "st.global.u8 [%d0+1024$], %h1;\n";
    with_order(bytes, "", 32, words);
    with_order(bytes, "+1", 32, NULL);
}

// --- copies ---

static void test_copies_of_eight_bytes_share_sixteen(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < 64; l++)
        memory[l] = 1000 + l;
    expect_run(
        "mul.wide.u32 %d3, %r0, 8;\nadd.s64 %d4, %d0, %d3;\nshl.b32 %r2, %r0, 3;\n"
        "mov.u32 %r3, room;\nadd.s32 %r3, %r3, %r2;\ncp.async.ca.shared.global [%r3], [%d4], 8;\n"
        "cp.async.wait_all;\nld.shared.u32 %r1, [%r3+4];\n",
        32);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(memory[l], 1000 + 2 * l + 1);
    const char *const groups =
        "shl.b32 %r2, %r0, 4;\nmov.u32 %r3, room;\nadd.s32 %r3, %r3, %r2;\n"
        "cp.async.ca.shared.global [%r3], [%d0], 8;\ncp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r3+8], [%d0+8], 8;\ncp.async.commit_group;\n"
        "cp.async.wait_group 1;\nld.shared.u32 %r1, [%r3$];\ncp.async.wait_all;\n";
    with_order(groups, "+4", 32, NULL);
    with_order(groups, "+8", 32, "is used before the wait for its cp.async");
}

static void test_copies_of_other_sizes_are_refused(void **state)
{
    (void)state;
    const char *const sizes[] = {"0", "2", "32", "128", "%r9"};
    char body[256];
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        snprintf(body, sizeof body, "cp.async.ca.shared.global [room], [%%d0], %s;\n", sizes[k]);
        expect_refusal(body, "the operands of 'cp.async.ca.shared.global'");
    }
    for (int bytes = 4; bytes <= 8; bytes += 4) {
        snprintf(body, sizeof body, "cp.async.cg.shared.global [room], [%%d0], %d, 4;\n", bytes);
        expect_refusal(body, "the operands of 'cp.async.cg.shared.global'");
    }
    expect_refusal("cp.async.wait_group %r1;\n", "the operands of 'cp.async.wait_group'");
}

static void test_a_copy_that_is_left_is_named(void **state)
{
    (void)state;
    expect_fault("cp.async.ca.shared.global [room], [%d0], 4;\nmov.u32 %r1, 0;\n", 32,
                 "is used before the wait for its cp.async [block 0, warp 0, lane 1]");
    with_order(COPY_OWN "$mov.u32 %r1, 0;\n", "", 32,
               "32 copies that it never waited for; the first of them [block 0, warp 0, lane 0] at "
               "cp.async.ca.shared.global");
}

// --- arrays, launches, poison ---

static void test_arrays_end_where_they_were_declared_to(void **state)
{
    (void)state;
    const char *const two = ".shared .align 4 .b8 a[100];\n.shared .b8 b[3];\n.shared .b8 c[4];\n"
                            "mov.u32 %r1, 0;\nld.shared.$;\n";
    with_order(two, "u32 %r1, [a+96]", 32, NULL);
    with_order(two, "u8 %h1, [b+2]", 32, NULL);
    with_order(two, "u32 %r1, [a+100]", 32, "4 bytes at");
    with_order(two, "u8 %h1, [a+100]", 32, "of shared memory are in no array");
    with_order(two, "u8 %h1, [b+3]", 32, "of shared memory are in no array");
    with_order(two, "u32 %r1, [a+-4]", 32, "of shared memory are in no array");
    const char *const close = ".shared .align 4 .b8 a[104];\n.shared .align 4 .b8 b[4];\n"
                              "ld.shared.u32 %r1, [a+$];\n";
    with_order(close, "100", 32, NULL);
    with_order(close, "104", 32, "of shared memory are in no array");
    dynamic_bytes = 40;
    with_order(".shared .align 8 .b8 d[];\nmov.u32 %r1, 0;\nld.shared.$;\n", "u64 %d3, [d+32]", 32,
               NULL);
    with_order(".shared .align 8 .b8 d[];\nmov.u32 %r1, 0;\nld.shared.$;\n", "u64 %d3, [d+40]", 32,
               "bytes of shared memory");
    with_order(".shared .align 8 .b8 d[];\nmov.u32 %r1, 0;\nld.shared.$;\n", "u64 %d3, [d+-8]", 32,
               "of shared memory are in no array");
    dynamic_bytes = 0;
}

static void test_arrays_are_aligned_as_declared_and_no_further(void **state)
{
    (void)state;
    dynamic_bytes = 64;
    for (int dynamic = 0; dynamic < 2; dynamic++)
        for (int align = 4; align <= 16; align *= 2) {
            char body[256];
            snprintf(body, sizeof body,
                     ".shared .align %d .b8 a[%s];\n"
                     "ld.shared.v4.u32 {%%r1, %%r3, %%r4, %%r5}, [a];\n",
                     align, dynamic ? "" : "64");
            if (align == 16)
                expect_run(body, 32);
            else
                expect_fault(body, 32, "an access of 16 bytes at");
        }
    dynamic_bytes = 0;
}

static void test_matrices_are_addressed_in_32_bits(void **state)
{
    (void)state;
    expect_run("mov.u32 %r4, room;\nsub.s32 %r3, %r4, 4096;\n"
               "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r3+4096];\n",
               32);
}

static void test_launches_that_a_driver_refuses(void **state)
{
    (void)state;
    expect_fault("mov.u32 %r1, 0;\n", 256, "more threads than the kernel's .maxntid");
    expect_run("mov.u32 %r1, 0;\n", 128);
    char why[256];
    const char *text = ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n"
                       ".reqntid 64\n.minnctapersm 2\n{\nret;\n}\n";
    struct ptx_module *m = ptx_module_read(text, strlen(text), why, sizeof why);
    assert_non_null(m);
    struct ptx_watch watch = {NULL, fault_record};
    for (uint32_t threads = 32; threads <= 96; threads += 32) {
        struct ptx_shape shape = {.grid = {1, 1, 1}, .block = {threads, 1, 1}};
        assert_int_equal(ptx_kernel_run(ptx_kernel_at(m, 0), &shape, NULL, &watch), threads == 64);
    }
    struct ptx_shape wide = {.grid = {1, 1, 1}, .block = {64, 1, 1}, .shared_bytes = 232449};
    assert_false(ptx_kernel_run(ptx_kernel_at(m, 0), &wide, NULL, &watch));
    ptx_module_free(m);
}

static void test_poison_depends_on_the_seed(void **state)
{
    (void)state;
    static const char *const bodies[] = {"mov.b32 %r1, %r9;\n", "ld.shared.u32 %r1, [room+64];\n",
                                         "max.f32 %f1, %f2, 0f00000000;\nmov.b32 %r1, %f1;\n"};
    for (size_t k = 0; k < sizeof bodies / sizeof bodies[0]; k++) {
        uint32_t first[32];
        expect_run(bodies[k], 32);
        assert_int_equal(memory[0], k < 2 ? UINT32_MAX : 0);
        seed = 1;
        expect_run(bodies[k], 32);
        memcpy(first, memory, sizeof first);
        expect_run(bodies[k], 32);
        assert_memory_equal(first, memory, sizeof first); // equal seeds give equal runs
        seed = 2;
        expect_run(bodies[k], 32);
        assert_memory_not_equal(first, memory, sizeof first);
        seed = 0;
    }
}

static void test_a_seed_changes_no_result_of_a_kernel_that_is_right(void **state)
{
    (void)state;
    for (seed = 0; seed < 8; seed++) {
        expect_run(OWN_WORD
                   "mov.u32 %r5, 0;\nst.shared.u32 [%r3], %r0;\nagain:\nbar.sync 0;\n"
                   "xor.b32 %r6, %r2, 128;\nadd.s32 %r6, %r4, %r6;\nld.shared.u32 %r7, [%r6];\n"
                   "and.b32 %r8, %r7, 1;\nsetp.eq.s32 %p2, %r8, 0;\n@%p2 bra even;\n"
                   "mad.lo.s32 %r7, %r7, 3, 1;\nbra.uni both;\neven:\nshr.u32 %r7, %r7, 1;\n"
                   "both:\nbar.sync 0;\nst.shared.u32 [%r3], %r7;\nadd.s32 %r5, %r5, 1;\n"
                   "setp.lt.u32 %p3, %r5, 6;\n@%p3 bra.uni again;\nmov.u32 %r1, %r7;\n",
                   128);
        for (uint32_t l = 0; l < 128; l++) {
            uint32_t x = l; // applied six times with the other operand, it returns to the start
            for (int n = 0; n < 6; n++)
                x = x % 2 != 0 ? 3 * x + 1 : x / 2;
            assert_int_equal(memory[l], x);
        }
    }
    seed = 0;
}

static void test_blocks_run_in_any_order_by_a_seed(void **state)
{
    (void)state;
    enum { BLOCKS = 12 };
    uint32_t rising = 0, falling = 0, *turns = memory + 256, *turn = memory + 255;
    blocks = BLOCKS;
    for (seed = 0; seed < 32; seed++) {
        *turn = 0;
        expect_run("mov.u32 %r2, %ctaid.x;\nmul.wide.u32 %d3, %r2, 4;\nadd.s64 %d3, %d0, %d3;\n"
                   "setp.eq.s32 %p1, %r0, 0;\n@%p1 atom.global.add.u32 %r3, [%d0+1020], 1;\n"
                   "@%p1 st.global.u32 [%d3+1024], %r3;\nmov.u32 %r1, 0;\n",
                   32);
        uint32_t after = 0, seen = 0;
        for (uint32_t n = 0; n < BLOCKS; n++) {
            seen |= 1u << turns[n];
            after += n > 0 && turns[n] > turns[n - 1];
        }
        assert_int_equal(seen, (1u << BLOCKS) - 1);
        assert_true(seed != 0 || after == BLOCKS - 1);
        rising += after > BLOCKS / 2; // of 11 pairs of neighbouring blocks
        falling += after < BLOCKS / 2;
    }
    assert_true(rising != 0 && falling != 0);
    seed = 0;
    blocks = 1;
}

static void test_a_warp_that_does_not_end_is_reported(void **state)
{
    (void)state;
    expect_fault("mov.u32 %r1, 0;\nagain:\nbra.uni again;\n", 32, "instructions and does not end");
}

static void test_lanes_must_agree_where_the_text_says_so(void **state)
{
    (void)state;
    expect_fault(
        "mov.u32 %r1, 0;\nsetp.lt.u32 %p1, %r0, 16;\n@%p1 bra.uni over;\nmov.u32 %r1, "
        "1;\nover:\nadd.s32 %r1, %r1, 0;\n",
        32, "only the lanes 0x0000ffff of 0xffffffff take a branch that is said to be uniform");
    expect_fault("mov.u32 %r1, 0;\nand.b32 %r2, %r0, 1;\nbar.sync %r2;\n", 32,
                 "the barrier's operand is 1, and 0 in lane 0");
    expect_fault("mov.u32 %r1, 0;\nbar.sync 16;\n", 32, "barrier 16: there are 16");
    expect_fault("mov.u32 %r1, 0;\nbar.sync 1, 48;\n", 64, "barrier 1 for 48 threads of 64");
}

// --- counts ---

static void test_requests_of_shared_memory_are_counted_alike(void **state)
{
    (void)state;
    const char *const load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r5, %r6, %r7}, "
                             "[$];\n";
    with_order(load, "room", 32, NULL); // every row has the same address
    assert_int_equal(counts.ldmatrix, 1);
    assert_int_equal(counts.shared_requests, 1);
    assert_int_equal(counts.shared_passes, 4);
    assert_int_equal(counts.shared_passes_least, 4);
    with_order("shl.b32 %r2, %r0, 7;\nmov.u32 %r3, room;\nadd.s32 %r3, %r3, %r2;\n"
               "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r5, %r6, %r7}, [%r3];\n$",
               "", 32, NULL);
    assert_int_equal(counts.shared_passes, 32);
    expect_run("atom.shared.add.u32 %r1, [room], 1;\n", 32); // the lanes one after the other
    assert_int_equal(counts.shared_passes, 32);
    assert_int_equal(counts.shared_passes_least, 1);
}

static void test_copies_count_what_they_read_and_write(void **state)
{
    (void)state;
    const char *const copies =
        "mov.u32 %r9, $;\nmul.wide.u32 %d3, %r0, 16;\nadd.s64 %d4, %d0, %d3;\n"
        "shl.b32 %r2, %r0, 4;\nmov.u32 %r3, room;\nadd.s32 %r3, %r3, %r2;\n"
        "cp.async.cg.shared.global [%r3], [%d4], 16, %r9;\ncp.async.wait_all;\n"
        "mov.u32 %r1, 0;\n";
    with_order(copies, "0", 32, NULL);
    assert_int_equal(counts.global_requests, 1); // the request of the result
    assert_int_equal(counts.global_sectors, 4);
    assert_int_equal(counts.shared_requests, 1);
    assert_int_equal(counts.shared_passes, 4);
    with_order(copies, "16", 32, NULL);
    assert_int_equal(counts.global_requests, 2);
    assert_int_equal(counts.global_sectors, 4 + 16);
}

static void test_local_memory_and_divisions_are_counted(void **state)
{
    (void)state;
    expect_run(".local .align 8 .b8 spill[16];\nst.local.v2.u32 [spill], {%r0, %r0};\n"
               "ld.local.u32 %r2, [spill+4];\ndiv.u32 %r1, %r2, 3;\nrem.u32 %r1, %r1, 3;\n",
               32);
    assert_int_equal(counts.local_requests, 2);
    assert_int_equal(counts.local_sectors, 8 + 4);
    assert_int_equal(counts.divisions, 2);
    assert_int_equal(counts.global_sectors, 4);
}

static void test_local_memory_is_a_lanes_own(void **state)
{
    (void)state;
    const char *const other = ".local .align 8 .b8 own[16];\nst.local.u32 [own], %r0;\n"
                              "mov.u64 %d5, own;\ncvta.local.u64 %d6, %d5;\ncvt.u64.u32 %d7, $;\n"
                              "add.s64 %d6, %d6, %d7;\nld.u32 %r1, [%d6];\n";
    with_order(other, "0", 32, NULL);
    assert_int_equal(memory[9], 9);
    with_order(other, "16", 32, "4 bytes of the local memory of lane 1");
}

static void test_launches_that_fail_count_nothing(void **state)
{
    (void)state;
    expect_fault("ld.global.u32 %r1, [%d2];\nld.global.u32 %r1, [%d2+1];\n", 32, "not aligned");
    assert_int_equal(counts.instructions + counts.launches + counts.global_sectors, 0);
}

static void test_a_kernel_that_begins_early_waits_before_it_uses_memory(void **state)
{
    (void)state;
    static const char wait[] = "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n";
    char body[512];
    launched_early = true;
    memory[5] = 77;
    snprintf(body, sizeof body, "prefetch.global.L2 [%%d2];\n%sld.global.u32 %%r1, [%%d0+20];\n",
             wait);
    expect_run(body, 64);
    assert_int_equal(memory[40], 77);
    snprintf(body, sizeof body, "ld.global.u32 %%r1, [%%d0+20];\n%s", wait);
    expect_fault(body, 32, "global memory is used before griddepcontrol.wait");
    snprintf(body, sizeof body, "mov.u32 %%r1, 0;\nst.global.u32 [%%d2], %%r1;\n%s", wait);
    expect_fault(body, 32, "global memory is used before griddepcontrol.wait");
    snprintf(body, sizeof body, "atom.global.add.u32 %%r1, [%%d0], 1;\n%s", wait);
    expect_fault(body, 32, "global memory is used before griddepcontrol.wait");
    snprintf(body, sizeof body,
             "mov.u32 %%r3, room;\ncp.async.cg.shared.global [%%r3], [%%d0], 16;\n%s", wait);
    expect_fault(body, 32, "global memory is used before griddepcontrol.wait");
    expect_fault("mov.u32 %r1, 0;\nsetp.eq.u32 %p1, %r0, 40;\n@%p1 ret;\ngriddepcontrol.wait;\n",
                 64, "the lanes 0x00000100 end without griddepcontrol.wait [block 0, warp 1]");
    expect_fault("mov.u32 %r1, 0;\nsetp.lt.u32 %p1, %r0, 16;\n@%p1 griddepcontrol.wait;\n", 32,
                 "global memory is used before griddepcontrol.wait");
    launched_early = false;
    expect_run("ld.global.u32 %r1, [%d0+20];\n", 32);
    expect_fault("prefetch.global.L2 [%d2+4096];\nmov.u32 %r1, 0;\n", 32,
                 "which is in no allocation");
#define BULK(at, bytes) "mov.u32 %r1, " bytes ";\ncp.async.bulk.prefetch.L2.global [" at "], %r1;\n"
    expect_run(BULK("%d0", "64"), 32);
    expect_fault(BULK("%d0", "65536"), 32, "which is in no allocation");
    expect_fault(BULK("%d0", "24"), 32, "a bulk prefetch of 24 bytes");
    expect_fault(BULK("%d0+8", "16"), 32, "no multiples of 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warps_need_a_barrier_between_a_write_and_other_uses),
        cmocka_unit_test(test_uses_without_order_are_seen_in_any_order_of_running),
        cmocka_unit_test(test_lanes_that_add_to_a_word_are_not_ordered_by_that),
        cmocka_unit_test(test_a_barrier_of_some_lanes_is_refused),
        cmocka_unit_test(test_uses_that_nobody_can_tell_apart_are_none),
        cmocka_unit_test(test_a_named_barrier_orders_those_who_meet_there),
        cmocka_unit_test(test_what_a_warp_knew_goes_on_at_its_next_barrier),
        cmocka_unit_test(test_lanes_of_a_warp_need_one_too),
        cmocka_unit_test(test_a_wait_covers_the_own_copies_and_not_those_of_others),
        cmocka_unit_test(test_lanes_do_not_store_different_values_to_one_word),
        cmocka_unit_test(test_what_is_read_as_constant_is_not_written),
        cmocka_unit_test(test_copies_of_eight_bytes_share_sixteen),
        cmocka_unit_test(test_copies_of_other_sizes_are_refused),
        cmocka_unit_test(test_a_copy_that_is_left_is_named),
        cmocka_unit_test(test_arrays_end_where_they_were_declared_to),
        cmocka_unit_test(test_arrays_are_aligned_as_declared_and_no_further),
        cmocka_unit_test(test_matrices_are_addressed_in_32_bits),
        cmocka_unit_test(test_launches_that_a_driver_refuses),
        cmocka_unit_test(test_poison_depends_on_the_seed),
        cmocka_unit_test(test_a_seed_changes_no_result_of_a_kernel_that_is_right),
        cmocka_unit_test(test_blocks_run_in_any_order_by_a_seed),
        cmocka_unit_test(test_a_warp_that_does_not_end_is_reported),
        cmocka_unit_test(test_lanes_must_agree_where_the_text_says_so),
        cmocka_unit_test(test_requests_of_shared_memory_are_counted_alike),
        cmocka_unit_test(test_copies_count_what_they_read_and_write),
        cmocka_unit_test(test_local_memory_and_divisions_are_counted),
        cmocka_unit_test(test_local_memory_is_a_lanes_own),
        cmocka_unit_test(test_launches_that_fail_count_nothing),
        cmocka_unit_test(test_a_kernel_that_begins_early_waits_before_it_uses_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
