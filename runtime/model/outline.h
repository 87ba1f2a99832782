// SPDX-License-Identifier: Apache-2.0
// A model by its declarations alone, without tokenizer and weights: what it is, and whether weft
// serves it. Loading thread only.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct model_outline {
    char architecture[64]; // name that config.json publishes; empty: none
    char format[160];      // "bfloat16", "quantised, fp8 (quantization_config)", "GGUF"
    uint32_t vocab;        // size of the vocabulary; 0: the model is not served
};

// Reads config.json and judges it before anything else of the model is read. Returns OK if nothing
// in it prevents serving, else the reason; *out is filled as far as the file could be read.
enum status model_outline_read(struct model_outline *out, const char *folder,
                               struct error *err) MUST_USE;
