// SPDX-License-Identifier: Apache-2.0
// Conformance of route, gemm_experts and combine: each kind of score, corrections and groups, ties,
// logits that are not finite; batches in which all tokens choose the same experts, so that others
// have no rows; stacks of weights in every dtype and format; ranks that hold some of the experts.
#include "tests/conformance/codes.h"
#include "tests/conformance/codes_fp8.h"

#include <math.h>
#include <string.h>

static struct weight_shape vector_of(uint32_t n)
{
    return (struct weight_shape){.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = n, .k = 1};
}

// Returns the number of cases; plugins run fewer, because they are emulated.
static uint64_t cases_of(const struct trial *t, uint64_t cpu, uint64_t plugin)
{
    return trial_cases(t->level == CPU_ISA_COUNT ? plugin : cpu);
}

// The counts and the memory of a routing, on the heap for the reference.
static struct routing routing_make(struct trial *t, uint32_t tokens, uint32_t experts,
                                   uint32_t chosen)
{
    size_t pairs = (size_t)tokens * chosen;
    return (struct routing){.id = trial_heap(t, pairs * 4),
                            .weight = trial_heap(t, pairs * 4),
                            .order = trial_heap(t, pairs * 4),
                            .place = trial_heap(t, pairs * 4),
                            .offset = trial_heap(t, (experts + 1) * 4),
                            .token_count = tokens,
                            .experts = experts,
                            .chosen = chosen};
}

// Copies a routing to the device.
static struct routing routing_put(struct trial *t, const struct routing *from)
{
    size_t bytes = (size_t)from->token_count * from->chosen * 4;
    struct routing out = *from;
    out.id = trial_put(t, from->id, bytes);
    out.weight = trial_put(t, from->weight, bytes);
    out.order = trial_put(t, from->order, bytes);
    out.place = trial_put(t, from->place, bytes);
    out.offset = trial_put(t, from->offset, (from->experts + 1) * 4);
    return out;
}

// Compares what the device wrote with the reference's routing.
static void routing_compare(struct trial *t, const struct routing *got, const struct routing *want)
{
    size_t pairs = (size_t)want->token_count * want->chosen;
    uint32_t *host = trial_heap(t, pairs * 4 + (want->experts + 1) * 4);
    trial_fetch(t, host, got->id, pairs * 4);
    trial_true(t, "route: ids", memcmp(host, want->id, pairs * 4) == 0);
    trial_fetch(t, host, got->order, pairs * 4);
    trial_true(t, "route: order", memcmp(host, want->order, pairs * 4) == 0);
    trial_fetch(t, host, got->place, pairs * 4);
    trial_true(t, "route: places", memcmp(host, want->place, pairs * 4) == 0);
    trial_fetch(t, host, got->offset, (want->experts + 1) * 4);
    trial_true(t, "route: offsets",
               memcmp(host, want->offset, (want->experts + 1) * sizeof *host) == 0);
    float *weights = trial_fetch_floats(t, got->weight, pairs, DTYPE_F32);
    trial_close_to(t, "route: weights", weights, want->weight, pairs, 2e-6);
}

// Fills the logits of a token: multiples of 1/8 in random order, so that no two values lie within a
// device's rounding error; with ties some are equal.
static void logits_fill(struct trial *t, float *logits, uint32_t experts, bool ties)
{
    for (uint32_t e = 0; e < experts; e++)
        logits[e] = (float)(ties ? e / 3 : e) * (10.0f / (float)experts) - 4;
    for (uint32_t e = experts - 1; e > 0; e--) {
        uint32_t other = trial_below(t, e + 1);
        float swapped = logits[e];
        logits[e] = logits[other];
        logits[other] = swapped;
    }
}

