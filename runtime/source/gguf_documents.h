// SPDX-License-Identifier: Apache-2.0
// Writes the contents of a GGUF file's keys in the form of the files of a Hugging Face folder.
// Included only by files of this folder and their tests. Loading thread only.
#pragma once

#include "base/json.h"
#include "runtime/source/gguf.h"

enum { GGUF_TOKENS_MAX = 1 << 22 };

// The output of a document.
struct gguf_output {
    struct json_buffer *out;
    size_t bytes_max;      // limit of the output; beyond it TOO_LARGE
    struct arena *scratch; // memory for the duration of the call
};

// Returns the value of general.architecture in GGUF files of an architecture, named as in
// config.json, or NULL.
const char *gguf_family(const char *architecture);

// Writes the document `name`, such as "config.json". NOT_FOUND if the keys contain nothing for it.
enum status gguf_document(const struct gguf_output *output, const struct gguf *file,
                          const char *name, struct error *err) MUST_USE;
// Returns TOO_LARGE if the output exceeds its limit. Called between the items of a list.
enum status gguf_size_check(const struct gguf_output *output, const struct gguf *file,
                            struct error *err) MUST_USE;

// The documents about the tokenizer (gguf_tokenizer.c).
enum status gguf_tokenizer_json(const struct gguf_output *output, const struct gguf *file,
                                struct error *err) MUST_USE;
enum status gguf_tokenizer_config_json(const struct gguf_output *output, const struct gguf *file,
                                       struct error *err) MUST_USE;

struct gguf_pattern_facts {
    bool whole_words; // true if a word that is a token is not merged
    bool begins;      // default of tokenizer.ggml.add_bos_token
};
// Writes the members "normalizer" (only if there is one) and "pre_tokenizer", each followed by a
// comma. name: the value of the key tokenizer.ggml.pre. file: for messages. UNSUPPORTED if the
// value is unknown.
enum status gguf_patterns_put(struct json_buffer *out, struct text name,
                              struct gguf_pattern_facts *facts, const struct gguf *file,
                              struct error *err) MUST_USE;
