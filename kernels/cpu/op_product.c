// SPDX-License-Identifier: Apache-2.0
// gemm: cuts the rows into pieces that fit the stream's panel, packs their activations if the ISA
// level needs that (tiles, bytes), and distributes slabs of 32 output columns over the threads.
#include "kernels/cpu/internal.h"

struct product_job {
    struct product product;
    const struct cpu_kernels *kernels;
    const struct weight *weight;
    uint32_t slabs, each; // number of slabs of all parts; slabs per chunk
};

static void pack_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct product_job *job = opaque;
    if (job->weight->shape.part_count > 0)
        job->kernels->codes_pack(&job->product, chunk);
    else
        job->kernels->pack(&job->product, chunk);
}

static uint32_t slabs_of(uint32_t rows)
{
    return (rows + SLAB_COLUMNS - 1) / SLAB_COLUMNS;
}

// Computes slabs [first, end) of a weight held as codes. Each part begins with its own slab.
static void parts_run(const struct product_job *job, uint32_t first, uint32_t end, uint32_t worker)
{
    uint32_t before = 0; // slabs of earlier parts
    for (uint32_t i = 0; i < job->weight->shape.part_count && first < end; i++) {
        struct code_part part = code_part_at(job->weight, i);
        uint32_t slabs = slabs_of(part.rows);
        uint32_t part_end = end < before + slabs ? end : before + slabs;
        if (first < part_end) {
            struct product p = job->product;
            p.weight = part.panels;
            p.format = part.format;
            p.n = part.rows;
            p.y += part.first;
            p.bias = p.bias ? p.bias + part.first : NULL;
            job->kernels->codes(&p, first - before, part_end - before, worker);
            first = part_end;
        }
        before += slabs;
    }
}

static void slab_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    const struct product_job *job = opaque;
    uint32_t first = chunk * job->each;
    uint32_t end = job->slabs - first < job->each ? job->slabs : first + job->each;
    if (job->weight->shape.part_count > 0)
        parts_run(job, first, end, worker);
    else
        job->kernels->product(&job->product, first, end, worker);
}

// Returns the slabs per chunk: a few chunks per thread, so that threads end together; smaller
// chunks for few rows, where weights are read only once.
static uint32_t slabs_each(uint32_t rows, uint32_t slabs, uint32_t threads)
{
    uint32_t each = rows > 32 ? slabs / (threads * 4) : slabs / (threads * 16);
    uint32_t most = rows > 32 ? 8 * SLAB_GROUP : SLAB_GROUP;
    if (each > SLAB_GROUP)
        each = each / SLAB_GROUP * SLAB_GROUP; // complete groups
    each = each < most ? each : most;
    return each > 0 ? each : 1;
}

// Returns the number of slabs of a weight.
static uint32_t slabs_all(const struct weight_shape *shape)
{
    uint32_t slabs = shape->part_count > 0 ? 0 : slabs_of(shape->n);
    for (uint32_t i = 0; i < shape->part_count; i++)
        slabs += slabs_of(shape->parts[i].rows);
    return slabs;
}

static void product_weight(struct product *p, const struct weight *weight)
{
    const struct weight_shape *shape = &weight->shape;
    p->weight = weight->data;
    p->dtype = shape->dtype;
    p->n = shape->n;
    p->k = shape->k;
    if (shape->part_count == 0 && shape->dtype == DTYPE_I8)
        p->scale = (const float *)(const void *)((const char *)weight->data + packed_bytes(shape));
}

enum status cpu_gemm(struct stream *stream, const struct gemm_args *args)
{
    struct product_job job = {.kernels = &stream->device->kernels, .weight = args->weight};
    struct product *p = &job.product;
    product_weight(p, args->weight);
    job.slabs = slabs_all(&args->weight->shape);
    p->bias = args->bias ? args->bias->data : NULL;
    p->panel = stream->panel;
    p->scratch = stream->sums;
    p->x_stride = args->x_stride;
    p->y_stride = args->y_stride;
    size_t row_bytes = (size_t)((p->k + 63) & ~63u) * sizeof(uint16_t);
    size_t fit = stream->panel_bytes / row_bytes / 32 * 32;
    if (fit == 0)
        return STATUS_INVALID; // wider than the limits that the stream was opened with
    uint32_t most = fit < PANEL_ROWS ? (uint32_t)fit : PANEL_ROWS;
    for (uint32_t first = 0; first < args->rows; first += most) {
        p->rows = args->rows - first < most ? args->rows - first : most;
        p->x = (const float *)args->x + (size_t)first * args->x_stride;
        p->y = (float *)args->y + (size_t)first * args->y_stride;
        threads_run(stream->device->threads, pack_chunk, &job, (p->rows + 15) / 16);
        job.each = slabs_each(p->rows, job.slabs, threads_count(stream->device->threads));
        threads_run(stream->device->threads, slab_chunk, &job,
                    (job.slabs + job.each - 1) / job.each);
    }
    return STATUS_OK;
}
