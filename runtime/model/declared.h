// SPDX-License-Identifier: Apache-2.0
// The formats that the declaration of a quantised folder gives its modules, for plans and weights
// without a checkpoint: the format of all modules, the modules that it leaves out, and those to
// which it gives another format. With a checkpoint, packed_find.h decides by the tensors instead.
// Loading thread only.
#pragma once

#include "runtime/model/quantised.h"

struct declaration;

// Reads the declaration of a folder: quantization_config of config.json, or another tool's
// file next to it. *out is NULL if the folder declares nothing. log: true to log patterns that are
// not read.
enum status declaration_open(struct declaration **out, const char *folder, bool log,
                             struct error *err) MUST_USE;
void declaration_close(struct declaration *); // NULL is allowed

// Returns the format of a module; `quantized` is false if it has floats. names: the module's name
// ("model.layers.0.mlp.up_proj"), and others that it has in other checkpoints of its architecture.
struct declared_format declaration_format(const struct declaration *, const char *const *names,
                                          uint32_t count);
