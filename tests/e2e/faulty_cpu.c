// SPDX-License-Identifier: Apache-2.0
// The CPU device with faults that a test turns on and off by files in the folder WEFT_FAULT_FOLDER.
// WEFT_STEP_MS sets the deadline of a step and WEFT_START_MS that of a start, in milliseconds.
// Linked into weft_faulty_cpu with --wrap:
//   hang   rank 1 of two ranks waits in a product until the file is removed
//   slow   each product of that rank takes 20 ms longer
//   curl   libcurl's transfers fail
//   cut    a link to a file, which the next upload of a weight cuts to CUT_BYTES; removes the link
// libcurl gives up a connection after a second.
// The program creates the file hang.reached when rank 1 waits.
//
// While a fault of this file or of faulty_device.c blocks a thread, no test waits for a deadline:
// if no other thread can run, the thread that sleeps until a time (futex_sleep) wakes immediately,
// and CLOCK_MONOTONIC has advanced to that time.
#include "base/clock.h"
#include "cli/load.h"
#include "kernels/device.h"
#include "scheduler/engine.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const struct device_api *__real_device_cpu(void); // NOLINT: the linker's names
const struct device_api *__wrap_device_cpu(void); // NOLINT
enum status __real_engine_open(struct engine **out, struct model *model, // NOLINT
                               const struct engine_options *options, struct error *err);
enum status __wrap_engine_open(struct engine **out, struct model *model, // NOLINT
                               const struct engine_options *options, struct error *err);

enum { POLL_US = 10000, SLOW_US = 20000, LOOK_NS = 3000000, SECOND_NS = 1000000000 };
enum { CUT_BYTES = 4096 };

static const struct device *odd_device; // device of rank 1 of two ranks
static const struct stream *odd_stream; // stream of the last model on that device

static const char *path_of(const char *name)
{
    static _Thread_local char path[PATH_MAX];
    const char *folder = getenv("WEFT_FAULT_FOLDER");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", name);
    return path;
}

