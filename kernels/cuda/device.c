// SPDX-License-Identifier: Apache-2.0
// The function table of the cuda device and, compiled with the emulator, of the simt device:
// opening, memory, streams, waiting and graphs. Kernels are in the .cu files; this file contains
// no arithmetic.
//
// Threads: a device's loading thread calls open, close, memory and weights; an engine's uses its
// stream. Nothing is allocated on the device after stream_open. The current device of CUDA is a
// property of the calling thread: functions that take a device, and stream_open and stream_close,
// set it; device_slot_acquire sets it for all calls of a step, and graphs are recorded by the
// thread that opened the stream.
#include "kernels/cuda/loader.h"
#include "kernels/cuda/windows.h"

#include "base/number.h"
#include "base/patience.h"
#include "kernels/ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef WEFT_DEVICE_NAME
#error "WEFT_DEVICE_NAME is given by the build: \"cuda\" or \"simt\""
#endif

// The emulator is for the arithmetic, not for speed: its default is exact mode, and it keeps
// float32.
#define EMULATED (strcmp(WEFT_DEVICE_NAME, "cuda") != 0)

enum {
    STAGING_SLACK = 3 * 4096,     // for O_DIRECT: alignment, and a block at each end
    QUERY_NS = 1000000,           // interval of driver queries while waiting: 1 ms
    GRAPH_LAYER_BYTES = 64 << 10, // most bytes per layer of a recorded graph, without strips
    GRAPH_NODE_BYTES = 4 << 10,   // a further kernel of a graph: an estimate, never measured
    // A rank that is far ahead fills its queue of launches (about a thousand), and the driver then
    // blocks in a call that another rank may need.
    MEET_LAYERS = 8,
};

struct graph {
    cudaGraphExec_t exec;
};

// Clears the thread's last error. The runtime keeps it, including "not ready" and a failed
// allocation, and would report it after the next launch.
static void error_forget(void)
{
    (void)cudaGetLastError();
}

static enum status cuda_error(struct error *err, cudaError_t code, const char *what)
{
    error_forget();
    enum status status = code == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_DEVICE_FAULT;
    return error_set(err, status, "%s: %s", what, cudaGetErrorString(code));
}

static _Thread_local cudaError_t failed; // last failed call or launch of this thread

enum status call_status(cudaError_t code)
{
    if (code == cudaSuccess)
        return STATUS_OK;
    error_forget();
    failed = code;
    return STATUS_DEVICE_FAULT;
}

enum status launch_status(void)
{
    return call_status(cudaGetLastError());
}

const char *call_failure(void)
{
    return cudaGetErrorString(failed);
}

static void device_current(const struct device *device)
{
    if (cudaSetDevice((int)device->options.index) != cudaSuccess)
        error_forget(); // the next call fails and gives the reason
}

// --- the device ---------------------------------------------------------------------------------

static enum status device_choose(struct device *device, struct error *err)
{
    int count = 0;
    int major = 0;
    int processors = 0;
    int shared = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess || count == 0) {
        error_forget();
        return error_set(err, STATUS_NO_DEVICE, "no CUDA device: %s",
                         code != cudaSuccess ? cudaGetErrorString(code) : "none was found");
    }
    int index = (int)device->options.index;
    if (index >= count)
        return error_set(err, STATUS_NO_DEVICE,
                         "there is no CUDA device %d: %d here, counted from 0", index, count);
    struct cudaDeviceProp prop;
    if ((code = cudaSetDevice(index)) != cudaSuccess ||
        (code = cudaGetDeviceProperties(&prop, index)) != cudaSuccess ||
        (code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index)) !=
            cudaSuccess ||
        (code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, index)) !=
            cudaSuccess ||
        (code = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, index)) !=
            cudaSuccess) {
        error_forget();
        return error_set(err, STATUS_NO_DEVICE, "the CUDA device cannot be used: %s",
                         cudaGetErrorString(code));
    }
    snprintf(device->name, sizeof device->name, "%.90s", prop.name);
    device->processors = (uint32_t)processors;
    device->shared_most = (uint32_t)shared;
    if (major < 8)
        return error_set(err, STATUS_NO_DEVICE, "%s is too old: compute capability 8.0 is needed",
                         device->name);
    return STATUS_OK;
}

