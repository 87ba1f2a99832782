// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts on the cuda device: not supported yet (device_facts.experts is false), so a
// model with experts is refused when it is opened.
#include "kernels/cuda/internal.h"

enum status cuda_route(struct stream *stream, const struct route_args *args)
{
    (void)stream;
    (void)args;
    return STATUS_UNSUPPORTED;
}

enum status cuda_gemm_experts(struct stream *stream, const struct gemm_experts_args *args)
{
    (void)stream;
    (void)args;
    return STATUS_UNSUPPORTED;
}

enum status cuda_combine(struct stream *stream, const struct combine_args *args)
{
    (void)stream;
    (void)args;
    return STATUS_UNSUPPORTED;
}
