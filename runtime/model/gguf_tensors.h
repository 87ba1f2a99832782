// SPDX-License-Identifier: Apache-2.0
// The tensors of a GGUF file under the names that a Hugging Face folder of the model uses, so that
// the lists of weights need not know the source. Loading thread only.
#pragma once

#include "runtime/model/arch.h"
#include "runtime/model/tensors.h"

// Names of the tensors of a mixture of experts, equal for all families of GGUF files.
extern const struct arch_experts gguf_experts;

// Lists the tensors of a parsed GGUF file; *out and the names lie in the arena, the tensors point
// into the file, which must outlive them. Refuses a tensor name that the architecture
// does not have: the file then belongs to a variant that would be served wrongly. Leaves out layers
// that only predict further tokens. Every remaining tensor must be consumed by weight_list_make.
enum status gguf_tensors_list(struct tensor **out, uint32_t *count, struct arena *arena,
                              const struct gguf *file, struct error *err) MUST_USE;

// Writes the file's name of a tensor with this folder name; returns false if there is none.
bool gguf_tensor_name_back(char out[TENSOR_NAME_MAX], const char *name, const struct gguf *file);
