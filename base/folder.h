// SPDX-License-Identifier: Apache-2.0
// Error sentences for a path that is not a model: what is at the path instead, and what to do.
#pragma once

#include "base/status.h"
#include "base/text.h"

enum { FOLDER_BYTES_MAX = 4096 };

// Returns OK if the path is a folder, or a file that begins like a GGUF file. Otherwise the error
// sentence states that nothing is there or that the file has another format.
enum status folder_check(const char *path, struct error *err) MUST_USE;

// Returns NOT_FOUND with the sentence "PATH LACKS" and advice that depends on the content of the
// folder: model folders, files of other formats, an adapter. lacks: for example "has no
// config.json".
enum status folder_lacks(const char *path, const char *lacks, struct error *err);