static void device_close(struct device *device)
{
    if (!device)
        return;
    device_current(device);
    for (int i = 0; i < 2; i++) {
        (void)cudaFreeHost(device->staging_host[i]);
        (void)cudaFree(device->staging_device[i]);
        if (device->staging_free[i])
            (void)cudaEventDestroy(device->staging_free[i]);
    }
    if (device->loading)
        (void)cudaStreamDestroy(device->loading);
    error_forget(); // a device that failed to open lacks some objects
    readers_close(device->readers);
    nccl_close(&device->nccl);
    pthread_mutex_destroy(&device->known_lock);
    free(device);
}

static enum status staging_alloc(struct device *device, struct error *err)
{
    cudaError_t code = cudaStreamCreateWithFlags(&device->loading, cudaStreamNonBlocking);
    size_t bytes = STAGING_BYTES + STAGING_SLACK;
    for (int i = 0; i < 2 && code == cudaSuccess; i++) {
        code = cudaHostAlloc(&device->staging_host[i], bytes, cudaHostAllocMapped);
        if (code == cudaSuccess)
            code = cudaMalloc(&device->staging_device[i], bytes);
        if (code == cudaSuccess)
            code = cudaEventCreateWithFlags(&device->staging_free[i], cudaEventDisableTiming);
    }
    return code == cudaSuccess ? STATUS_OK : cuda_error(err, code, "staging memory");
}

// Runs one kernel to its end, so that a card or driver for which the plugin contains no code is
// refused here and not while loading; also verifies that the host sees a kernel's signal.
static enum status device_try(struct device *device, struct error *err)
{
    uint32_t *word = device->staging_host[0];
    *word = 0;
    enum status status = signal_run(device->loading, word, 1);
    if (status != STATUS_OK)
        return error_set(err, STATUS_NO_DEVICE, "%s runs none of the plugin's kernels: %s",
                         device->name, call_failure());
    cudaError_t code = cudaStreamSynchronize(device->loading);
    if (code == cudaSuccess && __atomic_load_n(word, __ATOMIC_ACQUIRE) == 1)
        return STATUS_OK;
    error_forget();
    return error_set(err, STATUS_NO_DEVICE, "%s does not run the plugin's kernels: %s",
                     device->name,
                     code != cudaSuccess ? cudaGetErrorString(code) : "a signal did not arrive");
}

// A kernel with another division than its predecessor starts only when the SM is empty. So all ask
// for as much shared memory as there is, which attention needs. It is a hint: a refusal is ignored.
// A slot that two streams fill at once loses a kernel, which is then prepared twice.
void kernel_prepare(struct device *device, const void *kernel)
{
    if (device->options.ways & WAY_CARVEOUTS)
        return;
    size_t at = (size_t)((uintptr_t)kernel >> 4);
    for (size_t i = 0; i < KERNELS_KNOWN; i++, at++) {
        const void **slot = &device->prepared[at % KERNELS_KNOWN];
        // not atomic: a pointer of another stream's thread could be torn
        const void *seen = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (seen == kernel)
            return;
        if (seen)
            continue;
        __atomic_store_n(slot, kernel, __ATOMIC_RELAXED);
        break;
    }
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100) !=
        cudaSuccess)
        error_forget();
}

static enum status early_choose(struct device *device)
{
    enum status status = early_query(&device->early);
    device->early = device->early && !device->options.serial;
    return status;
}

static enum status device_open(struct device **out, const struct device_options *options,
                               struct error *err)
{
    *out = NULL;
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return error_set(err, STATUS_NO_MEMORY,
                         "no memory to open the " WEFT_DEVICE_NAME " device");
    device->options = *options;
    device->exact = options->exact < 0 ? EMULATED : options->exact != 0;
    pthread_mutex_init(&device->known_lock, NULL);
    enum status status = device_choose(device, err);
    if (status == STATUS_OK && options->ranks > 0)
        status = nccl_open(&device->nccl, err);
    if (status == STATUS_OK)
        status = staging_alloc(device, err);
    if (status == STATUS_OK)
        status = device_try(device, err);
    if (status == STATUS_OK &&
        (early_choose(device) != STATUS_OK || attn_workers_query(device) != STATUS_OK))
        status = error_set(err, STATUS_NO_DEVICE, "querying the plugin's kernels on %s failed: %s",
                           device->name, call_failure());
    if (status != STATUS_OK) {
        device_close(device);
        return status;
    }
    *out = device;
    return STATUS_OK;
}

