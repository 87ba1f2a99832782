// SPDX-License-Identifier: Apache-2.0
// A tokenizer driven through a pipe by tools/tokenizer_diff.py; not a test itself.
//
//  Request: u32 operation, u32 bytes, payload. Operations 0..3 encode with these flags and answer
// u32 count (UINT32_MAX: the text is refused) and the ids. 8 and 9 decode ids (9: without special
// tokens), 10 and 11 do so with the stream decoder; they answer u32 bytes and the text. 16..19
// encode a pair (payload: u32 bytes of the first text, both texts) and answer ids, then u32 count
// and the type ids.
#include "runtime/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

static bool take(void *to, size_t bytes)
{
    return bytes == 0 || fread(to, 1, bytes, stdin) == bytes;
}

static void answer(const void *from, uint32_t count, size_t each)
{
    fwrite(&count, 4, 1, stdout);
    fwrite(from, each, count, stdout);
    fflush(stdout);
}

static void encode(const struct tokenizer *t, uint32_t operation, struct text text,
                   struct arena *arena)
{
    struct error err;
    struct text pair = {0};
    uint32_t max = tokenizer_bound(t, text.bytes), count = 0;
    int32_t *tokens = arena_alloc(arena, max * sizeof *tokens);
    uint8_t *types = arena_alloc(arena, max);
    struct encode_args args = {
        .text = text, .flags = operation & 3, .arena = arena, .type_ids = types};
    if (operation >= 16) {
        uint32_t first;
        memcpy(&first, text.at, 4);
        args.text = text_span(text.at + 4, first);
        pair = text_span(text.at + 4 + first, text.bytes - 4 - first);
        args.pair = &pair;
    }
    if (tokenizer_encode(t, &args, tokens, max, &count, &err) != STATUS_OK) {
        answer(tokens, UINT32_MAX, 0);
        return;
    }
    answer(tokens, count, 4);
    if (operation >= 16)
        answer(types, count, 1);
}

static void stream(const struct tokenizer *t, const struct decode_args *args)
{
    uint32_t bound = detok_bound(t), bytes = 0;
    char *out = arena_alloc(args->arena, (size_t)bound * (args->count + 1));
    struct detok d;
    detok_init(&d, t, args->skip_special);
    for (uint32_t i = 0; i < args->count; i++)
        bytes += detok_push(&d, args->tokens[i], out + bytes, bound);
    bytes += detok_finish(&d, out + bytes, bound);
    answer(out, bytes, 1);
}

static void decode(const struct tokenizer *t, uint32_t operation, struct text ids,
                   struct arena *arena)
{
    struct error err;
    struct text text;
    struct decode_args args = {(const int32_t *)(const void *)ids.at, (uint32_t)(ids.bytes / 4),
                               operation & 1, arena};
    if (operation >= 10) {
        stream(t, &args);
        return;
    }
    if (tokenizer_decode(t, &args, &text, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    answer(text.at, (uint32_t)text.bytes, 1);
}

int main(int argc, char **argv)
{
    struct tokenizer *t;
    struct error err;
    if (argc != 2 || tokenizer_open(&t, argv[1], &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: tokenizer_probe FOLDER");
        return 2;
    }
    struct arena *arena = arena_create(1 << 20, 0);
    uint32_t head[2];
    while (take(head, sizeof head)) {
        char *payload = arena_alloc(arena, head[1] + 4ul);
        if (!take(payload, head[1]))
            break;
        if ((head[0] & 15) >= 8)
            decode(t, head[0], text_span(payload, head[1]), arena);
        else
            encode(t, head[0], text_span(payload, head[1]), arena);
        arena_reset(arena);
    }
    arena_destroy(arena);
    tokenizer_close(t);
    return 0;
}
