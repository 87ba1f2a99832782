// The conversation of a generation -> prompt tokens. In on_prepare.
#pragma once

#include "http/api/generation.h"

// Sets tokens, prompt_tokens and detok_continues, or fails the fields.
void prompt_make(struct generation *g);
