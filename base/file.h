// Reading a whole file.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

// A regular file of at most bytes_max bytes into memory owned by the arena, with a NUL after it;
// errors name the file. NOT_FOUND, TOO_LARGE or IO, which is also what is no regular file.
enum status file_read(struct text *out, struct arena *arena, const char *path, size_t bytes_max,
                      struct error *err) MUST_USE;
