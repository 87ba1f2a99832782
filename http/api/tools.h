// SPDX-License-Identifier: Apache-2.0
// Reads `tools`, `tool_choice` and `parallel_tool_calls` of chat completions, and contains what
// Responses (responses_tools.c) and Messages (messages_tools.c) share with it. Runs in on_prepare.
#pragma once

#include "http/api/generation.h"

enum { TOOLS_MAX = 128, TOOL_NAME_MAX = 64 };

// Reads the fields, sets g->tools and the options of the reply parser. The endpoint's table has
// checked only the types of the fields.
void tools_read(struct generation *g);
void messages_tools_read(struct generation *g);  // for Messages
void responses_tools_read(struct generation *g); // for Responses

// Checks a tool's name: 1 to bytes_max letters, digits, '_' and '-', and not yet in the object
// `names`. Adds it there.
void tools_name_read(struct fields *f, const json_t *name, const char *path, size_t bytes_max,
                     json_t *names);
// Returns (new reference) the tool in the form that templates read. function: object with name,
// description and strict. parameters: JSON schema, or NULL.
json_t *tools_entry(const json_t *function, const json_t *parameters);
// Reads the i-th tool: adds its name to names, and appends the tool (tools_entry) to `out`.
typedef void tool_reader(struct generation *g, const json_t *tool, size_t i, json_t *names,
                         json_t *out);
// Reads all tools of the request with `read` and returns them (new reference). Fails the fields if
// there are more than TOOLS_MAX.
json_t *tools_convert(struct generation *g, json_t *names, tool_reader *read);
// Reads tool_choice and parallel_tool_calls, then calls tools_use. flat: see tool_choice_read.
void tools_choose(struct generation *g, const json_t *names, bool flat, const json_t *tools);
// Adds a custom tool to `out`: a function with one string. Its calls are complete when they are
// sent, and contain that string alone. tool: object with description and format. name: the name
// that the model sees.
void tools_custom_add(struct generation *g, const json_t *tool, const json_t *name,
                      const char *path, json_t *out);
// Returns true if only the servers of OpenAI or Anthropic run tools of this type. Agents list such
// tools in every request; they are left out.
bool tools_type_is_hosted(struct text type);
// Fails tool_choice because the request has no tools, or only such tools.
void tools_missing(struct fields *f);
// Logs that such a tool was left out: the first one of the process at level info, later ones at
// level debug.
void tools_hosted_log(struct text type);
// Responses: returns the name by which the model knows a tool of this namespace (at is NULL: none).
struct text responses_flat_name(struct arena *arena, struct text space, struct text name);
// Returns true if tools, calls and results are text for the model's template (generic_calls).
bool tools_are_generic(const struct served_model *model);
// Sets g->tools.converted and the options of the reply parser. Takes over the reference `tools`;
// NULL: no callable tools. Fails the fields if the model's template does not support tools.
void tools_use(struct generation *g, json_t *tools);

// Reads tool_choice (tool_choice.c). names: object with the names of all tools. flat: the form of
// Responses, in which the members of `function` and `allowed_tools` are next to `type`.
void tool_choice_read(struct fields *f, const json_t *names, bool flat, struct tool_choice *out);
// After prompt_make: sets the grammar of the answer if tool_choice or a strict function forces the
// form of calls, or if a form of the text is combined with tools or reasoning.
void tools_constrain(struct generation *g);
// Returns true if a grammar holds the calls of the request's tools to their form: tool_choice or a
// strict function.
bool tools_form_calls(const struct generation *g);
// Returns true if a field constrains the form of the answer's text.
bool tools_form_text(const struct generation *g);
