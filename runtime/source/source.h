// SPDX-License-Identifier: Apache-2.0
// Reads the files of a model from a Hugging Face folder or from a GGUF file that replaces it:
// MODEL.gguf/config.json is the content of the file's keys in the form of config.json. Readers of a
// model name files of a folder and do not know which of the two it is. runtime/model/tensors.h
// reads the tensors. Loading thread only.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct model_source; // gguf_file.h

// Reads a file of at most bytes_max bytes into the arena, like file_read (base/file.h): NOT_FOUND,
// TOO_LARGE or IO. `path` may lead into a GGUF file; NOT_FOUND if that has nothing for a file of
// this name.
enum status model_file_read(struct text *out, struct arena *arena, const char *path,
                            size_t bytes_max, struct error *err) MUST_USE;

// An open model. While its caller keeps it open, a GGUF file is mapped and parsed only once for all
// of the model's readers, which find it by its path. NULL for a folder, which needs nothing, and
// for a file that cannot be read: the readers report the error.
struct model_source *model_source_open(const char *model);
void model_source_close(struct model_source *source); // NULL is allowed

// Returns true if the path is a GGUF file or leads into one. *end is then the length of the part
// that is the GGUF file; the rest may be empty.
bool source_is_gguf(const char *path, size_t *end);
