// Random ids. Any thread.
#pragma once

#include "base/arena.h"
#include "base/random.h"

#include <stdint.h>

enum { ID_LETTERS = 24 };

// So many letters and digits; no NUL.
void id_letters(char out[ID_LETTERS]);

// The prefix and an id's letters. at == NULL: the arena's limit was met.
struct text id_make(struct arena *arena, const char *prefix);
