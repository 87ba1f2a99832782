// SPDX-License-Identifier: Apache-2.0
// A stand-in for the CUDA runtime: memory, streams, events, copies and graphs, on the host.
//
// A stream is a queue of closures. By default each runs when it is pushed. With the option `lazy`
// they run only when something waits, and streams run in random order, so that a missing event wait
// or a pinned buffer that is reused too early gives a wrong result. While a stream captures,
// closures are recorded, and a graph launch pushes them again. Calls that the driver refuses are
// refused: waiting for a stream that captures, pageable memory in a capture, allocating in the
// stricter capture modes, a launch on another device's stream. Every result except success,
// including "not ready", becomes the thread's last error. The default stream waits for streams made
// without cudaStreamNonBlocking, and they wait for it; other streams do not. The option fail_at
// makes one call fail that a driver may refuse. Known gap: no fork and join inside a capture.
#include "emu.h"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <thread>
#include <unordered_set>

namespace simt
{
extern simt_counts counts;
const char *device_title = "simt: the CUDA sources emulated";
} // namespace simt
using namespace simt;

namespace
{

const size_t BYTES_MAX = (size_t)1 << 40; // largest allocation
const uint32_t RANKS_PATIENCE = 1200000;  // pauses of 0.1 ms for which a rank may be late

struct event_state {
    bool done;
    bool captured;     // true: recorded in a capture, so nothing outside the graph may wait for it
    double product_ms; // emulated time of products until then; no other time is emulated
};
struct piece {
    std::function<void()> work;
    std::function<bool()> ready; // if set, the stream stops here until it returns true
    bool joint;                  // true: other streams, perhaps of other threads, make it ready
};
struct node {
    std::function<void()> work;
    std::function<joint()> make; // set instead of `work`
};
struct graph {
    std::vector<node> pieces;
    bool kernel_last;
};
struct stream_state {
    std::deque<piece> queue;
    std::unique_ptr<graph> capture;
    enum cudaStreamCaptureMode mode; // mode of the capture
    bool invalid;                    // true: a forbidden call has invalidated the capture
    std::thread::id owner;           // thread that began the capture
    bool running;                    // true while a piece of its work runs
    bool non_blocking;               // true: made with cudaStreamNonBlocking
    bool kernel_last;                // true if the work that was pushed last is a kernel
    int device;
};
struct event_handle {
    std::shared_ptr<event_state> state;
};

std::vector<stream_state *> streams;
stream_state default_stream;
thread_local cudaError_t last_error;
thread_local int device_now;
uint32_t stream_random = 12345;

stream_state *stream_of(cudaStream_t s)
{
    return s != nullptr ? (stream_state *)s : &default_stream;
}

cudaError_t fail(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t fault()
{
    return counts.reports != 0 ? fail(cudaErrorLaunchFailure) : cudaSuccess;
}

int major_of()
{
    return options.major != 0 ? (int)options.major : 9;
}

// Returns true if this is the call that the test makes fail.
bool refused()
{
    return ++counts.calls == options.fail_at;
}

// Returns true if a capture forbids this call to this thread; the call invalidates the capture.
bool capture_spoiled()
{
    bool spoiled = false;
    for (auto *s : streams)
        if (s->capture && (s->mode == cudaStreamCaptureModeGlobal ||
                           (s->mode == cudaStreamCaptureModeThreadLocal &&
                            s->owner == std::this_thread::get_id())))
            spoiled = s->invalid = true;
    return spoiled;
}

cudaError_t capture_spoil(stream_state *s)
{
    s->invalid = true;
    return fail(cudaErrorStreamCaptureUnsupported);
}

bool run_one(stream_state *s)
{
    if (s->running || s->queue.empty())
        return false;
    if (s->queue.front().ready && !s->queue.front().ready())
        return false;
    piece p = std::move(s->queue.front());
    s->queue.pop_front();
    s->running = true;
    memory_show(true);
    if (p.work)
        p.work();
    memory_show(false);
    s->running = false;
    return true;
}

bool run_any()
{
    stream_random ^= stream_random << 13;
    stream_random ^= stream_random >> 17;
    stream_random ^= stream_random << 5;
    size_t n = streams.size() + 1;
    for (size_t k = 0; k < n; k++) {
        size_t i = (k + (stream_random >> 16)) % n;
        if (run_one(i == streams.size() ? &default_stream : streams[i]))
            return true;
    }
    return false;
}

// Returns true if late ranks may still arrive, from other threads.
bool ranks_late()
{
    for (auto *s : streams)
        if (!s->queue.empty() && s->queue.front().joint)
            return true;
    return false;
}

void drain_until(const std::function<bool()> &reached)
{
    timespec pause = {0, 100000};
    uint32_t waited = 0;
    while (!reached()) {
        if (run_any()) {
            waited = 0;
            continue;
        }
        if (!ranks_late()) {
            report("streams are stuck: one waits for an event that nobody records");
            return;
        }
        if (++waited > (options.patience != 0 ? options.patience : RANKS_PATIENCE)) {
            report("streams are stuck: a rank does not come to a collective");
            return;
        }
        unsigned held = emu_lock.release_all();
        nanosleep(&pause, nullptr);
        emu_lock.reacquire(held);
    }
}

void drain(stream_state *s)
{
    drain_until([s] { return s->queue.empty(); });
}

void drain_all()
{
    drain_until([] {
        for (auto *s : streams)
            if (!s->queue.empty())
                return false;
        return default_stream.queue.empty();
    });
}

} // namespace

namespace simt
{
bool stream_after_kernel(cudaStream_t stream)
{
    const stream_state *s = stream_of(stream);
    return s->capture ? s->capture->kernel_last : s->kernel_last;
}

static void kernel_last_set(stream_state *s, bool kernel)
{
    (s->capture ? s->capture->kernel_last : s->kernel_last) = kernel;
}

static void piece_push(stream_state *s, piece p)
{
    if (s == &default_stream) {
        auto now = streams;
        for (auto *other : now)
            if (!other->non_blocking)
                drain(other);
    } else if (!s->non_blocking) {
        drain(&default_stream);
    }
    bool joint = p.joint;
    s->queue.push_back(std::move(p));
    // other streams may have waited for it
    while (!options.lazy && (run_one(s) || (joint && run_any())))
        ;
}

void stream_push(cudaStream_t stream, std::function<void()> work, bool kernel)
{
    stream_state *s = stream_of(stream);
    kernel_last_set(s, kernel);
    if (s->capture)
        s->capture->pieces.push_back({std::move(work), nullptr});
    else
        piece_push(s, {std::move(work), nullptr, false});
}

void stream_push_joint(cudaStream_t stream, std::function<joint()> make)
{
    stream_state *s = stream_of(stream);
    kernel_last_set(s, false);
    if (s->capture) {
        s->capture->pieces.push_back({nullptr, std::move(make)});
        return;
    }
    joint j = make();
    piece_push(s, {std::move(j.work), std::move(j.ready), true});
}

bool call_refused()
{
    return refused();
}

cudaError_t call_failed(cudaError_t error)
{
    return fail(error);
}

int stream_device(cudaStream_t stream)
{
    return stream_of(stream)->device;
}

bool stream_accepts(cudaStream_t stream)
{
    if (refused())
        return fail(cudaErrorLaunchFailure) == cudaSuccess;
    if (options.no_image)
        return fail(cudaErrorNoKernelImageForDevice) == cudaSuccess;
    stream_state *s = stream_of(stream);
    if (s != &default_stream && s->device != device_now)
        return fail(cudaErrorInvalidResourceHandle) == cudaSuccess;
    return true;
}

bool stream_captures(cudaStream_t stream)
{
    return stream_of(stream)->capture != nullptr;
}

static std::unordered_set<const void *> code_loaded;

void code_use(const void *what)
{
    if (!code_loaded.insert(what).second)
        return;
    counts.loads++;
    for (auto *s : streams)
        if (s->capture) {
            counts.loads_captured++;
            return;
        }
}

void code_forget()
{
    code_loaded.clear();
}

bool carveout_note(int percent)
{
    counts.carveouts++;
    return percent >= 0 && percent <= 100;
}

int device_of_thread()
{
    return device_now;
}
} // namespace simt

#define LOCK std::lock_guard<emu_mutex> hold(emu_lock)

extern "C" {

bool simt_run_pending(void)
{
    LOCK;
    return run_any();
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = (int)options.devices + 1;
    return refused() ? fail(cudaErrorNotReady) : cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device > (int)options.devices)
        return fail(cudaErrorInvalidDevice);
    device_now = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (device < 0 || device > (int)options.devices)
        return fail(cudaErrorInvalidDevice);
    if (refused())
        return fail(cudaErrorLaunchFailure);
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "%s", device_title);
    prop->totalGlobalMem = (size_t)1 << 30;
    prop->major = major_of();
    prop->minor = 0;
    prop->multiProcessorCount = 4;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int)
{
    if (refused())
        return fail(cudaErrorLaunchFailure);
    switch (attr) {
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = major_of();
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = options.shared_most != 0 ? (int)options.shared_most : SHARED_MAX;
        return cudaSuccess;
    }
    return fail(cudaErrorInvalidValue);
}
// Reports code compiled for the emulated card; the device ptx replaces it (weak) and reads the PTX
// text.
__attribute__((weak)) cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *facts,
                                                        const void *)
{
    if (refused())
        return fail(cudaErrorLaunchFailure);
    facts->ptxVersion = 10 * major_of();
    return cudaSuccess;
}
// Only the carve-out; it is a hint, so it has no effect. The device ptx replaces it (weak).
__attribute__((weak)) cudaError_t cudaFuncSetAttribute(const void *, enum cudaFuncAttribute what,
                                                       int value)
{
    LOCK;
    return what == cudaFuncAttributePreferredSharedMemoryCarveout && carveout_note(value)
               ? cudaSuccess
               : fail(cudaErrorInvalidValue);
}
// Computes the occupancy of an A100 from shared memory and threads only, because the registers used
// by the host compiler are meaningless.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads,
                                                          size_t shared)
{
    if (refused())
        return fail(cudaErrorLaunchFailure);
    *blocks = std::min({32, 2048 / threads, (int)((164 << 10) / (shared + 1024))});
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    LOCK;
    *total_bytes = options.memory != 0 ? options.memory : (size_t)1 << 30;
    *free_bytes = counts.device_bytes < *total_bytes ? *total_bytes - counts.device_bytes : 0;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **out, size_t bytes)
{
    LOCK;
    if (capture_spoiled())
        return fail(cudaErrorStreamCaptureUnsupported);
    bool may = bytes <= BYTES_MAX && !refused();
    *out = may ? memory_alloc(bytes != 0 ? bytes : 1, false) : nullptr;
    return *out != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *memory)
{
    LOCK;
    if (memory == nullptr)
        return cudaSuccess;
    if (capture_spoiled())
        return fail(cudaErrorStreamCaptureUnsupported);
    drain_all();
    return memory_free(memory, false) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    LOCK;
    if (capture_spoiled())
        return fail(cudaErrorStreamCaptureUnsupported);
    bool may = bytes <= BYTES_MAX && !refused();
    *out = may ? memory_alloc(bytes != 0 ? bytes : 1, true) : nullptr;
    return *out != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned)
{
    LOCK;
    *out = host;
    return memory_pinned(host) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
cudaError_t cudaFreeHost(void *memory)
{
    LOCK;
    drain_all();
    if (memory == nullptr)
        return cudaSuccess;
    return memory_free(memory, true) ? cudaSuccess : fail(cudaErrorInvalidValue);
}

// Checks that the addresses match the direction of the copy, as the driver does.
static bool copy_sane(const void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if ((to_device && !memory_known(to, bytes)) || (from_device && !memory_known(from, bytes))) {
        report("a copy of %zu bytes leaves its device allocation", bytes);
        return false;
    }
    return true;
}

// A copy from pageable memory returns when its bytes are in the driver's pinned buffer: they may
// reach the device later.
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    LOCK;
    if (capture_spoiled())
        return fail(cudaErrorStreamCaptureUnsupported);
    if (bytes != 0 && !copy_sane(to, from, bytes, kind))
        return fail(cudaErrorInvalidValue);
    cudaError_t code = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
    if (kind != cudaMemcpyHostToDevice || memory_pinned(from))
        drain(&default_stream);
    return code == cudaSuccess ? fault() : code;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    LOCK;
    if (refused())
        return fail(cudaErrorLaunchFailure);
    if (bytes == 0)
        return cudaSuccess;
    if (!copy_sane(to, from, bytes, kind))
        return fail(cudaErrorInvalidValue);
    if (kind != cudaMemcpyDeviceToDevice)
        counts.copied_bytes += bytes;
    stream_state *s = stream_of(stream);
    const void *host = kind == cudaMemcpyHostToDevice   ? from
                       : kind == cudaMemcpyDeviceToHost ? to
                                                        : nullptr;
    bool pageable = host != nullptr && !memory_pinned(host);
    if (s->capture && pageable)
        return capture_spoil(s);
    if (kind == cudaMemcpyHostToDevice && pageable) {
        auto staged =
            std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
        stream_push(stream, [=] { memcpy(to, staged->data(), bytes); });
        return cudaSuccess;
    }
    stream_push(stream, [=] { memmove(to, from, bytes); });
    if (kind == cudaMemcpyDeviceToHost && pageable)
        drain(s);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    LOCK;
    if (refused() || !memory_known(to, bytes))
        return fail(cudaErrorInvalidValue);
    stream_push(stream, [=] { memset(to, byte, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemset(void *to, int byte, size_t bytes) // does not wait for device memory
{
    LOCK;
    if (capture_spoiled())
        return fail(cudaErrorStreamCaptureUnsupported);
    return cudaMemsetAsync(to, byte, bytes, nullptr);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    LOCK;
    if (refused())
        return fail(cudaErrorMemoryAllocation);
    counts.live++;
    stream_state *s = new stream_state();
    s->non_blocking = (flags & cudaStreamNonBlocking) != 0;
    s->device = device_now;
    streams.push_back(s);
    *out = (cudaStream_t)s;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    LOCK;
    stream_state *s = stream_of(stream);
    drain(s);
    for (size_t i = 0; i < streams.size(); i++) {
        if (streams[i] == s) {
            streams.erase(streams.begin() + (ptrdiff_t)i);
            delete s;
            counts.live--;
            return cudaSuccess;
        }
    }
    return fail(cudaErrorInvalidValue);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    LOCK;
    if (stream_of(stream)->capture)
        return capture_spoil(stream_of(stream));
    drain(stream_of(stream));
    return refused() ? fail(cudaErrorLaunchFailure) : fault();
}
// A query makes progress, because queued work of a lazy stream would otherwise never run. The
// result is that before the progress.
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    LOCK;
    stream_state *s = stream_of(stream);
    if (s->capture)
        return capture_spoil(s);
    bool busy = !s->queue.empty();
    for (int i = 0; i < 64 && !s->queue.empty(); i++)
        if (!run_any())
            break;
    if (refused() || counts.reports != 0)
        return fail(cudaErrorLaunchFailure);
    return busy ? fail(cudaErrorNotReady) : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    LOCK;
    stream_state *s = stream_of(stream);
    if (s->capture && !((event_handle *)event)->state->captured) {
        s->invalid = true;
        return fail(cudaErrorStreamCaptureIsolation);
    }
    s->kernel_last = false;
    auto state = ((event_handle *)event)->state;
    if (!s->capture && options.lazy)
        s->queue.push_back({nullptr, [state] { return state->done; }, false});
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    LOCK;
    for (auto *s : streams)
        if (s->capture)
            return capture_spoil(s);
    drain_all();
    return fault();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    LOCK;
    if (refused())
        return fail(cudaErrorMemoryAllocation);
    counts.live++;
    event_handle *e = new event_handle();
    e->state = std::make_shared<event_state>();
    e->state->done = true;
    *out = (cudaEvent_t)e;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    LOCK;
    counts.live--;
    delete (event_handle *)event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    LOCK;
    if (!stream_accepts(stream))
        return last_error;
    auto state = std::make_shared<event_state>();
    ((event_handle *)event)->state = state;
    state->captured = stream_of(stream)->capture != nullptr;
    stream_push(stream, [state] {
        state->product_ms = simt::product_ms;
        state->done = true;
    });
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    LOCK;
    auto state = ((event_handle *)event)->state;
    if (state->captured)
        return fail(cudaErrorCapturedEvent);
    drain_until([state] { return state->done; });
    return refused() ? fail(cudaErrorLaunchFailure) : fault();
}
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    LOCK;
    auto state = ((event_handle *)event)->state;
    if (state->captured)
        return fail(cudaErrorCapturedEvent);
    if (!state->done)
        run_any();
    return state->done ? cudaSuccess : fail(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    LOCK;
    *ms = (float)(((event_handle *)end)->state->product_ms -
                  ((event_handle *)start)->state->product_ms);
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    LOCK;
    stream_state *s = stream_of(stream);
    if (stream == nullptr || s->capture || refused())
        return fail(cudaErrorStreamCaptureUnsupported);
    s->capture = std::make_unique<graph>();
    s->mode = mode;
    s->invalid = false;
    s->owner = std::this_thread::get_id();
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    LOCK;
    stream_state *s = stream_of(stream);
    *out = nullptr;
    if (!s->capture)
        return fail(cudaErrorIllegalState);
    if (s->invalid || refused()) {
        s->capture.reset();
        return fail(cudaErrorStreamCaptureInvalidated);
    }
    *out = (cudaGraph_t)s->capture.release();
    counts.live++;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long)
{
    LOCK;
    if (refused())
        return fail(cudaErrorMemoryAllocation);
    counts.live++;
    *out = (cudaGraphExec_t) new graph(*(graph *)g);
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream)
{
    LOCK;
    return stream_accepts(stream) ? cudaSuccess : last_error;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    LOCK;
    if (!stream_accepts(stream))
        return last_error;
    counts.graph_nodes += ((graph *)exec)->pieces.size();
    for (auto &n : ((graph *)exec)->pieces)
        n.make ? stream_push_joint(stream, n.make) : stream_push(stream, n.work);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    LOCK;
    counts.live--;
    delete (graph *)g;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    LOCK;
    counts.live--;
    delete (graph *)exec;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}
const char *cudaGetErrorString(cudaError_t error)
{
    if (error == cudaErrorLaunchFailure && simt_first_report()[0] != 0)
        return simt_first_report();
    return error == cudaSuccess ? "no error" : "the emulated device refused the call";
}
const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
}
