// The prompts of an embedder: texts that sentence-transformers puts in front of inputs, by name
// (config_sentence_transformers.json). Read by the
// loading thread, then unchanged. Counting their tokens: any thread.
#pragma once

#include "runtime/text/tokenizer.h"

struct sentence_prompt {
    struct text name, text;
};

struct sentence_prompts {
    const struct sentence_prompt *at; // [count], in the arena
    uint32_t count;
    const struct sentence_prompt
        *default_prompt; // of inputs that name none; NULL: nothing is put there
};

// A folder without the file has no prompts. default_name: the name to use in place of the folder's
// own;
// "": none; NULL: the folder's.
enum status sentence_prompts_read(struct sentence_prompts *out, const char *folder,
                                  const char *default_name, struct arena *arena,
                                  struct error *err) MUST_USE;
const struct sentence_prompt *sentence_prompts_find(const struct sentence_prompts *prompts,
                                                    struct text name);
// Tokens of a text: [before] special ones, [own] of the text itself, then further special ones.
struct text_parts {
    uint32_t before, own;
};
// tokens: [count] of args->text as encoded with args->flags. Where nothing was added, and where
// that is not to be told, all are the text's own. Uses args->arena.
struct text_parts text_parts_of(const struct tokenizer *tokenizer, const struct encode_args *args,
                                const int32_t *tokens, uint32_t count);
// How many tokens a prompt puts in front of a text, special ones before it included, as
// sentence-transformers counts them: of the prompt alone, whatever they become before a text. args:
// of the prompt, with the flags of the texts.
enum status sentence_prompt_tokens(uint32_t *out, const struct tokenizer *tokenizer,
                                   const struct encode_args *args, struct error *err) MUST_USE;

// The names, for messages: "'query', 'document'"; "none" where there are none.
struct text sentence_prompts_names(const struct sentence_prompts *prompts, struct arena *arena);
