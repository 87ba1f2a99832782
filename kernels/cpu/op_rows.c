// SPDX-License-Identifier: Apache-2.0
// The ops whose rows are independent: rows are cut into chunks that are large enough to be worth a
// thread, and the ISA level's kernel runs on each chunk. A step of one chunk runs on the calling
// thread.
#include "kernels/cpu/internal.h"

#include <string.h>

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
    struct rows_job job = {kernel, args, rows, 1 + ROWS_CHUNK / (width > 0 ? width : 1)};
    threads_run(stream->device->threads, rows_chunk, &job, (rows + job.each - 1) / job.each);
    return STATUS_OK;
}

#define ROW_OP(name, rows, width)                                                                  \
    enum status cpu_##name(struct stream *stream, const struct name##_args *a)                     \
    {                                                                                              \
        return rows_run(stream, stream->device->kernels.name, a, rows, width);                     \
    }
ROW_OPS(ROW_OP)
#undef ROW_OP

enum status cpu_gather(struct stream *stream, const struct gather_args *args)
{
    (void)stream;
    size_t bytes = args->width * sizeof(float);
    for (uint32_t i = 0; i < args->count; i++) {
        const struct step_sampled *sampled = &args->sampled[i];
        size_t token = args->first_token ? args->rows[sampled->row].q_start : sampled->last_token;
        memcpy((char *)args->out + i * bytes, (const char *)args->in + token * bytes, bytes);
    }
    return STATUS_OK;
}
