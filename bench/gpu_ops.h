// What the two files of gpu_ops share: the device under test, its rates as measured in this run,
// and how a row is timed and printed. One thread; memory is given back by whoever took it.
#pragma once

#include "kernels/device.h"

enum { REPEATS = 20 };

struct bench {
    const struct device_api *api;
    struct device *device;
    uint32_t *done;
    uint32_t signals;
    double copy_rate; // bytes a second, read and write counted
    double math_rate; // of the best product so far
    bool small;
};

struct bench_row {
    const char *op, *shape;
    double seconds, bytes, flops;
};

void need(enum status status, const char *what); // exits where it is not OK
void *take(struct bench *b, size_t bytes);
void settle(struct bench *b, struct stream *stream); // waits for all that was launched
struct weight random_weight(struct bench *b, uint32_t n, uint32_t k, uint64_t seed);
struct stream *open_stream(struct bench *b, const struct stream_limits *limits);
void print_row(struct bench *b, const struct bench_row *row);

// gpu_rows.c: norms, qkv_post, sampling, launch gaps and the way of a signal to the host.
void bench_rows(struct bench *b);
