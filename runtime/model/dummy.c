// SPDX-License-Identifier: Apache-2.0
// See dummy.h. Each row is a piece of one table of random codes, because random numbers for every
// code of a large model would take minutes.
#include "runtime/model/dummy.h"

#include "base/arena.h"
#include "kernels/philox.h"

#include <string.h>

// Places in the table at which a row may begin; bytes of a band of rows, which are made at a time.
enum { PLACES = 1 << 16, BAND_BYTES = 16 << 20, BAND_ROWS = 128 };

enum dummy_kind { KIND_INT4, KIND_E2M1, KIND_FP8 };

static const float deviation = 0.02f;       // standard deviation of the elements
static const float root_of_2 = 1.41421356f; // standard deviation of popcount(byte) - 4

// Returns the code of a number from -4 to 4.
static uint8_t code_of(enum dummy_kind kind, int number)
{
    static const uint8_t e2m1[] = {0, 2, 4, 5, 6}, e4m3[] = {0, 0x38, 0x40, 0x44, 0x48};
    int size = number < 0 ? -number : number;
    if (kind == KIND_INT4)
        return (uint8_t)(8 + number);
    if (kind == KIND_E2M1)
        return (uint8_t)(e2m1[size] | (number < 0 ? 8 : 0));
    return (uint8_t)(e4m3[size] | (number < 0 ? 0x80 : 0));
}

// Makes a table of at least `bytes` bytes. Its contents do not depend on their number.
static void table_make(struct dummy *d, enum dummy_kind kind, size_t bytes)
{
    if (d->bytes >= bytes && d->kind == (int)kind)
        return;
    heap_free(d->codes);
    d->bytes = (bytes + 15) / 16 * 16;
    d->kind = (int)kind;
    d->codes = heap_alloc(d->bytes);
    for (size_t i = 0; i < d->bytes; i += 8) { // 16 random bytes make 8 bytes of the table
        struct philox_block block = philox4x32(1, (uint32_t)(i / 8), 0, 0, 0);
        const uint8_t *random = (const uint8_t *)block.word;
        for (size_t b = 0; b < 8; b++) {
            uint8_t low = code_of(kind, __builtin_popcount(random[2 * b]) - 4);
            uint8_t high = code_of(kind, __builtin_popcount(random[2 * b + 1]) - 4);
            d->codes[i + b] = (uint8_t)(kind == KIND_FP8 ? low : low | high << 4);
        }
    }
}

// A band of rows as the arrays of a checkpoint.
struct band {
    uint8_t *codes;
    uint16_t *scales; // float16, or bytes of MXFP4
    float *factors;   // scales of FP8
    uint32_t *zeros;
};

static struct band band_make(uint32_t rows, size_t row_bytes, uint32_t groups, bool e2m1)
{
    struct band band = {.codes = heap_alloc(rows * row_bytes)};
    size_t scales = (size_t)rows * groups, zeros = (size_t)(rows + 7) / 8 * groups;
    band.scales = heap_alloc(scales * sizeof *band.scales);
    band.factors = heap_alloc(scales * sizeof *band.factors);
    band.zeros = heap_alloc(zeros * sizeof *band.zeros);
    for (size_t i = 0; i < scales; i++) {
        band.scales[i] = e2m1 ? 0x7979 : f32_to_f16(deviation / root_of_2); // 2^(121 - 127)
        band.factors[i] = deviation / root_of_2;
    }
    memset(band.zeros, 0x88, zeros * sizeof *band.zeros);
    return band;
}

static void band_free(const struct band *band)
{
    heap_free(band->codes);
    heap_free(band->scales);
    heap_free(band->factors);
    heap_free(band->zeros);
}

enum status dummy_put(struct dummy *d, const struct weight_load_args *args, struct weight *weight,
                      const struct weight_part *part, uint64_t seed, struct error *err)
{
    enum weight_format format = weight->shape.parts[0].format;
    const struct weight_format_facts *f = weight_format_facts(format);
    bool fp8 = format >= WEIGHT_FP8;
    uint32_t each = fp8 ? 1 : 2; // codes in a byte
    uint32_t group = format == WEIGHT_FP8 ? part->cols : f->elements;
    uint32_t groups = (part->cols + group - 1) / group;
    size_t row_bytes = (part->cols + each - 1) / each;
    uint32_t most = (uint32_t)(BAND_BYTES / row_bytes) / BAND_ROWS * BAND_ROWS + BAND_ROWS;
    most = most < part->rows ? most : part->rows;
    table_make(d, fp8 ? KIND_FP8 : f->e2m1 ? KIND_E2M1 : KIND_INT4, PLACES + part->stride);
    struct band band = band_make(most, row_bytes, groups, f->e2m1);
    enum status status = STATUS_OK;
    for (uint32_t done = 0; done < part->rows && status == STATUS_OK; done += most) {
        uint32_t rows = part->rows - done < most ? part->rows - done : most;
        for (uint32_t r = 0; r < rows; r++) {
            struct philox_block at = philox4x32(seed, part->from_row + done + r, 0, 0, 0);
            memcpy(band.codes + r * row_bytes,
                   d->codes + at.word[0] % PLACES + part->from_col / each, row_bytes);
        }
        const struct weight_int4 int4 = {.order = INT4_BY_ROW,
                                         .codes = band.codes,
                                         .scales = band.scales,
                                         .zeros = f->zeros ? band.zeros : NULL,
                                         .scale_dtype = DTYPE_F16,
                                         .n = rows,
                                         .k = part->cols,
                                         .group = group,
                                         .e2m1 = f->e2m1};
        const struct weight_source source = {.map = band.codes,
                                             .fd = -1,
                                             .rows = rows,
                                             .cols = part->cols,
                                             .stride = part->cols,
                                             .format = format,
                                             .int4 = fp8 ? NULL : &int4,
                                             .scales = band.factors};
        status = args->api->weight_put(args->device, weight, part->to_row + done, &source, err);
    }
    band_free(&band);
    return status;
}

void dummy_close(struct dummy *d)
{
    heap_free(d->codes);
    *d = (struct dummy){.codes = NULL};
}