static void route_case(struct trial *t, uint64_t seed)
{
    static const uint32_t experts[] = {4, 8, 16, 64, 60, 128, 256, 384, 512};
    static const uint32_t tokens[] = {1, 2, 7, 33, 130};
    trial_begin(t, seed);
    uint32_t count = tokens[trial_below(t, 5)], all = experts[trial_below(t, 9)];
    uint32_t chosen = trial_range(t, 1, all < 10 ? all : 10);
    struct route_args args = {.score = (enum route_score)(seed % 3),
                              .out = routing_make(t, count, all, chosen),
                              .renormalise = trial_below(t, 2),
                              .factor = trial_below(t, 2) ? 1.0f : 2.5f};
    bool corrected = trial_below(t, 2), grouped = seed % 4 == 1, same = seed % 5 == 0;
    if (grouped) {
        args.groups = all % 8 == 0 && all > 8 ? 8 : 2;
        uint32_t each = all / args.groups, least = (chosen + each - 1) / each;
        args.groups_kept = trial_range(t, least, args.groups);
        args.group_top = each > 1 ? 1 + trial_below(t, 2) : 1;
    }
    float *logits = trial_heap(t, (size_t)count * all * sizeof *logits);
    for (uint32_t i = 0; i < count; i++)
        if (same && i > 0) // all tokens choose the same experts
            memcpy(logits + (size_t)i * all, logits, all * sizeof *logits);
        else
            logits_fill(t, logits + (size_t)i * all, all, !corrected && !grouped && seed % 2);
    struct weight_shape vector = vector_of(all);
    struct trial_weight correction = trial_weight_make(t, &vector, 0.2f, 0);
    args.logits = logits;
    args.correction = corrected ? &correction.reference : NULL;
    reference_route(&args);
    struct route_args device = args;
    struct routing empty = routing_make(t, count, all, chosen);
    device.out = routing_put(t, &empty);
    device.logits = trial_put(t, logits, (size_t)count * all * sizeof *logits);
    device.correction = corrected ? &correction.device : NULL;
    trial_true(t, "route runs", t->api->ops->route(t->stream, &device) == STATUS_OK);
    routing_compare(t, &device.out, &args.out);
    device.out.chosen = all + 1;
    trial_true(t, "route refuses more choices than experts",
               t->api->ops->route(t->stream, &device) == STATUS_INVALID);
}

// Logits that are not finite: each token still gets different ids, and other tokens are unchanged.
static void route_not_finite(struct trial *t)
{
    enum { TOKENS = 3, EXPERTS = 8, CHOSEN = 3 };
    trial_begin(t, 9990);
    float *logits = trial_floats(t, (size_t)TOKENS * EXPERTS, DTYPE_F32, 1);
    struct route_args args = {
        .logits = logits, .out = routing_make(t, TOKENS, EXPERTS, CHOSEN), .factor = 1};
    reference_route(&args);
    uint32_t want[CHOSEN], got[TOKENS * CHOSEN];
    memcpy(want, args.out.id + CHOSEN, sizeof want);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        logits[e] = NAN;
        logits[2 * EXPERTS + e] = e % 2 ? INFINITY : NAN;
    }
    args.out = routing_put(t, &args.out);
    args.logits = trial_put(t, logits, TOKENS * EXPERTS * sizeof *logits);
    trial_true(t, "route runs", t->api->ops->route(t->stream, &args) == STATUS_OK);
    trial_fetch(t, got, args.out.id, sizeof got);
    for (uint32_t i = 0; i < TOKENS * CHOSEN; i++)
        trial_true(t, "route: ids rise",
                   got[i] < EXPERTS && (i % CHOSEN == 0 || got[i] > got[i - 1]));
    trial_true(t, "route: a neighbour is unchanged", memcmp(got + CHOSEN, want, sizeof want) == 0);
}

void try_route(struct trial *t, enum dtype act)
{
    if (!t->facts.experts || act != t->facts.activation[DTYPE_BF16]) // has no activations
        return;
    for (uint64_t i = 0; i < cases_of(t, 48, 24); i++)
        route_case(t, 11000 + i);
    route_not_finite(t);
}

// Makes a random routing by the reference. all_same: every token chooses the same experts.
static struct routing routing_random(struct trial *t, uint32_t tokens, uint32_t experts,
                                     uint32_t chosen, bool all_same)
{
    float *logits = trial_floats(t, (size_t)tokens * experts, DTYPE_F32, 1);
    for (uint32_t i = 1; all_same && i < tokens; i++)
        memcpy(logits + (size_t)i * experts, logits, experts * sizeof *logits);
    struct route_args args = {.score = ROUTE_SOFTMAX_CHOSEN,
                              .logits = logits,
                              .out = routing_make(t, tokens, experts, chosen),
                              .factor = 1};
    reference_route(&args);
    return args.out;
}

