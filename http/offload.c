// Sends exchanges to text workers and handles their return. All functions run on the h2o thread
// except offload_run. Exchanges wait here, sorted by the size of their job, until a worker has
// space. A body is copied only when a worker accepts the exchange, which bounds the number of
// copies.
#include "http/internal.h"

enum {
    // limit of waiting duplicates, as a multiple of compiles_max and compiles_key_max
    DUPLICATES_PER_COMPILE = 16,
    COMPLETED_PER_ITERATION = 32, // duplicates completed in one loop iteration
};

// Jobs that compile the same grammar. The first is compiled: it is in waiting_compile or at the
// grammar thread. The others are its duplicates and wait for its result.
struct compile_group {
    struct exchange *first; // NULL: compiled, and the group is in thread->compiled
    struct exchange_list duplicates;
    struct compile_group *next; // next group in thread->compiled
};

static struct exchange_list *list_of(const struct exchange *x)
{
    if (x->job.offload.serial)
        return &x->thread->waiting_serial;
    if (x->job.offload.compiles)
        return &x->thread->waiting_compile;
    if (x->job.offload.answers && work_size(x->job.offload.bytes) > 0)
        return &x->thread->waiting_answers;
    // a larger body is refused, so no worker exists for its size
    uint64_t most = x->thread->server->options.body_bytes_max;
    return &x->thread
                ->waiting[work_size(x->job.offload.bytes < most ? x->job.offload.bytes : most)];
}

static void list_put(struct exchange_list *list, struct exchange **link, struct exchange *x)
{
    x->job.waiting_in = list;
    x->job.waiting_next = *link;
    x->job.waiting_link = link;
    *link = x;
    if (x->job.waiting_next)
        x->job.waiting_next->job.waiting_link = &x->job.waiting_next;
    else
        list->end = &x->job.waiting_next;
}

static void wait_end(struct exchange *x)
{
    *x->job.waiting_link = x->job.waiting_next;
    if (x->job.waiting_next)
        x->job.waiting_next->job.waiting_link = x->job.waiting_link;
    else
        x->job.waiting_in->end = x->job.waiting_link;
    x->job.waiting_link = NULL;
}

// Replaces the body by a copy for the worker, because h2o frees its own when the client leaves.
static void body_keep(struct exchange *x)
{
    x->job.body_given = x->info.body;
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
    x->info.body = x->answer ? x->job.body_given : (struct text){"", 0};
    heap_free(x->job.body_copy);
    x->job.body_copy = NULL;
}

// The queue for the grammar thread. Jobs are sorted by rank; ranks give each API key one job per
// round, so that a key does not wait for all jobs of another key. Jobs of equal rank keep their
// order of arrival. A duplicate waits for the first job's result instead of compiling again.

static void compile_begin(struct exchange *x)
{
    struct http_thread *thread = x->thread;
    thread->compiling = x;
    thread->compile_rank = thread->compile_key_ranks[x->info.key_id % COMPILE_KEYS] =
        x->job.compile.rank;
}

static bool shares_compile(const struct exchange *x, const struct exchange *other)
{
    return other && x->job.offload.share_key != 0 &&
           other->job.offload.share_key == x->job.offload.share_key;
}

struct compile_scan {
    struct exchange *first; // first job of the group that x would join, or NULL
    uint32_t all, own;      // jobs in the queue: all, and those of the key of x
    uint64_t rank;
};

// Scans the queue, which has at most compiles_max entries, for the counts, the group and the rank
// of x.
static struct compile_scan compile_scan(const struct exchange *x)
{
    const struct http_thread *thread = x->thread;
    struct compile_scan scan = {
        .first = shares_compile(x, thread->compiling) ? thread->compiling : NULL,
        .rank = thread->compile_key_ranks[x->info.key_id % COMPILE_KEYS] + 1};
    if (scan.rank < thread->compile_rank)
        scan.rank = thread->compile_rank;
    for (struct exchange *w = thread->waiting_compile.first; w; w = w->job.waiting_next) {
        bool own = w->info.key_id == x->info.key_id;
        scan.all++;
        scan.own += own;
        if (own && w->job.compile.rank >= scan.rank)
            scan.rank = w->job.compile.rank + 1;
        if (shares_compile(x, w))
            scan.first = w;
    }
    return scan;
}

static bool duplicate_fits(const struct exchange *x)
{
    const struct http_thread *thread = x->thread;
    const struct server_options *options = &thread->server->options;
    uint32_t own = thread->compile_key_duplicates[x->info.key_id % COMPILE_KEYS];
    return thread->compile_duplicates < DUPLICATES_PER_COMPILE * options->compiles_max &&
           own < DUPLICATES_PER_COMPILE * options->compiles_key_max;
}

static void duplicate_begin(struct exchange *x, struct exchange *first)
{
    if (!first->job.compile.group) {
        first->job.compile.group = heap_alloc_zeroed(1, sizeof *first->job.compile.group);
        first->job.compile.group->first = first;
        first->job.compile.group->duplicates.end = &first->job.compile.group->duplicates.first;
    }
    x->job.compile.group = first->job.compile.group;
    x->thread->compile_duplicates++;
    x->thread->compile_key_duplicates[x->info.key_id % COMPILE_KEYS]++;
    list_put(&x->job.compile.group->duplicates, x->job.compile.group->duplicates.end, x);
}

