// SPDX-License-Identifier: Apache-2.0
// Every condition under which an op refuses its arguments, each starting from valid arguments, and
// the ends of every range. Devices call these checks before they access memory.
#include "kernels/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 64, VOCAB = 100 };

static char memory[8]; // target of all pointers: the checks read no memory
static void *const there = memory;

static struct weight weight_of(enum weight_use use, enum dtype dtype, uint32_t n, uint32_t k)
{
    return (struct weight){.shape = {.use = use, .dtype = dtype, .n = n, .k = k}, .data = memory};
}

static void expect(const char *got, const char *op, const char *words, int line)
{
    if (!words ? got[0] != '\0'
               : strncmp(got, op, strlen(op)) != 0 || got[strlen(op)] != ':' || !strstr(got, words))
        fail_msg("line %d: \"%s\", not of \"%s\"", line, got, words ? words : "");
}

// Makes a change to a copy of the valid arguments and expects a message that contains `words`;
// NULL: the arguments are still valid.
#define TRY(op, words, ...)                                                                        \
    do {                                                                                           \
        struct op##_args a = valid_##op;                                                           \
        __VA_ARGS__;                                                                               \
        expect(op##_check(&a), #op, words, __LINE__);                                              \
    } while (0)

static const char acts[] = "float32, bfloat16 or float16";

static void test_prep(void **state)
{
    (void)state;
    const struct prep_args valid_prep = {
        .step = there,
        .limits = {.rows_max = 4, .tokens_max = 9, .new_sequences_max = 2, .changes_max = 3},
        .row_count = 4,
        .token_count = 9,
        .new_sequence_count = 2,
        .change_count = 3,
        .state = {.params = there, .done = there, .block_table = there},
        .token = there,
        .position = there,
        .row_of = there,
        .type = there,
        .kv_write_offset = there,
        .block_shift = 12};
    TRY(prep, NULL, );
    TRY(prep, "no step record", a.step = NULL);
    TRY(prep, "an output array is missing", a.token = NULL);
    TRY(prep, "an output array is missing", a.position = NULL);
    TRY(prep, "an output array is missing", a.row_of = NULL);
    TRY(prep, "an output array is missing", a.type = NULL);
    TRY(prep, "an output array is missing", a.kv_write_offset = NULL);
    TRY(prep, "row_count exceeds limits.rows_max", a.row_count = 5);
    TRY(prep, "token_count exceeds limits.tokens_max", a.token_count = 10);
    TRY(prep, "a row has at least one token", a.token_count = 3);
    TRY(prep, NULL, a.token_count = 4);
    TRY(prep, "more new sequences or block-table changes", a.new_sequence_count = 3);
    TRY(prep, "more new sequences or block-table changes", a.change_count = 4);
    TRY(prep, "new sequences need sampling state", a.state.params = NULL);
    TRY(prep, "new sequences need sampling state", a.state.done = NULL);
    TRY(prep, NULL, a.new_sequence_count = 0; a.state.params = NULL; a.state.done = NULL);
    TRY(prep, "changes need a block table", a.state.block_table = NULL);
    TRY(prep, NULL, a.change_count = 0; a.state.block_table = NULL);
    TRY(prep, "a block holds at most 4096 tokens", a.block_shift = 13);
}

static void test_embeddings(void **state)
{
    (void)state;
    struct weight rows = weight_of(WEIGHT_ROWS, DTYPE_F32, VOCAB, WIDTH);
    struct weight tied = weight_of(WEIGHT_TIED, DTYPE_I8, VOCAB, WIDTH);
    struct weight product = weight_of(WEIGHT_PRODUCT, DTYPE_F32, VOCAB, WIDTH);
    struct weight bytes = weight_of(WEIGHT_ROWS, DTYPE_I8, VOCAB, WIDTH);
    struct weight narrow = weight_of(WEIGHT_ROWS, DTYPE_F32, VOCAB, WIDTH - 1);
    struct weight empty = weight_of(WEIGHT_ROWS, DTYPE_F32, 0, WIDTH);
    struct weight none = {.shape = rows.shape};
    struct weight vector = weight_of(WEIGHT_VECTOR, DTYPE_F32, WIDTH, 1);
    struct weight shorter = weight_of(WEIGHT_VECTOR, DTYPE_F32, WIDTH - 1, 1);
    const struct embed_args valid_embed = {DTYPE_F32, &rows, there, there, 3, WIDTH, 0, VOCAB, 0};
    static const char table[] = "the table is missing, of another use or of another width";
    TRY(embed, NULL, );
    TRY(embed, NULL, a.table = &tied);
    TRY(embed, NULL, a.act = DTYPE_BF16);
    TRY(embed, NULL, a.act = DTYPE_F16);
    TRY(embed, acts, a.act = DTYPE_I8);
    const struct weight *wrong[] = {NULL, &product, &narrow, &empty, &none, &vector};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        TRY(embed, table, a.table = wrong[i]);
    struct weight no_width = weight_of(WEIGHT_ROWS, DTYPE_F32, VOCAB, 0);
    TRY(embed, table, a.width = 0; a.table = &no_width);
    TRY(embed, "rows outside of the vocabulary", a.first = 1);
    TRY(embed, "rows outside of the vocabulary", a.vocab = VOCAB - 1);
    TRY(embed, "rows outside of the vocabulary", a.first = VOCAB + 1; a.vocab = VOCAB);
    TRY(embed, NULL, a.first = 3; a.vocab = VOCAB + 3);
    TRY(embed, "tokens or output are missing", a.token = NULL);
    TRY(embed, "tokens or output are missing", a.out = NULL);
    TRY(embed, NULL, a.token_count = 0; a.token = NULL; a.out = NULL);

    const struct embed_bert_args valid_embed_bert = {.act = DTYPE_F32,
                                                     .word = &rows,
                                                     .position_table = &rows,
                                                     .type_table = &rows,
                                                     .norm_weight = &vector,
                                                     .norm_bias = &vector,
                                                     .token = there,
                                                     .position = there,
                                                     .type = there,
                                                     .out = there,
                                                     .token_count = 2,
                                                     .width = WIDTH};
    TRY(embed_bert, NULL, );
    TRY(embed_bert, NULL, a.word = &tied);
    TRY(embed_bert, acts, a.act = DTYPE_I8);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        TRY(embed_bert, "the word table is missing", a.word = wrong[i]);
        if (wrong[i])
            TRY(embed_bert, "the position table must be rows", a.position_table = wrong[i]);
        if (wrong[i])
            TRY(embed_bert, "the type table must be rows", a.type_table = wrong[i]);
    }
    TRY(embed_bert, "the word table is missing", a.width = 0; a.word = &no_width);
    TRY(embed_bert, "the position table must be rows", a.position_table = &bytes);
    TRY(embed_bert, "the position table must be rows", a.position_table = &tied);
    TRY(embed_bert, "the type table must be rows", a.type_table = &bytes);
    TRY(embed_bert, "the type table must be rows", a.type_table = &tied);
    TRY(embed_bert, NULL, a.type_table = NULL; a.type = NULL);
    TRY(embed_bert, NULL, a.position_table = NULL; a.position = NULL);
    TRY(embed_bert, NULL, a.norm_bias = NULL);
    const struct weight *vectors[] = {NULL, &shorter, &rows};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        TRY(embed_bert, "norm weight and bias", a.norm_weight = vectors[i]);
        if (vectors[i])
            TRY(embed_bert, "norm weight and bias", a.norm_bias = vectors[i]);
    }
    TRY(embed_bert, "are missing", a.token = NULL);
    TRY(embed_bert, "are missing", a.position = NULL);
    TRY(embed_bert, "are missing", a.out = NULL);
    TRY(embed_bert, "are missing", a.type = NULL);
    TRY(embed_bert, NULL, a.token_count = 0; a.token = NULL; a.out = NULL; a.type = NULL);
}

