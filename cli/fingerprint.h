// SPDX-License-Identifier: Apache-2.0
// system_fingerprint: identifies the build, model and options that produced an answer.
#pragma once

#include "cli/load.h"

enum { FINGERPRINT_BYTES = 16 };

// Writes "fp_" and ten hexadecimal digits of a hash over build, weights, config.json,
// generation_config.json, the tokenizer's files, the chat template and the options that change
// answers. Processes that agree in these have equal fingerprints.
void fingerprint_make(char out[FINGERPRINT_BYTES], const struct loaded_model *model);
