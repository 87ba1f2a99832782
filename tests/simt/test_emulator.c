// SPDX-License-Identifier: Apache-2.0
// Tests of the emulator: each wrapper of dev.h returns the value of its definition (computed here
// in plain loops), correct kernels give no report, each faulty kernel is reported by the mode that
// can detect it, and the stand-in runtime keeps the order of streams, events and graphs.
#include "tests/simt/control.h"
#include "tests/simt/mma_vectors.h"

#include "kernels/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint32_t *in, *out; // device memory, which the host can read here
static uint32_t random_state = 7;

static uint32_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static float word_float(uint32_t word)
{
    float x;
    memcpy(&x, &word, 4);
    return x;
}

static void run(enum probe probe)
{
    simt_reset();
    memset(out, 0, PROBE_WORDS * 4);
    probe_run(probe, in, out, NULL);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    assert_string_equal(simt_first_report(), "");
}

static int setup(void **state)
{
    (void)state;
    cudaMalloc((void **)&in, PROBE_WORDS * 4);
    cudaMalloc((void **)&out, PROBE_WORDS * 4);
    return 0;
}

static void fill_random(void)
{
    for (int i = 0; i < PROBE_WORDS; i++)
        in[i] = random_word();
}

static uint16_t half_of(uint32_t word, int which)
{
    return (uint16_t)(word >> (16 * which));
}

// Small integers: every sum is exact in any order.
static void test_mma(void **state)
{
    (void)state;
    for (int type = 0; type < 2; type++) {
        uint16_t (*narrow)(float) = type == 0 ? f32_to_bf16 : f32_to_f16;
        float a[16][16], b[16][8], c[16][8];
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < 16; k++)
                a[i][k] = (float)(int)(random_word() % 17u) - 8.0f;
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++)
                b[k][j] = (float)(int)(random_word() % 17u) - 8.0f;
        for (int l = 0; l < 32; l++) {
            int r = l / 4, t = l % 4;
            for (int w = 0; w < 4; w++) {
                int row = r + 8 * (w & 1), col = 2 * t + 8 * (w >> 1);
                in[l * 4 + w] = narrow(a[row][col]) | (uint32_t)narrow(a[row][col + 1]) << 16;
                float start = (float)(l + w);
                memcpy(&in[256 + l * 4 + w], &start, 4);
                c[r + 8 * (w >> 1)][2 * t + (w & 1)] = start;
            }
            for (int w = 0; w < 2; w++)
                in[128 + l * 2 + w] =
                    narrow(b[2 * t + 8 * w][r]) | (uint32_t)narrow(b[2 * t + 8 * w + 1][r]) << 16;
        }
        run(type == 0 ? PROBE_MMA_BF16 : PROBE_MMA_F16);
        for (int l = 0; l < 32; l++)
            for (int w = 0; w < 4; w++) {
                int row = l / 4 + 8 * (w >> 1), col = 2 * (l % 4) + (w & 1);
                float want = c[row][col];
                for (int k = 0; k < 16; k++)
                    want += a[row][k] * b[k][col];
                assert_true(word_float(out[l * 4 + w]) == want);
            }
    }
}

// Each arithmetic on the committed vectors, bit by bit, and the emulator with the one that
// WEFT_SIMT_MMA selects.
static void test_mma_vectors(void **state)
{
    (void)state;
    static struct mma_vector v;
    FILE *from = fopen(WEFT_SOURCE_DIR "/tests/simt/mma_vectors.txt", "r");
    assert_non_null(from);
    int count = 0, read = mma_vector_read(from, &v);
    for (; read > 0; read = mma_vector_read(from, &v), count++) {
        uint32_t got[MMA_SUMS + 1][16][8];
        for (int s = 0; s < MMA_SUMS; s++) {
            float a[16][16], b[16][8];
            for (int i = 0; i < 16; i++) {
                for (int k = 0; k < 16; k++)
                    a[i][k] = v.bf16 ? bf16_to_f32(v.a[i][k]) : f16_to_f32(v.a[i][k]);
                for (int j = 0; j < 8; j++)
                    b[i][j] = v.bf16 ? bf16_to_f32(v.b[i][j]) : f16_to_f32(v.b[i][j]);
            }
            float d[16][8];
            memcpy(d, v.c, sizeof d);
            mma_multiply((enum mma_sums)s, v.bf16, a, b, d);
            memcpy(got[s], d, sizeof d);
        }
        mma_vector_put(&v, in);
        run(v.bf16 ? PROBE_MMA_BF16 : PROBE_MMA_F16);
        mma_vector_take(out, got[MMA_SUMS]);
        for (int s = 0; s <= MMA_SUMS; s++) {
            enum mma_sums sums = s < MMA_SUMS ? (enum mma_sums)s : mma_sums_read();
            for (int i = 0; i < 16; i++)
                for (int j = 0; j < 8; j++)
                    if (!mma_word_fits(sums, v.want[sums][i][j], got[s][i][j]))
                        fail_msg("%s, %s %s, row %d, column %d: %08x, not %08x",
                                 s < MMA_SUMS ? mma_rules[s].name : "the emulator",
                                 v.bf16 ? "bf16" : "f16", v.name, i, j, got[s][i][j],
                                 v.want[sums][i][j]);
        }
    }
    fclose(from);
    assert_int_equal(read, 0);
    assert_int_equal(count, 4);
}