static void test_norms(void **state)
{
    (void)state;
    struct weight vector = weight_of(WEIGHT_VECTOR, DTYPE_F32, WIDTH, 1);
    struct weight shorter = weight_of(WEIGHT_VECTOR, DTYPE_F32, WIDTH - 1, 1);
    struct weight product = weight_of(WEIGHT_PRODUCT, DTYPE_F32, WIDTH, 1);
    struct weight none = {.shape = vector.shape};
    struct weight zero = weight_of(WEIGHT_VECTOR, DTYPE_F32, 0, 1);
    const struct rms_norm_args valid_rms_norm = {DTYPE_F32, there, NULL, &vector, there, 3,
                                                 WIDTH,     1e-6f, NULL, 0,       0};
    const struct layer_norm_args valid_layer_norm = {DTYPE_F32, there, NULL,  &vector, &vector,
                                                     there,     3,     WIDTH, 1e-6f};
    const struct weight *wrong[] = {NULL, &shorter, &product, &none};
    TRY(rms_norm, NULL, );
    TRY(layer_norm, NULL, );
    TRY(layer_norm, NULL, a.bias = NULL);
    TRY(rms_norm, acts, a.act = DTYPE_I8);
    TRY(layer_norm, acts, a.act = DTYPE_I8);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        TRY(rms_norm, "must be a vector of the width", a.weight = wrong[i]);
        TRY(layer_norm, "must be vectors of the width", a.weight = wrong[i]);
        TRY(layer_norm, i > 0 ? "must be vectors of the width" : NULL, a.bias = wrong[i]);
    }
    TRY(rms_norm, "must be a vector of the width", a.width = 0; a.weight = &zero);
    TRY(layer_norm, "must be vectors of the width", a.width = 0; a.weight = a.bias = &zero);
    TRY(rms_norm, "residual or output are missing", a.residual = NULL);
    TRY(rms_norm, "residual or output are missing", a.out = NULL);
    TRY(rms_norm, NULL, a.out = NULL; a.weight = NULL; a.add = there);
    TRY(rms_norm, NULL, a.stride = WIDTH);
    TRY(rms_norm, "a stride is shorter than its row", a.stride = WIDTH - 1);
    TRY(layer_norm, "residual or output are missing", a.residual = NULL);
    TRY(layer_norm, "residual or output are missing", a.out = NULL);
    TRY(rms_norm, NULL, a.rows = 0; a.residual = NULL; a.out = NULL);
    TRY(layer_norm, NULL, a.rows = 0; a.residual = NULL; a.out = NULL);
}

