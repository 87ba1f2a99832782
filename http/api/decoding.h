// SPDX-License-Identifier: Apache-2.0
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
// Reads cache_salt: the prompt shares cached KV blocks only with prompts of the same salt.
void decoding_read_salt(struct generation *g);

// Reads all fields of the table. tokens_max: the token limit of the answer; 0: the rest of the
// context window. Responses uses both as well.
extern const struct field_rules decoding_rules;
void decoding_read(struct generation *g, uint32_t tokens_max);
// Call it after decoding_read: adds `count` token ids that end the answer to those of the request,
// as many as REQUEST_STOP_IDS_MAX allows. Copies them; fails the fields if the arena is full.
void decoding_add_stops(struct generation *g, const int32_t *ids, uint32_t count);

// Which tokens may be sampled: allowed_token_ids and bad_words. Runs in on_prepare of chat
// completions, completions and Responses; sets g->submit.rules, which generation.c frees.

void token_fields_read(struct generation *g);

// Structured output: the fields that constrain the form of the answer (docs/STRUCTURED_OUTPUT.md).
// The structured_read functions run in on_prepare. If the grammar is unknown, the grammar thread
// compiles it before the request is submitted (generation.c).

enum { STRUCTURED_BYTES_MAX = 1 << 20 }; // of a schema or another grammar source

// Rules for the members of these fields.
extern const struct field_rules structured_format_members; // response_format
extern const struct field_rules structured_text_members;   // text
extern const struct field_rules structured_members;        // structured_outputs
extern const struct field_rules structured_config_members; // output_config
extern const struct field_rules structured_output_members; // output_format

// Reads response_format, structured_outputs and guided_* (chat completions, completions and
// Responses) and sets g->structured. Fails the fields if there is more than one.
void structured_read(struct generation *g);
// Responses: reads text.format in the same way.
void structured_read_responses(struct generation *g);
// Messages: reads output_config.format and output_format in the same way.
void structured_read_messages(struct generation *g);

// Sets g->structured to this source, with the alphabet of the model in place of source->alphabet.
// Keeps pointers to its text and to `path`, which must live as long as the exchange's arena.
void structured_set(struct generation *g, const struct grammar_source *source, const char *path);

// h2o thread, if g->structured has a source. Returns false if the grammar is unknown and must be
// compiled first. Otherwise the result is known: sets g->submit.grammar; or, if the source is
// rejected or its grammar does not fit into memory now, calls structured_skip for an optional
// grammar and fails the fields for any other.
bool structured_find(struct generation *g);
// Drops the grammar, which is optional, and the watch for the beginning of calls: the request is
// submitted without either.
void structured_skip(struct generation *g);
// Grammar thread: compiles the grammar if it is unknown, for the next structured_find. Accesses
// only g->structured and the cache.
void structured_compile(struct generation *g);
