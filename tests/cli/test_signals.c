// SPDX-License-Identifier: Apache-2.0
// Signals of a server in each phase, each test in a process of its own: which signals are reported
// to main, which end the process, with which exit code and log line.
#include "cli/signals.h"

#include "base/log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAIT_S = 120, FAR_MS = WAIT_S * 1000, APART_US = 150000, GONE_ON = 42 };

static void lost(void *context)
{
    log_line(LOG_ERROR, "lost: %s", (const char *)context);
}

static struct signals *signals_of(void)
{
    struct signals *signals;
    struct error err;
    if (signals_open(&signals, lost, "three", &err) != STATUS_OK)
        _exit(99);
    return signals;
}

static void send_apart(int number)
{
    kill(getpid(), number);
    usleep(APART_US);
}

// Waits until all of these news have arrived, in any number of wakes.
static void wait_for(struct signals *signals, uint32_t wanted)
{
    for (uint32_t news = 0; news != wanted;) {
        news |= signals_wait(signals, FAR_MS);
        if (news & ~wanted)
            _exit(1);
    }
}

// Sends a stop and waits until main has read it. A later signal counts as a second one.
static void stop_first(struct signals *signals)
{
    kill(getpid(), SIGTERM);
    wait_for(signals, NEWS_STOP);
    usleep(APART_US);
}

static void stop_while_loading(void)
{
    (void)signals_of();
    send_apart(SIGTERM);
    pause();
}

static void interrupt_while_loading(void)
{
    (void)signals_of();
    send_apart(SIGINT);
    pause();
}

// A reload during loading is reported after loading.
static void reload_while_loading(void)
{
    struct signals *signals = signals_of();
    send_apart(SIGHUP);
    signals_serving(signals);
    _exit(signals_wait(signals, FAR_MS) == NEWS_RELOAD ? GONE_ON : 1);
}

static void stop_while_serving(void)
{
    struct signals *signals = signals_of();
    signals_serving(signals);
    send_apart(SIGTERM);
    _exit(signals_wait(signals, FAR_MS) == NEWS_STOP ? GONE_ON : 1);
}

static void news_come_together(void)
{
    struct signals *signals = signals_of();
    signals_serving(signals);
    send_apart(SIGHUP);
    send_apart(SIGINT);
    signals_post(signals, NEWS_FAULT);
    wait_for(signals, NEWS_STOP | NEWS_RELOAD | NEWS_FAULT);
    _exit(GONE_ON);
}

// News that were read are not reported again; a wait ends without news.
static void news_come_once(void)
{
    struct signals *signals = signals_of();
    signals_serving(signals);
    signals_post(signals, NEWS_FAULT);
    bool first = signals_wait(signals, FAR_MS) == NEWS_FAULT && signals_wait(signals, 1) == 0;
    send_apart(SIGHUP);
    _exit(first && signals_wait(signals, FAR_MS) == NEWS_RELOAD ? GONE_ON : 1);
}

static void stop_twice(void)
{
    struct signals *signals = signals_of();
    signals_serving(signals);
    stop_first(signals);
    kill(getpid(), SIGINT);
    pause();
}

static void stop_twice_at_once(void)
{
    struct signals *signals = signals_of();
    signals_serving(signals);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    usleep(APART_US);
    _exit(signals_wait(signals, FAR_MS) == NEWS_STOP ? GONE_ON : 1);
}

static void stop_while_closing(void)
{
    struct signals *signals = signals_of();
    signals_serving(signals);
    stop_first(signals);
    signals_closing(signals);
    kill(getpid(), SIGTERM);
    pause();
}

static void reload_while_draining(void)
{
    struct signals *signals = signals_of();
    signals_serving(signals);
    send_apart(SIGTERM);
    send_apart(SIGHUP);
    wait_for(signals, NEWS_STOP | NEWS_RELOAD);
    _exit(GONE_ON);
}

struct life {
    void (*run)(void);
    int code;
    const char *says, *lacks;
};

// Runs `life` in a child. Returns true if it ended as expected; its stderr is in the buffer.
static bool lived(const struct life *life, char *said, size_t room)
{
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        alarm(WAIT_S);
        life->run();
        _exit(98);
    }
    close(ends[1]);
    size_t bytes = 0;
    for (ssize_t got;
         bytes < room - 1 && (got = read(ends[0], said + bytes, room - 1 - bytes)) > 0;)
        bytes += (size_t)got;
    said[bytes] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == life->code && strstr(said, life->says) &&
           !(life->lacks && strstr(said, life->lacks));
}

static void life_check(const struct life *life)
{
    char said[4096];
    if (!lived(life, said, sizeof said))
        fail_msg("%s", said);
}

static void test_while_loading(void **state)
{
    static const struct life lives[] = {
        {stop_while_loading, 0, " info Terminated: stopped while the models were being loaded\n",
         "lost"},
        {interrupt_while_loading, 0, " info Interrupt: stopped while the models were", "lost"},
        {reload_while_loading, GONE_ON, "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++)
        life_check(&lives[i]);
}

static void test_while_serving(void **state)
{
    static const struct life lives[] = {
        {stop_while_serving, GONE_ON,
         " info Terminated: finishing the accepted requests; a second signal ends the process "
         "immediately\n",
         "lost"},
        {news_come_together, GONE_ON, "Interrupt: finishing", NULL},
        {news_come_once, GONE_ON, "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++)
        life_check(&lives[i]);
}

static void test_a_second_stop(void **state)
{
    static const struct life lives[] = {
        {stop_twice, 1, " error Interrupt for the second time: ending immediately\n", NULL},
        {stop_twice, 1, " error lost: three\n", "all requests were answered"},
        {stop_while_closing, 1,
         " error Terminated for the second time: ending immediately, all requests were answered\n",
         "lost"},
        {reload_while_draining, GONE_ON, "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++)
        life_check(&lives[i]);
}

// Two stops within a tenth of a second count as one. A delayed machine may miss that time, so the
// test is repeated.
static void test_the_same_stop_twice(void **state)
{
    static const struct life life = {stop_twice_at_once, GONE_ON, "finishing the accepted requests",
                                     "second time"};
    (void)state;
    char said[4096];
    for (int tries = 0; !lived(&life, said, sizeof said); tries++)
        if (tries == 20)
            fail_msg("%s", said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_while_loading),
        cmocka_unit_test(test_while_serving),
        cmocka_unit_test(test_a_second_stop),
        cmocka_unit_test(test_the_same_stop_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
