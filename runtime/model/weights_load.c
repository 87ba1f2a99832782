// SPDX-License-Identifier: Apache-2.0
// Loads the listed weights onto a device: mapped tensors, random or constant values without a
// checkpoint, and the computed row of a yes/no reranker's head. One thread for each rank.
#include "runtime/model/weights.h"

#include "base/arena.h"
#include "base/safe.h"
#include "kernels/cpu/threads.h"
#include "runtime/model/dequantise.h"
#include "runtime/model/distance.h"
#include "runtime/model/dummy.h"
#include "runtime/model/packed.h"
#include "runtime/source/mapping.h"

#include <stdatomic.h>
#include <string.h>

struct loader {
    const struct weight_load_args *args;
    const struct weight_list *list;
    // Ones and zeros, as long as the longest vector; allocated on first use.
    float *constant[2];
    struct dummy dummy;
    uint64_t done;           // bytes loaded
    struct threads *threads; // threads that compute rows; NULL: none yet, or those of the device
    struct error *err;
};

static enum status rows_put(struct loader *l, struct weight *weight, uint32_t row,
                            const struct weight_source *source)
{
    return l->args->api->weight_put(l->args->device, weight, row, source, l->err);
}

// Loads the row parts[0] minus parts[1].
static enum status put_difference(struct loader *l, struct weight *weight,
                                  const struct weight_entry *entry)
{
    uint32_t width = entry->parts[0].cols;
    float *row = heap_alloc(2 * width * sizeof *row);
    for (int p = 0; p < 2; p++) {
        const struct weight_part *part = &entry->parts[p];
        const struct tensor_place place = {part->from_row, 1, 0, width, width, 0, 0};
        tensor_rows_read(row + p * width, part->tensor, &place);
    }
    for (uint32_t i = 0; i < width; i++)
        row[i] -= row[width + i];
    struct weight_source source = {.map = row, .fd = -1, .rows = 1, .cols = width};
    source.dtype = DTYPE_F32;
    enum status status = rows_put(l, weight, 0, &source);
    heap_free(row);
    return status;
}

// Loads the bias by distance, which it computes from the values of the buckets or by ALiBi.
static enum status put_distance(struct loader *l, struct weight *weight,
                                const struct weight_entry *entry)
{
    uint32_t heads = entry->distance_heads, reach = (weight->shape.n / heads - 1) / 2;
    float *table = heap_alloc((size_t)weight->shape.n * sizeof *table);
    if (entry->part_count > 0) {
        const struct weight_part *part = &entry->parts[0];
        const struct tensor_place place = {0, part->rows, 0, part->cols, part->stride, 0, 0};
        float *values = heap_alloc_zeroed((size_t)part->rows * part->cols, sizeof *values);
        if (part->tensor) // else without a checkpoint, with values of zero
            tensor_rows_read(values, part->tensor, &place);
        distance_buckets(table, values, part->rows, heads, reach);
        heap_free(values);
    } else {
        distance_slopes(table, heads, reach);
    }
    struct weight_source source = {
        .map = table, .fd = -1, .rows = weight->shape.n, .cols = 1, .dtype = DTYPE_F32};
    enum status status = rows_put(l, weight, 0, &source);
    heap_free(table);
    return status;
}

static uint64_t part_first(const struct weight_part *part)
{
    return (uint64_t)part->from_row * part->stride + part->from_col;
}

enum { ROWS_LEAST = 32 }; // rows that one thread computes at a time

// Rows that the threads compute.
struct compute_job {
    const struct weight_part *part;
    const struct tensor *tensor;
    struct tensor_place place;
    float *rows;
};

// Computes ROWS_LEAST rows.
static void rows_chunk(void *job, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct compute_job *j = job;
    struct tensor_place place = j->place;
    uint32_t done = chunk * ROWS_LEAST, left = place.rows - done;
    float *rows = j->rows + (size_t)done * place.cols;
    place.first_row += done;
    place.rows = left < ROWS_LEAST ? left : ROWS_LEAST;
    tensor_rows_read(rows, j->tensor, &place);
    for (uint32_t i = 0; j->part->addend != 0 && i < place.rows * place.cols; i++)
        rows[i] += j->part->addend;
    for (uint32_t i = 0; j->part->factor != 0 && i < place.rows * place.cols; i++)
        rows[i] *= j->part->factor;
}

// Computes rows with the device's threads if it has any, else with threads of the loader.
static enum status rows_compute(struct loader *l, struct compute_job *job)
{
    uint32_t chunks = (job->place.rows + ROWS_LEAST - 1) / ROWS_LEAST;
    if (l->args->api->threads) {
        threads_run(l->args->api->threads(l->args->device), rows_chunk, job, chunks);
        return STATUS_OK;
    }
    enum status status =
        l->threads ? STATUS_OK : threads_open(&l->threads, l->args->threads, l->err);
    if (status == STATUS_OK)
        threads_run(l->threads, rows_chunk, job, chunks);
    return status;
}

