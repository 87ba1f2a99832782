// Weights as a device holds them, and where their bytes come from. A device packs them once, at
// load, into the layout of its kernels; nobody else reads `data`.
#pragma once

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum weight_use {
    WEIGHT_PRODUCT, // right-hand side of ops->gemm: y = x W^T
    WEIGHT_ROWS,    // table of rows for ops->embed / embed_bert
    WEIGHT_TIED,    // both: an embedding table that is also the output head
    WEIGHT_VECTOR,  // norm weights and biases: n floats, always f32, k = 1
};

struct weight_shape {
    enum weight_use use;
    enum dtype dtype; // as held; DTYPE_I8 is quantised at load, as the device defines it: cpu
                      // kernels/cpu/bytes.h, cuda per row n with scale = max|w| / 127
    uint32_t n;       // output features, or rows of a table, or elements of a vector
    uint32_t k;       // input features, or width of a row
};

// A weight on a device. Zero it, fill shape, let data point at weight_bytes() bytes of device
// memory (256-byte aligned), then weight_put each source, then weight_finish.
struct weight {
    struct weight_shape shape;
    void *data;   // device layout; scales of int8 rows and padding are inside
    size_t bytes; // from weight_bytes()
};

// What is taken of one tensor of a checkpoint, in host byte order: rows x cols, of which element
// (r, c) is the tensor's element first + r * stride + c. Exactly one of: mapped bytes (map, the
// tensor's first; at any address), or random numbers (map == NULL): element i of the tensor is
// N(0, deviation) from Philox4x32-10(key = seed, counter = i), the same on every device.
// fd and offset name the tensor's bytes in the file (a GPU reads them with O_DIRECT); fd -1 if
// none.
struct weight_source {
    const void *map;
    int fd;
    uint64_t offset;
    enum dtype dtype; // F32, BF16 or F16
    uint32_t rows;
    uint32_t cols;
    uint64_t seed;
    float deviation;
    uint32_t stride; // 0: cols. A vector's elements have no gaps
    uint64_t first;
};

// The tensor's element that begins row `row` of the source.
static inline uint64_t weight_source_at(const struct weight_source *source, uint32_t row)
{
    return source->first + (uint64_t)row * (source->stride > 0 ? source->stride : source->cols);
}
