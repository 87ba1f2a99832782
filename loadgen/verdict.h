// SPDX-License-Identifier: Apache-2.0
// Comparison of two results: the figures of their runs in pairs, one primary figure, and the
// reasons not to give a verdict.
#pragma once

#include "loadgen/compare.h"

#include "base/json.h"

#include <stdio.h>

enum { BENCH_FIGURES_MAX = 12, BENCH_NOTES_MAX = 8 };

struct bench_comparison {
    struct bench_row_difference {
        const char *name;
        bool more_is_better;
        double a, b; // means over the runs
        struct bench_difference difference;
    } rows[BENCH_FIGURES_MAX]; // [count]; row 0 is the primary figure
    uint32_t count;
    char refusal[256]; // why there is no verdict; empty: there is one
    char notes[BENCH_NOTES_MAX][256];
    uint32_t note_count;
};

// Compares two results, each with or without "runs". primary: name of a figure, or NULL for the
// default of the load. An error if the results have no figures in common.
enum status bench_results_compare(struct bench_comparison *out, const json_t *a, const json_t *b,
                                  const char *primary, struct error *err) MUST_USE;
void bench_comparison_print(FILE *to, const struct bench_comparison *c);
void bench_comparison_json(struct json_buffer *out, const struct bench_comparison *c);
// Writes the verdict of a row in a few words.
void bench_verdict_text(char *out, size_t size, const struct bench_row_difference *row);
