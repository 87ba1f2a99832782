// SPDX-License-Identifier: Apache-2.0
// Groups of nodes over the loopback interface, each with its own channel, devices and model; the
// nodes other than node 0 are threads of this program. Tokens and logits are bit-equal to those of
// one process with as many ranks. Faults end the group with a sentence. The end-to-end tests
// run real processes.
#include "cluster/link.h"
#include "runtime/model/internal.h"
#include "base/arena.h"
#include "base/clock.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { VOCAB = 96, PROMPT = 40, OUTPUTS = 6, SEQUENCES = 3 };

static const char *const words[] = {"node 0", "node 1", "node 2", "node 3"};
static const char secret[] = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";

static uint32_t port_free(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    close(fd);
    return ntohs(a.sin_port);
}

struct node {
    struct channel_options options;
    const char *folder;
    const char *blocks; // value of its fact "KV blocks"
    uint32_t ranks;     // number of ranks of all nodes
    struct channel *channel;
    struct cluster_link *link;
    struct rig rig;
    pthread_t thread;
    struct error err;
    enum status status;
    _Atomic uint32_t lost, leaves; // calls of the callbacks
    _Atomic bool starts;           // late_main: true if it reports that it has started step 7
};

static void on_lost(void *context, const struct error *err)
{
    struct node *node = context;
    assert_true(err->text[0] != '\0');
    atomic_fetch_add(&node->lost, 1);
}

static void on_leave(void *context)
{
    struct node *node = context;
    atomic_fetch_add(&node->leaves, 1);
}

static enum status node_meet(struct node *n, double seconds)
{
    struct facts facts = {0};
    enum status status = channel_open(&n->channel, &n->options, &n->err);
    facts_add(&facts, "weft", "test");
    facts_add(&facts, "KV blocks", n->blocks);
    if (status == STATUS_OK)
        status = channel_meet(n->channel, &facts, seconds, &n->err);
    facts_free(&facts);
    return status;
}

// Opens the model with the ranks of this node.
static void node_model(struct node *n)
{
    struct error err;
    struct rig *rig = &n->rig;
    const struct cluster_link_options link = {n->options.node, n->options.nodes, 0, n->ranks};
    uint32_t here = n->ranks / n->options.nodes;
    struct model_options options = rig_options();
    struct device_options device = {.threads = here, .exact = true};
    *rig = (struct rig){.api = device_cpu()};
    n->link = cluster_link_create(&link);
    options.link = cluster_link_model(n->link);
    options.share.tp_size = n->ranks;
    options.share.tp_rank = options.link->comm.first;
    options.devices = rig->ranks;
    check(rig->api->open(&rig->device, &device, &err) == STATUS_OK, "%s", err.text);
    for (uint32_t r = 0; r < here; r++) {
        device = (struct device_options){.index = r, .ranks = here, .parent = rig->device};
        check(rig->api->open(&rig->ranks[r], &device, &err) == STATUS_OK, "%s", err.text);
    }
    check(model_plan_open(&rig->plan, n->folder, rig->api, rig->ranks[0], &options, &err) ==
              STATUS_OK,
          "%s", err.text);
    cluster_link_begin(n->link, n->channel, &rig->plan->facts);
    uint64_t kv = rig->plan->kv_bytes_min * rig->plan->facts.limits.slots_max;
    check(model_open(&rig->model, rig->plan, kv, NULL, NULL, &err) == STATUS_OK, "%s", err.text);
    rig->facts = model_facts(rig->model);
    rig->batch = heap_alloc(batch_bytes(&rig->facts->limits));
    batch_init(rig->batch, &rig->facts->limits);
}

static void node_close(struct node *n)
{
    if (n->rig.model)
        rig_close(&n->rig);
    cluster_link_destroy(n->link);
}

static void *follower_main(void *argument)
{
    struct node *n = argument;
    n->status = node_meet(n, 60);
    if (n->status == STATUS_OK) {
        node_model(n);
        n->status = cluster_follow(n->link, n->rig.model, &n->err);
    }
    node_close(n);
    channel_close(n->channel);
    return NULL;
}

