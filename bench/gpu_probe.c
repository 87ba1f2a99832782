// SPDX-License-Identifier: Apache-2.0
// Runs each primitive of kernels/cuda/dev.h on fixed random input and prints its output words.
// Built twice, for the emulator and with nvcc; bench/gpu_words.py compares the two outputs: the
// last bits of approximate functions depend on the hardware.
//
//   gpu_probe               prints the words
//   gpu_probe sums FILE     runs mma on the vectors of FILE (tests/simt/mma_vectors.txt) and prints
//                           how many results are those of each arithmetic of tests/simt/mma.h. Exit
//                           status 0, whichever arithmetic the device has.
#include "tests/simt/mma_vectors.h"

static uint32_t random_state = 20240817;

static uint32_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

// Returns an input word that suits a probe: small integers as 16-bit floats if sums must be exact.
static uint32_t probe_word(enum probe probe, int i)
{
    static const uint16_t bf16[8] = {0x0000, 0x3F80, 0x4000, 0x4040,
                                     0xBF80, 0xC000, 0x3F00, 0xC040};
    static const uint16_t f16[8] = {0x0000, 0x3C00, 0x4000, 0x4200, 0xBC00, 0xC000, 0x3800, 0xC200};
    uint32_t w = random_word();
    if (probe != PROBE_MMA_BF16 && probe != PROBE_MMA_F16)
        return w;
    if (i >= 256) { // the accumulator
        float start = (float)(w % 64u) - 32.0f;
        memcpy(&w, &start, 4);
        return w;
    }
    const uint16_t *table = probe == PROBE_MMA_BF16 ? bf16 : f16;
    return table[w & 7u] | (uint32_t)table[w >> 3 & 7u] << 16;
}

// Returns the name of an output word. The words of PROBE_APPROX are divided among eight functions,
// as run_approx writes them.
static const char *word_name(enum probe probe, int i)
{
    static const char *const function[8] = {"ex2",  "rcp",  "rsqrt", "fmaf",
                                            "expf", "logf", "erff",  "tanhf"};
    return probe == PROBE_APPROX ? function[i / (PROBE_WORDS / 8)] : probe_name(probe);
}

static uint32_t *in, *out; // device memory, PROBE_WORDS each

// Runs a probe on host[PROBE_WORDS], which it replaces by the result. Returns false after printing
// an error of the device.
static bool probe_words(enum probe probe, uint32_t *host)
{
    size_t bytes = PROBE_WORDS * sizeof *host;
    (void)cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
    (void)cudaMemset(out, 0, bytes);
    probe_run(probe, in, out, NULL);
    if (cudaDeviceSynchronize() == cudaSuccess &&
        cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost) == cudaSuccess)
        return true;
    fprintf(stderr, "gpu_probe: %s: %s\n", probe_name(probe),
            cudaGetErrorString(cudaGetLastError()));
    return false;
}

static int words_print(void)
{
    static uint32_t host[PROBE_WORDS];
    for (int p = 0; p < PROBE_COUNT; p++) {
        for (int i = 0; i < PROBE_WORDS; i++)
            host[i] = probe_word((enum probe)p, i);
        if (!probe_words((enum probe)p, host))
            return 1;
        for (int i = 0; i < PROBE_WORDS; i++)
            printf("%s %d %08x\n", word_name((enum probe)p, i), i, host[i]);
    }
    return 0;
}

// The results of one type of factors.
struct sums_count {
    uint32_t words, fit[MMA_SUMS];
    // for each arithmetic the first result that is not its own
    char first[MMA_SUMS][96];
};

static const char *const rule_words[MMA_SUMS] = {"rounded to nearest in order of k",
                                                 "25 bits toward zero, 16 products (Hopper)",
                                                 "24 bits toward zero, 8 products (Ampere)"};

static void vector_count(const struct mma_vector *v, uint32_t got[16][8], struct sums_count *count)
{
    count->words += 16 * 8;
    for (int s = 0; s < MMA_SUMS; s++)
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++)
                if (mma_word_fits((enum mma_sums)s, v->want[s][i][j], got[i][j]))
                    count->fit[s]++;
                else if (!count->first[s][0])
                    snprintf(count->first[s], sizeof count->first[s],
                             "%s, row %d, column %d: %08x, not %08x", v->name, i, j, got[i][j],
                             v->want[s][i][j]);
}

static void sums_report(const char *type, const struct sums_count *count)
{
    int best = 0;
    for (int s = 0; s < MMA_SUMS; s++) {
        printf("sums of %s: %u of %u words equal those of %s\n", type, count->fit[s], count->words,
               rule_words[s]);
        best = count->fit[s] > count->fit[best] ? s : best;
    }
    if (count->fit[best] == count->words)
        printf("sums of %s: this device follows %s\n", type, rule_words[best]);
    else
        printf("sums of %s: no rule fits; the nearest is %s; %s\n", type, rule_words[best],
               count->first[best]);
}

static int sums_compare(const char *path)
{
    static struct mma_vector vector;
    static uint32_t host[PROBE_WORDS];
    struct sums_count counts[2] = {0};
    FILE *from = fopen(path, "r");
    if (!from) {
        fprintf(stderr, "gpu_probe: cannot open %s\n", path);
        return 2;
    }
    int read = mma_vector_read(from, &vector);
    for (; read > 0; read = mma_vector_read(from, &vector)) {
        uint32_t got[16][8];
        mma_vector_put(&vector, host);
        if (!probe_words(vector.bf16 ? PROBE_MMA_BF16 : PROBE_MMA_F16, host))
            break;
        mma_vector_take(host, got);
        vector_count(&vector, got, &counts[vector.bf16]);
    }
    fclose(from);
    if (read < 0)
        fprintf(stderr, "gpu_probe: %s is damaged; tools/mma_vectors.py writes it\n", path);
    for (int type = 1; read == 0 && type >= 0; type--)
        sums_report(type ? "bf16" : "f16", &counts[type]);
    return read == 0 ? 0 : read < 0 ? 2 : 1;
}

int main(int argc, char **argv)
{
    bool sums = argc == 3 && strcmp(argv[1], "sums") == 0;
    if (argc > 1 && !sums) {
        fprintf(stderr, "usage: gpu_probe [sums FILE]\n");
        return 2;
    }
    if (cudaMalloc((void **)&in, PROBE_WORDS * sizeof *in) != cudaSuccess ||
        cudaMalloc((void **)&out, PROBE_WORDS * sizeof *out) != cudaSuccess) {
        fprintf(stderr, "gpu_probe: no device\n");
        return 77;
    }
    return sums ? sums_compare(argv[2]) : words_print();
}
