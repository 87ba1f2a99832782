// SPDX-License-Identifier: Apache-2.0
// The ops: one C function each, asynchronous, in stream order, without allocation. Shapes are at
// line end; T = tokens of the step, R = rows, n = rows that are sampled or pooled. `act` is the
// device's activation type (facts.activation). The host knows all counts. The specification is the
// reference of each op in double, with which tests/conformance compares all ops of OP_LIST.
#pragma once

#include "base/status.h"
#include "kernels/collective.h"
#include "kernels/kinds.h"
#include "kernels/experts.h"
#include "kernels/step.h"
#include "kernels/weight.h"

struct stream;
// clang-format off
#define OP_LIST(X)                                                                                 \
    X(prep) X(embed) X(embed_bert) X(rms_norm) X(layer_norm) X(gemm) X(qkv_post) X(attn)           \
    X(swiglu) X(activate) X(gather) X(pool) X(sample) X(all_reduce) X(all_gather)                  \
    X(route) X(gemm_experts) X(combine)
// clang-format on
// State of a model's slots, kept from step to step; runtime/model allocates it with memory_alloc.
struct slot_state {
    int32_t *last_token;          // [slots] last token listed or sampled; STEP_TOKEN_FED reads it
    uint32_t *block_table;        // [slots][blocks_max] offsets of KV blocks, in TABLE_UNIT_BYTES
    struct sample_params *params; // [slots]; output_count advances with each sampled token
    uint32_t *done;         // [slots] 1: end id sampled or logits not finite; later rows do nothing
    uint16_t *penalty;      // [penalty_rows][vocab] bit 15: in the prompt; low bits: outputs
    struct step_bias *bias; // [slots][bias_max]
};

// Copies new sequences, block changes and listed tokens to slots; expands rows to per-token arrays.
struct prep_args {
    const struct step *step; // device copy of the record
    struct step_limits limits;
    uint32_t row_count, token_count, new_sequence_count, change_count; // as in the record
    struct slot_state state;
    int32_t *token;            // [T]
    uint32_t *position;        // [T] within the sequence
    uint32_t *row_of;          // [T]
    uint32_t *type;            // [T] token type, 0 or 1 (BERT)
    uint64_t *kv_write_offset; // [T] bytes from the KV base; UINT64_MAX: writes no KV
    uint32_t block_shift;      // log2 of the tokens per block
    uint64_t token_bytes;      // bytes from one token to the next inside a block
};

// out[t] = row token[t] of the vocabulary; a token outside the vocabulary counts as token 0. The
// table holds the vocabulary's rows from `first` on; a row that another rank holds becomes zeros.
struct embed_args {
    enum dtype act;
    const struct weight *table; // WEIGHT_ROWS or WEIGHT_TIED [n][width]
    const int32_t *token;       // [T]
    void *out;                  // [T][width] act
    uint32_t token_count, width, first, vocab;
    float scale; // factor of the rows, applied before rounding; 0: none
};

// out = layer_norm(word[token] + position[position + position_offset] + type[type]).
struct embed_bert_args {
    enum dtype act;
    const struct weight *word, *position_table, *type_table; // [rows][width]; the last two: or NULL
    const struct weight *norm_weight, *norm_bias;            // [width]; bias: or NULL
    const int32_t *token;            // [T]; here and below, an index outside of its table is row 0
    const uint32_t *position, *type; // [T]
    void *out;                       // [T][width] act
    uint32_t token_count, width, position_offset; // offset: 0 BERT, padding id + 1 RoBERTa
    float epsilon;
};

// If add: residual += factor * add (rounded). out = residual * rsqrt(mean(residual^2) + eps) * w.
struct rms_norm_args {
    enum dtype act;
    void *residual;              // [rows][width] act, updated in place
    const void *add;             // [rows][width] act, or NULL
    const struct weight *weight; // w, [width]; NULL if out is NULL
    void *out;                   // [rows][width] act, may be residual itself; NULL: only the add
    uint32_t rows, width;
    float epsilon;
    const struct weight *next; // weight of the next product, which may be prefetched; or NULL
    float factor;              // 0: none
    uint32_t stride;           // elements from row to row of all three arrays; 0: width
};

// x = residual + add (add may be NULL); out = (x - mean) * rsqrt(var + eps) * w + b.
struct layer_norm_args {
    enum dtype act;
    const void *residual, *add;         // [rows][width] act
    const struct weight *weight, *bias; // [width]; bias: or NULL
    void *out;                          // [rows][width] act; may be residual itself
    uint32_t rows, width;
    float epsilon;
};

// y = x W^T + bias. In exact mode the order of summation is fixed (attn_tiles.h, weight.h).
struct gemm_args {
    enum dtype x_dtype, y_dtype; // act in; act or F32 out
    const void *x;               // [rows][k], stride x_stride elements
    const struct weight *weight; // WEIGHT_PRODUCT or WEIGHT_TIED [n][k]
    const struct weight *bias;   // [n] or NULL
    void *y;                     // [rows][n], stride y_stride elements
    uint32_t rows, x_stride, y_stride;
};

