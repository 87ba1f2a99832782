// SPDX-License-Identifier: Apache-2.0
// The parts of a generation that on_prepare fills from the request's fields: prompt, tools,
// thinking and the form of the answer. Members of struct generation, which owns them.
#pragma once

#include "http/api/conversation.h"
#include "http/api/grammars.h"

// The grammar that constrains the answer (decoding.h). source.kind GRAMMAR_KIND_NONE: none.
struct structured {
    struct grammar_source source; // text is in the exchange's arena
    struct hash hash;             // of the source
    const char *path;             // path of the field that requested it, for error messages
    bool optional;                // true if the answer has no grammar where this one cannot be had
    // Result of the lookup or of compiling. The only members that the grammar thread writes.
    enum grammars_found found;
    struct grammar *grammar;
    struct error refusal;
};

// The request's tool_choice.
struct tool_choice {
    bool hidden;     // true for 'none': the template is given no tools
    bool must;       // true if the answer must be calls
    bool one;        // true if it must be exactly one, because the choice names a function
    json_t *allowed; // array of the names of callable tools; NULL: all
};

// The request's tools.
struct generation_tools {
    json_t *converted;         // tools for the template and the reply parser, or NULL
    json_t *streamed;          // Messages: see streamed_tools of struct answer_parts
    json_t *loaded;            // Messages: names of deferred tools to load, or NULL
    json_t *custom;            // see custom_tools of struct answer_parts
    json_t *spaces;            // Responses: see spaces of struct answer_parts
    struct tool_choice choice; // which of the tools may or must be called
};

// Maximum number of reasoning tokens in a choice.
struct thinking_budget {
    bool limited;
    uint32_t tokens;
    const char *path; // path of the field that sets it; static
};

// The request's settings for thinking.
struct generation_thinking {
    struct thinking_budget budget;
    const char *switched_by[2]; // paths of the fields that turn it off [0] and on [1]; NULL: none
};

// The prompt: fields first, then the results of generation_tokenize.
struct generation_prompt {
    const char *field; // name of the field that it is read from
    uint32_t keep;     // keep only the last N tokens; 0: all
    bool opens_answer; // true if the template opens the assistant's turn
    json_t *variables; // template variables of the request; until generation_prepared
    struct conversation conversation; // until generation_prepared
    int32_t *tokens;                  // [token_count] i32, in the scratch arena
    uint32_t token_count;             // number of tokens of all prompts
    bool stopped;           // true if token_count is a lower bound: encoding stopped at the window
    const uint32_t *starts; // [submit.sequence_count + 1] prefix sums; NULL: one prompt
    struct text *echoes;    // completions with `echo`: [submit.sequence_count] texts; else NULL
};
