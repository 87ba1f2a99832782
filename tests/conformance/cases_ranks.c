// Collectives of 1 to 8 ranks: each rank is a thread with a device and a stream of its own. Counts
// are odd, ranks come late by turns, and one collective follows the other without a pause.
#include "tests/conformance/trial.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { ROUNDS = 12, COUNT_MAX = 5000, ROWS = 5 };

struct ranks {
    struct trial *t;
    uint32_t size;
    struct device *device[RANKS_MAX];
    struct stream *stream[RANKS_MAX];
    struct comm *comm;
};

struct rank {
    pthread_t thread;
    struct ranks *ranks;
    uint32_t number;
    float *in, *out;   // of all rounds
    uint32_t failures; // calls that were refused
    bool gather;
};

static void ranks_open(struct ranks *s, struct trial *t, uint32_t size)
{
    struct error err = {0};
    *s = (struct ranks){.t = t, .size = size};
    for (uint32_t r = 0; r < size; r++) {
        struct device_options options = {.threads = 1 + r % 2, .exact = true};
        check(cpu_device_open(&s->device[r], &options, t->level, &err) == STATUS_OK &&
                  t->api->stream_open(s->device[r], &s->stream[r], &t->limits, &err) == STATUS_OK &&
                  r < t->facts.ranks_max,
              "rank %u: %s", r, err.text);
    }
    check(t->api->comm_open(&s->comm, s->stream, size, &err) == STATUS_OK, "%s", err.text);
}

static void ranks_close(struct ranks *s)
{
    s->t->api->comm_close(s->comm);
    for (uint32_t r = 0; r < s->size; r++) {
        s->t->api->stream_close(s->stream[r]);
        s->t->api->close(s->device[r]);
    }
}

static uint64_t count_of(uint32_t round) // none, one, fewer than ranks, and odd
{
    static const uint32_t counts[] = {0, 1, 3, 7, 64, 1023, 1025, 4097, COUNT_MAX};
    return counts[round % (sizeof counts / sizeof *counts)];
}

// Columns of the ranks: unequal, and none of some.
static uint32_t width_of(uint32_t round, uint32_t rank)
{
    return (round * 7 + rank * 5) % 11 * (1 + rank);
}

static struct all_reduce_args reduce_args(const struct rank *r, uint32_t round)
{
    return (struct all_reduce_args){DTYPE_F32, r->in + (size_t)round * COUNT_MAX,
                                    r->out + (size_t)round * COUNT_MAX, count_of(round),
                                    r->ranks->size};
}

static struct all_gather_args gather_args(const struct rank *r, uint32_t round)
{
    struct all_gather_args args = {.in = r->in + (size_t)round * COUNT_MAX,
                                   .out = r->out + (size_t)round * COUNT_MAX,
                                   .rows = round % (ROWS + 1),
                                   .count = width_of(round, r->number),
                                   .stride = 3, // columns that nobody writes
                                   .ranks = r->ranks->size};
    for (uint32_t i = 0; i < r->ranks->size; i++) {
        args.first += i < r->number ? width_of(round, i) : 0;
        args.stride += width_of(round, i);
    }
    return args;
}

static void *rank_main(void *argument)
{
    struct rank *r = argument;
    const struct op_table *ops = r->ranks->t->api->ops;
    struct stream *stream = r->ranks->stream[r->number];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; round % r->ranks->size == r->number && i < 300; i++)
            sched_yield(); // late
        struct all_reduce_args reduce = reduce_args(r, round);
        struct all_gather_args gather = gather_args(r, round);
        enum status status =
            r->gather ? ops->all_gather(stream, &gather) : ops->all_reduce(stream, &reduce);
        r->failures += status != STATUS_OK;
    }
    return NULL;
}

