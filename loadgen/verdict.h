// SPDX-License-Identifier: Apache-2.0
// Comparison of two results: the differences of their figures over pairs of runs, one primary
// figure, and the reasons for giving no verdict. Pure but for bench_comparison_print.
#pragma once

#include "loadgen/compare.h"

#include "base/json.h"

#include <stdio.h>

enum { BENCH_FIGURES_MAX = 12, BENCH_NOTES_MAX = 8 };

struct bench_comparison {
    struct bench_row_difference {
        const char *name; // name of the figure; not owned
        bool more_is_better;
        double a, b; // means over the runs
        struct bench_difference difference;
    } rows[BENCH_FIGURES_MAX]; // [count]; row 0 is the primary figure
    uint32_t count;
    bool bootstrap;    // true if the intervals are those of the bootstrap, not of Student's t
    char refusal[256]; // reason why there is no verdict; empty: there is one
    char notes[BENCH_NOTES_MAX][256]; // [note_count] facts that make the comparison doubtful
    uint32_t note_count;
};

// Compares two results of one server each. Pairs are the runs of equal index under "runs"; a result
// without "runs" is one run. Leaves out figures that are missing or zero in a run, and those that
// are the same multiple of an earlier one in all runs: Holm's correction would count them twice.
// primary: name of a figure, which `out` refers to; NULL: default of the load. bootstrap: true for
// intervals of the bootstrap. INVALID if the primary figure is left out, or if there are fewer than
// BENCH_BOOTSTRAP_PAIRS pairs for the bootstrap.
enum status bench_results_compare(struct bench_comparison *out, const json_t *a, const json_t *b,
                                  const char *primary, bool bootstrap, struct error *err) MUST_USE;
void bench_comparison_print(FILE *to, const struct bench_comparison *c);
void bench_comparison_json(struct json_buffer *out, const struct bench_comparison *c);
// Writes the verdict of a row, such as "B is better by 3.1 %".
void bench_verdict_text(char *out, size_t size, const struct bench_row_difference *row);
