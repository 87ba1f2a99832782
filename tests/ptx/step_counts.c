// SPDX-License-Identifier: Apache-2.0
// Counts launches, graph nodes and copied bytes of complete steps, for a model with the attention
// heads of a large model and small dimensions otherwise. Only the signals run: launches and copies
// do not depend on results.
#include "tests/ptx/step_counts.h"

#include "bench/step_bench.h"
#include "tests/ptx/launch.h"
#include "tests/simt/control.h"

#include <inttypes.h>
#include <stdio.h>

static void step_count(struct bench *b, const struct step_case *c, uint32_t layers, bool exact)
{
    struct simt_counts counts;
    if (c->decodes != 0)
        decodes_admit(b, c);
    simt_reset();
    generator_step(b, c, 0);
    bench_collect(b);
    simt_read(&counts);
    printf("{\"case\":\"%s%s\",\"kernel\":\"step\",\"layers\":%u,\"launches\":%" PRIu64
           ",\"nodes\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"early\":%" PRIu64 "}\n",
           c->name, exact ? ", exact" : "", layers, counts.launches + counts.blas_calls,
           counts.graph_nodes, counts.copied_bytes, counts.early);
}

static void model_count(const struct device_api *api, uint32_t layers, bool exact)
{
    static const struct step_case cases[] = {{"decode 1", 1, 64, 0, 0},
                                             {"decode 256", 256, 64, 0, 0},
                                             {"decode 256 at 8000", 256, 8000, 0, 0},
                                             {"prefill 64", 0, 0, 1, 64}};
    const struct step_shape shape = {"counted", "LlamaForCausalLM",
                                     512,       64,
                                     layers,    8,
                                     8,         16,
                                     96,        8192,
                                     false,     false,
                                     8192,      1,
                                     1,         0,
                                     0};
    struct model_options options = {.dtype = -1,
                                    .kv_dtype = -1,
                                    .max_model_len = 8192,
                                    .max_num_seqs = 256,
                                    .max_num_batched_tokens = 512, // tuning tries up to here
                                    .block_size = 64,
                                    .load_dummy = true};
    struct bench b = {.api = *api, .all_ops = api->ops, .share_blocks = true};
    struct device_options how = {.exact = exact};
    struct error err;
    must(api->open(&b.device, &how, &err), &err);
    bench_model_open(&b, &shape, NULL, &options, 64 * 1024);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        step_count(&b, &cases[i], layers, exact);
    bench_close(&b);
}

void step_counts(const struct device_api *api)
{
    ptx_run_only("signal_kernel(");
    for (uint32_t layers = 2; layers <= 4; layers += 2) {
        model_count(api, layers, false);
        model_count(api, layers, true);
    }
    ptx_run_only(NULL);
}
