// SPDX-License-Identifier: Apache-2.0
// Shared by bench_step and bench_masks: the arguments, the shapes by name, and one dummy model on
// one device. One thread; the caller that opens a bench closes it.
#pragma once

#include "kernels/device.h"
#include "runtime/model/model.h"

struct step_args {
    // library: NULL is the default path of the device; shape: NULL is the mode of products only
    const char *device, *library, *shape;
    const char *model; // products only: a folder or GGUF file; NULL: a dummy model
    int dtype;         // enum dtype, MODEL_FP8, or -1: bfloat16
    uint32_t threads;
    uint32_t batch; // products only: rows of the decode steps; 0: several numbers, and a prefill
    uint32_t cases; // most cases that are run of each shape; 0: all
    uint32_t ranks; // number of ranks that share the model of a shape; 0: not split
    bool exact, serial;
    uint32_t ways;               // bits of enum device_way
    double copy_rate, math_rate; // bytes, operations per second for the floor; 0: unknown
};

struct step_shape {
    const char *name, *architecture;
    uint32_t vocab, hidden, layers, heads, kv_heads, dim, intermediate, positions;
    bool tied, encoder;
    uint32_t tokens_max;          // most tokens per step
    uint32_t fewer_rows, shorter; // divisors of the rows and lengths of the cases
    uint32_t experts,
        chosen; // experts of a layer and of a token, each of the width `intermediate`; 0: dense
};

// Decode rows at a context length, and prompts to prefill, in one step.
struct step_case {
    const char *name;
    uint32_t decodes, context, prefills, length;
};

struct bench {
    struct device_api api; // a copy, because its op table is switched between runs
    const struct op_table *all_ops;
    struct op_table products, timed;
    struct device *device, *ranks[RANKS_MAX]; // ranks of `device`, or NULL
    struct model_plan *plan;
    struct model *model;
    struct batch *batch;
    uint64_t step;
    float temperature; // sampling temperature of the rows
    double sample_ms;  // sampling time of the last step
    bool fewer_blocks; // true: at most as many KV blocks as fit on the device
    bool share_blocks; // true if decode rows share blocks: only for counting, needs less memory
};

// step_cases.c
double now_ms(void);
double median(double *values, uint32_t count); // sorts the values
void must(enum status status, const struct error *err);
const struct step_shape *shape_find(const char *name); // NULL: unknown; prints the names
// Returns false, and prints why, if the device is not available.
bool bench_device_open(struct bench *b, const struct step_args *args);
// Returns the options of a dummy model with this window and this many sequences and tokens per
// step.
struct model_options bench_options(int dtype, uint32_t window, uint32_t rows, uint32_t tokens);
// shape: of a dummy model, or NULL to open the model at `folder`. kv_tokens: tokens of KV blocks to
// allocate (not for encoders).
void bench_model_open(struct bench *b, const struct step_shape *shape, const char *folder,
                      const struct model_options *options, uint64_t kv_tokens);
void bench_close(struct bench *b);
void decodes_admit(struct bench *b, const struct step_case *c); // makes decode rows resident
void generator_step(struct bench *b, const struct step_case *c, uint32_t index); // launches it
void bench_collect(struct bench *b); // waits for the oldest step's result
void cases_run(struct bench *b, const struct step_shape *shape, const struct step_args *args);
