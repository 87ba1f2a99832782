// SPDX-License-Identifier: Apache-2.0
// Chooses how a product is computed: by one of cuBLASLt's algorithms or one of weft's kernels. When
// a model starts, the heuristic's candidates and weft's kernels are timed once for each bucket of
// row counts up to the largest step, as a step runs them: several products recorded as a graph,
// rotating over the loaded weights of that shape so that they do not come from the L2 cache. The
// fastest is kept, in memory and in a file (blas_cache.c). Later steps time nothing.
#include "kernels/cuda/blas.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>

enum {
    TUNE_ROWS_MAX = 16384, // more rows than a step has by far; products of more are not timed
    TUNE_RUNS = 8,
    TUNE_LONG_ROWS = 1024, // a product of more rows takes long enough to be timed in few runs
    TUNE_LONG_RUNS = 2,
    TUNE_S = 20, // wall-clock limit per start; products not timed by then get the first choice
    TIMED_SMALL_MAX = 64,  // rows; beyond this the small product reads its weights too often
    TIMED_WIDE_MIN = 16,   // rows; below this most of the wide product's tiles are padding
    TIMED_WIDE_MAX = 1024, // rows; beyond this the library's kernels for Hopper are twice as fast
    CHOICES_MAX = CANDIDATES_MAX + PRODUCT_BY_COUNT - 1,
};

// --- the weights of the device ------------------------------------------------------------------

void blas_weight_known(struct device *device, const struct weight *weight)
{
    const struct weight_shape *shape = &weight->shape;
    if (device->exact || shape->use != WEIGHT_PRODUCT)
        return;
    pthread_mutex_lock(&device->known_lock);
    if (device->known_count < WEIGHTS_KNOWN) {
        struct weight_known *known = &device->known[device->known_count++];
        *known = (struct weight_known){weight->shape, weight->data};
    }
    pthread_mutex_unlock(&device->known_lock);
}

void blas_weight_gone(struct device *device, const void *at, size_t bytes)
{
    uintptr_t first = (uintptr_t)at;
    uintptr_t last = first + (bytes != 0 ? bytes - 1 : 0);
    pthread_mutex_lock(&device->known_lock);
    for (uint32_t i = 0; i < device->known_count; i++) {
        uintptr_t data = (uintptr_t)device->known[i].data;
        if (data >= first && data <= last)
            device->known[i--] = device->known[--device->known_count];
    }
    pthread_mutex_unlock(&device->known_lock);
}

// --- timing -------------------------------------------------------------------------------------

uint32_t blas_bucket(uint32_t rows)
{
    static const uint32_t ends[] = {1,    2,    4,    8,    16,   24,    32,           48,   64,
                                    96,   128,  192,  256,  384,  512,   768,          1024, 1536,
                                    2048, 3072, 4096, 6144, 8192, 12288, TUNE_ROWS_MAX};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (rows <= ends[i])
            return ends[i];
    return (rows + 4095) / 4096 * 4096;
}

static bool shapes_equal(const struct weight_shape *a, const struct weight_shape *b)
{
    return a->n == b->n && a->k == b->k && a->part_count == b->part_count &&
           (a->part_count > 0 ? a->parts[0].format == b->parts[0].format : a->dtype == b->dtype);
}

// Returns the weight for run `run`: rotates over the loaded weights of the same shape, or returns
// the call's weight if none is known.
static struct weight rotated(const struct device *device, const struct weight *weight, uint32_t run)
{
    struct weight out = *weight;
    const struct weight_shape *want = &weight->shape;
    uint32_t same = 0;
    for (uint32_t i = 0; i < device->known_count; i++)
        same += shapes_equal(&device->known[i].shape, want);
    uint32_t nth = same != 0 ? run % same : 0;
    for (uint32_t i = 0; same != 0 && i < device->known_count; i++) {
        if (!shapes_equal(&device->known[i].shape, want) || nth-- != 0)
            continue;
        out.data = (void *)(uintptr_t)device->known[i].data;
        break;
    }
    return out;
}

