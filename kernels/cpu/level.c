// SPDX-License-Identifier: Apache-2.0
// Chooses the ISA level at startup: the best level that the processor has and whose products and
// attention agree with sums in double, so that a faulty or forbidden instruction only costs speed.
// Runs once, on the thread that opens the device, before the device's threads start, because they
// inherit the kernel's permission for AMX.
#include "kernels/cpu/internal.h"

#include <cpuid.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

// Jump target of this thread for a faulting instruction. Only one thread may run trials at a time,
// because signal handlers belong to the process.
static _Thread_local sigjmp_buf *fault_return;

static void fault_handler(int number)
{
    if (fault_return)
        siglongjmp(*fault_return, number);
    signal(number, SIG_DFL);
    raise(number);
}

const char *cpu_isa_name(enum cpu_isa level)
{
    static const char *const names[CPU_ISA_COUNT] = {"plain C", "AVX2", "AVX-512", "AVX-512 BF16",
                                                     "AMX"};
    return (unsigned)level < CPU_ISA_COUNT ? names[level] : "none";
}

struct cpu_kernels cpu_isa_kernels(enum cpu_isa level)
{
    switch (level) {
    case CPU_AMX:
        return cpu_kernels_amx();
    case CPU_AVX512BF16:
        return cpu_kernels_avx512bf16();
    case CPU_AVX512:
        return cpu_kernels_avx512();
    case CPU_AVX2:
        return cpu_kernels_avx2();
    default:
        return cpu_kernels_plain();
    }
}

enum { AVX512_FP16_BIT = 23 };

// Returns true on Intel cores with AMX (recognised by AVX512-FP16), which run bf16 pairs at half
// the rate of float32 lanes. If their tiles are switched off, AVX-512 is the better ISA level.
static bool pairs_slow(void)
{
    uint32_t a, b, c, d = 0;
    return __builtin_cpu_is("intel") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           (d >> AVX512_FP16_BIT & 1) != 0;
}

enum { TRY_ROWS = 19, TRY_N = 40, TRY_K = 544 };

// Row counts that are tried: more than a full tile, and two smaller counts.
static const uint32_t try_rows[] = {TRY_ROWS, 7, 1};

struct trial {
    struct device device;
    struct weight weight;
    struct product product;
    float x[TRY_ROWS * TRY_K];
    float w[TRY_N * TRY_K];
    float y[TRY_ROWS * TRY_N];
    double sum[TRY_ROWS * TRY_N];       // expected y
    float expected[TRY_ROWS * TRY_N];   // codes: y of the plain kernels
    uint8_t blocks[24 * 512 * 34 / 32]; // weights in a file's form
};

static float trial_value(uint32_t i)
{
    return (float)((int32_t)(i * 2654435761u >> 24) - 128) / 128.0f;
}

// Returns true if the product of the first rows agrees with sums in double.
static bool trial_rows(struct trial *t, uint32_t rows)
{
    struct product *p = &t->product;
    p->rows = rows;
    memset(t->y, 0, sizeof t->y);
    for (uint32_t tile = 0; tile * 16 < rows; tile++)
        t->device.kernels.pack(p, tile);
    for (uint32_t slab = 0; slab * SLAB_COLUMNS < TRY_N; slab++)
        t->device.kernels.product(p, slab, slab + 1, 0);
    double bound = p->dtype == DTYPE_F32 ? 1e-3 : p->dtype == DTYPE_I8 ? 4.0 : 1.0;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t n = 0; n < TRY_N; n++)
            if (!(fabs(t->sum[r * TRY_N + n] - (double)t->y[r * TRY_N + n]) <= bound))
                return false;
    return true;
}

// Returns true if products with weights of the dtype are right for all tried row counts.
static bool trial_product(struct trial *t, enum dtype dtype)
{
    struct product *p = &t->product;
    const struct weight_shape *shape = &t->weight.shape;
    t->weight.shape =
        (struct weight_shape){.use = WEIGHT_PRODUCT, .dtype = dtype, .n = TRY_N, .k = TRY_K};
    memset(t->weight.data, 0, t->weight.bytes);
    struct weight_source source = {
        .map = t->w, .fd = -1, .dtype = DTYPE_F32, .rows = TRY_N, .cols = TRY_K};
    if (cpu_weight_put(&t->device, &t->weight, 0, &source, NULL) != STATUS_OK)
        return false;
    p->dtype = dtype;
    p->weight = t->weight.data;
    p->scale = NULL;
    if (dtype == DTYPE_I8)
        p->scale = (const float *)(const void *)((char *)t->weight.data + packed_bytes(shape));
    for (uint32_t i = 0; i < sizeof try_rows / sizeof *try_rows; i++)
        if (!trial_rows(t, try_rows[i]))
            return false;
    return true;
}

