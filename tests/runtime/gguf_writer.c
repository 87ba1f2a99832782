// SPDX-License-Identifier: Apache-2.0
// Writes the keys and tensors of a GGUF file; see gguf_rig.h.
#include "tests/runtime/gguf_rig.h"

#include "base/arena.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 32 };

void gguf_put(struct gguf_bytes *to, const void *from, size_t bytes)
{
    enum { PIECE = 1 << 20 }; // capacity is a multiple of it: growing by bytes copies too often
    size_t pieces = (to->bytes + bytes) / PIECE + 1;
    if (!to->at || pieces > to->bytes / PIECE + 1)
        to->at = heap_grow(to->at, pieces * PIECE);
    memcpy(to->at + to->bytes, from, bytes);
    to->bytes += bytes;
}

void gguf_put_number(struct gguf_bytes *to, uint64_t value, size_t bytes)
{
    gguf_put(to, &value, bytes);
}

void gguf_put_text(struct gguf_bytes *to, const char *text)
{
    gguf_put_number(to, strlen(text), 8);
    gguf_put(to, text, strlen(text));
}

void gguf_key(struct gguf_build *b, const char *key, uint32_t kind)
{
    gguf_put_text(&b->keys, key);
    gguf_put_number(&b->keys, kind, 4);
    b->key_count++;
}

void gguf_key_count(struct gguf_build *b, const char *key, uint32_t value)
{
    gguf_key(b, key, GGUF_RIG_U32);
    gguf_put_number(&b->keys, value, 4);
}

void gguf_key_number(struct gguf_build *b, const char *key, float value)
{
    gguf_key(b, key, GGUF_RIG_F32);
    gguf_put(&b->keys, &value, 4);
}

void gguf_key_flag(struct gguf_build *b, const char *key, bool value)
{
    gguf_key(b, key, GGUF_RIG_BOOL);
    gguf_put_number(&b->keys, value, 1);
}

void gguf_key_text(struct gguf_build *b, const char *key, const char *text)
{
    gguf_key(b, key, GGUF_RIG_STRING);
    gguf_put_text(&b->keys, text);
}

void gguf_key_texts(struct gguf_build *b, const char *key, const char *const *texts, uint64_t count)
{
    gguf_key(b, key, GGUF_RIG_ARRAY);
    gguf_put_number(&b->keys, GGUF_RIG_STRING, 4);
    gguf_put_number(&b->keys, count, 8);
    for (uint64_t i = 0; i < count; i++)
        gguf_put_text(&b->keys, texts[i]);
}

void gguf_key_array(struct gguf_build *b, const char *key, uint32_t kind, const void *items,
                    uint64_t count, size_t each)
{
    gguf_key(b, key, GGUF_RIG_ARRAY);
    gguf_put_number(&b->keys, kind, 4);
    gguf_put_number(&b->keys, count, 8);
    gguf_put(&b->keys, items, count * each);
}

static void align(struct gguf_bytes *bytes)
{
    while (bytes->bytes % ALIGNMENT != 0)
        gguf_put_number(bytes, 0, 1);
}

void gguf_tensor_add(struct gguf_build *b, const char *name, const uint64_t *shape, uint32_t dims,
                     uint32_t type, const void *data, size_t bytes)
{
    align(&b->data);
    gguf_put_text(&b->infos, name);
    gguf_put_number(&b->infos, dims, 4);
    for (uint32_t i = 0; i < dims; i++)
        gguf_put_number(&b->infos, shape[i], 8);
    gguf_put_number(&b->infos, type, 4);
    gguf_put_number(&b->infos, b->data.bytes, 8);
    gguf_put(&b->data, data, bytes);
    b->tensor_count++;
}

struct gguf_bytes gguf_finish(struct gguf_build *b)
{
    struct gguf_bytes out = {NULL, 0};
    gguf_put(&out, "GGUF\3\0\0\0", 8);
    gguf_put_number(&out, b->tensor_count, 8);
    gguf_put_number(&out, b->key_count, 8);
    if (b->keys.bytes > 0)
        gguf_put(&out, b->keys.at, b->keys.bytes);
    if (b->infos.bytes > 0)
        gguf_put(&out, b->infos.at, b->infos.bytes);
    align(&out);
    if (b->data.bytes > 0)
        gguf_put(&out, b->data.at, b->data.bytes);
    heap_free(b->keys.at);
    heap_free(b->infos.at);
    heap_free(b->data.at);
    *b = (struct gguf_build){.key_count = 0};
    return out;
}
