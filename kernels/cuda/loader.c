// SPDX-License-Identifier: Apache-2.0
// Loads weights from files to the device: pieces of at most STAGING_BYTES go through two pinned
// buffers (one is filled by several threads while the other is copied; readers.h) and are converted
// on the device. Files are read
// with O_DIRECT if possible; if the file system refuses it, or there is no file, bytes are read
// from the mapping. Called by the loading thread only; its buffers are allocated when the device is
// opened.
#include "kernels/cuda/loader.h"

#include "kernels/code_source.h"
#include "kernels/ways.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    DIRECT_ALIGN = 4096,
    ALONE_BYTES = 256 << 10, // fewer bytes are read by the loading thread alone
};

// Logs, once per device, that loading uses the page cache and is slower.
static void direct_refused(struct device *device)
{
    if (!device->direct_refused && device->options.note)
        device->options.note(
            device->options.index,
            "weights are read through the page cache: the file system refuses O_DIRECT");
    device->direct_refused = true;
}

// Opens a second descriptor of the same file, for O_DIRECT reads; -1 if it cannot be opened or the
// rows have gaps.
static int direct_open(struct device *device, const struct weight_source *source)
{
    if (source->fd < 0 || weight_source_at(source, 1) - source->first != source->cols)
        return -1;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", source->fd);
    int direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (direct < 0)
        direct_refused(device);
    return direct;
}

// Returns the first aligned address in a buffer: O_DIRECT requires one, and pinned memory need not
// begin on a block of the file system.
static char *staging_begin(void *buffer)
{
    uintptr_t at = (uintptr_t)buffer;
    return (char *)buffer + (DIRECT_ALIGN - at % DIRECT_ALIGN) % DIRECT_ALIGN;
}

// A piece that the readers read with O_DIRECT: whole aligned blocks [begin, end) of the file, of
// which the bytes up to `needed` must be there.
struct direct_piece {
    char *buffer; // gets the block at `begin`
    int direct;
    uint64_t begin, end, needed;
    _Atomic bool failed; // read by the loading thread after all readers have ended
};

