// SPDX-License-Identifier: Apache-2.0
// Collectives of 1 to 8 ranks; each rank is a thread with a device and a stream. Counts are odd,
// ranks are late in round-robin order, and the collectives follow each other without a pause. If
// the device has graphs, all rounds are then recorded and launched twice, with other numbers.
#include "tests/conformance/trial.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 12, COUNT_MAX = 5000, ROWS = 5, LATE_US = 200, FEW_RANKS = 3 };

enum pass { PASS_PLAIN, PASS_RECORD, PASS_LAUNCH, PASS_AGAIN, PASS_COUNT };

struct ranks {
    struct trial *t;
    uint32_t size;
    bool gather;
    enum dtype act; // type of all_reduce's output
    enum pass pass;
    struct comm *comm;
    struct rank {
        pthread_t thread;
        struct ranks *ranks;
        uint32_t number;
        struct trial at; // the rank's device, stream and memory
        struct graph *graph;
        uint32_t *word;    // host-visible: number of passes that are done
        float *in, *out;   // data of all rounds; the output of all_reduce has type act
        float *numbers;    // host copy of `in`
        uint32_t failures; // number of calls that were refused
    } rank[RANKS_MAX];
};

// Returns false and prints the reason if the device lacks the library that joins ranks (NCCL).
static bool ranks_open(struct ranks *s, struct trial *t, uint32_t size)
{
    struct error err = {0};
    struct stream *streams[RANKS_MAX];
    *s = (struct ranks){.t = t, .size = size};
    for (uint32_t r = 0; r < size; r++) {
        struct trial *at = &s->rank[r].at;
        *at = (struct trial){.api = t->api, .facts = t->facts};
        at->seed = t->seed + r;
        at->limits = (struct stream_limits){.step = {.rows_max = 8, .tokens_max = 16, .vocab = 512},
                                            .width_max = 64}; // sums are computed in several pieces
        struct device_options options = {.threads = 1 + r % 2, .exact = true};
        bool cpu = t->level != CPU_ISA_COUNT;
        if (!cpu) {
            options.index = r;
            options.ranks = size;
        }
        enum status status = cpu ? cpu_device_open(&at->device, &options, t->level, &err)
                                 : t->api->open(&at->device, &options, &err);
        if (r == 0 && status == STATUS_NO_DEVICE) {
            printf("skipped: %s\n", err.text);
            return false;
        }
        check(status == STATUS_OK &&
                  t->api->stream_open(at->device, &at->stream, &at->limits, &err) == STATUS_OK,
              "rank %u: %s", r, err.text);
        streams[r] = at->stream;
    }
    check(t->api->comm_open(&s->comm, streams, size, NULL, &err) == STATUS_OK, "%s", err.text);
    return true;
}

static void ranks_close(struct ranks *s)
{
    for (uint32_t r = 0; r < s->size && s->rank[r].graph; r++)
        s->t->api->graph_close(s->rank[r].graph);
    s->t->api->comm_close(s->comm);
    for (uint32_t r = 0; r < s->size; r++) {
        s->t->bits ^= s->rank[r].at.bits;
        trial_close(&s->rank[r].at);
    }
    if (s->t->api->thread_begin)
        s->t->api->thread_begin(s->t->stream);
}

static uint64_t count_of(uint32_t round) // none, one, fewer than the ranks, and odd counts
{
    static const uint32_t counts[] = {0, 1, 3, 7, 64, 1023, 1025, 4097, COUNT_MAX};
    return counts[round % (sizeof counts / sizeof *counts)];
}

// Returns the number of columns of a rank: unequal, and zero for some ranks.
static uint32_t width_of(uint32_t round, uint32_t rank)
{
    return (round * 7 + rank * 5) % 11 * (1 + rank);
}

static struct all_reduce_args reduce_args(const struct rank *r, uint32_t round, float *in,
                                          void *out)
{
    enum dtype act = r->ranks->act;
    size_t at = (size_t)round * COUNT_MAX;
    return (struct all_reduce_args){
        act, in + at, (char *)out + at * dtype_bytes(act), count_of(round), r->ranks->size, false};
}

static struct all_gather_args gather_args(const struct rank *r, uint32_t round, float *in,
                                          float *out)
{
    struct all_gather_args args = {.in = in + (size_t)round * COUNT_MAX,
                                   .out = out + (size_t)round * COUNT_MAX,
                                   .rows = round % (ROWS + 1),
                                   .stride = 3, // plus columns that no rank writes
                                   .ranks = r->ranks->size};
    for (uint32_t i = 0; i < r->ranks->size; i++) {
        args.ends[i] = args.stride - 3 + width_of(round, i);
        args.stride += width_of(round, i);
    }
    return args;
}

static void collectives_call(struct rank *r)
{
    const struct op_table *ops = r->at.api->ops;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (round % r->ranks->size == r->number)
            usleep(LATE_US);
        struct all_reduce_args reduce = reduce_args(r, round, r->in, r->out);
        struct all_gather_args gather = gather_args(r, round, r->in, r->out);
        enum status status = r->ranks->gather ? ops->all_gather(r->at.stream, &gather)
                                              : ops->all_reduce(r->at.stream, &reduce);
        r->failures += status != STATUS_OK;
    }
}

static void *rank_main(void *argument)
{
    struct rank *r = argument;
    const struct device_api *api = r->at.api;
    struct stream *stream = r->at.stream;
    enum pass pass = r->ranks->pass;
    struct error err;
    if (api->thread_begin)
        api->thread_begin(stream);
    if (pass == PASS_RECORD)
        r->failures += api->graph_begin(stream) != STATUS_OK;
    if (pass <= PASS_RECORD)
        collectives_call(r);
    if (pass == PASS_RECORD) {
        r->failures += api->graph_end(stream, &r->graph, &err) != STATUS_OK;
        return NULL;
    }
    if (pass != PASS_PLAIN && r->graph)
        r->failures += api->graph_launch(stream, r->graph) != STATUS_OK;
    r->failures += api->signal(stream, r->word, 1 + pass) != STATUS_OK;
    return NULL;
}