static void test_matrix_moves(void **state)
{
    (void)state;
    fill_random();
    uint16_t rows[32][8];
    memcpy(rows, in, sizeof rows);
    for (int p = PROBE_LDSM; p <= PROBE_LDSM_T; p++) {
        run((enum probe)p);
        for (int l = 0; l < 32; l++)
            for (int m = 0; m < 4; m++)
                for (int h = 0; h < 2; h++) {
                    int row = l / 4, col = 2 * (l % 4) + h;
                    uint16_t want =
                        p == PROBE_LDSM ? rows[8 * m + row][col] : rows[8 * m + col][row];
                    assert_int_equal(half_of(out[l * 4 + m], h), want);
                }
    }
    run(PROBE_MOVM);
    for (int l = 0; l < 32; l++)
        for (int m = 0; m < 4; m++)
            for (int h = 0; h < 2; h++) { // element (row, col) is element (col, row) of the input
                int row = l / 4, col = 2 * (l % 4) + h;
                uint32_t source = in[m * 32 + col * 4 + row / 2];
                assert_int_equal(half_of(out[l * 4 + m], h), half_of(source, row & 1));
            }
}

static void test_shuffles(void **state)
{
    (void)state;
    fill_random();
    run(PROBE_SHUFFLE);
    uint32_t votes = 0;
    float sum = 0;
    for (int l = 0; l < 32; l++) {
        votes |= (in[l] & 1u) << l;
        sum += (float)(in[l] & 1023u);
    }
    for (uint32_t l = 0; l < 32; l++) {
        assert_int_equal(out[l], in[l ^ 5u]);
        assert_int_equal(out[32 + l], in[l + 3 < 32 ? l + 3 : l]);
        assert_int_equal(out[64 + l], in[in[32] & 31u]);
        assert_true(word_float(out[96 + l]) == sum);
        assert_int_equal(out[128 + l], votes);
    }
}

static void test_async_copies(void **state)
{
    (void)state;
    fill_random();
    run(PROBE_CP_ASYNC);
    for (uint32_t g = 0; g < 2; g++)
        for (uint32_t i = 0; i < 128; i++)
            for (uint32_t j = 0; j < 4; j++) {
                uint32_t from = i ^ 37u;
                uint32_t want = from % 3 == g ? 0 : in[g * 512 + from * 4 + j];
                assert_int_equal(out[g * 512 + i * 4 + j], want);
            }
}

