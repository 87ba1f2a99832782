// The fields `tools`, `tool_choice` and `parallel_tool_calls` of chat completions, and what they
// have in common with those of Responses (responses_tools.c) and Messages (messages_tools.c). In
// on_prepare.
#pragma once

#include "http/api/generation.h"

enum { TOOLS_MAX = 128, TOOL_NAME_MAX = 64 };

// Sets g->tools and what the answer is read by. Rows of the table of chat.c check only the types.
void tools_read(struct generation *g);
void messages_tools_read(struct generation *g);  // of a Messages request
void responses_tools_read(struct generation *g); // of a Responses request

// A tool's name: at most bytes_max letters, digits, '_' and '-'; `names` has those before it.
void tools_name_read(struct fields *f, const json_t *name, const char *path, size_t bytes_max,
                     json_t *names);
// A tool in the form that templates take, in a new reference: the name, description and strictness
// that are members of `function`; parameters: NULL where there are none.
json_t *tools_entry(const json_t *function, const json_t *parameters);
// Reads the i-th tool: puts its name into names, and the tool as tools_entry makes it behind `out`.
typedef void tool_reader(struct generation *g, const json_t *tool, size_t i, json_t *names,
                         json_t *out);
// All tools of the request, read one by one, in a new reference; too many fail it.
json_t *tools_convert(struct generation *g, json_t *names, tool_reader *read);
// The fields `tool_choice` and `parallel_tool_calls`, as tool_choice_read takes them; then
// tools_use.
void tools_choose(struct generation *g, const json_t *names, bool flat, const json_t *tools);
// Gives the request its tools (taken; NULL: none that may be called), as templates and the reader
// of replies take them, and says what its answers are read by.
void tools_use(struct generation *g, json_t *tools);

// tool_choice.c. Reads `tool_choice` of chat completions or, flat, of Responses, where what chat
// completions has in `function` and `allowed_tools` stands beside the type; names: an object with
// the names of all tools.
void tool_choice_read(struct fields *f, const json_t *names, bool flat, struct tool_choice *out);
// Once the prompt is made: gives the answer the grammar of its calls where the choice or a strict
// function asks for one, or a format of the answer stands beside tools.
void tools_constrain(struct generation *g);
// Text of the answer has a form of its own.
bool tools_form_text(const struct generation *g);
