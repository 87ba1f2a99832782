// Which tokens may come: allowed_token_ids and bad_words. On_prepare of chat completions and
// completions; sets g->submit.rules, which generation.c gives back.
#pragma once

#include "http/api/generation.h"

void token_fields_read(struct generation *g);
