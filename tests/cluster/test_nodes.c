// SPDX-License-Identifier: Apache-2.0
// Which node a process is: the environments of the programs that start processes, options before
// them, and one sentence for each contradiction.
#include "cluster/nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { PAIRS = 8 };

static const char *pairs[PAIRS][2];

static const char *environment(const char *name)
{
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i][0] && strcmp(pairs[i][0], name) == 0)
            return pairs[i][1];
    return NULL;
}

struct found {
    const char *pairs[PAIRS][2];
    struct nodes_options options;
    uint32_t count, rank;
    const char *address;
    uint32_t port;
};

#define NONE {.node_rank = NODE_RANK_UNSET}

static void test_each_launcher(void **state)
{
    (void)state;
    static const struct found cases[] = {
        {{{0}}, NONE, 1, 0, "127.0.0.1", NODES_PORT},
        {{{"PET_NNODES", "4"}, {"PET_NODE_RANK", "3"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}},
         NONE,
         4,
         3,
         "a",
         5},
        {{{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_ADDR", "::1"}},
         NONE,
         2,
         0,
         "::1",
         NODES_PORT},
        {{{"LWS_GROUP_SIZE", "2"}, {"LWS_WORKER_INDEX", "1"}, {"LWS_LEADER_ADDRESS", "w-0.w.ns"}},
         NONE,
         2,
         1,
         "w-0.w.ns",
         NODES_PORT},
        {{{"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_PROCID", "1"},
          {"SLURM_STEP_NODELIST", "g[07-08]"}},
         NONE,
         2,
         1,
         "g07",
         NODES_PORT},
        {{{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "7"}},
         NONE,
         8,
         7,
         "127.0.0.1",
         NODES_PORT},
        {{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, NONE, 2, 1, "127.0.0.1", NODES_PORT},
        // two that agree
        {{{"PMI_SIZE", "2"},
          {"PMI_RANK", "1"},
          {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_PROCID", "1"}},
         NONE,
         2,
         1,
         "127.0.0.1",
         NODES_PORT},
        // options precede the environment, also one that contradicts itself
        {{{"PMI_SIZE", "2"}, {"WORLD_SIZE", "3"}, {"PMI_RANK", "1"}, {"MASTER_PORT", "x"}},
         {.nnodes = 4, .node_rank = 2, .master_addr = "b", .master_port = 7},
         4,
         2,
         "b",
         7},
        {{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}},
         {.nnodes = 1, .node_rank = NODE_RANK_UNSET},
         1,
         0,
         "127.0.0.1",
         NODES_PORT},
        // one process: its other variables mean nothing
        {{{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"MASTER_ADDR", "c"}},
         NONE,
         1,
         0,
         "127.0.0.1",
         NODES_PORT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nodes nodes;
        struct error err = {.text = ""};
        memcpy(pairs, cases[i].pairs, sizeof pairs);
        enum status status = nodes_find(&nodes, &cases[i].options, environment, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(status, STATUS_OK);
        assert_int_equal(nodes.count, cases[i].count);
        assert_int_equal(nodes.rank, cases[i].rank);
        assert_string_equal(nodes.address, cases[i].address);
        assert_int_equal(nodes.port, cases[i].port);
    }
}

static void test_contradictions_are_one_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *pairs[PAIRS][2];
        struct nodes_options options;
        const char *text;
    } cases[] = {
        {{{"WORLD_SIZE", "2"}, {"PMI_SIZE", "3"}, {"RANK", "0"}},
         NONE,
         "WORLD_SIZE is '2' and PMI_SIZE is '3': set --nnodes"},
        {{{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"SLURM_PROCID", "1"}},
         NONE,
         "RANK is '0' and SLURM_PROCID is '1': set --node-rank"},
        {{{"WORLD_SIZE", "2"}}, NONE, "WORLD_SIZE is 2, so each node needs --node-rank, from 0 on"},
        {{{0}},
         {.nnodes = 2, .node_rank = NODE_RANK_UNSET},
         "--nnodes is 2, so each node needs --node-rank, from 0 on"},
        {{{0}}, {.node_rank = 1}, "--node-rank is 1 and --nnodes is 1: ranks are from 0 to 0"},
        {{{0}},
         {.nnodes = 2, .node_rank = 2},
         "--node-rank is 2 and --nnodes is 2: ranks are from 0 to 1"},
        {{{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}},
         NONE,
         "PMI_RANK is 2 and PMI_SIZE is 2: ranks are from 0 to 1"},
        {{{"WORLD_SIZE", "9"}, {"RANK", "0"}},
         NONE,
         "WORLD_SIZE must be a number from 1 to 8, got '9'"},
        {{{"WORLD_SIZE", "2x"}, {"RANK", "0"}},
         NONE,
         "WORLD_SIZE must be a number from 1 to 8, got '2x'"},
        {{{"WORLD_SIZE", "2"}, {"RANK", "-1"}},
         NONE,
         "RANK must be a number from 0 to 2147483646, got '-1'"},
        {{{"MASTER_PORT", "70000"}},
         {.nnodes = 2, .node_rank = 0},
         "MASTER_PORT must be a number from 1 to 65535, got '70000'"},
        {{{"SLURM_STEP_NODELIST", "g[x]"}},
         {.nnodes = 2, .node_rank = 0},
         "SLURM_STEP_NODELIST is 'g[x]', which names no host: set --master-addr"},
        {{{0}}, {.nnodes = 2, .node_rank = 0, .master_addr = ""}, "--master-addr names no host"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nodes nodes;
        struct error err = {.text = ""};
        memcpy(pairs, cases[i].pairs, sizeof pairs);
        assert_int_equal(nodes_find(&nodes, &cases[i].options, environment, &err), STATUS_INVALID);
        assert_string_equal(err.text, cases[i].text);
    }
}

static void test_lists_of_slurm(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"gpu1", "gpu1"},
        {"a,b", "a"},
        {"gpu[03-05,9],login", "gpu03"},
        {"r[1,3]n", "r1n"},
        {"r[12]-ib,x", "r12-ib"},
        {"n[001-128]", "n001"},
        {"", NULL},
        {"g[", NULL},
        {"g[]", NULL},
        {"g[1", NULL},
        {"g[1x]", NULL},
        {",a", NULL},
    };
    char out[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool found = nodes_first_host(out, sizeof out, cases[i][0]);
        assert_int_equal(found, cases[i][1] != NULL);
        if (found)
            assert_string_equal(out, cases[i][1]);
    }
    assert_false(nodes_first_host(out, sizeof out, "sixteen-letters-x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_launcher),
        cmocka_unit_test(test_contradictions_are_one_sentence),
        cmocka_unit_test(test_lists_of_slurm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
