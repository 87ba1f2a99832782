// The fields `tools`, `tool_choice` and `parallel_tool_calls` of chat completions. In on_prepare.
#pragma once

#include "http/api/generation.h"

enum { TOOLS_MAX = 128, TOOL_NAME_MAX = 64 };

// Sets g->tools and what the answer is read by. Rows of the table of chat.c check only the types.
void tools_read(struct generation *g);
