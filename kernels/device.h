// SPDX-License-Identifier: Apache-2.0
// A device: memory, streams, weights and a table of ops. There are three devices: `cpu` is linked
// in; `cuda` and `simt` (the CUDA sources under the emulator) are shared objects with one entry
// point each.
//
// Threads: open, close and the memory and weight functions are called by one thread at a time for a
// device (its loading thread); each stream belongs to one thread (an engine's). Ownership: the
// caller of an alloc or open function must call the matching free or close. Only code in the
// device's folder reads memory that it writes, except host-visible memory after wait().
#pragma once

#include "kernels/ops.h"
#include "base/status.h"
#include "kernels/step.h"
#include "kernels/weight.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_ABI = 22, DEVICE_NEED_MAX = 24, PRODUCT_ROWS_UNIT = 4, GRAPH_FEW_ROWS = 64 };

struct device;
struct threads; // kernels/cpu/threads.h
struct graph;   // ops of one stream, recorded for replay
struct comm;    // a communicator: one stream of each rank (kernels/collective.h)

struct device_options {
    uint32_t index;   // number of the GPU; cpu: 0, or the rank if `parent` is set
    uint32_t threads; // cpu: number of threads, including the caller's; 0: all usable cores
    int exact;        // 1: exact mode (docs/ARCHITECTURE.md); 0: off; -1: the device's default
    bool serial;      // cuda: true if kernels must not overlap, even on cards that can overlap them
    uint32_t ways;    // cuda: bits of enum device_way (ways.h); 0: the defaults
    const char *cache_folder; // folder of the file of tuned algorithms; NULL: no file
    void (*note)(uint32_t index, const char *line); // logs a line about GPU `index`; NULL: no log
    uint32_t ranks; // number of ranks that share the model (cuda then loads NCCL); 0: not split
    // cpu: NULL, or the device that this one is a part of, as rank `index` of `ranks`. The device
    // then gets a share of that device's number of threads (at least one per rank), and its streams
    // share the device slot of `parent`. Close it before `parent`.
    struct device *parent;
};

struct device_facts {
    char name[96];             // "cpu: 2 threads, AMX", or the card's name
    uint32_t step_tokens;      // default token budget of a step; 0: 2048
    uint32_t steps_in_flight;  // 0: launch returns when the step is done (cpu); 1: cuda and simt
    uint32_t meet_layers;      // layers of a step after which its ranks wait for each other, or 0
    bool graphs, exact;        // true if graph_* are supported; true in exact mode
    bool sums_in_place;        // true if all_reduce sums parts in the activation type, in place
    uint64_t memory_available; // bytes that can be allocated now (cpu: within the cgroup limits)
    enum dtype activation[DTYPE_COUNT]; // activation type for weights of each dtype
    bool kv_int8, kv_fp8;               // true if keys and values can be int8, e4m3
    bool experts;                       // true if route, gemm_experts and combine are supported
    uint32_t codes;         // bit f: products can be held as codes of format f (kernels/format.h)
    bool code_tables;       // true if tables and output heads can be held as codes, too
    bool e4m3, e4m3_strips; // true if weights can be FP8 codes; if products convert strips of them
    // Dtypes that weights have if --dtype is not given. float32_runs_as: all weights of a float32
    // checkpoint; quantised_runs_as: the weights of a file with quantised tensors, except those
    // held as codes; unheld_runs_as: products whose tensors are all quantised, but not held as
    // codes, where others are.
    enum dtype float32_runs_as, quantised_runs_as, unheld_runs_as;
    double kv_share; // largest share of memory_available for KV blocks if no option sets their size
    uint64_t kv_default; // bytes of a model's KV blocks if no option sets their size, at least what
                         // its longest sequence needs; 0: as many as fit
    double step_stretch; // default of --step-stretch; 0: no bound on the time of a step
    uint32_t ranks_max;  // most ranks that can share a model; on GPUs one per card
};

// Memory that the device allocates for a stream and its graphs, in labelled entries.
struct device_need {
    uint32_t count;
    struct {
        const char *label; // a string literal
        uint64_t bytes;
    } entry[DEVICE_NEED_MAX];
};

// Limits that a stream is opened for.
struct stream_limits {
    struct step_limits step;
    struct attn_shape attn;
    enum dtype kv;       // type of keys and values in KV blocks
    uint32_t width_max;  // largest k or n of any product, vocabulary included; stacks: one matrix
    uint32_t e4m3_width; // largest k of any product whose weight is held as FP8 codes; 0: none
    uint64_t coded_most, coded_layer; // most elements that strips convert: of a weight, of a layer
    bool products_padded; // outputs of products have rows to spare, up to PRODUCT_ROWS_UNIT * m
    uint32_t layers, graphs, graphs_many; // graphs to record; those above GRAPH_FEW_ROWS rows
    uint64_t sums_bytes; // bytes of the stream's buffer for sums of ranks; 0: there is none
};

struct device_api {
    uint32_t abi; // DEVICE_ABI; a plugin with another number is refused
    const char *name;
    enum status (*open)(struct device **out, const struct device_options *, struct error *);
    void (*close)(struct device *);
    void (*facts)(const struct device *, struct device_facts *out);
    // Lists the memory that stream_open will allocate for these limits.
    enum status (*need)(const struct device *, const struct stream_limits *,
                        struct device_need *out, struct error *);
    // memory_*: device memory, 256-byte aligned. host_*: memory that host and device can access (on
    // a GPU pinned and mapped). Both are zeroed, and are freed with the same `bytes`.
    enum status (*memory_alloc)(struct device *, void **out, size_t bytes, struct error *);
    void (*memory_free)(struct device *, void *at, size_t bytes);
    enum status (*host_alloc)(struct device *, void **out, size_t bytes, struct error *);
    void (*host_free)(struct device *, void *at, size_t bytes);
    enum status (*upload)(struct device *, void *to, const void *from, size_t bytes,
                          struct error *); // synchronous; for tables at load