static void test_gemm(void **state)
{
    (void)state;
    struct weight product = weight_of(WEIGHT_PRODUCT, DTYPE_BF16, 7, WIDTH);
    struct weight tied = weight_of(WEIGHT_TIED, DTYPE_I8, 7, WIDTH);
    struct weight rows = weight_of(WEIGHT_ROWS, DTYPE_F32, 7, WIDTH);
    struct weight unknown = weight_of(WEIGHT_PRODUCT, DTYPE_COUNT, 7, WIDTH);
    struct weight no_rows = weight_of(WEIGHT_PRODUCT, DTYPE_F32, 0, WIDTH);
    struct weight no_columns = weight_of(WEIGHT_PRODUCT, DTYPE_F32, 7, 0);
    struct weight none = {.shape = product.shape};
    struct weight bias = weight_of(WEIGHT_VECTOR, DTYPE_F32, 7, 1);
    struct weight longer = weight_of(WEIGHT_VECTOR, DTYPE_F32, 8, 1);
    struct weight stack = weight_of(WEIGHT_PRODUCT, DTYPE_BF16, 7, WIDTH);
    stack.shape.stack = 7;
    const struct gemm_args valid_gemm = {DTYPE_BF16, DTYPE_BF16, there, &product, &bias,
                                         there,      3,          WIDTH, 7};
    TRY(gemm, NULL, );
    TRY(gemm, NULL, a.weight = &tied; a.bias = NULL);
    TRY(gemm, NULL, a.y_dtype = DTYPE_F32);
    TRY(gemm, acts, a.x_dtype = DTYPE_I8);
    TRY(gemm, acts, a.y_dtype = DTYPE_I8);
    TRY(gemm, "of the activations' type or float32", a.y_dtype = DTYPE_F16);
    TRY(gemm, "of the activations' type or float32", a.x_dtype = DTYPE_F32);
    TRY(gemm, "no weight", a.weight = NULL);
    TRY(gemm, "no weight", a.weight = &none);
    TRY(gemm, "not made for products", a.weight = &rows);
    TRY(gemm, "not made for products", a.weight = &bias);
    TRY(gemm, "of no known type", a.weight = &unknown);
    TRY(gemm, "an empty weight", a.weight = &no_rows);
    TRY(gemm, "an empty weight", a.weight = &no_columns);
    TRY(gemm, "a stack of matrices", a.weight = &stack);
    TRY(gemm, "the bias must be a vector", a.bias = &longer);
    TRY(gemm, "the bias must be a vector", a.bias = &product);
    TRY(gemm, "a stride is shorter", a.x_stride = WIDTH - 1);
    TRY(gemm, "a stride is shorter", a.y_stride = 6);
    TRY(gemm, NULL, a.x_stride = WIDTH + 1; a.y_stride = 8);
    TRY(gemm, "input or output are missing", a.x = NULL);
    TRY(gemm, "input or output are missing", a.y = NULL);
    TRY(gemm, NULL, a.rows = 0; a.x = NULL; a.y = NULL);
}