static void test_conversions(void **state)
{
    (void)state;
    fill_random();
    // half of them are in the range in which f16 rounds and underflows
    for (uint32_t i = 0; i < 256; i++)
        in[i] = (random_word() & 0x80FFFFFFu) | (90u + random_word() % 56u) << 23;
    run(PROBE_CONVERT);
    for (int i = 0; i < 512; i++) {
        float x = word_float(in[i]);
        if (x == x) {
            assert_int_equal(out[i], f32_to_bf16(x));
            assert_int_equal(out[512 + i], f32_to_f16(x));
            uint32_t pair = f32_to_bf16(x) | (uint32_t)f32_to_bf16(x * 0.5f) << 16;
            assert_int_equal(out[1024 + i], pair);
        }
        assert_int_equal(out[1536 + i], in[i] << 16);
        assert_true(word_float(out[2048 + i]) == f16_to_f32((uint16_t)(in[i] & 0xBFFFu)));
        assert_int_equal(out[2560 + i], (uint32_t)((uint64_t)in[i] * 0x9E3779B9u >> 32));
        assert_int_equal(out[3072 + i] >> 16, ((in[i] & in[511 - i]) | in[i ^ 1]) & 0xFFFFu);
        for (int k = 0; k < 4; k++) {
            uint32_t nibble = in[i ^ 1] >> 4 * k & 15, word = in[nibble % 8 < 4 ? i : 511 - i];
            uint32_t byte = word >> nibble % 4 * 8 & 255;
            byte = nibble < 8 ? byte : byte < 128 ? 0 : 255;
            assert_int_equal(out[3584 + i] >> 8 * k & 255, byte);
        }
    }
}

// Returns the value of an e4m3 code by its definition; NaN codes count as 480, the next number.
static double e4m3_value(uint32_t code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    double value = exponent > 0 ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
    return code & 128 ? -value : value;
}

// Returns the code nearest to x, of two equally near ones the even one.
static uint32_t e4m3_nearest(float x)
{
    uint32_t best = 0, sign = signbit(x) ? 128 : 0;
    if (x != x)
        return sign | 127;
    for (uint32_t code = 1; code < 127; code++) {
        double near = fabs(fabs((double)x) - e4m3_value(best));
        double now = fabs(fabs((double)x) - e4m3_value(code));
        if (now < near || (now == near && code % 2 == 0))
            best = code;
    }
    return sign | best;
}

static void test_e4m3(void **state)
{
    (void)state;
    fill_random();
    for (uint32_t i = 0; i < 256; i++) // each code at each place of a word; ties of roundings
        in[i] = i % 2 ? i << 24 | (i ^ 85) << 16 | (i ^ 170) << 8 | (255 - i) : in[i] & 0xFFF80000u;
    run(PROBE_E4M3);
    for (uint32_t i = 0; i < 512; i++) {
        uint32_t bits = (in[i] & 0x80FFFFFFu) | (112u + (in[i] >> 24 & 31u)) << 23;
        for (uint32_t k = 0; k < 4; k++) {
            double want = e4m3_value(in[i] >> 8 * k & 255);
            uint16_t brain = (uint16_t)(out[k / 2 * 512 + i] >> k % 2 * 16);
            uint16_t half = (uint16_t)(out[1024 + k / 2 * 512 + i] >> k % 2 * 16);
            assert_true(ldexp(bf16_to_f32(brain), 120) == want);
            assert_true(ldexp(f16_to_f32(half), 8) == want);
        }
        assert_int_equal(out[2048 + i], e4m3_nearest(word_float(in[i])));
        assert_int_equal(out[2560 + i], e4m3_nearest(word_float(bits)));
        float value = word_float(out[3072 + i]);
        bool nan = (i & 127) == 127;
        assert_true(nan ? value != value : value == e4m3_value(i & 255));
        assert_int_equal(out[3584 + i] & (nan ? 127 : 255), nan ? 127 : i & 255);
    }
}

// Returns the bfloat16 nearest to x, a normal number in its range.
static uint16_t bf16_nearest(double x)
{
    int exponent;
    double near = nearbyint(ldexp(frexp(x, &exponent), 8)); // 128 to 256
    return f32_to_bf16((float)ldexp(near, exponent - 8));
}