// Logs how many products (by shape and row count) each implementation computes, and how long the
// choice took.
static void choices_log(const struct stream *stream)
{
    const struct blas *blas = stream->blas;
    uint32_t by[PRODUCT_BY_COUNT] = {0};
    char line[240], missed[96] = "";
    for (uint32_t i = 0; i < PLANS_MAX; i++)
        if (blas->plan[i].desc)
            by[blas->plan[i].choice.by]++;
    if (blas->tune_missed > 0)
        snprintf(missed, sizeof missed,
                 "; %u were not timed within %d s and use cuBLASLt's first choice",
                 blas->tune_missed, TUNE_S);
    snprintf(line, sizeof line,
             "products, by shape and rows: %u by cuBLASLt, %u by the small kernel, %u by the wide; "
             "chosen in %.1f s%s",
             by[BY_LIBRARY], by[BY_SMALL], by[BY_WIDE],
             (double)(clock_ns() - blas->tune_began_ns) * 1e-9, missed);
    if (stream->device->options.note)
        stream->device->options.note(stream->device->options.index, line);
}

uint32_t blas_tune(struct stream *stream, uint32_t rows)
{
    struct blas *blas = stream->blas;
    uint32_t tokens = stream->limits.step.tokens_max;
    uint32_t most = tokens < TUNE_ROWS_MAX ? tokens : TUNE_ROWS_MAX;
    if (rows == 0) {
        blas->tune_began_ns = clock_ns();
        blas->tune_until_ns = blas->tune_began_ns + TUNE_S * (uint64_t)1000000000;
        blas->tune_missed = 0;
    }
    if (rows >= most) {
        blas->tune_until_ns = 0;
        choices_log(stream);
        return 0;
    }
    uint32_t next = blas_bucket(rows + 1);
    return next < most ? next : most;
}

// Records several products as a graph. Runs the product once before, so that its code is loaded
// outside of the capture. If the op before wrote x as codes, as in a step, no product rounds x.
static enum status candidate_record(struct stream *stream, struct graph **out,
                                    struct blas_plan *plan, const struct gemm_args *args)
{
    struct gemm_args call = *args;
    struct stream_coded coded = stream->coded;
    enum status status = plan_run(stream, plan, args);
    if (status == STATUS_OK)
        status = graph_begin(stream);
    if (status != STATUS_OK)
        return status;
    uint32_t runs = args->rows > TUNE_LONG_ROWS ? TUNE_LONG_RUNS : TUNE_RUNS;
    for (uint32_t run = 0; run < runs && status == STATUS_OK; run++) {
        struct weight weight = rotated(stream->device, args->weight, run);
        call.weight = &weight;
        stream->coded = coded;
        status = plan_run(stream, plan, &call);
    }
    enum status ended = graph_end(stream, out, NULL);
    return status == STATUS_OK ? ended : status;
}

// Returns the milliseconds of the recorded products, or a negative number if the candidate does not
// run.
static float candidate_time(struct stream *stream, struct blas_plan *plan,
                            const struct gemm_args *args)
{
    struct blas *blas = stream->blas;
    struct graph *graph = NULL;
    float ms = -1;
    if (candidate_record(stream, &graph, plan, args) == STATUS_OK &&
        graph_launch(stream, graph) == STATUS_OK && // once to warm up
        call_status(cudaEventRecord(blas->begin, stream->cuda)) == STATUS_OK &&
        graph_launch(stream, graph) == STATUS_OK &&
        call_status(cudaEventRecord(blas->end, stream->cuda)) == STATUS_OK &&
        call_status(cudaEventSynchronize(blas->end)) == STATUS_OK &&
        call_status(cudaEventElapsedTime(&ms, blas->begin, blas->end)) != STATUS_OK)
        ms = -1;
    (void)call_status(cudaStreamSynchronize(stream->cuda));
    graph_close(graph);
    return ms;
}

// Sets alignments and reduction: by default the library assumes pointers aligned to 256 bytes, and
// may add parts of a sum in the output's type.
static bool preference_set(struct blas *blas, const struct blas_plan *plan)
{
    static const cublasLtMatmulPreferenceAttributes_t names[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const struct plan_key *key = &plan->key;
    const uint32_t bytes[] = {key->weight_align, key->x_align, key->y_align, key->y_align};
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasStatus_t bad = cublasLtMatmulPreferenceSetAttribute(
        blas->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, 4);
    for (int i = 0; i < 4; i++)
        bad |= cublasLtMatmulPreferenceSetAttribute(blas->preference, names[i], &bytes[i], 4);
    return bad == CUBLAS_STATUS_SUCCESS;
}

// Lists the candidates that the library reports as runnable, best first. Returns their number.
static uint32_t library_choices(struct blas *blas, const struct blas_plan *plan,
                                struct product_choice *out, int wanted)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES_MAX];
    int count = 0;
    uint32_t good = 0;
    if (!preference_set(blas, plan) ||
        cublasLtMatmulAlgoGetHeuristic(blas->handle, plan->desc, plan->weight, plan->x, plan->y,
                                       plan->y, blas->preference, wanted, found,
                                       &count) != CUBLAS_STATUS_SUCCESS)
        return 0;
    for (int i = 0; i < count; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= BLAS_WORKSPACE)
            out[good++] =
                (struct product_choice){BY_LIBRARY, found[i].algo, found[i].workspaceSize};
    return good;
}

