// SPDX-License-Identifier: Apache-2.0
// libweft_faulty.so: the emulated device (libweft_simt.so in the same folder) with faults that a
// test turns on and off by files in the folder WEFT_FAULT_FOLDER:
//   load   the upload of a weight waits until the file is removed
//   slow   each wait for the device takes 20 ms longer
//   hang   a wait for the device does not return until the file is removed
//   stuck  a wait for the device fails with a timeout, and closing the device blocks
//   full   the same as stuck, after the program failed to write to its stdout
//   fault  a wait for the device fails with a device fault
//   still  an engine that starts or stops having work waits there, between steps
//   late   a collective does not start until the file is removed
//   join   the communicator of a model's ranks does not open until the file is removed
//   heavy  each weight takes half a second longer, by the clock of faulty_cpu.c (of the system
//          in another program)
// load, slow, fault and late can be limited to one device: fault.1 applies to device 1.
// weft loads this library with --device simt --device-library.
#include "base/clock.h"
#include "kernels/device.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POLL_US = 10000, SLOW_US = 20000, OPENED_MAX = 256 };
enum { HEAVY_NS = 500000000, PIECE_NS = 5000000 };

static const struct device_api *real;

static const char *path_of(const char *fault, const char *ending)
{
    static _Thread_local char path[PATH_MAX];
    const char *folder = getenv("WEFT_FAULT_FOLDER");
    snprintf(path, sizeof path, "%s/%s%s", folder ? folder : "", fault, ending);
    return path;
}

static bool is_on(const char *fault)
{
    return access(path_of(fault, ""), F_OK) == 0;
}

// Devices and streams with their device numbers. Written during loading, by one thread.
static struct {
    const void *at;
    uint32_t device;
} opened[OPENED_MAX];
static uint32_t opened_count;

static void opened_put(const void *at, uint32_t device)
{
    for (uint32_t i = 0; i < opened_count; i++)
        if (opened[i].at == at) { // freed and allocated again
            opened[i].device = device;
            return;
        }
    if (opened_count < OPENED_MAX) {
        opened[opened_count].at = at;
        opened[opened_count++].device = device;
    }
}

static uint32_t device_of(const void *at)
{
    for (uint32_t i = 0; i < opened_count; i++)
        if (opened[i].at == at)
            return opened[i].device;
    return 0;
}

struct fault_name {
    char text[32];
};

static struct fault_name name_of(const char *fault, const struct stream *stream)
{
    struct fault_name name;
    snprintf(name.text, sizeof name.text, "%s.%u", fault, device_of(stream));
    return name;
}

static bool is_on_of(const char *fault, const struct stream *stream)
{
    return is_on(fault) || is_on(name_of(fault, stream).text);
}

static enum status faulty_open(struct device **out, const struct device_options *options,
                               struct error *err)
{
    enum status status = real->open(out, options, err);
    if (status == STATUS_OK)
        opened_put(*out, options->index);
    return status;
}

static enum status faulty_stream_open(struct device *device, struct stream **out,
                                      const struct stream_limits *limits, struct error *err)
{
    enum status status = real->stream_open(device, out, limits, err);
    if (status == STATUS_OK)
        opened_put(*out, device_of(device));
    return status;
}

