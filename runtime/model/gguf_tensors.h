// Tensors of a GGUF file under the names that a Hugging Face folder of the model has, so that the
// lists of weights need not know the source. Loading thread only.
#pragma once

#include "runtime/model/safetensors.h"

// As safetensors_parse. A name that the architecture does not have is refused: the file then
// belongs to a variant that would be served wrongly. Of the others weight_list_make must take every
// one.
enum status gguf_tensors_parse(struct tensor **out, uint32_t *count, struct arena *arena,
                               struct text file, const char *name, struct error *err) MUST_USE;

// The file's name of a tensor with this name; false: it has none.
bool gguf_tensor_name_back(char out[TENSOR_NAME_MAX], const char *name);