// Fills `rows` rows of k elements with blocks of a format, or with int4 arrays if the format has no
// blocks; scales are small numbers.
static void trial_blocks(struct trial *t, struct weight_int4 *int4, enum weight_format format)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    uint32_t elements = int4->n * int4->k, each = f->bytes > 0 ? f->bytes : 2;
    uint32_t first = f->bytes > 0 ? 0 : elements / 2; // the codes of int4 precede the scales
    uint32_t end = first + elements / f->elements * each;
    for (uint32_t i = 0; i < sizeof t->blocks; i++)
        t->blocks[i] = (uint8_t)((i + 1) * 2654435761u >> 24);
    for (uint32_t at = first; at < end; at += each) {
        uint8_t *scale = t->blocks + at + (format == WEIGHT_Q6_K ? 208 : 0);
        if (f->e2m1) {
            scale[0] = 0x78 | (scale[0] & 7); // 2^-7 to 1
            continue;
        }
        for (uint32_t i = 0; i < (f->least && !f->zeros ? 2u : 1u); i++)
            scale[2 * i + 1] = 0x20 | (scale[2 * i + 1] & 3); // f16 below 2^-5
    }
    int4->codes = t->blocks;
    int4->scales = t->blocks + first;
    int4->zeros = f->zeros ? t->blocks + end : NULL;
    int4->group = f->elements;
}

// Returns true if products with codes of the format have the bits of the plain kernels.
static bool trial_codes(struct trial *t, enum weight_format format)
{
    enum { K = 512, N = 24 };
    struct cpu_kernels plain = cpu_kernels_plain();
    struct product p = t->product;
    struct weight_source source = {
        .map = t->blocks, .fd = -1, .rows = N, .cols = K, .format = format};
    t->weight.shape = (struct weight_shape){
        .use = WEIGHT_PRODUCT, .n = N, .k = K, .part_count = 1, .parts = {{format, N}}};
    struct weight_int4 int4 = {.scale_dtype = DTYPE_F16, .n = N, .k = K};
    memset(t->weight.data, 0, t->weight.bytes);
    trial_blocks(t, &int4, format);
    source.int4 = weight_format_facts(format)->bytes == 0 ? &int4 : NULL;
    if (cpu_weight_put(&t->device, &t->weight, 0, &source, NULL) != STATUS_OK)
        return false;
    p.n = N;
    p.k = K;
    p.format = format;
    p.weight = t->weight.data;
    for (uint32_t i = 0; i < sizeof try_rows / sizeof *try_rows; i++) {
        p.rows = try_rows[i];
        for (int level = 0; level < 2; level++) {
            const struct cpu_kernels *kernels = level == 0 ? &plain : &t->device.kernels;
            p.y = level == 0 ? t->expected : t->y;
            for (uint32_t tile = 0; tile * 16 < p.rows; tile++)
                kernels->codes_pack(&p, tile);
            kernels->codes(&p, 0, 1, 0);
        }
        for (uint32_t r = 0; r < p.rows; r++)
            if (memcmp(t->expected + r * TRY_N, t->y + r * TRY_N, N * sizeof(float)) != 0)
                return false;
    }
    return true;
}

enum { TRY_TOKENS = 20, TRY_HEADS = 2, TRY_DIM = 16, TRY_WIDTH = (TRY_HEADS + 2) * TRY_DIM };

// Returns the first output element of a query, computed in double. qkv is the trial's x.
static double attn_expected(const struct trial *t, uint32_t token, uint32_t head)
{
    const float *q = t->x + token * TRY_WIDTH + head * TRY_DIM;
    double mass = 0, out = 0;
    for (uint32_t j = 0; j <= token; j++) {
        const float *k = t->x + j * TRY_WIDTH + TRY_HEADS * TRY_DIM;
        double score = 0;
        for (uint32_t d = 0; d < TRY_DIM; d++)
            score += (double)q[d] * (double)k[d];
        double weight = exp(score * 0.25);
        mass += weight;
        out += weight * (double)k[TRY_DIM];
    }
    return out / mass;
}