// Returns the bytes that are left to the driver, which allocates while the device runs, also for
// code that is loaded late: a twentieth, and at least 1 GiB of a card with 4 GiB or more.
static size_t memory_kept(size_t free_bytes)
{
    const size_t least = (size_t)1 << 30;
    bool raised = free_bytes >= 4 * least && free_bytes / 20 < least;
    return raised ? least : free_bytes / 20;
}

static void device_facts(const struct device *device, struct device_facts *out)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    int count = 0;
    memset(out, 0, sizeof *out);
    device_current(device);
    snprintf(out->name, sizeof out->name, "%s", device->name);
    out->steps_in_flight = 1;
    out->meet_layers = device->options.ways & WAY_NO_MEETS ? 0 : MEET_LAYERS;
    out->graphs = true;
    out->experts = true;
    out->e4m3 = true;
    out->e4m3_strips = !blas_fp8_known(device);
    out->exact = device->exact;
    out->sums_in_place = !device->exact;
    if (cudaGetDeviceCount(&count) != cudaSuccess)
        error_forget();
    out->ranks_max = count < 1 ? 1 : count < RANKS_MAX ? (uint32_t)count : RANKS_MAX;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
        out->memory_available = free_bytes - memory_kept(free_bytes);
    else
        error_forget();
    out->float32_runs_as = EMULATED ? DTYPE_F32 : DTYPE_BF16;
    out->quantised_runs_as = out->unheld_runs_as = DTYPE_BF16;
    out->codes = CODES_HELD;
    out->kv_fp8 = true;
    out->kv_share = 1;
    out->kv_default = 0;
    out->step_stretch = 0; // small steps would leave a GPU idle
    out->activation[DTYPE_F32] = DTYPE_F32;
    out->activation[DTYPE_BF16] = DTYPE_BF16;
    out->activation[DTYPE_F16] = DTYPE_F16;
    out->activation[DTYPE_I8] = DTYPE_BF16;
}

static void need_add(struct device_need *need, const char *label, uint64_t bytes)
{
    check(need->count < DEVICE_NEED_MAX, "%u needs", need->count);
    need->entry[need->count].label = label;
    need->entry[need->count++].bytes = bytes;
}

static struct attn_capacity attn_capacity_of(const struct device *device,
                                             const struct stream_limits *limits)
{
    uint32_t workers = device->exact ? 0 : attn_workers_of(device, limits->attn.dim, limits->kv);
    struct attn_capacity capacity = attn_plan_capacity(limits, PARTIAL_BYTES_MAX, workers);
    capacity.wide_rows = attn_kernels_of(device, limits->attn.dim, limits->kv)->wide_rows;
    return capacity;
}

// Bytes of a stream's workspaces.
struct stream_bytes {
    size_t partial_out, partial_state, arrived, walk_out, logits, chunk, sample, blas, ranks;
    size_t codes, code_scales, strip;
};

