// The fields that say how tokens are chosen and where an answer ends: those that all endpoints
// share, and the ones of OpenAI's two shapes with their table. In on_prepare.
#pragma once

#include "http/api/generation.h"

// Temperature up to the maximum, top_p, top_k from its minimum, min_p, the repetition penalty; a
// random seed. What the request leaves open is the operator's default (--generation-config).
void decoding_read_sampling(struct generation *g, double temperature_max, int64_t top_k_min);
// What a request without a limit may have: the operator's default, else `usual`.
uint32_t decoding_tokens_default(const struct generation *g, uint32_t usual);
// Strings of a stop field, at most `max`; empty ones are dropped.
void decoding_read_stops(struct generation *g, const char *name, bool string_allowed, uint32_t max);

// Chat completions and completions: all fields of the table. tokens_max: what the answer may have,
// 0: what the context leaves.
extern const struct field_rules decoding_rules;
void decoding_read(struct generation *g, uint32_t tokens_max);