// Heads of q and k: optional RMS norm over dim, and rotary embedding (NeoX pairs (i, i + r/2), i <
// r/2, r = rotary_dim), the norm first or, with norm_last, last; then q times q_factor of its
// position. Writes q in place; k and v to the KV blocks or, if not paged, k in place.
struct qkv_post_args {
    enum dtype act, kv;
    void *qkv;                            // [T][(heads + 2 kv_heads) * dim] act
    const struct weight *q_norm, *k_norm; // [dim] or NULL
    const float *cos_sin;                 // [positions][rotary_dim / 2][2] f32
    const float *q_factor;                // [positions] f32, or NULL
    const uint32_t *position;             // [T]
    const uint64_t *kv_write_offset;      // [T]
    void *kv_base;
    uint64_t layer_offset, value_offset, head_bytes; // bytes: to the layer, K to V, KV head to next
    struct attn_shape shape;
    uint32_t token_count, rotary_dim,
        norm_last; // norm_last 1: the norm follows the rotary embedding
    float epsilon;
};

// Reads keys and values from KV blocks or, if not paged, from qkv (a device may round them to kv).
struct attn_args {
    enum dtype act, kv;
    const void *qkv; // [T][(heads + 2 kv_heads) * dim] act; reads q, and k and v if not paged
    void *out;       // [T][heads * dim] act
    const struct step *step;      // device copy of the record: rows and work lists
    const struct step *step_host; // host copy of the record, for counts
    const uint32_t *block_table;  // [slots][blocks_max]
    const void *kv_base;
    uint64_t layer_offset, value_offset, head_bytes, token_bytes;
    struct attn_shape shape;
    uint32_t blocks_max, block_shift, row_count, token_count, reach;
    const struct weight *next; // weight of the next product, which may be prefetched; or NULL
    const struct weight *bias, *sinks; // [heads][2 * reach + 1], [heads], f32 (kinds.h); or NULL
};

// out[t][i] = act(gate) * up with in = [gate | up]; GATE_CLAMPED: see kinds.h.
struct swiglu_args {
    enum dtype act;
    const void *in; // [rows][2 * width] act
    void *out;      // [rows][width] act
    uint32_t rows, width;
    const struct weight *next; // weight of the next product, which may be prefetched; or NULL
    enum gate gate;            // the function act
    float limit, alpha;        // parameters of GATE_CLAMPED, above 0; not used by others
};

struct activate_args { // in place
    enum dtype act;
    enum activation kind; // ACTIVATE_GELU is the exact one (erf)
    void *x;              // [rows][width] act
    uint32_t rows, width;
};

struct gather_args {
    enum dtype act;
    const void *in;                     // [T][width] act
    const struct step_sampled *sampled; // [n] device
    uint32_t first_token;               // 1: take the row's first token (CLS) instead of its last
    const struct step_row *rows;        // [R] device; read only if first_token is set
    void *out;                          // [n][width] act
    uint32_t count, width;
};

struct pool_args {
    enum dtype act;
    enum pooling kind;
    const void *in;                     // [T][width] act
    const struct step_row *rows;        // [R] device
    const struct step_sampled *sampled; // [n] device
    void *out;                          // [n][width] f32, or act; GIVEN: may be `in` if f32
    uint32_t count, width, normalize;   // 1: divide by max(||x||, 1e-12); not STEP_POOL_RAW rows
    uint32_t out_act;                   // 1: the output is act, and normalize is 0
};

// Order: raw logprobs; bias, minimum outputs, mask; penalties; greedy, or temperature, min-p,
// top-k, top-p, Gumbel draw; ties to the lower id. If no token is left: the arg-max of the raw row
// inside the mask (a grammar takes precedence over bans), else of all. Does not change state.bias.
struct sample_args {
    const float *logits;                // [n][stride] f32; may be overwritten
    const struct step_sampled *sampled; // [n] device
    struct slot_state state;
    const uint32_t *masks; // [mask rows][(vocab + 31) / 32] device, bit set: allowed; or NULL
    struct sample_result *result; // [n] host-visible
    struct sample_top *top;       // [n][SAMPLE_TOP_MAX] host-visible
    struct step_limits limits;
    uint32_t count, stride, max_top; // max_top: largest top_logprobs among the rows
};

struct op_table {
#define OP_FIELD(name) enum status (*name)(struct stream *, const struct name##_args *);
    OP_LIST(OP_FIELD)
#undef OP_FIELD
};

// op_check.c: return "" if the arguments are valid, else a message that begins with the op's name.
#define OP_CHECK(name) const char *name##_check(const struct name##_args *);
OP_LIST(OP_CHECK)
#undef OP_CHECK
