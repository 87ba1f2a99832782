// See work.h. Rings hold as many entries as may be out, so the way back can never be full. A
// worker walks the rings of all h2o threads in turn, one item each, so that none is starved.
#include "http/work.h"

#include "base/arena.h"
#include "base/ring.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { RING_ENTRIES = 8 };
_Static_assert(RING_ENTRIES >= WORK_SMALL_MAX + WORK_LARGE_MAX, "what is out fits the way back");

struct item {
    struct exchange *x;
    bool large;
};

struct item_ring {
    struct ring ring;
    struct item entries[RING_ENTRIES];
};

struct lane { // one (h2o thread, worker)
    struct item_ring to, from;
    uint32_t out[2]; // h2o thread's counts: small, large
};

struct work_side {
    struct work_pool *pool;
    uint32_t index;
    uint32_t next; // worker asked first
    struct waker *waker;
    struct lane *lanes; // [workers]
};

struct worker {
    struct work_pool *pool;
    uint32_t index;
    pthread_t thread;
    struct waker *waker;
    // submitted and not done, of all h2o threads; relaxed: a stale count only chooses worse
    _Atomic uint32_t large;
};

struct work_pool {
    uint32_t worker_count, side_count, started;
    void (*run)(struct exchange *x);
    _Atomic bool stop;
    struct worker *workers;  // [worker_count]
    struct work_side *sides; // [side_count]
};

static void item_push(struct item_ring *items, struct item item)
{
    items->entries[ring_place(&items->ring)] = item;
    ring_publish(&items->ring);
}

static bool item_pop(struct item_ring *items, struct item *out)
{
    uint32_t place;
    if (!ring_peek(&items->ring, &place))
        return false;
    *out = items->entries[place];
    ring_take(&items->ring);
    return true;
}

static bool worker_turn(struct worker *worker)
{
    struct work_pool *pool = worker->pool;
    bool worked = false;
    for (uint32_t i = 0; i < pool->side_count; i++) {
        struct work_side *side = &pool->sides[i];
        struct lane *lane = &side->lanes[worker->index];
        struct item item;
        if (!item_pop(&lane->to, &item))
            continue;
        pool->run(item.x);
        if (item.large)
            atomic_fetch_sub_explicit(&worker->large, 1, memory_order_relaxed);
        item_push(&lane->from, item);
        waker_raise(side->waker);
        worked = true;
    }
    return worked;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    pthread_setname_np(pthread_self(), "text");
    while (!atomic_load_explicit(&worker->pool->stop, memory_order_acquire))
        if (!worker_turn(worker))
            waker_wait(worker->waker, -1);
    return NULL;
}

static enum status workers_start(struct work_pool *pool, struct error *err)
{
    for (uint32_t i = 0; i < pool->worker_count; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){.pool = pool, .index = i};
        enum status status = waker_open(&worker->waker, err);
        if (status != STATUS_OK)
            return status;
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            waker_close(worker->waker);
            return error_set(err, STATUS_IO, "text worker %u could not be started", i);
        }
        pool->started++;
    }
    return STATUS_OK;
}

enum status work_open(struct work_pool **out, uint32_t workers, uint32_t sides,
                      struct waker *const *wakers, void (*run)(struct exchange *x),
                      struct error *err)
{
    struct work_pool *pool = heap_take_zeroed(1, sizeof *pool);
    *pool = (struct work_pool){.worker_count = workers, .side_count = sides, .run = run};
    pool->workers = heap_take_zeroed(workers, sizeof *pool->workers);
    pool->sides = heap_take_zeroed(sides, sizeof *pool->sides);
    for (uint32_t i = 0; i < sides; i++) {
        struct lane *lanes = heap_take_zeroed(workers, sizeof *lanes);
        for (uint32_t j = 0; j < workers; j++)
            lanes[j].to.ring.mask = lanes[j].from.ring.mask = RING_ENTRIES - 1;
        pool->sides[i] =
            (struct work_side){.pool = pool, .index = i, .waker = wakers[i], .lanes = lanes};
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
    for (uint32_t i = 0; i < pool->side_count; i++)
        heap_give(pool->sides[i].lanes);
    heap_give(pool->sides);
    heap_give(pool->workers);
    heap_give(pool);
}

struct work_side *work_side(struct work_pool *pool, uint32_t index)
{
    return &pool->sides[index];
}

static bool may_take(const struct work_side *side, uint32_t at, bool large)
{
    struct work_pool *pool = side->pool;
    bool last = at + 1 == pool->worker_count;
    const uint32_t *out = side->lanes[at].out;
    if (large)
        return out[1] < WORK_LARGE_MAX && (!last || at == 0);
    return out[0] < WORK_SMALL_MAX &&
           (last || atomic_load_explicit(&pool->workers[at].large, memory_order_relaxed) == 0);
}

// Least of: large work of all h2o threads, then what this thread has there.
static uint64_t load_of(const struct work_side *side, uint32_t at)
{
    const struct lane *lane = &side->lanes[at];
    uint64_t large = atomic_load_explicit(&side->pool->workers[at].large, memory_order_relaxed);
    return large << 32 | (lane->out[0] + lane->out[1]);
}

int work_choose(const struct work_side *side, bool large)
{
    uint32_t count = side->pool->worker_count;
    int best = -1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (side->next + i) % count;
        if (may_take(side, at, large) &&
            (best < 0 || load_of(side, at) < load_of(side, (uint32_t)best)))
            best = (int)at;
    }
    return best;
}

void work_submit(struct work_side *side, int worker, struct exchange *x, bool large)
{
    struct worker *chosen = &side->pool->workers[worker];
    struct lane *lane = &side->lanes[worker];
    if (large)
        atomic_fetch_add_explicit(&chosen->large, 1, memory_order_relaxed);
    item_push(&lane->to, (struct item){x, large});
    lane->out[large]++;
    side->next = (uint32_t)worker + 1;
    waker_raise(chosen->waker);
}

struct exchange *work_take(struct work_side *side)
{
    for (uint32_t i = 0; i < side->pool->worker_count; i++) {
        struct item item;
        if (!item_pop(&side->lanes[i].from, &item))
            continue;
        side->lanes[i].out[item.large]--;
        return item.x;
    }
    return NULL;
}

uint32_t work_out(const struct work_side *side)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < side->pool->worker_count; i++)
        out += side->lanes[i].out[0] + side->lanes[i].out[1];
    return out;
}