static void ranks_fill(struct ranks *s)
{
    size_t floats = (size_t)ROUNDS * COUNT_MAX, bytes = floats * sizeof(float);
    struct error err = {0};
    for (uint32_t r = 0; r < s->size; r++) {
        struct rank *rank = &s->rank[r];
        struct trial *at = &rank->at;
        if (s->pass == PASS_PLAIN) {
            rank->ranks = s;
            rank->number = r;
            rank->in = trial_device(at, bytes);
            rank->out = trial_device(at, bytes);
            rank->word = trial_host(at, 256);
        }
        rank->numbers = trial_floats(at, floats, DTYPE_F32, 1);
        check(at->api->upload(at->device, rank->in, rank->numbers, bytes, &err) == STATUS_OK &&
                  at->api->upload(at->device, rank->out, trial_heap(at, bytes), bytes, &err) ==
                      STATUS_OK,
              "%s", err.text);
    }
}

static void ranks_run(struct ranks *s)
{
    ranks_fill(s);
    for (uint32_t r = 0; r < s->size; r++)
        check(pthread_create(&s->rank[r].thread, NULL, rank_main, &s->rank[r]) == 0, "rank %u", r);
    for (uint32_t r = 0; r < s->size; r++)
        pthread_join(s->rank[r].thread, NULL);
    for (uint32_t r = 0; r < s->size; r++) {
        const struct rank *rank = &s->rank[r];
        struct error err;
        bool done = s->pass == PASS_RECORD ||
                    s->t->api->wait(rank->at.stream, rank->word, 1 + s->pass, UINT64_MAX, &err) ==
                        STATUS_OK;
        trial_true(s->t, "the rank's calls run", done && rank->failures == 0);
    }
}

// Returns the output of all rounds of a rank, as floats.
static float *rank_fetch(struct ranks *s, uint32_t r)
{
    struct trial *at = &s->rank[r].at;
    at->api->device_slot_acquire(at->stream);
    float *out = trial_fetch_floats(at, s->rank[r].out, (size_t)ROUNDS * COUNT_MAX,
                                    s->gather ? DTYPE_F32 : s->act);
    at->api->device_slot_release(at->stream);
    return out;
}

// Checks that every rank has the bits of the sum in float32 in the order of the ranks, rounded
// once.
static void sums_compare(struct ranks *s, float *const *got, uint32_t round)
{
    struct trial *t = s->t;
    struct all_reduce_args args[RANKS_MAX];
    uint64_t count = count_of(round);
    float *want = trial_heap(t, (count + 1) * sizeof *want);
    float *ordered = trial_heap(t, (count + 1) * sizeof *ordered);
    for (uint32_t r = 0; r < s->size; r++) {
        args[r] = reduce_args(&s->rank[r], round, s->rank[r].numbers, s->rank[r].out);
        args[r].out = want;
    }
    for (uint64_t i = 0; i < count; i++) {
        ordered[i] = args[0].in[i];
        for (uint32_t r = 1; r < s->size; r++)
            ordered[i] += args[r].in[i];
        ordered[i] = trial_rounded(ordered[i], s->act);
    }
    for (uint32_t r = 0; r < s->size; r++)
        trial_true(t, "all_reduce: the order of the ranks",
                   memcmp(got[r] + (size_t)round * COUNT_MAX, ordered, count * sizeof *ordered) ==
                       0);
    reference_all_reduce(args);
    trial_close_to(t, "all_reduce", ordered, want, count, trial_bound(s->act));
}

static void columns_compare(struct ranks *s, float *const *got, uint32_t round)
{
    struct all_gather_args args[RANKS_MAX];
    for (uint32_t r = 0; r < s->size; r++) {
        args[r] = gather_args(&s->rank[r], round, s->rank[r].numbers, s->rank[r].out);
        args[r].out = trial_heap(s->t, ((size_t)args[r].rows * args[r].stride + 1) * sizeof(float));
    }
    reference_all_gather(args);
    for (uint32_t r = 0; r < s->size; r++)
        trial_true(s->t, "all_gather",
                   memcmp(got[r] + (size_t)round * COUNT_MAX, args[r].out,
                          (size_t)args[r].rows * args[r].stride * sizeof(float)) == 0);
}

static void collective_try(struct trial *t, enum dtype act, bool gather)
{
    uint32_t most = t->facts.ranks_max;
    if (trial_few && most > FEW_RANKS)
        most = FEW_RANKS;
    for (uint32_t size = 1; size <= most; size++) {
        struct ranks s;
        trial_begin(t, 14100 + size + 100 * gather);
        if (!ranks_open(&s, t, size))
            return;
        s.gather = gather;
        s.act = act;
        for (s.pass = PASS_PLAIN; s.pass < (t->facts.graphs ? PASS_COUNT : PASS_RECORD); s.pass++) {
            float *got[RANKS_MAX];
            ranks_run(&s);
            if (s.pass == PASS_RECORD)
                continue;
            for (uint32_t r = 0; r < size; r++)
                got[r] = rank_fetch(&s, r);
            for (uint32_t round = 0; round < ROUNDS; round++)
                gather ? columns_compare(&s, got, round) : sums_compare(&s, got, round);
        }
        ranks_close(&s);
    }
}

void try_all_reduce(struct trial *t, enum dtype act)
{
    collective_try(t, act, false);
}

void try_all_gather(struct trial *t, enum dtype act)
{
    collective_try(t, act, true);
}