// A case of gemm_experts: its counts, and its input on the heap and on the device.
struct experts_case {
    struct gemm_experts_args args;
    struct routing host, device;
    float *x, *want;
    size_t size; // elements of y
    uint32_t n, held;
};

// Makes routing, input and bias for a stack whose shape is set except for n.
static struct experts_case case_make(struct trial *t, uint64_t seed, uint32_t n, uint32_t k,
                                     enum dtype act)
{
    static const uint32_t tokens[] = {1, 3, 16, 40, 130};
    uint32_t experts = trial_range(t, 2, 9), count = tokens[trial_below(t, 5)];
    uint32_t chosen = trial_range(t, 1, experts < 4 ? experts : 4);
    struct experts_case c = {.n = n, .held = experts};
    c.host = routing_random(t, count, experts, chosen, seed % 4 == 0);
    c.device = routing_put(t, &c.host);
    c.args.act = act;
    c.args.sorted = seed % 2;
    c.args.x_stride = k + 8 * trial_below(t, 2);
    c.args.y_stride = n + 8 * trial_below(t, 2);
    if (seed % 3 == 0 && experts > 2) { // a rank: the experts after the first, and not the last
        c.args.first = 1;
        c.held = experts - 2;
    }
    size_t rows = c.args.sorted ? (size_t)count * chosen : count;
    c.x = trial_floats(t, rows * c.args.x_stride, act, 1);
    c.size = (size_t)count * chosen * c.args.y_stride;
    c.want = trial_heap(t, c.size * sizeof *c.want);
    return c;
}

// Runs the op and compares it with the reference.
static void case_run(struct trial *t, struct experts_case *c, const struct weight *weight,
                     const struct weight *bias, reference_product *product, uint32_t depth,
                     const struct weight *reference, const struct weight *reference_bias,
                     double bound)
{
    size_t rows =
        c->args.sorted ? (size_t)c->host.token_count * c->host.chosen : c->host.token_count;
    c->args.routing = c->host;
    c->args.x = c->x;
    c->args.y = c->want;
    c->args.weight = reference;
    c->args.bias = reference_bias;
    reference_gemm_experts_by(&c->args, product, depth);
    c->args.routing = c->device;
    c->args.x = trial_put_floats(t, c->x, rows * c->args.x_stride, c->args.act);
    c->args.y = trial_device(t, c->size * dtype_bytes(c->args.act));
    c->args.weight = weight;
    c->args.bias = bias;
    trial_true(t, "gemm_experts runs", t->api->ops->gemm_experts(t->stream, &c->args) == STATUS_OK);
    float *got = trial_fetch_floats(t, c->args.y, c->size, c->args.act);
    trial_close_to(t, "gemm_experts", got, c->want, c->size, bound); // rows not held stay zero
}

static double floats_bound(const struct trial *t, enum dtype dtype, enum dtype act)
{
    bool rounds = t->level == CPU_AVX512BF16 || t->level == CPU_AMX;
    return act != DTYPE_F32                ? trial_bound(act)
           : dtype == DTYPE_I8             ? 1e-5
           : dtype == DTYPE_BF16 && rounds ? 4e-3
                                           : 4e-6;
}

static void floats_case(struct trial *t, enum dtype dtype, enum dtype act, uint64_t seed)
{
    static const uint32_t ks[] = {8, 64, 104, 512, 776};
    static const uint32_t ns[] = {32, 64, 96, 320};
    trial_begin(t, seed);
    uint32_t n = ns[trial_below(t, 4)], k = ks[trial_below(t, 5)];
    struct experts_case c = case_make(t, seed, n, k, act);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = dtype, .k = k};
    shape.n = n * c.held;
    shape.stack = c.held;
    struct trial_weight w = trial_weight_make(t, &shape, 0.05f, 0);
    struct weight_shape vector = vector_of(shape.n);
    struct trial_weight bias = trial_weight_make(t, &vector, 0.5f, 0);
    bool biased = trial_below(t, 2), rotated = w.rotated.data != NULL;
    case_run(t, &c, &w.device, biased ? &bias.device : NULL,
             rotated ? reference_gemm_i8 : reference_gemm, rotated ? byte_depth(k) : k,
             rotated ? &w.rotated : &w.reference, biased ? &bias.reference : NULL,
             floats_bound(t, dtype, act));
}