// Creates the file NAME.reached, which shows the test that the fault occurred.
static void reached(const char *fault)
{
    int fd = open(path_of(fault, ".reached"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

static _Atomic uint32_t held; // threads in wait_while

static void wait_while(const char *fault)
{
    if (!is_on(fault))
        return;
    reached(fault);
    atomic_fetch_add(&held, 1);
    while (is_on(fault))
        usleep(POLL_US);
    atomic_fetch_sub(&held, 1);
}

// Waits HEAVY_NS by the clock of the program, which advances faster while a fault holds a thread.
static void time_pass(void)
{
    uint64_t (*clock)(void) = clock_ns;
    void *symbol = dlsym(RTLD_DEFAULT, "faulty_clock_ns");
    if (symbol)
        memcpy(&clock, &symbol, sizeof clock);
    reached("heavy");
    for (uint64_t until_ns = clock() + HEAVY_NS; clock() < until_ns;)
        usleep(1000);
}

static enum status faulty_weight_put(struct device *device, struct weight *weight,
                                     uint32_t first_row, const struct weight_source *source,
                                     struct error *err)
{
    char own[32];
    snprintf(own, sizeof own, "load.%u", device_of(device));
    wait_while("load");
    wait_while(own);
    if (is_on("heavy"))
        time_pass();
    return real->weight_put(device, weight, first_row, source, err);
}

static enum status faulty_comm_open(struct comm **out, struct stream *const *streams,
                                    uint32_t count, const struct comm_link *link, struct error *err)
{
    wait_while("join");
    return real->comm_open(out, streams, count, link, err);
}

static enum status planted(enum status status, struct error *err)
{
    err->status = status;
    snprintf(err->text, sizeof err->text, "a fault that the test has planted");
    return status;
}

static bool is_stuck(void)
{
    return is_on("stuck") || (is_on("full") && ferror(stdout));
}

// The wait of the emulated device needs a processor all the time. While a fault holds another rank
// the caller sleeps most of the time, so that faulty_cpu.c finds no thread that can run.
static enum status wait_in_pieces(struct stream *stream, const uint32_t *host_word, uint32_t value,
                                  uint64_t deadline_ns, struct error *err)
{
    for (;;) {
        uint64_t piece_ns = clock_ns() + PIECE_NS;
        bool last = deadline_ns <= piece_ns;
        enum status status =
            real->wait(stream, host_word, value, last ? deadline_ns : piece_ns, err);
        if (status != STATUS_TIMEOUT || last)
            return status;
        if (atomic_load(&held) > 0)
            usleep(POLL_US);
    }
}

static enum status faulty_wait(struct stream *stream, const uint32_t *host_word, uint32_t value,
                               uint64_t deadline_ns, struct error *err)
{
    if (is_on_of("fault", stream)) // works while another engine hangs
        return planted(STATUS_DEVICE_FAULT, err);
    if (is_stuck()) {
        reached("stuck");
        return planted(STATUS_TIMEOUT, err);
    }
    wait_while("hang");
    if (is_on_of("slow", stream))
        usleep(SLOW_US);
    return wait_in_pieces(stream, host_word, value, deadline_ns, err);
}

static void faulty_close(struct device *device)
{
    while (is_stuck())
        usleep(POLL_US);
    real->close(device);
}

static enum status faulty_all_reduce(struct stream *stream, const struct all_reduce_args *args)
{
    wait_while("late");
    wait_while(name_of("late", stream).text);
    return real->ops->all_reduce(stream, args);
}

static void faulty_slot_announce(struct stream *stream, bool more)
{
    (void)stream; // the emulated device has no slot
    (void)more;
    wait_while("still");
}

__attribute__((visibility("default"))) device_plugin_entry weft_device_plugin;

const struct device_api *weft_device_plugin(void)
{
    static struct device_api api;
    static struct op_table ops;
    Dl_info self;
    char path[PATH_MAX];
    if (dladdr(&real, &self) == 0)
        return NULL;
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(path, sizeof path, "%.*slibweft_simt.so",
             slash ? (int)(slash - self.dli_fname + 1) : 0, self.dli_fname);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, DEVICE_PLUGIN_SYMBOL) : NULL;
    if (!symbol)
        return NULL;
    device_plugin_entry *entry;
    memcpy(&entry, &symbol, sizeof entry);
    real = entry();
    if (!real)
        return NULL;
    ops = *real->ops;
    ops.all_reduce = faulty_all_reduce;
    api = *real;
    api.ops = &ops;
    api.open = faulty_open;
    api.close = faulty_close;
    api.stream_open = faulty_stream_open;
    api.weight_put = faulty_weight_put;
    api.comm_open = faulty_comm_open;
    api.wait = faulty_wait;
    api.device_slot_announce = faulty_slot_announce;
    return &api;
}
