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

// Renders and tokenizes the conversation: sets tokens, prompt_tokens and the options of the
// detokenizer and the reply parser. Fails the fields on errors.
void prompt_make(struct generation *g);

// Returns the text of the continued message; empty if there is none. After prompt_make.
struct text prompt_continued(const struct generation *g);
