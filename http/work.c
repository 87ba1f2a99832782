// SPDX-License-Identifier: Apache-2.0
// See work.h. Rings have at least as many entries as may be submitted, so the ring of results is
// never full. A worker takes one item from each h2o thread, round-robin. Workers are ordered by
// size: those for small bodies, then work_large_count for each larger size, then as many for
// answers; all of these pass one gate. The last worker compiles grammars.
#include "http/work.h"

#include "base/arena.h"
#include "base/priority.h"
#include "base/ring.h"
#include "http/gate.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { RING_ENTRIES = 8 };
_Static_assert((int)RING_ENTRIES >= (int)WORK_SMALL_MAX && (int)RING_ENTRIES >= (int)WORK_LARGE_MAX,
               "what is out fits the way back");

struct item_ring {
    struct ring ring;
    struct exchange *entries[RING_ENTRIES];
};

struct lane { // rings of one (h2o thread, worker) pair
    struct item_ring to, from;
    uint32_t out; // submitted and not returned; counted by the h2o thread
};

struct work_side {
    struct work_pool *pool;
    uint32_t index;
    uint32_t next; // advances with each submit: among equally loaded workers, the first one to try
    struct waker *waker;
    struct lane *lanes; // [workers]
};

struct text_worker {
    struct work_pool *pool;
    uint32_t index, size;
    pthread_t thread;
    struct waker *waker;
    // submitted and not done, for all h2o threads; relaxed: a stale count only leads to a worse
    // choice
    _Atomic uint32_t out;
};

struct worker_class { // the workers of one size, of answers or of grammars
    uint32_t first, count;
};

struct work_pool {
    struct work_options options;
    struct worker_class classes[WORK_CLASSES];
    uint32_t worker_count, started;
    struct work_gate gate;
    _Atomic bool stop;
    struct text_worker *workers; // [worker_count]
    struct work_side *sides;     // [options.sides]
};

static void item_push(struct item_ring *items, struct exchange *x)
{
    items->entries[ring_place(&items->ring)] = x;
    ring_publish(&items->ring);
}

static bool item_pop(struct item_ring *items, struct exchange **out)
{
    uint32_t place;
    if (!ring_peek(&items->ring, &place))
        return false;
    *out = items->entries[place];
    ring_pop(&items->ring);
    return true;
}

// Counts the slices of one large body.
struct sliced {
    struct slice slice; // must be first: sliced_pass casts it back
    struct work_gate *gate;
};

static void sliced_pass(struct slice *slice)
{
    gate_pass(((struct sliced *)slice)->gate, true);
}

static void item_run(struct text_worker *worker, struct exchange *x)
{
    struct work_pool *pool = worker->pool;
    if (worker->size == WORK_COMPILE) {
        pool->options.run(x, NULL);
        return;
    }
    bool large = worker->size > 0;
    struct sliced sliced = {{.each = WORK_SLICE, .left = WORK_SLICE, .pass = sliced_pass},
                            &pool->gate};
    gate_enter(&pool->gate, large);
    pool->options.run(x, large ? &sliced.slice : NULL);
    gate_leave(&pool->gate, large);
}

static bool worker_run(struct text_worker *worker)
{
    struct work_pool *pool = worker->pool;
    bool worked = false;
    for (uint32_t i = 0; i < pool->options.sides; i++) {
        struct work_side *side = &pool->sides[i];
        struct lane *lane = &side->lanes[worker->index];
        struct exchange *x;
        if (!item_pop(&lane->to, &x))
            continue;
        item_run(worker, x);
        atomic_fetch_sub_explicit(&worker->out, 1, memory_order_relaxed);
        item_push(&lane->from, x);
        waker_raise(side->waker);
        worked = true;
    }
    return worked;
}

static void *worker_main(void *argument)
{
    struct text_worker *worker = argument;
    pthread_setname_np(pthread_self(), worker->size == WORK_COMPILE ? "grammar" : "text");
    if (worker->size != WORK_COMPILE) // at low priority grammars would wait too long: decision 0050
        priority_lower();
    while (!atomic_load_explicit(&worker->pool->stop, memory_order_acquire))
        if (!worker_run(worker))
            waker_wait(worker->waker, -1);
    return NULL;
}

static void class_add(struct work_pool *pool, uint32_t size, uint32_t count)
{
    pool->classes[size] = (struct worker_class){pool->worker_count, count};
    pool->worker_count += count;
}

static uint32_t size_of(const struct work_pool *pool, uint32_t worker)
{
    uint32_t size = 0;
    while (worker - pool->classes[size].first >= pool->classes[size].count)
        size++;
    return size;
}