static struct stream_bytes stream_bytes_of(const struct device *device,
                                           const struct stream_limits *limits)
{
    struct stream_bytes bytes = {0};
    struct attn_capacity capacity = attn_capacity_of(device, limits);
    uint32_t dim = limits->attn.dim;
    size_t tile = (size_t)ATTN_TILE_ROWS * dim * sizeof(float);
    size_t tiles = (size_t)device->processors * ATTN_WALK_ROWS / ATTN_TILE_ROWS;
    bytes.partial_out = capacity.partials * tile;
    bytes.partial_state = (size_t)capacity.partials * ATTN_TILE_ROWS * 2 * sizeof(float);
    bytes.arrived = (size_t)capacity.merges * limits->attn.kv_heads * sizeof(uint32_t);
    bytes.walk_out =
        dim != 0 ? tiles * attn_kernels_of(device, dim, limits->kv)->walk_floats * sizeof(float)
                 : 0;
    if (limits->step.vocab != 0) {
        size_t rows = limits->step.rows_max;
        size_t chunks = (limits->step.vocab + SAMPLE_CHUNK - 1) / SAMPLE_CHUNK;
        bytes.logits = rows * limits->step.vocab * sizeof(float);
        bytes.chunk = rows * chunks * sizeof(struct sample_chunk);
        bytes.sample = rows * sizeof(struct sample_decision);
    }
    bytes.blas = device->exact ? 0 : BLAS_WORKSPACE;
    if (!device->exact) { // activations of the library's FP8 products
        size_t tokens = round_up(limits->step.tokens_max, PRODUCT_ROWS_UNIT);
        size_t across = (limits->e4m3_width + FP8_SCALE_COLUMNS - 1) / FP8_SCALE_COLUMNS;
        bytes.codes = tokens * limits->e4m3_width;
        bytes.code_scales = tokens * across * sizeof(float);
        bytes.strip = strip_bytes_of(limits);
    }
    bytes.ranks =
        (size_t)device->options.ranks * limits->step.tokens_max * limits->width_max * sizeof(float);
    if (bytes.ranks > RANKS_BYTES_MAX)
        bytes.ranks = RANKS_BYTES_MAX;
    return bytes;
}

static enum status device_needs(const struct device *device, const struct stream_limits *limits,
                                struct device_need *out, struct error *err)
{
    (void)err;
    struct stream_bytes bytes = stream_bytes_of(device, limits);
    out->count = 0;
    need_add(out, "attention parts",
             bytes.partial_out + bytes.partial_state + bytes.arrived + bytes.walk_out);
    if (bytes.logits != 0)
        need_add(out, "sampling", bytes.logits + bytes.chunk + bytes.sample);
    if (bytes.blas != 0)
        need_add(out, "product workspace", bytes.blas);
    if (bytes.codes != 0)
        need_add(out, "activations in FP8", bytes.codes + bytes.code_scales);
    if (bytes.strip != 0)
        need_add(out, "strips of weights", bytes.strip);
    if (bytes.ranks != 0)
        need_add(out, "sums of ranks", bytes.ranks + sums_planned(device, limits->sums_bytes));
    if (device->options.ranks != 0)
        need_add(out, "NCCL",
                 (NCCL_BYTES + windows_planned(device, limits->sums_bytes)) *
                     (1 + comm_records_apart(device)));
    if (limits->graphs != 0)
        need_add(out, "graphs",
                 (uint64_t)limits->layers *
                     (limits->graphs * (uint64_t)GRAPH_LAYER_BYTES +
                      (bytes.strip != 0 ? limits->graphs_many * strip_nodes(limits) : 0) *
                          GRAPH_NODE_BYTES));
    return STATUS_OK;
}

static enum status memory_alloc(struct device *device, void **out, size_t bytes, struct error *err)
{
    *out = NULL;
    device_current(device);
    cudaError_t code = cudaMalloc(out, bytes != 0 ? bytes : 1);
    // The fill runs in the default stream, for which the other streams do not wait.
    if (code == cudaSuccess &&
        (code = cudaMemsetAsync(*out, 0, bytes != 0 ? bytes : 1, NULL)) == cudaSuccess)
        code = cudaStreamSynchronize(NULL);
    if (code == cudaSuccess)
        return STATUS_OK;
    (void)cudaFree(*out);
    error_forget();
    *out = NULL;
    return error_set(err, STATUS_NO_MEMORY, "%zu bytes of device memory could not be allocated: %s",
                     bytes, cudaGetErrorString(code));
}

static void memory_free(struct device *device, void *at, size_t bytes)
{
    blas_weight_gone(device, at, bytes);
    device_current(device);
    (void)call_status(cudaFree(at));
}