static bool blocks_read(const struct direct_piece *p, uint64_t begin, uint64_t end)
{
    uint64_t done = begin, needed = end < p->needed ? end : p->needed;
    while (done < needed) {
        ssize_t got =
            pread(p->direct, p->buffer + (done - p->begin), (size_t)(end - done), (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (uint64_t)got;
        if (done < needed && done % DIRECT_ALIGN != 0)
            return false; // the file ends before the bytes do
    }
    return true;
}

static void piece_part(void *context, uint32_t part, uint32_t parts)
{
    struct direct_piece *p = context;
    uint64_t blocks = (p->end - p->begin) / DIRECT_ALIGN;
    uint64_t first = blocks * part / parts, last = blocks * (part + 1) / parts;
    if (!blocks_read(p, p->begin + first * DIRECT_ALIGN, p->begin + last * DIRECT_ALIGN))
        p->failed = true;
}

// Reads bytes [at, at + bytes) of the source into the buffer; *data is their offset in it. Whole
// aligned blocks are read, so the buffer has one block of slack at each end. Returns false if they
// cannot be read with O_DIRECT.
static bool piece_read(struct device *device, char *buffer, const struct weight_source *source,
                       int direct, uint64_t at, size_t bytes, size_t *data)
{
    uint64_t first = source->offset + at, last = first + bytes;
    struct direct_piece p = {.buffer = buffer, .direct = direct, .needed = last};
    p.begin = first / DIRECT_ALIGN * DIRECT_ALIGN;
    p.end = (last + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN;
    *data = (size_t)(first - p.begin);
    if (direct < 0)
        return false;
    loader_read(device, bytes, piece_part, &p);
    return !p.failed;
}

void loader_read(struct device *device, size_t bytes,
                 void (*run)(void *context, uint32_t part, uint32_t parts), void *context)
{
    if (bytes < ALONE_BYTES || device->options.ways & WAY_ONE_READER)
        run(context, 0, 1);
    else
        readers_run(&device->readers, device->options.ranks, run, context);
}

enum status loader_buffer(struct device *device, char **host)
{
    uint32_t at = device->staging_next;
    *host = staging_begin(device->staging_host[at]);
    return call_status(cudaEventSynchronize(device->staging_free[at]));
}

enum status loader_send(struct device *device, const void *from, size_t bytes, char **staged)
{
    *staged = device->staging_device[device->staging_next];
    return call_status(
        cudaMemcpyAsync(*staged, from, bytes, cudaMemcpyHostToDevice, device->loading));
}

enum status loader_sent(struct device *device)
{
    uint32_t at = device->staging_next;
    device->staging_next = at ^ 1u;
    return call_status(cudaEventRecord(device->staging_free[at], device->loading));
}

static enum status piece_put(struct device *device, struct convert_args *args, const void *from,
                             size_t bytes)
{
    char *staged;
    enum status status = loader_send(device, from, bytes, &staged);
    args->from = staged;
    if (status == STATUS_OK)
        status = weight_convert(device->loading, args);
    enum status sent = loader_sent(device);
    return status == STATUS_OK ? sent : status;
}

static size_t source_element_bytes(const struct weight_source *source)
{
    return source->format >= WEIGHT_FP8 ? 1 : dtype_bytes(source->dtype);
}

// Rows that the readers copy from the mapping. This also serves tensors of which only some columns
// are needed, because most of what O_DIRECT would read belongs to other ranks.
struct gather {
    char *to;
    const struct weight_source *source;
    uint32_t first, rows;
};

static void gather_part(void *context, uint32_t part, uint32_t parts)
{
    const struct gather *g = context;
    const struct weight_source *source = g->source;
    size_t each = source_element_bytes(source), row_bytes = source->cols * each;
    uint32_t end = (uint32_t)((uint64_t)g->rows * (part + 1) / parts);
    for (uint32_t r = (uint32_t)((uint64_t)g->rows * part / parts); r < end; r++)
        memcpy(g->to + r * row_bytes,
               (const char *)source->map + weight_source_at(source, g->first + r) * each,
               row_bytes);
}

static enum status rows_put(struct device *device, struct convert_args *args,
                            const struct weight_source *source, int direct)
{
    size_t row_bytes = (size_t)source->cols * source_element_bytes(source);
    uint32_t first = args->first_row;
    uint32_t each = (uint32_t)(STAGING_BYTES / (row_bytes != 0 ? row_bytes : 1));
    for (uint32_t row = 0; row < source->rows; row += each) {
        uint32_t rows = source->rows - row < each ? source->rows - row : each;
        size_t bytes = rows * row_bytes;
        char *buffer;
        enum status status = loader_buffer(device, &buffer);
        if (status != STATUS_OK)
            return status;
        size_t data = 0;
        uint64_t at = weight_source_at(source, row) * source_element_bytes(source);
        if (!piece_read(device, buffer, source, direct, at, bytes, &data)) {
            if (direct >= 0)
                direct_refused(device);
            data = 0;
            loader_read(device, bytes, gather_part, &(struct gather){buffer, source, row, rows});
        }
        args->first_row = first + row;
        args->rows = rows;
        status = piece_put(device, args, buffer + data, bytes);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

// Returns why FP8 codes or floats cannot be put into a weight of FP8 codes; NULL: they can.
static const char *e4m3_check(const struct weight_shape *shape, uint32_t first_row,
                              const struct weight_source *source)
{
    enum weight_format held = shape->parts[0].format;
    if (source->format == WEIGHT_FLOATS && held == WEIGHT_FP8)
        return NULL;
    if (source->format != held || !source->map || !source->scales)
        return "a weight of FP8 codes takes codes of its format and their scales";
    uint32_t end = first_row + source->rows;
    if (held == WEIGHT_FP8_128 &&
        (first_row % FP8_SCALE_ROWS != 0 || (end % FP8_SCALE_ROWS != 0 && end != shape->n)))
        return "rows of FP8 codes begin or end between two scales";
    return NULL;
}

static enum status source_check(const struct weight *weight, uint32_t first_row,
                                const struct weight_source *source, struct error *err)
{
    const struct weight_shape *shape = &weight->shape;
    bool vector = shape->use == WEIGHT_VECTOR;
    uint64_t elements = (uint64_t)source->rows * source->cols;
    uint64_t rows = vector ? elements : source->rows;
    for (uint32_t i = 0; i < shape->part_count; i++)
        if (!weight_e4m3(shape) &&
            (!(CODES_HELD >> shape->parts[i].format & 1) || shape->use != WEIGHT_PRODUCT))
            return error_set(err, STATUS_UNSUPPORTED, "this device holds no such weights as %s",
                             weight_format_facts(shape->parts[i].format)->name);
    if (source->format != WEIGHT_FLOATS && shape->part_count == 0)
        return error_set(err, STATUS_UNSUPPORTED, "blocks of %s need a weight held as codes",
                         weight_format_facts(source->format)->name);
    if (source->dtype == DTYPE_I8 || source->dtype >= DTYPE_COUNT)
        return error_set(err, STATUS_UNSUPPORTED,
                         "a weight's source must be float32, bfloat16 or float16");
    if (first_row + rows > shape->n || (!vector && source->cols != shape->k))
        return error_set(err, STATUS_INVALID,
                         "a source of %u x %u does not fit a weight of %u x %u at row %u",
                         source->rows, source->cols, shape->n, shape->k, first_row);
    const char *wrong = weight_e4m3(shape)      ? e4m3_check(shape, first_row, source)
                        : weight_nibbles(shape) ? code_source_check(shape, first_row, source)
                                                : NULL;
    if (wrong)
        return error_set(err, STATUS_INVALID, "a weight of %u x %u at row %u: %s", shape->n,
                         shape->k, first_row, wrong);
    if (source->cols * source_element_bytes(source) > STAGING_BYTES)
        return error_set(err, STATUS_TOO_LARGE, "a weight row of %u elements is over %u bytes",
                         source->cols, (unsigned)STAGING_BYTES);
    return STATUS_OK;
}

// Queues the copy of the scales of FP8 codes to those of the weight. They are pageable: the call
// returns when they were read.
static enum status scales_put(struct device *device, const struct weight *weight,
                              uint32_t first_row, const struct weight_source *source)
{
    size_t first = first_row, count = source->rows;
    if (source->format == WEIGHT_FP8_128) {
        size_t across = weight->shape.k / FP8_SCALE_COLUMNS;
        first = first / FP8_SCALE_ROWS * across;
        count = (count + FP8_SCALE_ROWS - 1) / FP8_SCALE_ROWS * across;
    }
    float *to = (float *)(void *)((char *)weight->data + weight_scales_at(&weight->shape));
    return call_status(cudaMemcpyAsync(to + first, source->scales, count * sizeof(float),
                                       cudaMemcpyHostToDevice, device->loading));
}

enum status loader_put(struct device *device, struct weight *weight, uint32_t first_row,
                       const struct weight_source *source, struct error *err)
{
    enum status status = source_check(weight, first_row, source, err);
    if (status != STATUS_OK || source->rows == 0)
        return status;
    if (call_status(cudaSetDevice((int)device->options.index)) != STATUS_OK)
        return error_set(err, STATUS_DEVICE_FAULT, "the device cannot be used: %s", call_failure());
    if (source->format != WEIGHT_FLOATS && !weight_e4m3(&weight->shape)) {
        status = codes_load(device, weight, first_row, source);
    } else if (!source->map) {
        struct fill_args fill = {
            .shape = weight->shape,
            .to = weight->data,
            .first_row = first_row,
            .rows = source->rows,
            .cols = source->cols,
            .stride = source->stride > 0 ? source->stride : source->cols,
            .first_element = source->first,
            .seed = source->seed,
            .deviation = source->deviation,
        };
        status = weight_fill(device->loading, &fill);
    } else {
        struct weight_source flat = *source;
        if (weight->shape.use == WEIGHT_VECTOR) { // a vector is loaded as rows of one element
            flat.rows = source->rows * source->cols;
            flat.cols = 1;
        }
        struct convert_args convert = {
            .dtype = source->dtype,
            .e4m3 = source->format >= WEIGHT_FP8,
            .shape = weight->shape,
            .to = weight->data,
            .first_row = first_row,
            .cols = flat.cols,
        };
        int direct = direct_open(device, &flat);
        status = convert.e4m3 ? scales_put(device, weight, first_row, source) : STATUS_OK;
        if (status == STATUS_OK)
            status = rows_put(device, &convert, &flat, direct);
        if (direct >= 0)
            (void)close(direct);
    }
    if (status != STATUS_OK)
        return error_set(err, status, "the device refused a weight: %s", call_failure());
    return STATUS_OK;
}
