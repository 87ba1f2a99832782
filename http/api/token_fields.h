// Which tokens may be sampled: allowed_token_ids and bad_words. Runs in on_prepare of chat
// completions, completions and Responses; sets g->submit.rules, which generation.c frees.
#pragma once

#include "http/api/generation.h"

void token_fields_read(struct generation *g);