static enum status host_alloc(struct device *device, void **out, size_t bytes, struct error *err)
{
    device_current(device);
    cudaError_t code =
        cudaHostAlloc(out, bytes != 0 ? bytes : 1, cudaHostAllocMapped | cudaHostAllocPortable);
    if (code != cudaSuccess) {
        error_forget();
        *out = NULL;
        return error_set(err, STATUS_NO_MEMORY,
                         "%zu bytes of pinned memory could not be allocated: %s", bytes,
                         cudaGetErrorString(code));
    }
    memset(*out, 0, bytes);
    return STATUS_OK;
}

static void host_free(struct device *device, void *at, size_t bytes)
{
    (void)bytes;
    device_current(device);
    (void)call_status(cudaFreeHost(at));
}

static enum status table_upload(struct device *device, void *to, const void *from, size_t bytes,
                                struct error *err)
{
    device_current(device);
    cudaError_t code = cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
    if (code == cudaSuccess) // the last pageable bytes may still be in flight
        code = cudaStreamSynchronize(NULL);
    return code == cudaSuccess ? STATUS_OK : cuda_error(err, code, "a table's upload");
}

static size_t weight_bytes(const struct device *device, const struct weight_shape *shape)
{
    size_t bytes;
    if (!device->exact && weight_blocks(shape))
        bytes = weight_blocks_at(shape) + weight_blocks_bytes(shape);
    else if (shape->use == WEIGHT_VECTOR)
        bytes = vector_copy_at(shape, DTYPE_F16) + (size_t)shape->n * 2;
    else if (weight_nibbles(shape))
        bytes = weight_stack(shape) * code_matrix_bytes(shape);
    else if (weight_e4m3(shape) || shape->dtype == DTYPE_I8)
        bytes = weight_scales_at(shape) + weight_scale_count(shape) * sizeof(float);
    else
        bytes = (size_t)shape->n * weight_stride(shape) * dtype_bytes(shape->dtype);
    return (bytes + 255) & ~(size_t)255;
}

static enum status weight_finish(struct device *device, struct weight *weight, struct error *err)
{
    device_current(device);
    cudaError_t code = cudaStreamSynchronize(device->loading);
    if (code != cudaSuccess)
        return cuda_error(err, code, "loading a weight");
    if (!device->exact && blas_fp8_finish(weight) != STATUS_OK)
        return error_set(err, STATUS_DEVICE_FAULT, "loading a weight's scales: %s", call_failure());
    blas_weight_known(device, weight);
    return STATUS_OK;
}

// --- streams ------------------------------------------------------------------------------------

static void stream_close(struct stream *stream)
{
    if (!stream)
        return;
    device_current(stream->device);
    if (stream->cuda)
        (void)cudaStreamSynchronize(stream->cuda);
    blas_close(stream->blas);
    void *buffers[] = {stream->partial_out, stream->partial_state,  stream->arrived,
                       stream->walk_out,    stream->logits,         stream->chunk,
                       stream->sample,      stream->blas_workspace, stream->ranks_scratch,
                       stream->codes,       stream->code_scales,    stream->strip};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        (void)cudaFree(buffers[i]);
    sums_close(stream);
    if (stream->cuda)
        (void)cudaStreamDestroy(stream->cuda);
    error_forget(); // the errors of a failed stream were reported before
    free(stream);
}

static cudaError_t workspace_alloc(void *field, size_t bytes)
{
    void *at = NULL;
    cudaError_t code = bytes != 0 ? cudaMalloc(&at, bytes) : cudaSuccess;
    memcpy(field, &at, sizeof at);
    return code;
}

