// SPDX-License-Identifier: Apache-2.0
// Ranks of one thread each compared with one rank with all threads, on the CPU: decode and prefill
// of the dummy Qwen2.5-0.5B shape. Both models are loaded and run alternately, pair by pair, so
// that other load on the machine affects both; one line per pair, then one per case: medians of the
// steps, and the median, least and largest ratio of the pairs. Aim: at most 1.2.
//
// Usage: bench_ranks [ranks] [pairs] [bfloat16|int8|float32|float16] [temperature] [case]
//        2, 10, bfloat16, 0 and all cases by default; case: part of the names to run
#include "bench/step_bench.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8, PAIRS_MAX = 100, CONTEXT = 1024, ROWS_MAX = 32, PREFILL = 512 };

static const struct step_case cases[] = {
    {"decode 1 at 128", 1, 128, 0, 0},
    {"decode 8 at 128", 8, 128, 0, 0},
    {"decode 32 at 128", 32, 128, 0, 0},
    {"prefill 512", 0, 0, 1, PREFILL},
};

static void side_open(struct bench *b, uint32_t threads, uint32_t ranks, int dtype)
{
    struct error err;
    struct step_args args = {.device = "cpu", .threads = threads, .exact = true};
    struct model_options options = bench_options(dtype, CONTEXT, ROWS_MAX, PREFILL);
    check(bench_device_open(b, &args), "no cpu");
    for (uint32_t r = 0; ranks > 1 && r < ranks; r++) {
        struct device_options rank = {
            .index = r, .ranks = ranks, .parent = b->device, .exact = true};
        must(b->api.open(&b->ranks[r], &rank, &err), &err);
    }
    options.share.tp_size = ranks;
    options.devices = ranks > 1 ? b->ranks : NULL;
    bench_model_open(b, shape_find("qwen2.5-0.5b"), NULL, &options, CONTEXT * ROWS_MAX);
}

struct times {
    double step, sample; // medians, milliseconds
};

static struct times side_run(struct bench *b, const struct step_case *c)
{
    double step[STEPS], sample[STEPS];
    decodes_admit(b, c);
    for (uint32_t i = 0; i <= STEPS; i++) { // the first step warms up
        double start = now_ms();
        generator_step(b, c, i);
        bench_collect(b);
        step[i > 0 ? i - 1 : 0] = now_ms() - start;
        sample[i > 0 ? i - 1 : 0] = b->sample_ms;
    }
    return (struct times){median(step, STEPS), median(sample, STEPS)};
}

static void case_run(struct bench *sides, const struct step_case *c, uint32_t pairs)
{
    double step[2][PAIRS_MAX], sample[2][PAIRS_MAX], ratio[PAIRS_MAX];
    for (uint32_t i = 0; i < pairs; i++) {
        for (uint32_t n = 0; n < 2; n++) {
            uint32_t side = (i + n) % 2; // both sides begin equally often
            struct times t = side_run(&sides[side], c);
            step[side][i] = t.step;
            sample[side][i] = t.sample;
        }
        ratio[i] = step[1][i] / step[0][i];
        printf("  pair %u: %.2f ms and %.2f ms, ratio %.2f\n", i + 1, step[0][i], step[1][i],
               ratio[i]);
    }
    double middle = median(ratio, pairs);
    printf("%-18s %9.2f ms %9.2f ms  ratio %.2f (%.2f to %.2f)  sampling %.2f and %.2f ms\n",
           c->name, median(step[0], pairs), median(step[1], pairs), middle, ratio[0],
           ratio[pairs - 1], median(sample[0], pairs), median(sample[1], pairs));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct bench sides[2];
    uint32_t ranks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    uint32_t pairs = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 10;
    int dtype = DTYPE_BF16;
    for (int i = 0; argc > 3 && i < DTYPE_COUNT; i++)
        if (strcmp(argv[3], dtype_name((enum dtype)i)) == 0)
            dtype = i;
    if (ranks < 1 || ranks > RANKS_MAX || pairs < 1 || pairs > PAIRS_MAX) {
        fputs("bench_ranks: see the head of bench/bench_ranks.c for its arguments\n", stderr);
        return 2;
    }
    for (uint32_t side = 0; side < 2; side++) {
        sides[side].temperature = argc > 4 ? strtof(argv[4], NULL) : 0;
        side_open(&sides[side], ranks, side == 0 ? 1 : ranks, dtype);
    }
    printf("%u pairs, %s, dummy Qwen2.5-0.5B\n%-18s %12s %12s\n", pairs,
           dtype_name((enum dtype)dtype), "", "one rank", "ranks");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc <= 5 || strstr(cases[i].name, argv[5]))
            case_run(sides, &cases[i], pairs);
    bench_close(&sides[0]);
    bench_close(&sides[1]);
    return 0;
}
