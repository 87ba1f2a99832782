// SPDX-License-Identifier: Apache-2.0
// Communicators of the cuda device whose ranks are in two processes, with the emulator's stand-in
// for NCCL: the test program has rank 0, a child process ranks 1 and 2. Sums are bit-equal to those
// added in rank order, columns arrive in their places, plain and in graphs; a process that is
// killed or stopped ends the collective with the sentence of the link.
#include "base/clock.h"
#include "kernels/device.h"
#include "tests/simt/control.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

const struct device_api *weft_device_plugin(void);

// WIDTH: floats of a row; COUNT: elements of a sum, which need several pieces.
enum { RANKS = 3, ROWS = 3, VOCAB = 64, WIDTH = 70, COUNT = 5001 };
static const uint32_t ends[RANKS] = {11, 11, VOCAB}; // rank 1 has no columns
static const uint64_t LONG = 20000000000u;           // ns: far more than any step here takes
static const uint64_t SOON = 50000000;               // ns: timeout of a wait
static bool few;                                     // true: without the case that takes seconds

struct process {
    struct comm_link link;
    int socket;         // to the other process
    _Atomic bool knows; // true: link.failed reports the other process
    uint32_t count;     // ranks here
    struct device *device[RANKS];
    struct stream *stream[RANKS];
    struct comm *comm;
    uint32_t *word[RANKS];
    float *in[RANKS], *sums[RANKS], *rows[RANKS];
    float *host; // pinned: an output
    uint32_t passes;
};

static bool bytes_move(int fd, char *at, size_t bytes, bool writes)
{
    for (ssize_t done; bytes > 0; at += done, bytes -= (size_t)done)
        if ((done = writes ? write(fd, at, bytes) : read(fd, at, bytes)) <= 0)
            return false;
    return true;
}

// The process of rank 0 sends first.
static enum status exchange(void *context, void *pieces, const size_t piece_ends[RANKS_MAX])
{
    struct process *p = context;
    size_t split = piece_ends[0], end = piece_ends[RANKS - 1];
    char *at = pieces;
    bool first = p->link.first == 0;
    bool moved = bytes_move(p->socket, at, split, first) &&
                 bytes_move(p->socket, at + split, end - split, !first);
    return moved ? STATUS_OK : STATUS_DEVICE_FAULT;
}

static void link_abort(void *context)
{
    (void)context;
}

static bool link_failed(void *context, struct error *err)
{
    struct process *p = context;
    if (!atomic_load(&p->knows))
        return false;
    error_set(err, STATUS_DEVICE_FAULT, "the other process is lost");
    return true;
}

// Returns element i of a rank's input; sums of these depend on the order in which they are added.
static float value(uint32_t rank, uint32_t i)
{
    uint32_t x = i * 2654435761u + rank * 40503u + 7;
    x ^= x >> 15;
    x *= 0x2c1b3c6d;
    x ^= x >> 12;
    return ldexpf((float)(int32_t)x, (int)(x % 13) - 31);
}

static void process_open(struct process *p, uint32_t first, uint32_t count, int exact)
{
    const struct device_api *api = weft_device_plugin();
    struct error err = {0};
    struct stream_limits limits = {.step = {.rows_max = ROWS, .tokens_max = 8, .vocab = VOCAB},
                                   .width_max = 64,
                                   .sums_bytes = exact ? 0 : COUNT * sizeof(float)};
    void *host;
    p->link = (struct comm_link){p, first, RANKS, exchange, link_abort, link_failed};
    p->count = count;
    for (uint32_t r = 0; r < count; r++) {
        struct device_options options = {.index = r, .ranks = RANKS, .exact = exact};
        float numbers[COUNT];
        void *at[3];
        for (uint32_t i = 0; i < COUNT; i++)
            numbers[i] = value(first + r, i);
        check(api->open(&p->device[r], &options, &err) == STATUS_OK &&
                  api->stream_open(p->device[r], &p->stream[r], &limits, &err) == STATUS_OK &&
                  api->host_alloc(p->device[r], &host, 256, &err) == STATUS_OK,
              "%s", err.text);
        p->word[r] = host;
        for (int i = 0; i < 3; i++)
            check(api->memory_alloc(p->device[r], &at[i], COUNT * 4, &err) == STATUS_OK, "%s",
                  err.text);
        p->in[r] = at[0];
        p->sums[r] = at[1];
        p->rows[r] = at[2];
        check(api->upload(p->device[r], p->in[r], numbers, sizeof numbers, &err) == STATUS_OK, "%s",
              err.text);
    }
    check(api->host_alloc(p->device[0], &host, COUNT * 4, &err) == STATUS_OK, "%s", err.text);
    p->host = host;
    check(api->comm_open(&p->comm, p->stream, count, &p->link, &err) == STATUS_OK, "%s", err.text);
}