#define SHAPES(op)                                                                                 \
    do {                                                                                           \
        static const char heads[] = "the KV heads must divide the query heads";                    \
        static const char dim[] = "a head must have 16 to 256 columns, a multiple of 8";           \
        TRY(op, NULL, );                                                                           \
        TRY(op, acts, a.act = DTYPE_I8);                                                           \
        TRY(op, acts, a.kv = DTYPE_KV_COUNT);                                                      \
        TRY(op, heads, a.shape.heads = 0);                                                         \
        TRY(op, heads, a.shape.kv_heads = 0);                                                      \
        TRY(op, heads, a.shape.kv_heads = 3);                                                      \
        TRY(op, NULL, a.shape.kv_heads = 4);                                                       \
        TRY(op, dim, a.shape.dim = 8);                                                             \
        TRY(op, NULL, a.shape.dim = 24);                                                           \
        TRY(op, dim, a.shape.dim = 20);                                                            \
        TRY(op, dim, a.shape.dim = 264);                                                           \
        TRY(op, "a multiple of 16", a.kv = DTYPE_E4M3; a.shape.dim = 24);                          \
        TRY(op, NULL, a.kv = DTYPE_E4M3; a.shape.dim = 32);                                        \
    } while (0)

static void test_qkv_post(void **state)
{
    (void)state;
    struct weight norm = weight_of(WEIGHT_VECTOR, DTYPE_F32, 16, 1);
    struct weight other = weight_of(WEIGHT_VECTOR, DTYPE_F32, 17, 1);
    struct qkv_post_args valid_qkv_post = {
        .act = DTYPE_F32,
        .kv = DTYPE_F16,
        .qkv = there,
        .cos_sin = there,
        .position = there,
        .kv_write_offset = there,
        .kv_base = there,
        .shape = {.heads = 4, .kv_heads = 2, .dim = 16, .causal = 1, .paged = 1},
        .token_count = 2,
        .rotary_dim = 16};
    SHAPES(qkv_post);
    TRY(qkv_post, NULL, a.shape.dim = 256; a.rotary_dim = 256);
    TRY(qkv_post, "even and within the head", a.rotary_dim = 18);
    TRY(qkv_post, "even and within the head", a.rotary_dim = 15);
    TRY(qkv_post, "positions and the table of angles", a.cos_sin = NULL);
    TRY(qkv_post, "positions and the table of angles", a.position = NULL);
    TRY(qkv_post, "factors of queries need positions", a.rotary_dim = 0; a.position = NULL;
        a.q_factor = there);
    TRY(qkv_post, NULL, a.rotary_dim = 0; a.cos_sin = NULL; a.position = NULL);
    TRY(qkv_post, NULL, a.q_norm = &norm; a.k_norm = &norm);
    TRY(qkv_post, "the norm of queries", a.q_norm = &other);
    TRY(qkv_post, "the norm of keys", a.k_norm = &other);
    TRY(qkv_post, "no activations", a.qkv = NULL);
    TRY(qkv_post, NULL, a.token_count = 0; a.qkv = NULL);
    TRY(qkv_post, "needs kv_write_offset and the KV base", a.kv_write_offset = NULL);
    TRY(qkv_post, "needs kv_write_offset and the KV base", a.kv_base = NULL);
    TRY(qkv_post, NULL, a.shape.paged = 0; a.kv_write_offset = NULL; a.kv_base = NULL);
}

