// SPDX-License-Identifier: Apache-2.0
// Conformance of the ops whose rows are independent: embedding, norms, activations, gather, pool.
// Each output has one row more than the op writes, which must stay unchanged.
#include "tests/conformance/codes.h"

#include <math.h>
#include <string.h>

// Expects that a call is refused: the shared check returns a message and the device INVALID.
#define REFUSED(t, op, args)                                                                       \
    trial_true(t, #op " refuses wrong arguments",                                                  \
               op##_check(&(args))[0] != '\0' &&                                                   \
                   (t)->api->ops->op((t)->stream, &(args)) == STATUS_INVALID)

static const uint32_t widths[] = {8, 64, 72, 384, 896, 1000, 2048};
enum { WIDTHS = sizeof widths / sizeof *widths, ODD_EACH = 4 };

// In the last ODD_EACH cases of an op the width is no multiple of a vector.
static uint32_t width_choose(struct trial *t, uint64_t i, uint64_t usual)
{
    static const uint32_t odd[ODD_EACH] = {9, 100, 1101, 31};
    uint32_t width = widths[trial_below(t, WIDTHS)];
    return i < usual ? width : odd[i - usual];
}

static enum dtype weight_dtype(enum dtype act, uint64_t seed)
{
    (void)act;
    return (enum dtype)(seed % 3); // one of F32, BF16, F16
}

// A table held as codes; a row outside it belongs to another rank.
static void embed_codes(struct trial *t, uint64_t seed)
{
    trial_begin(t, seed);
    enum weight_format format = (enum weight_format)(1 + seed % (WEIGHT_FORMAT_CODES - 1));
    uint32_t elements = weight_format_facts(format)->elements;
    uint32_t width = elements == 256 ? 512 : 3 * elements, held = trial_range(t, 1, 70);
    struct weight_shape shape = {.use = seed % 2 ? WEIGHT_TIED : WEIGHT_ROWS,
                                 .n = held,
                                 .k = width,
                                 .part_count = 1,
                                 .parts = {{format, held}}};
    struct trial_codes table = trial_codes_make(t, &shape, false);
    enum { TOKENS = 20 };
    int32_t token[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++)
        token[i] = (int32_t)trial_below(t, held + 10);
    float *want = trial_heap(t, (size_t)TOKENS * width * sizeof *want);
    float *got = trial_heap(t, (size_t)TOKENS * width * sizeof *got);
    struct embed_args args = {DTYPE_F32, &table.reference,   token, want, TOKENS, width, 5,
                              held + 5,  seed % 2 ? 7.3f : 0};
    reference_embed(&args);
    args.table = &table.device;
    args.out = got;
    trial_true(t, "embed of codes runs", t->api->ops->embed(t->stream, &args) == STATUS_OK);
    trial_close_to(t, "embed of codes", got, want, (size_t)TOKENS * width, 1e-6);
}

void try_embed(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; t->facts.code_tables && act == DTYPE_F32 && i < 16; i++)
        embed_codes(t, 1900 + i);
    for (uint64_t i = 0; i < 16 + ODD_EACH; i++) {
        trial_begin(t, 1000 + i);
        uint32_t width = width_choose(t, i, 16);
        uint32_t held = trial_range(t, 1, 200);
        bool part =
            i % 3 == 1 && t->facts.ranks_max > 1; // a rank holds some rows of a larger vocabulary
        uint32_t first = part ? trial_below(t, 100) : 0;
        uint32_t vocab = part ? first + held + trial_below(t, 50) : held;
        uint32_t tokens = trial_range(t, 1, 40);
        enum dtype dtype = act == DTYPE_F32 ? weight_dtype(act, i) : act;
        bool bytes = (i >= 12 && i < 16) || i == 17 ||
                     i == 19; // widths that are multiples of a block, and odd widths
        if (bytes && t->facts.activation[DTYPE_I8] == act)
            dtype = DTYPE_I8;
        enum weight_use use = i % 2 ? WEIGHT_TIED : WEIGHT_ROWS;
        struct weight_shape shape = {.use = use, .dtype = dtype, .n = held, .k = width};
        struct trial_weight table = trial_weight_make(t, &shape, 1, 0);
        int32_t *token = trial_heap(t, tokens * sizeof *token);
        for (uint32_t j = 0; j < tokens; j++)
            token[j] = j == 3 ? (int32_t)vocab : j == 4 ? -1 : (int32_t)trial_below(t, vocab);
        size_t n = (size_t)(tokens + 1) * width;
        float *want = trial_heap(t, n * sizeof *want);
        float scale = i % 4 == 3 ? 5.7f : 0;
        struct embed_args args = {
            DTYPE_F32, &table.reference, token, want, tokens, width, first, vocab, scale};
        reference_embed(&args);
        float *was =
            trial_floats(t, n, act, 1); // the op also writes the zeros of other ranks' rows
        memcpy(want + n - width, was + n - width, width * sizeof *want);
        void *out = trial_put_floats(t, was, n, act);
        args = (struct embed_args){act,   &table.device, trial_put(t, token, tokens * 4),
                                   out,   tokens,        width,
                                   first, vocab,         scale};
        trial_true(t, "embed runs", t->api->ops->embed(t->stream, &args) == STATUS_OK);
        bool exact = scale == 0 && (dtype != DTYPE_I8 || act == DTYPE_F32);
        double bound = exact ? 0 : trial_bound(act);
        trial_close_to(t, "embed", trial_fetch_floats(t, out, n, act), want, n, bound);
        args.table = NULL;
        REFUSED(t, embed, args);
    }
}