// Lists weft's kernels that may be faster than the library for the key's rows. Returns their
// number. gemm_plain is for types that tensor cores do not multiply, not for speed.
static uint32_t own_choices(const struct plan_key *key, struct product_choice *out)
{
    uint32_t count = 0;
    if (key->x_dtype == DTYPE_F32)
        return 0;
    if (key->rows <= TIMED_SMALL_MAX)
        out[count++] = (struct product_choice){.by = BY_SMALL};
    if (key->rows >= TIMED_WIDE_MIN && key->rows <= TIMED_WIDE_MAX)
        out[count++] = (struct product_choice){.by = BY_WIDE};
    return count;
}

// Sets plan->choice to the fastest candidate; false if none runs. bucket: the key with the upper
// end of its bucket of rows.
static bool plan_tune(struct stream *stream, struct blas_plan *plan, const struct plan_key *bucket,
                      const struct gemm_args *args)
{
    struct product_choice choice[CHOICES_MAX];
    uint32_t count = library_choices(stream->blas, plan, choice, CANDIDATES_MAX);
    count += own_choices(bucket, choice + count);
    if (count == 0)
        return false;
    uint32_t best = 0;
    float least = -1;
    struct stream_coded coded = fp8_coded(stream, plan, args);
    pthread_mutex_lock(&stream->device->known_lock); // weights must not be freed meanwhile
    for (uint32_t i = 0; i < count && count > 1; i++) {
        plan->choice = choice[i];
        stream->coded = coded;
        float ms = candidate_time(stream, plan, args);
        if (ms >= 0 && (least < 0 || ms < least)) {
            least = ms;
            best = i;
        }
    }
    pthread_mutex_unlock(&stream->device->known_lock);
    stream->coded = coded; // the product itself uses the codes
    if (count > 1 && least < 0)
        return false; // none of them runs
    plan->choice = choice[best];
    return true;
}

bool blas_first_choice(struct blas *blas, struct blas_plan *plan)
{
    struct product_choice first[4];
    if (library_choices(blas, plan, first, 4) == 0)
        return false;
    plan->choice = first[0];
    plan->of_bucket = false;
    return true;
}

// Uses an earlier choice if it still runs: an algorithm may be unknown to this library.
static bool tuned_use(const struct blas *blas, struct blas_plan *plan,
                      const struct tuned_choice *tuned)
{
    cublasLtMatmulHeuristicResult_t result;
    plan->choice = tuned->choice;
    if (plan->choice.by != BY_LIBRARY)
        return true;
    if (cublasLtMatmulAlgoCheck(blas->handle, plan->desc, plan->weight, plan->x, plan->y, plan->y,
                                &plan->choice.algo, &result) != CUBLAS_STATUS_SUCCESS)
        return false;
    plan->choice.workspace = result.workspaceSize;
    return result.workspaceSize <= BLAS_WORKSPACE;
}

// Returns true during startup while products may be timed. Counts the product otherwise.
static bool time_left(struct blas *blas)
{
    if (blas->tune_until_ns == 0)
        return false;
    bool left = clock_ns() < blas->tune_until_ns;
    blas->tune_missed += !left;
    return left;
}

bool blas_choose(struct stream *stream, struct blas_plan *plan, const struct gemm_args *args)
{
    struct blas *blas = stream->blas;
    struct plan_key key = plan->key;
    key.rows = blas_bucket(key.rows);
    const struct tuned_choice *tuned = tuned_find(blas, &key);
    plan->of_bucket = true;
    if (tuned && tuned_use(blas, plan, tuned))
        return true;
    if (tuned || stream->capturing || !time_left(blas) || key.rows > TUNE_ROWS_MAX)
        return blas_first_choice(blas, plan);
    if (!plan_tune(stream, plan, &key, args))
        return false;
    plan->of_bucket = true;
    tuned_add(blas, &key, plan);
    return true;
}