static void test_attn(void **state)
{
    (void)state;
    struct attn_args valid_attn = {
        .act = DTYPE_F32,
        .kv = DTYPE_F16,
        .qkv = there,
        .out = there,
        .step = there,
        .step_host = there,
        .block_table = there,
        .kv_base = there,
        .token_bytes = 512,
        .shape = {.heads = 4, .kv_heads = 2, .dim = 16, .causal = 1, .paged = 1},
        .blocks_max = 1,
        .block_shift = 4,
        .row_count = 3,
        .token_count = 3};
    SHAPES(attn);
    TRY(attn, NULL, a.shape.dim = 256);
    struct weight bias = weight_of(WEIGHT_VECTOR, DTYPE_F32, 4 * 17, 1);
    TRY(attn, NULL, a.bias = &bias; a.reach = 8);
    TRY(attn, "a vector of each head's distances", a.bias = &bias; a.reach = 9);
    TRY(attn, "a vector of each head's distances", a.bias = &bias; a.reach = BIAS_REACH_MAX + 1);
    TRY(attn, "no step record", a.step = NULL);
    TRY(attn, "no step record", a.step_host = NULL);
    TRY(attn, "a row has at least one token", a.row_count = 4);
    TRY(attn, "input or output are missing", a.qkv = NULL);
    TRY(attn, "input or output are missing", a.out = NULL);
    TRY(attn, NULL, a.row_count = a.token_count = 0; a.qkv = NULL; a.out = NULL);
    TRY(attn, "needs the block table and the KV base", a.block_table = NULL);
    TRY(attn, "needs the block table and the KV base", a.kv_base = NULL);
    TRY(attn, "needs the block table and the KV base", a.blocks_max = 0);
    TRY(attn, "a block holds 16 to 4096 tokens", a.block_shift = 3);
    TRY(attn, "a block holds 16 to 4096 tokens", a.block_shift = 13);
    TRY(attn, NULL, a.block_shift = 12);
    TRY(attn, NULL, a.token_bytes = 32);
    TRY(attn, "a token's stride is shorter than a head", a.token_bytes = 31);
    TRY(attn, "a token's stride is shorter than a head", a.kv = DTYPE_F32; a.token_bytes = 63);
    TRY(attn, NULL, a.shape.paged = 0; a.block_table = NULL; a.kv_base = NULL; a.blocks_max = 0;
        a.block_shift = 0; a.token_bytes = 0);
}