static void nodes_init(struct node *nodes, uint32_t count, uint32_t ranks, const char *folder)
{
    uint32_t port = port_free();
    memset(nodes, 0, count * sizeof *nodes);
    for (uint32_t i = 0; i < count; i++) {
        nodes[i].folder = folder;
        nodes[i].ranks = ranks;
        nodes[i].blocks = "10";
        nodes[i].options = (struct channel_options){.node = i,
                                                    .nodes = count,
                                                    .models = 1,
                                                    .address = "127.0.0.1",
                                                    .port = port,
                                                    .heartbeat_s = 10,
                                                    .words = words,
                                                    .lost = on_lost,
                                                    .leave = on_leave,
                                                    .context = &nodes[i]};
    }
}

static void followers_start(struct node *nodes, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        assert_int_equal(pthread_create(&nodes[i].thread, NULL, follower_main, &nodes[i]), 0);
}

static void followers_join(struct node *nodes, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        pthread_join(nodes[i].thread, NULL);
}

static void group_start(struct node *nodes, uint32_t count)
{
    followers_start(nodes, count);
    enum status status = node_meet(&nodes[0], 60);
    assert_true(status == STATUS_OK);
    node_model(&nodes[0]);
    assert_int_equal(cluster_link_ready(nodes[0].link, &nodes[0].err), STATUS_OK);
}

static void group_end(struct node *nodes, uint32_t count)
{
    rig_close(&nodes[0].rig);
    nodes[0].rig.model = NULL;
    channel_end(nodes[0].channel, true);
    channel_close(nodes[0].channel);
    followers_join(nodes, count);
    node_close(&nodes[0]);
}

// Computes three prompts in chunks, then decode steps, with seeds, penalties and a bias.
static void generate(struct rig *rig, uint32_t chunk, int32_t *tokens, float *logits)
{
    static float all[SEQUENCES * VOCAB];
    int32_t prompts[SEQUENCES][PROMPT];
    struct rig_sequence s[SEQUENCES];
    memset(logits, 0, VOCAB * sizeof *logits);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        for (int32_t k = 0; k < PROMPT; k++)
            prompts[i][k] = (k * 7 + (int32_t)i * 31 + 3) % VOCAB;
        s[i] = (struct rig_sequence){i, prompts[i], PROMPT - i, 0, STEP_NO_TYPE};
    }
    uint32_t filled = 0;
    while (s[0].computed < PROMPT) {
        rig_begin(rig);
        bool fresh = s[0].computed == 0;
        for (uint32_t i = 0; i < SEQUENCES; i++)
            if (s[i].computed < s[i].count)
                rig_prefill(rig, &s[i], chunk, WANT_TOKEN);
        if (fresh) { // the second sequence is sampled
            struct sample_params *params = &batch_new_sequences(rig->batch)[1].params;
            params->temperature = 1;
            params->seed = 77;
            params->bias_count = 1;
            batch_bias(rig->batch)[rig->batch->bias_count++] = (struct step_bias){5, 2};
        }
        struct model_output done = rig_step(rig, all);
        if (s[0].computed == PROMPT)
            memcpy(logits, all, VOCAB * sizeof *logits);
        tokens[filled++ % 8] = done.count > 0 ? done.results[0].token : -1;
    }
    filled = 8;
    for (uint32_t n = 0; n < OUTPUTS; n++) {
        rig_begin(rig);
        for (uint32_t i = 0; i < SEQUENCES; i++)
            rig_decode(rig, &s[i]);
        struct model_output done = rig_step(rig, NULL);
        for (uint32_t i = 0; i < SEQUENCES; i++)
            tokens[filled++] = done.results[i].token;
    }
}

enum { TOKENS = 8 + OUTPUTS * SEQUENCES };

