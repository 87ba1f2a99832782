// What answers say of who made them: system_fingerprint.
#pragma once

#include "cli/load.h"

enum { FINGERPRINT_BYTES = 16 };

// "fp_" and ten hexadecimal digits of a hash: build, weights, config.json, generation_config.json,
// the tokenizer's files, chat template and the options that change answers. Equal for processes
// that are equal.
void fingerprint_make(char out[FINGERPRINT_BYTES], const struct loaded_model *model);