void try_embed_bert(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; i < 8 + ODD_EACH; i++) {
        trial_begin(t, 2000 + i);
        uint32_t width = width_choose(t, i, 8);
        uint32_t tokens = trial_range(t, 1, 33);
        enum dtype dtype = act == DTYPE_F32 ? weight_dtype(act, i) : act;
        struct weight_shape shape = {.use = WEIGHT_ROWS, .dtype = dtype, .n = 50, .k = width};
        struct trial_weight word = trial_weight_make(t, &shape, 1, 0);
        struct trial_weight place = trial_weight_make(t, &shape, 1, 0);
        shape.n = 2;
        struct trial_weight type = trial_weight_make(t, &shape, 1, 0);
        struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = width, .k = 1};
        struct trial_weight w = trial_weight_make(t, &vector, 0.2f, 1);
        struct trial_weight b = trial_weight_make(t, &vector, 0.2f, 0);
        int32_t *token = trial_heap(t, tokens * 4);
        uint32_t *position = trial_heap(t, tokens * 4);
        uint32_t *types = trial_heap(t, tokens * 4);
        for (uint32_t j = 0; j < tokens; j++) {
            // an id outside the table is row 0
            token[j] = j == 3 ? 50 : j == 4 ? -1 : (int32_t)trial_below(t, 50);
            position[j] = j == 5 ? 50 : trial_below(t, 48);
            types[j] = j == 6 ? 2 : trial_below(t, 2);
        }
        size_t n = (size_t)(tokens + 1) * width;
        struct embed_bert_args args = {
            .act = DTYPE_F32,
            .word = &word.reference,
            .position_table = i % 5 == 2 ? NULL : &place.reference,
            .type_table = i % 2 ? &type.reference : NULL,
            .norm_weight = &w.reference,
            .norm_bias = i % 4 == 1 ? NULL : &b.reference,
            .token = token,
            .position = position,
            .type = types,
            .out = trial_heap(t, n * 4),
            .token_count = tokens,
            .width = width,
            .position_offset = i % 3 == 0 ? 2 : 0,
            .epsilon = i % 4 == 3 ? 0.5f : 1e-12f,
        };
        reference_embed_bert(&args);
        const float *want = args.out;
        args.act = act;
        args.word = &word.device;
        args.position_table = i % 5 == 2 ? NULL : &place.device;
        args.type_table = i % 2 ? &type.device : NULL;
        args.norm_weight = &w.device;
        args.norm_bias = i % 4 == 1 ? NULL : &b.device;
        args.token = trial_put(t, token, tokens * 4);
        args.position = trial_put(t, position, tokens * 4);
        args.type = trial_put(t, types, tokens * 4);
        args.out = trial_device(t, n * dtype_bytes(act));
        trial_true(t, "embed_bert runs", t->api->ops->embed_bert(t->stream, &args) == STATUS_OK);
        trial_close_to(t, "embed_bert", trial_fetch_floats(t, args.out, n, act), want, n,
                       trial_bound(act));
        args.norm_weight = NULL;
        REFUSED(t, embed_bert, args);
    }
}

// Makes the next product's weight, which a norm may prefetch. It is small, so that prefetching too
// much would access memory after it.
static struct trial_weight next_make(struct trial *t, enum dtype act, uint32_t width)
{
    struct weight_shape shape = {
        .use = WEIGHT_PRODUCT, .dtype = act, .n = trial_range(t, 1, 20), .k = width};
    return trial_weight_make(t, &shape, 1, 0);
}

