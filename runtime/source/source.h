// The files of a model, whether they lie in a Hugging Face folder or a GGUF file stands for them:
// MODEL.gguf/config.json is what its keys say, written as config.json. Readers of a model name
// files of a folder and do not know which it is; the tensors are in runtime/model/safetensors.h.
// Loading thread only.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

// As file_read (base/file.h). NOT_FOUND also where a GGUF file says nothing of what the file of
// this name would hold.
enum status model_file_read(struct text *out, struct arena *arena, const char *path,
                            size_t bytes_max, struct error *err) MUST_USE;

// Whether the path is a GGUF file or leads into one; *end is then where the part after it begins,
// which may be empty.
bool source_is_gguf(const char *path, size_t *end);