// Returns true if attention of queries [first, end) of one ragged row of 20 tokens is right. Keys
// and values may be rounded to bf16, so that pair and tile instructions are tried.
static bool trial_attn(struct trial *t, uint32_t first, uint32_t end)
{
    struct attn_args args = {
        .act = DTYPE_F32,
        .kv = DTYPE_BF16,
        .qkv = t->x,
        .out = t->y,
        .row_count = 1,
        .shape = {.heads = TRY_HEADS, .kv_heads = 1, .dim = TRY_DIM, .scale = 0.25f, .causal = 1},
        .token_count = TRY_TOKENS,
    };
    struct step_row row = {.q_len = TRY_TOKENS, .kv_len = TRY_TOKENS};
    struct attn_job job = {.args = &args,
                           .row = &row,
                           .first = first,
                           .end = end,
                           .key_end = TRY_TOKENS,
                           .scratch = t->weight.data};
    memset(t->y, 0, sizeof t->y);
    t->device.kernels.attn(&job);
    for (uint32_t i = first; i < end; i++) {
        double want = attn_expected(t, i / TRY_HEADS, i % TRY_HEADS);
        if (!(fabs(want - (double)t->y[i * TRY_DIM]) <= 0.03))
            return false;
    }
    return true;
}

static bool trial_all(struct trial *t, enum cpu_isa level)
{
    t->device.kernels = cpu_isa_kernels(level);
    if (!trial_attn(t, 0, TRY_TOKENS * TRY_HEADS) ||
        !trial_attn(t, (TRY_TOKENS - 2) * TRY_HEADS, TRY_TOKENS * TRY_HEADS))
        return false;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (!trial_product(t, (enum dtype)dtype))
            return false;
    for (int format = WEIGHT_FLOATS + 1; format < WEIGHT_FORMAT_CODES; format++)
        if (!trial_codes(t, (enum weight_format)format))
            return false;
    return true;
}

// Returns true if the level's products and attention are right. Catches faulting instructions.
static bool level_verify(struct trial *t, enum cpu_isa level)
{
    struct sigaction old_ill, old_segv;
    struct sigaction action = {.sa_handler = fault_handler};
    sigjmp_buf back;
    volatile bool right = false;
    sigaction(SIGILL, &action, &old_ill);
    sigaction(SIGSEGV, &action, &old_segv); // raised by a tile instruction without permission
    fault_return = &back;
    if (sigsetjmp(back, 1) == 0)
        right = trial_all(t, level);
    fault_return = NULL;
    sigaction(SIGILL, &old_ill, NULL);
    sigaction(SIGSEGV, &old_segv, NULL);
    return right;
}

enum cpu_isa cpu_isa_find(enum cpu_isa highest)
{
    enum cpu_isa level = highest < CPU_ISA_COUNT ? highest : CPU_AMX;
    size_t weight_bytes = 64 * 1024 * sizeof(float);
    size_t scratch = PANEL_ROWS * SLAB_COLUMNS * sizeof(float);
    struct trial *t = aligned_alloc(64, (sizeof *t + 63) & ~(size_t)63);
    char *memory = aligned_alloc(256, weight_bytes + 2 * scratch);
    struct threads *threads = NULL;
    if (!t || !memory || threads_open(&threads, 1, NULL) != STATUS_OK) {
        free(t);
        free(memory);
        return CPU_PLAIN;
    }
    memset(t, 0, sizeof *t);
    t->device.threads = threads;
    t->weight = (struct weight){.data = memory, .bytes = weight_bytes};
    t->product = (struct product){
        .x = t->x,
        .y = t->y,
        .rows = TRY_ROWS,
        .x_stride = TRY_K,
        .y_stride = TRY_N,
        .n = TRY_N,
        .k = TRY_K,
        .panel = memory + weight_bytes,
        .scratch = (float *)(void *)(memory + weight_bytes + scratch),
    };
    for (uint32_t i = 0; i < TRY_ROWS * TRY_K; i++)
        t->x[i] = trial_value(i);
    for (uint32_t i = 0; i < TRY_N * TRY_K; i++)
        t->w[i] = trial_value(i + 77777);
    for (uint32_t i = 0; i < TRY_ROWS * TRY_N; i++)
        for (uint32_t k = 0; k < TRY_K; k++)
            t->sum[i] += (double)t->x[i / TRY_N * TRY_K + k] * (double)t->w[i % TRY_N * TRY_K + k];
    bool free_choice = highest >= CPU_ISA_COUNT;
    while (level > CPU_PLAIN &&
           (!cpu_isa_reported(level) || (free_choice && level == CPU_AVX512BF16 && pairs_slow()) ||
            !level_verify(t, level)))
        level--;
    threads_close(threads);
    free(memory);
    free(t);
    return level;
}
