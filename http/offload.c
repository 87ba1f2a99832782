// SPDX-License-Identifier: Apache-2.0
// Sends exchanges to text workers and handles their return. All functions run on the h2o thread
// except offload_run. Exchanges wait here, in one queue for each class of jobs, until a worker has
// space. A body is copied only when a worker accepts the exchange, which bounds the number of
// copies.
#include "http/internal.h"

#include "base/number.h"

enum {
    // limit of waiting duplicates, as a multiple of compiles_max and compiles_key_max
    DUPLICATES_PER_COMPILE = 16,
    COMPLETED_PER_ITERATION = 32, // duplicates completed in one loop iteration
};

// Jobs that compile the same grammar. The first is compiled: it is in the queue of WORK_COMPILE or
// at the grammar thread. The others are its duplicates and wait for its result.
struct compile_group {
    struct exchange *first; // NULL: compiled, and the group is in thread->compiled
    struct wait_queue duplicates;
    struct wait_item item; // in thread->compiled
};

static struct exchange *exchange_of(struct wait_item *item)
{
    return item ? H2O_STRUCT_FROM_MEMBER(struct exchange, job.item, item) : NULL;
}

static uint32_t class_of(const struct exchange *x)
{
    const struct offload *job = &x->job.offload;
    if (job->serial)
        return WAITING_SERIAL;
    if (job->answers && work_size(job->bytes) > 0)
        return WORK_ANSWER;
    // a larger body is refused, so no worker exists for its size
    return work_size(smaller(job->bytes, x->thread->server->options.body_bytes_max));
}

// Replaces the body by a copy for the worker, because h2o frees its own when the client leaves.
static void body_keep(struct exchange *x)
{
    x->job.body_original = x->info.body;
    if (!x->job.offload.reads_body) {
        x->info.body = (struct text){"", 0};
        return;
    }
    x->job.body_copy = heap_alloc(x->info.body.bytes);
    if (x->info.body.bytes > 0)
        memcpy(x->job.body_copy, x->info.body.at, x->info.body.bytes);
    x->info.body.at = x->job.body_copy;
}

static void body_return(struct exchange *x)
{
    x->info.body = x->answer ? x->job.body_original : (struct text){"", 0};
    heap_free(x->job.body_copy);
    x->job.body_copy = NULL;
}

// The queue for the grammar thread, WORK_COMPILE, has ranks that let API keys take rounds. A
// duplicate waits for the first job's result instead of compiling again.

static bool shares_compile(const struct exchange *x, const struct exchange *other)
{
    return other && x->job.offload.share_key != 0 &&
           other->job.offload.share_key == x->job.offload.share_key;
}

// Returns the first job of the group that x would join, or NULL. Scans the queue, which has at most
// compiles_max entries; *own: number of those of the key of x.
static struct exchange *compile_find(const struct exchange *x, uint32_t *own)
{
    const struct http_thread *thread = x->thread;
    struct exchange *first = shares_compile(x, thread->compiling) ? thread->compiling : NULL;
    *own = 0;
    for (struct wait_item *at = thread->waiting[WORK_COMPILE].first; at; at = at->after) {
        *own += at->key == x->info.key_id;
        if (shares_compile(x, exchange_of(at)))
            first = exchange_of(at);
    }
    return first;
}

static bool duplicate_fits(const struct exchange *x)
{
    const struct http_thread *thread = x->thread;
    const struct server_options *options = &thread->server->options;
    uint32_t own = thread->compile_key_duplicates[x->info.key_id % WAIT_KEYS];
    return thread->compile_duplicates < DUPLICATES_PER_COMPILE * options->compiles_max &&
           own < DUPLICATES_PER_COMPILE * options->compiles_key_max;
}

static void duplicate_begin(struct exchange *x, struct exchange *first)
{
    struct compile_group **group = &first->job.compile.group;
    if (!*group) {
        *group = heap_alloc_zeroed(1, sizeof **group);
        (*group)->first = first;
    }
    x->job.compile.group = *group;
    x->thread->compile_duplicates++;
    x->thread->compile_key_duplicates[x->info.key_id % WAIT_KEYS]++;
    wait_push(&(*group)->duplicates, &x->job.item, 0);
}

static void duplicate_end(struct exchange *x)
{
    wait_remove(&x->job.item);
    x->job.compile.group = NULL;
    x->thread->compile_duplicates--;
    x->thread->compile_key_duplicates[x->info.key_id % WAIT_KEYS]--;
}