// Sums at the ends of the range and ties that the addend decides, whose values were computed with
// fractions of integers; random sums that double has exactly; and products of E2M1.
static void test_sums_of_bf16(void **state)
{
    (void)state;
    static const struct {
        uint32_t a, b, c, want;
    } known[] = {
        {0x3FC03FC1, 0x3FC03F81, 0xBF800000, 0x3FA03FC3},
        {0x00408040, 0x7E807E80, 0x80008000, 0x3F00BF00},
        {0x00008000, 0x7E803F80, 0x80008000, 0x00008000},
        {0x3F0040C0, 0x00400040, 0x80008000, 0x00200140},
        {0x00010003, 0x3F003F00, 0x80008000, 0x00000002},
        {0x40003FC0, 0x7F007F00, 0x80008000, 0x7F807F40},
        {0x3F883F88, 0x3F883F88, 0x00018001, 0x3F913F90},
        {0x7F7F7F00, 0x40003FC0, 0xFF7FFF40, 0x7F7F0000},
        {0x7F807FC0, 0x00003F80, 0x00000000, 0x7FFF7FFF},
        {0x7F803F80, 0xBF80BF80, 0x3F803F80, 0xFF800000},
    };
    enum { KNOWN = sizeof known / sizeof known[0] };
    fill_random();
    for (int i = 0; i < KNOWN; i++) {
        in[i] = known[i].a;
        in[512 + i] = known[i].b;
        in[1024 + i] = known[i].c;
    }
    run(PROBE_FMA_BF16);
    for (int i = 0; i < KNOWN; i++)
        assert_int_equal(out[i], known[i].want);
    for (int i = 0; i < 512; i++)
        for (int h = 0; h < 2; h++) {
            double near[3];
            for (int k = 0; k < 3; k++)
                near[k] = (double)bf16_to_f32((half_of(in[512 * k + i], h) & 0x87FF) | 0x3C00);
            double sum = near[0] * near[1] + near[2];
            assert_int_equal(half_of(out[512 + i], h), sum == 0 ? 0 : bf16_nearest(sum));
            uint16_t code = half_of(in[i], h) & 0x81C0, scale = half_of(in[512 + i], h) & 0x7F80;
            if (scale == 0 || scale >= 0x7E80) // products may be NaN or infinite
                continue;
            double value = ldexp((double)bf16_to_f32(code), 126) * (double)bf16_to_f32(scale);
            assert_true((double)bf16_to_f32(half_of(out[1024 + i], h)) == value);
        }
    for (int i = 0; i < 512; i++) {
        uint32_t a = in[i], b = in[512 + i], c = in[1024 + i];
        uint32_t turned = (a << 1 | a >> 31) ^ (b << 10 | b >> 22) ^ (c << 31 | c >> 1);
        assert_int_equal(out[1536 + i], turned);
    }
}

static void test_approximations(void **state)
{
    (void)state;
    fill_random();
    run(PROBE_APPROX);
    for (int i = 0; i < 512; i++) {
        float x = (float)(in[i] & 0xFFFFu) * 0x1p-10f - 32.0f;
        double want[8] = {
            exp2(x), 1.0 / (x + 64.5), 1.0 / sqrt(x + 33.0), (double)x * 1.0009765625 + 3.0,
            exp(x),  log(x + 33.0),    erf(x * 0.0625),      tanh(x * 0.0625)};
        for (int f = 0; f < 8; f++) {
            double got = word_float(out[f * 512 + i]);
            assert_true(fabs(got - want[f]) <= 2e-6 * fabs(want[f]) + 1e-6);
        }
    }
}

static void test_blocks(void **state)
{
    (void)state;
    fill_random();
    run(PROBE_VECTOR);
    for (uint32_t l = 0; l < 32; l++) {
        assert_int_equal(out[l * 4], in[(l ^ 1u) * 4] ^ in[128 + l * 4]);
        assert_int_equal(out[l * 4 + 1], in[(l ^ 1u) * 4 + 1]);
    }
    run(PROBE_ATOMIC);
    uint32_t sum = 0, top = 0;
    uint64_t wide = 0;
    for (int i = 0; i < 512; i++) {
        sum += in[i] & 255u;
        top = in[i] > top ? in[i] : top;
        wide += in[i];
    }
    assert_int_equal(out[1025], sum);
    assert_int_equal(out[1026], top);
    assert_memory_equal(&out[1028], &wide, 8);
    for (uint32_t seed = 0; seed < 3; seed++) {
        struct simt_options options = {.seed = seed};
        simt_configure(&options);
        run(PROBE_LAST_ARRIVER);
        for (int i = 0; i < 64; i++) {
            uint32_t want = 0;
            for (int b = 0; b < 8; b++)
                want += in[b * 64 + i] * 3u;
            assert_int_equal(out[512 + i], want);
        }
        run(PROBE_NAMED_BARRIER);
        for (uint32_t i = 0; i < 128; i++)
            assert_int_equal(out[i], in[i ^ 33u] + 1u);
    }
}

