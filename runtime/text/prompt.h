// From a conversation to prompt tokens: chat template and tokenizer in one call, the same for the
// server and the command line. Text of the conversation stays text; only the template's own markers
// become special tokens.
#pragma once

#include "runtime/text/chat.h"
#include "runtime/text/tokenizer.h"

// Sets bos_token, eos_token, unk_token, ... of the tokenizer in `variables` (an object) where the
// object does not bring its own, as published templates expect them.
void prompt_special_variables(json_t *variables, const struct tokenizer *tokenizer);

// Names that are trusted then: texts of special tokens.
extern const char *const prompt_trusted[];
extern const uint32_t prompt_trusted_count;

struct prompt_args {
    const struct tokenizer *tokenizer;
    const struct chat_template *chat;
    bool plain;        // chat is the built-in plain template: the tokenizer's own special tokens
                       // (BOS, ...) are added
    json_t *variables; // object: messages, add_generation_prompt, ...; names of special tokens are
                       // replaced by the tokenizer's
    int64_t now;       // unix seconds, for strftime_now
    struct text until; // not empty: the prompt ends before the last occurrence of this
    uint32_t tokens_max; // encoding stops beyond so many; 0: no bound
    struct arena *arena; // tokens and scratch
    struct slice *slice; // the work is counted in it; NULL: it is not shared
};

// tokens: [*count] i32 in the arena. STATUS_REFUSED: err holds the template's own text.
// STATUS_UNSUPPORTED: the template does not output `until`. STATUS_TOO_LARGE with *count ==
// tokens_max: the prompt has more tokens.
enum status prompt_tokens(const struct prompt_args *args, int32_t **tokens, uint32_t *count,
                          struct error *err) MUST_USE;
