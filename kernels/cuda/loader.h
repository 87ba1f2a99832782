// SPDX-License-Identifier: Apache-2.0
// How weights are loaded: the staging buffers of loader.c, and the kernels that convert rows. All
// functions are called by the loading thread.
#pragma once

#include "kernels/cuda/codes.h"
#include "kernels/cuda/internal.h"
#include "kernels/cuda/readers.h"

#if defined(__cplusplus)
extern "C" {
#endif

enum status loader_put(struct device *device, struct weight *weight, uint32_t first_row,
                       const struct weight_source *source, struct error *err);

// loader_buffer waits for the next staging buffer and sets *host to its first address that is a
// multiple of 4,096. loader_send queues the copy of `bytes` bytes at `from` in it, and sets *staged
// to their place on the device; after the kernels that read them, loader_sent is called.
enum status loader_buffer(struct device *device, char **host);
enum status loader_send(struct device *device, const void *from, size_t bytes, char **staged);
enum status loader_sent(struct device *device);

// Runs run(context, part, parts) for each part of `bytes` bytes that go into a staging buffer, on
// several threads if they are many (readers.h).
void loader_read(struct device *device, size_t bytes,
                 void (*run)(void *context, uint32_t part, uint32_t parts), void *context);

// weights.cu: weight_convert writes rows of a source in device memory to rows of a weight;
// weight_fill writes random numbers.
struct convert_args {
    const void *from; // [rows][cols] of `dtype`, or FP8 codes, device
    enum dtype dtype;
    bool e4m3; // true if `from` is FP8 codes
    struct weight_shape shape;
    void *to; // weight data
    uint32_t first_row, rows, cols;
};
enum status weight_convert(cudaStream_t stream, const struct convert_args *args);
struct fill_args {
    struct weight_shape shape;
    void *to;
    uint32_t first_row, rows, cols;
    uint32_t stride; // elements from one row of the tensor to the next
    uint64_t seed, first_element;
    float deviation;
};
enum status weight_fill(cudaStream_t stream, const struct fill_args *args);

// Rows of codes in staging memory, in the order of the file (struct weight_int4, or blocks). The
// first row of a band is a multiple of eight in the file.
struct codes_band {
    const uint8_t *codes, *scales, *zeros; // zeros: NULL if there are none; scales: not for blocks
    const uint32_t *row;                   // [count] row of the band of each row that is written
    uint32_t count, rows;                  // rows to write; rows of the band
    uint32_t columns, column; // columns of a row; index of the first in the file's matrix
    uint32_t elements;        // number in a group of the format that holds them; Q4_K: in a block
    enum weight_int4_order order;
    enum dtype scale_dtype;
    bool e2m1;
    uint32_t zeros_add, group, groups; // group: of the file; groups: number of them in a row
    // Blocks: bytes of a block (else 0) and of a row, offset of the codes in a block.
    uint32_t block_bytes, row_bytes, codes_at;
    struct code_rows to;
};
// Loads rows of codes: codes_load.c cuts bands, codes_put.cu stores them in the order of codes.h.
enum status codes_load(struct device *device, struct weight *weight, uint32_t first_row,
                       const struct weight_source *source);
enum status codes_put_band(cudaStream_t stream, const struct codes_band *band);

#if defined(__cplusplus)
}
#endif