static int worker_start(struct text_worker *worker)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (worker->size == WORK_COMPILE)
        pthread_attr_setstacksize(&attributes, WORK_COMPILE_STACK_BYTES);
    int failed = pthread_create(&worker->thread, &attributes, worker_main, worker);
    pthread_attr_destroy(&attributes);
    return failed;
}

static enum status workers_start(struct work_pool *pool, struct error *err)
{
    for (uint32_t i = 0; i < pool->worker_count; i++) {
        struct text_worker *worker = &pool->workers[i];
        *worker = (struct text_worker){.pool = pool, .index = i, .size = size_of(pool, i)};
        enum status status = waker_open(&worker->waker, err);
        if (status != STATUS_OK)
            return status;
        int failed = worker_start(worker);
        if (failed != 0) {
            waker_close(worker->waker);
            return error_thread(err, failed, "the text worker %u", i);
        }
        pool->started++;
    }
    return STATUS_OK;
}

enum status work_open(struct work_pool **out, const struct work_options *options, struct error *err)
{
    struct work_pool *pool = heap_alloc_zeroed(1, sizeof *pool);
    pool->options = *options;
    pool->options.wakers = NULL; // the caller's array is only used during this call
    uint32_t large = work_large_count(options->workers);
    for (uint32_t size = 0; size < options->sizes; size++)
        class_add(pool, size, size == 0 ? options->workers : large);
    class_add(pool, WORK_ANSWER, large);
    class_add(pool, WORK_COMPILE, 1);
    pool->workers = heap_alloc_zeroed(pool->worker_count, sizeof *pool->workers);
    pool->sides = heap_alloc_zeroed(options->sides, sizeof *pool->sides);
    gate_open(&pool->gate, options->workers, large);
    for (uint32_t i = 0; i < options->sides; i++) {
        struct lane *lanes = heap_alloc_zeroed(pool->worker_count, sizeof *lanes);
        for (uint32_t j = 0; j < pool->worker_count; j++)
            lanes[j].to.ring.mask = lanes[j].from.ring.mask = RING_ENTRIES - 1;
        pool->sides[i] = (struct work_side){
            .pool = pool, .index = i, .waker = options->wakers[i], .lanes = lanes};
    }
    enum status status = workers_start(pool, err);
    if (status != STATUS_OK) {
        work_close(pool);
        return status;
    }
    *out = pool;
    return STATUS_OK;
}

void work_close(struct work_pool *pool)
{
    if (!pool)
        return;
    atomic_store_explicit(&pool->stop, true, memory_order_release);
    for (uint32_t i = 0; i < pool->started; i++) {
        waker_raise(pool->workers[i].waker);
        pthread_join(pool->workers[i].thread, NULL);
        waker_close(pool->workers[i].waker);
    }
    gate_close(&pool->gate);
    for (uint32_t i = 0; i < pool->options.sides; i++)
        heap_free(pool->sides[i].lanes);
    heap_free(pool->sides);
    heap_free(pool->workers);
    heap_free(pool);
}

struct work_side *work_side(struct work_pool *pool, uint32_t index)
{
    return &pool->sides[index];
}

// Returns the load of a worker; the least loaded is chosen: jobs of all h2o threads first, then of
// this one.
static uint64_t load_of(const struct work_side *side, uint32_t at)
{
    uint64_t out = atomic_load_explicit(&side->pool->workers[at].out, memory_order_relaxed);
    return out << 32 | side->lanes[at].out;
}

int work_choose(const struct work_side *side, uint32_t size)
{
    const struct worker_class *workers = &side->pool->classes[size];
    uint32_t most = size == 0 ? WORK_SMALL_MAX : WORK_LARGE_MAX;
    int best = -1;
    for (uint32_t i = 0; i < workers->count; i++) {
        uint32_t at = workers->first + (side->next + i) % workers->count;
        if (side->lanes[at].out < most &&
            (best < 0 || load_of(side, at) < load_of(side, (uint32_t)best)))
            best = (int)at;
    }
    return best;
}

void work_submit(struct work_side *side, int worker, struct exchange *x)
{
    struct text_worker *chosen = &side->pool->workers[worker];
    struct lane *lane = &side->lanes[worker];
    atomic_fetch_add_explicit(&chosen->out, 1, memory_order_relaxed);
    item_push(&lane->to, x);
    lane->out++;
    side->next++;
    waker_raise(chosen->waker);
}

struct exchange *work_pop(struct work_side *side)
{
    for (uint32_t i = 0; i < side->pool->worker_count; i++) {
        struct exchange *x;
        if (!item_pop(&side->lanes[i].from, &x))
            continue;
        side->lanes[i].out--;
        return x;
    }
    return NULL;
}

uint32_t work_out(const struct work_side *side)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < side->pool->worker_count; i++)
        out += side->lanes[i].out;
    return out;
}

uint32_t work_waiting(struct work_pool *pool)
{
    return gate_waiting(&pool->gate);
}
