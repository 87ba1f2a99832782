// GGUF files for tests, made in memory: key by key and tensor by tensor, or from a golden model
// (golden.h). The writer shares nothing with the reader. For tests; one thread; every failure ends
// the test.
#pragma once

#include "tests/runtime/golden.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf_bytes {
    char *at;
    size_t bytes;
};

struct gguf_build {
    struct gguf_bytes keys, infos, data;
    uint64_t key_count, tensor_count;
};

void gguf_put(struct gguf_bytes *to, const void *from, size_t bytes);
void gguf_put_number(struct gguf_bytes *to, uint64_t value, size_t bytes);
void gguf_put_text(struct gguf_bytes *to, const char *text);

void gguf_key(struct gguf_build *b, const char *key, uint32_t kind); // its value follows in b->keys
void gguf_key_count(struct gguf_build *b, const char *key, uint32_t value);
void gguf_key_number(struct gguf_build *b, const char *key, float value);
void gguf_key_flag(struct gguf_build *b, const char *key, bool value);
void gguf_key_text(struct gguf_build *b, const char *key, const char *text);
void gguf_key_texts(struct gguf_build *b, const char *key, const char *const *texts,
                    uint64_t count);
void gguf_key_array(struct gguf_build *b, const char *key, uint32_t kind, const void *items,
                    uint64_t count, size_t each);

// shape: as the file has it, rows' length first. type: its number in the format.
void gguf_tensor_add(struct gguf_build *b, const char *name, const uint64_t *shape, uint32_t dims,
                     uint32_t type, const void *data, size_t bytes);

// The whole file; the caller gives it back. Empties b.
struct gguf_bytes gguf_finish(struct gguf_build *b);

// The keys of a golden model of llama, qwen2, qwen3 or bert, its tensors in float32 with the rows
// of llama's q and k as converters order them, and a vocabulary of bytes.
void gguf_of_golden(struct gguf_build *b, const json_t *golden);
