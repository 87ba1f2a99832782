// SPDX-License-Identifier: Apache-2.0
// The prompts of an embedder: named texts that sentence-transformers puts before inputs
// (config_sentence_transformers.json). The loading thread reads them; afterwards they are constant.
// Any thread may count their tokens.
#pragma once

#include "runtime/text/tokenizer.h"

struct sentence_prompt {
    struct text name, text;
};

struct sentence_prompts {
    const struct sentence_prompt *items; // [count], in the arena
    uint32_t count;
    const struct sentence_prompt *default_prompt; // for inputs that name none; NULL: no prompt
};

// Reads the prompts of a model folder; without the file there are none. default_name: name of the
// default prompt; "": no default; NULL: the folder's own default. STATUS_INVALID: the file is
// malformed, or there is no prompt of that name.
enum status sentence_prompts_read(struct sentence_prompts *out, const char *folder,
                                  const char *default_name, struct arena *arena,
                                  struct error *err) MUST_USE;
// Returns the prompt of this name, or NULL.
const struct sentence_prompt *sentence_prompts_find(const struct sentence_prompts *prompts,
                                                    struct text name);
// The composition of an encoded text: `before` special tokens, then `own` tokens of the text, then
// the remaining special tokens.
struct text_parts {
    uint32_t before, own;
};
// Returns the composition of `tokens`: [count], args->text as encoded with args->flags. If no
// special tokens were added, or if that cannot be determined, all tokens count as the text's own.
// Uses args->arena.
struct text_parts text_parts_of(const struct tokenizer *tokenizer, const struct encode_args *args,
                                const int32_t *tokens, uint32_t count);
// Counts the tokens of a prompt, including the special tokens before it, as sentence-transformers
// does: of the prompt encoded alone, although a following text may change its tokens. args: the
// prompt, with the flags used for texts.
enum status sentence_prompt_tokens(uint32_t *out, const struct tokenizer *tokenizer,
                                   const struct encode_args *args, struct error *err) MUST_USE;

// Returns the names for messages: "'query', 'document'", or "none". The text is in the arena.
struct text sentence_prompts_names(const struct sentence_prompts *prompts, struct arena *arena);
