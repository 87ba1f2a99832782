// SPDX-License-Identifier: Apache-2.0
// Facts of a small generator, by which tests and fuzzers read batches as bytes. Constant data.
#pragma once

#include "runtime/model/model.h"

static const struct model_facts facts = {
    .kind = MODEL_GENERATOR,
    .vocab = 100,
    .max_model_len = 64,
    .paged = true,
    .block_tokens = 16,
    .block_count = 20,
    .limits = {.rows_max = 4,
               .tokens_max = 32,
               .slots_max = 4,
               .blocks_max = 4,
               .changes_max = 8,
               .new_sequences_max = 2,
               .history_max = 16,
               .bias_max = 3,
               .penalty_rows = 2,
               .vocab = 100},
};