static enum status stream_fill(struct stream *stream, struct error *err)
{
    struct stream_bytes bytes = stream_bytes_of(stream->device, &stream->limits);
    cudaError_t code = cudaStreamCreateWithFlags(&stream->cuda, cudaStreamNonBlocking);
    struct {
        void *field;
        size_t bytes;
    } want[] = {
        {&stream->partial_out, bytes.partial_out}, {&stream->partial_state, bytes.partial_state},
        {&stream->arrived, bytes.arrived},         {&stream->walk_out, bytes.walk_out},
        {&stream->logits, bytes.logits},           {&stream->chunk, bytes.chunk},
        {&stream->sample, bytes.sample},           {&stream->blas_workspace, bytes.blas},
        {&stream->ranks_scratch, bytes.ranks},     {&stream->codes, bytes.codes},
        {&stream->code_scales, bytes.code_scales}, {&stream->strip, bytes.strip},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0] && code == cudaSuccess; i++)
        code = workspace_alloc(want[i].field, want[i].bytes);
    if (code == cudaSuccess && bytes.arrived != 0)
        code = cudaMemsetAsync(stream->arrived, 0, bytes.arrived, stream->cuda);
    if (code == cudaSuccess)
        code = sums_open(stream, stream->limits.sums_bytes);
    if (code != cudaSuccess)
        return cuda_error(err, code, "a stream's workspaces");
    stream->ranks_scratch_bytes = bytes.ranks;
    stream->attn_capacity = attn_capacity_of(stream->device, &stream->limits);
    if (stream->device->exact)
        return STATUS_OK;
    enum status status = blas_open(&stream->blas, stream->device, err);
    if (status == STATUS_OK)
        blas_fp8_ask(stream);
    return status;
}

static enum status stream_open(struct device *device, struct stream **out,
                               const struct stream_limits *limits, struct error *err)
{
    *out = NULL;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a stream");
    stream->device = device;
    stream->limits = *limits;
    device_current(device);
    enum status status = stream_fill(stream, err);
    if (status != STATUS_OK) {
        stream_close(stream);
        return status;
    }
    *out = stream;
    return STATUS_OK;
}

// A GPU runs several streams at once; the call only makes the device current.
static void device_slot_acquire(struct stream *stream)
{
    device_current(stream->device);
}

static void device_slot_release(struct stream *stream)
{
    (void)stream;
}

static size_t step_private_bytes(const struct device *device, const struct stream_limits *limits)
{
    (void)device;
    struct attn_capacity capacity = attn_capacity_of(device, limits);
    return attn_plan_bytes(&capacity);
}

static size_t step_plan(struct stream *stream, struct step *host)
{
    return attn_plan_fill(&stream->limits, &stream->attn_capacity, host);
}

static enum status copy_in(struct stream *stream, void *device, const void *host, size_t bytes)
{
    stream->after_kernel = false;
    return call_status(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream->cuda));
}

static enum status copy_out(struct stream *stream, void *host, const void *device, size_t bytes)
{
    stream->after_kernel = false;
    return call_status(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream->cuda));
}

static enum status stream_signal(struct stream *stream, uint32_t *host_word, uint32_t value)
{
    stream->after_kernel = false;
    return signal_run(stream->cuda, host_word, value);
}

static bool word_reached(const uint32_t *word, uint32_t value)
{
    // acquire: later reads see what the step wrote before its signal
    return (int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0;
}

static void core_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield" ::: "memory"); // aarch64 (GH200)
#endif
}

enum status stream_query(const struct stream *stream, bool *idle, struct error *err)
{
    device_current(stream->device);
    cudaError_t code = cudaStreamQuery(stream->cuda);
    *idle = code == cudaSuccess;
    if (code == cudaErrorNotReady)
        error_forget();
    else if (code != cudaSuccess)
        return cuda_error(err, code, "the device failed in a step");
    return STATUS_OK;
}

// Returns DEVICE_FAULT if a rank has failed or the communicator was aborted: the results of a step
// must then not be used.
static enum status ranks_query(const struct stream *stream, struct error *err)
{
    if (!stream->comm)
        return STATUS_OK;
    if (comm_aborted(stream->comm))
        return error_set(err, STATUS_DEVICE_FAULT,
                         "the ranks' communicator was aborted after a fault");
    return comm_watch(stream, err);
}

