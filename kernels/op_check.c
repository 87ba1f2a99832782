// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of each op, for every device. A check returns "" if they are valid, else a
// message that begins with the op's name. It looks at counts, shapes and pointers only, never at
// device memory. A failed check is a bug in weft: the device refuses the op, so that it does not
// overwrite memory, and the model ends the process with the message.
#include "kernels/attn_tiles.h"
#include "kernels/ops.h"

#include <stdbool.h>

static bool act_wrong(enum dtype act)
{
    return act != DTYPE_F32 && act != DTYPE_BF16 && act != DTYPE_F16;
}

static bool kv_wrong(enum dtype kv)
{
    return act_wrong(kv) && kv != DTYPE_I8 && kv != DTYPE_E4M3;
}

static bool vector_wrong(const struct weight *weight, uint32_t n)
{
    return !weight || !weight->data || weight->shape.use != WEIGHT_VECTOR || weight->shape.n != n;
}

// Returns true if a weight has rows of codes that do not fit it, or that it cannot have.
static bool codes_wrong(const struct weight_shape *shape)
{
    uint64_t rows = 0;
    if (shape->part_count > WEIGHT_PARTS_MAX ||
        (shape->part_count > 0 && shape->use == WEIGHT_VECTOR))
        return true;
    for (uint32_t i = 0; i < shape->part_count; i++) {
        enum weight_format format = shape->parts[i].format;
        bool e4m3 = format >= WEIGHT_FP8; // one part, for products
        if (format == WEIGHT_FLOATS || format >= WEIGHT_FORMAT_COUNT ||
            (e4m3 && (shape->part_count > 1 || shape->use != WEIGHT_PRODUCT)) ||
            shape->k % weight_format_facts(format)->elements != 0)
            return true;
        rows += shape->parts[i].rows;
    }
    return shape->part_count > 0 && rows != weight_matrix_rows(shape);
}

// Returns true if a table holds floats.
static bool floats_held(const struct weight *table)
{
    return table->shape.part_count == 0 && table->shape.dtype != DTYPE_I8;
}

static bool table_wrong(const struct weight *weight, uint32_t width)
{
    return !weight || !weight->data || weight->shape.n == 0 || weight->shape.k != width ||
           (weight->shape.use != WEIGHT_ROWS && weight->shape.use != WEIGHT_TIED) ||
           codes_wrong(&weight->shape);
}

const char *prep_check(const struct prep_args *a)
{
    if (!a->step)
        return "prep: no step record";
    if (!a->token || !a->position || !a->row_of || !a->type || !a->kv_write_offset)
        return "prep: an output array is missing";
    if (a->row_count > a->limits.rows_max)
        return "prep: row_count exceeds limits.rows_max";
    if (a->token_count > a->limits.tokens_max)
        return "prep: token_count exceeds limits.tokens_max";
    if (a->token_count < a->row_count)
        return "prep: a row has at least one token";
    if (a->new_sequence_count > a->limits.new_sequences_max ||
        a->change_count > a->limits.changes_max)
        return "prep: more new sequences or block-table changes than the limits allow";
    if (a->new_sequence_count > 0 && (!a->state.params || !a->state.done))
        return "prep: new sequences need sampling state";
    if (a->change_count > 0 && !a->state.block_table)
        return "prep: changes need a block table";
    if (a->block_shift > 12)
        return "prep: a block holds at most 4096 tokens";
    return "";
}

const char *embed_check(const struct embed_args *a)
{
    if (act_wrong(a->act))
        return "embed: activations are float32, bfloat16 or float16";
    if (a->width == 0 || table_wrong(a->table, a->width))
        return "embed: the table is missing, of another use or of another width";
    if (a->first >= a->vocab || a->table->shape.n > a->vocab - a->first)
        return "embed: the table has rows outside of the vocabulary";
    if (a->token_count > 0 && (!a->token || !a->out))
        return "embed: tokens or output are missing";
    return "";
}

const char *embed_bert_check(const struct embed_bert_args *a)
{
    if (act_wrong(a->act))
        return "embed_bert: activations are float32, bfloat16 or float16";
    if (a->width == 0 || table_wrong(a->word, a->width))
        return "embed_bert: the word table is missing, of another use or of another width";
    if (a->position_table &&
        (table_wrong(a->position_table, a->width) || a->position_table->shape.use != WEIGHT_ROWS ||
         !floats_held(a->position_table)))
        return "embed_bert: the position table must be rows of floats of the same width";
    if (a->type_table && (table_wrong(a->type_table, a->width) ||
                          a->type_table->shape.use != WEIGHT_ROWS || !floats_held(a->type_table)))
        return "embed_bert: the type table must be rows of floats of the same width";
    if (vector_wrong(a->norm_weight, a->width) ||
        (a->norm_bias && vector_wrong(a->norm_bias, a->width)))
        return "embed_bert: norm weight and bias must be vectors of the width";
    if (a->token_count > 0 && (!a->token || !a->out || (a->position_table && !a->position) ||
                               (a->type_table && !a->type)))
        return "embed_bert: tokens, positions, types or output are missing";
    return "";
}

