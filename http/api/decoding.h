// The fields that control sampling and the end of an answer: those that all endpoints share, and
// those of chat completions and completions with their table. Runs in on_prepare.
#pragma once

#include "http/api/generation.h"

// Reads temperature (0 to temperature_max), top_p, top_k (from top_k_min), min_p and the repetition
// penalty, and sets a random seed. The defaults are the operator's (--generation-config).
void decoding_read_sampling(struct generation *g, double temperature_max, int64_t top_k_min);
// Returns the token limit of a request that sets none: the operator's default, else `usual`.
uint32_t decoding_tokens_default(const struct generation *g, uint32_t usual);
// Reads the stop strings of field `name`: an array, or also a single string if string_allowed. More
// than `max` fail the fields; empty strings are dropped.
void decoding_read_stops(struct generation *g, const char *name, bool string_allowed, uint32_t max);

// Reads all fields of the table. tokens_max: the token limit of the answer; 0: the rest of the
// context window. Responses uses both as well.
extern const struct field_rules decoding_rules;
void decoding_read(struct generation *g, uint32_t tokens_max);
