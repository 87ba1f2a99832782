// SPDX-License-Identifier: Apache-2.0
// The time to load model folders on the cpu device, each compared with the first: medians of
// interleaved runs. bench/load_folders.py writes one model in bfloat16 and in quantised formats;
// the aim is at most 1.5 times the time of the bfloat16 folder. The files should be in the page
// cache, as they are after writing them: then the time is that of decoding and packing.
//
// Usage: bench_load THREADS FOLDER...
#include "bench/step_bench.h"

#include "kernels/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 3, FOLDERS_MAX = 16 };

// Loads a folder and returns the milliseconds. Writes how the weights are held.
static double load_ms(const char *folder, uint32_t threads, char held[FORMATS_TEXT])
{
    struct error err;
    struct device *device;
    struct model_plan *plan;
    struct model *model;
    const struct device_api *api = device_cpu();
    struct device_options with = {.threads = threads, .exact = true};
    struct model_options options = bench_options(-1, 1024, 1, 512);
    options.load_dummy = false;
    must(api->open(&device, &with, &err), &err);
    double start = now_ms();
    must(model_plan_open(&plan, folder, api, device, &options, &err), &err);
    must(model_open(&model, plan, plan->kv_bytes_min, NULL, NULL, &err), &err);
    double spent = now_ms() - start;
    const struct model_facts *facts = model_facts(model);
    snprintf(held, FORMATS_TEXT, "%s",
             facts->formats[0] != '\0' ? facts->formats : dtype_name(facts->dtype));
    model_close(model);
    model_plan_close(plan);
    api->close(device);
    return spent;
}

int main(int count, char **args)
{
    if (count < 3 || count - 2 > FOLDERS_MAX) {
        fprintf(stderr, "usage: bench_load THREADS FOLDER... (at most %d)\n", FOLDERS_MAX);
        return 2;
    }
    uint32_t threads = (uint32_t)strtoul(args[1], NULL, 10), folders = (uint32_t)count - 2;
    static double spent[FOLDERS_MAX][RUNS];
    static char held[FOLDERS_MAX][FORMATS_TEXT];
    for (uint32_t run = 0; run < RUNS; run++)
        for (uint32_t i = 0; i < folders; i++)
            spent[i][run] = load_ms(args[2 + i], threads, held[i]);
    double first = 0;
    for (uint32_t i = 0; i < folders; i++) {
        const char *slash = strrchr(args[2 + i], '/');
        double middle = median(spent[i], RUNS);
        first = i == 0 ? middle : first;
        printf("%-12s %8.1f ms (%.1f to %.1f), %.2f of the first, held as %s\n",
               slash ? slash + 1 : args[2 + i], middle, spent[i][0], spent[i][RUNS - 1],
               middle / first, held[i]);
    }
    return 0;
}
