// SPDX-License-Identifier: Apache-2.0
// Limits of control groups, read from artificial hierarchies: version 2 nested, version 1 on a host
// and in a container that sees only its part, no limits, files that are missing or malformed.
#include "kernels/cpu/cgroups.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { GIB = 1 << 30 };

struct tree {
    char mount[64], own[80];
    struct cgroups_place place;
};

// Writes a file of the tree and creates the folders of its path; empty text: no file.
static void put(const struct tree *tree, const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", tree->mount, path);
    for (char *at = whole + strlen(tree->mount) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int tree_open(void **state)
{
    static struct tree tree;
    snprintf(tree.mount, sizeof tree.mount, "/tmp/weft_cgroups_XXXXXX");
    assert_non_null(mkdtemp(tree.mount));
    snprintf(tree.own, sizeof tree.own, "%s/own", tree.mount);
    tree.place = (struct cgroups_place){tree.mount, tree.own};
    *state = &tree;
    return 0;
}

static int tree_close(void **state)
{
    const struct tree *tree = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", tree->mount);
    return system(command);
}

static void expect(const struct tree *tree, uint64_t bytes, uint32_t cores)
{
    assert_int_equal(cgroups_memory_available(&tree->place), bytes);
    assert_int_equal(cgroups_cores(&tree->place), cores);
}

static void test_nothing(void **state)
{
    const struct tree *tree = *state;
    expect(tree, UINT64_MAX, UINT32_MAX); // the file of groups is missing, too
    put(tree, "own", "0::/\n");
    expect(tree, UINT64_MAX, UINT32_MAX);
    put(tree, "own", "nonsense\n0:\n:::\n");
    expect(tree, UINT64_MAX, UINT32_MAX);
}

static void test_second_version(void **state)
{
    const struct tree *tree = *state;
    put(tree, "own", "0::/pods/one/main\n");
    put(tree, "pods/one/main/cpu.max", "max 100000\n");
    put(tree, "pods/one/main/memory.max", "max\n");
    expect(tree, UINT64_MAX, UINT32_MAX);
    put(tree, "pods/one/cpu.max", "250000 100000\n"); // a parent of the process's group
    put(tree, "pods/one/memory.max", "4294967296\n");
    put(tree, "pods/one/memory.current", "3221225472\n");
    expect(tree, GIB, 3); // 2.5 cores, rounded up
    put(tree, "pods/one/memory.stat", "anon 5\ninactive_file 1073741824\nfile 7\n");
    expect(tree, 2ull * GIB, 3);
    put(tree, "pods/one/memory.stat", "inactive_file 3221225473\n"); // more than the use
    expect(tree, 4ull * GIB, 3);
    put(tree, "cpu.max", "100000 100000\n");
    put(tree, "memory.max", "1000\n");
    put(tree, "memory.current", "2000\n");
    expect(tree, 0, 1);
}

static void test_first_version(void **state)
{
    const struct tree *tree = *state;
    put(tree, "own", "11:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n");
    put(tree, "memory/memory.limit_in_bytes", "9223372036854771712\n"); // no limit
    put(tree, "cpu/cpu.cfs_quota_us", "-1\n");
    put(tree, "cpu/cpu.cfs_period_us", "100000\n");
    expect(tree, UINT64_MAX, UINT32_MAX);
    // in a container its group is the root of the mounted tree
    put(tree, "memory/memory.limit_in_bytes", "2147483648\n");
    put(tree, "memory/memory.usage_in_bytes", "1610612736\n");
    put(tree, "memory/memory.stat", "inactive_file 1\ntotal_inactive_file 536870912\n");
    put(tree, "cpu/cpu.cfs_quota_us", "400000\n");
    expect(tree, GIB, 4);
    put(tree, "own", "11:memory:/docker/abc\n4:cpuacct,cpu:/docker/abc\n"); // second name
    expect(tree, GIB, 4);
    put(tree, "own", "11:memory:/docker/abc\n4:cpuset:/docker/abc\n"); // another controller
    expect(tree, GIB, UINT32_MAX);
    put(tree, "own", "11:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n");
    // on the host the group has its full path
    put(tree, "memory/docker/abc/memory.limit_in_bytes", "1048576\n");
    put(tree, "cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
    put(tree, "cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    expect(tree, 1 << 20, 1);
}

static void test_not_sane(void **state)
{
    const struct tree *tree = *state;
    put(tree, "own", "0::/../../..\n3:cpu:\n");
    put(tree, "cpu.max", "\n");
    put(tree, "memory.max", "much\n");
    put(tree, "cpu/cpu.cfs_quota_us", "100000\n");
    put(tree, "cpu/cpu.cfs_period_us", "0\n");
    expect(tree, UINT64_MAX, UINT32_MAX);
    put(tree, "cpu.max", "0 100000\n");
    expect(tree, UINT64_MAX, UINT32_MAX);
}

// The usable cores are also limited by the process's current affinity.
static void test_usable_cores(void **state)
{
    const struct tree *tree = *state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    uint32_t all = (uint32_t)CPU_COUNT(&before);
    assert_int_equal(cgroups_cores_usable(&tree->place), all); // without a quota
    put(tree, "own", "0::/\n");
    put(tree, "cpu.max", "100000000 100000\n");
    assert_int_equal(cgroups_cores_usable(&tree->place), all < 1000 ? all : 1000);
    put(tree, "cpu.max", "100000 100000\n");
    assert_int_equal(cgroups_cores_usable(&tree->place), 1);
    put(tree, "cpu.max", "max 100000\n");
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    uint32_t pinned = cgroups_cores_usable(&tree->place);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(pinned, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing, tree_open, tree_close),
        cmocka_unit_test_setup_teardown(test_second_version, tree_open, tree_close),
        cmocka_unit_test_setup_teardown(test_first_version, tree_open, tree_close),
        cmocka_unit_test_setup_teardown(test_not_sane, tree_open, tree_close),
        cmocka_unit_test_setup_teardown(test_usable_cores, tree_open, tree_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
