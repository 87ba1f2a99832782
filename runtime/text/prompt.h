// SPDX-License-Identifier: Apache-2.0
// Converts a conversation to prompt tokens: chat template and tokenizer in one call, for the server
// and the command line. Only the template's own markers become special tokens, text of the
// conversation does not. Any thread; all memory is in the caller's arena.
#pragma once

#include "runtime/text/chat.h"
#include "runtime/text/tokenizer.h"

// Sets bos_token, eos_token, unk_token, ... and special tokens that the tokenizer names itself,
// such as image_token, in `variables` (an object), as published templates expect them. Variables
// that exist already are kept.
void prompt_special_variables(json_t *variables, const struct tokenizer *tokenizer);

// Returns the names of the variables that prompt_tokens trusts: the texts of special tokens, also
// of those that the tokenizer (NULL: none) names itself. The list is in the arena; if that is full,
// *count is 0.
const char *const *prompt_trusted(const struct tokenizer *tokenizer, struct arena *arena,
                                  uint32_t *count);

struct prompt_args {
    const struct tokenizer *tokenizer;
    const struct chat_template *chat;
    bool plain; // true if `chat` is the built-in plain template: the tokenizer's special tokens
                // (BOS, ...) are added
    json_t *variables; // object: messages, add_generation_prompt, ...; prompt_tokens overwrites the
                       // names of prompt_trusted
    int64_t now;       // Unix time in seconds, for strftime_now
    struct text until; // if not empty, the prompt ends before the last occurrence of this text
    uint32_t tokens_max; // limit at which encoding stops; 0: none
    struct arena *arena; // for tokens and scratch
    struct slice *slice; // the work is charged to it; NULL: not counted
};

// Renders and encodes a prompt. tokens: [*count] i32 in the arena. STATUS_REFUSED: err contains the
// text that the template raised. STATUS_UNSUPPORTED: the template does not output `until`.
// STATUS_TOO_LARGE with *count == tokens_max: the prompt has more tokens. STATUS_UNWANTED: the
// result is no longer wanted.
enum status prompt_tokens(const struct prompt_args *args, int32_t **tokens, uint32_t *count,
                          struct error *err) MUST_USE;