// Returns true for faults that a build without access hooks reports; the others need the race mode.
static bool plain_sees(enum fault fault)
{
    switch (fault) {
    case FAULT_WEAK_WAIT:
    case FAULT_DIVERGENT_BARRIER:
    case FAULT_DIVERGENT_SHUFFLE:
    case FAULT_ASYNC_UNWAITED:
    case FAULT_MISALIGNED:
    case FAULT_NO_GRID_WAIT:
    case FAULT_LATE_GRID_WAIT:
    case FAULT_PREFETCH_OVERRUN:
    case FAULT_EARLY_AFTER_FILL:
        return true;
    default:
        return false;
    }
}

// Returns true for faults that would corrupt or end this process if accesses are not checked.
static bool unsafe_without_hooks(enum fault fault)
{
    return fault == FAULT_SHARED_OVERRUN || fault == FAULT_GLOBAL_OVERRUN;
}

static void test_faults(void **state)
{
    (void)state;
    uint32_t *words, *counter;
    assert_int_equal(cudaMalloc((void **)&words, 4096), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&counter, 4), cudaSuccess);
    for (uint32_t seed = 0; seed < 2; seed++) {
        struct simt_options options = {.seed = seed, .quiet = true};
        simt_configure(&options);
        for (int f = 0; f < FAULT_COUNT; f++) {
            if (!simt_checks_races() && unsafe_without_hooks((enum fault)f))
                continue;
            simt_reset();
            memset(words, 0, 4096);
            *counter = 0;
            fault_run((enum fault)f, words, counter, NULL);
            bool reported = simt_first_report()[0] != 0;
            bool expected = f != FAULT_NONE && (simt_checks_races() || plain_sees((enum fault)f));
            if (seed == 0)
                printf("  %-26s %s\n", fault_name((enum fault)f), simt_first_report());
            assert_int_equal(reported, expected);
            assert_int_equal(cudaDeviceSynchronize() != cudaSuccess, expected);
        }
    }
    simt_reset();
    struct simt_options options = {0};
    simt_configure(&options);
    cudaFree(words);
    cudaFree(counter);
}

static void test_lint(void **state)
{
    (void)state;
    if (!simt_checks_races())
        skip();
    static const struct {
        uint32_t stride;
        // conflicts of a 32-lane store and load; sectors of a 32-lane global store
        uint64_t conflicts, sectors;
    } want[] = {{1, 0, 4}, {2, 2, 8}, {8, 14, 32}, {32, 62, 32}};
    struct simt_options options = {.lint = true};
    simt_configure(&options);
    for (int i = 0; i < 4; i++) {
        struct simt_counts counts;
        simt_reset();
        lint_run(in, want[i].stride, NULL);
        simt_read(&counts);
        assert_int_equal(counts.shared_requests, 2);
        assert_int_equal(counts.shared_conflicts, want[i].conflicts);
        assert_int_equal(counts.global_sectors, want[i].sectors);
        assert_int_equal(counts.global_sectors_least, 4);
    }
    options.lint = false;
    simt_configure(&options);
}

