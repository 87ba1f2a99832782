// SPDX-License-Identifier: Apache-2.0
// The outline of a model, read from its declarations alone, without tokenizer and weights:
// architecture, format, and whether weft serves it. Loading thread only.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct model_outline {
    char architecture[64]; // name that config.json publishes; empty: none
    char text_part[64]; // type of the text part of a multimodal model; empty: config.json has none
    char format[160];   // "bfloat16", "quantized, fp8 (quantization_config)", "GGUF"
    uint32_t vocab;     // size of the vocabulary; 0: the model is not served
};

// Reads and checks config.json, or the header of a GGUF file, and nothing else of the model.
// Returns OK if nothing there prevents serving, else the reason; fills *out as far as it could be
// read.
enum status model_outline_read(struct model_outline *out, const char *folder,
                               struct error *err) MUST_USE;
