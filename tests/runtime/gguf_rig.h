// SPDX-License-Identifier: Apache-2.0
// Creates GGUF files in memory for tests: key by key and tensor by tensor, or from a golden model
// (golden.h). The writer shares no code with the reader. One thread; every failure ends the test.
#pragma once

#include "tests/runtime/golden.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { // numbers of the format for the types of values
    GGUF_RIG_U32 = 4,
    GGUF_RIG_I32 = 5,
    GGUF_RIG_F32 = 6,
    GGUF_RIG_BOOL = 7,
    GGUF_RIG_STRING = 8,
    GGUF_RIG_ARRAY = 9,
};

struct gguf_bytes {
    char *at;
    size_t bytes;
};

struct gguf_build {
    struct gguf_bytes keys, infos, data;
    uint64_t key_count, tensor_count;
    bool gate_apart; // gguf_of_golden: the gate of Jina's models is a tensor of its own
};

// Appends raw bytes, a little-endian number of this size, or a text after its length.
void gguf_put(struct gguf_bytes *to, const void *from, size_t bytes);
void gguf_put_number(struct gguf_bytes *to, uint64_t value, size_t bytes);
void gguf_put_text(struct gguf_bytes *to, const char *text);

// Appends a key and its value: a u32 (count), an f32 (number), a bool, a text, or an array. kind:
// the type of the value or the item in the format. each: size of an item in bytes. After gguf_key
// the caller appends the value to b->keys.
void gguf_key(struct gguf_build *b, const char *key, uint32_t kind);
void gguf_key_count(struct gguf_build *b, const char *key, uint32_t value);
void gguf_key_number(struct gguf_build *b, const char *key, float value);
void gguf_key_flag(struct gguf_build *b, const char *key, bool value);
void gguf_key_text(struct gguf_build *b, const char *key, const char *text);
void gguf_key_texts(struct gguf_build *b, const char *key, const char *const *texts,
                    uint64_t count);
void gguf_key_array(struct gguf_build *b, const char *key, uint32_t kind, const void *items,
                    uint64_t count, size_t each);

// Appends a tensor. shape: in the order of the file, the length of a row first. type: the number of
// the type in the format. data: copied.
void gguf_tensor_add(struct gguf_build *b, const char *name, const uint64_t *shape, uint32_t dims,
                     uint32_t type, const void *data, size_t bytes);

// Returns the complete file, which the caller frees with heap_free, and empties `b`.
struct gguf_bytes gguf_finish(struct gguf_build *b);

// Adds the keys of a golden model of a family that llama.cpp knows, its tensors, and a vocabulary.
// Tensors are float32, or blocks if the golden file names a format, with the names, values and
// order of rows that llama.cpp's converter writes. The caller adds the factors of llama3.
void gguf_of_golden(struct gguf_build *b, const json_t *golden);
// Adds the tensor rope_freqs as converters write it for llama3 and for a linear factor.
void gguf_add_freqs(struct gguf_build *b, const json_t *config, const json_t *scaling);