static void process_close(struct process *p)
{
    const struct device_api *api = weft_device_plugin();
    api->comm_close(p->comm);
    api->host_free(p->device[0], p->host, COUNT * 4);
    for (uint32_t r = 0; r < p->count; r++) {
        api->stream_close(p->stream[r]);
        api->host_free(p->device[r], p->word[r], 256);
        api->memory_free(p->device[r], p->in[r], COUNT * 4);
        api->memory_free(p->device[r], p->sums[r], COUNT * 4);
        api->memory_free(p->device[r], p->rows[r], COUNT * 4);
        api->close(p->device[r]);
    }
}

static enum status collectives_call(struct process *p, uint32_t r)
{
    const struct device_api *api = weft_device_plugin();
    struct all_reduce_args sums = {DTYPE_F32, p->in[r], p->sums[r], COUNT, RANKS, false};
    struct all_gather_args columns = {
        .in = p->in[r], .out = p->rows[r], .rows = ROWS, .stride = WIDTH, .ranks = RANKS};
    memcpy(columns.ends, ends, sizeof ends);
    enum status status = api->ops->all_reduce(p->stream[r], &sums);
    return status == STATUS_OK ? api->ops->all_gather(p->stream[r], &columns) : status;
}

static enum status pass_wait(struct process *p, uint32_t r, uint64_t ns, struct error *err)
{
    return weft_device_plugin()->wait(p->stream[r], p->word[r], p->passes, clock_ns() + ns, err);
}

// Runs both collectives of all ranks here, plain or recorded; returns the status of the last wait.
static enum status pass_run(struct process *p, bool recorded, uint64_t ns, struct error *err)
{
    const struct device_api *api = weft_device_plugin();
    struct graph *graph[RANKS] = {NULL};
    enum status status = STATUS_OK;
    p->passes++;
    for (uint32_t r = 0; r < p->count; r++) {
        api->thread_begin(p->stream[r]);
        check(!recorded || api->graph_begin(p->stream[r]) == STATUS_OK, "recording");
        check(collectives_call(p, r) == STATUS_OK, "a collective");
        check(!recorded || (api->graph_end(p->stream[r], &graph[r], err) == STATUS_OK &&
                            api->graph_launch(p->stream[r], graph[r]) == STATUS_OK),
              "a graph");
        check(api->signal(p->stream[r], p->word[r], p->passes) == STATUS_OK, "a signal");
    }
    for (uint32_t r = 0; r < p->count && status == STATUS_OK; r++)
        status = pass_wait(p, r, ns, err);
    for (uint32_t r = 0; r < p->count; r++)
        api->graph_close(graph[r]);
    return status;
}

static const float *output(struct process *p, uint32_t r, const float *at)
{
    const struct device_api *api = weft_device_plugin();
    struct error err;
    api->thread_begin(p->stream[r]);
    check(api->copy_out(p->stream[r], p->host, at, COUNT * 4) == STATUS_OK &&
              api->signal(p->stream[r], p->word[r], ++p->passes) == STATUS_OK &&
              pass_wait(p, r, LONG, &err) == STATUS_OK,
          "an output");
    return p->host;
}