// Makes x the first job of the group of `before`, which then leaves or becomes a duplicate.
static void group_lead(struct exchange *x, struct exchange *before)
{
    x->job.compile.group = before->job.compile.group;
    before->job.compile.group = NULL;
    if (x->job.compile.group)
        x->job.compile.group->first = x;
}

// Queues x as a job or as a duplicate; false: no space. If x has a lower rank than the queued first
// job of its group, x takes its place, so that a key does not wait for another key's rank.
static bool compile_put(struct exchange *x)
{
    const struct server_options *options = &x->thread->server->options;
    struct wait_queue *queue = &x->thread->waiting[WORK_COMPILE];
    uint32_t own;
    struct exchange *first = compile_find(x, &own);
    uint64_t rank = wait_rounds_rank(&x->thread->compile_rounds, queue, x->info.key_id);
    bool fits = own < options->compiles_key_max && (first || queue->count < options->compiles_max);
    bool sooner = first && first->job.state == JOB_WAITS && rank < first->job.item.rank;
    if (first && !(sooner && fits && duplicate_fits(first))) {
        fits = duplicate_fits(x);
        if (fits)
            duplicate_begin(x, first);
        return fits;
    }
    if (!fits)
        return false;
    if (first) {
        wait_remove(&first->job.item);
        group_lead(x, first);
        duplicate_begin(first, x);
    }
    wait_push(queue, &x->job.item, rank);
    return true;
}

// Promotes the first duplicate of x to the rank of x and the queue position after `before`. x has
// no group afterwards.
static void group_promote(struct exchange *x, struct wait_item *before)
{
    struct compile_group *group = x->job.compile.group;
    struct exchange *next = group ? exchange_of(group->duplicates.first) : NULL;
    if (next) {
        duplicate_end(next);
        group_lead(next, x);
        wait_insert(&x->thread->waiting[WORK_COMPILE], &next->job.item, before, x->job.item.rank);
    } else {
        heap_free(group);
        x->job.compile.group = NULL;
    }
}

// Removes x from the queue. The first duplicate inherits its position.
static void compile_leave(struct exchange *x)
{
    struct wait_item *before = x->job.item.before;
    if (x->job.compile.group && x->job.compile.group->first != x) {
        duplicate_end(x);
        return;
    }
    wait_remove(&x->job.item);
    group_promote(x, before);
}

static void class_submit(struct http_thread *thread, uint32_t kind)
{
    struct exchange *x;
    int worker;
    while ((x = exchange_of(thread->waiting[kind].first)) != NULL &&
           !(kind == WAITING_SERIAL && thread->serial_running) &&
           (worker = work_choose(thread->work, kind == WAITING_SERIAL ? 0 : kind)) >= 0) {
        wait_remove(&x->job.item);
        x->job.state = JOB_RUNS;
        body_keep(x);
        if (kind == WORK_COMPILE) {
            thread->compiling = x;
            wait_rounds_begin(&thread->compile_rounds, &x->job.item);
        }
        thread->serial_running = thread->serial_running || kind == WAITING_SERIAL;
        work_submit(thread->work, worker, x);
    }
}

static void waiting_submit(struct http_thread *thread)
{
    class_submit(thread, WAITING_SERIAL); // before bodies of size 0, which have the same workers
    class_submit(thread, WORK_COMPILE);
    class_submit(thread, WORK_ANSWER);
    for (uint32_t size = 0; size < WORK_SIZES_MAX; size++)
        class_submit(thread, size);
}

static void offload_begin(struct exchange *x, const struct offload *job)
{
    check(x->job.state == JOB_NONE && x->reply != REPLY_ENDED,
          "offload of an exchange that has a job or an answer");
    x->job.offload = *job;
    x->job.item.key = x->info.key_id;
}

void exchange_offload(struct exchange *x, struct offload job)
{
    job.compiles = false;
    offload_begin(x, &job);
    x->job.state = JOB_WAITS;
    wait_push(&x->thread->waiting[class_of(x)], &x->job.item, 0);
    waiting_submit(x->thread);
}

bool exchange_compile(struct exchange *x, struct offload job)
{
    job.compiles = true;
    offload_begin(x, &job);
    if (!compile_put(x))
        return false;
    x->job.state = JOB_WAITS;
    if (x->job.compile.since_ns == 0) // a retry keeps the start time of its first wait
        x->job.compile.since_ns = clock_ns();
    waiting_submit(x->thread);
    return true;
}

