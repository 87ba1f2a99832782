// SPDX-License-Identifier: Apache-2.0
// A tokenizer file and text for it. Input: flags (one byte), the file, a NUL, the text. The tokens
// of the text are decoded again, in one call and streamed.
#include "tests/runtime/tokenizer_memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { TOKENS_MAX = 1 << 16 };

static void back(const struct tokenizer *t, const int32_t *tokens, uint32_t count,
                 struct arena *arena)
{
    struct error err;
    struct text text;
    struct decode_args args = {tokens, count, (count & 1) != 0, arena};
    (void)!tokenizer_decode(t, &args, &text, &err);
    uint32_t bound = detok_bound(t);
    char *out = heap_alloc(bound);
    struct detok d;
    detok_init(&d, t, args.skip_special);
    for (uint32_t i = 0; i < count; i++)
        (void)detok_push(&d, tokens[i], out, bound);
    (void)detok_finish(&d, out, bound);
    heap_free(out);
}

static void encode(const struct tokenizer *t, unsigned flags, struct text text)
{
    struct arena *arena = arena_create(0, 64 << 20);
    int32_t *tokens = heap_alloc(TOKENS_MAX * sizeof *tokens);
    uint32_t count = 0;
    struct error err;
    struct text second = text_span(text.at, text.bytes / 2);
    struct text_segment segments[] = {
        {second, (flags & 4) != 0},
        {text_span(text.at + second.bytes, text.bytes - second.bytes), (flags & 8) != 0}};
    struct encode_args args = {.text = text,
                               .pair = (flags & 16) != 0 ? &second : NULL,
                               .flags = flags & 3,
                               .arena = arena,
                               .segments = segments,
                               .segment_count = 2};
    enum status status = (flags & 32) != 0
                             ? tokenizer_encode_segments(t, &args, tokens, TOKENS_MAX, &count, &err)
                             : tokenizer_encode(t, &args, tokens, TOKENS_MAX, &count, &err);
    if (status == STATUS_OK) {
        size_t all = text.bytes + (args.pair ? second.bytes : 0);
        check(count <= tokenizer_bound(t, all * 3), "%u tokens of %zu bytes, bound %u", count, all,
              tokenizer_bound(t, all * 3));
        back(t, tokens, count, arena);
    }
    heap_free(tokens);
    arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2)
        return 0;
    const char *file = (const char *)data + 1;
    size_t file_bytes = strnlen(file, bytes - 1);
    struct text text = text_span(file + file_bytes, 0);
    if (file_bytes < bytes - 1)
        text = text_span(file + file_bytes + 1, bytes - 2 - file_bytes);
    struct tokenizer *t;
    struct error err;
    struct text json = text_span(file, file_bytes);
    if (tokenizer_open_memory(&t, json, (data[0] & 64) != 0 ? json : text_span(NULL, 0), &err) !=
        STATUS_OK)
        return 0;
    encode(t, data[0], text);
    tokenizer_close(t);
    return 0;
}
