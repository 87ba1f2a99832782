// The law of sampling: the probabilities that the definitions of the methods give to each token of
// a row, in double and in the plainest way, and the counts of many draws of a device.
#pragma once

#include "tests/conformance/trial.h"

enum { LAW_VOCAB_MAX = 64, LAW_BIAS_MAX = 8 };

struct law {
    uint32_t vocab;
    float logits[LAW_VOCAB_MAX];
    float temperature, top_p, min_p; // above 0; 1: off; 0: off
    uint32_t top_k;                  // 0: off
    float repetition, frequency, presence;
    uint16_t seen[LAW_VOCAB_MAX]; // as in the penalty table: bit 15 of the prompt, and a count
    uint64_t allowed;             // the mask: a bit a token; 0: no mask
    uint32_t output_min, stop_count;
    int32_t stop_ids[SAMPLE_STOP_IDS_MAX];
    uint32_t bias_count;
    struct step_bias bias[LAW_BIAS_MAX];
    uint64_t seed;
};

// p: [vocab], the whole is 1. The order is that of kernels/ops.h. Stop ids are left out where
// output_min is not 0: it is to be above all draws.
void law_probabilities(const struct law *law, double *p);

enum law_draws {
    LAW_OUTPUTS, // the outputs of one sequence after each other
    LAW_SEEDS,   // the first output of sequences with seeds of their own
    LAW_CHOICES, // the first output of the choices of one request
    // Two draws each, counted together: counts are [vocab][vocab], which is at most LAW_VOCAB_MAX.
    LAW_PAIRS_OF_CHOICES, // the first outputs of two choices of one request
    LAW_PAIRS_OF_OUTPUTS, // two outputs after each other
};
void law_draw(struct trial *t, const struct law *law, enum law_draws kind, uint32_t draws,
              uint32_t *counts);

// By how many standard deviations the counts are further from p than chance would have them; above
// 5 nobody believes in chance. A token without probability that was drawn: INFINITY.
double law_excess(const double *p, const uint32_t *counts, uint32_t vocab);
