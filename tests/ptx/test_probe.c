// SPDX-License-Identifier: Apache-2.0
// The device ptx on the small kernels of tests/simt/probe.cu as nvcc compiles them: which of their
// faults it detects, its refusals, its counts; and that each of weft's kernels can be decoded.
#include "tests/ptx/launch.h"
#include "tests/simt/control.h"
#include "tests/simt/probe.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

// If a kernel is added or removed, this number must change, so that none is missed.
// number of kernels in kernels/cuda/sources.cmake, in tests/simt/probe.cu
enum { OURS = 323, PROBES = 9 };

static void configure(uint32_t seed)
{
    struct simt_options options = {.seed = seed, .quiet = true};
    simt_configure(&options);
    simt_reset();
}

// The reports of the faults; empty: the fault is not detected. The emulator detects races between
// blocks; unwritten memory is poison here; nvcc reduces the misaligned load to one word.
static const char *const words[FAULT_COUNT] = {
    [FAULT_NONE] = "",
    [FAULT_NO_BARRIER] = "with no barrier between",
    [FAULT_NO_WARP_SYNC] = "was written by another lane of the warp",
    [FAULT_SHARED_REUSED] = "with no barrier between",
    [FAULT_WEAK_WAIT] = "is used before the wait for its cp.async",
    [FAULT_NO_BARRIER_ASYNC] = "shared memory at",
    [FAULT_SHARED_OVERRUN] = "of shared memory are in no array",
    [FAULT_GLOBAL_OVERRUN] = "are in no allocation",
    [FAULT_DIVERGENT_BARRIER] = "waits at barrier 0 for 2 warps, of which 1 come",
    [FAULT_DIVERGENT_SHUFFLE] = "names the lanes 0xffffffff, but 0x0000ffff run it",
    [FAULT_TWO_BLOCKS] = "",
    [FAULT_NO_RELEASE] = "",
    [FAULT_MISALIGNED] = "",
    [FAULT_UNWRITTEN] = "",
    [FAULT_ASYNC_UNWAITED] = "64 copies that it never waited for",
    [FAULT_LOCAL_OF_OTHER] = "4 bytes ",
    [FAULT_NO_GRID_WAIT] = "the lanes 0x00000020 end without griddepcontrol.wait",
    [FAULT_LATE_GRID_WAIT] = "global memory is used before griddepcontrol.wait",
    [FAULT_PREFETCH_OVERRUN] = "which is in no allocation",
    [FAULT_EARLY_AFTER_FILL] = "what is in front of it is no kernel",
};

static void test_faults(void **state)
{
    (void)state;
    uint32_t *room, *counter;
    assert_int_equal(cudaMalloc((void **)&room, 4096), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&counter, 4), cudaSuccess);
    for (uint32_t seed = 0; seed < 4; seed++)
        for (int f = 0; f < FAULT_COUNT; f++) {
            configure(seed);
            memset(room, 0, 4096);
            *counter = 0;
            fault_run((enum fault)f, room, counter, NULL);
            (void)cudaDeviceSynchronize();
            const char *got = simt_first_report();
            bool wanted = words[f][0] != 0;
            if ((got[0] != 0) != wanted || (wanted && !strstr(got, words[f])))
                fail_msg("seed %u, %s: '%s'", seed, fault_name((enum fault)f), got);
        }
    configure(0);
    cudaFree(room);
    cudaFree(counter);
}

static void test_accesses_are_counted(void **state)
{
    (void)state;
    static const struct {
        uint32_t stride;
        // conflicts of a 32-lane store and load; sectors of a 32-lane global store
        uint64_t conflicts, sectors;
    } want[] = {{1, 0, 4}, {2, 2, 8}, {8, 14, 32}, {32, 62, 32}};
    uint32_t *room;
    assert_int_equal(cudaMalloc((void **)&room, 4096), cudaSuccess);
    for (size_t k = 0; k < sizeof want / sizeof want[0]; k++) {
        struct simt_counts counts;
        struct simt_lint lint;
        configure(0);
        lint_run(room, want[k].stride, NULL);
        assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
        simt_read(&counts);
        simt_lint_read("lint_kernel", &lint);
        assert_int_equal(lint.launches, 1);
        assert_int_equal(lint.shared_requests, 2);
        assert_int_equal(lint.shared_conflicts, want[k].conflicts);
        assert_int_equal(lint.global_sectors, want[k].sectors);
        assert_int_equal(counts.global_sectors, want[k].sectors);
    }
    cudaFree(room);
}

static void test_each_kernel_can_be_read(void **state)
{
    (void)state;
    configure(0);
    assert_int_equal(ptx_emitted(), OURS + PROBES);
    assert_string_equal(simt_first_report(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_accesses_are_counted),
        cmocka_unit_test(test_each_kernel_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
