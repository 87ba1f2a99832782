// The CPU device with faults that a test turns on and off by files in the folder WEFT_FAULT_FOLDER,
// and engines whose steps may take WEFT_STEP_MS milliseconds, their start WEFT_START_MS; linked
// into weft_faulty_cpu by --wrap:
//   hang   rank 1 of two stands in a product until the file is gone
//   curl   libcurl's transfers fail
// The file hang.reached tells the test that it does.
#include "cli/load.h"
#include "kernels/device.h"
#include "scheduler/engine.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const struct device_api *__real_device_cpu(void); // NOLINT: the linker's names
const struct device_api *__wrap_device_cpu(void); // NOLINT
enum status __real_engine_open(struct engine **out, struct model *model, // NOLINT
                               const struct engine_options *options, struct error *err);
enum status __wrap_engine_open(struct engine **out, struct model *model, // NOLINT
                               const struct engine_options *options, struct error *err);

enum { POLL_US = 10000 };

static const struct device *odd_device; // rank 1 of two
static const struct stream *odd_stream; // of the last model on it

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