static void duplicate_end(struct exchange *x)
{
    wait_end(x);
    x->job.compile.group = NULL;
    x->thread->compile_duplicates--;
    x->thread->compile_key_duplicates[x->info.key_id % COMPILE_KEYS]--;
}

static void compile_wait_begin(struct exchange *x, uint64_t rank)
{
    struct exchange_list *list = &x->thread->waiting_compile;
    struct exchange **link = &list->first;
    x->job.compile.rank = rank;
    while (*link && (*link)->job.compile.rank <= rank)
        link = &(*link)->job.waiting_next;
    list_put(list, link, x);
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
    struct compile_scan scan = compile_scan(x);
    bool fits =
        scan.own < options->compiles_key_max && (scan.first || scan.all < options->compiles_max);
    bool sooner = scan.first && scan.first->job.state == JOB_WAITS &&
                  scan.rank < scan.first->job.compile.rank;
    if (scan.first && !(sooner && fits && duplicate_fits(scan.first))) {
        fits = duplicate_fits(x);
        if (fits)
            duplicate_begin(x, scan.first);
        return fits;
    }
    if (!fits)
        return false;
    if (scan.first) {
        wait_end(scan.first);
        group_lead(x, scan.first);
        duplicate_begin(scan.first, x);
    }
    compile_wait_begin(x, scan.rank);
    return true;
}

// Promotes the first duplicate of x to the queue position *link. x has no group afterwards.
static void group_promote(struct exchange *x, struct exchange **link)
{
    struct compile_group *group = x->job.compile.group;
    struct exchange *next = group ? group->duplicates.first : NULL;
    if (next) {
        duplicate_end(next);
        group_lead(next, x);
        next->job.compile.rank = x->job.compile.rank;
        list_put(&x->thread->waiting_compile, link, next);
    } else {
        heap_free(group);
        x->job.compile.group = NULL;
    }
}

// Removes x from the queue. The first duplicate inherits its position.
static void compile_leave(struct exchange *x)
{
    struct exchange **link = x->job.waiting_link;
    if (x->job.compile.group && x->job.compile.group->first != x) {
        duplicate_end(x);
        return;
    }
    wait_end(x);
    group_promote(x, link);
}

static void list_submit(struct http_thread *thread, struct exchange_list *list, uint32_t size)
{
    struct exchange *x;
    int worker;
    while ((x = list->first) != NULL && !(x->job.offload.serial && thread->serial_running) &&
           (worker = work_choose(thread->work, size)) >= 0) {
        wait_end(x);
        x->job.state = JOB_RUNS;
        body_keep(x);
        if (x->job.offload.compiles)
            compile_begin(x);
        thread->serial_running = thread->serial_running || x->job.offload.serial;
        work_submit(thread->work, worker, x);
    }
}

static void waiting_submit(struct http_thread *thread)
{
    list_submit(thread, &thread->waiting_serial, 0);
    list_submit(thread, &thread->waiting_compile, WORK_COMPILE);
    list_submit(thread, &thread->waiting_answers, WORK_ANSWER);
    for (uint32_t size = 0; size < WORK_SIZES_MAX; size++)
        list_submit(thread, &thread->waiting[size], size);
}

static void offload_begin(struct exchange *x, const struct offload *job)
{
    check(x->job.state == JOB_NONE && x->reply != REPLY_ENDED,
          "offload of an exchange that has a job or an answer");
    x->job.offload = *job;
}

void exchange_offload(struct exchange *x, struct offload job)
{
    job.compiles = false;
    offload_begin(x, &job);
    x->job.state = JOB_WAITS;
    list_put(list_of(x), list_of(x)->end, x);
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
        group_promote(x, &thread->waiting_compile.first); // x had the lowest rank
    struct compile_group *group = x->job.compile.group;
    if (group) {
        group->first = NULL;
        *thread->compiled_end = group;
        thread->compiled_end = &group->next;
        x->job.compile.group = NULL;
    }
    offload_finish(x);
}

// Completes the duplicates of compiled jobs: COMPLETED_PER_ITERATION per iteration, so that they do
// not delay the streams of this thread.
static void compiled_finish(struct http_thread *thread)
{
    struct compile_group *group;
    for (uint32_t ended = 0; (group = thread->compiled) != NULL;) {
        struct exchange *x = group->duplicates.first;
        if (!x) {
            thread->compiled = group->next;
            if (!thread->compiled)
                thread->compiled_end = &thread->compiled;
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
        wait_end(x);
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
    for (uint32_t size = 0; size < WORK_SIZES_MAX; size++)
        if (thread->waiting[size].first)
            return false;
    return !thread->waiting_serial.first && !thread->waiting_answers.first &&
           !thread->waiting_compile.first && !thread->compiled && work_out(thread->work) == 0;
}
