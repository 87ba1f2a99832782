// SPDX-License-Identifier: Apache-2.0
// Communicators of the cpu device whose ranks are in several processes: sums are bit-equal to those
// added in rank order, columns arrive in their places, also if both take several exchanges, and an
// abort ends all waits.
#include "tests/conformance/trial.h"
#include "tests/kernels/link_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { LARGE = 270011 }; // elements: two exchanges

struct process {
    struct device *device[RANKS_MAX];
    struct stream *stream[RANKS_MAX];
    struct comm *comm;
};

struct group { // processes with `ranks` ranks in all
    struct trial t;
    struct link_rig rig;
    struct process process[RANKS_MAX];
    struct stream *stream[RANKS_MAX];
    uint32_t ranks;
};

static void group_begin(struct group *g, uint32_t count, const uint32_t *ranks)
{
    struct error err;
    struct device_options options = {.threads = 1, .exact = true};
    g->ranks = 0;
    assert_true(trial_open_cpu(&g->t, CPU_PLAIN, 1));
    link_rig_open(&g->rig, count, ranks);
    for (uint32_t p = 0; p < count; p++) {
        struct process *process = &g->process[p];
        *process = (struct process){0};
        for (uint32_t r = 0; r < ranks[p]; r++) {
            assert_int_equal(device_cpu()->open(&process->device[r], &options, &err), STATUS_OK);
            assert_int_equal(device_cpu()->stream_open(process->device[r], &process->stream[r],
                                                       &g->t.limits, &err),
                             STATUS_OK);
            g->stream[g->ranks++] = process->stream[r];
        }
        assert_int_equal(device_cpu()->comm_open(&process->comm, process->stream, ranks[p],
                                                 &g->rig.seats[p].link, &err),
                         STATUS_OK);
    }
}

static void group_end(struct group *g)
{
    for (uint32_t p = 0; p < g->rig.count; p++) {
        struct process *process = &g->process[p];
        device_cpu()->comm_close(process->comm);
        for (uint32_t r = 0; process->stream[r]; r++) {
            device_cpu()->stream_close(process->stream[r]);
            device_cpu()->close(process->device[r]);
        }
    }
    link_rig_close(&g->rig);
    trial_close(&g->t);
}

// Element i of a rank: sums of these depend on the order in which they are added.
static float value(uint32_t rank, uint64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761u + rank * 40503u + 7);
    x ^= x >> 15;
    x *= 0x2c1b3c6d;
    x ^= x >> 12;
    return ldexpf((float)(int32_t)x, (int)(x % 13) - 31);
}

struct job {
    pthread_t thread;
    struct stream *stream;
    uint32_t rank, ranks, rows;
    uint64_t count;                  // all_reduce; 0: all_gather
    struct all_gather_args *columns; // all_gather
    float *out;
    enum status status;
};

static void *job_main(void *argument)
{
    struct job *job = argument;
    uint64_t count = job->count;
    if (count == 0)
        count = (uint64_t)job->columns->rows * gather_count(job->columns, job->rank);
    float *in = malloc((count + 1) * sizeof *in);
    for (uint64_t i = 0; i < count; i++)
        in[i] = value(job->rank, i);
    if (job->count > 0) {
        struct all_reduce_args args = {DTYPE_F32, in, job->out, count, job->ranks, false};
        job->status = device_cpu()->ops->all_reduce(job->stream, &args);
    } else {
        struct all_gather_args args = *job->columns;
        args.in = in;
        args.out = job->out;
        job->status = device_cpu()->ops->all_gather(job->stream, &args);
    }
    free(in);
    return NULL;
}

static void jobs_run(struct group *g, struct job *jobs, size_t out_floats)
{
    for (uint32_t r = 0; r < g->ranks; r++) {
        jobs[r].stream = g->stream[r];
        jobs[r].rank = r;
        jobs[r].ranks = g->ranks;
        jobs[r].out = calloc(out_floats, sizeof(float));
        assert_int_equal(pthread_create(&jobs[r].thread, NULL, job_main, &jobs[r]), 0);
    }
    for (uint32_t r = 0; r < g->ranks; r++)
        pthread_join(jobs[r].thread, NULL);
}

