// SPDX-License-Identifier: Apache-2.0
// Converts the conversation of a generation to prompt tokens, and reads the fields that the chat
// template sees. Runs in on_prepare.
#pragma once

#include "http/api/generation.h"

// Members of chat_template_kwargs: any template variable except those that weft sets.
extern const struct field_rules prompt_kwargs_members;

// Thinking as set by the endpoint or one of its other fields.
enum prompt_thinking { THINKING_BY_TEMPLATE, THINKING_OFF, THINKING_ON };

// Sets the template's variables (thinking.c) from the fields for thinking: reasoning_effort,
// thinking, reasoning and budgets, for Messages also output_config.effort; then from
// chat_template_kwargs, which override them.
void prompt_variables_read(struct generation *g, enum prompt_thinking thinking);

// Reads the messages of chat completions, continue_final_message and add_generation_prompt.
void prompt_turns_read(struct generation *g);

// Renders and tokenizes the conversation: sets the results in g->prompt and the options of the
// detokenizer and the reply parser. Fails the fields on errors.
void prompt_make(struct generation *g);

// Returns the text of the continued message; empty if there is none. After prompt_make.
struct text prompt_continued(const struct generation *g);

// The request's settings for thinking: on or off, the effort, and the token budget. Runs in
// on_prepare.

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

// If the request has a budget, adds the token rule that ends reasoning there; fails the fields if
// the tokenizer cannot write the end of reasoning. After prompt_make.
void thinking_limit(struct generation *g);