// Widths for which a thread of the cuda device keeps more than eight elements.
static const uint32_t norms_kept[] = {384, 3000, 4096};
enum { NORMS_KEPT = sizeof norms_kept / sizeof *norms_kept };

// Rows that are parts of longer rows, normalised in place as the heads of q and k are, or without
// an output; the other columns must stay unchanged.
static void rms_norm_parts(struct trial *t, enum dtype act)
{
    static const uint32_t parts[][2] = {{64, 128}, {1000, 2008}, {4096, 6144}, {9, 20}};
    for (uint64_t i = 0; i < 8; i++) {
        trial_begin(t, 3100 + i);
        uint32_t width = parts[i / 2][0], stride = parts[i / 2][1], rows = trial_range(t, 1, 20);
        bool alone = i % 2; // only the add
        size_t n = (size_t)rows * stride;
        struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = width, .k = 1};
        struct trial_weight w = trial_weight_make(t, &vector, 0.2f, 1);
        float *x = trial_floats(t, n, act, 3), *add = trial_floats(t, n, act, 1);
        void *there = trial_put_floats(t, x, n, act);
        struct rms_norm_args args = {.act = DTYPE_F32,
                                     .residual = x,
                                     .add = alone ? add : NULL,
                                     .weight = alone ? NULL : &w.reference,
                                     .out = alone ? NULL : x,
                                     .rows = rows,
                                     .width = width,
                                     .epsilon = 1e-5f,
                                     .factor = alone ? 0.3f : 0,
                                     .stride = stride};
        reference_rms_norm(&args);
        args.act = act;
        args.residual = there;
        args.add = alone ? trial_put_floats(t, add, n, act) : NULL;
        args.weight = alone ? NULL : &w.device;
        args.out = alone ? NULL : there;
        trial_true(t, "rms_norm runs", t->api->ops->rms_norm(t->stream, &args) == STATUS_OK);
        trial_close_to(t, "rms_norm of parts", trial_fetch_floats(t, there, n, act), x, n,
                       trial_bound(act));
        args.stride = width - 1;
        REFUSED(t, rms_norm, args);
    }
}

void try_rms_norm(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; i < 12 + ODD_EACH; i++) {
        trial_begin(t, 3000 + i);
        uint32_t width = i < NORMS_KEPT ? norms_kept[i] : width_choose(t, i, 12);
        uint32_t rows = trial_range(t, 1, i % 4 == 2 ? 3 : 50);
        size_t n = (size_t)(rows + 1) * width;
        float epsilon = i % 4 == 1 ? 4 : 1e-6f, factor = i % 5 == 4 ? 0.22f : 0;
        struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = width, .k = 1};
        struct trial_weight w = trial_weight_make(t, &vector, 0.2f, 1);
        struct trial_weight next = next_make(t, act, width);
        float *residual = trial_floats(t, n, act, 3);
        float *add = trial_floats(t, n, act, 1);
        void *residual_there = trial_put_floats(t, residual, n, act);
        void *add_there = trial_put_floats(t, add, n, act);
        void *out = trial_device(t, n * dtype_bytes(act));
        float *want = trial_heap(t, n * sizeof *want);
        struct rms_norm_args args = {
            DTYPE_F32, residual, i % 3 ? add : NULL, &w.reference, want, rows, width, epsilon, NULL,
            factor,    0};
        reference_rms_norm(&args);
        args = (struct rms_norm_args){
            act,   residual_there, i % 3 ? add_there : NULL,    &w.device, out, rows,
            width, epsilon,        i % 2 ? NULL : &next.device, factor,    0};
        trial_true(t, "rms_norm runs", t->api->ops->rms_norm(t->stream, &args) == STATUS_OK);
        trial_close_to(t, "rms_norm", trial_fetch_floats(t, out, n, act), want, n,
                       trial_bound(act));
        trial_close_to(t, "rms_norm residual", trial_fetch_floats(t, residual_there, n, act),
                       residual, n, act == DTYPE_F32 && factor == 0 ? 0 : trial_bound(act));
        args.width++;
        REFUSED(t, rms_norm, args);
    }
    rms_norm_parts(t, act);
}

