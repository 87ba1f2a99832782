// SPDX-License-Identifier: Apache-2.0
// The distribution of sampled tokens: the probability of each token of a row, computed in double
// from the definitions of the sampling methods, and the counts of many draws of a device.
#pragma once

#include "tests/conformance/trial.h"

enum { DISTRIBUTION_VOCAB_MAX = 64, DISTRIBUTION_BIAS_MAX = 8 };

struct distribution {
    uint32_t vocab;
    float logits[DISTRIBUTION_VOCAB_MAX];
    float temperature, top_p, min_p; // temperature above 0; top_p 1: off; min_p 0: off
    uint32_t top_k;                  // 0: off
    float repetition, frequency, presence;
    uint16_t seen[DISTRIBUTION_VOCAB_MAX]; // as in the penalty table: bit 15: in the prompt; bits 0
                                           // to 14: output count
    uint64_t allowed;                      // the mask: bit i allows token i; 0: no mask
    uint32_t output_min, stop_count;
    int32_t stop_ids[SAMPLE_STOP_IDS_MAX];
    uint32_t bias_count;
    struct step_bias bias[DISTRIBUTION_BIAS_MAX];
    uint64_t seed;
};

// Computes p [vocab], whose sum is 1. The order of the methods is that of kernels/ops.h. If
// output_min is not 0, stop ids have no probability: it must exceed the number of draws.
void distribution_probabilities(const struct distribution *d, double *p);

enum distribution_draws {
    DISTRIBUTION_OUTPUTS, // consecutive outputs of one sequence
    DISTRIBUTION_SEEDS,   // the first output of sequences with different seeds
    DISTRIBUTION_CHOICES, // the first output of the choices of one request
    // Pairs of draws; counts are [vocab][vocab], with at most DISTRIBUTION_VOCAB_MAX cells.
    DISTRIBUTION_PAIRS_OF_CHOICES, // the first outputs of two choices of one request
    DISTRIBUTION_PAIRS_OF_OUTPUTS, // two consecutive outputs of a choice
};
void distribution_draw(struct trial *t, const struct distribution *d, enum distribution_draws kind,
                       uint32_t draws, uint32_t *counts);

// Returns how many standard deviations the counts are from p beyond what chance explains; above 5
// the difference is no chance. INFINITY: a token without probability was drawn.
double distribution_excess(const double *p, const uint32_t *counts, uint32_t vocab);
