// The conversation of a generation -> prompt tokens, and the fields that the template sees. In
// on_prepare.
#pragma once

#include "http/api/generation.h"

// chat_template_kwargs: any variables but those that are made here.
extern const struct field_rules prompt_kwargs_members;

// What another field, or the endpoint, says of thinking.
enum prompt_thinking { THINKING_BY_TEMPLATE, THINKING_OFF, THINKING_ON };

// Sets the template's variables (thinking.c) from chat_template_kwargs and from the fields for
// thinking: reasoning_effort, thinking, reasoning and budgets; of Messages output_config.effort.
// The first overrides the others.
void prompt_variables_read(struct generation *g, enum prompt_thinking thinking);

// The turns of chat completions, and how they end: continue_final_message, add_generation_prompt.
void prompt_turns_read(struct generation *g);

// Sets tokens, prompt_tokens and the options of the detokenizer, or fails the fields.
void prompt_make(struct generation *g);

// The text of the message that is continued, or none; after prompt_make.
struct text prompt_continued(const struct generation *g);