// Loads rows that must be computed: quantised rows, rows that the file has in another order, and
// values other than those in the file. The buffer for rows fits into a CPU cache.
static enum status put_rows(struct loader *l, struct weight *weight, const struct weight_part *part)
{
    enum { ELEMENTS = 1 << 18 };
    uint32_t each = (ELEMENTS / part->cols + ROWS_LEAST) / ROWS_LEAST * ROWS_LEAST;
    float *rows = heap_alloc((size_t)each * part->cols * sizeof *rows);
    enum status status = STATUS_OK;
    struct tensor tensor = *part->tensor;
    if (part->head > 0) {
        tensor.rope_head = part->head;
        tensor.rope_rotary = part->rotary;
    }
    for (uint32_t done = 0; done < part->rows && status == STATUS_OK; done += each) {
        uint32_t count = part->rows - done < each ? part->rows - done : each;
        struct compute_job job = {part,
                                  &tensor,
                                  {part->from_row + done, count, part->from_col, part->cols,
                                   part->stride, part->step, part->skip},
                                  rows};
        struct weight_source source = {
            .map = rows, .fd = -1, .dtype = DTYPE_F32, .rows = count, .cols = part->cols};
        status = rows_compute(l, &job);
        if (status == STATUS_OK)
            status = rows_put(l, weight, part->to_row + done, &source);
    }
    heap_free(rows);
    return status;
}

// Loads rows held as codes, straight from the mapped file. Packed pages leave the resident memory
// band by band, so that the file is never resident next to the weights.
static enum status put_codes(struct loader *l, struct weight *weight,
                             const struct weight_part *part)
{
    enum { BAND_BYTES = 16 << 20 };
    const struct tensor *tensor = part->tensor;
    uint64_t row_bytes = tensor->blocks->bytes * (uint64_t)part->stride / tensor->blocks->elements;
    // Either the architecture interleaves the rows of a head, or only the file does.
    uint32_t head = part->head > 0 ? part->head : tensor->rope_head;
    uint32_t least = head > 0 ? head * 16 : 16; // heads of paired rows stay together
    uint32_t each = (uint32_t)(BAND_BYTES / row_bytes) / least * least + least;
    enum status status = STATUS_OK;
    for (uint32_t done = 0; done < part->rows && status == STATUS_OK; done += each) {
        struct weight_source source = {
            .map = tensor->map,
            .fd = -1,
            .rows = part->rows - done < each ? part->rows - done : each,
            .cols = part->cols,
            .stride = part->stride,
            .first = part_first(part) + (uint64_t)done * part->stride,
            .format = dequantise_format(tensor->blocks),
            .paired = head,
            .rotary = part->head > 0 ? part->rotary : tensor->rope_rotary,
        };
        status = rows_put(l, weight, part->to_row + done, &source);
        mapping_drop((const char *)tensor->map + (part->from_row + done) * row_bytes,
                     source.rows * row_bytes);
    }
    return status;
}

// Loads 4-bit codes of a folder without rounding them.
static enum status put_int4(struct loader *l, struct weight *weight, const struct weight_part *part)
{
    const struct tensor *tensor = part->tensor;
    struct weight_int4 int4 = packed_int4(tensor->packed);
    int4.n = (uint32_t)((uint64_t)int4.n * int4.k / part->stride); // several rows may count as one
    int4.k = part->stride;
    struct weight_source source = {
        .fd = -1,
        .rows = part->rows,
        .cols = part->cols,
        .stride = part->stride,
        .first = part_first(part),
        .format = packed_format(tensor->packed),
        .int4 = &int4,
        .paired = part->head,
        .rotary = part->rotary,
    };
    enum status status = rows_put(l, weight, part->to_row, &source);
    mapping_drop(tensor->map, tensor->bytes);
    return status;
}

// Loads FP8 codes of a folder, and their scales as float32.
static enum status put_fp8(struct loader *l, struct weight *weight, const struct weight_part *part)
{
    const struct tensor *tensor = part->tensor;
    enum weight_format format = weight->shape.parts[0].format;
    size_t scales = part->rows;
    if (format == WEIGHT_FP8_128)
        scales = (size_t)((part->rows + FP8_SCALE_ROWS - 1) / FP8_SCALE_ROWS) *
                 (part->cols / FP8_SCALE_COLUMNS);
    float *scale = heap_alloc(scales * sizeof *scale);
    packed_fp8_scales(scale, tensor->packed, format, part->from_row, part->rows, part->from_col,
                      part->cols);
    struct weight_source source = {
        .map = tensor->map,
        .fd = tensor->fd,
        .offset = tensor->offset,
        .rows = part->rows,
        .cols = part->cols,
        .stride = part->stride,
        .first = part_first(part),
        .format = format,
        .scales = scale,
    };
    enum status status = rows_put(l, weight, part->to_row, &source);
    heap_free(scale);
    return status;
}

