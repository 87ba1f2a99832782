// SPDX-License-Identifier: Apache-2.0
// Waits for signals; see signals.h. The thread runs as long as the process.
#include "cli/signals.h"

#include "cli/command.h"
#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPEATED_STOP_NS = 100000000 };

enum phase { PHASE_LOADING, PHASE_SERVING, PHASE_DRAINING, PHASE_CLOSING };

struct signals {
    sigset_t set;
    pthread_mutex_t lock;
    pthread_cond_t there;
    uint32_t news; // bits of enum news that main has not read
    enum phase phase;
    uint64_t stopped_ns; // when the first SIGTERM or SIGINT was received; 0: none
    void (*unanswered_log)(void *context);
    void *context;
};

_Noreturn void process_end(int code)
{
    log_end(LAST_LINES_MS);
    _exit(code);
}

_Noreturn void start_failed(const struct error *err)
{
    if (log_format_get() == LOG_JSON)
        log_line(LOG_ERROR, "%s", err->text);
    else
        log_text("weft: %s\n", safe_of(text_of(err->text)).at);
    process_end(EXIT_CODE_FAILURE);
}

static void news_put(struct signals *s, enum news news)
{
    s->news |= news;
    pthread_cond_signal(&s->there);
}

// Returns true for a stop signal within 100 ms of the first: some senders, such as `timeout` of
// coreutils, signal the process and then its process group.
static bool is_repeated_stop(struct signals *s)
{
    uint64_t now = clock_ns();
    if (s->stopped_ns == 0)
        s->stopped_ns = now;
    else if (now - s->stopped_ns < REPEATED_STOP_NS)
        return true;
    return false;
}

static void stop_handle(struct signals *s, const char *name)
{
    if (is_repeated_stop(s))
        return;
    switch (s->phase) {
    case PHASE_LOADING:
        log_line(LOG_INFO, "%s: stopped while the models were being loaded", name);
        process_end(EXIT_CODE_OK);
    case PHASE_SERVING:
        log_line(
            LOG_INFO,
            "%s: finishing the accepted requests; a second signal ends the process immediately",
            name);
        s->phase = PHASE_DRAINING;
        news_put(s, NEWS_STOP);
        return;
    case PHASE_DRAINING:
        log_line(LOG_ERROR, "%s for the second time: ending immediately", name);
        s->unanswered_log(s->context);
        process_end(EXIT_CODE_FAILURE);
    case PHASE_CLOSING:
        log_line(LOG_ERROR,
                 "%s for the second time: ending immediately, all requests were answered", name);
        process_end(EXIT_CODE_FAILURE);
    }
}

static void *signals_main(void *argument)
{
    struct signals *s = argument;
    pthread_setname_np(pthread_self(), "signals");
    for (;;) {
        int signal = 0;
        if (sigwait(&s->set, &signal) != 0)
            continue;
        pthread_mutex_lock(&s->lock);
        if (signal == SIGHUP)
            news_put(s, NEWS_RELOAD);
        else
            stop_handle(s, strsignal(signal));
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

enum status signals_open(struct signals **out, void (*unanswered_log)(void *context), void *context,
                         struct error *err)
{
    static struct signals s = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s.there, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s.unanswered_log = unanswered_log;
    s.context = context;
    sigemptyset(&s.set);
    sigaddset(&s.set, SIGTERM);
    sigaddset(&s.set, SIGINT);
    sigaddset(&s.set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &s.set, NULL);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, signals_main, &s);
    if (failed != 0)
        return error_thread(err, failed, "the thread for signals");
    pthread_detach(thread);
    *out = &s;
    return STATUS_OK;
}

static void phase_set(struct signals *s, enum phase phase)
{
    pthread_mutex_lock(&s->lock);
    s->phase = phase;
    pthread_mutex_unlock(&s->lock);
}

void signals_serving(struct signals *s)
{
    phase_set(s, PHASE_SERVING);
}

void signals_closing(struct signals *s)
{
    phase_set(s, PHASE_CLOSING);
}

void signals_post(struct signals *s, enum news news)
{
    pthread_mutex_lock(&s->lock);
    news_put(s, news);
    pthread_mutex_unlock(&s->lock);
}

uint32_t signals_wait(struct signals *s, uint32_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&s->lock);
    for (int late = 0; s->news == 0 && late == 0;)
        late = pthread_cond_timedwait(&s->there, &s->lock, &until);
    uint32_t news = s->news;
    s->news = 0;
    pthread_mutex_unlock(&s->lock);
    return news;
}