const char *rms_norm_check(const struct rms_norm_args *a)
{
    if (act_wrong(a->act))
        return "rms_norm: activations are float32, bfloat16 or float16";
    if (a->width == 0 || (a->out && vector_wrong(a->weight, a->width)))
        return "rms_norm: the weight must be a vector of the width";
    if (a->rows > 0 && (!a->residual || (!a->out && !a->add)))
        return "rms_norm: residual or output are missing";
    if (a->stride != 0 && a->stride < a->width)
        return "rms_norm: a stride is shorter than its row";
    return "";
}

const char *layer_norm_check(const struct layer_norm_args *a)
{
    if (act_wrong(a->act))
        return "layer_norm: activations are float32, bfloat16 or float16";
    if (a->width == 0 || vector_wrong(a->weight, a->width) ||
        (a->bias && vector_wrong(a->bias, a->width)))
        return "layer_norm: weight and bias must be vectors of the width";
    if (a->rows > 0 && (!a->residual || !a->out))
        return "layer_norm: residual or output are missing";
    return "";
}

const char *gemm_check(const struct gemm_args *a)
{
    if (act_wrong(a->x_dtype) || act_wrong(a->y_dtype))
        return "gemm: activations are float32, bfloat16 or float16";
    if (a->y_dtype != a->x_dtype && a->y_dtype != DTYPE_F32)
        return "gemm: the output is of the activations' type or float32";
    if (!a->weight || !a->weight->data)
        return "gemm: no weight";
    const struct weight_shape *shape = &a->weight->shape;
    if (shape->use != WEIGHT_PRODUCT && shape->use != WEIGHT_TIED)
        return "gemm: the weight is not made for products";
    if (shape->dtype >= DTYPE_COUNT)
        return "gemm: the weight is of no known type";
    if (shape->n == 0 || shape->k == 0)
        return "gemm: an empty weight";
    if (codes_wrong(shape))
        return "gemm: the weight's parts do not fit it";
    if (weight_stack(shape) > 1)
        return "gemm: the weight is a stack of matrices";
    if (a->bias && vector_wrong(a->bias, shape->n))
        return "gemm: the bias must be a vector of the output's width";
    if (a->x_stride < shape->k || a->y_stride < shape->n)
        return "gemm: a stride is shorter than its row";
    if (a->rows > 0 && (!a->x || !a->y))
        return "gemm: input or output are missing";
    return "";
}

#define HEADS_RULE "the KV heads must divide the query heads"
#define DIM_RULE "a head must have 16 to 256 columns, a multiple of 8"
#define FP8_RULE "keys and values in fp8 need heads of a multiple of 16 columns"

static bool heads_wrong(const struct attn_shape *s)
{
    return s->heads == 0 || s->kv_heads == 0 || s->heads % s->kv_heads != 0;
}

static bool dim_wrong(const struct attn_shape *s)
{
    return s->dim < 16 || s->dim > 256 || s->dim % 8 != 0;
}

static bool fp8_wrong(enum dtype kv, const struct attn_shape *s)
{
    return kv == DTYPE_E4M3 && s->paged && s->dim % 16 != 0;
}

const char *qkv_post_check(const struct qkv_post_args *a)
{
    if (act_wrong(a->act) || kv_wrong(a->kv))
        return "qkv_post: activations are float32, bfloat16 or float16, keys and values also int8 "
               "or fp8";
    if (heads_wrong(&a->shape))
        return "qkv_post: " HEADS_RULE;
    if (dim_wrong(&a->shape))
        return "qkv_post: " DIM_RULE;
    if (fp8_wrong(a->kv, &a->shape))
        return "qkv_post: " FP8_RULE;
    if (a->rotary_dim > a->shape.dim || a->rotary_dim % 2 != 0)
        return "qkv_post: the rotary part must be even and within the head";
    if (a->rotary_dim > 0 && (!a->cos_sin || !a->position))
        return "qkv_post: rotation needs positions and the table of angles";
    if (a->q_factor && !a->position)
        return "qkv_post: factors of queries need positions";
    if (a->q_norm && vector_wrong(a->q_norm, a->shape.dim))
        return "qkv_post: the norm of queries must be a vector of the head's width";
    if (a->k_norm && vector_wrong(a->k_norm, a->shape.dim))
        return "qkv_post: the norm of keys must be a vector of the head's width";
    if (a->token_count > 0 && !a->qkv)
        return "qkv_post: no activations";
    if (a->shape.paged && (!a->kv_write_offset || !a->kv_base))
        return "qkv_post: paged attention needs kv_write_offset and the KV base";
    return "";
}

