// What a request says of thinking: on or off, how much effort, and how many tokens it may take.
// In on_prepare.
#pragma once

#include "http/api/generation.h"

// Members of chat's `thinking` and `reasoning`.
extern const struct field_rules thinking_chat_members, thinking_reasoning_members;

// The model can think: its template takes a switch, or its dialect has marks for it.
bool thinking_is_known(const struct served_model *model);

// Whether the template is told to think; after prompt_variables_read.
bool thinking_is_asked(const struct generation *g);
// Whether it is told not to.
bool thinking_is_off(const struct generation *g);

// At most so many tokens of reasoning in each choice, which the template is told, too, and which is
// all where the model has no marks for it. path: of the field that says so.
void thinking_budget_set(struct generation *g, uint32_t tokens, const char *path);

// Makes the rule that ends reasoning at the budget; after prompt_make.
void thinking_limit(struct generation *g);