static void ranks_run(struct ranks *s, struct rank *rank, bool gather)
{
    size_t floats = (size_t)ROUNDS * COUNT_MAX;
    for (uint32_t r = 0; r < s->size; r++) {
        rank[r] = (struct rank){.ranks = s, .number = r, .gather = gather};
        rank[r].in = trial_floats(s->t, floats, DTYPE_F32, 1);
        rank[r].out = trial_heap(s->t, floats * sizeof(float));
    }
    for (uint32_t r = 0; r < s->size; r++)
        check(pthread_create(&rank[r].thread, NULL, rank_main, &rank[r]) == 0, "rank %u", r);
    for (uint32_t r = 0; r < s->size; r++) {
        pthread_join(rank[r].thread, NULL);
        trial_true(s->t, "the rank's calls run", rank[r].failures == 0);
    }
}

// The sum in float32 in the order of the ranks, to the bit, on each of them.
static void sums_compare(struct trial *t, const struct rank *rank, uint32_t size, uint32_t round)
{
    struct all_reduce_args args[RANKS_MAX];
    uint64_t count = count_of(round);
    float *want = trial_heap(t, (count + 1) * sizeof *want);
    float *ordered = trial_heap(t, (count + 1) * sizeof *ordered);
    for (uint32_t r = 0; r < size; r++)
        args[r] = reduce_args(&rank[r], round);
    for (uint64_t i = 0; i < count; i++) {
        ordered[i] = args[0].in[i];
        for (uint32_t r = 1; r < size; r++)
            ordered[i] += args[r].in[i];
    }
    for (uint32_t r = 0; r < size; r++)
        trial_true(t, "all_reduce: the order of the ranks",
                   memcmp(args[r].out, ordered, count * sizeof *ordered) == 0);
    for (uint32_t r = 0; r < size; r++)
        args[r].out = want;
    twin_all_reduce(args);
    trial_close_to(t, "all_reduce", ordered, want, count, trial_bound(DTYPE_F32));
}

static void columns_compare(struct trial *t, const struct rank *rank, uint32_t size, uint32_t round)
{
    struct all_gather_args args[RANKS_MAX];
    float *want[RANKS_MAX];
    for (uint32_t r = 0; r < size; r++) {
        args[r] = gather_args(&rank[r], round);
        want[r] = trial_heap(t, ((size_t)args[r].rows * args[r].stride + 1) * sizeof(float));
        args[r].out = want[r];
    }
    twin_all_gather(args);
    for (uint32_t r = 0; r < size; r++)
        trial_true(t, "all_gather",
                   memcmp(gather_args(&rank[r], round).out, want[r],
                          (size_t)args[r].rows * args[r].stride * sizeof(float)) == 0);
}

// A device of one rank refuses; others run with every number of ranks.
static bool ranks_there(struct trial *t, enum dtype act)
{
    if (t->facts.ranks_max > 1)
        return true;
    trial_begin(t, 14000);
    float *in = trial_device(t, 256), *out = trial_device(t, 256);
    struct all_reduce_args reduce = {DTYPE_F32, in, out, 3, 1};
    struct all_gather_args gather = {in, out, 1, 3, 0, 3, 1};
    trial_true(t, "no communicator, no sum",
               t->api->ops->all_reduce(t->stream, &reduce) == STATUS_UNSUPPORTED);
    trial_true(t, "no communicator, no columns",
               t->api->ops->all_gather(t->stream, &gather) == STATUS_UNSUPPORTED);
    trial_true(t, "no communicator is opened", !t->api->comm_open);
    struct weight_shape shape = {WEIGHT_ROWS, act, 9, 64};
    struct trial_weight table = trial_weight_make(t, &shape, 1, 0);
    struct embed_args embed = {act, &table.device, (int32_t *)(void *)in, out, 1, 64, 0, 10};
    trial_true(t, "no part of a table",
               t->api->ops->embed(t->stream, &embed) == STATUS_UNSUPPORTED);
    return false;
}

static void collective_try(struct trial *t, enum dtype act, bool gather)
{
    for (uint32_t size = 1; size <= RANKS_MAX && ranks_there(t, act); size++) {
        struct ranks s;
        struct rank rank[RANKS_MAX];
        trial_begin(t, 14100 + size + 100 * gather);
        ranks_open(&s, t, size);
        ranks_run(&s, rank, gather);
        for (uint32_t round = 0; round < ROUNDS; round++)
            gather ? columns_compare(t, rank, size, round) : sums_compare(t, rank, size, round);
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
