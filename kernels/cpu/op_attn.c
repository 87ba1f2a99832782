// attn: one work item for each (row, KV head, group of query tiles). The pool takes items; an item
// walks its keys alone, so its bits do not depend on which thread has it.
#include "kernels/cpu/cpu.h"

#include <string.h>

enum { ITEM_QUERIES = ATTN_GROUP * ATTN_TILE_ROWS };

// Room for keys and values as floats, scores, and four tiles of queries with two outputs; the AMX
// level lays 16-bit panels out in the same room.
size_t attn_scratch_floats(uint32_t dim)
{
    size_t wide = (dim + 31) / 32 * 32;
    return 2 * ATTN_TILE_KEYS * wide + (size_t)ATTN_TILE_KEYS * 16 + ATTN_GROUP * 48 * wide + 4096;
}

struct attn_job {
    struct stream *stream;
    const struct attn_args *args;
    const struct step_row *rows;
    uint32_t group;
};

static uint32_t row_groups(const struct step_row *row, uint32_t group)
{
    return (row->q_len * group + ITEM_QUERIES - 1) / ITEM_QUERIES;
}

// Chunks are counted row by row, last groups of a row first: with causal masks they are longest.
static void attn_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    const struct attn_job *job = opaque;
    const struct attn_args *a = job->args;
    uint32_t kv_heads = a->shape.kv_heads;
    const struct step_row *row = job->rows;
    while (chunk >= row_groups(row, job->group) * kv_heads)
        chunk -= row_groups(row++, job->group) * kv_heads;
    if (row->kv_len == 0) { // padding: nothing to see; the first chunk clears the row for all
        size_t width = (size_t)a->shape.heads * a->shape.dim;
        if (chunk == 0)
            memset((float *)a->out + row->q_start * width, 0, row->q_len * width * sizeof(float));
        return;
    }
    uint32_t queries = row->q_len * job->group;
    uint32_t groups = row_groups(row, job->group);
    uint32_t first = (groups - 1 - chunk / kv_heads) * ITEM_QUERIES;
    struct attn_item item = {
        .args = a,
        .row = row,
        .blocks = a->shape.paged ? a->block_table + (size_t)row->slot * a->blocks_max : NULL,
        .kv_head = chunk % kv_heads,
        .first = first,
        .end = queries - first < ITEM_QUERIES ? queries : first + ITEM_QUERIES,
        .scratch = job->stream->attn + worker * job->stream->attn_floats,
    };
    job->stream->device->kernels.attn(&item);
}

enum status cpu_attn(struct stream *stream, const struct attn_args *args)
{
    if (attn_check(args)[0] != '\0')
        return STATUS_INVALID;
    if (attn_scratch_floats(args->shape.dim) > stream->attn_floats)
        return STATUS_INVALID; // the stream was opened for smaller heads
    struct attn_job job = {
        .stream = stream,
        .args = args,
        .rows = (const struct step_row *)(const void *)((const char *)args->step +
                                                        args->step_host->layout.rows),
        .group = args->shape.heads / args->shape.kv_heads,
    };
    uint32_t chunks = 0;
    for (uint32_t i = 0; i < args->row_count; i++)
        chunks += row_groups(&job.rows[i], job.group) * args->shape.kv_heads;
    pool_run(stream->device->pool, attn_chunk, &job, chunks);
    return STATUS_OK;
}
