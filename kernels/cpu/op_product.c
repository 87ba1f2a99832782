// gemm: cuts the rows into pieces that fit the stream's panel, packs their activations where the
// level wants it (tiles, bytes), and lets the pool take slabs of 32 output columns.
#include "kernels/cpu/cpu.h"

struct product_job {
    struct product product;
    const struct cpu_kernels *kernels;
};

static void pack_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct product_job *job = opaque;
    job->kernels->pack(&job->product, chunk);
}

static void slab_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    const struct product_job *job = opaque;
    job->kernels->product(&job->product, chunk, worker);
}

static void product_weight(struct product *p, const struct weight *weight)
{
    const struct weight_shape *shape = &weight->shape;
    p->weight = weight->data;
    p->dtype = shape->dtype;
    p->n = shape->n;
    p->k = shape->k;
    if (shape->dtype != DTYPE_I8)
        return;
    uint32_t padded = (shape->n + SLAB_COLUMNS - 1) / SLAB_COLUMNS * SLAB_COLUMNS;
    p->scale = (const float *)(const void *)((const char *)weight->data + packed_bytes(shape));
    p->sum = (const int32_t *)(const void *)(p->scale + padded);
}

enum status cpu_gemm(struct stream *stream, const struct gemm_args *args)
{
    if (gemm_check(args)[0] != '\0')
        return STATUS_INVALID;
    struct product_job job = {.kernels = &stream->device->kernels};
    struct product *p = &job.product;
    product_weight(p, args->weight);
    p->bias = args->bias != NULL ? args->bias->data : NULL;
    p->panel = stream->panel;
    p->row_scale = stream->row_scale;
    p->scratch = stream->sums;
    p->x_stride = args->x_stride;
    p->y_stride = args->y_stride;
    size_t row_bytes = (size_t)((p->k + 63) & ~63u) * sizeof(uint16_t);
    size_t fit = stream->panel_bytes / row_bytes / 32 * 32;
    if (fit == 0)
        return STATUS_INVALID; // wider than the stream was opened for
    uint32_t most = fit < PANEL_ROWS ? (uint32_t)fit : PANEL_ROWS;
    for (uint32_t first = 0; first < args->rows; first += most) {
        p->rows = args->rows - first < most ? args->rows - first : most;
        p->x = (const float *)args->x + (size_t)first * args->x_stride;
        p->y = (float *)args->y + (size_t)first * args->y_stride;
        pool_run(stream->device->pool, pack_chunk, &job, (p->rows + 15) / 16);
        pool_run(stream->device->pool, slab_chunk, &job,
                 (p->n + SLAB_COLUMNS - 1) / SLAB_COLUMNS);
    }
    return STATUS_OK;
}
