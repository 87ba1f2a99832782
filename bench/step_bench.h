// What the files of bench_step and bench_masks share: the arguments, the shapes by name, one dummy
// model on one device. One thread; whoever opens closes.
#pragma once

#include "kernels/device.h"
#include "runtime/model/model.h"

struct step_args {
    const char *device, *library, *shape; // cpu; NULL: beside the program; NULL: products mode
    int dtype;                            // enum dtype, or -1: bfloat16
    uint32_t threads;
    bool exact, serial;
    double copy_rate, math_rate; // bytes and operations a second, for the floor; 0: not known
};

struct step_shape {
    const char *name, *architecture;
    uint32_t vocab, hidden, layers, heads, kv_heads, dim, intermediate, positions;
    bool tied, encoder;
    uint32_t tokens_max;          // of a step
    uint32_t fewer_rows, shorter; // the cases are divided by these
};

// Decode rows at a context and prompts, in one step.
struct step_case {
    const char *name;
    uint32_t decodes, context, prefills, length;
};

struct bench {
    struct device_api api; // a copy: its op table is switched between runs
    const struct op_table *whole;
    struct op_table products, timed;
    struct device *device, *ranks[RANKS_MAX]; // ranks of it, or NULL
    struct model_plan *plan;
    struct model *model;
    struct batch *batch;
    uint64_t step;
    float temperature; // of the rows
    double sample_ms;  // of the last step
    bool share_blocks; // decode rows read the same blocks: only for counting, memory is less
};

// step_cases.c
double now_ms(void);
double median(double *values, uint32_t count); // sorts them
void must(enum status status, const struct error *err);
const struct step_shape *shape_find(const char *name); // NULL: unknown, the names are printed
// False, with a line that says why, where the device is not there.
bool bench_device_open(struct bench *b, const struct step_args *args);
// Of a dummy model; the last three are its window, the most sequences and tokens of a step.
struct model_options bench_options(int dtype, uint32_t window, uint32_t rows, uint32_t tokens);
// kv_tokens: room for so many tokens of keys and values, encoders aside.
void bench_model_open(struct bench *b, const struct step_shape *shape,
                      const struct model_options *options, uint64_t kv_tokens);
void bench_close(struct bench *b);
void decodes_admit(struct bench *b, const struct step_case *c); // makes its decode rows resident
void generator_step(struct bench *b, const struct step_case *c, uint32_t index); // launches it
void bench_collect(struct bench *b); // waits for the oldest step's result
void cases_run(struct bench *b, const struct step_shape *shape, const struct step_args *args);