// A stack of FP8 codes, with a scale for each row or for blocks.
static void fp8_case(struct trial *t, enum dtype act, uint64_t seed)
{
    trial_begin(t, seed);
    uint32_t n = 32 * trial_range(t, 1, 5), k = 128 * trial_range(t, 1, 6);
    struct experts_case c = case_make(t, seed, n, k, act);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .k = k, .part_count = 1};
    shape.parts[0] = (struct weight_codes){seed % 2 ? WEIGHT_FP8 : WEIGHT_FP8_128, n};
    shape.n = n * c.held;
    shape.stack = c.held;
    struct trial_weight w = trial_fp8_make(t, &shape, FP8_CODES);
    struct weight_shape vector = vector_of(shape.n);
    struct trial_weight bias = trial_weight_make(t, &vector, 0.5f, 0);
    bool biased = trial_below(t, 2);
    case_run(t, &c, &w.device, biased ? &bias.device : NULL, reference_gemm, k, &w.reference,
             biased ? &bias.reference : NULL, trial_bound(act));
}

// A stack held as codes: parts of random formats, which repeat for each expert.
static void codes_case(struct trial *t, enum dtype act, uint64_t seed)
{
    trial_begin(t, seed);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .part_count = 1 + trial_below(t, 2)};
    uint32_t unit = 32, n = 0; // unit: elements of the longest block
    for (uint32_t i = 0; i < shape.part_count; i++) {
        struct weight_codes *part = &shape.parts[i];
        part->format = codes_format(t);
        part->rows = shape.part_count == 2 ? 16 * trial_range(t, 1, 4) : 64;
        if (i == 1)
            part->rows += (n + part->rows) & 16; // n is a multiple of 32
        n += part->rows;
        uint32_t elements = weight_format_facts(part->format)->elements;
        unit = elements > unit ? elements : unit;
    }
    shape.k = unit * trial_range(t, 1, 512 / unit);
    struct experts_case c = case_make(t, seed, n, shape.k, act);
    shape.n = n * c.held;
    shape.stack = c.held;
    struct trial_codes w = trial_codes_make(t, &shape, false);
    struct weight_shape vector = vector_of(shape.n);
    struct trial_weight bias = trial_weight_make(t, &vector, 0.5f, 0);
    bool biased = trial_below(t, 2), storage = codes_are_storage(t);
    if (storage)
        (void)codes_floats(t, &w, act); // rounds the reference's elements
    case_run(t, &c, &w.device, biased ? &bias.device : NULL,
             storage ? reference_gemm : reference_gemm_codes, shape.k, &w.reference,
             biased ? &bias.reference : NULL, storage ? trial_bound(act) : 1e-5);
}

// Loads rows of the random tensor of a seed, from element `first` on, as a weight.
static struct weight random_weight(struct trial *t, const struct weight_shape *shape, uint64_t seed,
                                   uint64_t first)
{
    struct weight out = {.shape = *shape, .bytes = t->api->weight_bytes(t->device, shape)};
    struct weight_source source = {.fd = -1,
                                   .dtype = DTYPE_F32,
                                   .rows = shape->use == WEIGHT_VECTOR ? 1 : shape->n,
                                   .cols = shape->use == WEIGHT_VECTOR ? shape->n : shape->k,
                                   .seed = seed,
                                   .deviation = 0.1f,
                                   .first = first};
    uint32_t matrices = weight_stack(shape), row = 0;
    struct error err = {0};
    out.data = trial_device(t, out.bytes);
    source.rows /= matrices;
    for (uint32_t i = 0; i < matrices; i++, row += source.rows) { // one source in each part
        check(t->api->weight_put(t->device, &out, row, &source, &err) == STATUS_OK, "%s", err.text);
        source.first += (uint64_t)source.rows * source.cols;
    }
    check(t->api->weight_finish(t->device, &out, &err) == STATUS_OK, "%s", err.text);
    return out;
}

