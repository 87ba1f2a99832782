// The conversation of a generation -> prompt tokens, and the fields that the template sees. In
// on_prepare.
#pragma once

#include "http/api/generation.h"

// chat_template_kwargs: any variables but those that are made here.
extern const struct field_rules prompt_kwargs_members;

// Sets the template's variables from chat_template_kwargs and reasoning_effort, which the first
// overrides. thinking_off: another field, or the endpoint, says so.
void prompt_variables_read(struct generation *g, bool thinking_off);

// Sets tokens, prompt_tokens and detok_continues, or fails the fields.
void prompt_make(struct generation *g);
