// SPDX-License-Identifier: Apache-2.0
// Errors of a model's results against those of transformers in a golden file. One thread; every
// failure ends the test.
#pragma once

#include "tests/runtime/model_rig.h"

#include <jansson.h>

struct golden_errors {
    double largest;   // largest |got - want| / largest |want|
    double frobenius; // relative error in the Frobenius norm
};

// Compares finite results, [inputs][width], with "expected" of the golden file.
struct golden_errors golden_errors_of(const json_t *golden, const float *got, uint32_t width);
// Runs each input of the golden file of a generator by itself, and compares the logits of its last
// token.
struct golden_errors golden_logits_errors(struct rig *rig, const json_t *golden);

// Fails the test unless a model that holds codes has the errors of the same model with the bfloat16
// elements that they mean, to the last bit. Not for the cpu device, which rounds activations.
void golden_same_as_bfloat16(const char *path, const struct model_options *held,
                             const json_t *golden, const struct golden_errors *errors);
