// SPDX-License-Identifier: Apache-2.0
// The launches of a product: one, or with weights held as codes of 4 bits one for each part.
#pragma once

#include "kernels/cuda/gemm.h"

// Makes *g the product with a part that is held as codes; memory: device memory of the matrix that
// has the part. Bias and output are those of the part's rows.
static inline void gemm_run_part(gemm_run *g, const struct gemm_args *args, const char *memory,
                                 const struct code_span &part)
{
    struct code_places p = code_places_of(part.format, part.rows, g->k);
    const char *at = memory + part.at;
    g->codes = {at, at + p.scales, at + p.supers, p.slabs, p.groups, p.group_shift, g->k / 256};
    g->bias = args->bias ? (const float *)args->bias->data + part.first : NULL;
    g->y = (char *)args->y + part.first * dtype_bytes(args->y_dtype);
    g->n = part.rows;
}

// Calls f with a value of the type of weights that are held as codes of a format: f(codes<...>()).
template <class F> static inline enum status with_codes(enum weight_format format, F f)
{
    bool run = weight_format_facts(format)->elements == 128;
    switch (code_kind_of(format)) {
    case CODES_EIGHT:
        return run ? f(codes<CODES_EIGHT, 4>()) : f(codes<CODES_EIGHT, 1>());
    case CODES_ZERO:
        return run ? f(codes<CODES_ZERO, 4>()) : f(codes<CODES_ZERO, 1>());
    case CODES_LEAST:
        return f(codes<CODES_LEAST, 1>());
    case CODES_E2M1:
        return f(codes<CODES_E2M1, 1>());
    default:
        return f(codes<CODES_NESTED, 1>());
    }
}

// Calls f with the product of each part that is held as codes, and a value of their type.
template <class F> static inline enum status gemm_parts(const struct gemm_args *args, F f)
{
    const struct weight *w = args->weight;
    gemm_run g = gemm_run_of(args);
    enum status status = STATUS_OK;
    for (uint32_t row = 0; row < w->shape.n && status == STATUS_OK;) {
        struct code_span part = code_span_of(&w->shape, row);
        gemm_run_part(&g, args, (const char *)w->data, part);
        status = with_codes(part.format, [&](auto held) { return f(g, held); });
        row += part.rows;
    }
    return status;
}

// Calls f(run, T(), W()) with the types of activations and weights of a product that tensor cores
// multiply, once for each part that is held as codes of 4 bits; else returns UNSUPPORTED.
template <class F> static inline enum status gemm_launches(const struct gemm_args *args, F f)
{
    const struct weight_shape *shape = &args->weight->shape;
    if (!weight_nibbles(shape))
        return with_weight(args->x_dtype, shape, [&](auto act, auto weight) {
            return f(gemm_run_of(args), act, weight);
        });
    return gemm_parts(args, [&](const gemm_run &part, auto held) {
        return args->x_dtype == DTYPE_BF16  ? f(part, bf16(), held)
               : args->x_dtype == DTYPE_F16 ? f(part, f16(), held)
                                            : STATUS_UNSUPPORTED;
    });
}