const char *attn_check(const struct attn_args *a)
{
    if (act_wrong(a->act) || kv_wrong(a->kv))
        return "attn: activations are float32, bfloat16 or float16, keys and values also int8 or "
               "fp8";
    if (heads_wrong(&a->shape))
        return "attn: " HEADS_RULE;
    if (dim_wrong(&a->shape))
        return "attn: " DIM_RULE;
    if (fp8_wrong(a->kv, &a->shape))
        return "attn: " FP8_RULE;
    if (!a->step || !a->step_host)
        return "attn: no step record";
    if (a->bias &&
        (a->reach > BIAS_REACH_MAX || vector_wrong(a->bias, a->shape.heads * (2 * a->reach + 1))))
        return "attn: the bias must be a vector of each head's distances";
    if (a->sinks && vector_wrong(a->sinks, a->shape.heads))
        return "attn: the sinks must be a vector of the heads";
    if (a->row_count > a->token_count)
        return "attn: a row has at least one token";
    if (a->token_count > 0 && (!a->qkv || !a->out))
        return "attn: input or output are missing";
    if (!a->shape.paged)
        return "";
    if (!a->block_table || !a->kv_base || a->blocks_max == 0)
        return "attn: paged attention needs the block table and the KV base";
    if (a->block_shift < 4 || a->block_shift > 12)
        return "attn: a block holds 16 to 4096 tokens";
    if (a->token_bytes < kv_token_bytes(a->kv, a->shape.dim))
        return "attn: a token's stride is shorter than a head";
    return "";
}

const char *swiglu_check(const struct swiglu_args *a)
{
    if (act_wrong(a->act))
        return "swiglu: activations are float32, bfloat16 or float16";
    if ((unsigned)a->gate > GATE_CLAMPED)
        return "swiglu: an unknown function";
    if (a->gate == GATE_CLAMPED && !(a->limit > 0 && a->alpha > 0))
        return "swiglu: limit and alpha are above 0";
    if (a->width == 0)
        return "swiglu: no columns";
    if (a->rows > 0 && (!a->in || !a->out))
        return "swiglu: input or output are missing";
    return "";
}

const char *activate_check(const struct activate_args *a)
{
    if (act_wrong(a->act))
        return "activate: activations are float32, bfloat16 or float16";
    if ((unsigned)a->kind > ACTIVATE_SILU)
        return "activate: an unknown function";
    if (a->width == 0 || (a->rows > 0 && !a->x))
        return "activate: no columns or no activations";
    return "";
}

const char *gather_check(const struct gather_args *a)
{
    if (act_wrong(a->act))
        return "gather: activations are float32, bfloat16 or float16";
    if (a->width == 0)
        return "gather: no columns";
    if (a->count > 0 && (!a->in || !a->out || !a->sampled))
        return "gather: input, output or the list of rows are missing";
    if (a->count > 0 && a->first_token && !a->rows)
        return "gather: first tokens need the step's rows";
    return "";
}

const char *pool_check(const struct pool_args *a)
{
    if (act_wrong(a->act))
        return "pool: activations are float32, bfloat16 or float16";
    if ((unsigned)a->kind > POOL_GIVEN)
        return "pool: an unknown kind";
    if (a->width == 0)
        return "pool: no columns";
    if (a->out_act && a->normalize)
        return "pool: only float32 vectors are normalized";
    if (a->count > 0 && (!a->in || !a->out || !a->rows || !a->sampled))
        return "pool: input, output or the lists of rows are missing";
    return "";
}

const char *sample_check(const struct sample_args *a)
{
    if (a->limits.vocab == 0 || a->stride < a->limits.vocab)
        return "sample: no vocabulary, or a stride shorter than it";
    if (a->max_top > SAMPLE_TOP_MAX)
        return "sample: more top logprobs than fit";
    if (a->count > a->limits.rows_max)
        return "sample: count exceeds limits.rows_max";
    if (a->count == 0)
        return "";
    if (!a->logits || !a->sampled || !a->result)
        return "sample: logits, rows or results are missing";
    if (a->max_top > 0 && !a->top)
        return "sample: no memory for top logprobs";
    if (!a->state.params || !a->state.done || !a->state.last_token)
        return "sample: no sampling state";
    if (a->limits.bias_max > 0 && !a->state.bias)
        return "sample: no bias table";
    if (a->limits.penalty_rows > 0 && !a->state.penalty)
        return "sample: no penalty table";
    return "";
}

