// SPDX-License-Identifier: Apache-2.0
// Reading a complete file, and the files that are installed with the program.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

// Reads a regular file of at most bytes_max bytes into memory of the arena, with a NUL after it
// that is not counted in out->bytes. Errors name the file: NOT_FOUND; TOO_LARGE; NO_MEMORY if the
// arena's limit would be exceeded; INVALID if it is a Git LFS pointer; IO for other failures and if
// it is not a regular file.
enum status file_read(struct text *out, struct arena *arena, const char *path, size_t bytes_max,
                      struct error *err) MUST_USE;

// Returns true for the text that Git checks out in place of a large file that was not fetched.
bool file_is_lfs_pointer(struct text file);

// Writes the absolute path of a file that is installed with the program into path[size]. relative:
// path from the folder of the executable, for example "../share/weft/models". Does not check that
// the file exists. Returns false if that folder is unknown or the path does not fit.
bool file_of_program(char *path, size_t size, const char *relative);