void try_layer_norm(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; i < 12 + ODD_EACH; i++) {
        trial_begin(t, 4000 + i);
        uint32_t width = width_choose(t, i, 12);
        uint32_t rows = trial_range(t, 1, 50);
        size_t n = (size_t)rows * width, all = n + width;
        float epsilon = i % 4 == 1 ? 4 : 1e-5f;
        struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = width, .k = 1};
        struct trial_weight w = trial_weight_make(t, &vector, 0.2f, 1);
        struct trial_weight b = trial_weight_make(t, &vector, 0.2f, 0);
        float *residual = trial_floats(t, all, act, 3);
        float *add = trial_floats(t, all, act, 1);
        void *residual_there = trial_put_floats(t, residual, all, act);
        void *add_there = trial_put_floats(t, add, all, act);
        // the output may be the residual
        void *out = i % 2 ? residual_there : trial_device(t, all * dtype_bytes(act));
        float *want = trial_heap(t, all * sizeof *want);
        if (out == residual_there)
            memcpy(want + n, residual + n, width * sizeof *want);
        struct layer_norm_args args = {DTYPE_F32,
                                       residual,
                                       i % 3 ? add : NULL,
                                       &w.reference,
                                       i % 5 == 2 ? NULL : &b.reference,
                                       want,
                                       rows,
                                       width,
                                       epsilon};
        reference_layer_norm(&args);
        args = (struct layer_norm_args){act,
                                        residual_there,
                                        i % 3 ? add_there : NULL,
                                        &w.device,
                                        i % 5 == 2 ? NULL : &b.device,
                                        out,
                                        rows,
                                        width,
                                        epsilon};
        trial_true(t, "layer_norm runs", t->api->ops->layer_norm(t->stream, &args) == STATUS_OK);
        trial_close_to(t, "layer_norm", trial_fetch_floats(t, out, all, act), want, all,
                       trial_bound(act));
        args.weight = NULL;
        REFUSED(t, layer_norm, args);
    }
}

void try_swiglu(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; i < 8 + ODD_EACH; i++) {
        trial_begin(t, 5000 + i);
        uint32_t width = width_choose(t, i, 8);
        uint32_t rows = trial_range(t, 1, 50);
        size_t n = (size_t)(rows + 1) * width;
        float *in = trial_floats(t, 2 * n, act, 4);
        float *want = trial_heap(t, n * sizeof *want);
        struct trial_weight next = next_make(t, act, width);
        enum gate gate = (enum gate)(i % 4);
        struct swiglu_args args = {DTYPE_F32, in, want, rows, width, NULL, gate, 5, 1.702f};
        reference_swiglu(&args);
        void *out = trial_device(t, n * dtype_bytes(act));
        args = (struct swiglu_args){act,   trial_put_floats(t, in, 2 * n, act), out,  rows,
                                    width, i % 2 ? &next.device : NULL,         gate, 5,
                                    1.702f};
        trial_true(t, "swiglu runs", t->api->ops->swiglu(t->stream, &args) == STATUS_OK);
        trial_close_to(t, "swiglu", trial_fetch_floats(t, out, n, act), want, n, trial_bound(act));
        args.out = NULL;
        REFUSED(t, swiglu, args);
    }
}

// A NaN must stay NaN, so that the check of a step's results finds it.
static void activate_keeps_nan(struct trial *t, enum dtype act)
{
    enum { WIDTH = 24 };
    for (int kind = 0; kind < 5; kind++) {
        trial_begin(t, 6100 + (uint64_t)kind);
        float x[2 * WIDTH];
        for (int j = 0; j < 2 * WIDTH; j++)
            x[j] = j % 5 == 3 ? NAN : (float)(j % 7) - 3;
        void *there = trial_put_floats(t, x, 2 * WIDTH, act);
        struct activate_args args = {act, (enum activation)kind, there, 2, WIDTH};
        trial_true(t, "activate runs", t->api->ops->activate(t->stream, &args) == STATUS_OK);
        const float *got = trial_fetch_floats(t, there, 2 * WIDTH, act);
        for (int j = 0; j < 2 * WIDTH; j++)
            trial_true(t, "not a number", isnan(got[j]) == (j % 5 == 3));
    }
}

