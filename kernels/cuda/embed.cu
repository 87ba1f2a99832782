// SPDX-License-Identifier: Apache-2.0
// Token embedding: one table row per token for decoders; word, position and type rows with
// LayerNorm for BERT and its relatives.
#include "kernels/cuda/lane.h"

// A weight table as kernels use it.
struct table {
    const void *data;
    const float *scale; // [rows] scales of int8 tables
    enum dtype dtype;
    uint32_t rows, stride;
};

static struct table table_of(const struct weight *w)
{
    struct table t = {NULL, NULL, DTYPE_F32, 1, 0};
    if (!w)
        return t;
    t.data = w->data;
    t.dtype = w->shape.dtype;
    t.rows = w->shape.n;
    t.stride = weight_stride(&w->shape);
    t.scale = (const float *)((const char *)w->data + weight_scales_at(&w->shape));
    return t;
}

// Rows of tables are padded with zeros to whole vectors.
static __device__ __forceinline__ void table_load8(const table &t, uint32_t row, uint32_t at,
                                                   float v[8])
{
    size_t i = (size_t)row * t.stride + at;
    if (t.dtype == DTYPE_BF16)
        load8((const bf16 *)t.data + i, v);
    else if (t.dtype == DTYPE_F16)
        load8((const f16 *)t.data + i, v);
    else if (t.dtype == DTYPE_F32)
        load8((const float *)t.data + i, v);
    else
        for (int j = 0; j < 8; j++)
            v[j] = (float)((const signed char *)t.data)[i + j] * t.scale[row];
}

struct embed_run {
    table words;
    const int32_t *token; // [T]
    void *out;            // [T][width] act
    uint32_t token_count, width;
    uint32_t first, vocab; // vocabulary index of the table's first row; vocabulary size
    bool vectors;
    float scale;
};

// One warp per token, 8 tokens per block, 8 elements per lane. Bound: memory, 2 * T * width
// elements.
template <class T> static __global__ void __launch_bounds__(256) embed_kernel(embed_run a)
{
    uint32_t t = blockIdx.x * 8 + threadIdx.x / 32;
    grid_begin();
    if (t >= a.token_count)
        return;
    uint32_t row = ((uint32_t)a.token[t] < a.vocab ? (uint32_t)a.token[t] : 0) - a.first;
    T *out = (T *)a.out + (size_t)t * a.width;
    for (uint32_t at = threadIdx.x % 32 * 8; at < a.width; at += 256) {
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (row < a.words.rows) // else another rank holds the row
            table_load8(a.words, row, at, v);
        for (int i = 0; i < 8; i++)
            v[i] = mul_rn(v[i], a.scale);
        store8_row(out, at, a.width, a.vectors, v);
    }
}

struct bert_run {
    table words, positions, types;
    const float *norm_weight, *norm_bias; // [width]; bias: or NULL
    const int32_t *token;
    const uint32_t *position, *type;
    void *out;
    uint32_t token_count, width, position_offset;
    float epsilon;
    bool vectors;
};

static __device__ __forceinline__ void bert_sum8(const bert_run &a, const uint32_t row[3],
                                                 uint32_t at, float v[8])
{
    float p[8];
    table_load8(a.words, row[0], at, v);
    if (a.positions.data) {
        table_load8(a.positions, row[1], at, p);
        for (int i = 0; i < 8; i++)
            v[i] = add_rn(v[i], p[i]);
    }
    if (!a.types.data)
        return;
    table_load8(a.types, row[2], at, p);
    for (int i = 0; i < 8; i++)
        v[i] = add_rn(v[i], p[i]);
}

// One warp per token; the three rows are read three times (mean, variance, result), the last two
// times from cache. Bound: memory, 4 * T * width elements.
template <class T> static __global__ void __launch_bounds__(256) embed_bert_kernel(bert_run a)
{
    uint32_t t = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    grid_begin();
    if (t >= a.token_count)
        return;
    uint32_t place = a.position[t] + a.position_offset;
    uint32_t row[3] = {(uint32_t)a.token[t] < a.words.rows ? (uint32_t)a.token[t] : 0,
                       place < a.positions.rows ? place : 0,
                       a.type[t] < a.types.rows ? a.type[t] : 0};
    float v[8], sum = 0, squares = 0;
    for (uint32_t at = lane * 8; at < a.width; at += 256) {
        bert_sum8(a, row, at, v);
        for (int i = 0; i < 8; i++)
            sum = add_rn(sum, v[i]);
    }
    float mean = warp_sum(sum) / (float)a.width;
    for (uint32_t at = lane * 8; at < a.width; at += 256) {
        bert_sum8(a, row, at, v);
        for (uint32_t i = 0; i < 8 && at + i < a.width; i++)
            squares = fmaf(v[i] - mean, v[i] - mean, squares);
    }
    float scale = 1.0f / sqrtf(warp_sum(squares) / (float)a.width + a.epsilon);
    T *out = (T *)a.out + (size_t)t * a.width;
    for (uint32_t at = lane * 8; at < a.width; at += 256) {
        bert_sum8(a, row, at, v);
        for (uint32_t i = 0; i < 8 && at + i < a.width; i++)
            v[i] = fmaf((v[i] - mean) * scale, a.norm_weight[at + i],
                        a.norm_bias ? a.norm_bias[at + i] : 0.0f);
        store8_row(out, at, a.width, a.vectors, v);
    }
}

// --- launches -----------------------------------------------------------------------------------

enum status cuda_embed(struct stream *stream, const struct embed_args *args)
{
    if (args->token_count == 0)
        return STATUS_OK;
    embed_run run = {table_of(args->table),
                     args->token,
                     args->out,
                     args->token_count,
                     args->width,
                     args->first,
                     args->vocab,
                     rows_whole(args->width),
                     args->scale != 0.0f ? args->scale : 1.0f};
    dim3 grid(divide_up(args->token_count, 8));
    return with_type(args->act, [&](auto type) {
        LAUNCH_STEP(embed_kernel<decltype(type)>, grid, dim3(256), 0, stream, run);
        return launch_status();
    });
}

enum status cuda_embed_bert(struct stream *stream, const struct embed_bert_args *args)
{
    if (args->token_count == 0)
        return STATUS_OK;
    bert_run run = {table_of(args->word),
                    table_of(args->position_table),
                    table_of(args->type_table),
                    (const float *)args->norm_weight->data,
                    args->norm_bias ? (const float *)args->norm_bias->data : NULL,
                    args->token,
                    args->position,
                    args->type,
                    args->out,
                    args->token_count,
                    args->width,
                    args->position_offset,
                    args->epsilon,
                    rows_whole(args->width)};
    dim3 grid(divide_up(args->token_count, 8));
    return with_type(args->act, [&](auto type) {
        LAUNCH_STEP(embed_bert_kernel<decltype(type)>, grid, dim3(256), 0, stream, run);
        return launch_status();
    });
}