// Every row must have the bits of a product of that row alone with the matrix of its expert,
// whatever the batch. format: WEIGHT_FLOATS, or one to which floats can be rounded.
static void alone_case(struct trial *t, enum dtype dtype, enum weight_format format, enum dtype act,
                       uint64_t seed)
{
    trial_begin(t, seed);
    uint32_t n = 32 * trial_range(t, 1, 3), k = 32 * trial_range(t, 1, 30);
    struct experts_case c = case_make(t, seed, n, k, act);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = dtype, .n = n, .k = k};
    struct weight_shape vector = vector_of(n), biases = vector_of(n * c.held);
    if (format != WEIGHT_FLOATS) {
        shape.part_count = 1;
        shape.parts[0] = (struct weight_codes){format, n};
    }
    struct weight_shape all = shape;
    all.n = n * c.held;
    all.stack = c.held;
    struct weight stack = random_weight(t, &all, seed, 0), matrix[16], vectors[16];
    struct weight bias = random_weight(t, &biases, seed + 1, 0);
    for (uint32_t e = 0; e < c.held; e++) {
        matrix[e] = random_weight(t, &shape, seed, (uint64_t)e * n * k);
        vectors[e] = random_weight(t, &vector, seed + 1, (uint64_t)e * n);
    }
    uint32_t pairs = c.host.token_count * c.host.chosen, step = pairs > 40 ? 7 : 1;
    const uint32_t *offset = c.host.offset + c.args.first;
    size_t rows = c.args.sorted ? pairs : c.host.token_count, each = dtype_bytes(act);
    c.args.routing = c.device;
    c.args.x = trial_put_floats(t, c.x, rows * c.args.x_stride, act);
    c.args.y = trial_device(t, c.size * each);
    c.args.weight = &stack;
    c.args.bias = &bias;
    trial_true(t, "gemm_experts runs", t->api->ops->gemm_experts(t->stream, &c.args) == STATUS_OK);
    char *want = trial_device(t, c.size * each);
    for (uint32_t e = 0; e < c.held; e++)
        for (uint32_t i = offset[e]; i < offset[e + 1]; i += step) {
            uint32_t row = c.args.sorted ? i : c.host.order[i] / c.host.chosen;
            struct gemm_args args = {act,
                                     act,
                                     (const char *)c.args.x + row * c.args.x_stride * each,
                                     &matrix[e],
                                     &vectors[e],
                                     want + i * c.args.y_stride * each,
                                     1,
                                     c.args.x_stride,
                                     c.args.y_stride};
            trial_true(t, "gemm runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
        }
    float *got = trial_fetch_floats(t, c.args.y, c.size, act);
    float *alone = trial_fetch_floats(t, want, c.size, act);
    bool equal = true;
    for (uint32_t e = 0; e < c.held; e++)
        for (uint32_t i = offset[e]; i < offset[e + 1]; i += step) {
            size_t at = (size_t)i * c.args.y_stride;
            equal = equal && memcmp(got + at, alone + at, n * sizeof *got) == 0;
        }
    trial_true(t, "gemm_experts has the bits of a product alone", equal || !t->facts.exact);
}

// All tokens choose one expert of four: a device that holds all, one that holds only another expert
// and writes nothing, and a step without tokens.
static void one_expert_case(struct trial *t, enum dtype dtype, enum dtype act)
{
    enum { TOKENS = 140, EXPERTS = 4, N = 32, K = 96 };
    trial_begin(t, 12990);
    struct experts_case c = {.n = N, .held = EXPERTS, .size = (size_t)TOKENS * N};
    c.host = routing_random(t, TOKENS, EXPERTS, 1, true);
    c.device = routing_put(t, &c.host);
    c.args.act = act;
    c.args.x_stride = K;
    c.args.y_stride = N;
    c.x = trial_floats(t, (size_t)TOKENS * K, act, 1);
    c.want = trial_heap(t, c.size * sizeof *c.want);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = dtype, .n = N * EXPERTS, .k = K};
    shape.stack = EXPERTS;
    struct trial_weight w = trial_weight_make(t, &shape, 0.05f, 0);
    bool rotated = w.rotated.data != NULL;
    case_run(t, &c, &w.device, NULL, rotated ? reference_gemm_i8 : reference_gemm,
             rotated ? byte_depth(K) : K, rotated ? &w.rotated : &w.reference, NULL,
             floats_bound(t, dtype, act));
    shape.n = N;
    shape.stack = 1;
    struct trial_weight other = trial_weight_make(t, &shape, 0.05f, 0);
    c.args.weight = &other.device;
    c.args.first = (c.host.id[0] + 1) % EXPERTS;
    c.args.y = trial_device(t, c.size * dtype_bytes(act));
    trial_true(t, "gemm_experts runs", t->api->ops->gemm_experts(t->stream, &c.args) == STATUS_OK);
    float *got = trial_fetch_floats(t, c.args.y, c.size, act);
    for (size_t i = 0; i < c.size; i++)
        trial_true(t, "gemm_experts: no rows, nothing is written", got[i] == 0);
    c.args.routing.token_count = 0;
    trial_true(t, "gemm_experts runs without tokens",
               t->api->ops->gemm_experts(t->stream, &c.args) == STATUS_OK);
}