    // For the order of these three calls see struct weight in kernels/weight.h.
    size_t (*weight_bytes)(const struct device *, const struct weight_shape *);
    enum status (*weight_put)(struct device *, struct weight *, uint32_t first_row,
                              const struct weight_source *, struct error *);
    enum status (*weight_finish)(struct device *, struct weight *, struct error *);
    // Returns the threads that the loading thread may use between these calls, or NULL.
    struct threads *(*threads)(struct device *);

    enum status (*stream_open)(struct device *, struct stream **out, const struct stream_limits *,
                               struct error *);
    void (*stream_close)(struct stream *);

    // A step begins with device_slot_acquire and ends with device_slot_release; the stream's thread
    // calls both, and between them copies, ops and graph launches. On a GPU device_slot_acquire
    // makes the device current for the calling thread, which all launches of the step require, and
    // device_slot_announce is NULL. Engines that share a CPU run one step at a time:
    // device_slot_acquire blocks until the stream holds the device slot, and the stream whose last
    // step is longest ago is next. After device_slot_announce(true) a stream is expected to acquire
    // the slot again: the others wait for it once it is overdue, so that with k engines that have
    // work it gets at least one of every k + 1 steps. Its thread must not block until then or until
    // it calls device_slot_announce(false).
    void (*device_slot_acquire)(struct stream *);
    void (*device_slot_release)(struct stream *);
    void (*device_slot_announce)(struct stream *, bool more);
    // Prepares the calling thread, which runs a rank of a model, for the calls of a step without
    // holding the device slot itself. NULL if nothing is needed.
    void (*thread_begin)(struct stream *);

    // The device's private part of the step record (attention work lists). step_private_bytes
    // returns its largest size. step_plan runs on the host: it fills the part from the record's
    // rows and returns the bytes used. Both are NULL if there is no such part.
    size_t (*step_private_bytes)(const struct device *, const struct stream_limits *);
    size_t (*step_plan)(struct stream *, struct step *host);

    // copy_in, copy_out and signal are queued in stream order and return without waiting. `host` is
    // memory from host_alloc.
    enum status (*copy_in)(struct stream *, void *device, const void *host, size_t bytes);
    enum status (*copy_out)(struct stream *, void *host, const void *device, size_t bytes);
    enum status (*signal)(struct stream *, uint32_t *host_word, uint32_t value); // release store

    // Waits for the stream; there is no other way to wait. Returns OK once *host_word has reached
    // `value` (compared with wrap-around), DEVICE_FAULT if the device has failed, and TIMEOUT after
    // deadline_ns (CLOCK_MONOTONIC; time in which the process was stopped is not counted).
    enum status (*wait)(struct stream *, const uint32_t *host_word, uint32_t value,
                        uint64_t deadline_ns, struct error *);

    // graph_begin starts recording the ops of the stream, graph_end ends it; the caller closes the
    // graph.
    enum status (*graph_begin)(struct stream *);
    enum status (*graph_end)(struct stream *, struct graph **out, struct error *);
    enum status (*graph_launch)(struct stream *, struct graph *);
    void (*graph_close)(struct graph *);

    // Warms up products before the first step. Returns the next row count after `rows` (0: before
    // the first) for which the caller must run every product once, while the device may time
    // several algorithms; 0: there are no more. NULL: products need no warm-up.
    uint32_t (*tune)(struct stream *, uint32_t rows);

    // comm_open joins the streams of `count` devices; a stream is in at most one communicator. If
    // link is NULL, a stream's rank is its index in the list. Otherwise the ranks of the streams
    // are link->first, link->first + 1, ..., and other processes hold the other ranks; each process
    // calls comm_open, which may wait for the others. The link must outlive the communicator.
    // wait() on one of the streams fails if any of them has failed, and on GPUs if a process of the
    // link is lost; a stream that is recording a graph is not queried.
    // comm_abort may be called by any thread: collectives in progress, later ones and launches of
    // graphs then fail with DEVICE_FAULT; it aborts the link, too. comm_close: no rank may be in a
    // collective; graphs are closed before it and streams after it.
    enum status (*comm_open)(struct comm **out, struct stream *const *streams, uint32_t count,
                             const struct comm_link *link, struct error *);
    void (*comm_abort)(struct comm *);
    void (*comm_close)(struct comm *); // NULL is allowed
    // Returns the stream's buffer of sums_bytes, zeroed at first, in which all_reduce is fastest.
    // NULL: a device without sums_in_place.
    void *(*sums_buffer)(struct stream *);

    const struct op_table *ops;
};

// The cpu device; always available.
const struct device_api *device_cpu(void);

// The one exported symbol of a plugin: `const struct device_api *weft_device_plugin(void)`.
typedef const struct device_api *device_plugin_entry(void);
#define DEVICE_PLUGIN_SYMBOL "weft_device_plugin"

// Opens the shared object of device `name`: library_path if not NULL, else libweft_NAME.so in the
// executable's folder, else in ../lib/weft from there; without library_path, never in the working
// directory. Returns NOT_FOUND if library_path is NULL and neither file exists, NO_DEVICE with the
// reason if library_path does not exist, the object cannot be opened or its ABI is another one. The
// object stays loaded until the process ends.
enum status device_plugin_open(const struct device_api **out, const char *name,
                               const char *library_path, struct error *err) MUST_USE;
