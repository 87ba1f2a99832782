// SPDX-License-Identifier: Apache-2.0
// Times all-reduces of two GPUs: bfloat16, of the sizes that layers have with few and many tokens,
// launched one by one and from a graph. A thread per rank; times are those of rank 0.
//
// gpu_sums exact|fast [small] [--ways LIST]   small: few repeats, to test the program; LIST: ways.h
#include "base/clock.h"
#include "bench/gpu_ops.h"
#include "bench/ways.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct device_api *weft_device_plugin(void);

enum { RANKS = 2, MOST = 2 << 20, TOKENS = 256 };
static const uint64_t counts[] = {8 << 10, 256 << 10, MOST};

struct rank {
    struct bench b; // the benchmark on this rank's device, with a done record of its own
    struct stream *stream;
    void *parts, *out;
    pthread_t thread;
    bool exact;
};

static struct rank ranks[RANKS];
static pthread_barrier_t together;

static void sum_launch(struct bench *b, struct stream *stream, void *context, uint32_t i)
{
    struct rank *r = (struct rank *)b;
    struct all_reduce_args args = {.act = DTYPE_BF16,
                                   .in = r->exact ? r->parts : NULL,
                                   .out = r->out,
                                   .count = *(const uint64_t *)context,
                                   .ranks = RANKS,
                                   .in_place = !r->exact};
    (void)i;
    need(b->api->ops->all_reduce(stream, &args), "all_reduce");
}

// Prints a row of rank 0. bytes: those that a rank sends.
static void sum_print(const struct rank *r, const char *how, uint64_t count, double seconds)
{
    if (r == ranks)
        printf("{\"op\":\"all_reduce\",\"shape\":\"%llu elements, 2 ranks, %s\",\"us\":%.2f,"
               "\"GBps\":%.1f}\n",
               (unsigned long long)count, how, seconds * 1e6, (double)count * 2 / seconds * 1e-9);
    fflush(stdout);
}

static double launched_time(struct rank *r, const uint64_t *count)
{
    double start = clock_s();
    for (uint32_t i = 0; i < r->b.repeats; i++)
        sum_launch(&r->b, r->stream, (void *)(uintptr_t)count, i);
    settle(&r->b, r->stream);
    return (clock_s() - start) / r->b.repeats;
}

// All ranks replay their graphs equally often: graph_time, which stops by its clock, would not.
static double recorded_time(struct rank *r, const uint64_t *count)
{
    enum { ROUNDS = 5 };
    const struct device_api *api = r->b.api;
    struct graph *graph = NULL;
    double seconds[ROUNDS];
    need(api->graph_begin(r->stream), "graph");
    for (uint32_t i = 0; i < r->b.repeats; i++)
        sum_launch(&r->b, r->stream, (void *)(uintptr_t)count, i);
    need(api->graph_end(r->stream, &graph, NULL), "graph");
    pthread_barrier_wait(&together);
    for (int i = 0; i < ROUNDS; i++) {
        double start = clock_s();
        need(api->graph_launch(r->stream, graph), "graph");
        settle(&r->b, r->stream);
        seconds[i] = clock_s() - start;
    }
    pthread_barrier_wait(&together);
    api->graph_close(graph);
    qsort(seconds, ROUNDS, sizeof seconds[0], by_size);
    return seconds[ROUNDS / 2] / r->b.repeats;
}

static void *rank_run(void *argument)
{
    struct rank *r = argument;
    r->b.api->thread_begin(r->stream);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        (void)launched_time(r, &counts[i]);
        pthread_barrier_wait(&together);
        sum_print(r, "launched", counts[i], launched_time(r, &counts[i]));
        sum_print(r, "graph", counts[i], recorded_time(r, &counts[i]));
    }
    return NULL;
}

// Prints how the sums are made.
static void line_print(uint32_t index, const char *line)
{
    (void)index;
    if (strncmp(line, "sums of ranks", 13) == 0)
        printf("%s\n", line);
}

static void rank_open(struct rank *r)
{
    struct stream_limits limits = {.step = {.rows_max = TOKENS, .tokens_max = TOKENS},
                                   .width_max = MOST / TOKENS,
                                   .sums_bytes = r->exact ? 0 : MOST * sizeof(uint16_t)};
    need(r->b.api->host_alloc(r->b.device, (void **)&r->b.done, 64, NULL), "host memory");
    r->stream = open_stream(&r->b, &limits);
    r->parts = device_alloc(&r->b, MOST * sizeof(float));
    r->out =
        r->exact ? device_alloc(&r->b, MOST * sizeof(uint16_t)) : r->b.api->sums_buffer(r->stream);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct comm *comm = NULL;
    struct stream *streams[RANKS];
    bool exact = argc > 1 && strcmp(argv[1], "exact") == 0, small = false;
    uint32_t ways = 0;
    for (int i = 2; i < argc; i++) {
        small = small || strcmp(argv[i], "small") == 0;
        if (strcmp(argv[i], "--ways") == 0 && i + 1 < argc && !ways_read(argv[++i], &ways))
            return 2;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        struct device_options options = {
            .index = r, .ranks = RANKS, .exact = exact, .ways = ways, .note = line_print};
        ranks[r] = (struct rank){.b = {.api = weft_device_plugin(), .repeats = small ? 2 : REPEATS},
                                 .exact = exact};
        if (ranks[r].b.api->open(&ranks[r].b.device, &options, &err) != STATUS_OK) {
            printf("gpu_sums: skipped: %s\n", err.text);
            return 77;
        }
        rank_open(&ranks[r]);
        streams[r] = ranks[r].stream;
    }
    if (ranks[0].b.api->comm_open(&comm, streams, RANKS, NULL, &err) != STATUS_OK) {
        printf("gpu_sums: %s\n", err.text);
        return 1;
    }
    struct device_facts facts;
    ranks[0].b.api->facts(ranks[0].b.device, &facts);
    printf("{\"card\":\"%s\",\"exact\":%s,\"graphs\":false,\"ways\":%u,\"ranks\":%d}\n", facts.name,
           exact ? "true" : "false", ways, RANKS);
    pthread_barrier_init(&together, NULL, RANKS);
    for (uint32_t r = 0; r < RANKS; r++)
        if (pthread_create(&ranks[r].thread, NULL, rank_run, &ranks[r]) != 0)
            return 1;
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(ranks[r].thread, NULL);
    ranks[0].b.api->comm_close(comm);
    return 0;
}
