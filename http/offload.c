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

static void list_put(struct exchange_list *list, struct exchange **link, struct exchange *x)
{
    x->waiting_next = *link;
    x->waiting_link = link;
    *link = x;
    if (x->waiting_next)
        x->waiting_next->waiting_link = &x->waiting_next;
    else
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

// Grammars. Each key has one turn in a round, so that nobody waits for all that another key has
// asked for; those of equal turns go as they came.

static uint64_t turn_of(const struct exchange *x)
{
    const struct http_thread *thread = x->thread;
    uint64_t turn = thread->compile_turns[x->info.key_id % COMPILE_KEYS] + 1;
    if (turn < thread->compile_turn)
        turn = thread->compile_turn;
    for (const struct exchange *w = thread->waiting_compile.first; w; w = w->waiting_next)
        if (w->info.key_id == x->info.key_id && w->turn >= turn)
            turn = w->turn + 1;
    return turn;
}

static void compile_begin(struct exchange *x)
{
    struct http_thread *thread = x->thread;
    thread->compiling = x;
    thread->compile_turn = thread->compile_turns[x->info.key_id % COMPILE_KEYS] = x->turn;
}

static bool is_same(const struct exchange *x, const struct exchange *other)
{
    return other && other != x && x->job.same != 0 && other->job.same == x->job.same;
}

// What repeats another costs no compile.
static bool compile_fits(struct exchange *x)
{
    const struct http_thread *thread = x->thread;
    const struct server_options *options = &thread->server->options;
    uint32_t all = 0, own = 0;
    x->repeats = is_same(x, thread->compiling);
    for (const struct exchange *w = thread->waiting_compile.first; w; w = w->waiting_next) {
        x->repeats = x->repeats || is_same(x, w);
        all += !w->repeats;
        own += !w->repeats && w->info.key_id == x->info.key_id;
    }
    return x->repeats || (all < options->compiles_max && own < options->compiles_key_max);
}

static void compile_wait_begin(struct exchange *x)
{
    struct exchange_list *list = &x->thread->waiting_compile;
    struct exchange **link = &list->first;
    x->turn = turn_of(x);
    x->compile_ns = clock_ns();
    while (*link && (*link)->turn <= x->turn)
        link = &(*link)->waiting_next;
    list_put(list, link, x);
}

// One that leaves counts no more for those that repeat it.
static void repeats_pass(const struct exchange *x)
{
    struct exchange *w = x->thread->waiting_compile.first;
    while (w && !is_same(x, w))
        w = w->waiting_next;
    if (w && !x->repeats)
        w->repeats = false;
}

static void list_submit(struct http_thread *thread, struct exchange_list *list, uint32_t size)
{
    struct exchange *x;
    int worker;
    while ((x = list->first) != NULL && !(x->job.alone && thread->alone_out) &&
           (worker = work_choose(thread->work, size)) >= 0) {
        wait_end(x);
        body_keep(x);
        if (x->job.compiles)
            compile_begin(x);
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

static void offload_begin(struct exchange *x, const struct offload *job)
{
    check(!x->offloaded && x->reply != REPLY_ENDED, "offload of an exchange that is out or over");
    x->job = *job;
}

void exchange_offload(struct exchange *x, struct offload job)
{
    job.compiles = false;
    offload_begin(x, &job);
    x->offloaded = true;
    list_put(list_of(x), list_of(x)->end, x);
    waiting_submit(x->thread);
}

bool exchange_compile(struct exchange *x, struct offload job)
{
    job.compiles = true;
    offload_begin(x, &job);
    if (!compile_fits(x))
        return false;
    x->offloaded = true;
    compile_wait_begin(x);
    waiting_submit(x->thread);
    return true;
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

// Back on this thread, or never away.
static void finish(struct exchange *x)
{
    x->offloaded = false;
    x->job.done(x);
    if (!x->offloaded)
        exchange_scratch_end(x);
    if (!exchange_gone(x)) {
        if (x->reply != REPLY_ENDED && (x->request || exchange_is_stream(x)))
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

static void same_finish(struct http_thread *thread, uint64_t same)
{
    struct exchange *first = NULL, **end = &first, *next;
    for (struct exchange *x = thread->waiting_compile.first; x; x = next) {
        next = x->waiting_next;
        if (x->job.same != same)
            continue;
        wait_end(x);
        x->waiting_next = NULL;
        *end = x;
        end = &x->waiting_next;
    }
    for (; first; first = next) {
        next = first->waiting_next;
        finish(first); // may wait again
    }
}

static void work_done(struct exchange *x)
{
    struct http_thread *thread = x->thread;
    uint64_t same = x->job.compiles ? x->job.same : 0;
    body_return(x);
    thread->alone_out = thread->alone_out && !x->job.alone;
    if (x->job.compiles)
        thread->compiling = NULL;
    finish(x); // x may be gone
    if (same != 0)
        same_finish(thread, same);
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
    if (x->job.compiles)
        repeats_pass(x);
    x->offloaded = false;
    x->job.done(x);
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
    bool waits = x->waiting_link && x->job.compiles && !exchange_gone(x);
    bool is_late = waits && x->info.deadline_ns != 0 && now > x->info.deadline_ns;
    bool is_long = waits && now > x->compile_ns + most_ns;
    if (is_late || is_long)
        exchange_cut(x, is_late ? &timeout : &busy);
    return is_late || is_long;
}

bool offload_is_idle(const struct http_thread *thread)
{
    for (uint32_t size = 0; size < WORK_SIZES_MAX; size++)
        if (thread->waiting[size].first)
            return false;
    return !thread->waiting_alone.first && !thread->waiting_compile.first &&
           work_out(thread->work) == 0;
}