static enum status faulty_gemm(struct stream *stream, const struct gemm_args *args)
{
    while (stream == odd_stream && access(path_of("hang"), F_OK) == 0) {
        int fd = open(path_of("hang.reached"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
        usleep(POLL_US);
    }
    if (stream == odd_stream && access(path_of("slow"), F_OK) == 0)
        usleep(SLOW_US);
    return __real_device_cpu()->ops->gemm(stream, args);
}

static enum status faulty_open(struct device **out, const struct device_options *options,
                               struct error *err)
{
    enum status status = __real_device_cpu()->open(out, options, err);
    if (options->parent && options->index == 1 && options->ranks == 2)
        odd_device = *out;
    return status;
}

static enum status faulty_weight_put(struct device *device, struct weight *weight,
                                     uint32_t first_row, const struct weight_source *source,
                                     struct error *err)
{
    if (getenv("WEFT_FAULT_FOLDER") && truncate(path_of("cut"), CUT_BYTES) == 0)
        unlink(path_of("cut"));
    return __real_device_cpu()->weight_put(device, weight, first_row, source, err);
}

static enum status faulty_stream_open(struct device *device, struct stream **out,
                                      const struct stream_limits *limits, struct error *err)
{
    enum status status = __real_device_cpu()->stream_open(device, out, limits, err);
    if (device == odd_device)
        odd_stream = *out;
    return status;
}

const struct device_api *__wrap_device_cpu(void)
{
    static struct device_api api;
    static struct op_table ops;
    ops = *__real_device_cpu()->ops;
    ops.gemm = faulty_gemm;
    api = *__real_device_cpu();
    api.open = faulty_open;
    api.stream_open = faulty_stream_open;
    api.weight_put = faulty_weight_put;
    api.ops = &ops;
    return &api;
}

enum status __wrap_engine_open(struct engine **out, struct model *model,
                               const struct engine_options *options, struct error *err)
{
    struct engine_options own = *options;
    const char *step_ms = getenv("WEFT_STEP_MS");
    own.step_deadline_ns = step_ms ? strtoull(step_ms, NULL, 10) * 1000000 : 0;
    return __real_engine_open(out, model, &own, err);
}

enum status __real_devices_load(struct loaded *loaded, // NOLINT
                                const struct device_settings *settings,
                                const struct model_spec *specs, uint32_t count, struct error *err);
enum status __wrap_devices_load(struct loaded *loaded, // NOLINT
                                const struct device_settings *settings,
                                const struct model_spec *specs, uint32_t count, struct error *err);

enum status __wrap_devices_load(struct loaded *loaded, const struct device_settings *settings,
                                const struct model_spec *specs, uint32_t count, struct error *err)
{
    const char *start_ms = getenv("WEFT_START_MS");
    loaded->start_ns = start_ms ? strtoull(start_ms, NULL, 10) * 1000000 : 0;
    return __real_devices_load(loaded, settings, specs, count, err);
}

CURLMcode __real_curl_multi_perform(CURLM *multi, int *running); // NOLINT
CURLMcode __wrap_curl_multi_perform(CURLM *multi, int *running); // NOLINT

CURLMcode __wrap_curl_multi_perform(CURLM *multi, int *running)
{
    return access(path_of("curl"), F_OK) == 0 ? CURLM_INTERNAL_ERROR
                                              : __real_curl_multi_perform(multi, running);
}

CURLcode __real_curl_easy_setopt(CURL *easy, CURLoption option, ...); // NOLINT
CURLcode __wrap_curl_easy_setopt(CURL *easy, CURLoption option, ...); // NOLINT

CURLcode __wrap_curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
    va_list list;
    va_start(list, option);
    void *value = va_arg(list, void *);
    va_end(list);
    return option == CURLOPT_CONNECTTIMEOUT ? __real_curl_easy_setopt(easy, option, 1L)
                                            : __real_curl_easy_setopt(easy, option, value);
}

static _Atomic uint64_t skipped_ns; // time by which CLOCK_MONOTONIC is ahead of the system's clock

int __real_clock_gettime(clockid_t clock, struct timespec *now); // NOLINT
int __wrap_clock_gettime(clockid_t clock, struct timespec *now); // NOLINT

static void time_set(struct timespec *time, uint64_t ns)
{
    time->tv_sec = (time_t)(ns / SECOND_NS);
    time->tv_nsec = (long)(ns % SECOND_NS);
}

static uint64_t time_ns(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * SECOND_NS + (uint64_t)time->tv_nsec;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = __real_clock_gettime(clock, now);
    if (clock == CLOCK_MONOTONIC)
        time_set(now, time_ns(now) + atomic_load(&skipped_ns));
    return result;
}

__attribute__((visibility("default"))) uint64_t faulty_clock_ns(void);

// Returns the program's clock for faulty_device.c.
uint64_t faulty_clock_ns(void)
{
    return clock_ns();
}

// True while a fault blocks a thread: the files FAULT.reached and FAULT exist.
static bool is_held(void)
{
    static const char ending[] = ".reached";
    const char *folder = getenv("WEFT_FAULT_FOLDER");
    DIR *files = folder ? opendir(folder) : NULL;
    bool held = false;
    for (struct dirent *file; files && !held && (file = readdir(files));) {
        char *end = strstr(file->d_name, ending);
        if (end) {
            *end = '\0';
            held = access(path_of(file->d_name), F_OK) == 0;
        }
    }
    if (files)
        closedir(files);
    return held;
}

static bool is_asleep(const char *thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    const char *name_end = strrchr(text, ')');
    return !name_end || name_end[2] == 'S'; // no file: the thread has ended
}

// True if all threads except the caller sleep.
static bool others_sleep(void)
{
    DIR *threads = opendir("/proc/self/task");
    bool asleep = threads != NULL;
    long own = syscall(SYS_gettid);
    for (struct dirent *thread; asleep && (thread = readdir(threads));)
        if (thread->d_name[0] != '.' && strtol(thread->d_name, NULL, 10) != own)
            asleep = is_asleep(thread->d_name);
    if (threads)
        closedir(threads);
    return asleep;
}

long __real_syscall(long number, ...); // NOLINT
long __wrap_syscall(long number, ...); // NOLINT

// Waits on the futex until a time, in pieces of LOOK_NS, and skips the rest if a fault blocks a
// thread and all others sleep.
static long wait_until(long word, long operation, long value, const struct timespec *until)
{
    uint64_t until_ns = time_ns(until);
    for (;;) {
        struct timespec now, piece;
        uint64_t skipped = atomic_load(&skipped_ns);
        __real_clock_gettime(CLOCK_MONOTONIC, &now);
        uint64_t real_ns = time_ns(&now), end_ns = until_ns - skipped;
        time_set(&piece, real_ns + LOOK_NS < end_ns ? real_ns + LOOK_NS : end_ns);
        long result =
            __real_syscall(SYS_futex, word, operation, value, &piece, NULL, FUTEX_BITSET_MATCH_ANY);
        if (result == 0 || errno != ETIMEDOUT || real_ns + LOOK_NS >= end_ns)
            return result;
        if (is_held() && others_sleep() && until_ns > real_ns + skipped)
            atomic_compare_exchange_strong(&skipped_ns, &skipped, until_ns - real_ns);
    }
}

long __wrap_syscall(long number, ...)
{
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex && a[1] == FUTEX_WAIT_BITSET_PRIVATE && a[3] != 0) {
        struct timespec until;
        memcpy(&until, (const void *)a[3], sizeof until); // NOLINT: an address
        return wait_until(a[0], a[1], a[2], &until);
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
