// Exchanges on their way to a text worker and back, all on the h2o thread but offload_run. Those
// that no worker can take yet wait here, sorted by what they read or write. A body that is read is
// copied only when a worker takes it, which bounds the copies.
#include "http/internal.h"

static struct exchange_list *list_of(const struct exchange *x)
{
    if (x->job.alone)
        return &x->thread->waiting_alone;
    if (x->job.compiles)
        return &x->thread->waiting_compile;
    uint64_t most = x->thread->server->options.body_bytes_max; // larger ones have no workers
    return &x->thread->waiting[work_size(x->job.bytes < most ? x->job.bytes : most)];
}

static void wait_begin(struct exchange *x)
{
    struct exchange_list *list = list_of(x);
    x->waiting_next = NULL;
    x->waiting_link = list->end;
    *list->end = x;
    list->end = &x->waiting_next;
}

static void wait_end(struct exchange *x)
{
    struct exchange_list *list = list_of(x);
    *x->waiting_link = x->waiting_next;
    if (x->waiting_next)
        x->waiting_next->waiting_link = x->waiting_link;
    else
        list->end = x->waiting_link;
    x->waiting_link = NULL;
}

// The body is h2o's and is freed when the client leaves: the worker gets a copy.
static void body_keep(struct exchange *x)
{
    x->body_given = x->info.body;
    if (!x->job.reads_body) {
        x->info.body = (struct text){"", 0};
        return;
    }
    x->body_copy = heap_take(x->info.body.bytes);
    if (x->info.body.bytes > 0)
        memcpy(x->body_copy, x->info.body.at, x->info.body.bytes);
    x->info.body.at = x->body_copy;
}

static void body_return(struct exchange *x)
{
    x->info.body = x->answer ? x->body_given : (struct text){"", 0};
    heap_give(x->body_copy);
    x->body_copy = NULL;
}

// Who came first, but of those whose grammars are to be compiled the first of another API key than
// the last one: a compile may take a second, and nobody waits for all of somebody else's.
static struct exchange *next_of(const struct http_thread *thread, const struct exchange_list *list)
{
    struct exchange *x = list->first;
    while (list == &thread->waiting_compile && x && x->info.key_id == thread->compiled_key)
        x = x->waiting_next;
    return x ? x : list->first;
}

static void list_submit(struct http_thread *thread, struct exchange_list *list, uint32_t size)
{
    struct exchange *x;
    int worker;
    while ((x = next_of(thread, list)) != NULL && !(x->job.alone && thread->alone_out) &&
           (worker = work_choose(thread->work, size)) >= 0) {
        wait_end(x);
        body_keep(x);
        if (x->job.compiles)
            thread->compiled_key = x->info.key_id;
        thread->alone_out = thread->alone_out || x->job.alone;
        work_submit(thread->work, worker, x);
    }
}

static void waiting_submit(struct http_thread *thread)
{
    list_submit(thread, &thread->waiting_alone, 0);
    list_submit(thread, &thread->waiting_compile, WORK_COMPILE);
    for (uint32_t size = 0; size < WORK_SIZES_MAX; size++)
        list_submit(thread, &thread->waiting[size], size);
}

void exchange_offload(struct exchange *x, struct offload job)
{
    check(!x->offloaded && x->reply != REPLY_ENDED, "offload of an exchange that is out or over");
    x->job = job;
    x->offloaded = true;
    wait_begin(x);
    waiting_submit(x->thread);
}

void offload_run(struct exchange *x, struct slice *slice)
{
    if (exchange_gone(x))
        return;
    if (slice)
        slice->unwanted = &x->gone;
    x->slice = slice;
    x->job.work(x);
    x->slice = NULL;
}

struct slice *exchange_slice(const struct exchange *x)
{
    return x->slice;
}

static void work_done(struct exchange *x)
{
    body_return(x);
    x->offloaded = false;
    x->thread->alone_out = x->thread->alone_out && !x->job.alone;
    x->job.done(x);
    if (!x->offloaded)
        exchange_scratch_end(x);
    if (!exchange_gone(x)) {
        if (x->request && x->reply != REPLY_ENDED)
            exchange_run(x, x->route->on_ready); // events that came meanwhile
        else
            exchange_settle(x);
        return;
    }
    if (x->offloaded) // `done` offloaded it again
        return;
    exchange_forget(x);
    if (!x->answer)
        exchange_destroy(x);
    else
        exchange_cut_end(x);
}

void offload_take(struct http_thread *thread)
{
    for (struct exchange *x = work_take(thread->work); x; x = work_take(thread->work))
        work_done(x);
    waiting_submit(thread);
}

void offload_drop(struct exchange *x)
{
    if (!x->waiting_link)
        return;
    wait_end(x);
    x->offloaded = false;
    x->job.done(x);
}

bool offload_is_idle(const struct http_thread *thread)
{
    for (uint32_t size = 0; size < WORK_SIZES_MAX; size++)
        if (thread->waiting[size].first)
            return false;
    return !thread->waiting_alone.first && !thread->waiting_compile.first &&
           work_out(thread->work) == 0;
}
