// Structured output: the fields that say what an answer must be (docs/STRUCTURED_OUTPUT.md).
// structured_read is for on_prepare; what it finds is compiled by the grammar thread before the
// request is submitted (generation.c).
#pragma once

#include "http/api/generation.h"

enum { STRUCTURED_BYTES_MAX = 1 << 20 }; // of a schema or another source

// Members of the fields.
extern const struct field_rules structured_format_members; // response_format
extern const struct field_rules structured_text_members;   // text
extern const struct field_rules structured_members;        // structured_outputs
extern const struct field_rules structured_config_members; // output_config
extern const struct field_rules structured_output_members; // output_format

// Of chat completions, completions and Responses: response_format, structured_outputs, guided_*.
// Sets g->structured; at most one of them may be there.
void structured_read(struct generation *g);
// Of Responses: text.format.
void structured_read_responses(struct generation *g);
// Of Messages: output_config.format, output_format.
void structured_read_messages(struct generation *g);

// Makes this the source of g, of which a text in the exchange's arena is kept.
void structured_set(struct generation *g, const struct grammar_source *source, const char *path);

// h2o thread, once g->structured names a source. Sets g->submit.grammar, or fails with the path of
// the field; false: neither, because it must be compiled first.
bool structured_find(struct generation *g);
// The grammar thread: compiles what is not known, for the next structured_find. Touches nothing but
// g->structured.
void structured_compile(struct generation *g);
