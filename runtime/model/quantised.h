// SPDX-License-Identifier: Apache-2.0
// The declarations by which a model folder states that its checkpoint is quantised: keys of
// config.json and files next to it. Loading thread only.
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

struct quantised {
    char method[80];   // "fp8", "modelopt NVFP4", "gptq 4 bits"
    const char *where; // key or file that declares it; NULL: the checkpoint is not quantised
};

// Reads quantization_config of config.json, also in the text part of a multimodal model.
struct quantised quantised_by_config(const json_t *config);

// Reads the files in which some tools declare it without a key in config.json:
// hf_quant_config.json, quantize_config.json and quant_config.json.
enum status quantised_by_files(struct quantised *out, const char *folder,
                               struct error *err) MUST_USE;

// Returns OK, or UNSUPPORTED with a sentence that names method and place.
enum status quantised_check(const struct quantised *quantised, struct error *err) MUST_USE;