// Returns the number of wrong elements.
static uint32_t outputs_compare(struct process *p, bool exact)
{
    uint32_t wrong = 0;
    for (uint32_t r = 0; r < p->count; r++) {
        const float *got = output(p, r, p->sums[r]);
        for (uint32_t i = 0; i < COUNT; i++) {
            float sum = value(0, i) + value(1, i) + value(2, i);
            float size = fabsf(value(0, i)) + fabsf(value(1, i)) + fabsf(value(2, i));
            wrong += exact ? memcmp(&sum, &got[i], sizeof sum) != 0
                           : !(fabsf(got[i] - sum) <= 1e-6f * size);
        }
        got = output(p, r, p->rows[r]);
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t c = 0; c < VOCAB; c++) {
                uint32_t from = c < ends[0] ? 0 : 2, first = from > 0 ? ends[1] : 0;
                wrong +=
                    got[row * WIDTH + c] != value(from, row * (ends[from] - first) + c - first);
            }
    }
    return wrong;
}

// The calls of each process: twice plain, twice recorded.
static uint32_t process_run(struct process *p, bool exact)
{
    uint32_t wrong = 0;
    struct error err = {0};
    for (int pass = 0; pass < 4; pass++) {
        wrong += pass_run(p, pass >= 2, LONG, &err) != STATUS_OK;
        wrong += outputs_compare(p, exact);
    }
    return wrong + (simt_first_report()[0] != '\0');
}

// Version of NCCL in the child, and number of its windows; 0: it calls other collectives.
static uint32_t child_version, child_windows;
static uint32_t sums_run(struct process *p, uint64_t windows);

struct child {
    pid_t pid;
    int socket;
};

// Starts the process with ranks 1 and 2, which runs its collectives, or only joins and then waits.
static struct child child_start(int exact, bool runs)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        close(pair[1]);
        return (struct child){pid, pair[0]};
    }
    static struct process p;
    close(pair[0]);
    p.socket = pair[1];
    if (child_version > 0)
        simt_configure(&(struct simt_options){.devices = 7, .nccl_version = child_version});
    process_open(&p, 1, 2, exact);
    while (!runs)
        pause();
    uint32_t wrong = child_version > 0 ? sums_run(&p, child_windows) : process_run(&p, exact);
    process_close(&p);
    _exit(wrong > 0);
}

static void test_ranks_of_two_processes(void **state)
{
    (void)state;
    for (int exact = 0; exact <= 1; exact++) {
        static struct process p;
        int status;
        struct child child = child_start(exact, true);
        p = (struct process){.socket = child.socket};
        process_open(&p, 0, 1, exact);
        assert_int_equal(process_run(&p, exact), 0);
        process_close(&p);
        assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(child.socket);
    }
}

// Sums the inputs in the streams' buffers. Returns the number of wrong elements; `windows` must be
// the number of windows of this process.
static uint32_t sums_run(struct process *p, uint64_t windows)
{
    const struct device_api *api = weft_device_plugin();
    struct simt_counts counts;
    struct error err = {0};
    uint32_t wrong = 0;
    simt_read(&counts);
    wrong += counts.nccl_windows != windows;
    simt_reset();
    p->passes++;
    for (uint32_t r = 0; r < p->count; r++) {
        float numbers[COUNT];
        struct all_reduce_args args = {.act = DTYPE_F32,
                                       .out = api->sums_buffer(p->stream[r]),
                                       .count = COUNT,
                                       .ranks = RANKS,
                                       .in_place = true};
        for (uint32_t i = 0; i < COUNT; i++)
            numbers[i] = value(p->link.first + r, i);
        api->thread_begin(p->stream[r]);
        wrong += api->upload(p->device[r], args.out, numbers, sizeof numbers, &err) != STATUS_OK ||
                 api->ops->all_reduce(p->stream[r], &args) != STATUS_OK ||
                 api->signal(p->stream[r], p->word[r], p->passes) != STATUS_OK;
    }
    for (uint32_t r = 0; r < p->count; r++)
        wrong += pass_wait(p, r, LONG, &err) != STATUS_OK;
    for (uint32_t r = 0; r < p->count; r++) {
        const float *got = output(p, r, api->sums_buffer(p->stream[r]));
        for (uint32_t i = 0; i < COUNT; i++) {
            float sum = value(0, i) + value(1, i) + value(2, i);
            float size = fabsf(value(0, i)) + fabsf(value(1, i)) + fabsf(value(2, i));
            wrong += !(fabsf(got[i] - sum) <= 1e-6f * size);
        }
    }
    simt_read(&counts);
    return wrong + (counts.nccl_windowed != windows) + (simt_first_report()[0] != '\0');
}

