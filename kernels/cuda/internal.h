// SPDX-License-Identifier: Apache-2.0
// Private to the cuda device: the device, the stream with its workspaces, and the check of a
// launch. Included by C and by .cu files (as C++).
//
// A stream belongs to one engine thread; its workspaces are allocated when it is opened and freed
// when it is closed. Kernels of one stream run in order, so workspaces need no synchronization.
#pragma once

#if defined(__cplusplus)
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define _Noreturn [[noreturn]] // the contract headers are C
extern "C" {
#endif

#include "kernels/attn_plan.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/nccl.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

enum {
    SAMPLE_CHUNK = 8192,     // logits per block
    STAGING_BYTES = 4 << 20, // size of each of the two pinned buffers for loading
    BLAS_WORKSPACE = 32 << 20,
    STRIP_BYTES = 32 << 20,       // most bytes of a strip, which an L2 cache of 40 MB holds
    ATTN_WALK_ROWS = 512,         // packed queries that the attention blocks of an SM walk together
    PARTIAL_BYTES_MAX = 64 << 20, // most bytes of attention part states
    RANKS_BYTES_MAX = 32 << 20,   // most bytes of the partial sums of all ranks
    ATTN_SHARED_WIDE =
        65 << 10,  // shared memory of a wide block at dim 128, driver's share included
    ATTN_DIMS = 8, // classes of head dims: 64, 96, 128, 256, and others by panels of 64
    WEIGHTS_KNOWN = 2048,
    KERNELS_KNOWN = 512, // more than the plugin has kernels
};

#define NCCL_BYTES ((uint64_t)768 << 20) // NCCL's buffers per communicator of a rank: an estimate

struct blas; // cuBLASLt handle, descriptors and algorithms (blas.c)

struct device {
    struct device_options options;
    char name[96];
    uint32_t processors;  // SMs
    uint32_t shared_most; // most bytes of shared memory of a block
    // narrow attention items that run together, by keys (16 bits, fp8) and head dim class
    uint32_t attn_workers[2][ATTN_DIMS];
    bool exact;
    bool early; // true if kernels of a step may start before the previous kernel has ended
    cudaStream_t loading;
    void *staging_host[2], *staging_device[2];
    cudaEvent_t staging_free[2];
    uint32_t staging_next;
    struct readers *readers;    // threads that fill staging buffers; NULL: not started
    bool direct_refused;        // true if a file system refused O_DIRECT; logged once
    pthread_mutex_t known_lock; // guards `known`: weights for timing products (--no-exact)
    struct weight_known {
        struct weight_shape shape;
        const void *data;
    } known[WEIGHTS_KNOWN];
    uint32_t known_count;
    const void *prepared[KERNELS_KNOWN]; // hash table of the kernels that kernel_prepare has seen
    struct nccl nccl;                    // opened if the device is a rank's
};

struct sample_chunk { // result of one block for its chunk of logits
    float raw_max, raw_sum, max, sum;
    uint32_t best, raw_best, count, bad;
};
struct sample_decision { // decisions for a row before the draw
    float raw_max, raw_log_sum, threshold, temperature;
    uint32_t greedy; // the token, or STEP_NO_ROW: draw
    uint32_t flags;
    uint32_t banned; // 1: no token is left; greedy is the raw arg-max
    uint32_t reserved;
};

struct stream_coded { // activations that the last kernel wrote as codes, too (quantize.h)
    const void *x;    // NULL: none
    uint32_t rows, padded, k;
    bool blocks; // true: with scales of blocks
    bool held;   // true while products of x are timed: other work of the stream does not matter
};

struct stream {
    struct device *device;
    struct stream_limits limits;
    cudaStream_t cuda;
    struct attn_capacity attn_capacity;
    float *partial_out;   // [partials][16][dim] f32, not yet divided by the sum
    float *partial_state; // [partials][16][2] f32: maximum (base 2), sum
    uint32_t *arrived;    // [merges * kv_heads] parts that have arrived; 0 between launches
    float *walk_out;      // [processors][ATTN_WALK_ROWS / 16][walk_floats] state of earlier parts
    uint32_t attn_blocks[2]; // blocks of the wide, narrow kernel that run together; 0: not queried
    bool capturing;          // true while a graph is recorded: grids must not depend on counts
    bool after_kernel;       // true if the stream's last work is a kernel of a step
    float *logits;           // [rows][vocab] f32 processed logits
    struct sample_chunk *chunk;
    struct sample_decision *sample;
    void *blas_workspace;
    struct blas *blas;
    unsigned char *codes; // [tokens][e4m3_width] activations as FP8 codes, tokens a multiple of 4
    float *code_scales;   // [e4m3_width / 128][tokens]
    struct stream_coded coded;
    void *strip;          // strip_bytes_of(): features of a weight as 16-bit floats
    struct comm *comm;    // NULL: no ranks, or not joined yet
    uint32_t rank;        // index among the ranks of this process
    float *ranks_scratch; // [ranks][n] f32 partial sums of a piece
    size_t ranks_scratch_bytes;
    void *sums;       // limits.sums_bytes: parts that ranks sum in place (windows.h)
    bool sums_shared; // true if NCCL has allocated `sums`, so that it can be a window
};

// call_status converts the result of a runtime call and clears the thread's last error.
// launch_status returns the status of the launch just made, which CUDA reports as the thread's last
// error; so every other failure must be cleared. call_failure returns the text of the last failure.
enum status call_status(cudaError_t code);
enum status launch_status(void);
const char *call_failure(void);

// One function per op, in the file of its family; attn and gemm choose among kernels.
#define OP_DECLARE(name) enum status cuda_##name(struct stream *, const struct name##_args *);
OP_LIST(OP_DECLARE)
#undef OP_DECLARE

// Products (gemm.c chooses): `small` and `wide` on tensor cores, `plain` for all types; blas_gemm
// by the faster of cuBLASLt and these, UNSUPPORTED if none; only if blas_takes returns true. The
// list of weights is for timing.
enum { WIDE_FEATURES = 128 }; // features of a tile of `wide`
uint32_t gemm_tune(struct stream *stream, uint32_t rows);
enum status gemm_small(struct stream *stream, const struct gemm_args *args);
enum status gemm_wide(struct stream *stream, const struct gemm_args *args);
enum status gemm_plain(struct stream *stream, const struct gemm_args *args);
enum status blas_open(struct blas **out, const struct device *device, struct error *err);
void blas_close(struct blas *blas);
uint32_t blas_tune(struct stream *stream, uint32_t rows);
bool blas_takes(const struct stream *stream, const struct gemm_args *args);
enum status blas_gemm(struct stream *stream, const struct gemm_args *args);
void blas_weight_known(struct device *device, const struct weight *weight);
void blas_weight_gone(struct device *device, const void *at, size_t bytes);
// FP8 products (blas_fp8.c). blas_fp8_ask asks the library which ones it has and logs that;
// blas_fp8_finish writes a loaded weight's scales as the library reads them; blas_fp8_known returns
// true if the library has them on this card by its documentation.
bool blas_fp8_known(const struct device *device);
void blas_fp8_ask(struct stream *stream);
enum status blas_fp8_finish(struct weight *weight);

// Strips of converted weights (blas_strip.c). strip_bytes_of returns the bytes of a stream's
// buffer; strip_nodes about how many kernels a layer has if all its products use strips.
size_t strip_bytes_of(const struct stream_limits *limits);
uint64_t strip_nodes(const struct stream_limits *limits);

// Attention kernels for one head dim, or for any up to 256. For 96 and 128 there are two sets:
// `small` is for cards whose SMs have shared memory for one wide block of 128 rows only.
struct attn_kernels {
    enum status (*run)(struct stream *stream, const struct attn_args *args);
    enum status (*narrow_blocks)(uint32_t dim, uint32_t *blocks); // blocks per SM
    uint32_t walk_floats; // floats of the walk state of 16 packed queries
    uint32_t wide_rows;   // packed queries of a wide item
};
extern const struct attn_kernels attn_d64, attn_d96, attn_d128, attn_d256, attn_any;
extern const struct attn_kernels attn_d96_small, attn_d128_small;
extern const struct attn_kernels attn_fp8_d64, attn_fp8_d128, attn_fp8_any; // kv DTYPE_E4M3
const struct attn_kernels *attn_kernels_of(const struct device *device, uint32_t dim,
                                           enum dtype kv);
enum status attn_workers_query(struct device *device); // at open; fills device->attn_workers
uint32_t attn_workers_of(const struct device *device, uint32_t dim, enum dtype kv);
enum status attn_plain(struct stream *stream, const struct attn_args *args);

// device.c: returns DEVICE_FAULT if the stream has failed; *idle: true if it has no work left.
enum status stream_query(const struct stream *stream, bool *idle, struct error *err);
// The functions of the device table; also used to time products inside a graph.
enum status graph_begin(struct stream *stream);
enum status graph_end(struct stream *stream, struct graph **out, struct error *err);
enum status graph_launch(struct stream *stream, struct graph *graph);
void graph_close(struct graph *graph);

// *out: true if the kernels loaded on this thread's card can start early. They cannot if the driver
// made them from PTX for a card before sm_90, whatever card runs them.
enum status early_query(bool *out);

// Before the first launch of a step's kernel: asks for the division of an SM's memory that all of
// them have.
void kernel_prepare(struct device *device, const void *kernel);

// Queues the store of `value` to host-visible memory (release).
enum status signal_run(cudaStream_t stream, uint32_t *host_word, uint32_t value);

#if defined(__cplusplus)
}
#endif
