// Structured output: the fields that constrain the form of the answer (docs/STRUCTURED_OUTPUT.md).
// The structured_read functions run in on_prepare. If the grammar is unknown, the grammar thread
// compiles it before the request is submitted (generation.c).
#pragma once

#include "http/api/generation.h"

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

// Sets g->structured to this source. Keeps pointers to its text and to `path`, which must live as
// long as the exchange's arena.
void structured_set(struct generation *g, const struct grammar_source *source, const char *path);

// h2o thread, if g->structured has a source. Sets g->submit.grammar, or fails the fields with the
// path of the field. Returns false if it did neither: the grammar must be compiled first.
bool structured_find(struct generation *g);
// Grammar thread: compiles the grammar if it is unknown, for the next structured_find. Accesses
// only g->structured and the cache.
void structured_compile(struct generation *g);