const char *all_reduce_check(const struct all_reduce_args *a)
{
    if (act_wrong(a->act))
        return "all_reduce: activations are float32, bfloat16 or float16";
    if (a->ranks == 0 || a->ranks > RANKS_MAX)
        return "all_reduce: a communicator has 1 to 8 ranks";
    if (a->count > 0 && (!a->out || (!a->in_place && (!a->in || a->in == a->out))))
        return "all_reduce: input or output are missing, or the same";
    return "";
}

const char *all_gather_check(const struct all_gather_args *a)
{
    if (a->ranks == 0 || a->ranks > RANKS_MAX)
        return "all_gather: a communicator has 1 to 8 ranks";
    for (uint32_t r = 1; r < a->ranks; r++)
        if (a->ends[r] < a->ends[r - 1])
            return "all_gather: columns of ranks are out of order";
    if (a->ends[a->ranks - 1] > a->stride)
        return "all_gather: a stride is shorter than its row";
    if (a->rows > 0 && a->ends[a->ranks - 1] > 0 && (!a->in || !a->out))
        return "all_gather: input or output are missing";
    return "";
}

static bool routing_wrong(const struct routing *r)
{
    return r->experts == 0 || r->experts > EXPERTS_MAX || r->chosen == 0 ||
           r->chosen > EXPERTS_CHOSEN_MAX || r->chosen > r->experts ||
           (r->token_count > 0 && (!r->id || !r->weight || !r->order || !r->place || !r->offset));
}

static bool groups_wrong(const struct route_args *a)
{
    if (a->groups == 0)
        return false;
    uint32_t each = a->out.experts / a->groups;
    return a->out.experts % a->groups != 0 || a->groups_kept == 0 || a->groups_kept > a->groups ||
           a->groups_kept * each < a->out.chosen || a->group_top == 0 || a->group_top > 2 ||
           a->group_top > each;
}

const char *route_check(const struct route_args *a)
{
    if (routing_wrong(&a->out))
        return "route: 1 to 512 experts, at most 32 of them chosen, and all arrays are needed";
    if ((unsigned)a->score > ROUTE_SIGMOID)
        return "route: an unknown score";
    if (a->correction && vector_wrong(a->correction, a->out.experts))
        return "route: the correction must be a vector with one element for each expert";
    if (groups_wrong(a))
        return "route: groups must divide the experts, and those kept must hold the chosen ones";
    if (a->out.token_count > 0 && !a->logits)
        return "route: logits are missing";
    return "";
}

const char *gemm_experts_check(const struct gemm_experts_args *a)
{
    if (act_wrong(a->act))
        return "gemm_experts: activations are float32, bfloat16 or float16";
    if (routing_wrong(&a->routing))
        return "gemm_experts: the routing has no valid counts or lacks an array";
    if (!a->weight || !a->weight->data || a->weight->shape.use != WEIGHT_PRODUCT)
        return "gemm_experts: no weight that is made for products";
    const struct weight_shape *shape = &a->weight->shape;
    uint32_t held = weight_stack(shape), n = weight_matrix_rows(shape);
    if (shape->n == 0 || shape->k == 0 || shape->n % held != 0 || n % EXPERT_ROWS_UNIT != 0)
        return "gemm_experts: the rows of a matrix must be a multiple of 32";
    if (shape->dtype >= DTYPE_COUNT || codes_wrong(shape))
        return "gemm_experts: the weight's parts do not fit it";
    if (a->first > a->routing.experts || held > a->routing.experts - a->first)
        return "gemm_experts: the weight has matrices of experts that do not exist";
    if (a->bias && vector_wrong(a->bias, shape->n))
        return "gemm_experts: the bias must be a vector with the rows of the weight";
    if (a->x_stride < shape->k || a->y_stride < n)
        return "gemm_experts: a stride is shorter than its row";
    if (a->routing.token_count > 0 && (!a->x || !a->y))
        return "gemm_experts: input or output are missing";
    return "";
}

const char *combine_check(const struct combine_args *a)
{
    if (act_wrong(a->act))
        return "combine: activations are float32, bfloat16 or float16";
    if (a->out_dtype != a->act && a->out_dtype != DTYPE_F32)
        return "combine: the output is of the activations' type or float32";
    if (routing_wrong(&a->routing))
        return "combine: the routing has no valid counts or lacks an array";
    if (a->first > a->routing.experts || a->held > a->routing.experts - a->first)
        return "combine: experts that do not exist are held";
    if (a->width == 0)
        return "combine: no columns";
    if (a->gate && !a->shared)
        return "combine: a gate needs a shared result";
    if (a->routing.token_count > 0 && (!a->y || !a->out))
        return "combine: input or output are missing";
    return "";
}