static enum status put_tensor(struct loader *l, struct weight *weight,
                              const struct weight_part *part)
{
    const struct tensor *tensor = part->tensor;
    bool fp8 = weight->shape.part_count > 0 && weight->shape.parts[0].format >= WEIGHT_FP8;
    if (fp8 && tensor->packed && packed_fits_fp8(tensor->packed, weight->shape.parts[0].format))
        return put_fp8(l, weight, part);
    if (!fp8 && weight->shape.part_count > 0 && l->list->codes)
        return tensor->packed ? put_int4(l, weight, part) : put_codes(l, weight, part);
    if (tensor->packed || tensor->blocks || tensor->rope_head > 0 || part->head > 0 ||
        part->addend != 0 || part->factor != 0 || part->step > 0 ||
        (weight->shape.use == WEIGHT_VECTOR && part->stride > part->cols))
        return put_rows(l, weight, part);
    struct weight_source source = {
        .map = tensor->map,
        .fd = tensor->fd,
        .offset = tensor->offset,
        .dtype = (enum dtype)tensor->dtype,
        .rows = part->rows,
        .cols = part->cols,
        .stride = part->stride,
        .first = part_first(part),
    };
    return rows_put(l, weight, part->to_row, &source);
}

// As put_tensor; an error about the tensor's contents names the tensor. Returns the error of
// mapping_check if a page of the tensor's file could not be read, so that loading ends early. The
// caller of the load checks all files at the end.
static enum status put_named(struct loader *l, struct weight *weight,
                             const struct weight_part *part)
{
    const struct tensor *tensor = part->tensor;
    enum status status = put_tensor(l, weight, part);
    if (status == STATUS_OK && mapping_is_cut(tensor->mapping))
        return mapping_check(tensor->mapping, STATUS_OK, l->err);
    return status == STATUS_INVALID
               ? error_prefix(l->err, "%s: the tensor %s", tensor->file, safe_of(tensor->name).at)
               : status;
}

// Returns ones or zeros for a constant vector.
static const float *constants(struct loader *l, enum weight_fill fill)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < l->list->count; i++)
        if (l->list->entries[i].shape.use == WEIGHT_VECTOR && l->list->entries[i].shape.n > longest)
            longest = l->list->entries[i].shape.n;
    int which = fill == FILL_ONES ? 0 : 1;
    if (!l->constant[which]) {
        l->constant[which] = heap_alloc_zeroed(longest, sizeof(float));
        for (uint32_t i = 0; fill == FILL_ONES && i < longest; i++)
            l->constant[which][i] = 1.0f;
    }
    return l->constant[which];
}

static enum status put_dummy(struct loader *l, struct weight *weight,
                             const struct weight_entry *entry, const struct weight_part *part)
{
    uint64_t seed = (uint64_t)entry->index << 32 | part->seed;
    if (l->list->declared && weight->shape.part_count > 0)
        return dummy_put(&l->dummy, l->args, weight, part, seed, l->err);
    struct weight_source source = {
        .fd = -1,
        .dtype = DTYPE_F32,
        .rows = part->rows,
        .cols = part->cols,
        .seed = seed,
        .deviation = 0.02f,
        .stride = part->stride,
        .first = part_first(part),
    };
    if (entry->fill != FILL_RANDOM) {
        source.map = constants(l, entry->fill);
        source.first = 0;
    }
    return rows_put(l, weight, part->to_row, &source);
}

static enum status entry_load(struct loader *l, struct weight *weight,
                              const struct weight_entry *entry)
{
    *weight = (struct weight){.shape = entry->shape,
                              .data = (char *)l->args->memory + entry->offset,
                              .bytes = entry->bytes};
    enum status status = STATUS_OK;
    if (entry->difference)
        status = put_difference(l, weight, entry);
    else if (entry->distance_heads > 0)
        status = put_distance(l, weight, entry);
    else
        for (uint32_t i = 0; status == STATUS_OK && i < entry->part_count; i++)
            status = entry->parts[i].tensor ? put_named(l, weight, &entry->parts[i])
                                            : put_dummy(l, weight, entry, &entry->parts[i]);
    if (status == STATUS_OK)
        status = l->args->api->weight_finish(l->args->device, weight, l->err);
    l->done += entry->bytes;
    if (l->args->progress)
        l->args->progress(l->args->context, l->done);
    return status;
}

enum status weights_load(struct weight *table, const struct weight_list *list,
                         const struct weight_load_args *args, struct error *err)
{
    struct loader l = {.args = args, .list = list, .err = err};
    memset(table, 0, list->table_count * sizeof *table);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < list->count; i++)
        status = args->stopped && atomic_load(args->stopped)
                     ? STATUS_UNWANTED
                     : entry_load(&l, &table[list->entries[i].index], &list->entries[i]);
    threads_close(l.threads);
    dummy_close(&l.dummy);
    heap_free(l.constant[0]);
    heap_free(l.constant[1]);
    return status;
}
