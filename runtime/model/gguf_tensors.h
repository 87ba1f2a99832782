// Tensors of a GGUF file under the names that a Hugging Face folder of the model has, so that the
// lists of weights need not know the source. Loading thread only.
#pragma once

#include "runtime/model/safetensors.h"

// As safetensors_parse. A tensor that the architecture has no use for is refused: the file then
// belongs to a variant that would be served wrongly.
enum status gguf_tensors_parse(struct tensor **out, uint32_t *count, struct arena *arena,
                               struct text file, const char *name, struct error *err) MUST_USE;

// The file's name of a tensor with this name; false: it has none.
bool gguf_tensor_name_back(char out[TENSOR_NAME_MAX], const char *name);
