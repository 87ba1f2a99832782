// SPDX-License-Identifier: Apache-2.0
// Runs each primitive of kernels/cuda/dev.h on fixed random input and prints its output words.
// Built twice, for the emulator and with nvcc; bench/gpu_words.py compares the two outputs: the
// last bits of approximate functions depend on the hardware.
#include "tests/simt/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
    static uint32_t host[PROBE_WORDS];
    uint32_t *in = NULL;
    uint32_t *out = NULL;
    if (cudaMalloc((void **)&in, sizeof host) != cudaSuccess ||
        cudaMalloc((void **)&out, sizeof host) != cudaSuccess) {
        fprintf(stderr, "gpu_probe: no device\n");
        return 77;
    }
    for (int p = 0; p < PROBE_COUNT; p++) {
        for (int i = 0; i < PROBE_WORDS; i++)
            host[i] = probe_word((enum probe)p, i);
        (void)cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
        (void)cudaMemset(out, 0, sizeof host);
        probe_run((enum probe)p, in, out, NULL);
        if (cudaDeviceSynchronize() != cudaSuccess ||
            cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) {
            fprintf(stderr, "gpu_probe: %s: %s\n", probe_name((enum probe)p),
                    cudaGetErrorString(cudaGetLastError()));
            return 1;
        }
        for (int i = 0; i < PROBE_WORDS; i++)
            printf("%s %d %08x\n", word_name((enum probe)p, i), i, host[i]);
    }
    return 0;
}