static void test_streams(void **state)
{
    (void)state;
    struct simt_options options = {.lazy = true, .quiet = true};
    simt_configure(&options);
    simt_reset();
    uint32_t *host, *device;
    cudaStream_t first, second;
    cudaEvent_t event;
    assert_int_equal(cudaHostAlloc((void **)&host, 64, cudaHostAllocMapped), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&device, 64), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    for (uint32_t round = 0; round < 20; round++) {
        host[0] = round;
        cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, first);
        cudaEventRecord(event, first);
        cudaStreamWaitEvent(second, event, 0);
        cudaMemcpyAsync(host + 8, device, 4, cudaMemcpyDeviceToHost, second);
        assert_int_equal(cudaStreamSynchronize(second), cudaSuccess);
        assert_int_equal(host[8], round);
    }
    host[0] = 1; // a pinned buffer is reused before the copy has run, so the new value is copied
    cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, first);
    host[0] = 2;
    cudaStreamSynchronize(first);
    assert_int_equal(device[0], 2);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    assert_int_equal(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, first);
    cudaMemcpyAsync(host + 8, device, 4, cudaMemcpyDeviceToHost, first);
    assert_int_equal(cudaStreamEndCapture(first, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (uint32_t round = 5; round < 8; round++) {
        host[0] = round;
        cudaGraphLaunch(exec, first);
        assert_int_equal(cudaStreamSynchronize(first), cudaSuccess);
        assert_int_equal(host[8], round);
    }
    assert_int_equal(cudaMemcpyAsync(device, host, 128, cudaMemcpyHostToDevice, first),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaFree(device + 1), cudaErrorInvalidValue);
    simt_reset();
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaEventDestroy(event);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    cudaFree(device);
    cudaFreeHost(host);
    memset(&options, 0, sizeof options);
    simt_configure(&options);
}

// Calls `forbidden` while a graph is captured. Returns the result of ending the capture.
static cudaError_t capture_with(enum cudaStreamCaptureMode mode, cudaStream_t stream,
                                cudaError_t (*forbidden)(cudaStream_t), cudaError_t *said)
{
    cudaGraph_t graph = NULL;
    assert_int_equal(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    *said = forbidden(stream);
    cudaError_t code = cudaStreamEndCapture(stream, &graph);
    if (code == cudaSuccess)
        assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    return code;
}

static cudaError_t take_memory(cudaStream_t stream)
{
    void *at = NULL;
    (void)stream;
    cudaError_t code = cudaMalloc(&at, 16);
    return code == cudaSuccess ? cudaFree(at) : code;
}

static cudaError_t copy_pageable(cudaStream_t stream)
{
    uint32_t word = 0;
    return cudaMemcpyAsync(out, &word, 4, cudaMemcpyHostToDevice, stream);
}

static cudaError_t wait_whole(cudaStream_t stream)
{
    (void)stream;
    return cudaDeviceSynchronize();
}

// Calls that the driver forbids while a stream captures.
static void test_captures(void **state)
{
    (void)state;
    cudaStream_t stream;
    cudaError_t said;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    static const struct {
        cudaError_t (*call)(cudaStream_t);
        bool relaxed; // true: also forbidden in relaxed mode
    } calls[] = {{cudaStreamSynchronize, true},
                 {cudaStreamQuery, true},
                 {copy_pageable, true},
                 {wait_whole, true},
                 {take_memory, false}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        cudaError_t end =
            capture_with(cudaStreamCaptureModeThreadLocal, stream, calls[i].call, &said);
        assert_int_equal(said, cudaErrorStreamCaptureUnsupported);
        assert_int_equal(end, cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaGetLastError(), end);
        end = capture_with(cudaStreamCaptureModeRelaxed, stream, calls[i].call, &said);
        assert_int_equal(end == cudaSuccess, !calls[i].relaxed);
        assert_int_equal(said == cudaSuccess, !calls[i].relaxed);
        (void)cudaGetLastError();
    }
    cudaStreamDestroy(stream);
}

// The default stream does not order streams made with cudaStreamNonBlocking; a query of a busy
// stream returns "not ready", which becomes the thread's last error; streams of other devices
// refuse launches.
static void test_last_error(void **state)
{
    (void)state;
    struct simt_options options = {.lazy = true, .devices = 1};
    simt_configure(&options);
    cudaStream_t stream;
    uint32_t *host;
    assert_int_equal(cudaHostAlloc((void **)&host, 64, cudaHostAllocMapped), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    out[0] = 7;
    assert_int_equal(cudaMemset(out, 0, 4), cudaSuccess);
    assert_int_equal(out[0], 7); // not written yet
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(NULL), cudaSuccess);
    assert_int_equal(out[0], 0);
    assert_int_equal(cudaMemcpyAsync(host, out, 4, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    probe_run(PROBE_SHUFFLE, in, out, stream);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    (void)cudaGetLastError();
    cudaStreamDestroy(stream);
    cudaFreeHost(host);
    memset(&options, 0, sizeof options);
    simt_configure(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma),
        cmocka_unit_test(test_mma_vectors),
        cmocka_unit_test(test_matrix_moves),
        cmocka_unit_test(test_shuffles),
        cmocka_unit_test(test_async_copies),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_e4m3),
        cmocka_unit_test(test_sums_of_bf16),
        cmocka_unit_test(test_approximations),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_lint),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_last_error),
    };
    return cmocka_run_group_tests_name("emulator", tests, setup, NULL);
}
