// The ops whose rows are independent: the contract is checked, rows are cut into chunks that are
// worth a thread's while, and the level's kernel runs on each. Small steps stay on the caller.
#include "kernels/cpu/internal.h"

#include <string.h>

enum { CHUNK_ELEMENTS = 16384 }; // a few microseconds of work

struct rows_job {
    row_kernel *kernel;
    const void *args;
    uint32_t rows, each;
};

static void rows_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct rows_job *job = opaque;
    uint32_t first = chunk * job->each;
    uint32_t end = job->rows - first < job->each ? job->rows : first + job->each;
    job->kernel(job->args, first, end);
}

static enum status rows_run(struct stream *stream, row_kernel *kernel, const void *args,
                            uint32_t rows, uint32_t width)
{
    struct rows_job job = {kernel, args, rows, 1 + CHUNK_ELEMENTS / (width > 0 ? width : 1)};
    threads_run(stream->device->threads, rows_chunk, &job, (rows + job.each - 1) / job.each);
    return STATUS_OK;
}

enum status cpu_embed(struct stream *stream, const struct embed_args *args)
{
    if (embed_check(args)[0] != '\0')
        return STATUS_INVALID;
    return rows_run(stream, stream->device->kernels.embed, args, args->token_count, args->width);
}

enum status cpu_embed_bert(struct stream *stream, const struct embed_bert_args *args)
{
    if (embed_bert_check(args)[0] != '\0')
        return STATUS_INVALID;
    return rows_run(stream, stream->device->kernels.embed_bert, args, args->token_count,
                    args->width);
}

enum status cpu_rms_norm(struct stream *stream, const struct rms_norm_args *args)
{
    if (rms_norm_check(args)[0] != '\0')
        return STATUS_INVALID;
    return rows_run(stream, stream->device->kernels.rms_norm, args, args->rows, args->width);
}

enum status cpu_layer_norm(struct stream *stream, const struct layer_norm_args *args)
{
    if (layer_norm_check(args)[0] != '\0')
        return STATUS_INVALID;
    return rows_run(stream, stream->device->kernels.layer_norm, args, args->rows, args->width);
}

enum status cpu_qkv_post(struct stream *stream, const struct qkv_post_args *args)
{
    if (qkv_post_check(args)[0] != '\0')
        return STATUS_INVALID;
    uint32_t width = (args->shape.heads + 2 * args->shape.kv_heads) * args->shape.dim;
    return rows_run(stream, stream->device->kernels.qkv_post, args, args->token_count, width);
}

enum status cpu_swiglu(struct stream *stream, const struct swiglu_args *args)
{
    if (swiglu_check(args)[0] != '\0')
        return STATUS_INVALID;
    return rows_run(stream, stream->device->kernels.swiglu, args, args->rows, args->width);
}

enum status cpu_activate(struct stream *stream, const struct activate_args *args)
{
    if (activate_check(args)[0] != '\0')
        return STATUS_INVALID;
    return rows_run(stream, stream->device->kernels.activate, args, args->rows, args->width);
}

enum status cpu_pool(struct stream *stream, const struct pool_args *args)
{
    if (pool_check(args)[0] != '\0')
        return STATUS_INVALID;
    // the mean reads whole rows of tokens: one pooled row is a chunk
    return rows_run(stream, stream->device->kernels.pool, args, args->count, CHUNK_ELEMENTS);
}

enum status cpu_gather(struct stream *stream, const struct gather_args *args)
{
    (void)stream;
    if (gather_check(args)[0] != '\0')
        return STATUS_INVALID;
    size_t bytes = args->width * sizeof(float);
    for (uint32_t i = 0; i < args->count; i++) {
        const struct step_sampled *sampled = &args->sampled[i];
        size_t token = args->first_token ? args->rows[sampled->row].q_start : sampled->last_token;
        memcpy((char *)args->out + i * bytes, (const char *)args->in + token * bytes, bytes);
    }
    return STATUS_OK;
}

#define OP_ENTRY(name) .name = cpu_##name,
const struct op_table cpu_ops = {OP_LIST(OP_ENTRY)};
#undef OP_ENTRY