static void test_rows(void **state)
{
    (void)state;
    const struct swiglu_args valid_swiglu = {DTYPE_F32, there, there, 3, WIDTH, NULL, 0, 0, 0};
    TRY(swiglu, NULL, );
    TRY(swiglu, acts, a.act = DTYPE_I8);
    TRY(swiglu, NULL, a.gate = GATE_GELU);
    TRY(swiglu, "an unknown function", a.gate = (enum gate)(GATE_CLAMPED + 1));
    TRY(swiglu, "limit and alpha are above 0", a.gate = GATE_CLAMPED; a.limit = 7);
    TRY(swiglu, NULL, a.gate = GATE_CLAMPED; a.limit = 7; a.alpha = 1.5f);
    TRY(swiglu, "no columns", a.width = 0);
    TRY(swiglu, "input or output are missing", a.in = NULL);
    TRY(swiglu, "input or output are missing", a.out = NULL);
    TRY(swiglu, NULL, a.rows = 0; a.in = NULL; a.out = NULL);
    const struct activate_args valid_activate = {DTYPE_F32, ACTIVATE_SILU, there, 3, WIDTH};
    TRY(activate, NULL, );
    TRY(activate, NULL, a.kind = ACTIVATE_GELU);
    TRY(activate, acts, a.act = DTYPE_I8);
    TRY(activate, "an unknown function", a.kind = (enum activation)(ACTIVATE_SILU + 1));
    TRY(activate, "an unknown function", a.kind = (enum activation) - 1);
    TRY(activate, "no columns or no activations", a.width = 0);
    TRY(activate, "no columns or no activations", a.x = NULL);
    TRY(activate, NULL, a.rows = 0; a.x = NULL);
    const struct gather_args valid_gather = {DTYPE_F32, there, there, 1, there, there, 2, WIDTH};
    TRY(gather, NULL, );
    TRY(gather, acts, a.act = DTYPE_I8);
    TRY(gather, "no columns", a.width = 0);
    TRY(gather, "the list of rows are missing", a.in = NULL);
    TRY(gather, "the list of rows are missing", a.out = NULL);
    TRY(gather, "the list of rows are missing", a.sampled = NULL);
    TRY(gather, "first tokens need the step's rows", a.rows = NULL);
    TRY(gather, NULL, a.first_token = 0; a.rows = NULL);
    TRY(gather, NULL, a.count = 0; a.in = a.out = NULL; a.sampled = NULL; a.rows = NULL);
    const struct pool_args valid_pool = {DTYPE_F32, POOL_MEAN, there, there, there,
                                         there,     2,         WIDTH, 1,     0};
    TRY(pool, NULL, );
    TRY(pool, NULL, a.kind = POOL_CLS);
    TRY(pool, acts, a.act = DTYPE_I8);
    TRY(pool, "an unknown kind", a.kind = (enum pooling)(POOL_GIVEN + 1));
    TRY(pool, NULL, a.normalize = 0; a.out_act = 1);
    TRY(pool, "only float32 vectors are normalized", a.out_act = 1);
    TRY(pool, "an unknown kind", a.kind = (enum pooling) - 1);
    TRY(pool, "no columns", a.width = 0);
    TRY(pool, "the lists of rows are missing", a.in = NULL);
    TRY(pool, "the lists of rows are missing", a.out = NULL);
    TRY(pool, "the lists of rows are missing", a.rows = NULL);
    TRY(pool, "the lists of rows are missing", a.sampled = NULL);
    TRY(pool, NULL, a.count = 0; a.in = NULL; a.out = NULL; a.rows = NULL; a.sampled = NULL);
}

static void test_sample(void **state)
{
    (void)state;
    const struct sample_args valid_sample = {
        .logits = there,
        .sampled = there,
        .state =
            {.last_token = there, .params = there, .done = there, .penalty = there, .bias = there},
        .result = there,
        .top = there,
        .limits = {.rows_max = 3, .vocab = VOCAB, .bias_max = 1, .penalty_rows = 1},
        .count = 3,
        .stride = VOCAB,
        .max_top = SAMPLE_TOP_MAX};
    TRY(sample, NULL, );
    TRY(sample, NULL, a.stride = VOCAB + 1);
    TRY(sample, "no vocabulary, or a stride shorter", a.limits.vocab = 0);
    TRY(sample, "no vocabulary, or a stride shorter", a.stride = VOCAB - 1);
    TRY(sample, "more top logprobs than fit", a.max_top = SAMPLE_TOP_MAX + 1);
    TRY(sample, "count exceeds limits.rows_max", a.count = 4);
    TRY(sample, "logits, rows or results are missing", a.logits = NULL);
    TRY(sample, "logits, rows or results are missing", a.sampled = NULL);
    TRY(sample, "logits, rows or results are missing", a.result = NULL);
    TRY(sample, "no memory for top logprobs", a.top = NULL);
    TRY(sample, NULL, a.top = NULL; a.max_top = 0);
    TRY(sample, "no sampling state", a.state.params = NULL);
    TRY(sample, "no sampling state", a.state.done = NULL);
    TRY(sample, "no sampling state", a.state.last_token = NULL);
    TRY(sample, "no bias table", a.state.bias = NULL);
    TRY(sample, NULL, a.state.bias = NULL; a.limits.bias_max = 0);
    TRY(sample, "no penalty table", a.state.penalty = NULL);
    TRY(sample, NULL, a.state.penalty = NULL; a.limits.penalty_rows = 0);
    TRY(sample, NULL, a.count = 0; a.logits = NULL; a.sampled = NULL; a.result = NULL);
}