// Spins on the word; once per millisecond queries the driver whether the stream, or another rank,
// has failed. An emulated stream makes progress in that query.
static enum status stream_wait(struct stream *stream, const uint32_t *host_word, uint32_t value,
                               uint64_t deadline_ns, struct error *err)
{
    struct patience patience = patience_until(deadline_ns);
    uint64_t query_at = 0;
    bool idle = false;
    while (!word_reached(host_word, value)) {
        if (patience_ends(&patience))
            return error_set(err, STATUS_TIMEOUT, "the device did not finish a step in time");
        if (patience.seen_ns < query_at) {
            for (int i = 0; i < 32; i++)
                core_pause();
            continue;
        }
        query_at = patience.seen_ns + QUERY_NS;
        enum status status = ranks_query(stream, err);
        if (status == STATUS_OK)
            status = stream_query(stream, &idle, err);
        if (status != STATUS_OK)
            return status;
        if (idle && !word_reached(host_word, value))
            return error_set(err, STATUS_DEVICE_FAULT,
                             "the device is idle but did not write its signal");
    }
    return stream->comm && comm_aborted(stream->comm) ? ranks_query(stream, err) : STATUS_OK;
}

// Relaxed mode: other models may load during the capture, which stricter modes forbid.
enum status graph_begin(struct stream *stream)
{
    comm_lock(stream);
    enum status status =
        call_status(cudaStreamBeginCapture(stream->cuda, cudaStreamCaptureModeRelaxed));
    if (status == STATUS_OK) { // otherwise a recording that has begun before continues
        stream->capturing = true;
        stream->after_kernel = false;
    }
    comm_unlock(stream);
    return status;
}

enum status graph_end(struct stream *stream, struct graph **out, struct error *err)
{
    cudaGraph_t recorded = NULL;
    *out = NULL;
    comm_lock(stream);
    cudaError_t code = cudaStreamEndCapture(stream->cuda, &recorded);
    stream->capturing = stream->after_kernel = false;
    comm_unlock(stream);
    if (code != cudaSuccess)
        return cuda_error(err, code, "ending the recording of a graph");
    struct graph *graph = calloc(1, sizeof *graph);
    code = graph ? cudaGraphInstantiate(&graph->exec, recorded, 0) : cudaErrorMemoryAllocation;
    (void)cudaGraphDestroy(recorded);
    if (code == cudaSuccess) { // uploads it now, not at the first replay
        code = cudaGraphUpload(graph->exec, stream->cuda);
        if (code != cudaSuccess)
            (void)cudaGraphExecDestroy(graph->exec);
    }
    if (code != cudaSuccess) {
        free(graph);
        return cuda_error(err, code, "instantiating a graph");
    }
    *out = graph;
    return STATUS_OK;
}

enum status graph_launch(struct stream *stream, struct graph *graph)
{
    enum status status = STATUS_DEVICE_FAULT; // if aborted: the graph contains collectives
    stream->after_kernel = false;
    comm_lock(stream);
    if (!stream->comm || !comm_aborted(stream->comm))
        status = call_status(cudaGraphLaunch(graph->exec, stream->cuda));
    comm_unlock(stream);
    return status;
}

void graph_close(struct graph *graph)
{
    if (!graph)
        return;
    (void)cudaGraphExecDestroy(graph->exec);
    free(graph);
}

// --- the table ----------------------------------------------------------------------------------

#define OP_OF(name) cuda_##name
#include "kernels/op_table.inc"
#undef OP_OF

static const struct device_api api = {
    .abi = DEVICE_ABI,
    .name = WEFT_DEVICE_NAME,
    .open = device_open,
    .close = device_close,
    .facts = device_facts,
    .need = device_needs,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .upload = table_upload,
    .weight_bytes = weight_bytes,
    .weight_put = loader_put,
    .weight_finish = weight_finish,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .device_slot_acquire = device_slot_acquire,
    .device_slot_release = device_slot_release,
    .thread_begin = device_slot_acquire,
    .step_private_bytes = step_private_bytes,
    .step_plan = step_plan,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .signal = stream_signal,
    .wait = stream_wait,
    .graph_begin = graph_begin,
    .graph_end = graph_end,
    .graph_launch = graph_launch,
    .graph_close = graph_close,
    .tune = gemm_tune,
    .comm_open = comm_open,
    .comm_abort = comm_abort,
    .comm_close = comm_close,
    .sums_buffer = sums_buffer,
    .ops = &op_rows,
};

__attribute__((visibility("default"))) const struct device_api *weft_device_plugin(void);

const struct device_api *weft_device_plugin(void)
{
    return &api;
}
