// SPDX-License-Identifier: Apache-2.0
// Random ids. Any thread.
#pragma once

#include "base/arena.h"
#include "base/random.h"

#include <stdint.h>

enum { ID_LETTERS = 24 };

// Writes ID_LETTERS random letters and digits, without a NUL.
void id_letters(char out[ID_LETTERS]);

// Returns the prefix followed by ID_LETTERS random letters and digits, allocated in the arena; at
// == NULL: the arena's limit was reached.
struct text id_make(struct arena *arena, const char *prefix);