static void test_nodes_compute_as_one_process(void **state)
{
    (void)state;
    static const struct {
        uint32_t nodes, ranks;
        const char *secret;
    } cases[] = {{2, 2, NULL}, {2, 4, secret}, {4, 4, NULL}};
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node nodes[4];
        struct model_options options = rig_options();
        struct rig one;
        int32_t want[TOKENS] = {0}, got[TOKENS] = {0};
        float want_logits[VOCAB], logits[VOCAB];
        rig_open_ranks(&one, device_cpu(), folder, &options, cases[i].ranks);
        generate(&one, PROMPT, want, want_logits);
        rig_close(&one);
        nodes_init(nodes, cases[i].nodes, cases[i].ranks, folder);
        for (uint32_t n = 0; n < cases[i].nodes; n++)
            nodes[n].options.secret = cases[i].secret;
        group_start(nodes, cases[i].nodes);
        generate(&nodes[0].rig, PROMPT, got, logits);
        assert_memory_equal(want, got, sizeof want);
        assert_memory_equal(want_logits, logits, sizeof logits);
        generate(&nodes[0].rig, 11, got, logits); // the prompt is read in chunks
        assert_memory_equal(want + 8, got + 8, sizeof want - 8 * sizeof *want);
        assert_memory_equal(want_logits, logits, sizeof logits);
        group_end(nodes, cases[i].nodes);
        for (uint32_t n = 0; n < cases[i].nodes; n++) {
            if (nodes[n].status != STATUS_OK)
                fail_msg("node %u: %s", n, nodes[n].err.text);
            assert_int_equal(nodes[n].lost, 0);
        }
    }
    folder_remove(folder);
}

// A fault on node 0, here while the other nodes open the model, ends them with its sentence.
static void test_a_fault_ends_the_group(void **state)
{
    (void)state;
    char folder[64];
    struct node nodes[4];
    struct error err = {.text = ""};
    golden_folder(folder, "llama", DTYPE_F32);
    nodes_init(nodes, 4, 4, folder);
    followers_start(nodes, 4);
    assert_int_equal(node_meet(&nodes[0], 60), STATUS_OK);
    error_set(&err, STATUS_DEVICE_FAULT, "the memory is bad");
    channel_fail(nodes[0].channel, &err);
    for (int i = 0; i < 5000 && atomic_load(&nodes[0].lost) == 0; i++)
        usleep(1000);
    assert_int_equal(nodes[0].lost, 1);
    followers_join(nodes, 4);
    for (uint32_t n = 1; n < 4; n++) {
        assert_int_equal(nodes[n].status, STATUS_DEVICE_FAULT);
        assert_string_equal(nodes[n].err.text, "node 0 reports: the memory is bad");
        assert_int_equal(nodes[n].lost, 1);
    }
    channel_close(nodes[0].channel);
    folder_remove(folder);
}

// channel_leave of a node reaches node 0. Node 0 detects a fault of a node between two steps, and
// the next step fails with its sentence.
static void test_a_fault_between_steps_is_noticed(void **state)
{
    (void)state;
    char folder[64];
    struct node nodes[2];
    struct rig_sequence s;
    struct error err;
    int32_t prompt[4] = {1, 2, 3, 4};
    golden_folder(folder, "llama", DTYPE_F32);
    nodes_init(nodes, 2, 2, folder);
    group_start(nodes, 2);
    error_set(&err, STATUS_DEVICE_FAULT, "x");
    channel_leave(nodes[1].channel);
    for (int i = 0; i < 5000 && atomic_load(&nodes[0].leaves) == 0; i++)
        usleep(1000);
    assert_int_equal(nodes[0].leaves, 1);
    channel_fail(nodes[1].channel, &err);
    uint64_t begun = clock_ns();
    while (atomic_load(&nodes[0].lost) == 0 && clock_ns() - begun < 5000000000u)
        usleep(1000);
    assert_int_equal(nodes[0].lost, 1);
    s = (struct rig_sequence){0, prompt, 4, 0, STEP_NO_TYPE};
    rig_begin(&nodes[0].rig);
    rig_prefill(&nodes[0].rig, &s, 4, WANT_TOKEN);
    assert_int_equal(model_launch(nodes[0].rig.model, nodes[0].rig.batch, &err),
                     STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "node 1 reports: x");
    followers_join(nodes, 2);
    rig_close(&nodes[0].rig);
    nodes[0].rig.model = NULL;
    channel_close(nodes[0].channel);
    node_close(&nodes[0]);
    folder_remove(folder);
}

