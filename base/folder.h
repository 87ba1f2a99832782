// SPDX-License-Identifier: Apache-2.0
// Error sentences for a path that is not a model: what is at the path instead, and what to do.
#pragma once

#include "base/status.h"
#include "base/text.h"

// Size of buffers for paths inside a model folder; the path of the folder has at most half of it.
enum { FOLDER_BYTES_MAX = 4096 };

// Returns OK if the path is a folder, or a file that begins like a GGUF file. INVALID: the path is
// too long. NOT_FOUND: the sentence states that nothing is there, that it cannot be opened, or that
// the file has another format.
enum status folder_check(const char *path, struct error *err) MUST_USE;

// Always returns NOT_FOUND. The sentence is `path`, `lacks` (for example "has no config.json") and
// advice that depends on what the folder contains: model folders, files of other formats, an
// adapter.
enum status folder_lacks(const char *path, const char *lacks, struct error *err);
