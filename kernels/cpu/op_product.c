// SPDX-License-Identifier: Apache-2.0
// gemm: cuts the rows into pieces that fit the stream's panel, packs their activations if the ISA
// level needs that (tiles, bytes), and distributes slabs of 32 output columns over the threads.
// Also the parts of a product that op_experts.c shares.
#include "kernels/cpu/internal.h"

struct product_job {
    struct product product;
    struct product_slabs slabs;
    uint32_t each; // slabs per chunk
};

static uint32_t slabs_of(uint32_t rows)
{
    return (rows + SLAB_COLUMNS - 1) / SLAB_COLUMNS;
}

struct product_slabs product_slabs_of(const struct stream *stream, const struct weight *weight)
{
    const struct weight_shape *shape = &weight->shape;
    struct product_slabs out = {.kernels = &stream->device->kernels, .weight = weight};
    out.slabs = shape->part_count > 0 ? 0 : slabs_of(weight_matrix_rows(shape));
    for (uint32_t i = 0; i < shape->part_count; i++)
        out.slabs += slabs_of(shape->parts[i].rows);
    return out;
}

void product_weight(struct product *p, const struct product_slabs *s)
{
    const struct weight_shape *shape = &s->weight->shape;
    p->dtype = shape->dtype;
    p->n = weight_matrix_rows(shape);
    p->k = shape->k;
    if (shape->part_count > 0)
        return;
    size_t first = (size_t)s->matrix * p->n; // row of the stack, a multiple of a slab
    p->weight = (const char *)s->weight->data + first * packed_depth(shape) * dtype_bytes(p->dtype);
    if (p->dtype == DTYPE_I8)
        p->scale =
            (const float *)(const void *)((const char *)s->weight->data + packed_bytes(shape)) +
            first * byte_groups(p->k);
}

void product_pack(const struct product *p, const struct product_slabs *s, uint32_t tile)
{
    if (s->weight->shape.part_count > 0)
        s->kernels->codes_pack(p, tile);
    else
        s->kernels->pack(p, tile);
}

// Computes slabs [first, end) of a matrix held as codes. Each part begins with its own slab.
static void parts_run(const struct product *product, const struct product_slabs *s, uint32_t first,
                      uint32_t end, uint32_t worker)
{
    uint32_t before = 0; // slabs of earlier parts
    for (uint32_t i = 0; i < s->weight->shape.part_count && first < end; i++) {
        struct code_part part = code_part_at(s->weight, s->matrix, i);
        uint32_t slabs = slabs_of(part.rows), row = part.first - s->matrix * product->n;
        uint32_t part_end = end < before + slabs ? end : before + slabs;
        if (first < part_end) {
            struct product p = *product;
            p.weight = part.panels;
            p.format = part.format;
            p.n = part.rows;
            p.y += row;
            p.bias = p.bias ? p.bias + row : NULL;
            s->kernels->codes(&p, first - before, part_end - before, worker);
            first = part_end;
        }
        before += slabs;
    }
}

void product_run(const struct product *p, const struct product_slabs *s, uint32_t first,
                 uint32_t end, uint32_t worker)
{
    if (s->weight->shape.part_count > 0)
        parts_run(p, s, first, end, worker);
    else
        s->kernels->product(p, first, end, worker);
}

// A few chunks per thread, so that threads end together; smaller chunks for few rows, where weights
// are read only once.
uint32_t product_chunk(uint32_t rows, uint32_t slabs, uint32_t threads)
{
    uint32_t each = rows > 32 ? slabs / (threads * 4) : slabs / (threads * 16);
    uint32_t most = rows > 32 ? 8 * SLAB_GROUP : SLAB_GROUP;
    if (each > SLAB_GROUP)
        each = each / SLAB_GROUP * SLAB_GROUP; // complete groups
    each = each < most ? each : most;
    return each > 0 ? each : 1;
}

static void pack_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct product_job *job = opaque;
    product_pack(&job->product, &job->slabs, chunk);
}

static void slab_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    const struct product_job *job = opaque;
    uint32_t first = chunk * job->each, slabs = job->slabs.slabs;
    uint32_t end = slabs - first < job->each ? slabs : first + job->each;
    product_run(&job->product, &job->slabs, first, end, worker);
}

enum status cpu_gemm(struct stream *stream, const struct gemm_args *args)
{
    struct product_job job = {.slabs = product_slabs_of(stream, args->weight)};
    struct product *p = &job.product;
    product_weight(p, &job.slabs);
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
        job.each = product_chunk(p->rows, job.slabs.slabs, threads_count(stream->device->threads));
        threads_run(stream->device->threads, slab_chunk, &job,
                    (job.slabs.slabs + job.each - 1) / job.each);
    }
    return STATUS_OK;
}