// Opens the model, and then takes no part in any step until node 0 ends the group.
static void *late_main(void *argument)
{
    struct node *n = argument;
    assert_int_equal(node_meet(n, 60), STATUS_OK);
    node_model(n);
    assert_int_equal(channel_send(n->channel, MESSAGE_READY, 0, 0, NULL, 0, &n->err), STATUS_OK);
    while (!channel_failed(n->channel, &n->err)) {
        if (atomic_load(&n->starts))
            channel_step_started(n->channel, 0, 7);
        usleep(1000);
    }
    node_close(n);
    channel_close(n->channel);
    return NULL;
}

// A node that does not start a step is named, and one that does not send its part of a collective.
static void test_a_late_node_is_named(void **state)
{
    (void)state;
    char folder[64];
    struct node nodes[2];
    struct error err = {0};
    int32_t prompt[4] = {1, 2, 3, 4};
    struct rig_sequence s = {0, prompt, 4, 0, STEP_NO_TYPE};
    golden_folder(folder, "llama", DTYPE_F32);
    nodes_init(nodes, 2, 2, folder);
    assert_int_equal(pthread_create(&nodes[1].thread, NULL, late_main, &nodes[1]), 0);
    assert_int_equal(node_meet(&nodes[0], 60), STATUS_OK);
    node_model(&nodes[0]);
    assert_int_equal(cluster_link_ready(nodes[0].link, &err), STATUS_OK);
    struct rig *rig = &nodes[0].rig;
    struct model_facts facts = *rig->facts;
    facts.steps_in_flight = 1; // as on GPUs, whose parts of a collective this process does not see
    struct cluster_link *gpus = cluster_link_create(&(struct cluster_link_options){0, 2, 0, 2});
    cluster_link_begin(gpus, nodes[0].channel, &facts);
    const struct model_link *link = cluster_link_model(gpus);
    rig->step = 7;
    rig_begin(rig);
    rig_prefill(rig, &s, 4, WANT_TOKEN);
    assert_int_equal(link->launch(link->context, rig->batch, &err), STATUS_OK);
    assert_false(link->fault_find(link->context, false, &err));
    assert_true(link->fault_find(link->context, true, &err));
    assert_string_equal(err.text, "node 1 (ranks from 1 of 2) did not start the step in time");
    atomic_store(&nodes[1].starts, true); // node 0 learns it with the next ping
    for (int i = 0; i < 5000 && link->fault_find(link->context, true, &err); i++)
        usleep(1000);
    assert_false(link->fault_find(link->context, true, &err));
    cluster_link_destroy(gpus);
    model_step_deadline(rig->model, 100000000);
    assert_int_equal(model_launch(rig->model, rig->batch, &err), STATUS_TIMEOUT);
    static const char sentence[] =
        "node 1 (ranks from 1 of 2) did not send its part of a collective in time";
    assert_string_equal(err.text, sentence);
    followers_join(nodes, 2);
    assert_non_null(strstr(nodes[1].err.text, sentence)); // "node 0 reports: ..."
    rig_close(rig);
    rig->model = NULL;
    channel_close(nodes[0].channel);
    node_close(&nodes[0]);
    folder_remove(folder);
}

