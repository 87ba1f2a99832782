// What the keys of a GGUF file mean, written as the files of a Hugging Face folder. Only files of
// this folder and their tests include this. Loading thread only.
#pragma once

#include "base/json.h"
#include "runtime/source/gguf.h"

// The file of this name; NOT_FOUND where the keys say nothing of it. scratch: as long as the call.
enum status gguf_document(struct json_buffer *out, const struct gguf *file, const char *name,
                          struct arena *scratch, struct error *err) MUST_USE;

// The documents about the tokenizer (gguf_tokenizer.c).
enum status gguf_tokenizer_json(struct json_buffer *out, const struct gguf *file,
                                struct arena *scratch, struct error *err) MUST_USE;
enum status gguf_tokenizer_config_json(struct json_buffer *out, const struct gguf *file,
                                       struct arena *scratch, struct error *err) MUST_USE;

// Writes "normalizer" and "pre_tokenizer" of the name that the key tokenizer.ggml.pre has, each
// with a comma after it; *whole_words: a word that is one token is not merged.
enum status gguf_patterns_put(struct json_buffer *out, struct text name, bool *whole_words,
                              const struct gguf *file, struct error *err) MUST_USE;

// Writes the list of merges that sentencepiece's scores stand for: every way to put a token
// together from two others, the best score first. tokens, scores: [count].
void gguf_merges_put(struct json_buffer *out, const struct text *tokens,
                     const struct gguf_value *scores, uint32_t count, struct arena *scratch);
