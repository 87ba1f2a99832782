// Chooses the level of instructions at start: what the processor has, tried with real products
// against plain C, so that a wrong or forbidden instruction costs speed and not answers. Runs once
// on the thread that opens the device, before the pool's threads exist (AMX needs the kernel's
// permission first, which threads inherit).
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM_CODE = 0x1023, XFEATURE_TILE_DATA = 18 };

// The jump out of a fault. Only the trying thread can fault here, one thread at a time.
static _Thread_local sigjmp_buf *fault_return;

static void fault_handler(int number)
{
    if (fault_return != NULL)
        siglongjmp(*fault_return, number);
    signal(number, SIG_DFL);
    raise(number);
}

const char *cpu_level_name(enum cpu_level level)
{
    static const char *const names[CPU_LEVELS] = {"plain C", "AVX2", "AVX-512", "AMX"};
    return (unsigned)level < CPU_LEVELS ? names[level] : "none";
}

struct cpu_kernels cpu_level_kernels(enum cpu_level level)
{
    switch (level) {
    case CPU_AMX:
        return cpu_kernels_amx();
    case CPU_AVX512:
        return cpu_kernels_avx512();
    case CPU_AVX2:
        return cpu_kernels_avx2();
    default:
        return cpu_kernels_plain();
    }
}

static bool amx_allowed(void)
{
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM_CODE, XFEATURE_TILE_DATA) == 0;
}

static bool amx_named(void)
{
    uint32_t a, b, c, d;
    if (!__builtin_cpu_supports("avx512bf16"))
        return false;
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    return (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0 && (d >> 25 & 1) != 0;
}

static bool f16c_named(void) // clang's __builtin_cpu_supports does not know the name
{
    uint32_t a, b, c, d;
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(1), "c"(0));
    return (c >> 29 & 1) != 0;
}

static bool level_named(enum cpu_level level)
{
    __builtin_cpu_init();
    switch (level) {
    case CPU_AMX:
        return level_named(CPU_AVX512) && amx_named() && amx_allowed();
    case CPU_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni") && level_named(CPU_AVX2);
    case CPU_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               f16c_named();
    default:
        return true;
    }
}

enum { TRY_ROWS = 19, TRY_N = 40, TRY_K = 544 };

struct trial {
    struct device device;
    struct weight weight;
    struct product product;
    float x[TRY_ROWS * TRY_K];
    float w[TRY_N * TRY_K];
    float y[TRY_ROWS * TRY_N];
    float row_scale[32];
};

static float trial_value(uint32_t i)
{
    return (float)((int32_t)(i * 2654435761u >> 24) - 128) / 128.0f;
}

// One product of the dtype against sums in double.
static bool trial_product(struct trial *t, enum dtype dtype)
{
    struct product *p = &t->product;
    const struct weight_shape *shape = &t->weight.shape;
    t->weight.shape = (struct weight_shape){WEIGHT_PRODUCT, dtype, TRY_N, TRY_K};
    memset(t->weight.data, 0, t->weight.bytes);
    struct weight_source source = {t->w, -1, 0, DTYPE_F32, TRY_N, TRY_K, 0, 0};
    if (cpu_weight_put(&t->device, &t->weight, 0, &source, NULL) != STATUS_OK)
        return false;
    p->dtype = dtype;
    p->weight = t->weight.data;
    p->scale = NULL;
    p->sum = NULL;
    if (dtype == DTYPE_I8) {
        p->scale = (const float *)(const void *)((char *)t->weight.data + packed_bytes(shape));
        p->sum = (const int32_t *)(const void *)(p->scale + 64);
    }
    for (uint32_t tile = 0; tile * 16 < TRY_ROWS; tile++)
        t->device.kernels.pack(p, tile);
    for (uint32_t slab = 0; slab * SLAB_COLUMNS < TRY_N; slab++)
        t->device.kernels.product(p, slab, slab + 1, 0);
    double bound = dtype == DTYPE_F32 ? 1e-3 : dtype == DTYPE_I8 ? 4.0 : 1.0;
    for (uint32_t r = 0; r < TRY_ROWS; r++)
        for (uint32_t n = 0; n < TRY_N; n++) {
            double sum = 0;
            for (uint32_t k = 0; k < TRY_K; k++)
                sum += (double)t->x[r * TRY_K + k] * (double)t->w[n * TRY_K + k];
            if (!(fabs(sum - (double)t->y[r * TRY_N + n]) <= bound))
                return false;
        }
    return true;
}

static bool trial_all(struct trial *t, enum cpu_level level)
{
    t->device.kernels = cpu_level_kernels(level);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (!trial_product(t, (enum dtype)dtype))
            return false;
    return true;
}

// Runs the level's products with the faults caught.
static bool level_proves(struct trial *t, enum cpu_level level)
{
    struct sigaction old_ill, old_segv;
    struct sigaction action = {.sa_handler = fault_handler};
    sigjmp_buf back;
    volatile bool right = false;
    sigaction(SIGILL, &action, &old_ill);
    sigaction(SIGSEGV, &action, &old_segv); // what a tile instruction without permission raises
    fault_return = &back;
    if (sigsetjmp(back, 1) == 0)
        right = trial_all(t, level);
    fault_return = NULL;
    sigaction(SIGILL, &old_ill, NULL);
    sigaction(SIGSEGV, &old_segv, NULL);
    return right;
}

enum cpu_level cpu_level_find(enum cpu_level highest)
{
    enum cpu_level level = highest < CPU_LEVELS ? highest : CPU_AMX;
    size_t weight_bytes = 64 * 1024 * sizeof(float);
    size_t scratch = PANEL_ROWS * SLAB_COLUMNS * sizeof(float);
    struct trial *t = aligned_alloc(64, (sizeof *t + 63) & ~(size_t)63);
    char *room = aligned_alloc(256, weight_bytes + 2 * scratch);
    struct pool *pool = NULL;
    if (t == NULL || room == NULL || pool_open(&pool, 1, NULL) != STATUS_OK) {
        free(t);
        free(room);
        return CPU_PLAIN;
    }
    memset(t, 0, sizeof *t);
    t->device.pool = pool;
    t->weight = (struct weight){.data = room, .bytes = weight_bytes};
    t->product = (struct product){
        .x = t->x, .y = t->y, .rows = TRY_ROWS, .x_stride = TRY_K, .y_stride = TRY_N,
        .n = TRY_N, .k = TRY_K, .row_scale = t->row_scale,
        .panel = room + weight_bytes, .scratch = (float *)(void *)(room + weight_bytes + scratch),
    };
    for (uint32_t i = 0; i < TRY_ROWS * TRY_K; i++)
        t->x[i] = trial_value(i);
    for (uint32_t i = 0; i < TRY_N * TRY_K; i++)
        t->w[i] = trial_value(i + 77777);
    while (level > CPU_PLAIN && !(level_named(level) && level_proves(t, level)))
        level--;
    pool_close(pool);
    free(room);
    free(t);
    return level;
}