// Nodes with different facts, with another secret or without one are refused, and the sentence
// names the node and the value.
static void test_nodes_that_differ_do_not_meet(void **state)
{
    (void)state;
    struct node nodes[2];
    nodes_init(nodes, 2, 2, "");
    nodes[1].blocks = "11";
    followers_start(nodes, 2);
    assert_int_equal(node_meet(&nodes[0], 60), STATUS_INVALID);
    assert_string_equal(nodes[0].err.text,
                        "node 1: KV blocks is 11, on node 0 it is 10: start all nodes with the "
                        "same options and the same files");
    channel_close(nodes[0].channel);
    followers_join(nodes, 2);
    assert_string_equal(nodes[1].err.text,
                        "node 0 refuses: node 1: KV blocks is 11, on node 0 it is 10: start all "
                        "nodes with the same options and the same files");
    for (int i = 0; i < 2; i++) {
        nodes_init(nodes, 2, 2, "");
        nodes[0].options.secret = secret;
        nodes[1].options.secret = i == 0 ? NULL : secret + 1;
        char other[SECRET_DIGITS + 1] = "1";
        memcpy(other + 1, secret + 1, SECRET_DIGITS);
        if (i == 1)
            nodes[1].options.secret = other;
        followers_start(nodes, 2);
        assert_int_equal(node_meet(&nodes[0], 0.8), STATUS_TIMEOUT);
        char text[200];
        snprintf(text, sizeof text, "node 1 has not connected to tcp://127.0.0.1:%u within 0.8 s",
                 nodes[0].options.port);
        assert_string_equal(nodes[0].err.text, text);
        followers_join(nodes, 2); // while node 0 listens
        snprintf(text, sizeof text,
                 "node 0 at tcp://127.0.0.1:%u does not accept the connection: give all nodes the "
                 "same --cluster-secret-file, or find out which program listens there",
                 nodes[0].options.port);
        assert_string_equal(nodes[1].err.text, text);
        channel_close(nodes[0].channel);
    }
}

static void *waiter_main(void *argument)
{
    struct node *n = argument;
    n->status = node_meet(n, 0.5);
    return NULL;
}

// Node 2 never starts. Node 0 names it; the error of node 1 states that node 1 is connected.
static void test_a_node_that_is_missing_is_named(void **state)
{
    (void)state;
    struct node nodes[3];
    char text[200];
    nodes_init(nodes, 3, 3, "");
    assert_int_equal(pthread_create(&nodes[1].thread, NULL, waiter_main, &nodes[1]), 0);
    assert_int_equal(node_meet(&nodes[0], 1), STATUS_TIMEOUT);
    pthread_join(nodes[1].thread, NULL);
    snprintf(text, sizeof text, "node 2 has not connected to tcp://127.0.0.1:%u within 1 s",
             nodes[0].options.port);
    assert_string_equal(nodes[0].err.text, text);
    snprintf(text, sizeof text,
             "node 1 has connected to tcp://127.0.0.1:%u, but not all other nodes have within 0.5 "
             "s: node 0 names the first that is missing",
             nodes[0].options.port);
    assert_int_equal(nodes[1].status, STATUS_TIMEOUT);
    assert_string_equal(nodes[1].err.text, text);
    channel_close(nodes[1].channel);
    channel_close(nodes[0].channel);
}

static void test_addresses_and_secrets_are_checked(void **state)
{
    (void)state;
    struct node node;
    nodes_init(&node, 1, 1, "");
    node.options.nodes = 2;
    node.options.address = "192.0.2.1"; // an address for documents, which no machine has
    assert_int_equal(node_meet(&node, 1), STATUS_REFUSED);
    assert_non_null(strstr(node.err.text, "--master-addr 192.0.2.1 (192.0.2.1) is not on the "
                                          "loopback interface, so nodes need "
                                          "--cluster-secret-file"));
    node.options.secret = "0011g233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";
    assert_int_equal(node_meet(&node, 1), STATUS_INVALID);
    assert_string_equal(node.err.text, "the secret of the cluster must be 64 hexadecimal digits, "
                                       "and character 5 is none");
    node.options.secret = secret;
    assert_int_equal(node_meet(&node, 1), STATUS_IO);
    assert_non_null(strstr(node.err.text, "--master-addr must be an address of node 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_compute_as_one_process),
        cmocka_unit_test(test_a_fault_ends_the_group),
        cmocka_unit_test(test_a_fault_between_steps_is_noticed),
        cmocka_unit_test(test_a_late_node_is_named),
        cmocka_unit_test(test_nodes_that_differ_do_not_meet),
        cmocka_unit_test(test_a_node_that_is_missing_is_named),
        cmocka_unit_test(test_addresses_and_secrets_are_checked),
    };
    struct channel *channel = NULL;
    struct error err;
    struct channel_options none = {.node = 0, .nodes = 2, .address = "127.0.0.1", .port = 1};
    if (channel_open(&channel, &none, &err) == STATUS_UNSUPPORTED) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    channel_close(channel);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