void try_gemm_experts(struct trial *t, enum dtype act)
{
    if (!t->facts.experts)
        return;
    bool codes = codes_tried(t, act), half = act == DTYPE_BF16 || act == DTYPE_F16;
    for (uint64_t i = 0; codes && i < trial_cases(act == DTYPE_F16 ? 4 : 32); i++)
        codes_case(t, act, 12900 + i);
    for (uint64_t i = 0; codes && i < trial_cases(8); i++) {
        bool q8 = i % 2 == 0 && t->facts.codes >> WEIGHT_Q8_0 & 1;
        alone_case(t, DTYPE_BF16, q8 ? WEIGHT_Q8_0 : WEIGHT_Q4_1, act, 12800 + i);
    }
    for (uint64_t i = 0; t->facts.e4m3 && half && i < cases_of(t, 8, 2); i++)
        fp8_case(t, act, 12950 + i);
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (t->facts.activation[d] != act)
            continue;
        for (uint64_t i = 0; i < cases_of(t, 16, 8); i++)
            floats_case(t, (enum dtype)d, act, 12000 + 100 * (uint64_t)d + i);
        for (uint64_t i = 0; i < cases_of(t, 8, 4); i++)
            alone_case(t, (enum dtype)d, WEIGHT_FLOATS, act, 12500 + 50 * (uint64_t)d + i);
        one_expert_case(t, (enum dtype)d, act);
    }
}

static void combine_case(struct trial *t, enum dtype act, uint64_t seed)
{
    static const uint32_t widths[] = {8, 64, 200, 1024};
    trial_begin(t, seed);
    uint32_t count = trial_range(t, 1, 40), experts = trial_range(t, 2, 64);
    uint32_t chosen = trial_range(t, 1, experts < 8 ? experts : 8), width = widths[seed % 4];
    struct routing host = routing_random(t, count, experts, chosen, seed % 3 == 0);
    size_t pairs = (size_t)count * chosen, size = (size_t)count * width;
    enum dtype type = seed % 5 < 2 ? DTYPE_F32 : act;
    float *y = trial_floats(t, pairs * width, act, 1), *shared = trial_floats(t, size, type, 1);
    float *gate = trial_floats(t, count, DTYPE_F32, 2), *want = trial_heap(t, size * sizeof *want);
    bool has_shared = trial_below(t, 2), gated = has_shared && trial_below(t, 2);
    struct combine_args args = {.act = DTYPE_F32,
                                .out_dtype = DTYPE_F32,
                                .routing = host,
                                .y = y,
                                .shared = has_shared ? shared : NULL,
                                .gate = gated ? gate : NULL,
                                .out = want,
                                .width = width,
                                .held = experts};
    if (trial_below(t, 2)) { // a rank
        args.first = trial_below(t, experts);
        args.held = trial_range(t, 0, experts - args.first);
    }
    reference_combine(&args);
    args.act = act;
    args.out_dtype = type;
    args.routing = routing_put(t, &host);
    args.y = trial_put_floats(t, y, pairs * width, act);
    void *device_shared = trial_put_floats(t, shared, size, type);
    args.shared = has_shared ? device_shared : NULL;
    args.gate = gated ? trial_put_floats(t, gate, count, DTYPE_F32) : NULL;
    args.out = seed % 2 ? device_shared : trial_device(t, size * dtype_bytes(type));
    trial_true(t, "combine runs", t->api->ops->combine(t->stream, &args) == STATUS_OK);
    trial_close_to(t, "combine", trial_fetch_floats(t, args.out, size, type), want, size,
                   trial_bound(type));
}

void try_combine(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; t->facts.experts && i < cases_of(t, 24, 10); i++)
        combine_case(t, act, 13000 + i);
}
