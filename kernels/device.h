// A device: memory, streams, weights and a table of ops. Three exist: `cpu` (linked in), `cuda` and
// `simt` (the CUDA sources under the emulator), both shared objects with one entry point.
//
// Threads: open/close and the memory and weight calls come from one thread at a time (loading); a
// stream belongs to one thread (an engine's). Ownership: whoever takes gives back. Nothing outside
// a device folder reads memory that the device writes, except host-visible memory after wait().
#pragma once

#include "kernels/ops.h"
#include "base/status.h"
#include "kernels/step.h"
#include "kernels/weight.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_ABI = 7, DEVICE_NEED_MAX = 24 };

struct device;
struct graph; // a recorded run of ops of one stream
struct comm;  // joins a stream of each rank (kernels/collective.h)

struct device_options {
    uint32_t index;   // which GPU; 0 on a CPU
    uint32_t threads; // cpu: threads, the caller's included; 0: all usable cores
    int exact;   // 1: results do not depend on neighbours (docs/ARCHITECTURE.md); -1: by the device
    bool serial; // cuda: a kernel begins when the one in front has ended, on every card
    const char *cache_folder;       // for tuned algorithms; NULL: none
    void (*note)(const char *line); // logs a line; or NULL
    // Of a model's rank: how many ranks share the model; else 0. On a GPU this loads NCCL.
    uint32_t ranks;
    // cpu: NULL, or the device of which this one is rank `index` of `ranks`, at most its threads:
    // it has a part of these, and its streams share its turns. It closes before that one.
    struct device *whole;
};

struct device_facts {
    char name[96];            // "cpu: 2 threads, AMX", or the card's name
    uint32_t step_tokens;     // default tokens of a step; 0: 2048
    uint32_t steps_in_flight; // 0: launch returns when done (cpu); 1 on cuda and simt
    bool graphs;              // graph_* are supported
    bool exact;               // as opened
    uint64_t memory_free;     // bytes that may be taken now (cpu: free memory, cgroup counted)
    enum dtype activation[DTYPE_COUNT]; // type of activations for weights of each dtype
    enum dtype float32_runs_as;         // a float32 checkpoint, where --dtype does not say
    double kv_share;     // of memory_free that KV blocks get at most, where no option says
    uint64_t kv_default; // bytes for KV blocks of a model where no option says, or what its longest
                         // sequence takes where that is more; 0: as many as fit
    double step_stretch; // default of --step-stretch; 0: steps have no bound of time
    uint32_t ranks_max;  // that may share a model; of GPUs: one on each
};

// The memory that the device itself will take for a model, by label.
struct device_need {
    uint32_t count;
    struct {
        const char *label; // a string literal
        uint64_t bytes;
    } entry[DEVICE_NEED_MAX];
};

// Capacity of a stream.
struct stream_limits {
    struct step_limits step;
    struct attn_shape attn;
    uint32_t width_max; // largest k or n of any product, vocabulary included
    uint32_t layers;
    uint32_t graphs; // that will be recorded
};

struct device_api {
    uint32_t abi; // DEVICE_ABI; a plugin with another number is refused
    const char *name;

    enum status (*open)(struct device **out, const struct device_options *, struct error *);
    void (*close)(struct device *);
    void (*facts)(const struct device *, struct device_facts *out);
    enum status (*need)(const struct device *, const struct stream_limits *,
                        struct device_need *out, struct error *);

    // Device memory, 256-byte aligned, zeroed; host-visible memory (pinned and mapped on a GPU).
    enum status (*memory_take)(struct device *, void **out, size_t bytes, struct error *);
    void (*memory_give)(struct device *, void *at, size_t bytes);
    enum status (*host_take)(struct device *, void **out, size_t bytes, struct error *);
    void (*host_give)(struct device *, void *at, size_t bytes);
    enum status (*upload)(struct device *, void *to, const void *from, size_t bytes,
                          struct error *); // synchronous; for tables at load

