// SPDX-License-Identifier: Apache-2.0
// attn: the threads take items of the step's plan (kernels/attn_plan.h). One thread computes an
// item, and parts are merged in order, so bits do not depend on which thread computes what.
#include "kernels/cpu/internal.h"

#include <string.h>

_Static_assert(ATTN_WIDE_ROWS == ATTN_GROUP * ATTN_TILE_ROWS, "a wide item is one job");

// Space for keys and values as floats, scores, and four query tiles with two outputs each; the AMX
// level stores its 16-bit panels in the same space.
size_t attn_scratch_floats(uint32_t dim)
{
    size_t wide = (dim + 31) / 32 * 32;
    return 2 * ATTN_TILE_KEYS * wide + (size_t)ATTN_TILE_KEYS * 16 + ATTN_GROUP * 48 * wide + 4096;
}

struct attn_call {
    struct stream *stream;
    const struct attn_args *args;
    const struct step_row *rows;
    const struct attn_work *work;
};

static const void *work_at(const struct attn_call *call, uint32_t offset)
{
    return (const char *)call->work + offset;
}

// Returns the state of a part; `at` is its index among the parts of the merge.
static float *state_at(const struct attn_call *call, const struct attn_merge *merge,
                       uint32_t kv_head, uint32_t at)
{
    size_t partial = merge->partial + kv_head * merge->parts + at;
    return call->stream->partial + partial * attn_state_floats(call->args->shape.dim);
}

// Makes the job of packed queries [first, first + most) of a row, limited to the queries it has,
// with all keys that they see.
static struct attn_job job_make(const struct attn_call *call, uint32_t index, uint32_t kv_head,
                                uint32_t first, uint32_t most)
{
    const struct attn_args *a = call->args;
    const struct attn_shape *s = &a->shape;
    const struct step_row *row = &call->rows[index];
    uint32_t group = s->heads / s->kv_heads;
    uint32_t queries = row->q_len * group;
    struct attn_job job = {
        .args = a,
        .row = row,
        .blocks = s->paged ? a->block_table + (size_t)row->slot * a->blocks_max : NULL,
        .kv_head = kv_head,
        .first = first,
        .end = queries - first < most ? queries : first + most,
    };
    uint32_t before = row->kv_len - row->q_len;
    uint32_t lowest = before + first / group;
    job.key_first = attn_low(s, lowest) / ATTN_TILE_KEYS * ATTN_TILE_KEYS;
    job.key_end = attn_high(s, before + (job.end - 1) / group, row->kv_len) + 1;
    return job;
}

static void row_clear(const struct attn_call *call, const struct step_row *row)
{
    size_t width = (size_t)call->args->shape.heads * call->args->shape.dim;
    memset((float *)call->args->out + row->q_start * width, 0, row->q_len * width * sizeof(float));
}

// Computes an item for a KV head. Wide items come first, because they see the most keys; then
// narrow items from the last on, because rows that are not cut into parts are last in the plan and
// take longest.
static void attn_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    const struct attn_call *call = opaque;
    uint32_t kv_heads = call->args->shape.kv_heads;
    uint32_t index = chunk / kv_heads;
    uint32_t kv_head = chunk % kv_heads;
    uint32_t wide = call->work->wide_count;
    uint32_t queries = index < wide ? ATTN_WIDE_ROWS : ATTN_TILE_ROWS;
    const struct attn_item *item = work_at(call, call->work->wide_at);
    item += index < wide ? index : wide + call->work->narrow_count - 1 - (index - wide);
    bool all_parts = item->merge == ATTN_ALL_PARTS;
    uint32_t first = all_parts ? item->tile_part * queries : 0;
    if (call->rows[item->row].kv_len == 0) { // padding row, which sees no keys: one item clears it
        if (kv_head == 0 && first == 0)
            row_clear(call, &call->rows[item->row]);
        return;
    }
    struct attn_job job = job_make(call, item->row, kv_head, first, queries);
    job.scratch = call->stream->attn + worker * call->stream->attn_floats;
    if (!all_parts) {
        const struct attn_merge *merge = work_at(call, call->work->merge_at);
        merge += item->merge;
        uint32_t begin = item->tile_part * ATTN_PART_TOKENS;
        job.state = state_at(call, merge, kv_head, item->tile_part - merge->first_part);
        job.key_first = job.key_first > begin ? job.key_first : begin;
        job.key_end = attn_part_end(&job, begin);
        if (job.key_first >= job.key_end)
            return; // outside this layer's window, though not outside the widest layer's
    }
    call->stream->device->kernels.attn(&job);
}

static void merge_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    const struct attn_call *call = opaque;
    uint32_t kv_heads = call->args->shape.kv_heads;
    uint32_t kv_head = chunk % kv_heads;
    const struct attn_merge *merge = work_at(call, call->work->merge_at);
    merge += chunk / kv_heads;
    struct attn_job job = job_make(call, merge->row, kv_head, 0, ATTN_TILE_ROWS);
    job.scratch = call->stream->attn + worker * call->stream->attn_floats;
    uint32_t unseen = job.key_first / ATTN_PART_TOKENS - merge->first_part;
    job.state = state_at(call, merge, kv_head, unseen);
    job.parts = merge->parts - unseen;
    call->stream->device->kernels.attn_merge(&job);
}

// Returns true if the step's plan, which was made for the stream's shape and widest window, covers
// this layer.
static bool attn_planned(const struct attn_shape *s, const struct attn_shape *planned)
{
    bool seen = planned->window == 0 || (s->window > 0 && s->window <= planned->window);
    return seen && s->dim == planned->dim && s->heads == planned->heads &&
           s->kv_heads == planned->kv_heads && s->paged == planned->paged;
}

enum status cpu_attn(struct stream *stream, const struct attn_args *args)
{
    if (!attn_planned(&args->shape, &stream->limits.attn))
        return STATUS_INVALID;
    struct attn_call call = {
        .stream = stream,
        .args = args,
        .rows = (const struct step_row *)(const void *)((const char *)args->step +
                                                        args->step_host->layout.rows),
        .work = (const struct attn_work *)(const void *)((const char *)args->step +
                                                         args->step_host->layout.private_part),
    };
    struct threads *threads = stream->device->threads;
    uint32_t kv_heads = args->shape.kv_heads;
    uint32_t items = call.work->wide_count + call.work->narrow_count;
    threads_run(threads, attn_chunk, &call, items * kv_heads);
    if (call.work->merge_count > 0)
        threads_run(threads, merge_chunk, &call, call.work->merge_count * kv_heads);
    return STATUS_OK;
}