// A process with an older library has no windows, and then no other has any.
static void test_windows_of_two_processes(void **state)
{
    (void)state;
    static const struct {
        uint32_t version[2];
        bool windows;
    } rows[] = {{{22800, 22800}, true}, {{22800, 22609}, false}, {{22609, 22703}, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct process p;
        int status;
        child_version = rows[i].version[1];
        child_windows = rows[i].windows ? 2 : 0;
        struct child child = child_start(0, true);
        simt_configure(&(struct simt_options){.devices = 7, .nccl_version = rows[i].version[0]});
        p = (struct process){.socket = child.socket};
        process_open(&p, 0, 1, 0);
        assert_int_equal(sums_run(&p, rows[i].windows), 0);
        process_close(&p);
        assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(child.socket);
    }
    child_version = 0;
    simt_configure(&(struct simt_options){.devices = 7});
}

static void *link_learns(void *argument)
{
    struct process *p = argument;
    usleep(100000);
    atomic_store(&p->knows, true);
    return NULL;
}

// A process that is stopped is no fault until the link reports it. One that is killed is an error
// of NCCL at once, but the link gets time to name it.
static void test_a_lost_process_ends_the_collective(void **state)
{
    (void)state;
    static const struct {
        int signal;
        bool knows;
        const char *text;
    } rows[] = {{SIGSTOP, true, "the other process is lost"},
                {SIGKILL, true, "the other process is lost"},
                {SIGKILL, false,
                 "rank 0 of 3: NCCL reports: remote process exited or there was a network error"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows - few; i++) {
        static struct process p;
        struct error err = {0};
        pthread_t thread;
        struct child child = child_start(1, false);
        p = (struct process){.socket = child.socket};
        process_open(&p, 0, 1, 1);
        assert_int_equal(kill(child.pid, rows[i].signal), 0);
        assert_int_equal(pass_run(&p, false, SOON, &err), STATUS_TIMEOUT);
        if (rows[i].knows)
            assert_int_equal(pthread_create(&thread, NULL, link_learns, &p), 0);
        assert_int_equal(pass_wait(&p, 0, LONG, &err), STATUS_DEVICE_FAULT);
        assert_string_equal(err.text, rows[i].text);
        if (rows[i].knows)
            pthread_join(thread, NULL);
        weft_device_plugin()->comm_abort(p.comm);
        assert_int_equal(pass_wait(&p, 0, LONG, &err), STATUS_DEVICE_FAULT);
        process_close(&p);
        assert_string_equal(simt_first_report(), "");
        kill(child.pid, SIGKILL);
        waitpid(child.pid, NULL, 0);
        close(child.socket);
    }
}

// An argument: without the case that takes seconds.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_two_processes),
        cmocka_unit_test(test_windows_of_two_processes),
        cmocka_unit_test(test_a_lost_process_ends_the_collective),
    };
    (void)argv;
    few = argc > 1;
    return cmocka_run_group_tests_name("comm_link", tests, NULL, NULL);
}
