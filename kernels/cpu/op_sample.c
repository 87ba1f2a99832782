// SPDX-License-Identifier: Apache-2.0
// sample: each row is a chunk; the ISA level's sampler computes it with the scratch memory of its
// thread.
#include "kernels/cpu/internal.h"

struct sample_job {
    struct stream *stream;
    const struct sample_args *args;
};

static void sample_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    const struct sample_job *job = opaque;
    size_t vocab = job->args->limits.vocab;
    float *scratch = job->stream->sample + worker * 3 * vocab;
    struct sample_row row = {
        .args = job->args,
        .index = chunk,
        .values = scratch,
        .found = scratch + vocab,
        .raw = scratch + 2 * vocab,
    };
    job->stream->device->kernels.sample(&row);
}

enum status cpu_sample(struct stream *stream, const struct sample_args *args)
{
    if (args->limits.vocab > stream->limits.step.vocab)
        return STATUS_INVALID; // the stream was opened for a smaller vocabulary
    struct sample_job job = {stream, args};
    threads_run(stream->device->threads, sample_chunk, &job, args->count);
    return STATUS_OK;
}