// Returns true if the deadline of a compile job has passed: its result is not needed any more.
static bool is_past(const struct exchange *x)
{
    return x->job.offload.compiles && x->info.deadline_ns != 0 && clock_ns() > x->info.deadline_ns;
}

void offload_run(struct exchange *x, struct slice *slice)
{
    x->job.worked = !exchange_gone(x) && !is_past(x);
    if (!x->job.worked)
        return;
    if (slice)
        slice->unwanted = &x->gone;
    x->job.slice = slice;
    x->job.offload.work(x);
    x->job.slice = NULL;
}

struct slice *exchange_slice(const struct exchange *x)
{
    return x->job.slice;
}

// Runs `done`, on the h2o thread. Also called for duplicates, which no worker had.
static void offload_finish(struct exchange *x)
{
    x->job.state = JOB_NONE;
    x->job.offload.done(x);
    if (x->job.state == JOB_NONE)
        exchange_scratch_end(x);
    if (!exchange_gone(x)) {
        if (x->reply != REPLY_ENDED && (x->engine.request || exchange_is_stream(x)))
            exchange_run(x, x->route->on_ready); // events that arrived meanwhile
        else
            exchange_settle(x);
        return;
    }
    if (x->job.state != JOB_NONE) // `done` offloaded another job
        return;
    exchange_forget(x);
    if (!x->answer)
        exchange_destroy(x);
    else
        exchange_cut_end(x);
}

static void work_done(struct exchange *x)
{
    struct http_thread *thread = x->thread;
    body_return(x);
    thread->serial_running = thread->serial_running && !x->job.offload.serial;
    if (x->job.offload.compiles)
        thread->compiling = NULL;
    if (x->job.compile.group && !x->job.worked)
        group_promote(x, NULL); // x had the lowest rank
    struct compile_group *group = x->job.compile.group;
    if (group) {
        group->first = NULL;
        wait_push(&thread->compiled, &group->item, 0);
        x->job.compile.group = NULL;
    }
    offload_finish(x);
}

// Completes the duplicates of compiled jobs: COMPLETED_PER_ITERATION per iteration, so that they do
// not delay the streams of this thread.
static void compiled_finish(struct http_thread *thread)
{
    struct wait_item *item;
    for (uint32_t ended = 0; (item = thread->compiled.first) != NULL;) {
        struct compile_group *group = H2O_STRUCT_FROM_MEMBER(struct compile_group, item, item);
        struct exchange *x = exchange_of(group->duplicates.first);
        if (!x) {
            wait_remove(item);
            heap_free(group);
            continue;
        }
        if (ended++ == COMPLETED_PER_ITERATION) {
            waker_raise(thread->control);
            return;
        }
        duplicate_end(x);
        offload_finish(x); // `done` may queue x again
    }
}

void offload_handle_finished(struct http_thread *thread)
{
    for (struct exchange *x = work_pop(thread->work); x; x = work_pop(thread->work))
        work_done(x);
    compiled_finish(thread);
    waiting_submit(thread);
}

void offload_drop(struct exchange *x)
{
    if (x->job.state != JOB_WAITS)
        return;
    if (x->job.offload.compiles)
        compile_leave(x);
    else
        wait_remove(&x->job.item);
    x->job.state = JOB_NONE;
    x->job.offload.done(x);
}

bool offload_is_late(struct exchange *x, uint64_t now)
{
    static const char late[] = "The request waited for its grammar past its deadline.";
    static const char long_ago[] = "Too many grammars wait to be compiled, try again later.";
    static const struct http_failure timeout = {.error = HTTP_TIMEOUT,
                                                .message = {late, sizeof late - 1}};
    static const struct http_failure busy = {.error = HTTP_OVERLOADED,
                                             .message = {long_ago, sizeof long_ago - 1}};
    uint64_t most_ns = x->thread->server->options.compile_wait_ms * 1000000;
    bool waits = x->job.state == JOB_WAITS && x->job.offload.compiles && !exchange_gone(x);
    bool is_late = waits && x->info.deadline_ns != 0 && now > x->info.deadline_ns;
    bool is_long = waits && now > x->job.compile.since_ns + most_ns;
    if (is_late || is_long)
        exchange_cut(x, is_late ? &timeout : &busy);
    return is_late || is_long;
}

bool offload_is_idle(const struct http_thread *thread)
{
    for (uint32_t kind = 0; kind < WAITING_CLASSES; kind++)
        if (thread->waiting[kind].first)
            return false;
    return !thread->compiled.first && work_out(thread->work) == 0;
}