void try_activate(struct trial *t, enum dtype act)
{
    static const float edge[] = {0, -0.0f, 1e-6f, -1e-6f, 0.2f, -9.5f, 20, -20, 88, -100};
    for (uint64_t i = 0; i < 10 + ODD_EACH; i++) {
        trial_begin(t, 6000 + i);
        uint32_t width = width_choose(t, i, 10);
        uint32_t rows = trial_range(t, 2, 50);
        size_t n = (size_t)(rows + 1) * width;
        float *x = trial_floats(t, n, act, i < 5 ? 0.2f : 3);
        for (uint32_t j = 0; j < 10 && i >= 5; j++)
            x[j] = trial_rounded(edge[j], act);
        void *there = trial_put_floats(t, x, n, act);
        struct activate_args args = {DTYPE_F32, (enum activation)(i % 5), x, rows, width};
        reference_activate(&args);
        args.act = act;
        args.x = there;
        trial_true(t, "activate runs", t->api->ops->activate(t->stream, &args) == STATUS_OK);
        trial_close_to(t, "activate", trial_fetch_floats(t, there, n, act), x, n, trial_bound(act));
        args.kind = (enum activation)99;
        REFUSED(t, activate, args);
    }
    activate_keeps_nan(t, act);
}

struct some_rows {
    struct step_row row[8];
    struct step_sampled sampled[8];
    uint32_t rows, tokens;
};

static struct some_rows rows_make(struct trial *t)
{
    struct some_rows s = {.rows = trial_range(t, 1, 8)};
    for (uint32_t i = 0; i < s.rows; i++) {
        s.row[i] =
            (struct step_row){.slot = i, .q_start = s.tokens, .q_len = trial_range(t, 1, 60)};
        s.row[i].kv_len = s.row[i].q_len;
        s.tokens += s.row[i].q_len;
        uint32_t row = s.rows - 1 - i; // an order other than that of the rows
        s.sampled[row] = (struct step_sampled){i, i, s.tokens - 1, STEP_NO_ROW};
    }
    return s;
}

void try_gather(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; i < 6 + ODD_EACH; i++) {
        trial_begin(t, 7000 + i);
        uint32_t width = width_choose(t, i, 6);
        struct some_rows s = rows_make(t);
        float *in = trial_floats(t, (size_t)s.tokens * width, act, 1);
        size_t n = (size_t)(s.rows + 1) * width;
        float *want = trial_heap(t, n * sizeof *want);
        struct gather_args args = {DTYPE_F32, in, s.sampled, i % 2, s.row, want, s.rows, width};
        reference_gather(&args);
        args.act = act;
        args.in = trial_put_floats(t, in, (size_t)s.tokens * width, act);
        args.sampled = trial_put(t, s.sampled, sizeof s.sampled);
        args.rows = trial_put(t, s.row, sizeof s.row);
        args.out = trial_device(t, n * dtype_bytes(act));
        trial_true(t, "gather runs", t->api->ops->gather(t->stream, &args) == STATUS_OK);
        trial_close_to(t, "gather", trial_fetch_floats(t, args.out, n, act), want, n, 0);
        args.sampled = NULL;
        REFUSED(t, gather, args);
    }
}

void try_pool(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; i < 14 + ODD_EACH; i++) {
        trial_begin(t, 8000 + i);
        uint32_t width = width_choose(t, i, 14);
        struct some_rows s = rows_make(t);
        float *in = trial_floats(t, (size_t)s.tokens * width, act, 1);
        if (i == 11)
            memset(in, 0, (size_t)s.tokens * width * sizeof *in); // vectors of length zero
        size_t n = (size_t)(s.rows + 1) * width;
        float *want = trial_heap(t, n * sizeof *want);
        bool out_act = i % 10 == 6 || i % 10 == 9;
        struct pool_args args = {
            DTYPE_F32, (enum pooling)(i % 7), in,     s.row, s.sampled, want, s.rows,
            width,     !out_act && i % 8 < 4, out_act};
        for (uint32_t r = 0; r < s.rows; r++) // means without the first tokens, and raw vectors
            s.row[r].pool = (i % 3 ? trial_range(t, 0, s.row[r].q_len - 1) : 0) |
                            (r % 3 == 1 ? STEP_POOL_RAW : 0);
        reference_pool(&args);
        args.act = act;
        args.in = trial_put_floats(t, in, (size_t)s.tokens * width, act);
        args.sampled = trial_put(t, s.sampled, sizeof s.sampled);
        args.rows = trial_put(t, s.row, sizeof s.row);
        enum dtype out = out_act ? act : DTYPE_F32;
        args.out = trial_device(t, n * dtype_bytes(out));
        trial_true(t, "pool runs", t->api->ops->pool(t->stream, &args) == STATUS_OK);
        trial_close_to(t, "pool", trial_fetch_floats(t, args.out, n, out), want, n,
                       trial_bound(out));
        args.kind = (enum pooling)(POOL_GIVEN + 1);
        REFUSED(t, pool, args);
    }
}
