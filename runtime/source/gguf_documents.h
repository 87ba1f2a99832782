// What the keys of a GGUF file mean, written as the files of a Hugging Face folder. Only files of
// this folder and their tests include this. Loading thread only.
#pragma once

#include "base/json.h"
#include "runtime/source/gguf.h"

enum { GGUF_TOKENS_MAX = 1 << 22 };

// Where documents are written to and how long they may become.
struct gguf_paper {
    struct json_buffer *out;
    size_t bytes_max;      // TOO_LARGE soon after so many
    struct arena *scratch; // as long as the call
};

// The file of this name; NOT_FOUND where the keys say nothing of it.
enum status gguf_document(const struct gguf_paper *paper, const struct gguf *file, const char *name,
                          struct error *err) MUST_USE;
// Asked between the items of a list.
enum status gguf_within(const struct gguf_paper *paper, const struct gguf *file,
                        struct error *err) MUST_USE;

// The documents about the tokenizer (gguf_tokenizer.c).
enum status gguf_tokenizer_json(const struct gguf_paper *paper, const struct gguf *file,
                                struct error *err) MUST_USE;
enum status gguf_tokenizer_config_json(const struct gguf_paper *paper, const struct gguf *file,
                                       struct error *err) MUST_USE;

// Writes "normalizer" and "pre_tokenizer" of the name that the key tokenizer.ggml.pre has, each
// with a comma after it; *whole_words: a word that is one token is not merged.
enum status gguf_patterns_put(struct json_buffer *out, struct text name, bool *whole_words,
                              const struct gguf *file, struct error *err) MUST_USE;

// Writes the list of merges that sentencepiece's scores stand for: every way to put a token
// together from two others, the best score first. A hostile vocabulary has as many as the square of
// its tokens: TOO_LARGE for long tokens and for many merges.
struct gguf_scored {
    const struct gguf *file;
    const struct text *tokens;       // [count]
    const struct gguf_value *scores; // [count]
    uint32_t count;
};
enum status gguf_merges_put(const struct gguf_paper *paper, const struct gguf_scored *vocabulary,
                            struct error *err) MUST_USE;
