// Reading a whole file.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

// A regular file of at most bytes_max bytes into memory owned by the arena, a NUL behind it; errors
// name the file. NOT_FOUND: there is none; TOO_LARGE; IO: anything else that lies there, too.
enum status file_read(struct text *out, struct arena *arena, const char *path, size_t bytes_max,
                      struct error *err) MUST_USE;