static void test_collectives(void **state)
{
    (void)state;
    static float other[4];
    const struct all_reduce_args valid_all_reduce = {DTYPE_F32, other, there, 4, 2, false};
    TRY(all_reduce, NULL, );
    TRY(all_reduce, NULL, a.act = DTYPE_BF16);
    TRY(all_reduce, acts, a.act = DTYPE_I8);
    TRY(all_reduce, "1 to 8 ranks", a.ranks = 0);
    TRY(all_reduce, "1 to 8 ranks", a.ranks = 9);
    TRY(all_reduce, NULL, a.ranks = 8);
    TRY(all_reduce, "input or output are missing", a.in = NULL);
    TRY(all_reduce, "input or output are missing", a.out = NULL);
    TRY(all_reduce, "or the same", a.in = there);
    TRY(all_reduce, NULL, a.count = 0; a.in = NULL; a.out = NULL);
    TRY(all_reduce, NULL, a.in_place = true; a.in = NULL);
    TRY(all_reduce, "input or output are missing", a.in_place = true; a.out = NULL);
    const struct all_gather_args valid_all_gather = {other, there, 2, 4, 2, {1, 4}};
    TRY(all_gather, NULL, );
    TRY(all_gather, "1 to 8 ranks", a.ranks = 0);
    TRY(all_gather, "1 to 8 ranks", a.ranks = 9);
    TRY(all_gather, "a stride is shorter", a.stride = 3);
    TRY(all_gather, "a stride is shorter", a.ends[1] = 5);
    TRY(all_gather, "a stride is shorter", a.ranks = 1; a.ends[0] = 5);
    TRY(all_gather, "out of order", a.ends[0] = 5);
    TRY(all_gather, NULL, a.ends[0] = 4);
    TRY(all_gather, "input or output are missing", a.in = NULL);
    TRY(all_gather, "input or output are missing", a.out = NULL);
    TRY(all_gather, NULL, a.rows = 0; a.in = NULL; a.out = NULL);
    TRY(all_gather, NULL, a.ends[0] = 0; a.ends[1] = 0; a.in = NULL);
}

static struct routing routing_of(void)
{
    return (struct routing){there,        there,      there, there, there, .token_count = 3,
                            .experts = 8, .chosen = 2};
}

static void test_route(void **state)
{
    (void)state;
    struct weight correction = weight_of(WEIGHT_VECTOR, DTYPE_F32, 8, 1);
    struct weight other = weight_of(WEIGHT_VECTOR, DTYPE_F32, 9, 1);
    const struct route_args valid_route = {.out = routing_of(),
                                           .score = ROUTE_SIGMOID,
                                           .logits = there,
                                           .correction = &correction,
                                           .groups = 4,
                                           .groups_kept = 2,
                                           .group_top = 2,
                                           .factor = 1};
    TRY(route, NULL, );
    TRY(route, "1 to 512 experts", a.out.experts = 0);
    TRY(route, "1 to 512 experts", a.out.experts = 513);
    TRY(route, "1 to 512 experts", a.out.chosen = 0);
    TRY(route, "1 to 512 experts", a.out.chosen = 33);
    TRY(route, "1 to 512 experts", a.out.chosen = 9);
    TRY(route, "1 to 512 experts", a.out.place = NULL);
    TRY(route, NULL, a.out.place = NULL; a.out.token_count = 0);
    TRY(route, "an unknown score", a.score = (enum route_score)3);
    TRY(route, "one element for each expert", a.correction = &other);
    TRY(route, NULL, a.correction = NULL);
    TRY(route, "groups must divide the experts", a.groups = 3);
    TRY(route, "groups must divide the experts", a.groups_kept = 0);
    TRY(route, "groups must divide the experts", a.groups_kept = 5);
    TRY(route, "groups must divide the experts", a.groups_kept = 1; a.out.chosen = 3);
    TRY(route, "groups must divide the experts", a.group_top = 3);
    TRY(route, "groups must divide the experts", a.group_top = 0);
    TRY(route, "groups must divide the experts", a.groups = 8);
    TRY(route, NULL, a.groups = 0; a.group_top = 0);
    TRY(route, "logits are missing", a.logits = NULL);
}

