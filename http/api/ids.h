// Random names of answers: "chatcmpl-" and 24 letters and digits.
#pragma once

#include "base/arena.h"

#include <stdint.h>

// at == NULL: the arena's limit was met.
struct text id_make(struct arena *arena, const char *prefix);

uint64_t random_seed(void);
