// SPDX-License-Identifier: Apache-2.0
// Creates model folders in the quantised formats of safetensors from tests/golden/packed (see
// tools/golden_packed.py). One thread; every failure ends the test.
#pragma once

#include "tests/runtime/golden.h"

// Writes the model folder of a golden file: config.json, its other files, and the weights, whose
// bytes are a hash.
void packed_folder_write(const char *folder, const json_t *golden);
