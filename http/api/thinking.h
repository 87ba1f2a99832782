// The request's settings for thinking: on or off, the effort, and the token budget. Runs in
// on_prepare.
#pragma once

#include "http/api/generation.h"

// Rules for the members of `thinking` and `reasoning` of chat completions.
extern const struct field_rules thinking_chat_members, thinking_reasoning_members;

// Returns true if the model can think: its template has a switch, or its dialect has markers for
// it.
bool thinking_is_supported(const struct served_model *model);

// Returns true if the template's variables turn thinking on. After prompt_variables_read.
bool thinking_is_on(const struct generation *g);
// Returns true if the template's variables turn thinking off.
bool thinking_is_off(const struct generation *g);

// Limits the reasoning of each choice to this many tokens. The template also gets the limit, unless
// thinking is off; if the model has no reasoning markers, this is the only effect. path: of the
// field that sets the limit.
void thinking_budget_set(struct generation *g, uint32_t tokens, const char *path);

// Creates the token rule that ends reasoning at the budget. After prompt_make.
void thinking_limit(struct generation *g);