    size_t (*weight_bytes)(const struct device *, const struct weight_shape *);
    enum status (*weight_put)(struct device *, struct weight *, uint32_t first_row,
                              const struct weight_source *, struct error *);
    enum status (*weight_finish)(struct device *, struct weight *, struct error *);

    enum status (*stream_open)(struct device *, struct stream **out, const struct stream_limits *,
                               struct error *);
    void (*stream_close)(struct stream *);

    // A step begins with turn_take and ends with turn_give, on the stream's thread; copies, ops and
    // graph launches come between them. On a GPU turn_take makes the device current for the
    // calling thread, which all launches of the step rely on; turn_more is NULL. Engines that share
    // a CPU take turns; the one whose last turn is longest ago is next. A stream that passed `more`
    // is waited for, so that it gets at least one of every k + 1 steps of k engines with work;
    // until its next turn, or until it passes false, it must not block.
    void (*turn_take)(struct stream *);
    void (*turn_give)(struct stream *);
    void (*turn_more)(struct stream *, bool more);
    // The calling thread makes the calls of a step without a turn of its own: a rank's. NULL where
    // that needs nothing.
    void (*thread_begin)(struct stream *);

    // The device's private part of the step record (attention work lists): its bytes at most, and
    // the host function that fills it from the record's rows and returns the bytes that it used.
    // NULL / 0 where there is none.
    size_t (*step_private_bytes)(const struct device *, const struct stream_limits *);
    size_t (*step_plan)(struct stream *, struct step *host);

    // In stream order, without waiting. host memory must be from host_take.
    enum status (*copy_in)(struct stream *, void *device, const void *host, size_t bytes);
    enum status (*copy_out)(struct stream *, void *host, const void *device, size_t bytes);
    enum status (*signal)(struct stream *, uint32_t *host_word, uint32_t value); // a release store

    // The only way to wait: until *host_word == value or later (wrap-safe), the device fails
    // (DEVICE_FAULT), or CLOCK_MONOTONIC passes deadline_ns (TIMEOUT) while the process runs.
    enum status (*wait)(struct stream *, const uint32_t *host_word, uint32_t value,
                        uint64_t deadline_ns, struct error *);

    enum status (*graph_begin)(struct stream *);
    enum status (*graph_end)(struct stream *, struct graph **out, struct error *);
    enum status (*graph_launch)(struct stream *, struct graph *);
    void (*graph_close)(struct graph *);

    // At the start, before the first step: the count of rows after `rows` (0: the first) whose
    // products should be run once, which may now take time to find their fastest way; 0: there is
    // none, and steps take what was found. NULL: products have one way.
    uint32_t (*tune)(struct stream *, uint32_t rows);

    // Joins streams of `count` devices, the rank of each its place in the list; a stream is in one
    // communicator at most. abort, from any thread: collectives under way, later ones and graphs
    // fail with DEVICE_FAULT. close: no rank is in a collective; graphs and streams close before
    // and after it. A wait for one of the streams fails where any of them has; one that records is
    // not asked.
    enum status (*comm_open)(struct comm **out, struct stream *const *streams, uint32_t count,
                             struct error *);
    void (*comm_abort)(struct comm *);
    void (*comm_close)(struct comm *); // NULL is allowed

    const struct op_table *ops;
};

// The CPU, always there.
const struct device_api *device_cpu(void);

// The one exported symbol of a plugin: `const struct device_api *weft_device_plugin(void)`.
typedef const struct device_api *device_plugin_entry(void);
#define DEVICE_PLUGIN_SYMBOL "weft_device_plugin"

// Opens libweft_NAME.so: library_path if not NULL, else beside the executable, then in the install
// libdir; never from the working directory. NOT_FOUND where there is no such file,
// NO_DEVICE with the reason where it cannot be opened.
enum status device_plugin_open(const struct device_api **out, const char *name,
                               const char *library_path, struct error *err) MUST_USE;
