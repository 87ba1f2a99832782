// SPDX-License-Identifier: Apache-2.0
// Measures the time to load model folders, each compared with the first: medians of interleaved
// runs, on the cpu device or, with --device, on another one. bench/load_folders.py writes one model
// in bfloat16 and in quantized formats; the aim is at most 1.5 times the time of the bfloat16
// folder. The files should be in the page cache, as they are after writing them: then the time is
// that of decoding and packing.
//
// Usage: bench_load [--ranks N] [--device cuda|simt FILE] THREADS FOLDER...
//        N: ranks that share each model; FILE: the device's library
#include "bench/step_bench.h"

#include "kernels/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 3, FOLDERS_MAX = 16 };

static const struct device_api *api;
static uint32_t threads, ranks = 1;
static double loaded_at; // time of the last progress

static void progress_note(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    (void)done;
    (void)total;
    loaded_at = now_ms();
}

// Loads a folder and returns the milliseconds until its weights are loaded. Writes how they are
// held.
static double load_ms(const char *folder, char held[FORMATS_TEXT])
{
    struct error err;
    struct device *device, *split[RANKS_MAX] = {NULL};
    struct model_plan *plan;
    struct model *model;
    struct device_options with = {.threads = threads, .exact = true};
    struct model_options options = bench_options(-1, 1024, 1, 512);
    options.load_dummy = false;
    must(api->open(&device, &with, &err), &err);
    for (uint32_t r = 0; r < ranks && ranks > 1; r++) {
        struct device_options rank = {.index = r, .ranks = ranks, .parent = device, .exact = true};
        must(api->open(&split[r], &rank, &err), &err);
    }
    options.share.tp_size = ranks;
    options.devices = ranks > 1 ? split : NULL;
    double start = now_ms();
    must(model_plan_open(&plan, folder, api, ranks > 1 ? split[0] : device, &options, &err), &err);
    must(model_open(&model, plan, plan->kv_bytes_min, progress_note, NULL, &err), &err);
    double spent = loaded_at - start;
    const struct model_facts *facts = model_facts(model);
    snprintf(held, FORMATS_TEXT, "%s",
             facts->formats[0] != '\0' ? facts->formats : dtype_name(facts->dtype));
    model_close(model);
    model_plan_close(plan);
    for (uint32_t r = 0; r < RANKS_MAX && split[r]; r++)
        api->close(split[r]);
    api->close(device);
    return spent;
}

int main(int count, char **args)
{
    struct error err;
    api = device_cpu();
    for (; count > 2 && strcmp(args[1], "--ranks") == 0; count -= 2, args += 2)
        ranks = (uint32_t)strtoul(args[2], NULL, 10);
    for (; count > 3 && strcmp(args[1], "--device") == 0; count -= 3, args += 3)
        must(device_plugin_open(&api, args[2], args[3], &err), &err);
    if (count < 3 || count - 2 > FOLDERS_MAX || ranks < 1 || ranks > RANKS_MAX) {
        fprintf(stderr, "usage: see the head of bench/bench_load.c; at most %d folders\n",
                FOLDERS_MAX);
        return 2;
    }
    threads = (uint32_t)strtoul(args[1], NULL, 10);
    uint32_t folders = (uint32_t)count - 2;
    static double spent[FOLDERS_MAX][RUNS];
    static char held[FOLDERS_MAX][FORMATS_TEXT];
    for (uint32_t run = 0; run < RUNS; run++)
        for (uint32_t i = 0; i < folders; i++)
            spent[i][run] = load_ms(args[2 + i], held[i]);
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
