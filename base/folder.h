// What to tell somebody whose path is not a model: what lies there instead and what to do.
#pragma once

#include "base/status.h"
#include "base/text.h"

enum { FOLDER_BYTES_MAX = 4096 };

// OK where the path is a folder or begins as a GGUF file does; else the sentence says that nothing
// is there (the path may be the id of a model on a hub) or that it is a file of another format.
enum status folder_check(const char *path, struct error *err) MUST_USE;

// NOT_FOUND with "PATH LACKS" and a remedy that depends on what the folder holds: model folders,
// files of other formats, an adapter. lacks: "has no config.json".
enum status folder_lacks(const char *path, const char *lacks, struct error *err);