static const struct {
    uint32_t count, ranks[4];
} layouts[] = {{2, {1, 1}}, {2, {2, 2}}, {3, {1, 2, 1}}};

static void test_sums_are_those_of_one_process(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 3, 1000, LARGE};
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (size_t c = 0; c < (l == 2 ? 4 : 3); c++) { // one layout has the largest count
            struct group g;
            struct job jobs[RANKS_MAX] = {{0}};
            group_begin(&g, layouts[l].count, layouts[l].ranks);
            for (uint32_t r = 0; r < g.ranks; r++)
                jobs[r].count = counts[c];
            jobs_run(&g, jobs, counts[c]);
            bool order_matters = false;
            for (uint64_t i = 0; i < counts[c]; i++) {
                float sum = value(0, i), back = value(g.ranks - 1, i);
                for (uint32_t r = 1; r < g.ranks; r++) {
                    sum += value(r, i);
                    back += value(g.ranks - 1 - r, i);
                }
                order_matters |= sum != back;
                for (uint32_t r = 0; r < g.ranks; r++)
                    assert_memory_equal(&sum, &jobs[r].out[i], sizeof sum);
            }
            assert_true(order_matters || counts[c] < 1000 || g.ranks == 2);
            for (uint32_t r = 0; r < g.ranks; r++) {
                assert_int_equal(jobs[r].status, STATUS_OK);
                free(jobs[r].out);
            }
            group_end(&g);
        }
}

static void test_columns_arrive_in_their_places(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        uint32_t rows = l == 2 ? 4 : 1;
        struct group g;
        struct job jobs[RANKS_MAX] = {{0}};
        struct all_gather_args columns = {.rows = rows};
        group_begin(&g, layouts[l].count, layouts[l].ranks);
        columns.ranks = g.ranks;
        for (uint32_t r = 0; r < g.ranks; r++) // unequal; rank 1 needs several exchanges
            columns.ends[r] = (r > 0 ? columns.ends[r - 1] : 0) + (r == 1 ? LARGE / 3 : 5 + r);
        columns.stride = columns.ends[g.ranks - 1] + 3;
        for (uint32_t r = 0; r < g.ranks; r++)
            jobs[r].columns = &columns;
        jobs_run(&g, jobs, (size_t)rows * columns.stride);
        for (uint32_t r = 0; r < g.ranks; r++) {
            assert_int_equal(jobs[r].status, STATUS_OK);
            for (uint32_t row = 0; row < rows; row++)
                for (uint32_t from = 0; from < g.ranks; from++)
                    for (uint32_t c = 0; c < gather_count(&columns, from); c++) {
                        float want = value(from, (uint64_t)row * gather_count(&columns, from) + c);
                        const float *got = jobs[r].out + (size_t)row * columns.stride +
                                           gather_first(&columns, from) + c;
                        if (memcmp(&want, got, sizeof want) != 0)
                            fail_msg("rank %u, row %u, column %u of rank %u", r, row, c, from);
                    }
            free(jobs[r].out);
        }
        group_end(&g);
    }
}

// A process whose rank does not come is abandoned by an abort, which ends the waits of all.
static void test_an_abort_ends_the_exchange(void **state)
{
    (void)state;
    struct group g;
    struct job jobs[3];
    group_begin(&g, 2, (const uint32_t[]){2, 1});
    for (uint32_t r = 0; r < 2; r++) {
        jobs[r] = (struct job){.stream = g.stream[r], .rank = r, .ranks = 3, .count = 10};
        jobs[r].out = calloc(10, sizeof(float));
        assert_int_equal(pthread_create(&jobs[r].thread, NULL, job_main, &jobs[r]), 0);
    }
    for (int i = 0; i < 1000; i++)
        sched_yield();
    device_cpu()->comm_abort(g.process[0].comm);
    for (uint32_t r = 0; r < 2; r++) {
        pthread_join(jobs[r].thread, NULL);
        assert_int_equal(jobs[r].status, STATUS_DEVICE_FAULT);
        free(jobs[r].out);
    }
    group_end(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_those_of_one_process),
        cmocka_unit_test(test_columns_arrive_in_their_places),
        cmocka_unit_test(test_an_abort_ends_the_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
