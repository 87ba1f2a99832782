// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of header length, a JSON header, then the bytes of all tensors
// without gaps. tensors.h opens the files of a checkpoint. Loading thread only.
#pragma once

#include "runtime/model/tensors.h"

enum {
    TENSOR_HEADER_MAX = 100 << 20,        // bytes of a header; limit of the format
    TENSOR_VALUES_MAX = 16 * TENSORS_MAX, // JSON values of a header
};

// Parses one safetensors file whose bytes are `file`; *out lies in the arena. `name` is the file's
// name for messages. The fuzzer calls this function.
enum status safetensors_parse(struct tensor **out, uint32_t *count, struct arena *arena,
                              struct text file, const char *name, struct error *err) MUST_USE;