static void test_gemm_experts(void **state)
{
    (void)state;
    struct weight stack = weight_of(WEIGHT_PRODUCT, DTYPE_BF16, 6 * 64, WIDTH);
    stack.shape.stack = 6;
    struct weight odd = stack, codes = stack, table = stack;
    odd.shape.n = 6 * 48;
    table.shape.use = WEIGHT_ROWS;
    codes.shape.part_count = 1;
    codes.shape.parts[0] = (struct weight_codes){WEIGHT_Q8_0, 64};
    struct weight bias = weight_of(WEIGHT_VECTOR, DTYPE_F32, 6 * 64, 1);
    struct weight other = weight_of(WEIGHT_VECTOR, DTYPE_F32, 64, 1);
    const struct gemm_experts_args valid_gemm_experts = {.act = DTYPE_BF16,
                                                         .routing = routing_of(),
                                                         .x = there,
                                                         .weight = &stack,
                                                         .bias = &bias,
                                                         .y = there,
                                                         .x_stride = WIDTH,
                                                         .y_stride = 64,
                                                         .first = 2};
    TRY(gemm_experts, NULL, );
    TRY(gemm_experts, acts, a.act = DTYPE_I8);
    TRY(gemm_experts, "no valid counts or lacks an array", a.routing.chosen = 0);
    TRY(gemm_experts, "no valid counts or lacks an array", a.routing.order = NULL);
    TRY(gemm_experts, "made for products", a.weight = NULL);
    TRY(gemm_experts, "made for products", a.weight = &table);
    TRY(gemm_experts, "a multiple of 32", a.weight = &odd);
    TRY(gemm_experts, NULL, a.weight = &codes);
    TRY(gemm_experts, "parts do not fit", a.weight = &codes; codes.shape.parts[0].rows = 65);
    TRY(gemm_experts, "experts that do not exist", a.first = 3);
    TRY(gemm_experts, "the rows of the weight", a.bias = &other);
    TRY(gemm_experts, NULL, a.bias = NULL);
    TRY(gemm_experts, "a stride is shorter", a.x_stride = WIDTH - 1);
    TRY(gemm_experts, "a stride is shorter", a.y_stride = 63);
    TRY(gemm_experts, "input or output are missing", a.x = NULL);
    TRY(gemm_experts, "input or output are missing", a.y = NULL);
    TRY(gemm_experts, NULL, a.routing.token_count = 0; a.x = NULL);
}

static void test_combine(void **state)
{
    (void)state;
    const struct combine_args valid_combine = {.act = DTYPE_F16,
                                               .out_dtype = DTYPE_F32,
                                               .routing = routing_of(),
                                               .y = there,
                                               .shared = there,
                                               .gate = there,
                                               .out = there,
                                               .width = WIDTH,
                                               .first = 2,
                                               .held = 6};
    TRY(combine, NULL, );
    TRY(combine, NULL, a.out_dtype = DTYPE_F16);
    TRY(combine, acts, a.act = DTYPE_I8);
    TRY(combine, "of the activations' type or float32", a.out_dtype = DTYPE_BF16);
    TRY(combine, "no valid counts or lacks an array", a.routing.experts = 1);
    TRY(combine, "experts that do not exist", a.held = 7);
    TRY(combine, "experts that do not exist", a.first = 9; a.held = 0);
    TRY(combine, "no columns", a.width = 0);
    TRY(combine, "a gate needs a shared result", a.shared = NULL);
    TRY(combine, NULL, a.shared = NULL; a.gate = NULL);
    TRY(combine, "input or output are missing", a.y = NULL);
    TRY(combine, "input or output are missing", a.out = NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prep),     cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_norms),    cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_qkv_post), cmocka_unit_test(test_attn),
        cmocka_unit_test(test_rows),     cmocka_unit_test(test_sample),
        cmocka_unit_test(test_route),    cmocka_unit_test(test_gemm_experts),
        cmocka_unit_test(test_combine),  cmocka_unit_test(test_collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
